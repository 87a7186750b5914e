"""The sweep over the slowest stage that makes the stage problem exact.

For a fixed bound t on the slowest stage the least sum S(t) is a shortest path; the objective sum + (B - 1) max is
reached at the bound just above the slowest stage of the optimum. The sweep goes downwards: S(t) comes with a slowest
stage t', every plan between t' and t is no better, and a plan better than the best known has a slowest stage below
(best - S(t)) / (B - 1); the smaller of both is the next bound. It ends when S(t) plus (B - 1) times the least
possible slowest stage reaches the best. Where memory limits the later stages, a bisection of t looks for a good plan
first, because that is what makes the steps long.

Knows nothing of where costs come from, nor of how a caller writes them.
"""

from __future__ import annotations

from math import inf, nextafter, sqrt

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
#: Budgets of the limited tables, as multiples of the least sum that is possible.
_BUDGETS = (1.02, 1.15)
#: Steps of the bisection.
_BISECTIONS = 6


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
    run = _Run(problem, microbatches - 1, least_slowest)
    bound, relaxed = inf, run.relaxed(inf)
    floor = relaxed.total
    run.first_plan(relaxed)
    bisected = False
    while True:
        floor = max(floor, run.floor_below(bound))
        if run.useful(floor) < bound:
            bound = run.useful(floor)
            relaxed = run.relaxed(bound)
            floor = max(floor, relaxed.total, run.floor_below(bound))
        if run.closed(floor):
            break
        found = run.assigned(relaxed)
        run.offer(found)
        if found is None or found.total > relaxed.total * (1 + ROUNDING):
            if not bisected:
                bisected = True
                run.bisect(bound)
            if run.useful(floor) < bound * _STEP:
                continue
            found = run.limited(relaxed, floor)
            if found is None:
                break
            run.offer(found)
        bound, floor = found.slowest, max(floor, found.total)
        relaxed = run.relaxed(bound)
        floor = max(floor, relaxed.total)
    return Swept(run.best, run.objective, run.solves + 1, True)


@dataclass(frozen=True, slots=True)
class _Relaxed:
    bound: float
    values: Floats
    table: Floats
    total: float


class _Run:
    """What is known so far: the best plan, the least slowest stage of a better one, least sums at some bounds; and
    the tables solved.
    """

    def __init__(self, problem: StageProblem, weight: int, least_slowest: float) -> None:
        self.problem = problem
        self.weight = weight
        self.least_slowest = least_slowest
        self.best: Assigned | None = None
        self.objective = inf
        self.sums: list[tuple[float, float]] = []
        self.solves = 0

    def floor_below(self, bound: float) -> float:
        """The least sum of plans below `bound`, from what was solved at higher bounds."""
        return max((total for at, total in self.sums if bound <= at), default=0.0)

    def useful(self, floor: float) -> float:
        """Just above the slowest stage of every plan that is better than the best, if no sum is below `floor`."""
        return nextafter((self.objective - floor) / self.weight * (1 + ROUNDING), inf) if self.weight else inf

    def closed(self, floor: float) -> bool:
        """Whether no plan with a sum of at least `floor` is better than the best."""
        return floor == inf or floor + self.weight * self.least_slowest >= self.objective * (1 - ROUNDING)

    def relaxed(self, bound: float) -> _Relaxed:
        self.solves += 1
        values = relaxed_values(self.problem, bound)
        table = prefix_table(self.problem, values, np.add)
        return _Relaxed(bound, values, table, float(table[(-1, *self.problem.units)]))

    def assigned(self, relaxed: _Relaxed) -> Assigned | None:
        """The relaxed optimum with configurations that its places allow."""
        if relaxed.total == inf:
            return None
        return assign(self.problem, trace_prefix(self.problem, relaxed.table, relaxed.values), relaxed.bound)

    def first_plan(self, unbounded: _Relaxed) -> None:
        for factor in _FIRST_BOUNDS:
            self.offer(self.assigned(self.relaxed(nextafter(self.least_slowest * factor, inf))))
            if self.best is not None:
                return
        self.offer(self.assigned(unbounded))

    def limited(self, relaxed: _Relaxed, floor: float) -> Assigned | None:
        """The least sum at the bound of `relaxed`, None if it makes no plan better than the best. Small budgets,
        which leave few states, first.
        """
        budget = self.objective - self.weight * self.least_slowest
        for tried in (*(floor * slack for slack in _BUDGETS if floor * slack < budget), budget):
            self.solves += 1
            found = limited_optimum(self.problem, relaxed.bound, relaxed.table, tried)
            if found is not None:
                self.sums.append((relaxed.bound, found.total))
                return found
        return None

    def bisect(self, bound: float) -> None:
        """Looks for a better plan between the least possible slowest stage and `bound`; what it rules out raises the
        former.
        """
        low, high = (
            self.least_slowest,
            min(bound, max(self.problem.slowest[self.problem.slowest < inf].max(), self.least_slowest)),
        )
        for _ in range(_BISECTIONS):
            middle = sqrt(low * high)
            if not low < middle < high * _STEP:
                return
            before = self.objective
            relaxed = self.relaxed(middle)
            found = (
                None
                if self.closed(relaxed.total)
                else self.limited(relaxed, max(relaxed.total, self.floor_below(middle)))
            )
            self.offer(found)
            if found is None:
                self.least_slowest = low = middle
            elif self.objective < before:
                high = found.slowest
            else:
                low = middle

    def offer(self, found: Assigned | None) -> None:
        if found is None:
            return
        objective = found.total + self.weight * found.slowest
        if objective < self.objective:
            self.best, self.objective = found, objective
