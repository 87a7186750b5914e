"""Lint reports as Markdown, for a comment on a pull request or the summary of a job: counts, then a table a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from .escape import code, markdown
from .figures import plural
from .formats import Checked, Unjudged
from .lint_report import SEVERITIES
from .text import headroom_line

#: Findings of one file that are listed; the rest is counted.
LISTED = 200


class FilePart(TypedDict):
    """One file: its section, and what the headline counts."""

    text: str
    counts: dict[str, int]
    suppressed: int
    passes: bool


def part(checked: Checked) -> FilePart:
    """The section of one file: the worst findings first."""
    report = checked.report
    marks = checked.marks()
    standing = sorted(
        (mark for mark in marks if mark.finding.suppressed is None), key=lambda mark: SEVERITIES.index(mark.finding.severity)
    )
    counts = {severity.value: report.number(severity) for severity in SEVERITIES}
    shown = ", ".join(plural(number, word) for word, number in counts.items())
    lines = [f"### {code(checked.name)}", "", f"{'Passes' if report.passes else 'Does not pass'}: {shown}."]
    if report.passes:
        lines += ["", markdown(headroom_line(report)[:1].upper() + headroom_line(report)[1:]) + "."]
    if standing:
        lines += ["", "| | line | rule | finding | what to do |", "|---|---|---|---|---|"]
        for mark in standing[:LISTED]:
            one = mark.finding
            known = ", known" if mark.known else ""
            lines.append(
                f"| {one.severity.value}{known} | {mark.line} | {one.rule_id} "
                f"| {markdown(one.message)} | {markdown(one.remedy)} |"
            )
    if len(standing) > LISTED:
        lines += ["", f"{len(standing) - LISTED} more are not listed."]
    hidden = [mark for mark in marks if mark.finding.suppressed is not None]
    if hidden:
        lines += ["", "| suppressed | line | reason | owner | until |", "|---|---|---|---|---|"]
        for mark in hidden:
            by = mark.finding.suppressed
            assert by is not None
            until = by.until.isoformat() if by.until else "for good"
            lines.append(
                f"| {mark.finding.rule_id}: {markdown(mark.finding.message)} | {mark.line} | {markdown(by.reason)} "
                f"| {markdown(by.owner)} | {until} |"
            )
    if report.skipped:
        lines += ["", f"Not run: {', '.join(phase.value for phase in report.skipped)}."]
    return {"text": "\n".join(lines), "counts": counts, "suppressed": len(hidden), "passes": report.passes}


def whole(parts: Sequence[FilePart], unjudged: Sequence[Unjudged]) -> str:
    """The headline, the files that could not be judged, and the sections: those that do not pass come first."""
    totals = [plural(sum(one["counts"][severity.value] for one in parts), severity.value) for severity in SEVERITIES]
    suppressed = sum(one["suppressed"] for one in parts)
    head = f"{plural(len(parts) + len(unjudged), 'file')}: {', '.join(totals)}"
    if suppressed:
        head += f", {suppressed} suppressed"
    if unjudged:
        head += f"; {plural(len(unjudged), 'file')} could not be judged"
    blocks = ["## planproof", head + "."]
    if unjudged:
        rows = ["| not judged | line | why |", "|---|---|---|"]
        rows += [f"| {code(one.name)} | {one.line} | {markdown(one.words)} |" for one in unjudged]
        blocks.append("\n".join(rows))
    blocks += [one["text"] for one in sorted(parts, key=lambda one: one["passes"])]
    return "\n\n".join(blocks) + "\n"
