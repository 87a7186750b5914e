"""Facts about where the stages of a plan lie when their meshes differ: out of pipeline order, or on no nodes at all."""

from __future__ import annotations

from collections.abc import Iterator

from ..cluster.stage_placement import in_order, place, within
from ..proposal import Case, PlanCase
from .fact import Fact
from .from_graph import graph_of_case
from .kinds import fact

#: Stages of which a message tells the nodes.
MOST_TOLD = 12


def place_facts(case: Case, plan: PlanCase) -> Iterator[Fact]:
    """Nothing where the stages lie in pipeline order; else their nodes, or the first stage that has to lie across two."""
    cluster, stages = case.cluster, plan.stages
    if cluster is None or stages is None or len(cluster.nodes) > 1 or len({one.mesh for one in stages}) < 2:
        return
    sizes, group = tuple(one.mesh.devices for one in stages), cluster.nodes[0]
    node = group.sheet.devices
    if sum(sizes) > group.devices:
        return
    # What crosses a boundary of a graph differs from the next; of a transformer it is the stream, everywhere the same.
    graph, weights = graph_of_case(case), tuple[float, ...]()
    if graph is not None and plan.stated.microbatch is not None:
        sequences = plan.stated.microbatch * stages[0].mesh.data
        if any(one.last >= graph.layers for one in stages):
            return
        weights = tuple(float(sum(size for _, size, _ in graph.crossing(one.last, sequences))) for one in stages[:-1])
    straight, found = in_order(sizes), place(sizes, node, group.count, weights)
    if found == straight:
        return
    across = next(k for k, (start, size) in enumerate(zip(straight, sizes, strict=True)) if not within(start, size, node))
    rows = [f"stage {k} on {_nodes(start, sizes[k], node)}" for k, start in enumerate((found or ())[:MOST_TOLD])]
    yield fact(
        "stage_places", plan.path, plan=plan.name, how="moved" if found else "none", stage=across, devices=sizes[across],
        node_devices=node, sizes=", ".join(map(str, sizes[:40])), places="; ".join(rows) or None,
    )  # fmt: skip


def _nodes(start: int, size: int, node: int) -> str:
    """The nodes of a run of devices, in words."""
    first, last = start // node, (start + size - 1) // node
    if first == last:
        return f"node {first}" if size == node else f"node {first} from device {start % node}"
    return f"nodes {first} to {last}"
