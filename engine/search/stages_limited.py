"""The stage problem at one bound with the limits on later stages: sparse suffix states.

A *state* is (kind, units, layer): the least sum of s stages that cover the layers from there with those devices. Its
kind is the pair of choice and configuration of the first stage where transfers tell pairs apart, else 0. An *entry*
is a state with the transfer in front of it, by the kind of the stage before. Knows bounds and budgets, not where they
come from.
"""

from __future__ import annotations

from math import inf, prod

import numpy as np

from ..errors import InternalFault
from ..frozen import dataclass
from .stages_tables import ROUNDING, Assigned, Cut, Floats, Ints, StageProblem, assign

#: Sums formed at once, to bound memory.
_AT_ONCE = 1_000_000


@dataclass(frozen=True, slots=True)
class _Points:
    """States or entries: kind, units (flat index), first layer, value."""

    kind: Ints
    units: Ints
    layer: Ints
    value: Floats

    def where(self, chosen: Ints) -> _Points:
        return _Points(self.kind[chosen], self.units[chosen], self.layer[chosen], self.value[chosen])


def limited_optimum(problem: StageProblem, bound: float, prefix: Floats, budget: float) -> Assigned | None:
    """The stages of least sum below `budget`, all below `bound`, each with no more later stages than its memory
    allows; or None.

    `prefix` bounds from below what goes before: the relaxed `prefix_table` at this bound or a higher one. A state is
    dropped when the prefix brings its sum to `budget`, or when fewer stages reach it at no more cost, for those are
    never worse for the stages before.
    """
    layers, full = problem.layers, prod(problem.shape)
    entry = np.where(problem.entry < bound, problem.entry, inf).T[:, None]
    before = np.ascontiguousarray(prefix[:layers].reshape(layers, full).T[::-1] + entry)
    # What a state has to stay below. A finite number, because inf - inf would drop nothing.
    least = min(budget * (1 + ROUNDING), np.finfo(np.float64).max)
    limit = np.ascontiguousarray(least - before)
    # The same for entries, whose transfer is known: not the cheapest one on top.
    passed = np.ascontiguousarray(prefix[:layers].reshape(layers, full).T[::-1])
    entry_limit = np.repeat((least - passed)[None], limit.shape[0], axis=0)
    entries = _terminal(problem, limit.shape[0])
    states: list[_Points] = []
    entered: list[_Points] = []
    best, best_count = inf, 0
    for count in range(1, min(layers, sum(problem.units)) + 1):
        entered.append(entries)
        states.append(_extended(problem, problem.columns_before(count - 1, bound), entries, limit))
        whole = states[-1].value[(states[-1].layer == 0) & (states[-1].units == full - 1)]
        if whole.size and whole.min() < best:
            best, best_count = float(whole.min()), count
            if best * (1 + ROUNDING) < least:
                least = best * (1 + ROUNDING)
                np.minimum(limit, least - before, out=limit)
                np.minimum(entry_limit, least - passed, out=entry_limit)
        entries = _entered(problem, states[-1], bound, entry_limit)
        if not entries.kind.size:
            break
    if best_count == 0:
        return None
    return assign(problem, _trace(problem, states[:best_count], entered[:best_count], best, bound), bound)


def _terminal(problem: StageProblem, kinds: int) -> _Points:
    """Nothing behind the last layer, with no device or any number of idle ones, for a stage of any kind before it."""
    units = np.flatnonzero(problem.start().reshape(-1) < inf)
    kind = np.repeat(np.arange(kinds), units.size)
    return _Points(kind, np.tile(units, kinds), np.full(kind.size, problem.layers), np.zeros(kind.size))


def _strides(problem: StageProblem) -> list[int]:
    return [prod(problem.shape[t + 1 :]) for t in range(len(problem.shape))]


