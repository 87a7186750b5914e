"""Reads what nccl-tests and rccl-tests print.

Vocabulary: a *run* is one table with what stands above and below it; a *row* is one message size, out of place or in
place; *algbw* is size over time, *busbw* algbw times the operation's factor of the number of ranks. nccl-tests prints
microseconds and GB/s of 1e9 bytes; here they are seconds and bytes a second. The size is that of the whole buffer,
which for all-gather and its like is the count times the number of ranks.

A row is believed where its size, time, algbw and busbw agree within what their printed digits can hold.
It must not know proposals, links or topologies, nor whether a bandwidth is good.

Source of columns, units and factors: NVIDIA/nccl-tests at a0b82b2, src/util.cu, src/*.cu and doc/PERFORMANCE.md.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import fsum
from types import MappingProxyType

from ..frozen import dataclass
from .collective_log import OPERATIONS, REDUCING, ROOTED, WHOLE_COUNT, CollectiveLog, Row, bus_factor
from .text_table import Gap, Interval, Line, cleaned, foreign, lines_of, listed, printed, several, shown, whole

TOOL = "nccl-tests"
_EXPECTED = "the output of one nccl-tests program: its parameters, `# Using devices`, the table, `# Avg bus bandwidth`"
_TYPE_BYTES: Mapping[str, int] = MappingProxyType(
    {"int8": 1, "uint8": 1, "char": 1, "f8e4m3": 1, "f8e5m2": 1, "half": 2, "bfloat16": 2}
    | {"int32": 4, "uint32": 4, "int": 4, "float": 4, "int64": 8, "uint64": 8, "double": 8}
)
_PROGRAM = re.compile(r"(?<![A-Za-z0-9])([a-z_]{3,20}?)_perf(?:_mpi)?(?![A-Za-z0-9])")
_STARTING = re.compile(r"Collective test starting:\s*(\S+)")
_RANK = re.compile(r"Rank\s+(\d{1,7})\s+(?:Group\s+(\d{1,7})\s+)?(?:Pid\s+\d+\s+)?on\s+(\S+)\s+device\s+\d+")
_SWEEP = re.compile(r"nThread \d+ nGpus \d+ minBytes (\d{1,18}) maxBytes (\d{1,18}) step: (\d{1,18})\((factor|bytes)\)")
_AVERAGE = re.compile(r"Avg bus bandwidth\s*:\s*(\S+)")
_BOUNDS = re.compile(r"Out of bounds values\s*:\s*(\d+)\s*(OK|FAILED)")
_STAMP = re.compile(r"\s\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$")
_ELIDED = frozenset({"...", "\u2026", "[...]", "(...)", "<...>", "..", "....", "<snip>", "[snip]"})
_LABEL = re.compile(r"\s*\d{1,6}: (?=\s*(?:#|\d+\s+\d+\s|Avg bus|Out of bounds|nThread))")  # srun --label
_FAILED = re.compile(
    r"Test (?:NCCL|CUDA|HIP|MPI)? ?failure|(?:unhandled|internal|remote) (?:cuda|hip|system|process)? ?error|MPI_ABORT|"
    r"Segmentation fault|Bus error|core dumped|slurmstepd: error|srun: error|CANCELLED|out of memory|"
    r"exited on signal|non-zero exit|Traceback \(most recent call last\)|NCCL WARN .*(?:[Ee]rror|[Ff]ail|[Tt]imeout)"
)
_INFORMATIVE = 0.02  # the widest relative interval of busbw/algbw from which a factor may be concluded
_AGREEING = 0.8  # the share of such rows that must allow it: one altered row does not decide
_RATIOS_AT_MOST = 500  # of the last rows, where messages are large and digits many
_RANKS_AT_MOST = 1_000_000


def failure(lines: Sequence[Line]) -> Line | None:
    """The first line that a failed program or its launcher leaves, or None."""
    return next((line for line in lines if _FAILED.search(line.text)), None)


def recognises(text: str) -> bool:
    """Whether the text has the column header of an nccl-tests table, or the tool's line of parameters."""
    return any(_columns(line) is not None or _SWEEP.search(line.text) for line in cleaned(text))


