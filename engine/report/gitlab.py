"""Lint reports as GitLab's code quality report: a list of findings, each with a fingerprint of its own.

Source of the form: GitLab, "Code Quality: Import code quality results from a CI/CD job". It has no place for suppressed
findings, so those that stand are in it and no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..inference import Severity
from .escape import visible
from .formats import NOT_JUDGED, Checked, Unjudged
from .review_json import json_text

_SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.NOTE: "info"}


def part(checked: Checked) -> list[dict[str, Any]]:
    """The standing findings of one file."""
    return [
        {
            "description": f"{mark.finding.rule_id}: {visible(mark.finding.message)}",
            "check_name": mark.finding.rule_id,
            "fingerprint": mark.fingerprint,
            "severity": _SEVERITIES[mark.finding.severity],
            "location": {"path": mark.file, "lines": {"begin": mark.line}},
        }
        for mark in checked.marks()
        if mark.finding.suppressed is None
    ]


def whole(parts: Sequence[list[dict[str, Any]]], unjudged: Sequence[Unjudged]) -> str:
    """All of them; a file that could not be judged is a blocker."""
    broken = [
        {
            "description": visible(one.words),
            "check_name": NOT_JUDGED,
            "fingerprint": one.fingerprint,
            "severity": "blocker",
            "location": {"path": one.name, "lines": {"begin": one.line}},
        }
        for one in unjudged
    ]
    return json_text([*(row for rows in parts for row in rows), *broken])
