"""What is written is what is read: YAML 1.2 core types without YAML 1.1's traps, JSON, comments, and random data."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from planproof.document import parse_document, yaml_reader

PLAIN = {
    "true": True,
    "False": False,
    "TRUE": True,
    "null": None,
    "~": None,
    "": None,
    "Null": None,
    "0": 0,
    "-0": 0,
    "12": 12,
    "+12": 12,
    "-7": -7,
    "0x1F": 31,
    "0o17": 15,
    "9" * 40: int("9" * 40),
    "1e3": 1000.0,
    "15.6e12": 15.6e12,
    "1.5E-4": 1.5e-4,
    "-.5": -0.5,
    "1.": 1.0,
    "0.0e5": 0.0,
    "yes": "yes",
    "no": "no",
    "on": "on",
    "Off": "Off",
    "y": "y",
    "012": "012",
    "-012": "-012",
    "00.5": "00.5",
    "1_000": "1_000",
    "12:30": "12:30",
    "1:1": "1:1",
    "0b11": "0b11",
    "0X1F": "0X1F",
    "-0x1F": "-0x1F",
    "2026-11-02": "2026-11-02",
    "2001-12-14t21:59:43.10-05:00": "2001-12-14t21:59:43.10-05:00",
    "450 GB/s": "450 GB/s",
    "inf": "inf",
    "nan": "nan",
    "1e": "1e",
    ".": ".",
    "+": "+",
    "=": "=",
    "tRUE": "tRUE",
    "١": "١",
    "'12'": "12",
    '"true"': "true",
    '"\\u00e9\\n"': "é\n",
}


@pytest.fixture(params=["libyaml", "pure Python"])
def either_parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "pure Python":
        monkeypatch.setattr(yaml_reader, "_PARSER", yaml.SafeLoader)
    return str(request.param)


@pytest.mark.parametrize("written", PLAIN)
def test_a_plain_scalar_means_what_yaml_12_says(written: str) -> None:
    found = parse_document(f"a: {written}\n".encode(), "p.yaml").data
    assert found == {"a": PLAIN[written]}
    assert isinstance(found, dict)
    assert type(found["a"]) is type(PLAIN[written])


def test_libyaml_is_used_where_it_is_there() -> None:
    assert yaml_reader._PARSER is (yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader)


def test_words_that_were_booleans_are_keys(either_parser: str) -> None:
    document = parse_document(b"no: 1\non: 2\n2026-11-02: 3\n'<<': 4\n'1': 5\n=: 6\n", "p.yaml")
    assert document.data == {"no": 1, "on": 2, "2026-11-02": 3, "<<": 4, "1": 5, "=": 6}


def test_an_alias_repeats_the_value_in_a_copy_of_its_own(either_parser: str) -> None:
    document = parse_document(b"a: &x {b: [1]}\nc: *x\nd: [&y 0x10, *y]\n", "p.yaml")
    data: Any = document.data
    assert data == {"a": {"b": [1]}, "c": {"b": [1]}, "d": [16, 16]}
    assert data["a"]["b"] is not data["c"]["b"]
    assert (document.place("/c").line, document.place("/c").column) == (2, 4)
    assert (document.place("/c/b/0").line, document.place("/c/b/0").column) == (1, 12)


def test_a_byte_order_mark_and_foreign_line_ends_are_no_part_of_the_text(either_parser: str) -> None:
    document = parse_document(b"\xef\xbb\xbfa: 1\r\nb: 2\rc: 3\n", "p.yaml")
    assert document.data == {"a": 1, "b": 2, "c": 3}
    assert (document.place("/a").column, document.place("/c").line) == (4, 3)
    assert [document.source_line(n) for n in range(6)] == ["", "a: 1", "b: 2", "c: 3", "", ""]


def test_the_digest_is_of_the_bytes() -> None:
    raw = b"\xef\xbb\xbfa: 1\n"
    assert parse_document(raw, "p.yaml").sha256 == hashlib.sha256(raw).hexdigest()


def test_what_begins_with_a_brace_or_is_named_json_is_json() -> None:
    assert parse_document(b' \n{"a": 1}', "p.yaml").kind == "json"
    assert parse_document(b'{"a":\t1}', "P.JSON").kind == "json"
    assert parse_document(b'a: {"b": 1}', "p.yaml").kind == "yaml"


def test_json_escapes_and_unicode_are_read() -> None:
    raw = '{"a": "\\ud83d\\ude00\\u00e9\\/\\"\\\\\\n", "é/~": "\u2028"}'.encode()
    assert parse_document(raw, "p.json").data == {"a": '😀é/"\\\n', "é/~": "\u2028"}


def test_comments_are_found_outside_texts_only(either_parser: str) -> None:
    text = """\
# first
a: 'x # no' # second
b: "y
  # no
  z"  # third
c: x#no
d: |  # fourth
  # no
  text # no
# fifth
e: >-
  folded
   # no

  # no
f: {g: 1, # sixth
  h: 'it''s # no'}   #seventh\t
'# no': [ '#', "\\"# no" ] # eighth
i: plain # ninth
  # tenth
"""
    document = parse_document(text.encode(), "p.yaml")
    assert document.comments == (
        (1, "# first"),
        (2, "# second"),
        (5, "# third"),
        (7, "# fourth"),
        (10, "# fifth"),
        (16, "# sixth"),
        (17, "#seventh"),
        (18, "# eighth"),
        (19, "# ninth"),
        (20, "# tenth"),
    )


def test_json_has_no_comments() -> None:
    assert parse_document(b'{"a": "x # y"}', "p.json").comments == ()


letters = st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\ufeff\ufffe\uffff\u2028\u2029")
texts = st.one_of(
    st.text(letters | st.sampled_from("\n\t\r"), max_size=12),
    st.text("ab #:'\"\\-[]{},&*!|>%@~01.ex\n", max_size=8),
    st.sampled_from(list(PLAIN)),
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**39), 10**39),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=20
)
mappings = st.dictionaries(texts, values, max_size=5)


class QuotingDumper(yaml.SafeDumper):
    """Quotes every text, because the library leaves plain what YAML 1.1 alone takes for a text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def quote(dumper: QuotingDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'" if text.isprintable() else '"')


QuotingDumper.add_representer(str, quote)


@pytest.mark.parametrize("parser", ["CSafeLoader", "SafeLoader"])
@pytest.mark.parametrize("flow", [False, None, True])
def test_what_a_foreign_writer_dumped_is_read_back(
    flow: bool | None, parser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yaml_reader, "_PARSER", getattr(yaml, parser))

    @settings(max_examples=40)
    @given(mappings, st.integers(20, 200))
    def run(data: dict[str, Any], width: int) -> None:
        text = yaml.dump(data, Dumper=QuotingDumper, default_flow_style=flow, width=width, allow_unicode=True)
        # An opening '---' keeps a flow mapping from being read as JSON.
        assert parse_document(b"---\n" + text.encode(), "p.yaml").data == data

    run()


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_read_exactly_in_both_syntaxes(value: float) -> None:
    for raw, name in ((f"a: {value!r}", "p.yaml"), (f'{{"a": {value!r}}}', "p.json")):
        data: Any = parse_document(raw.encode(), name).data
        assert data["a"] == value
        assert math.copysign(1, data["a"]) == math.copysign(1, value)
