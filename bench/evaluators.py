"""Both rule evaluators over random rule sets and random facts, and count: sets judged, matches, disagreements, faults.

    python bench/evaluators.py [--sets N] [--seed S] [--jobs J] [--json]

A set is one rule set of up to 6 rules over one set of up to 12 facts (`tests/inference/random_cases.py`): joins, negation,
alternatives, parameters, awkward texts and numbers. Every 25 rule sets have a worker of their own, as a rule set keeps its memory
in the engine. The same seed and jobs draw the same sets. Exit status 1 with a disagreement or a fault, each with the seed of its
group, so that `--seed` and the group's number show it again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "inference"))

from agreement import compare
from random_cases import random_case

GROUP = 25


def run(share: tuple[int, int, int]) -> tuple[Counter[str], list[str]]:
    """A process's share of the sets, and what went wrong."""
    seed, job, wanted = share
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    while seen["sets"] < wanted:
        name = f"{seed}/{job}/{seen['groups']}"
        seen["groups"] += 1
        random = Random(name)
        cases = [random_case(random) for _ in range(GROUP)]
        try:
            compare(cases, seen)
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {error}")
            seen["sets"] += sum(len(case.fact_sets) for case in cases)
    return seen, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    started = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(chosen.jobs) as pool:
        results = pool.map(run, [(chosen.seed, job, chosen.sets // chosen.jobs) for job in range(chosen.jobs)])
    counts = sum((seen for seen, _ in results), Counter[str]())
    wrong = [one for _, rows in results for one in rows]
    found = {
        "seed": chosen.seed, "jobs": chosen.jobs, "seconds": round(time.perf_counter() - started, 1),
        **dict(sorted(counts.items())),
        "disagreements_or_faults": len(wrong),
    }  # fmt: skip
    print(json.dumps(found, indent=2) if chosen.json else "\n".join(f"{key}: {value}" for key, value in found.items()))
    for one in wrong[:20]:
        print(one[:1000], file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
