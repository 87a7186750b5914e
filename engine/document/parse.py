"""A parsed document: plain data, and the place of every value, key and comment in its text.

The one entry for proposals, data sheets, rule files and configuration alike. Knows nothing of what they mean.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import field
from typing import Final, Literal

from ..errors import InputError, Place
from ..frozen import dataclass
from .json_reader import read_json
from .pointers import split_pointer
from .source import Source, decode, read_file
from .tree import Node
from .yaml_reader import Span, read_yaml

# A '#' begins a comment at the start of a line or after white space.
_COMMENT: Final = re.compile(r"(?:^|(?<=[ \t\r\n]))#[^\r\n]*")
_INDEX: Final = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML or JSON file. `data` is dict, list, str, int, float, bool and None only; nobody changes it."""

    name: str
    data: object
    text: str
    sha256: str
    kind: Literal["yaml", "json"]
    _source: Source = field(repr=False, compare=False)
    _root: Node = field(repr=False, compare=False)
    _spans: tuple[Span, ...] = field(repr=False, compare=False)

    def place(self, pointer: str) -> Place:
        """Where the value begins; where it is absent, its nearest existing ancestor. The pointer stays as given."""
        return self._source.place(self._nearest(pointer)[0], pointer)

    def key_place(self, pointer: str) -> Place:
        """Where the key of the value begins (the value itself where it has none); as `place` where it is absent."""
        return self._source.place(self._nearest(pointer)[1], pointer)

    def source_line(self, n: int) -> str:
        """Line `n`, from 1, without its end; empty where there is none."""
        return self._source.line(n)

    @property
    def comments(self) -> tuple[tuple[int, str], ...]:
        """The comments of a YAML file: line, and text from its '#' on. Found anew at each call."""
        if self.kind == "json" or "#" not in self.text:
            return ()
        found: list[tuple[int, str]] = []
        spans = iter(self._spans)
        span = next(spans, None)
        position = 0
        while match := _COMMENT.search(self.text, position):
            while span is not None and span[1] <= match.start():
                span = next(spans, None)
            if span is not None and span[0] <= match.start():
                position = span[1]
                continue
            found.append((self._source.place(match.start()).line or 1, match[0].rstrip()))
            position = match.end()
        return tuple(found)

    def _nearest(self, pointer: str) -> Node:
        node = self._root
        for token in split_pointer(pointer):
            children = node[2]
            if isinstance(children, dict) and token in children:
                node = children[token]
            elif isinstance(children, list) and _INDEX.match(token) and int(token) < len(children):
                node = children[int(token)]
            else:
                break
        return node


def parse_document(raw: bytes, name: str) -> Document:
    """The document in these bytes; `name` is the file in messages. Whatever is wrong with them is an InputError."""
    source = decode(raw, name)
    digest = hashlib.sha256(raw).hexdigest()
    is_json = name.lower().endswith(".json") or source.text.lstrip(" \t\r\n").startswith("{")
    try:
        builder, spans = (read_json(source), ()) if is_json else read_yaml(source)
    except (RecursionError, MemoryError):
        builder = None
    if builder is None or builder.root is None:
        raise InputError(
            "The document is too complex to be read here.",
            code="input.too_deep",
            place=Place(name),
            remedy="Simplify its nesting.",
        )
    return Document(name, builder.data, source.text, digest, "json" if is_json else "yaml", source, builder.root, spans)


def load_document(path: str | os.PathLike[str]) -> Document:
    """The document in a file, named as given, with '/' between folders. Never blocks or reads beyond the size limit."""
    given = os.fsencode(path).decode("utf-8", "backslashreplace").replace(os.sep, "/")
    return parse_document(read_file(path, given), given)
