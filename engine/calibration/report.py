"""A folder of measured runs beside the product's estimates: what `bench/accuracy.py` prints, worked out.

A row that a shipped calibration was fitted to is priced by that calibration's fold without the row's group, never by the values
that have seen it; other rows are priced as a proposal would be. Rows of a sweep are ranked among each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import exp, log
from pathlib import Path
from statistics import mean, median
from typing import Any

from ..cost import Uncertainty
from ..cost.factors import load_constants
from ..cost.simulation import Durations, simulate
from ..cost.software import calibrated
from ..cost.step import TimeModel
from ..hardware import Calibration, Library, Ranged
from ..quantity import Estimate, Quantity
from .case import Case, transfer_of
from .kinds import Reading, read_cases
from .metrics import Errors, Point, errors_of, regret, spearman
from .unseen import from_others

#: Least rows of a sweep that are ranked.
SWEEP = 3


@dataclass(frozen=True, slots=True)
class Sweep:
    """One sweep: rows, rank correlation, regret, and the largest difference of repeats in it (None without repeats).

    A plan that was also run with another number of microbatches counts as a repeat: both give the time of one microbatch, a
    step being that times the microbatches and the fill of the pipeline.
    """

    name: str
    rows: int
    spearman: float | None
    regret: float
    noise: float | None


@dataclass(frozen=True, slots=True)
class Ratios:
    """Pairs of plans of one sweep: how many, whose measured ratio lies inside its 90 % interval, and the median half-width.

    Of those whose measured times lie 5 % or more apart (`different`): how many the interval of the ratio tells apart, and how
    many of these the wrong way round. `close`, `close_told`: of those 5 to 10 % apart alone.
    """

    pairs: int
    inside: int
    width: float
    different: int
    told: int
    wrong: int
    close: int
    close_told: int


@dataclass(frozen=True, slots=True)
class TimeReport:
    """The step times of one file. `calibrated`: rows whose device and software family have calibration rows."""

    reading: Reading
    points: tuple[tuple[Case, Point], ...]
    folded: int
    sweeps: tuple[Sweep, ...]
    step_time: Errors | None
    groups: tuple[tuple[str, int, Errors], ...] = field(default=())
    ratios: Ratios | None = None

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
        self._kept: dict[object, Uncertainty] = {}

    def point(self, case: Case, *, intervals: bool = True) -> Point:
        """The case's estimate with its interval."""
        if case.measured_stages:
            return self._staged(case)
        sure = self.uncertainty(case)
        if not intervals:
            return Point(case.row.line, case.seconds, sure.nominal.seconds(case.plan))
        found = sure.interval(case.plan)
        return Point(case.row.line, case.seconds, found.value, found.low, found.high)

    def ratio(self, first: Case, second: Case) -> Estimate:
        """The ratio of the steps of two cases of one sweep, with its interval."""
        return self.uncertainty(first).ratio(first.plan, second.plan)

    def uncertainty(self, case: Case) -> Uncertainty:
        """What prices the case, under the fold that has not seen it; kept for others of its model, batch and cluster."""
        known = self.library.calibration(case.cluster.device, case.software)
        group = self._seen.get(_key(case)) or (case.group if case.group in self._composed else None)
        fold = dict(known.folds).get(group) if known is not None and group is not None else None
        if known is not None and fold is not None:
            self.folded += 1
            known = folded(known, dict(fold))
        if self.unseen:
            known = from_others(self.library, case.cluster.device, case.software)
        cluster = calibrated(case.cluster, lambda _, __: known, case.software, carry=self.library.carried)
        key = (case.model, case.workload, case.device, case.software, group, case.cluster.devices, case.cluster.tiers)
        found = self._kept.get(key)
        if found is None:
            nominal = TimeModel(
                case.model, case.workload, cluster, constants=self._constants, transfer=transfer_of(case.software)
            )
            found = self._kept[key] = Uncertainty(case.model, case.workload, cluster, 24, nominal)
        return found

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
    folds = estimator.folded - before
    ratios = _ratios(points, estimator) if intervals else None
    return TimeReport(reading, points, folds, _sweeps(points), errors_of([point for _, point in points]), groups, ratios)


#: Measured times this far apart are different, where repeats of one plan differ by up to 3 %.
DIFFERENT = 0.05


def _ratios(points: Sequence[tuple[Case, Point]], estimator: Estimator) -> Ratios | None:
    by_sweep: dict[tuple[object, ...], list[Case]] = defaultdict(list)
    for case, _ in points:
        if not case.measured_stages:
            by_sweep[(*case.sweep, case.group)].append(case)
    found: list[tuple[float, Estimate]] = []
    for cases in by_sweep.values():
        for first, second in combinations(cases, 2):
            if first.plan.identity != second.plan.identity:
                found.append((first.seconds / second.seconds, estimator.ratio(first, second)))
    if not found:
        return None
    apart = [(measured, one) for measured, one in found if abs(log(measured)) >= log(1 + DIFFERENT)]
    told = [(measured, one) for measured, one in apart if one.high < 1 or one.low > 1]
    close = [one for measured, one in apart if abs(log(measured)) < log(1 + 2 * DIFFERENT)]
    return Ratios(
        pairs=len(found),
        inside=sum(one.low <= measured <= one.high for measured, one in found),
        width=median((one.high - one.low) / 2 / one.value for _, one in found),
        different=len(apart),
        told=len(told),
        wrong=sum((measured < 1) != (one.high < 1) for measured, one in told),
        close=len(close),
        close_told=sum(one.high < 1 or one.low > 1 for one in close),
    )


def _sweeps(points: Sequence[tuple[Case, Point]]) -> tuple[Sweep, ...]:
    by_sweep: dict[tuple[object, ...], list[tuple[Case, Point]]] = defaultdict(list)
    batches: dict[object, list[float]] = defaultdict(list)
    for case, point in points:
        if not case.measured_stages:
            by_sweep[case.sweep].append((case, point))
            batches[_but_batch(case)].append(_one_microbatch(case))
    found = []
    for key, rows in by_sweep.items():
        runs: dict[tuple[object, ...], list[Point]] = defaultdict(list)
        for case, point in rows:
            runs[case.plan.identity].append(point)
        noise = [max(p.measured for p in same) / min(p.measured for p in same) - 1 for same in runs.values() if len(same) > 1]
        others = [batches[_but_batch(case)] for case, _ in rows]
        noise += [max(same) / min(same) - 1 for same in others if len(same) > 1]
        merged = [Point(same[0].line, exp(mean(log(p.measured) for p in same)), same[0].predicted) for same in runs.values()]
        if len(merged) >= SWEEP:
            name = " ".join(str(part) for part in key if part != "")
            found.append(Sweep(name, len(merged), spearman(merged), regret(merged), max(noise) if noise else None))
    return tuple(found)


def _but_batch(case: Case) -> object:
    """A run but for its number of microbatches; the date of a sweep, its last part, included."""
    plan = case.plan
    return (case.device, case.software, case.model, case.cluster.devices, case.sweep[-1], plan.stages, plan.microbatch,
            plan.interleave, plan.recompute, plan.zero, plan.sequence_parallel)  # fmt: skip


def _one_microbatch(case: Case) -> float:
    """Seconds of a microbatch on a stage, if nothing but the pipeline's fill were beside it."""
    return case.seconds / (case.plan.accumulation + (case.plan.pipeline - 1) / case.plan.interleave)
