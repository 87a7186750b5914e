"""Plans of one setting, in the order of a proven lower bound: where the layers are cut, and what each stage runs on.

Vocabulary. A *setting* fixes the number of stages, the microbatches, the schedule and how states are sharded; an *option* is a
mesh with a kind of recomputation; a *chain* is one choice of (first layer, last layer, option) a stage. The bound of a chain is
that of its schedule: stage j waits for the first microbatch to pass the stages before it and then runs all microbatches, so the
step is at least max over j of [lead of the stages before j] + m x [work of j]. It is monotone in what is behind a stage, so a
table from the last stage backwards holds the least bound of every suffix, and best first along it yields chains in their order.

Memory is asked of the ledger itself, stage by stage, at the place that a stage has in the pipeline. Knows no rule, no layout of
operators, and nothing of other settings.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import field
from itertools import count
from math import fsum, gcd, inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..cost.in_flight import in_flight
from ..cost.measured import MeasuredStage
from ..cost.memory import Fit
from ..cost.schedule import trips
from ..frozen import dataclass
from ..model import Transformer, moe_layers
from ..plan import Mesh, Plan, Recompute, Role, Schedule, Stage
from .measured_work import exchange, measured
from .pricing import PlanPricer
from .setting import Bounded, Chain, Floats, LayerCounts, Setting
from .stages import solve_stages

_RANK: dict[Fit, int] = {"no": 0, "at_risk": 1, "yes": 2}
#: Stages that are asked for what follows their last pass, at most, for one bound.
AFTER = 300
#: Beginnings of chains that are continued for one more chain, some 50 us each.
EXPANSIONS = 2_000
#: Bounds within this factor are equal: what is left is rounding.
ROUNDING = 1 + 1e-12


class _Node(NamedTuple):
    stage: int
    layer: int
    left: int
    before: float
    best: float
    chain: Chain


@dataclass(slots=True)
class StageSearch:
    """The chains of one setting on `devices` devices. `level`: the least fit that a stage must have, 1 may, 2 surely."""

    model: Transformer
    devices: int
    pricer: PlanPricer
    setting: Setting
    node: int
    counts: LayerCounts
    _fits: dict[tuple[object, ...], int] = field(default_factory=dict)
    _work: dict[tuple[int, int], tuple[Floats, Floats]] = field(default_factory=dict)
    _longest_of: dict[tuple[int, int, int], NDArray[np.int64]] = field(default_factory=dict)
    _tables: dict[int, tuple[list[Floats], list[Floats]]] = field(default_factory=dict)
    options: tuple[tuple[Mesh, Recompute], ...] = field(init=False)
    unit: int = field(init=False)
    #: Beginnings of chains that were continued.
    expanded: int = 0
    ways: list[float] = field(init=False)
    _parts: dict[int, tuple[Floats, Floats, Floats]] = field(default_factory=dict)
    _places: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)
    _leaving: dict[Mesh, float] = field(default_factory=dict)
    _least: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        setting = self.setting
        self.options = tuple((mesh, kind) for mesh in setting.meshes for kind in setting.recomputes)
        # One mesh: the stage says how many devices are left, so they need no axis of their own.
        sizes = [mesh.devices for mesh in setting.meshes]
        self.unit = gcd(*sizes) if len(setting.meshes) > 1 else 0
        self.ways = [0.0] * setting.stages
        if not self.unit:
            hops = self.pricer.pricer.time.hops(self._base(0))[0]
            self.ways[: len(hops)] = [hop.seconds for hop in hops]

    def _base(self, option: int) -> Plan:
        """The probe of an option with the first layer on every stage; searches of other settings share its stages."""
        mesh, kind = self.options[option]
        stages = self.pricer.known_stages.get((mesh, self.setting.stages))
        if stages is None:
            stages = self.pricer.known_stages[mesh, self.setting.stages] = self._probe(option, 0, {}).stages
        return self._plan(stages, mesh, kind)

    @property
    def _units(self) -> int:
        return self.devices // self.unit if self.unit else 0

    def _size(self, option: int) -> int:
        return self.options[option][0].devices // self.unit if self.unit else 0

    # What a stage costs.

    def _probe(self, option: int, layer: int, at: dict[int, tuple[int, int]]) -> Plan:
        """A plan of stages of one layer on an option's mesh, stage k of `at` with its own layers. It only asks for costs."""
        mesh, kind = self.options[option]
        p, last = self.setting.stages, self.model.layers - 1
        stages = []
        for k in range(p):
            first, end = at.get(k, (layer, layer))
            stages.append(Stage(first, end, mesh, embedding=k == 0 and (first == 0 or k not in at), head=k == p - 1))
            assert end <= last
        return self._plan(tuple(stages), mesh, kind)

    def _plan(self, stages: tuple[Stage, ...], mesh: Mesh, kind: Recompute) -> Plan:
        one = self.setting
        return Plan(
            name="", stages=stages, microbatch=one.sequences // mesh.data, accumulation=one.accumulation, role=Role.CANDIDATE,
            schedule=one.schedule, recompute=kind, zero=one.zero, sequence_parallel=one.sequence_parallel, order=one.order,
            uniform=False,
        )  # fmt: skip

    def layer_costs(self, option: int) -> tuple[Floats, Floats, Floats]:
        """[stage, (forward, total)] of a dense layer, of an MoE layer, and of a stage's end."""
        if option in self._parts:
            return self._parts[option]
        time, p = self.pricer.pricer.time, self.setting.stages
        base, alike, mesh = self._base(option), len(self.pricer.cluster.nodes) == 1, self.options[option][0]
        rows, ends = list[Floats](), np.zeros((p, 2))
        for layer in (self.counts.plain, self.counts.routed):
            if layer is None:
                rows.append(np.zeros((p, 2)))
                continue
            here, with_ends = np.zeros((p, 2)), np.zeros((p, 2))
            for k in {0, 1, p - 1} if alike else range(p):
                bare = time.passes(base, k, Stage(layer, layer, mesh))
                full = time.passes(base, k, Stage(layer, layer, mesh, k == 0, k == p - 1)) if k in (0, p - 1) else bare
                here[k], with_ends[k] = (bare.forward, bare.total), (full.forward, full.total)
            if alike:  # Stages between the ends.
                here[2:-1], with_ends[2:-1] = here[1], with_ends[1]
            rows.append(here)
            ends = np.maximum(0.0, with_ends - here)
        self._parts[option] = rows[0], rows[1], ends
        return self._parts[option]

    def work(self, stage: int, option: int) -> tuple[Floats, Floats]:
        """([first, last] what a stage adds to those behind it, the work of a microbatch); inf where it holds no layer."""
        p = self.setting.stages
        mixed = len(self.pricer.cluster.nodes) > 1
        key = stage if mixed else 0 if stage == 0 else 2 if stage == p - 1 else 1, option
        split = self.setting.schedule is Schedule.ZB_H1
        if key not in self._work:
            dense, moe, ends = self.layer_costs(option)
            inside = np.isfinite(self.counts.dense)
            number, routed = np.where(inside, self.counts.dense, 0.0), self.counts.moe
            rows = [number * dense[stage, n] + routed * moe[stage, n] + ends[stage, n] for n in (0, 1)]
            forward = np.where(inside, rows[0], inf) if split else rows[0][:0]
            total = np.where(inside, rows[1], inf)
            if self.pricer.has_profile:
                alone = [(moe if moe_layers(self.model, i, i) else dense)[stage] for i in range(self.model.layers)]
                exchange(forward, total, self._measured(stage, option), alone, ends[stage])
            self._work[key] = forward, total
        forward, total = self._work[key]
        way = self.way(stage, option)
        return (forward + way if split else total + 2 * way), total

    def way(self, stage: int, option: int) -> float:
        """Seconds of a stage's message to the next one; of unequal meshes at least, to whichever of them it is."""
        if not self.unit or stage == self.setting.stages - 1:
            return self.ways[stage]
        mesh = self.options[option][0]
        if mesh not in self._leaving:
            probe = self._base(option)
            self._leaving[mesh] = min(self.pricer.least_hop(mesh, other, probe) for other in self.setting.meshes)
        return self._leaving[mesh]

    def _measured(self, stage: int, option: int) -> Iterator[tuple[int, int, MeasuredStage]]:
        mesh, setting = self.options[option][0], self.setting
        microbatch = setting.sequences // mesh.data
        return measured(self.pricer.numbers, self.model.layers, stage, setting.stages, mesh, microbatch)

    def forget(self) -> None:
        """Drop the tables, which are large; what is asked for again is computed again."""
        for kept in (self._work, self._tables, self._longest_of, self._fits, self._parts):
            kept.clear()

    # What a stage may hold.

    def fit(self, stage: int, option: int, first: int, last: int, *, measured: bool = False) -> int:
        """0: never fits, 1: may, 2: surely, at that place in the pipeline. `measured`: with what was measured there."""
        one, p = self.setting, self.setting.stages
        flight = in_flight(one.schedule, stage, p, one.accumulation, 1)
        moe = moe_layers(self.model, first, last)
        mixed = stage + 1 if len(self.pricer.cluster.nodes) > 1 else 0
        key = flight, option, last - first + 1 - moe, moe, stage == 0, stage == p - 1, mixed, first if measured else -1
        known = self._fits.get(key)
        if known is None:
            shared = None
            if not mixed and not measured:
                shared = self._asked(option, key[0], key[2:5], first == 0 or stage > 0, stage == p - 1)
                known = self.pricer.known_fits.get(shared)
            if known is None:
                probe = self._probe(option, min(first, self.model.layers - 1), {stage: (first, last)})
                known = _RANK[self.pricer.stage_fit(probe, stage, measured=measured)]
                if shared is not None:
                    self.pricer.known_fits[shared] = known
            self._fits[key] = known
        return known

    def _asked(self, option: int, *at: object) -> tuple[object, ...]:
        """What decides the memory of a stage: searches of other settings ask for the same, on mixed devices with a place."""
        one, (mesh, kind) = self.setting, self.options[option]
        return (
            *at, mesh, kind, one.sequences // mesh.data, one.zero, one.zero == 3 and one.accumulation > 1, one.sequence_parallel,
            one.schedule is Schedule.ZB_H1,
        )  # fmt: skip

    def _longest(self, stage: int, option: int, level: int) -> NDArray[np.int64]:
        """[first] the last layer up to which a stage fits, first - 1 where not even one layer does."""
        layers, p = self.model.layers, self.setting.stages
        most = layers - (p - 1)
        found = np.arange(layers) - 1
        moe = self.model.moe
        known: dict[int, int] = {}
        for first in range(stage, layers - (p - 1 - stage)) if stage else (0,):
            phase = 0
            if moe is not None:
                phase = first if first < moe.first_dense else moe.first_dense + (first - moe.first_dense) % moe.every
            end = layers - 1 if stage == p - 1 else layers - (p - 1 - stage) - 1
            room = min(most, end - first + 1)
            length = known.get(phase)
            if length is None or (moe is not None and length < room and first < moe.first_dense):
                low, high = 0, most if moe is None else room
                while low < high:
                    middle = (low + high + 1) // 2
                    if first + middle > layers:
                        high = middle - 1
                    elif self.fit(stage, option, first, first + middle - 1) >= level:
                        low = middle
                    else:
                        high = middle - 1
                length = low
                # A stage that starts late cannot show how long an earlier one may be.
                if first + most <= layers:
                    known[phase] = length
            found[first] = first + min(length, room) - 1
        return found

    def _allowed(self, stage: int, option: int, level: int) -> NDArray[np.bool_]:
        """[first, last] whether a stage fits there."""
        key = stage, option, level
        if key not in self._longest_of:
            self._longest_of[key] = self._longest(stage, option, level)
        inside: NDArray[np.bool_] = np.arange(self.model.layers)[None, :] <= self._longest_of[key][:, None]
        if self.pricer.has_profile:
            # Bytes that were measured need not grow with the layers.
            for first, last in self._remembered(stage, option):
                inside[first, last] = self.fit(stage, option, first, last, measured=True) >= level
        return inside

    def _remembered(self, stage: int, option: int) -> list[tuple[int, int]]:
        """The places of a stage at which some of its memory was measured."""
        key = stage, option
        if key not in self._places:
            self._places[key] = [(a, b) for a, b, one in self._measured(stage, option) if one.remembers]
        return self._places[key]

    def may_hold(self, length: int) -> bool:
        """Whether some stage of the pipeline may fit with so many layers: one of its last two, which hold the least."""
        if self.pricer.has_profile:
            return True
        p, layers = self.setting.stages, self.model.layers
        places = [(p - 1, layers - length), *([(p - 2, min(p - 2, layers - length))] if p > 1 else [])]
        options = range(len(self.options))
        return any(self.fit(stage, option, first, first + length - 1) > 0 for stage, first in places for option in options)

    # Least bounds of suffixes.

    def tables(self, level: int) -> tuple[list[Floats], list[Floats]]:
        """[stage][layer, units left] the least bound, and the least sum of leads, of what is behind; inf where none fits."""
        if level not in self._tables:
            p, layers, units, m = self.setting.stages, self.model.layers, self._units, self.setting.accumulation
            bounds, sums = [np.full((layers + 1, units + 1), inf) for _ in range(p + 1)], []
            sums = [table.copy() for table in bounds]
            bounds[p][layers, 0] = sums[p][layers, 0] = 0.0
            tight = [table.copy() for table in bounds] if self._trips(0) else bounds
            for stage in range(p - 1, -1, -1):
                for option in range(len(self.options)):
                    size = self._size(option)
                    if size > units:
                        continue
                    allowed = self._allowed(stage, option, level)
                    lead, total = self.work(stage, option)
                    lead = np.where(allowed, lead, inf)
                    heavy = np.where(allowed, m * total, inf)
                    columns = self._columns(stage, size)
                    if not columns.size or not allowed.any():
                        continue
                    for table, combined in ((bounds, heavy), (sums, None), *(((tight, heavy),) if tight is not bounds else ())):
                        reached = self._reached(lead, combined, table[stage + 1], columns - size)
                        target = table[stage][:layers]
                        target[:, columns] = np.minimum(target[:, columns], reached)
                if number := self._trips(stage):
                    np.maximum(tight[stage], number * sums[stage], out=tight[stage])
            self._tables[level] = bounds, sums
            self._least[level] = float(tight[0][0, units])
        return self._tables[level]

    def _trips(self, stage: int) -> int:
        """How often what is behind the beginning of a stage is gone through in a row, messages included; 0 where nothing says."""
        setting = self.setting
        return trips(setting.accumulation, setting.stages - stage) if setting.schedule is Schedule.ONE_F_ONE_B else 0

    def _reached(self, lead: Floats, heavy: Floats | None, behind: Floats, columns: NDArray[np.int64]) -> Floats:
        """[first, columns] least over the last layer of lead + what is behind, no less than `heavy`."""
        if not self.unit:
            sums = lead + behind[1:, 0]
            return np.asarray((sums if heavy is None else np.maximum(heavy, sums)).min(axis=1, keepdims=True))
        sums = lead[:, :, None] + behind[1:, columns][None]
        return np.asarray((sums if heavy is None else np.maximum(heavy[:, :, None], sums)).min(axis=1))

    def _columns(self, stage: int, size: int) -> NDArray[np.int64]:
        """Units left before a stage of `size`, such that it lies within a node or on whole nodes, and each later one has one."""
        units, behind = self._units, self.setting.stages - 1 - stage
        if not self.unit:
            return np.zeros(1, dtype=np.int64)
        left = np.arange(size + behind, units + 1)
        aligned = (units - left) * self.unit % min(size * self.unit, self.node) == 0
        if stage == 0:
            aligned &= left == units
        return np.asarray(left[aligned])

    def after(self, *, fitting: bool) -> float | None:
        """Seconds after the pipeline that every chain has: synchronisation and optimizer of its longest stage, at least.

        Some stage holds a p-th of the layers; what such a stage costs after its last pass is asked for every length (of those
        that may fit, where `fitting`) at every place. None where that is more to ask than it saves.
        """
        p, layers = self.setting.stages, self.model.layers
        shortest = -(-layers // p)
        places = range(p) if len(self.pricer.cluster.nodes) > 1 else sorted({0, min(1, p - 1), p - 1})
        if not fitting and len(places) * len(self.options) * (layers - p + 2 - shortest) > AFTER:
            return None
        asked: dict[tuple[int, int, int, int], tuple[int, int]] = {}
        number = self.counts.dense + self.counts.moe
        long = (number >= shortest) & (number <= layers - p + 1)
        for stage in places:
            there = long.copy()
            there[: max(0, stage)] = False
            for option in range(len(self.options)):
                for i, j in self.counts.unlike(there & self._allowed(stage, option, 1) if fitting else there):
                    asked[stage, option, j - i, int(self.counts.moe[i, j])] = i, j
        if not asked or len(asked) > AFTER:
            return None
        bases = [self._base(option) for option in range(len(self.options))]
        return min(
            self.pricer.after(
                bases[option], stage, Stage(first, last, self.options[option][0], embedding=stage == 0, head=stage == p - 1)
            )
            for (stage, option, _, _), (first, last) in asked.items()
        )

    def least(self, level: int = 1) -> float:
        """The least bound of all chains, inf where none fits."""
        if level not in self._least:
            self.tables(level)
        return self._least[level]

    def chains(self, level: int = 1) -> Iterator[Bounded]:
        """All chains whose stages fit, in the order of their bound; among equal bounds short sums first.

        Bounds that differ by rounding alone count as equal: sums formed in another order would else make every beginning of
        equal bound go before the end of one. After `EXPANSIONS` beginnings for one chain the last is empty: no chain that was
        not yielded is below its bound.
        """
        bounds, sums = self.tables(level)
        m, units, p = self.setting.accumulation, self._units, self.setting.stages
        number = count()
        # Not what round trips add: it would tell apart what is equal, and every beginning would be continued before one ends.
        least = float(bounds[0][0, self._units])
        heap = [(least, 0, 0.0, next(number), _Node(0, 0, units, 0.0, 0.0, ()))] if least < inf else []
        expanded = 0
        while heap:
            bound, _, _, _, node = heapq.heappop(heap)
            if node.stage == p:
                expanded = 0
                yield Bounded(bound, node.chain)
                continue
            if expanded == EXPANSIONS:
                yield Bounded(bound, ())
                return
            expanded += 1
            self.expanded += 1
            equal = bound * ROUNDING
            for option in range(len(self.options)):
                size = self._size(option)
                if self.unit and node.left not in self._columns(node.stage, size):
                    continue
                allowed = self._allowed(node.stage, option, level)[node.layer]
                lead, total = (table[node.layer] for table in self.work(node.stage, option))
                best = np.maximum(node.best, node.before + m * total)
                before = node.before + lead
                reached = np.maximum(best, before + bounds[node.stage + 1][1:, node.left - size])
                for last in np.flatnonzero(allowed & (reached < inf)):
                    end = int(last)
                    after = float(before[end])
                    child = _Node(
                        node.stage + 1, end + 1, node.left - size, after, float(best[end]),
                        (*node.chain, (node.layer, end, option)),
                    )  # fmt: skip
                    estimate = after + float(sums[node.stage + 1][end + 1, node.left - size])
                    key = float(reached[end])
                    key = bound if key <= equal else key
                    heapq.heappush(heap, (key, -child.stage, estimate, next(number), child))

    def ignoring_memory(self) -> float:
        """The least bound of all chains whether they fit or not: the quickest option of each size at every place."""
        p, layers, units, m = self.setting.stages, self.model.layers, self._units, self.setting.accumulation
        sizes: dict[int, list[int]] = {}
        for option in range(len(self.options)):
            sizes.setdefault(self._size(option), []).append(option)
        table = np.full((layers + 1, units + 1), inf)
        table[layers, 0] = 0.0
        whole = table.copy()
        for stage in range(p - 1, -1, -1):
            next_table, next_whole = np.full_like(table, inf), np.full_like(table, inf)
            for size, options in sizes.items():
                columns = self._columns(stage, size)
                if size > units or not columns.size:
                    continue
                rows = [self.work(stage, option) for option in options]
                lead = rows[0][0] if len(rows) == 1 else np.minimum.reduce([row[0] for row in rows])
                heavy = m * (rows[0][1] if len(rows) == 1 else np.minimum.reduce([row[1] for row in rows]))
                reached = self._reached(lead, heavy, table, columns - size)
                next_table[:layers, columns] = np.minimum(next_table[:layers, columns], reached)
                if self._trips(stage):
                    passed = self._reached(lead, None, whole, columns - size)
                    next_whole[:layers, columns] = np.minimum(next_whole[:layers, columns], passed)
            table, whole = next_table, next_whole
            if number := self._trips(stage):
                np.maximum(table, number * whole, out=table)
        return float(table[0, units])

    def shortest(self, level: int) -> Chain | None:
        """The chain that the stage solver finds of least sum + (m - 1) max, on one mesh and one device type; None if none fits.

        Its costs are those of a middle stage with the ends' added, its transfers the mean hop, its memory that of the place.
        """
        p, layers, m = self.setting.stages, self.model.layers, self.setting.accumulation
        if self.unit or len(self.pricer.cluster.nodes) > 1:
            return None
        cost = np.full((layers, layers, 1, len(self.options)), inf)
        later = np.full(cost.shape, -1, dtype=np.int64)
        for option in range(len(self.options)):
            _, middle = self.work(min(1, p - 1), option)
            _, first = self.work(0, option)
            _, last = self.work(p - 1, option)
            here = middle.copy() if p > 2 else first.copy()
            here[0], here[1:, -1] = first[0], last[1:, -1]
            cost[:, :, 0, option] = here
            for stage in range(p - 1, -1, -1):
                allowed = self._allowed(stage, option, level)
                behind = later[:, :, 0, option]
                later[:, :, 0, option] = np.where(allowed & (behind == p - 2 - stage), p - 1 - stage, behind)
        hop = fsum(self.ways) / max(1, p - 1)
        found = solve_stages(cost, later, [1], p, m, transfer_cost=2 * hop)
        return tuple((i, j, c) for i, j, _, c in found.stages) if found.stages else None

    # Chains and plans.

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
        return self._plan(stages, stages[0].mesh, usual)

    def place(self, length: int, option: int) -> Plan:
        """A plan whose last stage holds `length` layers: it stands for a pair of stage and mesh."""
        stage, last = self.setting.stages - 1, self.model.layers - 1
        return self._probe(option, 0, {stage: (last - length + 1, last)})

    def excess(self, length: int, option: int) -> tuple[int, str]:
        """(bytes, largest row) by which a last stage of `length` layers exceeds its device; 0 where it fits."""
        p, known = self.setting.stages, self.pricer.known_excess
        shared = self._asked(option, in_flight(self.setting.schedule, p - 1, p, self.setting.accumulation, 1), length)
        if shared not in known or self.pricer.has_profile or len(self.pricer.cluster.nodes) > 1:
            memory = self.pricer.stage_ledger(self.place(length, option), p - 1)
            known[shared] = self.pricer.stage_excess(memory), max(memory.rows, key=lambda row: row.bytes).name
        return known[shared]
