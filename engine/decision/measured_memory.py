"""The memory ledger of a plan whose stages were measured: the profile's bytes in place of the estimated rows.

A profile tells state, activations of one microbatch and workspace apart, or has one figure for all of a rank. It does not
tell allocated, reserved and device-visible memory apart: the three are the same number here. Replaces figures only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..cost import StageMemory
from ..cost.measured import MeasuredStage
from ..cost.memory_rows import Row
from ..quantity import Decider, Dimension, Estimate

#: The ledger's decider that stays: what the device holds.
CAPACITY = "device memory"
ONE_FIGURE = "the profile has one figure: allocated, reserved and device-visible memory are not told apart"


def measured_ledger(
    stages: Sequence[MeasuredStage], ledger: tuple[StageMemory, ...]
) -> tuple[StageMemory, ...]:
    """`ledger` with measured bytes, where the profile has the memory of every stage; else as it is."""
    found = [_rows(stage, float(memory.in_flight)) for stage, memory in zip(stages, ledger, strict=True)]
    if not all(found):
        return ledger
    return tuple(
        _measured(stage, memory, rows) for stage, memory, rows in zip(stages, ledger, found, strict=True) if rows
    )


def _rows(stage: MeasuredStage, held: float) -> tuple[Row, ...] | None:
    if stage.state is not None and stage.activation is not None:
        return (
            Row("state", stage.state, "[profile] what persists", ONE_FIGURE),
            Row("in-flight activations", round(held * stage.activation), f"[profile] {held:g} x those of one microbatch"),
            Row("workspace", stage.workspace or 0, "[profile] peak less what persists"),
        )
    if stage.memory is not None:
        return (Row("memory", stage.memory, "[profile] one rank, everything", ONE_FIGURE),)
    return None


def _measured(stage: MeasuredStage, memory: StageMemory, rows: tuple[Row, ...]) -> StageMemory:
    total = float(sum(row.bytes for row in rows))
    deciders = (
        Decider(f"measured memory of stage {memory.stage}", stage.source),
        *(decider for decider in memory.device.deciders if decider.name == CAPACITY),
    )
    whole = Estimate(total, total, total, Dimension.BYTES, stage.source.grade, deciders)
    none = replace(whole, value=0.0, low=0.0, high=0.0)
    return replace(memory, rows=rows, allocated=whole, reserved=whole, device=whole, context=none)
