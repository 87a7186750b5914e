"""Which share of a stated bandwidth collectives reach on a tier, by the kind of its links, and how long their ramp is.

A switch of NVLink passes less of a link's rate on than lanes from device to device; trees of PCI Express pass less again, and
less to each device the more of them send. The figures are constants with their ranges; nothing here knows a collective.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..cluster.cluster import Cluster, Tier
from ..hardware import LinkKind, LinkTopology, NodeLink
from .factors import Constant


def share_name(cluster: Cluster, tier: Tier) -> str:
    """The constant that says which share of `tier`'s bandwidth collectives reach."""
    if tier.span > cluster.devices_per_node:
        return "fabric_share"
    if tier.kind == LinkKind.PCIE.value:
        return "pcie_share"
    link = next((one for one in cluster.nodes[0].sheet.links if one.island == tier.span), None)
    lanes = link is not None and link.kind is LinkKind.NVLINK and link.topology is LinkTopology.MESH
    return "mesh_share" if lanes else "link_share"


def ramp_name(cluster: Cluster, tier: Tier) -> str:
    """The constant of its ramp: seconds that grow with the square root of the seconds that the bytes take."""
    slow = tier.span > cluster.devices_per_node or tier.kind == LinkKind.PCIE.value
    return "slow_link_ramp" if slow else "fast_link_ramp"


def falling(tier: Tier, link: NodeLink | None, devices: int, constants: Mapping[str, Constant]) -> float:
    """What is left of a device's share where `devices` devices send at once: 1 but on a tree of PCI Express of which nobody
    says what groups get, where devices meet on the way to the host.
    """
    if tier.kind != LinkKind.PCIE.value or (link is not None and link.rings) or devices <= 2:
        return 1.0
    return float((devices / 2) ** -constants["pcie_falling"].value)
