"""Facts that hold evidence of the topology against itself: printed matrices, measured collectives, stated rates, prices.

A graph is never built here: what rules ask for follows from the sheets, the matrix and closed forms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..cluster import Collective
from ..hardware import LinkKind, NodeLink, NodeSheet
from ..proposal import Case, LinkCase, NodeCase
from ..quantity import Quantity
from .fact import Fact, in_field_unit
from .kinds import fact


def topology_facts(case: Case) -> Iterator[Fact]:
    """The facts of a case's matrix, of its measured collectives, and of rates that a data sheet has too."""
    yield from _file(case)
    yield from _collectives(case)
    yield from _rates(case)


def _sheet(node: NodeCase | None) -> NodeSheet | None:
    """The data sheet of a node, where it is one: not what a description amounts to."""
    return node.sheet if node is not None and node.sheet is not None and node.sheet.origin.kind != "described" else None


def _file(case: Case) -> Iterator[Fact]:
    topology, nodes = case.described.topology, case.described.nodes
    if topology is None or topology.matrix is None:
        return
    # Most proposals have no such file, and lint is to start quickly.
    from ..cluster.measured import nic_loads, weak_pairs
    from ..importers.nvidia_topo import disagreeing, islands
    from ..proposal.cluster_parts import measured_of

    measured = measured_of(topology.matrix, topology.path)
    sheet = _sheet(nodes[0] if nodes else None)
    loads = nic_loads(measured)
    fabric = next((link for link in case.described.links if link.nics is not None), None)
    island = None
    if sheet is not None and sheet.links:
        island = sheet.links[0].island if sheet.links[0].kind is not LinkKind.PCIE else 1
    yield fact(
        "topology_file",
        topology.path,
        devices=topology.devices,
        node_devices=nodes[0].devices if nodes else None,
        islands=topology.islands,
        largest_island=topology.largest_island,
        sheet_island=island,
        gaps=topology.gaps,
        disagreeing=disagreeing(topology.matrix),
        weak_pairs=sum(len(weak_pairs(measured, group)) for group in islands(topology.matrix)),
        nics=len(measured.nics) or None,
        fabric_nics=fabric.nics if fabric is not None else None,
        devices_a_nic=max(loads.values()) if any(loads.values()) else None,
    )


def _collectives(case: Case) -> Iterator[Fact]:
    cluster, described = case.cluster, case.described
    if cluster is None or not cluster.collectives:
        return
    from ..cluster.limits import bus_bandwidth_limit

    per_node = cluster.devices_per_node
    inner = cluster.nodes[0].sheet.links
    fabric = next((link for link in described.links if link.tier == "fabric"), None)
    for one in cluster.collectives:
        nodes = one.nodes if one.nodes is not None else -(-one.ranks // per_node)
        inside = -(-one.ranks // nodes)
        link = next((link for link in inner if link.island >= inside), None)
        stated = next((link for link in described.links if link.tier != "fabric" and link.span >= inside), None)
        known = [rate.value for rate in (link.bandwidth if link else None, stated.bandwidth if stated else None) if rate]
        limit = bus_bandwidth_limit(
            one.operation,
            one.ranks,
            nodes,
            max(known, default=None),
            _node_rate(fabric, per_node, cluster.contention) if fabric is not None else None,
            in_network=_reduces(link),
        )
        by_fabric = limit is not None and limit.by == "fabric" and fabric is not None
        name = fabric.name if by_fabric and fabric is not None else stated.name if stated else "the links inside"
        yield _collective(one, nodes, (limit.rate, name) if limit is not None else None)


def _collective(one: Collective, nodes: int, limit: tuple[float, str] | None) -> Fact:
    shown = one.source.value
    return fact(
        "measured_collective",
        one.source.provenance.pointer or "/cluster/collectives",
        operation=one.operation,
        ranks=one.ranks,
        nodes=nodes,
        bus_bandwidth_bytes_per_s=round(shown),
        file=one.source.provenance.file or "the log",
        limit_bytes_per_s=round(limit[0]) if limit is not None else None,
        link=limit[1] if limit is not None else None,
        above_ppm=max(0, round(1e6 * (shown / limit[0] - 1))) if limit is not None else None,
    )


def _reduces(link: NodeLink | None) -> bool:
    """Whether the switch of a link is known to reduce: its own measured all-reduce passes what a device can send."""
    return link is not None and any(
        curve.operation == "all_reduce" and curve.bus_bandwidth.value > link.bandwidth.value for curve in link.collectives
    )


def _node_rate(fabric: LinkCase, per_node: int, contention: float) -> float | None:
    """What a node can send: its cards, or what is stated before over-subscription and others' share come off."""
    if fabric.nics is not None and fabric.nic_bandwidth is not None:
        return fabric.nics * fabric.nic_bandwidth.value
    if fabric.bandwidth is None or contention >= 1:
        return None
    return fabric.bandwidth.value * per_node * (fabric.oversubscription or 1.0) / (1 - contention)


def _rates(case: Case) -> Iterator[Fact]:
    """Stated rates that a data sheet states too, of the first kind of node."""
    described = case.described
    sheet = _sheet(described.nodes[0] if described.nodes else None)
    if sheet is None:
        return
    for link in described.links:
        if link.tier == "fabric" and sheet.nics is not None:
            card = sheet.nics.bandwidth
            if link.nic_bandwidth is not None:
                yield _rate(f"a card of '{link.name}'", f"{link.path}/nics/bandwidth", link.nic_bandwidth, card, sheet, "card")
            elif link.bandwidth is not None and sheet.devices:
                whole = sheet.nics.count * card.value / sheet.devices
                contention = case.cluster.contention if case.cluster is not None else 0.0
                whole *= (1 - contention) / (link.oversubscription or 1.0)
                yield _rate(f"a device on '{link.name}'", f"{link.path}/bandwidth", link.bandwidth, whole, sheet, "device")
        elif link.path == "/cluster/intra_node" and link.bandwidth is not None and sheet.links:
            rate = sheet.links[0].bandwidth
            yield _rate(f"a device on '{link.name}'", f"{link.path}/bandwidth", link.bandwidth, rate, sheet, "inner")


def _rate(what: str, path: str, stated: Quantity, printed: Quantity | float, sheet: NodeSheet, form: str) -> Fact:
    other = printed if isinstance(printed, float) else float(printed.value)
    factor = max(stated.value, other) / min(stated.value, other)
    slip = "bits_and_bytes" if 7.5 <= factor <= 8.5 else "thousand" if 900 <= factor <= 1100 else "none"
    return fact(
        "rate_check",
        path,
        what=what,
        form=form,
        sheet=sheet.name,
        stated_bytes_per_s=round(stated.value),
        sheet_bytes_per_s=round(other),
        factor_ppm=round(1e6 * factor),
        side="above" if stated.value > other else "below" if stated.value < other else "equal",
        slip=slip,
    )


def probe_fact(plan: str, path: str, fabric: str, axes: Sequence[str], seconds: float, halved_seconds: float) -> Fact:
    """A plan priced again with the fabric at half its bandwidth: what its step time does when the topology changes."""
    return fact(
        "topology_probe",
        path,
        plan=plan,
        link=fabric,
        axes=", ".join(axes),
        time_ns=in_field_unit(seconds, "time_ns"),
        halved_ns=in_field_unit(halved_seconds, "halved_ns"),
        change_ppm=round(1e6 * abs(halved_seconds - seconds) / seconds) if seconds else 0,
    )