def read(text: str, name: str) -> CollectiveLog:
    """The one run of a file. Raises DataError where there is none that can be read, or more than one."""
    logs = read_all(text, name)
    if len(logs) > 1:
        raise several("run of nccl-tests", name, logs[0].line, logs[1].line)
    return logs[0]


def read_all(text: str, name: str) -> tuple[CollectiveLog, ...]:
    """Every run of a file, in order. Raises DataError where the file is empty or foreign, or a run has no row."""
    lines = [Line(line.number, _unlabelled(line.text)) for line in lines_of(text, name, _EXPECTED)]
    heads = [index for index, line in enumerate(lines) if _columns(line) is not None]
    if not heads:
        failed = failure(lines)
        what = f"the run ended before its table: {shown(failed.text.strip(), 120)}" if failed else "there is no table"
        raise foreign(what, name, failed.number if failed else None, _EXPECTED)
    starts = [0]
    for head, following in pairwise(heads):
        numbers = [index for index in range(head, following) if _is_data(lines[index].text)]
        if not numbers:
            what = f"the tables on lines {lines[head].number} and {lines[following].number} have no rows between them"
            expected = "the log of one process; several that print at once cannot be told apart (build with MPI=1)"
            raise foreign(what, name, lines[following].number, expected)
        ends = [index for index in range(head, following) if _AVERAGE.search(lines[index].text)]
        starts.append(max([*numbers, *ends]) + 1)
    spans = zip(starts, heads, [*starts[1:], len(lines)], strict=True)
    return tuple(_run(lines[start:head], lines[head:end], name) for start, head, end in spans)


def _unlabelled(text: str) -> str:
    label = _LABEL.match(text)
    return text[label.end() :] if label else text


def _columns(line: Line) -> tuple[str, ...] | None:
    """The names of the columns where the line is a table's header, without the comment sign and the time stamp."""
    names = line.text.strip().removeprefix("#").split()
    if not names or names[0] not in ("size", "bytes") or not {"algbw", "busbw"} <= set(names):
        return None
    return tuple(name for name in names if name != "timestamp")


def _is_data(text: str) -> bool:
    first, *rest = text.split() or [""]
    return whole(first) is not None and bool(rest) and (len(rest) > 3 or whole(rest[0]) is not None)


@dataclass(frozen=True, slots=True)
class _Reading:
    """A row with what conclusions rest on: the printed intervals, and the cells that tell operations apart."""

    row: Row
    algbw: Interval
    busbw: Interval
    datatype: str | None
    reduces: bool
    rooted: bool
    ratio_of_count: int | None  # size over count times element size: 1, or the number of ranks


def _run(above: Sequence[Line], table: Sequence[Line], name: str) -> CollectiveLog:
    """One run: what stands above its table, and the table with what follows it."""
    gaps: list[Gap] = []
    notes: list[str] = []
    head = table[0]
    readings = _readings(above, table, name, gaps)
    stated, nodes = _ranks(above, gaps, notes)
    program = _program([*above, *table], gaps)
    operation, ranks, factor = _conclude(readings, program, stated, _columns(head) or (), head.number, gaps, notes)
    rows = tuple(reading.row for reading in readings if _fits(reading, factor, gaps))
    if not rows:
        below = [gap for gap in gaps if gap.line is not None and gap.line > head.number]
        reason = below[0] if below else Gap("the table has no rows", head.number, _EXPECTED)
        raise foreign(f"no row of the table can be read ({reason.what})", name, reason.line, _EXPECTED)
    if nodes is None:
        gaps.append(Gap("the nodes are not stated", None, "a line `# Rank 0 ... on HOST device 0` for each rank"))
    types = {reading.datatype for reading in readings if reading.datatype is not None}
    if len(types) > 1:
        gaps.append(Gap(f"the rows have several element types: {listed(sorted(types))}", head.number, "one (-d TYPE)"))
    sound = len(gaps)
    average = _ending(above, table, rows, gaps)
    losses = sum(1 for gap in gaps[:sound] if gap.line is not None and gap.line > head.number)
    return CollectiveLog(
        operation=operation,
        ranks=ranks,
        nodes=nodes,
        datatype=next(iter(types)) if len(types) == 1 else None,
        tool=TOOL,
        rows=rows,
        complete=len(gaps) == sound and not losses,
        gaps=tuple(gaps),
        average_busbw=average,
        notes=tuple(notes),
        line=head.number,
    )


