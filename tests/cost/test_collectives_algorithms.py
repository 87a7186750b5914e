"""Collectives: which algorithm a group gets, what it moves, and measured machines without a curve of their own."""

from __future__ import annotations

from dataclasses import replace
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planproof.cluster.cluster import Cluster, Collective, Nodes
from planproof.cost.collective_formulas import between_curves, bus_factor, in_network_bytes, kept_bytes
from planproof.cost.collectives import Network
from planproof.cost.factors import load_constants
from planproof.quantity import Dimension, Grade
from time_cases import cluster, quantity

MIB = 2**20
STARTUP = load_constants()["collective_startup"].value
A100 = cluster(nodes=8)
#: Sixteen V100 on one switch, without curves.
DGX2 = cluster("dgx2", nodes=4)


def alone(found: Cluster) -> Cluster:
    """One node of it, without a fabric, where groups of any size stay inside."""
    return replace(found, nodes=(Nodes(1, found.nodes[0].sheet),), tiers=found.tiers[:-1])


def without_curves(name: str, nodes: int = 1) -> Cluster:
    found = cluster(name, nodes)
    sheet = found.nodes[0].sheet
    links = tuple(replace(link, collectives=()) for link in sheet.links)
    return replace(found, nodes=(Nodes(nodes, replace(sheet, links=links)),))


def bus(network: Network, operation: str, size: float, ranks: int) -> float:
    return bus_factor(operation, ranks) * size / network.collective(operation, size, ranks, 1).seconds


def test_a_broadcast_moves_its_buffer_once_however_many_receive_it() -> None:
    network = Network(A100)
    two, sixteen = (network.collective("broadcast", 1e10, ranks, 1).seconds for ranks in (2, 8))
    assert sixteen == pytest.approx(two, rel=0.01)
    measured = {256 * MIB: 1271.5e-6, 512 * MIB: 2436.3e-6}
    # Eight A100-SXM4-40GB: github.com/microsoft/superbenchmark, tests/data/nccl_broadcast.log.
    for size, seconds in measured.items():
        assert network.collective("broadcast", size, 8, 1).seconds == pytest.approx(seconds, rel=0.1)


def test_a_small_all_reduce_takes_a_chain_inside_a_node_and_a_tree_between_nodes() -> None:
    network, tiny = Network(DGX2), 1e-3
    inside, between = (DGX2.tiers[k].latency.value for k in (0, -1))
    assert network.collective("all_reduce", tiny, 16, 1).seconds == pytest.approx(STARTUP + 30 * inside, rel=1e-3)
    assert network.collective("all_reduce", tiny, 4, 16).seconds == pytest.approx(STARTUP + 2 * log2(4) * between, rel=1e-3)
    assert network.collective("broadcast", tiny, 64, 1).seconds == pytest.approx(STARTUP + 15 * inside + 2 * between, rel=1e-3)


def test_a_small_all_gather_on_two_levels_takes_the_steps_of_one_ring_or_fewer() -> None:
    inside, between = (DGX2.tiers[k].latency.value for k in (0, -1))
    seconds = Network(DGX2).collective("all_gather", 1e-3, 64, 1).seconds
    assert seconds <= STARTUP + 60 * inside + 3 * between + 1e-9
    assert seconds == pytest.approx(2 * STARTUP + 15 * inside + 3 * between, rel=1e-3)


def test_a_large_all_reduce_between_nodes_takes_a_ring_because_a_tree_moves_more() -> None:
    rate = A100.tiers[-1].bandwidth.value * load_constants()["fabric_share"].value
    seconds = Network(A100).collective("all_reduce", 1e10, 2, 8).seconds
    assert seconds == pytest.approx(1e10 / rate, rel=0.01)
    assert seconds < 0.6 * 2e10 / rate


def test_two_devices_show_less_bus_bandwidth_than_eight_for_half_of_their_work_is_a_copy() -> None:
    network = Network(alone(without_curves("dgx_a100")))
    for operation in ("all_reduce", "all_gather", "reduce_scatter"):
        rates = [bus(network, operation, 2**30, ranks) for ranks in range(2, 9)]
        assert rates == sorted(rates)
        assert rates[0] < 0.9 * rates[-1]
    assert kept_bytes("all_gather", 8.0, 2) == 4.0
    assert kept_bytes("broadcast", 8.0, 2) == 0.0


#: All-reduce on A100 over counts that the sheet states no curve for, microseconds by bytes: github.com/VIA-Research/
#: vTrain@f8dda84, trace/a100, AR_GPU3 to AR_GPU7. The sheet's curves come from another machine.
VTRAIN = {
    3: {38797312: 311.1, 101711872: 718.8, 537919488: 3468.3},
    5: {38797312: 346.4, 101711872: 835.0, 537919488: 3937.3},
    6: {38797312: 377.5, 101711872: 859.4, 537919488: 4029.6},
    7: {38797312: 352.5, 101711872: 839.9, 537919488: 4110.3},
}


