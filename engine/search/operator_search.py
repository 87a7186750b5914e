"""Operator-level sharding: a graph on a mesh of devices, under a workload, to the exact best layout of every operator.

The result says what each operator computes and communicates, what is converted between operators and how, what the next best
layout of each would have cost, by which method the optimum was found, and with which bound and gap. Equal segments of the graph
are worked out once. Nothing here knows plans or rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum, inf

import numpy as np

from ..cluster import Cluster
from ..cost.device_mesh import DeviceMesh
from ..cost.operator_cost import OperatorPricer, Spending, Terms, has_gradient
from ..cost.tensor_layout import LayoutStep
from ..model import Workload
from ..model.graph import OperatorGraph
from ..model.operator import WHOLE, Operator
from .operator_chain import Chain, TooEntangled, cut_table, fixed_choice
from .operator_hiding import exposed, with_hiding
from .operator_problem import OperatorProblem, Pinned, Variable
from .operator_space import Strategy
from .operator_tied import Tied, Within

#: Differences below this share of the total are rounding.
ROUNDING = 1e-9

Allowed = Callable[[Operator, tuple[str, ...]], bool]


@dataclass(frozen=True, slots=True)
class OperatorLayout:
    """One operator as laid out; of operators that repeat, the one in the middle, `copies` in all.

    `split` is the loop of each axis ("" for none, "+" for partial sums that pass). `next_split` is the best other layout, None
    where there is none, and `next_extra_s` what a step would take longer with it in one of the copies, all else chosen anew.
    """

    operator: str
    kind: str
    copies: int
    split: tuple[tuple[str, str], ...]
    zero: int
    spending: Spending
    next_split: tuple[tuple[str, str], ...] | None
    next_extra_s: float


@dataclass(frozen=True, slots=True)
class Conversion:
    """What is done to one tensor between two operators (or its shared layout), `copies` times; seconds of a whole step."""

    tensor: str
    source: str
    target: str
    copies: int
    forward: tuple[LayoutStep, ...]
    backward: tuple[LayoutStep, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class OperatorLayouts:
    """The layout of least cost of all operators; seconds are of a step. With no layout `objective` is inf, `binding` says why."""

    objective: float
    lower_bound: float
    method: str
    width: int
    operators: int
    kinds: int
    layouts: tuple[OperatorLayout, ...] = ()
    conversions: tuple[Conversion, ...] = ()
    compute_s: float = 0.0
    #: Exchanges of statistics and halos.
    exchange_s: float = 0.0
    #: Gathers and scatters of sharded parameters, what computation does not hide.
    gather_s: float = 0.0
    conversion_s: float = 0.0
    #: Once a step.
    sync_s: float = 0.0
    optimizer_s: float = 0.0
    memory_bytes: float = 0.0
    binding: str = ""

    @property
    def gap(self) -> float:
        """The share of the objective that is not proved."""
        return 0.0 if self.objective in (inf, 0.0) else max(0.0, 1 - self.lower_bound / self.objective)

    @property
    def proven(self) -> bool:
        """Whether the bound is the objective."""
        return self.gap <= ROUNDING


def search_operators(
    graph: OperatorGraph,
    mesh: DeviceMesh,
    workload: Workload,
    cluster: Cluster,
    *,
    terms: Terms | None = None,
    zeros: Sequence[int] = (0, 1),
    budget: float | None = None,
    allowed: Allowed | None = None,
    pinned: Pinned | None = None,
    next_best: bool = True,
    integer_program: bool = True,
) -> OperatorLayouts:
    """The best layouts of `graph` on `mesh`, in seconds of a step of `terms.microbatches` microbatches.

    `zeros`: ZeRO stages that parameters may take. `budget`: bytes of a device for parameters, gradients, optimizer state and
    kept activations; operators that repeat then take one layout. `allowed` limits the splits of an operator, `pinned`
    takes an axis out of the choice, for operators and what they share. Without
    `integer_program` a budget's gap that the bound leaves is reported, not closed. Of a graph that is too entangled to eliminate
    the layouts are good ones, and the result has their gap.
    """
    pricer = OperatorPricer(workload, cluster, mesh, terms)
    problem = OperatorProblem(graph, pricer, zeros, allowed, pinned)
    kinds = sum(piece is not None for piece in problem.pieces)
    empty = problem.without_strategy()
    if empty:
        why = f"layouts: '{empty}' has none that is allowed and divides its dims on this mesh"
        return OperatorLayouts(inf, inf, "elimination", 0, len(graph.operators), kinds, binding=why)
    size = (len(graph.operators), kinds)
    if budget is None:

        def free(one: OperatorProblem) -> tuple[Chain, dict[Variable, int], float, float]:
            chain = Chain(one)
            return chain, chain.choice(), chain.objective, chain.objective

        try:
            chain, choice, lower = with_hiding(problem, free)
        except TooEntangled:
            # Operators that repeat then take one layout, and what bound and local search leave is the gap.
            integer_program = next_best = False
        else:
            assert choice is not None
            others = _next_in_chain(chain, choice) if next_best else {}
            return _result(problem, choice, lower, "elimination", chain.width, kinds, others)

    def within(one: OperatorProblem) -> tuple[tuple[Tied, Within], dict[Variable, int] | None, float, float]:
        tied = Tied(one)
        if budget is None:
            found = tied.free(integer_program=integer_program)
        else:
            found = tied.within(budget, integer_program=integer_program)
        return (tied, found), tied.spread(found.choice) if found.choice else None, found.objective, found.lower_bound

    (tied, found), choice, lower = with_hiding(problem, within)
    if choice is None:
        return OperatorLayouts(inf, lower, found.method, found.width, *size, binding=found.binding)
    others = tied.next_best(found) if next_best else {}
    return _result(problem, choice, lower, found.method, found.width, kinds, others)


def _next_in_chain(chain: Chain, choice: dict[Variable, int]) -> dict[str, tuple[int, float]]:
    """By operator of the first segment of each kind: the best other layout in the middle copy, and what it adds."""
    problem, found = chain.problem, {}
    for k, piece in enumerate(problem.pieces):
        if piece is None:
            continue
        copies = problem.copies(k)
        at = copies[len(copies) // 2]
        names = problem.names(at)
        least = chain.least_with_each(k, at)
        for k_operator in problem.segments[k].operators:
            name = problem.graph.operators[k_operator].name
            one: Variable = ("operator", name)
            if least is not None:
                other = problem.with_another_split(name, least[one], choice["operator", names[name]])
                if np.isfinite(other).any():
                    found[name] = (int(other.argmin()), max(0.0, float(other.min()) - chain.objective))
                continue
            costs = dict(piece.costs)
            costs[one] = problem.with_another_split(name, costs[one], choice["operator", names[name]])
            if not np.isfinite(costs[one]).any():
                continue
            table = chain.table(at, cut_table(piece, costs, chain.sizes)[0])
            total = chain.before[at][:, None] + table + chain.after[at + 1][None, :]
            row, column = np.unravel_index(int(total.argmin()), total.shape)
            own = chain.first_states(at, int(row), int(column))
            inner = fixed_choice(piece, costs, *own)
            found[name] = (inner[one], max(0.0, float(total.min()) - chain.objective))
    return found


def _result(
    problem: OperatorProblem, choice: dict[Variable, int], lower: float, method: str, width: int, kinds: int,
    others: dict[str, tuple[int, float]],
) -> OperatorLayouts:  # fmt: skip
    graph, m = problem.graph, problem.pricer.terms.microbatches
    layouts: list[OperatorLayout] = []
    conversions: list[Conversion] = []
    compute = exchange = sync = optimizer = memory = converted = 0.0
    gather = float(np.maximum(exposed(problem, choice), 0.0).sum())
    for k, piece in enumerate(problem.pieces):
        if piece is None:
            continue
        copies = problem.copies(k)
        middle = problem.names(copies[len(copies) // 2])
        for index in problem.segments[k].operators:
            operator = graph.operators[index]
            rows = problem.strategies_of(operator)
            for copy in copies:
                spent = rows[choice["operator", problem.names(copy)[operator.name]]].spending
                compute += m * (spent.forward + spent.backward)
                exchange, gather = exchange + m * spent.exchanged, gather + m * spent.gathered
                sync, optimizer, memory = sync + spent.sync, optimizer + spent.optimizer, memory + spent.memory
            chosen = rows[choice["operator", middle[operator.name]]]
            other = others.get(operator.name)
            layouts.append(
                OperatorLayout(
                    operator.name, operator.kind.value, len(copies), _named(problem, chosen), chosen.zero, chosen.spending,
                    None if other is None else _named(problem, rows[other[0]]), other[1] if other else 0.0,
                )
            )
        for factor in piece.factors:
            states = [
                (problem.state_in_first(copy, factor.first, choice), problem.state_in_first(copy, factor.second, choice))
                for copy in copies
            ]
            spent_here = fsum(float(factor.seconds[a, b]) for a, b in states)
            converted += spent_here
            if spent_here > 0:
                conversions.append(
                    _conversion(problem, factor.tensor, factor.first, factor.second, copies, choice, spent_here)
                )
    total = compute + exchange + gather + sync + optimizer + converted
    return OperatorLayouts(
        total, min(lower, total), method, width, len(graph.operators), kinds, tuple(layouts), tuple(conversions), compute,
        exchange, gather, converted, sync, optimizer, memory,
    )  # fmt: skip


def _named(problem: OperatorProblem, strategy: Strategy) -> tuple[tuple[str, str], ...]:
    return tuple((axis.name, loop or WHOLE) for axis, loop in zip(problem.pricer.mesh.axes, strategy.split, strict=True))


def _conversion(
    problem: OperatorProblem, tensor: str, first: Variable, second: Variable, copies: Sequence[int],
    choice: dict[Variable, int], seconds: float,
) -> Conversion:  # fmt: skip
    """The steps of the middle copy, in the first segment's names and dims."""
    at = copies[len(copies) // 2]
    conversions = problem.conversions(tensor)
    ends = []
    for one in (first, second):
        rows = problem.rows(one, tensor, conversions, reads=one is second)
        state = problem.state_in_first(at, one, choice)
        ends.append((conversions.layouts[rows[0][state]], conversions.layouts[rows[1][state]]))
    (made, needed), (read, given) = ends
    backward = conversions.path(given, needed) if has_gradient(problem.graph.tensors[tensor]) else ()
    return Conversion(tensor, first[1], second[1], len(copies), conversions.path(made, read), backward, seconds)
