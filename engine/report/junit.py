"""Lint reports as JUnit XML: a suite a file, a case a finding, one passing case where a file has none.

There is no standard; this is the common subset of Jenkins' and GitLab's readers: `testsuites`, `testsuite`, `testcase` with
`failure`, `error`, `skipped` and `system-out`. A finding that makes the run fail is a failure, any other that stands passes
and says what it found, a suppressed one is skipped with its reason. A file that could not be judged is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict
from xml.etree import ElementTree as Xml

from .escape import terminal, visible
from .formats import Checked, Mark, Unjudged


class Case(TypedDict):
    """One case: `outcome` is the name of the element that it holds, `said` its attributes, `body` its text."""

    name: str
    line: int
    outcome: str | None
    said: dict[str, str]
    body: str


class Suite(TypedDict):
    """The cases of one file."""

    name: str
    cases: list[Case]


def part(checked: Checked) -> Suite:
    """The suite of one file."""
    cases: list[Case] = []
    for mark in checked.marks():
        finding = mark.finding
        name = f"{finding.rule_id} {visible(finding.title)} at {visible(finding.path) or '/'}"
        said, outcome = _outcome(checked, mark)
        where = f"{mark.file}:{mark.line}:{mark.column}"
        remedy = f"\nremedy: {visible(finding.remedy)}" if finding.remedy else ""
        body = f"{visible(where)}: {finding.severity.value} {finding.rule_id} {visible(finding.message)}{remedy}"
        cases.append({"name": name, "line": mark.line, "outcome": outcome, "said": said, "body": body})
    passed: Case = {"name": "no findings", "line": 1, "outcome": None, "said": {}, "body": ""}
    return {"name": visible(checked.name), "cases": cases or [passed]}


def _outcome(checked: Checked, mark: Mark) -> tuple[dict[str, str], str]:
    finding = mark.finding
    by = finding.suppressed
    if by is not None:
        return {"message": visible(f"suppressed: {by.reason} ({by.owner})")}, "skipped"
    if checked.fails(mark):
        return {"type": finding.severity.value, "message": visible(finding.message)}, "failure"
    return {}, "system-out"


def whole(parts: Sequence[Suite], unjudged: Sequence[Unjudged]) -> str:
    """The document."""
    broken: list[Suite] = [
        {
            "name": visible(one.name),
            "cases": [
                {
                    "name": "can be judged",
                    "line": one.line,
                    "outcome": "error",
                    "said": {"type": one.error.code, "message": visible(one.error.message)},
                    "body": terminal(str(one.error)),
                }
            ],
        }
        for one in unjudged
    ]
    root = Xml.Element("testsuites", name="planproof")
    totals = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for suite in [*parts, *broken]:
        outcomes = [case["outcome"] for case in suite["cases"]]
        numbers = {
            "tests": len(outcomes),
            "failures": outcomes.count("failure"),
            "errors": outcomes.count("error"),
            "skipped": outcomes.count("skipped"),
        }
        totals = {key: totals[key] + number for key, number in numbers.items()}
        node = Xml.SubElement(root, "testsuite", {"name": suite["name"], **_text(numbers)})
        for case in suite["cases"]:
            _case(node, suite["name"], case)
    root.attrib.update(_text(totals))
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _text(numbers: dict[str, int]) -> dict[str, str]:
    return {key: str(number) for key, number in numbers.items()}


def _case(suite: Xml.Element, file: str, case: Case) -> None:
    node = Xml.SubElement(
        suite, "testcase", {"classname": file, "name": case["name"], "file": file, "line": str(case["line"])}
    )
    if case["outcome"] is not None:
        Xml.SubElement(node, case["outcome"], case["said"]).text = case["body"]
