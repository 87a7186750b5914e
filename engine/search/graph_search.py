"""The search over the whole declared space of a graph: uniform and uneven plans in one lazy sequence, in the order of step time.

Settings are taken by the least bound of their chains, whether these fit or not, then by that of those that may fit, then chain by
chain; a plan is simulated when no other's bound is below its own. What a limit leaves unpriced has a proven bound, and the least
of these is the search's floor: no plan of the space is faster than that.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from math import inf
from time import monotonic

import numpy as np

from ..cost.memory import Fit
from ..plan import Plan
from .graph_chains import GraphChains
from .graph_pricing import GraphPlanPricer
from .graph_space import GraphSpace, GraphUneven, is_uniform
from .measured_work import least_cover
from .setting import Bounded, Setting
from .space import LeftOut
from .tally import Found, Miss, SimplerThan, Tally
from .uniform import UniformSearch, everything

#: A setting of so few plans is looked at whole; of others so many chains, and of all so many are priced.
WHOLE, OF_ONE, OF_ALL = 4_000, 60, 1_500
#: Rounding of sums that are formed in another order.
SLACK = 1 - 1e-9
_WORK, _TABLE, _CHAIN, _PLAN, _TIMED = range(5)


class GraphSearch:
    """One search over one space; candidates may be pulled several times, each from the start."""

    def __init__(
        self, space: GraphSpace, pricer: GraphPlanPricer, *, work_limit: int | None = None, seconds: float | None = None
    ) -> None:
        self.space, self.pricer = space, pricer
        self.uniform = UniformSearch(space, pricer, work_limit=work_limit, seconds=seconds)
        self.uneven_space = GraphUneven(space)
        self.work_limit = work_limit
        self.floor_of_uneven = inf
        self._bounds: dict[object, float] = {}
        self._chains: dict[Setting, GraphChains] = {}
        self._seconds: dict[object, float] = {}
        self._fits: dict[object, Fit] = {}
        self._rejected: set[Setting] = set()
        self._priced = 0

    @property
    def tally(self) -> Tally:
        """What happened on the way."""
        return self.uniform.tally

    @property
    def floor(self) -> float:
        """Seconds that no plan is below which was left unpriced though its bound was; inf where there is none."""
        return min(self.floor_of_uneven, self.uniform.floor)

    @property
    def size(self) -> int:
        """How many plans the declared space holds."""
        return self.space.size + self.uneven_space.size

    @property
    def dimensions(self) -> tuple[tuple[str, str], ...]:
        """Each dimension with the values that occur in it."""
        gone = {"context", "expert", "expert tensor, apart from tensor", "sequence parallel"}
        return (*(row for row in self.space.dimensions if row[0] not in gone), *self.uneven_space.dimensions)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What the declared space does not hold, with the reason."""
        return (*self.space.left_out, *self.uneven_space.left_out)

    def candidates(self, wanted: Callable[[Plan], bool] = everything) -> Iterator[Found]:
        """Timed plans that may fit and are `wanted`, in the order of their step time."""
        rest = self.uniform.candidates(wanted)
        head = next(rest, None)
        uneven = _Stream(self, wanted)
        while True:
            found = uneven.next_below(head.seconds if head is not None else inf)
            if found is not None:
                yield found
            elif head is None:
                return
            else:
                yield head
                head = next(rest, None)

    def bounds(self) -> Iterator[tuple[Plan, float]]:
        """The uniform plans that were bounded, with their bounds, in a fixed order."""
        return self.uniform.bounds()

    def exhaust_memory(self) -> None:
        """Judge the memory of every uniform plan, so that the nearest miss is that of all of them."""
        self.uniform.exhaust_memory()

    # What streams share.

    @property
    def late(self) -> bool:
        """Whether the time is up; then the search is cut off."""
        if self.uniform.deadline is None or monotonic() <= self.uniform.deadline:
            return False
        self.tally.cut_off = True
        return True

    @property
    def spent(self) -> bool:
        """Whether the limit of work is reached."""
        return self.work_limit is not None and self.tally.priced >= self.work_limit

    def work_bound(self, setting: Setting) -> float:
        """Seconds of any chain of a setting at least: its microbatches' work spread over all devices."""
        key = setting.stages, setting.sequences, setting.meshes, setting.recomputes[0]
        if key not in self._bounds:
            chains = self.chains(setting)
            tables = [mesh.devices * chains.work(option)[1] for option, (mesh, _) in enumerate(chains.options)]
            if self.pricer.has_profile:
                # A stage that was timed whole may be quicker than its layers.
                work = least_cover(tables)
            else:
                work = float(np.min([table.diagonal() for table in tables], axis=0).sum())
            self._bounds[key] = SLACK * work / self.space.cluster.devices
        return setting.accumulation * self._bounds[key]

    def chains(self, setting: Setting) -> GraphChains:
        """The chains of a setting."""
        found = self._chains.get(setting)
        if found is None:
            found = self._chains[setting] = GraphChains(self.pricer, setting)
        return found

    def table_bound(self, setting: Setting) -> float:
        """The least bound of a setting's chains whether they fit or not; schedules and sharding alike share it."""
        key = "table", setting.stages, setting.sequences, setting.meshes, setting.recomputes, setting.order, setting.schedule
        if key not in self._bounds:
            self._bounds[key] = self.chains(setting).ignoring_memory()
        return self._bounds[key]

    def too_large(self, setting: Setting) -> None:
        """Count the plans of a setting of which none fits, with the nearest miss."""
        if setting in self._rejected:
            return
        self._rejected.add(setting)
        plans, name = self.uneven_space.plans(setting), f"uneven, {setting.stages} stages"
        known = self.tally.nearest.get(name)
        found = self.chains(setting).nearest(known.excess_bytes if known is not None else None)
        miss = Miss(*found) if found is not None else known
        self.tally.too_large += plans
        if miss is not None:
            self.tally.reject(name, plans, miss)

    def fit(self, plan: Plan) -> Fit:
        """Whether a plan fits, by its whole ledger."""
        known = self._fits.get(plan.identity)
        if known is None:
            known = self._fits[plan.identity] = self.pricer.fit(plan, self.pricer.ledger(plan))
        return known

    def priced(self, plan: Plan) -> float:
        """The simulated step."""
        known = self._seconds.get(plan.identity)
        if known is None:
            self.tally.priced += 1
            self._priced += 1
            known = self._seconds[plan.identity] = self.pricer.seconds(plan)
        return known

    @property
    def enough(self) -> bool:
        """Whether as many uneven plans were priced as are."""
        return self._priced >= OF_ALL


