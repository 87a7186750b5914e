"""Lint reports as SARIF 2.1.0, with what GitHub's code scanning reads of it.

Source of the form: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0", 2020; of the subset:
GitHub, "SARIF support for code scanning". Paths are relative to the repository, so no folder of a machine is in it. A file
that could not be judged is a result, so that a reviewer sees it on its line, and a notification of the invocation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from ..inference import Rule, Severity
from ..inference.rule import Form
from .escape import markdown, visible
from .formats import NOT_JUDGED, Checked, Mark, Unjudged
from .review_json import json_text
from .rule_words import clause_words, form_words, param_words, source_words

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
#: The name that consumers give to the root of the checkout.
ROOT = "%SRCROOT%"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
#: GitHub's words for the same.
_PROBLEMS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "recommendation"}


def part(checked: Checked) -> dict[str, Any]:
    """The results of one file, and descriptors of the rules that they are of."""
    marks = checked.marks()
    return {
        "rules": {rule_id: _descriptor(rule) for rule_id, rule in checked.report.rules.items()},
        "results": [_result(mark, mark.file) for mark in marks],
    }


def whole(parts: Sequence[dict[str, Any]], unjudged: Sequence[Unjudged]) -> str:
    """One run with all results. `ruleIndex` is set here, where all rules are known."""
    from importlib.metadata import version

    release = version("planproof")
    rules: dict[str, dict[str, Any]] = {}
    for one in parts:
        rules |= one["rules"]
    results = [result for one in parts for result in one["results"]]
    if unjudged:
        rules[NOT_JUDGED] = _not_judged_descriptor()
        results += [_not_judged(one) for one in unjudged]
    ordered = sorted(rules)
    index = {rule_id: k for k, rule_id in enumerate(ordered)}
    body = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "planproof",
                        "version": release,
                        "semanticVersion": release,
                        "rules": [rules[rule_id] for rule_id in ordered],
                    }
                },
                "automationDetails": {"id": "planproof/"},
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {ROOT: {"description": {"text": "The root of the repository."}}},
                "invocations": [
                    {
                        "executionSuccessful": not unjudged,
                        "toolExecutionNotifications": [_notification(one) for one in unjudged],
                    }
                ],
                "results": [
                    {**result, "ruleIndex": index[result["ruleId"]]} if result["ruleId"] in index else result
                    for result in results
                ],
            }
        ],
    }
    return json_text(body)


def artifact(name: str) -> dict[str, str]:
    """A file as SARIF names it: a URI reference from the root of the repository, or a whole URI outside of it."""
    path = name.encode("utf-8", "surrogateescape")
    if name.startswith("/"):
        return {"uri": "file://" + quote(path)}
    # A colon in the first part of a relative reference would read as a scheme: `quote` escapes it everywhere.
    return {"uri": quote(path, safe="/"), "uriBaseId": ROOT}


def _message(text: str) -> str:
    """`text` without an embedded link (`[words](target)`), which only a proposal's own text could hold."""
    return text.replace("](", "] (")


def _result(mark: Mark, name: str) -> dict[str, Any]:
    finding = mark.finding
    remedy = f" {visible(finding.remedy)}" if finding.remedy else ""
    by = finding.suppressed
    suppressions = []
    if by is not None:
        until = f", until {by.until.isoformat()}" if by.until else ""
        suppressions = [
            {
                "kind": "external" if by.line is None else "inSource",
                "status": "accepted",
                "justification": _message(visible(f"{by.reason} ({by.owner}{until})")),
            }
        ]
    return {
        "ruleId": finding.rule_id,
        "level": _LEVELS[finding.severity],
        "message": {"text": _message(visible(finding.message) + remedy)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": artifact(name),
                    "region": {
                        "startLine": mark.line,
                        "startColumn": mark.column,
                        "endLine": mark.line,
                        "endColumn": mark.end_column,
                        "snippet": {"text": visible(mark.source)},
                    },
                },
                "logicalLocations": [{"fullyQualifiedName": visible(finding.path) or "/", "kind": "value"}],
            }
        ],
        # The first is the one that GitHub looks at; both are ours, and survive moved lines.
        "partialFingerprints": {
            "primaryLocationLineHash": f"{mark.fingerprint[:16]}:1",
            "planproofFinding/v1": mark.fingerprint,
        },
        "suppressions": suppressions,
        **({"baselineState": "unchanged"} if mark.known else {}),
        "properties": {"phase": finding.phase.value},
    }


