"""Files of measured runs to a calibration: read, chosen, fitted, left out group by group, told and written as a sheet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from math import exp
from pathlib import Path
from statistics import mean

from ..errors import DataError, Place, UsageError
from ..hardware import open_library
from ..hardware.sheets import same_name
from .case import Case
from .fit import PARAMETERS, Fitted, fit, telling
from .folds import Folds, leave_out, residual, spread
from .kinds import Reading, read_cases
from .memory_calibrate import HeldMemory, held_memory, kinds_of
from .runs import COLUMNS
from .sheet import sheet_text

#: Fewer rows than this times the parameters tell nothing.
LEAST = 2


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What the command prints, and the sheet that it writes."""

    lines: tuple[str, ...]
    sheet: str
    cases: tuple[Case, ...]
    fitted: Fitted | None
    folds: Folds | None
    held: HeldMemory | None = None


def calibrate_files(
    files: Sequence[Path], *, device: str | None = None, software: str | None = None, hardware: Sequence[str] = (), day: date
) -> Calibrated:
    """The calibration of one device and software family: of its step times, of its memory, or of both, by what the files hold.

    UsageError where several could be meant, DataError without enough rows of either.
    """
    library = open_library(hardware)
    readings = [read_cases(path, library) for path in files]
    cases = read = [case for reading in readings for case in reading.cases if _usable(case)]
    if device is not None:
        wanted = library.device(device).name
        cases = [case for case in cases if case.device == wanted]
    if software is not None:
        cases = [case for case in cases if same_name(case.software) == same_name(software)]
    if len({(case.device, case.software) for case in cases}) > 1:
        raise UsageError(
            f"the files hold runs of several kinds: {_shown(cases)}",
            place=Place(str(files[0])), remedy="Choose one with --device and --software.",
        )  # fmt: skip
    lines = [line for reading in readings for line in _told(reading)]
    held = _memory(files, cases, library.device(device).name if device is not None else None, software)
    lines += held.lines if held is not None else ()
    digests = [(reading.table.name, reading.table.sha256) for reading in readings]
    names = telling(cases) if cases else ()
    if len(cases) < LEAST * max(1, len(names)) and held is not None and held.constants:
        lines.append(f"step time: {len(cases)} rows can be used, too few to fit; the sheet holds memory alone")
        sheet = sheet_text((), None, None, digests, day, held=held, command=_command(digests, *_kind(held), day))
        return Calibrated(tuple(lines), sheet, (), None, None, held)
    if read and not cases:
        raise UsageError(
            f"no row is of {device or 'any device'} under {software or 'any software'}; the files hold {_shown(read)}",
            place=Place(str(files[0])), remedy="Choose one of these with --device and --software.",
        )  # fmt: skip
    if len(cases) < LEAST * max(1, len(names)):
        needed = max(len(names), 3)
        raise DataError(
            f"{_rows(len(cases))} can be used, fewer than {LEAST * needed} for {needed} parameters: "
            + "; ".join(line.strip() for line in lines),
            place=Place(str(files[0])), code="data.few_runs",
            remedy=f"Give at least {LEAST * needed} measured runs of one device and software family, with the columns "
            f"{', '.join(COLUMNS)} (docs/accuracy.md).",
        )  # fmt: skip
    fitted = fit(cases, names)
    folds = leave_out(cases, names)
    lines += _results(cases, fitted, folds)
    command = _command(digests, cases[0].device, cases[0].software, day)
    sheet = sheet_text(cases, fitted, folds, digests, day, held=held, command=command)
    return Calibrated(tuple(lines), sheet, tuple(cases), fitted, folds, held)


def _rows(count: int) -> str:
    return f"{count} row{'' if count == 1 else 's'}"


def _shown(cases: Sequence[Case]) -> str:
    kinds = Counter((case.device, case.software) for case in cases)
    return ", ".join(f"{name} under {family} ({_rows(count)})" for (name, family), count in sorted(kinds.items()))


def _command(digests: Sequence[tuple[str, str]], device: str, software: str, day: date) -> str:
    files = " ".join(name for name, _ in digests)
    return f"planproof calibrate {files} --device {device} --software {software} --as-of {day.isoformat()} -o SHEET.yaml"


def _kind(held: HeldMemory) -> tuple[str, str]:
    return held.device, held.software


def _memory(files: Sequence[Path], cases: Sequence[Case], device: str | None, software: str | None) -> HeldMemory | None:
    """The memory of the device and family in question; where only memory rows could say which, they must agree."""
    if cases:
        return held_memory(files, cases[0].device, cases[0].software)
    kinds = [
        (name, family)
        for name, family in sorted(kinds_of(files))
        if (device is None or name == device) and (software is None or same_name(family) == same_name(software))
    ]
    if len(kinds) > 1:
        shown = ", ".join(f"{name} under {family}" for name, family in kinds)
        raise UsageError(f"the files hold memory of several kinds: {shown}", remedy="Choose one with --device and --software.")
    return held_memory(files, *kinds[0]) if kinds else None


def _usable(case: Case) -> bool:
    """Whether a row is for fitting: not one that its table keeps for the report, nor one over measured stages."""
    return not case.measured_stages and case.row.text("use") != "report"


def _told(reading: Reading) -> list[str]:
    name = reading.table.name
    lines = [f"{name}: {reading.layout}, {len(reading.cases)} of {len(reading.table.rows)} rows can be priced"]
    return lines + [f"    {line}" for line in reading.told()]


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
