"""The order of a review: what is closed is not priced, and the answer changes as the question does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import planproof
import pytest
import yaml
from planproof.decision.review import Review
from planproof.inference import Phase
from planproof.pipeline import Options, examine, judge, price_plans, review_loaded, session
from planproof.proposal import parse_proposal
from planproof.report.review_json import review_json

BASE = """\
planproof: 1
proposal: {objective: step_time, run_length: {steps: 20000}, framework: {name: megatron-lm, version: core_r0.14}}
model: {transformer: {family: llama, layers: 16, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336, vocabulary: 32000}}
workload:
  sequence_length: 4096
  global_batch: 64 sequences
  precision: {parameters: bf16, gradients: fp32, master: fp32, moments: fp32}
  optimizer: adamw
  attention: flash
cluster:
  nodes: {count: 2, type: dgx_a100}
  fabric: {nics: {count: 8, bandwidth: 200 Gbit/s}, oversubscription: 1.0, latency: 4 us}
  contention: none
profile: none
layouts: {microbatch: [1, 2], schedules: [1f1b], zero: [0, 1], allow: [data, tensor, pipeline]}
plans:
  - {name: reference, role: reference, uniform: {data: 16}, zero: 1, microbatch: 1, recompute: full}
  - {name: submitted, role: submitted, uniform: {data: 4, tensor: 4}, zero: 1, microbatch: 1, sequence_parallel: true}
