"""The layers of a graph that nobody declared: what repeats most often, and the part of a graph that a stage of them holds.

A layer reaches from one copy of the segment that repeats most often to the next; what stands before the first copy goes with the
first layer, what stands after the last with the last. A graph in which nothing repeats is one layer.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .building import keeping
from .graph import OperatorGraph, graph_of
from .operator import Kind, Loop, Operator, Role, Use
from .repeats import Segment, alike, segments


@dataclass(frozen=True, slots=True)
class Layers:
    """`starts[k]` is the segment that layer k begins with; `operators` those of one layer in the middle."""

    segments: tuple[Segment, ...]
    starts: tuple[int, ...]
    operators: int

    @property
    def count(self) -> int:
        """How many layers there are."""
        return len(self.starts)


def layers_of(graph: OperatorGraph) -> Layers:
    """The layers of a graph, recognised by structure."""
    parts = segments(graph)
    twins = alike(graph, [_inside(graph, one) for one in parts])
    kinds = [k if twin is None else twin.first for k, twin in enumerate(twins)]
    counts = Counter(kinds)
    most = max(counts.values())
    chosen = next(kind for kind in kinds if counts[kind] == most)
    at = [k for k, kind in enumerate(kinds) if kind == chosen] if most > 1 else [0]
    middle = len(at) // 2 - 1 if len(at) > 1 else 0
    stop = at[middle + 1] if len(at) > 1 else len(parts)
    return Layers(tuple(parts), (0, *at[1:]), sum(len(one.operators) for one in parts[at[middle] : stop]))


def _inside(graph: OperatorGraph, segment: Segment) -> Segment:
    """A segment without what enters and leaves the graph in it: a first layer is like the next though it has a source."""
    rows = {k: graph.operators[k] for k in segment.operators}
    ends = (Kind.INPUT, Kind.OUTPUT)
    inside = tuple(k for k, one in rows.items() if one.kind not in ends)
    if not inside:
        return segment
    entering, leaving = segment.entering, segment.leaving
    made = [use.tensor for one in rows.values() if one.kind is Kind.INPUT for use in one.outputs]
    made = [name for name in made if graph.tensors[name].role is Role.ACTIVATION]
    read = [use.tensor for one in rows.values() if one.kind is Kind.OUTPUT for use in one.inputs]
    return Segment(
        inside, entering or (made[0] if len(made) == 1 else ""), leaving or (read[0] if len(read) == 1 else "")
    )


def stage_graph(graph: OperatorGraph, layers: Layers, first: int, last: int) -> OperatorGraph:
    """The operators of layers `first` to `last`, inclusive; what enters and leaves them has a source and a sink."""
    if (first, last) == (0, layers.count - 1):
        return graph
    stop = layers.starts[last + 1] if last + 1 < layers.count else len(layers.segments)
    rows = layers.segments[layers.starts[first] : stop]
    operators = [graph.operators[k] for one in rows for k in one.operators]
    if rows[0].entering:
        operators.insert(0, _end(graph, rows[0].entering, Kind.INPUT))
    if rows[-1].leaving:
        operators.append(_end(graph, rows[-1].leaving, Kind.OUTPUT))
    used = {use.tensor for one in operators for use in one.uses}
    cut = graph_of([one for name, one in graph.tensors.items() if name in used], operators)
    return OperatorGraph(cut.tensors, keeping(cut.operators, cut.tensors))


def _end(graph: OperatorGraph, tensor: str, kind: Kind) -> Operator:
    dims = tuple(f"dim {k}" for k in range(len(graph.tensors[tensor].sizes)))
    loops = tuple(Loop(name, size) for name, size in zip(dims, graph.tensors[tensor].sizes, strict=True))
    use = Use(tensor, dims)
    if kind is Kind.INPUT:
        return Operator(f"{tensor}.source", kind, loops, outputs=(use,))
    return Operator(f"{tensor}.sink", kind, loops, inputs=(use,))
