"""Lint reports as JSON: one object a file, and the files that could not be judged beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import PlanproofError
from .lint_report import SEVERITIES, Report
from .review_json import finding_json, json_text, override_json, suppression_json

if TYPE_CHECKING:
    from .formats import Unjudged

SCHEMA = 1


def report_json(report: Report) -> dict[str, Any]:
    """One file's report."""
    rows = [
        (finding, finding_json(finding, report.loaded, report.path) | ({"known": True} if k in report.known else {}))
        for k, finding in enumerate(report.findings)
    ]
    room, terms = report.headroom, report.terms
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
        "suppressions_judged_on": terms.judged_on.isoformat() if terms.judged_on else None,
        "overrides": [override_json(one) for one in terms.overrides],
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
    return _body([report.to_json() for report in reports], broken)


def whole(parts: Sequence[dict[str, Any]], unjudged: Sequence[Unjudged]) -> str:
    """The same as text, from the reports' own JSON."""
    return json_text(_body(parts, [(one.path, one.error) for one in unjudged]))


def _body(reports: Sequence[dict[str, Any]], broken: Iterable[tuple[str, PlanproofError]]) -> dict[str, Any]:
    return {"schema": SCHEMA, "reports": list(reports), "errors": [error_json(path, error) for path, error in broken]}
