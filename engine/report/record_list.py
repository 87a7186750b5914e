"""Records of a folder in a table: date, verdict, plan, valid or stale, superseded by."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..errors import PlanproofError
from .escape import clipped
from .record_file import RecordFile, find_proposal
from .tables import Table, table_text


def listed(records: Sequence[RecordFile], root: str | None, folder: Path) -> list[dict[str, Any]]:
    """One row a record, by date. A record supersedes another by its file name or title."""
    superseded: dict[str, str] = {}
    for one in records:
        for other in records:
            if one.supersedes and other is not one and one.supersedes in (Path(other.name).name, other.name, other.title):
                superseded[other.name] = one.name
    rows = []
    for one in sorted(records, key=lambda one: (one.date or "", one.name)):
        state, why = _state(one, root)
        rows.append(
            {
                "record": _inside(one.name, folder),
                "date": one.date,
                "verdict": one.verdict,
                "title": one.title,
                "plan": one.plan.replace("\\", ""),
                "state": state,
                "why": why,
                "superseded_by": _inside(superseded[one.name], folder) if one.name in superseded else None,
            }
        )
    return rows


def rows_text(rows: Sequence[dict[str, Any]]) -> str:
    """The rows for a terminal."""
    cells = [
        (
            row["date"] or "no date",
            row["verdict"],
            row["record"],
            clipped(row["plan"], 100),
            row["state"] + (f" ({row['why']})" if row["why"] else ""),
            row["superseded_by"] or "",
        )
        for row in rows
    ]
    return table_text(Table(("date", "verdict", "record", "plan", "state", "superseded by"), tuple(cells)))


def _inside(name: str, folder: Path) -> str:
    path = Path(name)
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_posix()


def _state(record: RecordFile, root: str | None) -> tuple[str, str]:
    try:
        proposal = find_proposal(record, root)
    except PlanproofError:
        return "stale", "its proposal is gone"
    if hashlib.sha256(proposal.read_bytes()).hexdigest() != record.sha256:
        return "stale", "its proposal has changed"
    depth = len(Path(record.proposal).parts)
    base = proposal.parents[depth - 1]
    for name, digest in record.digests.items():
        file = base / name.partition(": ")[2]
        if ": " not in name or name.startswith(("data sheet: hardware/", "configuration: ")):
            continue
        if not file.is_file():
            return "stale", f"{name} is gone"
        if hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            return "stale", f"{name} has changed"
    if record.digests.get("planproof") != hashlib.sha256(version("planproof").encode()).hexdigest():
        return "stale", "made by another release"
    return "valid", ""
