"""Min-plus elimination: the exact minimum of a sum of unary and pairwise tables, with or without a choice forced.

Vocabulary. A *variable* takes one of its values; a *bucket* is a variable with its *scope*, the variables that are
eliminated later and share a table with it at that moment; the *width* is the size of the largest scope. Tables have
one axis a variable, those eliminated later first, the bucket's own last. +inf forbids. Knows nothing of operators,
layouts, memory or seconds.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import fsum, inf, log, prod

import numpy as np
from numpy.typing import NDArray

from ..frozen import dataclass

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: Numbers of a table that are summed at once where it is not kept.
_PART = 4_000_000


@dataclass(frozen=True, slots=True)
class EliminationOrder:
    """The order; by variable its scope, the bucket that its message goes to (-1: none), the message's shape there,
    and its own table's.
    """

    order: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]
    parents: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    tables: tuple[tuple[int, ...], ...]
    width: int
    #: The largest table, the sum of all, and the largest that is left when its variable is gone, in numbers.
    largest: int
    total: int
    message: int


@dataclass(frozen=True, slots=True)
class Eliminated:
    """The minimum, a choice that reaches it, and the tables: `full[v]` over scope and v, `messages[v]` its minimum
    over v.
    """

    value: float
    choice: Ints
    full: tuple[Floats, ...]
    messages: tuple[Floats, ...]


def elimination_order(sizes: list[int], edges: list[tuple[int, int]]) -> EliminationOrder:
    """Greedy order by the least sum of log sizes of the neighbours (the size of the table that the elimination
    leaves), by a lazy heap.
    """
    count = len(sizes)
    weight = [log(n) + 1e-9 for n in sizes]
    around: list[set[int]] = [set() for _ in range(count)]
    for i, j in edges:
        around[i].add(j)
        around[j].add(i)
    key = [fsum(weight[u] for u in near) for near in around]
    heap = [(key[v], v) for v in range(count)]
    heapify(heap)
    done = [False] * count
    order: list[int] = []
    scopes: list[tuple[int, ...]] = [()] * count
    while heap:
        at, v = heappop(heap)
        if done[v] or at != key[v]:
            continue
        done[v] = True
        order.append(v)
        near = around[v]
        scopes[v] = tuple(near)
        for u in near:
            around[u] |= near
            around[u] -= {u, v}
            key[u] = fsum(weight[w] for w in around[u])
            heappush(heap, (key[u], u))
    place = {v: n for n, v in enumerate(order)}
    scopes = [tuple(sorted(scope, key=place.__getitem__, reverse=True)) for scope in scopes]
    parents = [scope[-1] if scope else -1 for scope in scopes]
    shapes = [
        tuple(sizes[u] if u in scope else 1 for u in (*scopes[parent], parent)) if scope else ()
        for scope, parent in zip(scopes, parents, strict=True)
    ]
    tables = [tuple(sizes[u] for u in (*scope, v)) for v, scope in enumerate(scopes)]
    return EliminationOrder(
        order=tuple(order),
        scopes=tuple(scopes),
        parents=tuple(parents),
        shapes=tuple(shapes),
        tables=tuple(tables),
        width=max(map(len, scopes), default=0),
        largest=max(map(prod, tables), default=0),
        total=sum(map(prod, tables)),
        message=max((prod(table[:-1]) for table in tables), default=0),
    )


def bucket_tables(order: EliminationOrder, edges: list[tuple[int, int]], tables: list[Floats]) -> list[Floats | float]:
    """By variable, the sum of the pairwise tables of its bucket over scope and variable; they do not change with the
    unary costs.
    """
    place = {v: n for n, v in enumerate(order.order)}
    sums: list[Floats | float] = [0.0] * len(order.order)
    for (i, j), given in zip(edges, tables, strict=True):
        first, other, table = (i, j, given.T) if place[i] < place[j] else (j, i, given)
        scope = order.scopes[first]
        shape = [1] * len(scope)
        shape[scope.index(other)] = table.shape[0]
        sums[first] = sums[first] + table.reshape(*shape, table.shape[1])
    return sums


def eliminate(
    order: EliminationOrder, unary: list[Floats], buckets: list[Floats | float], *, keep: bool = True
) -> Eliminated:
    """The minimum over all choices of the sum of `unary[v][choice]` and the pairwise tables in `buckets`.

    Without `keep` no table is held whole, only its minimum: `full` is empty.
    """
    count = len(unary)
    waiting: list[list[Floats]] = [[] for _ in range(count)]
    full: list[Floats] = [np.empty(0)] * count
    messages: list[Floats] = [np.empty(0)] * count
    best: list[Ints] = [np.empty(0, dtype=np.int64)] * count
    value = 0.0
    for v in order.order:
        if not keep and prod(order.tables[v]) > _PART:
            messages[v], best[v] = _in_parts(order.tables[v], [unary[v], buckets[v], *waiting[v]])
            waiting[v] = []
            if (parent := order.parents[v]) >= 0:
                waiting[parent].append(messages[v].reshape(order.shapes[v]))
            else:
                value += float(messages[v])
            continue
        table = unary[v] + buckets[v]
        if table.shape != order.tables[v]:
            table = np.broadcast_to(table, order.tables[v])
        for message in waiting[v]:
            table = table + message
        waiting[v] = []
        full[v] = table
        best[v] = np.asarray(full[v].argmin(axis=-1))
        messages[v] = np.asarray(full[v].min(axis=-1))
        parent = order.parents[v]
        if parent >= 0:
            waiting[parent].append(messages[v].reshape(order.shapes[v]))
        else:
            value += float(messages[v])
    choice = np.zeros(count, dtype=np.int64)
    for v in reversed(order.order):
        choice[v] = best[v][tuple(choice[u] for u in order.scopes[v])]
    return Eliminated(value, choice, tuple(full) if keep else (), tuple(messages))


def _in_parts(shape: tuple[int, ...], tables: list[Floats | float]) -> tuple[Floats, Ints]:
    """The minimum of the sum of tables over its last axis, and where it is, from parts along the first axes."""
    least, best = np.empty(shape[:-1]), np.empty(shape[:-1], dtype=np.int64)
    least, best = np.atleast_1d(least), np.atleast_1d(best)
    leading = 0
    while leading < len(shape) - 2 and prod(shape[leading:]) > _PART:
        leading += 1
    wide = [np.asarray(one).reshape((1,) * (len(shape) - np.ndim(one)) + np.shape(one)) for one in tables]
    for at in np.ndindex(*shape[:leading]):
        parts = [one[tuple(k if n > 1 else 0 for k, n in zip(at, one.shape, strict=False))] for one in wide]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        total = np.broadcast_to(total, shape[leading:])
        best[at] = total.argmin(axis=-1)
        least[at] = total.min(axis=-1)
    return least.reshape(shape[:-1]), best.reshape(shape[:-1])


def clique_marginals(order: EliminationOrder, eliminated: Eliminated) -> list[Floats]:
    """By variable, the least total for each value of its scope and of itself: inf where there is none."""
    count = len(order.order)
    marginals: list[Floats] = [np.empty(0)] * count
    roots = [float(eliminated.messages[v]) for v in range(count) if order.parents[v] < 0]
    for v in reversed(order.order):
        parent, message = order.parents[v], eliminated.messages[v]
        if parent < 0:
            # What all other components cost at least.
            others = fsum(roots) - float(message) if message < inf else inf
            marginals[v] = eliminated.full[v] + others
            continue
        scope = (*order.scopes[parent], parent)
        away = tuple(n for n, u in enumerate(scope) if u not in order.scopes[v])
        least = marginals[parent].min(axis=away)
        outside = np.subtract(least, message, out=np.full(np.shape(message), inf), where=message < inf)
        marginals[v] = eliminated.full[v] + outside[..., None]
    return marginals
