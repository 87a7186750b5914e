"""What a configuration and suppressions do to a verdict and a report: nothing is lost, and nothing gets better by silence."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from config_cases import committed, git, repository, written
from planproof.config import ISOLATED
from planproof.decision.review import Review, Verdict
from planproof.errors import InputError, UsageError
from planproof.inference import Severity
from planproof.pipeline import Options, lint, lint_each, review
from planproof.report.lint_report import Report
from planproof.report.record import render_record
from planproof.report.review_json import json_text, review_json
from planproof.report.text import text

AS_OF = date(2026, 12, 1)
ROOT = Path(__file__).resolve().parents[2]
SMALL = (ROOT / "rules" / "bases" / "small.yaml").read_text()
EXAMPLE = ROOT / "examples" / "measured"
#: The rule that the contradiction below breaks, an error that closes the search.
CLASH = "INT002"
CONTRADICTED = SMALL.replace("  contention: none\n", "  contention: none\n  devices: {count: 64}\n")


@pytest.fixture(autouse=True)
def _no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference evaluator alone: what is promised here does not depend on the other."""
    monkeypatch.setattr("planproof.inference.durable.available", lambda: False)


def judged(root: Path, files: dict[str, str], **options: Any) -> Report:
    repository(root, files)
    (report,) = lint([root / "p.yaml"], Options(**{"as_of": AS_OF} | options))
    return report


def reviewed(root: Path, files: dict[str, str], **options: Any) -> Review:
    repository(root, files)
    return review(root / "p.yaml", Options(**{"as_of": AS_OF, "work_limit": 40} | options))


def rules(report: Report | Review, *, suppressed: bool = False) -> list[str]:
    return [one.rule_id for one in report.findings if (one.suppressed is not None) is suppressed]


def ignore(rule: str, until: str = "2027-01-31") -> str:
    return f'# planproof: ignore {rule} reason="known" owner=ops until={until}'


def measured(config: str, root: Path, change: str = "") -> Review:
    """The shipped example that is SUPPORTED, under a configuration."""
    files = {path.name: path.read_text() for path in EXAMPLE.iterdir() if path.name != "proposal.yaml"}
    proposal = (EXAMPLE / "proposal.yaml").read_text()
    return reviewed(root, {"p.yaml": proposal + change, "planproof.toml": config, **files})


def test_an_ignored_error_lets_the_review_go_on_and_leaves_a_condition(tmp_path: Path) -> None:
    refused = reviewed(tmp_path, {"p.yaml": CONTRADICTED})
    assert (refused.verdict, refused.refused_of) == (Verdict.REFUSED, "evidence")
    done = reviewed(tmp_path, {"planproof.toml": f'ignore = ["{CLASH}"]'})
    assert done.verdict is Verdict.CONDITIONAL
    assert any(one.text.startswith(f"{CLASH}, suppressed by configuration") for one in done.conditions)
    assert CLASH in rules(done, suppressed=True)


@pytest.mark.parametrize("silenced", ["ignore = ['INT002']", "severity = {INT002 = 'note'}", "select = ['EVI', 'OUT']"])
def test_an_error_without_force_keeps_a_supported_verdict_from_standing(tmp_path: Path, silenced: str) -> None:
    assert measured("", tmp_path).verdict is Verdict.SUPPORTED
    proposal = (EXAMPLE / "proposal.yaml").read_text()
    clash = proposal.replace("run_length: {", "run_length: {steps: 3, ")
    assert clash != proposal
    files = {path.name: path.read_text() for path in EXAMPLE.iterdir() if path.name != "proposal.yaml"}
    done = reviewed(tmp_path, {"p.yaml": clash, "planproof.toml": silenced, **files})
    assert done.verdict is Verdict.CONDITIONAL
    assert any("INT002" in one.text for one in done.conditions)


HOUSE = """
id: HSE002
title: House policy, searched plans are not run
severity: error
phase: shape
when: {all: [{plan: {kind: plan, role: candidate}}]}
concludes: [{kind: closed, capability: shapes, plan: "= plan.plan"}]
message: "Plan '{plan.plan}' was not proposed by anyone."
remedy: "Propose it."
source: [{report: house policy 3}]
examples: {fires: [{base: small}], silent: [{base: dense}]}
"""