def _readings(above: Sequence[Line], table: Sequence[Line], name: str, gaps: list[Gap]) -> list[_Reading]:
    """The rows of a table whose cells can be read and whose size, time and algbw agree."""
    head = table[0]
    columns = _columns(head) or ()
    starts = [index for index, column in enumerate(columns) if column in ("time", "cputime")]
    if "cputime" in columns:
        what = "the times are those of the host's calls, not of the collective"
        raise foreign(what, name, head.number, "a run without `-C`")
    groups = [columns[start + 1 : start + 3] == ("algbw", "busbw") for start in starts]
    if len(starts) not in (1, 2) or not all(groups) or columns[1] not in ("count", "N") or starts[0] < 2:
        raise foreign(f"the columns are {listed(columns)}", name, head.number, "size, count, type, time, algbw, busbw")
    places: tuple[bool, ...] = (False, True)
    if len(starts) == 1:
        group = above[-1].text if above else ""
        if ("out-of-place" in group) == ("in-place" in group.replace("out-of-place", "")):
            what = "the table has one group of times and no line that says whether it is in place"
            raise foreign(what, name, head.number, "`out-of-place` or `in-place` above the columns")
        places = ("out-of-place" not in group,)
    unit = _time_unit(table, columns, name)
    found: list[_Reading] = []
    for line in table[1:]:
        if _AVERAGE.search(line.text):
            break
        cells = _STAMP.sub("", line.text).split()
        if line.text.strip() in _ELIDED:
            gaps.append(Gap("rows are left out here", line.number, "every row that the tool printed"))
        elif _is_data(line.text) or (len(cells) == len(columns) and cells[0][0].isdigit()):
            for start, in_place in zip(starts, places, strict=True):
                reading = _reading(line.number, cells, columns, start, in_place, unit)
                if isinstance(reading, Gap):
                    gaps.append(reading)
                    if len(cells) not in (len(columns), len(columns) - 1):
                        break
                else:
                    found.append(reading)
    return found


def _time_unit(table: Sequence[Line], columns: Sequence[str], name: str) -> float:
    """Seconds in a unit of the time column: nccl-tests 2 states (us); version 1 (`bytes N type`) printed bare ms."""
    following = table[1].text if len(table) > 1 else ""
    units = re.findall(r"\([A-Za-z/]+\)", following)
    if columns[0] == "bytes":
        return 1e-3
    if units and not {"(us)", "(GB/s)"} <= set(units):
        raise foreign(f"the units are {listed(units)}", name, table[1].number, "(B), (elements), (us), (GB/s)")
    return 1e-6


