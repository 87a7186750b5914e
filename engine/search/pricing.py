"""What the search asks of the cost model: bounds, memory, step times and ratios of plans, each computed once.

Where the proposal has a measured profile of all stages of a plan, its figures stand in place of the estimates, and the plan is
marked as measured. Bounds are never above the step time that is ordered and reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import hypot

from ..cluster import Cluster
from ..cost import MemoryModel, Priced, Pricer, StageMemory, StepTime, TimeLedger, memory_ledger
from ..cost.measured import MeasuredStage, MeasuredStages, measured_estimate, measured_peaks, nothing_measured
from ..cost.memory import Fit, excess_bytes, feasible, fits, stage_device, stage_memory
from ..cost.memory_terms import BARE, Implementation
from ..cost.schedule import closed_form, lower_bound
from ..cost.simulation import Pipeline
from ..cost.step import StageTime, makespan
from ..cost.transfers import transfer_seconds
from ..model import Transformer, Workload
from ..plan import Plan
from ..quantity import Decider, Estimate


class PlanPricer:
    """Prices plans of one case. `measured` gives the measured stages of a plan, or None where it was not measured."""

    def __init__(
        self,
        model: Transformer,
        workload: Workload,
        cluster: Cluster,
        measured: MeasuredStages = nothing_measured,
        implementation: Implementation = BARE,
        headroom: float = 0.0,
    ) -> None:
        self.model, self.workload, self.cluster = model, workload, cluster
        self.memory_model = MemoryModel(model, workload, implementation)
        self.pricer = Pricer(model, workload, cluster, memory=self.memory_model, transfer=implementation.transfer)
        self.measured = measured
        #: The share of each device's memory that a policy keeps free.
        self.headroom = headroom

    def bound(self, plan: Plan) -> float:
        """Seconds that the plan's step cannot be below."""
        stages = self.measured(plan)
        if stages is None:
            return self.pricer.time.lower_bound(plan)
        durations = [stage.durations for stage in stages]
        return lower_bound(plan.schedule, durations, plan.accumulation, plan.interleave) * (1 - 1e-12)

    def stage_bound(self, plan: Plan) -> float:
        """Microbatches x the longest stage: below the step of every plan whose stages are no quicker than these."""
        stages = self.measured(plan)
        durations = [one.durations for one in (self.pricer.time.costs(plan) if stages is None else stages)]
        totals = [one.total for one in durations]
        return plan.accumulation * max(totals) * (1 - 1e-12)

    def after(self, plan: Plan, stage: int) -> float:
        """Seconds that a stage takes after its last pass, at least: synchronisation left over, and the optimizer.

        0 where a profile may stand in place of the estimate.
        """
        return 0.0 if self.measured is not nothing_measured else self.pricer.time.after(plan, stage)

    def ledger(self, plan: Plan) -> tuple[StageMemory, ...]:
        """The estimated memory of every stage."""
        return memory_ledger(plan, self.model, self.workload, self.cluster, self.memory_model)

    def stage_ledger(self, plan: Plan, stage: int) -> StageMemory:
        """The estimated memory of one stage, at its place in the plan."""
        return stage_memory(plan, stage, self.memory_model, stage_device(plan, stage, self.cluster))

    def stage_fit(self, plan: Plan, stage: int) -> Fit:
        """Whether one stage fits, by the estimate: what `fit` says of a plan is the worst of its stages."""
        memory = self.stage_ledger(plan, stage)
        if self.headroom and memory.device.value > (1 - self.headroom) * memory.capacity_bytes:
            return "no"
        return fits(memory)

    def stage_excess(self, memory: StageMemory) -> int:
        """Bytes by which a stage exceeds its device, less what the policy keeps free; 0 or less within it."""
        over = memory.device.value - (1 - self.headroom) * memory.capacity_bytes if self.headroom else 0.0
        return max(excess_bytes(memory), round(over))

    def fit(self, plan: Plan, ledger: Sequence[StageMemory]) -> Fit:
        """Whether the plan fits: by measured bytes where all stages have them, else by the estimate's interval."""
        stages = self.measured(plan)
        if stages is not None:
            peaks = measured_peaks(plan, stages)
            if all(peak is not None for peak in peaks):
                over = any(peak > memory.capacity_bytes for peak, memory in zip(peaks, ledger, strict=True) if peak is not None)
                return "no" if over else "yes"
        if any(memory.device.value > (1 - self.headroom) * memory.capacity_bytes for memory in ledger) and self.headroom:
            return "no"
        return feasible(tuple(ledger))

    def seconds(self, plan: Plan) -> float:
        """The step time as it is reported: simulated, over measured stages where there are any."""
        stages = self.measured(plan)
        if stages is None:
            return self.pricer.time.simulated(plan).seconds
        return self._measured_step(plan, stages)[0].seconds

    def price(self, plan: Plan) -> Priced:
        """Everything about a plan, with its interval."""
        priced = self.pricer.price(plan)
        stages = self.measured(plan)
        if stages is None:
            return priced
        step, others = self._measured_step(plan, stages)
        fit = self.fit(plan, priced.memory)
        return replace(
            priced,
            step=step,
            step_estimate=measured_estimate(step.seconds, stages, others),
            feasible=fit,
            binding="capacity" if fit != "yes" else max(step.terms, key=lambda term: term[1])[0],
            exceptions=(),
        )

    def ratio(self, first: Priced, second: Priced) -> Estimate:
        """The first step time over the second, with its interval: under common draws, or over independent measurements."""
        if self.measured(first.plan) is None and self.measured(second.plan) is None:
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
        stages = self.measured(plan)
        over = [excess_bytes(memory) for memory in ledger]
        if self.headroom:
            kept = 1 - self.headroom
            over = [max(one, round(m.device.value - kept * m.capacity_bytes)) for one, m in zip(over, ledger, strict=True)]
        if stages is not None:
            peaks = measured_peaks(plan, stages)
            over = [
                peak - memory.capacity_bytes if peak is not None else estimate
                for peak, memory, estimate in zip(peaks, ledger, over, strict=True)
            ]
        worst = max(range(len(over)), key=lambda k: over[k])
        return worst, over[worst]

    def _measured_step(self, plan: Plan, stages: Sequence[MeasuredStage]) -> tuple[StepTime, list[Decider]]:
        """The step over measured stages; what else decided it."""
        time = self.pricer.time
        costs = time.costs(plan)
        hops, wrap = time.hops(plan)
        durations = [stage.durations for stage in stages]
        transfers = [hop.seconds for hop in hops]
        m = plan.accumulation
        period = closed_form(plan.schedule, durations, transfers, m, plan.interleave).period
        channel = [*transfers, wrap] if plan.interleave > 1 else transfers
        pipeline, cut = makespan(plan.schedule, durations, channel, m, plan.interleave)
        estimated = time.simulated(plan)
        exposed = estimated.ledger.exposed_s
        optimizer = max(
            cost.optimizer if stage.optimizer is None else stage.optimizer for cost, stage in zip(costs, stages, strict=True)
        )
        totals = [one.total for one in durations]
        longest = max(totals)
        repeated = min(period, (pipeline - longest) / (m - 1)) if m > 1 else period
        intra, inter = transfer_seconds(hops)
        idle = pipeline - m * longest
        transfer = min(max(0.0, idle), intra + inter)
        others = self._others(plan, stages, exposed)
        notes = (f"microbatches beyond {cut} are continued at the pipeline's steady period",) if cut else ()
        after = tuple(
            (cost.sync, cost.optimizer if stage.optimizer is None else stage.optimizer)
            for cost, stage in zip(costs, stages, strict=True)
        )
        step = StepTime(
            seconds=pipeline + exposed + optimizer,
            ledger=TimeLedger(pipeline - (m - 1) * repeated, repeated, m, intra, inter, exposed, idle, optimizer),
            stages=tuple(StageTime(one.forward, one.backward, one.total, ()) for one in durations),
            bottleneck=totals.index(longest),
            terms=(
                ("measured stages", m * longest),
                ("pipeline_transfer", transfer),
                ("bubble", idle - transfer),
                ("gradient_sync", exposed),
                ("optimizer", optimizer),
            ),
            deciders=(*(Decider(f"latency of stage {k}", stage.source) for k, stage in enumerate(stages)), *others),
            unmodelled=notes,
            simulated=True,
            pipeline=Pipeline(
                plan.schedule, plan.interleave, m, tuple(durations), tuple(channel), tuple(hop.tier for hop in hops), after
            ),
        )
        return step, others

    def _others(self, plan: Plan, stages: Sequence[MeasuredStage], exposed: float) -> list[Decider]:
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
        if any(stage.optimizer is None for stage in stages):
            found.append(Decider("optimizer step, by memory bandwidth", self.cluster.device.efficiency.memory.quantity))
        return found