@pytest.mark.parametrize("ranks", VTRAIN)
def test_a_group_between_two_curves_of_the_sheet_is_priced_between_them_as_measured_elsewhere(ranks: int) -> None:
    network = Network(alone(A100))
    for size, microseconds in VTRAIN[ranks].items():
        assert network.collective("all_reduce", size, ranks, 1).seconds == pytest.approx(microseconds * 1e-6, rel=0.12)


def test_a_curve_between_two_meets_each_of_them() -> None:
    link = A100.nodes[0].sheet.links[0]
    four, eight = (link.collective("all_gather", n) for n in (4, 8))
    assert four is not None
    assert eight is not None
    for end in (four, eight):
        found = between_curves(four, eight, end.devices)
        for name in ("latency", "bus_bandwidth", "root_term"):
            assert getattr(found, name).value == pytest.approx(getattr(end, name).value)
    six = between_curves(four, eight, 6)
    assert four.latency.value < six.latency.value < eight.latency.value


def test_a_group_beyond_the_curves_or_on_a_mesh_is_priced_by_its_own_links() -> None:
    sheet = A100.nodes[0].sheet
    few = replace(sheet.links[0], collectives=tuple(c for c in sheet.links[0].collectives if c.devices < 8))
    known = replace(alone(A100), nodes=(Nodes(1, replace(sheet, links=(few,))),))
    assert Network(known).levels(8, 1)[0].curves == {}
    assert set(Network(known).levels(3, 1)[0].curves) == {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}
    assert Network(alone(cluster("p3.16xlarge"))).levels(6, 1)[0].curves == {}


#: All-reduce of half-precision numbers over eight H100, where NCCL lets the switch reduce, microseconds by bytes; below, of
#: int8, which it does not: github.com/ai-dynamo/aiconfigurator@095f58a51, h100_sxm, NCCL 2.27.3.
IN_SWITCH = {128 * MIB: 579.0, 256 * MIB: 1090.0, 512 * MIB: 2112.0}
AS_RING = {128 * MIB: 720.0, 256 * MIB: 1370.0, 512 * MIB: 2666.0}


def test_a_switch_that_reduces_is_priced_as_measured_and_one_that_does_not_as_a_ring() -> None:
    machine = without_curves("dgx_h100")
    for times, declared in ((IN_SWITCH, ("nvswitch",)), (AS_RING, ())):
        for size, microseconds in times.items():
            found = Network(machine, in_network=declared).collective("all_reduce", size, 8, 1).seconds
            assert found == pytest.approx(microseconds * 1e-6, rel=0.2)


@given(
    st.sampled_from(("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")),
    st.sampled_from(((8, 1), (16, 1), (64, 1), (8, 8))),
    st.floats(1.0, 1e10),
    st.sampled_from((("fabric",), ("nvswitch",), ("nvswitch", "fabric"))),
)
def test_declaring_reduction_in_the_network_helps_all_reduces_alone_and_never_hurts(
    operation: str, group: tuple[int, int], size: float, declared: tuple[str, ...]
) -> None:
    machine = without_curves("dgx_h100", 8)
    usual = Network(machine).collective(operation, size, *group)
    found = Network(machine, in_network=declared).collective(operation, size, *group)
    assert found.seconds <= usual.seconds * (1 + 1e-12)
    assert sum(seconds for _, seconds in found.tiers) == pytest.approx(found.seconds)
    if operation != "all_reduce":
        assert found == usual


def test_switches_of_all_levels_reduce_at_once() -> None:
    """8.6 GB over 64 devices: below both the ring and the levels one after the other, and above what the NICs take."""
    machine, size = without_curves("dgx_h100", 8), 2.0**33
    usual, fabric, both = (
        Network(machine, in_network=names).collective("all_reduce", size, 64, 1).seconds
        for names in ((), ("fabric",), ("nvswitch", "fabric"))
    )
    assert both < fabric < usual
    assert both > size / 8 / machine.tiers[-1].bandwidth.value
    assert in_network_bytes(8.0, 8, multicast=True) == 9.0
    assert in_network_bytes(8.0, 8, multicast=False) == 8.0


@pytest.mark.parametrize("name", ["broadcast", "Broadcast", "broadcast_perf"])
def test_a_measured_broadcast_prices_broadcasts(name: str) -> None:
    log = Collective(name, 8, 1, ((MIB, 1e-4), (16 * MIB, 1e-3)), quantity(1.0, Dimension.TIME, Grade.MEASURED))
    network = Network(cluster(nodes=8, collectives=(log,)))
    assert network.collective("broadcast", MIB, 8, 1).seconds == pytest.approx(1e-4)
