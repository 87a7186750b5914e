"""Tables of a report: rows of plain text, and their Markdown. Cells are escaped here, so no text can add a column.

A column is aligned to the right where its head ends in a colon, which is not shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..frozen import dataclass
from .escape import markdown, visible


@dataclass(frozen=True, slots=True)
class Table:
    """Heads and rows of one table; every row has as many cells as there are heads. `more` says what is left out."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: str = ""

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.heads) for row in self.rows), self.heads

    def __bool__(self) -> bool:
        return bool(self.rows)


def capped(heads: Sequence[str], rows: Sequence[Sequence[str]], limit: int, what: str = "rows") -> Table:
    """A table of at most `limit` rows; what is left out is counted and where it stands is said."""
    kept = tuple(tuple(row) for row in rows[:limit])
    left = len(rows) - len(kept)
    return Table(tuple(heads), kept, f"{left} more {what} stand in the JSON of this review." if left > 0 else "")


def table_markdown(table: Table) -> str:
    """The table as Markdown, without a line end; empty where it has no rows."""
    if not table.rows:
        return ""
    right = [head.endswith(":") for head in table.heads]
    lines = [
        _row([markdown(head.removesuffix(":")) for head in table.heads]),
        "|" + "|".join("---:" if one else "---" for one in right) + "|",
        *(_row([markdown(cell) for cell in row]) for row in table.rows),
    ]
    if table.more:
        lines += ["", markdown(table.more)]
    return "\n".join(lines)


def table_text(table: Table) -> str:
    """The table for a terminal: columns of equal width, without a line end."""
    cells = [[visible(head.removesuffix(":")) for head in table.heads]]
    cells += [[visible(cell) for cell in row] for row in table.rows]
    right = [head.endswith(":") for head in table.heads]
    widths = [max(len(row[k]) for row in cells) for k in range(len(table.heads))]
    lines = [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*lines, *([visible(table.more)] if table.more else [])])


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
