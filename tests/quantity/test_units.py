"""Quantities are read exactly, in the unit that is meant, and never guessed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planproof.quantity import Dimension, Estimate, Grade, UnitError, human, parse, weakest

READ = [
    ("450 GB/s", Dimension.BANDWIDTH, 450 * 10**9),
    ("400 Gbit/s", Dimension.BANDWIDTH, 50 * 10**9),
    ("400 Gbps", Dimension.BANDWIDTH, 50 * 10**9),
    ("1 GiB/s", Dimension.BANDWIDTH, 2**30),
    ("80 GiB", Dimension.BYTES, 80 * 2**30),
    ("80 GB", Dimension.BYTES, 80 * 10**9),
    ("2us", Dimension.TIME, 2e-6),
    ("3.5 µs", Dimension.TIME, 3.5e-6),
    ("1 h", Dimension.TIME, 3600),
    ("989.4 TFLOP/s", Dimension.COMPUTE_RATE, 989_400_000_000_000),
    ("15.6 Ttokens", Dimension.TOKENS, 15_600_000_000_000),
    ("2048 sequences", Dimension.SEQUENCES, 2048),
    ("5 %", Dimension.FRACTION, 0.05),
    (0.05, Dimension.FRACTION, 0.05),
    ("64 device-hours", Dimension.DEVICE_TIME, 230_400),
    ("1.5e3 MiB", Dimension.BYTES, 1500 * 2**20),
]


@pytest.mark.parametrize(("text", "dimension", "value"), READ)
def test_a_quantity_is_read_exactly(text: str, dimension: Dimension, value: float) -> None:
    assert parse(text, dimension) == pytest.approx(value, rel=1e-15)
    if isinstance(value, int):
        assert isinstance(parse(text, dimension), int)


REFUSED = [
    ("450", Dimension.BANDWIDTH, "has no unit"),
    (450, Dimension.BANDWIDTH, "has no unit"),
    ("450 GBs", Dimension.BANDWIDTH, "did you mean 'GB/s'"),
    ("80 GiB", Dimension.BANDWIDTH, "is a unit of bytes, not of bytes/s"),
    ("400 Gbit/s", Dimension.BYTES, "is a unit of bytes/s, not of bytes"),
    ("-1 GiB", Dimension.BYTES, "outside what can be"),
    ("0 GB/s", Dimension.BANDWIDTH, "outside what can be"),
    ("1e30 GB", Dimension.BYTES, "outside what can be"),
    ("nan s", Dimension.TIME, "is not a number with a unit"),
    ("inf s", Dimension.TIME, "is not a number with a unit"),
    (float("nan"), Dimension.FRACTION, "is not a finite number"),
    (float("inf"), Dimension.FRACTION, "is not a finite number"),
    ("1e999 s", Dimension.TIME, "outside what can be"),
    ("150 %", Dimension.FRACTION, "outside what can be"),
    (True, Dimension.FRACTION, "is not a quantity"),
    ("0 sequences", Dimension.SEQUENCES, "outside what can be"),
    ("1,000 GB", Dimension.BYTES, "is not a unit"),
]


@pytest.mark.parametrize(("text", "dimension", "said"), REFUSED)
def test_what_is_no_quantity_is_refused_with_what_would_do(text: object, dimension: Dimension, said: str) -> None:
    with pytest.raises(UnitError, match=said):
        parse(text, dimension)


@given(st.text(max_size=200), st.sampled_from(list(Dimension)))
def test_no_text_raises_anything_but_a_unit_error(text: str, dimension: Dimension) -> None:
    try:
        value = parse(text, dimension)
    except UnitError as error:
        assert str(error)
    else:
        assert value == value
        assert 0 <= value < float("inf")


@given(st.integers(1, 10**6), st.sampled_from(["kB", "MB", "GB", "KiB", "MiB", "GiB"]))
def test_multiples_of_a_unit_agree(count: int, unit: str) -> None:
    assert parse(f"{count} {unit}", Dimension.BYTES) == count * int(parse(f"1 {unit}", Dimension.BYTES))


# The smallest value of each dimension that is shown with three digits and read again: less than a byte or a token is none,
# and a bandwidth below 1 MB/s is outside what can be.
_READ_FROM = {Dimension.TIME: 1.0, Dimension.BYTES: 1.0, Dimension.BANDWIDTH: 1e6, Dimension.TOKENS: 1.0}


@given(st.floats(0, 1), st.sampled_from(list(_READ_FROM)))
def test_what_is_shown_is_read_again_within_its_three_digits(share: float, dimension: Dimension) -> None:
    low, high = _READ_FROM[dimension], 1e9 if dimension is Dimension.TIME else 1e15
    value = min(low * (high / low) ** share, high)
    assert float(parse(human(value, dimension), dimension)) == pytest.approx(value, rel=6e-3)


def test_the_weakest_grade_decides_and_nothing_taints_nothing() -> None:
    assert weakest([Grade.MEASURED, Grade.VENDOR, Grade.PUBLISHED]) is Grade.VENDOR
    assert weakest([]) is Grade.MEASURED
    assert [grade.rank for grade in Grade] == [0, 1, 2, 3, 4]


def test_scaling_an_estimate_scales_its_interval() -> None:
    step = Estimate(2.0, 1.5, 3.0, Dimension.TIME, Grade.ESTIMATED)
    assert (step.scaled(10).value, step.scaled(10).low, step.scaled(10).high) == (20.0, 15.0, 30.0)
