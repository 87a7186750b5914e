"""The layouts that the layers of an operator graph may take on the tensor axis: each the exact best of a declared space (of a
layer too entangled to eliminate, a good one).

Within a layer every operator is free on the axis, but that the batch stays whole on it (more replicas are the data axis) and that
an operator whose weights divide divides them (what the axis is for: memory). Between layers the carry lies whole on the axis, or
divided along one of its dims, the same at all boundaries of a stage; memories lie whole. Each choice is solved once for layers
that are alike, at the power of four sequences at or below, and serves every plan, sharding, recomputation and world. Nothing
here knows plans, stages or rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf

from ..cluster import Cluster
from ..cost.device_mesh import DeviceMesh, MeshAxis
from ..cost.graph_layer import TENSOR, LayerLayout, Moved, Placed
from ..cost.operator_cost import Terms, at_an_end
from ..cost.tensor_layout import LayoutStep
from ..model import Workload
from ..model.graph import OperatorGraph
from ..model.graph_model import GraphModel, LayerAt
from ..model.operator import WHOLE, Kind, Operator, Role
from .operator_search import OperatorLayouts, search_operators

#: Microbatches of the step that layouts are chosen for: so many that what comes once a step weighs little.
MICROBATCHES = 64
#: What the layouts of a stage's operators may be beside the choice: a stated one, by operator.
Stated = Callable[[Operator], str | None]


class LayoutChooser:
    """Chooses for one model, workload and cluster. `stated` layouts are given a key by which they are told apart."""

    def __init__(self, model: GraphModel, workload: Workload, cluster: Cluster) -> None:
        self.model, self.workload, self.cluster = model, workload, cluster
        self._known: dict[tuple[object, ...], tuple[LayerLayout, ...]] = {}
        #: Layers solved, for the record.
        self.solved = 0

    def layouts(
        self, index: int, sequences: int, tensor: tuple[int, int], stated: Stated | None = None, key: object = None
    ) -> tuple[LayerLayout, ...]:
        """The layouts of layer `index` for `sequences` of one replica, one for each way in which its carries may lie.

        `tensor`: (devices, stride). `stated` gives the loop of an operator that the axis divides, None where it is free.
        """
        layer = self.model.layer(index, sequences, named=stated is not None)
        known = (layer.kind, sequences, tensor if tensor[0] > 1 else 1, key)
        found = self._known.get(known)
        if found is None:
            near = _near(sequences) if self.model.batched and tensor[0] > 1 else sequences
            if near < sequences:
                alike = self.layouts(layer.kind, near, tensor, stated, key)
                found = tuple(_for_more(one, layer, sequences / near) for one in alike)
            else:
                rows = (self._layout(layer, tensor, carry, stated) for carry in self._carries(layer, tensor[0]))
                found = tuple(row for row in rows if row is not None)
            self._known[known] = found
        return found

    def _carries(self, layer: LayerAt, devices: int) -> list[int | None]:
        """None, and each dim of the carries that divides; of dims of equal sizes the first."""
        ends = [names[0] for names in (layer.entering, layer.leaving) if names]
        if devices == 1 or not ends:
            return [None]
        sizes = [layer.graph.tensors[name].sizes for name in ends]
        if len({len(one) for one in sizes}) > 1:
            return [None]
        found: list[int | None] = [None]
        batch = {self._batch_dim(layer.graph, name) for name in ends}
        seen = set()
        for d in range(len(sizes[0])):
            here = tuple(one[d] for one in sizes)
            if d not in batch and here not in seen and all(size % devices == 0 for size in here):
                seen.add(here)
                found.append(d)
        return found

    def carries_sequence(self, layout: LayerLayout) -> bool:
        """Whether the dim that the carries lie divided along runs over the tokens of a sequence."""
        for one in layout.placed:
            for use in one.operator.inputs + one.operator.outputs:
                if use.tensor in layout.entering[:1] + layout.leaving[:1] and layout.carry is not None:
                    loop = use.loops[layout.carry]
                    if loop != WHOLE and self.model.is_sequence(loop):
                        return True
        return False

    def _batch_dim(self, graph: OperatorGraph, tensor: str) -> int:
        """The dim of a tensor that runs over the sequences; -1 for none."""
        for operator in graph.operators:
            for use in operator.inputs + operator.outputs:
                if use.tensor == tensor:
                    at = next((d for d, loop in enumerate(use.loops) if loop != WHOLE and self.model.is_batch(loop)), -1)
                    if at >= 0:
                        return at
        return -1

    def _layout(
        self, layer: LayerAt, tensor: tuple[int, int], carry: int | None, stated: Stated | None
    ) -> LayerLayout | None:
        graph = layer.graph
        losses = [one for one in graph.operators if one.kind is Kind.CROSS_ENTROPY]
        read = {use.tensor for one in losses for use in one.inputs if use.tensor in graph.producers}
        heads = {graph.operators[graph.producers[name]].name for name in read}
        if tensor[0] == 1:
            placed = tuple(Placed(one, WHOLE, one.name in heads) for one in graph.operators)
            return LayerLayout(None, placed, (), graph.tensors, layer.entering, layer.leaving)
        self.solved += 1
        found = self._solved(layer, tensor, carry, stated)
        if found.objective == inf:
            return None
        operators = {one.name: one for one in graph.operators}
        placed = tuple(
            Placed(operators[row.operator], _loop(row.split), row.operator in heads, row.copies) for row in found.layouts
        )
        ends = {one.name for one in graph.operators if at_an_end(one, head=one.name in heads)}
        moved = tuple(
            Moved(one.forward, one.backward, bool({one.source, one.target} & ends), one.copies) for one in found.conversions
        )
        return LayerLayout(carry, placed, moved, graph.tensors, layer.entering, layer.leaving)

    def _solved(self, layer: LayerAt, tensor: tuple[int, int], carry: int | None, stated: Stated | None) -> OperatorLayouts:
        graph, model, devices = layer.graph, self.model, tensor[0]
        carries = {names[0] for names in (layer.entering, layer.leaving) if names}
        crossing = {*layer.entering, *layer.leaving}

        def allowed(operator: Operator, split: tuple[str, ...]) -> bool:
            (loop,) = split
            if operator.kind in (Kind.INPUT, Kind.OUTPUT):
                name = (operator.outputs or operator.inputs)[0].tensor
                if name in crossing:
                    return loop == (f"dim {carry}" if carry is not None and name in carries else WHOLE)
                return not model.is_batch(loop)
            wanted = stated(operator) if stated is not None else None
            return loop == wanted if wanted is not None else on_tensor(model, graph, devices, operator, loop)

        return search_operators(
            graph, DeviceMesh((MeshAxis(TENSOR, *tensor),)), self.workload, self.cluster, terms=Terms(MICROBATCHES),
            zeros=(0,), allowed=allowed, next_best=False,
        )  # fmt: skip


def on_tensor(model: GraphModel, graph: OperatorGraph, devices: int, operator: Operator, loop: str) -> bool:
    """Whether the tensor axis may divide this loop of an operator: never the batch, and weights where they divide."""
    if model.is_batch(loop):
        return False
    inside = _inner_loops(operator, graph, devices)
    return not inside or loop in inside


def _near(sequences: int) -> int:
    """The number of sequences that layouts of so many are chosen for: the power of four at or below."""
    near = 1
    while 4 * near <= sequences:
        near *= 4
    return near


def _for_more(layout: LayerLayout, layer: LayerAt, factor: float) -> LayerLayout:
    """The same choice for `factor` times as many sequences: every activation is as many times as large."""
    operators = {one.name: one for one in layer.graph.operators}

    def scaled(steps: tuple[LayoutStep, ...]) -> tuple[LayoutStep, ...]:
        return tuple(replace(one, bytes=one.bytes * factor, seconds=one.seconds * factor) for one in steps)

    return replace(
        layout,
        placed=tuple(replace(one, operator=operators[one.operator.name]) for one in layout.placed),
        moved=tuple(replace(one, forward=scaled(one.forward), backward=scaled(one.backward)) for one in layout.moved),
        tensors=layer.graph.tensors,
    )


def _loop(split: tuple[tuple[str, str], ...]) -> str:
    """The loop of the tensor axis; sums that pass divide no loop."""
    ((_, loop),) = split
    return WHOLE if loop == "+" else loop


def _inner_loops(operator: Operator, graph: OperatorGraph, devices: int) -> set[str]:
    """The loops of an operator's weights or table that the devices divide; empty where it has none."""
    found = set()
    free = {loop.name for loop in operator.loops if loop.split != "whole" and loop.size % devices == 0}
    for use in (*operator.parameters, *operator.inputs):
        tensor = graph.tensors[use.tensor]
        if tensor.role is Role.PARAMETER and use.role in ("weight", "table"):
            found |= {loop for loop, size in zip(use.loops, tensor.sizes, strict=True) if loop in free and size % devices == 0}
    return found
