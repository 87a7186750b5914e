"""Errors on groups that the fit did not see, and what they say of the next one.

Vocabulary: a *fold* is a fit without one group; its errors are those of that group's rows. The *residual* is the half-width, in
relative terms, that held 90 % of them, each group counting the same whatever its number of rows (split conformal prediction,
Vovk et al. 2005): a new case is more like a new group than like a known row. Never random folds: rows of one sweep are alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import exp, fsum, log, sqrt
from typing import NamedTuple

from ..cost.factors import load_constants
from ..cost.intervals import APART, LAUNCH_BOUND, apart
from ..cost.step_result import StepTime
from ..model import Attention
from .case import Case
from .fit import Fitted, factors_of, fit, launch_share, predict, start, step_of

#: Fewer pairs than these tell nothing of ratios.
PAIRS = 30

#: The share of rows that an interval is to hold.
LEVEL = 0.9


class Folds(NamedTuple):
    """`values` without each group, and log(predicted / measured) of every row under the fold that did not see it."""

    values: dict[str, dict[str, float]]
    errors: tuple[tuple[Case, float], ...]


def leave_out(cases: Sequence[Case], names: Sequence[str]) -> Folds:
    """One fit for each group left out; with one group alone there is none and nothing is known of new ones."""
    groups = sorted({case.group for case in cases})
    values: dict[str, dict[str, float]] = {}
    errors: list[tuple[Case, float]] = []
    for group in groups if len(groups) > 1 else ():
        found = fit([case for case in cases if case.group != group], names)
        values[group] = found.values
        errors += [(case, error_of(case, found.values)) for case in cases if case.group == group]
    return Folds(values, tuple(errors))


def error_of(case: Case, values: Mapping[str, float]) -> float:
    """log(predicted / measured) of a case under fitted values."""
    flash = case.workload.attention is not Attention.UNFUSED
    base = start(case.cluster.device, flash)
    return log(predict(case, factors_of(dict(values), base, case.software)) / case.seconds)


def ordinary(folds: Folds) -> tuple[tuple[Case, float], ...]:
    """The errors of rows whose steps are not made of launches; those are exceptions, with an interval of their own."""
    return tuple((case, error) for case, error in folds.errors if launch_share(case, folds.values[case.group]) <= LAUNCH_BOUND)


def residual(errors: Sequence[tuple[Case, float]], level: float = LEVEL) -> float:
    """The relative half-width that holds `level` of the rows, groups alike; of few rows, a little more than their own."""
    count: dict[str, int] = defaultdict(int)
    for case, _ in errors:
        count[case.group] += 1
    rows = sorted((abs(error), 1 / count[case.group]) for case, error in errors)
    total = fsum(weight for _, weight in rows)
    wanted = min(1.0, level * (1 + 1 / len(rows))) * total
    reached = 0.0
    for size, weight in rows:
        reached += weight
        if reached >= wanted - 1e-12:
            return exp(size) - 1
    return exp(rows[-1][0]) - 1


def slope_of_ratios(
    errors: Sequence[tuple[Case, float]], values: Mapping[str, Mapping[str, float]], level: float = LEVEL
) -> float:
    """How the error of a ratio grows with what two runs of one sweep do not share (`cost.intervals.ratio_residual`).

    `values` by group: under which each error was found. The slope that holds `level` of the pairs, a sweep weighing as the root
    of its pairs; of fewer than `PAIRS` pairs, the shipped one.
    """
    constants = load_constants()
    noise = log(1 + constants["ratio_noise"].value)
    sweeps: dict[tuple[object, ...], list[tuple[StepTime, float, object]]] = defaultdict(list)
    for case, error in errors:
        sweeps[case.sweep].append((step_of(case, values[case.group]), error, case.plan.identity))
    slopes: list[tuple[float, float]] = []
    for rows in sweeps.values():
        pairs = [(a, b) for a, b in combinations(rows, 2) if a[2] != b[2]]
        for (first, one, _), (second, other, _) in pairs:
            distance = max(1e-9, min(apart(first, second), APART))
            slopes.append((sqrt(max(0.0, (one - other) ** 2 - noise**2)) / distance, 1 / sqrt(len(pairs))))
    if len(slopes) < PAIRS:
        return constants["ratio_slope"].value
    wanted, reached = level * fsum(weight for _, weight in slopes), 0.0
    for slope, weight in sorted(slopes):
        reached += weight
        if reached >= wanted - 1e-12:
            return slope
    return max(slopes)[0]


def spread(values: Mapping[str, dict[str, float]], whole: Fitted, name: str) -> tuple[float, float]:
    """The least and greatest that any fold found of a parameter, the whole fit's own included."""
    found = [one[name] for one in values.values()] + [whole.values[name]]
    return min(found), max(found)
