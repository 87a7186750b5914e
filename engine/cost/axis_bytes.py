"""What each mesh axis of a plan sends in a step, and the order of axes that keeps the most of it off slow tiers.

The bytes are those that the price asks its network for: the plan is priced on a network on which a byte takes a second and
every axis is a tier of its own. So what the price knows of is what is counted here. Nothing here searches plans.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..cluster.placement import OrderFound, best_order
from .collective_formulas import rounds
from .collectives import FREE, Network, Spent
from .factors import NOMINAL
from .memory_terms import local_microbatch
from .stage import StagePricer
from .stage_costs import Layout
from .states import expert_tensor, shard_groups
from .step import TimeModel

if TYPE_CHECKING:
    from ..cluster.cluster import Cluster
    from ..model import Transformer, Workload
    from ..plan import Mesh, Plan

#: Axes by the strides that stand for them while bytes are counted.
_AXES = ("tensor", "context", "expert", "data")
_TENSOR, _CONTEXT, _EXPERT, _DATA = range(len(_AXES))


class _Counting(Network):
    """A network on which a byte takes a second, and `stride` is the number of an axis."""

    def collective(self, operation: str, size: float, ranks: int, stride: int) -> Spent:
        """The bytes that pass: `size` once, twice for an all-reduce."""
        if ranks <= 1 or size <= 0:
            return FREE
        passed = rounds(operation) * size
        return Spent(passed, ((_AXES[stride], passed),))


class _Counted(TimeModel):
    """A time model whose communication is counted and not timed: nothing of it is hidden."""

    def __init__(self, model: Transformer, workload: Workload, cluster: Cluster) -> None:
        super().__init__(model, workload, cluster, replace(NOMINAL, gradient_overlap=0.0))
        self.network = _Counting(cluster)
        self.pricer = StagePricer(model, workload, self.network, self.constants, self.factors)

    def layout(self, plan: Plan, mesh: Mesh) -> Layout:
        """Groups of `mesh` by axis, wherever they lie."""
        dense, experts = shard_groups(mesh)
        return Layout(
            tensor=(mesh.tensor, _TENSOR), context=(mesh.context, _CONTEXT), expert=(mesh.expert, _EXPERT),
            expert_tensor=(expert_tensor(mesh), _TENSOR), data=(dense, _DATA), expert_data=(experts, _DATA),
        )  # fmt: skip


def bytes_by_axis(plan: Plan, model: Transformer, workload: Workload, cluster: Cluster) -> dict[str, float]:
    """Bytes that a device of the busiest stage gives to its groups in a step, by axis above 1.

    The buffers of all its collectives, twice that of an all-reduce, which passes it twice, with what recomputation and ZeRO send
    again; for `pipeline` its messages both ways.
    """
    counted = _Counted(model, workload, cluster)
    most: dict[str, float] = {}
    stages = len(plan.stages)
    for index, (stage, cost) in enumerate(zip(plan.stages, counted.costs(plan), strict=True)):
        sent = {axis: plan.accumulation * size for axis, size in cost.tiers}
        for axis, size in cost.sync_tiers:
            sent[axis] = sent.get(axis, 0.0) + size
        if stages > 1:
            ways = (index > 0) + (index < stages - 1)
            message = counted.pricer.message(stage.mesh, local_microbatch(plan, stage), plan.sequence_parallel)
            sent["pipeline"] = ways * plan.interleave * plan.accumulation * message
        for axis, size in sent.items():
            most[axis] = max(most.get(axis, 0.0), size)
    return most


def least_order(plan: Plan, model: Transformer, workload: Workload, cluster: Cluster) -> OrderFound:
    """The order of `plan`'s axes with the fewest bytes on the outermost tier, then on the next one inwards.

    Of stages of different meshes the first one's mesh is laid out. Raises InputError where the plan spans more devices than
    there are.
    """
    return best_order(cluster, plan.stages[0].mesh, bytes_by_axis(plan, model, workload, cluster), len(plan.stages))
