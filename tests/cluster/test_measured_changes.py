"""One proposal with and without its measured files: which numbers and which grades they change, and that nothing else does."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from planproof.pipeline import Options, review_loaded, session
from planproof.proposal import load_proposal
from planproof.report.review_json import review_json

PROPOSAL = """\
planproof: 1
proposal: {title: two nodes, objective: step_time, run_length: {steps: 20000}}
model: {transformer: {family: gpt, layers: 24, hidden: 2048, heads: 16, kv_heads: 16, ffn: 8192, vocabulary: 51200}}
workload:
  sequence_length: 2048
  global_batch: 64 sequences
  precision: {parameters: bf16, gradients: fp32, master: fp32, moments: fp32, communication: bf16}
  optimizer: adamw
  attention: flash
cluster:
  nodes: {count: 2, type: dgx_a100}
  fabric: {name: hdr, kind: infiniband, nics: {count: 8, bandwidth: 200 Gbit/s}, oversubscription: 1.0, latency: 4 us}
  contention: none
profile: none
layouts: {allow: [data], zero: [0], microbatch: [1], recompute: [none], sequence_parallel: [false]}
plans:
  - {name: reference, role: reference, uniform: {data: 16}, zero: 0, microbatch: 1}
"""
LOG = "  collectives: [{file: allreduce.txt, kind: nccl-tests, date: 2026-10-02}]\n"
MATRIX = "  intra_node: {file: topology.txt, kind: nvidia-topo}\n"


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("measured")
    bases = Path(__file__).resolve().parents[2] / "rules" / "bases"
    for name in ("allreduce.txt", "topology.txt"):
        shutil.copy(bases / name, folder / name)
    found = {}
    with session(Options(evaluators="reference")) as opened:
        for name, more in (("without", ""), ("log", LOG), ("matrix", MATRIX)):
            path = folder / f"{name}.yaml"
            path.write_text(PROPOSAL.replace("profile: none", more + "profile: none"))
            found[name] = review_json(review_loaded(load_proposal(path), opened))
    found["digest"] = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in ("allreduce.txt", "topology.txt")
    }
    return found


def candidate(review: dict[str, Any]) -> dict[str, Any]:
    return next(one for one in review["candidates"] if "reference" in one["roles"])


def grades(review: dict[str, Any], item: str) -> list[str]:
    return [one["grade"] for one in review["evidence"] if one["item"] == item]


def test_a_measured_collective_changes_the_step_time_and_its_deciders(reviewed: dict[str, dict[str, Any]]) -> None:
    before, after = reviewed["without"], reviewed["log"]
    was, now = candidate(before)["step_time_s"], candidate(after)["step_time_s"]
    # The log has 184 GB/s of bus bandwidth for 16 devices; from the sheets alone the estimate was another.
    assert now["value"] != was["value"]
    assert candidate(before)["time_ledger"]["exposed_s"] != candidate(after)["time_ledger"]["exposed_s"]
    assert candidate(before)["time_ledger"]["optimizer_s"] == candidate(after)["time_ledger"]["optimizer_s"]
    assert candidate(before)["memory"] == candidate(after)["memory"]


def test_a_measured_collective_is_evidence_of_its_grade_with_its_file(reviewed: dict[str, dict[str, Any]]) -> None:
    before, after = reviewed["without"], reviewed["log"]
    assert grades(before, "collective_curves") == []
    assert grades(after, "collective_curves") == ["measured"]
    (curve,) = [one for one in after["evidence"] if one["item"] == "collective_curves"]
    assert "allreduce.txt" in str(curve)
    assert "2026-10-02" in str(curve)
    assert reviewed["digest"]["allreduce.txt"] in str(after["digests"])
    assert reviewed["digest"]["allreduce.txt"] not in str(before["digests"])
    assert "collective_curves" in {one["item"] for one in before["missing_evidence"]}
    assert "collective_curves" not in {one["item"] for one in after["missing_evidence"]}
    others = [[one for one in review["evidence"] if one["item"] != "collective_curves"] for review in (before, after)]
    assert [(one["item"], one["grade"]) for one in others[0]] == [(one["item"], one["grade"]) for one in others[1]]


def test_a_matrix_that_confirms_the_sheet_changes_no_number(reviewed: dict[str, dict[str, Any]]) -> None:
    before, after = reviewed["without"], reviewed["matrix"]
    assert candidate(before)["step_time_s"] == candidate(after)["step_time_s"]
    assert reviewed["digest"]["topology.txt"] in str(after["digests"])
