"""Layouts under a memory budget: operators that repeat take one layout, and the bytes of all of them must fit.

The tied problem has one variable for each kind of operator, its costs and bytes those of all copies. A price of memory, found
where the best choices met cost the same, gives a bound and a choice that fits; where the two do not meet, the exact solver closes
the gap with an integer program, if scipy is there.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum, inf

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from .dominance import undominated
from .operator_problem import OperatorProblem, Variable
from .operators import OperatorPlan, least_with_each, solve_operators

Floats = NDArray[np.float64]
#: Prices tried at most; few are needed, since each is where two choices already met cost the same.
_PRICES, _CLOSE = 40, 1e-9


@dataclass(frozen=True, slots=True)
class Within:
    """The best choice of the tied problem within a budget; None with `binding` where nothing fits."""

    choice: dict[Variable, int] | None
    objective: float
    lower_bound: float
    method: str
    width: int
    price: float
    binding: str = ""


class Tied:
    """The problem with copies tied to the first segment of their kind."""

    def __init__(self, problem: OperatorProblem) -> None:
        self.problem = problem
        self.costs: dict[Variable, Floats] = {}
        self.memory: dict[Variable, Floats] = {}
        self.tables: dict[tuple[Variable, Variable], Floats] = {}
        #: (root, its state for each own state) of every cut.
        self._cuts: dict[str, tuple[str, NDArray[np.int64]]] = {}
        for k in range(len(problem.segments)):
            self._add(k)
        self.variables = list(self.costs)

    def _add(self, k: int) -> None:
        problem, twin = self.problem, self.problem.repeats[k]
        first = k if twin is None else twin.first
        piece = problem.pieces[first]
        assert piece is not None
        one, two = problem.segments[first], problem.segments[k]
        if two.leaving:
            if twin is None:
                self._cuts[two.leaving] = (two.leaving, np.arange(len(problem.states_of(two.leaving))))
            else:
                root, of_first = self._cuts[one.leaving]
                own = problem.own_states(one.leaving, two.leaving, twin.tensors[one.leaving][1])
                states = np.empty(len(own), dtype=np.int64)
                states[own] = of_first
                self._cuts[two.leaving] = (root, states)
        for variable, cost in piece.costs.items():
            at, order = self._root(k, variable)
            moved = np.empty_like(cost)
            moved[order] = cost
            held = np.empty_like(cost)
            held[order] = piece.memory[variable]
            self.costs[at] = self.costs[at] + moved if at in self.costs else moved
            self.memory[at] = self.memory[at] + held if at in self.memory else held
        for factor in piece.factors:
            (a, rows), (b, columns) = self._root(k, factor.first), self._root(k, factor.second)
            table = np.empty_like(factor.seconds)
            table[np.ix_(rows, columns)] = factor.seconds
            self.tables[a, b] = self.tables[a, b] + table if (a, b) in self.tables else table

    def _root(self, k: int, variable: Variable) -> tuple[Variable, NDArray[np.int64]]:
        """The tied variable of a variable of the first segment of `k`'s kind, and the tied state of each of its states."""
        problem, twin = self.problem, self.problem.repeats[k]
        first = problem.segments[k if twin is None else twin.first]
        kind, name = variable
        if kind == "tensor" and name in (first.entering, first.leaving):
            own, dims = (name, None) if twin is None else twin.tensors[name]
            root, states = self._cuts[own]
            return ("tensor", root), states if dims is None else states[problem.own_states(name, own, dims)]
        count = len(problem.strategies[name]) if kind == "operator" else len(problem.states_of(name))
        return variable, np.arange(count)

    def solve(self, costs: dict[Variable, Floats], *, integer_program: bool = True) -> OperatorPlan:
        """The tied problem under other node costs."""
        return solve_operators(
            [costs[one] for one in self.variables], self.edges, list(self.tables.values()), integer_program=integer_program
        )

    def free(self, *, integer_program: bool = True) -> Within:
        """The best choice without a budget."""
        plan = self.solve(self.costs, integer_program=integer_program)
        if not plan.choice:
            return Within(None, inf, plan.lower_bound, plan.method, plan.width, 0.0, plan.binding)
        return self._done(plan, plan.objective, plan.lower_bound, plan.method, 0.0)

    def at_price(self, price: float, budget: float | None = None) -> OperatorPlan:
        """The tied problem with memory at `price` seconds a byte, of what is needed at any price alone."""
        kept, tables = self._needed
        costs, held = self.priced(price), self.memory
        memory = None if budget is None else [held[one][left] for one, left in zip(self.variables, kept, strict=True)]
        plan = solve_operators(
            [costs[one][left] for one, left in zip(self.variables, kept, strict=True)], self.edges, tables, memory=memory,
            budget=budget,
        )  # fmt: skip
        return replace(plan, choice=tuple(int(left[s]) for left, s in zip(kept, plan.choice, strict=False)))

    @cached_property
    def edges(self) -> list[tuple[int, int]]:
        """The ends of the tables."""
        place = {one: k for k, one in enumerate(self.variables)}
        return [(place[a], place[b]) for a, b in self.tables]

    @cached_property
    def _needed(self) -> tuple[list[NDArray[np.int64]], list[Floats]]:
        """The states that an optimum may need, whatever memory costs and within any budget, and the tables of these."""
        costs, held = [self.costs[one] for one in self.variables], [self.memory[one][None, :] for one in self.variables]
        kept = undominated(costs, self.edges, list(self.tables.values()), held)
        tables = [table[np.ix_(kept[i], kept[j])] for (i, j), table in zip(self.edges, self.tables.values(), strict=True)]
        return kept, tables

    def held(self, plan: OperatorPlan) -> float:
        """Bytes of a choice."""
        return float(fsum(self.memory[one][s] for one, s in zip(self.variables, plan.choice, strict=True)))

    def priced(self, price: float) -> dict[Variable, Floats]:
        """Node costs with memory at `price` seconds a byte."""
        return {one: cost + price * self.memory[one] for one, cost in self.costs.items()}

    def total(self, plan: OperatorPlan, price: float) -> float:
        """Seconds of a choice made at a price."""
        return plan.objective - price * self.held(plan)

    def within(self, budget: float, *, integer_program: bool = True) -> Within:
        """The best choice whose bytes are at most `budget`."""
        free = self.solve(self.costs, integer_program=integer_program)
        if free.objective == inf:
            return Within(None, inf, inf, "elimination", free.width, 0.0, free.binding)
        if self.held(free) <= budget:
            return self._done(free, free.objective, free.lower_bound, free.method, 0.0)
        least = {one: float(held.min()) for one, held in self.memory.items()}
        if fsum(least.values()) > budget:
            return Within(None, inf, inf, "elimination", free.width, 0.0, self._miss(least, budget))
        best, objective, lower, low, high = None, inf, free.lower_bound, 0.0, free.objective / budget
        over = free
        while True:
            plan = self.at_price(high)
            lower = max(lower, plan.objective - high * budget)
            if self.held(plan) <= budget:
                best, objective = plan, self.total(plan, high)
                break
            over, low, high = plan, high, 8 * high
            if high > 1e12 * free.objective / budget:
                break
        fitting = best
        for _ in range(_PRICES):
            if fitting is None or objective - lower <= _CLOSE * objective:
                break
            # Where the lines of the two choices over the price meet: the least price at which the one that fits is no worse.
            price = (self.total(fitting, high) - self.total(over, low)) / (self.held(over) - self.held(fitting))
            plan = self.at_price(price)
            lower = max(lower, plan.objective - price * budget)
            if plan.objective >= (self.total(fitting, high) + price * self.held(fitting)) * (1 - 1e-12):
                break
            if self.held(plan) <= budget:
                fitting, high = plan, price
                if (seconds := self.total(plan, price)) < objective:
                    best, objective = plan, seconds
            else:
                over, low = plan, price
        if best is not None and objective - lower <= _CLOSE * objective:
            return self._done(best, objective, lower, "lagrangian", high)
        exact = None
        if integer_program:
            with suppress(UsageError):  # scipy is an optional extra
                exact = self.at_price(0.0, budget)
        if exact is None:
            if best is None:
                return Within(None, inf, lower, "lagrangian", free.width, high, "memory: no layout within the budget was found")
            return self._done(best, objective, lower, "lagrangian", high)
        if exact.objective == inf or (best is not None and objective < exact.objective):
            if best is None:
                return Within(None, inf, exact.lower_bound, exact.method, exact.width, high, exact.binding)
            return self._done(best, objective, max(lower, exact.lower_bound), exact.method, high)
        return self._done(exact, exact.objective, max(lower, exact.lower_bound), exact.method, high)

    def _done(self, plan: OperatorPlan, objective: float, lower: float, method: str, price: float) -> Within:
        choice = dict(zip(self.variables, plan.choice, strict=True))
        return Within(choice, objective, min(lower, objective), method, plan.width, price)

    def _miss(self, least: dict[Variable, float], budget: float) -> str:
        """The nearest miss, and the operator that holds most of it."""
        total = sum(least.values())
        largest = max(least, key=lambda one: least[one])
        return (
            f"memory: the smallest layouts of all operators hold {total:,.0f} bytes, {total - budget:,.0f} more than the budget "
            f"of {budget:,.0f}; most of it is '{largest[1]}' with its copies, {least[largest]:,.0f}"
        )

    def spread(self, choice: dict[Variable, int]) -> dict[Variable, int]:
        """A choice of the tied problem for every variable of the graph."""
        problem = self.problem
        found: dict[Variable, int] = {}
        for k, segment in enumerate(problem.segments):
            twin = problem.repeats[k]
            piece = problem.pieces[k if twin is None else twin.first]
            assert piece is not None
            names = problem.names(k)
            for variable in piece.costs:
                if variable[0] == "operator":
                    found["operator", names[variable[1]]] = choice[variable]
                elif variable != piece.leaving:
                    own = variable[1] if twin is None else twin.tensors[variable[1]][0]
                    dims = None if twin is None else twin.tensors[variable[1]][1]
                    state = choice[variable]
                    found["tensor", own] = state if dims is None else int(problem.own_states(variable[1], own, dims)[state])
            if segment.leaving:
                root, states = self._cuts[segment.leaving]
                found["tensor", segment.leaving] = int(np.flatnonzero(states == choice["tensor", root])[0])
        return found

    def next_best(self, found: Within) -> dict[str, tuple[int, float]]:
        """By operator: the best other layout for all of its copies, and what it adds, memory at the price that binds.

        Nothing where the best one itself is not known: of a graph too wide to eliminate.
        """
        assert found.choice is not None
        if found.method.startswith("relaxation"):
            return {}
        costs = self.priced(found.price)
        rows: dict[str, tuple[int, float]] = {}
        least = least_with_each([costs[one] for one in self.variables], self.edges, list(self.tables.values()))
        base = self.solve(costs).objective if least is None else float(least[0].min())
        for k, variable in enumerate(self.variables):
            if variable[0] != "operator":
                continue
            if least is not None:
                other = self.problem.with_another_split(variable[1], least[k], found.choice[variable])
                if np.isfinite(other).any():
                    rows[variable[1]] = (int(other.argmin()), max(0.0, float(other.min()) - base))
                continue
            without = dict(costs)
            without[variable] = self.problem.with_another_split(variable[1], costs[variable], found.choice[variable])
            if not np.isfinite(without[variable]).any():
                continue
            plan = self.solve(without)
            if plan.objective < inf:
                rows[variable[1]] = (plan.choice[k], max(0.0, plan.objective - base))
        return rows
