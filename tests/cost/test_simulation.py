"""The event simulation: against closed forms where they are exact, against its own dependencies everywhere."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planproof.cost.schedule import closed_form, lower_bound
from planproof.cost.simulation import BACKWARD, FORWARD, WEIGHT, Durations, order, simulate
from planproof.plan import Schedule

seconds = st.floats(0.1, 10.0)
durations = st.builds(Durations, seconds, seconds, seconds)
schedules = st.sampled_from(Schedule)


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[list[Durations], list[float], int, int]:
    p = draw(st.integers(1, 8))
    stages = draw(st.lists(durations, min_size=p, max_size=p))
    transfers = draw(st.lists(st.floats(0.0, 2.0), min_size=p - 1, max_size=p - 1))
    return stages, transfers, draw(st.integers(1, 20)), draw(st.integers(1, 4))


@given(st.integers(1, 9), st.integers(1, 24), durations)
def test_equal_stages_of_gpipe_and_1f1b_take_m_plus_p_minus_1_microbatches(p: int, m: int, stage: Durations) -> None:
    for schedule in (Schedule.GPIPE, Schedule.ONE_F_ONE_B):
        assert simulate(schedule, [stage] * p, [0.0] * (p - 1), m).makespan == pytest.approx((m + p - 1) * stage.total)


@given(st.integers(1, 8), st.integers(1, 24), st.integers(1, 4), durations)
def test_equal_interleaved_stages_shrink_the_bubble_by_the_chunks(p: int, m: int, v: int, stage: Durations) -> None:
    found = simulate(Schedule.INTERLEAVED, [stage] * p, [0.0] * (p - 1), m, v).makespan
    expected = (m + (p - 1) / v) * stage.total if m >= p else (p + (m - 1) / v) * stage.total
    assert found == pytest.approx(expected)


@given(st.integers(1, 8), st.integers(0, 16), seconds)
def test_equal_zero_bubble_stages_keep_a_bubble_of_f_plus_b_minus_w(p: int, more: int, unit: float) -> None:
    stage = Durations(unit, unit, unit)
    m = p + more
    found = simulate(Schedule.ZB_H1, [stage] * p, [0.0] * (p - 1), m).makespan
    assert found == pytest.approx(m * 3 * unit + (p - 1) * unit)


@given(pipelines())
def test_uneven_gpipe_with_transfers_is_its_closed_form(case: tuple[list[Durations], list[float], int, int]) -> None:
    stages, transfers, m, _ = case
    found = simulate(Schedule.GPIPE, stages, transfers, m).makespan
    assert found == pytest.approx(closed_form(Schedule.GPIPE, stages, transfers, m).seconds)


@given(pipelines())
def test_closed_form_of_1f1b_is_near_the_simulation_even_for_stages_far_apart(
    case: tuple[list[Durations], list[float], int, int],
) -> None:
    stages, transfers, m, _ = case
    found = simulate(Schedule.ONE_F_ONE_B, stages, transfers, m).makespan
    assert 0.8 * found <= closed_form(Schedule.ONE_F_ONE_B, stages, transfers, m).seconds <= 1.6 * found


@given(pipelines(), schedules)
def test_no_run_is_below_the_lower_bound(case: tuple[list[Durations], list[float], int, int], schedule: Schedule) -> None:
    stages, transfers, m, v = case
    found = simulate(schedule, stages, transfers, m, v)
    assert lower_bound(schedule, stages, m, v, transfers) <= found.makespan * (1 + 1e-9)
    assert lower_bound(schedule, stages, m, v) <= lower_bound(schedule, stages, m, v, transfers)


@given(pipelines(), schedules, st.booleans())
def test_critical_path_accounts_for_every_second(
    case: tuple[list[Durations], list[float], int, int], schedule: Schedule, overlap: bool
) -> None:
    stages, transfers, m, v = case
    found = simulate(schedule, stages, transfers, m, v, overlap=overlap)
    assert sum(found.critical.compute_s) + found.critical.transfer_s == pytest.approx(found.makespan)
    assert min(found.bubble) >= -1e-9 * found.makespan
    assert [busy + idle for busy, idle in zip(found.busy, found.bubble, strict=True)] == pytest.approx(
        [found.makespan] * len(stages)
    )


@given(pipelines(), schedules)
def test_transfers_that_hold_the_sender_or_take_longer_never_help(
    case: tuple[list[Durations], list[float], int, int], schedule: Schedule
) -> None:
    stages, transfers, m, v = case
    free = simulate(schedule, stages, [0.0] * len(transfers), m, v).makespan
    usual = simulate(schedule, stages, transfers, m, v).makespan
    held = simulate(schedule, stages, transfers, m, v, overlap=False).makespan
    assert free <= usual * (1 + 1e-9)
    assert usual <= held * (1 + 1e-9)


@given(st.integers(1, 8), st.integers(1, 24), st.integers(1, 4), schedules)
def test_every_stage_runs_every_task_once_and_backward_after_forward(p: int, m: int, v: int, schedule: Schedule) -> None:
    chunks = v if schedule is Schedule.INTERLEAVED else 1
    kinds = (FORWARD, BACKWARD, WEIGHT) if schedule is Schedule.ZB_H1 else (FORWARD, BACKWARD)
    for stage in range(p):
        tasks = order(schedule, stage, p, m, v)
        assert sorted(tasks) == sorted((kind, k, c) for kind in kinds for k in range(m) for c in range(chunks))
        place = {task: at for at, task in enumerate(tasks)}
        for kind, k, c in tasks:
            if kind != FORWARD:
                assert place[kind - 1, k, c] < place[kind, k, c]


@given(st.integers(1, 8), st.integers(1, 20))
def test_one_forward_one_backward_holds_at_most_p_minus_s_microbatches(p: int, m: int) -> None:
    for stage in range(p):
        held = most = 0
        for task in order(Schedule.ONE_F_ONE_B, stage, p, m):
            held += 1 if task.kind == FORWARD else -1
            most = max(most, held)
        assert most == min(p - stage, m)


@given(st.integers(2, 8), st.integers(1, 20))
def test_zero_bubble_holds_at_most_p_microbatches_until_their_weight_gradients(p: int, m: int) -> None:
    for stage in range(p):
        held = most = 0
        for task in order(Schedule.ZB_H1, stage, p, m):
            held += {FORWARD: 1, BACKWARD: 0, WEIGHT: -1}[task.kind]
            most = max(most, held)
        assert most <= p


def test_a_slow_channel_is_the_bottleneck_of_gpipe() -> None:
    """Forward 1 s, backward 2 s, messages 5 s: a message leaves every 5 s each way, 4 + 4 of them after the first."""
    found = simulate(Schedule.GPIPE, [Durations(1.0, 2.0)] * 2, [5.0], 5)
    assert found.makespan == pytest.approx(2 * 3.0 + 2 * 5.0 + 4 * 5.0 + 4 * 5.0)


def test_1f1b_by_hand() -> None:
    """Two stages (1 + 2) and (2 + 4), two microbatches, no transfers.

    Stage 1: F0 1-3, B0 3-7, F1 7-9, B1 9-13; stage 0 then runs B1 13-15.
    """
    found = simulate(Schedule.ONE_F_ONE_B, [Durations(1.0, 2.0), Durations(2.0, 4.0)], [0.0], 2)
    assert found.makespan == 15.0
    assert found.busy == (6.0, 12.0)
    assert found.bubble == (9.0, 3.0)
    assert found.critical.compute_s == (3.0, 12.0)


def test_no_run_of_1f1b_is_below_the_round_trips_of_its_microbatches() -> None:
    """Random stages and messages, some as long as the stages: the bound holds, and with slow messages it is near."""
    draw, near = random.Random(11), 0
    for _ in range(400):
        p, m = draw.randint(2, 8), draw.randint(1, 40)
        stages = [Durations(draw.uniform(0.1, 1), draw.uniform(0.1, 2), draw.choice((0.0, 0.5))) for _ in range(p)]
        ways = [draw.choice((0.0, 0.1, 1.0)) for _ in range(p - 1)]
        least = lower_bound(Schedule.ONE_F_ONE_B, stages, m, 1, ways)
        makespan = simulate(Schedule.ONE_F_ONE_B, stages, ways, m).makespan
        assert least <= makespan * (1 + 1e-12)
        near += least > 0.9 * makespan and sum(ways) > 1
    assert near > 50
