"""Lint reports for people at a terminal: place, severity, rule, message, the line in question, and what to do."""

from __future__ import annotations

import unicodedata
from typing import Final

from ..inference import Finding, Severity
from ..quantity import Dimension, human
from .escape import terminal, visible
from .figures import plural
from .lint_report import SEVERITIES, Report

_COLOURS: Final = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.NOTE: "36"}
_BOLD: Final = "1"
#: Characters of a source line that are shown, and how many of them before the caret at most.
_SHOWN: Final = 100
_BEFORE: Final = 60


def text(report: Report, *, color: bool = False) -> str:
    """The report of one file. Where it passes, the first line says how much memory is left; the last line counts."""
    lines = [f"{terminal(report.path)}: {headroom_line(report)}"] if report.passes else []
    for k, finding in enumerate(report.findings):
        lines += _finding(report, finding, color, known=k in report.known)
    lines.append(summary(report))
    return "\n".join(lines) + "\n"


def headroom_line(report: Report) -> str:
    """What is left on which rank of which stage."""
    room = report.headroom
    if room is None:
        return "memory left is not known: no plan is described well enough for a memory ledger"
    amount = human(abs(room.bytes), Dimension.BYTES)
    left = "left" if room.bytes >= 0 else "too little"
    of = human(room.capacity_bytes, Dimension.BYTES)
    return (
        f"plan '{visible(room.plan)}': {amount} {left} on the fullest rank "
        f"(stage {room.stage}, {room.rank_class}; {room.basis}, of {of})"
    )


def summary(report: Report) -> str:
    """The counts by severity, what was known before, what was suppressed and when, and the phases that did not run."""
    counts = [plural(report.number(severity), severity.value) for severity in SEVERITIES]
    suppressed = len(report.findings) - len(report.standing)
    line = f"{terminal(report.path)}: {', '.join(counts)}"
    if report.known:
        line += f" ({len(report.known)} of them known)"
    if suppressed:
        line += f", {suppressed} suppressed"
    terms = report.terms
    if terms.judged_on is not None:
        whose = "the date of the review" if terms.dated else "the day of this run; --as-of sets another"
        line += f"; suppressions judged on {terms.judged_on.isoformat()} ({whose})"
    if report.skipped:
        line += f"; not run: {', '.join(phase.value for phase in report.skipped)}"
    return line


def _finding(report: Report, finding: Finding, color: bool, *, known: bool) -> list[str]:
    place = report.place(finding)
    severity = _painted(finding.severity.value, _COLOURS[finding.severity], color)
    rule = _painted(finding.rule_id, _BOLD, color)
    where = f"{terminal(place.file or report.path)}:{place.line}:{place.column}"
    lines = [f"{where}: {severity} {rule} {visible(finding.message)}"]
    source = report.loaded.document.source_line(place.line or 0, place.file)
    if source.strip():
        lines += _excerpt(source, place.line or 0, place.column or 1)
    by = finding.suppressed
    if by is not None:
        until = f", until {by.until.isoformat()}" if by.until else ""
        lines.append(f"  suppressed: {visible(by.reason)} ({visible(by.owner)}{until})")
    if known:
        lines.append("  known: the baseline has it")
    if finding.remedy:
        lines.append(f"  remedy: {visible(finding.remedy)}")
    return lines


def _excerpt(source: str, line: int, column: int) -> list[str]:
    """The source line, cut around `column`, and a caret below the character that stands there."""
    start = max(0, min(column - 1 - _BEFORE, len(source) - _SHOWN))
    before = terminal(source[start : column - 1])
    after = terminal(source[column - 1 : start + _SHOWN])
    lead = "... " if start else ""
    more = " ..." if start + _SHOWN < len(source) else ""
    margin = f"  {line} | "
    pad = " " * (len(margin) - 2) + "| " + " " * (len(lead) + _width(before))
    return [f"{margin}{lead}{before}{after}{more}", f"{pad}^"]


def _width(shown: str) -> int:
    """Columns that a text takes in a terminal: two for wide characters, none for combining ones."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in shown
    )


def _painted(text: str, colour: str, color: bool) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if color else text
