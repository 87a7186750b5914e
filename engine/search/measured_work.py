"""What measured stages do to the tables of a stage search: their times in place of estimates, for every run of layers.

A stage is the sum of its layers and ends, so what was timed of it is exchanged part by part, as in a plan's price; what holds of
sums need not hold here: a stage that was timed whole may be quicker than some of its layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from ..cost.measured import MeasuredNumbers, MeasuredStage
from ..plan import Mesh

Floats = NDArray[np.float64]


def places(layers: int, stage: int, stages: int) -> Iterator[tuple[int, int]]:
    """Every (first, last) that stage `stage` of `stages` can hold."""
    firsts = range(stage, layers - (stages - 1 - stage)) if stage else range(1)
    for first in firsts:
        lasts = range(first, layers - (stages - 1 - stage)) if stage < stages - 1 else (layers - 1,)
        for last in lasts:
            yield first, last


def measured(
    numbers: MeasuredNumbers, layers: int, stage: int, stages: int, mesh: Mesh, microbatch: int
) -> Iterator[tuple[int, int, MeasuredStage]]:
    """What was measured of the stage at each of its places."""
    for first, last in places(layers, stage, stages):
        found = numbers(first, last, mesh, microbatch, stage == 0, stage == stages - 1)
        if found is not None:
            yield first, last, found


def exchange(
    forward: Floats, total: Floats, found: Iterator[tuple[int, int, MeasuredStage]], layer: Sequence[Floats], end: Floats
) -> None:
    """Put measured times into the tables [first, last] of a stage. `layer[l]`: (forward, total) estimated of layer l, `end` of
    the stage's end; `forward` may be empty.
    """
    for first, last, one in found:
        if not one.timed:
            continue
        gone = np.zeros(2)
        for index in one.layers or ():
            gone += layer[index]
        if one.embedding or one.head:
            gone += end
        for table, part, seconds in ((forward, 0, one.forward), (total, 1, one.durations.total)):
            if table.size:
                rest = 0.0 if one.whole else max(0.0, float(table[first, last]) - float(gone[part]))
                table[first, last] = rest + seconds


def least_cover(tables: Sequence[Floats]) -> float:
    """The least sum over intervals that cover all layers, each at the least of the tables [first, last]."""
    least = np.minimum.reduce(list(tables))
    best = np.full(len(least) + 1, inf)
    best[0] = 0.0
    for end in range(1, len(best)):
        best[end] = (best[:end] + least[:end, end - 1]).min()
    return float(best[-1])
