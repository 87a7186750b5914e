"""Plain data and the offset of every value and key, built from what a reader reports, within the limits.

A reader (YAML or JSON) reports opens, keys, scalars, aliases and closes in the order of the text; what is common to
both syntaxes is judged here once: depth, number and size of values, duplicate keys, the mapping at the top.
"""

from __future__ import annotations

from typing import TypeAlias

from ..errors import InputError, Place
from ..frozen import dataclass
from .limits import MAX_CHARACTERS, MAX_DEPTH, MAX_NODES, MAX_SCALAR_BYTES
from .pointers import join_pointer
from .source import FORBIDDEN, Source, quoted

Children: TypeAlias = "dict[str, Node] | list[Node] | None"
# Where a value begins, where its key begins (the value's own offset where it has none), and its children. A plain
# tuple: one is made for every value, on the path that every command takes.
Node: TypeAlias = tuple[int, int, Children]


@dataclass(slots=True, eq=False)
class Anchored:
    """A finished value that aliases may repeat, and what it costs to repeat it."""

    data: object
    children: Children
    nodes: int
    characters: int
    height: int


class _Open:
    """A mapping or list that is not closed yet; the counts are those of the document when it began."""

    __slots__ = ("characters", "children", "data", "deepest", "key", "key_offset", "merges", "nodes", "offset")

    def __init__(self, data: dict[str, object] | list[object], offset: int, depth: int, nodes: int, characters: int):
        self.data = data
        self.children: dict[str, Node] | list[Node] = {} if isinstance(data, dict) else []
        self.offset = offset
        self.key: str | None = None
        self.key_offset = offset
        self.deepest = depth
        #: Whether a merge key stands in it.
        self.merges = False
        self.nodes = nodes
        self.characters = characters


