"""A measured profile: stages or layers, with latency and memory, as a CSV file.

One row is one measurement of consecutive layers on one mesh with one microbatch. The header names the columns; a unit is the
suffix of a column's name (`latency_ms`, `memory_mib`, `parameters`), or stands in the cell (`12.5 ms`). Columns:

- which layers: `layer` (one), or `layers` / `stage_layers` (`0-3`, or a list written `[0, 3]`);
- on what: `devices`, `device`, `mesh` (`data=4 tensor=2`), or `data`, `tensor` (`tp`), `context`; `microbatch` (`bs`, `mbs`);
- time of one microbatch: `latency` (forward and backward; `compute`), or `forward` and `backward`; `optimizer`, once a step;
- memory of one rank: `memory` (everything), `workspace`, `activation` (of one microbatch in flight), `state`;
- what the file says of the whole: `parameters`, `total_memory`, `total_time`.

What the figures mean for a plan is not decided here.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

from ..errors import DataError, Place
from ..frozen import dataclass
from ..plan import Mesh
from ..quantity import Dimension, UnitError, parse

MAX_ROWS = 100_000
ALIASES = {
    "stage_layers": "layers",
    "tp": "tensor",
    "dp": "data",
    "cp": "context",
    "bs": "microbatch",
    "mbs": "microbatch",
    "micro_batch": "microbatch",
    "compute": "latency",
    "forward_backward": "latency",
    "fwd_bwd": "latency",
    "param_bytes": "parameters",
    "parameter_count": "parameters",
}
TIMES = ("latency", "forward", "backward", "optimizer", "total_time")
MEMORIES = ("memory", "workspace", "activation", "state", "total_memory")
COUNTS = ("layer", "devices", "data", "tensor", "context", "expert", "microbatch", "parameters")
WORDS = ("layers", "mesh", "device", "source")
#: "MB" of allocators and device tools is MiB; a column `memory_mb` is read so, and the record says it.
SUFFIX_UNITS = {
    "ns": "ns", "us": "us", "ms": "ms", "s": "s",
    "bytes": "B", "b": "B", "kib": "KiB", "mib": "MiB", "gib": "GiB", "mb": "MiB", "gb": "GB",
}  # fmt: skip
_CELL = re.compile(r'"(?:[^"]|"")*"?[^,]*|[^,]*')
COLUMNS = COUNTS + TIMES + MEMORIES + WORDS


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One measurement. Times in seconds for one microbatch, memory in bytes for one rank; None where not given."""

    first: int
    last: int
    mesh: Mesh
    microbatch: int
    line: int
    latency: float | None = None
    forward: float | None = None
    backward: float | None = None
    optimizer: float | None = None
    memory: int | None = None
    workspace: int | None = None
    activation: int | None = None
    state: int | None = None
    parameters: int | None = None
    total_memory: int | None = None
    total_time: float | None = None
    device: str | None = None

    @property
    def layers(self) -> int:
        """How many layers the row measured together."""
        return self.last - self.first + 1

    @property
    def time(self) -> float | None:
        """Forward and backward of one microbatch, in seconds."""
        if self.latency is not None:
            return self.latency
        if self.forward is not None and self.backward is not None:
            return self.forward + self.backward
        return None

    @property
    def instant(self) -> bool:
        """Whether a pass is said to take no time at all."""
        return 0 in (self.latency, self.forward, self.backward)

    @property
    def weightless(self) -> bool:
        """Whether its state, or all of its memory, is said to take no bytes."""
        return 0 in (self.state, self.memory)

    @property
    def half(self) -> bool:
        """Whether one of its two passes was timed, and neither the other nor both together."""
        return self.latency is None and (self.forward is None) != (self.backward is None)


