"""What the search asks of the cost model: bounds, memory, step times and ratios of plans, each computed once.

Where the proposal has a profile, each number that it gives of a stage stands in place of the estimate, and the plan is marked as
measured, wholly or in part. Bounds are never above the step time that is ordered and reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import hypot

from ..cluster import Cluster
from ..cost import MemoryModel, Priced, Pricer, StageMemory, StepTime, TimeLedger, memory_ledger
from ..cost.makespan import makespan
from ..cost.measured import MeasuredNumbers, MeasuredStage, latencies, measured_estimate, mixed_estimate, nothing_measured
from ..cost.measured_memory import measured_ledger, measured_memory
from ..cost.memory import Fit, excess_bytes, feasible, fits, may_fit, peak_stage, stage_device, stage_memory
from ..cost.memory_terms import BARE, Implementation, local_microbatch
from ..cost.schedule import closed_form, lower_bound
from ..cost.simulation import Durations, Pipeline
from ..cost.time_ledger import StageTime
from ..cost.transfers import transfer_seconds
from ..model import Transformer, Workload
from ..plan import Mesh, Plan, Stage
from ..quantity import Decider, Estimate

Stages = Sequence["MeasuredStage | None"]


class PlanPricer:
    """Prices plans of one case. `numbers` gives what was measured of a stage, or None where nothing was."""

    def __init__(
        self,
        model: Transformer,
        workload: Workload,
        cluster: Cluster,
        numbers: MeasuredNumbers = nothing_measured,
        implementation: Implementation = BARE,
        headroom: float = 0.0,
    ) -> None:
        self.model, self.workload, self.cluster = model, workload, cluster
        self.memory_model = MemoryModel(model, workload, implementation)
        self.pricer = Pricer(model, workload, cluster, memory=self.memory_model, transfer=implementation.transfer)
        self.numbers = numbers
        #: The share of each device's memory that a policy keeps free.
        self.headroom = headroom
        #: Whether stages fit, by all that decides it, as searches of several settings find out: 0 no, 1 perhaps, 2 surely.
        self.known_fits: dict[tuple[object, ...], int] = {}
        #: By what a last stage exceeds its device, and its largest row, by all that decides it.
        self.known_excess: dict[tuple[object, ...], tuple[int, str]] = {}
        #: The stages of the probes that searches of several settings ask with, by mesh and number.
        self.known_stages: dict[tuple[Mesh, int], tuple[Stage, ...]] = {}
        self._least_hops: dict[tuple[object, ...], float] = {}
        #: A plan by its identity, and what its stages are to be stretched by.
        self.stretched: tuple[tuple[object, ...], float] | None = None

    @property
    def has_profile(self) -> bool:
        """Whether some number may be measured."""
        return self.numbers is not nothing_measured

    def measured(self, plan: Plan) -> Stages | None:
        """What was measured of each stage of a plan; None where nothing was of any."""
        if not self.has_profile:
            return None
        found = [
            self.numbers(one.first, one.last, one.mesh, local_microbatch(plan, one), one.embedding, one.head)
            for one in plan.stages
        ]
        return found if any(one is not None for one in found) else None

    def timed(self, plan: Plan) -> Stages | None:
        """The same, None where no time was."""
        stages = self.measured(plan)
        return stages if stages is not None and any(one is not None and one.timed for one in stages) else None

    def durations(self, plan: Plan, *, contended: bool = False) -> list[Durations]:
        """Each stage's passes: measured where they were, estimated where not. `contended`: with what messages take from them."""
        time, stages = self.pricer.time, self.timed(plan)
        costs = time.parts(plan).costs if contended else time.costs(plan)
        rows = [cost.durations for cost in costs]
        for k, stage in enumerate(stages or ()):
            if stage is not None and stage.timed:
                rows[k] = stage.durations if stage.whole else self._mixed(plan, k, stage, rows[k])
        if self.stretched is not None and plan.identity == self.stretched[0]:
            rows = [Durations(*(self.stretched[1] * seconds for seconds in one)) for one in rows]
        return rows

    def _mixed(self, plan: Plan, k: int, stage: MeasuredStage, estimated: Durations) -> Durations:
        """A stage of which some layers were timed: those, and the estimate less theirs."""
        time, rest = self.pricer.time, list(estimated)
        for layer in stage.layers or ():
            rest = [a - b for a, b in zip(rest, time.layer(plan, k, layer), strict=True)]
        for name, there in (("embedding", stage.embedding), ("head", stage.head)):
            if there:
                rest = [a - b for a, b in zip(rest, time.end(plan, k, name), strict=True)]
        forward, backward, weight = (max(0.0, seconds) for seconds in rest)
        return Durations(forward + stage.forward, backward + stage.backward, weight)

    def bound(self, plan: Plan) -> float:
        """Seconds that the plan's step cannot be below."""
        if self.timed(plan) is None:
            return self.pricer.time.lower_bound(plan)
        transfers = [hop.seconds for hop in self.pricer.time.hops(plan)[0]]
        return lower_bound(plan.schedule, self.durations(plan), plan.accumulation, plan.interleave, transfers) * (1 - 1e-12)

    def least_hop(self, mesh: Mesh, other: Mesh, plan: Plan) -> float:
        """Seconds that a message between stages of two meshes takes at least, wherever they lie; of `plan` the microbatch and how
        its activations lie.
        """
        sequences = plan.microbatch * plan.mesh.data
        key = mesh, other, sequences, plan.sequence_parallel, plan.order
        if key not in self._least_hops:
            self._least_hops[key] = self.pricer.time.least_hop(plan, mesh, other, sequences)
        return self._least_hops[key]

    def stage_bound(self, plan: Plan) -> float:
        """Microbatches x the longest stage: below the step of every plan whose stages are no quicker than these."""
        return plan.accumulation * max(one.total for one in self.durations(plan)) * (1 - 1e-12)

    def least_after(self, plan: Plan, index: int, stages: Sequence[Stage]) -> float:
        """Seconds after the last pass, synchronisation left and optimizer, that each of `stages` takes at least in the place of
        stage `index`; they differ in their layers alone. 0 where a profile may stand in place of the estimate.
        """
        return 0.0 if self.has_profile else self.pricer.time.least_after(plan, index, stages)

    def stream(self, plan: Plan, stage: int) -> tuple[int, int]:
        """(tokens, width) of a sequence's stream behind a stage."""
        return self.workload.sequence_length, self.model.hidden

    def stream_divided(self, plan: Plan, stage: int) -> bool:
        """Whether the stream of a stage lies divided on the tensor axis."""
        return plan.sequence_parallel

    def ledger(self, plan: Plan) -> tuple[StageMemory, ...]:
        """The memory of every stage, each number measured or estimated."""
        return measured_ledger(self.measured(plan), self.estimated_ledger(plan))

    def estimated_ledger(self, plan: Plan) -> tuple[StageMemory, ...]:
        """The memory of every stage without what was measured."""
        return memory_ledger(plan, self.model, self.workload, self.cluster, self.memory_model)

    def stage_ledger(self, plan: Plan, stage: int, *, measured: bool = True) -> StageMemory:
        """The memory of one stage, at its place in the plan; by the estimate alone without `measured`."""
        memory = stage_memory(plan, stage, self.memory_model, stage_device(plan, stage, self.cluster))
        if not (measured and self.has_profile):
            return memory
        one = plan.stages[stage]
        found = self.numbers(one.first, one.last, one.mesh, local_microbatch(plan, one), one.embedding, one.head)
        return measured_memory(found, memory)

    def stage_fit(self, plan: Plan, stage: int, *, measured: bool = True) -> Fit:
        """Whether one stage fits: what `fit` says of a plan is the worst of its stages."""
        memory = self.stage_ledger(plan, stage, measured=measured)
        if self.headroom and memory.device.value > (1 - self.headroom) * memory.capacity_bytes:
            return "no"
        return fits(memory)

    def stage_may_fit(self, plan: Plan, stage: int) -> bool:
        """Whether one stage is not sure to be too large by the estimate alone: `stage_fit` is not "no"."""
        if self.headroom:
            return self.stage_fit(plan, stage, measured=False) != "no"
        return may_fit(plan, stage, self.memory_model, stage_device(plan, stage, self.cluster))

    def stage_excess(self, memory: StageMemory) -> int:
        """Bytes by which a stage exceeds its device, less what the policy keeps free; 0 or less within it."""
        over = memory.device.value - (1 - self.headroom) * memory.capacity_bytes if self.headroom else 0.0
        return max(excess_bytes(memory), round(over))

    def fit(self, plan: Plan, ledger: Sequence[StageMemory]) -> Fit:
        """Whether the plan fits, by the interval of its ledger."""
        if any(memory.device.value > (1 - self.headroom) * memory.capacity_bytes for memory in ledger) and self.headroom:
            return "no"
        return feasible(tuple(ledger))

    def seconds(self, plan: Plan) -> float:
        """The step time as it is reported: simulated, over measured stages where there are any."""
        stages = self.timed(plan)
        if stages is None and (self.stretched is None or plan.identity != self.stretched[0]):
            return self.pricer.time.simulated(plan).seconds
        return self._measured_step(plan, stages or [None] * plan.pipeline)[0].seconds

    def price(self, plan: Plan) -> Priced:
        """Everything about a plan, with its interval."""
        priced = self.pricer.price(plan)
        measured = self.measured(plan)
        if measured is None:
            return priced
        memory = measured_ledger(measured, priced.memory)
        fit = self.fit(plan, memory)
        priced = replace(priced, memory=memory, peak=peak_stage(memory), feasible=fit)
        stages = self.timed(plan)
        if stages is not None:
            step, others = self._measured_step(plan, stages)
            share = self.measured_share(plan, stages)
            estimate = measured_estimate(step.seconds, stages, others if share == 1.0 else ())
            if share < 1.0:
                estimate = mixed_estimate(estimate, priced.step_estimate, step.seconds, share)
            exceptions = () if share == 1.0 else priced.exceptions
            priced = replace(priced, step=step, step_estimate=estimate, exceptions=exceptions)
        longest = max(priced.step.terms, key=lambda term: term[1])[0]
        return replace(priced, binding="capacity" if fit != "yes" else longest)

    def measured_share(self, plan: Plan, stages: Stages) -> float:
        """The least share of a stage's time that was measured: 1 where all of all of them was."""
        totals = [one.total for one in self.durations(plan)]
        shares = [
            0.0 if one is None or not one.timed else 1.0 if one.whole else min(1.0, one.durations.total / total)
            for one, total in zip(stages, totals, strict=True)
        ]
        return min(shares)

    def ratio(self, first: Priced, second: Priced) -> Estimate:
        """The first step time over the second, with its interval: under common draws, or over independent measurements."""
        if self.timed(first.plan) is None and self.timed(second.plan) is None:
            return self.pricer.ratio(first, second)
        one, two = first.step_estimate, second.step_estimate
        value = one.value / two.value
        if first.plan.identity == second.plan.identity:
            return replace(one, value=1.0, low=1.0, high=1.0)
        below = hypot(1 - one.low / one.value, two.high / two.value - 1)
        above = hypot(one.high / one.value - 1, 1 - two.low / two.value)
        return replace(one, value=value, low=value * (1 - below), high=value * (1 + above))

    def excess(self, plan: Plan, ledger: Sequence[StageMemory]) -> tuple[int, int]:
        """(stage, bytes) of the largest excess over the device at the low end; negative bytes where it fits."""
        over = [excess_bytes(memory) for memory in ledger]
        if self.headroom:
            kept = 1 - self.headroom
            over = [max(one, round(m.device.value - kept * m.capacity_bytes)) for one, m in zip(over, ledger, strict=True)]
        worst = max(range(len(over)), key=lambda k: over[k])
        return worst, over[worst]

    def _measured_step(self, plan: Plan, stages: Stages) -> tuple[StepTime, list[Decider]]:
        """The step over measured stages; what else decided it."""
        time = self.pricer.time
        costs = time.costs(plan)
        hops, wrap = time.hops(plan)
        whole = all(stage is not None and stage.whole for stage in stages)
        durations = self.durations(plan, contended=not whole)
        if not whole:
            hops = time.parts(plan).hops
        transfers = [hop.seconds for hop in hops]
        m = plan.accumulation
        period = closed_form(plan.schedule, durations, transfers, m, plan.interleave).period
        channel = [*transfers, wrap] if plan.interleave > 1 else transfers
        pipeline, cut = makespan(plan.schedule, durations, channel, m, plan.interleave)
        estimated = time.simulated(plan)
        exposed = estimated.ledger.exposed_s
        steps = [
            cost.optimizer if stage is None or stage.optimizer is None else stage.optimizer
            for cost, stage in zip(costs, stages, strict=True)
        ]
        optimizer = max(steps)
        totals = [one.total for one in durations]
        longest = max(totals)
        repeated = min(period, (pipeline - longest) / (m - 1)) if m > 1 else period
        intra, inter = transfer_seconds(hops)
        idle = pipeline - m * longest
        transfer = min(max(0.0, idle), intra + inter)
        others = self._others(plan, stages, exposed)
        notes = (f"microbatches beyond {cut} are continued at the pipeline's steady period",) if cut else ()
        after = tuple((cost.sync, seconds) for cost, seconds in zip(costs, steps, strict=True))
        step = StepTime(
            seconds=pipeline + exposed + optimizer,
            ledger=TimeLedger(pipeline - (m - 1) * repeated, repeated, m, intra, inter, exposed, idle, optimizer),
            stages=tuple(StageTime(one.forward, one.backward + one.weight, one.total, ()) for one in durations),
            bottleneck=totals.index(longest),
            terms=(
                ("measured stages" if whole else "stages, partly measured", m * longest),
                ("pipeline_transfer", transfer),
                ("bubble", idle - transfer),
                ("gradient_sync", exposed),
                ("optimizer", optimizer),
            ),
            deciders=(*latencies(stages), *others),
            unmodelled=notes if whole else notes + estimated.unmodelled,
            simulated=True,
            pipeline=Pipeline(
                plan.schedule, plan.interleave, m, tuple(durations), tuple(channel), tuple(hop.tier for hop in hops), after
            ),
        )
        return step, others

    def _others(self, plan: Plan, stages: Stages, exposed: float) -> list[Decider]:
        """What a measured step rests on besides its stages: links, and what was not measured."""
        time, found = self.pricer.time, []
        tiers = {tier.name: tier for tier in self.cluster.tiers}
        for name in sorted({hop.tier for hop in time.hops(plan)[0]}):
            found.append(Decider(f"bandwidth of {name}", tiers[name].bandwidth))
        if exposed > 0:
            for mesh in sorted({stage.mesh for stage in plan.stages}):
                size, stride = time.layout(plan, mesh).data
                if size > 1:
                    curve = time.network.measured("all_reduce", size, stride) if plan.zero == 0 else None
                    level = time.network.levels(size, stride)[-1]
                    found.append(
                        Decider(f"all-reduce over {size} devices", curve.source)
                        if curve is not None
                        else Decider(f"bandwidth of {level.tier.name}", level.tier.bandwidth)
                    )
        if any(stage is None or stage.optimizer is None for stage in stages):
            found.append(Decider("optimizer step, by memory bandwidth", self.cluster.device.efficiency.memory.quantity))
        return found
