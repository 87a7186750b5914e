"""What a measured CSV is, told by its columns and never by its name, and its rows as cases.

A layout is recognised where its telling columns stand; where a few of its other columns are missing the file is still told to be
of it, and the missing ones are named. Files without a step time of whole runs say why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ..hardware import Library
from . import published, runs, stages
from .case import Case
from .table import Rejected, Row, Table, read_table

Reader = Callable[[Row, Library], Case]

#: (name, columns, columns of which half must stand for the file to be told to be of it, reader).
LAYOUTS: tuple[tuple[str, tuple[str, ...], Reader], ...] = (
    ("runs", runs.COLUMNS, runs.case_of),
    ("paper tables", published.PAPER, published.paper),
    ("vTrain iteration times", published.VTRAIN, published.vtrain),
    ("vTrain single-node times", published.VTRAIN_NODE, published.vtrain),
    ("SimuMax runs", published.SIMUMAX, published.simumax),
)

#: Columns of files that hold no step time of a whole run: (columns, why).
OTHERS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("plan_json_stem", "gpus_per_stage", "ops_per_stage"), "plans without a measurement; read together with their stage times"),
    (("tp", "bs", "layer", "compute_ms", "memory_mb"), "incomplete: a profile of layers states no model shapes and no precision"),
    (("implementation", "allocated_bytes", "plan"), "memory of ranks, no step time"),
    (("source", "key", "value"), "incomplete: a profile of keys and values states no device, no plan and no step time"),
    (("model", "model_type", "layers", "hidden", "vocab"), "shapes of models, no measurement"),
    (("op_name", "message_size", "latency"), "times of collectives, no step; see bench/collectives.py"),
    (("ngpus", "bytes", "time_ns"), "times of collectives, no step; see bench/collectives.py"),
    (("gemm_dtype", "m", "n", "k"), "times of matrix products, no step"),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """A file as cases and what was left out. `lines`: each left-out row's reason and detail, in order."""

    table: Table
    layout: str
    cases: tuple[Case, ...]
    left_out: tuple[tuple[int, Rejected], ...]
    missing: tuple[str, ...] = ()
    note: str = ""
    reasons: dict[str, int] = field(default_factory=dict)

    def told(self) -> list[str]:
        """Each reason with how many rows it left out, and where the first of them stands: file, row, column and value."""
        first: dict[str, str] = {}
        for _, rejected in self.left_out:
            first.setdefault(rejected.reason, rejected.detail)
        return [f"{count} left out: {reason} (first: {first[reason]})" for reason, count in self.reasons.items()]


def recognise(columns: tuple[str, ...]) -> tuple[str, tuple[str, ...], Reader] | None:
    """The layout whose columns stand best: all of them, or all but a few of the telling ones."""
    here = set(columns)
    best: tuple[float, tuple[str, tuple[str, ...], Reader]] | None = None
    for layout in LAYOUTS:
        share = len(here & set(layout[1])) / len(layout[1])
        if share >= 0.6 and (best is None or share > best[0]):
            best = (share, layout)
    return best[1] if best else None


def read_cases(path: Path, library: Library) -> Reading:
    """All rows of a file, as cases or with the reason why not. DataError where the file is no table."""
    table = read_table(path)
    if set(stages.COLUMNS) <= set(table.columns):
        cases, out = stages.cases_of(table, path.parent, library)
        return _reading(table, "stage times", cases, out)
    for columns, why in OTHERS:
        if set(columns) <= set(table.columns):
            out = [(row.line, Rejected(why, f"{row.file}, line {row.line}")) for row in table.rows]
            return _reading(table, "no step times", [], out, note=why)
    layout = recognise(table.columns)
    if layout is None:
        why = "columns of no known layout"
        out = [(row.line, Rejected(why, f"{row.file}: {', '.join(table.columns)[:200]}")) for row in table.rows]
        return _reading(table, "unknown", [], out, note=f"{why}: {', '.join(table.columns)[:120]}")
    name, columns, read = layout
    missing = tuple(column for column in columns if column not in table.columns)
    if missing:
        why = f"missing column: {', '.join(missing)}"
        near = [column for column in table.columns if any(column.rsplit("_", 1)[0] == one.rsplit("_", 1)[0] for one in missing)]
        hint = f"; '{near[0]}' stands there: another unit?" if near else ""
        out = [(row.line, Rejected(why, f"{row.file}, columns of {name}{hint}")) for row in table.rows]
        return _reading(table, name, [], out, missing=missing, note=why + hint)
    cases, out = [], []
    for row in table.rows:
        try:
            cases.append(read(row, library))
        except Rejected as rejected:
            out.append((row.line, rejected))
    if name == "runs":
        for case, exchanged in runs.check_exchanged(cases):
            cases.remove(case)
            out.append((case.row.line, exchanged))
    cases, repeats = _repeats(cases)
    return _reading(table, name, cases, out + repeats)


def _repeats(cases: list[Case]) -> tuple[list[Case], list[tuple[int, Rejected]]]:
    """Each measurement once: rows of the same run with the same time are copies."""
    known: dict[tuple[object, ...], int] = {}
    kept, out = [], []
    for case in cases:
        key = (*case.identity, case.seconds, case.sweep)
        if key in known:
            out.append(
                (
                    case.row.line,
                    Rejected("exact repeat of another row", f"{case.row.file}, line {case.row.line}: repeats line {known[key]}"),
                )
            )
        else:
            known[key] = case.row.line
            kept.append(case)
    return kept, out


def _reading(
    table: Table,
    layout: str,
    cases: list[Case],
    out: list[tuple[int, Rejected]],
    *,
    missing: tuple[str, ...] = (),
    note: str = "",
) -> Reading:
    reasons = Counter(rejected.reason for _, rejected in out)
    return Reading(
        table, layout, tuple(cases), tuple(sorted(out, key=lambda one: one[0])), missing, note, dict(sorted(reasons.items()))
    )
