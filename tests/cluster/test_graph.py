"""The graph of a cluster: what is drawn once stands for all; islands, cuts and slow links are those counted by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import networkx as nx
import pytest
from cluster_cases import rate, seconds
from hypothesis import given
from hypothesis import strategies as st
from planproof.cluster.graph import ClusterGraph, device_name
from planproof.cluster.measured import nearest_nics, nic_loads, switched_lanes, weak_pairs
from planproof.cluster.parts import Fabric, Inner, Machine, Measured, Parts, Route
from planproof.errors import InputError
from planproof.hardware import load_node
from planproof.importers import nvidia_topo
from planproof.proposal.cluster_parts import measured_of

NVSWITCH = Inner("nvswitch", "nvswitch", 8, rate(450e9), seconds(1e-6))
BRIDGE = Inner("bridge", "nvlink", 2, rate(200e9), seconds(1e-6))
PCIE = Inner("pcie", "pcie", 8, rate(20e9), seconds(1e-5))
H100 = Machine("h", 4, "H100", 8, (NVSWITCH,), nics=8, nic_rate=rate(50e9))
RAILS = Fabric("ndr", "infiniband", rate(25e9), seconds(5e-6), layout="rail_optimised", oversubscription=2.0)


def cube() -> Machine:
    link = load_node("dgx1_v100").links[0]
    return Machine("v", 1, "V100", 8, (Inner("nvlink", "nvlink", 8, link.bandwidth, link.latency, link.pairs, link.lane),))


def test_a_machine_drawn_once_stands_for_all() -> None:
    small = ClusterGraph(Parts((replace(H100, count=2),), (RAILS,)))
    large = ClusterGraph(Parts((replace(H100, count=2**20),), (RAILS,)))
    assert set(small.graph) == set(large.graph)
    assert (large.count("device"), large.count("nic"), large.count("host")) == (2**23, 2**23, 2**20)
    assert (large.count("leaf"), large.count("core")) == (8, 1)


def test_rails_bisection_and_oversubscription() -> None:
    graph = ClusterGraph(Parts((H100,), (RAILS,)))
    assert graph.connected()
    assert graph.islands(0) == (tuple(range(8)),)
    assert graph.node_bisection(0) == 4 * 450e9
    # 4 nodes x 8 cards x 50 GB/s, halved by the switches, and half of the nodes on either side.
    assert graph.bisection(0) == 4 * 8 * 50e9 / 2 / 2
    leaf = graph.link("f0.leaf3", "f0.core")
    assert leaf is not None
    assert (leaf.bandwidth, leaf.oversubscription) == (4 * 50e9 / 2, 2.0)
    others = replace(RAILS, contention=0.2)
    assert ClusterGraph(Parts((H100,), (others,))).bisection(0) == pytest.approx(400e9 * 0.8)


def test_the_slowest_link_of_a_group_is_the_one_it_cannot_go_round() -> None:
    graph = ClusterGraph(Parts((H100,), (RAILS,)))
    inside, across = graph.slowest_link(range(8)), graph.slowest_link([0, 8])
    assert inside is not None
    assert across is not None
    assert (inside.link.kind, inside.link.bandwidth) == ("nvswitch", 450e9)
    assert across.link.bandwidth == 50e9
    assert graph.slowest_link([5]) is None
    pairs = ClusterGraph(Parts((Machine("p", 1, "A100", 8, (BRIDGE, PCIE)),)))
    bridged, over = pairs.slowest_link([0, 1]), pairs.slowest_link([0, 1, 2])
    assert bridged is not None
    assert over is not None
    assert (bridged.link.bandwidth, over.link.bandwidth) == (200e9, 20e9)
    assert pairs.islands(0) == ((0, 1), (2, 3), (4, 5), (6, 7))


def test_a_group_larger_than_the_cluster_and_nodes_that_nothing_joins_are_told() -> None:
    with pytest.raises(InputError, match="there is no device 32: the cluster has 32") as caught:
        ClusterGraph(Parts((H100,), (RAILS,))).slowest_link(range(33))
    assert "larger than the cluster" in (caught.value.remedy or "")
    alone = ClusterGraph(Parts((H100, replace(H100, name="other"))))
    assert not alone.connected()
    with pytest.raises(InputError, match="no link with a stated rate leads from 'GPU0' to 'GPU0' of another node"):
        alone.slowest_link([0, 32])


def test_a_link_of_a_device_to_itself_is_refused() -> None:
    loop = Inner("nvlink", "nvlink", 2, rate(50e9), seconds(1e-6), ((0, 0, 1),), rate(25e9))
    with pytest.raises(InputError, match="'GPU0' is linked to itself"):
        ClusterGraph(Parts((Machine("x", 1, "d", 2, (loop,)),)))


def test_the_cube_mesh_is_cut_where_it_is_weakest() -> None:
    graph = ClusterGraph(Parts((cube(),)))
    weights = nx.Graph()
    for a, b, link in graph.links():
        if a.kind == b.kind == "device":
            weights.add_edge(a.index, b.index, weight=link.bandwidth)
    least = min(nx.cut_size(weights, set(half), weight="weight") for half in combinations(range(8), 4))
    assert graph.node_bisection(0) == least == 6 * 25e9
    assert graph.islands(0) == (tuple(range(8)),)


@given(st.integers(1, 16), st.integers(1, 16))
def test_cards_are_shared_evenly(devices: int, cards: int) -> None:
    machine = Machine("m", 2, "d", devices, (), nics=cards, nic_rate=rate(10e9))
    users = ClusterGraph(Parts((machine,))).devices_of_nic(0)
    assert len(users) == cards
    assert {name for row in users.values() for name in row} == {f"GPU{k}" for k in range(devices)}
    sizes = [len(row) for row in users.values()]
    assert max(sizes) == max(1, -(-devices // cards))
    if devices >= cards:
        assert sum(sizes) == devices


TOPOLOGY = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tmlx5_0\tmlx5_1\tCPU Affinity
GPU0\t X \tNV1\tPHB\tSYS\tPIX\tSYS\t0-7
GPU1\tNV1\t X \tPHB\tSYS\tPIX\tSYS\t0-7
GPU2\tPHB\tPHB\t X \tSYS\tPHB\tSYS\t0-7
GPU3\tSYS\tSYS\tSYS\t X \tSYS\tNODE\t8-15
mlx5_0\tPIX\tPIX\tPHB\tSYS\t X \tSYS
mlx5_1\tSYS\tSYS\tSYS\tNODE\tSYS\t X
"""


