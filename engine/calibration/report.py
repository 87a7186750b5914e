"""A folder of measured runs beside the product's estimates: what `bench/accuracy.py` prints, worked out.

A row that a shipped calibration was fitted to is priced by that calibration's fold without the row's group, never by the values
that have seen it; other rows are priced as a proposal would be. Rows of a sweep are ranked among each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import exp, log
from pathlib import Path
from statistics import mean
from typing import Any

from ..cost import Uncertainty
from ..cost.factors import load_constants
from ..cost.simulation import Durations, simulate
from ..cost.software import calibrated
from ..cost.step import TimeModel
from ..hardware import Calibration, Library, Ranged
from ..quantity import Quantity
from .case import Case
from .kinds import Reading, read_cases
from .metrics import Errors, Point, errors_of, regret, spearman
from .unseen import from_others

#: Least rows of a sweep that are ranked.
SWEEP = 3


@dataclass(frozen=True, slots=True)
class Sweep:
    """One sweep: rows, rank correlation, regret, and the largest difference of repeats in it (None without repeats)."""

    name: str
    rows: int
    spearman: float | None
    regret: float
    noise: float | None


@dataclass(frozen=True, slots=True)
class TimeReport:
    """The step times of one file. `calibrated`: rows whose device and software family have calibration rows."""

    reading: Reading
    points: tuple[tuple[Case, Point], ...]
    folded: int
    sweeps: tuple[Sweep, ...]
    step_time: Errors | None
    groups: tuple[tuple[str, int, Errors], ...] = field(default=())

    @property
    def used(self) -> int:
        """Rows that were priced and compared."""
        return len(self.points)


class Estimator:
    """Prices cases as the product does, with the fold of a calibration where it has seen the row's group.

    `unseen`: as if no run on the case's device family had been measured (`unseen.from_others`).
    """

    def __init__(self, library: Library, seen: Sequence[Case], *, unseen: bool = False) -> None:
        self.library, self.unseen = library, unseen
        self._constants = load_constants()
        self._seen = {_key(case): case.group for case in seen}
        # Times of a single node are composed of a few layer times (docs/accuracy.md): one that was fitted to tells its group.
        self._composed = {case.group for case in seen if case.row.text("note") == "composed"}
        self.folded = 0

    def point(self, case: Case, *, intervals: bool = True) -> Point:
        """The case's estimate with its interval."""
        if case.measured_stages:
            return self._staged(case)
        known = self.library.calibration(case.cluster.device, case.software)
        group = self._seen.get(_key(case)) or (case.group if case.group in self._composed else None)
        fold = dict(known.folds).get(group) if known is not None and group is not None else None
        if known is not None and fold is not None:
            self.folded += 1
            known = folded(known, dict(fold))
        if self.unseen:
            known = from_others(self.library, case.cluster.device, case.software)
        cluster = calibrated(case.cluster, lambda _, __: known, case.software, carry=self.library.carried)
        nominal = TimeModel(case.model, case.workload, cluster, constants=self._constants)
        if not intervals:
            return Point(case.row.line, case.seconds, nominal.seconds(case.plan))
        found = Uncertainty(case.model, case.workload, cluster, 24, nominal).interval(case.plan)
        return Point(case.row.line, case.seconds, found.value, found.low, found.high)

    def _staged(self, case: Case) -> Point:
        """The schedule over measured stage times, transfers unknown; half-width that of estimated transfers."""
        stages = [Durations(forward, backward) for forward, backward in case.measured_stages]
        plan = case.plan
        seconds = simulate(plan.schedule, stages, [0.0] * (len(stages) - 1), plan.accumulation).makespan + case.outside
        return Point(case.row.line, case.seconds, seconds, seconds * 0.95, seconds * 1.05)


def label(case: Case) -> str:
    """The source of a row; apart, what no calibration has measured runs of."""
    kind = ", with experts" if case.model.moe else ", in fp8" if case.workload.precision.compute == "fp8" else ""
    return f"{case.source}, {case.software}{kind}"


def folded(known: Calibration, values: dict[str, float]) -> Calibration:
    """The calibration with the values that a fold found."""
    changed: dict[str, Any] = {}
    for name, value in values.items():
        for field_name in (name,) if name != "attention" else ("attention_unfused", "attention_flash"):
            old: Ranged | None = getattr(known, field_name)
            if old is not None:
                quantity = Quantity(value, old.quantity.dimension, old.quantity.provenance)
                changed[field_name] = Ranged(quantity, min(old.low, value), max(old.high, value))
    return replace(known, **changed)


def _key(case: Case) -> tuple[object, ...]:
    """A run and its time, whatever file it is in."""
    return (
        *case.identity[:1],
        case.identity[1],
        case.plan.identity,
        case.model.hidden,
        case.model.layers,
        float(f"{case.seconds:.5g}"),
    )


def time_report(path: Path, estimator: Estimator, *, intervals: bool = True) -> TimeReport:
    """The step times of one file. DataError where it is no table."""
    reading = read_cases(path, estimator.library)
    before = estimator.folded
    points = tuple((case, estimator.point(case, intervals=intervals)) for case in reading.cases)
    by_source: dict[str, list[Point]] = defaultdict(list)
    for case, point in points:
        by_source[label(case)].append(point)
    groups = tuple((name, len(rows), found) for name, rows in sorted(by_source.items()) if (found := errors_of(rows)) is not None)
    return TimeReport(
        reading, points, estimator.folded - before, _sweeps(points), errors_of([point for _, point in points]), groups
    )


def _sweeps(points: Sequence[tuple[Case, Point]]) -> tuple[Sweep, ...]:
    by_sweep: dict[tuple[object, ...], list[tuple[Case, Point]]] = defaultdict(list)
    for case, point in points:
        if not case.measured_stages:
            by_sweep[case.sweep].append((case, point))
    found = []
    for key, rows in by_sweep.items():
        runs: dict[tuple[object, ...], list[Point]] = defaultdict(list)
        for case, point in rows:
            runs[case.plan.identity].append(point)
        noise = [max(p.measured for p in same) / min(p.measured for p in same) - 1 for same in runs.values() if len(same) > 1]
        merged = [Point(same[0].line, exp(mean(log(p.measured) for p in same)), same[0].predicted) for same in runs.values()]
        if len(merged) >= SWEEP:
            name = " ".join(str(part) for part in key if part != "")
            found.append(Sweep(name, len(merged), spearman(merged), regret(merged), max(noise) if noise else None))
    return tuple(found)
