"""A hostile or mistaken document ends in an InputError that says what, where and what to do; nothing else escapes."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from planproof.document import Document, parse_document, yaml_reader
from planproof.errors import InputError

BOMB = b"a: &a [x, x, x, x, x, x, x, x, x, x]\n" + b"".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n".encode() for a, b in zip("abcde", "bcdef", strict=True)
)
LONG_TEXT = b"a: &t " + b"x" * 60_000 + b"\nb: [" + b", ".join([b"*t"] * 100) + b"]\n"
DEEP_BLOCK = b"\n".join(b" " * depth + b"a:" for depth in range(900))

# Where code or column is None, libyaml and the pure-Python parser differ in it.
# bytes, code, a word of the message, line, column
YAML_CASES = {
    "empty": (b"", "input.empty", "empty", 1, 1),
    "white space only": (b" \n\n", "input.empty", "empty", 1, 1),
    "comment only": (b"# nothing\n", "input.empty", "empty", 1, 1),
    "empty document": (b"---\n", "input.empty", "empty", 1, 1),
    "list at the top": (b"- a\n", "input.top_level", "a list", 1, 1),
    "text at the top": (b"\n  hello\n", "input.top_level", "single value", 2, 3),
    "not UTF-8": (b"a: 1\nb: \xff\n", "input.encoding", "Byte 8 (0xff)", 2, 4),
    "cut UTF-8": (b"a: \xc3", "input.encoding", "Byte 3 (0xc3)", 1, 4),
    "surrogate in UTF-8": (b"a: \xed\xa0\x80", "input.encoding", "Byte 3", 1, 4),
    "UTF-16": ("a: 1".encode("utf-16"), "input.encoding", "UTF-16", 1, 1),
    "UTF-32": ("a: 1".encode("utf-32"), "input.encoding", "UTF-32", 1, 1),
    "NUL": (b"a: 1\nbc\x00: 2\n", "input.control_character", "U+0000", 2, 3),
    "escape character": (b"a: \x1b[2J\n", "input.control_character", "U+001B", 1, 4),
    "C1": (b"a: \xc2\x85\n", "input.control_character", "U+0085", 1, 4),
    "BOM inside": (b"a: 1\n\xef\xbb\xbfb: 1\n", "input.control_character", "U+FEFF", 2, 1),
    "line separator": ("a: x\u2028y\n".encode(), "input.control_character", "U+2028", 1, 5),
    "escaped NUL": (b'a:\n  - "x\\0y"\n', "input.control_character", "U+0000", 2, 5),
    "escaped key": (b'"\\e": 1\n', "input.control_character", "U+001B", 1, 1),
    "half surrogate": (b'a: "\\ud800"\n', None, "", 1, None),
    "beyond Unicode": (b'a: "\\UFFFFFFFF"\n', "input.syntax", "not YAML", 1, 7),
    "second document": (b"a: 1\n---\nb: 2\n", "input.several_documents", "second document", 2, 1),
    "python tag": (b"a: !!python/object/apply:os.system [ls]\n", "input.tag", "python", 1, 4),
    "own tag": (b"a:\n- !foo 1\n", "input.tag", "!foo", 2, 3),
    "core tag": (b"a: !!str 012\n", "input.tag", "tag:yaml.org,2002:str", 1, 4),
    "bare tag": (b"a: ! 012\n", "input.tag", "'!'", 1, 4),
    "tag at the top": (b"!!map\na: 1\n", "input.tag", "map", 1, 1),
    "tagged key": (b"!!str a: 1\n", "input.tag", "str", 1, 1),
    "undefined tag handle": (b"a: !x!y 1\n", "input.syntax", "tag handle", 1, 4),
    "duplicate key": (b"a: 1\nb:\n  c: 1\n  d: 2\n  'c': 3\n", "input.duplicate_key", "line 3, column 3", 5, 3),
    "duplicate key in flow": (b"a: {b: 1, b: 2}\n", "input.duplicate_key", "line 1, column 5", 1, 11),
    "merge key": (b"a: &a {x: 1}\nb:\n  <<: *a\n", "input.merge_key", "<<", 3, 3),
    "integer key": (b"a:\n  1: x\n", "input.key", "'1'", 2, 3),
    "float key": (b"1.5: x\n", "input.key", "'1.5'", 1, 1),
    "huge number key": (b"1e999: x\n", "input.key", "'1e999'", 1, 1),
    "null key": (b"null: x\n", "input.key", "'null'", 1, 1),
    "boolean key": (b"true: x\n", "input.key", "'true'", 1, 1),
    "empty key": (b"? \n: x\n", "input.key", "empty", 1, None),
    "list key": (b"? [a, b]\n: x\n", "input.key", "a list", 1, 3),
    "mapping key": (b"a: {{b: 1}: x}\n", "input.key", "a mapping", 1, 5),
    "alias key": (b"a: &x k\n*x : 1\n", "input.key", "'*x'", 2, 1),
    "anchored key": (b"&x a: 1\n", "input.key", "'&x'", 1, 1),
    "undefined alias": (b"a: *nobody\n", "input.alias", "'*nobody'", 1, 4),
    "recursive list": (b"a: &x\n  - *x\n", "input.alias", "never end", 2, 5),
    "recursive mapping": (b"a: &x {b: {c: *x}}\n", "input.alias", "never end", 1, 15),
    "repeated anchor": (b"a: &x 1\nb: &x 2\n", "input.alias", "line 1, column 4", 2, 4),
    "YAML bomb": (BOMB, "input.too_many_values", "'*d'", 5, 36),
    "text bomb": (LONG_TEXT, "input.too_many_values", "characters", 2, 277),
    "many brackets": (b"a: " + b"[" * 100_000, "input.too_deep", "nested", 1, None),
    "deep flow": (b"a: " + b"[" * 40 + b"]" * 40, "input.too_deep", "41 deep", 1, 43),
    "deep block": (DEEP_BLOCK, "input.too_deep", "41 deep", 41, 41),
    "deep dashes": (b"a:\n " + b"- " * 100_000, "input.too_deep", "41 deep", 2, 80),
    "deep alias": (
        b"a: &a " + b"[" * 30 + b"]" * 30 + b"\nb: " + b"[" * 15 + b"*a" + b"]" * 15,
        "input.too_deep",
        "46 deep",
        2,
        19,
    ),
    "long scalar": (b"a:\n  b: " + b"x" * 70_000, "input.too_large", "70,000 bytes", 2, 6),
    "long scalar in bytes": (b"a: " + "é".encode() * 40_000, "input.too_large", "80,000 bytes", 1, 4),
    "too many bytes": (
        b"a: " + b"x" * (1 << 20),
        "input.too_large",
        "1,048,579 bytes; the limit is 1,048,576",
        None,
        None,
    ),
    "tab indentation": (b"a:\n\tb: 1\n", "input.tab", "tab", 2, 1),
    "tab after spaces": (b"a:\n  b:\n  \tc: 1\n", "input.tab", "tab", 3, 3),
    "infinity": (b"a:\n  b: .inf\n", "input.number", "'.inf'", 2, 6),
    "minus infinity": (b"a: -.Inf\n", "input.number", "'-.Inf'", 1, 4),
    "NaN": (b"a: [1, .nan]\n", "input.number", "'.nan'", 1, 8),
    "overflow": (b"a: 1e999\n", "input.number", "larger", 1, 4),
    "underflow": (b"a: 1e-999\n", "input.number", "smaller", 1, 4),
    "endless integer": (b"a: " + b"9" * 41, "input.number", "41 digits; the limit is 40", 1, 4),
    "endless hexadecimal": (b"a: 0x" + b"f" * 41, "input.number", "41 digits", 1, 4),
    "endless float": (b"a: 0." + b"1" * 100, "input.number", "102 characters", 1, 4),
    "open quote": (b"a: 'x\nb: 1\n", "input.syntax", "quoted scalar", 3, 1),
    "open bracket": (b"a: [1, 2\n", "input.syntax", "line 1", 2, 1),
    "two colons": (b"a: b: c\n", "input.syntax", "mapping values are not allowed", 1, 5),
    "no colon": (b"a: 1\nb\nc: 2\n", "input.syntax", "':'", 3, None),
    "misaligned": (b"a:\n    b: 1\n  c: 2\n", "input.syntax", "not YAML", 3, 3),
    "at sign": (b"a: @x\n", "input.syntax", "cannot start any token", 1, 4),
    "bad escape": (b'a: "\\q"\n', "input.syntax", "unknown escape", 1, None),
    "YAML 3": (b"%YAML 3.0\n---\na: 1\n", "input.syntax", "incompatible", 1, 1),
}

JSON_CASES = {
    "empty": (b" ", "input.empty", "empty", 1, 1),
    "list at the top": (b"[1]", "input.top_level", "a list", 1, 1),
    "value at the top": (b"\n 1", "input.top_level", "single value", 2, 2),
    "line comment": (b'{"a": 1 // x\n}', "input.syntax", "not '/'", 1, 9),
    "comment for a key": (b'{\n  # x\n "a": 1}', "input.syntax", "not '#'", 2, 3),
    "comment for a value": (b'{"a": /* x */ 1}', "input.syntax", "not '/'", 1, 7),
    "trailing comma in object": (b'{"a": 1,\n}', "input.syntax", "trailing comma", 1, 8),
    "trailing comma in array": (b'{"a": [1 , ]}', "input.syntax", "trailing comma", 1, 10),
    "single quotes": (b"{'a': 1}", "input.syntax", "double quotes", 1, 2),
    "bare key": (b"{a: 1}", "input.syntax", "not 'a'", 1, 2),
    "bare value": (b'{"a": yes}', "input.syntax", "not 'yes'", 1, 7),
    "Python's True": (b'{"a": True}', "input.syntax", "not 'True'", 1, 7),
    "trues": (b'{"a": trues}', "input.syntax", "not 'trues'", 1, 7),
    "NaN": (b'{"a": NaN}', "input.number", "'NaN'", 1, 7),
    "minus infinity": (b'{"a": [-Infinity]}', "input.number", "'-Infinity'", 1, 8),
    "overflow": (b'{"a": 1e999}', "input.number", "larger", 1, 7),
    "endless integer": (b'{"a": ' + b"9" * 41 + b"}", "input.number", "41 digits", 1, 7),
    "leading zero": (b'{"a": 012}', "input.syntax", "'012' is not a JSON number", 1, 7),
    "leading plus": (b'{"a": +1}', "input.syntax", "'+1'", 1, 7),
    "bare fraction": (b'{"a": .5}', "input.syntax", "'.5'", 1, 7),
    "bare point": (b'{"a": 1.}', "input.syntax", "'1.'", 1, 7),
    "unit": (b'{"a": 80GiB}', "input.syntax", "'80GiB'", 1, 7),
    "duplicate key": (b'{"a": 1,\n "\\u0061": 2}', "input.duplicate_key", "line 1, column 2", 2, 2),
    "no colon": (b'{"a" 1}', "input.syntax", "':' must follow", 1, 6),
    "no comma": (b'{"a": 1\n "b": 2}', "input.syntax", "begun at line 1", 2, 2),
    "not closed": (b'{"a": [1,\n2', "input.syntax", "end of the file", 2, 2),
    "text after it": (b'{"a": 1}\n{}', "input.syntax", "after the end", 2, 1),
    "open text": (b'{"a": "x\n"}', "input.syntax", "not closed on its line", 1, 7),
    "raw tab in text": (b'{"a": "x\ty"}', "input.syntax", "not closed on its line", 1, 7),
    "bad escape": (b'{"a": "x\\qy"}', "input.syntax", "escape", 1, 9),
    "half surrogate": (b'{"a": "x\\ud800"}', "input.control_character", "surrogate", 1, 7),
    "escaped NUL": (b'{"a": "\\u0000"}', "input.control_character", "U+0000", 1, 7),
    "deep": (b'{"a":' * 100_000, "input.too_deep", "41 deep", 1, 201),
    "deep arrays": (b'{"a":' + b"[" * 100_000, "input.too_deep", "41 deep", 1, 45),
    "long scalar": (b'{"a": "' + b"x" * 70_000 + b'"}', "input.too_large", "70,000 bytes", 1, 7),
    "many values": (b'{"a": [' + b"1," * 120_000 + b"1]}", "input.too_many_values", "limit is 100,000", 1, None),
}


def refused(raw: bytes, name: str) -> InputError:
    with pytest.raises(InputError) as caught:
        parse_document(raw, name)
    assert caught.value.place.file == name
    assert caught.value.remedy
    return caught.value


@pytest.mark.parametrize("parser", ["libyaml", "pure Python"])
@pytest.mark.parametrize("case", YAML_CASES)
def test_hostile_yaml_is_refused_at_its_place(case: str, parser: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if parser == "pure Python":
        monkeypatch.setattr(yaml_reader, "_PARSER", yaml.SafeLoader)
    raw, code, word, line, column = YAML_CASES[case]
    error = refused(raw, "p.yaml")
    assert word in error.message
    assert error.place.line == line
    assert code in (error.code, None)
    if column is not None:
        assert error.place.column == column


@pytest.mark.parametrize("case", JSON_CASES)
def test_hostile_json_is_refused_at_its_place(case: str) -> None:
    raw, code, word, line, column = JSON_CASES[case]
    error = refused(raw, "p.json")
    assert word in error.message + (error.remedy or "")
    assert (error.code, error.place.line) == (code, line)
    if column is not None:
        assert error.place.column == column


def test_a_text_of_brackets_alone_is_refused_with_and_without_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(b"[" * 100_000, "p.yaml").code == "input.too_deep"
    monkeypatch.setattr(yaml_reader, "_PARSER", yaml.SafeLoader)
    assert refused(b"[" * 100_000, "p.yaml").code == "input.top_level"


def test_a_long_flat_list_is_refused_where_it_passes_the_limit() -> None:
    error = refused(b"a: [" + b"1," * 120_000 + b"]", "p.yaml")
    # The top mapping and the list are values too.
    assert (error.code, error.place.column) == ("input.too_many_values", 5 + 2 * 99_998)


@pytest.mark.parametrize("fault", [RecursionError, MemoryError])
def test_a_reader_that_gives_up_is_an_input_error(fault: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(source: object, **_: object) -> object:
        raise fault

    monkeypatch.setattr("planproof.document.parse.read_yaml", give_up)
    assert refused(b"a: 1", "p.yaml").code == "input.too_deep"


def test_an_error_inside_the_document_carries_its_pointer() -> None:
    assert refused(b"a:\n  - b/c:\n    - 1\n    - .inf\n", "p.yaml").place.pointer == "/a/0/b~1c/1"
    assert refused(b'{"a": [{"b": NaN}]}', "p.json").place.pointer == "/a/0/b"
    assert refused(b"a: {x: 1, x: 2}", "p.yaml").place.pointer == "/a/x"


def test_a_message_shows_nothing_that_a_terminal_would_obey() -> None:
    error = refused(b'a: "\\e]0;owned\\a"\n', "p.yaml")
    assert "\x1b" not in str(error)
    assert "\\x1b" in error.message


def everything(document: Document) -> list[str]:
    pointers = [""]
    stack: list[tuple[str, object]] = [("", document.data)]
    while stack:
        pointer, value = stack.pop()
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for token, child in items:
            below = f"{pointer}/{str(token).replace('~', '~0').replace('/', '~1')}"
            pointers.append(below)
            stack.append((below, child))
    return pointers


def outcome(raw: bytes, name: str) -> Document | InputError:
    try:
        return parse_document(raw, name)
    except InputError as error:
        return error


def loads_or_is_refused(raw: bytes, name: str) -> None:
    found = outcome(raw, name)
    if isinstance(found, InputError):
        assert found.remedy
        assert found.code.startswith("input.")
        assert found.place.line is not None
        assert found.place.column is not None
        assert min(found.place.line, found.place.column) >= 1
        return
    lines = found.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for pointer in everything(found):
        for place in (found.place(pointer), found.key_place(pointer)):
            assert place.line is not None
            assert place.column is not None
            assert 1 <= place.column <= len(lines[place.line - 1]) + 1
    for line, comment in found.comments:
        assert comment.startswith("#")
        assert found.source_line(line).rstrip().endswith(comment)


yamlish = st.text(alphabet="ab:-[]{}#'\"|>&*!%@`,?\n\r\t \\0.1e~<é\u2028", max_size=60)
jsonish = st.lists(
    st.sampled_from(
        [
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            '"a"',
            '"b"',
            '"\\ud83d\\ude00"',
            "1",
            "-0",
            "1e3",
            "01",
            "true",
            "null",
            " ",
            "\n",
            "'",
        ]
    ),
    max_size=25,
).map("".join)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_raise_nothing_but_input_errors(raw: bytes) -> None:
    loads_or_is_refused(raw, "p.yaml")
    loads_or_is_refused(raw, "p.json")


@pytest.mark.parametrize("parser", [yaml_reader._PARSER, yaml.SafeLoader])
def test_arbitrary_texts_raise_nothing_but_input_errors(parser: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_reader, "_PARSER", parser)

    @given(st.one_of(yamlish, yamlish.map("a: ".__add__), yamlish.map("a:\n  - b: ".__add__)))
    def run(text: str) -> None:
        loads_or_is_refused(text.encode(), "p.yaml")

    run()


def strictly(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("duplicate key")
    return dict(pairs)


@given(
    st.one_of(jsonish, jsonish.map(lambda text: '{"a":' + text + "}"), jsonish.map(lambda text: '{"a":[' + text + "]}"))
)
def test_json_is_accepted_exactly_where_the_standard_library_accepts_it(text: str) -> None:
    try:
        expected = json.loads(text, object_pairs_hook=strictly)
        if not isinstance(expected, dict):
            expected = None
    except ValueError:
        expected = None
    try:
        found = parse_document(text.encode(), "p.json").data
    except InputError:
        found = None
    assert found == expected
