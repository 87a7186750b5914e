"""The critical path of a step in words: what the step spends along the chain that it cannot end before, and that chain."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import Any

from ..cost.critical import PARTS, TRANSFER, Run, StepPath
from ..cost.simulation import BACKWARD, FORWARD, WEIGHT
from .figures import count, counted, seconds, share
from .tables import Table

#: Stretches of a chain that are told one by one at either end; those between are added up.
ENDS = 3
#: Stretches that the JSON lists at either end.
LISTED = 8
_KINDS = {FORWARD: "forward", BACKWARD: "backward", WEIGHT: "weight gradient"}


def path_table(plans: Sequence[tuple[str, StepPath]]) -> Table:
    """What each step spends along its critical path, side by side, with its share of the step."""
    names: dict[tuple[str, str], None] = {}
    for _, one in plans:
        names |= dict.fromkeys((part.kind, part.where) for part in one.parts)
    rows = []
    for kind, where in sorted(names, key=lambda name: PARTS.index(name[0])):
        cells = []
        for _, one in plans:
            spent = next((part.seconds for part in one.parts if (part.kind, part.where) == (kind, where)), 0.0)
            cells.append(f"{seconds(spent)} ({share(spent / one.seconds)})" if spent else "0")
        rows.append((kind + (f": {where}" if where else ""), *cells))
    rows.append(("step", *(seconds(one.seconds) for _, one in plans)))
    return Table(("on the critical path", *(f"{name}:" for name, _ in plans)), tuple(rows))


def path_lines(plans: Sequence[tuple[str, StepPath]]) -> list[str]:
    """A line a plan: which stage holds the step, what the others wait, and the chain of stages and microbatches."""
    return [f"{name}: {_held(one)} {_chain(one)}" for name, one in plans]


def _held(one: StepPath) -> str:
    if len(one.stages) == 1:
        if one.microbatches == 1:
            return "one stage and one microbatch: nothing waits."
        return f"one stage; its {counted(one.microbatches, 'microbatch')} follow one another, and nothing waits."
    most = max(range(len(one.stages)), key=lambda k: (one.stages[k], k == one.bottleneck))
    sent = fsum(part.seconds for part in one.parts if part.kind == TRANSFER)
    idle = f"stages idle {seconds(min(one.idle))} to {seconds(max(one.idle))} of the pipeline (the bubble)"
    if sent > one.stages[most]:
        return (
            f"messages between stages hold it, {seconds(sent)} against {seconds(one.stages[most])} on stage {most}, the one with "
            f"most; {idle}."
        )
    slowest = ", the slowest" if most == one.bottleneck else f" (the slowest is stage {one.bottleneck})"
    return f"stage {most}{slowest}, holds it with {seconds(one.stages[most])}; {idle}."


def _chain(one: StepPath) -> str:
    if len(one.stages) == 1:
        return ""
    legs = _legs(one.runs)
    if len(legs) <= 2 * ENDS + 1:
        told = [_leg(leg) for leg in legs]
    else:
        middle = [run for leg in legs[ENDS:-ENDS] for run in leg]
        stages = sorted({run.stage for run in middle})
        spent = fsum(run.seconds + run.waited for run in middle)
        told = [
            *map(_leg, legs[:ENDS]),
            f"{count(len(middle))} stretches more on stages {stages[0]} to {stages[-1]} ({seconds(spent)})",
            *map(_leg, legs[-ENDS:]),
        ]
    cut = "" if one.shown == one.microbatches else (
        f" Simulated with {count(one.shown)} of {counted(one.microbatches, 'microbatch')}; the rest goes on at that pace."
    )  # fmt: skip
    return f"Chain: {'; then '.join(told)}.{cut}"


def _told(runs: Sequence[Run]) -> list[list[Run]]:
    """The legs as they are told: of many the first and the last, and those between as one."""
    legs = _legs(runs)
    if len(legs) <= 2 * ENDS + 1:
        return legs
    return [*legs[:ENDS], [run for leg in legs[ENDS:-ENDS] for run in leg], *legs[-ENDS:]]


def _legs(runs: Sequence[Run]) -> list[list[Run]]:
    """Single passes of one microbatch through neighbouring stages, taken together."""
    legs: list[list[Run]] = []
    for run in runs:
        before = legs[-1][-1] if legs else None
        step = run.stage - before.stage if before is not None else 0
        if (
            before is not None and before.tasks == run.tasks == 1
            and (before.last, before.kinds) == (run.first, run.kinds)
            and abs(step) == 1 and (len(legs[-1]) == 1 or step == legs[-1][1].stage - legs[-1][0].stage)
        ):  # fmt: skip
            legs[-1].append(run)
        else:
            legs.append([run])
    return legs


def _leg(leg: Sequence[Run]) -> str:
    first, last = leg[0], leg[-1]
    spent = seconds(fsum(run.seconds + run.waited for run in leg))
    kinds = " and ".join(_KINDS[kind] for kind in sorted(first.kinds))
    if len(leg) > 1:
        return f"{kinds} of microbatch {first.first} through stages {first.stage} to {last.stage} ({spent})"
    if first.tasks == 1:
        return f"{kinds} of microbatch {first.first} on stage {first.stage} ({spent})"
    span = f"microbatch {first.first}" if first.first == first.last else f"microbatches {first.first} to {first.last}"
    return f"stage {first.stage}, {kinds} of {span}, {counted(first.tasks, 'task')} ({spent})"


def path_json(one: StepPath | None) -> dict[str, Any] | None:
    """The critical path as plain data."""
    if one is None:
        return None
    left = max(0, len(one.runs) - 2 * LISTED)
    listed = one.runs if not left else (*one.runs[:LISTED], *one.runs[-LISTED:])
    return {
        "parts": [
            {"kind": part.kind, "tier": part.where or None, "seconds": part.seconds, "share": part.seconds / one.seconds}
            for part in one.parts
        ],
        "most_on_one_stage_s": max(one.stages),
        "messages_s": fsum(part.seconds for part in one.parts if part.kind == TRANSFER),
        "legs": [
            {
                "stages": [leg[0].stage, leg[-1].stage], "stretches": len(leg),
                "seconds": fsum(run.seconds + run.waited for run in leg),
            }
            for leg in _told(one.runs)
        ],
        "stages_s": list(one.stages),
        "idle_s": list(one.idle),
        "microbatches_simulated": one.shown,
        "collectives_apart": one.split,
        "stretches": len(one.runs),
        "listed": [
            {
                "stage": run.stage, "first_microbatch": run.first, "last_microbatch": run.last,
                "kinds": [_KINDS[kind] for kind in run.kinds], "tasks": run.tasks, "start_s": run.start, "seconds": run.seconds,
                "message_s": run.waited,
            }
            for run in listed
        ],
    }  # fmt: skip
