"""The cluster of a case as parts of a graph: what is described, complete or not, with the printed matrix where there is one."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from ..cluster.parts import Fabric, Inner, Machine, Measured, Parts, Route
from .case import Case, ClusterCase, LinkCase, NodeCase

if TYPE_CHECKING:
    from ..importers.nvidia_topo import TopologyMatrix


def parts_of(case: Case) -> Parts:
    """The parts of the case's cluster. A node whose count or devices are not stated is left out: it cannot be drawn."""
    described = case.described
    machines = tuple(
        machine for k, node in enumerate(described.nodes) if (machine := _machine(case, node, first=k == 0)) is not None
    )
    contention = case.cluster.contention if case.cluster is not None else 0.0
    fabrics = tuple(_fabric(link, contention) for link in described.links if link.tier == "fabric")
    return Parts(machines, fabrics)


def _machine(case: Case, node: NodeCase, *, first: bool) -> Machine | None:
    if node.count is None or node.devices is None:
        return None
    described, cards = case.described, _cards(case.described, node)
    topology = described.topology if first else None
    matrix = topology.matrix if topology is not None else None
    return Machine(
        name=node.name,
        count=node.count,
        device=node.device or "device",
        devices=node.devices,
        inner=_inner(case, node),
        nics=cards.nics if cards else None,
        nic_rate=cards.nic_bandwidth if cards else None,
        host_link=node.sheet.host_link if node.sheet else None,
        measured=measured_of(matrix, topology.path) if matrix is not None and topology is not None else None,
    )


def _cards(described: ClusterCase, node: NodeCase) -> LinkCase | None:
    """The fabric whose cards a node has: the first that joins it and counts them."""
    fabrics = [link for link in described.links if link.tier == "fabric" and (not link.joins or node.name in link.joins)]
    return next((link for link in fabrics if link.nics is not None), None)


def _inner(case: Case, node: NodeCase) -> tuple[Inner, ...]:
    """Links inside a node: those of its sheet, or those that the case states in their place."""
    stated = case.loaded.stated.cluster
    intra = stated.intra_node if stated else None
    if node.sheet is None or node.devices is None or node.devices == 1:
        return ()
    if intra is not None and intra.bandwidth is not None:
        links = [link for link in case.described.links if link.tier != "fabric"]
        return tuple(Inner(one.name, one.medium, min(one.span, node.devices), one.bandwidth, one.latency) for one in links)
    found = []
    for one in node.sheet.links:
        span = min(one.island, node.devices)
        found.append(Inner(one.name, one.kind.value, span, one.ring(span), one.latency, one.pairs, one.lane))
    return tuple(found)


def _fabric(link: LinkCase, contention: float) -> Fabric:
    return Fabric(
        name=link.name,
        kind=link.medium,
        rate=link.bandwidth,
        latency=link.latency,
        layout=link.layout,
        oversubscription=link.oversubscription or 1.0,
        contention=contention,
        joins=link.joins,
    )


def measured_of(matrix: TopologyMatrix, source: str) -> Measured:
    """A printed matrix in the words of a graph."""
    paths = {pair: Route(link.word, link.nvlinks) for pair, link in matrix.links.items()}
    gaps = tuple(
        f"line {gap.line}: {gap.what}; expected {gap.expected}" if gap.line else f"{gap.what}; expected {gap.expected}"
        for gap in matrix.missing
    )
    return Measured(source, matrix.devices, matrix.nics, MappingProxyType(paths), gaps)
