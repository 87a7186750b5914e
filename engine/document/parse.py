"""A parsed document: plain data, and the place of every value, key and comment in its text.

The one entry for proposals, data sheets, rule files and configuration alike. Knows nothing of what they mean.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Final, Literal

from ..errors import InputError, Place
from ..frozen import dataclass
from .json_reader import read_json
from .pointers import join_pointer, split_pointer
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
    #: Keys that were given twice, where that was allowed: pointer and place of each later one, which counts.
    twice: tuple[tuple[str, Place], ...] = field(default=(), compare=False)
    #: Values that were taken over from other files: where each stands, and those files' texts by name.
    elsewhere: Mapping[str, Place] = field(default_factory=dict, repr=False, compare=False)
    texts: Mapping[str, Source] = field(default_factory=dict, repr=False, compare=False)

    def place(self, pointer: str) -> Place:
        """Where the value begins; where it is absent, its nearest existing ancestor. The pointer stays as given."""
        return self._elsewhere(pointer) or self._source.place(self._nearest(pointer)[0], pointer)

    def key_place(self, pointer: str) -> Place:
        """Where the key of the value begins (the value itself where it has none); as `place` where it is absent."""
        return self._elsewhere(pointer) or self._source.place(self._nearest(pointer)[1], pointer)

    def source_line(self, n: int, file: str | None = None) -> str:
        """Line `n`, from 1, without its end; empty where there is none. `file`: of one that values were taken over from."""
        source = self._source if file in (None, self.name) else self.texts.get(str(file))
        return source.line(n) if source is not None else ""

    def completed(self, data: object, elsewhere: Mapping[str, Place], texts: Mapping[str, Source]) -> Document:
        """The document with values from other files in it: `data` with them, and where they stand."""
        return replace(self, data=data, elsewhere=elsewhere, texts=texts)

    def _elsewhere(self, pointer: str) -> Place | None:
        """The place of a value that was taken over, or of its nearest ancestor that was; None for the file's own."""
        if not self.elsewhere:
            return None
        tokens = split_pointer(pointer)
        for size in range(len(tokens), 0, -1):
            part = join_pointer(tokens[:size])
            found = self.elsewhere.get(part)
            if found is not None and not self._has(part):
                return replace(found, pointer=pointer)
            if self._has(part):
                return None
        return None

    def _has(self, pointer: str) -> bool:
        node = self._root
        for token in split_pointer(pointer):
            children = node[2]
            if isinstance(children, dict) and token in children:
                node = children[token]
            elif isinstance(children, list) and _INDEX.match(token) and int(token) < len(children):
                node = children[int(token)]
            else:
                return False
        return True

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


def parse_document(
    raw: bytes, name: str, *, syntax: Literal["yaml", "json"] | None = None, last_wins: bool = False
) -> Document:
    """The document in these bytes; `name` is the file in messages. Whatever is wrong with them is an InputError.

    `syntax` is told by name and first character where it is None. `last_wins`: of a key that is given twice the later counts,
    as other readers have it, and the document says so; a merge key lends its keys. Else either is an error.
    """
    source = decode(raw, name)
    digest = hashlib.sha256(raw).hexdigest()
    is_json = syntax == "json"
    if syntax is None:
        is_json = name.lower().endswith(".json") or source.text.lstrip(" \t\r\n").startswith("{")
    try:
        builder, spans = (read_json(source), ()) if is_json else read_yaml(source, last_wins=last_wins)
    except (RecursionError, MemoryError):
        builder = None
    if builder is None or builder.root is None:
        raise InputError(
            "The document is too complex to be read here.",
            code="input.too_deep",
            place=Place(name),
            remedy="Simplify its nesting.",
        )
    kind: Literal["yaml", "json"] = "json" if is_json else "yaml"
    return Document(name, builder.data, source.text, digest, kind, source, builder.root, spans, tuple(builder.twice))


def load_document(path: str | os.PathLike[str]) -> Document:
    """The document in a file, named as given, with '/' between folders. Never blocks or reads beyond the size limit."""
    given = os.fsencode(path).decode("utf-8", "backslashreplace").replace(os.sep, "/")
    return parse_document(read_file(path, given), given)


def bare_document(source: Source) -> Document:
    """A document of a text that is neither YAML nor JSON: no values of its own, but lines to point into."""
    digest = hashlib.sha256(source.text.encode()).hexdigest()
    return Document(source.name, {}, source.text, digest, "yaml", source, (0, 0, {}), ())
