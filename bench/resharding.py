"""How far resharding plans stay from the broadcast bound, over random pairs of layouts, with the cause of every gap.

    python bench/resharding.py [--pairs N] [--seed N] [--machine NAME]... [--mib SIZE]... [--json]

Eight devices on two hosts send a tensor to eight on two hosts: hosts apart, one shared, or both. Layouts, device orders, dims and
sides are random. A plan may take 5 % over the bound and one latency a hop of its longest path. Each one beyond that gets a line:
size, layouts, ratio to the bound, and the cause that `planproof.search.resharding_gap` finds in its steps; then counts by cause.

Where more has to pass inside a host than over the cards, that is the bound. Exit status 1 where a plan for `LARGE` bytes and more
has a gap; there a plan may take one latency only, which no plan does without.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from math import ceil, prod
from time import process_time

import numpy as np
from planproof.search.resharding import ReshardingPlan, plan_resharding
from planproof.search.resharding_gap import TOLERATED
from planproof.search.resharding_time import Hosts
from planproof.search.resharding_units import Sharding, Tensor

MIB = 2**20
LARGE = 64 * MIB
#: Bytes of the tensors, in MiB.
SIZES = (2**-16, 2**-10, 2**-4, 1.0, 16.0, 64.0, 256.0)
MESHES = ((8,), (2, 4), (4, 2), (2, 2, 2))
PER_HOST = 4


@dataclass(frozen=True, slots=True)
class Machine:
    """Bytes/s of a host's card and of a device's local links, seconds of a message between hosts."""

    network: float
    local: float
    latency: float


#: p3.16xlarge: 25 Gbit/s a host, NVLink 150 GB/s a device. DGX A100 and H100: 25 and 50 GB/s for each of four devices.
#: slow-local: devices of a host that exchange slower than its card.
MACHINES = {
    "p3": Machine(3.125e9, 150e9, 20e-6),
    "dgx-a100": Machine(100e9, 300e9, 5e-6),
    "dgx-h100": Machine(200e9, 450e9, 5e-6),
    "slow-local": Machine(25e9, 12e9, 5e-6),
}
DEFAULT = ("p3", "dgx-a100", "dgx-h100")


@dataclass(frozen=True, slots=True)
class Row:
    """One gap. `ratio`: of the plan's time to the bound and one latency; `beyond`: to what the plan may take."""

    machine: str
    hosts: str
    bytes: int
    shape: tuple[int, ...]
    source: str
    destination: str
    strategy: str
    ratio: float
    beyond: float
    cause: str
    words: str


@dataclass(slots=True)
class Summary:
    """Of one size on one machine. `worst`: time to the bound and one latency, which no plan does without."""

    compared: int = 0
    worst: float = 0.0
    gaps: int = 0
    latency_needed: int = 0


def random_sharding(rng: np.random.Generator, dims: int, devices: list[int]) -> Sharding:
    """A mesh of the devices, three axes of four cutting some dim, the devices in random order once in three times."""
    mesh = MESHES[rng.integers(len(MESHES))]
    cut: list[list[int]] = [[] for _ in range(dims)]
    for axis in rng.permutation(len(mesh)):
        if rng.random() < 0.75:
            cut[rng.integers(dims)].append(int(axis))
    order = rng.permutation(len(devices)) if rng.random() < 0.3 else range(len(devices))
    return Sharding(mesh, tuple(devices[k] for k in order), tuple(tuple(axes) for axes in cut))


def random_tensor(rng: np.random.Generator, size: float) -> Tensor:
    """One to three dims of sides that are seldom round, of at least `size` bytes at two an element."""
    dims = int(rng.integers(1, 4))
    sides = [int(n) for n in rng.integers(2, 9, dims)]
    scale = max(1.0, (size / 2 / prod(sides)) ** (1 / dims))
    shape = [max(1, round(n * scale)) for n in sides[:-1]]
    return Tensor((*shape, max(1, ceil(size / 2 / prod(shape)))), 2)


def words(sharding: Sharding) -> str:
    """`2x4: dim 0 on axes 1, dim 1 whole`."""
    dims = ", ".join(
        f"dim {dim} " + (f"on axes {'+'.join(map(str, axes))}" if axes else "whole")
        for dim, axes in enumerate(sharding.axes_of_dim)
    )
    order = "" if list(sharding.devices) == sorted(sharding.devices) else f", devices {' '.join(map(str, sharding.devices))}"
    return f"{'x'.join(map(str, sharding.mesh))}: {dims}{order}"