class _Stream:
    """Uneven plans in the order of their step time."""

    def __init__(self, search: GraphSearch, wanted: Callable[[Plan], bool]) -> None:
        self.search, self.wanted = search, wanted
        self._limit = wanted.limit if isinstance(wanted, SimplerThan) else lambda: None
        self._heap: list[tuple[float, int, int, object]] = []
        self._number = 0
        self._seen: set[object] = set()
        self._open: dict[Setting, Iterator[Bounded]] = {}
        self._taken: dict[Setting, int] = {}
        for setting in search.uneven_space.settings:
            if search.late:
                search.floor_of_uneven = 0.0
                break
            self._push(search.work_bound(setting), _WORK, setting)

    def _push(self, bound: float, state: int, what: object) -> None:
        self._number += 1
        heapq.heappush(self._heap, (bound, -state, self._number, what))

    def _leave(self, bound: float) -> None:
        self.search.floor_of_uneven = min(self.search.floor_of_uneven, bound)

    def _simple_enough(self, setting: Setting) -> bool:
        """Whether some plan of the setting can be simpler than the limit: by its axes, its lengths and its schedule."""
        limit = self._limit()
        if limit is None:
            return True
        mesh, layers = setting.meshes[0], self.search.space.graph.layers
        axes = sum(degree > 1 for degree in (mesh.data, mesh.tensor)) + 1
        least = (axes, 1 if layers % setting.stages == 0 else 2, 1) if len(setting.meshes) == 1 else (1, 1, 2)
        return (*least, 0, setting.schedule.rank, 0, setting.zero) < limit

    def next_below(self, ceiling: float) -> Found | None:
        """The next plan whose step takes at most `ceiling` seconds, None where there is none or a limit is reached."""
        search = self.search
        while self._heap and self._heap[0][0] <= ceiling:
            if search.late:
                self._leave(self._heap[0][0])
                return None
            bound, negative, _, what = heapq.heappop(self._heap)
            state = -negative
            if state == _TIMED:
                assert isinstance(what, Plan)
                if self.wanted(what):
                    search.tally.yielded += 1
                    return Found(what, bound, search.fit(what), search.pricer.ledger(what))
            elif state == _PLAN:
                assert isinstance(what, Plan)
                if not self.wanted(what) or search.fit(what) == "no":
                    continue
                if (search.spent or search.enough) and what.identity not in search._seconds:
                    search.tally.cut_off = search.tally.cut_off or search.spent
                    self._leave(bound)
                    continue
                self._push(search.priced(what), _TIMED, what)
            else:
                assert isinstance(what, Setting)
                if self._simple_enough(what):
                    self._setting(what, state, bound)
        return None

    def _setting(self, setting: Setting, state: int, bound: float) -> None:
        search = self.search
        chains = search.chains(setting)
        if state == _WORK:
            search.tally.bounded += 1
            self._push(max(bound, SLACK * search.table_bound(setting)), _TABLE, setting)
            return
        if state == _TABLE:
            before = chains.expanded
            least = chains.least()
            if least == inf:
                search.too_large(setting)
                return
            search.tally.expanded += chains.expanded - before
            self._open[setting] = chains.chains()
            self._push(max(bound, SLACK * least), _CHAIN, setting)
            return
        taken = self._taken.get(setting, 0)
        if search.enough or (taken >= OF_ONE and search.uneven_space.plans(setting) > WHOLE):
            self._leave(bound)
            return
        before = chains.expanded
        found = next(self._open[setting], None)
        search.tally.expanded += chains.expanded - before
        if found is None:
            return
        chain, bounded = found.chain, found.bound
        if not chain:
            self._leave(bound)
            return
        self._taken[setting] = taken + 1
        self._offer(setting, chains.plan(chain), bounded)
        self._push(max(bound, SLACK * bounded), _CHAIN, setting)

    def _offer(self, setting: Setting, plan: Plan, bound: float) -> None:
        search = self.search
        if plan.identity in self._seen or plan.same_meshes is (len(setting.meshes) > 1) or is_uniform(plan):
            return
        self._seen.add(plan.identity)
        if self.wanted(plan):
            search.tally.bounded += 1
            self._push(max(SLACK * bound, search.pricer.bound(plan)), _PLAN, plan)
