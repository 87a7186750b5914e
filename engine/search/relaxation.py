"""Graphs too wide to eliminate: lower bounds from a narrower graph, and integer programs on what they leave.

A table of an edge is at least a sum of a part at either end, so without the rest of it the minimum is a lower bound, and so is
the least total with one value forced. Parts are moved between the ends, the rest and what the narrow graph can spare, so that
the bound never falls: a share of what each value lies above the bound goes into the edge, whose minima go back to its ends
(Wainwright et al. 2005, IEEE Trans. Inf. Theory 51, reweighted trees; Kovalevsky and Koval 1975, diffusion). Knows nothing of
operators or times.
"""

from __future__ import annotations

from math import inf, prod

import numpy as np

from .budget import Budgeted, by_marginals, pair_marginals, value_marginals
from .elimination import EliminationOrder, Floats, Ints, bucket_tables, clique_marginals, eliminate, elimination_order
from .pairwise import ROUNDING, PairwiseProblem

#: Rounds of moving parts.
_ROUNDS = 30
#: Rounds stop where one raises the bound by less, relatively.
_GAIN = 1e-4
#: Where tables are too large, one edge is left out of the largest, and of one in so many more.
_AT_ONCE = 8
#: Passes of a local search from what each round found.
_SWEEPS = 20


def beyond_width(problem: PairwiseProblem, largest: int, *, integer_program: bool = True) -> Budgeted:
    """The least total within all limits, with a lower bound; tables of the narrower graph hold at most `largest` numbers.

    Without `integer_program` the gap that bound and local search leave stays.
    """
    inside, outside = _narrowed(problem, largest)
    sizes = [costs.size for costs in problem.unary]
    edges, tables = [problem.edges[e] for e in inside], [problem.tables[e] for e in inside]
    order = elimination_order(sizes, edges)
    buckets = bucket_tables(order, edges, tables)
    unary = [costs.copy() for costs in problem.unary]
    rest = {e: problem.tables[e].copy() for e in outside}
    for e in outside:
        _settle(problem.edges[e], rest[e], unary)
    best, value, bound = None, inf, -inf
    found = eliminate(order, unary, buckets)
    share = 1.0 / max(1, 2 * len(outside))
    for _ in range(_ROUNDS):
        if found.value == inf:
            return Budgeted(None, inf, True)
        choice = _improved(problem, found.choice)
        if choice is not None and (total := problem.total(choice)) < value:
            best, value = choice, total
        gained, bound = found.value - bound, found.value
        if gained <= _GAIN * abs(bound) or value - bound <= ROUNDING * abs(bound):
            break
        spare = value_marginals(clique_marginals(order, found))
        for e in outside:
            (i, j), part = problem.edges[e], rest[e]
            for end, axis in ((i, 1), (j, 0)):
                above = np.where(spare[end] < inf, np.maximum(spare[end] - bound, 0.0), 0.0) * share
                unary[end] = unary[end] - above
                part += np.expand_dims(above, axis)
        for e in outside:
            _settle(problem.edges[e], rest[e], unary)
        found = eliminate(order, unary, buckets)
    if not integer_program:
        return Budgeted(best, min(found.value, value), value - found.value <= ROUNDING * abs(found.value))
    marginals = clique_marginals(order, found)
    values = value_marginals(marginals)
    pairs = [_pair(problem, order, marginals, values, e, rest) for e in range(len(problem.edges))]
    scale = problem.scale(found.value)
    return by_marginals(problem, values, pairs, found.value, best, scale, 1e3 * ROUNDING * scale)


def _narrowed(problem: PairwiseProblem, largest: int) -> tuple[list[int], list[int]]:
    """(edges that stay, edges that are left out), so that no table of the elimination is too large.

    Edges leave the variable of the largest table, the one whose costs differ least first.
    """
    sizes = [costs.size for costs in problem.unary]
    spans = [_span(table) for table in problem.tables]
    left = set(range(len(problem.edges)))
    at: list[list[int]] = [[] for _ in sizes]
    for e, edge in enumerate(problem.edges):
        for end in edge:
            at[end].append(e)
    outside: list[int] = []
    while left:
        order = elimination_order(sizes, [problem.edges[e] for e in sorted(left)])
        if order.largest <= largest:
            break
        wide = sorted((v for v in range(len(sizes)) if prod(order.tables[v]) > largest), key=lambda v: -prod(order.tables[v]))
        # Of very many at once a share, so that long graphs are not ordered anew for every edge.
        gone: set[int] = set()
        for v in wide[: 1 + len(wide) // _AT_ONCE]:
            near = {*order.scopes[v], v}
            mine = [e for e in {e for u in near for e in at[u]} if set(problem.edges[e]) <= near and e in left] or left
            gone.add(min(mine, key=lambda e: (spans[e], e)))
        left -= gone
        outside += sorted(gone)
    return sorted(left), outside


def _span(table: Floats) -> float:
    finite = table[table < inf]
    if finite.size < table.size:
        return inf
    return float(finite.max() - finite.min())


def _settle(edge: tuple[int, int], part: Floats, unary: list[Floats]) -> None:
    """Move the minima of an edge's rest to its ends, half of what its rows have to the first; the rest stays 0 or more."""
    i, j = edge
    for end, axis, weight in ((i, 1, 0.5), (j, 0, 1.0), (i, 1, 1.0)):
        least = part.min(axis=axis)
        moved = np.where(least < inf, least * weight, 0.0)
        unary[end] = np.where(least < inf, unary[end] + moved, inf)
        part -= np.expand_dims(moved, axis)


def _pair(
    problem: PairwiseProblem, order: EliminationOrder, marginals: list[Floats], values: list[Floats], e: int,
    rest: dict[int, Floats],
) -> Floats:  # fmt: skip
    """[values of i, values of j]: a lower bound on every total with that pair."""
    i, j = problem.edges[e]
    if e in rest:
        return np.asarray(np.maximum(values[i][:, None], values[j]) + rest[e])
    return pair_marginals(order, marginals, i, j)


def _improved(problem: PairwiseProblem, start: Ints) -> Ints | None:
    """The choice with values changed one at a time while the total falls; None where it breaks a limit or is forbidden."""
    around: list[list[tuple[int, Floats]]] = [[] for _ in problem.unary]
    for (i, j), table in zip(problem.edges, problem.tables, strict=True):
        around[i].append((j, table))
        around[j].append((i, table.T))
    choice = start.copy()
    for _ in range(_SWEEPS):
        before = choice.copy()
        for v, costs in enumerate(problem.unary):
            total = costs.copy()
            for other, table in around[v]:
                total = total + table[:, choice[other]]
            at = int(total.argmin())
            if total[at] < total[choice[v]]:
                choice[v] = at
        if (choice == before).all():
            break
    return choice if problem.total(choice) < inf and problem.fits(choice) else None
