"""Chains of stages over the layers of a graph, in the order of a proven lower bound: its cuts, and what each stage runs on.

The vocabulary and the bound are those of `stage_search`: stage j waits for the first microbatch to pass the stages before it and
then runs all microbatches, so a step is at least max over j of [lead of the stages before j] + m x [work of j], messages at their
least included. Here every layer has its own cost, a boundary its own bytes, and a stage the layouts that are best for it. A table
from the last stage backwards holds the least bound of every suffix; best first along it yields chains in their order. Knows no
rule and nothing of other settings.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from math import fsum, gcd, inf

import numpy as np
from numpy.typing import NDArray

from ..cost.in_flight import in_flight
from ..cost.measured import MeasuredStage
from ..plan import Mesh, Plan, Recompute, Role, Schedule, Stage
from .graph_pricing import GraphPlanPricer
from .measured_work import places
from .setting import Bounded, Chain, Floats, Setting

#: Beginnings of chains that are continued for one more chain.
EXPANSIONS = 2_000
#: More bytes than any stage exceeds its device by, and the least difference between two misses that is looked for.
_ANY, _STEP = 2**80, 2**20


class GraphChains:
    """The chains of one setting whose stages may fit."""

    def __init__(self, pricer: GraphPlanPricer, setting: Setting) -> None:
        self.pricer, self.setting = pricer, setting
        self.layers = pricer.graph.layers
        cluster = pricer.cluster
        self.devices, self.node = cluster.devices, min(cluster.devices_per_node, cluster.devices)
        self.options: tuple[tuple[Mesh, Recompute], ...] = tuple(
            (mesh, kind) for mesh in setting.meshes for kind in setting.recomputes
        )
        sizes = [mesh.devices for mesh in setting.meshes]
        # On one mesh the stage says how many devices are left, so they need no axis of their own.
        self.unit = gcd(*sizes) if len(setting.meshes) > 1 else 0
        self.units = self.devices // self.unit if self.unit else 0
        self._works: dict[int, tuple[Floats, Floats]] = {}
        self._tables: list[Floats] | None = None
        self._aligned: dict[tuple[int, int], NDArray[np.int64]] = {}
        self._inside: dict[tuple[int, int], NDArray[np.bool_]] = {}
        self._measured: dict[Mesh, list[tuple[int, int, MeasuredStage]]] = {}
        self._places: dict[Mesh, frozenset[tuple[int, int]]] = {}
        self._excesses: dict[tuple[int, int, int, int], tuple[int, str]] = {}
        #: Beginnings that were continued.
        self.expanded = 0

    # What a stage costs and holds.

    def _size(self, option: int) -> int:
        return self.options[option][0].devices // self.unit if self.unit else 0

    def probe(self, option: int, stage: int, first: int, last: int) -> Plan:
        """A plan with one stage in place, all others of one layer: it only asks for that stage's cost."""
        mesh, kind = self.options[option]
        p = self.setting.stages
        stages = tuple(
            Stage(first, last, mesh, k == 0, k == p - 1) if k == stage else Stage(0, 0, mesh, k == 0, k == p - 1)
            for k in range(p)
        )
        return self._plan(stages, mesh, kind)

    def _plan(self, stages: tuple[Stage, ...], mesh: Mesh, kind: Recompute) -> Plan:
        one = self.setting
        return Plan(
            name="", stages=stages, microbatch=one.sequences // mesh.data, accumulation=one.accumulation, role=Role.CANDIDATE,
            schedule=one.schedule, recompute=kind, zero=one.zero, order=one.order, uniform=False,
        )  # fmt: skip

    def work(self, option: int) -> tuple[Floats, Floats]:
        """([first, last] what a stage adds to those behind it, the work of a microbatch); inf where last < first."""
        found = self._works.get(option)
        if found is None:
            mesh, kind = self.options[option]
            plan = self.probe(option, 0, 0, 0)
            forward, total = self.pricer.work_table(plan, mesh, kind)
            ways = self.pricer.least_messages(plan, mesh, self.setting.meshes)
            split = self.setting.schedule is Schedule.ZB_H1
            if self.pricer.has_profile:
                forward, total = self._exchanged(option, forward, total)
            found = self._works[option] = (forward + ways if split else total + 2 * ways, total)
        return found

    def measured(self, option: int) -> list[tuple[int, int, MeasuredStage]]:
        """(first, last, what was measured) of every run of layers that a stage may hold on an option's mesh."""
        mesh = self.options[option][0]
        known = self._measured.get(mesh)
        if known is None:
            microbatch = self.setting.sequences // mesh.data
            known = self._measured[mesh] = []
            for first in range(self.layers):
                for last in range(first, self.layers):
                    found = self.pricer.numbers(first, last, mesh, microbatch, False, False)
                    if found is not None:
                        known.append((first, last, found))
        return known

    def _exchanged(self, option: int, forward: Floats, total: Floats) -> tuple[Floats, Floats]:
        """The tables with what was measured in place of the estimates; of what was not, each layer in its own quickest way."""
        forward, total = forward.copy(), total.copy()
        alone = [(float(a), float(b)) for a, b in zip(forward.diagonal(), total.diagonal(), strict=True)]
        for first, last, one in self.measured(option):
            if one.timed:
                rest = [] if one.whole else [alone[k] for k in range(first, last + 1) if k not in (one.layers or ())]
                forward[first, last] = fsum(row[0] for row in rest) + one.forward
                total[first, last] = fsum(row[1] for row in rest) + one.durations.total
        return forward, total

    def _reach(self, stage: int, option: int) -> NDArray[np.int64]:
        """[first] the last layer up to which a stage may hold at that place in the pipeline; first - 1 where it holds none.

        With every layer and every microbatch in flight more a stage holds more, so that what is known of other numbers of
        microbatches, in whatever setting, bounds this one.
        """
        one, (mesh, kind) = self.setting, self.options[option]
        held = in_flight(one.schedule, stage, one.stages, one.accumulation, 1).chunks
        key = (
            "reach", mesh, kind, one.sequences // mesh.data, one.zero, one.zero == 3 and one.accumulation > 1, one.stages > 1,
            one.schedule, one.order, one.stages if one.order[-1:] != ("pipeline",) else 0,
        )  # fmt: skip
        known = self.pricer.reaches.setdefault(key, {})
        if held not in known:
            fewer = max((number for number in known if number < held), default=None)
            more = min((number for number in known if number > held), default=None)
            most = known[fewer] if fewer is not None else np.full(self.layers, self.layers - 1)
            least = known[more] if more is not None else np.arange(self.layers) - 1
            found, last, whole = np.empty(self.layers, dtype=np.int64), -1, True
            for first in range(self.layers):

                def fits(end: int, first: int = first) -> bool:
                    return self._may(key, held, stage, option, first, end)

                # Without its first layer a stage holds less: it reaches at least as far.
                last = _furthest(max(last, int(least[first])), int(most[first]), fits, whole=whole, near=first > 0)
                whole = last == most[first]
                found[first] = last
            known[held] = found
        return known[held]

    def _may(self, key: tuple[object, ...], held: int, stage: int, option: int, first: int, last: int) -> bool:
        """Whether a stage may fit with `held` microbatches in flight. Runs that are alike share what is known of them."""
        run = key, self.pricer.graph.signature(first, last, self.setting.sequences // self.options[option][0].data)
        fitting, missing = self.pricer.flights.get(run, (0, inf))
        if fitting < held < missing:
            if self.pricer.stage_may_fit(self.probe(option, stage, first, last), stage):
                fitting = held
            else:
                missing = held
            self.pricer.flights[run] = fitting, missing
        return held <= fitting

    def _allowed(self, stage: int, option: int) -> NDArray[np.bool_]:
        """[first, last] whether a stage may fit there."""
        key = stage, option
        known = self._inside.get(key)
        if known is None:
            p, layers = self.setting.stages, self.layers
            reach = np.minimum(self._reach(stage, option), layers - 1 - (p - 1 - stage))
            # The stages before this one hold a layer each.
            reach[:stage] = -1
            if stage == 0:
                reach[1:] = -1
            known = self._inside[key] = np.arange(layers)[None, :] <= reach[:, None]
            known &= np.arange(layers)[None, :] >= np.arange(layers)[:, None]
            if self.pricer.has_profile:
                # Bytes that were measured need not grow with the layers.
                for first, last in places(layers, stage, p):
                    if (first, last) in self._remembered(option):
                        known[first, last] = self.pricer.stage_fit(self.probe(option, stage, first, last), stage) != "no"
        return known

    def _remembered(self, option: int) -> frozenset[tuple[int, int]]:
        """The runs of layers of which some memory was measured."""
        mesh = self.options[option][0]
        if mesh not in self._places:
            self._places[mesh] = frozenset((a, b) for a, b, one in self.measured(option) if one.remembers)
        return self._places[mesh]

    # Least bounds of suffixes.

    def _columns(self, stage: int, size: int) -> NDArray[np.int64]:
        """Units left before a stage of `size`, such that it lies within a node or on whole nodes, and each later one has one."""
        known = self._aligned.get((stage, size))
        if known is None:
            behind = self.setting.stages - 1 - stage
            if not self.unit:
                left = np.zeros(1, dtype=np.int64)
            else:
                left = np.arange(size + behind, self.units + 1)
                aligned = (self.units - left) * self.unit % min(size * self.unit, self.node) == 0
                if stage == 0:
                    aligned &= left == self.units
                left = np.asarray(left[aligned])
            known = self._aligned[stage, size] = left
        return known

    def _table(self, *, fitting: bool) -> list[Floats]:
        """[stage][layer, units left] the least bound of what is behind; inf where none fits."""
        p, layers, m = self.setting.stages, self.layers, self.setting.accumulation
        tables = [np.full((layers + 1, self.units + 1), inf) for _ in range(p + 1)]
        tables[p][layers, 0] = 0.0
        for stage in range(p - 1, -1, -1):
            for option in range(len(self.options)):
                size = self._size(option)
                columns = self._columns(stage, size)
                if size > self.units or not columns.size:
                    continue
                lead, total = self.work(option)
                if fitting:
                    allowed = self._allowed(stage, option)
                    lead, total = np.where(allowed, lead, inf), np.where(allowed, total, inf)
                behind = tables[stage + 1][1:, columns - size]
                reached = np.maximum((m * total)[:, :, None], lead[:, :, None] + behind[None]).min(axis=1)
                target = tables[stage][:layers]
                target[:, columns] = np.minimum(target[:, columns], reached)
        return tables

    def ignoring_memory(self) -> float:
        """The least bound of all chains whether they fit or not."""
        return float(self._table(fitting=False)[0][0, self.units])

    @property
    def tables(self) -> list[Floats]:
        """The tables of chains that may fit."""
        if self._tables is None:
            self._tables = self._table(fitting=True)
        return self._tables

    def least(self) -> float:
        """The least bound of all chains that may fit, inf where none does."""
        return float(self.tables[0][0, self.units])

    def chains(self) -> Iterator[Bounded]:
        """All chains whose stages may fit, in the order of their bound; an empty one where too many beginnings were continued."""
        tables, m, p, number = self.tables, self.setting.accumulation, self.setting.stages, count()
        least = self.least()
        heap: list[tuple[float, int, int, tuple[int, int, float, float, Chain]]] = []
        if least < inf:
            heap.append((least, 0, next(number), (0, self.units, 0.0, 0.0, ())))
        expanded = 0
        while heap:
            bound, negative, _, (layer, left, before, best, chain) = heapq.heappop(heap)
            stage = -negative
            if stage == p:
                expanded = 0
                yield Bounded(bound, chain)
                continue
            if expanded == EXPANSIONS:
                yield Bounded(bound, ())
                return
            expanded += 1
            self.expanded += 1
            for option in range(len(self.options)):
                size = self._size(option)
                if self.unit and left not in self._columns(stage, size):
                    continue
                allowed = self._allowed(stage, option)[layer]
                lead, total = (table[layer] for table in self.work(option))
                heavy, after = np.maximum(best, before + m * total), before + lead
                reached = np.maximum(heavy, after + tables[stage + 1][1:, left - size])
                for last in np.flatnonzero(allowed & (reached < inf)).tolist():
                    node = (last + 1, left - size, float(after[last]), float(heavy[last]), (*chain, (layer, last, option)))
                    heapq.heappush(heap, (max(bound, float(reached[last])), -(stage + 1), next(number), node))

    # Plans.

    def plan(self, chain: Chain) -> Plan:
        """The plan of a chain. The recomputation of most stages is the plan's, the others state their own."""
        kinds = [self.options[option][1] for _, _, option in chain]
        usual = max(dict.fromkeys(kinds), key=kinds.count)
        p = len(chain)
        stages = tuple(
            Stage(
                first, last, self.options[option][0], embedding=k == 0, head=k == p - 1,
                recompute=None if kinds[k] is usual else kinds[k],
            )
            for k, (first, last, option) in enumerate(chain)
        )  # fmt: skip
        return replace(self._plan(stages, stages[0].mesh, usual))

    # What is nearest to fitting where nothing fits.

    def nearest(self, below: int | None) -> tuple[Plan, int, int, str] | None:
        """(plan, stage, excess, largest row) of the plan whose fullest stage exceeds its device by the least, to a thousandth;
        None where none exceeds it by less than `below` bytes.
        """
        chain = self._within(_ANY if below is None else below - 1)
        if chain is None:
            return None
        low, (excess, stage, row) = 0, self._fullest(chain)
        while excess - low > max(_STEP, excess // 1000):
            middle = (low + excess) // 2
            other = self._within(middle)
            if other is None:
                low = middle
            else:
                chain, (excess, stage, row) = other, self._fullest(other)
        return self.plan(chain), stage, excess, row

    def _within(self, most: int) -> Chain | None:
        """A chain of which no stage exceeds its device by more than `most` bytes: stage by stage as far as it goes, for a stage
        that begins later holds less.
        """
        p, layers = self.setting.stages, self.layers
        reached: dict[int, tuple[int, Chain]] = {self.units: (0, ())}
        for stage in range(p):
            found: dict[int, tuple[int, Chain]] = {}
            for left, (first, chain) in reached.items():
                for option in range(len(self.options)):
                    size = self._size(option)
                    if self.unit and left not in self._columns(stage, size):
                        continue
                    low, high = first - 1, layers - (p - stage)
                    if stage == p - 1 and (left != size or self._excess(stage, option, first, high)[0] > most):
                        continue
                    low = high if stage == p - 1 else low
                    while low < high:
                        middle = -(-(low + high) // 2)
                        inside = self._excess(stage, option, first, middle)[0] <= most
                        low, high = (middle, high) if inside else (low, middle - 1)
                    if low >= first and low >= found.get(left - size, (0,))[0]:
                        found[left - size] = low + 1, (*chain, (first, low, option))
            reached = found
        return reached[0][1] if 0 in reached else None

    def _fullest(self, chain: Chain) -> tuple[int, int, str]:
        """(excess, stage, largest row) of the stage of a chain that exceeds its device by the most."""
        rows = [(*self._excess(k, option, first, last), k) for k, (first, last, option) in enumerate(chain)]
        excess, row, stage = max(rows, key=lambda one: one[0])
        return excess, stage, row

    def _excess(self, stage: int, option: int, first: int, last: int) -> tuple[int, str]:
        """(bytes by which a stage exceeds its device, its largest row)."""
        key = stage, option, first, last
        found = self._excesses.get(key)
        if found is None:
            memory = self.pricer.stage_ledger(self.probe(option, stage, first, last), stage)
            row = max(memory.rows, key=lambda one: one.bytes)
            found = self._excesses[key] = self.pricer.stage_excess(memory), row.name
        return found


def _furthest(low: int, high: int, fits: Callable[[int], bool], *, whole: bool, near: bool) -> int:
    """The largest of low .. high that fits, where low does and nothing behind one that does not. `whole`: high is likely; `near`:
    one close to low is.
    """
    if whole and low < high:
        if fits(high):
            return high
        high -= 1
    step = 1
    while near and low < high:
        at = min(high, low + step)
        if not fits(at):
            high = at - 1
            break
        low, step = at, 2 * step
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
