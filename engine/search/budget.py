"""Memory limits on top of min-plus elimination: a Lagrangian bound, choices that fit, and a small integer program that proves.

With prices on the rows of memory the problem is one elimination again, and its minimum less the priced limits is a
lower bound b. At the best prices found, the least total with one value (or one pair) forced is known for all of them
at once (`clique_marginals`), and the choices met there are made to fit (`incumbents`). What lies above b + delta is left out and
HiGHS solves the rest; if its optimum is at most b + delta, all that was left out costs at least as much: a proof. Else delta
becomes the gap that is left, and the program is solved once more. Where time ends that, bound and best choice are what is known.

scipy is imported only here, and only when a limit binds. Knows nothing of operators or times: a row is a row.
"""

from __future__ import annotations

from math import inf
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..frozen import dataclass
from .elimination import Eliminated, EliminationOrder, Floats, Ints, clique_marginals, eliminate
from .incumbents import Incumbents
from .pairwise import ROUNDING, PairwiseProblem

#: Evaluations of the Lagrangian: the bound needs no more, the integer program does the rest.
_EVALUATIONS = 150
#: Prices are good enough when the master problem promises no more than this, relatively.
_PRICE_GAP = 1e-4
#: How far above the bound values are kept, relatively, in the first program.
_FIRST_DELTA = 0.01
#: Programs solved at most with a growing delta; the last one leaves nothing out.
_PROGRAMS = 6
#: HiGHS gives up one program after so many nodes, and all that prove together after so many seconds.
_NODES, _SECONDS = 200_000, 30.0
#: Choices met on the way to the prices from which ones that fit are made.
_REPAIRED = 8
#: Pairs left above which a better choice is looked for first, and above which the first program takes half the gap alone.
_MANY, _TOO_MANY = 5_000, 15_000
#: The search for a better choice: variables that are free at a time, programs, and nodes of each.
_FREE, _POLISHING, _POLISHING_NODES = 20, 60, 100
#: The objective of a program is scaled to this, because HiGHS closes gaps to 1e-6, absolutely.
_OBJECTIVE = 1e3


@dataclass(frozen=True, slots=True)
class Budgeted:
    """The best choice found (None: none), a lower bound on all choices, and whether choice or absence is proven."""

    choice: Ints | None
    lower_bound: float
    proven: bool


def scipy_optimize() -> Any:
    """`scipy.optimize`, or a usage error that says how to get it."""
    try:
        from scipy import optimize
    except ImportError:
        raise UsageError(
            "a memory budget that binds, and a graph too wide to eliminate, need scipy, which is not installed",
            remedy="Install planproof[solvers]; or raise the budget, or leave edges out.",
        ) from None
    return optimize


def within_budget(
    problem: PairwiseProblem, order: EliminationOrder, buckets: list[Floats | float], free: Eliminated
) -> Budgeted:
    """The least total within all limits; `free` is the minimum without them, which breaks one."""
    scipy_optimize()
    priced, prices, met = _best_prices(problem, order, buckets, free)
    price = float(prices.sum())
    bound = priced.value - price
    if bound > _largest_total(problem):
        return Budgeted(None, inf, True)
    incumbents = Incumbents(problem)
    best = _best_fitting(problem, incumbents, met, prices)
    marginals = clique_marginals(order, priced)
    values = value_marginals(marginals, price)
    pairs = [pair_marginals(order, marginals, i, j) - price for i, j in problem.edges]
    scale = problem.scale(bound, free.value)
    # The prices cancel in every total, and may be much larger than the costs.
    slack = ROUNDING * (scale + price)
    if best is not None:
        total = problem.total(best)
        if _left(pairs, total) > _MANY:

            def better(kept: list[Ints]) -> Ints | None:
                allowed = [least <= total + slack for least in pairs]
                return solve_program(problem, kept, allowed, scale, nodes=_POLISHING_NODES).choice

            best = incumbents.polished(best, values, _FREE, _POLISHING, better)
    return by_marginals(problem, values, pairs, bound, best, scale, slack)


def _best_fitting(problem: PairwiseProblem, incumbents: Incumbents, met: list[Ints], prices: Floats) -> Ints | None:
    """The best choice within all limits that a few of those met lead to, the nearest to fitting first."""
    best, value = None, inf
    excess = [float(np.maximum(problem.used(choice) - 1, 0.0).sum()) for choice in met]
    nearest = sorted(range(len(met)), key=excess.__getitem__)[:_REPAIRED]
    for k, weights in ((k, weights) for k in nearest for weights in (prices, np.zeros_like(prices))):
        choice = incumbents.repaired(met[k], weights)
        if choice is not None:
            choice = incumbents.improved(choice)
            if problem.fits(choice) and (total := problem.total(choice)) < value:
                best, value = choice, total
    return best


