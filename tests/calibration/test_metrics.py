"""Figures of merit against counts by hand."""

from __future__ import annotations

import pytest
from planproof.calibration.metrics import Point, binomial_holds, errors_of, regret, spearman


def test_errors_by_hand() -> None:
    found = errors_of([Point(2, 10, 11, 9, 12), Point(3, 10, 8, 7, 9), Point(4, 10, 10.5, 10, 11)])
    assert found is not None
    assert (found.mape, found.median, found.max) == pytest.approx((0.35 / 3, 0.1, 0.2))
    assert found.bias == pytest.approx(-0.05 / 3)
    assert found.coverage == pytest.approx(2 / 3)
    assert found.width == pytest.approx(1 / 8)
    assert errors_of([]) is None


def test_rank_correlation_and_regret_by_hand() -> None:
    same = [Point(k, k, 2 * k) for k in (1, 2, 3)]
    assert spearman(same) == pytest.approx(1)
    assert spearman([Point(k, k, -k) for k in (1, 2, 3)]) == pytest.approx(-1)
    assert spearman(same[:2]) is None
    assert regret(same) == 0
    assert regret([Point(1, 10, 5), Point(2, 8, 6)]) == pytest.approx(0.25)


def test_the_binomial_interval_of_ninety_in_a_hundred_holds_ninety_per_cent_and_seventy_does_not() -> None:
    assert binomial_holds(90, 100)
    assert not binomial_holds(70, 100)
    assert binomial_holds(1, 1)
