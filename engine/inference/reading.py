"""Reading a rule file: the checks on shape that every part of it needs, each failing with the place in the file.

A *pointer* (RFC 6901) says where in the document something stands. Nothing here knows what a rule means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NoReturn, TypeVar

from ..errors import RuleError
from ..facts.fact import INT64, Field, Kind, Scalar, Unit

if TYPE_CHECKING:
    from ..document import Document

E = TypeVar("E", bound=StrEnum)


def near(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the known word nearest to `word`, or nothing."""
    import difflib

    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" (did you mean '{found[0]}'?)" if found else ""


def listed(words: Iterable[str], none: str = "none") -> str:
    """`a, b, c` for a message, shortened where there are many."""
    names = sorted(words)
    shown = ", ".join(names[:60])
    return (shown + (f" and {len(names) - 60} more" if len(names) > 60 else "")) or none


def below(pointer: str, *tokens: str | int) -> str:
    """`pointer` extended by `tokens`, escaped."""
    return pointer + "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens)


def unit_name(unit: Unit | None) -> str:
    """A unit for a message: `seconds / 1000000000`, or `no unit`."""
    if unit is None:
        return "no unit"
    return unit.dimension.value + (f" / {unit.per_base}" if unit.per_base != 1 else "")


def spelled(value: object) -> str:
    """`value` as a message shows it."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else text[:77] + "..."


class Reader:
    """A rule document, the kinds it may name, and how to complain about it."""

    def __init__(self, document: Document, kinds: Mapping[str, Kind]) -> None:
        self.document = document
        self.kinds = kinds

    def fail(self, message: str, pointer: str, remedy: str, *, key: bool = False) -> NoReturn:
        """Raise RuleError at `pointer`, or at its key."""
        place = self.document.key_place(pointer) if key else self.document.place(pointer)
        raise RuleError(message, place=place, remedy=remedy)

    def mapping(self, value: object, pointer: str, what: str) -> dict[str, object]:
        """`value` as a mapping."""
        if not isinstance(value, dict):
            self.fail(f"{what} must be a mapping, not {spelled(value)}", pointer, f"write {what} as `key: value` lines")
        return value

    def sequence(self, value: object, pointer: str, what: str, *, empty: bool = False) -> list[object]:
        """`value` as a list, not empty unless `empty`."""
        if not isinstance(value, list):
            self.fail(f"{what} must be a list, not {spelled(value)}", pointer, f"write {what} as `- item` lines")
        if not value and not empty:
            self.fail(f"{what} is empty", pointer, f"give {what} at least one item, or leave the key out")
        return value

    def text(self, value: object, pointer: str, what: str) -> str:
        """`value` as a text that says something."""
        if not isinstance(value, str) or not value.strip():
            self.fail(f"{what} must be a text, not {spelled(value)}", pointer, f"write {what} as a quoted text")
        return value

    def keys(
        self, value: Mapping[str, object], pointer: str, what: str, required: Sequence[str], allowed: Sequence[str]
    ) -> None:
        """Check that `value` has every required key and no unknown one."""
        known = [*required, *allowed]
        for name in value:
            if name not in known:
                self.fail(
                    f"{what} has no key '{name}'{near(name, known)}",
                    below(pointer, name),
                    f"the keys of {what} are {', '.join(known)}",
                    key=True,
                )
        for name in required:
            if name not in value:
                self.fail(
                    f"{what} lacks the key '{name}'", pointer, f"add `{name}:`; {what} needs {', '.join(required)}"
                )

    def one_of(self, enum: type[E], value: object, pointer: str, what: str) -> E:
        """`value` as a member of `enum`."""
        names = [member.value for member in enum]
        if not isinstance(value, str) or value not in names:
            hint = near(value, names) if isinstance(value, str) else ""
            self.fail(f"{what} is {spelled(value)}{hint}", pointer, f"{what} is one of {', '.join(names)}")
        return enum(value)

    def kind(self, value: object, pointer: str) -> Kind:
        """The kind of fact called `value`."""
        found = self.kinds.get(value) if isinstance(value, str) else None
        if found is None:
            hint = near(value, self.kinds) if isinstance(value, str) else ""
            self.fail(f"no fact kind is called {spelled(value)}{hint}", pointer, f"the kinds are {listed(self.kinds)}")
        return found

    def field(self, kind: Kind, name: str, pointer: str, *, key: bool = False) -> Field:
        """The declaration of `name` in `kind`; `path` and `kind` are texts that every fact has."""
        if name in ("path", "kind"):
            return Field(str, "")
        found = kind.fields.get(name)
        if found is None:
            self.fail(
                f"the fact kind '{kind.name}' has no field '{name}'{near(name, [*kind.fields, 'path'])}",
                pointer,
                f"the fields of '{kind.name}' are {listed([*kind.fields, 'path'])}",
                key=key,
            )
        return found

    def constant(self, value: object, kind: Kind, name: str, pointer: str) -> Scalar:
        """`value` as a constant that field `name` of `kind` can hold."""
        declared = self.field(kind, name, pointer)
        label = f"{kind.name}.{name}"
        if isinstance(value, bool):
            self.fail(f"{label} is compared with {spelled(value)}", pointer, "facts spell it `yes` and `no`")
        if declared.type is int:
            if not isinstance(value, int):
                self.fail(
                    f"{label} holds whole numbers, and is compared with {spelled(value)}",
                    pointer,
                    "write a whole number in the field's own unit, or put the quantity with its source under `params` "
                    "and compare with `params.NAME`",
                )
            if not -INT64 <= value <= INT64:
                self.fail(f"{value} is too large for a fact", pointer, f"facts hold numbers to {INT64}")
            return value
        if not isinstance(value, str):
            self.fail(
                f"{label} holds a text, and is compared with {spelled(value)}", pointer, f'write "{value}" in quotes'
            )
        if declared.one_of and value not in declared.one_of:
            self.fail(
                f"{label} is never {spelled(value)}{near(value, declared.one_of)}",
                pointer,
                f"its values are {', '.join(declared.one_of)}",
            )
        return value
