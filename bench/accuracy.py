"""Estimates of step time and memory beside measured runs, file by file.

    python bench/accuracy.py --data DIR [--json] [--rows] [--unseen] [--hardware DIR]

DIR holds CSV files of measured runs; what a file is shows in its columns. For each file: rows, how many were used and how many
left out for which reason; mean, median and largest error of step time and of memory, bias, the share of rows inside their 90 %
interval and its median half-width; rank correlation and regret of the plan ranked first, within sweeps; out-of-memory as a
table of four. A quantity that a file does not hold is null. Errors are (predicted - measured) / measured, all figures
fractions.

Rows that a shipped calibration was fitted to (those of `bench/data/step_times.csv` with `use` fit, and of
`bench/data/memory_runs.csv`) are priced by a fit without the row's group; how many that were is printed. All others are priced
as a proposal would be. `memory` is of rows whose recipe is declared; those that leave the attention kernel or the device open
are predicted both ways, told apart, and count in `oom`, where the larger decides.
`--unseen`: every device family as if none of its runs were known: priced from its data sheet, one measured network rate, and what
other architectures' runs say of the software, or another device's sheet where they say nothing.
`--json`: {"files": {NAME: {"rows", "used", "left_out": {reason: count}, "step_time", "memory", "ranking", "oom"}}};
reasons of the memory half begin with "memory: ".
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from statistics import mean

from planproof.calibration.kinds import read_cases
from planproof.calibration.memory import memory_report, predictions_of
from planproof.calibration.memory import told as told_left_out
from planproof.calibration.memory_folds import MemoryFolds
from planproof.calibration.metrics import Point, binomial_holds, errors_of
from planproof.calibration.report import Estimator, Ratios, TimeReport, label, time_report
from planproof.errors import DataError
from planproof.hardware import open_library

RUNS = Path(__file__).parent / "data" / "step_times.csv"
MEMORY_RUNS = Path(__file__).parent / "data" / "memory_runs.csv"
ERRORS = ("mape", "median", "bias", "max", "coverage", "width")
CONFUSION = ("true_positive", "false_positive", "true_negative", "false_negative")


def summary(report: TimeReport, memory: dict | None) -> dict:
    """One file in the form of --json."""
    left = Counter(report.reading.reasons)
    used = report.used
    if memory is not None:
        left.update({f"memory: {reason}": count for reason, count in memory["left_out"].items()})
        used = max(used, memory["used"])
    ranked = [sweep.spearman for sweep in report.sweeps if sweep.spearman is not None]
    return {
        "rows": len(report.reading.table.rows),
        "used": used,
        "left_out": dict(left),
        "step_time": report.step_time.to_json() if report.step_time else None,
        "memory": {name: round(memory["memory"][name], 5) for name in ERRORS} if memory and memory["memory"] else None,
        "ranking": {
            "spearman": round(mean(ranked), 4) if ranked else None,
            "regret": round(max(sweep.regret for sweep in report.sweeps), 4),
        }
        if report.sweeps
        else None,
        "oom": {name: memory["oom"][name] for name in CONFUSION} if memory and memory["oom"] else None,
    }


def told(report: TimeReport, found: dict, memory: dict | None, rows: bool) -> None:
    """One file in words."""
    print(f"{report.reading.table.name}: {report.reading.layout}, {found['used']} of {found['rows']} rows used")
    for line in report.reading.told():
        print(f"    {line}")
    if memory is not None:
        for line in told_left_out(report.reading.table.name, memory):
            print(f"    memory: {line}")
    if report.folded:
        print(f"    {report.folded} rows priced by fits that did not see their group")
    for name, count, errors in report.groups:
        interval = f", {errors.coverage:.0%} inside +-{errors.width:.1%}" if errors.coverage is not None else ""
        print(
            f"    step time, {name}: {count} rows, mean error {errors.mape:.1%}, median {errors.median:.1%}, "
            f"bias {errors.bias:+.1%}, worst {errors.max:.1%}{interval}"
        )
    worst = sorted(report.points, key=lambda one: -abs(one[1].error))[: None if rows else 5]
    if worst:
        print("    " + ("rows" if rows else "worst rows") + ": " + ", ".join(f"line {p.line} {p.error:+.1%}" for _, p in worst))
    for sweep in report.sweeps:
        noise = f", one plan, repeated or with another batch, differs by {sweep.noise:.1%}" if sweep.noise is not None else ""
        rank = f"{sweep.spearman:.2f}" if sweep.spearman is not None else "none"
        print(f"    sweep {sweep.name}: {sweep.rows} plans, rank correlation {rank}, regret {sweep.regret:.1%}{noise}")
    if report.ratios is not None:
        told_ratios(report.ratios)
    if memory is not None:
        told_memory(memory)
    if rows:
        for _, rejected in report.reading.left_out:
            print(f"    {rejected.reason}: {rejected.detail}")
        for one in memory["problems"] if memory is not None else ():
            print(f"    memory: {one['reason']}: line {one['row']}, column '{one['column']}': {one['value']!r}")


def told_ratios(found: Ratios) -> None:
    """Pairs of plans inside sweeps."""
    holds = "holds" if binomial_holds(found.inside, found.pairs) else "does not hold"
    print(
        f"    ratios of two plans of a sweep: {found.pairs} pairs, {found.inside} inside +-{found.width:.1%} ({holds} 90 %); "
        f"{found.told} of {found.different} that differ by 5 % or more told apart, {found.wrong} the wrong way; of those 5 to "
        f"10 % apart {found.close_told} of {found.close}"
    )


def told_memory(memory: dict) -> None:
    """The memory half of a file, quantity by quantity and family by family."""
    if memory["folded"]:
        print(f"    memory: {memory['folded']} cases priced by constants that did not see their group")
    kinds = [(f"{family}, {name}", one) for family, rows in memory["families"].items() for name, one in rows.items()]
    if memory["undeclared"]:
        kinds.append(("not declared, the larger of both ways, allocated", memory["undeclared"]))
    for name, one in kinds:
        print(
            f"    memory, {name}: {one['cases']} cases in {one['groups']} groups, median error {one['median']:.1%}, "
            f"95 % {one['p95']:.1%}, bias {one['bias']:+.1%}, worst {one['max']:.1%}, {one['coverage']:.0%} inside "
            f"+-{one['width']:.1%}"
        )
    if memory["oom"]:
        oom = memory["oom"]
        print(
            f"    out of memory: {oom['true_positive']} foreseen, {oom['false_negative']} missed; of runs that ran "
            f"{oom['false_positive']} called infeasible, {oom['true_negative']} not; {oom['at_risk']} at risk"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", required=True, type=Path, help="a folder of CSV files")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--rows", action="store_true", help="every row's error, and every left-out row with its place")
    parser.add_argument("--unseen", action="store_true", help="each device family left out whole")
    parser.add_argument("--hardware", action="append", default=[], help="a folder of your own data sheets")
    options = parser.parse_args()
    if not options.data.is_dir():
        sys.exit(f"error: '{options.data}' is no folder")
    library = open_library(options.hardware)
    seen = [case for case in read_cases(RUNS, library).cases if case.row.text("use") == "fit"]
    folds = MemoryFolds(predictions_of(MEMORY_RUNS))
    files: dict[str, dict] = {}
    by_source: dict[str, list[Point]] = {}
    for path in sorted(options.data.glob("*.csv")):
        try:
            report = time_report(path, Estimator(library, [] if options.unseen else seen, unseen=options.unseen))
        except DataError as error:
            files[path.name] = dict.fromkeys(("step_time", "memory", "ranking", "oom")) | {
                "rows": 0, "used": 0, "left_out": {f"not a table: {error.message}": 0},
            }  # fmt: skip
            if not options.json:
                print(f"{path.name}: {error.message}")
            continue
        memory = memory_report(path, folds)
        found = files[path.name] = summary(report, memory)
        for case, point in report.points:
            if not case.measured_stages:
                by_source.setdefault(label(case), []).append(point)
        if not options.json:
            told(report, found, memory, options.rows)
    if options.json:
        print(json.dumps({"files": files}, indent=2))
        return
    if not files:
        print(f"no CSV file in {options.data}")
    print("sources:")
    every = [errors for rows in by_source.values() if (errors := errors_of(rows))]
    for name, rows in sorted(by_source.items()):
        errors = errors_of(rows)
        assert errors is not None
        inside = sum(p.low <= p.measured <= p.high for p in rows)
        holds = "holds" if binomial_holds(inside, len(rows)) else "does not hold"
        print(
            f"    {name}: {len(rows)} rows, mean error {errors.mape:.1%}, bias {errors.bias:+.1%}, worst {errors.max:.1%}, "
            f"{inside} inside +-{errors.width:.1%} ({holds} 90 %)"
        )
    if every:
        rows = [point for points in by_source.values() for point in points]
        inside = sum(p.low <= p.measured <= p.high for p in rows)
        held = "holds" if binomial_holds(inside, len(rows)) else "does not hold"
        print(
            f"mean of {len(every)} sources {mean(one.mape for one in every):.1%}, largest {max(one.mape for one in every):.1%}; "
            f"{inside} of {len(rows)} rows inside their interval ({held} 90 %)"
        )


if __name__ == "__main__":
    main()
