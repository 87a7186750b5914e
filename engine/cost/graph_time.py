"""Step times of plans of an operator graph: stages put together from laid-out layers, everything else as for shapes.

What a stage costs is the sum of its layers' parts: recomputation, gathers of sharded parameters and synchronisation follow the
formulas of `stage`. Of the ways in which the carries of a stage's layers may lie on the tensor axis the quickest is taken. What
crosses a boundary is all that is alive there, memories too. Knows no memory and no rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import fsum, prod
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from ..cluster.cluster import Cluster
from ..errors import InputError
from ..frozen import dataclass
from ..model import DTYPE_BYTES, Transformer, Workload
from ..model.graph_model import REFERENCE, GraphModel
from ..model.operator import Kind
from ..plan import Mesh, Plan, Recompute, Stage
from .collectives import FREE, Spent
from .compute import optimizer_seconds
from .contention import free_window
from .factors import NOMINAL, Constant, Factors
from .graph_layer import Forms, LayerLayout, LayerParts, LayerPricer
from .memory_terms import local_microbatch
from .overlap import add, beside, exposed
from .placement import placed, span
from .sending import Transfer
from .simulation import Durations
from .stage_costs import STAGE_TERMS, StageCost
from .step import TimeModel
from .transfers import End, Hop, message

if TYPE_CHECKING:
    from .stage_costs import Layout


class Layouts(Protocol):
    """Where the layouts of layers come from: for a layer, sequences of a replica and a tensor axis all that it may take."""

    model: GraphModel
    #: What layouts ask of a device, shared by all pricers.
    forms: Forms
    #: The cluster that they are chosen on, and the ways in which carries lie that were found quickest there.
    cluster: Cluster
    ways: dict[tuple[object, ...], int | None]

    def of_stage(self, plan: Plan, stage: Stage, layer: int, tensor: tuple[int, int]) -> tuple[LayerLayout, ...]:
        """The layouts of one layer of a stage of a plan."""


@dataclass(frozen=True, slots=True)
class StageParts:
    """A stage's layers in the layouts that it takes. `carry`: the dim that its carries lie divided along, None for whole."""

    carry: int | None
    layers: tuple[LayerParts, ...]
    layouts: tuple[LayerLayout, ...]
    #: Parameters that several layers of the model use, each once, on a device.
    shared: int

    @property
    def parameters(self) -> int:
        """Parameters of a device, before sharding."""
        return self.shared + sum(one.divided + one.whole for one in self.layers)


class Choice(NamedTuple):
    """One layout of a layer. `seconds`: of a microbatch, without and with all of its forward pass repeated."""

    layout: LayerLayout
    parts: LayerParts
    seconds: tuple[float, float]


class Counts(NamedTuple):
    """Parameters of a device: all, and those whose gradients the tensor devices sum."""

    all: int
    summed: int


