"""The declared space of plans of an operator graph: uniform ones, cuts at any layer, and stages on unequal meshes.

The dimensions are those of `space` and `uneven` as far as a graph has them: its layers, its batch, and degrees that divide its
weights. Layouts of operators are no dimension: each stage takes the best that `graph_layouts` chooses. Prices nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import cast

from ..cluster import Cluster
from ..model import Transformer, Workload
from ..model.graph_model import GraphModel
from ..model.operator import Kind
from ..plan import DEFAULT_ORDER, Mesh, Plan, Recompute
from .freedoms import FREE, Freedom
from .orders import distinct_orders
from .setting import Setting
from .space import LeftOut, Limits, Shape, UniformSpace, divisors
from .submeshes import MOST_STAGES, MOST_UNITS, NEVER, Submeshes

#: Sequences of a microbatch on a replica: pictures are counted by more divisors of a batch than texts.
MICROBATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
#: Share of the parameters of products that a tensor degree has to divide.
DIVIDED = 0.9


class GraphSpace(UniformSpace):
    """All uniform plans of a graph on all devices of a cluster, within limits."""

    def __init__(
        self, graph: GraphModel, workload: Workload, cluster: Cluster, limits: Limits | None = None,
        shards_pipelines: bool = False, freedom: Freedom = FREE,
    ) -> None:  # fmt: skip
        super().__init__(cast(Transformer, graph), workload, cluster, limits or Limits(), shards_pipelines, freedom)
        object.__setattr__(self, "graph", graph)

    graph: GraphModel

    @cached_property
    def tensors(self) -> tuple[int, ...]:
        """Tensor degrees: inside a node, and such that they divide the weights."""
        node = min(self.cluster.devices_per_node, self.cluster.devices)
        return tuple(t for t in divisors(node) if self.limits.allows("tensor", t) and (t == 1 or self.graph.divides(t, DIVIDED)))

    @property
    def microbatches(self) -> tuple[int, ...]:
        """Sequences of a microbatch on a replica."""
        return tuple(sorted(set(self.limits.microbatches or MICROBATCHES)))

    def _shapes(self) -> Iterator[Shape]:
        batch, devices, limits = self.workload.global_batch, self.cluster.devices, self.limits
        for pipeline in divisors(devices):
            if pipeline > self.graph.layers or not limits.allows("pipeline", pipeline) or not self.schedules(pipeline):
                continue
            for tensor in self.tensors:
                data, rest = divmod(devices // pipeline, tensor)
                if rest or not limits.allows("data", data) or batch % data:
                    continue
                above = sum(degree > 1 for degree in (pipeline, tensor, data))
                if limits.max_axes is not None and above > limits.max_axes:
                    continue
                replica = batch // data
                for microbatch in self.microbatches:
                    if replica % microbatch:
                        continue
                    shape = Shape(data, tensor, pipeline, 1, 1, microbatch, replica // microbatch)
                    if self.zeros(shape):
                        orders = distinct_orders(self.cluster, shape.mesh, pipeline, self.freedom.orders)
                        # Stages lie side by side: what crosses between them differs from cut to cut.
                        yield from (replace(shape, order=order) for order in orders if order[-1] == "pipeline")

    def sequence_parallels(self, shape: Shape) -> tuple[bool, ...]:
        """No switch: how activations lie between operators is chosen with the layouts."""
        return (False,)

    @cached_property
    def recomputes(self) -> tuple[Recompute, ...]:
        """Kinds of recomputation, the least first; of attention cores only where there are some."""
        allowed = self.limits.recomputes or tuple(Recompute)
        found = tuple(kind for kind in Recompute if kind.value in allowed and (self._attends or kind is not Recompute.SELECTIVE))
        return found or (Recompute.NONE,)

    @property
    def _attends(self) -> bool:
        return bool({Kind.ATTENTION, Kind.SOFTMAX} & self.graph.kinds_of_operators)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What the declared space does not hold, with the reason."""
        rows = [
            LeftOut(
                "operator layouts as a dimension of plans",
                "each layer takes the exact best on its mesh at the power of four sequences at or below its microbatch: batch on "
                "data, every weight that divides divided on tensor, carries whole or along one dim; a layer too entangled to "
                "eliminate takes the best that a local search finds",
            ),
            LeftOut("fewer devices", "every plan uses all devices: those left over would be paid for and idle"),
            LeftOut("context and expert parallelism", "dims of a graph say nothing of causal order or of experts' places"),
            LeftOut("tensor parallelism across nodes", "collectives of every operator would cross the fabric"),
        ]
        if not self.shards_pipelines:
            rows.append(
                LeftOut(
                    "ZeRO 2 and 3 with a pipeline",
                    "DeepSpeed's pipeline engine takes ZeRO below 2, and Megatron-LM's FSDP excludes a pipeline; "
                    "a proposal whose framework is torchtitan has them",
                )
            )
        if self.limits.recomputes and not self._attends and Recompute.SELECTIVE.value in self.limits.recomputes:
            rows.append(LeftOut("recompute selective", "no attention core is there to be recomputed: it would be none"))
        if self.graph.layering.joined > 1:
            rows.append(
                LeftOut(
                    f"cuts between {self.graph.layering.joined} neighbouring layers that are taken as one",
                    f"{self.graph.layering.recognised} layers are recognised, more than plans are cut into",
                )
            )
        return tuple(rows)


