"""Collective times beside measured curves: fitted on half of them, without one device count, without one operation, unfitted.

    python bench/collectives.py --data DIR [--json]

DIR holds CSV files of two layouts, told apart by their columns: `latency` in ms with `message_size` in elements of
`nccl_dtype`, and `time_ns` with `bytes`. One row a system (with its library's version), operation and number of devices:
the median error of messages of 1 MiB and more, and of smaller ones, where the model was

- `sizes`: fitted on every second size of all operations and counts, judged on the others;
- `halves`: fitted on every second size of every second count, judged on the other sizes of all counts;
- `count`: fitted without this number of devices; `operation`: fitted without this operation;
- `sheet`: not fitted: the link's and the memory's bandwidth, the step latency of the shipped node with that generation of
  link, and the constants of the product (which were drawn from these very machines);
- `others`: the honest figure of a machine never seen: the link's and the memory's bandwidth, and the geometric middle of the
  smallest and the largest that the fits of `sizes` found on the other machines of that topology, rates as shares of
  theirs; machines of the same two bandwidths do not count as others, and startup, step and ramp come from files with
  messages of 64 KiB and less. The product's constants are the same middles over all machines.

A fit has five numbers for all operations and counts of a system: startup, latency of a step, bandwidth, copy rate of a
device's own shard, ramp; where the devices share a tree of PCI Express links, or nothing is known of a system, a
sixth, by which a device's share falls with their number. All of it is priced by `planproof.cost.collectives`. Ring or tree
is not fitted: the product chooses. Systems are described in `data/collectives_systems.csv`.

Element sizes: `half` 2 bytes, `int8` 1, `float` 4. That `message_size` counts elements shows in the times: `half` takes
as long as `int8` of twice the elements (median ratio 0.99-1.00 at equal bytes, 1.8-2.0 at equal elements above 64 MiB).
`bytes` are bytes: with them `busbw_GBps` is the bus factor x bytes / time in every row, which is checked. oneCCL counts the
elements of one rank's shard in an all-gather: only so is it as fast as the same file's reduce-scatter.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from math import exp, isfinite, sqrt
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from planproof.cluster.cluster import Cluster, Nodes, Tier
from planproof.cost.collectives import Network, bus_factor
from planproof.cost.factors import NOMINAL, Constant, load_constants
from planproof.hardware import LinkKind, LinkTopology, NodeLink, Ring, load_node
from planproof.quantity import Dimension, Grade, Provenance, Quantity
from scipy.optimize import least_squares

MIB = 2**20
#: Messages up to here take little more than startup and steps.
TELLING = 2**16
LARGE, SMALL = 0.15, 0.30
ELEMENT = {"half": 2, "float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1, "float": 4, "float32": 4}
OPERATIONS = {"alltoall": "all_to_all", "allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter"}
KNOWN = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
SPLITS = ("sizes", "halves", "count", "operation", "sheet", "others")
SOURCE = Provenance(Grade.ESTIMATED, "a fit of this benchmark")
#: Residuals count in units of this relative error, larger ones linearly.
SCALE = 0.1


class Measured(NamedTuple):
    operation: str
    ranks: int
    size: int
    seconds: float


@dataclass(frozen=True, slots=True)
class System:
    """A system's data sheet. `rings`: what groups of each size get, where lanes are counted; `node`: a shipped node with the
    same generation of links. `link` is 0 where nothing is known of a system.
    """

    topology: str
    devices: int
    link: float
    memory: float
    node: str = "dgx_a100"
    rings: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a fit finds. `falling`: the share of the link falls as (n / 2) ** -falling."""

    startup: float
    latency: float
    bandwidth: float
    copy: float
    ramp: float
    falling: float = 0.0


def systems() -> dict[str, System]:
    with (Path(__file__).parent / "data" / "collectives_systems.csv").open(newline="", encoding="utf-8") as file:
        return {
            row["system"]: System(
                row["topology"], int(row["devices"]), float(row["link_bytes_per_s"]), float(row["memory_bytes_per_s"]),
                row["node"],
                tuple((int(n), float(rate)) for n, rate in (one.split(":") for one in row["rings_bytes_per_s"].split())),
            )
            for row in csv.DictReader(file)
        }  # fmt: skip


