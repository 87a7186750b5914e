"""`estimate` shows one plan's ledgers, and two side by side first."""

from __future__ import annotations

import json

from planproof.cost import Priced
from planproof.report.estimate import estimate_json, estimate_text
from planproof.report.review_json import json_text
from report_cases import dense


def priced() -> list[tuple[str, Priced]]:
    return [(one.plan.name, one.priced) for one in dense().candidates if one.path and one.priced is not None]


def test_one_plan_has_its_time_and_memory_with_intervals() -> None:
    name, plan = priced()[1]
    text = estimate_text([(name, plan)])
    step = plan.step_estimate
    assert f"{step.value:.3f}".rstrip("0") in text
    assert "first microbatch" in text
    assert "in-flight activations" in text
    assert "rests on " in text
    assert "stage 0" in text
    assert "stage 3" in text


def test_two_plans_stand_side_by_side_term_by_term() -> None:
    plans = priced()
    lines = estimate_text(plans).split("\n")
    assert lines[0].split() == ["reference", "uneven"]
    terms = next(line for line in lines if line.startswith("term, s"))
    assert terms.split()[2:] == ["reference", "uneven"]
    steps = [line for line in lines if line.startswith("step  ")]
    assert f"{plans[0][1].step.seconds:.3f}" in steps[0]
    assert f"{plans[1][1].step.seconds:.3f}" in steps[0]


def test_a_hostile_name_stays_on_its_line() -> None:
    text = estimate_text([("x\x1b[2J\ny\u202e", priced()[0][1])])
    assert all(line.isprintable() for line in text.split("\n"))


def test_json_is_that_of_candidates() -> None:
    plans = priced()
    body = json.loads(json_text(estimate_json(plans)))
    assert [one["name"] for one in body["plans"]] == ["reference", "uneven"]
    first = body["plans"][0]
    assert first["step_time_s"]["value"] == plans[0][1].step_estimate.value
    assert set(first) >= {"plan", "time_ledger", "memory", "peak", "feasible", "binding_constraint", "terms_s", "mfu"}
    assert sum(first["terms_s"].values()) == plans[0][1].step.seconds or abs(
        sum(first["terms_s"].values()) / plans[0][1].step.seconds - 1
    ) < 1e-9
