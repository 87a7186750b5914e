"""Rows of one rank and stage each: seconds that stages took, and the step that they made.

A run whose stages are all there is a case: the product's schedule is simulated over the measured stage times, and its step is
compared with the measured one. A run without all of its stages cannot be simulated and is left out.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from ..errors import DataError
from ..hardware import Library
from ..plan import Mesh
from .case import Case, cluster_of, device_of, gpt, plan_of, workload_of
from .table import Rejected, Row, Table, read_table

COLUMNS = (
    "machine", "model", "num_stages", "run", "stage", "rank", "global_batch_size", "step_time_ms", "fwd_compute_ms",
    "bwd_compute_ms",
    "params_allreduce_ms", "optimizer_ms",
)  # fmt: skip
PLANS = ("plan_json_stem", "num_layers", "seq", "heads", "hidden", "gbs", "mbs", "num_stages", "gpus_per_stage")


def cases_of(table: Table, folder: Path, library: Library) -> tuple[list[Case], list[tuple[int, Rejected]]]:
    """Complete runs as cases; every row of the others with its reason. Plans are sought among the tables of `folder`."""
    plans = _plans(folder)
    by_run: dict[tuple[str, str, str, str], list[Row]] = defaultdict(list)
    for row in table.rows:
        by_run[row.text("machine"), row.text("model"), row.text("num_stages"), row.text("run")].append(row)
    cases: list[Case] = []
    out: list[tuple[int, Rejected]] = []
    for rows in by_run.values():
        try:
            cases.append(_case(rows, plans, library))
            out += [(row.line, Rejected("one case a run: a stage of it", f"{row.file}, line {row.line}")) for row in rows[1:]]
        except Rejected as rejected:
            out += [(row.line, rejected) for row in rows]
    return cases, out


def _plans(folder: Path) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for path in sorted(folder.glob("*.csv")):
        try:
            table = read_table(path)
        except DataError:
            continue
        if set(PLANS) <= set(table.columns):
            found |= {f"{row.text('machine')}/{row.text('plan_json_stem')}": row for row in table.rows}
    return found


def _case(rows: list[Row], plans: dict[str, Row], library: Library) -> Case:
    first = rows[0]
    stages = first.whole("num_stages")
    seen: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        text = row.text("stage")
        if not text.isdigit():
            raise row.reject("not a number: stage", "stage", "a stage's number, from 0, is needed")
        seen[int(text)].append(row)
    if sorted(seen) != list(range(stages)):
        raise Rejected(
            "incomplete: stages of the run are missing", f"{first.file}, line {first.line}: {len(seen)} of {stages} stages"
        )
    plan_row = plans.get(f"{first.text('machine')}/{first.text('plan_json_stem')}")
    if plan_row is None:
        raise first.reject(
            "incomplete: no plan of the run beside it", "plan_json_stem", "a table of plans in the same folder is needed"
        )
    batch, micro = plan_row.whole("gbs"), plan_row.whole("mbs")
    if batch != first.whole("global_batch_size"):
        raise first.reject("contradictory: batch of the run and of its plan", "global_batch_size", f"the plan has {batch}")
    device = device_of(first, "machine", library)
    sequence, layers = plan_row.whole("seq"), plan_row.whole("num_layers")
    model = gpt(first, layers, plan_row.whole("hidden"), plan_row.whole("heads"), 51200, sequence)
    workload = workload_of("megatron-lm", sequence, batch)
    cluster, _ = cluster_of(first, device, stages, library, per_node=1)
    plan = plan_of(first, layers, Mesh(), stages, micro, batch)
    m = plan.accumulation
    measured = tuple(
        (
            max(row.number("fwd_compute_ms") for row in seen[k]) / 1e3 / m,
            max(row.number("bwd_compute_ms") for row in seen[k]) / 1e3 / m,
        )
        for k in range(stages)
    )
    # A stage's time to the end of the step grows along the pipeline, as later ones wait: the first alone is its own update.
    after = min(max(_after(row) for row in seen[k]) for k in range(stages))
    seconds = max(row.number("step_time_ms") for row in rows) / 1e3
    name = first.text("model")
    return Case(
        first, model, workload, cluster, plan, seconds, device.name, "megatron-lm", f"Mist stage times on {device.name}",
        f"{device.name}/{name}", (name, device.name, batch), ("simulated over the measured stage times",), measured, after,
    )  # fmt: skip


def _after(row: Row) -> float:
    return (row.number("params_allreduce_ms", least=-1) + row.number("optimizer_ms", least=-1)) / 1e3
