"""Placement of mesh axes on a cluster: which devices form each group, which links a group's traffic crosses, who shares them.

Vocabulary: an *order* lists axes innermost first; a *port* is what one unit of a tier has towards that tier (a device's links
into its island, a node's cards into the fabric); *crossing* a tier means that members sit in several units of the tier inside
it, so their traffic leaves by these units' ports. All groups of an axis run at once; groups of different axes may.

Groups are arithmetic, never enumerated unless asked for: 16,384 devices cost what 16 do. Knows no bytes of any model; the
caller brings them to `best_order`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from math import prod

from ..errors import InputError
from ..frozen import dataclass
from ..plan import DEFAULT_ORDER, Mesh
from .cluster import Cluster, Tier, reach, strides
from .units import Run, runs, unit_in, unit_of


@dataclass(frozen=True, slots=True)
class Crossing:
    """What one group of an axis has of a tier that it crosses.

    `inside` members share a unit of the tier within, `units` such units meet. `groups` of the axis leave by one unit's port
    at once; `group_rate` is what one of them gets there while they all do, `device_rate` what one member gets: bytes/s per
    direction.
    """

    tier: Tier
    inside: int
    units: int
    groups: int
    group_rate: float
    device_rate: float


@dataclass(frozen=True, slots=True)
class AxisShare:
    """One axis as laid out: `groups` groups of `size` devices, `stride` apart, and the tiers they cross, innermost first."""

    axis: str
    size: int
    stride: int
    groups: int
    crossings: tuple[Crossing, ...]

    def crossing(self, tier: str) -> Crossing | None:
        """What its groups have of the tier of that name, if they cross it."""
        return next((one for one in self.crossings if one.tier.name == tier), None)


@dataclass(frozen=True, slots=True)
class Port:
    """The port of one unit towards `tier`: `devices` behind it, `rate` of all of them together, the axes that leave by it."""

    tier: Tier
    devices: int
    rate: float
    axes: tuple[tuple[str, int], ...]

    @property
    def groups(self) -> int:
        """Groups of all axes that can meet at the port."""
        return sum(count for _, count in self.axes)

    def share(self, axis: str, at_once: Sequence[str]) -> float:
        """Bytes/s of one group of `axis` while all groups of the axes `at_once` send: the port in equal parts."""
        sending = {*at_once, axis}
        return self.rate / sum(count for name, count in self.axes if name in sending)


@dataclass(frozen=True, slots=True)
class Shares:
    """Every axis above 1 with what its groups cross, and every port that some axis leaves by."""

    order: tuple[str, ...]
    axes: tuple[AxisShare, ...]
    ports: tuple[Port, ...]

    def of(self, axis: str) -> AxisShare | None:
        """The axis of that name, None where it is 1."""
        return next((one for one in self.axes if one.axis == axis), None)

    @property
    def contended(self) -> tuple[Port, ...]:
        """Ports at which groups of several axes meet."""
        return tuple(port for port in self.ports if len(port.axes) > 1)


def degrees_of(mesh: Mesh, pipeline: int = 1) -> dict[str, int]:
    """The axes that take devices, with their degrees. Experts lie inside data x context and take none of their own."""
    return {"tensor": mesh.tensor, "context": mesh.context, "data": mesh.data, "pipeline": pipeline}


def shares(cluster: Cluster, mesh: Mesh, order: Sequence[str] = DEFAULT_ORDER, pipeline: int = 1) -> Shares:
    """What every axis of `mesh` crosses when laid out in `order`, innermost first; axes left out lie outermost.

    Raises InputError where the mesh spans more devices than there are, or the order names an axis twice or unknown.
    """
    degrees = degrees_of(mesh, pipeline)
    whole = complete(order, degrees)
    world = prod(degrees.values())
    if world > cluster.devices:
        raise InputError(
            f"the mesh ({mesh}, {pipeline} stages) spans {world} devices, the cluster has {cluster.devices}",
            code="input.placement",
            remedy="Lower a degree: the product of all axes may not exceed the devices.",
        )
    distance = strides(whole, degrees)
    found = [AxisShare(axis, degrees[axis], distance[axis], world // degrees[axis], ()) for axis in whole if degrees[axis] > 1]
    if mesh.expert > 1:
        stride = min(distance["data"], distance["context"])
        found.append(AxisShare("expert", mesh.expert, stride, world // mesh.expert, ()))
    axes = tuple(
        AxisShare(one.axis, one.size, one.stride, one.groups, crossings(cluster, one.size, one.stride, world)) for one in found
    )
    return Shares(whole, axes, _ports(cluster, axes))


def complete(order: Sequence[str], degrees: Mapping[str, int]) -> tuple[str, ...]:
    """`order` without `expert`, and the axes that it leaves out behind it. Raises InputError for one named twice or unknown."""
    named = tuple(axis for axis in order if axis != "expert")
    wrong = next((axis for k, axis in enumerate(named) if axis not in degrees or axis in named[:k]), None)
    if wrong is not None:
        what = "twice" if wrong in degrees else "and there is no such axis"
        raise InputError(
            f"the order names '{wrong}' {what}", code="input.placement", remedy=f"Axes, each once: {', '.join(degrees)}."
        )
    return (*named, *(axis for axis in degrees if axis not in named))


def crossings(cluster: Cluster, size: int, stride: int, world: int | None = None) -> tuple[Crossing, ...]:
    """The tiers that groups of `size` devices, `stride` apart, cross, innermost first.

    A port carries its devices' rates together (`Tier.bandwidth` is one device's while all send), so the groups that leave by
    it get equal parts: of 8 devices behind a port with 2 members of each group, 4 groups share it.
    """
    found: list[Crossing] = []
    inside = 1
    for tier, members in reach(cluster, size, stride, world).members:
        if members > inside:
            width = _width(cluster, tier)
            groups = -(-width // inside)
            share = tier.bandwidth.value * width / groups
            found.append(Crossing(tier, inside, -(-members // inside), groups, share, share / inside))
        inside = members
    return tuple(found)


def _width(cluster: Cluster, tier: Tier) -> int:
    """Devices behind one port towards `tier`: those of a unit of the tier inside it, one for the innermost."""
    spans = [one.span for one in cluster.tiers if one.span < tier.span]
    return max(spans, default=1)


def _ports(cluster: Cluster, axes: Sequence[AxisShare]) -> tuple[Port, ...]:
    found: list[Port] = []
    for tier in cluster.tiers:
        leaving = tuple((one.axis, crossing.groups) for one in axes if (crossing := one.crossing(tier.name)) is not None)
        if leaving:
            width = _width(cluster, tier)
            found.append(Port(tier, width, tier.bandwidth.value * width, leaving))
    return tuple(found)


# Groups and ranks, for those who want them one by one.


def groups(size: int, stride: int, world: int) -> Iterator[range]:
    """The groups of an axis, lazily: each a range of devices, in the order of their first one."""
    block = size * stride
    for start in range(0, world - block + 1, block):
        for first in range(start, start + stride):
            yield range(first, first + block, stride)


def group_of(device: int, size: int, stride: int) -> range:
    """The group of an axis that `device` belongs to."""
    block = size * stride
    first = device // block * block + device % stride
    return range(first, first + block, stride)


def links_of(cluster: Cluster, group: Sequence[int]) -> frozenset[tuple[str, int]]:
    """The ports by which a group's traffic leaves: (tier, the unit inside it whose port that is).

    The unit is a device for the innermost tier. A group that lies in one unit of a tier does not use the tiers outside it.
    """
    found: set[tuple[str, int]] = set()
    inner: Sequence[Run] | None = None
    for tier in cluster.tiers:
        members = {device: device if inner is None else unit_in(inner, device) for device in group}
        here: dict[int, set[int]] = {}
        rows = runs(cluster, tier)
        for device, unit in members.items():
            here.setdefault(unit_in(rows, device), set()).add(unit)
        found |= {(tier.name, unit) for units in here.values() if len(units) > 1 for unit in units}
        if len(here) == 1:
            break
        inner = rows
    return frozenset(found)


# The order with the least traffic on slow tiers.


@dataclass(frozen=True, slots=True)
class OrderFound:
    """An order, the bytes that one device sends on each tier with it (outermost first), and how many orders were compared."""

    order: tuple[str, ...]
    bytes_by_tier: tuple[tuple[str, float], ...]
    compared: int


def best_order(cluster: Cluster, mesh: Mesh, bytes_by_axis: Mapping[str, float], pipeline: int = 1) -> OrderFound:
    """The order of axes with the fewest bytes on the outermost tier, then on the next one inwards; ties keep `DEFAULT_ORDER`.

    Exhaustive over the orders of the axes above 1. `bytes_by_axis`: what one device gives to its group in a step (the buffer
    of all its collectives, or its messages). Raises InputError as `shares` does.
    """
    degrees = degrees_of(mesh, pipeline)
    free = [axis for axis in DEFAULT_ORDER if degrees[axis] > 1]
    fixed = [axis for axis in DEFAULT_ORDER if degrees[axis] == 1]
    best: tuple[tuple[float, ...], tuple[str, ...]] | None = None
    tiers = [tier.name for tier in reversed(cluster.tiers)]
    compared = 0
    for candidate in permutations(free):
        compared += 1
        spent = tuple(size for _, size in bytes_by_tier(cluster, mesh, bytes_by_axis, (*candidate, *fixed), pipeline))
        if best is None or spent < best[0]:
            best = (spent, candidate)
    assert best is not None
    return OrderFound((*best[1], *fixed), tuple(zip(tiers, best[0], strict=True)), compared)


def bytes_by_tier(
    cluster: Cluster, mesh: Mesh, bytes_by_axis: Mapping[str, float], order: Sequence[str], pipeline: int = 1
) -> tuple[tuple[str, float], ...]:
    """The bytes that one device sends on each tier, outermost first, with its axes in `order`. Raises as `shares` does."""
    laid = shares(cluster, mesh, order, pipeline)
    return tuple(
        (tier.name, sum(_bytes_on(one, tier.name, bytes_by_axis.get(one.axis, 0.0)) for one in laid.axes))
        for tier in reversed(cluster.tiers)
    )


def _bytes_on(share: AxisShare, tier: str, size: float) -> float:
    """Bytes that one device sends on a tier for a buffer of `size`: its part of what the units there exchange.

    A hierarchical collective leaves size / inside on a tier, of which (units - 1) / units is another unit's (Thakur,
    Rabenseifner and Gropp 2005, "Optimization of Collective Communication Operations in MPICH"). Factors that an operation
    has on every tier alike (2 of an all-reduce) are the caller's, in `size`.
    """
    crossing = share.crossing(tier)
    return 0.0 if crossing is None else size / crossing.inside * (crossing.units - 1) / crossing.units


__all__ = [
    "AxisShare",
    "Crossing",
    "OrderFound",
    "Port",
    "Shares",
    "best_order",
    "bytes_by_tier",
    "crossings",
    "degrees_of",
    "group_of",
    "groups",
    "links_of",
    "shares",
    "unit_of",
]
