"""Plans priced on measured stages: the proposal's own latencies and memory in place of the model's.

A stage counts as measured where the profile has its time; its memory is taken from the profile where that has it. The schedule
is simulated over the measured durations; transfers, gradient synchronisation and, where it was not measured, the optimizer
come from the network and the device sheet, each with its grade. Replaces figures only; decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..frozen import dataclass
from ..plan import Plan
from ..quantity import Decider, Dimension, Estimate, Grade, Quantity, weakest
from .in_flight import in_flight
from .simulation import Durations


@dataclass(frozen=True, slots=True)
class MeasuredStage:
    """One stage as measured: seconds of one microbatch, bytes of one rank. `source` is the weakest row's quantity.

    Where only the sum of forward and backward was measured, `backward` is twice `forward` (a backward pass has two matrix
    products for each of the forward pass); in an even pipeline only their sum counts.
    """

    forward: float
    backward: float
    optimizer: float | None
    memory: int | None
    state: int | None
    workspace: int | None
    activation: int | None
    source: Quantity

    @property
    def durations(self) -> Durations:
        """Forward and backward, for the simulation."""
        return Durations(self.forward, self.backward)

    def peak(self, held: float) -> int | None:
        """Bytes of the rank with `held` microbatches in flight, None where memory was not measured."""
        if self.state is not None and self.activation is not None:
            return round(self.state + held * self.activation + (self.workspace or 0))
        return self.memory


MeasuredStages = Callable[[Plan], "Sequence[MeasuredStage] | None"]


def nothing_measured(plan: Plan) -> None:
    """The `MeasuredStages` of a proposal without a profile."""


def measured_peaks(plan: Plan, stages: Sequence[MeasuredStage]) -> list[int | None]:
    """Measured bytes of each stage's rank, by the microbatches that its place in the schedule holds."""
    return [
        stage.peak(float(in_flight(plan.schedule, k, plan.pipeline, plan.accumulation, plan.interleave).microbatches))
        for k, stage in enumerate(stages)
    ]


def measured_estimate(seconds: float, stages: Sequence[MeasuredStage], others: Sequence[Decider]) -> Estimate:
    """The step time over measured stages: as good as its weakest part, +-5 % where all of it was measured.

    Repeats of one configuration differ by 1-3 % (BigScience A100 sweeps); a stage alone and a stage among others by a little
    more. Each part that is estimated widens it to that of its grade.
    """
    deciders = (*(Decider(f"latency of stage {k}", stage.source) for k, stage in enumerate(stages)), *others)
    grade = weakest(decider.quantity.grade for decider in deciders)
    half = {Grade.MEASURED: 0.05, Grade.PUBLISHED: 0.07, Grade.VENDOR: 0.1, Grade.ESTIMATED: 0.15, Grade.ASSUMED: 0.25}
    spread = half[grade]
    return Estimate(seconds, seconds * (1 - spread), seconds * (1 + spread), Dimension.TIME, grade, deciders)
