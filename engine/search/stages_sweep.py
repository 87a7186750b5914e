"""The sweep over the slowest stage that makes the stage problem exact.

For a fixed bound t on the slowest stage the least sum S(t) is a shortest path; the objective sum + (B - 1) max is
reached at the bound just above the slowest stage of the optimum. S falls as t rises, so what is solved at t says of all
plans whose slowest stage is in [low, t) that they sum to S(t) at least. Such intervals are kept, the most promising first,
and solved in turn at their upper end, which makes them shorter, and in their middle, which cuts them in two; one is closed
when its least sum plus (B - 1) times its lower end reaches the best plan. Where memory limits the later stages, S is solved
without that limit first, and with it where that does not close the interval.

Knows nothing of where costs come from, nor of how a caller writes them.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from math import inf, nextafter

import numpy as np

from ..frozen import dataclass
from .stages_limited import limited_optimum
from .stages_tables import (
    ROUNDING,
    Assigned,
    Floats,
    StageProblem,
    assign,
    prefix_table,
    relaxed_values,
    trace_prefix,
)

#: Bounds, as multiples of the least possible slowest stage, at which a first plan is looked for.
_FIRST_BOUNDS = (1.0, 1.1, 1.5, 3.0)
#: A bound that falls by less than this is not worth another relaxed table.
_STEP = 0.999
#: Budgets of the limited tables, as multiples of the least sum that is possible: small ones leave few states.
_BUDGETS = (1.02, 1.15)


@dataclass(frozen=True, slots=True)
class Swept:
    """The best plan (None: there is none), the tables solved, and whether plans exist once later stages are not
    limited.
    """

    best: Assigned | None
    objective: float
    solves: int
    relaxed_exists: bool


def sweep(problem: StageProblem, microbatches: int) -> Swept:
    """The least sum + (microbatches - 1) max over all plans, exactly (ties and rounding within 1e-12, relatively)."""
    slowest = np.where(problem.added < inf, problem.slowest, inf).min(axis=-1)
    least_slowest = float(prefix_table(problem, slowest, np.maximum)[(-1, *problem.units)])
    if least_slowest == inf:
        return Swept(None, inf, 1, False)
    run = _Run(problem, microbatches - 1)
    relaxed = run.relaxed(inf)
    run.first_plan(relaxed, least_slowest)
    # Not `problem.slowest`: that is of the quickest configurations and entries, and memory may ask for others.
    highest = max(float(part[part < inf].max(initial=0.0)) for part in (problem.cost, problem.transfer))
    run.push(_Interval(least_slowest, nextafter(highest, inf), relaxed.total))
    while (interval := run.pop()) is not None:
        run.solve(interval)
    return Swept(run.best, run.objective, run.solves + 1, True)


@dataclass(frozen=True, slots=True)
class _Interval:
    """Plans whose slowest stage or transfer is in [low, high): they sum to at least `floor`. `halve`: it is to be solved in its
    middle; `tried`: budgets that left no plan at its upper end.
    """

    low: float
    high: float
    floor: float
    halve: bool = False
    tried: int = 0


@dataclass(frozen=True, slots=True)
class _Relaxed:
    bound: float
    values: Floats
    table: Floats
    total: float


class _Run:
    """What is known so far: the best plan, the intervals that may hold a better one, and the tables solved."""

    def __init__(self, problem: StageProblem, weight: int) -> None:
        self.problem = problem
        self.weight = weight
        self.best: Assigned | None = None
        self.objective = inf
        self.solves = 0
        self._open: list[tuple[float, int, _Interval]] = []
        self._number = 0
        self._last: _Relaxed | None = None

    # Intervals.

    def push(self, interval: _Interval) -> None:
        """Keep what of an interval may hold a plan better than the best."""
        high = min(interval.high, self._useful(interval.floor))
        if interval.low < high and not self._closed(interval.floor, interval.low):
            self._number += 1
            kept = replace(interval, high=high) if high < interval.high else interval
            heapq.heappush(self._open, (interval.floor + self.weight * interval.low, self._number, kept))

    def pop(self) -> _Interval | None:
        """The interval of the least bound, cut to what may still be better; None where none is left."""
        while self._open:
            interval = heapq.heappop(self._open)[2]
            high = min(interval.high, self._useful(interval.floor))
            if interval.low < high and not self._closed(interval.floor, interval.low):
                return replace(interval, high=high)
        return None

    def _useful(self, floor: float) -> float:
        """Just above the slowest stage of every plan that is better than the best, if no sum is below `floor`."""
        return nextafter((self.objective - floor) / self.weight * (1 + ROUNDING), inf) if self.weight else inf

    def _closed(self, floor: float, low: float) -> bool:
        """Whether no plan with such a sum and slowest stage is better than the best."""
        return floor == inf or floor + self.weight * low >= self.objective * (1 - ROUNDING)

    def solve(self, interval: _Interval) -> None:
        """Solve an interval at its upper end or in its middle, and keep what is left of it."""
        low, high = interval.low, interval.high
        middle = (low + high) / 2
        if interval.halve and low < middle < high * _STEP:
            self.push(replace(interval, low=middle, halve=False))
            interval = replace(interval, high=middle, tried=0)
        relaxed = self.relaxed(interval.high)
        interval = replace(interval, floor=max(interval.floor, relaxed.total), halve=not interval.halve)
        found = self._assigned(relaxed)
        self._offer(found)
        if self._closed(interval.floor, low):
            return
        if found is None or found.total > relaxed.total * (1 + ROUNDING):
            if self._useful(interval.floor) < interval.high * _STEP:
                self.push(interval)
                return
            found = self._limited(relaxed, interval)
            if found is None:
                return
            self._offer(found)
        self.push(replace(interval, high=found.slowest, floor=max(interval.floor, found.total), tried=0))

    # Tables.

    def relaxed(self, bound: float) -> _Relaxed:
        """The least sum below a bound where memory does not limit the later stages."""
        if self._last is None or self._last.bound != bound:
            self.solves += 1
            values = relaxed_values(self.problem, bound)
            table = prefix_table(self.problem, values, np.add)
            self._last = _Relaxed(bound, values, table, float(table[(-1, *self.problem.units)]))
        return self._last

    def _assigned(self, relaxed: _Relaxed) -> Assigned | None:
        """The relaxed optimum with configurations that its places allow."""
        if relaxed.total == inf:
            return None
        return assign(self.problem, trace_prefix(self.problem, relaxed.table, relaxed.values), relaxed.bound)

    def _limited(self, relaxed: _Relaxed, interval: _Interval) -> Assigned | None:
        """The least sum at the bound of `relaxed`; None where none is within what was tried, and the rest is kept."""
        whole = self.objective - self.weight * interval.low
        budget = whole
        if interval.tried < len(_BUDGETS):
            budget = min(whole, interval.floor * _BUDGETS[interval.tried])
        self.solves += 1
        found = limited_optimum(self.problem, relaxed.bound, relaxed.table, budget)
        if found is None and budget < whole:
            self.push(replace(interval, floor=budget, halve=False, tried=interval.tried + 1))
        return found

    def first_plan(self, unbounded: _Relaxed, least_slowest: float) -> None:
        """A plan near the least possible slowest stage, if relaxed tables give one."""
        for factor in _FIRST_BOUNDS:
            self._offer(self._assigned(self.relaxed(nextafter(least_slowest * factor, inf))))
            if self.best is not None:
                return
        self._offer(self._assigned(unbounded))

    def _offer(self, found: Assigned | None) -> None:
        if found is None:
            return
        objective = found.total + self.weight * found.slowest
        if objective < self.objective:
            self.best, self.objective = found, objective
