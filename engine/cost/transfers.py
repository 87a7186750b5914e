"""What crosses the boundary between two stages by each way in which frameworks send it: the one cost of a message.

Vocabulary: *direct*: every device of the next stage receives all that it needs, so a stream that lies whole on t tensor ranks
crosses t times. *scatter and gather*: each tensor rank receives a t-th, and the tensor group gathers the rest over its own
links (Narayanan et al. 2021, arXiv 2104.04473, section 4.1). Under sequence parallelism, and without tensor parallelism,
nothing is held twice and the two are the same. The search, the step, the simulation and the record all price a boundary here.

Which of them a run does is its framework's choice, see `frameworks`. Nothing here knows plans, schedules or frameworks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import fsum
from typing import NamedTuple

from ..cluster.cluster import Cluster, Tier
from ..plan import Mesh
from .collectives import FREE, Network, Spent
from .sending import Transfer


class End(NamedTuple):
    """One side of a boundary. `size`: bytes of the stream that one device holds; `distance` between its tensor ranks; `at_once`:
    its devices on one node that send, or receive, over the boundary at once.
    """

    mesh: Mesh
    size: float
    distance: int
    at_once: int


class Message(NamedTuple):
    """One microbatch's way over a boundary: seconds on the links between the stages, and of the gather behind them."""

    wire: float
    gather: Spent

    @property
    def seconds(self) -> float:
        """Both, one after the other."""
        return self.wire + self.gather.seconds


class Hop(NamedTuple):
    """A message between neighbours: one way, and whether it leaves the node. `gather_s` of it are on the receiver's own links."""

    seconds: float
    tier: str
    between_nodes: bool
    gather_s: float = 0.0


def hops(
    network: Network, cluster: Cluster, tiers: Sequence[Tier], ends: Sequence[End], way: Transfer, sequence_parallel: bool
) -> tuple[tuple[Hop, ...], float]:
    """(the messages between neighbours, seconds from the last to the first). `tiers`: of each boundary, then of that way."""
    known: dict[tuple[str, End, End], Hop] = {}
    rows = []
    for tier, pair in zip(tiers, [*pairwise(ends), (ends[0], ends[-1])], strict=True):
        key = (tier.name, *pair)
        if key not in known:
            sent = message(network, cluster, tier, pair, way, sequence_parallel=sequence_parallel)
            known[key] = Hop(sent.seconds, tier.name, tier.span > cluster.devices_per_node, sent.gather.seconds)
        rows.append(known[key])
    return tuple(rows[:-1]), rows[-1].seconds


def transfer_seconds(hops: Sequence[Hop]) -> tuple[float, float]:
    """(inside nodes, between nodes): seconds of one microbatch's messages both ways. What a receiver gathers is inside."""
    inter = 2 * fsum(hop.seconds - hop.gather_s for hop in hops if hop.between_nodes)
    intra = 2 * fsum(hop.gather_s if hop.between_nodes else hop.seconds for hop in hops)
    return intra, inter


def message(
    network: Network, cluster: Cluster, tier: Tier, ends: tuple[End, End], way: Transfer, *, sequence_parallel: bool
) -> Message:
    """The longer of forward (first end to second) and backward, one `way`; seconds.

    A device receives what it holds, and a sender's part is what all receivers take over the number of senders. See `crossing`.
    """
    one, two = ends
    pairs = ((one, two),) if one == two else ((one, two), (two, one))
    ways = [_one_way(network, cluster, tier, *pair, way, sequence_parallel) for pair in pairs]
    return max(ways, key=lambda found: found.seconds)


def _one_way(
    network: Network, cluster: Cluster, tier: Tier, source: End, target: End, way: Transfer, sequence_parallel: bool
) -> Message:
    parts = 1 if sequence_parallel or way is Transfer.DIRECT else target.mesh.tensor
    wire = network.send(crossing(cluster, tier, source, target) / parts, tier).seconds
    if parts == 1:
        return Message(wire, FREE)
    return Message(wire, network.collective("all_gather", target.size, parts, target.distance))


def crossing(cluster: Cluster, tier: Tier, source: End, target: End) -> float:
    """Bytes that take as long at the rate of a device, all devices of a node sending, as the busiest end of a direct message.

    Between nodes the cards of a node are shared by those of its devices that send: a few of many have more of them each, up to a
    card of their own. Inside a node each device has its links to itself.
    """
    sent = target.size * target.mesh.devices / source.mesh.devices
    if tier.span <= cluster.devices_per_node:
        return max(target.size, sent)
    return max(target.size * _share(cluster, tier, target.at_once), sent * _share(cluster, tier, source.at_once))


def _share(cluster: Cluster, tier: Tier, at_once: int) -> float:
    """Of the time that a device's bytes take with its whole node sending, what they take with `at_once` of it sending: 0 to 1."""
    node = cluster.devices_per_node
    return min(1.0, max(at_once, min(tier.cards or node, node)) / node)
