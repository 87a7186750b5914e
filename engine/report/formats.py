"""The formats of `lint`: which there are, what a writer gets, and how it works.

A writer has two functions. `part` turns one report into plain data or text, where the report was made; `whole` joins the
parts of all files, in their order, with the files that could not be judged. So reports need not be kept, or sent from one
process to another. A writer knows one format's layout and nothing of files, terminals or exit status.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import PlanproofError
from ..frozen import dataclass
from ..inference import Finding, Severity
from .fingerprints import fingerprints
from .lint_report import SEVERITIES, Report
from .places import beside

#: Name -> what it is for, as the help text has it.
FORMATS: Mapping[str, str] = {
    "text": "for people: the line, a caret and the remedy",
    "concise": "file:line:column: RULE message",
    "json": "everything, facts included",
    "sarif": "SARIF 2.1.0, for code scanning",
    "github": "workflow commands, which annotate lines",
    "gitlab": "GitLab's code quality report",
    "junit": "JUnit XML",
    "rdjson": "reviewdog's diagnostics",
    "markdown": "tables, for a comment or a summary",
}
#: The id that stands for a file that could not be judged where a format wants a rule.
NOT_JUDGED = "not-judged"


@dataclass(frozen=True, slots=True)
class Mark:
    """One finding where it stands: lines and columns from 1, in characters; `end_column` is the first beyond it.

    `known`: the baseline has it. `file` is the file that it stands in, from the repository's root: the proposal's, or that of
    a launch file whose value it is about.
    """

    finding: Finding
    line: int
    column: int
    end_column: int
    source: str
    fingerprint: str
    known: bool
    file: str


@dataclass(frozen=True, slots=True)
class Checked:
    """One report as writers take it.

    `name` is the file's path from the repository's root with '/', `fail_on` the least severity that fails (or `never`).
    """

    report: Report
    name: str
    fail_on: str = Severity.ERROR.value
    color: bool = False

    def marks(self) -> list[Mark]:
        """The findings with their places and fingerprints, suppressed ones included."""
        found = []
        for k, (finding, print_) in enumerate(
            zip(self.report.findings, fingerprints(self.report, self.name), strict=True)
        ):
            place = self.report.place(finding)
            line, column = place.line or 1, place.column or 1
            document = self.report.loaded.document
            source = document.source_line(line, place.file)
            end = max(len(source.rstrip()) + 1, column)
            file = beside(self.name, document.name, place.file)
            found.append(Mark(finding, line, column, end, source, print_, k in self.report.known, file))
        return found

    def fails(self, mark: Mark) -> bool:
        """Whether the finding makes the run fail: it stands, no baseline has it, and it is severe enough."""
        if self.fail_on == "never" or mark.known or mark.finding.suppressed is not None:
            return False
        return SEVERITIES.index(mark.finding.severity) <= SEVERITIES.index(Severity(self.fail_on))


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A file that could not be judged: as it was named, its path from the repository's root, and why."""

    path: str
    name: str
    error: PlanproofError

    @property
    def line(self) -> int:
        """The line at fault, else the first."""
        return self.error.place.line or 1

    @property
    def column(self) -> int:
        """The column at fault, else the first."""
        return self.error.place.column or 1

    @property
    def fingerprint(self) -> str:
        """What stays the same of it where lines move."""
        about = f"{self.name}\n{NOT_JUDGED}\n{self.error.code}"
        return hashlib.sha256(about.encode("utf-8", "backslashreplace")).hexdigest()[:32]

    @property
    def words(self) -> str:
        """What is wrong and what to do, without the place."""
        return f"{self.error.message} {self.error.remedy}" if self.error.remedy else self.error.message


@dataclass(frozen=True, slots=True)
class Writer:
    """The two functions of a format. One that `streams` is the parts, one after the other."""

    part: Callable[[Checked], Any]
    whole: Callable[[Sequence[Any], Sequence[Unjudged]], str]
    streams: bool = False


def writer(name: str) -> Writer:
    """The writer of a format of FORMATS; its module is loaded now."""
    match name:
        case "text":
            from .text import text

            return Writer(lambda checked: text(checked.report, color=checked.color), _joined, streams=True)
        case "concise":
            from .concise import concise

            return Writer(lambda checked: concise(checked.report), _joined, streams=True)
        case "json":
            from . import lint_json

            return Writer(lambda checked: checked.report.to_json(), lint_json.whole)
        case "sarif":
            from . import sarif

            return Writer(sarif.part, sarif.whole)
        case "github":
            from . import github

            return Writer(github.part, github.whole)
        case "gitlab":
            from . import gitlab

            return Writer(gitlab.part, gitlab.whole)
        case "junit":
            from . import junit

            return Writer(junit.part, junit.whole)
        case "rdjson":
            from . import rdjson

            return Writer(rdjson.part, rdjson.whole)
        case "markdown":
            from . import lint_markdown

            return Writer(lint_markdown.part, lint_markdown.whole)
    raise KeyError(name)


def _joined(parts: Sequence[Any], unjudged: Sequence[Unjudged]) -> str:
    """The parts as they are; what could not be judged is said on standard error."""
    return "".join(parts)
