"""One measured row of memory as a case that the product's own ledger prices.

Vocabulary: a *case* is a model, workload, plan, device and implementation with what was measured on one rank; its *group*
(a test, a run, a sweep) is what is left out together. Three quantities, never mixed: `allocated`, `reserved`, `device`.
A row that does not say enough, or says two things, is left out by `LeftOut` with its reason; nothing is repaired.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from ..cluster import Cluster, Nodes
from ..cost.frameworks import MEGATRON
from ..cost.memory import Fit, MemoryModel, Residuals, StageMemory, fits, stage_memory
from ..cost.memory_terms import Implementation
from ..errors import InputError
from ..hardware import DeviceSheet, Library, NodeSheet, open_library
from ..model import Transformer, Workload
from ..plan import Mesh, Plan, Recompute, Schedule, even_stages
from ..quantity import Estimate

Quantity = Literal["allocated", "reserved", "device"]
Row = Mapping[str, str]
MIB, GIB = 2**20, 2**30

__all__ = ["GIB", "MEGATRON", "MIB", "Case", "LeftOut", "Prediction", "Quantity", "Row", "Table", "predict", "read_table"]


class LeftOut(Exception):
    """Why a row is not used: `reason` in a few words, the same for rows alike; `column` and `value` where one is at fault."""

    def __init__(self, reason: str, column: str = "", value: str = "") -> None:
        super().__init__(reason)
        self.reason, self.column, self.value = reason, column, value


@dataclass(frozen=True, slots=True)
class Table:
    """A CSV file: its columns and rows, in order. `first` is the line of the first row."""

    path: Path
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A row to price. `stages`: those whose ranks were measured, the largest of which is what was read.

    `measured` in bytes. `step_end`: bytes allocated between steps, where measured. `ran`: False where it ran out of memory.
    `declared`: whether everything that decides is stated; `family` is a group of the report, `software` the framework's family.
    """

    line: int
    group: str
    family: str
    model: Transformer
    workload: Workload
    plan: Plan
    device: DeviceSheet
    implementation: Implementation
    stages: tuple[int, ...]
    measured: Mapping[Quantity, float]
    ran: bool = True
    declared: bool = True
    step_end: float | None = None
    software: str = ""
    #: What is not declared, in a few words, where `declared` is False.
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the ledger says of a case: the stage that decides, its three figures, and whether it fits."""

    case: Case
    memory: StageMemory
    fit: Fit

    def estimate(self, quantity: Quantity) -> Estimate:
        """The figure of `quantity`."""
        return {"allocated": self.memory.allocated, "reserved": self.memory.reserved, "device": self.memory.device}[quantity]

    def error(self, quantity: Quantity) -> float:
        """(predicted - measured) / measured."""
        return self.estimate(quantity).value / self.case.measured[quantity] - 1

    def covered(self, quantity: Quantity) -> bool:
        """Whether the 90 % interval holds the measured value."""
        estimate = self.estimate(quantity)
        return estimate.low <= self.case.measured[quantity] <= estimate.high


def one_device(sheet: DeviceSheet) -> Cluster:
    """A cluster of one node of `sheet`: memory of a rank depends on nothing else."""
    node = NodeSheet(sheet.name, (), "", sheet, 8, (), None, None, sheet.origin, sheet.sha256)
    return Cluster((Nodes(1, node),), ())


def predict(
    case: Case, shared: dict[object, MemoryModel] | None = None, *, sheet: DeviceSheet | None = None,
    residuals: Residuals | None = None,
) -> Prediction:  # fmt: skip
    """The product's own ledger of the case's stages. `shared` keeps what earlier cases have computed.

    `sheet` and `residuals`: constants in place of the shipped ones, as fitted without some rows.
    """
    key = (case.model, case.workload, case.implementation)
    models: dict[object, MemoryModel] = {} if shared is None else shared
    place = (*key, residuals)
    if place not in models:
        models[place] = MemoryModel(*key)
        if residuals is not None:
            models[place].residuals = residuals
    found = [stage_memory(case.plan, index, models[place], sheet or case.device) for index in case.stages]
    most = max(found, key=lambda memory: memory.device.value)
    worst = {"no": 2, "at_risk": 1, "yes": 0}
    return Prediction(case, most, max((fits(memory) for memory in found), key=worst.__getitem__))


def read_table(path: str | Path) -> Table | None:
    """The CSV at `path`, or None where it has no header. Rows longer or shorter than the header keep what they have."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, restval="", restkey=None)
        columns = tuple(name or "" for name in reader.fieldnames or ())
        rows = tuple({name: value or "" for name, value in row.items() if isinstance(name, str)} for row in reader)
    return Table(Path(path), columns, rows) if columns else None


