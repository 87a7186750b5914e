"""A graph on a mesh as a problem of pairs: variables with node costs, tables between them, repeated segments worked out once.

Vocabulary: a *variable* is an operator with its strategies, or a shared tensor (read by several operators) with its states, a
layout of the value and one of its gradient. A *factor* is a table over the states of two variables: what the conversions between
them take in a step. Nothing here minimises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..cost.operator_cost import OperatorPricer, has_gradient
from ..cost.tensor_layout import Layout
from ..model.graph import OperatorGraph
from ..model.operator import ELEMENT_BYTES, Operator, Use
from ..model.repeats import Alike, Segment, alike, segments
from ..plan import Recompute
from .conversions import Conversions
from .operator_space import (
    Strategy,
    operand,
    operand_gradient,
    result,
    result_gradient,
    shared_states,
    strategies,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: ("operator", name) or ("tensor", name).
Variable = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Factor:
    """Seconds a step of the conversions of one tensor between two variables, [states of first, states of second]."""

    first: Variable
    second: Variable
    tensor: str
    seconds: Floats


@dataclass(frozen=True, slots=True)
class Piece:
    """One segment: its variables without the cut that it enters from, their node costs and bytes, and its factors."""

    entering: Variable | None
    leaving: Variable | None
    costs: dict[Variable, Floats]
    memory: dict[Variable, Floats]
    factors: tuple[Factor, ...]


class OperatorProblem:
    """The problem of one graph. `pieces[k]` is set for the first segment of each kind; `repeats[k]` for the others."""

    def __init__(
        self,
        graph: OperatorGraph,
        pricer: OperatorPricer,
        zeros: Sequence[int] = (0, 1),
        allowed: Callable[[Operator, tuple[str, ...]], bool] | None = None,
    ) -> None:
        self.graph, self.pricer, self.zeros, self._allowed = graph, pricer, tuple(zeros), allowed
        self.sizes = tuple(axis.size for axis in pricer.mesh.axes)
        self.strategies: dict[str, list[Strategy]] = {}
        self.states: dict[str, list[tuple[Layout, Layout]]] = {}
        self._conversions: dict[tuple[object, ...], Conversions] = {}
        self.segments: list[Segment] = segments(graph)
        self.repeats: list[Alike | None] = alike(graph, self.segments)
        self._pairs: dict[tuple[str, str], tuple[Ints, Ints]] = {}
        self._names: dict[int, dict[str, str]] = {}
        self._moved: dict[tuple[object, ...], Ints] = {}
        self.pieces: list[Piece | None] = [
            None if twin is not None else self._piece(segment)
            for segment, twin in zip(self.segments, self.repeats, strict=True)
        ]

    def conversions(self, tensor: str) -> Conversions:
        """The conversions of a tensor's shape."""
        one = self.graph.tensors[tensor]
        key = (one.sizes, ELEMENT_BYTES[one.dtype])
        found = self._conversions.get(key)
        if found is None:
            found = self._conversions[key] = Conversions(self.pricer.layouts, one.sizes, ELEMENT_BYTES[one.dtype])
        return found

    def shared(self, tensor: str) -> bool:
        """Whether several operators read the tensor."""
        return len({k for k, _ in self.graph.consumers.get(tensor, ())}) > 1

    def states_of(self, tensor: str) -> list[tuple[Layout, Layout]]:
        """The states of a shared tensor; what has no gradient has one a layout."""
        found = self.states.get(tensor)
        if found is None:
            sizes = self.graph.tensors[tensor].sizes
            found = shared_states(self.pricer.layouts.layouts(sizes))
            if not has_gradient(self.graph.tensors[tensor]):
                found = list({value: (value, gradient) for value, gradient in found}.values())
            self.states[tensor] = found
        return found

    def strategies_of(self, operator: Operator) -> list[Strategy]:
        """The strategies of an operator."""
        found = self.strategies.get(operator.name)
        if found is None:
            found = strategies(operator, self.graph.tensors, self.pricer, self.zeros)
            if self._allowed is not None:
                found = [one for one in found if self._allowed(operator, one.split)]
            self.strategies[operator.name] = found
        return found

    # Layouts of an operand by strategy, as rows of its tensor's conversions.

    def operand_rows(self, operator: Operator, use: Use, conversions: Conversions) -> tuple[Ints, Ints]:
        """(value, gradient) rows of an input by strategy."""
        tensor = self.graph.tensors[use.tensor]
        index = conversions.index
        rows = self.strategies_of(operator)
        value = [index[operand(use, tensor, one.split, self.sizes)] for one in rows]
        gradient = [index[operand_gradient(use, tensor, one.split, self.sizes)] for one in rows]
        return np.array(value, dtype=np.int64), np.array(gradient, dtype=np.int64)

    def result_rows(self, operator: Operator, use: Use, conversions: Conversions) -> tuple[Ints, Ints]:
        """(value, gradient) rows of an output by strategy."""
        tensor = self.graph.tensors[use.tensor]
        made = [result(operator, use, tensor, one.split, self.sizes) for one in self.strategies_of(operator)]
        index = conversions.index
        return _rows(index, made), _rows(index, [result_gradient(one) for one in made])

    def state_rows(self, tensor: str, conversions: Conversions) -> tuple[Ints, Ints]:
        """(value, gradient) rows of a shared tensor by state."""
        found = self._pairs.get((tensor, "state"))
        if found is None:
            states, index = self.states_of(tensor), conversions.index
            rows = np.array([index[value] for value, _ in states]), np.array([index[gradient] for _, gradient in states])
            found = self._pairs[tensor, "state"] = rows
        return found

    def _table(self, tensor: str, made: tuple[Ints, Ints], read: tuple[Ints, Ints], conversions: Conversions) -> Floats:
        """Seconds a step: forward (again where recomputed) from what is made to what is read, and the gradient back."""
        m, full = self.pricer.terms.microbatches, self.pricer.terms.recompute is Recompute.FULL
        seconds = conversions.seconds
        table = (2 if full else 1) * seconds[np.ix_(made[0], read[0])]
        if has_gradient(self.graph.tensors[tensor]):
            table = table + seconds[np.ix_(read[1], made[1])].T
        return m * table

    def _piece(self, segment: Segment) -> Piece:
        """The variables and factors of a segment. A tensor that an operator reads alone has no variable of its own."""
        graph = self.graph
        costs: dict[Variable, Floats] = {}
        memory: dict[Variable, Floats] = {}
        factors: list[Factor] = []
        m = self.pricer.terms.microbatches
        for k in segment.operators:
            operator = graph.operators[k]
            me: Variable = ("operator", operator.name)
            rows = self.strategies_of(operator)
            costs[me] = np.array([one.spending.step(m) for one in rows])
            memory[me] = np.array([one.spending.memory for one in rows])
            for use in operator.outputs:
                if use.tensor not in graph.consumers:
                    continue
                conversions = self.conversions(use.tensor)
                made = self.result_rows(operator, use, conversions)
                if self.shared(use.tensor):
                    hub: Variable = ("tensor", use.tensor)
                    states = self.state_rows(use.tensor, conversions)
                    costs[hub] = memory[hub] = np.zeros(len(states[0]))
                    factors.append(Factor(me, hub, use.tensor, self._table(use.tensor, made, states, conversions)))
                    continue
                for reader, other in graph.consumers[use.tensor]:
                    consumer = graph.operators[reader]
                    read = self.operand_rows(consumer, other, conversions)
                    table = self._table(use.tensor, made, read, conversions)
                    factors.append(Factor(me, ("operator", consumer.name), use.tensor, table))
            for use in operator.inputs:
                if use.tensor in graph.producers and self.shared(use.tensor):
                    conversions = self.conversions(use.tensor)
                    states = self.state_rows(use.tensor, conversions)
                    read = self.operand_rows(operator, use, conversions)
                    table = self._table(use.tensor, states, read, conversions)
                    factors.append(Factor(("tensor", use.tensor), me, use.tensor, table))
        entering: Variable | None = ("tensor", segment.entering) if segment.entering else None
        leaving: Variable | None = ("tensor", segment.leaving) if segment.leaving else None
        return Piece(entering, leaving, costs, memory, tuple(factors))

    def without_strategy(self) -> str:
        """An operator that has no strategy left, "" where all have one."""
        return next((name for name, rows in self.strategies.items() if not rows), "")

    def with_another_split(self, operator: str, costs: Floats, chosen: int) -> Floats:
        """Node costs with every strategy of the chosen one's split forbidden."""
        rows = self.strategies[operator]
        return np.where([one.split == rows[chosen].split for one in rows], np.inf, costs)

    def copies(self, k: int) -> list[int]:
        """The segments of the kind of segment `k`, the first of its kind, itself included."""
        return [k, *(at for at, twin in enumerate(self.repeats) if twin is not None and twin.first == k)]

    def names(self, k: int) -> dict[str, str]:
        """The operators of segment `k` by the names of those of the first segment of its kind."""
        found = self._names.get(k)
        if found is None:
            twin = self.repeats[k]
            own = self.segments[k].operators if twin is None else twin.operators
            first = self.segments[k if twin is None else twin.first].operators
            rows = self.graph.operators
            found = self._names[k] = {rows[a].name: rows[b].name for a, b in zip(first, own, strict=True)}
        return found

    def state_in_first(self, k: int, variable: Variable, choice: Mapping[Variable, int]) -> int:
        """The state that segment `k` chose for a variable of the first segment of its kind, in that one's states."""
        twin = self.repeats[k]
        kind, name = variable
        if kind == "operator":
            return choice["operator", self.names(k)[name]]
        if twin is None:
            return choice[variable]
        own, dims = twin.tensors[name]
        return int(np.flatnonzero(self.own_states(name, own, dims) == choice["tensor", own])[0])

    def rows(self, variable: Variable, tensor: str, conversions: Conversions, *, reads: bool) -> tuple[Ints, Ints]:
        """(value, gradient) rows of one end of a factor by state."""
        if variable[0] == "tensor":
            return self.state_rows(tensor, conversions)
        operator = next(one for one in self.graph.operators if one.name == variable[1])
        if reads:
            use = next(one for one in operator.inputs if one.tensor == tensor)
            return self.operand_rows(operator, use, conversions)
        use = next(one for one in operator.outputs if one.tensor == tensor)
        return self.result_rows(operator, use, conversions)

    def own_states(self, first: str, own: str, dims: Sequence[int]) -> Ints:
        """For each state of the shared tensor `first`, the state of `own` that plays its part."""
        key = (first, own, tuple(dims))
        known = self._moved.get(key)
        if known is not None:
            return known
        if tuple(dims) == tuple(range(len(dims))):
            # Dims in the same order: states are listed in the same order, too.
            known = self._moved[key] = np.arange(len(self.states_of(first)))
            return known
        place = {state: k for k, state in enumerate(self.states_of(own))}

        def moved(layout: Layout) -> Layout:
            return tuple(dims[on] if on >= 0 else on for on in layout)

        known = np.array([place[moved(value), moved(gradient)] for value, gradient in self.states_of(first)])
        self._moved[key] = known
        return known


def _rows(index: Mapping[Layout, int], layouts: Sequence[Layout]) -> Ints:
    return np.array([index[one] for one in layouts], dtype=np.int64)
