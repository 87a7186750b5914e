"""Records of a folder in a table: date, verdict, plan, valid or stale, superseded by."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..errors import PlanproofError
from ..facts import KINDS
from ..inference import load_catalogue
from .escape import clipped
from .record_file import RecordFile, base_of, find_proposal, values_of
from .tables import Table, table_text

#: Kinds of input that planproof ships, or that a folder of sheets adds.
SHEETS = ("data sheet", "calibration")


def listed(
    records: Sequence[RecordFile], root: str | None, folder: Path, hardware: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """One row a record, by date. A record supersedes another by its file name or title. `hardware`: folders of data sheets
    outside the repositories, where they are now."""
    superseded: dict[str, str] = {}
    for one in records:
        for other in records:
            if one.supersedes and other is not one and one.supersedes in (Path(other.name).name, other.name, other.title):
                superseded[other.name] = one.name
    rows = []
    for one in sorted(records, key=lambda one: (one.date or "", one.name)):
        state, why = _state(one, root, hardware)
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


def _state(record: RecordFile, root: str | None, hardware: Sequence[str]) -> tuple[str, str]:
    try:
        proposal = find_proposal(record, root)
    except PlanproofError:
        return "stale", "its proposal is gone"
    if hashlib.sha256(proposal.read_bytes()).hexdigest() != record.sha256:
        return "stale", "its proposal has changed"
    base = base_of(record, proposal)
    for name, digest in record.digests.items():
        if ": " not in name:
            continue
        raw = _bytes_of(name, base, record, hardware)
        if raw is None and (outside := _outside(name, base, record)) is not None:
            return "unknown", f"{name} lies in '{outside}' outside the repository: name it with --hardware"
        if raw is None:
            return "stale", f"{name} is gone"
        if hashlib.sha256(raw).hexdigest() != digest:
            return "stale", f"{name} has changed"
    if record.digests.get("planproof") != hashlib.sha256(version("planproof").encode()).hexdigest():
        return "stale", "made by another release"
    if _shipped_rules_alone(record) and record.digests.get("rules") != load_catalogue(KINDS).digest:
        return "stale", "the rules have changed"
    return "valid", ""


def _bytes_of(name: str, base: Path, record: RecordFile, hardware: Sequence[str]) -> bytes | None:
    """The input that a record calls `kind: path`: of the repository, a sheet of a folder that the record names, or one that is
    shipped. None where it is not there."""
    kind, _, path = name.partition(": ")
    if Path(path).is_absolute() or ".." in Path(path).parts:
        return None
    places = [base / path]
    if kind in SHEETS:
        # A folder of sheets is called by its path from the repository, or by its own name alone.
        folders = [folder / value for value in values_of(record, "hardware") for folder in _around(record)]
        folders += map(Path, hardware)
        places += [folder.parent / path for folder in folders]
        places += [folder / Path(path).relative_to(folder.name) for folder in folders if Path(path).is_relative_to(folder.name)]
    found = next((place for place in places if place.is_file()), None)
    if found is not None:
        return found.read_bytes()
    shipped = files("planproof").joinpath(path) if kind in SHEETS and path.startswith("hardware/") else None
    return shipped.read_bytes() if shipped is not None and shipped.is_file() else None


def _around(record: RecordFile) -> list[Path]:
    """Where a folder that a record names by itself is looked for: here, and in the folders above the record."""
    return [Path(), *Path(record.name).resolve().parents]


def _outside(name: str, base: Path, record: RecordFile) -> str | None:
    """The folder of sheets outside the repository that an input of a record is from; None for one inside it."""
    kind, _, path = name.partition(": ")
    if kind not in SHEETS:
        return None
    inside = [value for value in values_of(record, "hardware") if (base / value).is_dir()]
    first = path.split("/", 1)[0]
    return first if first in values_of(record, "hardware") and first not in inside else None


def _shipped_rules_alone(record: RecordFile) -> bool:
    """Whether no folder of rules and no configuration had a part in the record."""
    return not values_of(record, "rules") and not any(name.startswith("configuration: ") for name in record.digests)
