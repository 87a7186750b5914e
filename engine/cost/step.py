"""Step time of a plan: its stages, the messages between them, the pipeline's schedule, and what follows it.

Vocabulary: the *pipeline* is everything from the first forward to the last backward pass of a step; what is *outside*
it is gradient synchronisation that nothing hides and the optimizer. `step_time` uses closed forms and serves ranking;
`simulated` puts the event simulation in their place and serves reports. `lower_bound` is below both. A `TimeModel`
prices many plans of one model, workload and cluster and keeps what they share. Knows no memory and no rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum

from ..cluster.cluster import Cluster
from ..hardware import DeviceSheet
from ..model import Transformer, Workload, moe_layers
from ..plan import Mesh, Plan, Recompute, Stage
from ..quantity import Decider, Dimension, Quantity
from .collectives import FREE, Network, Spent
from .compute import ALIGNED, Rates, device_rates
from .contention import Contention
from .dispatch import exchange_notes
from .factors import NOMINAL, Constant, Factors, load_constants
from .link_shares import share_name
from .makespan import makespan
from .memory_terms import local_microbatch
from .placement import axis_strides, placed, same_meshes, slowest_device, span
from .schedule import closed_form, lower_bound
from .sending import Transfer
from .simulation import Durations
from .stage import StagePricer
from .stage_costs import STAGE_TERMS, Layout, StageCost, layout, of_layer
from .step_result import Parts, StepTime, pipeline_of
from .time_ledger import StageTime, TimeLedger
from .transfers import End, Hop, hops, transfer_seconds

#: Names of `StepTime.terms`, in order; their seconds add up to the step.
TERMS = (*STAGE_TERMS, "pipeline_transfer", "bubble", "gradient_sync", "optimizer")


class TimeModel:
    """Step times of plans for one model, workload and cluster, under one set of factors."""

    def __init__(
        self,
        model: Transformer,
        workload: Workload,
        cluster: Cluster,
        factors: Factors = NOMINAL,
        constants: Mapping[str, Constant] | None = None,
        transfer: Transfer = Transfer.DIRECT,
    ) -> None:
        self.model, self.workload, self.cluster, self.factors, self.transfer = model, workload, cluster, factors, transfer
        self.constants = load_constants() if constants is None else constants
        self.network = Network(cluster, factors, self.constants)
        self.pricer = StagePricer(model, workload, self.network, self.constants, factors)
        # Of a step of one microbatch: there is no other one for the exchange between experts to run beside.
        self._lone = self.pricer
        if workload.dispatch_overlap:
            self._lone = StagePricer(model, replace(workload, dispatch_overlap=False), self.network, self.constants, factors)
        self._contended = Contention(STAGE_TERMS)
        self._rates: dict[str, Rates] = {}
        self._layouts: dict[tuple[tuple[str, ...], Mesh, int], Layout] = {}
        self._costs: dict[tuple[object, ...], StageCost] = {}
        #: The last plan, and the costs of those that differ from it in these keys and the schedule alone.
        self._last: tuple[Plan | None, dict[tuple[int, bool, Recompute], list[StageCost]]] = (None, {})
        #: (forward, total) of layers and ends by `kind`, which searches of several settings share.
        self.known_kinds: dict[tuple[object, ...], tuple[tuple[float, float], ...]] = {}
        self._times: dict[int, StageTime] = {}
        self._hops: dict[tuple[object, ...], tuple[tuple[Hop, ...], float]] = {}
        self._ties: dict[tuple[object, ...], Spent] = {}
        self._deciders: dict[tuple[object, ...], tuple[Decider, ...]] = {}

    def under(self, factors: Factors) -> TimeModel:
        """The same under other factors."""
        return TimeModel(self.model, self.workload, self.cluster, factors, self.constants, self.transfer)

    # Parts of a step.

    def costs(self, plan: Plan) -> list[StageCost]:
        """The cost of each stage, each kind of stage priced once. Not to be changed: schedules of the same stages share it."""
        last, known = self._last
        if last is None or plan.stages is not last.stages or _batch(plan) != _batch(last):
            self._last = _, known = plan, {}
        key = plan.zero, plan.sequence_parallel, plan.recompute
        if key not in known:
            known[key] = self._each(plan)
        return known[key]

    def _each(self, plan: Plan) -> list[StageCost]:
        result: list[StageCost] = []
        alike = len(self.cluster.nodes) == 1
        mixed = moe_layers(self.model, 0, self.model.layers - 1) not in (0, self.model.layers)
        before, plain = plan.stages[0], False
        for index, stage in enumerate(plan.stages):
            middle = not (stage.embedding or stage.head)
            if (
                plain and middle and alike
                and stage.mesh is before.mesh
                and stage.last - stage.first == before.last - before.first
                and stage.recompute is before.recompute
                and (not mixed or self._routed(stage) == self._routed(before))
            ):  # fmt: skip
                result.append(result[-1])
                continue
            result.append(self._cost(plan, index))
            before, plain = stage, middle
        return result

    def _routed(self, stage: Stage) -> int:
        return moe_layers(self.model, stage.first, stage.last)

    def _cost(self, plan: Plan, index: int, stage: Stage | None = None) -> StageCost:
        """The cost of stage `index`, or of another stage in its place."""
        stage = stage or plan.stages[index]
        recompute = stage.recompute or plan.recompute
        moe = moe_layers(self.model, stage.first, stage.last) if self.model.moe is not None else 0
        sheet = slowest_device(plan, index, self.cluster)
        sequences = local_microbatch(plan, stage)
        key = (
            stage.layers, moe, stage.mesh, stage.embedding, stage.head, recompute, sequences, plan.zero,
            plan.sequence_parallel, plan.accumulation == 1, plan.order, len(plan.stages), sheet.name,
        )  # fmt: skip
        found = self._costs.get(key)
        if found is None:
            groups = self.layout(plan, stage.mesh)
            # Pipelines of other depths, or with axes in another order, may leave the groups of a stage where they are.
            same = (*key[:-3], groups, sheet.name)
            known = self._costs.get(same)
            if known is None:
                pricer = self._lone if plan.accumulation == 1 else self.pricer
                known = self._costs[same] = pricer.price(
                    stage, moe, groups, sequences, recompute, plan.zero, plan.sequence_parallel, self.rates(sheet)
                )
            found = self._costs[key] = known
        return found

    def exposed_by_tier(self, plan: Plan, index: int) -> tuple[dict[str, float], dict[str, float]] | None:
        """(forward, backward) seconds of a microbatch that a stage's passes wait for their collectives, by tier; None where its
        layers are those of a family, which say it themselves.
        """
        return None

    def passes(self, plan: Plan, index: int, stage: Stage) -> Durations:
        """The passes of `stage` in the place of stage `index`, as in `costs`, without what follows the last of them."""
        groups, rates = self.layout(plan, stage.mesh), self.rates(slowest_device(plan, index, self.cluster))
        pricer = self._lone if plan.accumulation == 1 else self.pricer
        return pricer.passes(
            stage, self._routed(stage), groups, local_microbatch(plan, stage), stage.recompute or plan.recompute, plan.zero,
            plan.sequence_parallel, rates,
        )  # fmt: skip

    def kind(self, plan: Plan, index: int, mesh: Mesh) -> tuple[object, ...]:
        """Equal where `passes` are, of stages on `mesh` that hold the same and recompute as their plan does."""
        layer = of_layer(mesh, self.layout(plan, mesh), plan.zero, moe=self.model.moe is not None)
        sequences, device = -(-plan.microbatch * plan.stages[0].mesh.data // mesh.data), slowest_device(plan, index, self.cluster)
        lone = plan.accumulation == 1
        return (layer, sequences, plan.recompute, max(1, plan.zero), plan.sequence_parallel, lone, device.name)

    def layer(self, plan: Plan, index: int, layer: int) -> Durations:
        """One layer of stage `index` alone: a stage is the sum of its layers and ends."""
        alone = replace(plan.stages[index], first=layer, last=layer, embedding=False, head=False)
        return self._cost(plan, index, alone).durations

    def end(self, plan: Plan, index: int, name: str) -> Durations:
        """What `embedding` or `head` adds to stage `index`."""
        one = plan.stages[index]
        layer = one.first if name == "embedding" else one.last
        alone = replace(one, first=layer, last=layer, embedding=name == "embedding", head=name == "head")
        with_end, without = self._cost(plan, index, alone).durations, self.layer(plan, index, layer)
        return Durations(*(a - b for a, b in zip(with_end, without, strict=True)))

    def least_after(self, plan: Plan, index: int, stages: Sequence[Stage]) -> float:
        """The least seconds after the last pass, exposed synchronisation and optimizer, of stages that differ in layers alone."""
        one = stages[0]
        groups, rates = self.layout(plan, one.mesh), self.rates(slowest_device(plan, index, self.cluster))
        pricer = self._lone if plan.accumulation == 1 else self.pricer
        rows = [(stage, self._routed(stage)) for stage in stages]
        sequences, recompute = local_microbatch(plan, one), one.recompute or plan.recompute
        return pricer.least_after(rows, groups, sequences, recompute, plan.zero, plan.sequence_parallel, rates)

    def layout(self, plan: Plan, mesh: Mesh) -> Layout:
        """The groups of `mesh` under the plan's order of axes."""
        key = (plan.order, mesh, len(plan.stages))
        found = self._layouts.get(key)
        if found is None:
            found = self._layouts[key] = layout(mesh, axis_strides(plan, mesh))
        return found

    def rates(self, sheet: DeviceSheet) -> Rates:
        """The rates of a device type."""
        found = self._rates.get(sheet.name)
        if found is None:
            misaligned = self.constants["misaligned"].value
            found = self._rates[sheet.name] = device_rates(sheet, self.workload, self.factors, misaligned)
        return found

    def hops(self, plan: Plan) -> tuple[tuple[Hop, ...], float]:
        """(the messages between neighbouring stages, the way from the last stage to the first that chunks take)."""
        if len(plan.stages) == 1:
            return (), 0.0
        if not same_meshes(plan):
            return self.hops_by(plan, self.transfer)
        key = (plan.stages[0].mesh, len(plan.stages), plan.order, plan.microbatch, plan.sequence_parallel)
        found = self._hops.get(key)
        if found is None:
            found = self._hops[key] = self.hops_by(plan, self.transfer)
        return found

    def hops_by(self, plan: Plan, way: Transfer) -> tuple[tuple[Hop, ...], float]:
        """The same with every message sent that way: on the innermost tier that holds both stages' devices."""
        starts, ends = self.placed(plan)
        sides = [self._end(plan, k, ends[k] - starts[k]) for k in range(len(plan.stages))]
        between = [self.network.tier_between(*span(starts, ends, k, k + 1)) for k in range(len(sides) - 1)]
        back = self.network.tier_between(*span(starts, ends, 0, -1))
        return hops(self.network, self.cluster, (*between, back), sides, way, plan.sequence_parallel)

    def placed(self, plan: Plan) -> tuple[list[int], list[int]]:
        """(first device, end) of each stage."""
        return placed(plan, self.cluster)

    def least_hop(self, plan: Plan, one: Mesh, two: Mesh, sequences: int) -> float:
        """Seconds of a message between stages of these meshes at least, wherever they lie next to each other."""
        ends = tuple(self._side(plan, mesh, sequences // mesh.data, mesh.devices) for mesh in (one, two))
        tiers = [tier for tier in self.cluster.tiers if tier.span >= one.devices + two.devices] or self.cluster.tiers[-1:]
        split = plan.sequence_parallel
        return min(hops(self.network, self.cluster, (tier, tier), ends, self.transfer, split)[1] for tier in tiers)

    def _end(self, plan: Plan, k: int, block: int) -> End:
        """A stage's side of its boundaries. `block`: devices of its first unbroken run, which is all of it where the pipeline is
        outermost.
        """
        stage = plan.stages[k]
        return self._side(plan, stage.mesh, local_microbatch(plan, stage), block)

    def _side(self, plan: Plan, mesh: Mesh, microbatch: int, block: int) -> End:
        size = self.pricer.message(mesh, microbatch, plan.sequence_parallel)
        return End(mesh, size, self.layout(plan, mesh).tensor[1], min(block, self.cluster.devices_per_node))

    def parts(self, plan: Plan) -> Parts:
        """What the plan's step is put together from, stages and messages beside each other."""
        found, wrap = self.hops(plan)
        tied = self._tied(plan) if self.model.tied_embeddings and len(plan.stages) > 1 else FREE
        costs, found = self._contended(self.costs(plan), found, plan.interleave)
        return Parts(costs, found, wrap, tied.seconds, tuple(name for name, _ in tied.tiers))

    def _tied(self, plan: Plan) -> Spent:
        """The gradient all-reduce of a tied table that first and last stage both hold."""
        last = plan.stages[-1]
        starts = self.placed(plan)[0]
        distance = 0 if same_meshes(plan) else abs(starts[-1] - starts[0])
        key = (last.mesh, len(plan.stages), plan.order, distance)
        found = self._ties.get(key)
        if found is None:
            found = self._ties[key] = self.pricer.tied_sync(last.mesh, abs(starts[-1] - starts[0]))
        return found

    # Whole steps.

    def lower_bound(self, plan: Plan) -> float:
        """Seconds that neither `step_time` nor `simulated` can be below; what follows the pipeline is in it."""
        costs = self.costs(plan)
        stages = [cost.durations for cost in costs]
        transfers = [hop.seconds for hop in self.hops(plan)[0]]
        pipeline = lower_bound(plan.schedule, stages, plan.accumulation, plan.interleave, transfers)
        return (pipeline + max([cost.sync + cost.optimizer for cost in costs])) * (1 - 1e-12)

    def seconds(self, plan: Plan) -> float:
        """`step_time(plan).seconds` alone."""
        parts = self.parts(plan)
        stages = [cost.durations for cost in parts.costs]
        transfers = [hop.seconds for hop in parts.hops]
        form = closed_form(plan.schedule, stages, transfers, plan.accumulation, plan.interleave)
        last = max(parts.costs, key=_after)
        return form.seconds + last.sync + parts.tied + last.optimizer

    def step_time(self, plan: Plan) -> StepTime:
        """The step with the closed form of its schedule."""
        parts = self.parts(plan)
        stages = [cost.durations for cost in parts.costs]
        transfers = [hop.seconds for hop in parts.hops]
        form = closed_form(plan.schedule, stages, transfers, plan.accumulation, plan.interleave)
        return self._assemble(plan, parts, form.seconds, form.period, simulated=False)

    def simulated(self, plan: Plan) -> StepTime:
        """The step with the makespan of the event simulation."""
        parts = self.parts(plan)
        stages = [cost.durations for cost in parts.costs]
        transfers = [hop.seconds for hop in parts.hops]
        if plan.interleave > 1:
            transfers.append(parts.wrap)
        period = closed_form(plan.schedule, stages, transfers[: len(stages) - 1], plan.accumulation, plan.interleave).period
        seconds, cut = makespan(plan.schedule, stages, transfers, plan.accumulation, plan.interleave)
        note = (f"microbatches beyond {cut} are continued at the pipeline's steady period",) if cut else ()
        return self._assemble(plan, parts, seconds, period, simulated=True, notes=note)

    def _assemble(
        self, plan: Plan, parts: Parts, pipeline: float, period: float, *, simulated: bool, notes: tuple[str, ...] = ()
    ) -> StepTime:
        costs, m = parts.costs, plan.accumulation
        totals = [cost.durations.total for cost in costs]
        longest = max(totals)
        bottleneck = totals.index(longest)
        # The first microbatch takes at least the longest stage, whatever the rounding of a period over few
        # microbatches.
        repeated = min(period, (pipeline - longest) / (m - 1)) if m > 1 else period
        last = max(costs, key=_after)
        exposed = last.sync + parts.tied
        intra, inter = transfer_seconds(parts.hops)
        idle = pipeline - m * longest
        ledger = TimeLedger(
            first_microbatch_s=pipeline - (m - 1) * repeated,
            bottleneck_s=repeated,
            microbatches=m,
            transfer_intra_s=intra,
            transfer_inter_s=inter,
            exposed_s=exposed,
            bubble_s=idle,
            optimizer_s=last.optimizer,
        )
        transfer = min(max(0.0, idle), intra + inter)
        spent = [m * seconds for seconds in costs[bottleneck].terms]
        spent += (transfer, idle - transfer, exposed, last.optimizer)
        return StepTime(
            seconds=pipeline + exposed + last.optimizer,
            ledger=ledger,
            stages=tuple(map(self._stage_time, costs)),
            bottleneck=bottleneck,
            terms=tuple(zip(TERMS, spent, strict=True)),
            deciders=self.deciders(plan, parts, bottleneck),
            unmodelled=notes + self.unmodelled(plan, costs),
            simulated=simulated,
            pipeline=pipeline_of(plan, parts) if simulated else None,
        )

    def _stage_time(self, cost: StageCost) -> StageTime:
        found = self._times.get(id(cost))
        if found is None:
            one = cost.durations
            found = self._times[id(cost)] = StageTime(one.forward, one.backward + one.weight, cost.compute, cost.tiers)
        return found

    def deciders(self, plan: Plan, parts: Parts, bottleneck: int) -> tuple[Decider, ...]:
        """The quantities that the step rests on: the device's, each tier's that carries something, the model's own
        shares.
        """
        tiers = {name for cost in parts.costs[:1] + parts.costs[-1:] + [parts.costs[bottleneck]] for name, _ in cost.tiers}
        tiers |= {name for cost in parts.costs for name, _ in cost.sync_tiers}
        tiers |= {hop.tier for hop in parts.hops} | set(parts.tied_tiers)
        sheet = slowest_device(plan, bottleneck, self.cluster)
        terms = dict(zip(STAGE_TERMS, parts.costs[bottleneck].terms, strict=True))
        sync = any(cost.sync for cost in parts.costs)
        attends = any(cost.terms[STAGE_TERMS.index("attention")] > 0 for cost in parts.costs)
        meshes = tuple(stage.mesh for stage in plan.stages) if self.cluster.collectives else ()
        key = (
            sheet.name, frozenset(tiers), terms["launch"] > 0, terms["gather"] > 0, terms["context"] > 0, sync,
            attends, plan.order, meshes,
        )  # fmt: skip
        found = self._deciders.get(key)
        if found is not None:
            return found
        e, dtype = sheet.efficiency, self.workload.precision.compute
        peak = sheet.peak(dtype) or next((rate for _, rate in sheet.peak_rates), None)
        flash = self.workload.attention is None or self.workload.attention.value == "flash"
        rows = [Decider(f"{sheet.name} peak rate ({dtype})", peak)] if peak is not None else []
        rows.append(Decider(f"{sheet.name} share of peak in matrix products", e.gemm.quantity))
        if attends:
            kernel = e.attention_flash if flash else e.attention_unfused
            rows.append(Decider(f"{sheet.name} share of peak in attention", kernel.quantity))
        rows += [
            Decider(f"{sheet.name} memory bandwidth", sheet.memory_bandwidth),
            Decider(f"{sheet.name} share of memory bandwidth", e.memory.quantity),
        ]
        if terms["launch"] > 0:
            rows.append(Decider(f"{sheet.name} kernel launch", sheet.launch.quantity))
        for tier in self.cluster.tiers:
            if tier.name in tiers:
                rows.append(Decider(f"bandwidth of {tier.name}", tier.bandwidth))
                share = self._constant(share_name(self.cluster, tier))
                rows.append(Decider(f"share of bandwidth on {tier.name}", share))
        shares = (
            ("gradient_overlap", sync),
            ("prefetch_overlap", terms["gather"] > 0 or (terms["expert"] > 0 and bool(self.workload.dispatch_overlap))),
            ("ring_overlap", terms["context"] > 0),
        )
        rows += [Decider(name.replace("_", " "), self._constant(name)) for name, used in shares if used]
        rows += self._measured(plan)
        self._deciders[key] = tuple(rows)
        return self._deciders[key]

    def _measured(self, plan: Plan) -> list[Decider]:
        """The measured collectives that price some group of the plan."""
        rows: dict[str, Decider] = {}
        if self.cluster.collectives:
            for mesh in dict.fromkeys(stage.mesh for stage in plan.stages):
                groups = self.layout(plan, mesh)
                for operation in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
                    for size, stride in dict.fromkeys(groups):
                        curve = self.network.measured(operation, size, stride) if size > 1 else None
                        if curve is not None:
                            name = f"measured {operation} of {size} devices"
                            rows[name] = Decider(name, curve.source)
        return list(rows.values())

    def _constant(self, name: str) -> Quantity:
        return self.constants[name].quantity(Dimension.FRACTION)

    def unmodelled(self, plan: Plan, costs: list[StageCost]) -> tuple[str, ...]:
        """What the figure leaves out or had to take for granted, in words."""
        rows: list[str] = []
        if self.workload.attention is None:
            rows.append("attention kernel not stated: priced as fused")
        rows += [f"no {self.workload.precision.compute} peak rate: priced at {one}" for one in {c.instead for c in costs} if one]
        if any(stage.layouts for stage in plan.stages):
            rows.append("operator layouts of a stage: priced as the usual tensor-parallel layout")
        moe = self.model.moe
        if moe is not None and moe.capacity_factor is None and moe.imbalance == 1.0:
            rows.append("uneven load of experts: no imbalance stated, priced as balanced")
        if moe is not None and any(stage.mesh.expert > 1 for stage in plan.stages):
            rows += exchange_notes(self.workload, plan.accumulation)
        if self.workload.dynamic_shapes:
            rows.append("dynamic shapes: priced at the stated sequence length")
        if not self.cluster.homogeneous:
            rows.append("links of mixed node types: priced as those of the first nodes")
        return tuple(rows)

    def misaligned(self, plan: Plan) -> bool:
        """Whether a tensor-parallel width on some rank is no multiple of 64: a named exception of the interval."""
        model = self.model
        widths = (model.ffn if model.moe is None else model.moe.ffn, model.heads * model.head_dim)
        return any(width % (stage.mesh.tensor * ALIGNED) != 0 for stage in plan.stages for width in widths)

    def launch_share(self, plan: Plan) -> float:
        """The share of the longest stage's time that launching adds to what the device does, without a calibrated stall."""
        costs = self.costs(plan)
        totals = [cost.durations.total for cost in costs]
        index = totals.index(max(totals))
        stall = 2 * plan.stages[index].layers * self.rates(slowest_device(plan, index, self.cluster)).stall
        terms = costs[index].terms
        return max(0.0, terms[STAGE_TERMS.index("launch")] - stall) / fsum(terms)

    def tensor_between_nodes(self, plan: Plan) -> bool:
        """Whether a tensor-parallel group leaves its node without a measured all-reduce of such a group."""
        for mesh in {stage.mesh for stage in plan.stages}:
            size, stride = self.layout(plan, mesh).tensor
            if size > 1 and self.network.levels(size, stride)[-1].tier.span > self.cluster.devices_per_node:
                name = "all_gather" if plan.sequence_parallel else "all_reduce"
                if self.network.measured(name, size, stride) is None:
                    return True
        return False


def _batch(plan: Plan) -> tuple[object, ...]:
    return plan.microbatch, plan.accumulation, plan.order


def _after(cost: StageCost) -> float:
    return cost.sync + cost.optimizer


def step_time(plan: Plan, model: Transformer, workload: Workload, cluster: Cluster, factors: Factors = NOMINAL) -> StepTime:
    """The step time of one plan by closed form. For many plans keep a `TimeModel`."""
    return TimeModel(model, workload, cluster, factors).step_time(plan)
