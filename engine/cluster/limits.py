"""What a link can carry at best, to hold a measured figure against: more than this was not sent over it.

Bandwidths are in bytes/s per direction; *bus bandwidth* is nccl-tests' busbw. These are bounds, not estimates.
"""

from __future__ import annotations

from ..frozen import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    """The most bus bandwidth that a collective can show, and whether the links `inside` a node or the `fabric` set it."""

    rate: float
    by: str


def bus_bandwidth_limit(
    operation: str, ranks: int, nodes: int, link_rate: float | None, node_rate: float | None, *, in_network: bool = False
) -> Limit | None:
    """The bound of `operation` over `ranks` devices on `nodes` nodes; None where no rate is known or it has none.

    A device sends what busbw counts (nccl-tests, doc/PERFORMANCE.md), by its links inside the node at `link_rate` and by its part
    of the cards: busbw is at most the two together. Where the switch reduces, an all-reduce of S bytes sends S once: busbw is
    then at most 2 (n - 1) / n of that. Between N nodes of n / N devices each, a node's cards (`node_rate`) carry (N - 1) / N
    of what busbw counts as (n - 1) / n, whatever the algorithm; an all-to-all carries n / N (n - n / N) / (n - 1) of it, a
    broadcast or reduce the whole.
    """
    if ranks < 2:
        return None
    bounds: list[Limit] = []
    inside = -(-ranks // nodes)
    if link_rate is not None and inside > 1 and (nodes == 1 or node_rate is not None):
        factor = 2 * (ranks - 1) / ranks if in_network and operation == "all_reduce" else 1.0
        beside = node_rate / inside if nodes > 1 and node_rate is not None else 0.0
        bounds.append(Limit((link_rate + beside) * max(1.0, factor), "inside"))
    if node_rate is not None and nodes > 1:
        if operation in ("all_reduce", "all_gather", "reduce_scatter"):
            bounds.append(Limit(node_rate * (ranks - 1) / ranks / ((nodes - 1) / nodes), "fabric"))
        elif operation in ("alltoall", "all_to_all"):
            bounds.append(Limit(node_rate * (ranks - 1) / (inside * (ranks - inside)), "fabric"))
        elif operation in ("broadcast", "reduce"):
            bounds.append(Limit(node_rate, "fabric"))
    return min(bounds, key=lambda bound: bound.rate, default=None)
