"""Speed and exactness of the inner solvers: one row for each `dp*.npz` and `ilp*.npz` of a folder.

    python bench/solvers.py --data DIR [--json]

A stage input holds `compute_cost`, `max_n_succ_stages` [L, L, M, C], `submesh_choices` [M, 2] (hosts, devices a
host), `num_devices` and `num_microbatches`. An operator input holds flat arrays: `s_len`, `s_follow` by operator;
`c`, `d`, `m` by strategy (compute, communication, memory); `E` with matrices `r` (edge costs), `A` with `v` (1
forbids the pair); `L` (lengths, then the operators alive at each time) and the budget `M` (0 or less: none). Known
optima are in `bench/data/solver_optima.csv`; a mismatch ends with exit status 1.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import inf, isclose, isfinite
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from planproof.search.operators import solve_operators
from planproof.search.stages import solve_stages

TOLERANCE = 1e-9
#: Optima are stated to nine decimals.
DECIMALS = 1e-9


@dataclass(frozen=True, slots=True)
class Row:
    input: str
    objective: float
    optimum: float | None
    matches: bool | None
    cpu_s: float
    method: str
    solves: int | None
    lower_bound: float | None
    proven: bool


def known_optima() -> dict[str, float]:
    with (Path(__file__).parent / "data" / "solver_optima.csv").open(newline="") as file:
        return {row["input"]: float(row["optimum"]) for row in csv.DictReader(file)}


def arrays(path: Path) -> dict[str, Any]:
    """Every array once: indexing an open archive decompresses again each time."""
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def stage_input(data: dict[str, Any]) -> dict[str, Any]:
    return {
        "compute_cost": data["compute_cost"],
        "max_n_succ_stages": data["max_n_succ_stages"],
        "devices_per_choice": data["submesh_choices"].prod(axis=1),
        "n_devices": int(data["num_devices"]),
        "n_microbatches": int(data["num_microbatches"]),
    }


def matrices(pairs: Any, flat: Any, sizes: list[int]) -> Iterable[tuple[tuple[int, int], Any]]:
    at = 0
    for i, j in pairs.reshape(-1, 2).tolist():
        length = sizes[i] * sizes[j]
        yield (i, j), flat[at : at + length].astype(float).reshape(sizes[i], sizes[j])
        at += length


def operator_input(data: dict[str, Any]) -> dict[str, Any]:
    count, sizes = int(data["N"]), [int(n) for n in data["s_len"]]
    ends = np.cumsum(sizes)[:-1]
    found = [*matrices(data["E"], data["r"], sizes)]
    found += [(pair, np.where(table > 0.5, inf, 0.0)) for pair, table in matrices(data["A"], data["v"], sizes)]
    given: dict[str, Any] = {
        "node_costs": np.split(data["c"].astype(float) + data["d"].astype(float), ends),
        "edges": [pair for pair, _ in found],
        "edge_costs": [table for _, table in found],
        "follow": [int(k) if k >= 0 else -1 for k in data["s_follow"]],
    }
    if float(data["M"]) > 0:
        alive = np.split(data["L"][count:], np.cumsum(data["L"][:count])[:-1])
        given |= {"memory": np.split(data["m"].astype(float), ends), "alive": alive, "budget": float(data["M"])}
    return given


def solve(path: Path, optimum: float | None) -> Row:
    data = arrays(path)
    if path.name.startswith("dp"):
        stages = stage_input(data)
        begin = process_time()
        plan = solve_stages(**stages)
        spent, method, solves, lower = process_time() - begin, "stages", plan.solves, None
        objective, proven = plan.objective, plan.proven
    else:
        given = operator_input(data)
        begin = process_time()
        chosen = solve_operators(**given)
        spent, method, solves, lower = process_time() - begin, chosen.method, None, chosen.lower_bound
        objective, proven = chosen.objective, chosen.proven
    matches = None if optimum is None else isclose(objective, optimum, rel_tol=TOLERANCE, abs_tol=DECIMALS)
    return Row(path.name, objective, optimum, matches, round(spent, 4), method, solves, lower, proven)


def finite(row: dict[str, Any]) -> dict[str, Any]:
    """JSON knows no infinity: null where there is no plan."""
    return {key: None if isinstance(value, float) and not isfinite(value) else value for key, value in row.items()}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Exactness and CPU seconds of the stage and operator solvers.")
    parser.add_argument("--data", type=Path, required=True, help="folder with dp*.npz and ilp*.npz")
    parser.add_argument("--json", action="store_true", help="a JSON summary instead of the table")
    options = parser.parse_args(arguments)
    paths = sorted([*options.data.glob("dp*.npz"), *options.data.glob("ilp*.npz")])
    if not paths:
        parser.error(f"--data {options.data}: no dp*.npz and no ilp*.npz in it; name a folder that holds some")
    optima = known_optima()
    rows: list[Row] = []
    for path in paths:
        rows.append(solve(path, optima.get(path.name)))
        if not options.json:
            row = rows[-1]
            reference = "-" if row.optimum is None else f"{row.optimum:.9f}"
            verdict = {None: "no reference", True: "exact", False: "MISMATCH"}[row.matches]
            proven = "proven" if row.proven else f"not proven, at least {row.lower_bound}"
            print(
                f"{row.input:28} {row.objective:16.9f} {reference:>16} {row.cpu_s:9.4f} s  "
                f"{row.method:16} {proven:8} {verdict}"
            )
    wrong = [row.input for row in rows if row.matches is False]
    summary = {
        "rows": [finite(asdict(row)) for row in rows],
        "inputs": len(rows),
        "compared": sum(row.matches is not None for row in rows),
        "mismatches": wrong,
        "proven": sum(row.proven for row in rows),
        "cpu_s": round(sum(row.cpu_s for row in rows), 4),
    }
    if options.json:
        print(json.dumps(summary, indent=2, allow_nan=False))
    else:
        print(
            f"{len(rows)} inputs, {summary['compared']} compared, {len(wrong)} mismatches, {summary['cpu_s']} s of CPU"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
