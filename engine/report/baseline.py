"""A baseline: the findings that a repository has already, so that a check fails for new ones only.

What it has stays visible as known; the exit status follows from the rest. A finding is told by its fingerprint, so lines may
move and wording change. What a mandatory rule found is never known: a baseline is no way around it. A baseline only shrinks by
itself: what is gone is reported and can be taken out, what is new is not taken in.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from ..document import quoted
from ..errors import Place, UsageError
from ..frozen import dataclass
from .fingerprints import fingerprints
from .lint_report import Report
from .output import write_whole

KEY: Final = "planproof_baseline"
VERSION: Final = 1
MAX_BYTES: Final = 64 * 1024 * 1024
_FIELDS: Final = ("path", "rule", "pointer", "fingerprint")


@dataclass(frozen=True, slots=True, order=True)
class Known:
    """One finding of a baseline: its file's path from the repository's root, its rule, where it stood, its fingerprint."""

    path: str
    rule: str
    pointer: str
    fingerprint: str


@dataclass(frozen=True)
class Baseline:
    """The findings that are known."""

    findings: tuple[Known, ...] = ()

    @cached_property
    def fingerprints(self) -> frozenset[str]:
        """Their fingerprints."""
        return frozenset(one.fingerprint for one in self.findings)


def against(report: Report, name: str, baseline: Baseline) -> Report:
    """The report with what the baseline has marked as known; `name` is the file's path from the repository's root."""
    prints = fingerprints(report, name)
    known = frozenset(
        k
        for k, finding in enumerate(report.findings)
        if finding.suppressed is None
        and finding.rule_id not in report.terms.mandatory
        and prints[k] in baseline.fingerprints
    )
    return replace(report, known=known)


def knowable(report: Report, name: str) -> tuple[Known, ...]:
    """What a baseline would have of this report: every finding that stands, those of mandatory rules excepted."""
    prints = fingerprints(report, name)
    return tuple(
        Known(name, finding.rule_id, finding.path, prints[k])
        for k, finding in enumerate(report.findings)
        if finding.suppressed is None and finding.rule_id not in report.terms.mandatory
    )


def gone(baseline: Baseline, found: Iterable[Known], checked: Iterable[str], root: Path | None = None) -> tuple[Known, ...]:
    """What the baseline has and this run did not find: of the files that were `checked`, and of files that no longer exist.

    `found` is what is knowable of all reports; a file that was not looked at, or could not be judged, keeps its entries.
    """
    seen = {one.fingerprint for one in found}
    names = frozenset(checked)

    def missing(path: str) -> bool:
        return root is not None and not os.path.lexists(root / path)

    return tuple(
        one for one in baseline.findings if one.fingerprint not in seen and (one.path in names or missing(one.path))
    )


def without(baseline: Baseline, lost: Iterable[Known]) -> Baseline:
    """The baseline less what is gone."""
    out = frozenset(lost)
    return Baseline(tuple(one for one in baseline.findings if one not in out))


def gone_text(lost: Iterable[Known]) -> str:
    """One line for each finding that is gone, and one that says what to do; nothing where none is."""
    lines = [f"{one.path}: {one.rule} at {one.pointer or '/'} is gone and still in the baseline" for one in lost]
    if lines:
        lines.append("--update-baseline takes what is gone out.")
    return "".join(line + "\n" for line in lines)


def baseline_text(known: Iterable[Known]) -> str:
    """The baseline as JSON, in order, one finding a line, so that its own changes are easy to review."""
    rows = ",\n".join(
        "  " + json.dumps({key: getattr(one, key) for key in _FIELDS}, ensure_ascii=True) for one in sorted(set(known))
    )
    return f'{{"{KEY}": {VERSION}, "findings": [\n{rows}\n]}}\n' if rows else f'{{"{KEY}": {VERSION}, "findings": []}}\n'


def write_baseline(path: str | os.PathLike[str], known: Iterable[Known]) -> int:
    """Write the baseline, whole or not at all, and say how many findings it has. Raises UsageError."""
    kept = tuple(known)
    write_whole(path, baseline_text(kept))
    return len(set(kept))


def read_baseline(path: str | os.PathLike[str]) -> Baseline:
    """The baseline in a file. Raises UsageError for one that is missing, damaged, or of another version."""
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        message = f"the baseline {quoted(name)} cannot be read: {why}"
        raise _wrong(message, name, "Write one first with --write-baseline.") from None
    return parse_baseline(raw, name)


def parse_baseline(raw: bytes, name: str) -> Baseline:
    """The baseline in these bytes; `name` is the file in messages. Raises UsageError as `read_baseline` does."""
    if len(raw) > MAX_BYTES:
        raise _wrong(f"the baseline has more than {MAX_BYTES:,} bytes", name)
    try:
        data: Any = json.loads(raw)
    except json.JSONDecodeError as error:
        raise _wrong(f"the baseline is not JSON: {error.msg}", name, line=error.lineno, column=error.colno) from None
    except (UnicodeDecodeError, ValueError, RecursionError):
        raise _wrong("the baseline is not JSON in UTF-8", name) from None
    if not isinstance(data, dict) or KEY not in data:
        raise _wrong(f"this is no baseline: the key '{KEY}' is missing", name)
    version = data[KEY]
    if isinstance(version, bool) or version != VERSION:
        shown = quoted(str(version))
        raise _wrong(f"the baseline is of version {shown}, and this release reads version {VERSION}", name)
    rows = data.get("findings")
    if set(data) != {KEY, "findings"} or not isinstance(rows, list):
        raise _wrong(f"a baseline has the keys '{KEY}' and 'findings', a list, and no others", name)
    found = []
    for k, row in enumerate(rows):
        if not isinstance(row, dict) or set(row) != set(_FIELDS) or not all(isinstance(one, str) for one in row.values()):
            raise _wrong(f"finding {k + 1} of the baseline must have the texts {', '.join(_FIELDS)} and nothing else", name)
        found.append(Known(**row))
    return Baseline(tuple(sorted(set(found))))


def _wrong(
    message: str,
    name: str,
    remedy: str = "Write it anew with --write-baseline.",
    *,
    line: int | None = None,
    column: int | None = None,
) -> UsageError:
    return UsageError(message, place=Place(name, line, column), code="usage.baseline", remedy=remedy)
