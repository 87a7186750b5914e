"""A measured collective as it was logged: the form that every importer of collective benchmarks returns, and its curve.

Vocabulary: a *row* is one message size, out of place or in place; *algbw* is size over time, *busbw* algbw times the operation's
factor of the number of ranks. Seconds and bytes a second; the size is that of the whole buffer. Knows no tool's format.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from ..frozen import dataclass
from .text_table import Gap

ROOTED = frozenset({"broadcast", "gather", "reduce", "scatter"})
REDUCING = frozenset({"all_reduce", "reduce", "reduce_scatter"})
#: Operations that print the count of the whole buffer; the others that of one rank.
WHOLE_COUNT = frozenset({"all_reduce", "broadcast", "reduce", "sendrecv"})
OPERATIONS = ROOTED | REDUCING | WHOLE_COUNT | {"all_gather", "alltoall"}


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement. `wrong`: the number of wrong elements, None where the tool did not count. `line` is from 1."""

    size_bytes: int
    count: int | None
    time_s: float
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float
    in_place: bool
    wrong: int | None
    line: int


@dataclass(frozen=True, slots=True)
class CollectiveLog:
    """What one run says. None is what it does not say and what cannot be concluded without doubt.

    `ranks` and `nodes` are those of one collective, also where the ranks were split into groups. `complete` is true
    where nothing between the first row and the end of the run is missing, refused or wrong. `average_busbw` is the
    tool's own mean, in bytes a second. `line` is where the table begins.
    """

    operation: str | None
    ranks: int | None
    nodes: int | None
    datatype: str | None
    tool: str
    rows: tuple[Row, ...]
    complete: bool
    gaps: tuple[Gap, ...]
    average_busbw: float | None
    notes: tuple[str, ...]
    line: int


def bus_factor(operation: str, ranks: int) -> float:
    """busbw over algbw of an operation among n `ranks`: 2(n-1)/n, (n-1)/n or 1; ValueError where it is not known.

    Source: nccl-tests doc/PERFORMANCE.md.
    """
    if operation not in OPERATIONS:
        raise ValueError(operation)
    if operation == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return 1.0 if operation in WHOLE_COUNT else (ranks - 1) / ranks


def curve(log: CollectiveLog) -> tuple[tuple[int, float], ...]:
    """(bytes, seconds) by ascending size, never falling.

    Out-of-place rows are used, in-place ones where there are no others, rows with wrong results never. Repeats of a size
    count by their median; where a larger message was measured faster, the neighbours are pooled to their geometric mean.
    """
    usable = [row for row in log.rows if row.size_bytes > 0 and row.time_s > 0 and not row.wrong]
    chosen = [row for row in usable if not row.in_place] or usable
    repeats: dict[int, list[float]] = {}
    for row in chosen:
        repeats.setdefault(row.size_bytes, []).append(row.time_s)
    sizes = sorted(repeats)
    times = _never_falling([math.log(median(repeats[size])) for size in sizes])
    return tuple((size, math.exp(value)) for size, value in zip(sizes, times, strict=True))


def interpolate(log: CollectiveLog, size_bytes: int) -> float | None:
    """Seconds that the measured collective takes for `size_bytes`; None outside the measured sizes.

    Out-of-place rows are used, in-place ones where there are no others, rows with wrong results never. Repeats of a
    size count by their median. Between sizes the curve is straight in log size and log time. It never falls: where a
    larger message was measured faster, the neighbours are pooled to their geometric mean (pool adjacent violators).
    """
    points = curve(log)
    sizes, times = [size for size, _ in points], [math.log(seconds) for _, seconds in points]
    if not sizes or not sizes[0] <= size_bytes <= sizes[-1]:
        return None
    if size_bytes == sizes[-1]:
        return math.exp(times[-1])
    index = next(index for index in range(len(sizes) - 1) if size_bytes < sizes[index + 1])
    low, high = math.log(sizes[index]), math.log(sizes[index + 1])
    share = (math.log(size_bytes) - low) / (high - low)
    return math.exp(times[index] + share * (times[index + 1] - times[index]))


def _never_falling(values: Sequence[float]) -> list[float]:
    """The non-decreasing sequence nearest to `values` in least squares (pool adjacent violators)."""
    pools: list[tuple[float, int]] = []
    for value in values:
        total, count = value, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            before, many = pools.pop()
            total, count = total + before, count + many
        pools.append((total, count))
    return [total / count for total, count in pools for _ in range(count)]
