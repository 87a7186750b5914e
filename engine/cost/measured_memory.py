"""The memory ledger of a plan whose stages were measured: the profile's bytes in place of the estimated rows, number by number.

A profile tells state, activations of one microbatch and workspace apart, or has one figure for all of a rank. It does not
tell allocated, reserved and device-visible memory apart: of a stage that was measured whole the three are the same number. Where
it has some of them alone, those stand in place of the rows they measure, and the rest keeps its estimate and that one's interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..quantity import Decider, Dimension, Estimate
from .measured import MeasuredStage
from .memory import StageMemory
from .memory_rows import Row

#: The ledger's decider that stays: what the device holds.
CAPACITY = "device memory"
ONE_FIGURE = "the profile has one figure: allocated, reserved and device-visible memory are not told apart"
CONTEXT, RESERVE = "framework context", "allocator reserve"
#: The estimated rows that a measured number stands in place of. What persists holds the framework's context.
STANDS_FOR = {
    "state": ("parameters", "gradients", "optimizer state", CONTEXT),
    "in-flight activations": ("in-flight activations",),
    "workspace": ("layer workspace", "logits and loss", "gathered parameters", "communication buffers"),
}


def measured_ledger(
    stages: Sequence[MeasuredStage | None] | None, ledger: tuple[StageMemory, ...]
) -> tuple[StageMemory, ...]:
    """`ledger` with the measured bytes of each stage in place of its estimates."""
    if stages is None:
        return ledger
    return tuple(measured_memory(stage, memory) for stage, memory in zip(stages, ledger, strict=True))


def measured_memory(stage: MeasuredStage | None, memory: StageMemory) -> StageMemory:
    """One stage of the ledger."""
    if stage is None or not stage.remembers:
        return memory
    held = float(memory.in_flight)
    rows = {}
    if stage.state is not None:
        rows["state"] = Row("state", stage.state, "[profile] what persists", ONE_FIGURE)
    if stage.activation is not None:
        formula = f"[profile] {held:g} x those of one microbatch"
        rows["in-flight activations"] = Row("in-flight activations", round(held * stage.activation), formula)
    if stage.workspace is not None:
        rows["workspace"] = Row("workspace", stage.workspace, "[profile] peak less what persists")
    if len(rows) == len(STANDS_FOR):
        return _measured(stage, memory, tuple(rows.values()))
    if stage.memory is not None:
        return _measured(stage, memory, (Row("memory", stage.memory, "[profile] one rank, everything", ONE_FIGURE),))
    return _mixed(stage, memory, rows)


def _deciders(stage: MeasuredStage, memory: StageMemory) -> tuple[Decider, ...]:
    return (Decider(f"measured memory of stage {memory.stage}", stage.source),)


def _measured(stage: MeasuredStage, memory: StageMemory, rows: tuple[Row, ...]) -> StageMemory:
    total = float(sum(row.bytes for row in rows))
    deciders = (
        *_deciders(stage, memory), *(decider for decider in memory.device.deciders if decider.name == CAPACITY),
    )  # fmt: skip
    whole = Estimate(total, total, total, Dimension.BYTES, stage.source.grade, deciders)
    none = replace(whole, value=0.0, low=0.0, high=0.0)
    return replace(memory, rows=rows, allocated=whole, reserved=whole, device=whole, context=none)


def _mixed(stage: MeasuredStage, memory: StageMemory, measured: dict[str, Row]) -> StageMemory:
    """Measured rows beside estimated ones: their bytes are sure, what is left keeps its relative width."""
    gone = {name for kind in measured for name in STANDS_FOR[kind]}
    rows: list[Row] = []
    for row in memory.rows:
        for kind, names in STANDS_FOR.items():
            if kind in measured and row.name == names[0]:
                rows.append(measured[kind])
        if row.name not in gone:
            rows.append(row)
    sure = float(sum(row.bytes for row in measured.values()))
    less = sum(row.bytes for row in memory.rows if row.name in gone and row.name != CONTEXT)
    none = replace(memory.context, value=0.0, low=0.0, high=0.0)
    context = none if CONTEXT in gone else memory.context
    deciders = _deciders(stage, memory)

    def shifted(one: Estimate, outside: Estimate) -> Estimate:
        """`one` without `outside`, its measured part known."""
        value, low, high = (getattr(one, end) - getattr(outside, end) for end in ("value", "low", "high"))
        share = max(0.0, value - less) / value if value else 0.0
        added = (sure + share * value, sure + share * low, sure + share * high)
        return replace(one, value=added[0], low=added[1], high=added[2], deciders=(*deciders, *one.deciders))

    allocated, reserved = shifted(memory.allocated, none), shifted(memory.reserved, none)
    bare = shifted(memory.device, memory.context)
    device = replace(bare, value=bare.value + context.value, low=bare.low + context.low, high=bare.high + context.high)
    return replace(memory, rows=tuple(rows), allocated=allocated, reserved=reserved, device=device, context=context)