def read(text: str) -> Measured:
    return measured_of(nvidia_topo.read(text, "topo.txt"), "topo.txt")


def test_a_printed_matrix_becomes_lanes_and_a_tree_of_pci_express() -> None:
    measured = read(TOPOLOGY)
    machine = Machine("m", 1, "d", 4, (Inner("nvlink", "nvlink", 2, rate(50e9), None, (), rate(25e9)), PCIE), measured=measured)
    graph = ClusterGraph(Parts((machine,)))
    lane = graph.link(device_name(0, 0), device_name(0, 1))
    assert lane is not None
    assert (lane.word, lane.bandwidth) == ("NV1", 25e9)
    assert graph.islands(0) == ((0, 1), (2,), (3,))
    assert graph.devices_of_nic(0) == {"mlx5_0": ("GPU0", "GPU1", "GPU2"), "mlx5_1": ("GPU3",)}

    def above(name: str) -> list[str]:
        ends = [(a, b) for a, b, link in graph.links() if name in (a.label, b.label) and link.kind == "pcie"]
        return [one.label for pair in ends for one in pair if one.label != name]

    assert above("GPU0") == ["PCIe switch 0"]
    assert above("GPU2") == ["host bridge 0"]
    assert above("GPU3") == ["NUMA node 0"]
    assert sorted(above("PCIe switch 0")) == ["GPU0", "GPU1", "host bridge 0", "mlx5_0"]
    assert sorted(above("host")) == ["NUMA node 0", "host bridge 0"]


