"""The memory and time ledgers of a plan as tables of text: what the record and `estimate` share."""

from __future__ import annotations

from collections.abc import Sequence

from ..cost import Priced, StageMemory, StageTime
from ..plan import Plan
from .figures import digits, gib, gib_interval, interval, seconds
from .places import first_rank
from .stages import grouped, telling
from .tables import Table

#: What the formulas of memory rows are written in.
FORMULA_KEY = (
    "P parameters on the rank; s b h sequence x microbatch x hidden on the rank; t tensor degree; V vocabulary; "
    "e bytes of an element. [K22] arXiv 2205.05198, [N21] arXiv 2104.04473, [Z] arXiv 1910.02054, "
    "[sheet] the device's data sheet."
)
#: Names of the terms of a step for people; a term that is not here keeps its own.
TERM_NAMES = {
    "gemm": "matrix products",
    "attention": "attention",
    "capacity": "the device's memory capacity",
    "memory": "memory-bound operators",
    "launch": "kernel launches",
    "tensor": "tensor-parallel communication, exposed",
    "context": "context-parallel communication, exposed",
    "expert": "expert-parallel communication, exposed",
    "gather": "gathering of sharded parameters, exposed",
    "recompute": "recomputation",
    "ends": "embedding, head and loss",
    "pipeline_transfer": "transfers between stages, exposed",
    "bubble": "pipeline bubble",
    "gradient_sync": "gradient synchronisation, exposed",
    "optimizer": "optimizer step",
}


def fullest(ledger: Sequence[StageMemory]) -> StageMemory:
    """The stage with the least left; the first of equal ones."""
    return min(ledger, key=lambda memory: memory.capacity_bytes - memory.device.value)


def memory_table(plan: Plan, ledger: Sequence[StageMemory]) -> Table:
    """One column a group of stages that need the same, in GiB; the last column has the fullest stage's formulas."""

    def key(k: int) -> tuple[object, ...]:
        return (ledger[k].capacity_bytes, *((row.bytes, row.formula) for row in ledger[k].rows))

    groups = grouped(len(ledger), key)
    peak = fullest(ledger)
    shown, left = telling(groups, peak.stage)
    columns = [ledger[one.first] for one in shown]
    heads = [f"{one.label}, {ledger[one.first].rank_class}:" for one in shown]
    rows = [
        [row.name, *(gib(memory.rows[k].bytes) for memory in columns), row.formula]
        for k, row in enumerate(peak.rows)
        if any(memory.rows[k].bytes for memory in ledger)
    ]
    rows += [
        ["allocated", *(gib_interval(memory.allocated) for memory in columns), ""],
        ["reserved", *(gib_interval(memory.reserved) for memory in columns), ""],
        ["device-visible", *(gib_interval(memory.device) for memory in columns), ""],
        ["capacity", *(gib(memory.capacity_bytes) for memory in columns), ""],
        ["left", *(gib(memory.capacity_bytes - memory.device.value) for memory in columns), ""],
        ["first rank", *(str(first_rank(plan, memory.stage)) for memory in columns), ""],
    ]
    more = ""
    if left:
        totals = [memory.device.value for memory in ledger]
        more = (
            f"{len(ledger)} stages, {left} groups of them not shown; all need {gib(min(totals))} to "
            f"{gib(max(totals))} GiB of device memory."
        )
    heads = ["GiB", *heads, f"formula (stage {peak.stage})"]
    return Table(tuple(heads), tuple(map(tuple, rows)), more)


def memory_notes(ledger: Sequence[StageMemory]) -> list[str]:
    """What the rows of the fullest stage leave out or why they do not apply."""
    return [
        f"{row.name}: {row.note}" + ("" if row.modelled else " (not modelled: the verdict is lower for it)")
        for row in fullest(ledger).rows
        if row.note
    ]


def time_table(priced: Priced) -> Table:
    """The step in the order in which it is spent; the parts named 'of it' lie inside the first two."""
    ledger = priced.step.ledger
    repeats = ledger.microbatches - 1
    rows = (
        ("first microbatch, with the drain of the pipeline", seconds(ledger.first_microbatch_s)),
        (
            f"bottleneck stage, {seconds(ledger.bottleneck_s)} x {repeats} further microbatches",
            seconds(repeats * ledger.bottleneck_s),
        ),
        ("communication after the pipeline, exposed", seconds(ledger.exposed_s)),
        ("optimizer step", seconds(ledger.optimizer_s)),
        ("step", interval(priced.step_estimate)),
        ("of it, bubble: the bottleneck stage idles", seconds(ledger.bubble_s)),
        *(
            (f"of it, transfers between stages {where}, of one microbatch", seconds(spent))
            for where, spent in (("inside nodes", ledger.transfer_intra_s), ("across nodes", ledger.transfer_inter_s))
            if len(priced.plan.stages) > 1
        ),
    )
    return Table(("time", "value:"), rows)


