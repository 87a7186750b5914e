"""The keys of one launch file, taken one by one, with a note of what became of each.

An *entry* is a key as written, its value and its place; a value can be `Open`: the file leaves it to whoever runs it. Formats
ask for keys by name and type; a wrong type is an error at the value's place. What nobody asks for and no table sets aside is
left over, and told. Knows no framework.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ...document import Document, pointer_to, quoted
from ...errors import InputError, Place
from .parts import Key, Use

_INTEGER: Final = re.compile(r"[-+]?\d{1,18}(?:_\d{1,18})*")
_NUMBER: Final = re.compile(r"[-+]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][-+]?\d{1,4})?")
_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})
_NONE: Final = frozenset({"null", "none", "~", ""})


@dataclass(frozen=True, slots=True)
class Open:
    """A value that the file does not decide, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A key as written, its value (data of YAML's kinds, or Open) and where the value stands."""

    key: str
    value: object
    place: Place


#: Names that decide a degree, a batch, a shape or a dtype: set aside only where a table names them whole.
DECIDES: Final = re.compile(
    r"(parallel\w*(size|degree)|_degree|(^|[._])(tp|pp|cp|dp|ep)(_size)?|batch_size|num_layers|n_layers|hidden_size|d_model|n_heads"
    r"|num_\w*heads|vocab_size|ffn\w*_size|intermediate_size|seq_len(gth)?|num_experts|sharding_strategy|zero_stage)$"
)


class Entries:
    """Entries by their name; `names` turns a key as written into the name that it is asked for by."""

    def __init__(self, entries: Iterable[Entry], *, loose: bool = False) -> None:
        #: Whether values are texts of a command line: `1`, `true` and `1e-5` are read as what they say.
        self.loose = loose
        #: Why more arguments may be given than stand here, where that is so: what is silent is then not the framework's default.
        self.more: str | None = None
        #: Whose default of one node counts where no number of nodes is stated: its words and source.
        self.one_node: str | None = None
        self.all: list[Entry] = list(entries)
        self._by_name: dict[str, Entry] = {}
        for entry in self.all:
            self._by_name[entry.key] = entry
        self._used: dict[str, tuple[Use, str]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.all)

    def peek(self, name: str) -> Entry | None:
        """An entry, without taking it."""
        return self._by_name.get(name)

    def take(self, *names: str) -> Entry | None:
        """The first of the names that is there and not null; all that are there count as read."""
        found: Entry | None = None
        for name in names:
            entry = self._by_name.get(name)
            if entry is None:
                continue
            self._used.setdefault(name, (Use.READ, ""))
            if found is None and not self._empty(entry.value):
                found = entry
        return found

    def aside(self, name: str, why: str) -> Entry | None:
        """Set an entry aside, if it is there."""
        entry = self._by_name.get(name)
        if entry is not None:
            self._used.setdefault(name, (Use.ASIDE, why))
        return entry

    def _empty(self, value: object) -> bool:
        return value is None or (self.loose and isinstance(value, str) and value.lower() in ("null", "none", "~"))

    def integer(self, *names: str, limit: int = 10**12) -> tuple[int | Open, Entry] | None:
        """A whole number. Raises InputError for anything else, with its place."""
        entry = self.take(*names)
        if entry is None:
            return None
        value = entry.value
        if isinstance(value, Open):
            return value, entry
        if isinstance(value, str) and _INTEGER.fullmatch(value.strip()) and (self.loose or "_" in value):
            value = int(value.replace("_", ""))
        if isinstance(value, float) and value.is_integer() and self.loose:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong(entry, "a whole number")
        if abs(value) > limit:
            raise wrong(entry, f"a whole number up to {limit:,}")
        if value < -1 and DECIDES.search(entry.key):
            raise wrong(entry, "a whole number of at least 1 (-1 where the tool works it out)")
        return value, entry

    def number(self, *names: str) -> tuple[float | Open, Entry] | None:
        """A number."""
        entry = self.take(*names)
        if entry is None:
            return None
        value = entry.value
        if isinstance(value, Open):
            return value, entry
        if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise wrong(entry, "a number")
        return float(value), entry

    def flag(self, *names: str) -> tuple[bool | Open, Entry] | None:
        """A truth value; an argument without a value is true."""
        entry = self.take(*names)
        if entry is None:
            return None
        value = entry.value
        if isinstance(value, Open | bool):
            return value, entry
        if isinstance(value, int) and value in (0, 1):
            return bool(value), entry
        if isinstance(value, str) and value.lower() in _TRUE | _FALSE and (self.loose or value.lower() not in ("0", "1")):
            return value.lower() in _TRUE, entry
        raise wrong(entry, "true or false")

    def word(self, *names: str) -> tuple[str | Open, Entry] | None:
        """A text."""
        entry = self.take(*names)
        if entry is None:
            return None
        value = entry.value
        if isinstance(value, Open | str):
            return value, entry
        if isinstance(value, bool | int | float):
            return str(value).lower() if isinstance(value, bool) else str(value), entry
        raise wrong(entry, "a text")

    def set_aside(self, table: Mapping[str, str], patterns: Iterable[tuple[re.Pattern[str], str]] = ()) -> None:
        """Set aside what is left and stands in a table of name -> reason, or fits a pattern."""
        several = list(patterns)
        for name in self._by_name:
            if name in self._used:
                continue
            why = table.get(name)
            if why is None and DECIDES.search(name) is None:
                why = next((text for pattern, text in several if pattern.search(name)), None)
            if why is not None:
                self._used[name] = (Use.ASIDE, why)

    def uses(self, written: Callable[[str], str] = lambda name: name) -> Iterator[Key]:
        """Every key with what became of it."""
        taken = {(one.place.line, one.place.column) for name, one in self._by_name.items() if name in self._used}
        # A section that others take over by an anchor: the places of what they take are its own.
        lending = {
            name.rpartition(".")[0] for name, one in self._by_name.items()
            if name not in self._used and one.place.line is not None and (one.place.line, one.place.column) in taken
        }  # fmt: skip
        for name, entry in self._by_name.items():
            use, why = self._used.get(name, (Use.UNKNOWN, ""))
            if use is Use.UNKNOWN and entry.value == {}:
                use, why = Use.ASIDE, "a section with nothing in it"
            if use is Use.UNKNOWN and name.rpartition(".")[0] in lending:
                use, why = Use.ASIDE, "of a section whose values others take over by its anchor"
            yield Key(written(name), entry.place, use, why)


def wrong(entry: Entry, wanted: str) -> InputError:
    """The error for a value of a wrong type."""
    value = entry.value
    found = f"is {'nothing' if value is None else 'a list' if isinstance(value, list) else quoted(str(value))}"
    if isinstance(value, bool):
        found = f"is {str(value).lower()}, or has no value"
    return InputError(
        f"'{entry.key}' {found}; it must be {wanted}.",
        place=entry.place, code="launch.type", remedy=f"Write {wanted}, as the framework reads it.",
    )  # fmt: skip


def typed(text: str) -> int | float | bool | str:
    """What a command line's text says: a number, a truth value, or the text."""
    bare = text.strip()
    if _INTEGER.fullmatch(bare):
        return int(bare.replace("_", ""))
    if _NUMBER.fullmatch(bare):
        return float(bare)
    return {"true": True, "false": False}.get(bare.lower(), text)


def flattened(document: Document, at: str = "", *, skip: frozenset[str] = frozenset()) -> list[Entry]:
    """The scalars and lists below a pointer of a document, by their dotted keys."""
    data: object = document.data
    for token in at.strip("/").split("/") if at else ():
        data = data.get(token) if isinstance(data, dict) else None
    found: list[Entry] = []

    def below(value: object, tokens: tuple[str, ...], path: tuple[str, ...]) -> None:
        if isinstance(value, dict) and value and ".".join(tokens) not in skip:
            for key, inner in value.items():
                below(inner, (*tokens, key), (*path, key))
        elif tokens:
            found.append(Entry(".".join(tokens), value, document.place(pointer_to(*path))))

    start = tuple(at.strip("/").split("/")) if at else ()
    below(data, (), start)
    return found
