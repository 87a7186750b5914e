"""The cluster of a proposal: nodes, links, fabric, contention and measured files, as far as they are stated.

A node type brings the links inside the node from its data sheet, never the fabric between nodes. Bandwidth on the fabric is
what one device gets when all devices of a node use it: cards x rate / devices / over-subscription x (1 - contention).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import TypeVar

from ..cluster import Cluster, Collective, Nodes, Tier
from ..errors import InputError
from ..hardware import DeviceSheet, Library, LinkKind, LinkTopology, NodeLink, NodeSheet
from ..hardware import Origin as SheetOrigin
from ..importers import nccl_tests, nvidia_topo, rocm_smi, torch_allreduce
from ..quantity import Dimension, Grade, Provenance, Quantity
from .case import ClusterCase, InputFile, LinkCase, NodeCase, TopologyFile
from .collector import Collector
from .schema import ClusterDescription, CollectiveLog, Contention, Fabric, IntraNode
from .schema import Nodes as StatedNodes
from .stated import Stated

T = TypeVar("T")
DEFAULT_LINK_LATENCY = 2e-6
DEFAULT_FABRIC_LATENCY = 5e-6
LATENCY_WHY = "documented default of an unstated latency; see docs/proposal.md"


class ClusterResolver:
    """Resolves one cluster section. `described` says what is known; `cluster` is None until it can be priced."""

    def __init__(self, stated: ClusterDescription | None, library: Library, collect: Collector) -> None:
        self.stated = stated or ClusterDescription()
        self.library = library
        self.collect = collect
        self.topology: TopologyFile | None = None
        self.contention: float | None = None
        self.sheets: list[tuple[int, NodeSheet]] = []

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
        self._topology_file(nodes)
        self.contention = self._contention(self.stated.contention)
        inner = self._inner_links(nodes)
        fabric, parts = self._fabrics(nodes)
        collectives = self._collectives(self.stated.collectives or [])
        counts = [node.count * node.devices for node in nodes if node.count and node.devices]
        devices = sum(counts) if nodes and len(counts) == len(nodes) else bare.count if bare else None
        if bare is not None and nodes and bare.count and devices and bare.count != devices:
            self.collect.contradicts(
                "device_count", "/cluster/devices/count", f"'cluster.devices' counts {bare.count}, the nodes hold {devices}"
            )
        links = (*inner, *fabric)
        case = ClusterCase(
            tuple(nodes), links, bare.count if bare else None, devices, parts, self.topology
        )
        return case, self._cluster(case, nodes, devices, collectives)

    # ── nodes ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _nodes(self, k: int, entry: StatedNodes) -> NodeCase:
        path = "/cluster/nodes" if self._single("nodes") else f"/cluster/nodes/{k}"
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
        memory = self._memory(entry.device_memory, sheet, path, name)
        if sheet is not None and entry.device_memory is not None:
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
        )

    def _memory(self, stated: Stated | None, sheet: NodeSheet | None, path: str, name: str) -> Quantity | None:
        if stated is not None:
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
            if nodes:
                self._lacks_inner()
            return ()
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
            if self.topology is not None and not links and self.topology.largest_island < span:
                span = max(1, self.topology.largest_island)
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
        for link in links:
            if link.bandwidth is not None:
                witness("link_bandwidth", f"bandwidth of {link.name}, one device", link.path, link.bandwidth)
            if link.latency is not None:
                witness("link_latency", f"latency of {link.name}", link.path, link.latency)
        return tuple(links)

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
        self.collect.assume("cluster.intra_node.latency", path, "2 us", LATENCY_WHY)
        return self.collect.default(DEFAULT_LINK_LATENCY, Dimension.TIME, path, LATENCY_WHY)

    def _topology_file(self, nodes: list[NodeCase]) -> None:
        intra = self.stated.intra_node
        if intra is None or intra.file is None:
            return
        path = "/cluster/intra_node/file"
        if intra.kind not in ("nvidia-topo", "rocm-smi"):
            self.collect.lacks("topology", "/cluster/intra_node/kind", "'kind' of the file: nvidia-topo or rocm-smi", "its maker")
            return
        raw, name, digest = self.collect.read(intra.file, path, intra.kind)
        reader = nvidia_topo.read if intra.kind == "nvidia-topo" else rocm_smi.read
        matrix = reader(raw.decode("utf-8", "replace"), name)
        groups = nvidia_topo.islands(matrix)
        self.topology = TopologyFile(
            path=path,
            devices=len(matrix.devices),
            islands=len(groups),
            largest_island=max((len(group) for group in groups), default=1),
            gaps=len(matrix.missing),
            sha256=digest,
        )
        node_devices = next((node.devices for node in nodes if node.devices), None)
        if node_devices is not None and node_devices != len(matrix.devices):
            self.collect.contradicts(
                "topology_devices",
                path,
                f"{name} names {len(matrix.devices)} devices, a node as described has {node_devices}",
            )

    # ── the fabric ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _fabrics(self, nodes: list[NodeCase]) -> tuple[tuple[LinkCase, ...], int | None]:
        fabrics = self.stated.fabric or []
        count = sum(node.count or 0 for node in nodes)
        if count <= 1 and not fabrics:
            return (), 1 if nodes else None
        if not fabrics:
            if nodes:
                self.collect.lacks(
                    "fabric",
                    "/cluster/fabric",
                    "'cluster.fabric': a node type states the links inside a node, never the fabric between nodes",
                    "the network's description: cards a node, their rate, over-subscription",
                )
            return (), len(nodes) if len(nodes) > 1 else None
        parts = self._parts(nodes, fabrics)
        return tuple(self._fabric(k, fabric, nodes) for k, fabric in enumerate(fabrics)), parts

    def _parts(self, nodes: list[NodeCase], fabrics: list[Fabric]) -> int:
        """How many parts no stated fabric joins: union-find over the named kinds of node."""
        root = {node.name: node.name for node in nodes}

        def find(name: str) -> str:
            while root[name] != name:
                name = root[name]
            return name

        for k, fabric in enumerate(fabrics):
            path = self._fabric_path(k)
            joined = list(root) if fabric.connects is None else [name for name in fabric.connects if name in root]
            for j, name in enumerate(fabric.connects or []):
                if name not in root:
                    raise InputError(
                        f"'connects' names '{name}'; the nodes are called {', '.join(root) or 'nothing'}",
                        place=self.collect.place(f"{path}/connects/{j}"),
                        code="input.reference",
                        remedy="Give the nodes names with 'name:' and use them here.",
                    )
            for name in joined[1:]:
                root[find(name)] = find(joined[0])
        alone = {name: find(name) for name in root}
        several = [node for node in nodes if (node.count or 0) > 1]
        covered = {name for fabric in fabrics for name in (fabric.connects or list(root))}
        split = sum((node.count or 1) - 1 for node in several if node.name not in covered)
        return len(set(alone.values())) + split

    def _fabric(self, k: int, fabric: Fabric, nodes: list[NodeCase]) -> LinkCase:
        path = self._fabric_path(k)
        collect = self.collect
        name = fabric.name or fabric.kind or "fabric"
        per_node = next((node.devices for node in nodes if node.devices), None)
        devices = sum((node.count or 0) * (node.devices or 0) for node in nodes)
        rate, nic_rate, nics = self._fabric_rate(fabric, path, per_node)
        if rate is None:
            collect.lacks(
                "fabric_bandwidth",
                f"{path}/bandwidth",
                "the fabric's bandwidth: 'nics' with count and bandwidth, or 'bandwidth' with 'per'",
                "the network's description, or an all-reduce measured over two nodes",
            )
        else:
            collect.witness("link_bandwidth", f"bandwidth of {name}, one device", path, rate)
        if fabric.latency is not None:
            latency = self._quantity(fabric.latency, f"{path}/latency", fabric)
        else:
            collect.assume("cluster.fabric.latency", f"{path}/latency", "5 us", LATENCY_WHY)
            latency = collect.default(DEFAULT_FABRIC_LATENCY, Dimension.TIME, f"{path}/latency", LATENCY_WHY)
        collect.witness("link_latency", f"latency of {name}", f"{path}/latency", latency)
        return LinkCase(name, "fabric", fabric.kind or "fabric", devices, path, rate, latency, nics, nic_rate)

    def _fabric_rate(
        self, fabric: Fabric, path: str, per_node: int | None
    ) -> tuple[Quantity | None, Quantity | None, int | None]:
        """Bytes/s of one device on the fabric, of one card, and cards a node."""
        nics, card = None, None
        if fabric.nics is not None and fabric.nics.bandwidth is not None:
            card = self._quantity(fabric.nics.bandwidth, f"{path}/nics/bandwidth", fabric)
            nics = fabric.nics.count
        if fabric.bandwidth is not None:
            whole = self._quantity(fabric.bandwidth, f"{path}/bandwidth", fabric)
            if fabric.per is None:
                self.collect.assume("cluster.fabric.per", f"{path}/per", "node", "documented default")
            share = 1 if fabric.per == "device" else per_node
            total: float | None = whole.value / share if share else None
            base: Quantity = whole
            if card is not None and nics is not None and per_node is not None and total is not None:
                cards = card.value * nics / per_node
                if abs(cards - total) > 0.02 * max(cards, total):
                    self.collect.contradicts(
                        "fabric_twice",
                        f"{path}/bandwidth",
                        f"'nics' give {cards / 1e9:g} GB/s a device, 'bandwidth' gives {total / 1e9:g} GB/s",
                    )
        elif card is not None:
            if nics is None:
                self.collect.lacks("fabric_bandwidth", f"{path}/nics/count", "'fabric.nics.count'", "the node's data sheet")
                return None, card, None
            total, base = (card.value * nics / per_node if per_node else None), card
        else:
            return None, None, nics
        if total is None:
            return None, card, nics
        if fabric.oversubscription is None:
            self.collect.assume("cluster.fabric.oversubscription", f"{path}/oversubscription", "1", "documented default")
        total = total / (fabric.oversubscription or 1.0) * (1.0 - (self.contention or 0.0))
        return Quantity(total, Dimension.BANDWIDTH, base.provenance), card, nics

    def _contention(self, stated: str | Contention | None) -> float | None:
        if stated is None:
            self.collect.lacks(
                "contention",
                "/cluster/contention",
                "'cluster.contention': none, or who shares the fabric and how much of it",
                "the cluster's operator",
            )
            return None
        if isinstance(stated, str):
            return 0.0
        if stated.share is None:
            self.collect.lacks(
                "contention", "/cluster/contention/share", "'cluster.contention.share': 5 %, say", "the cluster's operator"
            )
            return None
        quantity = self.collect.quantity(stated.share, "/cluster/contention/share")
        self.collect.witness("contention", "share of the fabric that others take", "/cluster/contention/share", quantity)
        return float(quantity.value)

    # ── measured collectives ────────────────────────────────────────────────────────────────────────────────────────

    def _collectives(self, logs: list[CollectiveLog]) -> tuple[Collective, ...]:
        found: list[Collective] = []
        for k, log in enumerate(logs):
            path = f"/cluster/collectives/{k}"
            if log.file is None or log.kind is None:
                gap = "file" if log.file is None else "kind"
                self.collect.lacks("collective_curves", f"{path}/{gap}", f"'cluster.collectives.{gap}'", "nccl-tests")
                continue
            raw, name, _ = self.collect.read(log.file, f"{path}/file", log.kind)
            text = raw.decode("utf-8", "replace")
            read_all = nccl_tests.read_all if log.kind == "nccl-tests" else torch_allreduce.read_all
            for run in read_all(text, name):
                collective = self._collective(run, f"{path}/file", name, log.date)
                if collective is not None:
                    found.append(collective)
        if not found:
            self.collect.lacks(
                "collective_curves",
                "/cluster/collectives",
                "measured collectives ('cluster.collectives')",
                "nccl-tests: all_reduce_perf -b 1M -e 4G -f 2 over the groups that the plan uses",
            )
        return tuple(found)

    def _collective(self, run: nccl_tests.CollectiveLog, path: str, name: str, date: str | None) -> Collective | None:
        """One measured run as a curve: out-of-place rows where there are any, the median time of each size."""
        kept = [row for row in run.rows if not row.in_place] or list(run.rows)
        times: dict[int, list[float]] = {}
        for row in kept:
            times.setdefault(row.size_bytes, []).append(row.time_s)
        if run.operation is None or not run.ranks or not times:
            return None
        provenance = Provenance(
            Grade.MEASURED, f"{run.operation} over {run.ranks} devices", name, kept[0].line, date, path
        )
        quantity = Quantity(max(row.busbw_bytes_per_s for row in kept), Dimension.BANDWIDTH, provenance)
        self.collect.witness(
            "collective_curves", f"bus bandwidth of {run.operation} over {run.ranks} devices", path, quantity
        )
        rows = tuple((size, median(found)) for size, found in sorted(times.items()))
        return Collective(run.operation, run.ranks, run.nodes, rows, quantity)

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
            tiers.append(Tier(slowest.name, slowest.medium, devices, slowest.bandwidth, slowest.latency, slowest.path))
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

    def _quantity(self, stated: Stated, path: str, section: IntraNode | Fabric) -> Quantity:
        return self.collect.quantity(stated, path, grade=section.grade, source=section.source, date=section.date)

    def _single(self, key: str) -> bool:
        data = self.collect.loaded.document.data
        return isinstance(data, dict) and isinstance((data.get("cluster") or {}).get(key), dict)

    def _nodes_path(self) -> str:
        return "/cluster/nodes" if self._single("nodes") else "/cluster/nodes/0"

    def _fabric_path(self, k: int) -> str:
        return "/cluster/fabric" if self._single("fabric") else f"/cluster/fabric/{k}"

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