@dataclass(frozen=True, slots=True)
class MeasuredProfile:
    """All rows of a file. `by_key` finds rows by (first, last, mesh, microbatch)."""

    name: str
    rows: tuple[ProfileRow, ...]
    by_key: dict[tuple[int, int, Mesh, int], ProfileRow] = field(compare=False, repr=False)
    #: Rows that measure the same thing and differ: (earlier, later).
    contradictions: tuple[tuple[ProfileRow, ProfileRow], ...] = ()
    #: Whether the embedding and the head have rows of their own, before the first and after the last layer.
    separate_ends: bool = False
    #: Headings of columns that are not known, and the line of the header.
    unread: tuple[str, ...] = ()
    header: int = 1

    @property
    def layers(self) -> int:
        """Layers that the rows name, without the ends where those have rows of their own."""
        return max(row.last for row in self.rows) + 1 - (2 if self.separate_ends else 0)

    def stage_rows(
        self, first: int, last: int, mesh: Mesh, microbatch: int, *, embedding: bool, head: bool
    ) -> tuple[ProfileRow, ...] | None:
        """What measured the stage of layers `first` to `last`: one row of all of it, or one a layer; None where neither.

        A row on the stage's own mesh is preferred; a row of one data replica serves for any number of them, since memory
        and time of a microbatch of one replica do not depend on the others.
        """
        low, high = first, last
        if self.separate_ends:
            low, high = first + (0 if embedding else 1), last + (2 if head else 1)
        for wanted in (mesh, replace(mesh, data=1, expert=1)):
            whole = self.find(low, high, wanted, microbatch)
            if whole is not None:
                return (whole,)
            layers = self.layer_rows(low, high, wanted, microbatch)
            if layers is not None:
                return layers
        return None

    def find(self, first: int, last: int, mesh: Mesh, microbatch: int) -> ProfileRow | None:
        """The row that measured exactly these layers together."""
        return self.by_key.get((first, last, mesh, microbatch))

    def layer_rows(self, first: int, last: int, mesh: Mesh, microbatch: int) -> tuple[ProfileRow, ...] | None:
        """One row a layer for `first` to `last`, or None where a layer is not in the profile."""
        rows = [self.by_key.get((k, k, mesh, microbatch)) for k in range(first, last + 1)]
        found = tuple(row for row in rows if row is not None)
        return found if len(found) == len(rows) else None