def test_an_error_without_force_is_a_condition_of_the_plan_that_the_search_made(tmp_path: Path) -> None:
    files = {"p.yaml": SMALL, "house/a.yaml": HOUSE, "planproof.toml": "rules = ['house']"}
    held = reviewed(tmp_path, files)
    assert held.space is not None
    assert dict(held.space.fallen).get("HSE002")
    quiet = reviewed(tmp_path, {"planproof.toml": "rules = ['house']\nseverity = {HSE002 = 'warning'}"})
    best = quiet.candidate(quiet.recommended)
    assert best is not None
    assert best.path == ""
    assert any("HSE002" in one.text for one in quiet.conditions)


def test_ignoring_what_concludes_a_condition_does_not_settle_it(tmp_path: Path) -> None:
    plain = reviewed(tmp_path, {"p.yaml": SMALL.replace("paper_only", "run")})
    asked = [one for one in plain.conditions if one.item == "authority"]
    assert asked
    quiet = reviewed(tmp_path, {"planproof.toml": "ignore = ['INT001']"})
    assert [one.item for one in quiet.conditions if one.item == "authority"] == ["authority"]
    assert "INT001" not in rules(quiet)


def test_every_override_and_suppression_is_in_the_record_and_in_json(tmp_path: Path) -> None:
    config = "ignore = ['INT002']\nmandatory = ['MEM003']\n[per-file-ignores]\n'*.yaml' = ['EVI030']\n"
    noted = CONTRADICTED.replace("profile: none", f"{ignore('EVI028')}\nprofile: none")
    done = reviewed(tmp_path, {"p.yaml": noted, "planproof.toml": config})
    body = json.loads(json_text(review_json(done)))
    assert [(one["rule"], one["what"], one["path"], one["line"]) for one in body["overrides"]] == [
        ("MEM003", "mandatory", "planproof.toml", 2),
        ("INT002", "ignore", "planproof.toml", 1),
        ("EVI030", "per-file-ignore", "planproof.toml", 4),
    ]
    by = {one["rule"]: one["suppressed"] for one in body["suppressed"]}
    assert set(by) == {"INT002", "EVI028", "EVI030"}
    assert by["EVI028"] == {"reason": "known", "owner": "ops", "until": "2027-01-31", "by": "comment"}
    assert by["EVI030"]["by"] == "configuration"
    assert body["produced_with"]["suppressions_judged_on"] == "2026-12-01"
    assert "configuration: planproof.toml" in body["digests"]
    record = render_record(done)
    assert "What the configuration changed in the rules:" in record
    assert "| INT002 | ignore | in force | ignored | planproof.toml:1 |" in record
    assert "Suppressed by ops: known, until 2027-01-31." in record
    assert "judged on 2026-12-01, the date of the review." in record
    assert str(tmp_path) not in record


def test_without_a_configuration_nothing_of_it_is_in_the_record(tmp_path: Path) -> None:
    done = reviewed(tmp_path, {"p.yaml": SMALL, "planproof.toml": "# nothing\n"})
    assert (done.overrides, done.judged_on) == ((), None)
    assert "Overrides" not in render_record(done)
    assert not any(name.startswith("configuration") for name in done.digests)


def test_an_error_is_suppressed_in_its_line_and_the_report_counts_it(tmp_path: Path) -> None:
    bare = judged(tmp_path, {"p.yaml": CONTRADICTED})
    place = bare.place(next(one for one in bare.findings if one.rule_id == CLASH))
    lines = CONTRADICTED.splitlines()
    lines[(place.line or 0) - 1] += f"  {ignore(CLASH)}"
    report = judged(tmp_path, {"p.yaml": "\n".join(lines) + "\n"})
    assert report.passes
    assert rules(report, suppressed=True) == [CLASH]
    assert "1 suppressed; suppressions judged on 2026-12-01 (the date of the review)" in text(report)
    assert any(fact.kind == "condition" and fact.get("rule") == CLASH for fact in report.facts)
    assert not any(rule.startswith("INT0") for rule in rules(report))


