"""Reads the logs of `all_reduce_bench.py`, the all-reduce benchmark of PyTorch users, in the three forms it has had.

1. A report for each rank and repeat: `duration`, `algo throughput`, `busbw`, in bits a second; the throughput counts
   every byte twice, sent and received, so algbw is half of it. Reports of several ranks interleave: a throughput is
   joined to the duration before it and the busbw after it with which it adds up, never by place alone. The first
   reports, unwarmed, are kept; `interpolate` takes the median of repeats.
2. One sentence, `The average bandwidth of all_reduce with a 4.0GB payload`, and under it algbw and busbw in GBps.
3. A table `| payload | busbw | algbw |` over many sizes. Its KB and KiB are both 2**10: the tool shifts by ten bits.

Every all-reduce of these tools is in place. GB and GBps are 1e9. It must not know proposals, links or topologies.

Sources: bigscience-workshop/bigscience at 161870a, experiments/bandwidth/all_reduce_bench.py (1);
stas00/ml-engineering at 0cc3de5, network/benchmarks/all_reduce_bench.py (3) and its earlier versions (2).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from statistics import median

from ..frozen import dataclass
from .collective_log import CollectiveLog, Row, bus_factor
from .nccl_tests import failure
from .text_table import Gap, Interval, Line, cleaned, foreign, lines_of, listed, printed, several, shown, whole

TOOL = "torch-allreduce"
_OPERATION = "all_reduce"
_EXPECTED = "the log of one run of all_reduce_bench.py, from its first line to its last"
_DURATION = re.compile(r"\s*duration: (\S+) sec")
_THROUGHPUT = re.compile(r"\s*algo throughput: (\S+) bps, (\S+) Gbps")
_BUSBW = re.compile(r"\s*busbw: (\S+)\s+Gbps")
_REPORT = re.compile(r"([\w.-]{1,100}(?::\d{1,5})?):")
_SIZE = re.compile(r"(\S{1,110}) data size: (\S+) GB")
_LOCAL_RANK = re.compile(r"local_rank: (\d{1,5})")
_NNODES = re.compile(r"--nnodes[= ](\d{1,6})\b")
_AVERAGE = re.compile(r".*average bandwidth of all_reduce with a ([\d.]+)GB payload \(.*?(\d{1,7}) ranks\):?\s*")
_AVERAGED = re.compile(r"\s*(algbw|busbw): (\S+) GBps \((\S+) Gbps\)")
_TABLE = re.compile(r".*average bandwidth.* of (\w+) over (\d{1,7}) ranks \(.*\):?\s*")
_PAYLOAD = re.compile(r"(\d{1,6})([KMGTPE]?)(?:iB|B)")
_SHIFT = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}
_LONGEST_RESULT = 400  # characters; the tool prints no result line that long
_PENDING = 4096  # open parts of reports that are searched: as many ranks may print at once
_FAULTS = 100  # gaps after which a log is past saving


@dataclass(frozen=True, slots=True)
class _Throughput:
    """A throughput line that adds up with a duration: the line, algbw in bytes a second, and its printed interval."""

    line: int
    algbw: float
    interval: Interval


def recognises(text: str) -> bool:
    """Whether the text has a line that only this benchmark prints."""
    return any(_kind(line.text) for line in cleaned(text))


def read(text: str, name: str) -> CollectiveLog:
    """The one run of a file. Raises DataError where there is none that can be read, or more than one."""
    logs = read_all(text, name)
    if len(logs) > 1:
        raise several("run of all_reduce_bench.py", name, logs[0].line, logs[1].line)
    return logs[0]


def read_all(text: str, name: str) -> tuple[CollectiveLog, ...]:
    """Every run of a file, in order. Raises DataError where the file is empty or foreign, or a run has no result."""
    lines = lines_of(text, name, _EXPECTED)
    starts: list[tuple[int, str]] = []
    seen: set[str] = set()
    last = 0
    for index, line in enumerate(lines):
        kind = _kind(line.text)
        size = _SIZE.fullmatch(line.text)
        if kind in ("average", "table") or (kind == "report" and (not starts or starts[-1][1] != "report")):
            starts.append((index if starts else 0, kind))
        if size and starts:
            if size[1] in seen and starts[-1][1] == "report":
                starts.append((last + 1, "report"))
                seen = set()
            seen.add(size[1])
        if kind == "report" and not size:
            last = index
    if not starts:
        failed = failure(lines)
        what = (
            f"the run ended before its first result: {shown(failed.text.strip(), 120)}"
            if failed
            else "there is no result"
        )
        raise foreign(what, name, failed.number if failed else None, _EXPECTED)
    ends = [start for start, _ in starts[1:]] + [len(lines)]
    readers = {"report": _reports, "average": _average, "table": _table}
    return tuple(readers[kind](lines[start:end], name) for (start, kind), end in zip(starts, ends, strict=True))


def _kind(text: str) -> str | None:
    if len(text) > _LONGEST_RESULT:
        return None
    if any(pattern.fullmatch(text) for pattern in (_SIZE, _DURATION, _THROUGHPUT, _BUSBW)):
        return "report"
    if _AVERAGE.fullmatch(text):
        return "average"
    return "table" if _TABLE.fullmatch(text) else None


def _log(
    rows: Sequence[Row],
    ranks: int | None,
    nodes: int | None,
    gaps: list[Gap],
    name: str,
    lines: Sequence[Line],
    notes: Sequence[str],
    operation: str = _OPERATION,
    complete: bool = True,
) -> CollectiveLog:
    """The log of a run, with the gaps that all three forms share; refused where no row is left."""
    first = lines[0].number
    if not rows:
        reason = gaps[0] if gaps else Gap("the run has no result", first, _EXPECTED)
        raise foreign(f"no result can be read ({reason.what})", name, reason.line, _EXPECTED)
    lost = bool(gaps)
    failed = failure(lines)
    if failed is not None:
        what = f"the run ended in an error: {shown(failed.text.strip(), 120)}"
        gaps.append(Gap(what, failed.number, "a run that ends"))
    if ranks is None:
        gaps.append(Gap("the number of ranks is not stated", None, "reports of every rank, or `over N ranks`"))
    if nodes is None:
        gaps.append(
            Gap("the nodes are not stated", None, "`--nnodes N` in the command, or a `local_rank: 0` for each node")
        )
    return CollectiveLog(
        operation=operation,
        ranks=ranks,
        nodes=nodes,
        datatype=None,
        tool=TOOL,
        rows=tuple(rows),
        complete=complete and not lost and failed is None,
        gaps=tuple(gaps),
        average_busbw=None,
        notes=("the tool does not print the element type", *notes),
        line=first,
    )


def _nodes(lines: Sequence[Line], gaps: list[Gap]) -> int | None:
    """From the command, or from as many local ranks 0 as any other local rank has lines; both must agree."""
    stated = {int(match[1]) for line in lines for match in _NNODES.finditer(line.text)}
    local = Counter(int(match[1]) for line in lines if (match := _LOCAL_RANK.fullmatch(line.text)))
    if local and len(set(local.values())) == 1 and set(local) == set(range(len(local))):
        stated.add(local[0])
    if len(stated) > 1:
        gaps.append(Gap(f"the log shows {listed(str(n) for n in sorted(stated))} nodes", None, "one number of nodes"))
    return stated.pop() if len(stated) == 1 and stated != {0} else None


def _reports(lines: Sequence[Line], name: str) -> CollectiveLog:
    """Form 1."""
    gaps: list[Gap] = []
    sizes = {match[2]: line.number for line in lines if (match := _SIZE.fullmatch(line.text))}
    if len(sizes) != 1:
        what = f"the data size is {listed(sizes)}" if sizes else "the data size is not stated"
        raise foreign(what, name, max(sizes.values(), default=None), "one `RANK data size: 4.0 GB`")
    printed_size = next(iter(sizes))
    size = _bytes(printed_size, 9)
    if size is None:
        what = f"the data size reads {shown(printed_size)}"
        raise foreign(what, name, sizes[printed_size], "a number of GB, such as 4.0")
    ranks, reporters = _ranks(lines, gaps)
    throughputs, busbws = _throughputs(lines, size, gaps)
    rows = _joined(throughputs, busbws, size, ranks, gaps)
    counts = set(reporters.values())
    if ranks is not None and (len(reporters) != ranks or len(counts) != 1 or len(rows) != sum(reporters.values())):
        what = f"{len(rows)} reports can be read, from {len(reporters)} of {ranks} ranks"
        gaps.append(Gap(what, None, "as many whole reports from each rank"))
    notes = ["the log has no end mark: later repeats may be cut without a trace"]
    if ranks is not None and len(rows) >= 2 * ranks:
        early = median(row.time_s for row in rows[:ranks])
        late = median(row.time_s for row in rows[ranks:])
        if early > 1.2 * late:
            notes.append(f"the first report of each rank includes start-up: {early / late:.3g} times the later ones")
    return _log(rows, ranks, _nodes(lines, gaps), gaps, name, lines, notes)


def _ranks(lines: Sequence[Line], gaps: list[Gap]) -> tuple[int | None, Counter[str]]:
    """The number of ranks, and how many reports each begins. Numbers must be 0 to n-1; `host:0` is one of the names."""
    reporters = Counter(match[1] for line in lines if (match := _REPORT.fullmatch(line.text)) and _name(match[1]))
    named = {match[1] for line in lines if (match := _SIZE.fullmatch(line.text))} | set(reporters)
    numbers = {int(one) for one in named if whole(one) is not None}
    if numbers and len(numbers) != len(named):
        gaps.append(Gap(f"ranks have both numbers and names: {listed(sorted(named))}", None, "one kind of name"))
        return None, reporters
    if numbers and max(numbers) + 1 != len(numbers):
        what = f"{max(numbers) + 1 - len(numbers)} of the ranks up to {max(numbers)} print nothing"
        gaps.append(Gap(what, None, f"lines of each rank from 0 to {max(numbers)}"))
        return None, reporters
    return len(named) or None, reporters


def _name(text: str) -> bool:
    return whole(text) is not None or re.search(r":\d+$", text) is not None


def _throughputs(
    lines: Sequence[Line], size: int, gaps: list[Gap]
) -> tuple[list[_Throughput], list[tuple[int, Interval]]]:
    """The throughputs that add up with a duration before them, and the bus bandwidths in bytes a second."""
    durations: list[tuple[int, Interval]] = []
    found: list[_Throughput] = []
    busbws: list[tuple[int, Interval]] = []
    for line in lines:
        if match := _DURATION.fullmatch(line.text):
            value = printed(match[1])
            if value is None or value.high <= 0:
                gaps.append(Gap(f"a duration reads {shown(match[1])}", line.number, "seconds, such as 0.0485"))
            else:
                durations.append((line.number, value))
        elif match := _THROUGHPUT.fullmatch(line.text):
            bits, giga = printed(match[1]), printed(match[2])
            if bits is None or giga is None or bits.low <= 0 or not giga.times(1e9).meets(bits):
                gaps.append(
                    Gap(
                        f"a throughput reads {shown(match[1])} bps, {shown(match[2])} Gbps",
                        line.number,
                        "the same in both",
                    )
                )
                continue
            implied = bits.times(1 / 16).under(size)
            at = next((k for k, (_, value) in enumerate(durations[: _window(gaps)]) if value.meets(implied)), None)
            if at is None:
                what = f"a throughput of {shown(match[2])} Gbps adds up with no duration before it"
                gaps.append(Gap(what, line.number, f"2 x 8 x {size} bytes / duration"))
                continue
            del durations[at]
            found.append(_Throughput(line.number, float(match[1]) / 16, bits.times(1 / 16)))
        elif match := _BUSBW.fullmatch(line.text):
            value = printed(match[1])
            if value is None or value.low <= 0:
                gaps.append(Gap(f"a busbw reads {shown(match[1])}", line.number, "Gbps, such as 40.4910"))
            else:
                busbws.append((line.number, value.times(1e9 / 8)))
    if durations:
        what = f"{len(durations)} durations have no throughput after them that adds up"
        gaps.append(Gap(what, durations[0][0], "`algo throughput: ... bps` after each"))
    return found, busbws


def _window(gaps: Sequence[Gap]) -> int:
    """How many open parts are searched: few once much has failed to add up, or a hostile file takes minutes."""
    return _PENDING if len(gaps) < _FAULTS else _PENDING // 256


def _joined(
    throughputs: Sequence[_Throughput],
    busbws: list[tuple[int, Interval]],
    size: int,
    ranks: int | None,
    gaps: list[Gap],
) -> list[Row]:
    """A row for each throughput with a busbw below it that is its algbw times 2(n-1)/n."""
    if ranks is None:
        gaps.append(Gap("no busbw can be checked without the number of ranks", None, "lines of every rank"))
        return []
    factor = bus_factor(_OPERATION, ranks)
    rows: list[Row] = []
    open_ones = list(busbws)
    for one in throughputs:
        expected = one.interval.times(factor)
        at = next(
            (
                k
                for k, (line, value) in enumerate(open_ones[: _window(gaps)])
                if line > one.line and value.meets(expected)
            ),
            None,
        )
        if at is None:
            what = f"an algbw of {one.algbw / 1e9:.5g} GB/s has no busbw below it that is its {factor:.5g}-fold"
            gaps.append(Gap(what, one.line, f"busbw = algbw x 2(n-1)/n of {ranks} ranks"))
            continue
        _, value = open_ones.pop(at)
        busbw = (value.low + value.high) / 2
        rows.append(Row(size, None, size / one.algbw, one.algbw, busbw, True, None, one.line))
    if open_ones:
        gaps.append(
            Gap(f"{len(open_ones)} busbw lines belong to no throughput", open_ones[0][0], "one for each report")
        )
    return rows


def _average(lines: Sequence[Line], name: str) -> CollectiveLog:
    """Form 2."""
    gaps: list[Gap] = []
    at, head = next((k, match) for k, line in enumerate(lines) if (match := _AVERAGE.fullmatch(line.text)))
    size, ranks = _bytes(head[1], 9), int(head[2])
    found: dict[str, tuple[Interval, float]] = {}
    for line in lines[at + 1 :]:
        match = _AVERAGED.fullmatch(line.text)
        if match is None or match[1] in found:
            continue
        value, bits = printed(match[2]), printed(match[3])
        if value is None or bits is None or value.low <= 0 or not value.times(8).meets(bits):
            gaps.append(
                Gap(f"{match[1]} reads {shown(match[2])} GBps ({shown(match[3])} Gbps)", line.number, "GBps x 8 = Gbps")
            )
        else:
            found[match[1]] = (value, float(match[2]) * 1e9)
    rows: list[Row] = []
    if size is None or ranks < 1:
        gaps.append(
            Gap(f"the payload is {shown(head[1])} GB among {ranks} ranks", lines[at].number, "positive numbers")
        )
    elif len(found) < 2:
        gaps.append(
            Gap("algbw or busbw is missing", lines[at].number, "` algbw: ... GBps` and ` busbw: ... GBps` below")
        )
    elif not found["algbw"][0].times(bus_factor(_OPERATION, ranks)).meets(found["busbw"][0]):
        gaps.append(Gap("busbw is not that of algbw", lines[at].number, f"busbw = algbw x 2(n-1)/n of {ranks} ranks"))
    else:
        algbw = found["algbw"][1]
        rows.append(Row(size, None, size / algbw, algbw, found["busbw"][1], True, None, lines[at].number))
    return _log(rows, ranks, _nodes(lines, gaps), gaps, name, lines, ("one size: the mean of all repeats and ranks",))


def _table(lines: Sequence[Line], name: str) -> CollectiveLog:
    """Form 3. Only the columns payload, busbw and algbw are read; time is payload over algbw."""
    gaps: list[Gap] = []
    notes: list[str] = []
    at, head = next((k, match) for k, line in enumerate(lines) if (match := _TABLE.fullmatch(line.text)))
    operation, ranks = head[1].replace("all_to_all", "alltoall"), int(head[2])
    table = [line for line in lines[at + 1 :] if line.text.strip().startswith("|")]
    columns = _cells(table[0].text) if table else []
    if not {"payload", "busbw", "algbw"} <= set(columns):
        number = table[0].number if table else lines[at].number
        raise foreign(f"the table has the columns {listed(columns) or 'none'}", name, number, "payload, busbw, algbw")
    try:
        factor = bus_factor(operation, ranks) if ranks > 0 else None
    except ValueError:
        factor = None
    if factor is None:
        what = f"the table is of {shown(operation)} over {ranks} ranks"
        raise foreign(
            what, name, lines[at].number, "a collective that is known, such as all_reduce, over 1 rank or more"
        )
    rows: list[Row] = []
    for line in table[1:]:
        cells = _cells(line.text)
        if cells and set(cells[0]) <= set("-: "):
            continue
        row = _table_row(cells, columns, factor, line.number)
        if isinstance(row, Gap):
            gaps.append(row)
        else:
            rows.append(row)
    if not any(line.text.startswith(("Legend:", "Elapsed time", "Time taken")) for line in lines):
        notes.append("no closing line: later sizes may be cut without a trace")
    if any(re.search(r"\d[KMGT]B\b", line.text) for line in table):
        notes.append("KB, MB and GB of the table are read as powers of 2**10, which is what the tool prints")
    return _log(rows, ranks, _nodes(lines, gaps), gaps, name, lines, notes, operation)


def _cells(text: str) -> list[str]:
    return [cell.strip() for cell in text.strip().strip("|").split("|")]


def _table_row(cells: Sequence[str], columns: Sequence[str], factor: float, line: int) -> Row | Gap:
    if len(cells) != len(columns):
        return Gap(f"the row of {shown(cells[0])} has {len(cells)} cells", line, f"{len(columns)} cells")
    row = dict(zip(columns, cells, strict=True))
    payload = _PAYLOAD.fullmatch(row["payload"])
    size = int(payload[1]) << _SHIFT[payload[2]] if payload else 0
    if not size:
        return Gap(f"a payload reads {shown(row['payload'])}", line, "a size such as 32KiB")
    values = [printed(row[column].removesuffix("GBps")) for column in ("algbw", "busbw")]
    algbw, busbw = values
    if algbw is None or busbw is None or not (row["algbw"].endswith("GBps") and row["busbw"].endswith("GBps")):
        what = f"the row of {row['payload']} has algbw {shown(row['algbw'])} and busbw {shown(row['busbw'])}"
        return Gap(what, line, "numbers of GBps")
    speed = float(row["algbw"].removesuffix("GBps"))
    if not speed > 0 or busbw.high < 0:
        return Gap(
            f"the row of {row['payload']} has algbw {shown(row['algbw'])}, no time", line, "an algbw above 0.00GBps"
        )
    if not algbw.times(factor).meets(busbw):
        return Gap(
            f"the row of {row['payload']} has a busbw that is not that of its algbw", line, f"algbw x {factor:.5g}"
        )
    return Row(size, None, size / (speed * 1e9), speed * 1e9, float(row["busbw"][:-4]) * 1e9, True, None, line)


def _bytes(cell: str, exponent: int) -> int | None:
    """A positive decimal number of 10**exponent bytes, exactly; None where it is none or not whole."""
    value = printed(cell)
    if value is None or value.low <= 0:
        return None
    digits, _, decimals = cell.lower().partition(".")
    if not (digits + decimals).isdigit() or len(decimals) > exponent:
        return None
    return int(digits + decimals) * int(10 ** (exponent - len(decimals)))
