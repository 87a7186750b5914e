"""Figures of merit of predictions beside measurements. All are fractions; nothing here knows what was predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import fsum, log, sqrt
from statistics import mean, median


@dataclass(frozen=True, slots=True)
class Errors:
    """Of (predicted - measured) / measured: mean and median size, mean, largest size; share inside intervals.

    `width` is the median half-width.
    """

    mape: float
    median: float
    bias: float
    max: float
    coverage: float | None
    width: float | None

    def to_json(self) -> dict[str, float | None]:
        """By name, rounded."""
        return {name: None if value is None else round(value, 5) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Point:
    """One row: measured, predicted, and the interval around the prediction where there is one."""

    line: int
    measured: float
    predicted: float
    low: float | None = None
    high: float | None = None

    @property
    def error(self) -> float:
        """(predicted - measured) / measured."""
        return self.predicted / self.measured - 1


def errors_of(points: Sequence[Point]) -> Errors | None:
    """The figures of some rows; None of none."""
    if not points:
        return None
    sizes = [abs(point.error) for point in points]
    held = [(point.low, point.high, point) for point in points if point.low is not None and point.high is not None]
    coverage = mean(low <= point.measured <= high for low, high, point in held) if held else None
    width = median((high - low) / 2 / point.predicted for low, high, point in held) if held else None
    return Errors(mean(sizes), median(sizes), mean(point.error for point in points), max(sizes), coverage, width)


def spearman(points: Sequence[Point]) -> float | None:
    """Rank correlation of predicted and measured, ties at their mean rank; None below three rows or without any spread."""
    if len(points) < 3:
        return None
    x, y = _ranks([point.predicted for point in points]), _ranks([point.measured for point in points])
    mx, my = mean(x), mean(y)
    top = fsum((a - mx) * (b - my) for a, b in zip(x, y, strict=True))
    below = (fsum((a - mx) ** 2 for a in x) * fsum((b - my) ** 2 for b in y)) ** 0.5
    return top / below if below else None


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    at = 0
    while at < len(order):
        end = at
        while end + 1 < len(order) and values[order[end + 1]] == values[order[at]]:
            end += 1
        for k in order[at : end + 1]:
            ranks[k] = (at + end) / 2
        at = end + 1
    return ranks


def regret(points: Sequence[Point]) -> float:
    """The measured time of the plan that is predicted to be best over that of the best, less 1."""
    chosen = min(points, key=lambda point: point.predicted)
    return chosen.measured / min(point.measured for point in points) - 1


def binomial_holds(held: int, rows: int, share: float = 0.9) -> bool:
    """Whether the 95 % binomial interval of `held` of `rows` contains `share` (Wilson 1927)."""
    if not rows:
        return True
    z, p = 1.96, held / rows
    centre = (p + z * z / (2 * rows)) / (1 + z * z / rows)
    half = z / (1 + z * z / rows) * sqrt(p * (1 - p) / rows + z * z / (4 * rows * rows))
    return abs(share - centre) <= half


def log_error(point: Point) -> float:
    """log(predicted / measured)."""
    return log(point.predicted / point.measured)
