"""Event simulation of a pipeline step: durations and dependencies in, makespan out.

Vocabulary: a *task* is the forward pass (F), the backward pass (B) or, where a schedule splits it off, the weight
gradient (W) of one microbatch on one chunk of a stage; a *chunk* is one of `interleave` equal parts of a stage; a
*channel* carries what one stage sends to its neighbour in one direction, one message after the other. Each device runs
its tasks in the fixed order of its schedule and waits for what a task needs. This module knows no closed form, no model
and no cluster, so that it can contradict those that do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..errors import InternalFault
from ..frozen import dataclass
from ..plan import Schedule


class Durations(NamedTuple):
    """Seconds of one microbatch on one whole stage. `weight` is the part of the backward pass that nothing waits for.

    Only `zb_h1` splits it off; in other schedules a backward task lasts `backward + weight`.
    """

    forward: float
    backward: float
    weight: float = 0.0

    @property
    def total(self) -> float:
        """Work of one microbatch."""
        return self.forward + self.backward + self.weight


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The chain of tasks and transfers that ends last: seconds of compute by stage, seconds between stages, tasks on
    it.

    `sum(compute_s) + transfer_s` is the makespan: nothing on the path waits for anything off it.
    """

    compute_s: tuple[float, ...]
    transfer_s: float
    tasks: int


@dataclass(frozen=True, slots=True)
class Simulation:
    """One simulated step: when the last task ends, how long each stage worked and idled, and what held it up."""

    makespan: float
    busy: tuple[float, ...]
    bubble: tuple[float, ...]
    critical: CriticalPath


FORWARD, BACKWARD, WEIGHT = 0, 1, 2


class Pipeline(NamedTuple):
    """What a step's simulation is given. `transfers` has the way from the last stage to the first behind it where there are
    chunks; `tiers` names the link that each of the others crosses. `after`: (exposed synchronisation, optimizer) of each stage.
    """

    schedule: Schedule
    interleave: int
    microbatches: int
    stages: tuple[Durations, ...]
    transfers: tuple[float, ...]
    tiers: tuple[str, ...]
    after: tuple[tuple[float, float], ...] = ()


class Link(NamedTuple):
    """One task of a critical path: its number, when it starts, how long it lasts, and the transfer that it waited for."""

    task: int
    start: float
    seconds: float
    waited: float


class Task(NamedTuple):
    """`kind` is FORWARD, BACKWARD or WEIGHT."""

    kind: int
    microbatch: int
    chunk: int


