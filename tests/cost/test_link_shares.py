"""What collectives reach of a stated bandwidth where nothing was fitted to the machine: shares and ramp by kind of link."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planproof.cluster.cluster import Cluster, Nodes, Tier
from planproof.cost.collectives import Network, bus_factor
from planproof.cost.factors import load_constants
from planproof.cost.link_shares import falling, share_name
from planproof.hardware import load_node
from planproof.quantity import Dimension
from time_cases import cluster, quantity

MIB = 2**20
KNOWN = load_constants()


def node(name: str, kind: str, devices: int, link: float, memory: float, latency: float = 1e-6) -> Cluster:
    """One node of `devices` devices as a data sheet of links and memory alone describes it."""
    sheet = load_node(name)
    device = replace(sheet.device, memory_bandwidth=quantity(memory, Dimension.BANDWIDTH))
    tier = Tier(kind, kind, devices, quantity(link, Dimension.BANDWIDTH), quantity(latency, Dimension.TIME))
    return Cluster((Nodes(1, replace(sheet, device=device, devices=devices, links=())),), (tier,))


@pytest.mark.parametrize(
    ("link", "memory", "operation", "ranks", "mib", "microseconds"),
    [
        # github.com/ai-dynamo/aiconfigurator@095f58a51, NCCL timings: A100, H100, B300 and GB200.
        (300e9, 2039e9, "all_reduce", 8, 512, 4295), (300e9, 2039e9, "all_gather", 8, 128, 660),
        (300e9, 2039e9, "reduce_scatter", 4, 64, 314), (450e9, 3350e9, "all_gather", 8, 512, 1400),
        (450e9, 3350e9, "all_reduce", 4, 64, 330), (900e9, 8000e9, "all_gather", 8, 512, 758),
        (900e9, 8000e9, "all_reduce", 4, 128, 348), (900e9, 8000e9, "reduce_scatter", 4, 256, 396),
    ],
)  # fmt: skip
def test_a_switch_is_priced_from_its_data_sheet(
    link: float, memory: float, operation: str, ranks: int, mib: int, microseconds: float
) -> None:
    found = Network(node("dgx_a100", "nvswitch", 8, link, memory)).collective(operation, mib * MIB, ranks, 1)
    assert found.seconds == pytest.approx(microseconds * 1e-6, rel=0.15)


def test_the_ramp_is_the_root_of_an_overhead_and_of_the_transfer_itself() -> None:
    """Twice the rate shortens it by the root of two, so that it does not outgrow the transfer on a fast link."""
    slow, fast = (Network(node("dgx_a100", "nvswitch", 8, rate, 1e15, 0.0)) for rate in (200e9, 800e9))
    share, startup = KNOWN["link_share"].value, KNOWN["collective_startup"].value
    size = 64 * MIB
    ramps = [
        network.collective("all_gather", size, 8, 1).seconds - startup - bus_factor("all_gather", 8) * size / (rate * share)
        for network, rate in ((slow, 200e9), (fast, 800e9))
    ]
    assert ramps[0] == pytest.approx((KNOWN["fast_link_ramp"].value * size / (200e9 * share)) ** 0.5, rel=1e-3)
    assert ramps[0] == pytest.approx(2 * ramps[1], rel=1e-3)


def test_each_kind_of_link_has_a_share_of_its_own() -> None:
    names = {name: share_name(cluster(name), cluster(name).tiers[0]) for name in ("dgx_a100", "dgx1_v100", "g6.48xlarge")}
    assert names == {"dgx_a100": "link_share", "dgx1_v100": "mesh_share", "g6.48xlarge": "pcie_share"}
    both = cluster("dgx_a100", nodes=2)
    assert share_name(both, both.tiers[-1]) == "fabric_share"


def test_pci_express_falls_with_the_devices_that_send_unless_the_sheet_says_what_groups_get() -> None:
    tree = node("dgx_a100", "pcie", 8, 32e9, 1e12)
    network, size = Network(tree), 512 * MIB
    rates = [bus_factor("all_gather", n) * size / network.collective("all_gather", size, n, 1).seconds for n in (2, 4, 8)]
    assert rates[0] == pytest.approx(32e9 * KNOWN["pcie_share"].value, rel=0.07)
    assert rates[0] > rates[1] > rates[2]
    assert falling(tree.tiers[0], None, 8, KNOWN) == pytest.approx(4 ** -KNOWN["pcie_falling"].value)
    # What NCCL was seen to get over three devices of the sheet's node is what they get.
    stated = cluster("a100_pcie_8")
    seen = bus_factor("all_gather", 8) * size / Network(stated).collective("all_gather", size, 8, 1).seconds
    assert seen == pytest.approx(20e9, rel=0.05)
