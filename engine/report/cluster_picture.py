"""A cluster as a Mermaid flow chart for Markdown: one machine of each kind, its islands and cards, and the fabrics.

Stays within what GitHub draws (500 edges, 50,000 characters): beyond that an island is one vertex with its number of devices.
Vertices have names of ours; every label is quoted and its markup written as entities.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..cluster.graph import ClusterGraph, Link, Vertex
from ..cluster.parts import FAST
from ..quantity import Dimension, human
from .cluster_view import ClusterView, MachineRow
from .escape import clipped, visible

MOST_EDGES = 400
MOST_CHARACTERS = 45_000
_SHAPES = {"switch": ("([", "])"), "leaf": ("([", "])"), "core": ("([", "])"), "nic": ("[/", "/]")}


def mermaid(view: ClusterView) -> str:
    """The picture as a fenced block, with a line end."""
    whole = _chart(view, folded=False)
    if whole.count(" --- ") + whole.count(" ---|") > MOST_EDGES or len(whole) > MOST_CHARACTERS:
        whole = _chart(view, folded=True)
    return f"```mermaid\n{whole}```\n"


def _chart(view: ClusterView, *, folded: bool) -> str:
    graph = view.graph
    edges = _shown(graph)
    used = {end.name for first, second, _ in edges for end in (first, second)}
    ids: dict[str, str] = {}
    lines = ["flowchart TB"]
    for vertex in graph.of_kind("core"):
        lines.append("  " + _vertex(vertex, ids, vertex.label))
        leaves = [leaf for leaf in graph.of_kind("leaf") if leaf.name.split(".")[0] == vertex.name.split(".")[0]]
        if folded and len(leaves) > 1:
            lines.append("  " + _vertex(leaves[0], ids, f"{len(leaves)} rails"))
            ids.update((leaf.name, ids[leaves[0].name]) for leaf in leaves)
        else:
            lines += ["  " + _vertex(leaf, ids, leaf.label) for leaf in leaves]
    for index, machine in enumerate(view.machines):
        title = f"{machine.count:,} x {machine.name}: {machine.devices} x {machine.device}"
        lines.append(f'  subgraph machine{index}["{label(title)}"]')
        inside = _folded(graph, machine, index, ids, used) if folded else _drawn(graph, index, ids, used)
        lines += [f"    {line}" for line in inside]
        lines.append("  end")
    seen: set[tuple[str, str]] = set()
    for first, second, link in edges:
        pair = (ids[first.name], ids[second.name])
        if pair[0] != pair[1] and pair not in seen:
            seen.add(pair)
            lines.append(f'  {pair[0]} ---|"{label(_words(link))}"| {pair[1]}')
    if not view.machines:
        lines.append('  nothing["no node is described well enough to be drawn"]')
    return "\n".join(lines) + "\n"


def _drawn(graph: ClusterGraph, index: int, ids: dict[str, str], used: set[str]) -> Iterable[str]:
    for kind in ("nic", "switch", "device", "pcie", "host"):
        for vertex in graph.of_kind(kind, index):
            if vertex.name in used or kind == "device":
                yield _vertex(vertex, ids, vertex.label)


def _folded(graph: ClusterGraph, machine: MachineRow, index: int, ids: dict[str, str], used: set[str]) -> Iterable[str]:
    """Each island as one vertex, all cards as one: their links fold with them."""
    devices = graph.of_kind("device", index)
    of = {name: k for k, island in enumerate(machine.islands) for name in island}
    for k, island in enumerate(machine.islands[:100]):
        yield f'm{index}i{k}["{label(f"{len(island)} devices: {island[0]} to {island[-1]}")}"]'
    for vertex in devices:
        ids[vertex.name] = f"m{index}i{min(of[vertex.label], 99)}"
    cards = graph.of_kind("nic", index)
    if cards:
        yield f'm{index}n[/"{label(f"{len(cards)} cards")}"/]'
    ids.update((vertex.name, f"m{index}n") for vertex in cards)
    for kind in ("switch", "pcie", "host"):
        others = graph.of_kind(kind, index)
        ids.update((vertex.name, f"m{index}{kind}") for vertex in others)
        if any(vertex.name in used for vertex in others):
            yield f'm{index}{kind}(["{label(others[0].label if len(others) == 1 else f"{len(others)} x {kind}")}"])'


def _shown(graph: ClusterGraph) -> list[tuple[Vertex, Vertex, Link]]:
    """The edges that are drawn: PCI Express only in machines that nothing faster joins whole."""
    edges = list(graph.links())
    fast = {first.machine for first, _, link in edges if link.kind in FAST and first.machine is not None}
    whole = {machine for machine in fast if len(graph.islands(machine)) == 1}
    return [
        (first, second, link)
        for first, second, link in edges
        if link.kind != "pcie" or first.machine != second.machine or first.machine not in whole
    ]


def _vertex(vertex: Vertex, ids: dict[str, str], text: str) -> str:
    ids[vertex.name] = vertex.name.replace(".", "_")
    left, right = _SHAPES.get(vertex.kind, ("[", "]"))
    return f'{ids[vertex.name]}{left}"{label(text)}"{right}'


def _words(link: Link) -> str:
    rate = human(link.bandwidth, Dimension.BANDWIDTH) if link.bandwidth is not None else "rate not stated"
    return f"{link.word}, {rate}" if link.word else rate


def label(text: str) -> str:
    """`text` for a quoted label: one line, at most 80 characters, nothing in it ends the label or is markup."""
    shown = clipped(visible(text), 80)
    entities = {"&": "#amp;", "#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;", "\\": "#92;", ";": "#59;"}
    return "".join(entities.get(char, char) for char in shown)