def test_a_comment_at_the_key_of_a_value_that_begins_below_speaks_of_it(tmp_path: Path) -> None:
    noted = SMALL.replace("cluster:\n", f"cluster:  {ignore('EVI030')}\n")
    report = judged(tmp_path, {"p.yaml": SMALL})
    (place,) = [report.place(one) for one in report.findings if one.rule_id == "EVI030"]
    assert SMALL.splitlines()[(place.line or 0) - 2] == "cluster:"
    assert rules(judged(tmp_path, {"p.yaml": noted}), suppressed=True) == ["EVI030"]


def test_one_that_has_run_out_suppresses_nothing_and_is_a_finding(tmp_path: Path) -> None:
    noted = SMALL.replace("profile: none", f"profile: none  {ignore('EVI028')}")
    report = judged(tmp_path, {"p.yaml": noted})
    assert rules(report, suppressed=True) == ["EVI028"]
    late = judged(tmp_path, {}, as_of=date(2027, 2, 1))
    assert rules(late, suppressed=True) == []
    assert {"EVI028", "INT007"} <= set(rules(late))
    assert late.number(Severity.WARNING) == report.number(Severity.WARNING) + 1


def test_without_a_date_of_the_review_the_day_of_the_run_counts_and_the_report_says_so(tmp_path: Path) -> None:
    noted = SMALL.replace("profile: none", f"profile: none  {ignore('EVI028', '2099-12-31')}")
    report = judged(tmp_path, {"p.yaml": noted}, as_of=None)
    assert report.terms.judged_on == date.today()
    assert "(the day of this run; --as-of sets another)" in text(report)
    assert report.to_json()["suppressions_judged_on"] == date.today().isoformat()
    assert judged(tmp_path, {"p.yaml": SMALL}, as_of=None).to_json()["suppressions_judged_on"] is None


def test_a_suppression_of_a_later_phase_is_unused_only_where_the_phase_ran(tmp_path: Path) -> None:
    noted = SMALL.replace("plans:", f"plans:  {ignore('OUT001')}")
    assert "INT008" not in rules(judged(tmp_path, {"p.yaml": noted}))
    assert "INT008" in rules(reviewed(tmp_path, {}))


def test_a_mandatory_rule_is_not_suppressed_and_the_comment_is_a_finding(tmp_path: Path) -> None:
    noted = SMALL.replace("profile: none", f"profile: none  {ignore('EVI028')}")
    report = judged(tmp_path, {"p.yaml": noted, "planproof.toml": "mandatory = ['EVI028']"})
    assert {"EVI028", "INT010"} <= set(rules(report))
    assert rules(report, suppressed=True) == []


