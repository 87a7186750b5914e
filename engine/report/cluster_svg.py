"""A cluster as an SVG that needs nothing else: fabrics above, one machine of each kind below, the tiers as rows of text.

Colours are classes with a light and a dark value (`prefers-color-scheme`), so that the picture stands on either ground. Text is
escaped and cut; what does not fit is counted, never dropped in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from ..cluster.graph import ClusterGraph, Vertex
from ..cluster.parts import FAST
from ..quantity import Dimension, human
from .cluster_view import ClusterView, FabricRow, MachineRow, titled
from .escape import clipped, visible
from .figures import plural, share

WIDTH = 980
MARGIN = 20
DEVICE = (92, 34)
GAP = 8
PER_ROW = 8
MOST_DEVICES = 32
MOST_CARDS = 16
#: Room below a row of devices for the arcs of a mesh.
ARCS = 52

_STYLE = """
svg { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; }
.ground { fill: #ffffff; } .text { fill: #1c2430; } .soft { fill: #55606e; font-size: 12px; }
.head { font-size: 16px; font-weight: 600; }
.panel { fill: #f6f8fa; stroke: #c3ccd6; } .island { fill: #e3f1e6; stroke: #4f9a63; } .device { fill: #ffffff; stroke: #4f9a63; }
.card { fill: #fdf0d8; stroke: #b98524; } .fabric { fill: #e1ecfa; stroke: #4378bd; } .link { stroke: #4f9a63; fill: none; }
.wire { stroke: #b98524; fill: none; } .trunk { stroke: #4378bd; fill: none; stroke-width: 3; } .name { text-anchor: middle; }
@media (prefers-color-scheme: dark) {
.ground { fill: #12161c; } .text { fill: #e4e9ef; } .soft { fill: #a3aebb; } .panel { fill: #1a2029; stroke: #46515e; }
.island { fill: #1d3324; stroke: #62b27a; } .device { fill: #12161c; stroke: #62b27a; } .card { fill: #3a2d12; stroke: #d6a54a; }
.fabric { fill: #17283f; stroke: #6a9fe6; } .link { stroke: #62b27a; } .wire { stroke: #d6a54a; } .trunk { stroke: #6a9fe6; }
}
"""


def svg(view: ClusterView) -> str:
    """The picture, with a line end."""
    body: list[str] = []
    y = MARGIN + 16.0
    body.append(_text(MARGIN, y, _headline(view), "text head"))
    y += 20
    joints: list[float] = []
    for fabric in view.fabrics:
        body += _fabric(fabric, y)
        y += 58
        joints.append(y - 35)
    for index, machine in enumerate(view.machines):
        drawn, height = _machine(view, machine, index, y)
        body += [f'<path class="trunk" d="M{MARGIN} {joint:.0f} H10 V{y + 24:.0f} H{MARGIN}"/>' for joint in joints[-1:]]
        body += drawn
        y += height + 14
    if not view.machines:
        body.append(_text(MARGIN, y + 14, "No node is described well enough to be drawn.", "soft"))
        y += 30
    for line in _tiers(view):
        body.append(_text(MARGIN, y + 12, line, "soft"))
        y += 19
    height = y + MARGIN
    title = escape(_headline(view))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}" '
        f'role="img" aria-label="{escape(title, {chr(34): "&quot;"})}">\n<title>{title}</title>\n<style>{_STYLE}</style>\n'
        f'<rect class="ground" width="{WIDTH}" height="{height:.0f}"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _headline(view: ClusterView) -> str:
    devices = f"{view.devices:,} devices" if view.devices is not None else "devices not counted"
    nodes = f" on {view.nodes:,} {'node' if view.nodes == 1 else 'nodes'}" if view.nodes is not None else ""
    return devices + nodes + ("" if view.complete else " (incomplete)")


def _fabric(row: FabricRow, y: float) -> list[str]:
    how = [row.layout.replace("_", " ")] if row.layout else []
    how += [plural(row.rails, "rail")] if row.rails else []
    how.append("non-blocking" if row.oversubscription == 1 else f"{row.oversubscription:g}:1 over-subscribed")
    how += [f"{share(row.contention)} taken by others"] if row.contention else []
    how.append(f"bisection {human(row.bisection, Dimension.BANDWIDTH) if row.bisection is not None else 'not known'}")
    return [
        _box(MARGIN, y, WIDTH - 2 * MARGIN, 46, "fabric", 8),
        _text(WIDTH / 2, y + 20, titled(row.name, row.medium), "text name"),
        _text(WIDTH / 2, y + 37, "; ".join(how), "soft name"),
    ]


def _machine(view: ClusterView, row: MachineRow, index: int, y: float) -> tuple[list[str], float]:
    """The panel of one kind of machine, from `y` down, and its height."""
    graph = view.graph
    cards = row.cards[:MOST_CARDS]
    top = y + 50
    places, islands, bottom = _layout(row, top + (64 if cards else 8))
    left_out = row.devices - len(places)
    height = bottom - y + (26 if left_out else 8)
    body = [_box(MARGIN, y, WIDTH - 2 * MARGIN, height, "panel", 10)]
    body.append(
        _text(MARGIN + 14, y + 22, f"{row.count:,} x {row.name}: {plural(row.devices, 'device')} of type {row.device}", "text")
    )
    half = f"bisection {human(row.bisection, Dimension.BANDWIDTH)}" if row.bisection is not None else "bisection not known"
    how = f"links as measured, {plural(len(row.gaps), 'gap')}" if row.source else "links by data sheet or description"
    body.append(_text(MARGIN + 14, y + 40, f"{half}; {how}", "soft"))
    for k, (x, top_of, wide, high) in enumerate(islands):
        body.append(_box(x, top_of, wide, high, "island", 8))
        body.append(_text(x + 8, top_of + high - 6, _island_name(graph, index, row, k), "soft"))
    body += _arcs(graph, index, places)
    body += _cards(row, cards, places, top)
    for label, (x, at) in places.items():
        body.append(_box(x, at, *DEVICE, "device", 5))
        body.append(_text(x + DEVICE[0] / 2, at + 22, clipped(label, 11), "text name"))
    if left_out:
        body.append(_text(MARGIN + 14, bottom + 14, f"and {plural(left_out, 'device')} more like these", "soft"))
    return body, height


def _layout(row: MachineRow, top: float) -> tuple[dict[str, tuple[float, float]], list[tuple[float, float, float, float]], float]:
    """Places of devices by label, the frames of islands, and where the last of them ends."""
    places: dict[str, tuple[float, float]] = {}
    frames: list[tuple[float, float, float, float]] = []
    x, y, deepest = MARGIN + 14.0, top, top
    for island in row.islands:
        if len(places) >= MOST_DEVICES:
            break
        shown = island[: MOST_DEVICES - len(places)]
        columns = min(PER_ROW, len(shown))
        rows = -(-len(shown) // PER_ROW)
        wide, high = columns * (DEVICE[0] + GAP) + GAP, GAP + rows * (DEVICE[1] + GAP) + (ARCS if len(shown) > 1 else 18)
        if x + wide > WIDTH - MARGIN and x > MARGIN + 14:
            x, y = MARGIN + 14.0, deepest + 10
        frames.append((x, y, wide, high))
        for k, label in enumerate(shown):
            places[label] = (x + GAP + k % PER_ROW * (DEVICE[0] + GAP), y + GAP + k // PER_ROW * (DEVICE[1] + GAP))
        deepest = max(deepest, y + high)
        x += wide + 10
    return places, frames, deepest


def _island_name(graph: ClusterGraph, index: int, row: MachineRow, number: int) -> str:
    """What joins an island, with the rate of one device on it."""
    members = set(row.islands[number])
    kinds: dict[str, None] = {}
    for first, second, link in graph.links():
        inside = first.machine == index and bool({first.label, second.label} & members)
        if inside and (
            link.kind in FAST or (link.kind == "pcie" and len(row.islands[number]) > 1 and "device" in (first.kind, second.kind))
        ):
            rate = human(link.bandwidth, Dimension.BANDWIDTH) if link.bandwidth is not None else "rate not stated"
            kinds.setdefault(f"{link.kind} {link.word + ', ' if link.word else ''}{rate}")
    if any(not name.startswith("pcie") for name in kinds):
        kinds = {name: None for name in kinds if not name.startswith("pcie")}
    shown = " | ".join(list(kinds)[:3]) + (" | ..." if len(kinds) > 3 else "")
    return clipped(shown or "alone", 14 * min(PER_ROW, len(row.islands[number])))


def _arcs(graph: ClusterGraph, index: int, places: dict[str, tuple[float, float]]) -> Iterator[str]:
    """Direct links as arcs below the devices; a switch as a bar that all of its devices reach."""
    for first, second, link in graph.links():
        if first.machine != index or link.kind not in (*FAST, "pcie"):
            continue
        ends = [places[one.label] for one in (first, second) if one.kind == "device" and one.label in places]
        if first.kind == second.kind == "device" and len(ends) == 2:
            (x1, y1), (x2, y2) = sorted(ends)
            a, b, low = x1 + DEVICE[0] / 2, x2 + DEVICE[0] / 2, max(y1, y2) + DEVICE[1]
            deep = min(ARCS - 10.0, 10 + abs(b - a) / 18)
            width = 2.4 if link.word.startswith(("2", "NV2")) else 1.4
            shape = f"M{a:.0f} {y1 + DEVICE[1]} C{a:.0f} {low + deep:.0f} {b:.0f} {low + deep:.0f} {b:.0f} {y2 + DEVICE[1]}"
            yield f'<path class="link" stroke-width="{width}" d="{shape}"/>'
    for hub in _hubs(graph, index):
        members = [vertex for vertex in _neighbours(graph, hub) if vertex.kind == "device" and vertex.label in places]
        if len(members) < 2:
            continue
        at = [places[member.label] for member in members]
        low = max(y for _, y in at) + DEVICE[1] + 14
        left, right = min(x for x, _ in at), max(x for x, _ in at) + DEVICE[0]
        yield from (
            f'<path class="link" stroke-width="1.4" d="M{x + DEVICE[0] / 2:.0f} {y + DEVICE[1]} V{low:.0f}"/>' for x, y in at
        )
        yield _box(left, low, right - left, 22, "device", 6)
        yield _text((left + right) / 2, low + 15, clipped(hub.label, 40), "soft name")


def _hubs(graph: ClusterGraph, index: int) -> list[Vertex]:
    """What stands below the devices: switches, or PCI Express where nothing faster joins the machine."""
    switches = graph.of_kind("switch", index)
    fast = any(link.kind in FAST for first, _, link in graph.links() if first.machine == index)
    return switches if switches or fast else [*graph.of_kind("pcie", index), *graph.of_kind("host", index)]


def _neighbours(graph: ClusterGraph, hub: Vertex) -> list[Vertex]:
    return [second if first == hub else first for first, second, _ in graph.links() if hub in (first, second)]


def _cards(
    row: MachineRow, cards: Sequence[tuple[str, tuple[str, ...]]], places: dict[str, tuple[float, float]], top: float
) -> Iterator[str]:
    if not cards:
        return
    room = (WIDTH - 2 * MARGIN - 28) / len(cards)
    wide = min(float(DEVICE[0]), room - 6)
    for k, (card, users) in enumerate(cards):
        x = MARGIN + 14 + k * room + (room - wide) / 2
        for user in users:
            if user in places:
                to_x, to_y = places[user]
                shape = f"M{x + wide / 2:.0f} {top + 24:.0f} L{to_x + DEVICE[0] / 2:.0f} {to_y:.0f}"
                yield f'<path class="wire" stroke-width="1.2" d="{shape}"/>'
        yield _box(x, top, wide, 24, "card", 4)
        yield _text(x + wide / 2, top + 16, clipped(card, max(4, int(wide / 8))), "text name")
    rate = f"{plural(len(row.cards), 'card')} of {row.card_rate}" if row.card_rate else plural(len(row.cards), "card")
    more = f", {len(row.cards) - len(cards)} not drawn" if len(row.cards) > len(cards) else ""
    yield _text(WIDTH - MARGIN - 14, top - 10, rate + more, "soft end", anchor="end")


def _tiers(view: ClusterView) -> Iterator[str]:
    for row in view.tiers:
        rate = f"{row.bandwidth} a device ({row.bandwidth.grade.value})" if row.bandwidth else "bandwidth not stated"
        latency = f", {row.latency} ({row.latency.grade.value})" if row.latency else ""
        yield f"{titled(row.name, row.medium)}: {row.span:,} devices; {rate}{latency}"
    for what, _ in view.missing[:6]:
        yield f"Not stated: {what}"


def _box(x: float, y: float, wide: float, high: float, css: str, radius: int) -> str:
    return f'<rect class="{css}" x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" rx="{radius}"/>'


def _text(x: float, y: float, text: str, css: str, *, anchor: str = "") -> str:
    at = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}"{at}>{escape(clipped(visible(text), 130))}</text>'