def judge(plan: ReshardingPlan, ratio: float, size: int, latency: float) -> tuple[float, str, str] | None:
    """(time over what the plan may take, cause, words), None where it keeps that."""
    if plan.gap is not None:
        return plan.gap.ratio, plan.gap.cause, plan.gap.words
    if size >= LARGE and ratio > TOLERATED * (1 + 1e-12):
        return ratio / TOLERATED, "latency", f"{latency:.3g} s a hop: with one only, the plan would keep 5 %"
    return None


def measure(name: str, mib: float, pairs: int, seed: int) -> tuple[Summary, list[Row]]:
    """`pairs` random pairs of one size on one machine; those that need no network are not compared."""
    rng, machine = np.random.default_rng([seed, round(mib * 2**16)]), MACHINES[name]
    found, rows = Summary(), []
    for _ in range(pairs):
        shared = int(rng.choice([0, 0, 1, 2]))
        first = (2 - shared) * PER_HOST
        tensor = random_tensor(rng, mib * MIB)
        devices = list(range(2 * PER_HOST))
        source = random_sharding(rng, len(tensor.shape), devices)
        destination = random_sharding(rng, len(tensor.shape), [first + k for k in devices])
        hosts = Hosts({k: k // PER_HOST for k in range(4 * PER_HOST)}, machine.network, machine.local, machine.latency)
        plan = plan_resharding(tensor, source, destination, hosts)
        if not plan.lower_bound_s:
            continue
        size = prod(tensor.shape) * tensor.element_bytes
        found.compared += 1
        ratio = plan.time_s / (machine.latency + max(plan.lower_bound_s, plan.local_bound_s))
        found.worst = max(found.worst, ratio)
        gap = judge(plan, ratio, size, machine.latency)
        found.latency_needed += gap is None and ratio > TOLERATED
        if gap is None:
            continue
        found.gaps += 1
        apart = ("apart", "one shared", "both shared")[shared]
        rows.append(
            Row(name, apart, size, tensor.shape, words(source), words(destination), plan.strategy, ratio, gap[0], *gap[1:])
        )
    return found, rows


def line(row: Row) -> str:
    """A gap in one line."""
    return (
        f"{row.machine:10} {row.bytes:>12,} bytes {'x'.join(map(str, row.shape)):>16}  {row.source}  ->  {row.destination}  "
        f"(hosts {row.hosts}; {row.strategy}): {row.ratio:.3f} of the bound, {row.beyond:.3f} of what is allowed; "
        f"{row.cause}: {row.words}"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Resharding plans against the broadcast bound, with the cause of every gap.")
    parser.add_argument("--pairs", type=int, default=500, help="pairs of layouts for each size and machine (500)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--machine", action="append", choices=list(MACHINES), help=f"default: {', '.join(DEFAULT)}")
    parser.add_argument("--mib", action="append", type=float, help="a size; may be given again")
    parser.add_argument("--json", action="store_true", help="a JSON summary instead of the table")
    options = parser.parse_args(arguments)
    if options.pairs < 1 or any(not 0 < size <= 2**20 for size in options.mib or ()):
        parser.error("--pairs is 1 or more, --mib above 0 and at most 1048576")
    rows: list[Row] = []
    summary: list[dict[str, object]] = []
    begin = process_time()
    for name in options.machine or DEFAULT:
        for mib in options.mib or SIZES:
            found, gaps = measure(name, mib, options.pairs, options.seed)
            rows += gaps
            summary.append({"machine": name, "mib": mib, **asdict(found)})
            if not options.json:
                for row in gaps:
                    print(line(row))
                print(
                    f"{name:10} {mib:12.6g} MiB: {found.compared} compared, worst {found.worst:.4f} of the bound, "
                    f"{found.latency_needed} beyond 5 % by a latency a hop, {found.gaps} gaps",
                    flush=True,
                )
    causes = Counter((row.cause, "64 MiB and more" if row.bytes >= LARGE else "below 64 MiB") for row in rows)
    large = sum(row.bytes >= LARGE for row in rows)
    if options.json:
        print(json.dumps({"sizes": summary, "gaps": [asdict(row) for row in rows], "large_gaps": large}, indent=2))
    else:
        for (cause, where), count in sorted(causes.items()):
            print(f"{count:6} {where}: {cause}")
        spent = process_time() - begin
        print(f"{len(rows)} gaps, {large} of them at 64 MiB and more; {spent:.1f} s of CPU")
    return 1 if large else 0


if __name__ == "__main__":
    sys.exit(main())
