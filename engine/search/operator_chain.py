"""The exact minimum over a chain of segments: each kind eliminated once to a table of its cuts, then one pass along the chain.

Min-plus elimination on what is between two cuts gives the least cost for each pair of states of the cuts; copies of a segment
use the same table, its states renamed. Nothing here knows what a state is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .dominance import undominated
from .operator_problem import Factor, OperatorProblem, Piece, Variable
from .operators import least_with_each, solve_operators

Floats = NDArray[np.float64]
#: Numbers that one variable leaves behind, sums that all of a segment take, and those that are made at once.
LARGEST, MOST_SUMS, PART = 30_000_000, 2_000_000_000, 8_000_000
#: Above it values that no optimum needs are left out first.
SMALL = 4_000_000


def cut_table(piece: Piece, costs: Mapping[Variable, Floats], sizes: Mapping[Variable, int]) -> tuple[Floats, int]:
    """([states of the entering cut, of the leaving one], largest number of neighbours met): the least cost between them.

    A cut that there is not counts one state. The leaving cut's own node costs are in it, the entering one's are not. Raises
    InputError where a table would be too large.
    """
    kept = [one for one in (piece.entering, piece.leaving) if one is not None]
    tables: list[tuple[tuple[Variable, ...], Floats]] = [((one,), cost) for one, cost in costs.items()]
    tables += [((factor.first, factor.second), factor.seconds) for factor in piece.factors]
    left = [one for one in costs if one not in kept]
    order = _order([scope for scope, _ in tables], left, sizes)
    if max((_count(rest, sizes) * sizes[one] for one, rest in order), default=0) > SMALL:
        tables, sizes = _without_dominated(tables, kept, sizes)
        order = _order([scope for scope, _ in tables], left, sizes)
    _eliminable(order, sizes)
    width = 0
    # By number, so that what is summed and in which order does not depend on how it is found.
    there = dict(enumerate(tables))
    within: dict[Variable, set[int]] = {one: set() for one in left}
    for at, (scope, _) in there.items():
        for one in scope:
            within.setdefault(one, set()).add(at)
    for made, (chosen, rest) in enumerate(order, start=len(tables)):
        own = sorted(within.pop(chosen))
        mine = [there.pop(at) for at in own]
        for (scope, _), at in zip(mine, own, strict=True):
            for one in scope:
                if one != chosen:
                    within[one].discard(at)
        width = max(width, len(rest))
        there[made] = tuple(rest), _least(mine, tuple(rest), chosen, sizes)
        for one in rest:
            within[one].add(made)
    total = _summed(list(there.values()), tuple(kept), sizes)
    shape = tuple(sizes[one] if one is not None else 1 for one in (piece.entering, piece.leaving))
    return total.reshape(shape), width


class TooEntangled(InputError):
    """A segment whose elimination would need tables that are too large."""


def _eliminable(order: Sequence[tuple[Variable, Sequence[Variable]]], sizes: Mapping[Variable, int]) -> None:
    """Raises TooEntangled before anything is worked out, where a table or all sums would be too large."""
    sums = [_count(rest, sizes) * sizes[one] for one, rest in order]
    tables = [_count(rest, sizes) for _, rest in order]
    if max(tables, default=0) > LARGEST or sum(sums) > MOST_SUMS:
        worst, rest = order[max(range(len(order)), key=lambda k: sums[k])]
        raise TooEntangled(
            f"the graph is too entangled: eliminating '{worst[1]}' needs a table over {len(rest) + 1} operators and tensors",
            code="input.graph.width",
            remedy="Use fewer mesh axes, or a graph whose blocks are connected by fewer tensors.",
        )


def _order(
    scopes: Sequence[Sequence[Variable]], left: Sequence[Variable], sizes: Mapping[Variable, int]
) -> list[tuple[Variable, list[Variable]]]:
    """(variable, its neighbours by then) in the order in which variables are eliminated: the least number of sums first."""
    near: dict[Variable, set[Variable]] = {one: set() for one in left}
    for scope in scopes:
        for one in scope:
            near.setdefault(one, set()).update(scope)
    for one, beside in near.items():
        beside.discard(one)
    place = {one: k for k, one in enumerate(left)}
    sums = {one: _count(near[one], sizes) * sizes[one] for one in left}
    heap = [(sums[one], k) for one, k in place.items()]
    heapify(heap)
    found = []
    while heap:
        at, k = heappop(heap)
        chosen = left[k]
        if sums.get(chosen) != at:
            continue
        del sums[chosen]
        beside = near.pop(chosen)
        found.append((chosen, sorted(beside)))
        for one in beside:
            near[one] = (near[one] | beside) - {one, chosen}
            if one in sums and (now := _count(near[one], sizes) * sizes[one]) != sums[one]:
                sums[one] = now
                heappush(heap, (now, place[one]))
    return found


def _without_dominated(
    tables: list[tuple[tuple[Variable, ...], Floats]], kept: Sequence[Variable], sizes: Mapping[Variable, int]
) -> tuple[list[tuple[tuple[Variable, ...], Floats]], dict[Variable, int]]:
    """The tables of the values that the table of the cuts needs."""
    variables = list(dict.fromkeys(v for scope, _ in tables for v in scope))
    place = {one: k for k, one in enumerate(variables)}
    unary = [np.zeros(sizes[one]) for one in variables]
    pairs: dict[tuple[int, int], Floats] = {}
    for scope, table in tables:
        if len(scope) == 1:
            unary[place[scope[0]]] = unary[place[scope[0]]] + table
            continue
        key = (place[scope[0]], place[scope[1]])
        pairs[key] = pairs[key] + table if key in pairs else table
    found = undominated(unary, list(pairs), list(pairs.values()), fixed={place[one] for one in kept if one in place})
    left = [
        (scope, table[np.ix_(*(found[place[one]] for one in scope))]) for scope, table in tables
    ]
    return left, {**sizes, **{one: len(found[place[one]]) for one in variables}}


def _least(
    tables: Sequence[tuple[tuple[Variable, ...], Floats]], rest: tuple[Variable, ...], chosen: Variable,
    sizes: Mapping[Variable, int],
) -> Floats:  # fmt: skip
    """The minimum over `chosen` of the sum of tables, [states of rest], made in parts along the first of them."""
    scope = (*rest, chosen)
    if len(rest) < 2 or _count(scope, sizes) <= PART:
        return np.asarray(_summed(tables, scope, sizes).min(axis=-1))
    first = rest[0]
    step = max(1, PART * sizes[first] // _count(scope, sizes))
    least = np.empty([sizes[one] for one in rest])
    for at in range(0, sizes[first], step):
        part = slice(at, min(at + step, sizes[first]))
        own = {**sizes, first: part.stop - at}
        cut = [
            (one, table[tuple(part if v == first else slice(None) for v in one)]) if first in one else (one, table)
            for one, table in tables
        ]
        least[part] = _summed(cut, scope, own).min(axis=-1)
    return least


def _count(scope: Sequence[Variable] | set[Variable], sizes: Mapping[Variable, int]) -> int:
    count = 1
    for one in scope:
        count *= sizes[one]
    return count


def _summed(
    tables: Sequence[tuple[tuple[Variable, ...], Floats]], scope: tuple[Variable, ...], sizes: Mapping[Variable, int]
) -> Floats:
    """The sum of tables over the variables of `scope`, in its order."""
    total = np.zeros([sizes[one] for one in scope])
    for own, table in tables:
        order = sorted(range(len(own)), key=lambda k: scope.index(own[k]))
        moved = np.transpose(table, order) if len(own) > 1 else table
        shape = [sizes[one] if one in own else 1 for one in scope]
        total += moved.reshape(shape)
    return total


class Chain:
    """The chain of one problem, eliminated. `objective` is the least total in seconds a step."""

    def __init__(self, problem: OperatorProblem) -> None:
        self.problem = problem
        self.sizes: dict[Variable, int] = {}
        for piece in problem.pieces:
            if piece is not None:
                self.sizes |= {one: len(cost) for one, cost in piece.costs.items()}
        for segment in problem.segments:
            if segment.leaving:
                self.sizes["tensor", segment.leaving] = len(problem.states_of(segment.leaving))
        self.width = 0
        self._tables: list[Floats | None] = []
        for piece in problem.pieces:
            if piece is None:
                self._tables.append(None)
                continue
            table, width = cut_table(piece, piece.costs, self.sizes)
            self._tables.append(table)
            self.width = max(self.width, width)
        self.tables = [self.table(k, self._first(k)) for k in range(len(problem.segments))]
        self.before = [np.zeros(1)]
        for table in self.tables:
            self.before.append((self.before[-1][:, None] + table).min(axis=0))
        self.after = [np.zeros(1)]
        for table in reversed(self.tables):
            self.after.append((table + self.after[-1][None, :]).min(axis=1))
        self.after.reverse()
        self.objective = float(self.before[-1].min())

    def _first(self, k: int) -> Floats:
        twin = self.problem.repeats[k]
        table = self._tables[k if twin is None else twin.first]
        assert table is not None
        return table

    def table(self, k: int, first: Floats) -> Floats:
        """A table of the first segment of its kind, for segment `k`: states renamed."""
        twin = self.problem.repeats[k]
        if twin is None:
            return first
        one, two = self.problem.segments[twin.first], self.problem.segments[k]
        own = np.empty_like(first)
        rows = self._renamed(twin.tensors, one.entering, two.entering)
        columns = self._renamed(twin.tensors, one.leaving, two.leaving)
        own[np.ix_(rows, columns)] = first
        return own

    def _renamed(self, tensors: Mapping[str, tuple[str, tuple[int, ...]]], first: str, own: str) -> NDArray[np.int64]:
        return self.problem.own_states(first, own, tensors[first][1]) if first else np.zeros(1, dtype=np.int64)

    def least_with_each(self, k: int, at: int) -> dict[Variable, Floats] | None:
        """By variable of the first segment `k` of a kind, the least total with each of its states in the copy `at` alone.

        None where the segment is too wide for it.
        """
        problem, piece, twin = self.problem, self.problem.pieces[k], self.problem.repeats[at]
        assert piece is not None
        costs = dict(piece.costs)
        before, after = self.before[at], self.after[at + 1]
        if twin is not None:
            one, two = problem.segments[twin.first], problem.segments[at]
            before = before[self._renamed(twin.tensors, one.entering, two.entering)]
            after = after[self._renamed(twin.tensors, one.leaving, two.leaving)]
        if piece.entering is not None:
            costs[piece.entering] = before
        if piece.leaving is not None:
            costs[piece.leaving] = costs[piece.leaving] + after
        place = {one: n for n, one in enumerate(costs)}
        edges = [(place[factor.first], place[factor.second]) for factor in piece.factors]
        found = least_with_each(list(costs.values()), edges, [factor.seconds for factor in piece.factors])
        if found is None:
            return None
        # The first and the last segment have no cut to carry what is before and after them.
        rest = (0.0 if piece.entering is not None else float(before[0])) + (0.0 if piece.leaving is not None else float(after[0]))
        return {one: least + rest for one, least in zip(costs, found, strict=True)}

    def choice(self) -> dict[Variable, int]:
        """The choice of every variable of the graph, in its own states and strategies."""
        problem = self.problem
        chosen: dict[Variable, int] = {}
        known: dict[tuple[int, int, int], dict[Variable, int]] = {}
        state = 0
        for k, segment in enumerate(problem.segments):
            total = self.tables[k][state] + self.after[k + 1]
            end = int(total.argmin())
            twin = problem.repeats[k]
            first = k if twin is None else twin.first
            at, to = self.first_states(k, state, end)
            piece = problem.pieces[first]
            assert piece is not None
            inner = known.get((first, at, to))
            if inner is None:
                inner = known[first, at, to] = fixed_choice(piece, piece.costs, at, to)
            chosen |= self._own(k, inner)
            if segment.leaving:
                chosen["tensor", segment.leaving] = end
            state = end
        return chosen

    def first_states(self, k: int, entering: int, leaving: int) -> tuple[int, int]:
        """States of the cuts of segment `k` as those of the first segment of its kind."""
        problem, twin = self.problem, self.problem.repeats[k]
        if twin is None:
            return entering, leaving
        one, two = problem.segments[twin.first], problem.segments[k]
        rows = self._renamed(twin.tensors, one.entering, two.entering)
        columns = self._renamed(twin.tensors, one.leaving, two.leaving)
        return int(np.flatnonzero(rows == entering)[0]), int(np.flatnonzero(columns == leaving)[0])

    def _own(self, k: int, inner: Mapping[Variable, int]) -> dict[Variable, int]:
        """A choice of the first segment of a kind as the choice of segment `k`, its own names put in."""
        problem, twin = self.problem, self.problem.repeats[k]
        if twin is None:
            return dict(inner)
        first = problem.segments[twin.first]
        found: dict[Variable, int] = {}
        for a, b in zip(first.operators, twin.operators, strict=True):
            found["operator", problem.graph.operators[b].name] = inner["operator", problem.graph.operators[a].name]
        for (kind, name), state in inner.items():
            if kind == "tensor" and name not in (first.entering, first.leaving):
                own, dims = twin.tensors[name]
                found["tensor", own] = int(problem.own_states(name, own, dims)[state])
        return found


def fixed_choice(piece: Piece, costs: Mapping[Variable, Floats], at: int, to: int) -> dict[Variable, int]:
    """The best inside of a segment where its cuts have the states `at` and `to`."""
    variables = list(costs)
    unary = {one: cost.copy() for one, cost in costs.items()}
    if piece.leaving is not None:
        only = np.full(len(unary[piece.leaving]), np.inf)
        only[to] = unary[piece.leaving][to]
        unary[piece.leaving] = only
    edges: list[tuple[int, int]] = []
    tables: list[Floats] = []
    place = {one: k for k, one in enumerate(variables)}
    for factor in piece.factors:
        if factor.first == piece.entering:
            unary[factor.second] = unary[factor.second] + factor.seconds[at]
            continue
        edges.append((place[factor.first], place[factor.second]))
        tables.append(factor.seconds)
    plan = solve_operators([unary[one] for one in variables], edges, tables)
    return dict(zip(variables, plan.choice, strict=True))


__all__ = ["Chain", "Factor", "cut_table", "fixed_choice"]
