"""Reads the link matrix that `nvidia-smi topo -m` prints, and defines the matrix that other topology importers return.

Vocabulary: a *device* is an accelerator (`GPU0`), a *NIC* any other column of the matrix (`NIC0`, `mlx5_0`); a *link
word* is the tool's name for the closest path between two of them; an *island* is a set of devices joined by NVLink or
XGMI.

Every row carries its own proof of alignment, the `X` of the device with itself. A cell is believed where that proof and
the number of cells agree with the header, and where the opposite row, if there is one, has the same word; the rest is a
gap.

It must not know proposals, bandwidths or networks between nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ..frozen import dataclass
from .text_table import Gap, Line, Ranges, cleaned, foreign, lines_of, listed, ranges, several, shown

KIND = "nvidia-topo"
_EXPECTED = "the output of `nvidia-smi topo -m`: a header line `GPU0 GPU1 ... CPU Affinity`, then a row for each device"
_MOST_COLUMNS = 1024

LINK_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "X": "the device itself",
        "NV#": "a bonded set of # NVLinks",
        "PIX": "at most one PCIe bridge or switch",
        "PXB": "several PCIe bridges, none of them a host bridge",
        "PHB": "a PCIe host bridge, usually the CPU",
        "NODE": "several PCIe host bridges of one NUMA node",
        "SYS": "the link between NUMA nodes (QPI, UPI)",
        "SOC": "the link between CPU sockets: what drivers before SYS and NODE called SYS",
        "XGMI": "AMD Infinity Fabric (rocm-smi)",
        "PCIE": "PCIe (rocm-smi)",
    }
)
"""What each link word means. Source: the legends under the matrices of nvidia-smi; SOC: tensorflow/networking, gdr."""

_LINK = r"NV[1-9]\d?|PIX|PXB|PHB|NODE|SYS|SOC"
#: What was expected where two rows differ.
ONE_DESCRIPTION = "the same in both rows: a link has one description"
_WORD = re.compile(_LINK)
_FUSED = re.compile(rf"(?:X|{_LINK}){{2,}}")
_PLAIN_WORD = re.compile(r"[A-Z][A-Z0-9]{1,7}")
_AFFINITY = re.compile(r"[\d,-]+|N/A")
_TAIL = re.compile(r"\b(?:CPU Affinity|NUMA Affinity|GPU NUMA ID)(?!\S)")
_DEVICE = re.compile(r"GPU\d{1,5}")
_NIC = re.compile(r"NIC\d{1,5}|(?!NIC)(?=[^\d\s]*\d)[A-Za-z][\w.:-]{0,63}")
_LEGEND = re.compile(r"\s*(NIC\d{1,5}):\s*(\S{1,64})\s*")

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Link:
    """The closest path between two devices: word, number of NVLinks, the line that states it, AMD's hops and weight."""

    word: str
    nvlinks: int | None
    line: int
    hops: int | None = None
    weight: int | None = None


@dataclass(frozen=True, slots=True)
class TopologyMatrix:
    """What one topology file says. `links` has both orders of every pair that is known, and no other.

    `cpu_affinity` and `numa` are inclusive ranges by device, absent where the tool prints N/A; `nic_names` maps the
    matrix's names to the legend's (`NIC0` to `mlx5_0`); `missing` lists what the file should have said, `notes` how it
    was read.
    """

    devices: tuple[str, ...]
    nics: tuple[str, ...]
    links: Mapping[Pair, Link]
    cpu_affinity: Mapping[str, Ranges]
    numa: Mapping[str, Ranges]
    nic_names: Mapping[str, str]
    missing: tuple[Gap, ...]
    notes: tuple[str, ...]
    kind: str


