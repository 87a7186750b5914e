"""A step in the order in which it is spent, and what one stage of it takes. Plain results; nothing is computed here but sums."""

from __future__ import annotations

from typing import NamedTuple

from ..frozen import dataclass


class StageTime(NamedTuple):
    """One stage: seconds of one microbatch. `communication` is by tier, hidden or not; `backward_s` includes
    recomputation.
    """

    forward_s: float
    backward_s: float
    compute_s: float
    communication: tuple[tuple[str, float], ...]

    @property
    def total_s(self) -> float:
        """Forward and backward."""
        return self.forward_s + self.backward_s


@dataclass(frozen=True, slots=True)
class TimeLedger:
    """A step in the order in which it is spent:

    seconds = first_microbatch_s + (microbatches - 1) x bottleneck_s + exposed_s + optimizer_s

    `bottleneck_s` is the time between two microbatches in the steady state, `first_microbatch_s` the first one with the
    drain of the pipeline. `exposed_s` is communication after the pipeline. Thereof, inside the first two:
    `transfer_intra_s` and `transfer_inter_s`, one microbatch's messages both ways inside and between nodes, and
    `bubble_s`, the seconds that the bottleneck stage idles in the pipeline.
    """

    first_microbatch_s: float
    bottleneck_s: float
    microbatches: int
    transfer_intra_s: float
    transfer_inter_s: float
    exposed_s: float
    bubble_s: float
    optimizer_s: float

    @property
    def seconds(self) -> float:
        """The whole step."""
        return self.first_microbatch_s + (self.microbatches - 1) * self.bottleneck_s + self.exposed_s + self.optimizer_s
