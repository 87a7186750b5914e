"""The part of an operator graph that a stage holds: its layers' operators, with what enters and leaves them."""

from __future__ import annotations

from .graph import OperatorGraph
from .layering import Layer, Layering, layer_graph, layering


def layers_of(graph: OperatorGraph) -> Layering:
    """The layers of a graph, recognised by structure."""
    return layering(graph)


def stage_graph(graph: OperatorGraph, layers: Layering, first: int, last: int) -> OperatorGraph:
    """The operators of layers `first` to `last`, inclusive; what enters and leaves them has a source and a sink."""
    if (first, last) == (0, layers.count - 1):
        return graph
    rows = layers.layers[first : last + 1]
    operators = tuple(k for one in rows for k in one.operators)
    return layer_graph(graph, Layer(operators, rows[0].entering, rows[-1].leaving))
