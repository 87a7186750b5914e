"""The simulated step of a plan as a timeline: Chrome trace JSON, which Perfetto opens, and SVG.

One process a stage with four streams: what its devices compute, the messages it sends on, the gradients it sends back, and its
collectives after the pipeline (gradient synchronisation that nothing hides). The events are those of the simulation that gives
the step time; nothing is drawn that was not simulated. A step of too many tasks shows its first microbatches, and says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple
from xml.sax.saxutils import escape as xml

from ..cost import Priced
from ..cost.critical import drawable
from ..cost.simulation import BACKWARD, FORWARD, WEIGHT, Pipeline, Simulation, simulate
from ..errors import UsageError
from ..plan import Plan, Schedule, describe

#: Tasks that a timeline shows.
MOST_TASKS = 20_000
STREAMS = ("compute", "send forward", "send back", "collectives")
_NAMES = {FORWARD: "F", BACKWARD: "B", WEIGHT: "W"}
_COLOURS = {"F": "#4878a8", "B": "#d08040", "W": "#70a050", "send": "#b0b0b0", "gradient_sync": "#a04060", "optimizer": "#806090"}


class Event(NamedTuple):
    """One bar: seconds from the step's begin. `microbatch` is -1 outside the pipeline."""

    stage: int
    stream: str
    name: str
    start: float
    seconds: float
    microbatch: int = -1


class Timeline(NamedTuple):
    """The events of a step with what the simulation says of it. `shown` microbatches of `microbatches`."""

    plan: Plan
    events: tuple[Event, ...]
    simulation: Simulation
    microbatches: int
    shown: int
    exposed_s: float
    optimizer_s: float


def timeline(priced: Priced, most_tasks: int = MOST_TASKS) -> Timeline:
    """The simulated step of a priced plan, over the stages and messages that gave its step time: of a step of more than
    `most_tasks` tasks the first microbatches."""
    pipeline, plan = priced.step.pipeline, priced.plan
    assert pipeline is not None
    p, v = len(pipeline.stages), pipeline.interleave if pipeline.schedule is Schedule.INTERLEAVED else 1
    split = pipeline.schedule is Schedule.ZB_H1
    m = drawable(pipeline, most_tasks)
    record: list[tuple[int, float, float]] = []
    run = simulate(pipeline.schedule, pipeline.stages, pipeline.transfers, m, v, record=record)
    block = p * v * m
    events: list[Event] = []
    for task, end, arrives in record:
        kind, within = divmod(task, block)
        chunk, stage, microbatch = within // m // p, within // m % p, within % m
        one = pipeline.stages[stage]
        seconds = (one.forward, one.backward if split else one.backward + one.weight, one.weight)[kind] / v
        name = _NAMES[kind] + (f".{chunk}" if v > 1 else "")
        events.append(Event(stage, "compute", name, end - seconds, seconds, microbatch))
        if arrives > 0 and kind != WEIGHT:
            sent = _sent(pipeline, stage, kind)
            stream = "send forward" if kind == FORWARD else "send back"
            events.append(Event(stage, stream, "send", arrives - sent, sent, microbatch))
    done = [0.0] * p
    for one_event in events:
        if one_event.stream == "compute":
            done[one_event.stage] = max(done[one_event.stage], one_event.start + one_event.seconds)
    for stage, (sync, optimizer) in enumerate(pipeline.after):
        if sync > 0:
            events.append(Event(stage, "collectives", "gradient_sync", done[stage], sync))
        events.append(Event(stage, "compute", "optimizer", done[stage] + sync, optimizer))
    ledger = priced.step.ledger
    return Timeline(plan, tuple(events), run, pipeline.microbatches, m, ledger.exposed_s, ledger.optimizer_s)


def _sent(pipeline: Pipeline, stage: int, kind: int) -> float:
    """Seconds of the message that a task on `stage` sends on; the ends of the pipeline send to each other where there are
    chunks."""
    p = len(pipeline.stages)
    channel = pipeline.transfers if len(pipeline.transfers) >= p else (*pipeline.transfers, max(pipeline.transfers, default=0.0))
    return channel[stage] if kind == FORWARD else channel[stage - 1]


