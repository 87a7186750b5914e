"""The JSON of a review has the contract's keys, finite numbers, and nothing of the machine."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from planproof.decision.review import Review
from planproof.errors import InternalFault
from planproof.inference import Severity, Suppression
from planproof.report.review_json import json_text, review_json
from report_cases import bare, dense

KEYS = [
    "schema", "proposal", "verdict", "refused_of", "findings", "recommended", "fallback", "candidates",
    "missing_evidence", "counter_signals", "invariants", "evidence", "claims", "rejected", "not_examined",
    "search_space", "sensitivity", "clearing", "amortisation", "verification", "authority", "suppressed", "overrides", "digests",
    "produced_with",
]  # fmt: skip
FINDING = ["rule", "severity", "phase", "message", "remedy", "path", "line", "column", "pointer", "facts"]
CANDIDATE = {
    "id", "roles", "plan", "simplicity", "step_time_s", "time_ledger", "memory", "peak", "feasible",
    "binding_constraint",
}  # fmt: skip
LEDGER = {
    "first_microbatch_s", "bottleneck_s", "microbatches", "transfer_intra_s", "transfer_inter_s", "exposed_s",
    "bubble_s", "optimizer_s",
}  # fmt: skip


def parsed(review: Review) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(json_text(review_json(review)))
    return body


@pytest.mark.parametrize("case", [dense, bare])
def test_the_keys_are_those_of_the_contract_in_their_order(case: Any) -> None:
    body = parsed(case())
    assert sorted(body) == sorted(KEYS)
    assert body["schema"] == 1
    assert set(body["proposal"]) == {"name", "path", "sha256"}
    assert body["findings"]
    assert all(list(finding) == FINDING for finding in body["findings"])
    assert all(set(one) >= CANDIDATE for one in body["candidates"])


def test_a_priced_candidate_has_intervals_and_ledgers_that_add_up() -> None:
    body = parsed(dense())
    best = next(one for one in body["candidates"] if one["id"] == body["recommended"])
    assert "recommended" in best["roles"]
    step, ledger = best["step_time_s"], best["time_ledger"]
    assert set(step) == {"value", "low", "high", "grade"}
    assert step["low"] <= step["value"] <= step["high"]
    assert set(ledger) == LEDGER
    whole = ledger["first_microbatch_s"] + (ledger["microbatches"] - 1) * ledger["bottleneck_s"]
    assert whole + ledger["exposed_s"] + ledger["optimizer_s"] == pytest.approx(step["value"])
    for stage in best["memory"]:
        assert set(stage) >= {"stage", "rank_class", "rows", "allocated_bytes", "reserved_bytes", "device_bytes"}
        assert all(set(row) == {"name", "bytes", "formula", "note", "modelled"} for row in stage["rows"])
        assert sum(row["bytes"] for row in stage["rows"]) == pytest.approx(stage["device_bytes"]["value"], abs=4)
        for name in ("allocated_bytes", "reserved_bytes", "device_bytes"):
            assert stage[name]["low"] <= stage[name]["value"] <= stage[name]["high"]
    assert set(best["peak"]) == {"stage", "rank", "device_bytes", "capacity_bytes"}
    assert best["feasible"] in ("yes", "at_risk", "no")


def test_the_peak_of_a_pipelined_plan_is_the_stage_with_the_least_left() -> None:
    body = parsed(dense())
    uneven = next(one for one in body["candidates"] if one["plan"]["name"] == "uneven")
    fullest = max(uneven["memory"], key=lambda stage: stage["device_bytes"]["value"])
    assert uneven["peak"]["stage"] == fullest["stage"]
    assert uneven["peak"]["rank"] == 8 * fullest["stage"]


def test_what_was_not_priced_is_null_and_why_is_said() -> None:
    body = parsed(bare())
    assert (body["verdict"], body["refused_of"]) == ("REFUSED", "evidence")
    assert body["recommended"] is body["fallback"] is body["search_space"] is body["amortisation"] is None
    assert all(one["step_time_s"] is one["time_ledger"] is one["peak"] is None for one in body["candidates"])
    closed = {one["capability"]: one for one in body["not_examined"] if one["capability"]}
    assert {"time", "search", "ranking"} <= set(closed)
    rules = {finding["rule"] for finding in body["findings"]}
    assert {link["rule"] for one in closed.values() for link in one["chain"]} <= rules
    assert {one["phase"] for one in body["not_examined"]} >= {"network", "outcome"}
    assert all(need["how"] for need in body["missing_evidence"])


def test_a_finding_has_its_place_and_the_facts_that_it_is_about() -> None:
    review = bare()
    moved = replace(review.findings[0], path="/plans/0")
    body = parsed(replace(review, findings=(*review.findings, moved)))
    lines = review.case.loaded.document.text.split("\n")
    placed = body["findings"][-1]
    assert placed["path"] == "bare.yaml"
    assert lines[placed["line"] - 1][placed["column"] - 1] == "{"
    assert placed["facts"]
    assert all(set(fact) == {"as", "kind", "pointer", "values"} for fact in placed["facts"])


def test_claims_stand_with_what_was_found_about_them() -> None:
    claim = parsed(dense())["claims"][0]
    assert (claim["text"], claim["metric"], claim["value"], claim["source"]) == ("41 % MFU", "mfu", 0.41, None)
    at_claim = {one.rule_id for one in dense().findings if one.path.startswith("/claims/0")}
    assert at_claim
    assert set(claim["findings"]) == at_claim
    assert (claim["unit"], claim["plan"], claim["recipe"]) == (None, None, None)


def test_a_claim_of_agreement_stands_with_its_plan_and_recipe() -> None:
    from planproof.report.record import render_record
    from report_cases import BARE, reviewed

    stated = '- {text: equal losses, metric: loss_agreement, value: 0.001, plan: NAME, recipe: {seed: 7, tolerance: 0.01}}'
    done = reviewed(f"{BARE}claims:\n  {stated}\n", "bare.yaml")
    claim = parsed(done)["claims"][0]
    assert (claim["metric"], claim["plan"]) == ("loss_agreement", "NAME")
    assert {name: value for name, value in claim["recipe"].items() if value is not None} == {"seed": 7, "tolerance": 0.01}
    line = next(one for one in render_record(done).split("\n") if "loss_agreement" in one and one.startswith("- 'equal"))
    assert "of plan 'NAME'" in line
    assert "seed 7, tolerance 0.01" in line


def test_defaults_stand_among_the_evidence_as_assumed() -> None:
    assumed = {one.item: one.value for one in dense().assumed}
    rows = {one["item"]: one for one in parsed(dense())["evidence"]}
    assert assumed
    assert all(rows[item]["grade"] == "assumed" and rows[item]["value"] == assumed[item] for item in assumed)


def test_a_suppressed_finding_is_apart_with_who_and_why() -> None:
    review = dense()
    by = Suppression(review.findings[0].rule_id, "known", "ops", date(2027, 1, 31))
    silenced = replace(review.findings[0], suppressed=by, severity=Severity.WARNING)
    body = parsed(replace(review, findings=(silenced, *review.findings[1:])))
    assert len(body["findings"]) == len(review.findings) - 1
    assert body["suppressed"][0]["rule"] == silenced.rule_id
    assert body["suppressed"][0]["suppressed"] == {
        "reason": "known", "owner": "ops", "until": "2027-01-31", "by": "configuration",
    }  # fmt: skip


def test_no_absolute_path_enters() -> None:
    review = dense()
    text = json_text(review_json(review))
    assert str(review.case.loaded.root) not in text
    assert '"path": "proposals/dense.yaml"' in text


def test_a_number_that_is_none_is_a_fault_and_never_printed() -> None:
    with pytest.raises(InternalFault, match="finite"):
        json_text({"a": float("nan")})
    with pytest.raises(InternalFault, match="finite"):
        json_text({"a": [float("inf")]})


def test_the_text_ends_with_a_line_end_and_can_always_be_encoded() -> None:
    text = json_text({"a": "é\ud800"})
    assert text.endswith("}\n")
    assert json.loads(text.encode("utf-8")) == {"a": "é\ud800"}
