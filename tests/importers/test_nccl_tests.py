"""Promises of the importer of nccl-tests output, on invented logs that follow from one latency and one bandwidth."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planproof.errors import DataError, PlanproofError
from planproof.importers.collective_log import CollectiveLog, Row, bus_factor, interpolate
from planproof.importers.nccl_tests import read, read_all, recognises

SIZES = [1 << k for k in range(10, 27, 2)]
SHAPE = {
    "all_reduce": ("sum", "-1"),
    "reduce_scatter": ("sum", "-1"),
    "all_gather": ("none", "-1"),
    "alltoall": ("none", "-1"),
    "broadcast": ("none", "0"),
    "reduce": ("sum", "0"),
    "sendrecv": ("sum", "-1"),
}


def block(size: int, factor: float, slow: float = 1.0) -> tuple[str, float]:
    """The three printed figures of a size, with the digits that nccl-tests prints, and busbw."""
    time = (20e-6 + size / 100e9) * slow
    algbw = size / time / 1e9
    digits = 2 if time < 1e-4 else 1
    return f"{time * 1e6:.{digits}f} {algbw:.2f} {algbw * factor:.2f}", algbw * factor


def log(
    operation: str = "all_reduce",
    ranks: int = 8,
    nodes: int = 2,
    sizes: list[int] | None = None,
    preamble: bool = True,
    footer: bool = True,
    old: bool = False,
    wrong: str = "0",
) -> str:
    sizes = SIZES if sizes is None else sizes
    redop, root = SHAPE[operation]
    factor = bus_factor(operation, ranks)
    out = []
    if preamble:
        out.append(
            f"# nThread 1 nGpus 1 minBytes {sizes[0]} maxBytes {sizes[-1]} step: 4(factor) warmup iters: 5 iters: 20"
        )
        out.append("#\n# Using devices")
        for rank in range(ranks):
            host = f"host{rank * nodes // ranks}"
            out.append(f"#  Rank {rank:2} Group  0 Pid  77{rank} on  {host} device {rank:2} [0000:00:00] Some GPU 80GB")
        out.append("#")
    between = (
        "redop root "
        if not old
        else {"all_gather": "", "broadcast": "root ", "reduce": "redop root "}.get(operation, "redop ")
    )
    last = "error" if old else "#wrong"
    out.append("#                    out-of-place                       in-place")
    out.append(f"#  size  count  type  {between} time  algbw  busbw  {last}  time  algbw  busbw  {last}")
    out.append("#  (B)  (elements)    (us)  (GB/s)  (GB/s)    (us)  (GB/s)  (GB/s)")
    total = []
    for asked in sizes:
        shares = 1 if operation in ("all_reduce", "broadcast", "reduce", "sendrecv") else ranks
        count = asked // 4 // shares
        size = count * 4 * shares
        middle = " ".join(
            {"redop": "" if old and operation == "alltoall" else redop, "root": root}[key] for key in between.split()
        )
        (first, one), (second, two) = block(size, factor), block(size, factor, 1.25)
        total += [one, two]
        out.append(f"  {size}  {count}  float  {middle}  {first}  {wrong}  {second}  {wrong}")
    if footer:
        out.append("# Out of bounds values : 0 OK")
        out.append(f"# Avg bus bandwidth    : {sum(total) / len(total):.6g}\n#")
    return "\n".join(out) + "\n"


def said(found: CollectiveLog) -> str:
    return "\n".join(f"{gap.line}: {gap.what}; {gap.expected}" for gap in found.gaps)


def test_a_whole_log_is_read_in_seconds_and_bytes_a_second() -> None:
    found = read(log(), "n.txt")
    assert (found.operation, found.ranks, found.nodes, found.datatype) == ("all_reduce", 8, 2, "float")
    assert (found.complete, found.gaps, found.tool) == (True, (), "nccl-tests")
    assert len(found.rows) == 2 * len(SIZES)
    first, second = found.rows[-2:]
    assert (first.size_bytes, first.count, first.in_place, second.in_place) == (1 << 26, 1 << 24, False, True)
    assert first.time_s == pytest.approx(20e-6 + (1 << 26) / 100e9, rel=1e-3)
    assert first.algbw_bytes_per_s == pytest.approx((1 << 26) / first.time_s, rel=1e-3)
    assert first.busbw_bytes_per_s == pytest.approx(1.75 * first.algbw_bytes_per_s, rel=1e-3)
    assert second.time_s > first.time_s
    assert first.wrong == 0
    assert found.average_busbw == pytest.approx(
        sum(row.busbw_bytes_per_s for row in found.rows) / len(found.rows), rel=1e-2
    )


@pytest.mark.parametrize("operation", ["all_reduce", "reduce_scatter", "broadcast", "reduce", "sendrecv"])
def test_an_unnamed_operation_follows_from_columns_counts_and_bandwidths(operation: str) -> None:
    assert read(log(operation), "n.txt").operation == operation


@pytest.mark.parametrize("operation", ["all_gather", "alltoall"])
def test_what_fits_two_operations_stays_open_until_the_log_names_one(operation: str) -> None:
    found = read(log(operation), "n.txt")
    assert found.operation is None
    assert "the rows fit all_gather, alltoall" in said(found)
    assert found.complete
    named = read(f"# Collective test starting: {operation}_perf\n" + log(operation), "n.txt")
    assert (named.operation, named.gaps) == (operation, ())


@pytest.mark.parametrize("operation", ["all_reduce", "reduce_scatter", "broadcast", "reduce", "all_gather", "alltoall"])
def test_the_older_layout_with_error_is_read_and_tells_more_apart(operation: str) -> None:
    found = read(log(operation, old=True, wrong="N/A"), "n.txt")
    assert (found.operation, found.gaps) == (operation, ())
    assert {row.wrong for row in found.rows} == {None}
    assert {row.wrong for row in read(log(operation, old=True, wrong="1e-07"), "n.txt").rows} == {None}


def test_two_ranks_leave_all_reduce_and_sendrecv_open() -> None:
    found = read(log(ranks=2), "n.txt")
    assert (found.operation, found.ranks) == (None, 2)
    assert "all_reduce, sendrecv" in said(found)


def test_a_command_line_names_the_operation() -> None:
    assert read("$ mpirun -np 2 ./build/all_reduce_perf -b 8 -e 1G\n" + log(ranks=2), "n.txt").operation == "all_reduce"
    two = read("./all_reduce_perf ; ./sendrecv_perf\n" + log(ranks=2), "n.txt")
    assert two.operation is None
    assert "several programs: all_reduce, sendrecv" in said(two)


def test_a_name_that_the_rows_contradict_is_not_believed() -> None:
    found = read("# Collective test starting: reduce_scatter_perf\n" + log(), "n.txt")
    assert found.operation is None
    assert "the run is named reduce_scatter" in said(found)


@pytest.mark.parametrize("ranks", [4, 16, 24])
def test_ranks_that_are_not_listed_follow_from_the_rows_or_stay_open(ranks: int) -> None:
    found = read(log(ranks=ranks, preamble=False), "n.txt")
    assert (found.ranks, found.nodes) == (ranks, None)
    assert any("follow from the rows" in note for note in found.notes)
    assert read(log("reduce_scatter", ranks=ranks, preamble=False), "n.txt").ranks == ranks
    broadcast = read(log("broadcast", ranks=ranks, preamble=False), "n.txt")
    assert broadcast.ranks is None
    assert "the number of ranks is not stated" in said(broadcast)


def test_groups_count_by_their_own_ranks_and_nodes() -> None:
    lines = log(ranks=4, preamble=False).split("\n")
    listed = [f"#  Rank {rank} Group {rank % 2} Pid 1 on h{rank // 4} device {rank} [0] Some GPU" for rank in range(8)]
    found = read("\n".join([*listed, *lines]), "n.txt")
    assert (found.operation, found.ranks, found.nodes) == ("all_reduce", 4, 2)
    assert any("2 groups" in note for note in found.notes)


@pytest.mark.parametrize(
    "dressed",
    [
        "\n".join("[1,0]<stdout>:" + line for line in log().split("\n")),
        "\n".join("0: " + line for line in log().split("\n")),
        log().replace("#", "").replace("wrong", "#wrong"),
        log().replace("\n", "\r\n"),
        log().replace("   (us)", "   (us)").replace("#  (B)", "host:1:1 [0] NCCL INFO Launch mode Parallel\n#  (B)"),
    ],
    ids=["mpi tag", "srun label", "no comment sign", "crlf", "nccl info"],
)
def test_how_the_log_was_captured_does_not_change_what_it_says(dressed: str) -> None:
    plain, found = read(log(), "n.txt"), read(dressed, "n.txt")
    assert recognises(dressed)
    assert [replace(row, line=0) for row in found.rows] == [replace(row, line=0) for row in plain.rows]
    assert (found.operation, found.ranks, found.complete) == ("all_reduce", 8, True)


def test_extra_columns_and_time_stamps_are_passed_over() -> None:
    text = (
        log()
        .replace("#wrong  time", "#wrong  i_min  i_max  i_p99  i_cv%  time")
        .replace("#wrong\n", "#wrong i_min i_max i_p99 i_cv% timestamp\n")
    )
    out = []
    for line in text.split("\n"):
        cells = line.split()
        if line.startswith("  ") and len(cells) == 13:
            line = " ".join([*cells[:9], "1 2 3 4", *cells[9:], "1 2 3 4", "2026-01-02 03:04:05"])
        out.append(line)
    assert len(read("\n".join(out), "n.txt").rows) == 2 * len(SIZES)


def test_a_cut_log_keeps_its_rows_and_is_not_complete() -> None:
    whole = log()
    cut = whole[: whole.index(f"  {SIZES[6]}  ") + 30]
    found = read(cut, "n.txt")
    assert len(found.rows) == 12
    assert not found.complete
    assert "the row of size '4194304' has" in said(found)
    assert "the run has no end" in said(found)
    assert "1: 6 of 9 sizes have a row" in said(found)


def test_a_log_that_ended_in_an_error_names_it_and_its_line() -> None:
    text = (
        log(footer=False)
        + "host1: Test NCCL failure common.cu:958 'unhandled system error'\n .. host1 pid 7: Test failure\n"
    )
    found = read(text, "n.txt")
    number = text[: text.index("host1: Test")].count("\n") + 1
    assert f'{number}: the run ended in an error: "host1: Test NCCL failure' in said(found)
    assert not found.complete


def test_rows_left_out_by_hand_show_in_the_average() -> None:
    lines = log(preamble=False).split("\n")
    del lines[4:9]
    found = read("\n".join(lines), "n.txt")
    assert "rows are missing or altered" in said(found)
    assert not found.complete
    dotted = read("\n".join([*lines[:4], "...", *lines[4:]]), "n.txt")
    assert "5: rows are left out here" in said(dotted)


def test_wrong_elements_are_kept_said_and_not_used_for_a_curve() -> None:
    found = read(log(wrong="3"), "n.txt")
    assert {row.wrong for row in found.rows} == {3}
    assert "3 elements of the row of size 1024 were wrong" in said(found)
    assert not found.complete
    assert interpolate(found, 4096) is None
    failed = read(log().replace(": 0 OK", ": 5 FAILED"), "n.txt")
    assert "out of bounds" in said(failed)
    assert not failed.complete


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("691.1", "961.1", "size over time '961.1' is not algbw"),
        ("67108864  16777216", "67108864  16777217", "16777217 elements of 'float', which do not make its size"),
        ("67108864  16777216", "67108865  16777216", "do not make its size"),
        ("  0  863.9", "  0.5  863.9", "'0.5' in the column #wrong"),
        ("  0  863.9", "  863.9", "has 12 cells"),
        ("97.11 169.94", "97.11 179.94", "busbw of the row of size 67108864 is not 1.75 times algbw"),
    ],
)
def test_a_row_that_does_not_add_up_is_left_out_with_its_line(old: str, new: str, message: str) -> None:
    text = log()
    assert old in text
    number = text[: text.index("  67108864")].count("\n") + 1
    found = read(text.replace(old, new), "n.txt")
    assert not [row for row in found.rows if row.line == number and not row.in_place]
    assert any(message in gap.what and gap.line == number for gap in found.gaps)
    assert not found.complete


def test_several_runs_are_read_in_order_and_one_is_not_picked() -> None:
    text = log() + log("reduce_scatter", ranks=4)
    both = read_all(text, "n.txt")
    assert [(one.operation, one.ranks, one.complete) for one in both] == [
        ("all_reduce", 8, True),
        ("reduce_scatter", 4, True),
    ]
    with pytest.raises(DataError, match=f"line {both[0].line}, another on line {both[1].line}") as caught:
        read(text, "n.txt")
    assert "cut this file" in (caught.value.remedy or "")


@pytest.mark.parametrize(
    ("content", "words", "line"),
    [
        ("", ("empty",), None),
        ("size,time\n8,1\n", ("no table",), None),
        (
            "# nThread 1 nGpus 1\nh: Test CUDA failure common.cu:1 'out of memory'\n",
            ("before its table", "out of memory"),
            2,
        ),
        ("\n".join(log().split("\n")[:14]), ("no row",), None),
        (log().replace("(us)", "(ms)"), ("the units are",), 15),
        (log().replace(" time ", " cputime "), ("host's calls",), 14),
        (log().replace("#  size", "#  size count type time algbw busbw\n#  size"), ("no rows between",), 15),
    ],
)
def test_what_is_no_log_is_refused_with_its_line(content: str, words: tuple[str, ...], line: int | None) -> None:
    with pytest.raises(DataError) as caught:
        read(content, "n.txt")
    assert caught.value.place.file == "n.txt"
    assert line is None or caught.value.place.line == line
    assert caught.value.remedy
    for word in words:
        assert word in caught.value.message


def curve(*points: tuple[int, float], in_place: bool = False) -> CollectiveLog:
    rows = tuple(Row(size, None, time, size / time, size / time, in_place, 0, 1) for size, time in points)
    return CollectiveLog("all_reduce", 8, 1, "float", "nccl-tests", rows, True, (), None, (), 1)


def test_the_curve_goes_through_rising_points_is_straight_in_logs_and_ends_with_them() -> None:
    log = curve((1000, 1e-5), (4000, 4e-5), (8000, 5e-5))
    assert interpolate(log, 1000) == pytest.approx(1e-5)
    assert interpolate(log, 2000) == pytest.approx(2e-5)
    assert interpolate(log, 8000) == pytest.approx(5e-5)
    assert interpolate(log, 999) is None
    assert interpolate(log, 8001) is None


def test_the_curve_prefers_out_of_place_and_takes_the_median_of_repeats() -> None:
    both = curve((100, 1.0), (100, 9.0), (100, 2.0))
    mixed = replace(both, rows=(*both.rows, *curve((100, 50.0), in_place=True).rows))
    assert interpolate(mixed, 100) == pytest.approx(2.0)
    assert interpolate(curve((100, 50.0), in_place=True), 100) == pytest.approx(50.0)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 10**12), st.floats(1e-7, 1e3)), min_size=1, max_size=12),
    st.integers(0, 2 * 10**12),
    st.integers(0, 2 * 10**12),
)
def test_the_curve_never_falls_and_stays_between_the_measured_times(
    points: list[tuple[int, float]], one: int, two: int
) -> None:
    log = curve(*points)
    low, high = (interpolate(log, size) for size in sorted((one, two)))
    times = [time for _, time in points]
    for value in (low, high):
        assert value is None or min(times) * (1 - 1e-9) <= value <= max(times) * (1 + 1e-9)
    if low is not None and high is not None:
        assert low <= high * (1 + 1e-12)
        assert math.isfinite(high)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_text_is_read_or_refused_and_what_is_read_adds_up(data: st.DataObject) -> None:
    whole = log(ranks=4)
    at, width = data.draw(st.integers(0, len(whole))), data.draw(st.integers(0, 80))
    put = data.draw(st.text(max_size=20) | st.sampled_from(["0.00", "N/A", "1e+30", "-1", "nan", "inf", "\n", " "]))
    content = data.draw(st.sampled_from([whole[:at] + put + whole[at + width :]]) | st.text())
    recognises(content)
    try:
        found = read_all(content, "any")
    except PlanproofError:
        return
    for one in found:
        assert one.rows
        for row in one.rows:
            assert row.time_s > 0
            assert abs(row.size_bytes / row.time_s - row.algbw_bytes_per_s) <= 0.006e9 + 0.01 * row.algbw_bytes_per_s
        interpolate(one, 12345)
