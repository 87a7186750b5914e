"""Lint reports as JSON: one object a file, and the files that could not be judged beside them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import PlanproofError
from .lint_report import SEVERITIES, Report
from .review_json import finding_json, suppression_json

SCHEMA = 1


def report_json(report: Report) -> dict[str, Any]:
    """One file's report."""
    rows = [
        (finding, finding_json(finding, report.loaded, report.path)) for finding in report.findings
    ]
    room = report.headroom
    return {
        "path": report.path,
        "sha256": report.loaded.document.sha256,
        "passes": report.passes,
        "summary": {severity.value: report.number(severity) for severity in SEVERITIES},
        "headroom": None
        if room is None
        else {
            "plan": room.plan,
            "stage": room.stage,
            "rank_class": room.rank_class,
            "bytes": room.bytes,
            "capacity_bytes": room.capacity_bytes,
            "basis": room.basis,
        },
        "findings": [body for finding, body in rows if finding.suppressed is None],
        "suppressed": [
            body | {"suppressed": suppression_json(finding)} for finding, body in rows if finding.suppressed is not None
        ],
        "skipped": [phase.value for phase in report.skipped],
    }


def error_json(path: str, error: PlanproofError) -> dict[str, Any]:
    """Why a file could not be judged."""
    place = error.place
    return {
        "path": place.file or path,
        "code": error.code,
        "message": error.message,
        "line": place.line,
        "column": place.column,
        "remedy": error.remedy,
    }


def lint_json(reports: Iterable[Report], broken: Iterable[tuple[str, PlanproofError]] = ()) -> dict[str, Any]:
    """All reports, and all files that could not be judged with their errors."""
    return {
        "schema": SCHEMA,
        "reports": [report.to_json() for report in reports],
        "errors": [error_json(path, error) for path, error in broken],
    }