def _reading(
    line: int, cells: Sequence[str], columns: Sequence[str], start: int, in_place: bool, unit: float
) -> _Reading | Gap:
    """One group of a row's cells, or why it cannot be believed."""
    where = f"the {'in-place' if in_place else 'out-of-place'} group of the row of size {shown(cells[0])}"
    if "redop" in columns and "root" not in columns and len(cells) == len(columns) - 1:  # an empty redop, of alltoall
        index = columns.index("redop")
        cells = [*cells[:index], "", *cells[index:]]
    if len(cells) != len(columns):
        return Gap(f"the row of size {shown(cells[0])} has {len(cells)} cells", line, f"{len(columns)} cells")
    head = dict(zip(columns[: columns.index("time")], cells, strict=False))
    size, count = whole(cells[0]), whole(cells[1])
    time, algbw, busbw = (printed(cell) for cell in cells[start : start + 3])
    if size is None or count is None or time is None or algbw is None or busbw is None:
        return Gap(f"{where} has a cell that is no number", line, "size, count, time, algbw and busbw as numbers")
    seconds = float(cells[start]) * unit
    if not seconds > 0 or algbw.high < 0 or busbw.high < 0:
        return Gap(
            f"{where} has time {shown(cells[start])} and algbw {shown(cells[start + 1])}", line, "positive numbers"
        )
    algbw, busbw = (Interval(max(0.0, cell.low), cell.high).times(1e9) for cell in (algbw, busbw))
    if not Interval(max(0.0, time.low), time.high).times(unit).under(size).meets(algbw):
        what = f"{where} does not add up: size over time {shown(cells[start])} is not algbw {shown(cells[start + 1])}"
        return Gap(what, line, "algbw = size / time in GB/s of 1e9 bytes")
    wrong, fault = _wrong(columns[start + 3] if start + 3 < len(columns) else "", cells[start + 3 : start + 4])
    if fault is not None:
        return Gap(f"{where} has {fault}", line, "the number of wrong elements, or N/A")
    datatype = head.get("type")
    width = _TYPE_BYTES.get(datatype or "")
    ratio = None
    if width is not None and count > 0:
        ratio, rest = divmod(size, count * width)
        if rest or not ratio:
            what = f"{where} has {count} elements of {shown(datatype or '')}, which do not make its size"
            return Gap(what, line, "size = count x element size, or that times the number of ranks")
    root = head.get("root", "-1")
    if not re.fullmatch(r"-1|\d{1,7}", root):
        return Gap(f"{where} has root {shown(root)}", line, "a rank, or -1")
    reduces = head.get("redop", "") not in ("", "none")
    row = Row(size, count, seconds, float(cells[start + 1]) * 1e9, float(cells[start + 2]) * 1e9, in_place, wrong, line)
    return _Reading(row, algbw, busbw, datatype, reduces, root != "-1", ratio)


def _wrong(column: str, cells: Sequence[str]) -> tuple[int | None, str | None]:
    """Wrong elements (None: not checked, or the older column that prints the largest deviation), and what is amiss."""
    cell = cells[0] if cells else ""
    if cell == "N/A":
        return None, None
    number = printed(cell)
    if number is None or number.high < 0:
        return None, f"{shown(cell)} in the column {column or 'after busbw'}"
    if column not in ("#wrong", "wrong"):
        return None, None
    value = float(cell)
    return (round(value), None) if abs(value - round(value)) < 1e-6 else (None, f"{shown(cell)} in the column {column}")


def _ranks(above: Sequence[Line], gaps: list[Gap], notes: list[str]) -> tuple[int | None, int | None]:
    """Ranks and nodes of one collective, from the lines `# Rank 0 Group 0 Pid 1 on HOST device 0`."""
    hosts: dict[int, str] = {}
    groups: dict[int, set[int]] = {}
    first: int | None = None
    for line in above:
        match = _RANK.search(line.text)
        if match is None:
            continue
        first = first or line.number
        rank = int(match[1])
        if hosts.setdefault(rank, match[3]) != match[3]:
            gaps.append(Gap(f"rank {rank} stands on two hosts", line.number, "one line a rank"))
            return None, None
        groups.setdefault(int(match[2] or 0), set()).add(rank)
    if not hosts:
        return None, None
    absent = max(hosts) + 1 - len(hosts)
    if absent:
        what = f"{absent} of the ranks up to {max(hosts)} are not listed"
        gaps.append(Gap(what, first, f"a line for each rank from 0 to {max(hosts)}"))
        return None, None
    sizes = {len(members) for members in groups.values()}
    spread = {len({hosts[rank] for rank in members}) for members in groups.values()}
    if len(groups) > 1:
        notes.append(f"the {len(hosts)} ranks form {len(groups)} groups, each with its own collective at the same time")
    if len(sizes) > 1 or len(spread) > 1:
        gaps.append(Gap("the groups differ in ranks or nodes", first, "groups of one size"))
    return (sizes.pop() if len(sizes) == 1 else None), (spread.pop() if len(spread) == 1 else None)


def _program(lines: Sequence[Line], gaps: list[Gap]) -> str | None:
    """The operation that the run's own lines name: the tool's line first, otherwise a command that starts it."""
    starting = [match for line in lines if (match := _STARTING.search(line.text))]
    texts = [match[1] for match in starting] or [line.text for line in lines if "_perf" in line.text]
    names = {match[1] for text in texts for match in _PROGRAM.finditer(text)} & OPERATIONS
    if len(names) > 1:
        gaps.append(Gap(f"the run names several programs: {listed(sorted(names))}", None, "one program a run"))
        return None
    return names.pop() if names else None


