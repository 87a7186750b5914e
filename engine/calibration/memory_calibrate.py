"""Measured memory of files to the part of a calibration that says what a device holds beside tensors.

Fitted are the kernels' workspace and the allocator's reserve of one device under one software family; the ledger itself is
counted from shapes. Told are the constants, the rows, and the errors of groups that the fit did not see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .memory import memory_report, percentile, predictions_of, told
from .memory_case import Prediction, Quantity, predict
from .memory_fit import FittedConstant, describe, fit_memory
from .memory_folds import MemoryFolds

_QUANTITIES: tuple[Quantity, ...] = ("allocated", "reserved", "device")


@dataclass(frozen=True, slots=True)
class HeldMemory:
    """What the memory rows of one device and family gave. `errors`: (quantity, median, 95th percentile, largest) by groups left
    out; `constants` of the device alone.
    """

    device: str
    software: str
    lines: tuple[str, ...]
    constants: tuple[FittedConstant, ...]
    errors: tuple[tuple[str, float, float, float], ...]
    rows: int
    groups: int
    spans: tuple[tuple[str, int, int], ...]
    sources: tuple[str, ...]


def kinds_of(files: Sequence[Path]) -> set[tuple[str, str]]:
    """(device, software) of every memory row that can be fitted to."""
    return {(one.case.device.name, one.case.software) for path in files for one in predictions_of(path) if _usable(one)}


def held_memory(files: Sequence[Path], device: str, software: str) -> HeldMemory | None:
    """The memory rows of `device` under `software` in the files; None where there are none."""
    lines: list[str] = []
    rows: list[Prediction] = []
    for path in files:
        report = memory_report(path)
        if report is None:
            continue
        here = [one for one in predictions_of(path) if _usable(one)]
        rows += [one for one in here if (one.case.device.name, one.case.software) == (device, software)]
        lines.append(f"{path.name}: memory, {report['kind']}, {report['used']} of {report['rows']} rows are declared")
        lines += [f"    {line}" for line in told(path.name, report)]
    if not rows:
        return None
    constants = fit_memory(rows)
    groups = sorted({one.case.group for one in rows})
    lines.append(f"fitted memory: {device} under {software}, {len(rows)} ranks in {len(groups)} groups")
    lines += [f"    {describe(one)}" for one in constants]
    errors = _left_out(rows)
    for name, middle, high, most in errors:
        lines.append(f"    {name} of groups that the fit did not see: median {middle:.1%}, 95 % {high:.1%}, worst {most:.1%}")
    if len(groups) < 2:
        lines.append("    no group was left out: there is one alone, so nothing is known of new ones")
    spans = {
        "hidden": [one.case.model.hidden for one in rows],
        "sequence": [one.case.workload.sequence_length for one in rows],
        "tensor": [one.case.plan.mesh.tensor for one in rows],
        "devices": [one.case.plan.devices for one in rows],
    }
    own = tuple(one for one in constants if one.device == device)
    return HeldMemory(
        device, software, tuple(lines), own, tuple(errors), len(rows), len(groups),
        tuple((name, min(found), max(found)) for name, found in spans.items()), tuple(sorted({path.name for path in files})),
    )  # fmt: skip


def _usable(one: Prediction) -> bool:
    return one.case.declared and one.case.ran


def _left_out(rows: Sequence[Prediction]) -> list[tuple[str, float, float, float]]:
    """Errors of every quantity that rows hold, each row under constants that have not seen its group."""
    if len({one.case.group for one in rows}) < 2:
        return []
    folds = MemoryFolds(rows)
    again = [
        predict(one.case, sheet=folds.sheet(one.case.device, one.case.group), residuals=folds.residuals(one.case.group))
        for one in rows
    ]
    found: list[tuple[str, float, float, float]] = []
    for quantity in _QUANTITIES:
        sizes = [abs(one.error(quantity)) for one in again if quantity in one.case.measured]
        if sizes:
            found.append((quantity, percentile(sizes, 0.5), percentile(sizes, 0.95), max(sizes)))
    return found
