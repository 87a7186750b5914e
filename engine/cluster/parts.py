"""What a cluster graph is built from: machines of a kind, what joins the devices inside one, and the fabrics between them.

Machines alike are one `Machine` with a count. A rate that nobody states is None and stays so in the graph: it is never
filled. Knows no file and no proposal: whoever read them brings the parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ..frozen import dataclass
from ..quantity import Quantity

#: Link words of a printed matrix, nearest first: what lies between two devices that no NVLink or XGMI joins.
NEAREST = ("PIX", "PXB", "PHB", "NODE", "SYS", "SOC", "PCIE")
#: Kinds of link that make an island, where a machine has any of them.
FAST = ("nvlink", "nvswitch", "xgmi")
#: NVLinks of one device at most (H100 and B200: 18; NVIDIA H100 datasheet, 2023). More between all pairs means a switch.
MOST_NVLINKS = 18


@dataclass(frozen=True, slots=True)
class Inner:
    """One kind of link inside a machine, over islands of `span`. `bandwidth` is one device's, per direction.

    `pairs` (device, device, lanes) and `lane` are of a point-to-point mesh; without them any pair of an island is joined.
    """

    name: str
    kind: str
    span: int
    bandwidth: Quantity | None
    latency: Quantity | None
    pairs: tuple[tuple[int, int, int], ...] = ()
    lane: Quantity | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """A measured path between two names of a machine: the tool's word, and the NVLinks bonded in it, if they are any."""

    word: str
    lanes: int | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """What a topology tool printed of one machine. `paths` has both orders of every pair that is known."""

    source: str
    devices: tuple[str, ...]
    nics: tuple[str, ...]
    paths: Mapping[tuple[str, str], Route]
    gaps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """`count` machines alike. `nics` are the cards that the fabric uses; `nic_rate` of one, per direction."""

    name: str
    count: int
    device: str
    devices: int
    inner: tuple[Inner, ...]
    nics: int | None = None
    nic_rate: Quantity | None = None
    host_link: Quantity | None = None
    measured: Measured | None = None


@dataclass(frozen=True, slots=True)
class Fabric:
    """A network between machines. `rate` is one device's after sharing, over-subscription and contention.

    `joins` are names of machines. `oversubscription` 2 means that the switches carry half of what the cards can send.
    """

    name: str
    kind: str
    rate: Quantity | None
    latency: Quantity | None
    layout: str | None = None
    oversubscription: float = 1.0
    contention: float = 0.0
    joins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Parts:
    """A whole cluster, as far as it is described."""

    machines: tuple[Machine, ...]
    fabrics: tuple[Fabric, ...] = field(default=())

    @property
    def devices(self) -> int:
        """Devices of all machines."""
        return sum(machine.count * machine.devices for machine in self.machines)
