"""What the stages of one setting cost and may hold, by the place of a stage in the pipeline and by its option.

Vocabulary. An *option* is a mesh with a kind of recomputation. A *probe* is a plan of stages of one layer that only asks for
costs; no plan of the space need look like it. Memory is asked of the ledger itself, stage by stage, at the place that a stage has
in the pipeline. Knows no chains, no bounds, no rule, and nothing of other settings but what was asked for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from math import gcd, inf

import numpy as np
from numpy.typing import NDArray

from ..cost.in_flight import in_flight
from ..cost.measured import MeasuredStage
from ..cost.memory import Fit
from ..frozen import dataclass
from ..model import Transformer, moe_layers
from ..plan import Mesh, Plan, Recompute, Role, Schedule, Stage
from .measured_work import exchange, measured
from .pricing import PlanPricer
from .setting import Floats, LayerCounts, Pair, Setting

_RANK: dict[Fit, int] = {"no": 0, "at_risk": 1, "yes": 2}


@dataclass(slots=True)
class StageOptions:
    """The stages of one setting on `devices` devices. `level`: the least fit that a stage must have, 1 may, 2 surely."""

    model: Transformer
    devices: int
    pricer: PlanPricer
    setting: Setting
    node: int
    counts: LayerCounts
    _fits: dict[tuple[object, ...], int] = field(default_factory=dict)
    _work: dict[tuple[int, int], tuple[Floats, Floats]] = field(default_factory=dict)
    _longest_of: dict[tuple[int, int, int], NDArray[np.int64]] = field(default_factory=dict)
    options: tuple[tuple[Mesh, Recompute], ...] = field(init=False)
    unit: int = field(init=False)
    _ways: list[float] | None = None
    _parts: dict[int, tuple[Floats, Floats, Floats]] = field(default_factory=dict)
    _places: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)
    _leaving: dict[Mesh, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        setting = self.setting
        self.options = tuple((mesh, kind) for mesh in setting.meshes for kind in setting.recomputes)
        # One mesh: the stage says how many devices are left, so they need no axis of their own.
        sizes = [mesh.devices for mesh in setting.meshes]
        self.unit = gcd(*sizes) if len(setting.meshes) > 1 else 0

    @property
    def ways(self) -> list[float]:
        """Seconds of each stage's message to the next one, of the last 0; of one mesh."""
        if self._ways is None:
            hops = self.pricer.pricer.time.hops(self._base(0))[0]
            self._ways = [*(hop.seconds for hop in hops), 0.0]
        return self._ways

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
        p = self.setting.stages
        stages = [Stage(layer, layer, mesh)] * p
        for k in {0, p - 1, *at}:
            first, end = at.get(k, (layer, layer))
            stages[k] = Stage(first, end, mesh, embedding=k == 0 and (first == 0 or k not in at), head=k == p - 1)
            assert end < self.model.layers
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
        p, ends = self.setting.stages, np.zeros((self.setting.stages, 2))
        alike = len(self.pricer.cluster.nodes) == 1
        rows = [self.costs_at(option, k) for k in range(1 if alike else p)] * (p if alike else 1)
        dense, routed = (np.array([row[kind] for row in rows]) for kind in (0, 1))
        ends[0], ends[-1] = rows[0][2], rows[-1][3]
        self._parts[option] = dense, routed, ends
        return self._parts[option]

    def costs_at(self, option: int, place: int) -> tuple[Pair, ...]:
        """(forward, total) of a dense layer, an MoE layer, the first stage's end and the last one's, as if at that place."""
        time, base, mesh = self.pricer.pricer.time, self._base(option), self.options[option][0]
        known = time.known_kinds
        p = self.setting.stages
        key = time.kind(base, place, mesh), p == 1
        if key not in known:
            found = [(0.0, 0.0)] * 4
            for number, layer in enumerate((self.counts.plain, self.counts.routed)):
                if layer is None:
                    continue
                bare = time.passes(base, place, Stage(layer, layer, mesh))
                found[number] = bare.forward, bare.total
                for end, ends in ((2, (True, p == 1)), (3, (p == 1, True))):
                    full = time.passes(base, place, Stage(layer, layer, mesh, *ends))
                    found[end] = max(0.0, full.forward - bare.forward), max(0.0, full.total - bare.total)
            known[key] = tuple(found)
        return known[key]

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
        if stage == self.setting.stages - 1:
            return 0.0
        if not self.unit:
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
        for kept in (self._work, self._longest_of, self._fits, self._parts):
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
