"""A counter-signal computed: does the answer notice when the topology changes?

A plan is priced again with the fabric at half its bandwidth. A step time that stays the same although an axis crosses the
fabric says that the price does not depend on what was stated of it. Decides nothing; the fact is for rules.
"""

from __future__ import annotations

from dataclasses import replace

from ..cluster import Cluster, Collective
from ..cluster.placement import shares
from ..plan import Plan


def halved(cluster: Cluster) -> Cluster | None:
    """The cluster with its fabric at half the bandwidth, and what was measured over it at twice the time; None without one."""
    fabric = cluster.tiers[-1]
    if fabric.span <= cluster.devices_per_node:
        return None
    slower = replace(fabric, bandwidth=replace(fabric.bandwidth, value=fabric.bandwidth.value / 2))
    curves = tuple(_slower(curve, cluster.devices_per_node) for curve in cluster.collectives)
    return replace(cluster, tiers=(*cluster.tiers[:-1], slower), collectives=curves)


def _slower(curve: Collective, per_node: int) -> Collective:
    nodes = curve.nodes if curve.nodes is not None else -(-curve.ranks // per_node)
    return curve if nodes < 2 else replace(curve, rows=tuple((size, 2 * seconds) for size, seconds in curve.rows))


def axes_on_the_fabric(plan: Plan, cluster: Cluster) -> tuple[str, ...]:
    """The axes of a plan of which some group leaves its node."""
    fabric = cluster.tiers[-1].name
    found: dict[str, None] = {}
    uniform = len({stage.mesh for stage in plan.stages}) == 1
    for mesh in dict.fromkeys(stage.mesh for stage in plan.stages):
        laid = shares(cluster, mesh, plan.order, len(plan.stages) if uniform else 1)
        found.update((one.axis, None) for one in laid.axes if one.crossing(fabric) is not None)
    if not uniform:
        found["pipeline"] = None
    return tuple(found)
