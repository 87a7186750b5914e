"""The operator graph: operators in an order in which each comes after what it reads, and the tensors between them.

What may be wrong with a graph is found here, at once and by name: a cycle, a dangling edge, a shape that does not match, a
size below 1, too many operators. Nothing here knows devices, layouts or where a graph was read from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..errors import InputError
from .operator import CONTRACTIONS, ELEMENT_BYTES, WHOLE, Kind, Operator, Role, Tensor, Use, flops

#: More operators than any model built has; beyond it a graph is a mistake.
OPERATOR_LIMIT = 50_000
#: Dims of a tensor, loops of an operator.
RANK_LIMIT, LOOP_LIMIT = 8, 12
#: No size of a dim, and no tensor's elements, exceed these.
SIZE_LIMIT, ELEMENT_LIMIT = 2**40, 2**53


@dataclass(frozen=True)
class OperatorGraph:
    """Operators in topological order, and every tensor by name. Made by `graph_of`, which checks them."""

    tensors: Mapping[str, Tensor]
    operators: tuple[Operator, ...]

    @cached_property
    def producers(self) -> dict[str, int]:
        """The operator that makes each activation, by tensor."""
        return {use.tensor: k for k, operator in enumerate(self.operators) for use in operator.outputs}

    @cached_property
    def consumers(self) -> dict[str, tuple[tuple[int, Use], ...]]:
        """The operators that read each tensor, with their use of it."""
        found: dict[str, list[tuple[int, Use]]] = {}
        for k, operator in enumerate(self.operators):
            for use in operator.inputs + operator.parameters:
                found.setdefault(use.tensor, []).append((k, use))
        return {name: tuple(rows) for name, rows in found.items()}

    @property
    def parameters(self) -> int:
        """All parameters, a tensor that several operators use once."""
        return sum(tensor.elements for tensor in self.tensors.values() if tensor.role is Role.PARAMETER)

    @property
    def forward_flops(self) -> int:
        """Forward FLOPs of all operators."""
        return sum(flops(operator, self.tensors) for operator in self.operators)


class GraphError(InputError):
    """A graph that cannot be. `operator` and `tensor` name what is at fault, for a reader that knows where they stand."""

    code = "input.graph"

    def __init__(self, message: str, *, remedy: str, operator: str = "", tensor: str = "", code: str = "input.graph") -> None:
        super().__init__(message, remedy=remedy, code=code)
        self.operator, self.tensor = operator, tensor


def graph_of(tensors: Iterable[Tensor], operators: Sequence[Operator]) -> OperatorGraph:
    """The graph, its operators put in order. Raises GraphError."""
    if len(operators) > OPERATOR_LIMIT:
        raise GraphError(
            f"the graph has {len(operators):,} operators; at most {OPERATOR_LIMIT:,} are read",
            remedy="Give one block of each kind with its layers, or the graph of one stage.",
            code="input.graph.size",
        )
    known = _tensors(tensors)
    if not operators:
        raise GraphError("the graph has no operator", remedy="List its operators, or leave the graph out.")
    names: set[str] = set()
    producers: dict[str, int] = {}
    for k, operator in enumerate(operators):
        if operator.name in names:
            raise GraphError(
                f"two operators are called '{operator.name}'", remedy="Give each a name of its own.", operator=operator.name
            )
        names.add(operator.name)
        _check(operator, known)
        for use in operator.outputs:
            other = producers.get(use.tensor)
            if other is not None:
                raise GraphError(
                    f"'{use.tensor}' is an output of both '{operators[other].name}' and '{operator.name}'",
                    remedy="A tensor is made once: give one of them another name.",
                    operator=operator.name,
                    tensor=use.tensor,
                )
            if known[use.tensor].role is Role.PARAMETER:
                raise GraphError(
                    f"'{operator.name}' writes '{use.tensor}', which is a parameter",
                    remedy="Give the output a name of its own.",
                    operator=operator.name,
                    tensor=use.tensor,
                )
            producers[use.tensor] = k
    for operator in operators:
        for use in operator.inputs:
            if use.tensor not in producers and known[use.tensor].role is not Role.PARAMETER:
                raise GraphError(
                    f"'{operator.name}' reads '{use.tensor}', which no operator makes and which is no input or parameter",
                    remedy="Declare it under inputs or parameters, or name the output of an operator.",
                    operator=operator.name,
                    tensor=use.tensor,
                    code="input.graph.dangling",
                )
    return OperatorGraph(known, tuple(operators[k] for k in _ordered(operators, producers)))


def _tensors(tensors: Iterable[Tensor]) -> dict[str, Tensor]:
    known: dict[str, Tensor] = {}
    for tensor in tensors:
        if tensor.name in known:
            raise GraphError(
                f"two tensors are called '{tensor.name}'", remedy="Give each a name of its own.", tensor=tensor.name
            )
        if len(tensor.sizes) > RANK_LIMIT:
            raise GraphError(
                f"'{tensor.name}' has {len(tensor.sizes)} dims; at most {RANK_LIMIT} are read",
                remedy="Join dims that are never divided.",
                tensor=tensor.name,
            )
        for size in tensor.sizes:
            if not 1 <= size <= SIZE_LIMIT:
                raise GraphError(
                    f"a dim of '{tensor.name}' has the size {size}: sizes are 1 to 2^40",
                    remedy="State the number of elements along the dim.",
                    tensor=tensor.name,
                    code="input.graph.size_of_dim",
                )
        if tensor.elements > ELEMENT_LIMIT:
            raise GraphError(
                f"'{tensor.name}' has {tensor.elements:.3g} elements", remedy="At most 2^53 are counted.", tensor=tensor.name
            )
        if tensor.dtype not in ELEMENT_BYTES:
            raise GraphError(
                f"'{tensor.name}' has the dtype '{tensor.dtype}'",
                remedy=f"Known dtypes: {', '.join(ELEMENT_BYTES)}.",
                tensor=tensor.name,
            )
        known[tensor.name] = tensor
    return known


def _check(operator: Operator, tensors: Mapping[str, Tensor]) -> None:
    """Every use fits its tensor: rank, and sizes that the loops can run over."""
    sizes = operator.sizes
    if len(sizes) != len(operator.loops) or len(sizes) > LOOP_LIMIT:
        raise GraphError(
            f"'{operator.name}' has {len(operator.loops)} dims, {len(sizes)} of them different; at most {LOOP_LIMIT}, each once",
            remedy="Name each dim once.",
            operator=operator.name,
        )
    for use in operator.uses:
        tensor = tensors.get(use.tensor)
        if tensor is None:
            raise GraphError(
                f"'{operator.name}' names '{use.tensor}', and there is no such tensor",
                remedy="Declare it under inputs or parameters, or name the output of an operator.",
                operator=operator.name,
                tensor=use.tensor,
                code="input.graph.dangling",
            )
        if len(use.loops) != len(tensor.sizes):
            raise GraphError(
                f"'{operator.name}' uses '{use.tensor}' with {len(use.loops)} dims, and it has {len(tensor.sizes)}",
                remedy="Name one dim for each of the tensor's.",
                operator=operator.name,
                tensor=use.tensor,
                code="input.graph.shape",
            )
        for loop, size in zip(use.loops, tensor.sizes, strict=True):
            if loop != WHOLE and loop not in sizes:
                raise GraphError(
                    f"'{operator.name}' has no dim '{loop}'", remedy=f"Its dims: {', '.join(sizes)}.", operator=operator.name
                )
            if loop != WHOLE and size != sizes[loop] and not _may_differ(operator, use):
                raise GraphError(
                    f"'{operator.name}': dim '{loop}' is {sizes[loop]:,}, and in '{use.tensor}' it is {size:,}",
                    remedy="The sizes of a dim agree in all operands.",
                    operator=operator.name,
                    tensor=use.tensor,
                    code="input.graph.shape",
                )
    if operator.kind in CONTRACTIONS and not any(use.role == "x" for use in operator.inputs):
        raise GraphError(
            f"'{operator.name}' multiplies nothing: it has no input", remedy="Name its input.", operator=operator.name
        )


def _may_differ(operator: Operator, use: Use) -> bool:
    """Whether dims may be scaled against their loop: strides, capacities, heads that repeat, pieces of a reshaped dim."""
    return use.repeats or operator.kind in (Kind.CONVOLUTION, Kind.DISPATCH, Kind.COMBINE, Kind.RESHAPE, Kind.REDUCTION)


def _ordered(operators: Sequence[Operator], producers: Mapping[str, int]) -> list[int]:
    """Operators after those that make what they read, else as given. Kahn 1962."""
    waiting = [0] * len(operators)
    after: list[list[int]] = [[] for _ in operators]
    for k, operator in enumerate(operators):
        for made_by in {producers[use.tensor] for use in operator.inputs if use.tensor in producers}:
            after[made_by].append(k)
            waiting[k] += 1
    ready = [k for k, count in enumerate(waiting) if not count]
    order: list[int] = []
    for k in ready:
        order.append(k)
        for later in after[k]:
            waiting[later] -= 1
            if not waiting[later]:
                ready.append(later)
    if len(order) < len(operators):
        circle = _circle(operators, producers, {k for k, count in enumerate(waiting) if count})
        raise GraphError(
            f"the graph has a cycle: {' -> '.join(circle)}",
            remedy="An operator may not need its own result: unroll the loop, or name another tensor.",
            operator=circle[0],
            code="input.graph.cycle",
        )
    return order


def _circle(operators: Sequence[Operator], producers: Mapping[str, int], left: set[int]) -> list[str]:
    """One cycle among the operators `left`, each of which waits for one of them."""
    at = min(left)
    seen: dict[int, int] = {}
    path: list[int] = []
    while at not in seen:
        seen[at] = len(path)
        path.append(at)
        at = next(producers[use.tensor] for use in operators[at].inputs if producers.get(use.tensor, -1) in left)
    circle = [*path[seen[at] :], at][::-1]
    shown = circle if len(circle) <= 8 else [*circle[:4], *circle[-3:]]
    return [operators[k].name for k in shown]


