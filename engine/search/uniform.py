"""Best first through the space of uniform plans: candidates in the order of their step time, priced no earlier than needed.

A plan's lower bound is never above its step time, so a plan whose bound exceeds what was already yielded need not be priced
before it. Plans that do not fit the device's memory are dropped here, counted by class, and the nearest miss is kept. The
interface is a lazy sequence: who pulls decides when it is enough.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from math import inf
from time import monotonic

from ..cost.memory import Fit
from ..plan import Plan
from .pricing import PlanPricer
from .space import UniformSpace
from .tally import Found, Miss, SimplerThan, Tally

#: States of a heap entry, in the order in which equal bounds are taken: what is cheaper to settle first.
#: Where a limit of time has found nothing yet, the first plan is looked for this much longer: seconds, or a share of the limit.
GRACE_S, GRACE = 1.0, 0.1
_SHAPE, _BOUND, _TIMED = 0, 1, 2


def everything(plan: Plan) -> bool:
    """The whole space."""
    return True


class UniformSearch:
    """One search over one space. `tally` tells what it took; candidates may be pulled several times, each from the start."""

    def __init__(
        self,
        space: UniformSpace,
        pricer: PlanPricer,
        *,
        work_limit: int | None = None,
        seconds: float | None = None,
    ) -> None:
        self.space = space
        self.pricer = pricer
        self.work_limit = work_limit
        #: When to stop, on the monotonic clock; what is found until then differs from run to run.
        self.deadline = None if seconds is None else monotonic() + seconds
        #: How long past it the first plan is looked for.
        self._grace = 0.0 if seconds is None else max(GRACE_S, GRACE * seconds)
        self.tally = Tally()
        #: Seconds that no plan is below which a limit left unpriced; inf where none did.
        self.floor = inf
        self._shape_bounds: list[float] | None = None
        self._variants: dict[int, list[Plan]] = {}
        self._lower: dict[tuple[int, int], float] = {}
        self._fits: dict[tuple[int, int], Fit] = {}
        self._seconds: dict[tuple[int, int], float] = {}

    def candidates(self, wanted: Callable[[Plan], bool] = everything) -> Iterator[Found]:
        """Timed plans that may fit, in the order of their step time.

        `wanted` narrows the space; it is asked again before a plan is priced, so that it may grow stricter on the way. A shape
        is expanded into its plans when its own bound is reached: microbatches x the longest stage of its quickest variant. Of a
        `SimplerThan` that has its limit from the start no plan beyond it is bounded.
        """
        narrow = isinstance(wanted, SimplerThan) and wanted.limit() is not None
        heap: list[tuple[float, int, int, int]] = [
            (bound, _SHAPE, number, 0) for number, bound in enumerate(self._bounds_of_shapes())
        ]
        heapq.heapify(heap)
        while heap:
            least, state, number, variant = heapq.heappop(heap)
            # A limit of time leaves one plan to show, where one is found soon.
            if self.deadline is not None and monotonic() > self.deadline + (0.0 if self.tally.yielded else self._grace):
                self._cut(least)
                return
            if state == _SHAPE:
                for index, plan in enumerate(self._expanded(number)):
                    here = wanted(plan)
                    if here or not narrow:
                        bound = self._bound((number, index), plan)
                        if here:
                            heapq.heappush(heap, (bound, _BOUND, number, index))
                continue
            plan = self._variants[number][variant]
            if not wanted(plan):
                continue
            key = number, variant
            if state == _TIMED:
                self.tally.yielded += 1
                yield Found(plan, self._seconds[key], self._fits[key], self.pricer.ledger(plan))
                continue
            if self._fit(key, plan) == "no":
                continue
            if self.work_limit is not None and self.tally.priced >= self.work_limit and key not in self._seconds:
                self._cut(least)
                return
            heapq.heappush(heap, (self._time(key, plan), _TIMED, number, variant))

    def _cut(self, least: float) -> None:
        """A limit was reached: what is left has at least this bound."""
        self.tally.cut_off = True
        self.floor = min(self.floor, least)

    def bounds(self) -> Iterator[tuple[Plan, float]]:
        """The plans that were bounded, with their bounds, in a fixed order."""
        for number, variant in sorted(self._lower):
            yield self._variants[number][variant], self._lower[number, variant]

    def exhaust_memory(self) -> None:
        """Judge the memory of every plan of the space, so that the nearest miss is that of all of it."""
        for number, shape in enumerate(self.space.shapes):
            for variant, plan in enumerate(self.space.variants(shape)):
                self._fit((number, variant), plan)

    def _bounds_of_shapes(self) -> list[float]:
        if self._shape_bounds is None:
            self._shape_bounds = [
                min(self.pricer.stage_bound(plan) for plan in self.space.quickest(shape)) for shape in self.space.shapes
            ]
        return self._shape_bounds

    def _expanded(self, number: int) -> list[Plan]:
        known = self._variants.get(number)
        if known is None:
            known = self._variants[number] = list(self.space.variants(self.space.shapes[number]))
        return known

    def _bound(self, key: tuple[int, int], plan: Plan) -> float:
        known = self._lower.get(key)
        if known is None:
            self.tally.bounded += 1
            known = self._lower[key] = self.pricer.bound(plan)
        return known

    def _fit(self, key: tuple[int, int], plan: Plan) -> Fit:
        """Whether a plan fits; one that does not is counted by its class, and the nearest miss is kept."""
        known = self._fits.get(key)
        if known is None:
            ledger = self.pricer.ledger(plan)
            known = self._fits[key] = self.pricer.fit(plan, ledger)
            if known == "no":
                self.tally.too_large += 1
                stage, excess = self.pricer.excess(plan, ledger)
                row = max(ledger[stage].rows, key=lambda row: row.bytes).name
                self.tally.note(Miss(plan, stage, excess, row))
        return known

    def _time(self, key: tuple[int, int], plan: Plan) -> float:
        known = self._seconds.get(key)
        if known is None:
            self.tally.priced += 1
            known = self._seconds[key] = self.pricer.seconds(plan)
        return known
