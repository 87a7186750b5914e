"""Stages of a graph that is given alone: held to its recognised layers, with the place of what is wrong.

The network has seven: on so small a picture the stem has the work of a block.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from planproof import lint

TEXT = """planproof: 1
proposal: {objective: step_time, run_length: {steps: 100}}
model:
  graph: {family: wide_resnet, blocks: [3, 3], base_channels: 64, image_size: 32, classes: 64}
workload: {global_batch: 64 sequences, optimizer: sgd_momentum, precision: {parameters: fp32, gradients: fp32, moments: fp32}}
cluster: {nodes: {count: 1, type: dgx_a100}, contention: none}
profile: none
layouts: all
plans:
  - {name: reference, role: reference, uniform: {data: 8}, microbatch: 2}
  - name: submitted
    role: submitted
    schedule: 1f1b
    microbatch: 4
    stages:
      - {layers: [0, 3], devices: 2, mesh: {data: 2}}
      - {layers: [4, 5], devices: 2, mesh: {tensor: 2}}
      - {layers: [6, 6], devices: 4, mesh: {data: 2, tensor: 2}}
"""


def errors(folder: Path, *changes: tuple[str, str]) -> dict[str, tuple[str, str]]:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "p.yaml").write_text(text, encoding="utf-8")
    (report,) = lint([folder / "p.yaml"])
    found = [one for one in report.findings if one.severity.value == "error"]
    return {one.rule_id: (one.path, one.message) for one in found}


def test_unequal_meshes_over_recognised_layers_stand(tmp_path: Path) -> None:
    assert errors(tmp_path) == {}


@pytest.mark.parametrize(
    ("old", "new", "rule", "path", "word"),
    [
        ("layers: [4, 5]", "layers: [3, 5]", "SHP022", "/plans/1/stages/1/layers", "1 of 7"),
        ("layers: [4, 5]", "layers: [5, 5]", "SHP021", "/plans/1/stages/0/layers", "layer that is wrong is 4"),
        ("layers: [6, 6]", "layers: [6, 8]", "SHP023", "/plans/1/stages/2/layers", "beyond the model's 7"),
        ("devices: 4, mesh", "devices: 3, mesh", "SHP028", "/plans/1/stages/2", "given 3 devices"),
        ("uniform: {data: 8}", "uniform: {data: 4, context: 2}", "EVI054", "/plans/0", "context 2"),
        (
            "uniform: {data: 8}", "schedule: 1f1b, uniform: {data: 2, pipeline: 4}", "SHP007", "/plans/0/uniform/pipeline",
            "cuts 7 layers into 4",
        ),
        (
            "mesh: {tensor: 2}}", "mesh: {tensor: 2}, layouts: {group1.block0.b.conv: {kr: tensor}}}", "MEM009",
            "/plans/1/stages", "the dim 'kr' of 'group1.block0.b.conv' is never divided",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_stages_is_named_with_its_place(
    tmp_path: Path, old: str, new: str, rule: str, path: str, word: str
) -> None:
    found = errors(tmp_path, (old, new))
    assert rule in found, found
    assert word in found[rule][1]
    assert found[rule][0] == path