@dataclass(frozen=True, slots=True)
class _Header:
    """The columns in order (None: a device that is not named), the affinity columns, and the line that shows them."""

    columns: tuple[str | None, ...]
    tails: tuple[str, ...]
    line: int | None


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Of one row: which cells can be believed, by index, whether what follows them can be, and what is wrong."""

    believed: tuple[int, ...]
    tail: bool
    gaps: tuple[Gap, ...]


def islands(matrix: TopologyMatrix) -> tuple[tuple[str, ...], ...]:
    """The connected components of the devices over NVLink or XGMI, in the matrix's order; a device alone is one too.

    Links that the file does not state join nothing, so a matrix with gaps can only show more islands than there are.
    """
    leader = {device: device for device in matrix.devices}

    def root(device: str) -> str:
        while leader[device] != device:
            leader[device] = leader[leader[device]]
            device = leader[device]
        return device

    for (one, other), link in matrix.links.items():
        if (link.nvlinks or link.word == "XGMI") and one in leader and other in leader:
            leader[root(one)] = root(other)
    members: dict[str, list[str]] = {}
    for device in matrix.devices:
        members.setdefault(root(device), []).append(device)
    return tuple(tuple(group) for group in members.values())


def disagreeing(matrix: TopologyMatrix) -> int:
    """Links that the rows of their two ends describe differently: the matrix is not symmetric there."""
    return sum(gap.expected == ONE_DESCRIPTION for gap in matrix.missing)


def recognises(text: str) -> bool:
    """Whether the text holds at least one row of such a matrix: a GPU's, with its `X` and known words beside it."""
    for line in cleaned(text):
        label, *cells = line.text.split() or [""]
        if not _DEVICE.fullmatch(label) or cells.count("X") != 1:
            continue
        if len(cells) == 1 or any(_WORD.fullmatch(cell) or _AFFINITY.fullmatch(cell) for cell in cells):
            return True
    return False


def read(text: str, name: str) -> TopologyMatrix:
    """The matrix of one machine. `name` is the file's name, for messages.

    Raises DataError where the file is empty or foreign, holds two matrices, or has no row that can be believed.
    """
    lines = lines_of(text, name, _EXPECTED)
    header, rows, gaps = _rows(lines, name)
    columns = header.columns
    named = tuple(column for column in columns if column is not None)
    stated: dict[Pair, list[Link]] = {}
    affinity: dict[str, Ranges] = {}
    numa: dict[str, Ranges] = {}
    for label, row in rows.items():
        own = columns.index(label)
        cells = row.text.split()[1:]
        verdict = _judge(label, cells, own, columns, row.number)
        gaps.extend(verdict.gaps)
        for index in verdict.believed:
            other = columns[index]
            if other is not None and other != label:
                link = Link(cells[index], _nvlinks(cells[index]), row.number)
                stated.setdefault((label, other), []).append(link)
        if _DEVICE.fullmatch(label):
            _read_tail(label, cells[len(columns) :], verdict.tail, header, row.number, affinity, numa, gaps)
    if not stated and len(named) > 1:
        raise foreign(f"no row of the matrix can be read ({gaps[0].what})", name, gaps[0].line, _EXPECTED)
    _missing_rows(named, rows, header, gaps)
    links, once = agreed(stated, named, gaps)
    nic_names = _legend(lines, named, gaps)
    notes = (
        [f"{once} links are stated by one row only, because the opposite row is missing or not readable"]
        if once
        else []
    )
    unnamed = [nic for nic in named if nic.startswith("NIC") and nic not in nic_names]
    if unnamed:
        notes.append(f"no legend names the interfaces behind {listed(unnamed)}")
    return TopologyMatrix(
        devices=tuple(column for column in named if _DEVICE.fullmatch(column)),
        nics=tuple(column for column in named if not _DEVICE.fullmatch(column)),
        links=links,
        cpu_affinity=MappingProxyType(affinity),
        numa=MappingProxyType(numa),
        nic_names=MappingProxyType(nic_names),
        missing=tuple(gaps),
        notes=tuple(notes),
        kind=KIND,
    )