def _left(pairs: list[Floats], total: float) -> int:
    """How many pairs a choice below `total` may have."""
    return sum(int((least < total).sum()) for least in pairs)


def by_marginals(
    problem: PairwiseProblem, values: list[Floats], pairs: list[Floats], bound: float, best: Ints | None, scale: float,
    slack: float,
) -> Budgeted:  # fmt: skip
    """The least total, by integer programs on what lower bounds leave.

    `values[v][s]` and `pairs[e][s, t]` bound every total with that value, or pair, `bound` all of them; `best` is a choice that
    fits, if one is known, and `slack` what rounding may do to a bound.
    """
    value = inf if best is None else problem.total(best)
    lower, delta = bound, _FIRST_DELTA * scale
    if best is not None:
        # What is left of a good choice's gap may be solved at once; of a large problem the lower half gives the better bound.
        delta = (value - bound) * (0.5 if _left(pairs, value) > _TOO_MANY else 1.0)
    until = monotonic() + _SECONDS
    for program in range(_PROGRAMS):
        threshold = inf if program == _PROGRAMS - 1 else min(bound + delta, value) + slack
        kept = [np.flatnonzero((least <= threshold) & (least < inf)) for least in values]
        allowed = [(least <= threshold) & (least < inf) for least in pairs]
        found = solve_program(problem, kept, allowed, scale, seconds=max(1.0, until - monotonic()))
        if found.choice is not None and problem.total(found.choice) < value:
            best, value = found.choice, problem.total(found.choice)
        everything = threshold == inf or all(not (least[least < inf] > threshold).any() for least in (*values, *pairs))
        lower = max(lower, min(found.lower_bound, inf if everything else threshold, value))
        if not found.proven:
            return Budgeted(best, lower, False)
        if everything or value <= threshold:
            return Budgeted(best, value, True)
        delta = 3 * delta if best is None else value - bound
    return Budgeted(best, lower, False)


def solve_program(
    problem: PairwiseProblem, kept: list[Ints], allowed: list[NDArray[np.bool_]], scale: float, *, nodes: int = 0,
    seconds: float = _SECONDS,
) -> Budgeted:  # fmt: skip
    """The least total over the kept values and allowed pairs within all limits, as an integer program.

    x[v, s] in {0, 1} for each kept value, one a variable; z[i, s, j, t] >= 0 for each allowed pair of an edge, with x
    as its marginals. `nodes`: HiGHS gives up after so many, of 0 after as many as a proof may take.
    """
    if not all(k.size for k in kept):
        return Budgeted(None, inf, True)
    optimize = scipy_optimize()
    from scipy.sparse import coo_array

    starts = np.cumsum([0, *(k.size for k in kept)], dtype=np.int64)
    n_x = int(starts[-1])
    costs = [np.concatenate([unary[k] for unary, k in zip(problem.unary, kept, strict=True)])]
    rows: list[Ints] = [np.repeat(np.arange(len(kept)), [k.size for k in kept])]
    columns: list[Ints] = [np.arange(n_x)]
    signs: list[Floats] = [np.ones(n_x)]
    equal: list[Floats] = [np.ones(len(kept))]
    n_rows, n_columns = len(kept), n_x
    constant = 0.0
    for (i, j), table, pair in zip(problem.edges, problem.tables, allowed, strict=True):
        block, usable = table[np.ix_(kept[i], kept[j])], pair[np.ix_(kept[i], kept[j])]
        if min(block.shape) == 1 and usable.all():
            # One end has no choice: its table is a cost of the other end, or of none.
            if block.size == 1:
                constant += float(block[0, 0])
            else:
                end = i if block.shape[1] == 1 else j
                costs[0][starts[end] : starts[end + 1]] += block.reshape(-1)
            continue
        s, t = np.nonzero(usable)
        z = n_columns + np.arange(s.size)
        for end, at in ((i, s), (j, t)):
            of_end = np.arange(kept[end].size)
            rows += [n_rows + at, n_rows + of_end]
            columns += [z, starts[end] + of_end]
            signs += [np.ones(z.size), -np.ones(of_end.size)]
            equal.append(np.zeros(of_end.size))
            n_rows += of_end.size
        costs.append(block[s, t])
        n_columns += z.size
    marginals = coo_array(
        (np.concatenate(signs), (np.concatenate(rows), np.concatenate(columns))), shape=(n_rows, n_columns)
    ).tocsr()
    rights = np.concatenate(equal)
    flat = np.concatenate([start + k for start, k in zip(problem.starts(), kept, strict=False)])
    memory = problem.memory[:, flat]
    memory = memory[np.maximum.reduceat(memory, starts[:-1], axis=1).sum(axis=1) > 1]
    factor = _OBJECTIVE / scale
    covers: list[Ints] = []
    while True:
        limits = np.zeros((memory.shape[0] + len(covers), n_x))
        limits[: memory.shape[0]] = memory
        for row, cover in enumerate(covers):
            limits[memory.shape[0] + row, cover] = 1.0
        at, on = np.nonzero(limits)
        above = np.concatenate([np.ones(memory.shape[0]), [cover.size - 1.0 for cover in covers]])
        constraints = [optimize.LinearConstraint(marginals, rights, rights)]
        if above.size:
            held = coo_array((limits[at, on], (at, on)), shape=(above.size, n_columns)).tocsr()
            constraints.append(optimize.LinearConstraint(held, -np.inf, above))
        solved = optimize.milp(
            np.concatenate(costs) * factor,
            integrality=np.concatenate([np.ones(n_x), np.zeros(n_columns - n_x)]),
            bounds=optimize.Bounds(0, 1),
            constraints=constraints,
            options={"mip_rel_gap": 0.0, "node_limit": nodes or _NODES, "time_limit": seconds},
        )
        proven = solved.status in (0, 2)
        if solved.x is None:
            lower = inf if proven else _bound_of(solved, factor, constant)
            return Budgeted(None, lower, proven)
        choice = np.array([k[solved.x[a:b].argmax()] for k, a, b in zip(kept, starts, starts[1:], strict=False)])
        if problem.fits(choice):
            return Budgeted(choice, problem.total(choice) if proven else _bound_of(solved, factor, constant), proven)
        # HiGHS takes a limit that is passed by less than its tolerance for kept. This set is too large: cut it off.
        broken = int(problem.used(choice).argmax())
        picked = problem.starts()[:-1] + choice
        covers.append(np.flatnonzero(np.isin(flat, picked[problem.memory[broken, picked] > 0])))


