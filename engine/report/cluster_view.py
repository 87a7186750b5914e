"""What was understood of a cluster, put together once for its text, JSON and pictures: rows of figures with their evidence.

Reads the case and its graph; judges nothing. What is missing, assumed or contradictory is listed as the case has it.
"""

from __future__ import annotations

from ..cluster.graph import Bottleneck, ClusterGraph, rails_of
from ..cluster.parts import Parts
from ..cluster.placement import OrderFound, Shares, best_order, bytes_by_tier, shares
from ..errors import PlanproofError
from ..frozen import dataclass
from ..plan import Plan
from ..proposal import Case
from ..proposal.cluster_parts import parts_of
from ..quantity import Quantity


@dataclass(frozen=True, slots=True)
class TierRow:
    """One tier of links: its name and kind, the devices of a unit, and what one device has, with evidence."""

    name: str
    tier: str
    medium: str
    span: int
    bandwidth: Quantity | None
    latency: Quantity | None


@dataclass(frozen=True, slots=True)
class MachineRow:
    """One kind of machine. `islands` are lists of device labels, `cards` the devices of each card by its label."""

    name: str
    count: int
    device: str
    devices: int
    islands: tuple[tuple[str, ...], ...]
    cards: tuple[tuple[str, tuple[str, ...]], ...]
    card_rate: Quantity | None
    bisection: float | None
    source: str | None
    gaps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FabricRow:
    """One fabric: how it is laid out, what is taken off it, and what crosses its middle."""

    name: str
    medium: str
    layout: str | None
    rails: int
    oversubscription: float
    contention: float
    joins: tuple[str, ...]
    bisection: float | None


@dataclass(frozen=True, slots=True)
class PlacedPlan:
    """A plan on the cluster: what its axes cross, or why it cannot be placed.

    `sent`: bytes that a device sends on each tier in a step, outermost first; `least` the order of axes that sends the fewest on
    slow tiers. Both None where model or workload is not known, or where stages differ in their meshes.
    """

    name: str
    meshes: tuple[tuple[str, Shares], ...]
    problem: str | None = None
    sent: tuple[tuple[str, float], ...] | None = None
    least: OrderFound | None = None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All that is said of one cluster. `complete`: whether it can be priced; of a bare measured file, whether it was read whole.

    `kind`: `cluster`, or what the file is where it holds measurements alone (`nvidia-topo`, `nccl-tests` and so on).
    """

    path: str
    complete: bool
    devices: int | None
    nodes: int | None
    connected: bool
    machines: tuple[MachineRow, ...]
    tiers: tuple[TierRow, ...]
    fabrics: tuple[FabricRow, ...]
    measured: tuple[tuple[str, Quantity], ...]
    slowest: Bottleneck | None
    plans: tuple[PlacedPlan, ...]
    missing: tuple[tuple[str, str], ...]
    assumed: tuple[tuple[str, str], ...]
    contradictions: tuple[str, ...]
    graph: ClusterGraph
    kind: str = "cluster"


def view_of(case: Case) -> ClusterView:
    """The view of a case's cluster. Raises InputError for parts that cannot be a cluster."""
    parts = parts_of(case)
    graph = ClusterGraph(parts)
    described, cluster = case.described, case.cluster
    counts = [node.count for node in described.nodes if node.count is not None]
    tiers = tuple(TierRow(link.name, link.tier, link.medium, link.span, link.bandwidth, link.latency) for link in described.links)
    measured = tuple(
        (f"{one.operation} over {one.ranks} devices" + (f" on {one.nodes} nodes" if one.nodes else ""), one.source)
        for one in (cluster.collectives if cluster is not None else ())
    )
    return ClusterView(
        path=case.loaded.document.name,
        complete=cluster is not None,
        devices=described.devices,
        nodes=sum(counts) if counts and len(counts) == len(described.nodes) else None,
        connected=graph.connected(),
        machines=tuple(_machine(graph, k) for k in range(len(parts.machines))),
        tiers=tiers,
        fabrics=tuple(_fabric(graph, k) for k in range(len(parts.fabrics))),
        measured=measured,
        slowest=_slowest(graph, parts),
        plans=tuple(_placed(plan.plan, case) for plan in case.plans if plan.plan is not None) if cluster is not None else (),
        missing=tuple((gap.what, gap.how) for gap in case.missing if gap.path.startswith("/cluster")),
        assumed=tuple((f"{one.item} {one.value}", one.why) for one in case.assumed if one.item.startswith("cluster.")),
        contradictions=tuple(clash.detail for clash in case.contradictions if clash.path.startswith("/cluster")),
        graph=graph,
    )


def _machine(graph: ClusterGraph, index: int) -> MachineRow:
    machine = graph.parts.machines[index]
    labels = {vertex.index: vertex.label for vertex in graph.of_kind("device", index)}
    islands = tuple(tuple(labels[k] for k in island) for island in graph.islands(index))
    return MachineRow(
        name=machine.name,
        count=machine.count,
        device=machine.device,
        devices=machine.devices,
        islands=islands,
        cards=tuple(graph.devices_of_nic(index).items()),
        card_rate=machine.nic_rate,
        bisection=graph.node_bisection(index),
        source=machine.measured.source if machine.measured else None,
        gaps=machine.measured.gaps if machine.measured else (),
    )


def _fabric(graph: ClusterGraph, index: int) -> FabricRow:
    one = graph.parts.fabrics[index]
    return FabricRow(
        name=one.name,
        medium=one.kind,
        layout=one.layout,
        rails=rails_of(graph.parts, one),
        oversubscription=one.oversubscription,
        contention=one.contention,
        joins=one.joins,
        bisection=graph.bisection(index),
    )


def _slowest(graph: ClusterGraph, parts: Parts) -> Bottleneck | None:
    """The slowest link between the first device and the last, where links of stated rates lead from one to the other."""
    try:
        return graph.slowest_link([0, parts.devices - 1]) if parts.devices > 1 else None
    except PlanproofError:
        return None


def _placed(plan: Plan, case: Case) -> PlacedPlan:
    cluster = case.cluster
    assert cluster is not None
    try:
        if plan.same_meshes:
            meshes = ((str(plan.mesh), shares(cluster, plan.mesh, plan.order, plan.pipeline)),)
            if case.model is None or case.workload is None:
                return PlacedPlan(plan.name, meshes)
            from ..cost.axis_bytes import bytes_by_axis

            sent = bytes_by_axis(plan, case.model, case.workload, cluster)
            least = best_order(cluster, plan.mesh, sent, plan.pipeline)
            here = bytes_by_tier(cluster, plan.mesh, sent, plan.order, plan.pipeline)
            return PlacedPlan(plan.name, meshes, sent=here, least=least)
        several = dict.fromkeys(stage.mesh for stage in plan.stages)
        return PlacedPlan(plan.name, tuple((str(mesh), shares(cluster, mesh, plan.order)) for mesh in several))
    except PlanproofError as error:
        return PlacedPlan(plan.name, (), error.message)


def titled(name: str, medium: str) -> str:
    """A link's name, with what it is where the name does not say so."""
    return name if name == medium else f"{name} ({medium})"
