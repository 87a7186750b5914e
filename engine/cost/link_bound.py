"""The least time of a step that the links allow a plan: bytes that must cross, over the rate at which they can.

A lower bound, whatever overlaps with what: each axis is taken alone on each tier that its groups cross, with the least traffic
that any algorithm needs there, and the longest one is kept. What could be avoided is not counted: a second gather of ZeRO 3,
recomputation, context parallelism (which may exchange heads in place of keys and values) and experts (tokens may stay where
they are). Pure arithmetic; knows no kernel and no schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..cluster.cluster import Cluster
from ..cluster.placement import crossings
from ..model import DTYPE_BYTES, Transformer, Workload, moe_layers
from ..plan import Plan, Stage
from .collective_formulas import rounds
from .placement import axis_strides
from .states import rank_parameters

#: All-reduces of a layer for a microbatch, forward and backward: of attention and of the MLP (Shoeybi et al. 2019,
#: arXiv 1909.08053, section 3). Those of experts, which may have no tensor degree of their own, are not counted.
ALL_REDUCES, EXPERT_ALL_REDUCES = 4, 2


@dataclass(frozen=True, slots=True)
class LinkBound:
    """What sets the bound: `sent` bytes of one device over `link` at `rate` bytes/s a device, in a step of `seconds` or more."""

    axis: str
    carries: str
    link: str
    sent: float
    rate: float

    @property
    def seconds(self) -> float:
        """The least time of a step."""
        return self.sent / self.rate


def link_bound(
    plan: Plan, model: Transformer, workload: Workload, cluster: Cluster, oversubscription: float = 1.0
) -> LinkBound | None:
    """The tightest bound on the time of a step of `plan`; None where nothing that is counted crosses a link.

    `oversubscription` of the fabric is taken back, for traffic between neighbours may stay below one switch. Only stages of one
    mesh on nodes of one kind are laid out, and of plans that fit the cluster: None for others.
    """
    if not plan.same_meshes or len(cluster.nodes) > 1 or plan.devices > cluster.devices:
        return None
    found = [one for stage in plan.stages for one in _of_stage(plan, stage, model, workload, cluster, oversubscription)]
    return max(found, key=lambda one: one.seconds, default=None)


def _of_stage(
    plan: Plan, stage: Stage, model: Transformer, workload: Workload, cluster: Cluster, oversubscription: float
) -> Iterator[LinkBound]:
    mesh, strides = stage.mesh, axis_strides(plan, stage.mesh)
    width = DTYPE_BYTES[workload.precision.compute]
    # Every sequence of a replica passes every stage once a step, whatever the microbatch.
    tokens = plan.accumulation * plan.microbatch * workload.sequence_length / mesh.context
    residual = tokens * model.hidden * width
    reductions = ALL_REDUCES * stage.layers - EXPERT_ALL_REDUCES * moe_layers(model, stage.first, stage.last)
    carries = "gradients and parameters" if plan.zero else "gradients"
    reduced, gathered = _gradients(plan, stage, model, workload)
    for axis, size, what, summed, passed in (
        ("tensor", mesh.tensor, "activations", reductions * residual, 0.0),
        ("data", mesh.data, carries, reduced, gathered),
    ):
        for crossing in crossings(cluster, size, strides[axis], plan.devices) if size > 1 else ():
            outer = crossing.tier.span > cluster.devices_per_node
            share = (crossing.units - 1) / crossing.units / crossing.inside
            # A switch that reduces takes each contribution once, and hands the sum to all; inside a node any may.
            ways = 1 if crossing.tier.reduces or not outer else rounds("all_reduce")
            sent = (ways * summed + passed) * share
            if sent > 0:
                rate = crossing.device_rate * (oversubscription if outer else 1.0)
                yield LinkBound(axis, what, crossing.tier.name, sent, rate)
    if plan.pipeline > 1:
        # A device sends each residual stream on once; with tensor parallelism its part would do.
        sent = residual * plan.interleave / mesh.tensor
        behind = 1
        for tier in cluster.tiers:
            stride = strides["pipeline"]
            if stride < tier.span and stride * plan.pipeline > behind:
                # Of the devices behind a port those next to the boundary send, and have all of it.
                relief = oversubscription if tier.span > cluster.devices_per_node else 1.0
                rate = tier.bandwidth.value * max(1.0, behind / stride) * relief
                yield LinkBound("pipeline", "activations", tier.name, sent, rate)
            behind = tier.span


def _gradients(plan: Plan, stage: Stage, model: Transformer, workload: Workload) -> tuple[float, float]:
    """Bytes of a rank's gradients that are summed over the replicas, and bytes that are scattered or gathered once instead."""
    precision = workload.precision
    parameters = rank_parameters(model, stage, model.vocabulary)
    own = parameters.total if stage.mesh.expert == 1 else parameters.dense
    wire = own * DTYPE_BYTES[precision.communication or precision.gradients]
    return (0.0, wire + own * DTYPE_BYTES[precision.parameters]) if plan.zero else (wire, 0.0)
