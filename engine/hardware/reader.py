"""A document to a data sheet: the keys of device and node sheets, and what must hold between them. Opens no file."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..document import Document
from ..errors import InputError
from ..frozen import dataclass
from ..quantity import Dimension
from .cursor import Cursor, shown
from .sheets import (
    DTYPES,
    Calibration,
    CollectiveCurve,
    DeviceSheet,
    Efficiency,
    HalfDims,
    LinkKind,
    LinkTopology,
    Nics,
    NodeLink,
    NodeSheet,
    Origin,
    Ring,
)

KINDS = ("device", "node", "calibration")
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
MAX_DEVICES = 1024

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,63}", re.ASCII)
_NAME_EXAMPLE = "a name of letters, digits, dots, hyphens and underscores, such as H100-SXM"
_HEAD = ("kind", "name", "vendor")
_DEVICE = (
    "architecture",
    "memory",
    "memory_bandwidth",
    "peak",
    "launch",
    "efficiency",
    "context",
    "workspace",
    "allocator_reserve",
)
_NODE = ("device", "devices", "links")


@dataclass(frozen=True, slots=True)
class Head:
    """What a sheet is: its kind, its name and the other names it answers to."""

    kind: str
    name: str
    aliases: tuple[str, ...]


def read_head(document: Document) -> Head:
    """Kind, name and aliases of a sheet, before the rest of it is judged."""
    root = Cursor(document, document.data)
    data = document.data if isinstance(document.data, dict) else {}
    for key in ("kind", "name"):
        if key not in data:
            raise root.error(
                f"the sheet has no '{key}'",
                "A data sheet begins with kind: device or kind: node, and name: NAME. Keep other files elsewhere.",
            )
    kind = root.child("kind", data["kind"]).choice(KINDS)
    name = root.child("name", data["name"]).text(_NAME, _NAME_EXAMPLE)
    aliases = tuple(item.text(_NAME, _NAME_EXAMPLE) for item in root.child("aliases", data.get("aliases", [])).items())
    return Head(kind, name, aliases)


def read_device(document: Document, origin: Origin) -> DeviceSheet:
    """The device sheet in `document`; DataError where it is not one."""
    head = read_head(document)
    root = Cursor(document, document.data)
    entries = root.mapping((*_HEAD, *_DEVICE), ("aliases", "memory_usable"))
    peak = entries["peak"].mapping((), DTYPES)
    if not peak:
        raise entries["peak"].error("peak states no rate", "Write at least one of fp8, fp16, bf16, tf32, fp32, dense.")
    memory = entries["memory"].quantity(Dimension.BYTES)
    usable = entries["memory_usable"].quantity(Dimension.BYTES) if "memory_usable" in entries else None
    if usable is not None and usable.value > memory.value:
        raise entries["memory_usable"].error(
            f"memory_usable ({usable}) is more than memory ({memory})", "Write what the driver reports as total."
        )
    return DeviceSheet(
        name=head.name,
        aliases=head.aliases,
        vendor=entries["vendor"].text(),
        architecture=entries["architecture"].text(),
        memory=memory,
        memory_usable=usable,
        memory_bandwidth=entries["memory_bandwidth"].quantity(Dimension.BANDWIDTH),
        peak_rates=tuple((d, peak[d].quantity(Dimension.COMPUTE_RATE)) for d in DTYPES if d in peak),
        launch=entries["launch"].ranged(Dimension.TIME),
        efficiency=_efficiency(entries["efficiency"]),
        context=entries["context"].ranged(Dimension.BYTES),
        workspace=entries["workspace"].ranged(Dimension.BYTES),
        allocator_reserve=entries["allocator_reserve"].ranged(Dimension.FRACTION),
        origin=origin,
        sha256=document.sha256,
    )


_FITTED = {
    "gemm": Dimension.FRACTION,
    "memory": Dimension.FRACTION,
    "attention_unfused": Dimension.FRACTION,
    "attention_flash": Dimension.FRACTION,
    "launch": Dimension.TIME,
    "stall": Dimension.TIME,
    "interference": Dimension.FRACTION,
    "fabric": Dimension.FRACTION,
    "loss": Dimension.FRACTION,
}


def read_calibration(document: Document, origin: Origin) -> Calibration:
    """The fitted values of a software family on a device, as `planproof calibrate` writes them. DataError where it is none."""
    head = read_head(document)
    root = Cursor(document, document.data)
    entries = root.mapping(
        ("kind", "name", "device", "software", "left_out", "rows", "groups", "sources", "spans"),
        ("fitted", "held", "folds", "vendor", "files"),
    )
    if "fitted" not in entries and "held" not in entries:
        raise root.error("the sheet has neither 'fitted' nor 'held'", "Write it with planproof calibrate.")
    fitted = entries["fitted"].mapping(("gemm", "memory"), tuple(_FITTED)) if "fitted" in entries else {}
    values = {name: fitted[name].ranged(_FITTED[name]) for name in fitted}
    held = entries["held"].mapping((), ("workspace", "allocator_reserve")) if "held" in entries else {}
    needed = ("residual", "ratio_slope", "bias") if fitted else ()
    errors = entries["left_out"].mapping(needed, ("mean", "worst", "memory"))
    spans = []
    for name, item in entries["spans"].mapping((), ("hidden", "sequence", "tensor", "devices", "microbatch")).items():
        low, high = (one.number(0, 1e9) for one in item.items())
        spans.append((name, low, high))
    folds = [_fold(item) for item in entries["folds"].items()] if "folds" in entries else []
    return Calibration(
        name=head.name,
        device=entries["device"].text(_NAME, _NAME_EXAMPLE),
        software=entries["software"].text(_NAME, _NAME_EXAMPLE),
        gemm=values.get("gemm"),
        memory=values.get("memory"),
        attention_unfused=values.get("attention_unfused"),
        attention_flash=values.get("attention_flash"),
        launch=values.get("launch"),
        stall=values.get("stall"),
        interference=values.get("interference"),
        fabric=values.get("fabric"),
        loss=values.get("loss"),
        residual=errors["residual"].number(0, 5) if fitted else 0.0,
        ratio_slope=errors["ratio_slope"].number(0, 5) if fitted else 0.0,
        bias=errors["bias"].number(-1, 5) if fitted else 0.0,
        rows=entries["rows"].count(1, 10**6),
        groups=entries["groups"].count(1, 10**6),
        sources=tuple(item.text() for item in entries["sources"].items()),
        spans=tuple(spans),
        folds=tuple(folds),
        origin=origin,
        sha256=document.sha256,
        workspace=held["workspace"].ranged(Dimension.BYTES) if "workspace" in held else None,
        allocator_reserve=held["allocator_reserve"].ranged(Dimension.FRACTION) if "allocator_reserve" in held else None,
    )


def _fold(cursor: Cursor) -> tuple[str, tuple[tuple[str, float], ...]]:
    """`GROUP: gemm 0.78, memory 0.9`: the values, as fractions and seconds, without a group."""
    group, colon, rest = cursor.text().rpartition(": ")
    values = []
    for part in rest.split(", ") if colon else ():
        name, _, number = part.partition(" ")
        try:
            values.append((name, float(number)))
        except ValueError:
            values = []
            break
    if not values or not all(0 < value < 10 for _, value in values):
        raise cursor.error(f"{cursor.name} is {shown(cursor.value)}", "Write GROUP: PARAMETER VALUE, PARAMETER VALUE.")
    return group, tuple(values)


def _efficiency(cursor: Cursor) -> Efficiency:
    entries = cursor.mapping(("gemm", "gemm_half_dims", "memory", "attention_unfused", "attention_flash"))
    half = entries["gemm_half_dims"]
    dims = half.mapping(("side", "depth"), ("grade", "source", "date"))
    share = Dimension.FRACTION
    return Efficiency(
        gemm=entries["gemm"].ranged(share),
        gemm_half_dims=HalfDims(
            dims["side"].number(0, 65536), dims["depth"].number(0, 65536), half.provenance(dims, half)
        ),
        memory=entries["memory"].ranged(share),
        attention_unfused=entries["attention_unfused"].ranged(share),
        attention_flash=entries["attention_flash"].ranged(share),
    )


def read_node(document: Document, origin: Origin, device: Callable[[str], DeviceSheet]) -> NodeSheet:
    """The node sheet in `document`; `device` finds the sheet of its device by name. DataError where it is not one."""
    head = read_head(document)
    root = Cursor(document, document.data)
    entries = root.mapping((*_HEAD, *_NODE), ("aliases", "host_link", "nics"))
    devices = entries["devices"].count(1, MAX_DEVICES)
    links = tuple(_link(item, devices) for item in entries["links"].items())
    outer = links[-1].island if links else 1
    if outer != devices:
        raise entries["links"].error(
            f"the links join {outer} of the {devices} devices", f"End the list with the link whose island is {devices}."
        )
    if [link.island for link in links] != sorted(link.island for link in links):
        raise entries["links"].error("the links are not ordered by island", "List the smallest islands first.")
    try:
        sheet = device(entries["device"].text(_NAME, _NAME_EXAMPLE))
    except InputError as error:
        raise entries["device"].error(error.message, error.remedy or "") from None
    return NodeSheet(
        name=head.name,
        aliases=head.aliases,
        vendor=entries["vendor"].text(),
        device=sheet,
        devices=devices,
        links=links,
        host_link=entries["host_link"].quantity(Dimension.BANDWIDTH) if "host_link" in entries else None,
        nics=_nics(entries["nics"]) if "nics" in entries else None,
        origin=origin,
        sha256=document.sha256,
    )


def _nics(cursor: Cursor) -> Nics:
    entries = cursor.mapping(("count", "bandwidth"))
    return Nics(entries["count"].count(1, 1024), entries["bandwidth"].quantity(Dimension.BANDWIDTH))


def _link(cursor: Cursor, devices: int) -> NodeLink:
    entries = cursor.mapping(
        ("name", "kind", "topology", "island", "bandwidth", "latency"), ("lane", "pairs", "rings", "collectives")
    )
    island = entries["island"].count(2, max(2, devices))
    if devices % island:
        raise entries["island"].error(
            f"{entries['island'].name} is {island}, which does not divide the {devices} devices of the node",
            "Write a divisor of the number of devices.",
        )
    if ("lane" in entries) != ("pairs" in entries):
        raise cursor.error(
            f"{cursor.name} states only one of 'lane' and 'pairs'", "A mesh states both, others neither."
        )
    link = NodeLink(
        name=entries["name"].text(_NAME, _NAME_EXAMPLE),
        kind=LinkKind(entries["kind"].choice([kind.value for kind in LinkKind])),
        topology=LinkTopology(entries["topology"].choice([topology.value for topology in LinkTopology])),
        island=island,
        bandwidth=entries["bandwidth"].quantity(Dimension.BANDWIDTH),
        latency=entries["latency"].quantity(Dimension.TIME),
        lane=entries["lane"].quantity(Dimension.BANDWIDTH) if "lane" in entries else None,
        pairs=_pairs(entries["pairs"], island) if "pairs" in entries else (),
        rings=_rings(entries["rings"], island) if "rings" in entries else (),
        collectives=_curves(entries["collectives"], island) if "collectives" in entries else (),
    )
    _check_lanes(entries, link)
    return link


def _pairs(cursor: Cursor, island: int) -> tuple[tuple[int, int, int], ...]:
    pairs: dict[frozenset[int], tuple[int, int, int]] = {}
    for item in cursor.items():
        numbers = list(item.items())
        if len(numbers) != 3:
            raise item.error(f"{item.name} has {len(numbers)} numbers", "Write [device, device, lanes].")
        a, b = (number.count(0, island - 1) for number in numbers[:2])
        if a == b or frozenset((a, b)) in pairs:
            fault = "joins a device to itself" if a == b else "states a pair a second time"
            raise item.error(f"{item.name}, {[a, b]}, {fault}", "List every pair of two devices once.")
        pairs[frozenset((a, b))] = (a, b, numbers[2].count(1, 64))
    return tuple(pairs.values())


def _check_lanes(entries: dict[str, Cursor], link: NodeLink) -> None:
    """A mesh must join its island, and no device may have more in its lanes than the bandwidth stated for it."""
    if link.topology is LinkTopology.MESH and not link.pairs:
        raise entries["topology"].error("a mesh needs 'lane' and 'pairs'", "Write which devices have how many lanes.")
    if not link.pairs or link.lane is None:
        return
    reached, frontier = {0}, [0]
    while frontier:
        device = frontier.pop()
        for a, b, _ in link.pairs:
            if device in (a, b) and (other := a + b - device) not in reached:
                reached.add(other)
                frontier.append(other)
    if len(reached) != link.island:
        alone = min(set(range(link.island)) - reached)
        raise entries["pairs"].error(
            f"no lanes lead from device 0 to device {alone}", "Add the pairs that are missing."
        )
    for device in range(link.island):
        lanes = sum(n for a, b, n in link.pairs if device in (a, b))
        if lanes * link.lane.value > link.bandwidth.value:
            raise entries["pairs"].error(
                f"device {device} has {lanes} lanes of {link.lane}, more than the bandwidth of {link.bandwidth}",
                "Correct the lanes, the lane or the bandwidth.",
            )


def _rings(cursor: Cursor, island: int) -> tuple[Ring, ...]:
    rings: dict[int, Ring] = {}
    for item in cursor.items():
        entries = item.mapping(("devices", "bandwidth"))
        devices = entries["devices"].count(2, island)
        if devices in rings:
            raise item.error(f"{item.name} states a ring of {devices} devices again", "Keep one of the two.")
        rings[devices] = Ring(devices, entries["bandwidth"].quantity(Dimension.BANDWIDTH))
    return tuple(rings.values())


def _curves(cursor: Cursor, island: int) -> tuple[CollectiveCurve, ...]:
    """Curves under one source: their numbers come from one fit and share its evidence."""
    block = cursor.mapping(("curves",), ("grade", "source", "date"))
    evidence = cursor.provenance(block, cursor)
    curves: dict[tuple[str, int], CollectiveCurve] = {}
    for item in block["curves"].items():
        entries = item.mapping(("operation", "devices", "latency", "bus_bandwidth", "root_term"))
        operation, devices = entries["operation"].choice(OPERATIONS), entries["devices"].count(2, island)
        if (operation, devices) in curves:
            raise item.error(f"{item.name} states {operation} of {devices} devices again", "Keep one of the two.")
        curves[operation, devices] = CollectiveCurve(
            operation=operation,
            devices=devices,
            latency=entries["latency"].under(evidence, Dimension.TIME),
            bus_bandwidth=entries["bus_bandwidth"].under(evidence, Dimension.BANDWIDTH),
            root_term=entries["root_term"].under(evidence, Dimension.TIME),
        )
    return tuple(curves.values())
