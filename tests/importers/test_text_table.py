"""Promises about lines, cells and printed numbers that all importers of text tables rest on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planproof.errors import DataError
from planproof.importers import nccl_tests, nvidia_topo, rocm_smi, torch_allreduce
from planproof.importers.text_table import Interval, lines_of, listed, printed, ranges, shown, whole


@given(st.floats(0, 1e9), st.integers(0, 4))
def test_a_printed_number_stands_for_every_value_that_prints_so(value: float, digits: int) -> None:
    interval = printed(f"{value:.{digits}f}")
    assert interval is not None
    assert interval.meets(Interval(value, value))
    assert interval.high - interval.low == pytest.approx(10.0**-digits, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("cell", ["", "nan", "inf", "1e999", "1_000", "0x10", "1.2.3", "--1", "9" * 40, "1e31"])
def test_what_is_no_decimal_number_of_a_measurable_size_is_none(cell: str) -> None:
    assert printed(cell) is None


def test_whole_numbers_and_lists_are_read_exactly_or_not_at_all() -> None:
    assert [whole(cell) for cell in ("0", "17", "-1", "1.0", "²", "9" * 19)] == [0, 17, None, None, None, None]
    assert ranges("0-3,8,10-11") == ((0, 3), (8, 8), (10, 11))
    assert [ranges(cell) for cell in ("", "3-1", "1-2-3", "a", "1,,2", "N/A")] == [None] * 6


def test_line_numbers_are_those_of_an_editor() -> None:
    found = lines_of("a\r\nb\rc\nd\x0ce\n", "f", "x")
    assert [(line.number, line.text) for line in found[:4]] == [(1, "a"), (2, "b"), (3, "c"), (4, "d\x0ce")]


def test_quoted_cells_cannot_carry_control_characters_or_fill_the_screen() -> None:
    assert shown("\x1b[31m\n") == "'\\x1b[31m\\n'"
    assert len(shown("y" * 1000)) <= 42
    assert listed(str(k) for k in range(9)) == "0, 1, 2, 3, 4, 5 and 3 more"


@pytest.mark.parametrize("module", [nvidia_topo, rocm_smi, nccl_tests, torch_allreduce])
@pytest.mark.parametrize(
    "line", ["=== " + " " * 10**6 + "x", "average bandwidth of a over " * 40_000, "GPU0 X " * 200_000]
)
def test_an_endless_line_is_refused_with_its_number(module: object, line: str) -> None:
    read = module.read
    module.recognises(line)
    with pytest.raises(DataError, match="characters") as caught:
        read("first\n" + line, "f")
    assert caught.value.place.line == 2
