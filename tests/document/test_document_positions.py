"""The place of every value and key points at its first character, in both syntaxes, with both parsers."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from planproof.document import Document, parse_document, pointer_to, split_pointer, yaml_reader
from planproof.errors import Place
from test_document_values import mappings, texts


class Writer:
    """Writes data as YAML or JSON in a style that `draw` chooses, and notes where each value and key begins."""

    def __init__(self, draw: Any, *, strict_json: bool) -> None:
        self.draw = draw
        self.strict_json = strict_json
        self.text = ""
        self.values: dict[str, tuple[int, int]] = {}
        self.keys: dict[str, tuple[int, int]] = {}
        self.comments: list[tuple[int, str]] = []

    def here(self) -> tuple[int, int]:
        return self.text.count("\n") + 1, len(self.text) - (self.text.rfind("\n") + 1) + 1

    def space(self) -> None:
        self.text += self.draw(st.sampled_from(["", " ", "  ", "\t", "\n"] if self.strict_json else ["", " ", "  "]))

    def scalar(self, value: object) -> None:
        if not self.strict_json and isinstance(value, str) and value.isprintable() and self.draw(st.booleans()):
            self.text += "'" + value.replace("'", "''") + "'"
        else:
            self.text += json.dumps(value, ensure_ascii=False)

    def flow(self, value: Any, pointer: str) -> None:
        self.space()
        self.values[pointer] = self.here()
        if not isinstance(value, dict | list):
            self.scalar(value)
            self.space()
            return
        self.text += "[" if isinstance(value, list) else "{"
        items = enumerate(value) if isinstance(value, list) else value.items()
        for position, (key, child) in enumerate(items):
            if position:
                self.text += ", "
            below = pointer + pointer_to(key)
            self.space()
            if isinstance(value, dict):
                self.keys[below] = self.here()
                self.scalar(key)
                self.space()
                self.text += ": "
            self.flow(child, below)
            if isinstance(value, list):
                self.keys[below] = self.values[below]
        self.space()
        self.text += "]" if isinstance(value, list) else "}"
        self.space()

    def block(self, value: Any, pointer: str, indent: int) -> None:
        """From the start of a line; `value` is a mapping or list that is not empty."""
        items = enumerate(value) if isinstance(value, list) else value.items()
        for position, (key, child) in enumerate(items):
            self.text += " " * indent
            below = pointer + pointer_to(key)
            if position == 0:
                self.values[pointer] = self.here()
            if isinstance(value, dict):
                self.keys[below] = self.here()
                self.scalar(key)
                self.text += ":"
            else:
                self.text += "-"
            if isinstance(child, dict | list) and child and self.draw(st.booleans()):
                self.comment()
                self.text += "\n"
                self.block(child, below, indent + self.draw(st.integers(1, 3)))
            else:
                self.text += " "
                self.flow(child, below)
                self.comment()
                self.text += "\n"
            if isinstance(value, list):
                self.keys[below] = self.values[below]

    def comment(self) -> None:
        if self.draw(st.booleans()):
            words = "# " + self.draw(st.sampled_from(["why", "a: 'b", "x # y", "]"]))
            self.comments.append((self.here()[0], words))
            self.text += " " + words


def agrees(document: Document, writer: Writer, data: object) -> None:
    assert document.data == data
    for pointer, (line, column) in writer.values.items():
        assert document.place(pointer) == Place("p", line, column, pointer)
    for pointer, (line, column) in writer.keys.items():
        assert document.key_place(pointer) == Place("p", line, column, pointer)
    assert document.comments == tuple(writer.comments)


@pytest.mark.parametrize("parser", ["CSafeLoader", "SafeLoader"])
def test_a_place_in_yaml_is_the_first_character(parser: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_reader, "_PARSER", getattr(yaml, parser))

    @settings(max_examples=50)
    @given(mappings.filter(bool), st.data())
    def run(data: dict[str, Any], source: st.DataObject) -> None:
        writer = Writer(source.draw, strict_json=False)
        writer.block(data, "", 0)
        agrees(parse_document(writer.text.encode(), "p"), writer, data)

    run()


@settings(max_examples=50)
@given(mappings, st.data())
def test_a_place_in_json_is_the_first_character(data: dict[str, Any], source: st.DataObject) -> None:
    writer = Writer(source.draw, strict_json=True)
    writer.flow(data, "")
    agrees(parse_document(writer.text.encode(), "p"), writer, data)


def test_an_absent_value_is_placed_at_its_nearest_ancestor() -> None:
    document = parse_document(b"a:\n  b: [10, 20]\n", "p")
    assert document.place("/a/x/y") == Place("p", 2, 3, "/a/x/y")
    assert document.place("/a/b/2") == Place("p", 2, 6, "/a/b/2")
    assert document.place("/a/b/01") == Place("p", 2, 6, "/a/b/01")
    assert document.place("/a/b/-") == Place("p", 2, 6, "/a/b/-")
    assert document.place("/a/b/1/z") == Place("p", 2, 11, "/a/b/1/z")
    assert document.place("/z") == Place("p", 1, 1, "/z")
    assert document.key_place("/a/x") == Place("p", 1, 1, "/a/x")
    assert document.key_place("/a/b") == Place("p", 2, 3, "/a/b")
    assert document.key_place("") == Place("p", 1, 1, "")


def test_a_value_that_is_not_written_is_placed_behind_its_key() -> None:
    assert parse_document(b"a:\nb: 1\n", "p").place("/a") == Place("p", 1, 3, "/a")


@given(st.lists(texts | st.integers(0, 99), max_size=5))
def test_a_pointer_splits_into_the_tokens_it_was_made_of(tokens: list[str | int]) -> None:
    assert split_pointer(pointer_to(*tokens)) == tuple(str(token) for token in tokens)


def test_a_pointer_without_its_slash_is_a_fault_of_the_caller() -> None:
    with pytest.raises(ValueError, match="begins with '/'"):
        split_pointer("a/b")
