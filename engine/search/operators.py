"""Operators of one stage: the exact choice of a strategy each, by node and edge costs, within a budget by time.

Vocabulary. An *operator* has *strategies* (shard layouts); an *edge* between two operators has a cost for each pair
of theirs (layout conversion; negative costs are allowed, +inf forbids the pair). An operator may *follow* another: it
takes the strategy of the same index. At each *time* the operators alive must fit the budget.

This module checks what it is given, joins followers, drops memory rows that cannot bind and says why there is no
plan. It does not know models, meshes or what a strategy is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError
from ..frozen import dataclass
from .budget import value_marginals, within_budget
from .dominance import undominated
from .elimination import EliminationOrder, Floats, Ints, bucket_tables, clique_marginals, eliminate, elimination_order
from .pairwise import PairwiseProblem
from .relaxation import beyond_width

#: Elimination tables larger than this, in numbers, are not held, only what is left of them.
LARGEST_TABLE, ALL_TABLES = 8_000_000, 60_000_000
#: Sums of an elimination, in numbers; more are left to the integer program.
MOST_SUMS = 3_000_000_000
#: Above it values that no optimum needs are left out first.
SMALL_TABLE = 300_000
#: Memory rows x strategies.
LARGEST_MEMORY = 64_000_000


@dataclass(frozen=True, slots=True)
class OperatorPlan:
    """The choice of least objective, or the reason why there is none.

    `choice` is the strategy of each operator. `lower_bound` holds for every choice; it equals `objective` where
    `proven`. `width` is that of the elimination, `method` one of `elimination`, `lagrangian+milp`, `relaxation+milp`,
    `relaxation`. With no plan `objective` is inf and `binding` says why.
    """

    objective: float
    choice: tuple[int, ...]
    lower_bound: float
    width: int
    method: str
    proven: bool
    binding: str = ""


def solve_operators(
    node_costs: Sequence[ArrayLike],
    edges: Sequence[tuple[int, int]],
    edge_costs: Sequence[ArrayLike],
    *,
    memory: Sequence[ArrayLike] | None = None,
    budget: ArrayLike | None = None,
    alive: Sequence[Sequence[int]] | None = None,
    follow: Sequence[int] | None = None,
    integer_program: bool = True,
) -> OperatorPlan:
    """One strategy an operator, minimising the sum of node costs and edge costs.

    `node_costs[i][s]` is the cost of strategy s of operator i, `edge_costs[e][s, t]` that of `edges[e] = (i, j)`.
    `memory[i][s]` bytes, `alive[t]` the operators alive at time t (None: all, at one time), `budget` bytes, one
    number or one a time: the memory of the chosen strategies of the operators alive must not exceed it (rounding of
    1e-12 apart). `follow[i] = k >= 0`: operator i takes the strategy index of operator k; -1: its own. Without
    `integer_program` a graph too wide to eliminate keeps the gap that bound and local search leave.

    Without a budget that binds: min-plus elimination, numpy alone. With one: `planproof[solvers]` is needed
    (`UsageError` if it is missing). Raises `InputError` for shapes, types and numbers that are no such problem. No
    plan is no error: `objective` is inf, `binding` says why.
    """
    nodes = _node_costs(node_costs)
    roots = _roots(follow, nodes)
    variables = {root: n for n, root in enumerate(dict.fromkeys(roots))}
    of_operator = [variables[root] for root in roots]
    unary: list[Floats] = [np.zeros(nodes[root].size) for root in variables]
    for n, costs in zip(of_operator, nodes, strict=True):
        unary[n] = unary[n] + costs
    tables = _edge_tables(edges, edge_costs, nodes, of_operator, unary)
    rows, names = _memory_rows(memory, budget, alive, nodes, of_operator, unary)
    if any(not (costs < inf).any() for costs in unary):
        return _none(
            0, "elimination", "operators: one of them has no strategy of finite cost (a budget of 0 counts, too)"
        )
    problem = PairwiseProblem(unary, list(tables), list(tables.values()), rows)
    order = elimination_order([costs.size for costs in unary], problem.edges)
    if order.largest > SMALL_TABLE:
        kept = undominated(unary, problem.edges, problem.tables, np.split(rows, problem.starts()[1:-1], axis=1))
        if any(left.size < costs.size for left, costs in zip(kept, unary, strict=True)):
            problem = problem.restricted(kept)
            order = elimination_order([costs.size for costs in problem.unary], problem.edges)
    else:
        kept = [np.arange(costs.size) for costs in unary]
    return _solved(problem, order, names, lambda choice: _choice(choice, kept, of_operator), integer_program)


def _solved(
    problem: PairwiseProblem, order: EliminationOrder, names: list[int], of_choice: Callable[[Ints], tuple[int, ...]],
    integer_program: bool,
) -> OperatorPlan:  # fmt: skip
    """The plan of a problem of variables; `names` are the times of its rows."""
    rows = problem.memory
    fits = order.largest <= LARGEST_TABLE and order.total <= ALL_TABLES
    if not fits and (order.message > LARGEST_TABLE or order.total > MOST_SUMS):
        return _by_program(problem, of_choice, order.width, integer_program)
    buckets = bucket_tables(order, problem.edges, problem.tables)
    free = eliminate(order, problem.unary, buckets, keep=fits)
    if free.value == inf:
        return _none(order.width, "elimination", "edges: every choice contains a pair of strategies that is forbidden")
    if not rows.shape[0] or problem.fits(free.choice):
        objective = problem.total(free.choice)
        return OperatorPlan(objective, of_choice(free.choice), objective, order.width, "elimination", True)
    least = np.minimum.reduceat(rows, problem.starts()[:-1], axis=1).sum(axis=1)
    if least.max() > 1 + 1e-12:
        time = names[int(least.argmax())]
        why = f"memory: the smallest strategies alive at time {time} need {least.max():.6g} times the budget"
        return _none(order.width, "elimination", why)
    if not fits:
        return _by_program(problem, of_choice, order.width, integer_program)
    found = within_budget(problem, order, buckets, free)
    if found.choice is None:
        return _none(order.width, "lagrangian+milp", _no_choice(found.proven), found.lower_bound, found.proven)
    objective = problem.total(found.choice)
    return OperatorPlan(
        objective, of_choice(found.choice), found.lower_bound, order.width, "lagrangian+milp", found.proven
    )


def least_with_each(
    node_costs: Sequence[Floats], edges: Sequence[tuple[int, int]], edge_costs: Sequence[Floats]
) -> list[Floats] | None:
    """By operator, the least total with each of its strategies, inf where there is none; None for a graph too wide for it.

    Shapes as in `solve_operators`; no operator follows another, and no edge joins one to itself.
    """
    nodes = list(node_costs)
    tables = _edge_tables(edges, edge_costs, nodes, list(range(len(nodes))), nodes)
    order = elimination_order([costs.size for costs in nodes], list(tables))
    if order.largest > LARGEST_TABLE or order.total > ALL_TABLES:
        return None
    found = eliminate(order, nodes, bucket_tables(order, list(tables), list(tables.values())))
    return value_marginals(clique_marginals(order, found))


def _by_program(
    problem: PairwiseProblem, of_choice: Callable[[Ints], tuple[int, ...]], width: int, integer_program: bool
) -> OperatorPlan:
    """Graphs too wide to eliminate: integer programs on what the bounds of a narrower graph leave."""
    found = beyond_width(problem, LARGEST_TABLE if integer_program else SMALL_TABLE, integer_program=integer_program)
    method = "relaxation+milp" if integer_program else "relaxation"
    if found.choice is None:
        why = (
            _no_choice(found.proven)
            if problem.memory.shape[0]
            else "edges: every choice contains a pair of strategies that is forbidden"
        )
        return _none(width, method, why, found.lower_bound, found.proven)
    objective = problem.total(found.choice)
    return OperatorPlan(objective, of_choice(found.choice), found.lower_bound, width, method, found.proven)


def _no_choice(proven: bool) -> str:
    if proven:
        return "memory: no choice keeps the budget at every time"
    return "memory: no choice that keeps the budget was found within the limits of the integer program"


def _none(width: int, method: str, binding: str, lower_bound: float = inf, proven: bool = True) -> OperatorPlan:
    return OperatorPlan(inf, (), lower_bound, width, method, proven, binding)


def _choice(choice: Ints, kept: list[Ints], of_operator: list[int]) -> tuple[int, ...]:
    return tuple(int(kept[n][choice[n]]) for n in of_operator)


def _node_costs(node_costs: Sequence[ArrayLike]) -> list[Floats]:
    if not len(node_costs):
        raise InputError(
            "node_costs is empty: at least one operator is expected",
            remedy="A stage without operators has no plan to choose.",
        )
    nodes = [_numbers(f"node_costs[{i}]", costs) for i, costs in enumerate(node_costs)]
    for i, costs in enumerate(nodes):
        if costs.ndim != 1 or not costs.size:
            raise InputError(
                f"node_costs[{i}] has the shape {list(costs.shape)}: expected [strategies], at least one",
                remedy="One cost for each strategy of the operator.",
            )
    return nodes


def _roots(follow: Sequence[int] | None, nodes: list[Floats]) -> list[int]:
    """The operator whose strategy each operator takes, in the end."""
    count = len(nodes)
    given = (
        [-1] * count if follow is None else [_index(f"follow[{i}]", k, count, least=-1) for i, k in enumerate(follow)]
    )
    if len(given) != count:
        raise InputError(
            f"follow has {len(given)} entries: expected {count}, one an operator", remedy="-1 where it follows none."
        )
    roots = [-1] * count
    for i in range(count):
        path = [i]
        while roots[path[-1]] < 0 and given[path[-1]] >= 0:
            path.append(given[path[-1]])
            if len(path) > count:
                raise InputError(
                    f"follow[{i}] leads back to operator {i}, or into a circle", remedy="One operator of a group leads."
                )
        root = path[-1] if roots[path[-1]] < 0 else roots[path[-1]]
        for k in path:
            roots[k] = root
        if nodes[root].size != nodes[i].size:
            raise InputError(
                f"operator {i} has {nodes[i].size} strategies and follows operator {root} with {nodes[root].size}",
                remedy="An operator that follows has as many strategies, in the same order.",
            )
    return roots


def _edge_tables(
    edges: Sequence[tuple[int, int]],
    edge_costs: Sequence[ArrayLike],
    nodes: list[Floats],
    of_operator: list[int],
    unary: list[Floats],
) -> dict[tuple[int, int], Floats]:
    """Tables by pair of variables (smaller first), parallel edges added; an edge inside a group goes to its unary
    costs.
    """
    if len(edges) != len(edge_costs):
        raise InputError(
            f"{len(edges)} edges with {len(edge_costs)} edge_costs: one table an edge is expected",
            remedy="Pair them up.",
        )
    tables: dict[tuple[int, int], Floats] = {}
    for e, (edge, costs) in enumerate(zip(edges, edge_costs, strict=True)):
        if len(edge) != 2:
            raise InputError(
                f"edges[{e}] has {len(edge)} ends: two operators are expected", remedy="Give pairs (i, j)."
            )
        i, j = (_index(f"edges[{e}]", end, len(nodes)) for end in edge)
        table = _numbers(f"edge_costs[{e}]", costs)
        if table.shape != (nodes[i].size, nodes[j].size):
            raise InputError(
                f"edge_costs[{e}] has the shape {list(table.shape)}: expected [{nodes[i].size}, {nodes[j].size}], the "
                f"strategies of operators {i} and {j}",
                remedy="Rows are strategies of the first operator of the edge.",
            )
        a, b = of_operator[i], of_operator[j]
        if a == b:
            unary[a] = unary[a] + np.diagonal(table)
            continue
        key, table = ((a, b), table) if a < b else ((b, a), table.T)
        tables[key] = tables[key] + table if key in tables else table
    return tables


def _memory_rows(
    memory: Sequence[ArrayLike] | None,
    budget: ArrayLike | None,
    alive: Sequence[Sequence[int]] | None,
    nodes: list[Floats],
    of_operator: list[int],
    unary: list[Floats],
) -> tuple[Floats, list[int]]:
    """[rows, strategies of all variables]: memory in units of the budget, of the times that can bind; and these
    times.

    A time whose operators are all alive at another time with no larger budget cannot bind first. A budget of 0
    forbids strategies.
    """
    strategies = sum(costs.size for costs in unary)
    if budget is None:
        if memory is not None or alive is not None:
            raise InputError(
                "memory or alive is given without a budget",
                remedy="Give the budget in bytes, or leave memory and alive out.",
            )
        return np.zeros((0, strategies)), []
    if memory is None:
        raise InputError(
            "a budget is given without memory", remedy="Give the bytes of every strategy of every operator."
        )
    if len(memory) != len(nodes):
        raise InputError(
            f"memory has {len(memory)} entries: expected {len(nodes)}, one an operator",
            remedy="Zeros where it holds none.",
        )
    held = [_numbers(f"memory[{i}]", bytes_) for i, bytes_ in enumerate(memory)]
    for i, (bytes_, costs) in enumerate(zip(held, nodes, strict=True)):
        if bytes_.shape != costs.shape:
            raise InputError(
                f"memory[{i}] has the shape {list(bytes_.shape)}: expected {list(costs.shape)}",
                remedy="Bytes by strategy.",
            )
        if not (bytes_ >= 0).all():
            raise InputError(
                f"memory[{i}] holds {bytes_.min()}: bytes are 0 or more",
                remedy="Count what a strategy frees at its own time.",
            )
    lives = np.ones((1, len(nodes)), dtype=bool) if alive is None else np.zeros((len(alive), len(nodes)), dtype=bool)
    for t, operators in enumerate(alive or ()):
        members = np.asarray(operators)
        if members.size and (
            members.ndim != 1 or members.dtype.kind not in "iu" or members.min() < 0 or members.max() >= len(nodes)
        ):
            raise InputError(
                f"alive[{t}] is no list of operators from 0 to {len(nodes) - 1}",
                remedy="List the operators alive at that time.",
            )
        lives[t, members.astype(np.int64)] = True
    limits = _numbers("budget", budget)
    if limits.ndim > 1 or (limits.ndim == 1 and limits.size != lives.shape[0]):
        raise InputError(
            f"budget has the shape {list(limits.shape)}: expected one number, or [{lives.shape[0]}], one a time",
            remedy="Bytes.",
        )
    if not (limits >= 0).all():
        raise InputError(
            f"budget holds {limits.min()}: bytes are 0 or more", remedy="inf, or no budget at all, stands for no limit."
        )
    limits = np.broadcast_to(limits, (lives.shape[0],))
    times = _times_that_bind(lives, limits)
    if len(times) * strategies > LARGEST_MEMORY:
        raise InputError(
            f"{len(times)} times with {strategies} strategies: the memory rows hold more than {LARGEST_MEMORY} numbers",
            remedy="Merge operators that live and die together, or give fewer times.",
        )
    starts = np.cumsum([0, *(costs.size for costs in unary)])
    rows = np.zeros((len(times), strategies))
    for i, bytes_ in enumerate(held):
        at = starts[of_operator[i]]
        rows[:, at : at + bytes_.size] += np.where(lives[times, i][:, None], bytes_, 0.0)
    limit = limits[times]
    for row in rows[limit == 0]:
        for n, start in enumerate(starts[:-1]):
            unary[n] = np.where(row[start : starts[n + 1]] > 0, inf, unary[n])
    too_large = rows > limit[:, None] * (1 + 1e-12)
    for n, start in enumerate(starts[:-1]):
        alone = too_large[:, start : starts[n + 1]].any(axis=0)
        unary[n] = np.where(alone, inf, unary[n])
    binding = limit > 0
    rows = rows[binding] / limit[binding, None]
    usable = np.where(np.concatenate(unary) < inf, rows, 0.0)
    can_bind = np.maximum.reduceat(usable, starts[:-1], axis=1).sum(axis=1) > 1
    # A strategy that breaks the budget alone is forbidden; its bytes, perhaps inf, leave the rows.
    return usable[can_bind], [int(t) for t in np.array(times, dtype=np.int64)[binding][can_bind]]


def _times_that_bind(lives: NDArray[np.bool_], limits: Floats) -> list[int]:
    """Times that are not covered by another: fewer operators alive, and no smaller budget."""
    finite = np.flatnonzero(limits < inf)
    if not finite.size:
        return []
    _, first = np.unique(np.column_stack([lives[finite], limits[finite]]), axis=0, return_index=True)
    chosen = finite[np.sort(first)]
    sets = lives[chosen].astype(np.float32)
    inside = sets @ (1 - sets).T == 0
    looser = limits[chosen][:, None] >= limits[chosen]
    covered = inside & looser & ~np.eye(chosen.size, dtype=bool)
    return [int(t) for t in chosen[~covered.any(axis=1)]]


def _numbers(name: str, given: ArrayLike) -> Floats:
    try:
        array = np.asarray(given)
    except (ValueError, TypeError):
        raise InputError(f"{name} is no array: its rows differ in length", remedy="Give a rectangular array.") from None
    if array.dtype.kind not in "fiu":
        raise InputError(
            f"{name} holds {array.dtype}: real numbers are expected", remedy="Give floats, inf for what is forbidden."
        )
    array = array.astype(np.float64)
    if not (array > -inf).all():
        raise InputError(
            f"{name} holds NaN or -inf",
            remedy="+inf stands for what is forbidden; nothing stands for what is not known.",
        )
    return array


def _index(name: str, given: int, count: int, least: int = 0) -> int:
    value = given.item() if isinstance(given, np.generic) else given
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < count:
        raise InputError(
            f"{name} is {given!r}: an operator from {least} to {count - 1} is expected",
            remedy="Operators count from 0.",
        )
    return value
