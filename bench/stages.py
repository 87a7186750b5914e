"""CPU seconds of the stage solver on generated profiles: 96 layers on 128 devices, and 96 blocks on 16,384.

    python bench/stages.py [--only KIND]... [--json]

A profile has the shape of a transformer's: work by layer, an efficiency that falls with the devices of a stage, states and
activations in flight that limit the later stages. Kinds, with what is to be reached:

* `free`: memory for every plan, 0.2 s;
* `tight`: memory from the least with which a plan exists upwards, 1 s;
* `transfers`: the same memories, with a transfer by boundary and by the pair of submesh and configuration, 2.5 s;
* `blocks`: 96 blocks, the first and last with more work and state, on 16,384 devices in submeshes of 1 to 16,384, 5 s.

Memory is a multiple of the least (found by bisection). Every row is proven optimal by the solver, or says that it is not.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from math import inf
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from planproof.search.stages import StagePlan, solve_stages

Floats = NDArray[np.float64]
REACH = {"free": 0.2, "tight": 1.0, "transfers": 2.5, "blocks": 5.0}
LAYERS, DEVICES, BLOCK_DEVICES = 96, 128, 16_384
#: Memory as multiples of the least.
MEMORIES = (1.0, 1.02, 1.1, 1.3, 1.6, 2.0, 4.0)
MICROBATCHES = (16, 64, 256)


@dataclass(frozen=True, slots=True)
class Row:
    kind: str
    memory: float
    microbatches: int
    stages: int
    objective: float
    solves: int
    proven: bool
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Profile:
    """What a stage of layers i..j costs and holds on every submesh: [L, L] spans of work and state."""

    sizes: NDArray[np.int64]
    work: Floats
    state: Floats
    latency: float

    @property
    def least_memory(self) -> float:
        """The least memory with which some plan exists, within 0.1 %."""
        low, high = 0.0, 4 * float(self.state[0, -1])
        while high - low > 1e-3 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.solve(middle, 1).objective < inf else (middle, high)
        return high

    def arrays(self, memory: float) -> tuple[Floats, Floats]:
        """`compute_cost` and `max_n_succ_stages`, two configurations: states whole, or halved for 7 % of time."""
        n, shards = self.sizes[:, None], np.array([1.0, 2.0])
        span, state = self.work[:, :, None, None], self.state[:, :, None, None]
        cost = span / n * (1 + 0.25 * np.log2(n)) * (1 + 0.07 * (shards - 1)) + self.latency
        some = np.isfinite(state)
        held = np.where(some, state, 1.0)
        later = np.floor((memory - held / (n**0.5 * shards)) / (0.6 * held / n)) - 1
        return cost, np.where(some, np.clip(later, -1, 999), -1)

    def solve(self, memory: float, microbatches: int, transfer: Floats | None = None) -> StagePlan:
        """The best plan; devices may not be left idle."""
        cost, later = self.arrays(memory)
        devices = DEVICES if int(self.sizes.max()) < BLOCK_DEVICES else BLOCK_DEVICES
        return solve_stages(cost, later, self.sizes, devices, microbatches, transfer_cost=transfer)


def spans(values: Floats) -> Floats:
    """[first, last] sums; inf where last < first."""
    ends = np.concatenate([[0.0], np.cumsum(values)])
    layer = np.arange(values.size)
    return np.where(layer[:, None] <= layer, ends[None, 1:] - ends[:-1, None], inf)


def by_layer(seed: int) -> Profile:
    """Layers that differ, submeshes of 1 to 16 devices."""
    rng = np.random.default_rng(seed)
    work, state = (spans(rng.lognormal(0, 0.2, LAYERS)) for _ in range(2))
    return Profile(np.array([1, 2, 4, 8, 16]), work, state, 0.02)


def by_block() -> Profile:
    """Blocks that are alike between a first and a last one."""
    work, state = np.ones(LAYERS), np.ones(LAYERS)
    work[0], work[-1], state[0], state[-1] = 1.2, 2.5, 2.0, 2.0
    return Profile(2 ** np.arange(15), spans(work), spans(state), 0.02)


def transfers(seed: int, pairs: int) -> Floats:
    """[L - 1, Q, Q] around a tenth of a layer on one device: larger where the pair differs."""
    rng = np.random.default_rng(seed)
    by_pair = 1 + 0.5 * rng.random((pairs, pairs)) * (1 - np.eye(pairs))
    return np.asarray(0.1 * rng.lognormal(0, 0.2, LAYERS - 1)[:, None, None] * by_pair)


def rows(kind: str) -> list[Row]:
    profile = by_block() if kind == "blocks" else by_layer(LAYERS)
    least = profile.least_memory
    transfer = transfers(LAYERS, 2 * profile.sizes.size) if kind == "transfers" else None
    found = []
    for memory in MEMORIES if kind != "free" else (100.0,):
        for microbatches in MICROBATCHES:
            begin = process_time()
            plan = profile.solve(memory * least, microbatches, transfer)
            spent = process_time() - begin
            found.append(
                Row(kind, memory, microbatches, len(plan.stages), plan.objective, plan.solves, plan.proven, round(spent, 3))
            )
            print(line(found[-1]), file=sys.stderr, flush=True)
    return found


def line(row: Row) -> str:
    return (
        f"{row.kind:10} memory {row.memory:6.2f} x least {row.microbatches:4} microbatches {row.stages:3} stages "
        f"{row.objective:14.6f} {row.solves:4} solves {row.cpu_s:8.3f} s  {'proven' if row.proven else 'NOT PROVEN'}"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="CPU seconds of the stage solver on generated profiles.")
    parser.add_argument("--only", action="append", choices=list(REACH), help="one kind; may be given again")
    parser.add_argument("--json", action="store_true", help="a JSON summary instead of the table")
    options = parser.parse_args(arguments)
    summary: dict[str, Any] = {}
    for kind in options.only or REACH:
        found = rows(kind)
        summary[kind] = {
            "reach_cpu_s": REACH[kind],
            "worst_cpu_s": max(row.cpu_s for row in found),
            "within": sum(row.cpu_s <= REACH[kind] for row in found),
            "rows": [asdict(row) for row in found],
        }
    if options.json:
        print(json.dumps(summary, indent=2))
    else:
        for kind, one in summary.items():
            print(
                f"{kind:10} worst {one['worst_cpu_s']:.3f} s of CPU (reach {one['reach_cpu_s']}), "
                f"{one['within']} of {len(one['rows'])} within"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
