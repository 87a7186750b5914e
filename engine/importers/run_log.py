"""A measured run as it was logged: the form that every importer of training logs returns, and the general table.

Vocabulary: a *step* is one optimizer step; memory is of one rank, *allocated* (live tensors at their peak), *reserved*
(what the allocator holds) or *device* (what the device's tool shows). Seconds and bytes. A log that prints rates instead of
times keeps them as `samples_per_s` or `tokens_per_device_s`: what a step takes follows from the batch, which a log does not
know.

The general table (CSV or JSON: a list of objects) has one row a step or a rank, columns with their unit in the name:
`step`, `rank`, `stage`, `step_time_s` or `_ms`, `exposed_s` or `_ms`, and `allocated`, `reserved` or `device` with
`_bytes`, `_mib` or `_gib`; also `plan`. `peak_mem_gib` is device memory. Other columns are listed as not read. Knows no
proposal and no prediction."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ..errors import DataError, Place

MOST_BYTES, MOST_ROWS = 64 * 2**20, 1_000_000
_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_BYTES = {"bytes": 1.0, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "kb": 1e3, "mb": 1e6, "gb": 1e9}
_ALIASES = {"measured_ms": "step_time_ms", "iter_time_s": "step_time_s", "peak_mem_gib": "device_gib"}
_QUANTITIES: Mapping[str, Mapping[str, float]] = {
    "step_time": _TIMES, "exposed": _TIMES, "allocated": _BYTES, "reserved": _BYTES, "device": _BYTES,
}  # fmt: skip
_KEYS = ("step", "rank", "stage", "plan")


@dataclass(frozen=True, slots=True)
class Sample:
    """One logged figure in seconds or bytes, or a rate; `line` counts from 1."""

    quantity: str
    value: float
    line: int
    step: int | None = None
    rank: int | None = None
    stage: int | None = None


@dataclass(frozen=True, slots=True)
class RunLog:
    """What one log says. `notes`: what was seen and not read, each with its line."""

    tool: str
    samples: tuple[Sample, ...]
    #: Sequences a step, where the log prints them.
    global_batch: int | None = None
    plan: str | None = None
    notes: tuple[str, ...] = ()

    def of(self, quantity: str) -> list[Sample]:
        """The samples of one quantity, in order."""
        return [one for one in self.samples if one.quantity == quantity]


@dataclass(slots=True)
class Building:
    """A log while it is read."""

    tool: str
    samples: list[Sample] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    global_batch: int | None = None

    def add(self, quantity: str, text: str, factor: float, line: int, **at: int | None) -> None:
        """Take in one figure; one that is no positive finite number is a note."""
        try:
            value = float(text.replace(",", "")) * factor
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value <= 0:
            self.notes.append(f"line {line}: {quantity} '{text[:40]}' is no positive number and was left out")
            return
        self.samples.append(Sample(quantity, value, line, **at))

    def done(self) -> RunLog:
        """The finished log."""
        return RunLog(self.tool, tuple(self.samples), self.global_batch, None, tuple(self.notes[:50]))


def numbered(text: str) -> Iterable[tuple[int, str]]:
    """Lines with their number, colours of terminals taken out."""
    for number, line in enumerate(text.split("\n"), start=1):
        yield number, re.sub(r"\x1b\[[0-9;]*m", "", line)


def read_run_log(raw: bytes, name: str) -> RunLog:
    """The measured run in `raw`: a table, or a log of Megatron-LM, torchtitan or DeepSpeed. Raises DataError with what
    would do."""
    from .run_log_deepspeed import read_deepspeed
    from .run_log_megatron import read_megatron
    from .run_log_torchtitan import read_torchtitan

    if len(raw) > MOST_BYTES:
        raise DataError(f"the file has {len(raw)} bytes; at most {MOST_BYTES} are read", place=Place(name))
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise DataError(f"the file is not UTF-8: {error.reason} at byte {error.start}", place=Place(name)) from None
    if "\0" in text:
        raise DataError("the file holds NUL bytes: it is no text", place=Place(name), remedy="Name the log or table itself.")
    head = text.lstrip()[:1]
    if head in ("[", "{") and _is_json(text):
        return _table(_json_rows(text, name), name, "json")
    # Megatron's lines also stand in logs of Megatron-DeepSpeed, whose own lines time the same steps: the first wins.
    found = [log for log in (reader(text) for reader in (read_megatron, read_torchtitan, read_deepspeed)) if log.samples]
    if found:
        return _alone(found)
    first = text.strip().split("\n", 1)[0]
    if _is_head(first) or ("," in first and re.search(r"(^|,)\s*\"?[A-Za-z_]+\"?\s*(,|$)", first)):
        return _table(_csv_rows(text, name), name, "csv")
    raise DataError(
        "no measured step is found in it",
        place=Place(name, 1),
        remedy="Give a CSV or JSON table with 'step_time_s' (see 'planproof record compare --help'), or the log of Megatron-LM, "
        "torchtitan or DeepSpeed with its per-step lines.",
        code="data.run_log",
    )


def _alone(found: Sequence[RunLog]) -> RunLog:
    """The first log, with a note of lines of other tools that time other steps, and of steps that start again."""
    log, notes = found[0], []
    mine = {one.step for one in log.of("step_time")}
    for other in found[1:]:
        strange = [one for one in other.samples if one.step not in mine]
        if strange:
            notes.append(f"line {strange[0].line}: lines of {other.tool} stand in this log of {log.tool} and were not read")
    steps = [one for one in log.of("step_time") if one.step is not None]
    back = next((later for one, later in pairwise(steps) if (later.step or 0) < (one.step or 0)), None)
    if back is not None:
        notes.append(f"line {back.line}: steps start again at {back.step}; of a step that is logged twice the slower counts")
    return replace(log, notes=(*notes, *log.notes))


def _is_head(line: str) -> bool:
    """Whether a line is one column's name."""
    plain = line.strip().lower()
    return any(plain.startswith(f"{quantity}_") or plain in _ALIASES for quantity in _QUANTITIES)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _json_rows(text: str, name: str) -> list[tuple[int, dict[str, str]]]:
    body = json.loads(text)
    rows = body.get("rows", [body]) if isinstance(body, dict) else body
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError(
            "the JSON is no list of objects", place=Place(name), remedy='Write [{"step": 1, "step_time_s": 13.2}, ...].'
        )
    kept = []
    for k, row in enumerate(rows[:MOST_ROWS], start=1):
        kept.append((k, {str(key): "" if value is None else str(value) for key, value in row.items()}))
    return kept


