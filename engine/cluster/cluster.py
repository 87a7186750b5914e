"""A cluster as tiers: nodes of devices, the links inside a node, the fabric between nodes.

Vocabulary: an *island* is a set of devices that all reach each other at the node's fastest rate; a *tier* is one level of the
hierarchy (island, node, fabric), with the number of devices it holds and the bandwidth one device gets on it, per direction.
Devices are numbered node by node; a mesh axis of degree g and stride s groups devices s apart. This module knows no
plan and no rule, and imports no graph library: it is on lint's path.
"""

from __future__ import annotations

from ..frozen import dataclass
from ..hardware import DeviceSheet, NodeSheet
from ..quantity import Quantity
from .units import together


@dataclass(frozen=True, slots=True)
class Nodes:
    """`count` nodes of one type."""

    count: int
    sheet: NodeSheet

    @property
    def device(self) -> DeviceSheet:
        """The type of their devices."""
        return self.sheet.device

    @property
    def devices(self) -> int:
        """Devices of all of them."""
        return self.count * self.sheet.devices


@dataclass(frozen=True, slots=True)
class Tier:
    """One level of the hierarchy. `span`: devices in one unit of it; `bandwidth`: of one device on it, after sharing.

    `bandwidth` is bytes/s per direction for each device when all devices of the unit use the tier at once: on a fabric, NIC
    bandwidth x NICs / devices of a node / over-subscription x (1 - contention). `name` is unique in a cluster.
    """

    name: str
    kind: str
    span: int
    bandwidth: Quantity
    latency: Quantity
    path: str = ""
    #: Whether its switches reduce in flight (SHARP), as declared.
    reduces: bool = False
    #: Network cards of a node, of a fabric that states them; None: as many as devices.
    cards: int | None = None


@dataclass(frozen=True, slots=True)
class Collective:
    """A measured collective on this cluster: `operation` over `ranks` devices; rows of (bytes, seconds), sizes ascending."""

    operation: str
    ranks: int
    nodes: int | None
    rows: tuple[tuple[int, float], ...]
    source: Quantity


@dataclass(frozen=True, slots=True)
class Cluster:
    """All of the hardware a proposal may use. `tiers` innermost first; the last one spans every device."""

    nodes: tuple[Nodes, ...]
    tiers: tuple[Tier, ...]
    #: Share of the fabric that others use; 0 where contention was stated as none.
    contention: float = 0.0
    collectives: tuple[Collective, ...] = ()

    @property
    def devices(self) -> int:
        """Devices of the whole cluster."""
        return sum(group.devices for group in self.nodes)

    @property
    def homogeneous(self) -> bool:
        """Whether all devices are of one type."""
        return len({group.sheet.device.name for group in self.nodes}) == 1

    @property
    def device(self) -> DeviceSheet:
        """The device type of the first nodes; that of all where `homogeneous`."""
        return self.nodes[0].device

    @property
    def devices_per_node(self) -> int:
        """Devices of a node of the first kind."""
        return self.nodes[0].sheet.devices

    @property
    def island(self) -> int:
        """Devices in the innermost tier."""
        return self.tiers[0].span


@dataclass(frozen=True, slots=True)
class Reach:
    """How many members of a group fall into one unit of each tier, cumulative: (("island", 8), ("fabric", 32))."""

    size: int
    members: tuple[tuple[Tier, int], ...]

    @property
    def slowest(self) -> Tier:
        """The outermost tier that the group crosses."""
        return self.members[-1][0]


def reach(cluster: Cluster, size: int, stride: int, world: int | None = None) -> Reach:
    """Which tiers a group of `size` devices, `stride` apart, crosses, and with how many members a unit.

    All groups of an axis run at once and the step waits for the last, so where nodes are uneven, or do not divide by the
    groups, the members are those of the group that is spread most. `world`: the devices that are laid out (all by default).
    """
    members: list[tuple[Tier, int]] = []
    inside = 1
    for tier in cluster.tiers[:-1]:
        here = together(cluster, tier, size, stride, world)
        if here > inside:
            members.append((tier, here))
            inside = here
    if inside < size or not members:
        members.append((cluster.tiers[-1], size))
    return Reach(size, tuple(members))


def strides(order: tuple[str, ...], degrees: dict[str, int]) -> dict[str, int]:
    """The distance in devices between neighbours of each axis, for axes laid out innermost first."""
    result, stride = {}, 1
    for axis in order:
        result[axis] = stride
        stride *= degrees.get(axis, 1)
    return result
