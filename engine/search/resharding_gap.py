"""Why a resharding plan takes longer than its bound: which link or card binds, and what keeps it from binding less.

Vocabulary. The *limit* of a plan is 5 % over the bound, and one latency for each hop of the broadcast chain; where more has to
pass inside a host, 5 % over what a device there has to receive. A *gap* is what a plan takes beyond it. Its cause is found in the
plan's own steps, each in its turn, the first that alone is beyond the limit:

* `local links`: some device's copies inside its host take longer than that;
* `sent more than once`: a card sends the same box more than once, to one host or to several;
* `forwarding`: a card has what it passes on besides what it sends;
* `rounding of tiles`: a card has more than its part, and the smallest slice that it could leave to another holder would make
  that one the busier;
* `unequal senders`: the same, and a slice could be left to another;
* `chunks`: no card has too much, and with finer chunks the plan would keep the limit;
* `order of messages`: nor would it then: a card waits for the other end of a message.

Nothing here plans or chooses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from ..frozen import dataclass
from .resharding_time import Hosts, Step, card_loads, flows, local_loads, network_time
from .resharding_units import Tensor, Unit, contains

#: What a plan may take of the bound, latency apart.
TOLERATED = 1.05
#: Chunks of the heaviest card, and of the finer ones with which a plan is asked whether its chunks are to blame.
CHUNKS, FINE = 32, 2048

CAUSES = (
    "local links", "sent more than once", "forwarding", "rounding of tiles", "unequal senders", "chunks", "order of messages",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Gap:
    """`ratio` of the plan's time to its limit, above 1; `cause`, one of `CAUSES`; `words`: what binds, in numbers."""

    ratio: float
    cause: str
    words: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """Seconds of the busiest card, of the device that lacks most of what its host has; hops of the longest chain."""

    cards_s: float
    local_s: float
    hops: int


def gap_of(
    tensor: Tensor, moving: Sequence[Unit], steps: Sequence[Step], cluster: Hosts, time: float, bounds: Bounds, chunk: int
) -> Gap | None:
    """The gap of a plan, None where it keeps its limit or nothing needs the network, so that there is no bound."""
    bound = bounds.cards_s
    limit = max(bound * TOLERATED + bounds.hops * cluster.latency_s, bounds.local_s * TOLERATED + cluster.latency_s)
    if not bound or time <= limit * (1 + 1e-12):
        return None
    cause, words = (
        _local(steps, cluster, limit) or _card(tensor, moving, steps, cluster, bound) or _waiting(steps, cluster, limit, chunk)
    )
    return Gap(time / limit, cause, words)


def _local(steps: Sequence[Step], cluster: Hosts, limit: float) -> tuple[str, str] | None:
    loads = local_loads(steps)
    most, device, verb = max(
        (count, device, verb) for table, verb in zip(loads, ("sends", "receives"), strict=True) for device, count in table.items()
    ) if any(loads) else (0, 0, "")  # fmt: skip
    if most <= (limit - cluster.latency_s) * cluster.local_bytes_per_s:
        return None
    host = cluster.host_of[device]
    return "local links", f"device {device} {verb} {most:,} bytes over the local links of host {host}"


def _card(
    tensor: Tensor, moving: Sequence[Unit], steps: Sequence[Step], cluster: Hosts, bound: float
) -> tuple[str, str] | None:
    """The busiest card, where its bytes alone take longer than the limit without latency."""
    allowed = bound * TOLERATED * cluster.network_bytes_per_s
    out, into = card_loads(flows(steps, cluster))
    most, host, sends = max((count, host, table is out) for table in (out, into) for host, count in table.items())
    if most <= allowed:
        return None
    verb = "sends" if sends else "receives"
    share = f"the card of host {host} {verb} {most:,} bytes, {most / allowed * TOLERATED:.3f} of the bound"
    mine = [step for step in steps if step.kind != "copy" and cluster.host_of[step.source if sends else step.destination] == host]
    repeated = sum(step.bytes for step in mine) - sum({step.box: step.bytes for step in mine}.values())
    if not sends or (repeated and most - repeated <= allowed):
        return "sent more than once", f"{share}, {repeated:,} of them again"
    passed = sum(step.bytes for step in mine if step.kind == "forward")
    if passed and most - passed <= allowed:
        return "forwarding", f"{share}, {passed:,} of them passed on"
    slice_bytes, other = _least_slice(tensor, moving, mine, cluster, host, out)
    if slice_bytes and out.get(other, 0) + slice_bytes < most:
        held = sum(step.bytes for step in mine if other in _holders(moving, step, cluster))
        return "unequal senders", f"{share}; host {other} holds {held:,} bytes of them and sends {out.get(other, 0):,} in all"
    return "rounding of tiles", f"{share}; the smallest slice that host {other} could send instead is {slice_bytes:,} bytes"


def _least_slice(
    tensor: Tensor, moving: Sequence[Unit], mine: Sequence[Step], cluster: Hosts, host: int, out: Mapping[int, int]
) -> tuple[int, int]:
    """(bytes, the other host with the least to send): one element across the longest dim of a box that it holds as well."""
    found: list[tuple[int, int, int]] = []
    for step in mine:
        if step.kind != "send":
            continue
        lengths = [high - low for low, high in step.box]
        size = prod(lengths) // max(lengths) * tensor.element_bytes
        found += [(out.get(other, 0) + size, size, other) for other in _holders(moving, step, cluster) - {host}]
    least = min(found, default=(0, 0, host))
    return least[1], least[2]


def _holders(moving: Sequence[Unit], step: Step, cluster: Hosts) -> set[int]:
    """The hosts that held a step's box from the start."""
    unit = next(one for one in moving if contains(one.box, step.box))
    return {cluster.host_of[device] for device in unit.holders}


def _waiting(steps: Sequence[Step], cluster: Hosts, limit: float, chunk: int) -> tuple[str, str]:
    every = flows(steps, cluster)
    out, into = card_loads(every)
    finer = max(1, max([*out.values(), *into.values()]) // FINE)
    fine = network_time(every, cluster, finer)
    if finer < chunk and fine <= limit:
        last = f"the last chunk of {chunk:,} bytes is passed on when all others are there"
        return "chunks", f"{last}; in chunks of {finer:,} bytes the cards would take {fine:.3g} s"
    most, host, verb = max(
        (count, host, verb) for table, verb in ((out, "sends"), (into, "receives")) for host, count in table.items()
    )
    busy = most / cluster.network_bytes_per_s
    return "order of messages", f"the card of host {host} {verb} for {busy:.3g} s and waits for other cards the rest of the time"
