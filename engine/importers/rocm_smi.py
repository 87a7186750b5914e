"""Reads what `rocm-smi --showtopo` prints: weight, hops and link type between each two GPUs, and their NUMA nodes.

Vocabulary: a *section* is a table under a title between equals signs. The diagonal of each is `0`; a row is believed
where it has a cell for each column and its zero stands under its own name, a link where both rows agree in every
section.

It must not know proposals, bandwidths or networks between nodes. Hops and weight are the driver's, without a unit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from ..frozen import dataclass
from .nvidia_topo import Link, Pair, TopologyMatrix, agreed
from .text_table import Gap, Line, Ranges, cleaned, foreign, lines_of, listed, several, shown, whole

KIND = "rocm-smi"
_EXPECTED = "the output of `rocm-smi --showtopo`, with its section `Link Type between two GPUs`"
_DEVICE = re.compile(r"GPU\d{1,5}")
_NUMA = re.compile(r"\s*GPU\s?\[?(\d{1,5})\]?\s*:\s*\(Topology\) Numa (Node|Affinity):\s*(\S+)\s*")
_TYPE, _HOPS, _WEIGHT, _NODES = "link type", "hops", "weight", "numa nodes"
_MATRICES = {
    "weight between two gpus": _WEIGHT,
    "hops between two gpus": _HOPS,
    "link type between two gpus": _TYPE,
}
_END = "end of rocm smi log"
_WORDS = ("XGMI", "PCIE")
_MOST_DEVICES = 256


@dataclass(frozen=True, slots=True)
class _Section:
    """A table: the line of its title, its columns, and the believed cells by pair, with their lines."""

    line: int
    columns: tuple[str, ...]
    cells: dict[Pair, tuple[str, int]]


def recognises(text: str) -> bool:
    """Whether the text has a title of one of the tool's tables of links."""
    return any(_title(line) in _MATRICES for line in cleaned(text))


def read(text: str, name: str) -> TopologyMatrix:
    """The matrix of one machine. `name` is the file's name, for messages. `numa` is the NUMA node of each device.

    Raises DataError where the file is empty or foreign, holds two reports, or has no link type that can be believed.
    """
    lines = lines_of(text, name, _EXPECTED)
    gaps: list[Gap] = []
    sections = _sections(lines, name, gaps)
    types = sections.get(_TYPE)
    if types is None or not types.columns:
        raise foreign("there is no table of link types", name, types.line if types else None, _EXPECTED)
    devices = types.columns
    stated: dict[Pair, list[Link]] = {}
    for pair, (word, line) in types.cells.items():
        if word in _WORDS:
            stated[pair] = [Link(word, None, line)]
        else:
            gaps.append(Gap(f"{pair[0]}-{pair[1]} reads {shown(word)}, not a link type", line, " or ".join(_WORDS)))
    for kind in (_HOPS, _WEIGHT):
        _add_numbers(stated, sections.get(kind), kind, devices, gaps)
    links, once = agreed(stated, devices, gaps)
    if not links and len(devices) > 1:
        raise foreign(f"no link can be read ({gaps[0].what})", name, gaps[0].line or types.line, _EXPECTED)
    numa = _numa(lines, devices, gaps)
    if not any(_title(line) == _END for line in lines):
        gaps.append(Gap("the log has no end", lines[-1].number, "a last line `End of ROCm SMI Log`"))
    notes = ["rocm-smi states neither CPU affinity nor NICs"]
    if once:
        notes.append(f"{once} links are stated by one row only, because the opposite row is missing or not readable")
    return TopologyMatrix(
        devices=devices,
        nics=(),
        links=links,
        cpu_affinity=MappingProxyType({}),
        numa=MappingProxyType(numa),
        nic_names=MappingProxyType({}),
        missing=tuple(gaps),
        notes=tuple(notes),
        kind=KIND,
    )


def _title(line: Line) -> str | None:
    text = line.text.strip()
    framed = text.startswith("===") and text.endswith("===")
    return " ".join(text.strip("=").lower().split()) if framed else None


def _sections(lines: Sequence[Line], name: str, gaps: list[Gap]) -> dict[str, _Section]:
    """The tables by kind; a kind that stands twice means two reports in one file."""
    found: dict[str, _Section] = {}
    body: list[Line] = []
    kind: str | None = None
    title = 0
    for line in (*lines, Line(len(lines) + 1, "=== end ===")):
        heading = _title(line)
        if heading is None:
            body.append(line)
            continue
        if kind is not None:
            found[kind] = _section(kind, title, [row for row in body if row.text.strip()], name, gaps)
        kind, title, body = _MATRICES.get(heading), line.number, []
        if kind in found and kind is not None:
            raise several(f"table of {kind}", name, found[kind].line, line.number)
    return found


