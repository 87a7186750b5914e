"""Layouts that a plan states over a graph that is given alone: what cannot be is refused by name, what says nothing is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from planproof import lint
from planproof.decision.pricers import pricer_of
from planproof.facts.from_graph import graph_of_case
from planproof.hardware import open_library
from planproof.inference import Finding
from planproof.proposal import Case, load_proposal, resolve
from planproof.search.graph_pricing import GraphPlanPricer

#: Two blocks of an MLP of 512 x 2,048: 4 divides both widths, 3 neither.
TEXT = """planproof: 1
proposal: {objective: step_time, run_length: {steps: 100}}
model:
  graph:
    dims: {batch: microbatch, hidden: 512, inner: 2048}
    inputs: {x: [batch, hidden]}
    operators:
      - {name: a.up, kind: matmul, inputs: [x], parameters: {weight: [hidden, inner]}, output: [batch, inner]}
      - {name: a.down, kind: matmul, inputs: [a.up], parameters: {weight: [inner, hidden]}, output: [batch, hidden]}
      - {name: a.sum, kind: add, inputs: [x, a.down]}
      - {name: b.up, kind: matmul, inputs: [a.sum], parameters: {weight: [hidden, inner]}, output: [batch, inner]}
      - {name: b.down, kind: matmul, inputs: [b.up], parameters: {weight: [inner, hidden]}, output: [batch, hidden]}
      - {name: b.sum, kind: add, inputs: [a.sum, b.down]}
workload: {global_batch: 64 sequences, optimizer: adamw,
           precision: {parameters: bf16, gradients: fp32, master: fp32, moments: fp32}}
cluster: {nodes: {count: 1, type: dgx_a100}, contention: none}
profile: none
layouts: all
plans:
  - {name: reference, role: reference, uniform: {data: 8}, microbatch: 2}
  - name: submitted
    role: submitted
    microbatch: 2
    stages: [{layers: [0, 1], devices: 8, mesh: {data: 2, tensor: 4}, layouts: {up: {inner: tensor}}}]
"""


MESH = "devices: 8, mesh: {data: 2, tensor: 4}"


def linted(folder: Path, layouts: str, mesh: str = MESH, inner: int = 2048) -> dict[str, Finding]:
    text = TEXT.replace("layouts: {up: {inner: tensor}}", f"layouts: {layouts}").replace("inner: 2048", f"inner: {inner}")
    text = text.replace(MESH, mesh)
    (folder / "p.yaml").write_text(text, encoding="utf-8")
    (report,) = lint([folder / "p.yaml"])
    watched = ("INT003", "MEM009", "MEM010", "SHP046", "SHP048", "SHP049")
    return {one.rule_id: one for one in report.findings if one.rule_id in watched}


@pytest.mark.parametrize(
    ("layouts", "rule", "words"),
    [
        ("{up: {inner: tensor}}", None, ""),
        ("{a.up: {hidden: tensor}}", None, ""),
        ("{up: {inner: tensor, hidden: tensor}}", "INT003", "'inner' and 'hidden' of 'up' on the axis 'tensor'"),
        ("{up: {innr: tensor}}", "SHP048", "'innr'"),
        ("{up: {inner: pipeline}}", "SHP049", "divides layers"),
        ("{up: {inner: context}}", "SHP049", "1 device along it"),
        ("{up: {hidden: data}}", "SHP049", "with the sequences on that axis"),
        ("{up: {batch: data}}", None, ""),
        ("{up: {batch: tensor}}", "MEM009", "'batch' of 'a.up' runs over the sequences"),
    ],
)
def test_each_slip_of_a_layout_has_its_one_finding(tmp_path: Path, layouts: str, rule: str | None, words: str) -> None:
    found = linted(tmp_path, layouts)
    assert set(found) == ({rule} if rule else set())
    assert not rule or words in found[rule].message


def test_a_dim_that_does_not_divide_is_named_with_its_operator(tmp_path: Path) -> None:
    found = linted(tmp_path, "{b.up: {inner: tensor}}", inner=2046)
    assert "the dim 'inner' of 'b.up' has 2046, which 4 devices do not divide" in found["MEM009"].message
    assert found["MEM009"].path == "/plans/1/stages"


def test_a_tensor_axis_that_divides_no_weight_is_told_with_what_would(tmp_path: Path) -> None:
    found = linted(tmp_path, "{}", "devices: 6, mesh: {data: 2, tensor: 3}")["MEM010"]
    assert "100 % of its 4194304 parameters" in found.message
    assert found.path == "/plans/1/stages/0"
    assert "2, 4, 8, 16" in found.remedy


def pricer(folder: Path, layouts: str) -> tuple[GraphPlanPricer, Case]:
    (folder / "p.yaml").write_text(TEXT.replace("layouts: {up: {inner: tensor}}", f"layouts: {layouts}"), encoding="utf-8")
    case = resolve(load_proposal(folder / "p.yaml"), open_library(()))
    made = pricer_of(case)
    assert isinstance(made, GraphPlanPricer)
    return made, case


def test_the_name_that_says_most_of_an_operator_stands(tmp_path: Path) -> None:
    """`up` means both, `b.up` the second alone: whichever is written first."""
    for layouts in ("{up: {inner: tensor}, b.up: {hidden: tensor}}", "{b.up: {hidden: tensor}, up: {inner: tensor}}"):
        made, case = pricer(tmp_path, layouts)
        plan = case.plans[1].plan
        assert plan is not None
        for layer, loop in ((0, "inner"), (1, "hidden")):
            for layout in made.layouts.of_stage(plan, plan.stages[0], layer, (4, 1)):
                assert {one.loop for one in layout.placed if one.operator.name.endswith("up")} == {loop}


def test_no_attention_no_share_of_attention(tmp_path: Path) -> None:
    made, case = pricer(tmp_path, "{}")
    assert graph_of_case(case) is not None
    plan = case.plans[0].plan
    assert plan is not None
    names = [one.name for one in made.price(plan).step.deciders]
    assert any("matrix products" in name for name in names)
    assert not any("attention" in name for name in names)


@pytest.mark.parametrize("compute", ["fp32", "fp16", "bf16"])
def test_layers_are_the_same_in_every_precision(tmp_path: Path, compute: str) -> None:
    """An input of another precision makes the first block unlike the others; plans are cut by the same layers all the same."""
    text = TEXT.replace("{x: [batch, hidden]}", "{x: {dims: [batch, hidden], dtype: bf16}}")
    text = text.replace("{parameters: bf16", f"{{parameters: {compute}")
    text = text.replace("[{layers: [0, 1], devices: 8, mesh: {data: 2, tensor: 4}, layouts: {up: {inner: tensor}}}]", "STAGES")
    text = text.replace("STAGES", "[{layers: [0, 0], devices: 4}, {layers: [1, 1], devices: 4}]\n    schedule: 1f1b")
    (tmp_path / "p.yaml").write_text(text, encoding="utf-8")
    case = resolve(load_proposal(tmp_path / "p.yaml"), open_library(()))
    model = graph_of_case(case)
    assert model is not None
    assert case.graph is not None
    assert case.graph.layers == model.layers == 2
    (report,) = lint([tmp_path / "p.yaml"])
    assert not [one for one in report.findings if one.severity.value == "error"]