def _bound_of(solved: Any, factor: float, constant: float) -> float:
    bound = solved.mip_dual_bound
    return -inf if bound is None else float(bound) / factor + constant


def value_marginals(marginals: list[Floats], price: float = 0.0) -> list[Floats]:
    """By variable and value the least total with that value."""
    return [table.min(axis=tuple(range(table.ndim - 1))) - price for table in marginals]


def pair_marginals(order: EliminationOrder, marginals: list[Floats], i: int, j: int) -> Floats:
    """[values of i, values of j]: the least total with that pair, from the bucket that holds the edge."""
    first, other = (i, j) if j in order.scopes[i] else (j, i)
    keep = order.scopes[first].index(other)
    away = tuple(n for n in range(len(order.scopes[first])) if n != keep)
    least = marginals[first].min(axis=away)
    return np.asarray(least.T if first == i else least)


def _largest_total(problem: PairwiseProblem) -> float:
    tables = (*problem.unary, *problem.tables)
    return sum(float(table.max(where=table < inf, initial=-inf)) for table in tables)


def _best_prices(
    problem: PairwiseProblem, order: EliminationOrder, buckets: list[Floats | float], free: Eliminated
) -> tuple[Eliminated, Floats, list[Ints]]:
    """The elimination at the best prices found, these prices, and the choices met.

    Cutting planes: every choice met bounds the Lagrangian by its cost plus its priced excess; the next prices lie
    half way between the best so far and the maximum of these bounds, which keeps them from jumping. Bounds on the
    prices grow when they are reached.
    """
    optimize = scipy_optimize()
    starts = problem.starts()
    n_rows = problem.memory.shape[0]
    best_prices, best, best_value = np.zeros(n_rows), free, free.value
    largest = 10 * max(abs(free.value), 1e-9)
    met = [free.choice]
    cuts: list[Floats] = []
    heights: list[float] = []
    for _ in range(_EVALUATIONS):
        cuts.append(problem.used(met[-1]) - 1)
        heights.append(problem.total(met[-1]))
        master = optimize.linprog(
            np.concatenate([np.zeros(n_rows), [-1.0]]),
            A_ub=np.column_stack([-np.array(cuts), np.ones(len(cuts))]),
            b_ub=np.array(heights),
            bounds=[(0, largest)] * n_rows + [(None, None)],
            method="highs",
        )
        if master.x is None:
            break
        if -master.fun - best_value <= _PRICE_GAP * abs(best_value):
            if master.x[:-1].max() < 0.99 * largest or largest > 1e6 * abs(free.value):
                break
            largest *= 10
            continue
        prices = (best_prices + master.x[:-1]) / 2
        priced = prices @ problem.memory
        unary = [costs + priced[a:b] for costs, a, b in zip(problem.unary, starts, starts[1:], strict=False)]
        found = eliminate(order, unary, buckets)
        value = found.value - float(prices.sum())
        met.append(found.choice)
        if value > best_value:
            best_prices, best, best_value = prices, found, value
    return best, best_prices, met
