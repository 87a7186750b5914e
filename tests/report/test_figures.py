"""Numbers carry their unit once, three to four digits, and intervals in the value's own unit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planproof.quantity import Dimension, Estimate, Grade, human, parse
from planproof.report.figures import counted, digits, gib, interval, large, ratio, share, span


@pytest.mark.parametrize(
    ("value", "low", "high", "dimension", "shown"),
    [
        (13.75, 12.1, 15.0, Dimension.TIME, "13.75 s (12.10 to 15)"),
        (0.95, 0.9, 1.2, Dimension.TIME, "950 ms (900 to 1200)"),
        (3 * 86400, 2 * 86400, 5 * 86400, Dimension.TIME, "3 days (2 to 5)"),
        (0.41, 0.352, 0.449, Dimension.FRACTION, "41 % (35.20 to 44.90)"),
        (80 * 2**30, 512 * 2**20, 81 * 2**30, Dimension.BYTES, "80 GiB (0.500 to 81)"),
        (7200, 3600, 10800, Dimension.DEVICE_TIME, "2 device-hours (1 to 3)"),
        (0, 0, 1.5, Dimension.TIME, "0 s (0 s to 1.5 s)"),
    ],
)
def test_an_interval_is_in_the_unit_of_its_value(
    value: float, low: float, high: float, dimension: Dimension, shown: str
) -> None:
    assert span(value, low, high, dimension) == shown
    assert interval(Estimate(value, low, high, dimension, Grade.ESTIMATED)) == shown


@given(st.floats(1, 1e9), st.sampled_from([Dimension.TIME, Dimension.BYTES, Dimension.FRACTION]))
def test_every_unit_that_is_shown_can_be_read(value: float, dimension: Dimension) -> None:
    text = span(value, value, value, dimension)
    number, unit, low = text.partition("(")[0].split()[0], text.split()[1], text.partition("(")[2].split()[0]
    assert float(parse(f"1 {unit}", dimension)) > 0
    assert float(low) == pytest.approx(float(number), rel=0.01)
    assert human(value, dimension).split()[1] == unit


@given(st.floats(1e-6, 1e12))
def test_digits_are_within_half_a_per_cent(value: float) -> None:
    assert float(digits(value)) == pytest.approx(value, rel=0.005)


def test_counts_shares_and_ratios() -> None:
    assert large(70_553_706_496) == "70.55 billion"
    assert large(1234) == "1,234"
    assert share(0.10234) == "10.2 %"
    assert counted(1, "step") == "1 step"
    assert counted(20000, "step") == "20,000 steps"
    assert ratio(Estimate(1.0213, 0.985, 1.0631, Dimension.FRACTION, Grade.ESTIMATED)) == "1.021 (0.985 to 1.063)"


def test_a_computed_zero_and_a_trifle_differ() -> None:
    assert gib(0) == "0"
    assert gib(1024) == "<0.001"
    assert gib(-2**30) == "-1"
    assert gib(1.5 * 2**30) == "1.500"
