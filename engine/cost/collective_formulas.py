"""Closed forms of the collectives: bytes on the wire, bytes kept, and steps, as rings, trees and switches need them.

`size` is bytes of one device, `ranks` the devices that take part, one of each unit where units meet on a tier. Seconds are
made of these elsewhere; nothing here knows clusters, links or rates.
"""

from __future__ import annotations

from dataclasses import replace
from math import log2

from ..hardware import CollectiveCurve

#: Operations that a tree serves as well as a ring.
TREES = ("all_reduce", "broadcast")


def rounds(operation: str) -> int:
    """Passes over the group: an all-reduce is a reduce-scatter and an all-gather, or a reduction and a broadcast."""
    return 2 if operation == "all_reduce" else 1


def bus_factor(operation: str, ranks: int) -> float:
    """Bytes that a device sends for each byte of `size`: 2 (n - 1) / n for an all-reduce, 1 for a broadcast (every device
    of a pipelined chain passes all of it on), (n - 1) / n for the others.

    Thakur, Rabenseifner and Gropp 2005, "Optimization of Collective Communication Operations in MPICH"; nccl-tests,
    PERFORMANCE.md.
    """
    return 1.0 if operation == "broadcast" else rounds(operation) * (ranks - 1) / ranks


def ring_steps(operation: str, ranks: int) -> float:
    """Steps of latency on one ring: n - 1 a pass; for an all-to-all log2 n steps' worth, as its sends overlap."""
    return log2(ranks) if operation == "all_to_all" else float(rounds(operation) * (ranks - 1))


def tree_steps(operation: str, ranks: int) -> float:
    """Steps of latency on a double binary tree: log2 n a pass (Sanders, Speck and Träff 2009)."""
    return rounds(operation) * log2(ranks)


def kept_bytes(operation: str, size: float, ranks: int) -> float:
    """Bytes that a device moves within its own memory: its own shard, once a pass; a broadcast has none.

    It is why groups of two show less bus bandwidth than groups of eight on the same links: half of an all-gather is a copy
    there, an eighth with eight devices. With size (n - 1) / n / link + size / n / copy, 512 MiB all-reduces, all-gathers and
    reduce-scatters over eight A100, H100 and B300 follow from those over two and four within 3 %, in NCCL timings published in
    github.com/ai-dynamo/aiconfigurator@095f58a51.
    """
    return 0.0 if operation == "broadcast" else rounds(operation) * size / ranks


def in_network_bytes(size: float, units: int, *, multicast: bool) -> float:
    """Bytes that a device sends for an all-reduce in the switch: its buffer once; and where the devices read reduced shards
    and write them back for the switch to spread (`multicast`, inside a node), its own shard once more.

    Graham et al. 2016, "Scalable Hierarchical Aggregation Protocol (SHArP)"; Klenk et al. 2020, "An In-Network Architecture
    for Accelerating Shared-Memory Multiprocessor Collectives" (ISCA).
    """
    return size * (units + 1) / units if multicast else size


def between_curves(lower: CollectiveCurve, upper: CollectiveCurve, devices: int) -> CollectiveCurve:
    """The curve of a group of `devices` between two groups of stated curves, on a switch.

    Latency and root term are linear in n. By `kept_bytes` seconds a byte on the wire are a constant and a part that falls
    with 1 / (n - 1), so the inverse of the bus bandwidth is linear in that.
    """
    share = (devices - lower.devices) / (upper.devices - lower.devices)
    few, many, here = (1 / (n - 1) for n in (lower.devices, upper.devices, devices))
    near = (few - here) / (few - many)
    slowness = (1 - near) / lower.bus_bandwidth.value + near / upper.bus_bandwidth.value
    return replace(
        lower,
        devices=devices,
        latency=replace(lower.latency, value=(1 - share) * lower.latency.value + share * upper.latency.value),
        bus_bandwidth=replace(lower.bus_bandwidth, value=1 / slowness),
        root_term=replace(lower.root_term, value=(1 - share) * lower.root_term.value + share * upper.root_term.value),
    )
