"""Data sheets of devices and nodes, as values: what the vendor states, and what training was seen to get of it.

Vocabulary: a *device* is one accelerator as the framework counts them; a *node* is a type of machine with its devices,
the links between them and, as a vendor's note, its network cards; a *ring* is a group whose devices all pass data on to
their neighbour at once. Values are in bytes, seconds, FLOP and fractions; bandwidth is of one device, per direction. A
node type never states the fabric between nodes: that is the proposal's. This module knows no file and no format.
"""

from __future__ import annotations

import re
from enum import StrEnum

from ..frozen import dataclass, replace
from ..quantity import Grade, Provenance, Quantity

#: Number formats whose peak rate a sheet may state, dense.
DTYPES = ("fp8", "fp16", "bf16", "tf32", "fp32")


class LinkKind(StrEnum):
    """What carries data between two devices of a node."""

    NVLINK = "nvlink"
    NVSWITCH = "nvswitch"
    XGMI = "xgmi"
    PCIE = "pcie"


class LinkTopology(StrEnum):
    """`switch`: any pair at full rate; `mesh`: point-to-point lanes; `tree`: shared links up to a root."""

    SWITCH = "switch"
    MESH = "mesh"
    TREE = "tree"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a sheet comes from. `kind`: `shipped`, `added` by a user, or a user's that `replaces` a shipped one."""

    kind: str
    file: str
    replaces: str | None = None
    replaced_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Ranged:
    """A quantity that differs from run to run: its usual value and the range that holds 80 % (10-90 %)."""

    quantity: Quantity
    low: float
    high: float

    @property
    def value(self) -> float:
        """The usual value, in the base unit."""
        return self.quantity.value

    @property
    def grade(self) -> Grade:
        """The grade of the value and of its range."""
        return self.quantity.grade

    @property
    def provenance(self) -> Provenance:
        """The evidence of the value and of its range."""
        return self.quantity.provenance


@dataclass(frozen=True, slots=True)
class HalfDims:
    """The local dims at which a matrix product runs at half its large-size rate, one effect at a time.

    For an (m x k)(k x n) product the rate is gemm * peak * s / (s + side) * k / (k + depth), with s = min(m, n).
    """

    side: float
    depth: float
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class Efficiency:
    """What training steps get of the peaks: `memory` of the memory bandwidth, the others of the dense rate.

    `attention_flash` counts the FLOPs that a causal kernel executes (half of the full matrix), and 2.5 times those of
    the forward pass for the backward pass.
    """

    gemm: Ranged
    gemm_half_dims: HalfDims
    memory: Ranged
    attention_unfused: Ranged
    attention_flash: Ranged


def same_name(name: str) -> str:
    """The form in which names are compared: `H100-SXM`, `h100_sxm` and `h100 sxm` are one."""
    return re.sub(r"[-_. ]+", "", name.casefold())


@dataclass(frozen=True, slots=True)
class Calibration:
    """What steps of one software family on one device were measured to get, fitted by `planproof calibrate`.

    `stall`: seconds a layer and pass that the device idles while the host synchronises; `interference`: the share of hidden
    gathers by which they slow the computation that hides them; `fabric`: the share of the stated rate between nodes. `residual`:
    the relative half-width that holds 90 % of rows of groups left out of the fit; `spans`: the least and greatest hidden width,
    sequence length, tensor degree and devices of the `rows` measured runs in `groups` groups.
    """

    name: str
    device: str
    software: str
    gemm: Ranged | None
    memory: Ranged | None
    attention_unfused: Ranged | None
    attention_flash: Ranged | None
    launch: Ranged | None
    stall: Ranged | None
    interference: Ranged | None
    fabric: Ranged | None
    #: The share of the loss's traffic through memory that the family's kernels leave: 1 unfused.
    loss: Ranged | None
    residual: float
    #: How the same grows for the ratio of two runs with how differently they spend their steps (`cost.intervals.ratio_residual`),
    #: and the mean relative error of left-out rows.
    ratio_slope: float
    bias: float
    rows: int
    groups: int
    sources: tuple[str, ...]
    spans: tuple[tuple[str, float, float], ...]
    #: The values without one group each: (group, ((parameter, value), ...)).
    folds: tuple[tuple[str, tuple[tuple[str, float], ...]], ...]
    origin: Origin
    sha256: str
    #: Memory that is not tensors, where it was measured. Without `gemm` and `memory` it is all that was.
    workspace: Ranged | None = None
    allocator_reserve: Ranged | None = None
    #: The device that was measured, where this one was not and the values are carried over.
    carried_from: str = ""

    @property
    def times(self) -> bool:
        """Whether step times were measured; if not, memory alone was."""
        return self.gemm is not None

    def far(self, **values: float) -> tuple[str, ...]:
        """The names of `values` that lie beyond what was measured, by more than a factor of two."""
        known = {name: (low, high) for name, low, high in self.spans}
        return tuple(
            name for name, value in values.items() if name in known and not known[name][0] / 2 <= value <= known[name][1] * 2
        )


