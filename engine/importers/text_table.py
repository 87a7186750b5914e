"""Lines and cells of a tool's printed output: what every importer of a text table needs before it reads a table.

Vocabulary: a *line* is what an editor shows under that number; a *gap* is something the file should have said and does
not, or says in a way that cannot be trusted; a *printed number* stands for the interval of values that round to it.

It must not know any one tool's table, nor anything about links, collectives or proposals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal

from ..errors import DataError, Place
from ..frozen import dataclass

# CSI and OSC sequences, then the colour codes of a paste that lost its escape character ("[4mGPU0").
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]|(?:\^\[|␛)?\[\d{1,3}(?:;\d{1,3}){0,4}m"
)
# mpirun --tag-output `[1,0]<stdout>:`, torchrun --tee `[default0]:`, torchrun --role `[host:0]:`.
_TAG = re.compile(r"\s*\[(?:\d+,\d+|default\d+|[\w.-]+:\d+)\](?:<\w+>)?:")
_BREAK = re.compile(r"\r\n|\r|\n")
_NUMBER = re.compile(r"[+-]?\d{1,24}(?:\.\d{1,16})?(?:[eE][+-]?\d{1,3})?")
_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")
_NAMED_AT_MOST = 6
_LONGEST = 16_384  # characters of a line: twice a row of the widest matrix; patterns stay quick on it
_LARGEST = 1e30  # nothing that is measured here comes near it, and products of two such numbers stay finite

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the file: its number from 1, and its text without escapes, tags and the line end."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Gap:
    """What is missing or cannot be trusted, the line that shows it (None: no one line does), and what was expected."""

    what: str
    line: int | None
    expected: str


@dataclass(frozen=True, slots=True)
class Interval:
    """The values that a printed number can stand for: half a unit of its last digit either way."""

    low: float
    high: float

    def meets(self, other: Interval) -> bool:
        """Whether the two share a value, up to the error of a few float operations."""
        slack = 1e-9 * max(abs(self.low), abs(self.high), abs(other.low), abs(other.high))
        return self.low <= other.high + slack and other.low <= self.high + slack

    def times(self, factor: float) -> Interval:
        """Both ends by a non-negative factor."""
        return Interval(self.low * factor, self.high * factor)

    def under(self, numerator: float) -> Interval:
        """`numerator` divided by the interval, for a numerator and an interval that are not negative."""
        low = numerator / self.high if self.high > 0 else float("inf")
        high = numerator / self.low if self.low > 0 else float("inf")
        return Interval(low, high)


def cleaned(text: str) -> tuple[Line, ...]:
    """The lines of `text` without byte-order mark, terminal escapes, launcher tags, trailing blanks, excess length."""
    body = text.removeprefix("\ufeff").replace("\xa0", " ")
    return tuple(
        Line(number, _untagged(_ESCAPES.sub("", raw[:_LONGEST])).rstrip())
        for number, raw in enumerate(_BREAK.split(body), start=1)
    )


def _untagged(raw: str) -> str:
    tag = _TAG.match(raw)
    return raw[tag.end() :] if tag else raw


def lines_of(text: str, name: str, expected: str) -> tuple[Line, ...]:
    """The cleaned lines of `text`; a file with nothing printable in it is refused, saying what was `expected`."""
    found = cleaned(text)
    for number, raw in enumerate(_BREAK.split(text), start=1):
        if len(raw) > _LONGEST:
            raise foreign(f"a line has {len(raw)} characters", name, number, expected)
    if not any(line.text.strip() for line in found):
        raise foreign("the file is empty", name, None, expected)
    return found


def foreign(what: str, name: str, line: int | None, expected: str) -> DataError:
    """The error for a file, or a part of one, that cannot be read as what it was said to be."""
    return DataError(f"{what}; expected {expected}", place=Place(file=name, line=line), remedy=_remedy(expected))


def several(what: str, name: str, first: int, second: int) -> DataError:
    """The error for a file that holds more than one of what only one is read of, naming both lines."""
    return DataError(
        f"the file holds more than one {what}: one begins on line {first}, another on line {second}",
        place=Place(file=name, line=second),
        remedy=f"Keep one {what} a file: cut this file before line {second} and give the parts separate names.",
    )


def _remedy(expected: str) -> str:
    return f"Give the tool's whole, unedited output, from its first to its last line: {expected}."


def shown(cell: str, limit: int = 40) -> str:
    """A cell of a stranger's file, quoted for a message: control characters escaped, long text cut."""
    return ascii(cell if len(cell) <= limit else cell[: limit - 1] + "~")


def listed(names: Iterable[str]) -> str:
    """Names for a message: the first few, and how many more there are."""
    every = [name if len(name) <= 40 else name[:39] + "~" for name in names]
    if len(every) <= _NAMED_AT_MOST:
        return ", ".join(every)
    return f"{', '.join(every[:_NAMED_AT_MOST])} and {len(every) - _NAMED_AT_MOST} more"


def printed(cell: str) -> Interval | None:
    """The interval behind a printed decimal number (`33.41`, `1.2e+07`), or None where the cell is not one."""
    if not _NUMBER.fullmatch(cell):
        return None
    value = Decimal(cell)
    exponent = value.as_tuple().exponent
    half = 0.5 * 10.0**exponent if isinstance(exponent, int) and abs(exponent) < 300 else 0.0
    middle = float(value)
    if abs(middle) > _LARGEST:
        return None
    return Interval(middle - half, middle + half)


def whole(cell: str) -> int | None:
    """A non-negative integer of at most 18 digits written in decimal, or None."""
    return int(cell) if len(cell) <= 18 and cell.isascii() and cell.isdigit() else None


def ranges(cell: str) -> Ranges | None:
    """The inclusive ranges of a CPU or NUMA list: `0-19,40-59` is ((0, 19), (40, 59)). None where it is not a list."""
    found: list[tuple[int, int]] = []
    for part in cell.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            return None
        first = int(match[1])
        last = int(match[2]) if match[2] else first
        if last < first:
            return None
        found.append((first, last))
    return tuple(found)
