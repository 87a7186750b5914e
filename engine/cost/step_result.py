"""What the price of a step is: its parts, the step that they make, and what the event simulation is given of them."""

from __future__ import annotations

from typing import NamedTuple

from ..frozen import dataclass
from ..plan import Plan
from ..quantity import Decider
from .simulation import Pipeline
from .stage_costs import StageCost
from .time_ledger import StageTime, TimeLedger
from .transfers import Hop


@dataclass(frozen=True, slots=True)
class StepTime:
    """One step. `terms` by name add up to `seconds`: those of a stage are the bottleneck stage's, times the
    microbatches.
    """

    seconds: float
    ledger: TimeLedger
    stages: tuple[StageTime, ...]
    bottleneck: int
    terms: tuple[tuple[str, float], ...]
    deciders: tuple[Decider, ...]
    unmodelled: tuple[str, ...]
    simulated: bool = False
    #: What the simulation was given; None where the step is by closed form.
    pipeline: Pipeline | None = None

    def term(self, name: str) -> float:
        """Seconds of one term."""
        return next(seconds for key, seconds in self.terms if key == name)


class Parts(NamedTuple):
    """What a plan's step is put together from."""

    costs: list[StageCost]
    hops: tuple[Hop, ...]
    wrap: float
    tied: float
    tied_tiers: tuple[str, ...]


def pipeline_of(plan: Plan, parts: Parts) -> Pipeline:
    """The durations and dependencies of a plan's step."""
    wrap = (parts.wrap,) if plan.interleave > 1 else ()
    transfers = (*(hop.seconds for hop in parts.hops), *wrap)
    stages, tiers = tuple(cost.durations for cost in parts.costs), tuple(hop.tier for hop in parts.hops)
    after = tuple((cost.sync, cost.optimizer) for cost in parts.costs)
    return Pipeline(plan.schedule, plan.interleave, plan.accumulation, stages, transfers, tiers, after)