"""
Change = Callable[[dict[str, object]], object]


@pytest.fixture(scope="module")
def run() -> Callable[..., Review]:
    def reviewed(change: Change | None = None, *, sort: bool = False) -> Review:
        data = yaml.safe_load(BASE)
        if change is not None:
            change(data)
        raw = yaml.safe_dump(data, sort_keys=sort).encode()
        with session(Options(evaluators="reference")) as opened:
            return review_loaded(parse_proposal(raw, "p.yaml", Path("/nowhere/p.yaml")), opened)

    return reviewed


def seconds(done: Review) -> float:
    best = done.candidate(done.recommended)
    assert best is not None
    assert best.step is not None
    return best.step.value


def test_a_complete_proposal_is_conditional_with_a_plan_and_a_fallback(run: Callable[..., Review]) -> None:
    done = run()
    assert (done.verdict.value, done.refused_of) == ("CONDITIONAL", None)
    best = done.candidate(done.recommended)
    assert best is not None
    assert best.feasible == "yes"
    assert best.fallen == ()
    simpler = done.candidate(done.fallback)
    if simpler is None:
        assert done.fallback_reason
    else:
        assert simpler.simplicity < best.simplicity
    assert done.conditions
    assert done.space is not None
    assert done.space.complete


def test_the_two_evaluators_give_the_same_review(run: Callable[..., Review]) -> None:
    raw = yaml.safe_dump(yaml.safe_load(BASE), sort_keys=False).encode()
    with session() as opened:
        both = review_json(review_loaded(parse_proposal(raw, "p.yaml", Path("/nowhere/p.yaml")), opened))
    one = review_json(run())
    for body in (both, one):
        body.pop("produced_with")
    assert json.dumps(both) == json.dumps(one)


@pytest.mark.parametrize(
    ("change", "closed"),
    [
        (lambda data: data["cluster"].pop("fabric"), "topology"),
        (lambda data: data["cluster"].pop("contention"), "communication"),
        (lambda data: data["workload"].pop("precision"), "memory"),
        (lambda data: data.pop("layouts"), "search"),
        (lambda data: data["proposal"].pop("objective"), "ranking"),
        (lambda data: data["model"]["transformer"].pop("hidden"), "shapes"),
    ],
    ids=["fabric", "contention", "precision", "layouts", "objective", "hidden"],
)
def test_missing_evidence_is_refused_and_what_hangs_on_it_is_listed(
    run: Callable[..., Review], change: Change, closed: str
) -> None:
    done = run(change)
    assert (done.verdict.value, done.refused_of) == ("REFUSED", "evidence")
    assert closed in {one.capability for one in done.not_examined}
    assert all(one.chain for one in done.not_examined)
    if closed != "ranking":
        assert done.recommended is None
    if closed in ("topology", "communication", "shapes"):
        assert all(one.priced is None for one in done.candidates)


def test_a_plan_that_falls_is_refused_and_the_search_still_runs(run: Callable[..., Review]) -> None:
    def change(data: dict[str, object]) -> None:
        data["plans"][1]["uniform"] = {"data": 2, "tensor": 3}

    done = run(change)
    assert (done.verdict.value, done.refused_of) == ("REFUSED", "plan")
    assert done.recommended is not None
    assert done.because


def test_where_nothing_fits_the_space_is_refused_with_the_nearest_miss(run: Callable[..., Review]) -> None:
    def change(data: dict[str, object]) -> None:
        data["cluster"]["nodes"] = {"count": 2, "type": "dgx_a100", "device_memory": "3 GiB"}
        data["plans"] = data["plans"][:1]

    done = run(change)
    assert (done.verdict.value, done.refused_of) == ("REFUSED", "space")
    assert done.space is not None
    assert done.space.rejected
    assert sum(row.plans for row in done.space.rejected) == done.space.size
    assert all(row.excess_bytes > 0 for row in done.space.rejected)


@pytest.mark.parametrize("limits", [{"allow": []}, {"microbatch": [7]}, {"degrees": {"data": [3]}}])
def test_an_empty_space_recommends_nothing_from_outside_it(run: Callable[..., Review], limits: dict[str, object]) -> None:
    done = run(lambda data: data.update(layouts=limits))
    assert (done.verdict.value, done.refused_of) == ("REFUSED", "space")
    assert done.recommended is None
    assert "SHP038" in {finding.rule_id for finding in done.findings}


def test_a_headroom_that_nothing_keeps_is_refused_at_once(run: Callable[..., Review]) -> None:
    done = run(lambda data: data.update(policy={"headroom": "100 %"}, plans=data["plans"][:1]))
    assert (done.verdict.value, done.refused_of) == ("REFUSED", "space")


def test_more_memory_never_makes_the_best_plan_slower_or_a_plan_unfit(run: Callable[..., Review]) -> None:
    def memory(text: str) -> Change:
        return lambda data: data["cluster"]["nodes"].update(device_memory=text)

    small, large = run(memory("40 GiB")), run(memory("80 GiB"))
    assert seconds(large) <= seconds(small)
    rank = {"no": 0, "unknown": 0, "at_risk": 1, "yes": 2}
    fit = {one.plan.name: rank[one.feasible] for one in small.candidates if one.path}
    assert all(rank[large_one.feasible] >= fit[large_one.plan.name] for large_one in large.candidates if large_one.path)


def test_a_faster_fabric_never_makes_the_fastest_plan_slower(run: Callable[..., Review]) -> None:
    def fabric(rate: str) -> Change:
        return lambda data: data["cluster"]["fabric"]["nics"].update(bandwidth=rate)

    assert seconds(run(fabric("800 Gbit/s"))) <= seconds(run(fabric("50 Gbit/s"))) * 1.05


def test_the_order_of_keys_changes_nothing_but_places(run: Callable[..., Review]) -> None:
    one, two = run(), run(sort=True)
    assert one.sentence == two.sentence
    assert [f.rule_id for f in one.findings] == [f.rule_id for f in two.findings]
    assert seconds(one) == seconds(two)


def test_units_of_the_same_bandwidth_agree(run: Callable[..., Review]) -> None:
    bits = run()
    rate = run(lambda data: data["cluster"]["fabric"]["nics"].update(bandwidth="25 GB/s"))
    assert seconds(bits) == seconds(rate)


def test_lint_and_review_agree_on_what_lint_can_see(run: Callable[..., Review]) -> None:
    loaded = parse_proposal(BASE.encode(), "p.yaml", Path("/nowhere/p.yaml"))
    with session(Options(evaluators="reference")) as opened:
        seen = {(f.rule_id, f.path) for f in examine(loaded, opened).findings}
        judged = {(f.rule_id, f.path) for f in judge(loaded, opened, Phase.EVIDENCE)}
    whole = {(f.rule_id, f.path) for f in run().findings}
    assert seen == judged
    assert seen <= whole


def test_a_work_limit_is_kept_and_said() -> None:
    loaded = parse_proposal(BASE.encode(), "p.yaml", Path("/nowhere/p.yaml"))
    with session(Options(evaluators="reference", work_limit=1)) as opened:
        done = review_loaded(loaded, opened)
    assert done.space is not None
    assert done.space.priced <= 1
    assert not done.space.complete


def test_a_search_that_is_cut_off_before_it_found_anything_says_so_and_nothing_of_the_space(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("planproof.search.uniform.GRACE_S", 0.0)
    data = yaml.safe_load(BASE)
    data["plans"] = [data["plans"][0] | {"zero": 0, "recompute": "none", "microbatch": 4}]
    data["cluster"]["nodes"]["device_memory"] = "20 GiB"
    loaded = parse_proposal(yaml.safe_dump(data, sort_keys=False).encode(), "p.yaml", Path("/nowhere/p.yaml"))
    with session(Options(evaluators="reference", time_limit=1e-9)) as opened:
        done = review_loaded(loaded, opened)
    assert (done.verdict.value, done.refused_of) == ("REFUSED", "space")
    assert "stopped at its limit" in done.sentence


def test_plans_are_priced_by_name_and_a_gap_is_a_reason() -> None:
    with session(Options(evaluators="reference")) as opened:
        priced, refused = price_plans(parse_proposal(BASE.encode(), "p.yaml", Path("/nowhere/p.yaml")), opened, ("submitted",))
        assert [name for name, _ in priced] == ["submitted"]
        assert refused == []
        gap = BASE.replace("  contention: none\n", "")
        priced, refused = price_plans(parse_proposal(gap.encode(), "p.yaml", Path("/nowhere/p.yaml")), opened)
        assert priced == []
        assert all("contention" in " ".join(reasons) for _, reasons in refused)


def test_the_package_offers_review_and_lint(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(BASE)
    (report,) = planproof.lint([path])
    assert report.passes
    assert planproof.review(path, planproof.Options(evaluators="reference")).verdict.value == "CONDITIONAL"
