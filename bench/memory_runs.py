"""Write `bench/data/memory_runs.csv` from a folder of measured tables, and fit the memory model's constants to it.

    python bench/memory_runs.py --data DIR      # writes the table again
    python bench/memory_runs.py                 # fits, beside what the shipped sheets say

Cases of one configuration and device that were measured alike stand once, the largest of them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from planproof.calibration.memory import kind_of, predictions_of
from planproof.calibration.memory_case import Case, read_table
from planproof.calibration.memory_fit import describe, fit_memory
from planproof.calibration.memory_runs import write_runs

TABLE = Path(__file__).parent / "data" / "memory_runs.csv"
#: Where a row of each kind is published, by the word that its own source column begins with.
SOURCES = {
    "mcore-ci": "golden values of the functional tests, github.com/NVIDIA/Megatron-LM",
    "GPT meg": "logs of experiments/gpt2-meg, github.com/bigscience-workshop/bigscience",
    "BigScience": "train/tr11-176B-ml/chronicles-prequel.md, github.com/bigscience-workshop/bigscience",
    "llama3": "docs/b200/b200_release_v1.2_summary.json, github.com/MooreThreads/SimuMax@4dcaae5",
    "deepseek": "docs/b200/b200_release_v1.2_summary.json, github.com/MooreThreads/SimuMax@4dcaae5",
}


def source_of(case: Case) -> str:
    """The public source of a case, by its group."""
    return next(source for start, source in SOURCES.items() if case.group.startswith(start))


def distinct(cases: list[Case]) -> list[Case]:
    """One case a configuration: the one that needed most."""
    found: dict[object, Case] = {}
    for case in cases:
        key = (
            case.group, case.device.name, case.model, case.workload, case.plan.identity, case.implementation, case.stages,
            tuple(sorted(case.measured)),
        )  # fmt: skip
        if key not in found or sum(case.measured.values()) > sum(found[key].measured.values()):
            found[key] = case
    return list(found.values())


def main() -> int:
    """Write or fit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, help="folder of measured tables")
    folder = parser.parse_args().data
    if folder is not None:
        if not folder.is_dir():
            print(f"--data {folder} is no folder", file=sys.stderr)
            return 2
        cases: list[Case] = []
        for path in sorted(folder.glob("*.csv")):
            table = read_table(path)
            kind = kind_of(table.columns) if table else None
            if kind is not None:
                cases += [one.case for one in predictions_of(path) if one.case.ran and one.case.declared]
        TABLE.write_text(write_runs((source_of(case), case) for case in distinct(cases)), encoding="utf-8")
        print(f"{TABLE}: {len(distinct(cases))} rows")
    for constant in fit_memory(predictions_of(TABLE)):
        print(describe(constant))
    return 0


if __name__ == "__main__":
    sys.exit(main())