def _section(kind: str, title: int, body: Sequence[Line], name: str, gaps: list[Gap]) -> _Section:
    columns = tuple(body[0].text.split()) if body else ()
    if not columns or not all(_DEVICE.fullmatch(column) for column in columns):
        what = f"the table of {kind} has no header" + (f" but {shown(body[0].text.strip())}" if body else "")
        gaps.append(Gap(what, body[0].number if body else title, "a line `GPU0 GPU1 ...`"))
        return _Section(title, (), {})
    if len(set(columns)) != len(columns) or len(columns) > _MOST_DEVICES:
        what = f"the header of the table of {kind} names {len(columns)} devices, {len(set(columns))} of them different"
        raise foreign(what, name, body[0].number, f"each device once, {_MOST_DEVICES} at most")
    cells: dict[Pair, tuple[str, int]] = {}
    seen: dict[str, int] = {}
    for row in body[1:]:
        label, *values = row.text.split()
        fault = _fault(label, values, columns, seen, kind)
        if fault is not None:
            gaps.append(Gap(fault[0], row.number, fault[1]))
            cells = {pair: cell for pair, cell in cells.items() if pair[0] != label}
        else:
            cells |= {
                (label, other): (cell, row.number)
                for other, cell in zip(columns, values, strict=True)
                if other != label
            }
        seen.setdefault(label, row.number)
    absent = [column for column in columns if column not in seen]
    if absent:
        what = f"{len(absent)} of {len(columns)} devices have no row in the table of {kind}: {listed(absent)}"
        gaps.append(Gap(what, title, "a row for each device that the header names"))
    return _Section(title, columns, cells)


def _fault(
    label: str, values: Sequence[str], columns: Sequence[str], seen: dict[str, int], kind: str
) -> tuple[str, str] | None:
    """What keeps a row from being believed, and what was expected instead; None where nothing does."""
    if label not in columns:
        return f"{shown(label)} in the table of {kind} is no column of it", f"a row of {listed(columns)}"
    if label in seen:
        return f"{label} has rows on line {seen[label]} and here in the table of {kind}", "one row a device"
    if len(values) != len(columns):
        return f"the row of {label} has {len(values)} cells in the table of {kind}", f"{len(columns)} cells"
    own = columns.index(label)
    if values[own] != "0":
        return (
            f"{label} to itself reads {shown(values[own])} in the table of {kind}",
            "'0': a device has no link to itself",
        )
    zero = next(
        (column for column, value in zip(columns, values, strict=True) if value == "0" and column != label), None
    )
    if zero is not None:
        return f"{label}-{zero} reads '0' in the table of {kind}", f"'0' once, in the column of {label}"
    return None


def _add_numbers(
    stated: dict[Pair, list[Link]], section: _Section | None, kind: str, devices: tuple[str, ...], gaps: list[Gap]
) -> None:
    """Hops or weight of each link that has a type. A table for other devices is not used."""
    if section is None or section.columns != devices:
        what = f"there is no table of {kind}" if section is None else f"the table of {kind} names other devices"
        gaps.append(Gap(what, section.line if section else None, f"a section `{kind}` for {listed(devices)}"))
        return
    for pair, (cell, line) in section.cells.items():
        value = whole(cell)
        if not value:
            gaps.append(Gap(f"{pair[0]}-{pair[1]} has {kind} {shown(cell)}", line, "a positive whole number"))
        elif pair in stated:
            link = stated[pair][0]
            stated[pair] = [replace(link, hops=value) if kind == _HOPS else replace(link, weight=value)]


def _numa(lines: Sequence[Line], devices: Sequence[str], gaps: list[Gap]) -> dict[str, Ranges]:
    found: dict[str, Ranges] = {}
    several_nodes: set[str] = set()
    for line in lines:
        match = _NUMA.fullmatch(line.text)
        if match is None or match[2] != "Node":
            continue
        device, node = f"GPU{int(match[1])}", whole(match[3])
        if device not in devices:
            gaps.append(Gap(f"{device} has a NUMA node and no row", line.number, listed(devices)))
        elif node is None:
            if match[3] not in ("-1", "N/A"):
                gaps.append(Gap(f"the NUMA node of {device} reads {shown(match[3])}", line.number, "a whole number"))
        elif found.setdefault(device, ((node, node),)) != ((node, node),):
            several_nodes.add(device)
            gaps.append(Gap(f"{device} has two NUMA nodes", line.number, "one NUMA node a device"))
    absent = [device for device in devices if device not in found]
    if absent:
        gaps.append(Gap(f"the NUMA node of {listed(absent)} is not stated", None, "a section `Numa Nodes`"))
    return {device: node for device, node in found.items() if device not in several_nodes}
