"""Tables of the stage problem: what the sweep in `stages_sweep` asks for at one bound on the slowest stage.

Vocabulary. A *stage* is (first layer, layer after its last, submesh choice); its *configuration* is picked last.
*Devices* are counted in units (the greatest common divisor of all sizes), one axis of every table for each device
type. *Later* is the number of stages behind a stage, which its memory limits. A *transfer* is the cost of a boundary;
it counts as a stage of its own, in the sum and in the maximum. *Relaxed* means: without the limits on later stages,
and with the cheapest transfer that each stage can be entered by.

Nothing here knows about microbatches, incumbents or what a plan is for.
"""

from __future__ import annotations

from dataclasses import field
from itertools import pairwise
from math import inf, prod

import numpy as np
from numpy.typing import NDArray

from ..errors import InternalFault
from ..frozen import dataclass

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Index = tuple[slice, ...]
Cut = tuple[int, int, int]

#: Numbers of cost columns that are kept between bounds.
_KEPT = 8_000_000
#: Sums of the same costs in another order differ by less than this, relatively.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class StageProblem:
    """One checked problem. L layers, M choices, C configurations, Q = M C, devices in units.

    `cost` and `later` are [L, L, M, C]; `cost` is inf where nothing fits. `sizes[m]` units on axis `types[m]`;
    `units` a type. `transfer` is [L-1] (the same for every pair), or [L-1, Q, Q]. `entry` is [L, 1] or [L, Q]: the
    cheapest transfer into a stage that starts at a layer, 0 at layer 0.
    """

    cost: Floats
    later: Ints
    sizes: tuple[int, ...]
    types: tuple[int, ...]
    units: tuple[int, ...]
    transfer: Floats
    entry: Floats
    idle: bool
    # Of the pairs of choice and configuration, or of the choices alone where transfers do not tell them apart:
    # [L, L, M, C or 1] what a stage adds to the sum, and to the maximum, its cheapest entry included.
    added: Floats
    slowest: Floats
    _columns: dict[int, Floats] = field(default_factory=dict)

    @property
    def layers(self) -> int:
        """L."""
        return int(self.cost.shape[0])

    @property
    def paired(self) -> bool:
        """Whether a transfer depends on what it connects."""
        return self.transfer.ndim == 3

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one row of a table: units used, one axis a device type."""
        return tuple(n + 1 for n in self.units)

    def with_room(self, choice: int) -> Index:
        """The states that have used at least the devices of `choice`."""
        return tuple(slice(self.sizes[choice] if t == self.types[choice] else 0, None) for t in range(len(self.units)))

    def without(self, choice: int) -> Index:
        """The states that leave at least the devices of `choice`; same shape as `with_room`."""
        return tuple(
            slice(0, n + 1 - (self.sizes[choice] if t == self.types[choice] else 0)) for t, n in enumerate(self.units)
        )

    def start(self) -> Floats:
        """The row of no layers: no device used, or any number of them idle."""
        row = np.full(self.shape, 0.0 if self.idle else inf)
        row[(0,) * row.ndim] = 0.0
        return row

    def columns_before(self, later: int, bound: float) -> Floats:
        """[M, C or 1, last layer, first layer]: costs with `later` stages behind; inf where memory forbids them, or
        at `bound`.
        """
        columns = self._columns.get(later)
        if columns is None:
            allowed = np.where(self.later >= later, self.cost, inf)
            allowed = allowed if self.paired else allowed.min(axis=-1, keepdims=True)
            columns = np.ascontiguousarray(allowed.transpose(2, 3, 1, 0))
            if columns.size * len(self._columns) < _KEPT:
                self._columns[later] = columns
        return np.where(columns < bound, columns, inf)


@dataclass(frozen=True, slots=True)
class Assigned:
    """Stages with their configurations, the sum of what they cost with the transfers between them, and the largest of
    these.
    """

    stages: tuple[tuple[int, int, int, int], ...]
    total: float
    slowest: float


def relaxed_values(problem: StageProblem, bound: float) -> Floats:
    """[L, L, M]: the least that a stage adds to the sum when neither it nor its entry reaches `bound`."""
    return np.asarray(np.where(problem.slowest < bound, problem.added, inf).min(axis=-1))


def prefix_table(problem: StageProblem, values: Floats, combine: np.ufunc) -> Floats:
    """[L+1, units...]: least `combine` of `values` over the stages that cover the first i layers with those devices.

    `combine` is `np.add` (least sum) or `np.maximum` (least slowest stage). One array operation for each (i, choice),
    over all earlier cuts and all device counts at once, so the work is L M operations on at most L x units numbers.
    """
    layers, choices = problem.layers, len(problem.sizes)
    table = np.full((layers + 1, *problem.shape), inf)
    table[0] = problem.start()
    columns = np.ascontiguousarray(values.transpose(2, 1, 0))
    finite = columns < inf
    some = np.asarray(finite.any(axis=-1))
    low = finite.argmax(axis=-1)
    high = layers - finite[:, :, ::-1].argmax(axis=-1)
    columns = columns.reshape(choices, layers, layers, *(1,) * len(problem.units))
    room = [problem.with_room(m) for m in range(choices)]
    source = [(slice(None), *problem.without(m)) for m in range(choices)]
    for last in range(layers):
        row = table[last + 1]
        for m in np.flatnonzero(some[:, last]):
            a, b = low[m, last], high[m, last]
            target = row[room[m]]
            reached = combine(table[a:b][source[m]], columns[m, last, a:b])
            np.minimum(target, np.minimum.reduce(reached, axis=0), out=target)
    return table


def trace_prefix(problem: StageProblem, table: Floats, values: Floats) -> list[Cut]:
    """The stages behind `table[-1]` at all devices, found again by equality of the same sums: no table of choices is
    kept.
    """
    cuts: list[Cut] = []
    end, at = problem.layers, problem.units
    while end > 0:
        value = table[(end, *at)]
        for m, size in enumerate(problem.sizes):
            before = tuple(n - (size if t == problem.types[m] else 0) for t, n in enumerate(at))
            if min(before) < 0:
                continue
            hits = np.flatnonzero(
                table.reshape(problem.layers + 1, -1)[:end, np.ravel_multi_index(before, problem.shape)]
                + values[:end, end - 1, m]
                == value
            )
            if hits.size:
                cuts.append((int(hits[0]), end, m))
                end, at = int(hits[0]), before
                break
        else:  # pragma: no cover - the sums are the same operations on the same numbers
            raise InternalFault("a table of stages cannot be traced")
    return cuts[::-1]


def assign(problem: StageProblem, cuts: list[Cut], bound: float) -> Assigned | None:
    """Configurations of least sum for stages whose places are known, all stages and transfers below `bound`; None if
    there are none.
    """
    configurations = problem.cost.shape[-1]
    totals: Floats = np.zeros(1)
    came: list[Ints] = []
    for place, (first, end, m) in enumerate(cuts):
        cost = problem.cost[first, end - 1, m]
        fits = (problem.later[first, end - 1, m] >= len(cuts) - 1 - place) & (cost < bound)
        steps = totals[:, None] + (_transfer(problem, first, cuts[place - 1][2], m, bound) if place else 0.0)
        steps = np.broadcast_to(steps, (totals.size, configurations))
        came.append(steps.argmin(axis=0))
        totals = np.where(fits, steps.min(axis=0) + cost, inf)
    if not totals.min() < inf:
        return None
    stages: list[tuple[int, int, int, int]] = []
    c = int(totals.argmin())
    for (first, end, m), back in zip(reversed(cuts), reversed(came), strict=True):
        stages.append((first, end - 1, m, c))
        c = int(back[c])
    return priced(problem, stages[::-1])


def priced(problem: StageProblem, stages: list[tuple[int, int, int, int]]) -> Assigned:
    """The stages with their sum and their largest term, transfers included, as plain sums of the given numbers."""
    terms = [float(problem.cost[stage]) for stage in stages]
    configurations = problem.cost.shape[-1]
    for (_, _, m, c), (first, _, m2, c2) in pairwise(stages):
        at = (first - 1, m * configurations + c, m2 * configurations + c2) if problem.paired else (first - 1,)
        terms.append(float(problem.transfer[at]))
    return Assigned(tuple(stages), sum(terms), max(terms))


def _transfer(problem: StageProblem, first: int, choice: int, following: int, bound: float) -> Floats:
    """[C or 1, C or 1]: the transfer in front of layer `first`, by both configurations; inf from `bound` on."""
    c = problem.cost.shape[-1]
    block = problem.transfer[first - 1]
    if problem.paired:
        block = block[choice * c : (choice + 1) * c, following * c : (following + 1) * c]
    return np.where(block < bound, block, inf).reshape(-1, c if problem.paired else 1)


def table_size(layers: int, units: tuple[int, ...], kinds: int) -> int:
    """How many numbers the largest table holds."""
    return (layers + 1) * prod(n + 1 for n in units) * kinds
