"""Intervals: fixed draws within stated ranges, common draws that cancel, residuals that widen."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from planproof.cluster.cluster import Collective
from planproof.cost import Uncertainty, draws, interval, outcome, ratio
from planproof.cost.factors import load_constants
from planproof.cost.intervals import APART, GRADE_RANGE, apart, ratio_residual
from planproof.model import Attention
from planproof.plan import Plan, Recompute, Schedule
from planproof.quantity import Dimension, Grade
from time_cases import cluster, gpt, plans, quantity, training, uniform

A100 = cluster(nodes=8)
SURE = Uncertainty(gpt(), training(), A100, n=16)


def width(low: float, high: float) -> float:
    return (high / low) ** 0.5 - 1


def test_draws_are_the_same_every_time_and_spread_over_the_stated_range() -> None:
    found = draws(A100)
    assert found == draws(A100)
    assert len(found) == 48
    gemm = A100.device.efficiency.gemm
    inside = [gemm.low <= gemm.value * one.gemm <= gemm.high for one in found]
    assert 0.7 <= sum(inside) / len(inside) <= 0.9  # the sheet's range is 10-90 %
    assert min(one.gemm for one in found) < 1 < max(one.gemm for one in found)
    assert all(0 <= one.gradient_overlap <= 1 for one in found if one.gradient_overlap is not None)
    assert {name for name, _ in found[0].bandwidth} == {"nvswitch", "fabric"}


def test_a_better_grade_narrows_a_links_draws() -> None:
    def spread(grade: Grade) -> float:
        fabric = [dict(one.bandwidth)["fabric"] for one in draws(cluster(grade=grade))]
        return max(fabric) / min(fabric)

    order = [spread(grade) for grade in GRADE_RANGE]
    assert order == sorted(order)
    assert order[-1] > 1.5 * order[0]


@settings(max_examples=30, deadline=None)
@given(plans(), plans())
def test_value_lies_within_its_interval(plan: Plan, other: Plan) -> None:
    for found in (SURE.interval(plan), SURE.ratio(plan, other)):
        assert found.low <= found.value <= found.high
        assert found.grade is Grade.ESTIMATED
    residual = load_constants()["residual_family"].value
    step = SURE.interval(plan)
    assert step.high / step.value >= 1 + residual * 0.999


def test_a_ratio_under_common_draws_is_surer_than_its_parts() -> None:
    plan, other = uniform(tensor=4, data=8), uniform(tensor=4, data=8, recompute=Recompute.FULL)
    first, second, both = SURE.interval(plan), SURE.interval(other), SURE.ratio(plan, other)
    apart = width(first.low, first.high) + width(second.low, second.high)
    assert width(both.low, both.high) < apart
    assert outcome(both) == "win"
    assert outcome(SURE.ratio(other, plan)) == "loss"


def test_ratios_of_like_plans_are_surer_than_of_unlike_ones() -> None:
    plan = uniform(tensor=4, data=8)
    alike = SURE.ratio(plan, replace(plan, zero=1))
    unlike = SURE.ratio(plan, uniform(tensor=4, data=8, microbatch=2, accumulation=4))
    assert width(alike.low, alike.high) < width(unlike.low, unlike.high)
    same = SURE.ratio(plan, plan.named("again", plan.role))
    assert (same.value, same.low, same.high) == (1.0, 1.0, 1.0)
    assert outcome(same) == "tie"


def test_a_ratio_and_its_inverse_tell_the_same() -> None:
    plan, other = uniform(tensor=4, data=8), uniform(tensor=2, data=16)
    there, back = SURE.ratio(plan, other), SURE.ratio(other, plan)
    assert there.value * back.value == pytest.approx(1)
    assert there.low * back.high == pytest.approx(1, rel=0.02)


def test_named_exceptions_and_unseen_machines_are_wider() -> None:
    known = load_constants()
    usual = SURE.interval(uniform(tensor=8))
    off = Uncertainty(gpt(hidden=1800, heads=8, ffn=7200), training(), A100, n=16)
    assert off.exceptions(uniform(tensor=8)) == ("a tensor-parallel width is no multiple of 64",)
    odd = off.interval(uniform(tensor=8))
    assert width(odd.low, odd.high) > width(usual.low, usual.high)
    assert odd.high / odd.value >= 1 + known["residual_exception"].value * 0.999
    unseen = Uncertainty(gpt(), training(), cluster("mi300x_8"), n=16)
    new = unseen.interval(uniform(tensor=8))
    assert unseen.unseen
    assert not SURE.unseen
    assert new.high / new.value >= 1 + known["residual_new"].value * 0.999
    assert new.value / new.low >= 1 + known["residual_new"].value * 0.999


def test_a_tensor_group_over_nodes_is_an_exception_until_its_collective_is_measured() -> None:
    plan = uniform(tensor=16)
    assert SURE.exceptions(plan) == ("a tensor-parallel group spans nodes and its collective was not measured",)
    rows = ((2**20, 2e-4), (2**28, 2e-2))
    log = Collective("all_reduce", 16, 2, rows, quantity(1.0, Dimension.TIME, Grade.MEASURED))
    seen = Uncertainty(gpt(), training(), cluster(nodes=8, collectives=(log,)), n=16)
    assert seen.exceptions(plan) == ()
    before, after = SURE.interval(plan), seen.interval(plan)
    assert width(after.low, after.high) < width(before.low, before.high)


def test_an_attention_that_is_not_stated_spans_both_kernels() -> None:
    plan = uniform(tensor=4, microbatch=4)
    flash, unfused, open_ = (
        interval(plan, gpt(), training(attention=kind), A100) for kind in (Attention.FLASH, Attention.UNFUSED, None)
    )
    assert open_.value == flash.value
    assert open_.high > flash.high
    assert open_.high >= unfused.value


def test_free_functions_agree_with_the_object() -> None:
    plan, other = uniform(tensor=4), uniform(tensor=8)
    sure = Uncertainty(gpt(), training(), A100)
    assert interval(plan, gpt(), training(), A100) == sure.interval(plan)
    assert ratio(plan, other, gpt(), training(), A100) == sure.ratio(plan, other)


def test_the_residual_of_a_ratio_grows_with_how_differently_two_steps_are_spent() -> None:
    """Repeats differ by 3 %; beyond shares that lie 0.2 apart nothing more is in common."""
    assert ratio_residual(0.0, 1.34, 0.03) == pytest.approx(0.03)
    assert ratio_residual(0.03, 1.0, 0.04) == pytest.approx(0.05)
    assert ratio_residual(0.9, 1.0, 0.0) == ratio_residual(APART, 1.0, 0.0) == pytest.approx(APART)
    plan = uniform(tensor=4, data=8)
    time = SURE.nominal
    again, other = (time.simulated(one) for one in (replace(plan, recompute=Recompute.FULL), uniform(tensor=8, data=4)))
    step = time.simulated(plan)
    assert apart(step, step) == 0
    assert apart(step, again) < apart(step, other) / 2, "recomputation is the forward pass again"


def test_plans_that_differ_in_recomputation_alone_are_told_apart() -> None:
    """A quarter to a third more work of the same kind is no tie."""
    plan = uniform(tensor=4, data=8)
    found = SURE.ratio(plan, replace(plan, recompute=Recompute.FULL))
    assert found.high < 1
    assert width(found.low, found.high) < 0.1


def test_plans_that_differ_in_what_no_measured_pair_does_have_the_widest_residual() -> None:
    """No sweep holds two interleavings, so their likeness in shares is no evidence."""
    plan = uniform(tensor=4, data=4, pipeline=2)
    chunks = replace(plan, schedule=Schedule.INTERLEAVED, interleave=2)
    found = SURE.ratio(plan, chunks)
    known = load_constants()
    least = ratio_residual(APART, known["ratio_slope"].value, 0.0)
    assert math.log(found.high / found.value) >= least * 0.999
