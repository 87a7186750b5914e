"""The pipeline's part of a step by the event simulation, and what is done where all of its tasks would be too many."""

from __future__ import annotations

from ..plan import Schedule
from .schedule import closed_form, lower_bound
from .simulation import Durations, simulate

#: Tasks that are simulated one by one (some 0.2 s); a longer step is continued at its own steady period.
TASK_LIMIT = 100_000


def makespan(
    schedule: Schedule, stages: list[Durations], transfers: list[float], microbatches: int, interleave: int = 1
) -> tuple[float, int]:
    """(seconds of the pipeline, the microbatches simulated where not all were, else 0).

    One stage needs no simulation. A step of more than `TASK_LIMIT` tasks is simulated up to a whole number of rounds of
    the pipeline and continued at the pace of its second half; with so many stages that two rounds are too much, by the
    closed form from the first microbatch on.
    """
    p, m = len(stages), microbatches
    if p == 1:
        return m * stages[0].total, 0
    chunks = interleave if schedule is Schedule.INTERLEAVED else 1
    each = p * chunks * (3 if schedule is Schedule.ZB_H1 else 2)
    if each * m <= TASK_LIMIT:
        return simulate(schedule, stages, transfers, m, interleave).makespan, 0
    rounds = max(2, TASK_LIMIT // each // p // 2 * 2)
    cut, half = rounds * p, rounds * p // 2
    if each * cut > 8 * TASK_LIMIT:
        return closed_form(schedule, stages, transfers[: p - 1], m, interleave).seconds, 1
    if cut >= m:
        return simulate(schedule, stages, transfers, m, interleave).makespan, 0
    whole = simulate(schedule, stages, transfers, cut, interleave).makespan
    pace = (whole - simulate(schedule, stages, transfers, half, interleave).makespan) / (cut - half)
    least = lower_bound(schedule, stages, m, interleave, transfers[: p - 1])
    return max(whole + (m - cut) * pace, least), cut