def _ratio(reading: _Reading) -> Interval | None:
    """busbw over algbw, where the printed digits leave little doubt of it; None otherwise."""
    if reading.algbw.low <= 0 or reading.busbw.low <= 0:
        return None
    ratio = Interval(reading.busbw.low / reading.algbw.high, reading.busbw.high / reading.algbw.low)
    return ratio if ratio.high - ratio.low <= _INFORMATIVE * ratio.low else None


def _allowed(ratios: Sequence[Interval], factor: float) -> bool:
    """Whether nearly all ratios can be `factor`; true where there is no ratio to go by."""
    fitting = sum(1 for ratio in ratios if ratio.meets(Interval(factor, factor)))
    return fitting >= _AGREEING * len(ratios)


def _all_reduce_ranks(ratios: Sequence[Interval]) -> int | None:
    """The one n with 2(n-1)/n in nearly all ratios, or None where there is none, or more than one."""
    spans = [
        (2 / (2 - ratio.low), 2 / (2 - ratio.high) if ratio.high < 2 else math.inf) for ratio in ratios if ratio.low < 2
    ]
    near = {math.ceil(low - 1e-9) + step for low, _ in spans for step in (0, 1)}
    votes = {
        n: sum(1 for low, high in spans if low - 1e-9 <= n <= high + 1e-9) for n in near if 2 <= n <= _RANKS_AT_MOST
    }
    best = max(votes.values(), default=0)
    winners = [n for n, count in votes.items() if count == best]
    return winners[0] if len(winners) == 1 and best >= _AGREEING * len(ratios) else None


def _conclude(
    readings: Sequence[_Reading],
    program: str | None,
    stated: int | None,
    columns: Sequence[str],
    line: int,
    gaps: list[Gap],
    notes: list[str],
) -> tuple[str | None, int | None, float | None]:
    """Operation, ranks, busbw over algbw: as stated where the rows allow it, concluded where only one thing fits."""
    ratios = [ratio for reading in readings if (ratio := _ratio(reading))][-_RATIOS_AT_MOST:]
    counts = [reading.ratio_of_count for reading in readings if reading.ratio_of_count is not None]
    common = Counter(counts).most_common(1)
    per_rank = common[0][0] if common and common[0][1] >= _AGREEING * len(counts) else None
    # With the older column `error`, the table of alltoall has a redop and that of all_gather has none.
    telling = {"alltoall": "redop" in columns, "all_gather": "redop" not in columns} if "error" in columns else {}
    shapes = {(reading.reduces, reading.rooted) for reading in readings}
    ranks = stated or (per_rank if per_rank and per_rank > 1 else None)
    if ranks is None and shapes == {(True, False)}:
        ranks = _all_reduce_ranks(ratios)
    fitting = {
        operation
        for operation in OPERATIONS
        if len({rooted for _, rooted in shapes}) == 1
        and any(rooted == (operation in ROOTED) for _, rooted in shapes)
        and (operation == "sendrecv" or all(reduces == (operation in REDUCING) for reduces, _ in shapes))
        and telling.get(operation, True)
        and (per_rank is None or per_rank == (1 if operation in WHOLE_COUNT or not ranks else ranks))
        and (ranks is None or _allowed(ratios, bus_factor(operation, ranks)))
    }
    if program is not None and program not in fitting and readings:
        what = f"the run is named {program}, and its sizes, counts, busbw and algbw are not those of one"
        if stated:
            what += f" among {stated} ranks"
        gaps.append(Gap(what, line, "busbw = algbw x 2(n-1)/n for all_reduce, (n-1)/n or 1 for others"))
        return None, stated, None
    choice = program or (next(iter(fitting)) if len(fitting) == 1 else None)
    if choice is None and readings:
        what = f"the operation is not stated, and the rows fit {listed(sorted(fitting)) or 'none that is known'}"
        gaps.append(Gap(what, line, "the command line, or `# Collective test starting: NAME_perf`"))
    certain = {choice} if choice else fitting
    if ranks is not None and stated is None:
        if per_rank != ranks and choice != "all_reduce":
            ranks = None  # it was solved for all_reduce
        else:
            notes.append(f"{ranks} ranks follow from the rows (size over count, busbw over algbw); they are not listed")
    if ranks is None:
        gaps.append(Gap("the number of ranks is not stated", None, "a line `# Rank 0 ... on HOST` for each rank"))
    if program is None and choice is not None:
        notes.append(f"the operation {choice} is the one that the table's columns, counts and busbw over algbw fit")
    factors = {bus_factor(operation, ranks) for operation in certain} if ranks is not None else set()
    return choice, ranks, factors.pop() if len(factors) == 1 else None


