"""Evidence of the topology against itself, as facts: files, collectives, rates, and a price that ought to move."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from planproof.cluster import Collective
from planproof.decision.probe import axes_on_the_fabric, halved
from planproof.facts import Fact
from planproof.facts.from_case import case_facts
from planproof.facts.from_plan import plan_facts
from planproof.facts.from_topology import probe_fact, topology_facts
from planproof.hardware import open_library
from planproof.plan import Mesh, Plan, even_stages
from planproof.proposal import Case, parse_proposal, resolve

BASES = Path(__file__).resolve().parents[2] / "rules" / "bases"


def case(cluster: str, more: str = "") -> Case:
    text = "planproof: 1\ncluster:\n" + "".join(f"  {row}\n" for row in cluster.splitlines()) + more
    return resolve(parse_proposal(text.encode(), "proposal.yaml", BASES / "proposal.yaml"), open_library())


def facts(kind: str, cluster: str) -> list[Fact]:
    return [fact for fact in case_facts(case(cluster)) if fact.kind == kind]


@pytest.mark.parametrize(
    ("rate", "slip", "side"),
    [
        ("400 Gbit/s", "none", "equal"),
        ("50 Gbit/s", "bits_and_bytes", "below"),
        ("400 GB/s", "bits_and_bytes", "above"),
        ("53 Gbit/s", "bits_and_bytes", "below"),
        ("60 Gbit/s", "none", "below"),
        ("400 Mbit/s", "thousand", "below"),
        ("50 TB/s", "thousand", "above"),
        ("50 MB/s", "thousand", "below"),
        ("200 Gbit/s", "none", "below"),
    ],
)
def test_a_slip_is_told_by_its_factor_alone(rate: str, slip: str, side: str) -> None:
    (check,) = facts(
        "rate_check",
        f"nodes: {{count: 2, type: dgx_h100}}\nfabric: {{nics: {{count: 8, bandwidth: {rate}}}}}\ncontention: none",
    )
    assert (check["slip"], check["side"]) == (slip, side)


def test_a_rate_of_the_whole_node_is_held_against_all_its_cards() -> None:
    (check,) = facts(
        "rate_check",
        "nodes: {count: 2, type: dgx_h100}\nfabric: {bandwidth: 3.2 Tbit/s, oversubscription: 2.0}\ncontention: {share: 50 %}",
    )
    assert (check["side"], check["stated_bytes_per_s"]) == ("equal", 400 * 10**9 // 8 // 4)


def test_a_node_without_a_sheet_is_held_against_nothing() -> None:
    assert (
        facts("rate_check", "description: 2 nodes of 8 x H100, 8 x NVLink 4 island, 8 x 50 Gbit/s NICs\ncontention: none") == []
    )


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("topology.txt", {"largest_island": 8, "sheet_island": 8, "disagreeing": 0, "weak_pairs": 0}),
        ("topology_asymmetric.txt", {"disagreeing": 1, "gaps": 1}),
        ("topology_down.txt", {"weak_pairs": 7, "gaps": 0}),
        ("topology_cards.txt", {"nics": 8, "devices_a_nic": 4, "fabric_nics": 8}),
        ("topology_gaps.txt", {"disagreeing": 0, "weak_pairs": 0}),
    ],
)
def test_what_a_topology_file_shows(file: str, expected: dict[str, int]) -> None:
    (found,) = facts(
        "topology_file",
        f"nodes: {{count: 2, type: dgx_a100}}\nintra_node: {{file: {file}, kind: nvidia-topo}}\n"
        "fabric: {nics: {count: 8, bandwidth: 200 Gbit/s}}\ncontention: none",
    )
    assert {name: found.get(name) for name in expected} == expected


def test_a_pci_express_node_keeps_its_links_where_a_file_shows_no_nvlink(tmp_path: Path) -> None:
    rows = ["\tGPU0\tGPU1\tCPU Affinity", "GPU0\t X \tPHB\t0-7", "GPU1\tPHB\t X \t0-7"]
    (tmp_path / "topo.txt").write_text("\n".join(rows) + "\n")
    text = (
        "planproof: 1\ncluster:\n  nodes: {count: 1, device: A10G, devices: 2}\n  contention: none\n"
        "  intra_node: {file: topo.txt, kind: nvidia-topo, bandwidth: 10 GB/s}\n"
    )
    found = resolve(parse_proposal(text.encode(), "proposal.yaml", tmp_path / "proposal.yaml"), open_library())
    assert found.cluster is not None
    assert found.cluster.tiers[0].span == 2


def test_a_collective_is_held_against_what_its_links_carry() -> None:
    def run(cards: int) -> Fact:
        (found,) = facts(
            "measured_collective",
            f"nodes: {{count: 2, type: dgx_a100}}\nfabric: {{nics: {{count: {cards}, bandwidth: 200 Gbit/s}}}}\n"
            "contention: {share: 50 %}\ncollectives: [{file: allreduce.txt, kind: nccl-tests}]",
        )
        return found

    assert (run(8)["ranks"], run(8)["nodes"], run(8)["above_ppm"], run(8)["link"]) == (16, 2, 0, "nvswitch")
    slow = run(2)
    # Two cards of 25 GB/s; 15/16 of busbw's bytes are a half of what crosses. What others take at times is no bound.
    assert slow["limit_bytes_per_s"] == round(50e9 * (15 / 16) / (1 / 2))
    assert slow["link"] == "fabric"
    assert int(slow["above_ppm"]) == pytest.approx(1e6 * (184.75e9 / 93.75e9 - 1), abs=2)


PLAN = """\
model: {transformer: {layers: 8, hidden: 1024, heads: 8, ffn: 4096, vocabulary: 50000}}
workload: {sequence_length: 1024, global_batch: 64 sequences}
plans: [{name: p, role: reference, uniform: {data: 2, tensor: 4}, microbatch: 1}]
"""


def test_a_group_that_does_not_fit_its_node_crosses_the_fabric() -> None:
    nodes = "nodes: {{count: 2, device: A100-80GB, devices: {}}}\nintra_node: {{kind: nvlink, bandwidth: 100 GB/s}}\n"
    fabric = "fabric: {bandwidth: 25 GB/s}\ncontention: none"

    def tensor(devices: int) -> Fact:
        found = case(nodes.format(devices) + fabric, PLAN)
        return next(one for one in plan_facts(found, found.plans[0]) if one.kind == "group" and one["axis"] == "tensor")

    assert (tensor(8)["crosses_fabric"], tensor(8)["inside"]) == ("no", 4)
    assert (tensor(6)["crosses_fabric"], tensor(6)["inside"]) == ("yes", 2)


def test_half_the_fabric_is_half_of_it_and_of_what_was_measured_over_it() -> None:
    found = case(
        "nodes: {count: 2, type: dgx_a100}\nfabric: {nics: {count: 8, bandwidth: 200 Gbit/s}}\ncontention: none\n"
        "collectives: [{file: allreduce.txt, kind: nccl-tests}]"
    ).cluster
    assert found is not None
    inside = Collective("all_reduce", 8, 1, ((1024, 1e-5),), found.collectives[0].source)
    slower = halved(replace(found, collectives=(*found.collectives, inside)))
    assert slower is not None
    assert slower.tiers[-1].bandwidth.value == found.tiers[-1].bandwidth.value / 2
    assert slower.tiers[:-1] == found.tiers[:-1]
    assert slower.collectives[0].rows == tuple((size, 2 * seconds) for size, seconds in found.collectives[0].rows)
    assert slower.collectives[1] == inside
    alone = case("nodes: {count: 1, type: dgx_a100}\ncontention: none").cluster
    assert alone is not None
    assert halved(alone) is None


def test_the_axes_that_a_slower_fabric_would_slow_are_named() -> None:
    found = case("nodes: {count: 2, type: dgx_a100}\nfabric: {bandwidth: 200 GB/s}\ncontention: none").cluster
    assert found is not None

    def plan(mesh: Mesh, pipeline: int) -> Plan:
        stages = even_stages(8, pipeline, mesh)
        assert stages is not None
        return Plan("p", stages, 1, 8)

    assert axes_on_the_fabric(plan(Mesh(data=2, tensor=8), 1), found) == ("data",)
    assert axes_on_the_fabric(plan(Mesh(data=1, tensor=8), 2), found) == ("pipeline",)
    assert axes_on_the_fabric(plan(Mesh(data=2, tensor=4), 1), found) == ()


def test_the_change_of_a_price_is_a_share_of_it() -> None:
    assert probe_fact("p", "/plans/0", "ndr", ("data",), 2.0, 2.5)["change_ppm"] == 250_000
    assert probe_fact("p", "/plans/0", "ndr", ("data",), 2.0, 2.0)["change_ppm"] == 0


def test_a_collective_without_a_known_limit_is_a_fact_all_the_same() -> None:
    text = (BASES / "profiled.yaml").read_text(encoding="utf-8").replace("count: 2, type: dgx_a100", "count: 1, type: dgx_a100")
    found = resolve(parse_proposal(text.encode(), "profiled.yaml", BASES / "profiled.yaml"), open_library())
    run = next(one for one in topology_facts(found) if one.kind == "measured_collective")
    assert (run["ranks"], run["nodes"], run["file"]) == (16, 2, "allreduce.txt")


@pytest.mark.parametrize("turned", [False, True])
def test_fabrics_lie_side_by_side_and_the_slowest_is_priced(turned: bool) -> None:
    """Whichever is written first: none is inside the other, and what the faster one does not count for is named."""
    rows = ["{name: quick, connects: [a], bandwidth: 50 GB/s, per: device}", "{name: slow, bandwidth: 3 GB/s, per: device}"]
    fabric = ", ".join(reversed(rows) if turned else rows)
    nodes = "[{name: a, count: 2, type: dgx_h100}, {name: b, count: 1, type: dgx_h100}]"
    text = f"nodes: {nodes}\nfabric: [{fabric}]\ncontention: none"
    links = [one for one in facts("link", text) if one["tier"] == "fabric"]
    found = {one["name"]: (one.get("priced_as"), one.get("faster_than_inner")) for one in links}
    assert found == {"quick": ("slow", "no"), "slow": (None, "no")}
    priced = case(text).cluster
    assert priced is not None
    assert [tier.name for tier in priced.tiers][-1] == "slow"