def agreed(
    stated: Mapping[Pair, Sequence[Link]], names: Sequence[str], gaps: list[Gap]
) -> tuple[Mapping[Pair, Link], int]:
    """The links that no two statements contradict, in both orders, and how many of them only one row states.

    `stated` holds what the row of the first name says of the second. Contradictions and unknown pairs go to `gaps`.
    """
    links: dict[Pair, Link] = {}
    unknown: list[str] = []
    pairs = once = 0
    for index, one in enumerate(names):
        for other in names[index + 1 :]:
            pairs += 1
            said = [*stated.get((one, other), ()), *stated.get((other, one), ())]
            first = said[0] if said else None
            against = next((link for link in said if first and _contradict(link, first)), None)
            if first is None:
                unknown.append(f"{one}-{other}")
            elif against is not None:
                what = (
                    f"{one}-{other} is {_spoken(first)} on line {first.line}, {_spoken(against)} on line {against.line}"
                )
                gaps.append(Gap(what, against.line, ONE_DESCRIPTION))
            else:
                links[one, other] = links[other, one] = first
                once += len(said) == 1
    if unknown:
        what = f"{len(unknown)} of {pairs} links are not stated where they can be read: {listed(unknown)}"
        gaps.append(Gap(what, None, "a link word in the row of either device"))
    return MappingProxyType(links), once


def _contradict(one: Link, other: Link) -> bool:
    """Whether two statements of a link differ. What only one of them says is no contradiction."""
    pairs = ((one.word, other.word), (one.hops, other.hops), (one.weight, other.weight))
    return any(here != there for here, there in pairs if here is not None and there is not None)


def _spoken(link: Link) -> str:
    extra = [f"{key} {value}" for key, value in (("hops", link.hops), ("weight", link.weight)) if value is not None]
    return ", ".join([shown(link.word), *extra])


def _nvlinks(word: str) -> int | None:
    return int(word[2:]) if word.startswith("NV") else None


def _rows(lines: Sequence[Line], name: str) -> tuple[_Header, dict[str, Line], list[Gap]]:
    """The header, the row of each column that has one, and what is wrong with either."""
    gaps: list[Gap] = []
    header: _Header | None = None
    rows: dict[str, Line] = {}
    twice: list[tuple[str, int]] = []
    after_blank = False
    for line in lines:
        cells = line.text.split()
        if cells and cells[0].startswith(("Legend", "NIC")) and cells[-1] in ("Legend:", "Legend"):
            after_blank = True
            continue
        if not cells:
            after_blank = after_blank or bool(rows)
            continue
        candidate = _header(line, header, name, gaps)
        if candidate is not None:
            if header is not None and header.line is not None:
                raise several("matrix", name, header.line, line.number)
            if rows:
                raise several("matrix", name, next(iter(rows.values())).number, line.number)
            header = candidate
        elif _is_row(cells, header):
            if cells[0] in rows:
                twice.append((cells[0], line.number))
            else:
                rows[cells[0]] = line
        elif header is not None and not after_blank and len(rows) < len(header.columns):
            what = f"{shown(line.text)} between the rows is not a row of the matrix"
            gaps.append(Gap(what, line.number, "a row that begins with the name of a column"))
    if header is None:
        header = _header_of_rows(rows, name)
        gaps.append(
            Gap("the header line is missing", header.line, "a line `GPU0 GPU1 ... CPU Affinity` above the rows")
        )
    for label, number in twice:
        if label in rows:
            gaps.append(
                Gap(f"{label} has rows on lines {rows.pop(label).number} and {number}", number, "one row a device")
            )
    for label in [label for label in rows if label not in header.columns]:
        gaps.append(Gap(f"the row of {shown(label)} has no column", rows.pop(label).number, "a header that names it"))
    if not rows:
        raise foreign("the header has no rows that can be read under it", name, header.line, _EXPECTED)
    return header, rows, gaps


def _is_row(cells: Sequence[str], header: _Header | None) -> bool:
    label = cells[0]
    if header is not None and label in header.columns:
        return True
    if not (_DEVICE.fullmatch(label) or _NIC.fullmatch(label)):
        return False
    known = sum(1 for cell in cells[1:] if cell == "X" or _WORD.fullmatch(cell))
    return known > 0 and 2 * known >= min(len(cells) - 1, 4) and not _WORD.fullmatch(label)