def _extended(problem: StageProblem, columns: Floats, entries: _Points, limit: Floats) -> _Points:
    """The states of one more stage in front of `entries` that are below `limit` [kinds, units, L], which they lower."""
    flat = limit.reshape(-1)
    layers, configurations = problem.layers, columns.shape[1]
    usable = np.asarray((columns < inf).any(axis=-1))
    strides = _strides(problem)
    touched = np.zeros(flat.size, dtype=bool)
    configuration = entries.kind % configurations if problem.paired else np.zeros_like(entries.kind)
    for m, size in enumerate(problem.sizes):
        of_type = problem.types[m]
        fits = entries.units // strides[of_type] % problem.shape[of_type] + size < problem.shape[of_type]
        if problem.paired:
            fits &= entries.kind // configurations == m
        chosen = np.flatnonzero(fits & usable[m, configuration, entries.layer - 1])
        step = max(1, _AT_ONCE // layers)
        for part in (chosen[at : at + step] for at in range(0, chosen.size, step)):
            sums = entries.value[part, None] + columns[m, configuration[part], entries.layer[part] - 1]
            target = entries.kind[part] * limit.shape[1] + entries.units[part] + size * strides[of_type]
            row, layer = np.nonzero(sums < limit.reshape(-1, layers)[target])
            index = target[row] * layers + layer
            np.minimum.at(flat, index, sums[row, layer])
            touched[index] = True
    index = np.flatnonzero(touched)
    return _Points(index // (layers * limit.shape[1]), index // layers % limit.shape[1], index % layers, flat[index])


def _entered(problem: StageProblem, states: _Points, bound: float, limit: Floats) -> _Points:
    """The states that a stage can stand before, with the transfer between them; one for each kind of that stage, where it is
    below `limit` [kinds, units, L], which they lower.
    """
    states = states.where(np.flatnonzero(states.layer > 0))
    if not problem.paired:
        return _Points(states.kind, states.units, states.layer, states.value + problem.transfer[states.layer - 1])
    kinds, layers = limit.shape[0], problem.layers
    flat, place = limit.reshape(kinds, -1), states.units * layers + states.layer
    step = max(1, _AT_ONCE // kinds)
    reached = np.zeros(flat.shape, dtype=bool)
    for part in (slice(at, at + step) for at in range(0, place.size, step)):
        transfer = problem.transfer[states.layer[part] - 1, :, states.kind[part]].T
        sums = np.where(transfer < bound, transfer, inf) + states.value[part]
        before, column = np.nonzero(sums < flat[:, place[part]])
        at = place[part][column]
        np.minimum.at(flat, (before, at), sums[before, column])
        reached[before, at] = True
    before, at = np.nonzero(reached)
    return _Points(before, at // layers, at % layers, flat[before, at])


def _trace(
    problem: StageProblem, states: list[_Points], entered: list[_Points], value: float, bound: float
) -> list[Cut]:
    """The stages behind the least state of all layers in the last of `states`, found again by equality of the same
    sums.
    """
    layer, units = 0, prod(problem.shape) - 1
    last = states[-1]
    kind = int(last.kind[(last.layer == 0) & (last.units == units) & (last.value == value)][0])
    strides, cuts = _strides(problem), []
    for count in range(len(states) - 1, -1, -1):
        columns, entries = problem.columns_before(count, bound), entered[count]
        configurations = columns.shape[1]
        for m, size in enumerate(problem.sizes):
            if problem.paired and kind // configurations != m:
                continue
            sums = entries.value + columns[m, kind % configurations if problem.paired else 0, entries.layer - 1, layer]
            before = units - size * strides[problem.types[m]]
            hits = np.flatnonzero((entries.kind == kind) & (entries.units == before) & (sums == value))
            if hits.size:
                break
        else:  # pragma: no cover - the sums are the same operations on the same numbers
            raise InternalFault("a table of limited stages cannot be traced")
        at = int(hits[0])
        cuts.append((layer, int(entries.layer[at]), m))
        layer, units, value = int(entries.layer[at]), before, float(entries.value[at])
        if count:
            behind = states[count - 1]
            transfer = (
                problem.transfer[layer - 1] if not problem.paired else problem.transfer[layer - 1][kind, behind.kind]
            )
            here = (behind.layer == layer) & (behind.units == units)
            at = int(np.flatnonzero(here & (transfer + behind.value == value))[0])
            kind, value = int(behind.kind[at]), float(behind.value[at])
    return cuts