def _descriptor(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "name": _camel(rule.file.rpartition("/")[2].rpartition(".")[0] or rule.id),
        "shortDescription": {"text": visible(rule.title)},
        "fullDescription": {"text": _words(rule.message)},
        "help": {"text": _help(rule), "markdown": _help_markdown(rule)},
        "defaultConfiguration": {"level": _LEVELS[rule.declared], "enabled": True},
        "properties": {
            "tags": [rule.phase.value, *(["counter-signal"] if rule.counter else [])],
            "precision": "very-high" if rule.declared is Severity.ERROR else "high",
            "problem.severity": _PROBLEMS[rule.declared],
        },
    }


def _words(form: Form) -> str:
    return visible(form_words(form))


def _help(rule: Rule) -> str:
    lines = [_words(rule.message), "", f"What to do: {_words(rule.remedy)}", ""]
    lines += [f"Why: {visible(source_words(source))}" for source in rule.source]
    return "\n".join([*lines, "", f"planproof explain {rule.id}"])


def _help_markdown(rule: Rule) -> str:
    lines = [f"# {rule.id}: {markdown(rule.title)}", "", f"> {markdown(form_words(rule.message))}", ""]
    lines += [f"**What to do:** {markdown(form_words(rule.remedy))}", "", "**Fires where**", ""]
    lines += [f"- {markdown(clause_words(clause, rule))}" for clause in rule.clauses()]
    if rule.params:
        lines += ["", "**Parameters:** " + "; ".join(markdown(param_words(one)) for one in rule.params.values())]
    lines += ["", "**Why**", "", *(f"- {markdown(source_words(source))}" for source in rule.source)]
    return "\n".join([*lines, "", f"`planproof explain {rule.id}` says more."])


def _camel(slug: str) -> str:
    return "".join(word.capitalize() for word in slug.replace("_", "-").split("-"))


def _not_judged_descriptor() -> dict[str, Any]:
    text = "The file cannot be read as a proposal, so nothing in it was judged."
    return {
        "id": NOT_JUDGED,
        "name": "NotJudged",
        "shortDescription": {"text": "A file could not be judged"},
        "fullDescription": {"text": text},
        "help": {"text": f"{text} Mend what the message names.", "markdown": f"{text} Mend what the message names."},
        "defaultConfiguration": {"level": "error", "enabled": True},
        "properties": {"tags": ["input"], "precision": "very-high", "problem.severity": "error"},
    }


def _not_judged(one: Unjudged) -> dict[str, Any]:
    return {
        "ruleId": NOT_JUDGED,
        "level": "error",
        "message": {"text": _message(visible(one.words))},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": artifact(one.name),
                    "region": {
                        "startLine": one.line,
                        "startColumn": one.column,
                        "endLine": one.line,
                        "endColumn": one.column + 1,
                    },
                }
            }
        ],
        "partialFingerprints": {"planproofFinding/v1": one.fingerprint, "primaryLocationLineHash": f"{one.fingerprint[:16]}:1"},
        "suppressions": [],
        "properties": {"code": one.error.code},
    }


def _notification(one: Unjudged) -> dict[str, Any]:
    return {
        "descriptor": {"id": one.error.code},
        "level": "error",
        "message": {"text": _message(visible(one.words))},
        "locations": [{"physicalLocation": {"artifactLocation": artifact(one.name), "region": {"startLine": one.line}}}],
    }
