"""A measured run against the predictions of a review: what holds, what lies outside, why perhaps, whether the decision stands.

The thresholds are those of the verification plan. A cause is *likely* where one input, moved inside the range that its
evidence leaves, gives the measured step time by itself; the value it would need is found by bisection. Reads no record:
predictions come from a review."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from statistics import fmean, stdev

from ..importers.run_log import RunLog, Sample
from ..plan import Plan
from ..quantity import Dimension, Estimate
from .altered import Basis, Input
from .desk import Desk
from .review import Candidate, Review
from .sensitivity import basis_of, inputs
from .verification import WARM_UP, load_noise, steps_needed

#: Two-sided 90 % quantile of the normal distribution: the mean of a run's steps lies so many standard errors around.
Z_MEAN = 1.645


@dataclass(frozen=True, slots=True)
class Cause:
    """One input and the value with which the prediction would be the measured one; `inside` its range, where it is `ranged`."""

    name: str
    dimension: Dimension
    today: float
    needed: float
    inside: bool
    ranged: bool


@dataclass(frozen=True, slots=True)
class Compared:
    """One quantity. `state`: holds, outside (the decision stands), overturns; `noise` half the 90 % interval of the mean,
    or None."""

    key: str
    what: str
    dimension: Dimension
    measured: float
    noise: float | None
    samples: int
    predicted: Estimate
    state: str
    why: str
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """A whole comparison. `gaps`: what the plan of verification asks for and the run does not have."""

    plan: Plan
    candidate: str
    rows: tuple[Compared, ...]
    gaps: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def stands(self) -> bool:
        """Whether nothing measured overturns the decision."""
        return all(row.state != "overturns" for row in self.rows)


def compare(review: Review, candidate: Candidate, log: RunLog) -> Comparison:
    """`log` against what was predicted for `candidate`, which is priced."""
    priced, step = candidate.priced, candidate.step
    assert priced is not None
    assert step is not None
    gaps: list[str] = []
    rows: list[Compared] = []
    times, converted = _step_times(log, candidate, priced.tokens)
    kept = _settled(times)
    noise = load_noise()
    wanted = steps_needed(noise)
    if not times:
        gaps.append("step time: not in the file")
    elif not kept:
        gaps.append(f"step time: all {len(times)} logged figures lie in the warm-up, the first {WARM_UP} steps of the log")
    else:
        gaps += _left_out(times)
        if len(kept) < wanted:
            gaps.append(f"step time: {len(kept)} logged figures after the warm-up, {wanted} are asked for")
        rows.append(_time_row(review, candidate, kept))
    rows += _memory_rows(candidate, log, gaps)
    exposed = [one.value for one in _settled(log.of("exposed"))]
    predicted = next((one.estimate for one in review.verification if one.key == "exposed_communication"), None)
    if exposed and predicted is not None and "recommended" in candidate.roles:
        value = fmean(exposed)
        state = "holds" if value <= predicted.high else "overturns"
        rows.append(
            Compared(
                "exposed_communication",
                "exposed communication a step",
                Dimension.TIME,
                value,
                _half(exposed),
                len(exposed),
                predicted,
                state,
                "" if state == "holds" else "more than the threshold of the verification plan",
            )
        )
    elif not exposed:
        gaps.append("exposed communication: not in the file")
    notes = [*log.notes, *converted]
    batch = review.case.global_batch
    if log.global_batch is not None and batch is not None and log.global_batch != batch:
        notes.append(f"the run has a global batch of {log.global_batch} sequences, the proposal {batch}: no matched comparison")
    return Comparison(candidate.plan, candidate.id, tuple(rows), tuple(gaps), tuple(notes))


def _step_times(log: RunLog, candidate: Candidate, tokens: int) -> tuple[list[Sample], list[str]]:
    """Step times in seconds, from rates where the log has no times."""
    times = log.of("step_time")
    if times:
        return times, []
    plan = candidate.plan
    rates = log.of("samples_per_s")
    if rates:
        said = f"step time is the global batch of {plan.global_batch} sequences over the samples a second of the log"
        return [_as_time(one, plan.global_batch) for one in rates], [said]
    rates = log.of("tokens_per_device_s")
    if rates:
        said = f"step time is {tokens} tokens over the tokens a second and device of the log and {plan.devices} devices"
        return [_as_time(one, tokens / plan.devices) for one in rates], [said]
    return [], []


def _left_out(times: Iterable[Sample]) -> list[str]:
    """Steps that are not in the file though their neighbours are: between the first and the last, at the usual distance."""
    steps = sorted({one.step for one in times if one.step is not None})
    apart = [later - one for one, later in pairwise(steps)]
    if not apart:
        return []
    every = min(apart)
    missing = sum(one // every - 1 for one in apart)
    if not missing:
        return []
    return [f"step time: {missing} of the steps between {steps[0]} and {steps[-1]}, logged every {every}, are not in the file"]


def _as_time(sample: Sample, work: float) -> Sample:
    return Sample("step_time", work / sample.value, sample.line, sample.step, sample.rank, sample.stage)


def _settled(samples: Iterable[Sample]) -> list[Sample]:
    """The samples after the warm-up, where the steps are numbered; of several ranks' lines of a step the slowest."""
    slowest: dict[object, Sample] = {}
    for k, one in enumerate(samples):
        name = ("step", one.step) if one.step is not None else ("row", k)
        if name not in slowest or slowest[name].value < one.value:
            slowest[name] = one
    kept = list(slowest.values())
    numbered = [one for one in kept if one.step is not None]
    if len(numbered) > 1:
        first = min(one.step for one in numbered if one.step is not None)
        return [one for one in kept if one.step is None or one.step > first - 1 + WARM_UP]
    return kept


