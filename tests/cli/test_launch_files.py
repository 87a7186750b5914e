"""Launch files in the commands: imported, named by a proposal, and linted on their own; findings point into them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from planproof.pipeline import Submitted, examine, lint_each, session
from planproof.proposal import load_proposal

DATA = Path(__file__).resolve().parents[1] / "data" / "launch"
SCRIPT = """\
TP=3
torchrun --nproc_per_node 8 --nnodes 4 pretrain_gpt.py --tensor-model-parallel-size $TP \\
    --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --ffn-hidden-size 14336 --seq-length 4096 \\
    --micro-batch-size 1 --global-batch-size 512 --bf16 --vocab-size 128256 --max-position-embeddings 4096
"""
FABRIC = "fabric: {nics: {count: 8, bandwidth: 400 Gbit/s}}"
CLUSTER = f"planproof: 1\ncluster:\n  nodes: {{count: 4, type: dgx_h100}}\n  {FABRIC}\n  contention: none\n"


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "planproof.cli", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def findings(path: Path, *, strict: bool = False) -> list[tuple[str, str, int]]:
    from planproof.report.lint_report import Report

    [(_, report)] = list(lint_each([Submitted(str(path), None, strict)]))
    assert isinstance(report, Report), report
    places = [(finding, report.place(finding)) for finding in report.findings]
    return [(finding.severity.value, Path(place.file or "").name, place.line or 0) for finding, place in places]


def test_a_bare_launch_file_is_judged_and_its_finding_stands_at_the_assignment(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text(SCRIPT)
    found = findings(script)
    assert ("error", "train.sh", 1) in found  # 32 heads by tensor 3


def test_what_a_bare_file_lacks_is_one_note_unless_evidence_is_required(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text(SCRIPT.replace("TP=3", "TP=4"))
    assert [row for row in findings(script) if row[0] == "error"] == []
    assert len([row for row in findings(script, strict=True) if row[0] == "error"]) > 3


def test_a_cluster_file_beside_a_launch_file_completes_it(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text(SCRIPT.replace("TP=3", "TP=4"))
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    with session() as opened:
        examined = examine(load_proposal(script, bare=True), opened)
    assert examined.case.cluster is not None
    assert examined.case.plans[0].mesh.data == 8
    assert examined.ledgers


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.iterdir()))
def test_every_small_launch_file_can_be_linted(name: str) -> None:
    with session() as opened:
        examined = examine(load_proposal(DATA / name, bare=True), opened)
    assert [one.kind for one in examined.case.files]
    assert any(fact.kind == "unstated" for fact in examined.facts)


def proposal(tmp_path: Path, more: str = "") -> Path:
    (tmp_path / "train.sh").write_text(SCRIPT.replace("TP=3", "TP=4"))
    path = tmp_path / "plan.yaml"
    path.write_text(
        "planproof: 1\nproposal: {objective: step_time}\nlaunch: {kind: megatron, file: train.sh}\n"
        f"cluster: {{nodes: {{count: 4, type: dgx_h100}}, contention: none}}\n{more}"
    )
    return path


def test_a_proposal_takes_over_what_its_launch_file_states(tmp_path: Path) -> None:
    loaded = load_proposal(proposal(tmp_path))
    assert loaded.stated.workload is not None
    assert loaded.stated.workload.sequence_length == 4096
    assert loaded.stated.plans is not None
    assert loaded.stated.plans[0].uniform is not None
    assert loaded.stated.plans[0].uniform.tensor == 4
    place = loaded.place("/plans/0/uniform/tensor")
    assert (Path(place.file or "").name, place.line) == ("train.sh", 1)
    assert loaded.place("/proposal/objective").line == 2


def test_a_contradiction_names_both_places(tmp_path: Path) -> None:
    path = proposal(tmp_path, "workload: {sequence_length: 8192, global_batch: 512 sequences}\n")
    with session() as opened:
        case = examine(load_proposal(path), opened).case
    [clash] = [one for one in case.contradictions if one.code == "launch"]
    assert "plan.yaml:5" in clash.detail
    assert "train.sh:3" in clash.detail


def test_lint_finds_launch_files_below_a_folder_but_not_those_that_a_proposal_names(tmp_path: Path) -> None:
    proposal(tmp_path)
    (tmp_path / "other.toml").write_bytes((DATA / "torchtitan.toml").read_bytes())
    (tmp_path / "values.yaml").write_text("micro_batch_size: 3\nglobal_batch_size: 8\nname: no launch file\n")
    (tmp_path / "run.sh").write_text("echo hello\n")
    done = run("lint", "--format", "json", "--isolated", ".", cwd=tmp_path)
    body = json.loads(done.stdout)
    files = {Path(one["path"]).name for one in body["reports"]} if "reports" in body else {Path(body["path"]).name}
    assert files == {"plan.yaml", "other.toml"}


def test_import_writes_a_proposal_that_reads_back_with_where_each_value_came_from(tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text(SCRIPT)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    done = run("import", "megatron", "train.sh", "cluster.yaml", "--set", "TP=4", "-o", "proposal.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "proposal.yaml").read_text()
    assert "# train.sh:3 --num-layers" in text
    assert "# assumed: " in text
    loaded = load_proposal(tmp_path / "proposal.yaml")
    assert loaded.stated.plans is not None
    assert loaded.stated.plans[0].uniform is not None
    assert (loaded.stated.plans[0].uniform.data, loaded.stated.plans[0].uniform.tensor) == (8, 4)
    assert "still to state" in done.stderr


def test_import_of_a_file_of_another_kind_says_which_it_is(tmp_path: Path) -> None:
    done = run("import", "nanotron", str(DATA / "nemo.yaml"), cwd=tmp_path)
    assert done.returncode == 2
    assert "'nemo'" in done.stderr
