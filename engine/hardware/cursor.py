"""Strict reading of one place in a data sheet: the type wanted, or a DataError that names file, line, key and remedy.

Knows documents and units, not what a device or a node is.
"""

from __future__ import annotations

import datetime
import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..document import Document, pointer_to
from ..errors import DataError
from ..frozen import dataclass
from ..quantity import Dimension, Grade, Provenance, Quantity, UnitError, parse, spell
from .sheets import Ranged

_EVIDENCE = ("value", "grade", "source", "date")
_DATE = re.compile(r"\d{4}-\d{2}(-\d{2})?", re.ASCII)
_GRADES = tuple(grade.value for grade in Grade)


def nearest(word: str, known: Sequence[str]) -> str:
    """` (did you mean 'x'?)` for the known word closest to `word`, or nothing."""
    lower = {entry.casefold(): entry for entry in known}
    close = difflib.get_close_matches(word.casefold(), lower, n=1, cutoff=0.5)
    return f" (did you mean '{lower[close[0]]}'?)" if close else ""


def shown(value: object) -> str:
    """`value` as an error quotes it: short, on one line, in the document's words rather than Python's."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case int() if abs(value) >= 10**20:
            return "a number of more than 20 digits"
        case _:
            text = repr(value)
            return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True, slots=True)
class Cursor:
    """A value in a document and the keys that lead to it."""

    document: Document
    value: object
    path: tuple[str | int, ...] = ()

    @property
    def pointer(self) -> str:
        """The JSON pointer of the value."""
        return pointer_to(*self.path)

    @property
    def name(self) -> str:
        """What messages call the value: `links[0].bandwidth`."""
        name = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.path)
        return name.removeprefix(".") or "the sheet"

    def error(self, message: str, remedy: str, *, key: bool = False) -> DataError:
        """The error of this place (of its key, if `key`), to be raised."""
        place = self.document.key_place(self.pointer) if key else self.document.place(self.pointer)
        return DataError(message, place=place, remedy=remedy)

    def child(self, key: str | int, value: object) -> Cursor:
        """The value of `key`, or of an index, in this one."""
        return Cursor(self.document, value, (*self.path, key))

    def mapping(self, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Cursor]:
        """The entries of a mapping that has all `required` keys, perhaps `optional` ones, and no others."""
        allowed = (*required, *optional)
        if not isinstance(self.value, dict):
            raise self.error(
                f"{self.name} is {shown(self.value)}, not a mapping",
                f"Write {self.name} with the keys {_list(allowed)}.",
            )
        entries = {key: self.child(key, value) for key, value in self.value.items()}
        for key, entry in entries.items():
            if key not in allowed:
                raise entry.error(
                    f"{shown(key)} is not a key of {self.name}{nearest(key, allowed)}",
                    f"The keys here are {_list(allowed)}.",
                    key=True,
                )
        missing = [key for key in required if key not in entries]
        if missing:
            raise self.error(
                f"{self.name} has no {_list(missing)}", f"Add {missing[0]!r}; the keys here are {_list(allowed)}."
            )
        return entries

    def items(self) -> Iterator[Cursor]:
        """The entries of a list."""
        if not isinstance(self.value, list):
            raise self.error(f"{self.name} is {shown(self.value)}, not a list", f"Write {self.name}: [...].")
        for index, value in enumerate(self.value):
            yield self.child(index, value)

    def text(self, pattern: re.Pattern[str] | None = None, example: str = "a text") -> str:
        """A text that is not blank and matches `pattern`; `example` says what would do."""
        if not isinstance(self.value, str) or not self.value.strip() or (pattern and not pattern.fullmatch(self.value)):
            raise self.error(f"{self.name} is {shown(self.value)}, not a text of the kind wanted", f"Write {example}.")
        return self.value

    def choice(self, values: Sequence[str]) -> str:
        """One of `values`."""
        if not isinstance(self.value, str) or self.value not in values:
            hint = nearest(self.value, values) if isinstance(self.value, str) else ""
            raise self.error(f"{self.name} is {shown(self.value)}{hint}", f"Write one of {_list(values)}.")
        return self.value

    def count(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or not low <= self.value <= high:
            raise self.error(f"{self.name} is {shown(self.value)}", f"Write a whole number from {low} to {high}.")
        return self.value

    def number(self, low: float, high: float) -> float:
        """A plain number from `low` to `high`."""
        if not isinstance(self.value, int | float) or isinstance(self.value, bool) or not low <= self.value <= high:
            raise self.error(f"{self.name} is {shown(self.value)}", f"Write a number from {low:g} to {high:g}.")
        return float(self.value)

    def quantity(self, dimension: Dimension) -> Quantity:
        """A quantity: `80 GiB` (graded `assumed`) or {value, grade, source, date}."""
        if not isinstance(self.value, dict):
            return Quantity(self._parsed(dimension), dimension, self.provenance({}))
        entries = self.mapping(("value",), _EVIDENCE[1:])
        value = entries["value"]
        return Quantity(value._parsed(dimension), dimension, value.provenance(entries, self))

    def ranged(self, dimension: Dimension) -> Ranged:
        """A quantity with the range it was seen in: {value, low, high, grade, source, date}."""
        entries = self.mapping(("value", "low", "high"), _EVIDENCE[1:])
        value = entries["value"]
        quantity = Quantity(value._parsed(dimension), dimension, value.provenance(entries, self))
        low, high = entries["low"]._parsed(dimension), entries["high"]._parsed(dimension)
        if not low <= quantity.value <= high:
            raise self.error(
                f"{self.name} is not inside its own range: low {shown(entries['low'].value)}, value "
                f"{shown(value.value)}, high {shown(entries['high'].value)}",
                "Write low <= value <= high.",
            )
        return Ranged(quantity, low, high)

    def under(self, evidence: Provenance, dimension: Dimension) -> Quantity:
        """A plain quantity that shares the `evidence` of the block it stands in; the place is its own."""
        pointer = self.pointer
        place = self.document.place(pointer)
        return Quantity(self._parsed(dimension), dimension, replace(evidence, line=place.line, pointer=pointer))

    def provenance(self, entries: dict[str, Cursor], owner: Cursor | None = None) -> Provenance:
        """Grade, source and date in `entries` of `owner`; what is better than `assumed` needs a source and a date."""
        grade = Grade(entries["grade"].choice(_GRADES)) if "grade" in entries else Grade.ASSUMED
        source = entries["source"].text(example='source: "title of the document, table"') if "source" in entries else ""
        date = entries["date"]._date() if "date" in entries else None
        if grade is not Grade.ASSUMED and owner is not None:
            for key, found in (("source", source), ("date", date)):
                if not found:
                    raise owner.error(
                        f"{owner.name} is graded '{grade}' but has no '{key}'",
                        f"Add the {key} of the evidence, or grade it 'assumed'.",
                    )
        pointer = self.pointer
        place = self.document.place(pointer)
        return Provenance(grade, source, self.document.name, place.line, date, pointer)

    def _parsed(self, dimension: Dimension) -> int | float:
        if not isinstance(self.value, str | int | float) or isinstance(self.value, bool):
            raise self.error(f"{self.name} is {shown(self.value)}, not a quantity", f"Write {spell(dimension)}.")
        try:
            return parse(self.value, dimension)
        except UnitError as error:
            raise self.error(f"{self.name}: {error}", f"Write {spell(dimension)}.") from None

    def _date(self) -> str:
        text = self.text(_DATE, "a date as 2021-06-28 or 2021-06")
        try:
            datetime.date.fromisoformat(text if len(text) == 10 else f"{text}-01")
        except ValueError:
            raise self.error(f"{self.name} is {shown(text)}, which is no day", "Write a date as 2021-06-28.") from None
        return text


def _list(words: Sequence[str]) -> str:
    return ", ".join(f"'{word}'" for word in words)