def _summary(line: Timeline) -> dict[str, object]:
    run = line.simulation
    return {
        "plan": describe(line.plan),
        "microbatches": line.microbatches,
        "microbatches_shown": line.shown,
        "pipeline_s": run.makespan,
        "bubble_s": list(run.bubble),
        "critical_path": {
            "compute_s": list(run.critical.compute_s), "transfer_s": run.critical.transfer_s, "tasks": run.critical.tasks,
        },
        "exposed_gradient_sync_s": line.exposed_s,
        "optimizer_s": line.optimizer_s,
    }  # fmt: skip


def trace_json(line: Timeline) -> str:
    """The Trace Event Format: complete events in microseconds, processes and threads named, the summary under `otherData`."""
    rows: list[dict[str, object]] = []
    for stage, one in enumerate(line.plan.stages):
        name = f"stage {stage}: layers {one.first} to {one.last}, {one.mesh}"
        rows.append({"ph": "M", "name": "process_name", "pid": stage, "tid": 0, "args": {"name": name}})
        rows += [
            {"ph": "M", "name": "thread_name", "pid": stage, "tid": tid, "args": {"name": stream}}
            for tid, stream in enumerate(STREAMS)
        ]
    for event in line.events:
        row: dict[str, object] = {
            "ph": "X", "name": event.name, "cat": event.stream, "pid": event.stage, "tid": STREAMS.index(event.stream),
            "ts": round(1e6 * event.start, 3), "dur": round(1e6 * event.seconds, 3),
        }  # fmt: skip
        if event.microbatch >= 0:
            row["args"] = {"microbatch": event.microbatch}
        rows.append(row)
    return json.dumps({"traceEvents": rows, "displayTimeUnit": "ms", "otherData": _summary(line)}, indent=1) + "\n"


def trace_svg(line: Timeline, width: int = 1200) -> str:
    """One row a stage, its messages as a thin row below; widths in proportion to seconds."""
    whole = max(event.start + event.seconds for event in line.events)
    scale, row = width / whole if whole else 1.0, 22
    height = row * line.plan.pipeline + 40
    return "\n".join(_svg(line, scale, row, width, height)) + "\n"


def _svg(line: Timeline, scale: float, row: int, width: int, height: int) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 80} {height}" width="{width + 80}" height="{height}" '
        'font-family="sans-serif" font-size="10">'
    )
    shown = "" if line.shown == line.microbatches else f", the first {line.shown} of {line.microbatches} microbatches"
    yield f"<title>{xml(describe(line.plan) + shown)}</title>"
    for stage in range(line.plan.pipeline):
        yield f'<text x="2" y="{stage * row + 13}">stage {stage}</text>'
    for event in line.events:
        thin = event.stream != "compute"
        y, tall = event.stage * row + (16 if thin else 2), 4 if thin else 14
        colour = _COLOURS[event.name.split(".")[0]]
        label = event.name + (f" {event.microbatch}" if event.microbatch >= 0 else "")
        yield (
            f'<rect x="{60 + event.start * scale:.2f}" y="{y}" width="{max(0.1, event.seconds * scale):.2f}" height="{tall}" '
            f'fill="{colour}" stroke="#fff" stroke-width="0.3"><title>{xml(label)}: {1e3 * event.seconds:.4g} ms</title></rect>'
        )
    run = line.simulation
    text = (
        f"pipeline {run.makespan:.4g} s, least idle stage {min(run.bubble):.4g} s, transfers on the critical path "
        f"{run.critical.transfer_s:.4g} s, exposed gradient synchronisation {line.exposed_s:.4g} s, "
        f"optimizer {line.optimizer_s:.4g} s"
    )
    yield f'<text x="60" y="{height - 16}">{xml(text + shown)}</text>'
    yield "</svg>"


def ending_of(path: str) -> str:
    """`json` or `svg`, by the name of the file. Raises UsageError for another ending."""
    ending = path.rsplit(".", 1)[-1].lower()
    if ending not in ("json", "svg"):
        raise UsageError(f"--timeline {path}: the ending says no format", remedy="End the name in .json (Perfetto) or .svg.")
    return ending


def render_timeline(line: Timeline, path: str) -> str:
    """The timeline in the format that the name of a file asks for. Raises UsageError for another ending."""
    return trace_json(line) if ending_of(path) == "json" else trace_svg(line)
