"""A measured CSV as rows of text with their line numbers, and the reading of one cell.

Vocabulary: a *rejection* is why one row is not used: a short reason that is counted, and a detail that names file, line,
column and value. Nothing is repaired: a cell is read as it stands or its row is rejected. Knows no model and no plan.
"""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ..errors import DataError, Place

MAX_BYTES, MAX_ROWS, MAX_CELL = 64 * 2**20, 200_000, 20_000

#: A number with letters behind it: a unit where none belongs.
_WITH_UNIT = re.compile(r"^[-+]?[0-9][0-9.,_]*(?:[eE][-+]?[0-9]+)?\s*[A-Za-z%µ/]+$")


class Rejected(Exception):
    """One row is not used. `reason` is counted; `detail` says what stands where."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


@dataclass(frozen=True, slots=True)
class Row:
    """One data row: its line in the file and its cells by column, without surrounding blanks."""

    file: str
    line: int
    cells: dict[str, str]

    def text(self, column: str) -> str:
        """The cell, "" where it is empty or the file has no such column."""
        return self.cells.get(column, "")

    def where(self, column: str) -> str:
        """File, line, column and what stands there."""
        return f"{self.file}, line {self.line}, column '{column}': {self.text(column)[:60]!r}"

    def reject(self, reason: str, column: str, why: str) -> Rejected:
        """A rejection of this row for what stands in `column`."""
        return Rejected(reason, f"{self.where(column)}: {why}")

    def number(self, column: str, *, least: float = 0.0) -> float:
        """A finite number above `least`; Rejected where the cell is empty, text, of another unit or out of range."""
        text = self.text(column)
        if not text:
            raise self.reject(f"incomplete: {column} is not stated", column, "a number is needed")
        try:
            value = float(text)
        except ValueError:
            if _WITH_UNIT.match(text):
                raise self.reject(f"another unit: {column}", column, "a bare number in the column's unit is needed") from None
            raise self.reject(f"not a number: {column}", column, "text stands where a number is needed") from None
        if not math.isfinite(value) or value <= least:
            raise self.reject(f"out of range: {column}", column, f"a finite number above {least:g} is needed")
        return value

    def whole(self, column: str, default: int | None = None) -> int:
        """A whole number of at least 1; `default` where the cell is empty and a default is documented."""
        if default is not None and not self.text(column):
            return default
        value = self.number(column)
        if value != int(value) or value > 1e9:
            raise self.reject(f"out of range: {column}", column, "a whole number is needed")
        return int(value)


@dataclass(frozen=True, slots=True)
class Table:
    """A CSV file: its name, columns, rows and digest."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    sha256: str


def read_table(path: Path) -> Table:
    """The file's rows. DataError where it cannot be a table: not UTF-8, no header, a column twice, far too large."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise _wrong(path, f"the file has {size} bytes, more than {MAX_BYTES}")
        raw = path.read_bytes()
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise _wrong(path, f"is not UTF-8: byte {error.start}") from None
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    rows: list[Row] = []
    try:
        header = tuple(name.strip() for name in next(reader, []))
        if len(header) < 2:
            raise _wrong(path, "has no header of at least two columns")
        twice = sorted({name for name in header if header.count(name) > 1})
        if twice:
            raise _wrong(path, f"names the column {twice[0]!r} twice")
        before = reader.line_num
        for cells in reader:
            line, before = before + 1, reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                raise _wrong(path, f"has {len(cells)} cells under {len(header)} columns", line)
            if len(rows) >= MAX_ROWS or any(len(cell) > MAX_CELL for cell in cells):
                raise _wrong(path, f"has more than {MAX_ROWS} rows, or a cell of more than {MAX_CELL} characters", line)
            rows.append(Row(path.name, line, {name: cell.strip() for name, cell in zip(header, cells, strict=True)}))
    except csv.Error as error:
        raise _wrong(path, f"is no CSV: {error}", reader.line_num) from None
    return Table(path.name, header, tuple(rows), sha256(raw).hexdigest())


def _wrong(path: Path, what: str, line: int | None = None) -> DataError:
    return DataError(
        f"'{path.name}' {what}",
        place=Place(str(path), line),
        remedy="Give a comma-separated UTF-8 file with one header line and one run a row.",
    )
