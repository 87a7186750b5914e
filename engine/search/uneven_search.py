"""Best first through uneven plans: settings by their bounds, then the chains of each in the order of theirs.

A setting is bounded by its work alone, then by a table that ignores memory, then by one that knows it; only what stays below the
best is taken further. Of a setting with many plans the first few are priced, with those that the stage solver finds; what is not
looked at has a proven bound, and the least of these is the search's *floor*: no plan of the space is faster than that.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import field
from math import fsum, inf
from time import monotonic

import numpy as np

from ..cost.memory import Fit
from ..frozen import dataclass
from ..model import moe_layers
from ..plan import Plan, Recompute, Schedule, even_stages
from .measured_work import least_cover
from .pricing import PlanPricer
from .setting import Bounded, LayerCounts, Setting, layer_counts
from .stage_search import StageSearch
from .tally import Found, Miss, Tally
from .uneven import UnevenSpace

#: A setting of so few plans is looked at whole; of others chains until so many tasks are simulated, but some of each.
WHOLE, TASKS, FEWEST = 4_000, 16_000, 2
#: Tasks simulated for all settings, some 1 us each; a chain costs as much as so many, whether it is simulated or not.
ALL_TASKS, CHAIN = 2_000_000, 1_000
#: Table entries computed for all settings, some 10 ns each; what else a setting costs counts as so many for its bound, and
#: as so many for its tables.
ENTRIES, BOUND, OPEN = 400_000_000, 60_000, 300_000
#: Rounding of sums that are formed in another order.
SLACK = 1 - 1e-9

_SHAPE, _SETTING, _BOUNDED, _OPENED, _CHAIN, _PLAN, _TIMED = range(7)
Entry = tuple[float, int, int, object]


@dataclass(slots=True)
class UnevenSearch:
    """One search over one space. What was computed is kept between pulls."""

    space: UnevenSpace
    pricer: PlanPricer
    tally: Tally
    work_limit: int | None = None
    deadline: float | None = None
    #: Seconds that no plan left unpriced can be below; inf where all that could matter was priced.
    floor: float = inf
    _bounds: dict[object, float] = field(default_factory=dict)
    _searches: dict[Setting, StageSearch] = field(default_factory=dict)
    _chains: dict[Setting, list[Bounded]] = field(default_factory=dict)
    _open: dict[Setting, Iterator[Bounded]] = field(default_factory=dict)
    _seeds: dict[Setting, list[Plan]] = field(default_factory=dict)
    _seconds: dict[object, float] = field(default_factory=dict)
    _timed: list[tuple[float, Plan]] = field(default_factory=list)
    _fits: dict[object, Fit] = field(default_factory=dict)
    _counted: set[object] = field(default_factory=set)
    _counts: LayerCounts | None = None
    _tasks: int = 0
    _entries: int = 0

    def stream(self, wanted: Callable[[Plan], bool], below: Callable[[], tuple[int, ...] | None]) -> Stream:
        """Plans that are `wanted`, in the order of their step time, up to a ceiling that is given at each pull."""
        return Stream(self, wanted, below)

    # Bounds.

    def shape_bounds(self) -> list[float]:
        """Of each shape of cuts."""
        if "shapes" not in self._counted:
            self._counted.add("shapes")
            for number in range(len(self.space.shapes)):
                if self.late():
                    self._counted.discard("shapes")
                    self.floor = 0.0
                    return []
                self._bounds[number] = min(self.work_bound(one) for one in self._quickest(number))
        return [self._bounds[number] for number in range(len(self.space.shapes))]

    def late(self) -> bool:
        """Whether the time is up; then the search is cut off."""
        if self.deadline is None or monotonic() <= self.deadline:
            return False
        self.tally.cut_off = True
        return True

    def _quickest(self, number: int) -> Iterator[Setting]:
        seen: set[tuple[bool, bool]] = set()
        for one in self.space.cuts(self.space.shapes[number]):
            key = one.sequence_parallel, one.schedule is Schedule.ZB_H1
            if key not in seen:
                seen.add(key)
                yield one

    def work_bound(self, setting: Setting) -> float:
        """Seconds by the whole work alone.

        One mesh: bound j is at least the leads of the stages before j and m x the work of j; weighted so that every stage
        counts alike they give work x c, c = r / (1 - (1 - r / m)^p), r the least share of a lead in its work. Unequal meshes:
        the work in device-seconds over the devices.
        """
        per_device, share = self._least_work(setting)
        m, p = setting.accumulation, setting.stages
        if len(setting.meshes) > 1:
            return SLACK * m * per_device / self.space.uniform.cluster.devices
        factor = share / (1 - (1 - share / m) ** p) if m > share else m / p
        return SLACK * max(per_device * factor, m * per_device / p)

    def _least_work(self, setting: Setting) -> tuple[float, float]:
        """(work of all layers and ends, least share of forward in it): seconds on one mesh, device-seconds on several."""
        split = setting.schedule is Schedule.ZB_H1
        key = (
            setting.stages, setting.sequences, setting.sequence_parallel, max(1, setting.zero), setting.order, setting.meshes,
            setting.recomputes, split,
        )  # fmt: skip
        known = self._bounds.get(key)
        if known is None:
            model = self.space.uniform.model
            search = self._stages(setting)
            moe = moe_layers(model, 0, model.layers - 1)
            best, share = self._least_measured(search, split) if self.pricer.has_profile else (inf, 1.0)
            for option, (mesh, kind) in enumerate(search.options):
                if kind is not setting.recomputes[0] or self.pricer.has_profile:
                    continue
                dense, routed, ends = search.layer_costs(option)
                rows = [part for part, there in ((dense, model.layers - moe), (routed, moe)) if there]
                total = fsum(n * part[:, 1].min() for part, n in ((dense, model.layers - moe), (routed, moe)))
                total += ends[0, 1] + ends[-1, 1]
                scale = mesh.devices if len(setting.meshes) > 1 else 1
                best = min(best, scale * float(total))
                if split:
                    share = min(share, *(float((part[:, 0] / part[:, 1]).min()) for part in rows))
                    share = min(share, *(float(end[0] / end[1]) for end in (ends[0], ends[-1]) if end[1] > 0))
            known = self._bounds[key] = best
            self._bounds[key, "share"] = share
        return known, self._bounds[key, "share"]

    def _least_measured(self, search: StageSearch, split: bool) -> tuple[float, float]:
        """The same where stages were measured, which sums of layers say nothing of: the least cover of all layers by stages."""
        setting, share, tables = search.setting, 1.0, []
        for option, (mesh, _) in enumerate(search.options):
            scale = mesh.devices if len(setting.meshes) > 1 else 1
            kinds = range(setting.stages) if len(self.pricer.cluster.nodes) > 1 else {0, 1, setting.stages - 1}
            for stage in kinds:
                lead, total = search.work(stage, option)
                tables.append(scale * total)
                if split:
                    there = np.isfinite(total) & (total > 0)
                    share = min(share, float(((lead - search.way(stage, option))[there] / total[there]).min()))
        return least_cover(tables), share

    def bounded(self, setting: Setting) -> bool:
        """Whether a setting that runs alike has its table."""
        return _alike(setting) in self._bounds

    def table_bound(self, setting: Setting) -> float:
        """The least bound of a setting's chains whether they fit or not."""
        key = _alike(setting)
        if key not in self._bounds:
            self._bounds[key] = self._stages(setting).ignoring_memory()
        return self._bounds[key]

    def search(self, setting: Setting) -> StageSearch:
        """The stages of a setting."""
        known = self._searches.get(setting)
        if known is None:
            known = self._searches[setting] = self._stages(setting)
        return known

    def _stages(self, setting: Setting) -> StageSearch:
        uniform = self.space.uniform
        if self._counts is None:
            self._counts = layer_counts(uniform.model)
        node = min(uniform.cluster.devices_per_node, uniform.cluster.devices)
        return StageSearch(uniform.model, uniform.cluster.devices, self.pricer, setting, node, self._counts)

    def spend(self, setting: Setting, options: int, fixed: int) -> bool:
        """Whether another table of the setting is within what all of them may take."""
        layers = self.space.uniform.model.layers
        units = self.space.uniform.cluster.devices // self.space.unit + 1 if len(setting.meshes) > 1 else 1
        states = setting.stages * options * layers * layers * units
        self._entries += fixed + states
        self.tally.expanded += states
        return self._entries <= ENTRIES

    def seeds(self, setting: Setting) -> list[Plan]:
        """What the stage solver finds of a setting, surely fitting and perhaps, and the first chain that surely fits."""
        known = self._seeds.get(setting)
        if known is None:
            search = self.search(setting)
            # A setting that is looked at whole needs no good guess.
            found = [search.shortest(level) for level in (2, 1)] if self.space.plans(setting) > WHOLE else []
            if search.least(2) < inf:
                found.append(next(search.chains(2)).chain)
            known = self._seeds[setting] = [search.plan(chain) for chain in found if chain]
        return known

    def after(self, setting: Setting, *, fitting: bool) -> float:
        """Seconds after the pipeline that every chain of a setting has, of those that may fit where `fitting`."""
        anyhow = "after", _alike(setting)[:-1], setting.zero
        if anyhow not in self._bounds:
            found = self.search(setting).after(fitting=False)
            self._bounds[anyhow] = -1.0 if found is None else found
        if self._bounds[anyhow] >= 0.0 or not fitting:
            return max(0.0, self._bounds[anyhow])
        of_those = setting, "after"
        if of_those not in self._bounds:
            self._bounds[of_those] = self.search(setting).after(fitting=True) or 0.0
        return self._bounds[of_those]

    def chain(self, setting: Setting, number: int) -> Bounded | None:
        """The chain of that number in the order of the setting's bounds."""
        pulled = self._chains.setdefault(setting, [])
        if setting not in self._open:
            self._open[setting] = self.search(setting).chains(1)
        while len(pulled) <= number:
            found = next(self._open[setting], None)
            if found is None:
                return None
            self._tasks += CHAIN
            pulled.append(found)
        return pulled[number]

    def enough(self, setting: Setting, taken: int) -> bool:
        """Whether so many chains of a setting are all that is looked at."""
        if taken < FEWEST:
            return False
        if self._tasks > ALL_TASKS:
            return True
        return taken * setting.tasks > TASKS and self.space.plans(setting) > WHOLE

    def too_large(self, setting: Setting) -> None:
        """Count the plans of a setting of which none fits, with the nearest miss: the shortest stage that some plan must have."""
        if (setting, "no") in self._counted:
            return
        self._counted.add((setting, "no"))
        plans = self.space.plans(setting)
        search, layers = self.search(setting), self.space.uniform.model.layers
        length = -(-layers // setting.stages) if len(setting.meshes) == 1 else 1
        rows = []
        for option, (mesh, kind) in enumerate(search.options):
            excess, row = search.excess(length, option)
            rows.append((excess, option, mesh, kind, row))
        excess, option, mesh, kind, row = min(rows, key=lambda one: one[0])
        probe = search.place(length, option)
        self.tally.too_large += plans
        self.tally.reject(f"uneven, {setting.stages} stages", plans, Miss(probe, setting.stages - 1, max(0, excess), row))

    def uniform_chain(self, setting: Setting, bounded: Bounded) -> bool:
        """Whether a chain is a plan of the uniform space, or of one mesh where meshes are to differ."""
        search = self.search(setting)
        chosen = [search.options[option] for _, _, option in bounded.chain]
        if len(setting.meshes) > 1:
            return len({mesh for mesh, _ in chosen}) == 1
        lengths = {last - first for first, last, _ in bounded.chain}
        return len(lengths) == 1 and len(set(chosen)) == 1

    def fit(self, plan: Plan) -> Fit:
        """Whether a plan fits, by its whole ledger."""
        known = self._fits.get(plan.identity)
        if known is None:
            known = self._fits[plan.identity] = self.pricer.fit(plan, self.pricer.ledger(plan))
        return known

    @property
    def spent(self) -> bool:
        """Whether the limit of work is reached."""
        return self.work_limit is not None and self.tally.priced >= self.work_limit

    def priced(self, plan: Plan) -> float:
        """The simulated step."""
        known = self._seconds.get(plan.identity)
        if known is None:
            self.tally.priced += 1
            self._tasks += plan.pipeline * plan.accumulation * 2
            known = self._seconds[plan.identity] = self.pricer.seconds(plan)
            self._timed.append((known, plan))
        return known


class Stream:
    """Uneven plans in the order of their step time."""

    def __init__(
        self, search: UnevenSearch, wanted: Callable[[Plan], bool], below: Callable[[], tuple[int, ...] | None]
    ) -> None:
        self.search, self.wanted, self.below = search, wanted, below
        self._heap: list[Entry] = []
        self._number = 0
        self._seen: set[object] = set()
        for number, bound in enumerate(search.shape_bounds()):
            self._push(bound, _SHAPE, number)
        for one in search.space.unequal:
            if search.late():
                search.floor = 0.0
                break
            self._push(search.work_bound(one), _SETTING, one)
        if search.spent:
            # The limit of work is reached: what was timed before is all that there is.
            search.floor = min(search.floor, self._heap[0][0] if self._heap else inf)
            self._heap = []
            for seconds, plan in search._timed:
                self._push(seconds, _TIMED, plan)
            search.tally.cut_off = True

    def _push(self, bound: float, state: int, what: object) -> None:
        self._number += 1
        heapq.heappush(self._heap, (bound, -state, self._number, what))

    def _simple_enough(self, setting: Setting) -> bool:
        """Whether some plan of the setting can be simpler than the limit: by its axes, its lengths and its schedule."""
        limit = self.below()
        if limit is None:
            return True
        mesh, layers = setting.meshes[0], self.search.space.uniform.model.layers
        axes = sum(degree > 1 for degree in (mesh.data, mesh.tensor, mesh.expert)) + 1 + 2 * (mesh.context > 1)
        lengths = 1 if layers % setting.stages == 0 else 2
        least = (axes, lengths, 1) if len(setting.meshes) == 1 else (1, 1, 2)
        return (*least, 0, setting.schedule.rank, 0, setting.zero) < limit

    def next_below(self, ceiling: float) -> Found | None:
        """The next plan whose step takes at most `ceiling` seconds, None where there is none or a limit is reached."""
        search = self.search
        while self._heap and self._heap[0][0] <= ceiling:
            if search.late():
                search.floor = min(search.floor, self._heap[0][0])
                return None
            if search.spent and self._heap[0][1] != -_TIMED:
                # What is bounded from here on could only lead to plans that must not be priced.
                search.floor = min(search.floor, self._heap[0][0])
                self._heap = [entry for entry in self._heap if entry[1] == -_TIMED]
                heapq.heapify(self._heap)
                search.tally.cut_off = True
                continue
            bound, negative, _, what = heapq.heappop(self._heap)
            state = -negative
            if state == _TIMED:
                assert isinstance(what, Plan)
                if not self.wanted(what):
                    continue
                search.tally.yielded += 1
                return Found(what, bound, search.fit(what), search.pricer.ledger(what))
            if state == _SHAPE:
                assert isinstance(what, int)
                for one in search.space.cuts(search.space.shapes[what]):
                    self._push(search.work_bound(one), _SETTING, one)
            elif state == _PLAN:
                assert isinstance(what, Plan)
                if self.wanted(what) and search.fit(what) != "no":
                    self._push(search.priced(what), _TIMED, what)
            elif isinstance(what, Setting):
                self._setting(what, state, bound)
            else:
                assert isinstance(what, tuple)
                self._chain(what[0], what[1], bound)
        return None

    def _setting(self, setting: Setting, state: int, bound: float) -> None:
        search = self.search
        if not self._simple_enough(setting):
            return
        stages = search.search(setting)
        key = setting, "tables"
        if state == _SETTING and key not in search._counted:
            shortest = -(-stages.model.layers // setting.stages) if len(setting.meshes) == 1 else 1
            if (setting, "no") in search._counted or not stages.may_hold(shortest):
                search.too_large(setting)
                return
            if not search.bounded(setting) and not search.spend(
                setting, len({mesh.devices for mesh in setting.meshes}), BOUND
            ):
                search.floor = min(search.floor, bound)
                return
            search.tally.bounded += 1
            after = search.after(setting, fitting=False)
            self._push(max(bound, SLACK * (search.table_bound(setting) + after)), _BOUNDED, setting)
            return
        if key not in search._counted:
            if not search.spend(setting, 3 * len(stages.options), OPEN):
                search.floor = min(search.floor, bound)
                return
            search._counted.add(key)
        least = stages.least(1)
        if least == inf:
            search.too_large(setting)
            stages.forget()
            return
        bound = max(bound, SLACK * (least + search.after(setting, fitting=True)))
        if state != _OPENED:
            self._push(bound, _OPENED, setting)
            return
        for plan in search.seeds(setting):
            self._offer(setting, plan)
        self._push(bound, _CHAIN, (setting, 0))

    def _chain(self, setting: Setting, number: int, bound: float) -> None:
        search = self.search
        if not self._simple_enough(setting):
            return
        found = search.chain(setting, number)
        if found is None:
            return
        if not found.chain or search.enough(setting, number):
            search.floor = min(search.floor, bound)
            search.search(setting).forget()
            return
        if not search.uniform_chain(setting, found):
            self._offer(setting, search.search(setting).plan(found.chain), found.bound)
        bound = max(bound, SLACK * (found.bound + search.after(setting, fitting=True)))
        self._push(bound, _CHAIN, (setting, number + 1))

    def _offer(self, setting: Setting, plan: Plan, bound: float = 0.0) -> None:
        search = self.search
        if plan.identity in self._seen or plan.same_meshes is (len(setting.meshes) > 1):
            return
        if plan.same_meshes and _is_uniform(plan, search.space.uniform.model.layers):
            return
        self._seen.add(plan.identity)
        if self.wanted(plan):
            search.tally.bounded += 1
            self._push(max(SLACK * bound, search.pricer.bound(plan)), _PLAN, plan)


def _alike(setting: Setting) -> tuple[object, ...]:
    """What the durations of a setting's stages and its bound depend on, memory apart."""
    return (
        "table", setting.stages, setting.sequences, setting.accumulation, setting.sequence_parallel, max(1, setting.zero),
        setting.order, setting.meshes, setting.recomputes, setting.schedule is Schedule.ZB_H1,
    )  # fmt: skip


def _is_uniform(plan: Plan, layers: int) -> bool:
    kinds: set[Recompute] = {plan.recompute_of(k) for k in range(plan.pipeline)}
    even = even_stages(layers, plan.pipeline, plan.mesh)
    return len(kinds) == 1 and even is not None and all(a.layers == b.layers for a, b in zip(even, plan.stages, strict=True))
