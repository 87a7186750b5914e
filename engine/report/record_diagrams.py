"""Two Mermaid pictures for Markdown, small enough for GitHub: the cluster's tiers, and the recommended plan on its mesh.

GitHub draws at most 50,000 characters and 500 edges; these have a few dozen. Labels are quoted, their markup written as
entities, and every number in them stands in the table beside them. """

from __future__ import annotations

from ..decision.review import Candidate, Review
from ..plan import Plan
from .cluster_picture import label
from .escape import clipped
from .places import first_rank
from .stages import Group, grouped, telling
from .tables import Table


def diagrams(review: Review, *, pictures: bool = True) -> dict[str, object]:
    """The pictures as blocks, with their tables; empty texts where there is nothing to draw."""
    best = review.candidate(review.recommended) if pictures else None
    return {
        "topology": topology(review) if pictures else "",
        "on_mesh": on_mesh(best) if best is not None else "",
        "on_mesh_table": mesh_table(best.plan) if best is not None else Table((), ()),
    }


def topology(review: Review) -> str:
    """Nodes, their devices and the links that join them, one vertex a kind."""
    described = review.case.described
    if not described.nodes:
        return ""
    lines = ["flowchart TB"]
    fabrics = [link for link in described.links if link.tier == "fabric"]
    inner = [link for link in described.links if link.tier != "fabric"]
    for k, node in enumerate(described.nodes[:8]):
        text = f"{node.count or '?'} x {clipped(node.name, 40)}: {node.devices or '?'} x {clipped(node.device or 'device', 30)}"
        lines.append(f'  n{k}["{label(text)}"]')
    for k, link in enumerate(fabrics[:4]):
        rate = str(link.bandwidth) if link.bandwidth is not None else "not stated"
        lines.append(f'  f{k}(["{label(f"{clipped(link.name, 40)}, {rate} a device")}"])')
        lines += [f"  f{k} --- n{j}" for j in range(min(8, len(described.nodes)))]
    for k, link in enumerate(inner[:4]):
        rate = str(link.bandwidth) if link.bandwidth is not None else "not stated"
        lines.append(f'  n0 --- i{k}(["{label(f"{clipped(link.name, 40)}, islands of {link.span}, {rate} a device")}"])')
    return "\n".join(lines)


def on_mesh(best: Candidate) -> str:
    """The stages of a plan in order, those alike in one vertex, each with its mesh."""
    plan = best.plan
    lines = ["flowchart LR"]
    shown, _ = telling(_groups(plan), 0)
    for k, one in enumerate(shown):
        stage = plan.stages[one.first]
        text = f"{one.label}: {stage.layers} layers on {stage.mesh}"
        lines.append(f'  s{k}["{label(text)}"]')
        if k:
            lines.append(f"  s{k - 1} --> s{k}")
    return "\n".join(lines)


def mesh_table(plan: Plan) -> Table:
    """The numbers of that picture, with the first rank of each group."""
    shown, left = telling(_groups(plan), 0)
    rows = []
    for one in shown:
        stage = plan.stages[one.first]
        held = [name for name, here in (("embedding", stage.embedding), ("head", stage.head)) if here]
        rows.append(
            (
                one.label, f"{stage.first} to {plan.stages[one.last].last}", str(stage.layers), ", ".join(held) or "layers alone",
                str(stage.mesh), str(stage.mesh.devices), str(first_rank(plan, one.first)),
            )
        )  # fmt: skip
    heads = ("stages", "layers", "layers a stage:", "holds", "mesh", "devices a stage:", "first rank:")
    return Table(heads, tuple(rows), f"{left} groups of stages are not shown." if left else "")


def _groups(plan: Plan) -> list[Group]:
    def key(k: int) -> tuple[object, ...]:
        stage = plan.stages[k]
        return stage.layers, stage.mesh, stage.embedding, stage.head, plan.recompute_of(k)

    return grouped(plan.pipeline, key)