def test_a_malformed_suppression_is_an_error_of_its_file_and_others_are_still_judged(tmp_path: Path) -> None:
    repository(tmp_path, {"a.yaml": SMALL + "# planproof: ignore EVI028\n", "b.yaml": SMALL})
    found = dict(lint_each([str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")], Options(as_of=AS_OF)))
    error, report = found.values()
    assert isinstance(error, InputError)
    assert error.place.line == len(SMALL.splitlines()) + 1
    assert isinstance(report, Report)


def test_each_file_is_judged_under_the_configuration_nearest_to_it(tmp_path: Path) -> None:
    folders = [f"f{k}" for k in range(6)]
    repository(tmp_path, {f"{one}/p.yaml": SMALL for one in folders})
    written(tmp_path, {f"{one}/planproof.toml": f"ignore = ['EVI02{7 + k % 3}']" for k, one in enumerate(folders)})
    paths = [tmp_path / one / "p.yaml" for one in (*folders, *folders)]
    for k, report in enumerate(lint(paths, Options(as_of=AS_OF))):
        assert {"EVI027", "EVI028", "EVI029"} - set(rules(report)) == {f"EVI02{7 + k % 6 % 3}"}
    (plain,) = lint(paths[:1], Options(as_of=AS_OF, settings=ISOLATED))
    assert {"EVI027", "EVI028", "EVI029"} <= set(rules(plain))


def test_the_change_under_review_cannot_write_the_configuration_that_judges_it(tmp_path: Path) -> None:
    strict = "severity = {EVI028 = 'warning'}\nfail-on = 'warning'\n"
    root = committed(tmp_path / "repo", {"p.yaml": SMALL, "planproof.toml": strict})
    git(root, "checkout", "-q", "-b", "change")
    written(root, {"planproof.toml": "ignore = ['EVI028']\nfail-on = 'never'\n"})
    git(root, "commit", "-q", "-a", "-m", "lift it")
    (ours,) = lint([root / "p.yaml"], Options(as_of=AS_OF))
    assert "EVI028" not in rules(ours)
    (theirs,) = lint([root / "p.yaml"], Options(as_of=AS_OF, base="base"))
    assert theirs.terms.fail_on == "warning"
    assert [one.severity for one in theirs.findings if one.rule_id == "EVI028"] == [Severity.WARNING]
    assert [one.place.file for one in theirs.terms.overrides] == ["base:planproof.toml"]


def test_the_rules_and_data_sheets_of_the_change_do_not_count_either(tmp_path: Path) -> None:
    rule = HOUSE.replace("role: candidate", "role: reference")
    base = {"p.yaml": SMALL, "house/a.yaml": rule, "planproof.toml": "rules = ['house']"}
    root = committed(tmp_path / "repo", base | {f"f{k}/planproof.toml": "rules = ['../house']" for k in range(5)})
    written(root, {"house/a.yaml": rule.replace("severity: error", "severity: note")})
    written(root, {f"f{k}/p.yaml": SMALL for k in range(5)})
    paths = [root / "p.yaml", *(root / f"f{k}" / "p.yaml" for k in (0, 1, 2, 3, 4, 0, 1))]
    for report in lint(paths, Options(as_of=AS_OF, base="base")):
        assert [one.severity for one in report.findings if one.rule_id == "HSE002"] == [Severity.ERROR]
    (disk,) = lint(paths[:1], Options(as_of=AS_OF))
    assert [one.severity for one in disk.findings if one.rule_id == "HSE002"] == [Severity.NOTE]


def test_a_wrong_configuration_ends_the_run_with_its_place(tmp_path: Path) -> None:
    repository(tmp_path, {"p.yaml": SMALL, "planproof.toml": "ignore = ['EVI999']"})
    with pytest.raises(UsageError, match="EVI999") as caught:
        list(lint_each([str(tmp_path / "p.yaml")], Options(as_of=AS_OF)))
    assert str(caught.value.place) == "planproof.toml:1:11"


def test_rule_folders_and_data_sheets_of_the_configuration_are_read(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    house = readme[readme.index("id: HSE001") : readme.index("```", readme.index("id: HSE001"))]
    plan = SMALL.replace("uniform: {data: 8}", "uniform: {data: 1, tensor: 8}").replace("microbatch: 4", "microbatch: 1")
    report = judged(
        tmp_path,
        {"p.yaml": plan, "house/a.yaml": house, "planproof.toml": "rules = ['house']\n[params]\nHSE001.most = 7\n"},
    )
    (finding,) = [one for one in report.findings if one.rule_id == "HSE001"]
    assert "allows 7" in finding.message
    assert [(one.rule, one.before, one.after) for one in report.terms.overrides] == [("HSE001", "4", "7")]


def test_a_plan_that_cannot_be_laid_out_has_no_price_where_its_rule_is_silenced(tmp_path: Path) -> None:
    """Silence is no error of the run: the plan is not priced, a condition stands, and the search goes on without it."""
    plan = "{name: submitted, role: submitted, uniform: {data: 16, tensor: 64}, zero: 1, microbatch: 1}"
    text = SMALL[: SMALL.index("plans:")] + f"plans:\n  - {plan}\n" + "planning_cost: {profiling: 64 device-hours}\n"
    silenced = 'ignore = ["SHP001", "SHP008", "SHP009", "SHP011", "SHP014", "MAP001"]\n'
    done = reviewed(tmp_path, {"p.yaml": text, "planproof.toml": silenced}, work_limit=2)
    assert "SHP001" in rules(done, suppressed=True)
    assert done.verdict is not Verdict.SUPPORTED
    (stated,) = [one for one in done.candidates if one.plan.name == "submitted"]
    assert stated.priced is None
