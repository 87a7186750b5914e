"""`planproof cluster` as text and as JSON: islands, tiers, rates with their grades, cards, bisection, gaps, placement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..cluster.graph import Bottleneck
from ..cluster.placement import Shares
from ..quantity import Dimension, Quantity, human
from .cluster_view import ClusterView, FabricRow, MachineRow, PlacedPlan, titled
from .escape import terminal, visible
from .figures import count, counted, plural, share
from .tables import Table, capped, table_text

_ROWS = 64
_UNCOUNTED = "an unknown number of devices"


def cluster_text(view: ClusterView) -> str:
    """The view for a terminal."""
    return "\n".join(terminal(line) for line in _lines(view)) + "\n"


def _lines(view: ClusterView) -> Iterator[str]:
    head = f"{visible(view.path)}: "
    if view.kind != "cluster":
        head += f"{view.kind}, " + ("read whole" if view.complete else "read in part") + "; "
    head += counted(view.devices, "device") if view.devices is not None else _UNCOUNTED
    head += f" on {counted(view.nodes, 'node')}" if view.nodes is not None else ""
    yield head + ("" if view.complete or view.kind != "cluster" else "; not complete: it cannot be priced")
    if view.tiers:
        yield "\nTiers, innermost first; bandwidth of one device, per direction, when all send\n"
        yield table_text(_tiers(view))
    for machine in view.machines:
        yield from _machine(machine)
    for fabric in view.fabrics:
        yield from _fabric(fabric, any(what.startswith("'cluster.contention'") for what, _ in view.missing))
    if view.slowest is not None:
        yield f"\nSlowest link between the first device and the last: {_bottleneck(view.slowest)}"
    if view.machines and not view.connected:
        yield "\nNo stated links join all machines."
    if view.measured:
        runs = [(name, str(rate), rate.grade.value, _word(rate)) for name, rate in view.measured]
        yield "\nMeasured collectives\n"
        yield table_text(capped(("what", "bus bandwidth:", "grade", "on whose word"), runs, _ROWS))
    for plan in view.plans:
        yield f"\nPlacement of plan '{visible(plan.name)}'"
        if plan.problem:
            yield f"  {visible(plan.problem)}"
        for mesh, laid in plan.meshes:
            yield f"  {mesh}; order {', '.join(laid.order)}, innermost first\n"
            yield table_text(_shares(laid))
            for port in laid.contended:
                axes = ", ".join(f"{groups} of {axis}" for axis, groups in port.axes)
                yield (
                    f"  At one port to '{visible(port.tier.name)}' ({plural(port.devices, 'device')}, {_rate(port.rate)}) meet "
                    f"groups of several axes: {axes}; all at once, each gets {_rate(port.rate / port.groups)}."
                )
        yield from _order(plan)
    for heading, rows in (("Not stated", view.missing), ("Assumed", view.assumed)):
        if rows:
            yield f"\n{heading}"
            yield from (f"  {visible(what)} ({visible(why)})" for what, why in rows)
    if view.contradictions:
        yield "\nContradictions"
        yield from (f"  {visible(text)}" for text in view.contradictions)


def _order(plan: PlacedPlan) -> Iterator[str]:
    """Which order of the axes would keep the most bytes off slow tiers, and what each sends."""
    if plan.least is None or plan.sent is None or not plan.meshes:
        return
    found, laid = plan.least, plan.meshes[0][1]
    own = ", ".join(f"{human(size, Dimension.BYTES)} on {visible(tier)}" for tier, size in plan.sent)
    yield f"  A device sends in a step: {own}."
    compared = "the only order" if found.compared == 1 else f"fewest on slow tiers of {found.compared} orders"
    if all(one <= other * (1 + 1e-9) for (_, one), (_, other) in zip(plan.sent, found.bytes_by_tier, strict=True)):
        yield f"  Order of axes: {', '.join(laid.order)} as stated is {compared}."
    else:
        sends = ", ".join(f"{human(size, Dimension.BYTES)} on {visible(tier)}" for tier, size in found.bytes_by_tier)
        yield f"  Order of axes: {', '.join(found.order)} would send the {compared}: {sends}."


def _tiers(view: ClusterView) -> Table:
    rows = [
        (
            row.name,
            row.medium,
            count(row.span) if row.span else "not stated",
            str(row.bandwidth) if row.bandwidth else "not stated",
            row.bandwidth.grade.value if row.bandwidth else "",
            str(row.latency) if row.latency else "not stated",
            row.latency.grade.value if row.latency else "",
            _word(row.bandwidth) if row.bandwidth else "",
        )
        for row in view.tiers
    ]
    return capped(("tier", "links", "devices:", "bandwidth:", "grade", "latency:", "grade", "on whose word"), rows, _ROWS)


def _machine(row: MachineRow) -> Iterator[str]:
    yield f"\n{count(row.count)} x {visible(row.name)}: {plural(row.devices, 'device')} of type {visible(row.device)}"
    sizes = sorted({len(island) for island in row.islands})
    if len(row.islands) == 1:
        yield f"  islands: 1, all {row.devices} devices" if row.devices > 1 else "  islands: 1 device"
    else:
        shown = "; ".join(_span(island) for island in row.islands[:8]) + ("; ..." if len(row.islands) > 8 else "")
        yield f"  islands: {len(row.islands)} of {' or '.join(map(str, sizes))}: {shown}"
    yield f"  bisection: {_rate(row.bisection)}" if row.devices > 1 else "  bisection: one device has none"
    if row.cards:
        rate = f" of {row.card_rate} ({row.card_rate.grade.value})" if row.card_rate else ""
        yield f"  cards: {len(row.cards)}{rate}"
        shared = [(card, users) for card, users in row.cards if len(users) > 1]
        yield from (f"    {visible(card)}: shared by {_span(users)}" for card, users in shared[:16])
        own = [f"{card} {users[0]}" for card, users in row.cards if len(users) == 1]
        if own and row.source is not None:
            more = f" and {len(own) - 16} more" if len(own) > 16 else ""
            yield f"    nearest to one device alone: {visible(', '.join(own[:16]))}{more}"
        idle = [card for card, users in row.cards if not users]
        if idle:
            yield f"    no device is nearest to {visible(', '.join(idle[:16]))}"
    if row.source is not None:
        yield f"  links as measured: {row.source}" + (f", {plural(len(row.gaps), 'gap')}" if row.gaps else ", read whole")
        yield from (f"    {visible(gap)}" for gap in row.gaps[:16])
        if len(row.gaps) > 16:
            yield f"    and {len(row.gaps) - 16} more"


def _fabric(row: FabricRow, shared_unsaid: bool) -> Iterator[str]:
    how = [row.layout.replace("_", " ")] if row.layout else []
    how += [plural(row.rails, "rail")] if row.rails else []
    how.append("non-blocking" if row.oversubscription == 1 else f"{row.oversubscription:g}:1 over-subscribed")
    if row.contention:
        how.append(f"{share(row.contention)} taken by others")
    else:
        how.append("who shares it is not stated" if shared_unsaid else "not shared with others")
    joins = f"joins {', '.join(row.joins)}" if row.joins else "joins all nodes"
    yield f"\nFabric {visible(titled(row.name, row.medium))}: {'; '.join(how)}; {visible(joins)}"
    yield f"  bisection: {_rate(row.bisection)}"


def _shares(laid: Shares) -> Table:
    rows = []
    for one in laid.axes:
        for crossing in one.crossings:
            rows.append(
                (
                    one.axis,
                    str(one.size),
                    count(one.stride),
                    count(one.groups),
                    crossing.tier.name,
                    f"{crossing.units} x {crossing.inside}",
                    str(crossing.groups),
                    _rate(crossing.group_rate),
                )
            )
    heads = ("axis", "size:", "stride:", "groups:", "crosses", "units x members", "groups a port:", "rate a group:")
    return Table(heads, tuple(rows)) if rows else Table(("axis",), (("none above 1",),))


def _span(labels: tuple[str, ...]) -> str:
    return visible(", ".join(labels) if len(labels) <= 4 else f"{labels[0]} to {labels[-1]} ({len(labels)})")


def _bottleneck(found: Bottleneck) -> str:
    link = found.link
    word = f", {link.word}" if link.word else ""
    sharing = f", shared by {link.sharing}" if link.sharing > 1 else ""
    return f"{visible(found.first)} - {visible(found.second)} ({visible(link.kind)}{word}, {_rate(link.bandwidth)}{sharing})"


def _rate(value: float | None) -> str:
    return "not known: a rate is not stated" if value is None else human(value, Dimension.BANDWIDTH)


def _word(quantity: Quantity) -> str:
    """Where a quantity stands and whom it names, on one line."""
    origin = quantity.provenance
    place = f"{origin.file}:{origin.line}" if origin.file and origin.line else origin.file or ""
    parts = [part for part in (place, origin.source, origin.date or "") if part]
    text = visible("; ".join(parts))
    return text if len(text) <= 100 else text[:97].rstrip() + "..."


def cluster_json(view: ClusterView) -> dict[str, Any]:
    """The view as plain data in base units: bytes/s and seconds; null where something is not stated."""
    return {
        "schema": 1,
        "kind": view.kind,
        "path": view.path,
        "complete": view.complete,
        "devices": view.devices,
        "nodes": view.nodes,
        "connected": view.connected,
        "tiers": [
            {
                "name": row.name,
                "tier": row.tier,
                "medium": row.medium,
                "devices": row.span,
                "bandwidth": _quantity(row.bandwidth),
                "latency": _quantity(row.latency),
            }
            for row in view.tiers
        ],
        "machines": [
            {
                "name": row.name,
                "count": row.count,
                "device": row.device,
                "devices": row.devices,
                "islands": [list(island) for island in row.islands],
                "bisection_bytes_per_s": row.bisection,
                "cards": {card: list(users) for card, users in row.cards},
                "card_bandwidth": _quantity(row.card_rate),
                "measured": row.source,
                "gaps": list(row.gaps),
            }
            for row in view.machines
        ],
        "fabrics": [
            {
                "name": row.name,
                "medium": row.medium,
                "layout": row.layout,
                "rails": row.rails,
                "oversubscription": row.oversubscription,
                "contention": row.contention,
                "joins": list(row.joins),
                "bisection_bytes_per_s": row.bisection,
            }
            for row in view.fabrics
        ],
        "collectives": [{"what": name, "bus_bandwidth": _quantity(rate)} for name, rate in view.measured],
        "slowest_link": None
        if view.slowest is None
        else {
            "between": [view.slowest.first, view.slowest.second],
            "kind": view.slowest.link.kind,
            "bandwidth_bytes_per_s": view.slowest.link.bandwidth,
            "shared_by": view.slowest.link.sharing,
        },
        "plans": [
            {
                "name": plan.name,
                "problem": plan.problem,
                "meshes": [{"mesh": mesh, **_shares_json(laid)} for mesh, laid in plan.meshes],
                "bytes_by_tier": dict(plan.sent) if plan.sent is not None else None,
                "least_order": None
                if plan.least is None
                else {
                    "order": list(plan.least.order),
                    "bytes_by_tier": dict(plan.least.bytes_by_tier),
                    "compared": plan.least.compared,
                },
            }
            for plan in view.plans
        ],
        "missing": [{"what": what, "how": how} for what, how in view.missing],
        "assumed": [{"what": what, "why": why} for what, why in view.assumed],
        "contradictions": list(view.contradictions),
    }


def _shares_json(laid: Shares) -> dict[str, Any]:
    return {
        "order": list(laid.order),
        "axes": [
            {
                "axis": one.axis,
                "size": one.size,
                "stride": one.stride,
                "groups": one.groups,
                "crosses": [
                    {
                        "tier": crossing.tier.name,
                        "units": crossing.units,
                        "members_a_unit": crossing.inside,
                        "groups_a_port": crossing.groups,
                        "group_bytes_per_s": crossing.group_rate,
                    }
                    for crossing in one.crossings
                ],
            }
            for one in laid.axes
        ],
        "ports": [
            {"tier": port.tier.name, "devices": port.devices, "bytes_per_s": port.rate, "groups": dict(port.axes)}
            for port in laid.ports
        ],
    }


def _quantity(quantity: Quantity | None) -> dict[str, Any] | None:
    if quantity is None:
        return None
    origin = quantity.provenance
    return {
        "value": quantity.value,
        "grade": quantity.grade.value,
        "source": origin.source or None,
        "file": origin.file,
        "line": origin.line,
        "date": origin.date,
    }
