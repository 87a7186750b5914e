"""Pricing: time and memory of one plan together."""

from __future__ import annotations

import pytest
from planproof.cost import Pricer, price
from planproof.cost.memory import fits, memory_ledger
from planproof.model import Attention, training_flops_per_token
from planproof.plan import Recompute
from time_cases import cluster, gpt, training, uniform

A100 = cluster(nodes=8)
PRICER = Pricer(gpt(), training(), A100, n_draws=8)


def test_price_reports_the_simulated_step_within_its_interval() -> None:
    plan = uniform(data=8, tensor=4, pipeline=2)
    found = PRICER.price(plan)
    assert found.step == PRICER.time.simulated(plan)
    assert found.step_estimate.value == found.step.seconds
    assert found.step_estimate.low < found.step.seconds < found.step_estimate.high
    assert len(found.memory) == 2
    assert found.memory == memory_ledger(plan, gpt(), training(), A100)


def test_throughput_and_utilisation_follow_from_the_step() -> None:
    plan = uniform(data=8, tensor=4, pipeline=2, accumulation=16)
    found = PRICER.price(plan)
    tokens = 8 * 16 * 2048
    assert found.tokens_per_second * found.step.seconds == pytest.approx(tokens)
    flops = training_flops_per_token(gpt(), 2048, causal=False) * tokens
    assert found.mfu == pytest.approx(flops / found.step.seconds / (64 * 312e12))
    assert 0 < found.mfu < 1
    assert PRICER.price(uniform(data=8, tensor=4, pipeline=2, recompute=Recompute.FULL, accumulation=16)).mfu < found.mfu


def test_a_plan_that_does_not_fit_is_bound_by_memory() -> None:
    large = gpt(48, 8192, 64)
    found = price(uniform(48, accumulation=1), large, training(attention=Attention.UNFUSED), A100)
    assert found.feasible == "no"
    assert found.binding == "capacity"
    assert found.excess_bytes > 0
    assert found.headroom_bytes < 0
    assert fits(found.memory[found.peak]) == "no"


def test_a_plan_that_fits_is_bound_by_what_takes_its_time() -> None:
    found = PRICER.price(uniform(microbatch=8))
    assert found.feasible == "yes"
    assert found.binding == "gemm"
    assert found.excess_bytes == 0
    slow = price(uniform(tensor=8), gpt(), training(), cluster(inside=0.01))
    assert slow.binding == "tensor"


def test_ratio_of_priced_plans_is_that_of_their_steps() -> None:
    first, second = PRICER.price(uniform(data=8)), PRICER.price(uniform(data=8, recompute=Recompute.FULL))
    assert PRICER.ratio(first, second).value == first.step.seconds / second.step.seconds


def test_a_nearly_full_device_widens_the_interval_and_says_so() -> None:
    plans = [uniform(tensor=8, microbatch=size, accumulation=1) for size in (8, 84)]
    roomy, full = (PRICER.price(plan) for plan in plans)
    share = full.memory[0].device.value / full.memory[0].capacity_bytes
    assert 0.9 < share < 1.1
    assert full.exceptions == ("a device is filled beyond 90% of its memory",)
    assert full.step_estimate.high > PRICER.uncertainty.interval(plans[1]).high
    assert roomy.exceptions == ()
    assert roomy.step_estimate == PRICER.uncertainty.interval(plans[0])
