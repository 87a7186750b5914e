"""Promises of the importer of all_reduce_bench.py logs, in the three forms it has had; all numbers invented."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planproof.errors import DataError, PlanproofError
from planproof.importers import nccl_tests
from planproof.importers.collective_log import CollectiveLog, interpolate
from planproof.importers.torch_allreduce import read, read_all, recognises

SIZE = 2_000_000_000
SECONDS = [0.9, 0.25, 0.26, 0.24]


def report(rank: str, seconds: float, ranks: int) -> list[str]:
    throughput = SIZE * 2 * 8 / seconds
    busbw = SIZE / seconds * 2 * (ranks - 1) / ranks * 8
    return [
        f"{rank}:",
        f" duration: {seconds:.4f} sec",
        f" algo throughput: {throughput:.4f} bps, {throughput / 1e9:.4f} Gbps",
        f" busbw: {busbw / 1e9:.4f}  Gbps",
    ]


def reports(nodes: int = 2, each: int = 2, shuffle: int | None = None, hosts: bool = False) -> str:
    """A log of every rank; with `shuffle`, the parts of one repeat interleave, each rank's own in order."""
    ranks = nodes * each
    names = [f"n{k // each}:{k % each}" if hosts else str(k) for k in range(ranks)]
    out = [f"local_rank: {k % each}" for k in range(ranks)] + [f"{name} data size: 2.0 GB" for name in names]
    draw = random.Random(shuffle)
    for repeat, seconds in enumerate(SECONDS):
        out += [f"ignore me {repeat}"] * ranks
        parts = [report(name, seconds + 0.0013 * k, ranks) for k, name in enumerate(names)]
        while parts:
            part = parts[draw.randrange(len(parts)) if shuffle is not None else 0]
            out.append(part.pop(0))
            parts = [one for one in parts if one]
    return "\n".join(out) + "\n"


AVERAGE = """The average bandwidth of all_reduce with a 4.0GB payload (5 trials, 16 ranks):
 algbw: 200.000 GBps (1600.0 Gbps)
 busbw: 375.000 GBps (3000.0 Gbps)
"""
TABLE = """
The average bandwidth of all_reduce over 4 ranks (5 warmups / 20 trials):

| payload |    busbw   |    algbw   |
| ------: | ---------: | ---------: |
|   32KiB |   1.20GBps |   0.80GBps |
|    1MiB |  30.00GBps |  20.00GBps |
|    1GiB | 300.00GBps | 200.00GBps |

Legend: 1KiB = 2**10Bytes
"""


def said(found: CollectiveLog) -> str:
    return "\n".join(f"{gap.line}: {gap.what}; {gap.expected}" for gap in found.gaps)


def test_reports_give_a_row_for_each_rank_and_repeat_with_the_doubled_throughput_halved() -> None:
    found = read(reports(), "t.txt")
    assert (found.operation, found.ranks, found.nodes, found.complete, found.gaps) == ("all_reduce", 4, 2, True, ())
    assert (len(found.rows), found.tool, found.datatype) == (16, "torch-allreduce", None)
    row = found.rows[0]
    assert (row.size_bytes, row.in_place, row.wrong) == (SIZE, True, None)
    assert row.time_s == pytest.approx(0.9)
    assert row.algbw_bytes_per_s == pytest.approx(SIZE / 0.9)
    assert row.busbw_bytes_per_s == pytest.approx(SIZE / 0.9 * 1.5, rel=1e-5)
    assert any("start-up" in note for note in found.notes)
    assert interpolate(found, SIZE) == pytest.approx(0.255, abs=0.01)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_interleaved_reports_give_the_same_rows(seed: int) -> None:
    rows = sorted((row.time_s, row.busbw_bytes_per_s) for row in read(reports(), "t.txt").rows)
    found = read(reports(shuffle=seed), "t.txt")
    assert sorted((row.time_s, row.busbw_bytes_per_s) for row in found.rows) == rows
    assert found.complete


def test_ranks_may_be_named_by_host_and_local_rank() -> None:
    found = read(reports(hosts=True), "t.txt")
    assert (found.ranks, found.nodes, found.complete) == (4, 2, True)


def test_the_command_and_the_local_ranks_must_agree_on_the_nodes() -> None:
    assert read("torchrun --nnodes 2 --nproc_per_node=2 b.py\n" + reports(), "t.txt").nodes == 2
    other = read("torchrun --nnodes 4 --nproc_per_node=1 b.py\n" + reports(), "t.txt")
    assert other.nodes is None
    assert "2, 4 nodes" in said(other)


def test_the_average_form_is_one_row() -> None:
    found = read(AVERAGE, "t.txt")
    (row,) = found.rows
    assert (found.ranks, row.size_bytes, row.algbw_bytes_per_s, row.busbw_bytes_per_s) == (16, 4 * 10**9, 200e9, 375e9)
    assert row.time_s == pytest.approx(0.02)
    assert (found.complete, found.nodes) == (True, None)
    tagged = "\n".join("[worker:0]:" + line for line in AVERAGE.split("\n"))
    assert read(tagged, "t.txt").rows == found.rows


