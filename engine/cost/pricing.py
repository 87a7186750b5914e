"""One plan, priced: its step time with an interval, its memory, whether it fits and what binds it.

This is where time and memory meet; each is computed in its own modules and neither knows the other. A `Pricer` keeps
what plans of one model, workload and cluster share.
"""

from __future__ import annotations

from ..cluster.cluster import Cluster
from ..frozen import dataclass
from ..model import Transformer, Workload, training_flops_per_token
from ..plan import Plan
from ..quantity import Estimate
from .compute import peak_rate
from .intervals import DRAWS, Uncertainty
from .memory import Fit, MemoryModel, StageMemory, excess_bytes, feasible, headroom_bytes, memory_ledger, peak_stage
from .placement import slowest_device
from .sending import Transfer
from .step import TimeModel
from .step_result import StepTime

#: Beyond this share of a device's memory the allocator may stall steps: published runs there were up to a quarter
#: slower than the trend of their sweep (MosaicML MPT 30B at sequence 8192; BigScience 200B at 73 GB and more), so the
#: interval is wider.
NEARLY_FULL = 0.9


@dataclass(frozen=True, slots=True)
class Priced:
    """A plan with everything that is said of it. `step` is simulated; `peak` is the stage with the least headroom.

    `binding` names what keeps the plan from being better: `memory` where it does not surely fit, otherwise the term
    that most of the step is spent on (see `step.TERMS`). `exceptions`: why its interval is wider than others'.
    """

    plan: Plan
    step: StepTime
    step_estimate: Estimate
    memory: tuple[StageMemory, ...]
    peak: int
    feasible: Fit
    binding: str
    exceptions: tuple[str, ...]
    #: Model FLOPs of a step, and the peak rate of all devices that the plan uses together.
    model_flops: float
    peak_flops_per_s: float
    tokens: int

    @property
    def mfu(self) -> float:
        """Model FLOPs utilisation: model FLOPs over step time and peak rate.

        Full attention matrices are counted and recomputation is not (Chowdhery et al. 2022, PaLM, arXiv 2204.02311,
        appendix B).
        """
        return self.model_flops / (self.step.seconds * self.peak_flops_per_s)

    @property
    def tokens_per_second(self) -> float:
        """Tokens of the global batch over the step time, all devices together."""
        return self.tokens / self.step.seconds

    @property
    def headroom_bytes(self) -> int:
        """What is left on the fullest stage; negative where it does not fit."""
        return headroom_bytes(self.memory[self.peak])

    @property
    def excess_bytes(self) -> int:
        """What the plan lacks on its worst stage; 0 where it fits."""
        return max(excess_bytes(one) for one in self.memory)


class Pricer:
    """Prices plans of one model and workload on one cluster. `time` ranks and bounds, `price` reports."""

    def __init__(
        self,
        model: Transformer,
        workload: Workload,
        cluster: Cluster,
        *,
        memory: MemoryModel | None = None,
        n_draws: int = DRAWS,
        transfer: Transfer = Transfer.DIRECT,
    ) -> None:
        self.model, self.workload, self.cluster = model, workload, cluster
        self.time = TimeModel(model, workload, cluster, transfer=transfer)
        self.memory = memory or MemoryModel(model, workload)
        self._n_draws = n_draws
        self._uncertainty: Uncertainty | None = None
        self._flops: float = training_flops_per_token(model, workload.sequence_length, causal=False)

    @property
    def uncertainty(self) -> Uncertainty:
        """The draws, made when the first interval is asked for."""
        if self._uncertainty is None:
            self._uncertainty = Uncertainty(self.model, self.workload, self.cluster, self._n_draws, self.time)
        return self._uncertainty

    def price(self, plan: Plan) -> Priced:
        """Everything about `plan`."""
        step = self.time.simulated(plan)
        ledger = memory_ledger(plan, self.model, self.workload, self.cluster, self.memory)
        fit = feasible(ledger)
        full = any(one.device.value > NEARLY_FULL * one.capacity_bytes for one in ledger)
        exceptions = self.uncertainty.exceptions(plan)
        if full:
            exceptions += (f"a device is filled beyond {NEARLY_FULL:.0%} of its memory",)
        dtype = self.workload.precision.compute
        peak = sum(
            stage.mesh.devices * peak_rate(slowest_device(plan, k, self.cluster), dtype)[0] for k, stage in enumerate(plan.stages)
        )
        tokens = plan.global_batch * self.workload.sequence_length
        return Priced(
            plan=plan,
            step=step,
            step_estimate=self.uncertainty.interval(plan, step, exceptional=full),
            memory=ledger,
            peak=peak_stage(ledger),
            feasible=fit,
            binding="capacity" if fit != "yes" else max(step.terms, key=lambda term: term[1])[0],
            exceptions=exceptions,
            model_flops=float(self._flops) * tokens,
            peak_flops_per_s=peak,
            tokens=tokens,
        )

    def ratio(self, first: Priced, second: Priced) -> Estimate:
        """The ratio of two step times under common draws."""
        return self.uncertainty.ratio(first.plan, second.plan, (first.step, second.step))


def price(plan: Plan, model: Transformer, workload: Workload, cluster: Cluster) -> Priced:
    """One plan, priced. For many plans keep a `Pricer`."""
    return Pricer(model, workload, cluster).price(plan)
