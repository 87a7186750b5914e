"""The cluster as a graph: devices, switches, cards, hosts and fabrics, and the links between them.

Vocabulary: a *vertex* has a `kind` (device, switch, nic, pcie, host, leaf, core) and a `multiplicity`, the number of vertices
alike that it stands for: one machine of a kind is drawn in full and stands for all, so a graph of 16,384 devices has a few
dozen vertices. An edge holds one `Link`. The *bisection* of a set of devices is the least bandwidth between two halves of it.

Built only where somebody asks for it; pricing goes by tiers. Knows no plan, file or format.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from math import fsum

import networkx as nx

from ..errors import InputError
from ..frozen import dataclass
from .measured import lane_rate, nearest_nics, nic_loads, pcie_rate, switched_lanes, xgmi_rate
from .parts import FAST, Fabric, Inner, Machine, Measured, Parts

#: Devices of a mesh up to which every way to halve it is tried: 6,435 for 16.
_HALVED_AT_MOST = 16
#: Bounds of a graph: kinds of node, and devices and cards of one node of each.
MOST_KINDS = 64
MOST_DRAWN = 10_000


@dataclass(frozen=True, slots=True)
class Link:
    """An edge. `bandwidth` in bytes/s per direction and `latency` in seconds are None where nobody states them.

    `sharing`: the devices that send through it at once. `word`: what the tool that printed it calls the path.
    """

    kind: str
    bandwidth: float | None
    latency: float | None
    sharing: int = 1
    oversubscription: float = 1.0
    contention: float = 0.0
    word: str = ""


@dataclass(frozen=True, slots=True)
class Vertex:
    """A vertex by its name in the graph. `machine` is the index of its machine's kind; None outside machines."""

    name: str
    kind: str
    label: str
    multiplicity: int
    machine: int | None = None
    index: int = 0


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The slowest link that a group must pass: its ends by label, and the link."""

    first: str
    second: str
    link: Link


class ClusterGraph:
    """The graph of `parts`. Raises InputError for a link of a device to itself, and for more kinds of node than a graph holds."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.graph: nx.Graph[str] = nx.Graph()
        self._vertices: dict[str, Vertex] = {}
        drawn = sum(machine.devices + (machine.nics or 0) for machine in parts.machines)
        if drawn > MOST_DRAWN or len(parts.machines) > MOST_KINDS:
            raise InputError(
                f"the cluster has {len(parts.machines)} kinds of node with {drawn} devices and cards between them",
                code="input.topology",
                remedy=f"A graph holds {MOST_KINDS} kinds and {MOST_DRAWN:,} devices and cards: list nodes alike as one kind.",
            )
        for index, machine in enumerate(parts.machines):
            self._machine(index, machine)
        for index, fabric in enumerate(parts.fabrics):
            self._fabric(index, fabric)

    # Building.

    def _add(self, vertex: Vertex) -> str:
        self._vertices[vertex.name] = vertex
        self.graph.add_node(vertex.name)
        return vertex.name

    def _join(self, first: str, second: str, link: Link) -> None:
        if first == second:
            raise InputError(
                f"'{self._vertices[first].label}' is linked to itself",
                code="input.topology",
                remedy="A link joins two different devices; correct the pairs of the data sheet or the topology file.",
            )
        known = self.link(first, second)
        if known is None or (link.bandwidth or 0.0) > (known.bandwidth or 0.0):
            self.graph.add_edge(first, second, link=link)

    def _machine(self, index: int, machine: Machine) -> None:
        measured = machine.measured
        names = measured.devices if measured and len(measured.devices) == machine.devices else None
        for k in range(machine.devices):
            label = names[k] if names else f"GPU{k}"
            self._add(Vertex(device_name(index, k), "device", label, machine.count, index, k))
        host = self._add(Vertex(f"m{index}.host", "host", "host", machine.count, index))
        if measured is not None and names is not None:
            self._measured(index, machine, measured)
            return
        for level, inner in enumerate(machine.inner):
            self._inner(index, machine, level, inner)
        self._stated_nics(index, machine)
        for k in range(machine.devices):
            if self.link(device_name(index, k), host) is None:
                self._join(device_name(index, k), host, Link("pcie", pcie_rate(machine), None))

    def _inner(self, index: int, machine: Machine, level: int, inner: Inner) -> None:
        rate = inner.bandwidth.value if inner.bandwidth else None
        latency = inner.latency.value if inner.latency else None
        if inner.pairs and inner.lane is not None:
            for first, second, lanes in inner.pairs:
                link = Link(inner.kind, lanes * inner.lane.value, latency, word=f"{lanes} lanes")
                self._join(device_name(index, first), device_name(index, second), link)
            return
        link = Link(inner.kind, rate, latency)
        for start in range(0, machine.devices, inner.span):
            members = [device_name(index, k) for k in range(start, min(start + inner.span, machine.devices))]
            if inner.kind == "pcie" and inner.span == machine.devices:
                for member in members:
                    self._join(member, f"m{index}.host", link)
            elif len(members) == 2:
                self._join(members[0], members[1], link)
            elif len(members) > 2:
                name = f"m{index}.switch{level}.{start // inner.span}"
                label = f"{inner.name} {start // inner.span}" if inner.span < machine.devices else inner.name
                self._add(Vertex(name, "switch", label, machine.count, index, start // inner.span))
                for member in members:
                    self._join(member, name, link)

    def _stated_nics(self, index: int, machine: Machine) -> None:
        """Cards in even parts: with 8 devices and 4 cards, devices 0 and 1 share card 0."""
        count = machine.nics or 0
        rate = machine.nic_rate.value if machine.nic_rate else None
        for k in range(count):
            nic = self._add(Vertex(nic_name(index, k), "nic", f"NIC{k}", machine.count, index, k))
            if count <= machine.devices:
                near = [d for d in range(machine.devices) if d * count // machine.devices == k]
            else:
                near = [k * machine.devices // count]
            for device in near:
                self._join(device_name(index, device), nic, Link("nic", rate, None, sharing=max(1, len(near))))

    def _measured(self, index: int, machine: Machine, measured: Measured) -> None:
        """The printed paths. All pairs with more NVLinks than a device has hang on a switch; others are lanes."""
        lane = lane_rate(machine, measured)
        names = {name: device_name(index, k) for k, name in enumerate(measured.devices)}
        fast = next((one for one in machine.inner if one.kind in FAST), None)
        latency = fast.latency.value if fast and fast.latency else None
        for k, island in enumerate(_islands_of(measured)):
            each = switched_lanes(measured, island)
            if each is not None:
                name = self._add(Vertex(f"m{index}.switch0.{k}", "switch", f"NVSwitch {k}", machine.count, index, k))
                for device in island:
                    own = max(path.lanes or 0 for pair, path in measured.paths.items() if pair[0] == device and pair[1] in island)
                    link = Link("nvswitch", lane * own if lane else None, latency, word=f"NV{own}")
                    self._join(names[device], name, link)
                continue
            for first, second in combinations(island, 2):
                path = measured.paths.get((first, second))
                if path is not None and (path.lanes or path.word == "XGMI"):
                    rate = lane * path.lanes if lane and path.lanes else xgmi_rate(machine, measured, island)
                    kind = "nvlink" if path.lanes else "xgmi"
                    self._join(names[first], names[second], Link(kind, rate, latency, word=path.word))
        for k, nic in enumerate(measured.nics):
            names[nic] = self._add(Vertex(nic_name(index, k), "nic", nic, machine.count, index, k))
        rate = machine.nic_rate.value if machine.nic_rate else None
        loads = nic_loads(measured)
        for device, near in nearest_nics(measured).items():
            for nic in near:
                word = measured.paths[device, nic].word
                self._join(names[device], names[nic], Link("nic", rate, None, sharing=max(1, loads[nic]), word=word))
        self._tree(index, machine, measured, names)

    def _tree(self, index: int, machine: Machine, measured: Measured, names: dict[str, str]) -> None:
        """PCI Express from the words: what PIX and PXB join hangs on a switch, what PHB does on a bridge, NODE on a NUMA node.

        Between devices that NVLink joins the tool prints no PCI Express path; the cards beside them show it.
        """
        below = dict(names)
        words: tuple[str, ...] = ()
        for kind, more in (("PCIe switch", ("PIX", "PXB")), ("host bridge", ("PHB",)), ("NUMA node", ("NODE",))):
            words += more
            k = 0
            for part in _parts(measured, words):
                tops = {below[name] for name in part}
                if len(tops) == 1:
                    continue
                name = f"m{index}.{kind.replace(' ', '')}{k}"
                top = self._add(Vertex(name, "pcie", f"{kind} {k}", machine.count, index, k))
                k += 1
                for child in sorted(tops):
                    self._join(child, top, Link("pcie", pcie_rate(machine), None, word=more[-1]))
                below.update(dict.fromkeys(part, top))
        for top in sorted(set(below.values())):
            self._join(top, f"m{index}.host", Link("pcie", pcie_rate(machine), None, word="SYS"))

    def _fabric(self, index: int, fabric: Fabric) -> None:
        """Cards to leaves, leaves to a core: a leaf a rail where the layout is of rails, otherwise one for each kind of node.

        What a leaf sends upwards is what its cards send, over the over-subscription, less what others take.
        """
        joined = [k for k, machine in enumerate(self.parts.machines) if not fabric.joins or machine.name in fabric.joins]
        nodes = sum(self.parts.machines[k].count for k in joined)
        if not joined:
            return
        core = self._add(Vertex(f"f{index}.core", "core", fabric.name, 1))
        latency = fabric.latency.value if fabric.latency else None
        rails = rails_of(self.parts, fabric)
        cards = {k: self._used_nics(k) for k in joined}
        for rail in range(max(1, rails)):
            leaf = self._add(Vertex(f"f{index}.leaf{rail}", "leaf", f"rail {rail}" if rails else "leaf switches", 1, index=rail))
            total: float | None = 0.0
            for k in joined:
                machine = self.parts.machines[k]
                used = cards[k][rail::rails] if rails else cards[k]
                rate = machine.nic_rate.value if machine.nic_rate else None
                whole = fabric.rate.value * machine.devices * fabric.oversubscription if fabric.rate else None
                for vertex in used:
                    self._join(vertex.name, leaf, Link(fabric.kind, rate, latency))
                if not used:
                    uncontended = whole / (1 - fabric.contention) if whole is not None and fabric.contention < 1 else whole
                    self._join(f"m{k}.host", leaf, Link(fabric.kind, uncontended, latency, sharing=machine.devices))
                each = rate * len(used) if rate is not None and used else whole
                total = None if total is None or each is None else total + each * machine.count
            up = None if total is None else total / fabric.oversubscription * (1 - fabric.contention)
            self._join(leaf, core, Link(fabric.kind, up, None, nodes, fabric.oversubscription, fabric.contention))

    def _used_nics(self, machine: int) -> list[Vertex]:
        """The cards that the fabric counts: those that devices are nearest to first, as others serve storage."""
        near = self.devices_of_nic(machine)
        cards = sorted(self.of_kind("nic", machine), key=lambda card: (not near[card.label], card.index))
        return sorted(cards[: self.parts.machines[machine].nics], key=lambda card: card.index)

    # Asking.

    def vertices(self) -> Iterator[Vertex]:
        """Every vertex, in the order in which they were added."""
        yield from self._vertices.values()

    def of_kind(self, kind: str, machine: int | None = None) -> list[Vertex]:
        """The vertices of one kind, of one kind of machine where `machine` says which."""
        return [v for v in self._vertices.values() if v.kind == kind and machine in (None, v.machine)]

    def link(self, first: str, second: str) -> Link | None:
        """The link between two vertices, if there is one."""
        if not self.graph.has_edge(first, second):
            return None
        found: Link = self.graph.edges[first, second]["link"]
        return found

    def links(self) -> Iterator[tuple[Vertex, Vertex, Link]]:
        """Every edge with its ends."""
        for first, second in self.graph.edges():
            link = self.link(first, second)
            assert link is not None
            yield self._vertices[first], self._vertices[second], link

    def count(self, kind: str) -> int:
        """How many of a kind there are in the cluster, those that a vertex stands for included."""
        return sum(vertex.multiplicity for vertex in self.of_kind(kind))

    def islands(self, machine: int) -> tuple[tuple[int, ...], ...]:
        """Devices of a machine that NVLink or XGMI joins, or its PCI Express where it has neither: index by index."""
        devices = [vertex.name for vertex in self.of_kind("device", machine)]
        kinds = {link.kind for a, _, link in self.links() if a.machine == machine and link.kind in FAST} or {"pcie"}
        inside: nx.Graph[str] = nx.Graph()
        inside.add_nodes_from(devices)
        inside.add_edges_from((a.name, b.name) for a, b, link in self.links() if link.kind in kinds and a.machine == machine)
        groups = [
            sorted(self._vertices[name].index for name in part if name in devices) for part in nx.connected_components(inside)
        ]
        return tuple(tuple(group) for group in sorted(group for group in groups if group))

    def devices_of_nic(self, machine: int) -> dict[str, tuple[str, ...]]:
        """By card: the devices for which no card is nearer."""
        found = {}
        for nic in self.of_kind("nic", machine):
            ends = [self._vertices[other] for other in self.graph.adj[nic.name]]
            found[nic.label] = tuple(one.label for one in sorted(ends, key=lambda v: v.index) if one.kind == "device")
        return found

    def connected(self) -> bool:
        """Whether links lead from every device to every other."""
        return bool(self.graph) and nx.is_connected(self.graph)

    def node_bisection(self, machine: int) -> float | None:
        """Bytes/s per direction between two halves of one machine's devices; None where a rate is not stated.

        Behind a switch or a host every device can send at its own rate, so half of the devices send. Of a mesh it is the
        cheapest of all ways to halve it, tried one by one up to 16 devices.
        """
        found = self.parts.machines[machine]
        devices = self.of_kind("device", machine)
        if len(devices) < 2:
            return None
        direct = [
            (a.index, b.index, link.bandwidth)
            for a, b, link in self.links()
            if a.kind == b.kind == "device" and a.machine == machine and link.kind in FAST
        ]
        switched = any(vertex.kind == "switch" for vertex in self._vertices.values() if vertex.machine == machine)
        if direct and not switched and len(self.islands(machine)) == 1:
            if any(rate is None for _, _, rate in direct) or len(devices) > _HALVED_AT_MOST:
                return None
            lanes = [(a, b, rate) for a, b, rate in direct if rate is not None]
            return min(_cut(lanes, {0, *half}) for half in _halves(len(devices)))
        islands = self.islands(machine)
        if len(islands) == 1:
            rates = [link.bandwidth for a, _, link in self.links() if a.machine == machine and link.kind not in ("nic",)
                     and a.kind == "device" and (link.kind in FAST or not _fast(found))]  # fmt: skip
            known = [rate for rate in rates if rate is not None]
            return min(known) * (len(devices) // 2) if known and len(known) == len(rates) else None
        outer = found.inner[-1].bandwidth if found.inner and found.inner[-1].span == found.devices else None
        return outer.value * (len(devices) // 2) if outer is not None else None

    def bisection(self, fabric: int) -> float | None:
        """Bytes/s per direction between two halves of the machines that a fabric joins; None where a rate is not stated.

        What the core carries one way: half of what all leaves send up, whole machines on either side.
        """
        ups = [link.bandwidth for a, b, link in self.links() if {a.kind, b.kind} == {"leaf", "core"} and _of(fabric, a, b)]
        fabric_of = self.parts.fabrics[fabric]
        joined = [m for m in self.parts.machines if not fabric_of.joins or m.name in fabric_of.joins]
        nodes = sum(machine.count for machine in joined)
        if not ups or nodes < 2 or any(rate is None for rate in ups):
            return None
        return fsum(rate for rate in ups if rate is not None) * (nodes // 2) / nodes

    def slowest_link(self, devices: Sequence[int]) -> Bottleneck | None:
        """The slowest link that a group of devices (numbered over the cluster) must pass, going by the widest paths.

        None for a group of one. Raises InputError where a device is not in the cluster, or no link with a stated rate leads
        to it. Two devices of machines alike lie in one drawn machine; they leave it by their cards and come back.
        """
        placed = [self._place(device) for device in devices]
        if len(set(placed)) < 2:
            return None
        widest = nx.maximum_spanning_tree(self._rated(), weight="rate")
        best: Bottleneck | None = None
        start = placed[0]
        for kind, node, index in placed[1:]:
            away = (kind, node) != start[:2]
            for bottleneck in self._between(widest, device_name(start[0], start[2]), device_name(kind, index), away):
                if best is None or (bottleneck.link.bandwidth or 0.0) < (best.link.bandwidth or 0.0):
                    best = bottleneck
        return best

    def _rated(self) -> nx.Graph[str]:
        rated: nx.Graph[str] = nx.Graph()
        rated.add_nodes_from(self.graph)
        for a, b, link in self.links():
            if link.bandwidth is not None:
                rated.add_edge(a.name, b.name, rate=link.bandwidth)
        return rated

    def _between(self, widest: nx.Graph[str], first: str, second: str, away: bool) -> Iterator[Bottleneck]:
        """The slowest link between two devices; by way of a core where they are of different machines."""
        cores = [vertex.name for vertex in self.of_kind("core")]
        ways = [(first, core) for core in cores] + [(core, second) for core in cores] if away else [(first, second)]
        found = []
        for a, b in ways:
            if a != b and nx.has_path(widest, a, b):
                route = nx.shortest_path(widest, a, b)
                edges = list(pairwise(route))
                found.append(min(edges, key=lambda edge: self._rate(*edge)))
        if (away and (not cores or not found)) or (not away and first != second and not found):
            names = f"'{self._vertices[first].label}' to '{self._vertices[second].label}'"
            raise InputError(
                f"no link with a stated rate leads from {names}" + (" of another node" if away else ""),
                code="input.topology",
                remedy="State the fabric between the nodes, and the links inside one.",
            )
        for a, b in found:
            link = self.link(a, b)
            assert link is not None
            yield Bottleneck(self._vertices[a].label, self._vertices[b].label, link)

    def _rate(self, first: str, second: str) -> float:
        link = self.link(first, second)
        assert link is not None
        return link.bandwidth or 0.0

    def _place(self, device: int) -> tuple[int, int, int]:
        """(kind of machine, which of them, device in it) of a device numbered over the cluster."""
        first = 0
        for kind, machine in enumerate(self.parts.machines):
            here = machine.count * machine.devices
            if first <= device < first + here:
                node, index = divmod(device - first, machine.devices)
                return kind, node, index
            first += here
        raise InputError(
            f"there is no device {device}: the cluster has {first}, numbered from 0",
            code="input.placement",
            remedy="A group may not be larger than the cluster.",
        )


def device_name(machine: int, index: int) -> str:
    """The vertex of a device."""
    return f"m{machine}.gpu{index}"


def nic_name(machine: int, index: int) -> str:
    """The vertex of a card."""
    return f"m{machine}.nic{index}"


def rails_of(parts: Parts, fabric: Fabric) -> int:
    """Rails of a fabric: as many as a machine has cards where its layout is of rails, else 0."""
    counts = [m.nics for m in parts.machines if m.nics and (not fabric.joins or m.name in fabric.joins)]
    return min(counts) if fabric.layout == "rail_optimised" and counts else 0


def _islands_of(measured: Measured) -> list[list[str]]:
    fast: nx.Graph[str] = nx.Graph()
    fast.add_nodes_from(measured.devices)
    fast.add_edges_from(
        (a, b) for (a, b), path in measured.paths.items()
        if (path.lanes or path.word == "XGMI") and a in measured.devices and b in measured.devices
    )  # fmt: skip
    order = {name: k for k, name in enumerate(measured.devices)}
    return sorted(
        (sorted(part, key=order.__getitem__) for part in nx.connected_components(fast)), key=lambda part: order[part[0]]
    )


def _parts(measured: Measured, words: Sequence[str]) -> list[list[str]]:
    """Devices and cards of a machine in parts that paths of these words join, parts of one left out."""
    near: nx.Graph[str] = nx.Graph()
    near.add_edges_from(pair for pair, path in measured.paths.items() if path.word in words)
    order = {name: k for k, name in enumerate((*measured.devices, *measured.nics))}
    found = (sorted((name for name in part if name in order), key=order.__getitem__) for part in nx.connected_components(near))
    return sorted((part for part in found if len(part) > 1), key=lambda part: order[part[0]])


def _fast(machine: Machine) -> bool:
    return any(inner.kind in FAST for inner in machine.inner)


def _halves(devices: int) -> Iterator[tuple[int, ...]]:
    """What joins device 0 in one half, every way once."""
    half = devices // 2
    yield from combinations(range(1, devices), half - 1)
    if devices % 2:
        yield from combinations(range(1, devices), half)


def _cut(lanes: Sequence[tuple[int, int, float]], half: set[int]) -> float:
    return fsum(rate for a, b, rate in lanes if (a in half) != (b in half))


def _of(fabric: int, first: Vertex, second: Vertex) -> bool:
    return first.name.startswith(f"f{fabric}.") and second.name.startswith(f"f{fabric}.")


__all__ = ["Bottleneck", "ClusterGraph", "Link", "Vertex", "rails_of"]
