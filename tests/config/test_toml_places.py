"""A key is found again where it stands, however it is written."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planproof.config.toml_file import TomlFile, read_toml
from planproof.errors import UsageError

TEXT = """\
# select = ["not this"]
select = ["INT", "EVI"]
severity = {AAA001 = "note", "BBB002" = "error"}

[params]
AAA001.floor = "1 GB/s"
AAA001.share = 3
[params.BBB002]
many = [
  "x", # [ignored]
  "y",
]

[ "per-file-ignores" ]
"old/*.yaml" = ["AAA001",
                "BBB002"]
"""


def read(text: str = TEXT, prefix: tuple[str, ...] = ()) -> TomlFile:
    found = read_toml(text.encode(), "planproof.toml", prefix)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("keys", "item", "line", "column"),
    [
        (("select",), None, 2, 1),
        (("select",), "EVI", 2, 18),
        (("severity", "AAA001"), None, 3, 13),
        (("severity", "BBB002"), None, 3, 30),
        (("params", "AAA001", "floor"), None, 6, 1),
        (("params", "AAA001", "share"), None, 7, 1),
        (("params", "BBB002", "many"), None, 9, 1),
        (("params", "BBB002", "many"), "y", 11, 3),
        (("per-file-ignores", "old/*.yaml"), "BBB002", 16, 17),
        (("per-file-ignores", "gone"), None, 14, 3),
    ],
)
def test_a_key_and_an_item_have_their_place(keys: tuple[str, ...], item: str | None, line: int, column: int) -> None:
    place = read().place(*keys, item=item)
    assert (place.file, place.line, place.column) == ("planproof.toml", line, column)


def test_a_table_inside_a_shared_file_has_its_place_there() -> None:
    text = '[project]\nselect = "no"\n[tool.planproof]\nignore = []\n[tool.planproof.severity]\nAAA001 = "note"\n'
    file = read(text, ("tool", "planproof"))
    assert file.place("ignore").line == 4
    assert file.place("severity", "AAA001").line == 6
    assert read_toml(b"[project]\n", "pyproject.toml", ("tool", "planproof")) is None


@pytest.mark.parametrize(
    ("raw", "line", "words"),
    [
        (b"a = 1\nb = \n", 2, "not TOML"),
        (b"a = 1\na = 2\n", 2, "not TOML"),
        (b"a = '\xff'\n", 1, "not UTF-8"),
        (b"a = " + b"[" * 3000 + b"]" * 3000, None, "too deep"),
        (b"a = " + b"9" * 5000, None, "not TOML"),
        (b"#" * 300_000, None, "the limit is"),
    ],
)
def test_bytes_that_are_no_toml_are_one_error_with_a_place(raw: bytes, line: int | None, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        read_toml(raw, "planproof.toml")
    assert caught.value.place.file == "planproof.toml"
    assert line is None or caught.value.place.line == line


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_in_one_error(text: str) -> None:
    raw = text.encode("utf-8", "surrogatepass")
    try:
        found = read_toml(raw, "planproof.toml")
    except UsageError:
        return
    assert found is not None
    assert found.table == tomllib.loads(text)
    places = [found.place(key) for key in found.table]
    assert all(place.line is not None and 1 <= place.line <= text.count("\n") + 1 for place in places)


KEYS = st.text("abcXYZ019_-", min_size=1, max_size=6)


@given(st.dictionaries(KEYS, st.dictionaries(KEYS, st.integers(0, 9), max_size=3), max_size=4))
def test_every_plain_key_of_a_table_is_found_in_its_own_line(tables: dict[str, dict[str, int]]) -> None:
    lines: list[str] = []
    expected: dict[tuple[str, str], int] = {}
    for name, values in tables.items():
        lines.append(f"[{name}]")
        for key, value in values.items():
            lines.append(f"{key} = {value}")
            expected[name, key] = len(lines)
    file = read("\n".join(lines) + "\n")
    data: dict[str, Any] = dict(file.table)
    assert data == tables
    assert {keys: file.place(*keys).line for keys in expected} == expected
