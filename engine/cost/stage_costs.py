"""What a stage's groups are and what it costs: the forms that pricing fills and that steps, bounds and records read.

Vocabulary: a *term* names what seconds are spent on. Computes nothing but the groups of a mesh.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..plan import Mesh
from .simulation import Durations
from .states import expert_tensor, shard_groups

#: What the seconds of a stage are spent on, in the order of `StageCost.terms`.
STAGE_TERMS = (
    "gemm", "attention", "memory", "launch", "tensor", "context", "expert", "gather", "recompute", "ends",
)  # fmt: skip


#: Those of them that are exposed collectives, and where they stand.
EXPOSED_TERMS = ("tensor", "context", "expert", "gather")
EXPOSED = slice(4, 8)


class Layout(NamedTuple):
    """How a stage's groups lie on the cluster: sizes and strides, in devices."""

    tensor: tuple[int, int]
    context: tuple[int, int]
    expert: tuple[int, int]
    expert_tensor: tuple[int, int]
    #: Where dense parameters and routed experts are replicated or sharded.
    data: tuple[int, int]
    expert_data: tuple[int, int]


def layout(mesh: Mesh, strides: Mapping[str, int]) -> Layout:
    """The groups of `mesh` with axes `strides` apart. The expert group divides data x context, from the inner one
    outwards.

    Under an expert-tensor degree below the tensor degree it takes in the rest of the tensor group first.
    """
    t, inner = mesh.tensor, expert_tensor(mesh)
    replicas = [(size, strides[axis]) for axis, size in (("context", mesh.context), ("data", mesh.data)) if size > 1]
    stride = min((step for _, step in replicas), default=mesh.tensor)
    dense, experts = shard_groups(mesh)
    expert_stride = strides["tensor"] * inner if inner < t else stride
    return Layout(
        tensor=(t, strides["tensor"]),
        context=(mesh.context, strides["context"]),
        expert=(mesh.expert, expert_stride),
        expert_tensor=(inner, strides["tensor"]),
        data=(dense, stride),
        expert_data=(experts, expert_stride * mesh.expert),
    )


def of_layer(mesh: Mesh, groups: Layout, zero: int, *, moe: bool) -> tuple[object, ...]:
    """What the cost of a layer depends on of its mesh and groups: not on replicas while nothing is sharded over them, nor on
    experts where it has none.
    """
    if zero >= 2:
        return mesh, groups
    dense = (mesh.tensor, mesh.context, groups.tensor, groups.context)
    return (*dense, mesh.expert, mesh.expert_tensor, groups.expert, groups.expert_tensor) if moe else dense


class StageCost(NamedTuple):
    """One microbatch on one stage, and what the stage adds to the end of a step.

    `backward` is without `weight`, the weight gradients, for which nothing waits; recomputation is in `backward`.
    `terms` are those of `STAGE_TERMS` and add up to `durations.total`. `tiers`: communication by tier, exposed or not,
    of one microbatch.
    """

    durations: Durations
    terms: tuple[float, ...]
    compute: float
    tiers: tuple[tuple[str, float], ...]
    #: Outside the pipeline, once a step: exposed gradient synchronisation, and the optimizer.
    sync: float
    sync_tiers: tuple[tuple[str, float], ...]
    optimizer: float
    #: What must be said of the estimate: dtype stand-ins.
    instead: str


class LayerCost(NamedTuple):
    """One layer and microbatch, communication included."""

    durations: Durations
    terms: tuple[float, ...]
    compute: float
    tiers: tuple[tuple[str, float], ...]
    #: Of the exposed collectives (`EXPOSED_TERMS`), what the forward pass waits for.
    ahead: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
