"""Files of measured runs to a calibration: read, chosen, fitted, left out group by group, told and written as a sheet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from math import exp
from pathlib import Path
from statistics import mean

from ..errors import DataError, UsageError
from ..hardware import open_library
from ..hardware.sheets import same_name
from .case import Case
from .fit import PARAMETERS, Fitted, fit, telling
from .folds import Folds, leave_out, residual, spread
from .kinds import Reading, read_cases
from .sheet import sheet_text

#: Fewer rows than this times the parameters tell nothing.
LEAST = 2


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What the command prints, and the sheet that it writes."""

    lines: tuple[str, ...]
    sheet: str
    cases: tuple[Case, ...]
    fitted: Fitted
    folds: Folds


def calibrate_files(
    files: Sequence[Path], *, device: str | None = None, software: str | None = None, hardware: Sequence[str] = (), day: date
) -> Calibrated:
    """The calibration of one device and software family. UsageError where several could be meant,
    DataError without enough rows.
    """
    library = open_library(hardware)
    readings = [read_cases(path, library) for path in files]
    cases = [case for reading in readings for case in reading.cases if _usable(case)]
    if device is not None:
        wanted = library.device(device).name
        cases = [case for case in cases if case.device == wanted]
    if software is not None:
        cases = [case for case in cases if same_name(case.software) == same_name(software)]
    kinds = Counter((case.device, case.software) for case in cases)
    if len(kinds) > 1:
        shown = ", ".join(f"{name} under {family} ({count} rows)" for (name, family), count in sorted(kinds.items()))
        raise UsageError(f"the files hold runs of several kinds: {shown}", remedy="Choose one with --device and --software.")
    lines = [line for reading in readings for line in _told(reading)]
    names = telling(cases) if cases else ()
    if len(cases) < LEAST * max(1, len(names)):
        raise DataError(
            f"{len(cases)} rows can be used, fewer than {LEAST * max(len(names), 3)} for {max(len(names), 3)} parameters",
            remedy="; ".join(lines) or "Give more measured runs of one device and software family.",
        )
    fitted = fit(cases, names)
    folds = leave_out(cases, names)
    lines += _results(cases, fitted, folds)
    digests = [(reading.table.name, reading.table.sha256) for reading in readings]
    chosen = f" --device {cases[0].device} --software {cases[0].software}"
    command = f"planproof calibrate {' '.join(name for name, _ in digests)}{chosen} --as-of {day.isoformat()} -o SHEET.yaml"
    return Calibrated(tuple(lines), sheet_text(cases, fitted, folds, digests, day, command=command), tuple(cases), fitted, folds)


def _usable(case: Case) -> bool:
    """Whether a row is for fitting: not one that its table keeps for the report, nor one over measured stages."""
    return not case.measured_stages and case.row.text("use") != "report"


def _told(reading: Reading) -> list[str]:
    name = reading.table.name
    lines = [f"{name}: {reading.layout}, {len(reading.cases)} of {len(reading.table.rows)} rows can be priced"]
    return lines + [f"    {count} left out: {reason}" for reason, count in reading.reasons.items()]


def _results(cases: Sequence[Case], fitted: Fitted, folds: Folds) -> list[str]:
    first = cases[0]
    lines = [f"fitted: {first.device} under {first.software}, {len(cases)} rows in {len({case.group for case in cases})} groups"]
    for name, value in fitted.values.items():
        low, high = spread(folds.values, fitted, name)
        bound = PARAMETERS[name]
        at = ", at its bound" if value < bound.low * 1.01 or value > bound.high * 0.99 else ""
        lines.append(f"    {name:<13}{value:.4g} (without one group: {low:.4g} to {high:.4g}{at})")
    seen = [abs(exp(error) - 1) for error in fitted.residuals]
    lines.append(f"rows that the fit saw: mean error {mean(seen):.1%}, worst {max(seen):.1%}")
    if not folds.errors:
        return [*lines, "no group was left out: there is one alone, so nothing is known of new ones"]
    by_group: dict[str, list[tuple[float, int]]] = {}
    for case, error in folds.errors:
        by_group.setdefault(case.group, []).append((exp(error) - 1, case.row.line))
    lines.append("groups that the fit did not see:")
    for group, rows in by_group.items():
        worst = max(rows, key=lambda one: abs(one[0]))
        errors = [one for one, _ in rows]
        lines.append(
            f"    {group}: {len(rows)} rows, mean error {mean(map(abs, errors)):.1%}, bias {mean(errors):+.1%}, "
            f"worst {worst[0]:+.1%} (line {worst[1]})"
        )
    every = [exp(error) - 1 for _, error in folds.errors]
    lines.append(
        f"all of them: mean error {mean(map(abs, every)):.1%}, bias {mean(every):+.1%}; 90 % within {residual(folds.errors):.1%}"
    )
    return lines