def read(folder: Path) -> tuple[dict[str, list[Measured]], Counter[tuple[str, str]]]:
    """Rows by system, repeats of one message as their median; and what was left out, by system and reason."""
    found: dict[tuple[str, str, int, str, int], list[float]] = defaultdict(list)
    left: Counter[tuple[str, str]] = Counter()
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            columns = set(reader.fieldnames or ())
            if {"latency", "message_size", "nccl_dtype", "num_gpus", "op_name"} <= columns:
                parse: Callable[[dict[str, str]], tuple[str, str, int, str, int, float]] = elements
            elif {"gpu", "ngpus", "bytes", "time_ns"} <= columns:
                parse = octets
            else:
                continue
            for row in reader:
                try:
                    system, operation, ranks, kind, size, seconds = parse(row)
                except (KeyError, ValueError) as error:
                    left[row.get("system") or f"vtrain {row.get('gpu')}", f"not readable: {error}"] += 1
                    continue
                if operation not in KNOWN:
                    left[system, f"operation {operation} is not modelled"] += 1
                elif ranks < 2 or size <= 0 or not isfinite(seconds) or seconds <= 0:
                    left[system, "no time of a message between devices"] += 1
                else:
                    found[system, operation, ranks, kind, size].append(seconds)
    result: dict[str, list[Measured]] = defaultdict(list)
    for (system, operation, ranks, _, size), times in sorted(found.items()):
        result[system].append(Measured(operation, ranks, size, median(times)))
        if len(times) > 1:
            left[system, "repeats of one message, taken as their median"] += len(times) - 1
    return result, left


def elements(row: dict[str, str]) -> tuple[str, str, int, str, int, float]:
    name = row["op_name"].lower()
    operation = OPERATIONS.get(name.replace("_", ""), name)
    ranks, size = int(row["num_gpus"]), int(row["message_size"]) * ELEMENT[row["nccl_dtype"]]
    if row.get("lib") == "oneccl" and operation == "all_gather":
        size *= ranks
    system = " ".join(part for part in (row["system"], row.get("lib_version", "")) if part)
    return system, operation, ranks, row["nccl_dtype"], size, float(row["latency"]) * 1e-3


def octets(row: dict[str, str]) -> tuple[str, str, int, str, int, float]:
    ranks, size, seconds = int(row["ngpus"]), int(row["bytes"]), float(row["time_ns"]) * 1e-9
    if row.get("busbw_GBps"):
        stated = float(row["busbw_GBps"]) * 1e9
        if abs(bus_factor("all_reduce", ranks) * size / seconds / stated - 1) > 0.02:
            raise ValueError("bytes, time and bus bandwidth contradict each other")
    return f"vtrain {row['gpu']}", "all_reduce", ranks, row.get("dtype", ""), size, seconds


@cache
def constants() -> dict[str, Constant]:
    return dict(load_constants())


def network(system: System, given: Parameters) -> Network:
    """The product's own model of one node of `system` with these parameters."""
    base = load_node("dgx_a100")
    shares = {n: rate / system.link for n, rate in system.rings}
    if system.topology == "tree":
        shares = {n: (n / 2) ** -given.falling for n in range(2, system.devices + 1)}
    rings = tuple(Ring(n, Quantity(share * given.bandwidth, Dimension.BANDWIDTH, SOURCE)) for n, share in shares.items())
    bandwidth = Quantity(given.bandwidth, Dimension.BANDWIDTH, SOURCE)
    latency = Quantity(given.latency, Dimension.TIME, SOURCE)
    link = NodeLink("link", LinkKind.NVLINK, LinkTopology(system.topology), system.devices, bandwidth, latency, rings=rings)
    memory = Quantity(2 * given.copy, Dimension.BANDWIDTH, SOURCE)
    sheet = replace(base, devices=system.devices, links=(link,), device=replace(base.device, memory_bandwidth=memory))
    tier = Tier("link", "nvlink", system.devices, bandwidth, latency)
    known = constants() | {
        name: replace(constants()[name], value=value)
        for name, value in (
            ("link_share", 1.0), ("mesh_share", 1.0), ("collective_startup", given.startup), ("fast_link_ramp", given.ramp),
        )
    }  # fmt: skip
    return Network(Cluster((Nodes(1, sheet),), (tier,)), NOMINAL, known)


