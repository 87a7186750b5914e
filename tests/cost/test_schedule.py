"""Closed forms: the period of 1f1b against every window, limits, and how far off they may be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planproof.cost.schedule import closed_form, lower_bound, period_1f1b
from planproof.cost.simulation import Durations, simulate
from planproof.plan import Schedule

seconds = st.floats(0.1, 10.0)


@given(st.lists(seconds, min_size=1, max_size=10), st.data())
def test_period_of_1f1b_is_the_largest_mean_over_contiguous_stages(work: list[float], data: st.DataObject) -> None:
    p = len(work)
    transfers = data.draw(st.lists(st.floats(0.0, 3.0), min_size=p - 1, max_size=p - 1))
    windows = [(sum(work[a : b + 1]) + 2 * sum(transfers[a:b])) / (b - a + 1) for a in range(p) for b in range(a, p)]
    assert period_1f1b(work, transfers) == pytest.approx(max(windows))


@given(st.integers(2, 8), st.sampled_from(Schedule), st.integers(2, 4))
def test_bubble_vanishes_as_microbatches_grow(p: int, schedule: Schedule, v: int) -> None:
    stages = [Durations(1.0, 1.0, 1.0)] * p
    shares = [1 - m * 3.0 / closed_form(schedule, stages, [0.0] * (p - 1), m, v).seconds for m in (p, 10 * p, 1000 * p)]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < 1e-3


@given(st.lists(st.builds(Durations, seconds, seconds, seconds), min_size=2, max_size=8), st.integers(1, 40))
def test_interleaved_and_zero_bubble_forms_stay_near_the_simulation(stages: list[Durations], m: int) -> None:
    """Uneven by up to a hundred times; equal stages are exact elsewhere."""
    transfers = [0.0] * (len(stages) - 1)
    for schedule, v in ((Schedule.INTERLEAVED, 2), (Schedule.ZB_H1, 1)):
        found = simulate(schedule, stages, transfers, m, v).makespan
        form = closed_form(schedule, stages, transfers, m, v).seconds
        assert 0.6 * found <= form <= 1.6 * found
        assert form >= lower_bound(schedule, stages, m, v)


def test_one_stage_is_its_work_times_the_microbatches() -> None:
    for schedule in Schedule:
        assert closed_form(schedule, [Durations(1.0, 2.0, 0.5)], [], 7, 2) == (24.5, 3.5)