def _header(line: Line, before: _Header | None, name: str, gaps: list[Gap]) -> _Header | None:
    """The header that the line is, or None. A header whose names cannot be told apart is refused."""
    found = _TAIL.search(line.text)
    columns = (line.text[: found.start()] if found else line.text).split()
    if not any(column.startswith("GPU") for column in columns) or not (found or len(columns) > 1):
        return None
    if any(column == "X" or _WORD.fullmatch(column) or not re.search(r"\d", column) for column in columns):
        return None
    if not found and before is not None and columns[0] in before.columns:
        return None
    for column in columns:
        if not (_DEVICE.fullmatch(column) or (_NIC.fullmatch(column) and "GPU" not in column)):
            what = f"the header cell {shown(column)} is not the name of one device"
            raise foreign(what, name, line.number, "names such as GPU0, NIC0 or mlx5_0, apart from each other")
    repeated = next((column for column in columns if columns.count(column) > 1), None) if len(columns) < 2000 else None
    if repeated is not None:
        raise foreign(f"the header names {shown(repeated)} twice", name, line.number, "each device once")
    if len(columns) > _MOST_COLUMNS:
        what = f"the header names {len(columns)} devices"
        raise foreign(what, name, line.number, f"the devices of one machine, {_MOST_COLUMNS} at most")
    rest = line.text[found.start() :] if found else ""
    other = _TAIL.sub(" ", rest).split()
    if other:
        what = f"the header's columns {listed(shown(cell) for cell in other)} are not known"
        gaps.append(Gap(what, line.number, "CPU Affinity, NUMA Affinity, GPU NUMA ID after the devices"))
    return _Header(tuple(columns), () if other else tuple(_TAIL.findall(rest)), line.number)


def _header_of_rows(rows: Mapping[str, Line], name: str) -> _Header:
    """The columns that the rows prove where the header is lost: a device's column is where its row has `X`."""
    if not any(_DEVICE.fullmatch(label) for label in rows):
        raise foreign("there is no matrix of link words in the file", name, None, _EXPECTED)
    place: dict[int, str] = {}
    width = 0
    for label, line in rows.items():
        cells = line.text.split()[1:]
        count = next((k for k, cell in enumerate(cells) if cell != "X" and not _WORD.fullmatch(cell)), len(cells))
        width = max(width, count)
        own = cells.index("X") if "X" in cells else None
        if own is None or own in place:
            what = f"there is no header line, and the row of {label} does not show which column is its own"
            raise foreign(what, name, line.number, _EXPECTED)
        place[own] = label
    width = max(width, *(own + 1 for own in place))
    return _Header(tuple(place.get(index) for index in range(width)), (), next(iter(rows.values())).number)