def unfitted(system: System) -> Parameters:
    """The data sheet and the product's constants."""
    known = constants()
    latency = load_node(system.node).links[-1].latency.value
    tree = system.topology == "tree"
    share = known["pcie_share" if tree else "mesh_share" if system.topology == "mesh" else "link_share"].value
    return Parameters(
        known["collective_startup"].value,
        latency,
        system.link * share,
        system.memory / 2,
        known["slow_link_ramp" if tree else "fast_link_ramp"].value,
        known["pcie_falling"].value if tree else 0.0,
    )


def from_others(system: System, fits: Iterable[tuple[System, Parameters, bool]]) -> Parameters | None:
    """The data sheet and what other machines of this topology have in common, None where there are fewer than two. The flag
    of a fit says whether it saw messages small enough to tell startup and step.
    """
    shares: dict[tuple[float, float], list[Parameters]] = defaultdict(list)
    times: dict[tuple[float, float], list[Parameters]] = defaultdict(list)
    for one, found, tells in fits:
        machine = (one.link, one.memory)
        if one.topology == system.topology and one.link > 0 and machine != (system.link, system.memory):
            shares[machine].append(replace(found, bandwidth=found.bandwidth / one.link, copy=found.copy / one.memory))
            if tells:
                times[machine].append(found)
    if system.link <= 0 or len(times) < 2:
        return None

    def middle(get: Callable[[Parameters], float], of: dict[tuple[float, float], list[Parameters]]) -> float:
        found = [median(get(one) for one in fits_of_one) for fits_of_one in of.values()]
        return sqrt(min(found) * max(found))

    return Parameters(
        middle(lambda one: one.startup, times),
        middle(lambda one: one.latency, times),
        middle(lambda one: one.bandwidth, shares) * system.link,
        middle(lambda one: one.copy, shares) * system.memory,
        middle(lambda one: one.ramp, times),
        middle(lambda one: one.falling, shares),
    )


def predict(system: System, given: Parameters, rows: Iterable[Measured]) -> list[float]:
    priced = network(system, given)
    return [priced.collective(row.operation, row.size, row.ranks, 1).seconds for row in rows]


#: Bounds of the parameters, and how far off its first value each may be, as a logarithm, before it costs as much as one row.
BOUNDS = ((1e-6, 5e-5), (1e-7, 2e-5), (1e8, 2e12), (5e9, 2e13), (1e-7, 1e-4))
WIDTHS = (0.7, 0.7, 3.0, 0.7, 1.0)
FALLING, FALLING_WIDTH = 2.5, 0.7


def first(system: System, rows: Sequence[Measured]) -> Parameters:
    """Where a fit begins, and what it is drawn to weakly: the data sheet; for an unknown system the best rate in `rows`."""
    if system.link > 0:
        return unfitted(system)
    best = max(bus_factor(row.operation, row.ranks) * row.size / row.seconds for row in rows)
    return unfitted(replace(system, link=best, memory=8 * best))


def fit(system: System, rows: Sequence[Measured]) -> Parameters:
    """Least squares of relative errors within physical bounds."""
    start = first(system, rows)
    middle = np.append(np.log([start.startup, start.latency, start.bandwidth, start.copy, start.ramp]), 0.0)
    low = np.append(np.log([pair[0] for pair in BOUNDS]), 0.0)
    high = np.append(np.log([pair[1] for pair in BOUNDS]), FALLING if system.topology == "tree" else 1e-9)
    if system.link > 0:
        # No more passes a link than its data sheet says.
        high[2] = np.log(system.link)
    width = np.append(WIDTHS, FALLING_WIDTH)
    truth = np.log([row.seconds for row in rows])

    def parameters(vector: np.ndarray) -> Parameters:
        startup, latency, bandwidth, copy, ramp = (exp(one) for one in vector[:5])
        return Parameters(startup, latency, bandwidth, copy, ramp, float(vector[5]))

    def residuals(vector: np.ndarray) -> np.ndarray:
        found = np.log(predict(system, parameters(vector), rows))
        return np.concatenate(((found - truth) / SCALE, (vector - middle) / width))

    inside = np.clip(middle, low + 1e-10, high - 1e-10)
    solved = least_squares(residuals, inside, bounds=(low, high), loss="soft_l1", x_scale=0.3, xtol=1e-5, ftol=1e-6)
    return parameters(solved.x)