class GraphTimeModel(TimeModel):
    """Step times of plans of one graph. `layouts` are shared by all models of the case, whatever their factors."""

    def __init__(
        self, layouts: Layouts, workload: Workload, cluster: Cluster, factors: Factors = NOMINAL,
        constants: Mapping[str, Constant] | None = None, transfer: Transfer = Transfer.DIRECT,
    ) -> None:  # fmt: skip
        # The graph stands where shapes would: what it does not have is an error, never a number.
        super().__init__(cast(Transformer, layouts.model), workload, cluster, factors, constants, transfer)
        self.layouts, self.graph = layouts, layouts.model
        self._nominal = factors is NOMINAL and cluster is layouts.cluster
        self.layers = LayerPricer(
            layouts.model, workload, cluster, self.network, factors, self.constants, layouts.forms
        )
        self._prefetch = min(1.0, self.constants["prefetch_overlap"].value * factors.overlap)
        share = factors.gradient_overlap
        self._gradient = self.constants["gradient_overlap"].value if share is None else share
        self._unfused = self.constants["unfused_optimizer"].value
        precision = workload.precision
        self._wire_gradient = DTYPE_BYTES[precision.communication or precision.gradients]
        self._wire_parameter = DTYPE_BYTES[precision.parameters]
        self._parts_of: dict[tuple[object, ...], StageParts] = {}
        self._stage_costs: dict[tuple[object, ...], StageCost] = {}
        self._chosen: dict[tuple[object, ...], dict[int, dict[int | None, Choice]]] = {}

    def under(self, factors: Factors) -> TimeModel:
        """The same under other factors, layouts as they are."""
        return GraphTimeModel(self.layouts, self.workload, self.cluster, factors, self.constants, self.transfer)

    @property
    def has_attention(self) -> bool:
        """Whether there is an attention whose kernel matters."""
        return Kind.ATTENTION in self.graph.kinds_of_operators

    # Stages.

    def costs(self, plan: Plan) -> list[StageCost]:
        """The cost of each stage."""
        return [self._cost(plan, index) for index in range(len(plan.stages))]

    def _cost(self, plan: Plan, index: int, stage: Stage | None = None) -> StageCost:
        stage = stage or plan.stages[index]
        recompute = stage.recompute or plan.recompute
        groups = self.layout(plan, stage.mesh)
        run = run_of(self.graph, stage, local_microbatch(plan, stage))
        parallel = plan.sequence_parallel and stage.mesh.tensor > 1
        key = (run, stage.mesh, stage.layouts, parallel, groups, recompute, plan.zero)
        found = self._stage_costs.get(key)
        if found is None:
            parts = self.stage_parts(plan, stage, recompute)
            found = self._stage_costs[key] = self._stage(stage, parts, groups, recompute, plan.zero)
        return found

    def passes(self, plan: Plan, index: int, stage: Stage) -> Durations:
        """The passes of `stage` in the place of stage `index`."""
        return self._cost(plan, index, stage).durations

    def layer(self, plan: Plan, index: int, layer: int) -> Durations:
        """One layer of stage `index`, in the way that the stage's carries lie: a stage is the sum of its layers."""
        stage, recompute = plan.stages[index], plan.recompute_of(index)
        parts = self.stage_parts(plan, stage, recompute)
        at = slice(layer - stage.first, layer - stage.first + 1)
        alone = StageParts(parts.carry, parts.layers[at], parts.layouts[at], 0)
        groups = self.layout(plan, stage.mesh)
        return self._stage(replace(stage, first=layer, last=layer), alone, groups, recompute, plan.zero).durations

    def exposed_by_tier(self, plan: Plan, index: int) -> tuple[dict[str, float], dict[str, float]]:
        """(forward, backward) seconds of the conversions and exchanges of a stage's layers, half of them in either pass, and of
        gathers; what is repeated comes in the backward pass.
        """
        stage, recompute = plan.stages[index], plan.recompute_of(index)
        cost, parts = self._cost(plan, index), self.stage_parts(plan, stage, recompute)
        ahead: dict[str, float] = {}
        back: dict[str, float] = {}
        for one in parts.layers:
            for name, seconds in one.spent.tiers:
                ahead[name] = ahead.get(name, 0.0) + seconds / 2
                back[name] = back.get(name, 0.0) + seconds / 2
            for name, seconds in one.repeated.tiers if recompute is Recompute.FULL else ():
                back[name] = back.get(name, 0.0) + seconds
        gather = dict(zip(STAGE_TERMS, cost.terms, strict=True))["gather"]
        if gather:
            groups = self.layout(plan, stage.mesh)
            name = self.network.levels(stage.mesh.data, groups.data[1])[-1].tier.name
            back[name] = back.get(name, 0.0) + gather
        return ahead, back

    def stage_parts(self, plan: Plan, stage: Stage, recompute: Recompute) -> StageParts:
        """The layers of a stage in the quickest of the ways that their carries may lie."""
        groups, sequences = self.layout(plan, stage.mesh), local_microbatch(plan, stage)
        again = recompute is Recompute.FULL
        run = run_of(self.graph, stage, sequences)
        key = (run, stage.mesh, stage.layouts, plan.sequence_parallel, groups.tensor, groups.data, again)
        found = self._parts_of.get(key)
        if found is None:
            found = self._parts_of[key] = self._quickest(plan, stage, groups, again=again)
        return found

    def _quickest(self, plan: Plan, stage: Stage, groups: Layout, *, again: bool) -> StageParts:
        tensor, data, sequences = groups.tensor, (stage.mesh.data, groups.data[1]), local_microbatch(plan, stage)
        rows = self._choices(plan, stage, tensor, data)
        parallel = plan.sequence_parallel and stage.mesh.tensor > 1
        key = (run_of(self.graph, stage, sequences), stage.mesh, stage.layouts, parallel, tensor[0], again)
        ways = [way for way in rows[0] if all(way in row for row in rows)]
        # Under other rates and links layouts stay as they are.
        if not self._nominal and key in self.layouts.ways:
            ways = [self.layouts.ways[key]]
        shared = sum(count for count, _ in self.shared_elements(stage))
        best: tuple[float, StageParts] | None = None
        for way in ways:
            chosen = [row[way] for row in rows]
            seconds = fsum(one.seconds[again] for one in chosen)
            if best is None or seconds < best[0]:
                parts, layouts = tuple(one.parts for one in chosen), tuple(one.layout for one in chosen)
                best = seconds, StageParts(way, parts, layouts, shared)
        if best is not None and self._nominal:
            self.layouts.ways[key] = best[1].carry
        if best is None:
            raise InputError(
                f"layers {stage.first} to {stage.last}: no layout of their operators is as stated and divides "
                f"{stage.mesh.tensor} ways with the carries alike",
                code="input.layout", remedy="State other dims under 'layouts', or a tensor degree that divides them.",
            )  # fmt: skip
        return best[1]

    def _choices(
        self, plan: Plan, stage: Stage, tensor: tuple[int, int], data: tuple[int, int]
    ) -> list[dict[int | None, Choice]]:
        """For each layer of a stage its layouts by the way that their carries lie."""
        parallel = plan.sequence_parallel and stage.mesh.tensor > 1
        key = stage.mesh, local_microbatch(plan, stage), stage.layouts, parallel, tensor, data
        known = self._chosen.setdefault(key, {})
        for layer in range(stage.first, stage.last + 1):
            if layer not in known:
                row = known[layer] = {}
                for layout in self.layouts.of_stage(plan, stage, layer, tensor):
                    if layout.carry not in row:
                        parts = self.layers.parts(layout, tensor, data)
                        once = parts.forward + parts.backward + parts.weight
                        row[layout.carry] = Choice(layout, parts, (once + 0.0, once + parts.again))
        return [known[layer] for layer in range(stage.first, stage.last + 1)]

    def shared_elements(self, stage: Stage) -> list[tuple[int, bool]]:
        """(elements on a device, whether the tensor axis divides them) of each parameter of a stage that several layers use."""
        return [
            self._shared_elements(name, stage.mesh)
            for name, layers in self.graph.shared.items()
            if any(stage.first <= layer <= stage.last for layer in layers)
        ]

    def _shared_elements(self, name: str, mesh: Mesh) -> tuple[int, bool]:
        """Elements on a device of a parameter that several layers use: divided where a dim of it divides."""
        sizes = self.graph.at(REFERENCE).tensors[name].sizes
        divided = mesh.tensor > 1 and any(size % mesh.tensor == 0 for size in sizes)
        return prod(sizes) // (mesh.tensor if divided else 1), divided

    def _stage(self, stage: Stage, parts: StageParts, groups: Layout, recompute: Recompute, zero: int) -> StageCost:
        """The sum of the layers; ZeRO 3 gathers a layer's parameters before both passes, 2 and 3 scatter its gradients."""
        forward = backward = weight = compute = 0.0
        terms = dict.fromkeys(STAGE_TERMS, 0.0)
        tiers: dict[str, float] = {}
        data = (stage.mesh.data, groups.data[1])
        rates = self.rates(self.cluster.device)
        for one in parts.layers:
            again = one.again if recompute is Recompute.FULL else one.core if recompute is Recompute.SELECTIVE else 0.0
            spent = add(one.spent, one.repeated) if recompute is Recompute.FULL else one.spent
            gathered, scattered = self._sharded(one.divided + one.whole - one.of_ends, data, zero)
            both = add(gathered, scattered)
            gather = beside(gathered.seconds, self._prefetch * (one.forward - one.tensor / 2), rates.interference)
            window = one.backward + one.weight + again - one.tensor / 2
            gather_back = beside(both.seconds, self._prefetch * window, rates.interference)
            if one.of_ends and zero >= 2:
                # Gathered once, beside themselves: between their passes nothing would hide a second gather.
                ahead, back = self._sharded(one.of_ends, data, zero)
                gather += max(0.0, ahead.seconds - self._prefetch * one.ends / 3)
                gather_back += max(0.0, back.seconds - self._prefetch * 2 * one.ends / 3)
                gathered, scattered = add(gathered, ahead.scaled(0.5)), add(scattered, back)
            forward += one.forward + gather
            backward += one.backward + again + gather_back
            weight += one.weight
            compute += one.compute + again
            for name in ("gemm", "attention", "memory", "tensor", "launch", "ends"):
                terms[name] += getattr(one, name)
            terms["gather"] += gather + gather_back
            terms["recompute"] += again
            for spending in (spent, gathered.scaled(2), scattered):
                for name, seconds in spending.tiers:
                    tiers[name] = tiers.get(name, 0.0) + seconds
        once = Durations(forward, backward, weight)
        sync, optimizer = self._after_stage(stage, parts, groups, zero, once, tiers)
        return StageCost(
            once, tuple(terms[name] for name in STAGE_TERMS), compute, tuple(tiers.items()), sync.seconds, sync.tiers, optimizer,
            rates.instead,
        )  # fmt: skip

    def _sharded(self, count: int, data: tuple[int, int], zero: int) -> tuple[Spent, Spent]:
        if zero < 2:
            return FREE, FREE
        scattered = self.network.collective("reduce_scatter", count * self._wire_gradient, *data)
        return self.network.collective("all_gather", count * self._wire_parameter, *data) if zero == 3 else FREE, scattered

    def _after_stage(
        self, stage: Stage, parts: StageParts, groups: Layout, zero: int, once: Durations, busy: Mapping[str, float]
    ) -> tuple[Spent, float]:
        """(exposed synchronisation, optimizer) after the last backward pass: as a stage of shapes has it."""
        count = parts.parameters
        data = (stage.mesh.data, groups.data[1])
        gradients, values = count * self._wire_gradient, count * self._wire_parameter
        back = home = FREE
        if zero == 0:
            back = self.network.collective("all_reduce", gradients, *data)
        elif zero == 1:
            back = self.network.collective("reduce_scatter", gradients, *data)
        if zero in (1, 2):
            home = self.network.collective("all_gather", values, *data)
        summed = sum(one.summed for one in parts.layers)
        if summed and groups.tensor[0] > 1:
            back = add(back, self.network.collective("all_reduce", summed * self._wire_gradient, *groups.tensor))
        owned = count / data[0] if zero else float(count)
        optimizer = optimizer_seconds(self.workload, owned, self.rates(self.cluster.device), self._unfused)
        left = []
        for spent, window in ((back, once.backward + once.weight), (home, once.forward)):
            own = [(name, seconds * window / once.total) for name, seconds in busy.items()] if once.total else []
            free = free_window(window, spent.tiers, spent.seconds, own)
            left.append(exposed(spent, self._gradient * free, max(1, stage.layers)))
        return add(*left), optimizer

    # Boundaries.

    def hops(self, plan: Plan) -> tuple[tuple[Hop, ...], float]:
        """The messages between neighbouring stages, and the way from the last to the first."""
        if len(plan.stages) == 1:
            return (), 0.0
        key = (plan.stages, plan.order, plan.microbatch, plan.recompute is Recompute.FULL)
        found = self._hops.get(key)
        if found is None:
            found = self._hops[key] = self.hops_by(plan, self.transfer)
        return found

    def hops_by(self, plan: Plan, way: Transfer) -> tuple[tuple[Hop, ...], float]:
        """The same with every message sent that way. Chunks go round with what crosses the first boundary."""
        starts, ends = self.placed(plan)
        known = []
        for k in range(len(plan.stages) - 1):
            tier = self.network.tier_between(*span(starts, ends, k, k + 1))
            first, second = (self._boundary_end(plan, at, plan.stages[k].last, ends[at] - starts[at]) for at in (k, k + 1))
            split = self.divided(plan, k) or self.divided(plan, k + 1)
            sent = message(self.network, self.cluster, tier, (first, second), way, sequence_parallel=split)
            known.append(Hop(sent.seconds, tier.name, tier.span > self.cluster.devices_per_node, sent.gather.seconds))
        tier = self.network.tier_between(*span(starts, ends, 0, -1))
        last = len(plan.stages) - 1
        first, second = (self._boundary_end(plan, at, plan.stages[0].last, ends[at] - starts[at]) for at in (0, last))
        wrap = message(self.network, self.cluster, tier, (first, second), way, sequence_parallel=self.divided(plan, 0))
        return tuple(known), wrap.seconds

    def placed(self, plan: Plan) -> tuple[list[int], list[int]]:
        """(first device, end) of each stage, what crosses boundaries by its bytes."""
        weights = tuple(
            float(sum(size for _, size, _ in self.graph.crossing(one.last, plan.microbatch * plan.mesh.data)))
            for one in plan.stages[:-1]
        )
        return placed(plan, self.cluster, weights)

    def divided(self, plan: Plan, k: int) -> bool:
        """Whether the carries of a stage lie divided on the tensor axis."""
        stage = plan.stages[k]
        return stage.mesh.tensor > 1 and self.stage_parts(plan, stage, plan.recompute_of(k)).carry is not None

    def _boundary_end(self, plan: Plan, k: int, layer: int, block: int) -> End:
        """A stage's side of the boundary behind `layer`."""
        stage = plan.stages[k]
        sizes = [size for _, size, _ in self.graph.crossing(layer, local_microbatch(plan, stage))]
        carry = sizes[0] / stage.mesh.tensor if self.divided(plan, k) else float(sizes[0])
        reach = min(block, self.cluster.devices_per_node)
        return End(stage.mesh, carry + sum(sizes[1:]), self.layout(plan, stage.mesh).tensor[1], reach)

    def least_hop(self, plan: Plan, one: Mesh, two: Mesh, sequences: int) -> float:
        """Nothing is known of a message before its boundary is: no bound."""
        return 0.0

    def _tied(self, plan: Plan) -> Spent:
        """The all-reduces of the gradients of parameters that stages share, between the stages that do."""
        starts = self.placed(plan)[0]
        found = FREE
        for name, layers in self.graph.shared.items():
            held = sorted({next(k for k, one in enumerate(plan.stages) if one.first <= at <= one.last) for at in layers})
            if len(held) > 1:
                # Where their meshes differ, the devices that hold most of it have most to send.
                most = max(self._shared_elements(name, plan.stages[at].mesh)[0] for at in held)
                size = most * self._wire_gradient
                distance = max(1, abs(starts[held[1]] - starts[held[0]]))
                found = add(found, self.network.collective("all_reduce", size, len(held), distance))
        return found


    # What a search asks.

    def layer_seconds(self, plan: Plan, mesh: Mesh, kind: Recompute) -> dict[int | None, list[tuple[float, float] | None]]:
        """By the way that carries may lie: (forward, whole) seconds of a microbatch of every layer on `mesh`, without gathers.

        None for a layer that has no such layout. A stage is the sum of its layers in the quickest way.
        """
        count = self.graph.layers
        stage = Stage(0, count - 1, mesh)
        groups = self.layout(plan, mesh)
        tensor, data = groups.tensor, (mesh.data, groups.data[1])
        rows = [self.layouts.of_stage(plan, stage, k, tensor) for k in range(count)]
        found: dict[int | None, list[tuple[float, float] | None]] = {
            way: [None] * count for way in dict.fromkeys(one.carry for row in rows for one in row)
        }
        for k, row in enumerate(rows):
            for one in row:
                parts = self.layers.parts(one, tensor, data)
                again = parts.again if kind is Recompute.FULL else parts.core if kind is Recompute.SELECTIVE else 0.0
                found[one.carry][k] = parts.forward, parts.forward + parts.backward + parts.weight + again
        return found

    def least_message(self, plan: Plan, mesh: Mesh, other: Mesh, layer: int) -> float:
        """Seconds of the message behind a layer between stages of these meshes at least, wherever they lie."""
        sequences = plan.microbatch * plan.mesh.data
        ends = []
        for one in (mesh, other):
            sizes = [size for _, size, _ in self.graph.crossing(layer, sequences // one.data)]
            reach = min(one.devices, self.cluster.devices_per_node)
            ends.append(End(one, sizes[0] / one.tensor + sum(sizes[1:]), 1, reach))
        tiers = [tier for tier in self.cluster.tiers if tier.span >= mesh.devices + other.devices] or self.cluster.tiers[-1:]
        pair = ends[0], ends[1]
        return min(
            message(self.network, self.cluster, tier, pair, Transfer.DIRECT, sequence_parallel=True).seconds for tier in tiers
        ) * (1 - 1e-12)

    # What is said of it.

    def unmodelled(self, plan: Plan, costs: list[StageCost]) -> tuple[str, ...]:
        """What the figure leaves out, in words."""
        rows = [f"no {self.workload.precision.compute} peak rate: priced at {one}" for one in {c.instead for c in costs} if one]
        if self.workload.dynamic_shapes:
            rows.append("dynamic shapes: priced at the stated sequence length")
        if not self.cluster.homogeneous:
            rows.append("links of mixed node types: priced as those of the first nodes")
        return tuple(rows)

    def misaligned(self, plan: Plan) -> bool:
        """Whether a width divided over the tensor axis is no multiple of 64 on some rank."""
        degrees = {stage.mesh.tensor for stage in plan.stages} - {1}
        return any(width % degree == 0 and (width // degree) % 64 for degree in degrees for width in self.graph.widths)

    def launch_share(self, plan: Plan) -> float:
        """The share of the longest stage's time that launching adds to what the device does, without a calibrated stall."""
        costs = self.costs(plan)
        totals = [cost.durations.total for cost in costs]
        index = totals.index(max(totals))
        stall = 2 * plan.stages[index].layers * self.rates(self.cluster.device).stall
        return max(0.0, costs[index].terms[STAGE_TERMS.index("launch")] - stall) / fsum(costs[index].terms)


def run_of(graph: GraphModel, stage: Stage, sequences: int) -> object:
    """What a stage's layers are known by: their signature; the layers themselves where layouts are stated by operators' names."""
    return graph.signature(stage.first, stage.last, sequences) if not stage.layouts else (stage.first, stage.last, sequences)