def _half(values: list[float]) -> float | None:
    return Z_MEAN * stdev(values) / sqrt(len(values)) if len(values) > 1 else None


def _time_row(review: Review, candidate: Candidate, kept: list[Sample]) -> Compared:
    values = [one.value for one in kept]
    value, step = fmean(values), candidate.step
    assert step is not None
    state, why = "holds", ""
    if value > step.high:
        state = "overturns" if "recommended" in candidate.roles else "outside"
        why = "slower than the interval: the threshold of the verification plan is passed"
    elif value < step.low:
        state, why = "outside", "faster than the interval: the decision stands, the prediction is too slow"
    rival = next((one for one in review.candidates if one.id == review.fallback), None)
    best = review.candidate(review.recommended)
    if "recommended" in candidate.roles and rival is not None and rival.step is not None and value > rival.step.high:
        state, why = "overturns", f"{why}; slower than all of the interval of the fallback {rival.id}".lstrip("; ")
    if "recommended" not in candidate.roles and best is not None and best.step is not None and value < best.step.low:
        state, why = "overturns", f"faster than all of the interval of the recommended plan {best.id}"
    causes = _causes(review, candidate, value) if not step.low <= value <= step.high else ()
    return Compared("step_time", "full step time", Dimension.TIME, value, _half(values), len(values), step, state, why, causes)


def _causes(review: Review, candidate: Candidate, measured: float) -> tuple[Cause, ...]:
    """The inputs that explain the measured step time by themselves, those inside their range first."""
    desk = Desk(review.case)
    start, plan = basis_of(desk), candidate.plan
    world = start.world()
    scale = candidate.step.value / world.seconds(plan) if candidate.step is not None else 1.0
    found = []
    for one in inputs(desk, plan):
        needed = _needed(one, _seconds_at(one, start, plan, scale), measured)
        if needed is not None:
            low, high = sorted((one.low, one.high))
            found.append(Cause(one.name, one.dimension, one.today, needed, low <= needed <= high, high > low))
    return tuple(sorted(found, key=lambda one: (not one.inside, abs(one.needed / one.today - 1) if one.today else 9.0)))[:4]


def _seconds_at(one: Input, start: Basis, plan: Plan, scale: float) -> Callable[[float], float]:
    """Step time of `plan` by the value of one input."""
    return lambda value: scale * one.change(start, value).world().seconds(plan)


def _needed(one: Input, seconds: Callable[[float], float], measured: float) -> float | None:
    here = seconds(one.today)
    for side in (one.below, one.above):
        near = one.today
        for value in side:
            there = seconds(value)
            if (here - measured) * (there - measured) <= 0 and abs(there - here) > 1e-9 * here:
                a, b = near, value
                for _ in range(20):
                    middle = (a + b) / 2
                    if (seconds(a) - measured) * (seconds(middle) - measured) <= 0:
                        b = middle
                    else:
                        a = middle
                return (a + b) / 2
            near = value
    return None


def _memory_rows(candidate: Candidate, log: RunLog, gaps: list[str]) -> list[Compared]:
    """Each kind of memory: the largest logged rank against the largest predicted one, stage by stage where stages are named."""
    names: Mapping[str, str] = {"allocated": "allocated memory", "reserved": "reserved memory", "device": "device-visible memory"}
    rows = []
    for kind, what in names.items():
        samples = log.of(kind)
        if not samples:
            continue
        strange = sorted({one.rank for one in samples if one.rank is not None and one.rank >= candidate.plan.devices})
        if strange:
            gaps.append(
                f"{what}: rank {strange[0]} is none of the plan's {candidate.plan.devices} devices, and {len(strange)} such "
                "were left out: no matched comparison"
            )
            samples = [one for one in samples if one.rank not in strange]
            if not samples:
                continue
        staged = {one.stage for one in samples}
        named: list[int | None] = [*sorted(one for one in staged if one is not None)]
        for stage in named or [None]:
            here = [one for one in samples if one.stage == stage] if stage is not None else samples
            ledger = [one for one in candidate.memory if stage is None or one.stage == stage]
            if not ledger:
                gaps.append(f"{what}: stage {stage} is not a stage of the plan")
                continue
            largest = max(ledger, key=lambda one: getattr(one, kind).value)
            predicted: Estimate = getattr(largest, kind)
            value = max(one.value for one in here)
            over = value > largest.capacity_bytes
            state = "holds" if predicted.low <= value <= predicted.high else "outside"
            why = ""
            if over or (value > predicted.high and kind == "device"):
                state, why = (
                    "overturns",
                    "more than the device has" if over else "more than the interval of the verification plan",
                )
            elif value > predicted.high:
                why = "more than predicted; device-visible memory decides whether it fits"
            elif state == "outside":
                why = "less than predicted: the decision stands"
            name = f"{what}, stage {largest.stage}" if stage is not None else f"{what}, largest logged rank"
            rows.append(Compared(f"{kind}_memory", name, Dimension.BYTES, value, None, len(here), predicted, state, why))
        ranks = {one.rank for one in samples if one.rank is not None}
        if ranks and len(ranks) < candidate.plan.devices:
            gaps.append(f"{what}: {len(ranks)} of {candidate.plan.devices} ranks are in the file; the largest may be missing")
    if not rows:
        gaps.append("memory: not in the file")
    return rows
