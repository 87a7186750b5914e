"""Reach of the operator search: method, width, bound, gap and CPU seconds of each case beside its target.

    python bench/operators.py [--data DIR] [--only WORD] [--json]

The graphs of models are built here, on nodes of eight A100 with NVLink that are joined at 25 GB/s a device; solver inputs are
made here from a fixed seed, and with `--data` (a folder as for `bench/solvers.py`) those of `ilp_*.npz` are run as well, at
budgets between the least peak that any choice has and the peak of the best choice without one. CPU seconds are one run each,
the import of scipy and numpy counted apart. A case above its target, with a gap above what it may leave (none, but where
`MAY_LEAVE` says so), or with no plan ends with status 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from planproof.cluster.cluster import Cluster, Nodes, Tier
from planproof.cost.device_mesh import DeviceMesh, MeshAxis, device_mesh
from planproof.cost.operator_cost import Terms
from planproof.hardware import load_node
from planproof.model import Optimizer, Precision, Transformer, Workload
from planproof.model.builders import Shape, transformer_graph
from planproof.model.transformer import MixtureOfExperts
from planproof.model.workload import Attention
from planproof.quantity import Dimension, Grade, Provenance, Quantity
from planproof.search.budget import scipy_optimize
from planproof.search.operator_search import search_operators
from planproof.search.operators import solve_operators
from solvers import arrays, operator_input

WORK = Workload(2048, 64, Precision("bf16", "fp32", "fp32", "fp32"), Optimizer("adam", 2, fused=True), Attention.FLASH)
GPT3 = Transformer(
    layers=96, hidden=12288, heads=96, kv_heads=96, head_dim=128, ffn=49152, vocabulary=51200, gated=False,
    tied_embeddings=True, norm="layer", learned_positions=2048, attention_bias=True, output_bias=True, mlp_bias=True,
)  # fmt: skip
LLAMA = Transformer(
    layers=32, hidden=4096, heads=32, kv_heads=8, head_dim=128, ffn=14336, vocabulary=128256, gated=True,
    tied_embeddings=False, norm="rms",
)  # fmt: skip
MIXTRAL = replace(LLAMA, vocabulary=32000, moe=MixtureOfExperts(experts=8, top_k=2, ffn=14336))


@dataclass(frozen=True, slots=True)
class Row:
    """One case. `target_s`: CPU seconds that it is to take; None where none is set. `may_leave`: the proven gap that will do."""

    case: str
    objective: float
    method: str
    width: int
    lower_bound: float
    gap: float
    cpu_s: float
    target_s: float | None
    may_leave: float = 0.0

    @property
    def misses(self) -> str:
        """What is not as it should be."""
        if self.objective == inf:
            return "no plan"
        if self.gap > self.may_leave + 1e-9:
            return f"gap {self.gap:.2%}"
        return "above the target" if self.target_s is not None and self.cpu_s > self.target_s else ""


Case = tuple[str, float | None, Callable[[], Any]]
#: Made cases that end with a bound and a proven gap, when their time is up.
MAY_LEAVE = {"500 operators, a budget at each time": 0.01, "500 operators, lives of 12, random bytes": 0.02}


def cluster(nodes: int) -> Cluster:
    """Nodes of eight A100, joined at 25 GB/s a device."""
    sheet = load_node("dgx_a100")
    tiers = [Tier(one.name, one.kind.value, one.island, one.bandwidth, one.latency) for one in sheet.links]
    given = Provenance(Grade.ASSUMED, "a benchmark")
    rate, latency = Quantity(25e9, Dimension.BANDWIDTH, given), Quantity(5e-6, Dimension.TIME, given)
    return Cluster((Nodes(nodes, sheet),), (*tiers, Tier("fabric", "fabric", 8 * nodes, rate, latency)))


def mesh(*axes: tuple[str, int, int]) -> DeviceMesh:
    """Axes of (name, size, stride)."""
    return device_mesh(tuple(MeshAxis(*axis) for axis in axes))


def models() -> Iterator[Case]:
    """Blocks of models on meshes of two and three axes whose layouts are all free."""
    two, three = mesh(("data", 8, 8), ("tensor", 8, 1)), mesh(("a", 4, 16), ("b", 4, 4), ("c", 4, 1))
    there = cluster(8)

    def case(model: Transformer, shape: Shape, axes: DeviceMesh, layers: tuple[int, int], ends: bool, **options: Any) -> Any:
        graph = transformer_graph(model, shape, layers=layers, embedding=ends, head=ends)
        return lambda: search_operators(graph, axes, WORK, there, terms=Terms(16), **options)

    block, few = Shape(8, 2048), Shape(16, 4096)
    yield "GPT-3 block, 8 x 8", 0.1, case(GPT3, block, two, (0, 0), False, next_best=False)
    yield "GPT-3 block, 8 x 8, next best of each", None, case(GPT3, block, two, (0, 0), False)
    yield "GPT-3, 96 layers and ends, 8 x 8", None, case(GPT3, block, two, (0, 95), True)
    yield "Llama-3 8B, 32 layers and ends, 8 x 8", None, case(LLAMA, few, two, (0, 31), True)
    yield "Llama-3 8B, 32 layers, 8 x 8, 3 GB", None, case(LLAMA, few, two, (0, 31), True, budget=12e9)
    yield "GPT-3 block, 4 x 4 x 4", None, case(GPT3, block, three, (0, 0), False)
    yield "Llama-3 2 layers and ends, 4 x 4 x 4", None, case(LLAMA, few, three, (0, 1), True)
    yield "the same, 40 GB", 8.0, case(LLAMA, few, three, (0, 1), True, budget=40e9)
    yield "the same, 4 GB (binds)", 8.0, case(LLAMA, few, three, (0, 1), True, budget=4e9)
    yield "Mixtral 2 layers and ends, 4 x 4 x 4", None, case(MIXTRAL, few, three, (0, 1), True, next_best=False)
    yield "the same, 4 GB (binds)", None, case(MIXTRAL, few, three, (0, 1), True, next_best=False, budget=4e9)


def chain(count: int, strategies: int, seed: int = 0) -> dict[str, Any]:
    """Operators in a row, every second one joined to the one after the next: width 2; memory that trades against cost."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, strategies + 1, count)
    edges = [(i, i + 1) for i in range(count - 1)] + [(i, i + 2) for i in range(0, count - 2, 2)]
    costs = [rng.random(n) for n in sizes]
    return {
        "node_costs": costs,
        "edges": edges,
        "edge_costs": [rng.random((sizes[i], sizes[j])) for i, j in edges],
        "memory": [1.5 - one + 0.3 * rng.random(one.size) for one in costs],
        "alive": [range(t, min(t + 12, count)) for t in range(0, count, 4)],
    }


