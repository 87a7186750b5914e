"""JSON text to a tree, as strictly as RFC 8259: no comments, trailing commas, single quotes, NaN or leading zeros.

One pass gives both data and positions, so that the two cannot disagree; recursion is bounded by the depth limit.
"""

from __future__ import annotations

import json
import re
from typing import Final

from ..errors import InputError
from .scalars import NumberError, integer, real
from .source import Source, quoted
from .tree import TreeBuilder

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = re.compile(r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"')
_BROKEN_STRING: Final = re.compile(r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?(?![-+.0-9A-Za-z_])")
_WORD: Final = re.compile(r"[-+.\w]+")


def read_json(source: Source) -> TreeBuilder:
    """The tree of a JSON text."""
    reader = _Reader(source)
    end = reader.value(reader.skip(0))
    if end < len(source.text):
        raise reader.error(f"Text stands after the end of the document: {reader.found(end)}", end, "Remove it.")
    return reader.builder


class _Reader:
    """Each method takes an offset and returns the offset of the next token."""

    __slots__ = ("builder", "source", "text")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.builder = TreeBuilder(source)

    def skip(self, offset: int) -> int:
        match = _SPACE.match(self.text, offset)
        return match.end() if match else offset

    def value(self, offset: int) -> int:
        first = self.text[offset : offset + 1]
        if first == "{":
            return self.object(offset)
        if first == "[":
            return self.array(offset)
        if first == '"':
            text, end = self.string(offset)
            self.builder.text(text, offset)
            self.builder.scalar(text, offset)
            return self.skip(end)
        for word, constant in (("true", True), ("false", False), ("null", None)):
            if self.text.startswith(word, offset) and self.word(offset) == word:
                self.builder.scalar(constant, offset)
                return self.skip(offset + len(word))
        match = _NUMBER.match(self.text, offset)
        if match is None:
            raise self.no_value(offset)
        try:
            value: int | float = integer(match[0]) if match[1] is None and match[2] is None else real(match[0])
        except NumberError as error:
            raise self.error(str(error), offset, "Write a finite number of ordinary size.", "input.number") from None
        self.builder.text(match[0], offset)
        self.builder.scalar(value, offset)
        return self.skip(match.end())

    def object(self, start: int) -> int:
        self.builder.open({}, start)
        offset = self.skip(start + 1)
        if self.text[offset : offset + 1] != "}":
            while True:
                if self.text[offset : offset + 1] != '"':
                    raise self.no_key(offset, start)
                key, end = self.string(offset)
                self.builder.key(key, offset)
                end = self.skip(end)
                if self.text[end : end + 1] != ":":
                    message = f"A ':' must follow the key {quoted(key)}, not {self.found(end)}"
                    raise self.error(message, end, 'Write "key": value.')
                offset = self.value(self.skip(end + 1))
                if self.text[offset : offset + 1] != ",":
                    break
                offset = self.skip(offset + 1)
        return self.end("}", "object", offset, start)

    def array(self, start: int) -> int:
        self.builder.open([], start)
        offset = self.skip(start + 1)
        if self.text[offset : offset + 1] != "]":
            while True:
                offset = self.value(offset)
                if self.text[offset : offset + 1] != ",":
                    break
                offset = self.skip(offset + 1)
        return self.end("]", "array", offset, start)

    def end(self, bracket: str, kind: str, offset: int, start: int) -> int:
        if self.text[offset : offset + 1] != bracket:
            line = self.source.place(start).line
            message = (
                f"A ',' or the '{bracket}' of the {kind} begun at line {line} must stand here, not {self.found(offset)}"
            )
            raise self.error(
                message, offset, "JSON knows no comments; separate values with ',' and close every bracket."
            )
        self.builder.close()
        return self.skip(offset + 1)

    def string(self, offset: int) -> tuple[str, int]:
        match = _STRING.match(self.text, offset)
        if match is None:
            broken = _BROKEN_STRING.match(self.text, offset)
            end = broken.end() if broken else offset
            if self.text[end : end + 1] == "\\":
                message = f"The escape {quoted(self.text[end : end + 2])} is not one of JSON's"
                raise self.error(message, end, r"Allowed: \" \\ \/ \b \f \n \r \t and \u with four hex digits.")
            message = "A text is not closed on its line"
            raise self.error(message, offset, r"Close it with a double quote; write a line end as \n and a tab as \t.")
        token = match[0]
        return (json.loads(token) if "\\" in token else token[1:-1]), match.end()

    # -- refusals

    def no_value(self, offset: int) -> InputError:
        word = self.word(offset)
        if word.lstrip("+-").lower() in ("nan", "infinity", "inf"):
            return self.error(
                f"{quoted(word)} is not a finite number",
                offset,
                "Write a finite number, or leave the key out.",
                "input.number",
            )
        if self.text[offset : offset + 1] in ("]", "}") and self.text[:offset].rstrip(" \t\r\n").endswith(","):
            comma = len(self.text[:offset].rstrip(" \t\r\n")) - 1
            return self.error("A trailing comma stands here", comma, "Remove it.")
        if word[:1] and word[0] in "+-.0123456789":
            return self.error(
                f"{quoted(word)} is not a JSON number", offset, "No leading '+', zero or '.'; put units in quotes."
            )
        return self.error(f"A value must stand here, not {self.found(offset)}", offset, self.advice(offset))

    def no_key(self, offset: int, start: int) -> InputError:
        before = self.text[:offset].rstrip(" \t\r\n")
        if self.text[offset : offset + 1] == "}" and before.endswith(","):
            return self.error("A trailing comma stands here", len(before) - 1, "Remove it.")
        line = self.source.place(start).line
        message = f"A key in double quotes must stand here (object begun at line {line}), not {self.found(offset)}"
        return self.error(message, offset, self.advice(offset))

    def advice(self, offset: int) -> str:
        if self.text[offset : offset + 1] in ("/", "#"):
            return "JSON knows no comments: remove it, or write the document in YAML."
        if self.text[offset : offset + 1] == "'":
            return "Use double quotes."
        if word := self.word(offset):
            return f'Put texts in double quotes: "{word[:60]}" (constants are true, false and null).'
        return "A file that begins with '{' or is named .json is read as JSON; YAML begins with 'key:' lines."

    def word(self, offset: int) -> str:
        match = _WORD.match(self.text, offset)
        return match[0] if match else ""

    def found(self, offset: int) -> str:
        if offset >= len(self.text):
            return "the end of the file"
        return quoted(self.word(offset) or self.text[offset])

    def error(self, message: str, offset: int, remedy: str, code: str = "input.syntax") -> InputError:
        message = f"This is not JSON: {message}." if code == "input.syntax" else f"{message}."
        return InputError(message, code=code, place=self.builder.place(offset), remedy=remedy)