@dataclass(frozen=True, slots=True)
class Score:
    """Of one split: rows the fit saw of the whole system, rows judged, median relative errors; or why there is none."""

    fitted: int = 0
    judged: int = 0
    large: float | None = None
    small: float | None = None
    reason: str | None = None

    @property
    def reached(self) -> bool | None:
        if self.large is None and self.small is None:
            return None
        return (self.large or 0.0) <= LARGE and (self.small or 0.0) <= SMALL


Fits = dict[str, Parameters]


@dataclass(frozen=True, slots=True)
class Row:
    system: str
    operation: str
    ranks: int
    measured: int
    scores: dict[str, Score]


def judge(system: System, given: Parameters, fitted: int, rows: Sequence[Measured]) -> Score:
    errors = [abs(found / row.seconds - 1) for found, row in zip(predict(system, given, rows), rows, strict=True)]
    large = [error for error, row in zip(errors, rows, strict=True) if row.size >= MIB]
    small = [error for error, row in zip(errors, rows, strict=True) if row.size < MIB]
    return Score(fitted, len(rows), median(large) if large else None, median(small) if small else None)


def evaluate(name: str, system: System, rows: Sequence[Measured]) -> tuple[list[Row], Parameters | None]:
    """All rows of one system, `others` left out, and the parameters that its even sizes give."""
    sizes = {size: k for k, size in enumerate(sorted({row.size for row in rows}))}
    counts = sorted({row.ranks for row in rows})
    operations = sorted({row.operation for row in rows})
    even = [row for row in rows if sizes[row.size] % 2 == 0]
    odd = [row for row in rows if sizes[row.size] % 2 == 1]
    fits: dict[tuple[str, object], tuple[Parameters, int] | str] = {}

    def learn(key: tuple[str, object], seen: Sequence[Measured], needs: bool, reason: str) -> None:
        fits[key] = (fit(system, seen), len(seen)) if needs and seen else reason

    learn(("sizes", None), even, len(sizes) > 1, "only one size")
    half = [row for row in even if counts.index(row.ranks) % 2 == 0]
    learn(("halves", None), half, len(sizes) > 1 and len(counts) > 1, "only one device count")
    for count in counts:
        seen = [row for row in rows if row.ranks != count]
        learn(("count", count), seen, len(counts) > 1, "only one device count")
    for operation in operations:
        seen = [row for row in rows if row.operation != operation]
        learn(("operation", operation), seen, len(operations) > 1, "only one operation")
    fits["sheet", None] = (unfitted(system), 0) if system.link > 0 else "no data sheet in collectives_systems.csv"

    result = []
    for operation in operations:
        for count in counts:
            here = [row for row in rows if row.operation == operation and row.ranks == count]
            if not here:
                continue
            scores = {}
            for split in SPLITS[:-1]:
                found = fits[split, {"count": count, "operation": operation}.get(split)]
                judged = [row for row in odd if row in here] if split in ("sizes", "halves") else here
                if isinstance(found, str) or not judged:
                    scores[split] = Score(reason=found if isinstance(found, str) else "no such row")
                else:
                    scores[split] = judge(system, found[0], found[1], judged)
            result.append(Row(name, operation, count, len(here), scores))
    known = fits["sizes", None]
    return result, None if isinstance(known, str) else known[0]


def add_others(rows: Sequence[Row], measured: dict[str, list[Measured]], machines: dict[str, System], fitted: Fits) -> None:
    fits = [
        (machines[name], one, min(row.size for row in measured[name]) <= TELLING) for name, one in fitted.items()
    ]
    for row in rows:
        system = machines[row.system]
        given = from_others(system, fits)
        here = [one for one in measured[row.system] if (one.operation, one.ranks) == (row.operation, row.ranks)]
        reason = "fewer than two other machines of this topology, or no data sheet"
        row.scores["others"] = Score(reason=reason) if given is None else judge(system, given, 0, here)


def of_systems(rows: Sequence[Row]) -> dict[str, dict[str, tuple[float | None, float | None]]]:
    """Median over a system's rows of their median errors, large and small, by split."""
    result: dict[str, dict[str, tuple[float | None, float | None]]] = {}
    for name in dict.fromkeys(row.system for row in rows):
        result[name] = {}
        for split in SPLITS:
            scores = [row.scores[split] for row in rows if row.system == name]
            large = [score.large for score in scores if score.large is not None]
            small = [score.small for score in scores if score.small is not None]
            result[name][split] = (median(large) if large else None, median(small) if small else None)
    return result