def _judge(label: str, cells: Sequence[str], own: int, columns: Sequence[str | None], line: int) -> _Verdict:
    """Which cells of a row stand under the column they seem to stand under, and say a word that is known."""
    count = len(columns)
    inside, after = cells[:count], cells[count:]
    selves = [index for index, cell in enumerate(inside) if cell == "X"]
    bad = [index for index, cell in enumerate(inside) if cell != "X" and not _WORD.fullmatch(cell)]
    to_self = tuple(range(own + 1)) if selves == [own] and (not bad or bad[0] > own) else ()
    everything = tuple(range(count))
    if len(inside) < count:
        what = f"the row of {label} ends after {len(cells)} of {count} cells"
        return _Verdict(to_self, False, (Gap(what, line, f"a link word for each of the {count} columns"),))
    if after and (after[0] == "X" or _WORD.fullmatch(after[0])):
        what = f"the row of {label} has more link words than the header has devices"
        return _Verdict(to_self, False, (Gap(what, line, f"{count} link words"),))
    if selves and selves != [own]:
        what = (
            f"the row of {label} has 'X' in the column of {columns[next(k for k in selves if k != own)] or 'no device'}"
        )
        return _Verdict((), False, (Gap(what, line, f"'X' once, in the column of {label}"),))
    gaps: list[Gap] = []
    if not selves and own not in bad:
        what = f"the link of {label} to itself reads {shown(inside[own])}"
        gaps.append(Gap(what, line, "'X': a device has no link to itself"))
    if not bad:
        return _Verdict(tuple(index for index in everything if index != own or selves), True, tuple(gaps))
    words = "X, NV#, PIX, PXB, PHB, NODE, SYS or SOC"
    for index in bad:
        cell = inside[index]
        kind = "two words run together" if _FUSED.fullmatch(cell) else "not a link word"
        gaps.append(Gap(f"{label}-{columns[index] or '?'} reads {shown(cell)}, {kind}", line, words))
        if len(gaps) > 4:
            gaps.append(Gap(f"{len(bad) - 5} more cells of {label} are not link words", line, words))
            break
    cell = inside[bad[0]]
    if len(bad) == 1 and _PLAIN_WORD.fullmatch(cell) and not _FUSED.fullmatch(cell):
        return _Verdict(tuple(index for index in everything if index != bad[0]), True, tuple(gaps))
    # A lost or fused cell moves every later one to the left. A number or an affinity in a link's place says that a cell
    # is lost somewhere after the X; a torn word says where.
    torn = selves == [own] and own < bad[0] and not _AFFINITY.fullmatch(cell)
    return _Verdict(tuple(range(bad[0])) if torn else to_self, False, tuple(gaps))


def _read_tail(
    label: str,
    cells: Sequence[str],
    aligned: bool,
    header: _Header,
    line: int,
    affinity: dict[str, Ranges],
    numa: dict[str, Ranges],
    gaps: list[Gap],
) -> None:
    """CPU and NUMA affinity of one device. Empty cells are padding of the tool's, so only the printed ones count."""
    if not header.tails:
        return
    expected = ", ".join(header.tails)
    if not aligned or len(cells) != len(header.tails):
        found = listed(shown(cell) for cell in cells) or "nothing"
        gaps.append(Gap(f"the affinity of {label} cannot be read: {found}", line, expected))
        return
    for tail, cell in zip(header.tails, cells, strict=True):
        value = ranges(cell)
        if value is None and cell != "N/A":
            gaps.append(Gap(f"the {tail} of {label} reads {shown(cell)}", line, "a list such as 0-19,40-59, or N/A"))
        elif value is not None and tail == "CPU Affinity":
            affinity[label] = value
        elif value is not None and tail == "NUMA Affinity":
            numa[label] = value


def _missing_rows(names: Sequence[str], rows: Mapping[str, Line], header: _Header, gaps: list[Gap]) -> None:
    absent = [column for column in names if column not in rows]
    if absent:
        what = f"{len(absent)} of {len(names)} devices in the header have no row: {listed(absent)}"
        gaps.append(Gap(what, header.line, "a row for each device that the header names"))
    unnamed = sum(1 for column in header.columns if column is None)
    if unnamed:
        gaps.append(Gap(f"{unnamed} columns belong to no device that has a row", header.line, "the header line"))


def _legend(lines: Sequence[Line], names: Sequence[str], gaps: list[Gap]) -> dict[str, str]:
    """`NIC0: mlx5_0` under "NIC Legend". A name that the matrix does not have, or a second meaning, is a gap."""
    found: dict[str, str] = {}
    for line in lines:
        match = _LEGEND.fullmatch(line.text)
        if match is None:
            continue
        nic, interface = match[1], match[2]
        if nic not in names:
            gaps.append(
                Gap(f"the legend names {nic}, the matrix does not", line.number, "a column for each NIC of the legend")
            )
        elif found.setdefault(nic, interface) != interface:
            what = f"the legend calls {nic} both {shown(found[nic])} and {shown(interface)}"
            gaps.append(Gap(what, line.number, "one name a NIC"))
    return found
