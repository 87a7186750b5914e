"""The network between nodes: each fabric's rate for one device, what it joins, and what others take of it.

Bandwidth on a fabric is what one device gets when all devices of a node use it: cards x rate / devices / over-subscription
x (1 - contention).
"""

from __future__ import annotations

from ..errors import InputError
from ..quantity import Dimension, Quantity
from .case import LinkCase, NodeCase
from .collector import Collector
from .schema import ClusterDescription, Contention, Fabric
from .stated import Stated

DEFAULT_FABRIC_LATENCY = 5e-6
LATENCY_WHY = "documented default of an unstated latency; see docs/proposal.md"


class FabricResolver:
    """Resolves the fabrics and the contention of one cluster section."""

    def __init__(self, stated: ClusterDescription, collect: Collector) -> None:
        self.stated = stated
        self.collect = collect
        #: The share that others take; None where nothing is said of it.
        self.contention = self._contention(stated.contention)

    def resolve(self, nodes: list[NodeCase]) -> tuple[tuple[LinkCase, ...], int | None]:
        """The fabrics as links, and how many parts no stated fabric joins; None where there is nothing to join."""
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
        return LinkCase(
            name,
            "fabric",
            fabric.kind or "fabric",
            devices,
            path,
            rate,
            latency,
            nics,
            nic_rate,
            fabric.layout,
            fabric.oversubscription,
            tuple(fabric.connects or ()),
            bool(fabric.in_network_reduction),
        )

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
        if stated.share.value > 0.99:
            raise InputError(
                f"contention.share: {stated.share.text} leaves nothing of the fabric",
                place=self.collect.place("/cluster/contention/share"),
                code="input.range",
                remedy="Write the share that others take, below 99 %.",
            )
        quantity = self.collect.quantity(stated.share, "/cluster/contention/share")
        self.collect.witness("contention", "share of the fabric that others take", "/cluster/contention/share", quantity)
        return float(quantity.value)

    def _quantity(self, stated: Stated, path: str, section: Fabric) -> Quantity:
        return self.collect.quantity(stated, path, grade=section.grade, source=section.source, date=section.date)

    def _fabric_path(self, k: int) -> str:
        return "/cluster/fabric" if self.collect.single("/cluster", "fabric") else f"/cluster/fabric/{k}"
