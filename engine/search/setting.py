"""What all chains of a stage search share, and how many layers of each kind every run of layers has. Prices nothing."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..frozen import dataclass
from ..model import Transformer, moe_layers
from ..plan import Mesh, Recompute, Schedule

Floats = NDArray[np.float64]
Chain = tuple[tuple[int, int, int], ...]
#: (forward, total) seconds.
Pair = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Setting:
    """What all chains of a search share. `sequences`: of one microbatch over all replicas; a mesh takes its data's part each."""

    stages: int
    sequences: int
    accumulation: int
    schedule: Schedule
    zero: int
    sequence_parallel: bool
    order: tuple[str, ...]
    meshes: tuple[Mesh, ...]
    recomputes: tuple[Recompute, ...]

    @property
    def tasks(self) -> int:
        """Tasks of one simulated step."""
        return self.stages * self.accumulation * (3 if self.schedule is Schedule.ZB_H1 else 2)


class LayerCounts(NamedTuple):
    """[first, last] dense and MoE layers of every run of layers; inf and 0 where last < first. `plain` and `routed`: the first
    dense and the first MoE layer.
    """

    dense: Floats
    moe: Floats
    plain: int | None
    routed: int | None

    def unlike(self, there: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
        """The first run of layers of each length and number of MoE layers among those that are `there` [first, last]."""
        first, last = np.nonzero(there)
        _, chosen = np.unique((last - first) * (len(there) + 1) + self.moe[first, last], return_index=True)
        yield from zip(first[chosen].tolist(), last[chosen].tolist(), strict=True)


def layer_counts(model: Transformer) -> LayerCounts:
    """The counts of a model; all its searches share them."""
    layers = model.layers
    before = np.array([moe_layers(model, 0, layer - 1) for layer in range(layers + 1)], dtype=np.float64)
    moe = before[None, 1:] - before[:-1, None]
    number = np.arange(layers)[None, :] - np.arange(layers)[:, None] + 1.0
    kinds = [bool(moe_layers(model, layer, layer)) for layer in range(layers)]
    plain, routed = (kinds.index(kind) if kind in kinds else None for kind in (False, True))
    return LayerCounts(np.where(number > 0, number - moe, inf), np.where(number > 0, moe, 0.0), plain, routed)


class Bounded(NamedTuple):
    """A chain with its lower bound."""

    bound: float
    chain: Chain