def describe(name: str, table: dict[str, System], rows: Sequence[Measured]) -> System:
    """The system of that name, without its library's version; otherwise one of which nothing is known."""
    found = table.get(name) or table.get(name.split(" ")[0])
    return found or System("tree", max(row.ranks for row in rows), 0.0, 0.0)


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of measured collectives")
    parser.add_argument("--json", action="store_true", help="print a JSON summary")
    given = parser.parse_args()
    measured, left = read(given.data)
    if not measured:
        raise SystemExit(f"{given.data}: no CSV file with measured collectives; see the columns in {Path(__file__).name}")
    table = systems()
    machines = {name: describe(name, table, found) for name, found in measured.items()}
    rows: list[Row] = []
    fitted: Fits = {}
    for name, found in measured.items():
        devices = machines[name].devices
        inside = [row for row in found if row.ranks <= devices]
        if len(inside) < len(found):
            reason = f"more devices than the {devices} of its node; the fabric is not stated"
            left[name, reason] += len(found) - len(inside)
        if inside:
            result, parameters = evaluate(name, machines[name], inside)
            rows += result
            if parameters is not None:
                fitted[name] = parameters
    add_others(rows, measured, machines, fitted)
    summary = {split: tally([row.scores[split] for row in rows]) for split in SPLITS}
    if given.json:
        print(json.dumps({
            "reach": {"large": LARGE, "small": SMALL},
            "summary": summary,
            "systems": of_systems(rows),
            "fitted": {name: asdict(one) for name, one in fitted.items()},
            "rows": [asdict(row) for row in rows],
            "left_out": [{"system": name, "reason": reason, "rows": n} for (name, reason), n in sorted(left.items())],
        }, indent=2))  # fmt: skip
        return
    for line in table_of(rows, fitted, left, summary):
        print(line)


def tally(scores: Iterable[Score]) -> dict[str, int]:
    judged = [score.reached for score in scores]
    return {"reached": judged.count(True), "missed": judged.count(False), "not judged": judged.count(None)}


def table_of(
    rows: Sequence[Row], fitted: dict[str, Parameters], left: Counter[tuple[str, str]], summary: dict[str, dict[str, int]]
) -> Iterator[str]:
    yield "median error in % of messages of 1 MiB and more / smaller ones; * misses 15 / 30; rows fitted:judged"
    yield f"{'system':<28}{'operation':<16}{'ranks':>5}{'rows':>6}" + "".join(f"{split:>18}" for split in SPLITS)
    for row in rows:
        cells = ""
        for split in SPLITS:
            score = row.scores[split]
            mark = "*" if score.reached is False else " "
            errors = f"{percent(score.large)}/{percent(score.small)}{mark}"
            cells += f"{'n/a' if score.reason else f'{score.fitted}:{score.judged} {errors:>8}':>18}"
        yield f"{row.system:<28}{row.operation:<16}{row.ranks:>5}{row.measured:>6}{cells}"
    yield ""
    yield "median over the rows of a system"
    for name, splits in of_systems(rows).items():
        pairs = (f"{percent(large)}/{percent(small)}" for large, small in (splits[split] for split in SPLITS))
        yield f"{name:<55}" + "".join(f"{pair:>18}" for pair in pairs)
    yield ""
    yield "fitted on every second size: startup us, step us, link GB/s, copy GB/s, ramp us, falling"
    for name, one in fitted.items():
        yield (
            f"{name:<28}{one.startup * 1e6:8.2f}{one.latency * 1e6:8.2f}{one.bandwidth / 1e9:9.1f}{one.copy / 1e9:9.0f}"
            f"{one.ramp * 1e6:8.2f}{one.falling:8.2f}"
        )
    yield ""
    for split, counts in summary.items():
        yield f"{split}: {counts['reached']} rows reach it, {counts['missed']} miss it, {counts['not judged']} not judged"
    for system in dict.fromkeys(row.system for row in rows):
        reasons = {
            f"{split}: {score.reason}"
            for row in rows if row.system == system
            for split, score in row.scores.items() if score.reason
        }  # fmt: skip
        for reason in sorted(reasons):
            yield f"not judged: {system}, {reason}"
    for (system, reason), count in sorted(left.items()):
        yield f"left out: {system}, {count} rows, {reason}"


if __name__ == "__main__":
    main()