def _fits(reading: _Reading, factor: float | None, gaps: list[Gap]) -> bool:
    """Whether busbw is algbw times the factor, as far as the digits show; otherwise the row is a gap."""
    if factor is None or reading.algbw.times(factor).meets(reading.busbw):
        return True
    what = f"busbw of the row of size {reading.row.size_bytes} is not {factor:.4g} times algbw as in the other rows"
    gaps.append(Gap(what, reading.row.line, "busbw = algbw x 2(n-1)/n for all_reduce, (n-1)/n or 1 for others"))
    return False


def _ending(above: Sequence[Line], table: Sequence[Line], rows: Sequence[Row], gaps: list[Gap]) -> float | None:
    """The tool's own average in bytes a second. What shows that the run is cut, failed or wrong goes to `gaps`."""
    failed = failure(table)
    if failed is not None:
        gaps.append(
            Gap(f"the run ended in an error: {shown(failed.text.strip(), 120)}", failed.number, "a run that ends")
        )
    for row in rows:
        if row.wrong:
            gaps.append(
                Gap(f"{row.wrong} elements of the row of size {row.size_bytes} were wrong", row.line, "#wrong 0")
            )
    bounds = next((match for line in table if (match := _BOUNDS.search(line.text))), None)
    if bounds is not None and (bounds[2] == "FAILED" or int(bounds[1][:18])):
        gaps.append(Gap("the tool found values out of bounds", None, "`Out of bounds values : 0 OK`"))
    _swept(above, rows, gaps)
    stated = next(((line, match) for line in table if (match := _AVERAGE.search(line.text))), None)
    if stated is None:
        gaps.append(Gap("the run has no end", table[-1].number, "`# Avg bus bandwidth : ...` under the table"))
        return None
    interval = printed(stated[1][1])
    if interval is None or interval.high < 0:
        gaps.append(Gap(f"the average bandwidth reads {shown(stated[1][1])}", stated[0].number, "a number in GB/s"))
        return None
    average = float(stated[1][1]) * 1e9
    mean = fsum(row.busbw_bytes_per_s for row in rows) / len(rows)
    if abs(mean - average) > 0.01 * average + 0.005e9:
        what = (
            f"the rows average {mean / 1e9:.4g} GB/s and the tool says {average / 1e9:.4g}: rows are missing or altered"
        )
        gaps.append(Gap(what, stated[0].number, "the average busbw of all rows"))
    return average


def _swept(above: Sequence[Line], rows: Sequence[Row], gaps: list[Gap]) -> None:
    """Whether there are as many rows as the tool's parameters make sizes."""
    sweep = next(((line, match) for line in reversed(above) if (match := _SWEEP.search(line.text))), None)
    if sweep is None:
        return
    low, high, step = (int(sweep[1][index]) for index in (1, 2, 3))
    if low < 1 or high < low or step < (2 if sweep[1][4] == "factor" else 1):
        return
    if sweep[1][4] == "bytes":
        expected = (high - low) // step + 1
    else:
        expected = 1
        while low * step <= high:
            low, expected = low * step, expected + 1
    lines = len({row.line for row in rows})
    if lines < expected:
        what = f"{lines} of {expected} sizes have a row that can be read"
        gaps.append(Gap(what, sweep[0].number, f"a row for each size from {sweep[1][1]} to {sweep[1][2]} bytes"))