@dataclass(frozen=True, slots=True)
class DeviceSheet:
    """One device type.

    `memory` is nominal; `memory_usable` the total that the driver shows to a process, or nvidia-smi where only that is
    known. `launch`: the host's time a kernel. Memory that is not tensors: `context` (driver, framework, communicators,
    outside the allocator), `workspace` (libraries' scratch inside it) and `allocator_reserve`, the share that the
    allocator holds on top of what is allocated.
    """

    name: str
    aliases: tuple[str, ...]
    vendor: str
    architecture: str
    memory: Quantity
    memory_usable: Quantity | None
    memory_bandwidth: Quantity
    peak_rates: tuple[tuple[str, Quantity], ...]
    launch: Ranged
    efficiency: Efficiency
    context: Ranged
    workspace: Ranged
    allocator_reserve: Ranged
    origin: Origin
    sha256: str
    #: The calibration of a software family that is in force: its values stand in the fields above.
    calibration: Calibration | None = None

    def answers_to(self, name: str) -> bool:
        """Whether `name` is the device's name or one of its aliases."""
        return same_name(name) in {same_name(known) for known in (self.name, *self.aliases)}

    def under(self, known: Calibration) -> DeviceSheet:
        """The sheet with the values of a calibration of this device in force."""
        held = replace(
            self, workspace=known.workspace or self.workspace, allocator_reserve=known.allocator_reserve or self.allocator_reserve
        )
        if known.gemm is None or known.memory is None:
            return held
        efficiency = replace(
            self.efficiency, gemm=known.gemm, memory=known.memory,
            attention_unfused=known.attention_unfused or self.efficiency.attention_unfused,
            attention_flash=known.attention_flash or self.efficiency.attention_flash,
        )  # fmt: skip
        return replace(held, efficiency=efficiency, launch=known.launch or self.launch, calibration=known)

    @property
    def capacity(self) -> Quantity:
        """The memory a plan must fit: usable where known, nominal otherwise."""
        return self.memory_usable or self.memory

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The number formats with a stated rate."""
        return tuple(dtype for dtype, _ in self.peak_rates)

    def peak(self, dtype: str) -> Quantity | None:
        """The dense peak rate for `dtype` in FLOP/s, or None where the device has no such units."""
        return next((rate for name, rate in self.peak_rates if name == dtype), None)


@dataclass(frozen=True, slots=True)
class Ring:
    """What a ring over `devices` gets on a link, per device and direction."""

    devices: int
    bandwidth: Quantity


@dataclass(frozen=True, slots=True)
class CollectiveCurve:
    """A measured collective, as latency + factor * bytes / bus_bandwidth + root_term * sqrt(bytes / 1 MiB) seconds.

    `factor` is 2 (n - 1) / n for an all-reduce and (n - 1) / n otherwise, of the bytes that one device holds at the end
    (all-reduce, all-gather) or at the start (reduce-scatter, all-to-all); n is `devices`. `bus_bandwidth` may pass the
    link's own where a switch reduces in flight.
    """

    operation: str
    devices: int
    latency: Quantity
    bus_bandwidth: Quantity
    root_term: Quantity


@dataclass(frozen=True, slots=True)
class NodeLink:
    """One kind of link inside a node, over islands of `island` devices.

    `bandwidth`: of one device, per direction, all its lanes together. `latency`: of one step between neighbours.
    `pairs`: (device, device, lanes) of a mesh, each lane of `lane` bandwidth. `rings`: what groups get, where that is
    not `bandwidth`.
    """

    name: str
    kind: LinkKind
    topology: LinkTopology
    island: int
    bandwidth: Quantity
    latency: Quantity
    lane: Quantity | None = None
    pairs: tuple[tuple[int, int, int], ...] = ()
    rings: tuple[Ring, ...] = ()
    collectives: tuple[CollectiveCurve, ...] = ()

    def lanes(self, first: int, second: int) -> int | None:
        """Direct lanes between two devices; 0 where there are none, None where the link is no stated mesh."""
        if not self.pairs:
            return None
        wanted = {first, second}
        return next((lanes for a, b, lanes in self.pairs if {a, b} == wanted), 0)

    def ring(self, devices: int) -> Quantity:
        """What a ring over `devices` gets: of the largest stated ring that is not larger, otherwise `bandwidth`."""
        fitting = [ring for ring in self.rings if ring.devices <= devices]
        return max(fitting, key=lambda ring: ring.devices).bandwidth if fitting else self.bandwidth

    def collective(self, operation: str, devices: int) -> CollectiveCurve | None:
        """The measured curve of exactly this operation and size, if the sheet has one."""
        return next((c for c in self.collectives if c.operation == operation and c.devices == devices), None)


@dataclass(frozen=True, slots=True)
class Nics:
    """The network cards a node comes with: a vendor's note, for checks, never the fabric. `bandwidth`: of one card."""

    count: int
    bandwidth: Quantity


@dataclass(frozen=True, slots=True)
class NodeSheet:
    """One node type: `devices` of one type and the links between them, innermost first; the last one joins them all.

    `host_link` is what one device gets to the host's memory.
    """

    name: str
    aliases: tuple[str, ...]
    vendor: str
    device: DeviceSheet
    devices: int
    links: tuple[NodeLink, ...]
    host_link: Quantity | None
    nics: Nics | None
    origin: Origin
    sha256: str

    @property
    def island(self) -> int:
        """Devices in an island of the innermost link; 1 in a node of one device."""
        return self.links[0].island if self.links else 1
