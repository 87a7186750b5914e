"""Orders of mesh axes that differ on a cluster: placements up to symmetry.

Two orders are the same placement where every axis crosses the same tiers with the same members, neighbouring stages the same
tier, and stages the same device types. Of equal ones the first in the order of preference stays. Knows no bytes and no price.
"""

from __future__ import annotations

from itertools import permutations

from ..cluster import Cluster
from ..cluster.placement import shares
from ..plan import DEFAULT_ORDER, Mesh
from .freedoms import Orders


def distinct_orders(cluster: Cluster, mesh: Mesh, pipeline: int, allowed: Orders | None = None) -> Orders:
    """The distinct orders of the axes above 1, `DEFAULT_ORDER` or the first allowed one first; never empty."""
    found: dict[tuple[object, ...], tuple[str, ...]] = {}
    for order in _candidates(mesh, pipeline) if allowed is None else allowed:
        found.setdefault(_signature(cluster, mesh, pipeline, order), order)
    return tuple(found.values())


def _candidates(mesh: Mesh, pipeline: int) -> Orders:
    degrees = {"tensor": mesh.tensor, "context": mesh.context, "data": mesh.data, "pipeline": pipeline}
    free = [axis for axis in DEFAULT_ORDER if degrees[axis] > 1]
    rows = []
    for chosen in permutations(free):
        taken = iter(chosen)
        rows.append(tuple(next(taken) if degrees[axis] > 1 else axis for axis in DEFAULT_ORDER))
    return tuple(rows)


def _signature(cluster: Cluster, mesh: Mesh, pipeline: int, order: tuple[str, ...]) -> tuple[object, ...]:
    laid = shares(cluster, mesh, order, pipeline)
    spans = [tier.span for tier in cluster.tiers[:-1]]
    outside = max(spans, default=1)
    rows: list[object] = []
    for one in sorted(laid.axes, key=lambda axis: axis.axis):
        rows.append((one.axis, tuple((at.tier.name, at.inside, at.units) for at in one.crossings)))
        if one.axis == "pipeline":
            rows.append(min(one.stride, outside))
    if len(cluster.nodes) > 1:
        rows.append(order[-1] == "pipeline")
    return tuple(rows)