class TreeBuilder:
    """Takes the events of a reader; `data` and `root` are the result once the top mapping is closed."""

    __slots__ = ("characters", "data", "last_wins", "nodes", "root", "source", "stack", "twice")

    def __init__(self, source: Source, *, last_wins: bool = False) -> None:
        self.source = source
        self.last_wins = last_wins
        self.twice: list[tuple[str, Place]] = []
        self.stack: list[_Open] = []
        self.nodes = 0
        self.characters = 0
        self.data: object = None
        self.root: Node | None = None

    # -- what a reader asks

    @property
    def wants_key(self) -> bool:
        """Whether the innermost open value is a mapping that waits for a key."""
        return bool(self.stack) and self.stack[-1].key is None and isinstance(self.stack[-1].data, dict)

    def pointer(self) -> str:
        """The pointer of the value that comes next (of the mapping itself, where a key comes next)."""
        tokens: list[str | int] = []
        for frame in self.stack:
            if isinstance(frame.data, list):
                tokens.append(len(frame.data))
            elif frame.key is not None:
                tokens.append(frame.key)
        return join_pointer(tokens)

    def place(self, offset: int) -> Place:
        """The place of a character, with the pointer of what comes next."""
        return self.source.place(offset, self.pointer())

    # -- what a reader reports

    def open(self, data: dict[str, object] | list[object], offset: int) -> None:
        """A mapping or a list begins."""
        depth = len(self.stack) + 1
        if depth == 1 and isinstance(data, list):
            raise self._not_a_mapping("a list", offset)
        self._demand_depth(depth, offset)
        self.nodes += 1
        if self.nodes > MAX_NODES:
            self._demand_room(offset)
        self.stack.append(_Open(data, offset, depth, self.nodes - 1, self.characters))

    def close(self) -> Anchored:
        """The innermost open mapping or list ends."""
        if self.stack[-1].merges:
            self._merge(self.stack[-1])
        frame = self.stack.pop()
        depth = len(self.stack) + 1
        self._attach(frame.data, frame.offset, frame.children)
        if self.stack:
            parent = self.stack[-1]
            parent.deepest = max(parent.deepest, frame.deepest)
        return Anchored(
            frame.data,
            frame.children,
            self.nodes - frame.nodes,
            self.characters - frame.characters,
            frame.deepest - depth + 1,
        )

    def key(self, text: str, offset: int) -> None:
        """The key of the value that comes next."""
        frame = self.stack[-1]
        self.text(text, offset)
        children = frame.children
        if isinstance(children, dict) and text in children and self.last_wins:
            pointer = self.pointer() + join_pointer((text,))
            self.twice.append((pointer, self.source.place(offset, pointer)))
        elif isinstance(children, dict) and text in children:
            first = self.source.place(children[text][1])
            raise InputError(
                f"The key {quoted(text)} stands twice in this mapping: first at line {first.line}, "
                f"column {first.column}.",
                code="input.duplicate_key",
                place=self.source.place(offset, self.pointer() + join_pointer((text,))),
                remedy="Keep one of the two, or merge them.",
            )
        frame.key = text
        frame.key_offset = offset

    def scalar(self, value: object, offset: int) -> None:
        """A value that is no mapping and no list. Its text has been through `text`."""
        if not self.stack:
            raise self._not_a_mapping("a single value", offset)
        self.nodes += 1
        if self.nodes > MAX_NODES:
            self._demand_room(offset)
        self._attach(value, offset, None)

    def text(self, text: str, offset: int) -> None:
        """Judges the text of a key or scalar: its size and what escapes in it have become."""
        size = len(text)
        self.characters += size
        if size < 256 and self.characters <= MAX_CHARACTERS and text.isprintable():
            return
        if (
            len(text) > MAX_SCALAR_BYTES // 4
            and (size := len(text.encode("utf-8", "surrogatepass"))) > MAX_SCALAR_BYTES
        ):
            raise InputError(
                f"A text of {size:,} bytes stands here; the limit is {MAX_SCALAR_BYTES:,}.",
                code="input.too_large",
                place=self.place(offset),
                remedy="Put long material in a file of its own and refer to it.",
            )
        if self.characters > MAX_CHARACTERS:
            self._demand_room(offset)
        if not text.isprintable():
            self._demand_plain(text, offset)

    def alias(self, anchored: Anchored, offset: int, name: str) -> None:
        """An alias repeats a finished value. The copy is the alias's own."""
        if not self.stack:
            raise self._not_a_mapping("an alias", offset)
        self.nodes += anchored.nodes
        self.characters += anchored.characters
        self._demand_room(offset, name)
        depth = len(self.stack) + anchored.height
        self._demand_depth(depth, offset)
        self.stack[-1].deepest = max(self.stack[-1].deepest, depth)
        self._attach(_copied(anchored.data), offset, anchored.children)

    # -- the limits

    def _attach(self, value: object, offset: int, children: Children) -> None:
        if not self.stack:
            self.data, self.root = value, (offset, offset, children)
            return
        frame = self.stack[-1]
        data, siblings, key = frame.data, frame.children, frame.key
        if key is None:
            if isinstance(data, list) and isinstance(siblings, list):
                data.append(value)
                siblings.append((offset, offset, children))
        elif isinstance(data, dict) and isinstance(siblings, dict):
            data[key] = value
            siblings[key] = (offset, frame.key_offset, children)
            frame.key = None

    def merge_key(self, offset: int) -> None:
        """The merge key of YAML 1.1 stands next: what follows lends this mapping the keys that it does not have."""
        self.key("<<", offset)
        self.stack[-1].merges = True

    def _merge(self, frame: _Open) -> None:
        """Put in what a merge key lends: of several mappings the first that has a key, each value with its own place."""
        data, children = frame.data, frame.children
        assert isinstance(data, dict)
        assert isinstance(children, dict)
        lent, node = data.pop("<<"), children.pop("<<")
        several = zip(lent, node[2], strict=True) if isinstance(lent, list) and isinstance(node[2], list) else [(lent, node)]
        for value, (offset, _, inner) in several:
            if not isinstance(value, dict) or not isinstance(inner, dict):
                raise InputError(
                    "The merge key '<<' wants a mapping, or a list of mappings.",
                    code="input.merge_key",
                    place=self.source.place(offset),
                    remedy="Refer to an anchored mapping: '<<: *defaults'.",
                )
            for key, one in value.items():
                if key not in data:
                    data[key], children[key] = one, inner[key]

    def _demand_depth(self, depth: int, offset: int) -> None:
        if depth > MAX_DEPTH:
            raise InputError(
                f"Values are nested {depth} deep here; the limit is {MAX_DEPTH}.",
                code="input.too_deep",
                place=self.source.place(offset),
                remedy="No document of this kind nests so deep; check the indentation and the brackets.",
            )

    def _demand_room(self, offset: int, alias: str | None = None) -> None:
        what = f"With the alias '*{alias}' expanded the document" if alias is not None else "The document"
        for count, limit, unit in (
            (self.nodes, MAX_NODES, "values"),
            (self.characters, MAX_CHARACTERS, "characters"),
        ):
            if count > limit:
                raise InputError(
                    f"{what} holds {count:,} {unit}; the limit is {limit:,}.",
                    code="input.too_many_values",
                    place=self.place(offset),
                    remedy="Write the value out where it is needed, and keep tables in files of their own.",
                )

    def _demand_plain(self, text: str, offset: int) -> None:
        if bad := FORBIDDEN.search(text):
            kind = "half of a surrogate pair" if "\ud800" <= bad[0] <= "\udfff" else "a control character"
            raise InputError(
                f"The text {quoted(text)} holds U+{ord(bad[0]):04X}, {kind}.",
                code="input.control_character",
                place=self.place(offset),
                remedy="Remove the escape: texts are printable characters, tabs and line ends.",
            )

    def _not_a_mapping(self, found: str, offset: int) -> InputError:
        return InputError(
            f"The document is {found}; it must be a mapping of keys to values.",
            code="input.top_level",
            place=self.source.place(offset, ""),
            remedy="Begin with 'key: value' lines (in JSON, with an object).",
        )


def _copied(data: object) -> object:
    if isinstance(data, dict):
        return {key: _copied(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_copied(value) for value in data]
    return data
