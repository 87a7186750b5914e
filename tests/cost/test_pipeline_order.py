"""Stages of one size lie in the pipeline's order: no other order of theirs sends less over any tier."""

from __future__ import annotations

from itertools import pairwise, permutations

import pytest
from planproof.cost.collectives import Network
from planproof.cost.factors import NOMINAL, load_constants
from time_cases import cluster


def crossings(network: Network, starts: list[int], size: int, *, closed: bool) -> list[int]:
    """[tier] the boundaries whose two stages no unit of that tier holds; `closed`: the first and the last stage exchange, too."""
    tiers = network.cluster.tiers
    pairs = [*pairwise(starts), (starts[-1], starts[0])] if closed else list(pairwise(starts))
    met = [
        tiers.index(network.tier_between(min(pair), max(pair) + size - 1)) for pair in pairs
    ]
    return [sum(one > level for one in met) for level in range(len(tiers))]


@pytest.mark.parametrize("closed", [False, True], ids=["a pipeline", "with a table that both ends share"])
@pytest.mark.parametrize(("nodes", "size"), [(1, 2), (2, 4), (3, 4), (4, 8), (3, 8), (6, 8), (7, 8)])
def test_no_order_of_equal_stages_crosses_a_tier_less_often(nodes: int, size: int, *, closed: bool) -> None:
    network = Network(cluster(nodes=nodes), NOMINAL, load_constants())
    starts = list(range(0, nodes * 8, size))
    count = len(starts)
    ours = crossings(network, starts, size, closed=closed)
    assert nodes == 1 or max(ours) > 0
    assert count <= 7
    for order in permutations(range(count)):
        others = crossings(network, [starts[k] for k in order], size, closed=closed)
        assert all(a <= b for a, b in zip(ours, others, strict=True)), order
