"""What a review takes from the world, one by one, and the same case with another value of it.

Vocabulary: an *input* is one such quantity with today's value and the range that its evidence leaves; a *world* is the case with
some inputs at other values, ready to price plans in. Knows nothing of how plans are chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..cluster import Cluster, Collective, Tier
from ..cost.intervals import GRADE_RANGE
from ..cost.measured import MeasuredNumbers
from ..cost.schedule import closed_form
from ..hardware import DeviceSheet, Ranged
from ..plan import Plan
from ..proposal import Case
from ..quantity import Dimension, Provenance
from ..search.pricing import PlanPricer
from .pricers import pricer_of

#: Factors on today's value at which a search for a break-even looks, nearest first; in between it bisects.
STEPS = (1.25, 2.5, 10.0)


@dataclass(frozen=True, slots=True)
class World:
    """A pricer under other values. `slower` stretches the stages of the plan of that identity; `batch` is sequences a step."""

    pricer: PlanPricer
    #: The allocator's reserve over today's, where memory differs; None where it is today's.
    memory: float | None = None
    slower: tuple[tuple[object, ...], float] | None = None
    batch: int | None = None
    #: What prices time, where it is as today; what it has computed is kept.
    today: PlanPricer | None = None

    def at(self, plan: Plan) -> Plan | None:
        """The plan at this world's batch: another number of microbatches; None where it does not divide."""
        if self.batch is None:
            return plan
        each = plan.microbatch * plan.mesh.data
        return replace(plan, accumulation=self.batch // each) if self.batch % each == 0 else None

    def seconds(self, plan: Plan) -> float:
        """Step time: by the closed form of the schedule, over measured stages as they are reported."""
        pricer = self.today or self.pricer
        if pricer.timed(plan) is not None:
            return pricer.seconds(plan)
        time = pricer.pricer.time
        if self.slower is None or plan.identity != self.slower[0]:
            return time.seconds(plan)
        factor = self.slower[1]
        costs = time.costs(plan)
        stages = [cost.durations._replace(**{k: v * factor for k, v in cost.durations._asdict().items()}) for cost in costs]
        transfers = [hop.seconds for hop in time.hops(plan)[0]]
        form = closed_form(plan.schedule, stages, transfers, plan.accumulation, plan.interleave)
        today = closed_form(plan.schedule, [c.durations for c in costs], transfers, plan.accumulation, plan.interleave)
        return time.seconds(plan) - today.seconds + form.seconds


@dataclass(frozen=True, slots=True)
class Input:
    """One quantity that the answer may hang on. `low` and `high`: the range that its evidence leaves; `at` makes a world."""

    name: str
    dimension: Dimension
    today: float
    low: float
    high: float
    provenance: Provenance | None
    why_range: str
    #: Values to look at below and above today's, nearest first.
    below: tuple[float, ...]
    above: tuple[float, ...]
    change: Callable[[Basis, float], Basis]
    #: Sides whose end may bring another plan to the front: -1 below, 1 above. Another input has it already, where empty.
    leads: tuple[int, ...] = (-1, 1)


@dataclass(frozen=True, slots=True)
class Basis:
    """The parts of a case that inputs change; a world is made of them at the end, so that changes can be put together."""

    case: Case
    cluster: Cluster
    today: PlanPricer
    measured: MeasuredNumbers
    memory: float | None = None
    time: bool = False
    slower: tuple[tuple[object, ...], float] | None = None

    def world(self) -> World:
        """A world of these parts."""
        if self.memory is None and not self.time:
            return World(self.today, slower=self.slower)
        pricer = pricer_of(self.case, self.cluster, self.measured, self.today.headroom, self.today)
        # No input changes the bytes of tensors, only what the allocator keeps beside them.
        pricer.memory_model.terms = self.today.memory_model.terms
        pricer.stretched = self.slower
        return World(pricer, self.memory, self.slower, today=None if self.time else self.today)


def inputs_of(case: Case, plan: Plan, stage_s: float) -> Iterator[Input]:
    """The inputs of a case whose recommended plan is `plan`, with `stage_s` seconds a microbatch on its slowest stage."""
    cluster = case.cluster
    assert cluster is not None
    for tier in cluster.tiers:
        if tier.span <= 1:
            continue
        low, high = GRADE_RANGE[tier.bandwidth.grade]
        grade = f"what a {tier.bandwidth.grade.value} figure leaves open"
        value = float(tier.bandwidth.value)
        yield _scaled(
            f"bandwidth of {tier.name}", tier.bandwidth.dimension, value, low * value, high * value,
            tier.bandwidth.provenance, grade, _bandwidth(tier),
        )  # fmt: skip
        delay = float(tier.latency.value)
        if delay > 0:
            low, high = GRADE_RANGE[tier.latency.grade]
            yield _scaled(
                f"latency of {tier.name}", tier.latency.dimension, delay, delay / high, delay / low,
                tier.latency.provenance, f"what a {tier.latency.grade.value} figure leaves open", _latency(tier), leads=(1,),
            )  # fmt: skip
    fabric = cluster.tiers[-1]
    if fabric.span > cluster.devices_per_node:
        share = cluster.contention
        yield Input(
            "share of the fabric that others use", Dimension.FRACTION, share, share, share, None, "as stated",
            tuple(one for one in (share / 2, 0.0) if one < share),
            tuple(share + (1 - share) * part for part in (0.2, 0.6, 0.9)),
            _contention(fabric), leads=(),
        )  # fmt: skip
    sheet = cluster.device
    rates = (("gemm", "share of peak in matrix products", sheet.efficiency.gemm),
             ("memory", "share of memory bandwidth", sheet.efficiency.memory))  # fmt: skip
    for key, name, ranged in rates:
        yield _of_range(name, ranged, _efficiency(key, ranged.value), most=1.0)
    yield _of_range("allocator's reserve of memory", sheet.allocator_reserve, _reserve(sheet.allocator_reserve.value), most=1.0)
    yield Input(
        "latency of the recommended plan's stages, all alike, others' as they are", Dimension.TIME, stage_s, stage_s, stage_s,
        None, "stands with the efficiencies",
        tuple(stage_s / factor for factor in STEPS), tuple(stage_s * factor for factor in STEPS), _stages(plan, stage_s),
        leads=(),
    )  # fmt: skip


def _scaled(
    name: str, dimension: Dimension, today: float, low: float, high: float, provenance: Provenance | None, why: str,
    change: Callable[[Basis, float], Basis], most: float = float("inf"), leads: tuple[int, ...] = (-1, 1),
) -> Input:  # fmt: skip
    above = tuple(dict.fromkeys(min(most, today * factor) for factor in STEPS if today < most))
    return Input(
        name, dimension, today, low, high, provenance, why, tuple(today / factor for factor in STEPS), above, change, leads
    )


def _of_range(name: str, ranged: Ranged, change: Callable[[Basis, float], Basis], most: float) -> Input:
    provenance, dimension = ranged.provenance, ranged.quantity.dimension
    why = "10-90 % range of the data sheet"
    return _scaled(name, dimension, ranged.value, ranged.low, min(most, ranged.high), provenance, why, change, most)


def _bandwidth(tier: Tier) -> Callable[[Basis, float], Basis]:
    def change(basis: Basis, value: float) -> Basis:
        return replace(basis, time=True, cluster=faster(basis.cluster, tier.name, value / tier.bandwidth.value))

    return change


def _latency(tier: Tier) -> Callable[[Basis, float], Basis]:
    def change(basis: Basis, value: float) -> Basis:
        tiers = tuple(
            replace(one, latency=replace(one.latency, value=value)) if one.name == tier.name else one
            for one in basis.cluster.tiers
        )
        return replace(basis, time=True, cluster=replace(basis.cluster, tiers=tiers))

    return change


def _contention(fabric: Tier) -> Callable[[Basis, float], Basis]:
    def change(basis: Basis, value: float) -> Basis:
        left = 1 - basis.cluster.contention
        return replace(basis, time=True, cluster=faster(basis.cluster, fabric.name, (1 - value) / left))

    return change


def _efficiency(key: str, today: float) -> Callable[[Basis, float], Basis]:
    """All device types alike; with the matrix products the attention kernels, which run on the same units."""

    def scaled(ranged: Ranged, factor: float) -> Ranged:
        return replace(ranged, quantity=replace(ranged.quantity, value=min(1.0, ranged.value * factor)))

    def change(basis: Basis, value: float) -> Basis:
        def sheet(one: DeviceSheet) -> DeviceSheet:
            rates, factor = one.efficiency, value / today
            if key == "memory":
                return replace(one, efficiency=replace(rates, memory=scaled(rates.memory, factor)))
            flash, unfused = scaled(rates.attention_flash, factor), scaled(rates.attention_unfused, factor)
            gemm = scaled(rates.gemm, factor)
            return replace(one, efficiency=replace(rates, gemm=gemm, attention_flash=flash, attention_unfused=unfused))

        return replace(basis, time=True, cluster=with_sheets(basis.cluster, sheet))

    return change


def _reserve(today: float) -> Callable[[Basis, float], Basis]:
    """The reserve and its range move together, so that a larger one is as uncertain as today's."""

    def change(basis: Basis, value: float) -> Basis:
        factor = value / today

        def sheet(one: DeviceSheet) -> DeviceSheet:
            held = one.allocator_reserve
            moved = Ranged(
                replace(held.quantity, value=min(1.0, held.value * factor)), min(1.0, held.low * factor), held.high * factor
            )
            return replace(one, allocator_reserve=moved)

        return replace(basis, cluster=with_sheets(basis.cluster, sheet), memory=factor)

    return change


def _stages(plan: Plan, today: float) -> Callable[[Basis, float], Basis]:
    def change(basis: Basis, value: float) -> Basis:
        factor = value / today
        here = basis.today.timed(plan) is not None
        return replace(basis, time=basis.time or here, slower=(plan.identity, factor))

    return change


def with_sheets(cluster: Cluster, change: Callable[[DeviceSheet], DeviceSheet]) -> Cluster:
    """The cluster with other data sheets of its devices."""
    nodes = tuple(replace(group, sheet=replace(group.sheet, device=change(group.sheet.device))) for group in cluster.nodes)
    return replace(cluster, nodes=nodes)


def faster(cluster: Cluster, tier: str, factor: float) -> Cluster:
    """The cluster with `factor` times the bandwidth on a tier; what was measured over it takes 1 / `factor` of its time."""
    tiers = tuple(
        replace(one, bandwidth=replace(one.bandwidth, value=one.bandwidth.value * factor)) if one.name == tier else one
        for one in cluster.tiers
    )
    between = cluster.tiers[-1].name == tier and cluster.tiers[-1].span > cluster.devices_per_node

    def curve(one: Collective) -> Collective:
        nodes = one.nodes if one.nodes is not None else -(-one.ranks // cluster.devices_per_node)
        if (nodes > 1) != between:
            return one
        return replace(one, rows=tuple((size, seconds / factor) for size, seconds in one.rows))

    return replace(cluster, tiers=tiers, collectives=tuple(map(curve, cluster.collectives)))