def order(schedule: Schedule, stage: int, pipeline: int, microbatches: int, interleave: int = 1) -> list[Task]:
    """The tasks of one stage in the order in which its device runs them.

    gpipe (Huang et al. 2019, arXiv 1811.06965): all forward, all backward. 1f1b and its interleaved form (Narayanan et
    al. 2021, arXiv 2104.04473, section 2.2). zb_h1 (Qi et al. 2023, arXiv 2401.10241, section 3.1): 1f1b with weight
    gradients put off by as many microbatches as the stage's number, so that at most `pipeline` microbatches are held
    anywhere.
    """
    chunks = interleave if schedule is Schedule.INTERLEAVED else 1
    block = pipeline * chunks * microbatches
    tasks: list[Task] = []
    for number in _order(schedule, stage, pipeline, microbatches, chunks):
        kind, within = divmod(number, block)
        tasks.append(Task(kind, within % microbatches, within // microbatches // pipeline))
    return tasks


def _order(schedule: Schedule, stage: int, p: int, m: int, chunks: int) -> list[int]:
    """The order as numbers: task (kind, chunk, microbatch) is kind * block + (chunk * p + stage) * m + microbatch."""
    if chunks > 1:
        return _interleaved(stage, p, m, chunks)
    forward = list(range(stage * m, stage * m + m))
    backward = list(range(p * m + stage * m, p * m + stage * m + m))
    if schedule is Schedule.GPIPE:
        return forward + backward
    if schedule is Schedule.ZB_H1:
        return _zero_bubble(stage, p, m, forward, backward)
    return _alternate(forward, backward, min(p - stage - 1, m))


def _alternate(forward: list[int], backward: list[int], warm: int) -> list[int]:
    """`warm` forward tasks, then one forward and one backward in turn, then the rest of the backward tasks."""
    steady = 2 * (len(forward) - warm)
    middle = [0] * steady
    middle[0::2] = forward[warm:]
    middle[1::2] = backward[: len(forward) - warm]
    return forward[:warm] + middle + backward[len(forward) - warm :]


def _zero_bubble(stage: int, p: int, m: int, forward: list[int], backward: list[int]) -> list[int]:
    warm = min(p - stage, m)
    tasks = forward[:warm]
    shift = p * m - stage
    for k, task in enumerate(backward):
        tasks.append(task)
        if k >= stage:
            tasks.append(task + shift)
        if warm + k < m:
            tasks.append(forward[warm + k])
    return tasks + [task + p * m for task in backward[max(0, m - stage) :]]


def interleaved_group(pipeline: int, microbatches: int) -> int:
    """Microbatches that pass together through all chunks: `pipeline`, or the next larger number that leaves no short
    group.

    A last group shorter than the pipeline would wait for itself; Megatron-LM asks for the same (a group of at least
    `pipeline`, and a remainder of 0 or at least `pipeline`). Fewer microbatches than stages are one group.
    """
    if microbatches <= pipeline:
        return microbatches
    group = pipeline
    while 0 < microbatches % group < pipeline:
        group += 1
    return group


def _interleaved(stage: int, p: int, m: int, chunks: int) -> list[int]:
    """Each group of microbatches passes through all chunks before the next one enters."""
    size = interleaved_group(p, m)
    block = p * chunks * m
    forward: list[int] = []
    backward: list[int] = []
    for start in range(0, m, size):
        end = min(start + size, m)
        for chunk in range(chunks):
            ahead, back = (chunk * p + stage) * m, block + ((chunks - 1 - chunk) * p + stage) * m
            forward += range(ahead + start, ahead + end)
            backward += range(back + start, back + end)
    return _alternate(forward, backward, min(2 * (p - stage - 1) + (chunks - 1) * size, len(forward)))


def simulate(
    schedule: Schedule,
    stages: Sequence[Durations],
    transfers: Sequence[float],
    microbatches: int,
    interleave: int = 1,
    *,
    overlap: bool = True,
    record: list[tuple[int, float, float]] | None = None,
    chain: list[Link] | None = None,
) -> Simulation:
    """Run one step of `microbatches` through `stages` and say when everything is done.

    `transfers[k]` is the time of one microbatch's message from stage k to k + 1, and of its gradient back; with chunks,
    an entry more is the way from the last stage to the first (the longest of the others where it is not given). With
    `overlap` a device goes on while it sends, otherwise it is held until its message has arrived. Messages of one
    direction follow one another on their channel. `record` is given every task's (number, end, arrival of its message or
    -1): task (kind, chunk, stage, microbatch) is kind x block + (chunk x p + stage) x m + microbatch, block = p x v x m.
    `chain` is given the critical path, from the last task back to the first.
    """
    p, m = len(stages), microbatches
    v = interleave if schedule is Schedule.INTERLEAVED else 1
    split = schedule is Schedule.ZB_H1
    block = p * v * m
    hops = [*transfers]
    if p > 1 and len(hops) == p - 1:
        hops.append(max(hops))
    tasks = [_order(schedule, k, p, m, v) for k in range(p)]
    ready = [-1.0] * (block * (3 if split else 2))
    ready[:m] = [0.0] * m
    ends = [0.0] * len(ready)
    held_by = [-1] * len(ready)
    forward = [s.forward / v for s in stages]
    backward = [(s.backward if split else s.backward + s.weight) / v for s in stages]
    weight = [s.weight for s in stages]
    place, clock, last = [0] * p, [0.0] * p, [-1] * p
    down, up = [0.0] * p, [0.0] * p
    waiting: dict[int, int] = {}
    runnable = list(range(p - 1, -1, -1))
    first_of_last = block - m
    while runnable:
        k = runnable.pop()
        mine, now, previous = tasks[k], clock[k], last[k]
        f, b, w = forward[k], backward[k], weight[k]
        send, back = hops[k] if p > 1 else 0.0, hops[k - 1] if p > 1 else 0.0
        at, stop = place[k], len(mine)
        while at < stop:
            task = mine[at]
            arrived = ready[task]
            if arrived < 0.0:
                waiting[task] = k
                break
            if arrived > now:
                now = arrived
                # The task that it waited for: the neighbour's, found again from the numbering when the path is read.
                held_by[task] = -2
            else:
                held_by[task] = previous
            if task < block:
                now += f
                ends[task] = now
                if task >= first_of_last:
                    then, arrives = task + block, now
                else:
                    then = task + m
                    arrives = (now if now > down[k] else down[k]) + send
                    down[k] = arrives
            elif task < 2 * block:
                now += b
                ends[task] = now
                if split:
                    ready[task + block] = now
                if task < block + m:
                    then, arrives = -1, now
                else:
                    then = task - m
                    arrives = (now if now > up[k] else up[k]) + back
                    up[k] = arrives
            else:
                now += w
                ends[task] = now
                then, arrives = -1, now
            previous = task
            at += 1
            if record is not None:
                record.append((task, ends[task], arrives if then >= 0 and arrives > ends[task] else -1.0))
            if then >= 0:
                ready[then] = arrives
                if then in waiting:
                    runnable.append(waiting.pop(then))
            if not overlap and arrives > now:
                now = arrives
        place[k], clock[k], last[k] = at, now, previous
    if any(place[k] < len(tasks[k]) for k in range(p)):
        raise InternalFault(f"the order of {schedule.value} deadlocks: {p} stages, {m} microbatches, interleave {v}")
    tails = [ends[last[k]] for k in range(p)]
    makespan = max(tails)
    busy = tuple(m * (s.forward + s.backward + s.weight) for s in stages)
    path = _critical(ends, held_by, last[tails.index(makespan)], (forward, backward, weight), p, m, block, chain)
    return Simulation(makespan, busy, tuple(makespan - one for one in busy), path)


def _critical(
    ends: list[float], held_by: list[int], task: int, seconds: tuple[list[float], ...], p: int, m: int, block: int,
    chain: list[Link] | None,
) -> CriticalPath:  # fmt: skip
    """Walk back from `task` along what each task waited for; time between two tasks of the walk is transfer."""
    compute, transfer, count = [0.0] * p, 0.0, 0
    while task >= 0:
        kind, within = divmod(task, block)
        stage = within // m % p
        duration = seconds[kind][stage]
        compute[stage] += duration
        count += 1
        start, before = ends[task] - duration, held_by[task]
        if before == -2:
            turns = kind == BACKWARD and within >= block - m
            before = task - block if turns else task + m if kind == BACKWARD else task - m
        waited = start - ends[before] if before >= 0 else start
        transfer += waited
        if chain is not None:
            chain.append(Link(task, start, duration, waited))
        task = before
    return CriticalPath(tuple(compute), transfer, count)
