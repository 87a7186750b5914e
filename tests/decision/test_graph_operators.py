"""The operators of a graph that the proposal gives, beside shapes and alone; other people's names of operators and dims."""

from __future__ import annotations

import shutil
from dataclasses import replace
from math import inf, isclose
from pathlib import Path

import pytest
from planproof.decision.desk import Desk
from planproof.decision.operators import graph_operators, plan_operators
from planproof.hardware import open_library
from planproof.model.naming import dim_named, operator_named
from planproof.pipeline import lint
from planproof.plan import Plan
from planproof.proposal import Case, load_proposal, resolve

DATA = Path(__file__).resolve().parent.parent / "data"
TEXT = """planproof: 1
proposal: {objective: step_time, run_length: {steps: 20000}}
model:
  transformer: {family: llama, layers: 1, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336, vocabulary: 128256}
  graph: {file: g.yaml}
workload: {sequence_length: 4096, global_batch: 64 sequences, optimizer: adamw, attention: flash,
           precision: {parameters: bf16, gradients: fp32, master: fp32, moments: fp32}}
cluster: {nodes: {count: 1, type: dgx_h100}, contention: none}
profile: none
layouts: all
plans:
  - {name: reference, role: reference, uniform: {data: 8}, zero: 1, microbatch: 1}
  - name: submitted
    role: submitted
    stages: [{layers: [0, 0], with: [embedding, head], devices: 8, mesh: {data: 2, tensor: 4}}]
    microbatch: 1
"""
#: Names that the graph of the file has not: other frameworks', in place of heads, inner and vocabulary.
OTHERS = (("heads", "num_heads"), ("inner", "intermediate_size"), ("vocabulary", "vocab_size"), ("kv_num_heads", "kv_heads"))


def case(folder: Path, text: str = TEXT, *others: tuple[str, str]) -> Case:
    graph = (DATA / "graphs/llama_layer.yaml").read_text(encoding="utf-8")
    for own, other in others:
        graph = graph.replace(own, other)
    (folder / "g.yaml").write_text(graph, encoding="utf-8")
    (folder / "p.yaml").write_text(text, encoding="utf-8")
    return resolve(load_proposal(folder / "p.yaml"), open_library(()))


def stated(plan: Plan, **layouts: dict[str, str]) -> Plan:
    laid = tuple((name, tuple(dims.items())) for name, dims in layouts.items())
    return replace(plan, stages=tuple(replace(one, layouts=laid) for one in plan.stages))


@pytest.mark.parametrize("others", [(), OTHERS], ids=["own names", "other names"])
def test_a_given_graph_is_priced_as_the_same_one_built(tmp_path: Path, others: tuple[tuple[str, str], ...]) -> None:
    desk = Desk(case(tmp_path, TEXT, *others))
    assert not desk.case.contradictions
    for one in desk.case.plans:
        assert one.plan is not None
        priced = desk.price(one.plan)
        given, built = plan_operators(priced, desk.pricer, given=desk.case.graph), plan_operators(priced, desk.pricer)
        assert given.given
        assert not built.given
        for ours, theirs in ((given.own, built.own), (given.best, built.best)):
            assert ours is not None
            assert theirs is not None
            assert isclose(ours.objective, theirs.objective, rel_tol=1e-9)
            assert isclose(ours.memory_bytes, theirs.memory_bytes, rel_tol=1e-9)
        assert isclose(given.budget_bytes, built.budget_bytes, rel_tol=1e-9)


def test_alone_it_is_laid_out_within_the_device(tmp_path: Path) -> None:
    text = "\n".join(line for line in TEXT.splitlines() if "transformer" not in line)
    beside, alone = Desk(case(tmp_path)), case(tmp_path, text)
    assert alone.model is None
    assert alone.cluster is not None
    for one, other in zip(alone.plans, beside.case.plans, strict=True):
        assert one.plan is not None
        assert other.plan is not None
        found = graph_operators(alone, one.plan)
        priced = plan_operators(beside.price(other.plan), beside.pricer, given=beside.case.graph)
        assert found is not None
        assert found.own is not None
        assert priced.own is not None
        assert isclose(found.own.objective, priced.own.objective, rel_tol=1e-9)
        assert found.stage_s == 0.0
        assert found.budget_bytes == alone.cluster.device.capacity.value
    assert graph_operators(replace(alone, workload=None), one.plan) is None


def test_what_the_policy_keeps_free_is_kept_free(tmp_path: Path) -> None:
    text = "\n".join(line for line in TEXT.splitlines() if "transformer" not in line) + "\npolicy: {headroom: 25 %}\n"
    alone = case(tmp_path, text)
    assert alone.plans[1].plan is not None
    assert alone.cluster is not None
    found = graph_operators(alone, alone.plans[1].plan)
    assert found is not None
    assert isclose(found.budget_bytes, 0.75 * alone.cluster.device.capacity.value)
    assert found.best is not None
    assert found.best.memory_bytes <= found.budget_bytes
    assert any(one.next_split is not None and one.next_extra_s >= 0 for one in found.best.layouts)


def test_an_axis_that_no_name_gives_a_dim_to_is_said(tmp_path: Path) -> None:
    text = "\n".join(line for line in TEXT.splitlines() if "transformer" not in line)
    strange = (("kv_heads", "b"), ("heads", "a"), ("inner", "c"), ("vocabulary", "d"))
    alone = case(tmp_path, text, *strange)
    plan = alone.plans[1].plan
    assert plan is not None
    found = graph_operators(alone, plan)
    assert found is not None
    assert found.own is not None
    assert found.best is not None
    assert found.own.objective == inf
    assert "'tensor' divides" in found.own.binding
    assert "state 'layouts'" in found.own.binding
    assert found.best.objective < inf
    said = graph_operators(alone, stated(plan, up={"c": "tensor"}, act={"c": "tensor"}, down={"c": "tensor"}))
    assert said is not None
    assert said.own is not None
    assert said.own.objective < inf


