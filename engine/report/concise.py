"""Lint reports with one line a finding, for editors and for grep."""

from __future__ import annotations

from .escape import terminal, visible
from .lint_report import Report


def concise(report: Report) -> str:
    """`file:line:col: RULE message`, one line a finding that stands; nothing where there is none."""
    lines = []
    for finding in report.standing:
        place = report.place(finding)
        where = f"{terminal(place.file or report.path)}:{place.line}:{place.column}"
        lines.append(f"{where}: {finding.rule_id} {visible(finding.message)}\n")
    return "".join(lines)
