"""Lint reports as Reviewdog Diagnostic Format, the one JSON document that reviewdog calls rdjson.

Source of the form: reviewdog, `proto/rdf/reviewdog.proto` (DiagnosticResult). Its columns count bytes of UTF-8 from 1. It has
no place for suppressed findings, so those that stand are in it and no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..inference import Severity
from .escape import visible
from .formats import Checked, Unjudged
from .review_json import json_text

_SEVERITIES = {Severity.ERROR: "ERROR", Severity.WARNING: "WARNING", Severity.NOTE: "INFO"}


def part(checked: Checked) -> list[dict[str, Any]]:
    """The standing findings of one file."""
    rows = []
    for mark in checked.marks():
        finding = mark.finding
        if finding.suppressed is not None:
            continue
        message = "\n".join(visible(text) for text in (finding.message, finding.remedy) if text)
        rows.append(
            {
                "message": message,
                "location": {
                    "path": mark.file,
                    "range": {
                        "start": {"line": mark.line, "column": _byte(mark.source, mark.column)},
                        "end": {"line": mark.line, "column": _byte(mark.source, mark.end_column)},
                    },
                },
                "severity": _SEVERITIES[finding.severity],
                "code": {"value": finding.rule_id},
            }
        )
    return rows


def whole(parts: Sequence[list[dict[str, Any]]], unjudged: Sequence[Unjudged]) -> str:
    """All of them, with who found them. The column of an unreadable place is not known in bytes and is left out."""
    broken = [
        {
            "message": visible(one.words),
            "location": {"path": one.name, "range": {"start": {"line": one.line}}},
            "severity": "ERROR",
            "code": {"value": one.error.code},
        }
        for one in unjudged
    ]
    return json_text({"source": {"name": "planproof"}, "diagnostics": [*(row for rows in parts for row in rows), *broken]})


def _byte(source: str, column: int) -> int:
    """The byte, from 1, at which a column of `source` begins."""
    return len(source[: column - 1].encode("utf-8", "surrogatepass")) + 1
