"""Plans of one setting, in the order of a proven lower bound: where the layers are cut, and what each stage runs on.

Vocabulary. A *setting* fixes the number of stages, the microbatches, the schedule and how states are sharded; an *option* is a
mesh with a kind of recomputation; a *chain* is one choice of (first layer, last layer, option) a stage. The bound of a chain is
that of its schedule: stage j waits for the first microbatch to pass the stages before it and then runs all microbatches, so the
step is at least max over j of [lead of the stages before j] + m x [work of j]. It is monotone in what is behind a stage, so a
table from the last stage backwards holds the least bound of every suffix, and best first along it yields chains in their order.

What a stage costs and may hold is asked of `stage_options`. Knows no rule, no layout of operators, and nothing of other settings.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import field
from itertools import count
from math import fsum, inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..cost.schedule import trips
from ..frozen import dataclass
from ..plan import Plan, Schedule, Stage
from .setting import Bounded, Chain, Floats
from .stage_options import StageOptions
from .stages import solve_stages

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
class StageSearch(StageOptions):
    """The chains of one setting. `level`: the least fit that a stage must have, 1 may, 2 surely."""

    _tables: dict[int, tuple[list[Floats], list[Floats]]] = field(default_factory=dict)
    #: Beginnings of chains that were continued.
    expanded: int = 0
    _least: dict[int, float] = field(default_factory=dict)

    def forget(self) -> None:
        """Drop the tables, which are large; what is asked for again is computed again."""
        StageOptions.forget(self)
        self._tables.clear()

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
        asked: dict[tuple[int, int], list[tuple[int, int]]] = {}
        number = self.counts.dense + self.counts.moe
        long = (number >= shortest) & (number <= layers - p + 1)
        for stage in places:
            there = long.copy()
            there[: max(0, stage)] = False
            for option in range(len(self.options)):
                asked[stage, option] = list(self.counts.unlike(there & self._allowed(stage, option, 1) if fitting else there))
        if not 0 < sum(map(len, asked.values())) <= AFTER:
            return None
        return min(
            self.pricer.least_after(
                self._base(option), stage,
                [Stage(*ends, self.options[option][0], embedding=stage == 0, head=stage == p - 1) for ends in runs],
            )
            for (stage, option), runs in asked.items() if runs
        )  # fmt: skip

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