def test_other_peoples_names_are_those_of_the_graph(tmp_path: Path) -> None:
    desk = Desk(case(tmp_path))
    plan = desk.case.plans[1].plan
    assert plan is not None
    own = stated(plan, head={"vocabulary": "tensor"}, up={"inner": "tensor"})
    for other in (
        stated(plan, lm_head={"vocab": "tensor"}, up={"inner": "tensor"}),
        stated(plan, output_layer={"vocab_size": "tensor"}, gate_proj={"ffn": "tensor"}),
    ):
        for given in (None, desk.case.graph):
            one, two = (plan_operators(desk.price(p), desk.pricer, given=given, compare=False) for p in (own, other))
            assert one.own is not None
            assert two.own is not None, two.reason
            assert two.own.objective == one.own.objective < inf
            assert {x.operator: dict(x.split)["tensor"] for x in two.own.layouts}["head"] == "vocabulary"
    wrong = plan_operators(desk.price(stated(plan, lm_head={"vocabb": "tensor"})), desk.pricer)
    assert "'vocabb' of 'lm_head'" in wrong.reason
    assert "vocabulary" in wrong.reason


def test_a_name_that_a_graph_has_is_never_taken_for_another() -> None:
    assert operator_named("query", {"query", "qkv"}) == "query"
    assert operator_named("attention.query", {"attention.qkv"}) == "attention.qkv"
    assert operator_named("sideways", {"up"}) is None
    assert dim_named("kv_heads", {"heads", "kv_heads"}) == "kv_heads"
    assert dim_named("width", {"heads"}) is None
    assert dim_named("vocabulary", {"vocab"}) == "vocab"


@pytest.mark.parametrize(
    ("layouts", "rule", "words"),
    [
        ("{lm_head: {vocab: tensor}}", None, ""),
        ("{gate_up: {ffn: tensor}, q_proj: {num_heads: tensor}}", None, ""),
        ("{upp: {inner: tensor}}", "SHP046", "'upp'"),
        ("{up: {zzz: tensor}}", "SHP048", "'zzz'"),
        ("{up: {inner: sideways}}", "input.literal_error", "'sideways' is not one of"),
    ],
)  # fmt: skip
def test_layouts_are_judged_on_the_names_of_the_graph(tmp_path: Path, layouts: str, rule: str | None, words: str) -> None:
    shutil.copy(DATA / "graphs/llama_layer.yaml", tmp_path / "g.yaml")
    text = TEXT.replace("tensor: 4}}", f"tensor: 4}}, layouts: {layouts}}}")
    for one in (text, "\n".join(line for line in text.splitlines() if "transformer" not in line)):
        (tmp_path / "p.yaml").write_text(one, encoding="utf-8")
        if rule is not None and rule.startswith("input."):
            with pytest.raises(Exception, match=words) as caught:
                lint([tmp_path / "p.yaml"])
            assert caught.value.code == rule
            assert (caught.value.place.line, caught.value.place.column) != (None, None)
            continue
        (report,) = lint([tmp_path / "p.yaml"])
        found = {finding.rule_id: finding.message for finding in report.findings if finding.rule_id in ("SHP046", "SHP048")}
        assert set(found) == ({rule} if rule else set())
        assert words in found.get(rule or "", "")


def test_twenty_axes_are_refused_with_their_place(tmp_path: Path) -> None:
    axes = ", ".join(f"axis{k}: 2" for k in range(20))
    (tmp_path / "p.yaml").write_text(TEXT.replace("data: 2, tensor: 4", axes), encoding="utf-8")
    with pytest.raises(Exception, match="unknown key 'axis0'; allowed here: data, tensor, context, expert") as caught:
        lint([tmp_path / "p.yaml"])
    assert caught.value.place.line == 15


def test_a_memory_that_no_layout_meets_names_the_nearest_miss_and_the_operator(tmp_path: Path) -> None:
    text = "\n".join(line for line in TEXT.splitlines() if "transformer" not in line)
    alone = case(tmp_path, text.replace("type: dgx_h100", "type: dgx_h100, device_memory: {value: 1 GiB, grade: measured}"))
    plan = alone.plans[1].plan
    assert plan is not None
    found = graph_operators(alone, plan)
    assert found is not None
    assert found.best is not None
    assert found.best.objective == inf
    assert "more than the budget of 1,073,741,824" in found.best.binding
    assert "most of it is 'head'" in found.best.binding


def test_two_prices_that_launches_tell_apart_say_so(tmp_path: Path) -> None:
    """Kernels of a few microseconds: a floor under each by operator, under whole passes in the stage's price."""
    text = "\n".join(line for line in TEXT.splitlines() if "transformer" not in line)
    small = (("hidden: 4096", "hidden: 256"), ("inner: 14336", "inner: 512"), ("vocabulary: 128256", "vocabulary: 512"))
    desk = Desk(case(tmp_path, text.replace("sequence_length: 4096", "sequence_length: 256"), *small))
    plan = desk.case.plans[0].plan
    assert plan is not None
    found = plan_operators(desk.price(plan), desk.pricer, given=desk.case.graph)
    assert found.own is not None
    assert found.launch_s > 0.5 * found.own.compute_s
    assert 0 < found.launch_s <= found.own.compute_s * (1 + 1e-9)
