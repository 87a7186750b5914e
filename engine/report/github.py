"""Lint reports as GitHub's workflow commands, which put findings on the lines of a pull request.

Source of the form: GitHub, "Workflow commands for GitHub Actions", and of the limit of annotations, "GitHub Actions
limits". Every line of the output is looked at by the runner, so no line may hold a command that we did not write: text of
a proposal stands inside a command, escaped, or after our own words, with the older form of commands (`##[`) taken apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..inference import Severity
from .escape import visible
from .figures import plural
from .formats import Checked, Unjudged
from .lint_report import SEVERITIES

#: Annotations of one level that are shown of a step; what comes later is dropped without a word.
SHOWN = 10
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}

#: Severity, file, line, column, title, message.
Row = tuple[str, str, int, int, str, str]


def part(checked: Checked) -> tuple[list[Row], int]:
    """The standing findings of one file, and how many are suppressed."""
    rows: list[Row] = []
    for mark in checked.marks():
        finding = mark.finding
        if finding.suppressed is None:
            title = f"{finding.rule_id} {finding.title}" + (" (known)" if mark.known else "")
            message = "\n".join(visible(text) for text in (finding.message, finding.remedy) if text)
            # What is known does not fail the run, so it must not look as if it did.
            severity = Severity.NOTE if mark.known else finding.severity
            rows.append((severity.value, mark.file, mark.line, mark.column, title, message))
    return rows, len(checked.report.findings) - len(rows)


def whole(parts: Sequence[tuple[list[Row], int]], unjudged: Sequence[Unjudged]) -> str:
    """The commands, errors first; beyond the limit of a level plain lines, and a line that says so; at the end counts."""
    rows: list[Row] = [
        (Severity.ERROR.value, one.name, one.line, one.column, f"not judged ({one.error.code})", visible(one.words))
        for one in unjudged
    ]
    rows += [row for found, _ in parts for row in found]
    lines = []
    counts = []
    for severity in SEVERITIES:
        level = _COMMANDS[severity]
        found = sorted(row for row in rows if row[0] == severity.value)
        counts.append(plural(len(found), severity.value))
        lines += [_command(level, row) for row in found[:SHOWN]]
        if len(found) > SHOWN:
            rest = found[SHOWN:]
            lines.append(
                f"GitHub shows {SHOWN} annotations of a level and step: {plural(len(rest), severity.value)} more "
                f"{'stands' if len(rest) == 1 else 'stand'} only here and in the summary."
            )
            lines += [_plain(row) for row in rest]
    suppressed = sum(number for _, number in parts)
    files = len(parts) + len(unjudged)
    last = f"planproof: {plural(files, 'file')}, {', '.join(counts)}"
    lines.append(last + (f", {suppressed} suppressed" if suppressed else ""))
    return "\n".join(lines) + "\n"


def escape_data(text: str) -> str:
    """`text` as the message of a command: percent signs and line ends are escaped."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """`text` as the value of a property: as a message, and what ends a value."""
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")


def _command(level: str, row: Row) -> str:
    _, name, line, column, title, message = row
    values = {"file": _file(name), "line": str(line), "col": str(column), "title": visible(title)}
    properties = ",".join(f"{key}={escape_property(value)}" for key, value in values.items())
    return _apart(f"::{level} {properties}::{escape_data(message)}")


def _plain(row: Row) -> str:
    severity, name, line, column, title, message = row
    return _apart(f"  {severity} {visible(name)}:{line}:{column}: {visible(title)}: {visible(message)}")


def _file(name: str) -> str:
    """The path as it is, line ends included, since the runner looks for that file; half surrogates have no UTF-8."""
    return name.encode("utf-8", "backslashreplace").decode()


def _apart(line: str) -> str:
    return line.replace("##[", "## [")
