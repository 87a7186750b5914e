"""Closed forms of pipeline schedules and bounds below them: for ranking and pruning, never for the figure that is
reported.

Vocabulary: the *period* is the mean time between two microbatches once the pipeline is full; *fill* is what the first
microbatch and the drain add. Forms that are exact say for what; tests hold all of them against the event simulation,
which knows none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import NamedTuple

from ..plan import Schedule
from .simulation import Durations


class ClosedForm(NamedTuple):
    """`seconds` of the pipeline, and the `period` within it."""

    seconds: float
    period: float


def period_1f1b(work: Sequence[float], transfers: Sequence[float]) -> float:
    """The steady period of 1f1b: the largest mean over contiguous stages s..e of [their work + transfers inside] /
    (e-s+1).

    Between neighbours a microbatch goes forward and comes back while each of them runs one other, so `n` stages and
    both ways of the n - 1 boundaries inside them serve n microbatches. `work[k]` is F + B, `transfers[k]` one way from
    k to k + 1. Found by Dinkelbach's iteration: the heaviest window of (work - period) until no window beats the
    period.
    """
    period = max(work)
    while True:
        best, best_length = 0.0, 0
        running, length = 0.0, 0
        for k, one in enumerate(work):
            carried = running + 2 * transfers[k - 1] if length else 0.0
            if carried > 0.0:
                running, length = carried + one - period, length + 1
            else:
                running, length = one - period, 1
            if running > best:
                best, best_length = running, length
        if best <= 1e-12 * period or not best_length:
            return period
        period += best / best_length


def closed_form(
    schedule: Schedule, stages: Sequence[Durations], transfers: Sequence[float], microbatches: int, interleave: int = 1
) -> ClosedForm:
    """Seconds of one step's pipeline, `transfers` one way between neighbours.

    gpipe: exact, also for uneven stages with transfers no longer than the longest task (else the channel is the
    bottleneck and stands in its place). 1f1b: exact for equal stages without transfers; 0.87 to
    1.32 of the simulation over 60,000 random pipelines whose tasks are up to 16 times apart, below it in 1 of 120.
    Interleaved and zb_h1: exact for equal stages without transfers, within about 15 % otherwise. Fewer microbatches
    than stages never reach the steady state: the forms then count what one group of them needs.
    """
    p, m = len(stages), microbatches
    work = [stage.total for stage in stages]
    longest, both_ways = max(work), 2 * fsum(transfers)
    channel = max(transfers, default=0.0)
    if p == 1:
        return ClosedForm(m * longest, longest)
    if schedule is Schedule.GPIPE:
        ahead = max(max(stage.forward for stage in stages), channel)
        back = max(max(stage.backward + stage.weight for stage in stages), channel)
        return ClosedForm(fsum(work) + both_ways + (m - 1) * (ahead + back), ahead + back)
    if schedule is Schedule.ZB_H1:
        steady = min(m, p)
        rest = [stage.forward + stage.backward for stage in stages]
        fill = fsum(rest) + both_ways + (steady - 1) * max(rest) + longest - max(rest)
        period = max(longest, channel)
        least = lower_bound(schedule, stages, m, 1, transfers)
        return ClosedForm(max(fill + (m - steady) * period, least), period)
    if schedule is Schedule.INTERLEAVED and interleave > 1:
        if m < p:
            way = interleave * fsum(transfers) + (interleave - 1) * channel
            seconds = fsum(work) + (m - 1) * max(longest / interleave, channel) + 2 * way
            period = longest
        else:
            period = max(longest, interleave * channel)
            seconds = m * period + (fsum(work) - longest) / interleave + both_ways
        return ClosedForm(max(seconds, lower_bound(schedule, stages, m, interleave, transfers)), period)
    period = max(period_1f1b(work, transfers), channel)
    return ClosedForm(fsum(work) + both_ways + (m - 1) * period, period)


def lower_bound(
    schedule: Schedule,
    stages: Sequence[Durations],
    microbatches: int,
    interleave: int = 1,
    transfers: Sequence[float] = (),
) -> float:
    """A time that no run of this schedule can be below: the best of one bound a stage. No transfers given: they are
    free.

    Stage j cannot start before the first microbatch came through the stages before it, runs all microbatches, and after
    its last backward pass the stages before it still have theirs to do (zb_h1 may end on a weight gradient instead). In 1f1b
    messages hold up the steady state too, see `_round_trips`.
    """
    chunks = interleave if schedule is Schedule.INTERLEAVED else 1
    split = schedule is Schedule.ZB_H1
    ways = [*transfers, 0.0] if transfers else [0.0] * len(stages)
    before = best = whole = 0.0
    for (forward, backward, weight), way in zip(stages, ways, strict=True):
        work = forward + backward + weight
        whole += work
        if (bound := before + microbatches * work) > best:
            best = bound
        before += forward + way if split else work / chunks + 2 * way
    if schedule is Schedule.ONE_F_ONE_B and len(stages) > 1:
        best = max(best, _round_trips(stages, microbatches, ways))
    # One microbatch alone passes through everything; where chunks overlap, the bounds above do not contain that.
    return best if chunks == 1 else max(best, whole)


def trips(microbatches: int, stages: int) -> int:
    """How often in a row one microbatch at least goes through the last `stages` stages of 1f1b and back."""
    return (microbatches - 1) // stages + 1 if microbatches else 0


def _round_trips(stages: Sequence[Durations], microbatches: int, ways: Sequence[float]) -> float:
    """The best of one bound a stage, in 1f1b: the first of n last stages holds n microbatches, so the i-th comes in when the
    (i - n)-th has gone through all n and back, messages both ways included; the stages before it have their first forward and
    last backward passes besides.
    """
    before = [0.0]
    for one, way in zip(stages, ways, strict=True):
        before.append(before[-1] + one.total + 2 * way)
    best, behind = 0.0, 0.0
    for s in range(len(stages) - 1, -1, -1):
        one, n = stages[s], len(stages) - s
        behind += one.total + 2 * ways[s]
        number = trips(microbatches, n)
        rest = (microbatches - 1 - (number - 1) * n) * (one.backward + one.weight)
        best = max(best, before[s] + number * behind + rest)
    return best
