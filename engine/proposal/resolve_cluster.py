"""The cluster of a proposal: nodes, links, fabric, contention and measured files, as far as they are stated.

A node type brings the links inside the node from its data sheet, never the fabric between nodes. Bandwidth on the fabric is
what one device gets when all devices of a node use it: cards x rate / devices / over-subscription x (1 - contention).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from ..cluster import Cluster, Collective, Nodes, Tier
from ..errors import InputError
from ..hardware import DeviceSheet, Library, LinkKind, LinkTopology, NodeLink, NodeSheet
from ..hardware import Origin as SheetOrigin
from ..quantity import Dimension, Quantity
from .case import ClusterCase, InputFile, LinkCase, NodeCase, TopologyFile
from .collector import Collector
from .resolve_fabric import LATENCY_WHY, FabricResolver
from .resolve_measured import measured_collectives, topology_file
from .schema import ClusterDescription, IntraNode
from .schema import Nodes as StatedNodes
from .stated import Stated

T = TypeVar("T")
DEFAULT_LINK_LATENCY = 1e-6


def _in_full(stated: ClusterDescription, collect: Collector) -> ClusterDescription:
    """The section with what its description in words says; the reader of words is imported only where there are any."""
    if stated.description is None:
        return stated
    from .resolve_description import in_full

    return in_full(stated, stated.description, collect)


class ClusterResolver:
    """Resolves one cluster section. `described` says what is known; `cluster` is None until it can be priced."""

    def __init__(self, stated: ClusterDescription | None, library: Library, collect: Collector) -> None:
        self.stated = _in_full(stated or ClusterDescription(), collect)
        self.library = library
        self.collect = collect
        self.topology: TopologyFile | None = None
        self.contention: float | None = None
        self.sheets: list[tuple[int, NodeSheet]] = []
        self.bare_device: str | None = None

    def resolve(self) -> tuple[ClusterCase, Cluster | None]:
        """What is described, and the priced form where nothing that it needs is missing."""
        nodes = [self._nodes(k, entry) for k, entry in enumerate(self.stated.nodes or [])]
        bare = self.stated.devices
        if not nodes and bare is None:
            self.collect.lacks(
                "devices", "/cluster/nodes", "'cluster.nodes': count and type", "the allocation: which nodes, how many"
            )
        if bare is not None and not nodes:
            self._bare_device(bare.type)
            self.collect.lacks(
                "topology",
                "/cluster/nodes",
                "'cluster.nodes': a device count says nothing of the links; state nodes and fabric",
                "the cluster's description, or nvidia-smi topo -m on one node",
            )
        self.topology = topology_file(self.stated.intra_node, nodes, self.collect)
        fabrics = FabricResolver(self.stated, self.collect)
        self.contention = fabrics.contention
        inner = self._inner_links(nodes)
        fabric, parts = fabrics.resolve(nodes)
        collectives = measured_collectives(self.stated.collectives or [], self.collect)
        counts = [node.count * node.devices for node in nodes if node.count and node.devices]
        devices = sum(counts) if nodes and len(counts) == len(nodes) else bare.count if bare else None
        if bare is not None and nodes and bare.count and devices and bare.count != devices:
            self.collect.contradicts(
                "device_count", "/cluster/devices/count", f"'cluster.devices' counts {bare.count}, the nodes hold {devices}"
            )
        links = (*inner, *fabric)
        case = ClusterCase(
            tuple(nodes), links, bare.count if bare else None, devices, parts, self.topology, self.bare_device
        )
        return case, self._cluster(case, nodes, devices, collectives)

    # ── nodes ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _nodes(self, k: int, entry: StatedNodes) -> NodeCase:
        path = "/cluster/nodes" if self.collect.single("/cluster", "nodes") else f"/cluster/nodes/{k}"
        collect = self.collect
        sheet = None
        name = entry.name or entry.type or entry.device or f"nodes {k}"
        if entry.count is None:
            collect.lacks("devices", f"{path}/count", "'cluster.nodes.count'", "the allocation")
        if entry.type is not None:
            sheet = self._at(f"{path}/type", lambda: self.library.node(entry.type or ""))
            self._used(sheet.origin.file, sheet.sha256, f"{path}/type")
            self._used(sheet.device.origin.file, sheet.device.sha256, f"{path}/type")
            if entry.devices is not None and entry.devices != sheet.devices:
                collect.contradicts(
                    "node_devices", f"{path}/devices", f"{entry.type} has {sheet.devices} devices, not {entry.devices}"
                )
        elif entry.device is not None and entry.devices is not None:
            device = self._at(f"{path}/device", lambda: self.library.device(entry.device or ""))
            self._used(device.origin.file, device.sha256, f"{path}/device")
            sheet = self._described_node(name, device, entry.devices)
        else:
            gap = "type" if entry.device is None and entry.devices is None else "device" if entry.device is None else "devices"
            collect.lacks(
                "node_type",
                f"{path}/{gap}",
                f"'cluster.nodes.{gap}': a node type of a data sheet, or 'device' and 'devices'",
                "planproof lists the types it knows; --hardware DIR adds your own",
            )
        sheet_memory = None
        memory = self._memory(entry.device_memory, sheet, path, name)
        if sheet is not None and memory is not None and entry.device_memory is not None:
            sheet_memory = sheet.device.memory
            sheet = replace(sheet, device=replace(sheet.device, memory=memory, memory_usable=memory))
        if sheet is not None:
            self.sheets.append((entry.count or 0, sheet))
            self._device_evidence(sheet.device, path)
        elif memory is None:
            self._lacks_memory(f"{path}/device_memory")
        nics = (sheet.nics.count, sheet.nics.bandwidth) if sheet and sheet.nics else None
        return NodeCase(
            name,
            path,
            entry.count,
            sheet.devices if sheet else entry.devices,
            sheet.device.name if sheet else entry.device,
            memory,
            nics,
            sheet,
            sheet_memory=sheet_memory,
        )

    def _memory(self, stated: Stated | None, sheet: NodeSheet | None, path: str, name: str) -> Quantity | None:
        if stated is not None:
            if stated.value < 2**20:
                raise InputError(
                    f"device_memory: {stated.text} is no device's memory",
                    place=self.collect.place(f"{path}/device_memory"),
                    code="input.range",
                    remedy="Write what one device has, such as 80 GiB.",
                )
            quantity = self.collect.quantity(stated, f"{path}/device_memory")
            return self.collect.witness("device_memory", f"memory of a device of {name}", f"{path}/device_memory", quantity)
        if sheet is None:
            return None
        return self.collect.witness("device_memory", f"memory of {sheet.device.name}", path, sheet.device.capacity)

    def _lacks_memory(self, path: str) -> None:
        self.collect.lacks(
            "device_memory", path, "the memory of a device: a known device type, or 'device_memory'", "the device's sheet"
        )

    def _bare_device(self, name: str | None) -> None:
        path = "/cluster/devices/type"
        if name is None:
            self._lacks_memory(path)
            return
        device = self._at(path, lambda: self.library.device(name))
        self._used(device.origin.file, device.sha256, path)
        self.bare_device = device.name
        self.collect.witness("device_memory", f"memory of {device.name}", path, device.capacity)

    def _device_evidence(self, device: DeviceSheet, path: str) -> None:
        witness = self.collect.witness
        for item, name, quantity in (
            ("memory_bandwidth", f"memory bandwidth of {device.name}", device.memory_bandwidth),
            ("compute_rate", f"GEMM efficiency of {device.name}", device.efficiency.gemm.quantity),
            ("compute_rate", f"memory-bound efficiency of {device.name}", device.efficiency.memory.quantity),
            ("launch_overhead", f"kernel launch of {device.name}", device.launch.quantity),
            ("framework_context", f"context of {device.name}", device.context.quantity),
            ("allocator_reserve", f"allocator reserve of {device.name}", device.allocator_reserve.quantity),
        ):
            witness(item, name, path, quantity)

    def _described_node(self, name: str, device: DeviceSheet, devices: int) -> NodeSheet:
        """A node given by its device and count: its links are those of `cluster.intra_node`, or none."""
        links: tuple[NodeLink, ...] = ()
        intra = self.stated.intra_node
        if intra is not None and intra.bandwidth is not None:
            kind = intra.kind if intra.kind in set(LinkKind) else "nvlink"
            links = (
                NodeLink(
                    name=str(kind),
                    kind=LinkKind(kind),
                    topology=LinkTopology.SWITCH,
                    island=intra.island or devices,
                    bandwidth=self._quantity(intra.bandwidth, "/cluster/intra_node/bandwidth", intra),
                    latency=self._link_latency(intra),
                ),
            )
        origin = SheetOrigin("described", self.collect.loaded.document.name)
        return NodeSheet(name, (), "", device, devices, links, None, None, origin, "")

    # ── links inside a node ─────────────────────────────────────────────────────────────────────────────────────────

    def _inner_links(self, nodes: list[NodeCase]) -> tuple[LinkCase, ...]:
        intra = self.stated.intra_node
        witness = self.collect.witness
        if not self.sheets:
            return self._stated_links(nodes)
        sheet = self._slowest_sheet()
        if sheet.devices == 1:
            return ()
        path = self._nodes_path()
        links: list[LinkCase] = []
        if intra is not None and intra.bandwidth is not None:
            bandwidth = self._quantity(intra.bandwidth, "/cluster/intra_node/bandwidth", intra)
            latency = self._link_latency(intra)
            kind = intra.kind if intra.kind in set(LinkKind) else (sheet.links[0].kind.value if sheet.links else "nvlink")
            span = min(intra.island or sheet.devices, sheet.devices)
            links.append(
                LinkCase(str(kind), "island", str(kind), span, "/cluster/intra_node", bandwidth, latency)
            )
            outer = [link for link in sheet.links if link.island > span]
        else:
            outer = list(sheet.links)
        for link in outer:
            span = min(link.island, sheet.devices)
            fast = link.kind is not LinkKind.PCIE
            if self.topology is not None and not links and fast and self.topology.largest_island < span:
                span = self.topology.largest_island
                if span < 2:
                    continue
            tier = "node" if links else "island"
            links.append(
                LinkCase(
                    link.name, tier, link.kind.value, span, path, link.ring(span), link.latency
                )
            )
        if not links:
            self._lacks_inner()
        if links and links[-1].span < sheet.devices:
            self.collect.lacks(
                "intra_node_links",
                "/cluster/intra_node",
                f"what joins the islands of {links[-1].span} devices inside a node of {sheet.devices}",
                "nvidia-smi topo -m on one node",
            )
        for here in links:
            if here.bandwidth is not None:
                witness("link_bandwidth", f"bandwidth of {here.name}, one device", here.path, here.bandwidth)
            if here.latency is not None:
                witness("link_latency", f"latency of {here.name}", here.path, here.latency)
        return tuple(links)

    def _stated_links(self, nodes: list[NodeCase]) -> tuple[LinkCase, ...]:
        """The links of nodes of which no sheet is known: as stated, over the island that is stated or the devices of a node."""
        intra = self.stated.intra_node
        span = intra.island if intra is not None and intra.island else next((one.devices for one in nodes if one.devices), None)
        if intra is None or intra.bandwidth is None or intra.kind not in set(LinkKind) or span is None:
            if nodes:
                self._lacks_inner()
            return ()
        kind, path = str(intra.kind), "/cluster/intra_node"
        bandwidth = self._quantity(intra.bandwidth, f"{path}/bandwidth", intra)
        latency = self._link_latency(intra)
        self.collect.witness("link_bandwidth", f"bandwidth of {kind}, one device", path, bandwidth)
        self.collect.witness("link_latency", f"latency of {kind}", path, latency)
        return (LinkCase(kind, "island", kind, span, path, bandwidth, latency),)

    def _lacks_inner(self) -> None:
        self.collect.lacks(
            "intra_node_links",
            "/cluster/intra_node",
            "the links inside a node: a known 'nodes.type', or 'cluster.intra_node' with kind and bandwidth",
            "nvidia-smi topo -m, or the node's data sheet",
        )

    def _link_latency(self, intra: IntraNode) -> Quantity:
        path = "/cluster/intra_node/latency"
        if intra.latency is not None:
            return self._quantity(intra.latency, path, intra)
        self.collect.assume("cluster.intra_node.latency", path, "1 us", LATENCY_WHY)
        return self.collect.default(DEFAULT_LINK_LATENCY, Dimension.TIME, path, LATENCY_WHY)

    # ── the priced form ─────────────────────────────────────────────────────────────────────────────────────────────

    def _cluster(
        self, case: ClusterCase, nodes: list[NodeCase], devices: int | None, collectives: tuple[Collective, ...]
    ) -> Cluster | None:
        if not nodes or devices is None or len(self.sheets) != len(nodes) or case.parts not in (1, None):
            return None
        if self.contention is None and sum(node.count or 0 for node in nodes) > 1:
            return None
        if any(link.bandwidth is None or link.latency is None for link in case.links):
            return None
        tiers = [
            Tier(link.name, link.medium, link.span, link.bandwidth, link.latency, link.path)
            for link in case.links
            if link.bandwidth is not None and link.latency is not None and link.tier != "fabric"
        ]
        per_node = min(sheet.devices for _, sheet in self.sheets)
        fabrics = [link for link in case.links if link.tier == "fabric" and link.bandwidth and link.latency]
        if per_node > 1 and (not tiers or tiers[-1].span < per_node):
            return None
        if sum(node.count or 0 for node in nodes) > 1:
            if not fabrics:
                return None
            slowest = min(fabrics, key=lambda link: link.bandwidth.value if link.bandwidth else 0.0)
            assert slowest.bandwidth is not None
            assert slowest.latency is not None
            # A fabric that states a rate and no cards uses those of the data sheet.
            cards = self.sheets[0][1].nics
            listed = cards.count if cards is not None else None
            tiers.append(
                Tier(
                    slowest.name,
                    slowest.medium,
                    devices,
                    slowest.bandwidth,
                    slowest.latency,
                    slowest.path,
                    slowest.reduces,
                    slowest.nics or listed,
                )
            )
        if devices == 1:
            device = self.sheets[0][1].device
            tiers = [Tier("device", "memory", 1, device.memory_bandwidth, device.launch.quantity, case.nodes[0].path)]
        if not tiers:
            return None
        groups = tuple(Nodes(count, sheet) for count, sheet in self.sheets)
        return Cluster(groups, tuple(tiers), self.contention or 0.0, collectives)

    # ── small things ────────────────────────────────────────────────────────────────────────────────────────────────

    def _slowest_sheet(self) -> NodeSheet:
        def rate(sheet: NodeSheet) -> float:
            return sheet.links[0].bandwidth.value if sheet.links else 0.0

        return min((sheet for _, sheet in self.sheets), key=lambda sheet: (sheet.devices, rate(sheet)))

    def _quantity(self, stated: Stated, path: str, section: IntraNode) -> Quantity:
        return self.collect.quantity(stated, path, grade=section.grade, source=section.source, date=section.date)

    def _nodes_path(self) -> str:
        return "/cluster/nodes" if self.collect.single("/cluster", "nodes") else "/cluster/nodes/0"

    def _used(self, file: str, sha256: str, path: str) -> None:
        if all(known.path != file for known in self.collect.files):
            self.collect.files.append(InputFile(file, sha256, "data sheet"))

    def _at(self, path: str, load: Callable[[], T]) -> T:
        try:
            return load()
        except InputError as error:
            raise InputError(
                error.message, place=self.collect.place(path), remedy=error.remedy, code="input.hardware"
            ) from None