def layers(count: int, strategies: int, seed: int = 1) -> dict[str, Any]:
    """The same row with tensors of different sizes, which both cost and memory follow, a third of them with the strategy of the
    one before, each alive for a third of the time: like what a compiler hands to its solver.
    """
    rng = np.random.default_rng(seed)
    found = chain(count, strategies, seed)
    size = rng.lognormal(0.0, 1.0, count)
    lead = [-1] * count
    for i in range(1, count):
        if rng.random() < 1 / 3 and found["node_costs"][i].size == found["node_costs"][i - 1].size:
            lead[i] = i - 1
    found["follow"] = lead
    found["node_costs"] = [one * n for one, n in zip(found["node_costs"], size, strict=True)]
    found["edge_costs"] = [one * size[i] for (i, _), one in zip(found["edges"], found["edge_costs"], strict=True)]
    found["memory"] = [n * (0.2 + rng.random(one.size)) for one, n in zip(found["node_costs"], size, strict=True)]
    found["alive"] = [range(t, min(t + count // 3, count)) for t in range(0, count, 2)]
    return found


def peaks(given: dict[str, Any], choice: tuple[int, ...] | None) -> np.ndarray:
    """Bytes at each time, of a choice or (None) of the smallest strategies."""
    held = [one.min() if choice is None else one[choice[i]] for i, one in enumerate(given["memory"])]
    return np.array([sum(held[i] for i in row) for row in given["alive"]])


def budgeted(given: dict[str, Any], share: float) -> Callable[[], Any]:
    """At `share` of the way from the least peak that any choice has to the peak of the best choice without a budget."""
    free = solve_operators(**{key: one for key, one in given.items() if key not in ("memory", "alive", "budget")})
    least, top = peaks(given, None).max(), peaks(given, free.choice).max()
    limited = {**given, "budget": least + share * (top - least)}
    return lambda: solve_operators(**limited)


def by_time(given: dict[str, Any], share: float) -> Callable[[], Any]:
    """A budget of its own at each time, between what its smallest strategies and what the best choice without one hold."""
    free = solve_operators(**{key: one for key, one in given.items() if key not in ("memory", "alive")})
    least, top = peaks(given, None), peaks(given, free.choice)
    waves = share * (1 + 0.3 * np.sin(np.arange(least.size)))
    limited = {**given, "budget": least + waves * (top - least)}
    return lambda: solve_operators(**limited)


def made() -> Iterator[Case]:
    """Solver inputs made here."""
    thousand = chain(1000, 28)
    free = {key: one for key, one in thousand.items() if key not in ("memory", "alive")}
    yield "1,000 operators", 0.2, lambda: solve_operators(**free)
    yield "500 operators, a budget at each time", None, by_time(layers(500, 12), 0.7)
    yield "500 operators, lives of 12, random bytes", None, budgeted(chain(500, 6), 0.6)


def given(folder: Path) -> Iterator[Case]:
    """Solver inputs of a folder."""
    for name, target in (("spec-1000-0", 0.2), ("foll-500-0", None)):
        path = folder / f"ilp_{name}.npz"
        if path.exists():
            inputs = operator_input(arrays(path))
            yield f"{name}, no budget", target, lambda inputs=inputs: solve_operators(**inputs)
    for name, share in (("foll-500-0", 0.6), ("foll-500-0", 0.3), ("foll-500-0", 0.1), ("spec-200-0", 0.6), ("spec-200-0", 0.3)):
        path = folder / f"ilp_{name}.npz"
        if path.exists():
            data = arrays(path)
            inputs, count = operator_input(data), int(data["N"])
            ends = np.cumsum([int(n) for n in data["s_len"]])[:-1]
            inputs["memory"] = np.split(data["m"].astype(float), ends)
            inputs["alive"] = np.split(data["L"][count:], np.cumsum(data["L"][:count])[:-1])
            yield f"{name}, budget by time, {share:.0%}", 8.0, budgeted(inputs, share)


def run(case: Case) -> Row:
    name, target, work = case
    begin = process_time()
    found = work()
    spent = process_time() - begin
    objective, lower = float(found.objective), float(found.lower_bound)
    gap = 0.0 if objective in (inf, 0.0) or lower == objective else max(0.0, (objective - lower) / abs(objective))
    return Row(name, objective, found.method, found.width, lower, gap, round(spent, 3), target, MAY_LEAVE.get(name, 0.0))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Reach of the operator search.")
    parser.add_argument("--data", type=Path, help="folder with ilp*.npz")
    parser.add_argument("--only", default="", help="cases whose name holds this word")
    parser.add_argument("--json", action="store_true", help="a JSON summary instead of the table")
    options = parser.parse_args(arguments)
    if options.data is not None and not list(options.data.glob("ilp*.npz")):
        parser.error(f"--data {options.data}: no ilp*.npz in it; name a folder that holds some, or leave it out")
    scipy_optimize()
    rows: list[Row] = []
    for cases in (made(), models(), given(options.data) if options.data else iter(())):
        for case in cases:
            if options.only and options.only not in case[0]:
                continue
            row = run(case)
            rows.append(row)
            if not options.json:
                target = "-" if row.target_s is None else f"{row.target_s:g} s"
                print(
                    f"{row.case:40} {row.objective:14.6f} bound {row.lower_bound:14.6f} gap {row.gap:.1e} width {row.width} "
                    f"{row.method:15} {row.cpu_s:8.3f} s of {target:6} {row.misses}", flush=True,
                )  # fmt: skip
    if not rows:
        parser.error(f"no case is called '{options.only}'")
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    return 1 if any(row.misses for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
