"""A profile is read as measured, or refused with its line and column."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planproof.errors import DataError, PlanproofError
from planproof.plan import Mesh
from planproof.proposal import read_profile
from planproof.proposal.profile import _starts

LAYERS = b"""layer,tensor,microbatch,latency_ms,memory_mib,parameters
0,1,2,0.5,100,10
1,1,2,4.0,300,20
2,1,2,4.0,300,20
3,1,2,0.6,200,10
"""


def test_units_come_from_the_heading_or_the_cell() -> None:
    headed = read_profile(b"layers,microbatch,latency_ms,memory_mib\n0-3,1,12.5,64\n", "a.csv").rows[0]
    celled = read_profile(b"layers,microbatch,latency,memory\n0-3,1,12.5 ms,64 MiB\n", "a.csv").rows[0]
    assert headed.time == celled.time == pytest.approx(0.0125)
    assert headed.memory == celled.memory == 64 * 2**20


def test_allocators_mb_is_mib() -> None:
    assert read_profile(b"layer,bs,memory_mb\n0,1,81920\n", "a.csv").rows[0].memory == 80 * 2**30


def test_a_stage_is_found_whole_or_layer_by_layer() -> None:
    profile = read_profile(LAYERS, "a.csv")
    rows = profile.stage_rows(1, 2, Mesh(data=8), 2, embedding=False, head=False)
    assert rows is not None
    assert [row.first for row in rows] == [1, 2], "a row of one replica serves for any number of them"
    assert profile.stage_rows(1, 2, Mesh(tensor=2), 2, embedding=False, head=False) is None
    assert profile.stage_rows(1, 2, Mesh(), 4, embedding=False, head=False) is None
    whole = read_profile(b"layers,mesh,microbatch,latency_ms\n0-3,data=2 tensor=4,1,9\n", "b.csv")
    assert whole.stage_rows(0, 3, Mesh(data=2, tensor=4), 1, embedding=True, head=True) is not None


def test_separate_ends_shift_the_layers() -> None:
    profile = read_profile(LAYERS, "a.csv", separate_ends=True)
    assert profile.layers == 2
    all_rows = profile.stage_rows(0, 1, Mesh(), 2, embedding=True, head=True)
    middle = profile.stage_rows(0, 1, Mesh(), 2, embedding=False, head=False)
    assert all_rows is not None
    assert middle is not None
    assert [row.first for row in all_rows] == [0, 1, 2, 3]
    assert [row.first for row in middle] == [1, 2]


def test_rows_that_measure_the_same_and_differ_are_kept_apart() -> None:
    text = b"layer,bs,latency_ms\n0,1,5\n0,1,5\n0,1,6\n"
    (pair,) = read_profile(text, "a.csv").contradictions
    assert (pair[0].line, pair[1].line) == (2, 4)


WRONG = [
    (b"", 1, "is empty"),
    (b"\xff\xfe", 1, "not UTF-8"),
    (b"a\0b", 1, "NUL"),
    (b"layer,microbatch,latency_ms\n", 1, "no rows"),
    (b"microbatch,latency_ms\n1,2\n", 1, "no column 'layers'"),
    (b"layer,latency_ms\n0,2\n", 1, "no column 'microbatch'"),
    (b"layer,microbatch\n0,1\n", 1, "no time and no memory"),
    (b"layer,bs,mbs,latency_ms\n0,1,1,2\n", 1, "twice"),
    (b"layer,bs,latency_ms\n0,1\n", 2, "2 cells where the header has 3"),
    (b"layer,bs,latency_ms\n0,1,-2\n", 2, "latency_ms"),
    (b"layer,bs,latency_ms\n0,1,nan\n", 2, "latency_ms"),
    (b"layer,bs,latency\n0,1,7\n", 2, "has no unit"),
    (b"layer,bs,latency\n0,1,7 GB\n", 2, "is a unit of bytes"),
    (b"layer,bs,latency_ms\nx,1,7\n", 2, "whole number"),
    (b"layer,bs,latency_ms\n0,0,7\n", 2, "at least 1"),
    (b"layers,bs,latency_ms\n3-1,1,7\n", 2, "backwards"),
    (b"layers,bs,latency_ms\nall,1,7\n", 2, "no range"),
    (b"layers,mesh,bs,latency_ms\n0-1,diagonal=3,1,7\n", 2, "a mesh such as"),
    (b"layers,mesh,devices,bs,latency_ms\n0-1,data=2,4,1,7\n", 2, "4 devices for a mesh of 2"),
    (b'layer,bs,latency_ms\n0,1,"7\n', 2, "no CSV row"),
]


@pytest.mark.parametrize(("raw", "line", "said"), WRONG)
def test_a_wrong_row_is_named_with_its_line(raw: bytes, line: int, said: str) -> None:
    with pytest.raises(DataError, match=said) as caught:
        read_profile(raw, "a.csv")
    assert (caught.value.place.file, caught.value.place.line) == ("a.csv", line)


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: b"layer,bs,latency_ms\n" + text.encode()))
def test_no_bytes_raise_anything_but_our_error(raw: bytes) -> None:
    try:
        assert read_profile(raw, "a.csv").rows
    except PlanproofError as refused:
        assert refused.place.file == "a.csv"


@given(st.text(alphabet='a", ', max_size=14))
def test_the_columns_of_cells_are_those_that_csv_reads(line: str) -> None:
    try:
        cells = next(csv.reader(io.StringIO(line), strict=True), [])
    except csv.Error:
        return
    starts = _starts(line)
    assert len(starts) == max(1, len(cells))
    assert all(line[start - 2] == "," for start in starts[1:])
