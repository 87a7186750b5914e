"""Values that no optimum needs: exact reductions of a sum of unary and pairwise tables before it is minimised.

A value is *dominated* by another of the same variable where taking the other instead makes no total larger, whatever its
neighbours take (Goldstein 1994, dead-end elimination), and no row of memory larger. What is left has the same minimum, with
and without limits on memory. Knows nothing of operators, layouts or seconds.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf

import numpy as np

from .elimination import Floats, Ints

#: Passes over all variables: later ones find what earlier ones made possible.
_PASSES = 4


def undominated(
    unary: list[Floats], edges: list[tuple[int, int]], tables: list[Floats], memory: list[Floats] | None = None, *,
    fixed: Collection[int] = (),
) -> list[Ints]:  # fmt: skip
    """By variable the values that are left, at least one. `memory[v]`: [rows, values]; variables in `fixed` keep all of theirs.

    Of values that are equal in everything the first is left.
    """
    kept = [np.arange(len(costs)) if v in fixed else _possible(costs) for v, costs in enumerate(unary)]
    around: list[list[tuple[int, Floats]]] = [[] for _ in unary]
    for (i, j), table in zip(edges, tables, strict=True):
        around[i].append((j, table))
        around[j].append((i, table.T))
    changed = set(range(len(unary))) - set(fixed)
    for _ in range(_PASSES):
        waiting, changed = changed, set()
        for v in sorted(waiting):
            left = _left(v, unary[v], kept, around[v], None if memory is None else memory[v])
            if left.size < kept[v].size:
                kept[v] = left
                changed |= {u for u, _ in around[v] if u not in fixed}
                changed.add(v)
        if not changed:
            break
    return kept


def _possible(costs: Floats) -> Ints:
    finite = np.flatnonzero(costs < inf)
    return finite if finite.size else np.arange(1)


def _left(v: int, unary: Floats, kept: list[Ints], around: list[tuple[int, Floats]], memory: Floats | None) -> Ints:
    """The values of `v` that no other one dominates."""
    own = kept[v]
    if own.size == 1:
        return own
    costs = unary[own]
    # more[a, b]: at most so much does a total grow where a takes the place of b.
    with np.errstate(invalid="ignore"):
        more = costs[:, None] - costs
        for other, table in around:
            part = table[np.ix_(own, kept[other])]
            most = np.full(more.shape, -inf)
            for column in part.T:
                # inf - inf: b is forbidden there, and says nothing.
                np.fmax(most, column[:, None] - column, out=most)
            more += most
        better = more <= 0
    if memory is not None:
        for row in memory[:, own]:
            better &= row[:, None] <= row
    np.fill_diagonal(better, False)
    left = np.ones(own.size, dtype=bool)
    # One at a time, so that what takes the place of a value is itself left, or has one that is.
    for b in reversed(range(own.size)):
        left[b] = not (better[:, b] & left).any()
    return own[left]
