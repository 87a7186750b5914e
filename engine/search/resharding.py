"""Resharding at a stage boundary: what must move between two shardings, by three strategies.

Vocabulary. *Hosts* have one full-duplex network card, exclusive at each end while a chunk moves; devices of one host
exchange over local links. A box that several source hosts hold is sent by the one with the least to send, split where
that evens the load.

* `repeated_sends`: every destination device gets its boxes over the network, also twice to the same host.
* `send_and_gather`: each destination host gets a box once, its devices pass it on locally; where local links count, each
  device takes in a part, and all of them gather.
* `broadcast_chain`: a box enters the first host that needs it, and is forwarded from host to host, chunk by chunk.

The simplest that is within 5 % of the fastest is chosen. Every plan is carried out on index grids before it is
offered. One that is slower than the cards allow says by how much and why. Knows no models, no stages and no costs of
computing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf

from ..errors import InputError
from ..frozen import dataclass
from .resharding_gap import CHUNKS, TOLERATED, Bounds, Gap, gap_of
from .resharding_time import Hosts, Step, flows, local_time, network_time
from .resharding_units import Sharding, Tensor, Unit, check_moves, check_sharding, cut, elements, split, tiles, units

#: From simple to complex.
STRATEGIES = ("repeated_sends", "send_and_gather", "broadcast_chain")


@dataclass(frozen=True, slots=True)
class Alternative:
    """A strategy with its simulated time and the bytes it sends over the network."""

    strategy: str
    time_s: float
    network_bytes: int


@dataclass(frozen=True, slots=True)
class ReshardingPlan:
    """`steps` in an order that works; `bytes_by_link` by (source host, destination host), the same host for its local
    links.

    `staging_bytes`: the largest chunk, which a device packs and unpacks because boxes are not contiguous.
    `alternatives` are all three strategies; the plan's own `strategy` is among them. `lower_bound_s`: no plan on
    these cards is faster, latency apart; `local_bound_s`: nor one in which a device has from its own host what that
    one holds. `gap`: why the plan takes longer than 5 % over that and a latency a hop of the chain.
    """

    steps: tuple[Step, ...]
    bytes_by_link: Mapping[tuple[int, int], int]
    time_s: float
    staging_bytes: int
    alternatives: tuple[Alternative, ...]
    strategy: str
    lower_bound_s: float
    local_bound_s: float = 0.0
    gap: Gap | None = None


def plan_resharding(tensor: Tensor, source: Sharding, destination: Sharding, cluster: Hosts) -> ReshardingPlan:
    """Moves `tensor` from `source` to `destination`; seconds and bytes. Raises `InputError` for what describes no
    such move.
    """
    check_sharding("source", tensor, source)
    check_sharding("destination", tensor, destination)
    _check_hosts(cluster, {*source.devices, *destination.devices})
    before, after = tiles(tensor, source), tiles(tensor, destination)
    moving = [unit for unit in units(tensor, before, after) if not set(unit.needed_by) <= set(unit.holders)]
    bound = _lower_bound(tensor, moving, cluster)
    chunk = max(tensor.element_bytes, int(bound * cluster.network_bytes_per_s) // CHUNKS)
    offered: list[tuple[Alternative, tuple[Step, ...]]] = []
    for strategy in STRATEGIES:
        steps = tuple(_steps(tensor, moving, cluster, strategy))
        check_moves(tensor, before, after, [(step.source, step.destination, step.box) for step in steps])
        sent = sum(step.bytes for step in steps if step.kind != "copy")
        # Where something comes from elsewhere, what is passed on inside a host waits for the first of it.
        local = local_time(steps, cluster) + (cluster.latency_s if sent else 0.0)
        time = max(network_time(flows(steps, cluster), cluster, chunk), local)
        offered.append((Alternative(strategy, time, sent), steps))
    fastest = min(alternative.time_s for alternative, _ in offered)
    limit = fastest * TOLERATED
    if bound:
        # Nor by more than that over the bound, where the fastest keeps within it.
        limit = max(fastest, min(limit, bound * TOLERATED + cluster.latency_s))
    chosen, steps = next((a, s) for a, s in offered if a.time_s <= limit)
    by_link: dict[tuple[int, int], int] = {}
    for step in steps:
        link = (cluster.host_of[step.source], cluster.host_of[step.destination])
        by_link[link] = by_link.get(link, 0) + step.bytes
    staging = max((min(chunk, step.bytes) for step in steps if step.kind != "copy"), default=0)
    hops = max((flow.hop for flow in flows(offered[-1][1], cluster)), default=0)
    bounds = Bounds(bound, _most_inside(tensor, moving, cluster) / cluster.local_bytes_per_s, hops)
    gap = gap_of(tensor, moving, steps, cluster, chosen.time_s, bounds, chunk)
    alternatives = tuple(alternative for alternative, _ in offered)
    return ReshardingPlan(
        steps, by_link, chosen.time_s, staging, alternatives, chosen.strategy, bound, bounds.local_s, gap
    )


def _check_hosts(cluster: Hosts, devices: set[int]) -> None:
    homeless = sorted(devices - set(cluster.host_of))
    if homeless:
        raise InputError(
            f"host_of knows no host of the devices {homeless[:8]}",
            remedy="State the host of every device of both meshes.",
        )
    for name, speed in (("network", cluster.network_bytes_per_s), ("local", cluster.local_bytes_per_s)):
        if not speed > 0:
            raise InputError(
                f"{name}_bytes_per_s is {speed}: more than 0 is expected", remedy="Bytes a second, per direction."
            )
    if not 0 <= cluster.latency_s < inf:
        raise InputError(f"latency_s is {cluster.latency_s}: 0 or more is expected", remedy="Seconds of one message.")


def _hosts(devices: tuple[int, ...], cluster: Hosts) -> list[int]:
    return sorted({cluster.host_of[device] for device in devices})


def _missing_on(unit: Unit, cluster: Hosts) -> list[int]:
    """Hosts that need the unit and do not hold it."""
    held = _hosts(unit.holders, cluster)
    return [host for host in _hosts(unit.needed_by, cluster) if host not in held]


def _lower_bound(tensor: Tensor, moving: list[Unit], cluster: Hosts) -> float:
    """Seconds of the busiest card at least: what a host must receive once, what only one host can send, and an even
    share of the rest.
    """
    receive: dict[int, int] = {}
    only: dict[int, int] = {}
    total, senders = 0, set[int]()
    for unit in moving:
        size = elements(unit.box) * tensor.element_bytes
        missing, held = _missing_on(unit, cluster), _hosts(unit.holders, cluster)
        for host in missing:
            receive[host] = receive.get(host, 0) + size
        if missing:
            total += size
            senders |= set(held)
            if len(held) == 1:
                only[held[0]] = only.get(held[0], 0) + size
    busiest = max([0, *receive.values(), *only.values()])
    return max(busiest, total / max(1, len(senders))) / cluster.network_bytes_per_s


def _most_inside(tensor: Tensor, moving: list[Unit], cluster: Hosts) -> int:
    """The most bytes that a device needs and another of its host has already."""
    into: dict[int, int] = {}
    for unit in moving:
        held = _hosts(unit.holders, cluster)
        for device in unit.needed_by:
            if device not in unit.holders and cluster.host_of[device] in held:
                into[device] = into.get(device, 0) + elements(unit.box) * tensor.element_bytes
    return max(into.values(), default=0)


def _steps(tensor: Tensor, moving: list[Unit], cluster: Hosts, strategy: str) -> list[Step]:
    """Network steps by sender, then copies; a box that enters several hosts of a chain enters the least loaded card
    first.
    """
    host_of = cluster.host_of
    sent: dict[int, float] = {}
    out: dict[int, float] = {}
    steps: list[Step] = []

    def step(kind: str, source: int, destination: int, unit: Unit) -> None:
        steps.append(Step(kind, source, destination, unit.box, elements(unit.box) * tensor.element_bytes))

    def copy(source: int, destination: int, unit: Unit) -> None:
        step("copy", source, destination, unit)
        out[source] = out.get(source, 0.0) + elements(unit.box)

    for given, sender in _senders(tensor, moving, cluster, strategy):
        missing = _missing_on(given, cluster)
        if strategy == "broadcast_chain":
            missing.sort(key=lambda host: sent.get(host, 0.0))
            # The first host forwards to the next; the last one sends nothing.
            for host in missing[:-1]:
                sent[host] = sent.get(host, 0.0) + elements(given.box) * tensor.element_bytes
        holders: dict[int, list[int]] = {}
        needers: dict[int, list[int]] = {}
        for device in given.holders:
            holders.setdefault(host_of[device], []).append(device)
        for device in given.needed_by:
            if device not in given.holders:
                needers.setdefault(host_of[device], []).append(device)
        parts = 1
        if strategy != "repeated_sends" and cluster.local_bytes_per_s < inf:
            parts = max(
                [1, *(len(wanted) for host, wanted in needers.items() if len(wanted) > len(holders.get(host, ())))]
            )
        for j, unit in enumerate(cut(given, parts)):
            origins = holders.get(sender) or list(unit.holders)
            at = origin = origins[j % len(origins)]
            for host in missing:
                wanted = needers[host]
                chosen = wanted if strategy == "repeated_sends" else [wanted[j % len(wanted)]]
                for device in chosen:
                    step("send" if at == origin else "forward", at, device, unit)
                for device in wanted if len(chosen) == 1 else ():
                    if device != chosen[0]:
                        copy(chosen[0], device, unit)
                if strategy == "broadcast_chain":
                    at = chosen[0]
            for host, wanted in needers.items():
                if host not in missing:
                    for source, destination in _inside(holders[host], wanted, j, parts, out):
                        copy(source, destination, unit)
    return steps


def _inside(
    held: list[int], wanted: list[int], j: int, parts: int, out: Mapping[int, float]
) -> Iterator[tuple[int, int]]:
    """(from, to) of part `j` of a box, from the devices of one host that hold it to those that need it.

    A part of several enters by one device and goes on from there to the others, as in a scatter and an all-gather; else each
    takes it from a holder of its own, as far as there are any.
    """
    if parts > 1 and len(wanted) > len(held):
        first = wanted[j % len(wanted)]
        yield min(held, key=lambda device: out.get(device, 0.0)), first
        held, wanted = [first], [device for device in wanted if device != first]
    for device in wanted:
        yield min(held, key=lambda one: out.get(one, 0.0)), device


def _senders(tensor: Tensor, moving: list[Unit], cluster: Hosts, strategy: str) -> list[tuple[Unit, int]]:
    """Units with the host that sends each; those with a choice last, to the least loaded, split where that evens two
    hosts.
    """
    load: dict[int, float] = {}

    def cost(unit: Unit) -> float:
        missing = _missing_on(unit, cluster)
        if strategy == "repeated_sends":
            times = sum(cluster.host_of[device] in missing for device in unit.needed_by)
        else:
            times = len(missing) if strategy == "send_and_gather" else min(1, len(missing))
        return float(elements(unit.box) * tensor.element_bytes * times)

    assigned: list[tuple[Unit, int]] = []
    waiting = sorted(moving, key=lambda unit: (len(_hosts(unit.holders, cluster)), -elements(unit.box)))
    for given in waiting:
        unit, hosts = given, _hosts(given.holders, cluster)
        while True:
            hosts.sort(key=lambda host: load.get(host, 0.0))
            lightest, price = hosts[0], cost(unit)
            gap = load.get(hosts[1], 0.0) - load.get(lightest, 0.0) if len(hosts) > 1 else inf
            parts = split(unit, (gap + (price - gap) / len(hosts)) / price) if price > 0 and gap < price else None
            first = unit if parts is None else parts[0]
            load[lightest] = load.get(lightest, 0.0) + cost(first)
            assigned.append((first, lightest))
            if parts is None:
                break
            # The rest goes to the hosts that are left, so that a unit is cut at most once for each host.
            unit, hosts = parts[1], hosts[1:]
    return assigned
