"""Clusters of every shape for the tests: nodes of any size, islands inside them, uneven nodes, and their graphs' inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planproof.cluster import Cluster, Nodes, Tier
from planproof.hardware import load_node
from planproof.quantity import Dimension, Grade, Provenance, Quantity

SHEET = load_node("dgx_h100")


def rate(value: float) -> Quantity:
    return Quantity(value, Dimension.BANDWIDTH, Provenance(Grade.VENDOR, "a test"))


def seconds(value: float) -> Quantity:
    return Quantity(value, Dimension.TIME, Provenance(Grade.VENDOR, "a test"))


def cluster(nodes: Sequence[tuple[int, int]], island: int | None = None, fast: float = 400e9, slow: float = 25e9) -> Cluster:
    """Nodes as (count, devices), joined by a fabric; with `island`, each node is cut into islands of that many devices."""
    groups = tuple(Nodes(count, replace(SHEET, devices=devices)) for count, devices in nodes)
    smallest = min(devices for _, devices in nodes)
    devices = sum(group.devices for group in groups)
    tiers: list[Tier] = []
    if island is not None and island < smallest:
        tiers.append(Tier("island", "nvlink", island, rate(fast), seconds(1e-6)))
    if smallest > 1:
        tiers.append(Tier("node", "pcie" if tiers else "nvlink", smallest, rate(fast / (4 if tiers else 1)), seconds(2e-6)))
    if devices > smallest or not tiers:
        tiers.append(Tier("fabric", "infiniband", devices, rate(slow), seconds(5e-6)))
    return Cluster(groups, tuple(tiers))