class GraphUneven(Submeshes[GraphSpace]):
    """Cuts and unequal plans of the same graph, batch, devices and limits as `uniform`."""

    @property
    def layers(self) -> int:
        """Layers that are recognised in the graph."""
        return self.uniform.graph.layers

    @cached_property
    def settings(self) -> tuple[Setting, ...]:
        """All of them: cuts on one mesh, then unequal meshes."""
        return (*self._cuts(), *self._unequal())

    def _kinds(self) -> tuple[tuple[Recompute, ...], ...]:
        space = self.uniform
        return (space.recomputes,) if space.freedom.recompute_by_stage else tuple((one,) for one in space.recomputes)

    def _cuts(self) -> Iterator[Setting]:
        space = self.uniform
        for shape in space.all_shapes:
            if shape.pipeline == 1:
                continue
            for schedule in self.schedules_of(shape.pipeline):
                for zero in space.zeros(shape):
                    for kinds in self._kinds():
                        yield Setting(
                            shape.pipeline, shape.microbatch * shape.data, shape.accumulation, schedule, zero, False,
                            shape.order, (shape.mesh,), kinds,
                        )  # fmt: skip

    def menu(self, sequences: int, pipeline: int) -> tuple[Mesh, ...]:
        """The meshes of a microbatch of `sequences`: data and tensor degrees on each submesh."""
        space, found = self.uniform, []
        for size in self.sizes:
            for tensor in space.tensors:
                data, rest = divmod(size, tensor)
                if rest or not space.limits.allows("data", data):
                    continue
                if sequences % data or sequences // data not in space.microbatches:
                    continue
                above = sum(degree > 1 for degree in (pipeline, tensor, data))
                if space.limits.max_axes is None or above <= space.limits.max_axes:
                    found.append(Mesh(data, tensor))
        return tuple(found)

    def _unequal(self) -> Iterator[Setting]:
        if not self.has_unequal:
            return
        space, units = self.uniform, self.uniform.cluster.devices // self.unit
        batch = space.workload.global_batch
        for stages in range(2, min(space.graph.layers, units, MOST_STAGES) + 1):
            if not space.limits.allows("pipeline", stages):
                continue
            for sequences in divisors(batch):
                menu = self.menu(sequences, stages)
                if len(menu) < 2 or not self.arrangements(stages, menu):
                    continue
                for schedule in self.schedules_of(stages):
                    for zero in space.zeros(Shape(2, 1, stages, 1, 1, 1, 1)):
                        for kinds in self._kinds():
                            yield Setting(
                                stages, sequences, batch // sequences, schedule, zero, False, DEFAULT_ORDER, menu, kinds
                            )

    @cached_property
    def size(self) -> int:
        """How many plans there are."""
        return sum(self.plans(one) for one in self.settings)

    @property
    def dimensions(self) -> tuple[tuple[str, str], ...]:
        """What this space adds, with its values."""
        cuts = sorted({one.stages for one in self.settings if len(one.meshes) == 1})
        rows = [("pipeline, every cut of the layers on one mesh", ", ".join(map(str, cuts)) or "none")]
        by_stage = "by stage" if self.uniform.freedom.recompute_by_stage else "alike on all stages"
        rows.append(("recompute of uneven plans", by_stage))
        unequal = sorted({one.stages for one in self.settings if len(one.meshes) > 1})
        if unequal:
            rows.append(("stages on unequal meshes", ", ".join(map(str, unequal))))
            rows.append(("devices of a stage there", ", ".join(map(str, self.sizes))))
        return tuple(rows)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What it does not hold, and why."""
        freedom, rows, cluster = self.uniform.freedom, [], self.uniform.cluster
        if not freedom.unequal_meshes:
            rows.append(LeftOut("unequal meshes, and recomputation by stage", freedom.why))
        elif self.has_unequal:
            finer = f", or in finer units than {self.unit} devices" if self.unit > 1 else ""
            rows.append(
                LeftOut(
                    f"unequal meshes in more than {MOST_STAGES} stages{finer}",
                    "the tables of their stages would not be done within the time of a review",
                )
            )
        elif len(cluster.nodes) > 1:
            rows.append(LeftOut("unequal meshes", "the nodes are of several kinds, and submeshes are parts of nodes of one kind"))
        elif cluster.devices > 1 and not self.unit:
            why = f"no more than {MOST_UNITS} equal parts of the devices are parts of a node, or whole nodes"
            rows.append(LeftOut("unequal meshes", why))
        return (*rows, *NEVER)


def is_uniform(plan: Plan) -> bool:
    """Whether a plan is one of the uniform space."""
    lengths = {stage.layers for stage in plan.stages}
    kinds = {plan.recompute_of(k) for k in range(plan.pipeline)}
    return plan.same_meshes and len(lengths) == 1 and len(kinds) == 1
