"""What a hostile proposal attempts, and what the tool says: no traceback, no hang, no wrong status, nothing harmful shown."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hostile_cases import BASE, CASES, TEXTS, Case
from planproof.errors import PlanproofError
from planproof.pipeline import Submitted, lint_each
from planproof.report.formats import Checked, writer
from planproof.report.lint_report import Report

FORMATS = ("text", "concise", "json", "sarif", "github", "gitlab", "junit", "rdjson", "markdown")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report | PlanproofError]:
    """Every case judged once, by one session, as one folder would be: no case spoils the next."""
    folder = tmp_path_factory.mktemp("repository")
    (folder / "planproof.toml").write_text("")
    (folder / "sub").mkdir()
    path = str(folder / "proposal.yaml")
    judged = lint_each(Submitted(path, case.raw) for case in (*CASES, Case("after", "", BASE.encode(), 0, "")))
    names = [*(case.name for case in CASES), "after"]
    return {name: result for name, (_, result) in zip(names, judged, strict=True)}


def test_there_are_a_hundred_and_each_has_its_own_name() -> None:
    assert len(CASES) >= 100
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_attempted_is_answered(case: Case, results: dict[str, Report | PlanproofError]) -> None:
    result = results[case.name]
    if isinstance(result, PlanproofError):
        assert case.status == 2, str(result)
        assert case.said in result.message
        assert result.remedy, "an error has a remedy"
        assert result.place.file
        assert result.code.startswith(("input", "reference", "data"))
        assert len(result.message) < 1500
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]|Traceback", str(result))
        return
    errors = [finding.rule_id for finding in result.findings if finding.severity.value == "error"]
    assert case.status == (1 if errors else 0), errors
    assert not case.said or case.said in {finding.rule_id for finding in result.findings}


def test_after_all_of_them_an_honest_proposal_is_judged_as_before(results: dict[str, Report | PlanproofError]) -> None:
    result = results["after"]
    assert isinstance(result, Report)
    assert not [finding for finding in result.findings if finding.severity.value == "error"]


# What is shown: the name of a plan stands in every message about it.

SHOWN = {name: text for name, text in TEXTS.items() if name not in ("escape", "bell", "long")}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """By case and format: the report on a plan of that name, refused, so that its name stands in messages."""
    path = str(tmp_path_factory.mktemp("plain") / "proposal.yaml")

    def submitted() -> list[Submitted]:
        quoted = [text[:100].replace('"', '\\"') for text in SHOWN.values()]
        plans = [BASE.replace("name: submitted", f'name: "{name}"').replace("tensor: 2}", "tensor: 3}") for name in quoted]
        return [Submitted(path, text.encode()) for text in plans]

    found: dict[str, dict[str, str]] = {}
    for name, (where, result) in zip(SHOWN, lint_each(submitted()), strict=True):
        assert isinstance(result, Report), str(result)
        checked = Checked(result, Path(where).name)
        found[name] = {kind: one.whole([one.part(checked)], ()) for kind in FORMATS for one in [writer(kind)]}
    return found


@pytest.mark.parametrize("name", SHOWN)
def test_no_format_shows_what_a_terminal_a_browser_or_a_runner_obeys(name: str, shown: dict[str, dict[str, str]]) -> None:
    outputs = shown[name]
    for kind, text in outputs.items():
        assert "SHP" in text, f"{kind} shows the findings"
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text), kind
        # JSON keeps a text as it is, for programs; what people read has no character that turns its direction.
        data = kind in ("json", "sarif", "gitlab", "rdjson")
        assert data or not re.search(r"[\u202a-\u202e\u2066-\u2069]", text), kind
    for kind in ("json", "sarif", "gitlab", "rdjson"):
        json.loads(outputs[kind])
    assert {element.tag for element in ET.fromstring(outputs["junit"]).iter()} <= {
        "testsuites", "testsuite", "testcase", "failure", "error", "skipped", "properties", "property", "system-out",
    }  # fmt: skip
    for line in outputs["github"].splitlines():
        command = re.match(r"\s*(?:::|##\[)([\w-]+)", line)
        assert command is None or command[1] in ("error", "warning", "notice"), line
    markdown = outputs["markdown"]
    assert not re.search(r"<(?!/?(?:details|summary|br|sub|a)\b)[a-z!]", markdown, re.IGNORECASE)
    assert not re.search(r"(?<!\\)\]\((?:javascript|https?):", markdown)
