"""Plans priced on measured stages: the proposal's own latencies and memory in place of the model's, number by number.

Each number of a stage that the profile has stands in place of its estimate, and each that it has not stays estimated: the time
of all of the stage or of some of its layers, the optimizer, what persists, activations, workspace. The schedule is simulated
over what results; transfers and gradient synchronisation come from the network, each with its grade. Replaces figures only;
decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..frozen import dataclass
from ..plan import Mesh
from ..quantity import Decider, Dimension, Estimate, Grade, Quantity, weakest
from .simulation import Durations


@dataclass(frozen=True, slots=True)
class MeasuredStage:
    """What was measured of one stage: seconds of one microbatch, bytes of one rank; None where not.

    `forward` and `backward` are those of `layers`, of which None stands for all of the stage, and of its ends where `embedding`
    and `head` say so; `source` is the profile's. Where only the sum of forward and backward was measured, `backward` is twice
    `forward` (a backward pass has two matrix products for each of the forward pass); in an even pipeline only their sum counts.
    """

    forward: float
    backward: float
    optimizer: float | None
    memory: int | None
    state: int | None
    workspace: int | None
    activation: int | None
    source: Quantity
    layers: tuple[int, ...] | None = None
    embedding: bool = False
    head: bool = False

    @property
    def whole(self) -> bool:
        """Whether all of the stage was timed."""
        return self.layers is None

    @property
    def timed(self) -> bool:
        """Whether some of it was."""
        return self.layers is None or bool(self.layers) or self.embedding or self.head

    @property
    def remembers(self) -> bool:
        """Whether some of its memory was measured."""
        return any(one is not None for one in (self.memory, self.state, self.workspace, self.activation))

    @property
    def durations(self) -> Durations:
        """Forward and backward of what was timed, for the simulation."""
        return Durations(self.forward, self.backward)

    def numbers(self) -> tuple[str, ...]:
        """What was measured, in words."""
        rows = []
        if self.whole:
            rows.append("latency")
        elif self.timed:
            ends = [name for name, there in (("the embedding", self.embedding), ("the head", self.head)) if there]
            layers = [f"layers {_runs(self.layers or ())}"] if self.layers else []
            rows.append(f"latency of {' and '.join([*layers, *ends])}")
        named = ("memory", self.memory), ("state", self.state), ("activation", self.activation), ("workspace", self.workspace)
        return (*rows, *(name for name, value in (*named, ("optimizer", self.optimizer)) if value is not None))


def _runs(layers: Sequence[int]) -> str:
    """`0 to 3, 7`."""
    found: list[list[int]] = []
    for layer in layers:
        if found and layer == found[-1][1] + 1:
            found[-1][1] = layer
        else:
            found.append([layer, layer])
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in found)


#: (first layer, last layer, mesh, microbatch, embedding, head) to what was measured of such a stage, None for nothing.
MeasuredNumbers = Callable[[int, int, Mesh, int, bool, bool], "MeasuredStage | None"]


def nothing_measured(first: int, last: int, mesh: Mesh, microbatch: int, embedding: bool, head: bool) -> None:
    """The `MeasuredNumbers` of a proposal without a profile."""


def mixed_estimate(measured: Estimate, estimated: Estimate, seconds: float, share: float) -> Estimate:
    """The step over stages of which `share` of the time was measured: its interval lies between the two by that share."""
    below = share * (1 - measured.low / measured.value) + (1 - share) * (1 - estimated.low / estimated.value)
    above = share * (measured.high / measured.value - 1) + (1 - share) * (estimated.high / estimated.value - 1)
    names = {decider.name for decider in measured.deciders}
    deciders = (*measured.deciders, *(decider for decider in estimated.deciders if decider.name not in names))
    grade = weakest((measured.grade, estimated.grade))
    return replace(measured, value=seconds, low=seconds * (1 - below), high=seconds * (1 + above), grade=grade, deciders=deciders)


def measured_estimate(seconds: float, stages: Sequence[MeasuredStage | None], others: Sequence[Decider]) -> Estimate:
    """The step time over measured stages: as good as its weakest part, +-5 % where all of it was measured.

    Repeats of one configuration differ by 1-3 % (BigScience A100 sweeps); a stage alone and a stage among others by a little
    more. Each part that is estimated widens it to that of its grade.
    """
    deciders = (*latencies(stages), *others)
    grade = weakest(decider.quantity.grade for decider in deciders)
    half = {Grade.MEASURED: 0.05, Grade.PUBLISHED: 0.07, Grade.VENDOR: 0.1, Grade.ESTIMATED: 0.15, Grade.ASSUMED: 0.25}
    spread = half[grade]
    return Estimate(seconds, seconds * (1 - spread), seconds * (1 + spread), Dimension.TIME, grade, deciders)


def latencies(stages: Sequence[MeasuredStage | None]) -> tuple[Decider, ...]:
    """The measured times of stages, or of their parts, as what decided a step."""
    named = [(k, one) for k, one in enumerate(stages) if one is not None and one.timed]
    return tuple(
        Decider(f"latency of stage {k}" if one.whole else f"{one.numbers()[0]}, stage {k}", one.source) for k, one in named
    )
