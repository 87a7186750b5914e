"""What a proposal states becomes a case; what it does not state becomes a list, never a guess."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from planproof.cost.collectives import Network
from planproof.errors import InputError
from planproof.hardware import open_library
from planproof.plan import Mesh, to_dict
from planproof.proposal import Case, load_proposal, parse_proposal, resolve
from planproof.quantity import Grade

PROPOSALS = Path(__file__).parent.parent / "data" / "proposals"

COMPLETE = """\
planproof: 1
proposal: {objective: step_time, run_length: {steps: 20000}}
model: {transformer: {family: llama, layers: 32, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336, vocabulary: 128256}}
workload:
  sequence_length: 4096
  global_batch: 256 sequences
  precision: {parameters: bf16, gradients: fp32, master: fp32, moments: fp32}
  optimizer: adamw
  attention: flash
cluster: {nodes: {count: 4, type: dgx_h100}, fabric: {nics: {count: 8, bandwidth: 400 Gbit/s}}, contention: none}
profile: none
layouts: all
plans:
  - {name: reference, role: reference, uniform: {data: 32}, zero: 3, microbatch: 1}
"""


def case(text: str, folder: Path | None = None) -> Case:
    path = (folder or Path("/nowhere")) / "proposal.yaml"
    return resolve(parse_proposal(text.encode(), "proposal.yaml", path), open_library())


def without(line: str) -> str:
    kept = [row for row in COMPLETE.splitlines() if line not in row]
    assert len(kept) < len(COMPLETE.splitlines())
    return "\n".join(kept) + "\n"


def items(found: Case) -> set[str]:
    return {gap.item for gap in found.missing}


def test_a_complete_proposal_lacks_only_what_must_be_measured() -> None:
    found = case(COMPLETE)
    assert items(found) == {"collective_curves"}
    assert found.model is not None
    assert found.workload is not None
    assert found.cluster is not None
    assert found.cluster.devices == 32
    assert [(tier.name, tier.span) for tier in found.cluster.tiers] == [("nvswitch", 8), ("fabric", 32)]
    assert found.cluster.tiers[1].bandwidth.value == 50 * 10**9
    assert found.plans[0].accumulation == 8


@pytest.mark.parametrize(
    ("line", "item"),
    [
        ("objective", "objective"),
        ("model:", "model"),
        ("sequence_length", "shapes"),
        ("global_batch", "global_batch"),
        ("precision", "precision"),
        ("optimizer", "optimizer"),
        ("attention", "attention"),
        ("cluster:", "devices"),
        ("profile", "profile"),
        ("layouts", "layouts"),
        ("name: reference", "reference_plan"),
    ],
)
def test_each_line_left_out_is_missed_by_name(line: str, item: str) -> None:
    assert item in items(case(without(line)))


@pytest.mark.parametrize(
    ("cluster", "item"),
    [
        ("{devices: {count: 256, type: h100}, contention: none}", "topology"),
        ("{nodes: {count: 4, type: dgx_h100}, contention: none}", "fabric"),
        ("{nodes: {count: 4, type: dgx_h100}, fabric: {kind: infiniband}, contention: none}", "fabric_bandwidth"),
        ("{nodes: {count: 4, type: dgx_h100}, fabric: {nics: {bandwidth: 400 Gbit/s}}, contention: none}", "fabric_bandwidth"),
        ("{nodes: {count: 4, type: dgx_h100}, fabric: {nics: {count: 8, bandwidth: 400 Gbit/s}}}", "contention"),
        ("{nodes: {count: 4}, fabric: {bandwidth: 25 GB/s}, contention: none}", "node_type"),
        ("{nodes: {type: dgx_h100}, fabric: {bandwidth: 25 GB/s}, contention: none}", "devices"),
        ("{nodes: {count: 4, device: h100, devices: 8}, fabric: {bandwidth: 25 GB/s}, contention: none}", "intra_node_links"),
        ("{nodes: {count: 4, type: dgx_h100}, fabric: {bandwidth: 25 GB/s}, contention: {shared_with: storage}}", "contention"),
    ],
)
def test_a_cluster_without_one_of_its_links_is_not_priced(cluster: str, item: str) -> None:
    text = "\n".join("cluster: " + cluster if row.startswith("cluster:") else row for row in COMPLETE.splitlines())
    found = case(text)
    assert item in items(found)
    assert found.cluster is None


def test_nodes_that_no_fabric_joins_are_parts() -> None:
    cluster = """cluster:
  nodes: [{name: a, count: 4, type: dgx_h100}, {name: b, count: 4, type: dgx_h100}]
  fabric: [{name: fa, bandwidth: 50 GB/s, connects: [a]}, {name: fb, bandwidth: 50 GB/s, connects: [b]}]
  contention: none"""
    text = "\n".join(cluster if row.startswith("cluster:") else row for row in COMPLETE.splitlines())
    found = case(text)
    assert found.described.parts == 2
    assert found.cluster is None
    joined = case(text.replace("connects: [b]", "connects: [a, b]"))
    assert joined.described.parts == 1
    assert joined.cluster is not None
    with pytest.raises(InputError, match="the nodes are called a, b"):
        case(text.replace("connects: [b]", "connects: [c]"))


def test_the_share_of_others_and_oversubscription_come_off_the_fabric() -> None:
    text = COMPLETE.replace("contention: none", "contention: {shared_with: storage, share: 20 %}").replace(
        "fabric: {", "fabric: {oversubscription: 2.0, "
    )
    found = case(text)
    assert found.cluster is not None
    assert found.cluster.tiers[-1].bandwidth.value == pytest.approx(50e9 / 2 * 0.8)


def test_switches_that_reduce_in_flight_are_the_tiers_that_the_proposal_declares() -> None:
    plain = case(COMPLETE)
    reducing = case(COMPLETE.replace("fabric: {", "fabric: {in_network_reduction: true, "))
    assert plain.cluster is not None
    assert reducing.cluster is not None
    assert [tier.reduces for tier in plain.cluster.tiers] == [False, False]
    assert [tier.reduces for tier in reducing.cluster.tiers] == [False, True]
    size, nodes, apart = 2**30, 4, 8
    slow = Network(plain.cluster).collective("all_reduce", size, nodes, apart).seconds
    assert Network(reducing.cluster).collective("all_reduce", size, nodes, apart).seconds < slow


def test_grades_are_the_values_own_then_the_sections_then_assumed() -> None:
    def grade(fabric: str) -> Grade:
        found = case(COMPLETE.replace("{nics: {count: 8, bandwidth: 400 Gbit/s}}", fabric))
        assert found.cluster is not None
        return found.cluster.tiers[-1].bandwidth.grade

    assert grade("{nics: {count: 8, bandwidth: 400 Gbit/s}}") is Grade.ASSUMED
    assert grade("{nics: {count: 8, bandwidth: 400 Gbit/s}, grade: vendor}") is Grade.VENDOR
    measured = "{nics: {count: 8, bandwidth: {value: 400 Gbit/s, grade: measured}}, grade: vendor}"
    assert grade(measured) is Grade.MEASURED


def test_what_is_stated_twice_and_cannot_both_hold_is_a_contradiction() -> None:
    assert not case(COMPLETE).contradictions
    codes = {
        clash.code
        for text in (
            COMPLETE.replace("zero: 3", "stages: [{layers: [0, 31]}], zero: 3"),
            COMPLETE.replace("bandwidth: 400 Gbit/s}}", "bandwidth: 400 Gbit/s}, bandwidth: 100 Gbit/s}"),
            COMPLETE.replace("{steps: 20000}", "{steps: 20000, tokens: 3 Ttokens}"),
            COMPLETE + COMPLETE.splitlines()[-1] + "\n",
        )
        for clash in case(text).contradictions
    }
    assert codes == {"plan_twice", "fabric_twice", "run_length_twice", "plan_name_twice", "plan_role_twice"}


def test_a_batch_in_tokens_is_counted_in_whole_sequences() -> None:
    whole = case(COMPLETE.replace("256 sequences", "1048576 tokens"))
    assert (whole.global_batch, whole.batch_remainder_tokens) == (256, 0)
    broken = case(COMPLETE.replace("256 sequences", "1 Mtokens"))
    assert (broken.global_batch, broken.batch_remainder_tokens) == (244, 10**6 - 244 * 4096)


def test_run_length_gives_steps_and_tokens() -> None:
    assert case(COMPLETE).run_tokens == 20000 * 256 * 4096
    assert case(COMPLETE.replace("{steps: 20000}", "{tokens: 1 Gtokens}")).run_steps == -(-(10**9) // (256 * 4096))


def test_stages_repeat_and_hold_the_ends_where_none_says_so() -> None:
    plan = "{name: reference, role: reference, schedule: 1f1b, stages: [{layers: [0, 3], devices: 4, repeat: 8}], microbatch: 1}"
    text = "\n".join("  - " + plan if "name: reference" in row else row for row in COMPLETE.splitlines())
    found = case(text).plans[0]
    assert found.plan is not None
    assert [(s.first, s.last) for s in found.plan.stages] == [(4 * k, 4 * k + 3) for k in range(8)]
    assert [s.embedding for s in found.plan.stages] == [True] + [False] * 7
    assert [s.head for s in found.plan.stages] == [False] * 7 + [True]
    assert {s.mesh for s in found.plan.stages} == {Mesh(data=4)}
    assert found.accumulation == 64


@pytest.mark.parametrize(
    "plan",
    [
        "{uniform: {data: 8, pipeline: 4}, schedule: 1f1b, microbatch: 1, zero: 1}",
        "{uniform: {data: 4, tensor: 4, pipeline: 2}, schedule: interleaved_1f1b, interleave: 4, microbatch: 2, recompute: full}",
        "{schedule: 1f1b, stages: [{layers: [0, 9], devices: 8}, {layers: [10, 31], devices: 24, mesh: {data: 8, tensor: 3}}], "
        "microbatch: 1, order: [tensor, data, context, pipeline]}",
    ],
)
def test_a_plan_pasted_back_is_the_same_plan(plan: str) -> None:
    head = COMPLETE.splitlines()[:-1]
    body = plan.replace("{", "{name: reference, role: reference, ", 1)
    first = case("\n".join([*head, "  - " + body])).plans[0].plan
    assert first is not None
    again = case("\n".join(head) + "\n" + yaml.safe_dump([to_dict(first)], sort_keys=False)).plans[0].plan
    assert again == first


def test_an_unknown_type_lists_the_known_ones_at_its_place() -> None:
    with pytest.raises(InputError, match="dgx_h100") as caught:
        case(COMPLETE.replace("dgx_h100", "dgx_h1000"))
    assert caught.value.place.line == 10


def test_a_missing_file_is_named_where_it_is_referenced() -> None:
    for name, line in (("llama3-70b-h100", 13), ("moe-27b-p3", 25)):
        with pytest.raises(InputError) as caught:
            resolve(load_proposal(PROPOSALS / f"{name}.yaml"), open_library())
        assert caught.value.place.line == line
        assert caught.value.exit_status == 2


def test_a_profile_is_graded_by_what_is_said_of_it(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("layers,mesh,microbatch,latency_ms\n0-31,data=32,1,40\n")

    def grade(profile: str) -> Grade:
        found = case(COMPLETE.replace("profile: none", f"profile: {profile}"), tmp_path)
        assert found.profile_quantity is not None
        return found.profile_quantity.grade

    assert grade("{file: p.csv}") is Grade.ASSUMED
    assert grade("{file: p.csv, date: 2026-10-01}") is Grade.MEASURED
    assert grade("{file: p.csv, date: 2026-10-01, grade: published}") is Grade.PUBLISHED