def test_more_lanes_than_a_device_has_mean_a_switch_and_fewer_of_them_a_link_that_is_down() -> None:
    names = tuple(f"GPU{k}" for k in range(8))

    def paths(down: int | None) -> dict[tuple[str, str], Route]:
        lanes = {pair: 10 if down is not None and names[down] in pair else 12 for pair in combinations(names, 2)}
        return {ends: Route(f"NV{n}", n) for pair, n in lanes.items() for ends in (pair, pair[::-1])}

    whole = Measured("t", names, (), paths(None))
    broken = Measured("t", names, (), paths(3))
    assert switched_lanes(whole, names) == switched_lanes(broken, names) == 12
    assert weak_pairs(whole, names) == ()
    assert len(weak_pairs(broken, names)) == 7
    assert all("GPU3" in pair for pair in weak_pairs(broken, names))
    graph = ClusterGraph(Parts((replace(H100, count=1, measured=broken),)))
    rates = [link.bandwidth for a, _, link in graph.links() if a.kind == "device" and link.kind == "nvswitch"]
    assert sorted(rate for rate in rates if rate is not None) == pytest.approx([450e9 / 12 * 10] + 7 * [450e9])
    mesh = Measured("t", names[:4], (), {pair: Route("NV4", 4) for pair in combinations(names[:4], 2)})
    assert switched_lanes(mesh, names[:4]) is None


def test_each_device_takes_one_of_its_nearest_cards() -> None:
    names, cards = ("GPU0", "GPU1", "GPU2", "GPU3"), ("NIC0", "NIC1", "NIC2")
    words = {
        "GPU0": ("PIX", "PIX", "SYS"),
        "GPU1": ("PIX", "PIX", "SYS"),
        "GPU2": ("SYS", "SYS", "NODE"),
        "GPU3": ("SYS", "SYS", "NODE"),
    }
    measured = Measured(
        "t", names, cards, {(d, n): Route(w) for d, row in words.items() for n, w in zip(cards, row, strict=True)}
    )
    assert nearest_nics(measured)["GPU0"] == ("NIC0", "NIC1")
    assert nic_loads(measured) == {"NIC0": 1, "NIC1": 1, "NIC2": 2}


def test_rates_that_nobody_states_are_not_filled() -> None:
    graph = ClusterGraph(
        Parts((Machine("m", 2, "d", 8, (replace(NVSWITCH, bandwidth=None),), nics=2),), (replace(RAILS, rate=None),))
    )
    assert graph.node_bisection(0) is None
    assert graph.bisection(0) is None
    with pytest.raises(InputError, match="no link with a stated rate"):
        graph.slowest_link([0, 1])


def test_more_kinds_of_node_than_a_graph_holds_are_refused_at_once() -> None:
    with pytest.raises(InputError, match="65 kinds of node") as caught:
        ClusterGraph(Parts(tuple(replace(H100, name=f"n{k}") for k in range(65))))
    assert "list nodes alike as one kind" in (caught.value.remedy or "")


def test_xgmi_that_joins_every_pair_shares_a_devices_rate_among_them() -> None:
    names = tuple(f"GPU{k}" for k in range(4))
    paths = {pair: Route("XGMI") for ends in combinations(names, 2) for pair in (ends, ends[::-1])}
    machine = Machine("a", 1, "MI300X", 4, (Inner("xgmi", "xgmi", 4, rate(300e9), seconds(2e-6)),))
    whole = ClusterGraph(Parts((replace(machine, measured=Measured("t", names, (), paths)),)))
    assert {link.bandwidth for _, _, link in whole.links() if link.kind == "xgmi"} == {100e9}
    assert whole.node_bisection(0) == 4 * 100e9
    del paths["GPU0", "GPU1"], paths["GPU1", "GPU0"]
    torn = ClusterGraph(Parts((replace(machine, measured=Measured("t", names, (), paths)),)))
    assert torn.islands(0) == ((0, 1, 2, 3),)
    assert torn.node_bisection(0) is None
