"""A graph on a mesh as a problem of pairs: variables with node costs, tables between them, repeated segments worked out once.

Vocabulary: a *variable* is an operator with its strategies, or a shared tensor (read by several operators) with its states, a
layout of the value and one of its gradient. A *factor* is a table over the states of two variables: what the conversions between
them take in a step. Nothing here minimises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..cost.operator_cost import OperatorPricer, at_an_end, has_gradient
from ..cost.tensor_layout import Layout
from ..model.graph import OperatorGraph
from ..model.operator import ELEMENT_BYTES, WHOLE, Kind, Operator, Use
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
#: Operands of attention that pass round its devices in a ring.
KEYS_AND_VALUES = ("key", "value", "key_shared")
#: ("operator", name) or ("tensor", name).
Variable = tuple[str, str]
#: For an operator the loop that each axis has to divide (`WHOLE` for none); None where the axis is free.
Pinned = Callable[[Operator], Sequence[str | None]]


@dataclass(frozen=True, slots=True)
class Factor:
    """Seconds a step of the conversions of one tensor between two variables, [states of first, states of second].

    `hides`, [2, states, states]: less than 0, seconds of parameter gathers that hide beside the forward and the backward ones.
    """

    first: Variable
    second: Variable
    tensor: str
    seconds: Floats
    hides: Floats | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """One segment: its variables without the cut that it enters from, their node costs and bytes, and its factors.

    `hidden`: by operator [2, strategies] seconds a step of parameter gathers beside the forward and the backward pass less what
    hides them; only sums over all operators count. Empty where nothing is gathered.
    """

    entering: Variable | None
    leaving: Variable | None
    costs: dict[Variable, Floats]
    memory: dict[Variable, Floats]
    factors: tuple[Factor, ...]
    hidden: dict[Variable, Floats]


class OperatorProblem:
    """The problem of one graph. `pieces[k]` is set for the first segment of each kind; `repeats[k]` for the others."""

    def __init__(
        self,
        graph: OperatorGraph,
        pricer: OperatorPricer,
        zeros: Sequence[int] = (0, 1),
        allowed: Callable[[Operator, tuple[str, ...]], bool] | None = None,
        pinned: Pinned | None = None,
    ) -> None:
        self.graph, self.pricer, self.zeros = graph, pricer, tuple(zeros)
        #: Whether parameters are gathered or gradients scattered in every microbatch.
        self.gathers = max(self.zeros) >= 2
        self._allowed, self._pinned = allowed, pinned
        self.sizes = tuple(axis.size for axis in pricer.mesh.axes)
        self.strategies: dict[str, list[Strategy]] = {}
        self.states: dict[str, list[tuple[Layout, Layout]]] = {}
        self._conversions: dict[tuple[object, ...], Conversions] = {}
        losses = [one for one in graph.operators if one.kind is Kind.CROSS_ENTROPY]
        read = {use.tensor for one in losses for use in one.inputs if use.tensor in graph.producers}
        #: Operators whose output the loss reads.
        self._heads = {graph.operators[graph.producers[name]].name for name in read}
        self._ends = {one.name for one in graph.operators if at_an_end(one, head=one.name in self._heads)}
        self.segments: list[Segment] = segments(graph)
        self._pairs: dict[tuple[str, str], tuple[Ints, Ints]] = {}
        self._names: dict[int, dict[str, str]] = {}
        self._moved: dict[tuple[object, ...], Ints] = {}
        self.repeats: list[Alike | None] = [
            twin if twin is None or self._same_states(twin) else None for twin in alike(graph, self.segments)
        ]
        self.pieces: list[Piece | None] = [
            None if twin is not None else self._piece(segment)
            for segment, twin in zip(self.segments, self.repeats, strict=True)
        ]

    def _same_states(self, twin: Alike) -> bool:
        """Whether what is pinned leaves the cuts of a repeated segment the states of the first one's."""
        if self._pinned is None:
            return True
        first = self.segments[twin.first]
        return all(
            len(self.states_of(name)) == len(self.states_of(twin.tensors[name][0]))
            for name in (first.entering, first.leaving)
            if name
        )

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
            found = self._keeps(tensor, found)
            self.states[tensor] = found
        return found

    def strategies_of(self, operator: Operator) -> list[Strategy]:
        """The strategies of an operator."""
        found = self.strategies.get(operator.name)
        if found is None:
            head = operator.name in self._heads
            found = strategies(operator, self.graph.tensors, self.pricer, self.zeros, self._may, head=head)
            self.strategies[operator.name] = found
        return found

    def _may(self, operator: Operator, split: tuple[str, ...]) -> bool:
        """Whether a split is allowed and keeps to what is pinned."""
        if self._pinned is not None and any(
            loop is not None and loop != on for loop, on in zip(self._pinned(operator), split, strict=True)
        ):
            return False
        return self._allowed is None or self._allowed(operator, split)

    def _keeps(self, tensor: str, states: list[tuple[Layout, Layout]]) -> list[tuple[Layout, Layout]]:
        """The states of a shared tensor that on pinned axes are divided as its maker divides it."""
        if self._pinned is None:
            return states
        operator = self.graph.operators[self.graph.producers[tensor]]
        pinned = self._pinned(operator)
        use = next(one for one in operator.outputs if one.tensor == tensor)
        split = [loop or WHOLE for loop in pinned]
        made = result(operator, use, self.graph.tensors[tensor], split, self.sizes)
        needed = result_gradient(made)
        # Where it leaves the tensor whole or a sum, readers may still agree on something cheaper than each on its own.
        axes = [a for a, loop in enumerate(pinned) if loop is not None and made[a] >= 0]
        return [(v, g) for v, g in states if all(v[a] == made[a] and g[a] == needed[a] for a in axes)]

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

    def _factor(
        self, first: Variable, second: Variable, tensor: str, made: tuple[Ints, Ints], read: tuple[Ints, Ints],
        conversions: Conversions, under: tuple[Floats, Floats] | None = None,
    ) -> Factor:  # fmt: skip
        """Forward (again where recomputed, which the ends of the model are not) from what is made to what is read, and the
        gradient back.

        `under`: by reader's strategy, the seconds of its passes under which each way is hidden.
        """
        m, full = self.pricer.terms.microbatches, self.pricer.terms.recompute is Recompute.FULL
        again = 1 if full and not {first[1], second[1]} & self._ends else 0
        there, back = np.ix_(made[0], read[0]), np.ix_(read[1], made[1])
        returns = has_gradient(self.graph.tensors[tensor])

        def ways(seconds: Floats) -> tuple[Floats, Floats]:
            ahead, behind = seconds[there], seconds[back].T if returns else np.zeros((len(made[0]), len(read[0])))
            if under is not None:
                ahead, behind = np.maximum(ahead - under[0], 0.0), np.maximum(behind - under[1], 0.0)
            return ahead, behind

        ahead, behind = ways(conversions.seconds)
        seconds = m * ((1 + again) * ahead + behind)
        if not self.gathers:
            return Factor(first, second, tensor, seconds)
        ahead, behind = ways(conversions.inner)
        hides = -m * self.pricer.hidden * np.stack((ahead, behind + again * ahead))
        return Factor(first, second, tensor, seconds, hides)

    def _ring(self, reader: Operator, use: Use) -> tuple[Floats, Floats] | None:
        """What hides keys and values on their way round: a share of the attention core (Liu et al. 2023, arXiv 2310.01889)."""
        if reader.kind is not Kind.ATTENTION or use.role not in KEYS_AND_VALUES:
            return None
        tensors = self.graph.tensors
        share = tensors[use.tensor].bytes / sum(
            tensors[one.tensor].bytes for one in reader.inputs if one.role in KEYS_AND_VALUES
        )
        share *= self.pricer.ring
        rows, once = self.strategies_of(reader), self.pricer.repeats(reader)
        ahead = np.array([share * one.spending.forward / once for one in rows])
        return ahead, np.array([share * one.spending.backward for one in rows])

    def _piece(self, segment: Segment) -> Piece:
        """The variables and factors of a segment. A tensor that an operator reads alone has no variable of its own."""
        graph = self.graph
        costs: dict[Variable, Floats] = {}
        memory: dict[Variable, Floats] = {}
        factors: list[Factor] = []
        hidden: dict[Variable, Floats] = {}
        m = self.pricer.terms.microbatches
        for k in segment.operators:
            operator = graph.operators[k]
            me: Variable = ("operator", operator.name)
            rows = self.strategies_of(operator)
            costs[me] = np.array([one.spending.step(m) for one in rows])
            memory[me] = np.array([one.spending.memory for one in rows])
            if self.gathers:
                hidden[me] = m * np.array([[one.spending.ahead for one in rows], [one.spending.behind for one in rows]])
            for use in operator.outputs:
                if use.tensor not in graph.consumers:
                    continue
                conversions = self.conversions(use.tensor)
                made = self.result_rows(operator, use, conversions)
                if self.shared(use.tensor):
                    hub: Variable = ("tensor", use.tensor)
                    states = self.state_rows(use.tensor, conversions)
                    costs[hub] = memory[hub] = np.zeros(len(states[0]))
                    factors.append(self._factor(me, hub, use.tensor, made, states, conversions))
                    continue
                for reader, other in graph.consumers[use.tensor]:
                    consumer = graph.operators[reader]
                    read = self.operand_rows(consumer, other, conversions)
                    target: Variable = ("operator", consumer.name)
                    ring = self._ring(consumer, other)
                    factors.append(self._factor(me, target, use.tensor, made, read, conversions, ring))
            for use in operator.inputs:
                if use.tensor in graph.producers and self.shared(use.tensor):
                    conversions = self.conversions(use.tensor)
                    states = self.state_rows(use.tensor, conversions)
                    read = self.operand_rows(operator, use, conversions)
                    source: Variable = ("tensor", use.tensor)
                    ring = self._ring(operator, use)
                    factors.append(self._factor(source, me, use.tensor, states, read, conversions, ring))
        entering: Variable | None = ("tensor", segment.entering) if segment.entering else None
        leaving: Variable | None = ("tensor", segment.leaving) if segment.leaving else None
        return Piece(entering, leaving, costs, memory, tuple(factors), hidden)

    def weighed(self, weights: Floats) -> OperatorProblem:
        """The same problem, `weights` of what is gathered beside the forward and the backward pass in its node costs."""
        if not weights.any():
            return self
        found = copy(self)
        found.pieces = [None if piece is None else _weighed(piece, weights) for piece in self.pieces]
        return found

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


def _weighed(piece: Piece, weights: Floats) -> Piece:
    costs = {one: cost + weights @ piece.hidden[one] if one in piece.hidden else cost for one, cost in piece.costs.items()}
    factors = tuple(
        one if one.hides is None else replace(one, seconds=one.seconds + np.tensordot(weights, one.hides, 1))
        for one in piece.factors
    )
    return replace(piece, costs=costs, factors=factors)