def time_lines(priced: Priced, name: str) -> list[str]:
    """The same in two sentences, for the plan called `name`: the step as a sum, and what lies inside its first two parts."""
    ledger = priced.step.ledger
    more = ledger.microbatches - 1
    lines = [
        f"Step of {name} {interval(priced.step_estimate)} = first microbatch with the drain of the pipeline "
        f"{seconds(ledger.first_microbatch_s)} + {more} further x {seconds(ledger.bottleneck_s)} on the bottleneck stage "
        f"({seconds(more * ledger.bottleneck_s)}) + exposed communication after the pipeline {seconds(ledger.exposed_s)} + "
        f"optimizer step {seconds(ledger.optimizer_s)}."
    ]
    if len(priced.plan.stages) > 1:
        lines.append(
            f"Of it the bottleneck stage idles {seconds(ledger.bubble_s)} (its bubble); the messages of one microbatch take "
            f"{seconds(ledger.transfer_intra_s)} inside nodes and {seconds(ledger.transfer_inter_s)} across them."
        )
    return lines


def stage_table(priced: Priced) -> Table:
    """Forward and backward of one microbatch by group of equal stages, and communication by tier."""
    stages, plan = priced.step.stages, priced.plan

    def key(k: int) -> tuple[StageTime, int]:
        return stages[k], plan.stages[k].layers

    groups = grouped(len(stages), key)
    shown, left = telling(groups, priced.step.bottleneck)
    rows = []
    for one in shown:
        stage, layers = stages[one.first], plan.stages[one.first].layers
        mark = ", bottleneck" if one.first <= priced.step.bottleneck <= one.last else ""
        tiers = "; ".join(f"{name} {seconds(spent)}" for name, spent in stage.communication if spent > 0)
        rows.append(
            (
                one.label + mark,
                f"{layers} on {plan.stages[one.first].mesh}",
                seconds(stage.forward_s),
                seconds(stage.backward_s),
                seconds(stage.compute_s),
                tiers or "none",
            )
        )
    more = f"{left} further groups of stages are not shown; none is slower than the bottleneck." if left else ""
    heads = ("one microbatch", "layers", "forward:", "backward:", "compute:", "communication by tier, hidden or not")
    return Table(heads, tuple(rows), more)


def terms_table(plans: Sequence[tuple[str, Priced]]) -> Table:
    """The terms of the step side by side, in seconds; a term that is zero in all plans is left out."""
    names: dict[str, None] = {}
    for _, priced in plans:
        names |= dict.fromkeys(name for name, _ in priced.step.terms)
    found = [dict(priced.step.terms) for _, priced in plans]
    rows = []
    for name in names:
        values = [terms.get(name) for terms in found]
        if any(values):
            rows.append((TERM_NAMES.get(name, name), *("" if one is None else _exact(one) for one in values)))
    rows.append(("step", *(_exact(priced.step.seconds) for _, priced in plans)))
    return Table(("term, s", *(f"{name}:" for name, _ in plans)), tuple(rows))


def figures_table(plans: Sequence[tuple[str, Priced]]) -> Table:
    """The plans' headline figures side by side."""
    columns = [priced for _, priced in plans]
    rows = [
        ("step time", *(interval(one.step_estimate) for one in columns)),
        ("MFU", *(f"{digits(100 * one.mfu)} %" for one in columns)),
        ("tokens/s", *(f"{one.tokens_per_second:,.0f}" for one in columns)),
        ("fits", *(one.feasible for one in columns)),
        ("bound by", *(TERM_NAMES.get(one.binding, one.binding) for one in columns)),
        ("memory, fullest rank, GiB", *(gib_interval(one.memory[one.peak].device) for one in columns)),
        ("left, GiB", *(gib(one.headroom_bytes) for one in columns)),
    ]
    return Table(("", *(f"{name}:" for name, _ in plans)), tuple(rows))


def falls_apart(priced: Priced) -> list[str]:
    """What the step time leaves out, and why its interval is wider than others'."""
    wide = [f"the interval is wider than others': {reason}" for reason in priced.exceptions]
    return [f"not modelled: {one}" for one in priced.step.unmodelled] + wide


def _exact(value: float) -> str:
    return "0" if value == 0 else digits(value)
