"""The least time of a step that links allow, against sums by hand and against the price of the same plan."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planproof.cost.link_bound import link_bound
from planproof.cost.step import step_time
from planproof.model import parameters
from planproof.plan import Plan
from time_cases import cluster, gpt, plans, training, uniform


def test_gradients_of_replicas_on_every_node_by_hand() -> None:
    """8 nodes of 8, data 64, ZeRO 0: each device sends 2 x 7/8 of an eighth of 4 bytes a parameter, at 25 GB/s."""
    model = gpt()
    found = link_bound(uniform(data=64), model, training(), cluster())
    assert found is not None
    assert (found.axis, found.link) == ("data", "fabric")
    assert found.sent == pytest.approx(2 * 7 / 8 / 8 * 4 * parameters(model))
    assert found.seconds == pytest.approx(found.sent / 25e9)


def test_zero_scatters_gradients_and_gathers_parameters() -> None:
    model = gpt()
    found = link_bound(replace(uniform(data=64), zero=1), model, training(), cluster())
    assert found is not None
    assert found.sent == pytest.approx(7 / 8 / 8 * (4 + 2) * parameters(model))


def test_a_switch_that_reduces_takes_gradients_once() -> None:
    plain, reducing = cluster(), cluster()
    reducing = replace(reducing, tiers=(*reducing.tiers[:-1], replace(reducing.tiers[-1], reduces=True)))
    first, second = (link_bound(uniform(data=64), gpt(), training(), one) for one in (plain, reducing))
    assert first is not None
    assert second is not None
    assert second.sent == pytest.approx(first.sent / 2)


def test_activations_between_stages_by_hand() -> None:
    """A stage of one node, tensor 8: each device sends an eighth of every residual stream of its replica on."""
    plan = uniform(tensor=8, pipeline=8, microbatch=1, accumulation=64)
    found = link_bound(plan, gpt(), training(), cluster(inside=1e3))
    assert found is not None
    assert (found.axis, found.link) == ("pipeline", "fabric")
    assert found.sent == pytest.approx(64 * 2048 * 2048 * 2 / 8)


def test_the_devices_beside_a_boundary_have_the_cards_of_the_whole_node() -> None:
    """Two stages a node: four of its eight devices send to the next node, over eight devices' part of the cards."""
    plan = uniform(tensor=4, pipeline=16, microbatch=1, accumulation=64)
    found = link_bound(plan, gpt(), training(), cluster(inside=1e3))
    assert found is not None
    assert found.rate == pytest.approx(2 * 25e9)


def test_over_subscription_is_taken_back() -> None:
    plan = uniform(data=64)
    first, second = (link_bound(plan, gpt(), training(), cluster(), relief) for relief in (1.0, 2.0))
    assert first is not None
    assert second is not None
    assert first.seconds == pytest.approx(2 * second.seconds)


def test_one_device_has_no_bound() -> None:
    assert link_bound(uniform(), gpt(), training(), cluster()) is None


@settings(max_examples=150)
@given(plans(), st.sampled_from([2e8, 1e9, 25e9]))
def test_no_price_is_below_the_bound(plan: Plan, bandwidth: float) -> None:
    where, model, work = cluster(nodes=max(1, -(-plan.devices // 8)), bandwidth=bandwidth), gpt(), training()
    bound = link_bound(plan, model, work, where)
    assert bound is None or step_time(plan, model, work, where).seconds >= bound.seconds
