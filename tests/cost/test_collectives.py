"""Collectives: volumes, levels, measured curves."""

from __future__ import annotations

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planproof.cluster.cluster import Collective
from planproof.cost.collectives import FREE, Network, bus_factor
from planproof.cost.factors import Factors, load_constants
from planproof.quantity import Dimension, Grade
from time_cases import cluster, fabric, quantity

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
operations = st.sampled_from(OPERATIONS)
A100 = cluster(nodes=8)


def curve(operation: str, ranks: int, nodes: int | None, *rows: tuple[int, float]) -> Collective:
    return Collective(operation, ranks, nodes, rows, quantity(1.0, Dimension.TIME, Grade.MEASURED))


def test_one_device_or_no_bytes_cost_nothing() -> None:
    network = Network(A100)
    assert network.collective("all_reduce", 1e6, 1, 1) == FREE
    assert network.collective("all_reduce", 0, 8, 1) == FREE


def test_a_large_group_on_the_fabric_moves_its_bus_factor_of_bytes_at_the_share_of_bandwidth() -> None:
    """8 devices on 8 nodes, 10 GB: (n - 1) / n x 10 GB at 25 GB/s x the fabric's share; the rest is below 1 %."""
    rate = 25e9 * load_constants()["fabric_share"].value
    for operation in ("all_gather", "reduce_scatter", "all_reduce"):
        found = Network(A100).collective(operation, 1e10, 8, 8)
        assert found.seconds == pytest.approx(bus_factor(operation, 8) * 1e10 / rate, rel=0.01)
        assert found.tiers == (("fabric", found.seconds),)


def test_a_group_inside_the_node_follows_the_sheets_curve() -> None:
    sheet = A100.nodes[0].sheet.links[0].collective("all_reduce", 8)
    assert sheet is not None
    size = 64 * 2**20
    expected = sheet.latency.value + 1.75 * size / sheet.bus_bandwidth.value + sheet.root_term.value * sqrt(64)
    assert Network(A100).collective("all_reduce", size, 8, 1).seconds == pytest.approx(expected)


def test_a_group_of_16_on_two_islands_crosses_the_fabric_with_an_eighth_a_device() -> None:
    """Reduce-scatter inside, all-reduce of the shard between two, all-gather inside, unless one ring is quicker."""
    network = Network(A100)
    size = 1e9
    inside = sum(network.collective(name, size, 8, 1).seconds for name in ("reduce_scatter", "all_gather"))
    between = network.collective("all_reduce", size / 8, 2, 8).seconds
    found = network.collective("all_reduce", size, 16, 1)
    assert network.collective("all_reduce", size / 8, 2, 8).tiers[0][0] == "fabric"
    assert found.seconds <= inside + between
    assert found.seconds > between
    assert found.seconds < network.collective("all_reduce", size, 16, 8).seconds / 4


def test_levels_are_the_units_that_meet_on_each_tier() -> None:
    network = Network(A100)
    assert [(level.tier.name, level.units, level.inside) for level in network.levels(16, 1)] == [
        ("nvswitch", 8, 1),
        ("fabric", 2, 8),
    ]
    assert [(level.tier.name, level.units) for level in network.levels(8, 8)] == [("fabric", 8)]


@given(operations, st.integers(2, 64), st.sampled_from((1, 2, 4, 8)), st.floats(1.0, 1e10), st.floats(1.0, 8.0))
def test_more_bytes_never_take_less_time_and_more_bandwidth_never_more(
    operation: str, ranks: int, stride: int, size: float, factor: float
) -> None:
    ranks = min(ranks, 64 // stride)
    usual = Network(A100).collective(operation, size, ranks, stride).seconds
    assert Network(A100).collective(operation, size * factor, ranks, stride).seconds >= usual * (1 - 1e-9)
    for name in ("nvswitch", "fabric"):
        quick = Network(A100, Factors(bandwidth=((name, factor),)))
        assert quick.collective(operation, size, ranks, stride).seconds <= usual * (1 + 1e-9)


@given(operations, st.integers(2, 64), st.sampled_from((1, 2, 8)), st.floats(1.0, 1e9))
def test_parts_by_tier_add_up(operation: str, ranks: int, stride: int, size: float) -> None:
    found = Network(A100).collective(operation, size, ranks, stride)
    assert sum(seconds for _, seconds in found.tiers) == pytest.approx(found.seconds)


def test_a_measured_curve_is_interpolated_where_operation_ranks_and_nodes_fit() -> None:
    log = curve("AllReduce", 16, 2, (2**20, 1e-4), (2**24, 1e-3))
    network = Network(cluster(nodes=8, collectives=(log,)))
    assert network.collective("all_reduce", 2**20, 16, 1).seconds == pytest.approx(1e-4)
    assert network.collective("all_reduce", 2**22, 16, 1).seconds == pytest.approx(sqrt(1e-4 * 1e-3))
    plain = Network(A100)
    for operation, ranks, stride in (("all_gather", 16, 1), ("all_reduce", 8, 1), ("all_reduce", 8, 8)):
        assert network.measured(operation, ranks, stride) is None
        assert network.collective(operation, 2**22, ranks, stride) == plain.collective(operation, 2**22, ranks, stride)


def test_beyond_a_measured_curve_its_end_is_scaled_and_never_jumps() -> None:
    log = curve("all_reduce", 8, None, (2**20, 1e-4), (2**24, 1e-3))
    network = Network(cluster(nodes=8, collectives=(log,)))
    for edge, seconds in log.rows:
        for size in (edge * 0.999, edge * 1.001):
            assert network.collective("all_reduce", size, 8, 1).seconds == pytest.approx(seconds, rel=0.01)
    assert network.collective("all_reduce", 2**30, 8, 1).seconds > 16 * 1e-3


def test_a_cube_mesh_gets_what_its_rings_carry() -> None:
    """p3.16xlarge: a pair has 25 GB/s, a ring over eight 150 GB/s."""
    network = Network(cluster("p3.16xlarge", nodes=2))
    pair, eight = network.levels(2, 1)[0], network.levels(8, 1)[0]
    assert eight.rate == pytest.approx(6 * pair.rate)


def test_a_message_takes_the_innermost_tier_that_holds_both_ends() -> None:
    network = Network(A100)
    assert network.tier_between(0, 7).name == "nvswitch"
    assert network.tier_between(4, 11).name == "fabric"
    assert network.send(1e8, fabric(64)).seconds > network.send(1e8, A100.tiers[0]).seconds