def read_profile(raw: bytes, name: str, *, separate_ends: bool = False) -> MeasuredProfile:
    """Parse a profile. Raises DataError with file, line and column name for anything that is not a measurement."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _wrong(name, 1, f"is not UTF-8 (byte {error.start})") from None
    if "\0" in text:
        raise _wrong(name, 1, "has a NUL byte: this is no CSV file")
    lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip() and not line.startswith("#")]
    if not lines:
        raise _wrong(name, 1, "is empty", "A header and one row a measurement; see docs/proposal.md, 'profile'.")
    if len(lines) > MAX_ROWS + 1:
        raise _wrong(name, lines[-1][0], f"has more than {MAX_ROWS} rows")
    header_line, header = lines[0]
    columns = _columns(_cells(header, name, header_line), name, header_line, _starts(header))
    rows: list[ProfileRow] = []
    index: dict[tuple[int, int, Mesh, int], ProfileRow] = {}
    clashes: list[tuple[ProfileRow, ProfileRow]] = []
    for number, line in lines[1:]:
        cells = _cells(line, name, number)
        if len(cells) != len(columns):
            starts = _starts(line)
            at = starts[min(len(columns), len(starts) - 1)]
            raise _wrong(name, number, f"has {len(cells)} cells where the header has {len(columns)} columns", column=at)
        row = _row(columns, cells, name, number, _starts(line))
        key = (row.first, row.last, row.mesh, row.microbatch)
        earlier = index.setdefault(key, row)
        if earlier is not row and _differ(earlier, row):
            clashes.append((earlier, row))
        rows.append(row)
    if not rows:
        raise _wrong(name, header_line, "has a header and no rows")
    unread = tuple(column.heading for column in columns if not column.name and column.heading)
    return MeasuredProfile(name, tuple(rows), index, tuple(clashes), separate_ends, unread, header_line)


def _differ(one: ProfileRow, other: ProfileRow) -> bool:
    """Whether two rows give two values of one number."""
    named = ("time", "forward", "backward", *MEMORIES, "optimizer")
    pairs = [(getattr(one, name), getattr(other, name)) for name in named]
    return any(a is not None and b is not None and a != b for a, b in pairs)


def _cells(line: str, name: str, number: int) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(line), strict=True))
    except csv.Error as error:
        raise _wrong(name, number, f"is no CSV row: {error}") from None


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    heading: str
    unit: str | None


def _columns(headings: list[str], name: str, line: int, starts: list[int]) -> list[_Column]:
    columns = []
    for heading in headings:
        key = re.sub(r"[\s\-]+", "_", heading.strip().lower())
        base, unit = key, None
        stem, _, suffix = key.rpartition("_")
        if key not in COLUMNS and key not in ALIASES and suffix in SUFFIX_UNITS:
            base, unit = stem, SUFFIX_UNITS[suffix]
        column = ALIASES.get(base, base)
        if column not in COLUMNS:
            column = ""
        columns.append(_Column(column, heading.strip(), unit))
    known = [column.name for column in columns if column.name]
    for column in known:
        if known.count(column) > 1:
            second = [k for k, one in enumerate(columns) if one.name == column][1]
            raise _wrong(name, line, f"names the column '{column}' twice", "Keep one of them.", starts[second])
    if not {"layer", "layers"} & set(known):
        raise _wrong(name, line, "has no column 'layers' or 'layer'", f"Known columns: {', '.join(COLUMNS)}.")
    if not (set(TIMES) | set(MEMORIES)) & set(known):
        raise _wrong(name, line, "has no time and no memory column", f"Known columns: {', '.join(COLUMNS)}.")
    if "microbatch" not in known:
        raise _wrong(name, line, "has no column 'microbatch': a latency without it belongs to no plan")
    return columns


def _row(columns: list[_Column], cells: list[str], name: str, line: int, starts: list[int]) -> ProfileRow:
    values: dict[str, Any] = {}
    places = {column.name: start for column, start in zip(columns, starts, strict=False)}
    for column, cell in zip(columns, cells, strict=True):
        cell = cell.strip()
        if not column.name or not cell:
            continue

        def fail(expected: str, column: _Column = column, cell: str = cell) -> DataError:
            return _wrong(
                name, line, f"column '{column.heading}': expected {expected}, found {cell[:40]!r}", column=places.get(column.name)
            )

        values[column.name] = _cell(column, cell, fail)
    first, last = _layers(values, name, line, places.get("layers"))
    mesh = values.get("mesh")
    if mesh is None:
        degrees = {axis: values.get(axis, 1) for axis in ("data", "tensor", "context", "expert")}
        mesh = Mesh(**degrees)
    assert isinstance(mesh, Mesh)
    devices = values.get("devices")
    if isinstance(devices, int) and devices != mesh.devices:
        if mesh != Mesh():
            what = f"says {devices} devices for a mesh of {mesh.devices} ({mesh})"
            raise _wrong(name, line, what, column=places.get("devices"))
        mesh = Mesh(data=devices)
    microbatch = values.get("microbatch")
    if not isinstance(microbatch, int):
        raise _wrong(name, line, "column 'microbatch' is empty", column=places.get("microbatch"))
    kept = {key: values[key] for key in (*TIMES, *MEMORIES, "parameters", "device") if key in values}
    return ProfileRow(first, last, mesh, microbatch, line, **kept)


def _cell(column: _Column, cell: str, fail: Callable[[str], DataError]) -> object:
    if column.name in COUNTS:
        if not re.fullmatch(r"\d{1,15}", cell):
            raise fail("a whole number")
        number = int(cell)
        if number < 1 and column.name != "layer":
            raise fail("at least 1")
        return number
    if column.name in TIMES + MEMORIES:
        dimension = Dimension.TIME if column.name in TIMES else Dimension.BYTES
        try:
            value = parse(f"{cell} {column.unit}" if column.unit else cell, dimension)
        except UnitError as error:
            raise fail(f"a number ({error})") from None
        return round(value) if dimension is Dimension.BYTES else float(value)
    if column.name == "mesh":
        degrees = {}
        for part in re.split(r"[\s,x;]+", cell.strip("{}")):
            match = re.fullmatch(r"(data|tensor|context|expert)[=:](\d{1,7})", part)
            if match is None or int(match[2]) < 1:
                raise fail("a mesh such as data=4 tensor=2")
            degrees[match[1]] = int(match[2])
        return Mesh(**degrees)
    return cell


def _layers(values: dict[str, Any], name: str, line: int, column: int | None) -> tuple[int, int]:
    if isinstance(values.get("layer"), int):
        return values["layer"], values["layer"]
    match = re.fullmatch(r"\[?\s*(\d{1,6})\s*(?:[-:,]\s*(\d{1,6}))?\s*\]?", str(values.get("layers", "")))
    if match is None:
        what = f"layers {values.get('layers', '')!r} are no range such as 0-3 (inclusive, from 0)"
        raise _wrong(name, line, what, column=column)
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise _wrong(name, line, f"layers {first}-{last} run backwards", column=column)
    return first, last


def _starts(line: str) -> list[int]:
    """The columns, from 1, at which the cells of a row begin. A cell that begins with a quote may hold commas."""
    found, at = [], 0
    while True:
        found.append(at + 1)
        match = _CELL.match(line, at)
        at = match.end() + 1 if match is not None else len(line) + 1
        if at > len(line):
            return found


def _wrong(name: str, line: int, what: str, remedy: str | None = None, column: int | None = None) -> DataError:
    return DataError(
        f"the profile {what}",
        place=Place(name, line, column),
        remedy=remedy or "docs/proposal.md, 'profile', has the columns and what stands in them.",
        code="data.profile",
    )
