"""A bound holds for every algorithm: what a ring or a tree would really show stays below it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planproof.cluster.limits import bus_bandwidth_limit


@given(st.integers(1, 16), st.integers(1, 64), st.floats(1e9, 1e12), st.floats(1e9, 1e12))
def test_what_an_algorithm_shows_is_never_above_the_bound(inside: int, nodes: int, link: float, node: float) -> None:
    ranks = inside * nodes
    if ranks < 2:
        return
    limit = bus_bandwidth_limit("all_reduce", ranks, nodes, link, node)
    assert limit is not None
    size = 1.0
    factor = 2 * (ranks - 1) / ranks
    # One ring through everything: each device passes factor x size on, and one of them in a node by the cards.
    slowest = min([link] * (inside > 1) + [node] * (nodes > 1))
    assert factor * size / (factor * size / slowest) <= limit.rate * (1 + 1e-9)
    # Level by level: reduce-scatter inside, all-reduce of the shards between nodes, all-gather inside.
    seconds = 2 * (inside - 1) / inside * size / link + 2 * (nodes - 1) / nodes * size / node
    assert factor * size / seconds <= limit.rate * (1 + 1e-9)


def test_a_switch_that_reduces_sends_each_byte_once() -> None:
    plain = bus_bandwidth_limit("all_reduce", 8, 1, 450e9, None)
    reducing = bus_bandwidth_limit("all_reduce", 8, 1, 450e9, None, in_network=True)
    assert plain is not None
    assert reducing is not None
    assert plain.rate == 450e9
    assert reducing.rate == pytest.approx(450e9 * 1.75)
    gathering = bus_bandwidth_limit("all_gather", 8, 1, 450e9, None, in_network=True)
    assert gathering == plain


def test_which_link_sets_the_bound_is_said_and_nothing_is_said_without_rates() -> None:
    assert bus_bandwidth_limit("all_reduce", 16, 2, 300e9, 50e9) == bus_bandwidth_limit("all_gather", 16, 2, 300e9, 50e9)
    narrow = bus_bandwidth_limit("all_reduce", 16, 2, 300e9, 50e9)
    wide = bus_bandwidth_limit("all_reduce", 16, 2, 300e9, 400e9)
    assert narrow is not None
    assert wide is not None
    assert (narrow.by, wide.by) == ("fabric", "inside")
    assert narrow.rate == pytest.approx(50e9 * (15 / 16) / (1 / 2))
    assert bus_bandwidth_limit("all_reduce", 16, 2, None, None) is None
    assert bus_bandwidth_limit("all_reduce", 1, 1, 300e9, None) is None
    assert bus_bandwidth_limit("gather", 16, 16, None, 50e9) is None
