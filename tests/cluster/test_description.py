"""A cluster in words reads as the keys it stands for, or not at all."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planproof.cluster.description import Described, DescriptionError, link_rate, read_description
from planproof.errors import InputError
from planproof.hardware import open_library
from planproof.proposal import Case, parse_proposal, resolve
from planproof.quantity import Grade

CLAUSES = ("4 nodes of 8 x H100", "8 x NVLink 4 island", "8 x 400 Gbit/s NICs", "rail-optimised", "2:1 over-subscribed")


def case(cluster: str) -> Case:
    text = "planproof: 1\ncluster:\n" + "".join(f"  {line}\n" for line in cluster.splitlines())
    return resolve(parse_proposal(text.encode(), "proposal.yaml", Path("/nowhere/proposal.yaml")), open_library())


def test_words_in_any_order_are_the_same_cluster() -> None:
    first = read_description(", ".join(CLAUSES))
    assert (first.nodes, first.devices, first.device, first.island, first.nics) == (4, 8, "H100", 8, 8)
    assert first.link_rate is not None
    assert first.nic_rate is not None
    assert (first.link_rate.value, first.link_rate.grade, first.nic_rate.value) == (450 * 10**9, Grade.VENDOR, 50 * 10**9)
    assert (first.layout, first.oversubscription) == ("rail_optimised", 2.0)
    assert {read_description("; ".join(order)) for order in permutations(CLAUSES)} == {first}


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("16 nodes of dgx_h100", "node_type", "dgx_h100"),
        ("4 x PCIe 4", "link", "pcie"),
        ("8 X NVSwitch at 300 GB/s", "link", "nvswitch"),
        ("non-blocking", "oversubscription", 1.0),
        ("fat tree", "layout", "fat_tree"),
        ("Rail Optimized", "layout", "rail_optimised"),
        ("InfiniBand fabric", "fabric", "infiniband"),
        ("3:2 oversubscription", "oversubscription", 1.5),
    ],
)
def test_each_form_reads(text: str, field: str, value: object) -> None:
    assert getattr(read_description(text), field) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        (",,;", "is empty"),
        ("8 x NVLink 9 island", "no rate is known of NVLink 9; known are nvlink 1"),
        ("8 x NVLink island", "or write 'at 450 GB/s'"),
        ("8 x 400 Gb NICs", "'Gb' is not a unit of bytes/s"),
        ("8 x 400 GiB NICs", "GiB"),
        ("1:2 over-subscribed", "the larger side first"),
        ("2:0 over-subscribed", "the larger side first"),
        ("lots of GPUs", "clause 1, 'lots of GPUs', is not understood; expected one of: N nodes"),
        ("4 nodes, 8 nodes", "clause 2, '8 nodes', says again"),
        ("0 nodes", "0 nodes; from 1 to"),
        ("1 x NVLink 4 island", "1 devices of an island; from 2"),
        ("9999999999 nodes", "from 1 to 1000000000"),
        ("2 nodes of 8 x H100, 3 x NVLink 4 island", "islands of 3 do not divide the 8 devices"),
        ("4 nodes" + " " * 2000, "1000 or fewer"),
        ("2 nodes of dgx_h100, 4 nodes of dgx_a100", "is a second kind of node, and words describe one"),
    ],
)
def test_what_does_not_read_is_quoted_with_what_would(text: str, message: str) -> None:
    with pytest.raises(DescriptionError) as caught:
        read_description(text)
    assert message in str(caught.value)


@given(st.text(st.sampled_from("0123456789x:,; NVLinkGbit/snodesof"), max_size=60))
def test_any_text_reads_or_is_refused_in_words(text: str) -> None:
    try:
        assert isinstance(read_description(text), Described)
    except DescriptionError as error:
        assert str(error)


def test_a_generation_keeps_its_evidence() -> None:
    found = link_rate("nvlink", 3)
    assert found is not None
    assert (found.value, found.grade) == (300 * 10**9, Grade.VENDOR)
    assert "A100" in found.provenance.source
    assert link_rate("nvlink", 99) is None


def test_a_described_cluster_is_priced_like_a_written_one() -> None:
    described = case("description: " + ", ".join(CLAUSES) + ", 5 us latency\ncontention: none")
    written = case(
        "nodes: {count: 4, device: H100, devices: 8}\nintra_node: {kind: nvlink, island: 8, bandwidth: 450 GB/s}\n"
        "fabric: {nics: {count: 8, bandwidth: 400 Gbit/s}, layout: rail_optimised, oversubscription: 2.0, latency: 5 us}\n"
        "contention: none"
    )
    assert described.cluster is not None
    assert written.cluster is not None
    spans = [(tier.name, tier.span, tier.bandwidth.value, tier.latency.value) for tier in described.cluster.tiers]
    assert spans == [(tier.name, tier.span, tier.bandwidth.value, tier.latency.value) for tier in written.cluster.tiers]
    assert described.cluster.tiers[-1].bandwidth.value == 25 * 10**9
    assert described.cluster.tiers[0].bandwidth.grade is Grade.VENDOR
    assert not described.contradictions


def test_words_fill_what_keys_leave_out_and_contradict_what_they_say() -> None:
    filled = case("description: 8 x 400 Gbit/s NICs, non-blocking\nnodes: {count: 4, type: dgx_h100}\ncontention: none")
    assert filled.cluster is not None
    assert [tier.name for tier in filled.cluster.tiers] == ["nvswitch", "fabric"]
    agreeing = case(
        "description: 4 nodes of DGX_H100, 8 x 400 Gbit/s NICs, 1:1 over-subscribed\nnodes: {count: 4, type: dgx_h100}\n"
        "fabric: {nics: {count: 8, bandwidth: 50 GB/s}}\ncontention: none"
    )
    assert not agreeing.contradictions
    clashing = case("description: 8 nodes, 8 x 400 Gbit/s NICs\nnodes: {count: 4, type: dgx_h100}\ncontention: none")
    assert [clash.code for clash in clashing.contradictions] == ["described_twice"]
    assert clashing.described.devices == 32
    several = case("description: 8 nodes\nnodes: [{name: a, count: 1, type: dgx_h100}, {name: b, count: 1, type: dgx_h100}]")
    assert "lists 2 entries" in several.contradictions[0].detail


def test_an_island_without_a_node_is_the_node_and_that_is_said() -> None:
    found = case("description: 2 nodes, 8 x NVLink 4 island\nnodes: {device: H100}\ncontention: none")
    assert found.described.devices == 16
    assert "cluster.nodes.devices" in {one.item for one in found.assumed}


def test_an_error_of_the_words_has_their_line() -> None:
    with pytest.raises(InputError, match=r"'cluster.description': clause 2, 'eight cards', is not understood") as caught:
        case("contention: none\ndescription: 4 nodes, eight cards")
    assert caught.value.place.line == 4
