"""The examples say what their pages say: verdict, the finding that must be there, and the figures that are quoted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from example_desk import EXAMPLES, LONG, Desk
from planproof.decision.review import Candidate, Review
from planproof.pipeline import price_plans, review_loaded
from planproof.proposal import load_proposal
from planproof.report.record import render_record
from planproof.report.review_json import review_json

MIB = 2**20

#: Every proposal: verdict, what is refused, and findings that must be there: (rule, fragment of its message).
EXPECTED: dict[str, tuple[str, str | None, tuple[tuple[str, str], ...]]] = {
    "smallest/proposal.yaml": ("CONDITIONAL", None, (("EVI030", "measured collectives"), ("INT005", "oversubscription"))),
    "smallest/refused.yaml": ("REFUSED", "evidence", (("EVI015", "cluster.contention"),)),
    "llama3-70b-h100/proposal.yaml": ("CONDITIONAL", None, (("EVI027", "estimated"), ("CLM001", "weak_scaling"))),
    "gpt3-175b-a100/proposal.yaml": ("CONDITIONAL", None, (("EVI027", "estimated"), ("MEM006", "first stage"))),
    "large-vocabulary/proposal.yaml": (
        "CONDITIONAL", None, (("MEM005", "'submitted' is on the last stage"), ("OUT008", "limits the space")),
    ),
    "measured/proposal.yaml": ("SUPPORTED", None, (("OUT005", "has paid"), ("OUT011", "2 %"))),
    "missing-topology/proposal.yaml": ("REFUSED", "evidence", (("EVI009", "device count"),)),
    "missing-topology/no-fabric.yaml": ("REFUSED", "evidence", (("EVI012", "cluster.fabric"),)),
    "missing-topology/no-bandwidth.yaml": ("REFUSED", "evidence", (("EVI013", "'nics' with count and bandwidth"),)),
    "missing-topology/islands.yaml": ("REFUSED", "evidence", (("EVI014", "2 parts"),)),
    "own-architecture/proposal.yaml": ("CONDITIONAL", None, (("OUT001", "'submitted' is sound"), ("OPL001", "best layouts"))),
    "infeasible-memory/proposal.yaml": (
        "REFUSED",
        "plan",
        (
            ("MEM003", "layers 0 to 7"),
            ("PRO003", "tensor 1, microbatch 1"),
            ("PRO004", "one and the same total memory"),
            ("PRO005", "tensor 4 as at tensor 1"),
            ("PRO006", "each layer alone"),
        ),
    ),
}
REFUSED_OF_EVIDENCE = tuple(name for name, (_, of, _) in EXPECTED.items() if of == "evidence")


def candidate(done: Review, name: str) -> Candidate:
    return next(one for one in done.candidates if one.plan.name == name)


def facts(done: Review, rule: str) -> dict[str, dict[str, Any]]:
    """The facts that the first finding of `rule` is about, by kind."""
    found = next(finding for finding in done.findings if finding.rule_id == rule)
    return {fact.kind: dict(fact.values) for _, fact in found.bindings}


def test_every_proposal_in_the_folder_is_held_to_something() -> None:
    there = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.glob("*/*.yaml")}
    assert there == {*EXPECTED, *LONG}
    assert all((EXAMPLES / name).parent.joinpath("README.md").is_file() for name in there)


@pytest.mark.parametrize("name", EXPECTED)
def test_verdict_and_findings_are_those_of_its_page(desk: Desk, name: str) -> None:
    verdict, refused_of, findings = EXPECTED[name]
    done = desk.review(name)
    assert (done.verdict.value, done.refused_of) == (verdict, refused_of), done.sentence
    for rule, fragment in findings:
        said = [finding.message for finding in done.findings if finding.rule_id == rule]
        assert any(fragment in message for message in said), f"{rule} says {said}"


@pytest.mark.parametrize("name", [name for name, (verdict, _, _) in EXPECTED.items() if verdict != "REFUSED"])
def test_what_is_not_refused_has_no_error_and_a_recommended_plan_that_fits(desk: Desk, name: str) -> None:
    done = desk.review(name)
    assert [finding.rule_id for finding in done.findings if finding.severity.value == "error"] == []
    best = done.candidate(done.recommended)
    assert best is not None
    assert best.feasible == "yes"


@pytest.mark.parametrize("name", REFUSED_OF_EVIDENCE)
def test_nothing_is_priced_or_recommended_where_evidence_is_missing(desk: Desk, name: str) -> None:
    done = desk.review(name)
    assert done.candidates
    assert all(one.step is None and one.priced is None for one in done.candidates)
    assert (done.recommended, done.fallback, done.space, done.conditions) == (None, None, None, ())
    rule = EXPECTED[name][2][0][0]
    assert {finding.rule_id for finding in done.findings if finding.severity.value == "error"} == {rule}
    closed = {one.capability: [link.rule for link in one.chain] for one in done.not_examined}
    assert all(rule in closed[capability] for capability in ("time", "search", "ranking"))
    assert rule in closed.get("communication", [])
    assert {"network", "outcome"} <= set(done.skipped_phases)


def test_a_graph_alone_is_laid_out_operator_by_operator_as_its_page_says(desk: Desk) -> None:
    done = desk.review("own-architecture/proposal.yaml")
    assert done.case.graph is not None
    assert done.case.graph.parameters == 65536 * 2048 + 6 * (4 * 2048**2 + 2 * 2048 * 8192 + 4 * 2048 + 2 * 2048) + 2048
    submitted = candidate(done, "submitted").operators
    assert submitted is not None
    assert submitted.given
    assert submitted.own is not None
    assert submitted.best is not None
    assert submitted.stated
    layouts = {one.operator.removeprefix("layer0."): dict(one.split)["tensor"] for one in submitted.own.layouts}
    assert (layouts["project"], layouts["back"], layouts["up"], layouts["norm"]) == ("channel", "channel", "inner", "")
    assert {one.copies for one in submitted.own.layouts if one.operator.startswith("layer0.")} == {6, 5}
    page = (EXAMPLES / "own-architecture/README.md").read_text(encoding="utf-8")
    step = candidate(done, "submitted").step
    assert step is not None
    assert f"takes {step.value:.2f} s a step" in page
    best = done.candidate(done.recommended)
    assert best is not None
    assert best.step is not None
    assert (str(best.plan.mesh), f"{best.step.value:.3f} s" in page) == ("data 8", True)
    assert f"{submitted.best.objective:.2f} s\nin place of {submitted.own.objective:.2f} s" in page
    assert submitted.best.proven
    text = render_record(done)
    assert "an operator graph: 76 operators, 6 layers recognised, 12 operators each" in text
    assert "Graph: the proposal's own" in text
    body = next(one for one in review_json(done)["candidates"] if "submitted" in one["roles"])["operators"]
    assert body["graph_given"]
    assert body["stage_price_s"] == pytest.approx(submitted.own.objective, rel=0.06)


def test_known_nodes_without_links_are_judged_on_memory_all_the_same(desk: Desk) -> None:
    done = desk.review("missing-topology/no-fabric.yaml")
    assert "memory" not in {one.capability for one in done.not_examined}
    assert "memory" not in done.skipped_phases


@pytest.mark.parametrize("name", EXPECTED)
def test_ids_and_pointers_in_the_json_resolve(desk: Desk, name: str) -> None:
    done = desk.review(name)
    body = review_json(done)
    ids = [one["id"] for one in body["candidates"]]
    assert len(ids) == len(set(ids))
    assert {body["recommended"], body["fallback"]} - {None} <= set(ids)
    assert {link["rule"] for one in body["not_examined"] for link in one["chain"]} <= {f["rule"] for f in body["findings"]}
    rules = {rule.id for rule in desk.opened.catalogue.rules}
    for finding in body["findings"]:
        assert finding["rule"] in rules
        assert finding["line"] is not None, finding
    known = {"proposal", "rules", "planproof"}
    assert known <= set(body["digests"])


def test_a_line_less_is_refused(desk: Desk) -> None:
    whole = (EXAMPLES / "smallest/proposal.yaml").read_text(encoding="utf-8").splitlines()
    less = (EXAMPLES / "smallest/refused.yaml").read_text(encoding="utf-8").splitlines()
    assert len(whole) <= 15
    assert [line for line in whole if line not in less] == ["  contention: none"]
    assert len(less) == len(whole) - 1


def test_planners_plan_sums_to_more_than_its_device_by_its_own_rows(desk: Desk) -> None:
    done = desk.review("infeasible-memory/proposal.yaml")
    fact = facts(done, "MEM003")["measured_memory"]
    assert (fact["plan"], fact["stage"], fact["first_layer"], fact["last_layer"], fact["rows"]) == ("planner", 0, 0, 7, 10)
    assert fact["sum_bytes"] == 85_234 * MIB
    assert fact["capacity_bytes"] == 81_920 * MIB
    assert fact["excess_bytes"] == 3_314 * MIB
    best = done.candidate(done.recommended)
    assert best is not None
    assert (best.plan.stages[0].mesh.data, best.plan.microbatch) == (8, 2)
    assert [round(memory.device.value) for memory in best.memory] == [61_340 * MIB]
    assert "data 8, microbatch 2" in done.sentence


def test_profile_counts_the_parameters_of_the_model_that_is_described(desk: Desk) -> None:
    from planproof.model import parameters

    case = desk.review("infeasible-memory/proposal.yaml").case
    assert case.model is not None
    assert case.profile is not None
    of_one = {row.first: row.parameters for row in case.profile.rows if row.mesh.tensor == 1}
    assert sum(count for count in of_one.values() if count) == parameters(case.model)


def test_last_stage_is_the_peak_of_the_large_vocabulary(desk: Desk) -> None:
    done = desk.review("large-vocabulary/proposal.yaml")
    body = review_json(done)
    submitted = next(one for one in body["candidates"] if "submitted" in one["roles"])
    assert submitted["peak"]["stage"] == len(submitted["memory"]) - 1 == 1
    rows = {row["name"]: row["bytes"] for row in submitted["memory"][-1]["rows"]}
    assert rows["logits and loss"] > rows["in-flight activations"]
    moved = candidate(done, "fewer-last")
    assert max(m.device.value for m in moved.memory) < max(m.device.value for m in candidate(done, "submitted").memory)
    best = next(one for one in body["candidates"] if one["id"] == body["recommended"])
    assert best["peak"]["stage"] == 0 < len(best["memory"]) - 1
    record = render_record(done)
    assert "logits and loss" in record
    assert "on the last stage" in record


def test_measured_example_rests_on_measurements_alone(desk: Desk) -> None:
    from planproof.decision.decide import deciders_of

    done = desk.review("measured/proposal.yaml")
    best = done.candidate(done.recommended)
    assert best is not None
    assert best.step is not None
    deciders = deciders_of(best)
    assert {one.name for one in deciders} >= {"latency of stage 0", "measured memory of stage 0", "device memory"}
    assert {one.quantity.grade.value for one in deciders} == {"measured"}
    assert best.step.grade.value == "measured"
    assert done.conditions == ()
    assert done.counter_signals
    assert {signal.state for signal in done.counter_signals} == {"closed"}
    for name in ("profile.csv", "allreduce.txt"):
        assert "written for this example" in (EXAMPLES / "measured" / name).read_text(encoding="utf-8").splitlines()[0]


def test_measured_memory_is_state_workspace_and_what_is_in_flight(desk: Desk) -> None:
    done = desk.review("measured/proposal.yaml")
    state, workspace, activation = 36_460, 1_850, 9_560
    assert [m.device.value for m in candidate(done, "submitted").memory] == [(state + workspace + activation) * MIB]
    first, last = 18_930 + 410 + 2 * 4_770, 18_960 + 1_790 + 4_840
    pipelined = candidate(done, "pipelined")
    assert [m.device.value for m in pipelined.memory] == [first * MIB, last * MIB]
    assert [sum(row.bytes for row in m.rows) for m in pipelined.memory] == [first * MIB, last * MIB]


@pytest.mark.parametrize(
    ("pattern", "instead", "verdict", "refused_of"),
    [
        (r"contention: \{.*\}\n", "contention: {shared_with: others, share: 2 %, changing: true}\n", "CONDITIONAL", None),
        (r"policy: .*\n", "", "SUPPORTED", None),
        (r"planning_cost: .*\n", "", "CONDITIONAL", None),
        (r"    grade: measured\n", "    grade: vendor\n", "REFUSED", "evidence"),
        (r"  contention: .*\n", "", "REFUSED", "evidence"),
    ],
    ids=["contention changes", "no policy", "planning cost unknown", "links of a vendor", "silent on contention"],
)
def test_measured_example_falls_where_a_piece_is_taken_away(
    desk: Desk, tmp_path: Path, pattern: str, instead: str, verdict: str, refused_of: str | None
) -> None:
    for path in (EXAMPLES / "measured").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    text = (EXAMPLES / "measured/proposal.yaml").read_text(encoding="utf-8")
    changed, count = re.subn(pattern, instead, text, count=1)
    assert count == 1
    (tmp_path / "proposal.yaml").write_text(changed, encoding="utf-8")
    done = review_loaded(load_proposal(tmp_path / "proposal.yaml"), desk.opened)
    assert (done.verdict.value, done.refused_of) == (verdict, refused_of), done.because


def published(name: str) -> dict[str, float]:
    """Published step times of gpt3-175b-a100 by plan, from the claims."""
    claims = load_proposal(EXAMPLES / "gpt3-175b-a100" / name).stated.claims or []
    plans = {"proposal.yaml": ("full-recompute", "selective"), "proposal-1024.yaml": ("script",)}[name]
    values = [claim.value for claim in claims if claim.metric == "step_time"]
    return {plan: value for plan, value in zip(plans, values, strict=True) if value is not None}


@pytest.mark.parametrize("name", ["proposal.yaml", "proposal-1024.yaml"])
def test_published_step_times_lie_in_the_estimates_intervals_and_the_page_quotes_both(desk: Desk, name: str) -> None:
    loaded = load_proposal(EXAMPLES / "gpt3-175b-a100" / name)
    priced, refused = price_plans(loaded, desk.opened)
    assert refused == []
    page = (EXAMPLES / "gpt3-175b-a100/README.md").read_text(encoding="utf-8")
    found_by_name = dict(priced)
    for plan, seconds in published(name).items():
        found = found_by_name[plan].step_estimate
        devices = sum(stage.mesh.devices for stage in found_by_name[plan].plan.stages)
        assert found.low <= seconds <= found.high
        error = 100 * (found.value / seconds - 1)
        row = (
            f"| `{name}`, {plan} | {devices:,} | {seconds:g} s | {found.value:.2f} s ({error:+.1f} %) "
            f"| {found.low:.2f} to {found.high:.2f} s |"
        )
        assert row in page, f"the page must say: {row}"


@pytest.mark.long
def test_review_of_1024_devices_is_conditional(desk: Desk) -> None:
    done = desk.review("gpt3-175b-a100/proposal-1024.yaml")
    assert (done.verdict.value, done.refused_of) == ("CONDITIONAL", None)


def test_checked_in_record_is_what_a_review_writes(desk: Desk) -> None:
    record = EXAMPLES / "llama3-70b-h100/record.md"
    assert render_record(desk.review("llama3-70b-h100/proposal.yaml")) == record.read_text(encoding="utf-8"), (
        "write it again: planproof review examples/llama3-70b-h100/proposal.yaml --as-of 2026-12-01 "
        "-o examples/llama3-70b-h100/record.md"
    )
