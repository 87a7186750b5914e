"""Measured memory against the product's own ledger: any table whose columns are known, one report a file.

`python -m planproof.calibration.memory FILE...` prints rows used and left out with the reason, errors, interval coverage and the
confusion table of what fits. Kinds are recognised by their columns, never by the file's name.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from ..cost.memory import MemoryModel
from . import memory_bigscience, memory_megatron, memory_profiles, memory_runs, memory_simumax
from .memory_case import Case, Kind, LeftOut, Prediction, Quantity, predict, read_table
from .memory_fit import describe, fit_memory
from .memory_folds import MemoryFolds

KINDS: tuple[Kind, ...] = (
    memory_megatron.KIND, memory_bigscience.RANKS, memory_bigscience.SWEEPS, memory_profiles.MIST, memory_simumax.KIND,
    memory_profiles.METIS, memory_profiles.GALVATRON, memory_runs.KIND,
)  # fmt: skip
#: The quantity that stands for a file: the first of these that it holds.
_QUANTITIES: tuple[Quantity, ...] = ("allocated", "device", "reserved")
#: Two predictions of a row that leaves something open agree within this.
_AGREE = 1e-6


def memory_report(path: str | Path, folds: MemoryFolds | None = None) -> dict[str, Any] | None:
    """What the file at `path` shows of the ledger, or None where it holds no memory of a kind that is known.

    `rows`, `used`, `left_out` (reason: rows), `memory` (of rows whose recipe is declared: the errors of the quantity that the
    file holds), `oom`; `undeclared`, `quantities`, `families`, `worst`, `folded` and `problems` are the detail. With `folds`,
    rows that the shipped constants were fitted to are priced by a fit without their group; `folded` says how many.
    """
    table = read_table(path)
    kind = kind_of(table.columns) if table is not None else None
    if table is None or kind is None:
        return None
    predictions, left_out, problems, rows = _predict(kind, kind.cases(table), folds)
    if not rows:
        return None
    declared = [one for one in predictions if one.case.declared]
    undeclared = [one for one in predictions if not one.case.declared]
    for one in undeclared:
        left_out[f"not declared, so predicted both ways: {one.case.missing}"] += 1
    held = [q for q in _QUANTITIES if any(q in one.case.measured for one in declared)]
    return {
        "kind": kind.name,
        "rows": rows,
        "used": len({one.case.line for one in declared}),
        "left_out": dict(left_out),
        "memory": _figures(declared, held[0]) if held else None,
        "oom": _confusion(predictions),
        "quantities": {q: _figures(declared, q) for q in held},
        "families": {
            family: {q: _figures(these, q) for q in held if any(q in one.case.measured for one in these)}
            for family, these in _by(declared, "family").items()
        },
        "undeclared": _undeclared(undeclared),
        "worst": _worst(declared, held[0]) if held else [],
        "problems": problems,
        "folded": sum(folds is not None and one.case.group in folds.groups for one in declared),
    }


def told(name: str, report: Mapping[str, Any]) -> list[str]:
    """Each reason of a report with how many rows it left out, and where the first of them stands, in the file `name`."""
    first: dict[str, str] = {}
    for one in report["problems"]:
        first.setdefault(one["reason"], f" (first: {name}, line {one['row']}, column '{one['column']}': {one['value']!r})")
    return [f"{count} left out: {reason}{first.get(reason, '')}" for reason, count in sorted(report["left_out"].items())]


def kind_of(columns: Iterable[str]) -> Kind | None:
    """The first kind whose columns are all there."""
    here = frozenset(columns)
    return next((kind for kind in KINDS if kind.signature <= here), None)


def predictions_of(path: str | Path) -> list[Prediction]:
    """Every case of a file, priced: what fits and intervals are made from."""
    table = read_table(path)
    kind = kind_of(table.columns) if table is not None else None
    return _predict(kind, kind.cases(table))[0] if table is not None and kind is not None else []


def _predict(
    kind: Kind, cases: Iterable[tuple[int, list[Case] | LeftOut]], folds: MemoryFolds | None = None
) -> tuple[list[Prediction], Counter[str], list[dict[str, Any]], int]:
    shared: dict[object, MemoryModel] = {}
    found: list[Prediction] = []
    left_out: Counter[str] = Counter()
    problems: list[dict[str, Any]] = []
    rows = 0
    for line, entry in cases:
        rows += 1
        if isinstance(entry, LeftOut):
            left_out[entry.reason] += 1
            problems.append({"row": line, "column": entry.column, "value": entry.value[:80], "reason": entry.reason})
            continue
        priced = [_priced(case, shared, folds) for case in entry]
        several = kind.alternatives and len(priced) > 1
        found += [_both_ways(priced)] if several else priced
    return found, left_out, problems, rows


def _priced(case: Case, shared: dict[object, MemoryModel], folds: MemoryFolds | None) -> Prediction:
    if folds is None or case.group not in folds.groups:
        return predict(case, shared)
    return predict(case, shared, sheet=folds.sheet(case.device, case.group), residuals=folds.residuals(case.group))


def _both_ways(priced: Sequence[Prediction]) -> Prediction:
    """Of several ways to read one row the larger, with an interval that reaches down to the smallest.

    Ways that agree are one: nothing that decides was left open.
    """
    largest = max(priced, key=lambda one: one.memory.allocated.value)
    smallest = min(priced, key=lambda one: one.memory.allocated.value)
    if largest.memory.allocated.value <= smallest.memory.allocated.value * (1 + _AGREE):
        case = priced[0].case
        kept = ", ".join(name for name in case.missing.split(", ") if name == "attention kernel")
        return replace(priced[0], case=replace(case, missing=kept))
    memory = replace(
        largest.memory,
        allocated=replace(largest.memory.allocated, low=smallest.memory.allocated.low),
        reserved=replace(largest.memory.reserved, low=smallest.memory.reserved.low),
        device=replace(largest.memory.device, low=smallest.memory.device.low),
    )
    fit = largest.fit if largest.fit == smallest.fit else "at_risk"
    return replace(largest, case=replace(largest.case, declared=False), memory=memory, fit=fit)


def _by(predictions: Sequence[Prediction], name: str) -> dict[str, list[Prediction]]:
    found: dict[str, list[Prediction]] = {}
    for one in predictions:
        found.setdefault(getattr(one.case, name), []).append(one)
    return found


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of `values` do not pass."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]


def _figures(predictions: Sequence[Prediction], quantity: Quantity) -> dict[str, Any]:
    """Errors as fractions. `width`: median half-width of the interval over its value."""
    these = [one for one in predictions if quantity in one.case.measured]
    errors = [one.error(quantity) for one in these]
    size = [abs(error) for error in errors]
    estimates = [one.estimate(quantity) for one in these]
    return {
        "quantity": quantity,
        "cases": len(these),
        "groups": len({one.case.group for one in these}),
        "mape": fmean(size),
        "median": median(size),
        "p95": percentile(size, 0.95),
        "bias": fmean(errors),
        "max": max(size),
        "coverage": fmean(one.covered(quantity) for one in these),
        "width": median((estimate.high - estimate.low) / 2 / estimate.value for estimate in estimates),
    }


def _confusion(predictions: Sequence[Prediction]) -> dict[str, int] | None:
    """Out of memory, predicted (`no`, or not surely `yes`) against what happened.

    A positive is an out of memory. Predicted is `no` for a run that ran, anything but `yes` for one that did not: called
    infeasible though it ran, or called feasible though it did not. `at_risk` counts the runs in between.
    """
    if not predictions:
        return None
    ran = [one for one in predictions if one.case.ran]
    out = [one for one in predictions if not one.case.ran]
    return {
        "true_positive": sum(one.fit != "yes" for one in out),
        "false_positive": sum(one.fit == "no" for one in ran),
        "true_negative": sum(one.fit != "no" for one in ran),
        "false_negative": sum(one.fit == "yes" for one in out),
        "at_risk": sum(one.fit == "at_risk" for one in predictions),
    }


def _undeclared(predictions: Sequence[Prediction]) -> dict[str, Any] | None:
    """Rows predicted both ways: how many lie inside the span, and how often the larger was not enough."""
    if not predictions:
        return None
    found = _figures(predictions, "allocated")
    under = sum(one.error("allocated") < -0.05 for one in predictions)
    return found | {"under_by_5_percent": under}


def _worst(predictions: Sequence[Prediction], quantity: Quantity) -> list[dict[str, Any]]:
    these = sorted((one for one in predictions if quantity in one.case.measured), key=lambda one: -abs(one.error(quantity)))
    return [{"row": one.case.line, "group": one.case.group, "error": one.error(quantity)} for one in these[:8]]


_SHARES = ("median", "p95", "mape", "bias", "max", "coverage", "width")


def _line(name: str, figures: Mapping[str, Any]) -> str:
    shares = " ".join(f"{key} {100 * figures[key]:6.2f} %" for key in _SHARES)
    return f"  {name:34s} {figures['cases']:4d} in {figures['groups']:3d} groups  {shares}"


def main(arguments: Sequence[str]) -> int:
    """Print the report of each file; 2 where none is named."""
    wanted = [argument for argument in arguments if argument not in ("--json", "--fit")]
    if not wanted:
        print("usage: python -m planproof.calibration.memory [--json | --fit] FILE...", file=sys.stderr)
        return 2
    if "--fit" in arguments:
        for constant in fit_memory(row for path in wanted for row in predictions_of(path)):
            print(describe(constant))
        return 0
    reports = {str(path): memory_report(path) for path in wanted}
    if "--json" in arguments:
        print(json.dumps(reports, indent=1))
        return 0
    for path, report in reports.items():
        if report is None:
            print(f"{path}: holds no memory of a kind that is known")
            continue
        print(f"{path}: {report['kind']}; {report['used']} of {report['rows']} rows used; oom {report['oom']}")
        for quantity, figures in report["quantities"].items():
            print(_line(quantity, figures))
        for family, quantities in report["families"].items():
            for quantity, figures in quantities.items():
                print(_line(f"{family}: {quantity}", figures))
        if report["undeclared"]:
            print(_line("undeclared, the larger", report["undeclared"]))
        for reason, rows in sorted(report["left_out"].items(), key=lambda item: -item[1]):
            print(f"  left out {rows:4d}: {reason}")
        for row in report["worst"]:
            print(f"  worst: line {row['row']} {100 * row['error']:+.1f} % {row['group']}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