def _cells(row: Mapping[object, object]) -> int:
    rest = row.get(None)
    return sum(value is not None for key, value in row.items() if key is not None) + (len(rest) if isinstance(rest, list) else 0)


def _csv_rows(text: str, name: str) -> list[tuple[int, dict[str, str]]]:
    reader = csv.DictReader(io.StringIO(text), strict=True)
    rows = []
    try:
        for row in reader:
            if None in row or None in row.values():
                raise DataError(
                    f"a row of {_cells(row)} cells under {len(reader.fieldnames or [])} heads",
                    place=Place(name, reader.line_num),
                )
            rows.append((reader.line_num, row))
            if len(rows) >= MOST_ROWS:
                break
    except csv.Error as error:
        raise DataError(f"the CSV does not read: {error}", place=Place(name, reader.line_num)) from None
    return rows


def _table(rows: Sequence[tuple[int, dict[str, str]]], name: str, tool: str) -> RunLog:
    if not rows:
        raise DataError("the table has no rows", place=Place(name))
    columns: dict[str, tuple[str, float] | None] = {}
    for head in dict.fromkeys(key for _, row in rows for key in row):
        column = columns[head] = _column(head, name)
        if column is not None and any(head != other and known and known[0] == column[0] for other, known in columns.items()):
            raise DataError(
                f"two columns hold one quantity; the second is '{head}'",
                place=Place(name, 1), remedy="Keep one of them: rows would count twice.", code="data.column",
            )  # fmt: skip
    if not any(columns.values()):
        raise DataError(
            f"no column has a measured quantity: {', '.join(list(columns)[:12])}",
            place=Place(name, 1),
            remedy="Name one step_time_s, step_time_ms, allocated_gib, reserved_gib, device_gib, exposed_s ...",
            code="data.columns",
        )
    built = Building(tool)
    plans: dict[str, None] = {}
    for line, row in rows:
        at = {key: _whole(row.get(key, ""), key, line, name) for key in ("step", "rank", "stage")}
        if row.get("plan"):
            plans[row["plan"]] = None
        for head, cell in row.items():
            known = columns[head]
            if known is None or not cell.strip():
                continue
            try:
                float(cell)
            except ValueError:
                raise DataError(
                    f"'{cell[:40]}' under '{head}' is no number",
                    place=Place(name, line),
                    remedy="Write the number alone; the unit stands in the column's name.",
                    code="data.number",
                ) from None
            built.add(known[0], cell, known[1], line, **at)
    if len(plans) > 1:
        raise DataError(
            f"the table has rows of {len(plans)} plans: {', '.join(list(plans)[:6])}",
            place=Place(name),
            remedy="Give one plan a file.",
        )
    unread = [head for head, known in columns.items() if known is None and head not in _KEYS]
    if unread:
        built.notes.append(f"columns that were not read: {', '.join(unread[:20])}")
    if not built.samples:
        raise DataError(
            f"no figure of the table can be used: {built.notes[0] if built.notes else 'its cells are empty'}",
            place=Place(name, rows[0][0]),
            remedy="Times and memory are positive numbers, one row a step or rank.",
            code="data.no_figure",
        )
    log = built.done()
    return RunLog(log.tool, log.samples, log.global_batch, next(iter(plans), None), log.notes)


def _column(head: str, name: str) -> tuple[str, float] | None:
    """(quantity, factor to the base unit) of a column; None for one that is not read. A quantity in a foreign unit is an
    error."""
    plain = _ALIASES.get(head.strip().lower(), head.strip().lower())
    for quantity, units in _QUANTITIES.items():
        if plain == quantity or plain.startswith(quantity + "_"):
            unit = plain[len(quantity) + 1 :]
            if unit in units:
                return quantity, units[unit]
            raise DataError(
                f"the column '{head}' has {f'the unit {unit!r}' if unit else 'no unit'}",
                place=Place(name, 1),
                remedy=f"Name it {', '.join(f'{quantity}_{one}' for one in units)}.",
                code="data.unit",
            )
    return None


def _whole(cell: str, key: str, line: int, name: str) -> int | None:
    if not cell.strip():
        return None
    if not re.fullmatch(r"\s*\d{1,12}\s*", cell, re.ASCII):
        raise DataError(
            f"'{cell[:40]}' under '{key}' is no whole number from 0",
            place=Place(name, line), remedy=f"Write the {key} as 0, 1, 2 ...", code="data.number",
        )  # fmt: skip
    return int(cell)