def text(row: Row, column: str) -> str:
    """What stands in `column`, without blanks around it; "" where nothing does."""
    if column not in row:
        raise LeftOut(f"column {column} is missing", column)
    return row[column].strip()


def number(row: Row, column: str) -> float:
    """A number above 0. A text, an empty cell, nan or a negative value leaves the row out."""
    raw = text(row, column)
    if not raw:
        raise LeftOut(f"{column} is empty", column)
    try:
        value = float(raw)
    except ValueError:
        raise LeftOut(f"{column} is not a number", column, raw) from None
    if not math.isfinite(value) or value <= 0:
        raise LeftOut(f"{column} is not above 0", column, raw)
    return value


def count(row: Row, column: str, default: int | None = None) -> int:
    """A whole number above 0, `default` where the cell is empty."""
    if default is not None and not text(row, column):
        return default
    value = number(row, column)
    if value != int(value) or value > 2**31:
        raise LeftOut(f"{column} is not a whole number", column, row[column])
    return int(value)


@cache
def _library() -> Library:
    return open_library()


def device_of(name: str, memory_gb: str = "", column: str = "gpu_type") -> DeviceSheet:
    """The data sheet of `name`, by its name and, where one is stated, its memory."""
    if not name:
        raise LeftOut(f"{column} is empty", column)
    for full in ([f"{name}-{memory_gb}GB"] if memory_gb else []) + [name]:
        try:
            return _library().device(full)
        except InputError:
            continue
    raise LeftOut("no data sheet for the device", column, f"{name} {memory_gb}".strip())


def uniform_plan(
    model: Transformer, mesh: Mesh, pipeline: int, microbatch: int, accumulation: int, *, interleave: int = 1,
    recompute: Recompute = Recompute.NONE, zero: int = 0, sequence_parallel: bool = False,
) -> Plan:  # fmt: skip
    """A plan of equal stages, 1F1B, or interleaved where a stage has several chunks."""
    stages = even_stages(model.layers, pipeline, mesh)
    if stages is None or (model.layers // pipeline) % interleave:
        raise LeftOut("layers do not divide into stages and chunks", "layers", str(model.layers))
    schedule = Schedule.INTERLEAVED if interleave > 1 else Schedule.ONE_F_ONE_B
    return Plan(
        "measured", stages, microbatch, accumulation, schedule=schedule, interleave=interleave, recompute=recompute,
        zero=zero, sequence_parallel=sequence_parallel,
    )  # fmt: skip


def accumulation_of(global_batch: int, microbatch: int, data: int) -> int:
    """Microbatches a step."""
    if global_batch % (microbatch * data):
        raise LeftOut("gbs is no multiple of mbs x dp", "gbs", str(global_batch))
    return global_batch // (microbatch * data)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of table: recognised where all `signature` columns are there; `cases` yields, row by row, cases or why not.

    `alternatives`: several cases of a row are ways to read what it leaves open, and must agree; else they are its stages.
    """

    name: str
    signature: frozenset[str]
    cases: Callable[[Table], Iterator[tuple[int, list[Case] | LeftOut]]] = field(repr=False)
    alternatives: bool = False
