"""A profile that has some bytes of a stage and not others: what it lacks is estimated, and what it has must be possible."""

from __future__ import annotations

from pathlib import Path

import pytest
from planproof.decision.desk import Desk
from planproof.hardware import open_library
from planproof.pipeline import lint
from planproof.proposal import load_proposal, resolve

MIB = 2**20
TEXT = """planproof: 1
proposal: {objective: step_time, run_length: {steps: 20000}}
model:
  transformer: {family: llama, layers: 4, hidden: 512, heads: 8, ffn: 2048, vocabulary: 4096}
workload: {sequence_length: 512, global_batch: 64 sequences, optimizer: adamw, attention: flash,
           precision: {parameters: bf16, gradients: fp32, master: fp32, moments: fp32}}
cluster: {nodes: {count: 1, type: dgx_h100}, contention: none}
profile: {file: profile.csv, grade: measured, source: a run, date: 2026-11-01}
layouts: all
plans:
  - {name: reference, role: reference, uniform: {data: 8}, microbatch: 2}
  - {name: submitted, role: submitted, uniform: {data: 4, pipeline: 2}, schedule: 1f1b, microbatch: 2}
"""


def written(folder: Path, columns: str, cells: str) -> Path:
    rows = "".join(f"{layers},data=4,2,3.0,{cells}\n" for layers in ("0-1", "2-3"))
    (folder / "profile.csv").write_text(f"layers,mesh,microbatch,latency_ms,{columns}\n{rows}", encoding="utf-8")
    (folder / "p.yaml").write_text(TEXT, encoding="utf-8")
    return folder / "p.yaml"


@pytest.mark.parametrize(
    ("columns", "cells", "estimated"),
    [
        ("state_mib,activation_mib,workspace_mib", "400,50,10", set()),
        ("state_mib,activation_mib", "400,50", {"layer workspace", "communication buffers"}),
        ("activation_mib,workspace_mib", "50,10", {"parameters", "gradients", "optimizer state", "framework context"}),
        ("state_mib", "400", {"in-flight activations", "layer workspace"}),
    ],
)
def test_no_number_that_is_not_there_counts_as_zero(tmp_path: Path, columns: str, cells: str, estimated: set[str]) -> None:
    """Workspace that was not measured counted as 0, and a stage of 310 MiB had no buffers and no workspace."""
    desk = Desk(resolve(load_proposal(written(tmp_path, columns, cells)), open_library(())))
    plan = desk.case.plans[1].plan
    assert plan is not None
    for memory in desk.price(plan).memory:
        rows = {row.name: row.bytes for row in memory.rows}
        assert estimated <= {name for name, size in rows.items() if size}
        assert rows.get("workspace", 10 * MIB) == 10 * MIB
        assert rows.get("state", 400 * MIB) == 400 * MIB
        assert memory.device.low <= memory.device.value <= memory.device.high
        assert memory.device.value >= sum(rows.values()) - 2


@pytest.mark.parametrize(("cells", "fires"), [("1,1", True), ("400,50", False)])
def test_less_state_than_the_plan_keeps_is_no_measurement(tmp_path: Path, cells: str, fires: bool) -> None:
    (report,) = lint([written(tmp_path, "state_mib,activation_mib", cells)])
    assert ("MEM007" in {one.rule_id for one in report.findings}) is fires
