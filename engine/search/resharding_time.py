"""How long the steps of a resharding plan take: an event simulation of the hosts' cards, and the load of every card and device.

Vocabulary. A *flow* is all bytes on one hop of one path between hosts; it moves in *chunks*. A card sends one chunk and receives
one at a time; a chunk arrives a *latency* after it has left, which keeps no card busy. Knows no tiles, no strategies and no
bounds.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from math import inf

from ..frozen import dataclass
from .resharding_units import Box


@dataclass(frozen=True, slots=True)
class Hosts:
    """Where the devices are: the host of each, bytes/s of a host's network card and of a device's local links, each
    per direction; seconds until what a card has sent is there.
    """

    host_of: Mapping[int, int]
    network_bytes_per_s: float
    local_bytes_per_s: float = inf
    latency_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """One box from one device to another: `send` and `forward` over the network, `copy` inside a host or on the
    device itself.
    """

    kind: str
    source: int
    destination: int
    box: Box
    bytes: int


@dataclass(frozen=True, slots=True)
class Flow:
    """Bytes from one host to another; `behind`: the flow that it forwards, or -1. `hop` counts from 1 along its path."""

    sender: int
    receiver: int
    bytes: int
    behind: int
    hop: int


def flows(steps: Sequence[Step], cluster: Hosts) -> tuple[Flow, ...]:
    """One flow for each hop of each path between hosts.

    Boxes on the same whole path travel as one flow, so the number of flows does not grow with the number of boxes.
    """
    by_box: dict[Box, list[Step]] = {}
    for step in steps:
        if step.kind != "copy":
            by_box.setdefault(step.box, []).append(step)
    sizes: dict[tuple[tuple[int, ...], int], int] = {}
    for hops in by_box.values():
        chain = (cluster.host_of[hops[0].source], *(cluster.host_of[hop.destination] for hop in hops))
        for place, hop in enumerate(hops):
            alone = (cluster.host_of[hop.source], cluster.host_of[hop.destination])
            key = (chain, place) if hops[-1].kind == "forward" else (alone, 0)
            sizes[key] = sizes.get(key, 0) + hop.bytes
    place_of = {key: n for n, key in enumerate(sizes)}
    return tuple(
        Flow(path[hop], path[hop + 1], size, place_of[path, hop - 1] if hop else -1, hop + 1)
        for (path, hop), size in sizes.items()
    )


def network_time(flows: Sequence[Flow], cluster: Hosts, chunk: int) -> float:
    """Seconds until the last chunk has arrived; a forward follows its chunk.

    List scheduling: of the chunks that can start, the one whose two cards have the most left to do.
    """
    left = [flow.bytes for flow in flows]
    out_left, in_left = card_loads(flows)
    there = [0] * len(flows)
    running = set[int]()
    busy_out, busy_in = set[int](), set[int]()
    # (when, 0 a card is free or 1 a chunk is there, flow, bytes)
    events: list[tuple[float, int, int, int]] = []
    now = last = 0.0
    while True:
        ready = sorted(
            (
                n
                for n, flow in enumerate(flows)
                if left[n]
                and n not in running
                and (flow.behind < 0 or there[flow.behind] >= min(flow.bytes - left[n] + chunk, flow.bytes))
            ),
            key=lambda n: -(out_left[flows[n].sender] + in_left[flows[n].receiver]),
        )
        for n in ready:
            flow = flows[n]
            if flow.sender not in busy_out and flow.receiver not in busy_in:
                busy_out.add(flow.sender)
                busy_in.add(flow.receiver)
                running.add(n)
                size = min(chunk, left[n])
                heapq.heappush(events, (now + size / cluster.network_bytes_per_s, 0, n, size))
        if not events:
            return last
        now = events[0][0]
        while events and events[0][0] <= now:
            _, arrived, n, size = heapq.heappop(events)
            flow = flows[n]
            if arrived:
                there[n] += size
                continue
            running.discard(n)
            busy_out.discard(flow.sender)
            busy_in.discard(flow.receiver)
            left[n] -= size
            out_left[flow.sender] -= size
            in_left[flow.receiver] -= size
            last = max(last, now + cluster.latency_s)
            if cluster.latency_s:
                heapq.heappush(events, (now + cluster.latency_s, 1, n, size))
            else:
                there[n] += size


def card_loads(flows: Sequence[Flow]) -> tuple[dict[int, int], dict[int, int]]:
    """Bytes that every host's card sends, and that it receives."""
    out: dict[int, int] = {}
    into: dict[int, int] = {}
    for flow in flows:
        out[flow.sender] = out.get(flow.sender, 0) + flow.bytes
        into[flow.receiver] = into.get(flow.receiver, 0) + flow.bytes
    return out, into


def local_loads(steps: Sequence[Step]) -> tuple[dict[int, int], dict[int, int]]:
    """Bytes that every device sends over its local links, and that it receives."""
    out: dict[int, int] = {}
    into: dict[int, int] = {}
    for step in steps:
        if step.kind == "copy":
            out[step.source] = out.get(step.source, 0) + step.bytes
            into[step.destination] = into.get(step.destination, 0) + step.bytes
    return out, into


def local_time(steps: Sequence[Step], cluster: Hosts) -> float:
    """Seconds of the busiest local link: copies run behind the network, chunk by chunk: the slower one counts."""
    out, into = local_loads(steps)
    return max([0, *out.values(), *into.values()]) / cluster.local_bytes_per_s
