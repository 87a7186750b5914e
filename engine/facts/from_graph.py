"""An operator graph that a proposal gives alone, as a model that plans and prices count by, and why it is not where it is not."""

from __future__ import annotations

from ..model.graph_model import GraphModel
from ..model.operator import Kind
from ..proposal import Case

#: The last graph with its model: a review asks for it several times.
_last: list[tuple[object, object, GraphModel]] = []


def graph_of_case(case: Case) -> GraphModel | None:
    """The model of a graph that no shapes stand beside; None where there is none, or where the workload is not known."""
    if case.graph is None or case.model is not None or case.workload is None:
        return None
    graph, sequence, compute = case.graph, case.workload.sequence_length, case.workload.precision.compute
    key = sequence, compute
    if not (_last and _last[0][0] is graph and _last[0][1] == key):
        dtype = "bf16" if compute == "fp8" else compute
        model = GraphModel(lambda batch: graph.build(batch, sequence, dtype), graph.called, layers=graph.layering)
        _last[:] = [(graph, key, model)]
    return _last[0][2]


def without_attention(case: Case) -> bool:
    """Whether the model is a graph that attends nowhere, so that no kernel of attention can be missing."""
    model = graph_of_case(case)
    return model is not None and Kind.ATTENTION not in model.kinds_of_operators


def unpriced(case: Case) -> str:
    """Why stages of a graph alone are not priced; "" where they are."""
    if case.graph is None or case.model is not None:
        return ""
    model = graph_of_case(case)
    if model is not None and not model.parameters:
        return "no operator has parameters, so that there is nothing to train"
    if model is not None and not model.batched:
        return "not every product runs over a dim that follows the microbatch, so that replicas have nothing to divide"
    nodes = case.cluster.nodes if case.cluster is not None else ()
    if len({group.device.name for group in nodes}) > 1:
        return "the devices are of several types, and layers of a graph are laid out for one"
    return ""
