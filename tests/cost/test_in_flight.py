"""In-flight microbatches: counts against the order in which the simulated schedules run their tasks."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planproof.cost.in_flight import in_flight, in_flight_chunks
from planproof.cost.simulation import BACKWARD, FORWARD, WEIGHT, order
from planproof.plan import Schedule

DEGREES = st.integers(2, 9)


def held(schedule: Schedule, stage: int, stages: int, microbatches: int, interleave: int = 1) -> int:
    """The most (microbatch, chunk) pairs between forward and last backward task in the schedule's own order."""
    last = WEIGHT if schedule is Schedule.ZB_H1 else BACKWARD
    alive = most = 0
    for task in order(schedule, stage, stages, microbatches, interleave):
        alive += (task.kind == FORWARD) - (task.kind == last)
        most = max(most, alive)
    return most


@settings(max_examples=50, deadline=None)
@given(DEGREES, st.integers(1, 20), st.data())
@pytest.mark.parametrize("schedule", [Schedule.GPIPE, Schedule.ONE_F_ONE_B])
def test_count_is_what_the_schedule_holds(schedule: Schedule, stages: int, microbatches: int, data: st.DataObject) -> None:
    stage = data.draw(st.integers(0, stages - 1))
    expected = held(schedule, stage, stages, microbatches)
    assert in_flight_chunks(schedule, stage, stages, microbatches) == expected


@settings(max_examples=50, deadline=None)
@given(DEGREES, st.integers(1, 4), st.integers(2, 5), st.data())
def test_interleaved_count_is_what_the_schedule_holds(stages: int, groups: int, interleave: int, data: st.DataObject) -> None:
    stage, microbatches = data.draw(st.integers(0, stages - 1)), groups * stages
    expected = held(Schedule.INTERLEAVED, stage, stages, microbatches, interleave)
    assert in_flight_chunks(Schedule.INTERLEAVED, stage, stages, microbatches, interleave) == expected


@settings(max_examples=50, deadline=None)
@given(DEGREES, st.integers(1, 20), st.data())
def test_zero_bubble_never_holds_more_than_is_counted(stages: int, microbatches: int, data: st.DataObject) -> None:
    stage = data.draw(st.integers(0, stages - 1))
    count = in_flight_chunks(Schedule.ZB_H1, stage, stages, microbatches)
    assert held(Schedule.ZB_H1, stage, stages, microbatches) <= count <= stages


@pytest.mark.parametrize(("stage", "chunks"), [(0, 31), (7, 17)])
def test_interleaving_gpt3_over_8_stages_by_3(stage: int, chunks: int) -> None:
    """Korthikanti et al. 2022, section 4.2.3: L (1 + (p - 1) / (p v)) layers on stage 0, 31 chunks of L / 24 layers;
    the last stage holds the (v - 1) p + 1 of its warm-up."""
    flight = in_flight(Schedule.INTERLEAVED, stage, 8, 64, 3)
    assert (flight.chunks, flight.parts) == (chunks, 3)
    assert flight.microbatches == Fraction(chunks, 3)


def test_interleaved_last_rank_holds_nine_chunks_at_pipeline_4_interleave_3() -> None:
    """Measured on the last rank of Megatron-LM's functional test `gpt3_mcore_te_tp1_pp4_vp1`: 9.0 chunk activations."""
    assert in_flight_chunks(Schedule.INTERLEAVED, 3, 4, 8, 3) == 9


@pytest.mark.parametrize("schedule", list(Schedule))
def test_one_stage_holds_one_microbatch(schedule: Schedule) -> None:
    assert in_flight(schedule, 0, 1, 16, 1) == (1, 1, 1, 1, 0, 0)


def test_only_gpipe_keeps_the_logits_of_all_microbatches() -> None:
    heads = {schedule: in_flight(schedule, 3, 4, 12, 1).heads for schedule in Schedule}
    assert heads == {Schedule.GPIPE: 12, Schedule.ONE_F_ONE_B: 1, Schedule.INTERLEAVED: 1, Schedule.ZB_H1: 1}


def test_zero_bubble_puts_off_the_heads_weight_gradient() -> None:
    assert in_flight(Schedule.ZB_H1, 3, 4, 12).put_off == 4
    assert in_flight(Schedule.ONE_F_ONE_B, 3, 4, 12).put_off == 0