def test_the_table_form_is_a_curve() -> None:
    found = read(TABLE, "t.txt")
    assert [row.size_bytes for row in found.rows] == [1 << 15, 1 << 20, 1 << 30]
    assert found.rows[1].time_s == pytest.approx((1 << 20) / 20e9)
    assert (found.ranks, found.operation, found.complete) == (4, "all_reduce", True)
    older = read(TABLE.replace("iB", "B"), "t.txt")
    assert older.rows == found.rows
    assert any("2**10" in note for note in older.notes)


def test_a_cut_log_keeps_whole_reports_and_counts_what_is_missing() -> None:
    whole = reports()
    found = read(whole[: whole.rindex(" algo throughput") + 20], "t.txt")
    assert len(found.rows) == 15
    assert not found.complete
    assert "1 durations have no throughput after them that adds up" in said(found)
    assert "15 reports can be read, from 4 of 4 ranks" in said(found)


def test_an_error_at_the_end_is_named_with_its_line() -> None:
    text = reports() + "Traceback (most recent call last):\nRuntimeError: NCCL error\n"
    found = read(text, "t.txt")
    assert f"{text.count(chr(10)) - 1}: the run ended in an error" in said(found)
    assert not found.complete


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (reports().replace("0.2500 sec", "0.5200 sec"), "adds up with no duration before it"),
        (reports().replace("busbw: 96.0000", "busbw: 69.0000"), "has no busbw below it that is its 1.5-fold"),
        (TABLE.replace("30.00GBps", "31.00GBps"), "the row of 1MiB has a busbw that is not that of its algbw"),
        (TABLE.replace("|  20.00GBps |", "|            |"), "the row of 1MiB has algbw '' and busbw '30.00GBps'"),
        (TABLE.replace(" 1.20GBps |   0.80", " 0.00GBps |   0.00"), "the row of 32KiB has algbw '0.00GBps', no time"),
    ],
)
def test_a_figure_that_does_not_add_up_is_left_out(text: str, message: str) -> None:
    assert message in said(read(text, "t.txt"))
    assert not read(text, "t.txt").complete


def test_ranks_that_print_nothing_leave_no_busbw_to_check() -> None:
    silent = "\n".join(line for line in reports().split("\n") if not line.startswith(("1:", "1 data")))
    with pytest.raises(DataError, match="1 of the ranks up to 3 print nothing"):
        read(silent, "t.txt")


@pytest.mark.parametrize("text", [reports() + reports(), AVERAGE + AVERAGE, TABLE + TABLE, reports() + TABLE])
def test_several_runs_are_told_apart(text: str) -> None:
    both = read_all(text, "t.txt")
    assert [one.complete for one in both] == [True, True]
    with pytest.raises(DataError, match=f"line {both[0].line}, another on line {both[1].line}"):
        read(text, "t.txt")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "empty"),
        ("hello\n", "no result"),
        ("local_rank: 0\nTraceback (most recent call last):\n", "before its first result"),
        (reports().replace("2.0 GB", "2,0 GB"), "data size reads '2,0'"),
        (reports().replace("1 data size: 2.0", "1 data size: 4.0"), "the data size is 2.0, 4.0"),
        ("".join(line for line in reports().splitlines(True) if "data size" not in line), "data size is not stated"),
        (AVERAGE.replace("375.000", "357.000"), "busbw reads '357.000' GBps"),
        (AVERAGE.partition(" busbw")[0], "algbw or busbw is missing"),
        (TABLE.replace("of all_reduce", "of all_things"), "'all_things' over 4 ranks"),
        (TABLE.partition("| ---")[0].replace("payload", "bytes"), "the table has the columns bytes"),
    ],
)
def test_what_is_no_log_is_refused_in_words(content: str, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read(content, "t.txt")
    assert caught.value.place.file == "t.txt"
    assert caught.value.remedy


def test_each_kind_recognises_its_own() -> None:
    assert all(recognises(text) for text in (reports(), AVERAGE, TABLE))
    assert not any(nccl_tests.recognises(text) for text in (reports(), AVERAGE, TABLE))
    assert not recognises("#  size count type time algbw busbw #wrong\n 8 2 float 1.0 0.0 0.0 0\n")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_text_is_read_or_refused_and_what_is_read_adds_up(data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from([reports(), AVERAGE, TABLE]))
    at, width = data.draw(st.integers(0, len(whole))), data.draw(st.integers(0, 80))
    put = data.draw(st.text(max_size=20) | st.sampled_from(["0", "-1", "nan", "1e99", "\n", " ", "GB"]))
    content = data.draw(st.sampled_from([whole[:at] + put + whole[at + width :]]) | st.text())
    recognises(content)
    try:
        found = read_all(content, "any")
    except PlanproofError:
        return
    for one in found:
        assert one.rows
        assert all(row.time_s > 0 and row.algbw_bytes_per_s > 0 for row in one.rows)
        interpolate(one, SIZE)
