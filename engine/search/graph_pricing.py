"""What the search asks of the price of an operator graph: the questions that `PlanPricer` answers of shapes.

Layouts of layers are chosen once a case: on its cluster as it is, and shared by every pricer of a changed world (`like`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ..cluster import Cluster
from ..cost.graph_layer import TENSOR, Forms, LayerLayout
from ..cost.graph_pricing import GraphPricer, graph_memory
from ..cost.measured import MeasuredNumbers, nothing_measured
from ..cost.memory_terms import BARE, Implementation, local_microbatch
from ..errors import InputError
from ..model import Transformer, Workload
from ..model.graph_model import GraphModel
from ..model.operator import Operator, Split
from ..plan import Mesh, Plan, Recompute, Stage
from .graph_layouts import LayoutChooser, Stated
from .pricing import PlanPricer
from .setting import Floats
from .stated_layouts import stated_loop


class StageLayouts:
    """Layouts of the layers of plans' stages: as a stage states them, where it does, and the best elsewhere."""

    def __init__(self, model: GraphModel, workload: Workload, cluster: Cluster) -> None:
        self.model = model
        self.cluster = cluster
        self.forms: Forms = {}
        self.ways: dict[tuple[object, ...], int | None] = {}
        self.chooser = LayoutChooser(model, workload, cluster)

    def of_stage(self, plan: Plan, stage: Stage, layer: int, tensor: tuple[int, int]) -> tuple[LayerLayout, ...]:
        """The layouts of one layer of a stage. Raises InputError where a stated one does not divide."""
        sequences = local_microbatch(plan, stage)
        sequence = plan.sequence_parallel and stage.mesh.tensor > 1
        if not stage.layouts:
            found = self.chooser.layouts(layer, sequences, tensor)
        else:
            def stated(operator: Operator) -> str | None:
                return stated_loop(operator, stage, TENSOR)

            found = self.chooser.layouts(layer, sequences, tensor, stated, stage.layouts)
            if not found:
                self._refuse(layer, sequences, tensor[0], stated)
        if sequence:
            kept = tuple(one for one in found if one.carry is not None and self.chooser.carries_sequence(one))
            return kept or found
        return found

    def _refuse(self, layer: int, sequences: int, devices: int, stated: Stated) -> None:
        """Raises InputError for the first operator whose stated dim the devices cannot share out, where it is one operator."""
        for one in self.model.layer(layer, sequences, named=True).graph.operators:
            wanted = stated(one)
            loop = next((loop for loop in one.loops if loop.name == wanted), None)
            if loop is None:
                continue
            if self.model.is_batch(loop.name):
                why = "runs over the sequences of a microbatch, which the axis 'data' divides"
            elif loop.split is Split.WHOLE:
                why = "is never divided"
            elif loop.size % devices:
                why = f"has {loop.size}, which {devices} devices do not divide"
            else:
                continue
            raise InputError(
                f"layer {layer} cannot be laid out as stated: the dim '{loop.name}' of '{one.name}' {why}",
                code="input.layout", remedy="State another dim under 'layouts', or a tensor degree that divides it.",
            )  # fmt: skip


class GraphPlanPricer(PlanPricer):
    """Prices plans of one case whose model is a graph alone."""

    def __init__(
        self, model: GraphModel, workload: Workload, cluster: Cluster, numbers: MeasuredNumbers = nothing_measured,
        implementation: Implementation = BARE, headroom: float = 0.0, layouts: StageLayouts | None = None,
    ) -> None:  # fmt: skip
        self.graph = model
        self.model, self.workload, self.cluster = cast(Transformer, model), workload, cluster
        self.layouts = layouts or StageLayouts(model, workload, cluster)
        self.memory_model = graph_memory(model, workload, lambda *at: self._pricer.graph_time.stage_parts(*at), implementation)
        self._pricer = GraphPricer(
            self.layouts, workload, cluster, self.memory_model, transfer=implementation.transfer
        )
        self.pricer = self._pricer
        self.numbers, self.headroom = numbers, headroom
        self.known_fits = {}
        #: The layers up to which stages fit, by what decides it and the microbatches in flight, as settings find it out.
        self.reaches: dict[tuple[object, ...], dict[int, NDArray[np.int64]]] = {}
        #: The most microbatches in flight with which a run of layers may fit, and the fewest with which it does not.
        self.flights: dict[tuple[object, ...], tuple[int, float]] = {}
        self._least_hops = {}
        self.stretched = None
        self._tables: dict[object, tuple[Floats, Floats]] = {}
        self._messages: dict[object, Floats] = {}

    def tensor_weights(self, plan: Plan, at: int) -> tuple[int, int]:
        """(parameters of one device of a stage before sharding, those of them that all devices of its tensor axis hold)."""
        stage = plan.stages[at]
        parts = self._pricer.graph_time.stage_parts(plan, stage, plan.recompute_of(at))
        whole = sum(one.whole for one in parts.layers)
        return parts.parameters, whole + sum(
            count for count, divided in self._pricer.graph_time.shared_elements(stage) if not divided
        )

    def work_table(self, plan: Plan, mesh: Mesh, kind: Recompute) -> tuple[Floats, Floats]:
        """[first, last] (seconds of the forward pass, of a microbatch) at least of a stage of the plan's on `mesh`; inf where
        last < first. Gathers of sharded parameters come on top.
        """
        key = mesh, kind, plan.microbatch * plan.mesh.data, plan.order, plan.pipeline if plan.order[-1:] != ("pipeline",) else 0
        found = self._tables.get(key)
        if found is None:
            best = [np.full((self.graph.layers,) * 2, inf) for _ in range(2)]
            for rows in self._pricer.graph_time.layer_seconds(plan, mesh, kind).values():
                sums = [_intervals([inf if row is None else row[n] for row in rows]) for n in range(2)]
                # What selective recomputation adds is the same in all ways, so the least whole is that of the quickest.
                better = sums[1] < best[1]
                best = [np.where(better, one, other) for one, other in zip(sums, best, strict=True)]
            found = self._tables[key] = best[0], best[1]
        return found

    def least_messages(self, plan: Plan, mesh: Mesh, menu: tuple[Mesh, ...]) -> Floats:
        """[layer] seconds of the message behind it at least, to whichever mesh, wherever they lie; 0 behind the last."""
        key = mesh, menu, plan.microbatch * plan.mesh.data
        found = self._messages.get(key)
        if found is None:
            time, last = self._pricer.graph_time, self.graph.layers - 1
            rows = [min(time.least_message(plan, mesh, other, layer) for other in menu) for layer in range(last)]
            found = self._messages[key] = np.array([*rows, 0.0])
        return found

    def stream(self, plan: Plan, stage: int) -> tuple[int, int]:
        """(elements of a sequence, 1): all that crosses behind a stage, in a row."""
        rows = self.graph.crossing(plan.stages[stage].last, 1)
        return sum(prod(sizes) for _, _, sizes in rows), 1

    def stream_divided(self, plan: Plan, stage: int) -> bool:
        """Whether all that crosses lies divided on the tensor axis; memories lie whole."""
        at = plan.stages[stage].last
        crossing = self.graph.crossing(at if at < self.graph.layers - 1 else plan.stages[stage].first - 1, 1)
        return len(crossing) == 1 and self._pricer.graph_time.divided(plan, stage)


def _intervals(values: Sequence[float]) -> Floats:
    """[first, last] sums of the values from first to last; inf where last < first, or where one is inf."""
    count = len(values)
    found = np.full((count, count), inf)
    for first in range(count):
        found[first, first:] = np.cumsum(values[first:])
    return found
