"""Axes that meet on one tier of links are priced with what they take from each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planproof.cost.contention import Contention, busy_share, free_window
from planproof.cost.simulation import Durations
from planproof.cost.stage_costs import STAGE_TERMS, StageCost
from planproof.cost.step import TimeModel
from planproof.cost.transfers import Hop
from time_cases import cluster, gpt, plans, training, uniform

contended = Contention(STAGE_TERMS)


def stage(total: float = 10.0, **held: float) -> StageCost:
    """A stage of `total` seconds, a third of it forward; `held`: seconds that its collectives hold each tier."""
    spent = sum(held.values())
    terms = tuple({"gemm": total - spent, "tensor": spent}.get(name, 0.0) for name in STAGE_TERMS)
    return StageCost(Durations(total / 3, 2 * total / 3), terms, total - spent, tuple(held.items()), 0.0, (), 0.0, "")


def test_a_message_and_a_collective_on_one_tier_delay_each_other_by_what_they_send() -> None:
    """Collectives hold the fabric for 4 of 10 s, so a message of 1 s has half of it for 0.4 s and takes 1.4 s; it delays them by
    0.4 s forward (towards the next stage) and 0.4 s backward (towards the one before).
    """
    costs, hops = contended([stage(fabric=4.0)] * 3, (Hop(1.0, "fabric", True),) * 2)
    assert [hop.seconds for hop in hops] == pytest.approx([1.4, 1.4])
    assert costs[1].durations.forward == pytest.approx(10 / 3 + 0.4)
    assert costs[1].durations.backward == pytest.approx(20 / 3 + 0.4)
    # The ends send one way only.
    assert costs[0].durations.total == pytest.approx(10.4) == costs[2].durations.total
    assert all(sum(cost.terms) == pytest.approx(cost.durations.total) for cost in costs)


def test_as_many_messages_pass_as_a_stage_has_chunks() -> None:
    costs, _ = contended([stage(fabric=4.0)] * 3, (Hop(1.0, "fabric", True),) * 2, chunks=3)
    assert costs[1].durations.total == pytest.approx(10 + 2 * 3 * 0.4)


def test_tiers_apart_do_not_contend() -> None:
    before, hops = [stage(node=4.0)] * 2, (Hop(1.0, "fabric", True),)
    assert contended(before, hops) == (before, hops)


def test_no_collective_holds_more_than_the_whole_time() -> None:
    assert busy_share(stage(fabric=25.0), "fabric") == 1.0
    assert busy_share(stage(fabric=4.0), "node") == 0.0


def test_a_hidden_traffic_has_the_port_only_while_the_pass_itself_leaves_it() -> None:
    """A fifth of the traffic is on the fabric, which the pass holds for 5 s: 1 s of its 10 s is gone."""
    assert free_window(10.0, (("node", 4.0), ("fabric", 1.0)), 5.0, (("fabric", 5.0),)) == pytest.approx(9.0)
    assert free_window(10.0, (("fabric", 5.0),), 5.0, (("fabric", 25.0),)) == 0.0
    assert free_window(10.0, (), 0.0, (("fabric", 5.0),)) == 10.0


def test_tensor_groups_and_messages_between_stages_on_one_fabric_cost_more_than_apart() -> None:
    """Tensor groups of 16 leave their node of 8, and so do the messages: both are on the fabric. Groups of 8 are not."""
    model, work, hardware = gpt(tied_embeddings=False), training(), cluster(nodes=8)
    times = TimeModel(model, work, hardware)
    for tensor, meet in ((16, True), (8, False)):
        plan = uniform(tensor=tensor, pipeline=4, data=64 // tensor // 4, accumulation=16)
        alone = sum(cost.durations.total for cost in times.costs(plan))
        together = sum(stage.total_s for stage in times.step_time(plan).stages)
        assert (together > alone * (1 + 1e-12)) is meet
        assert meet or together == pytest.approx(alone, rel=1e-12)


@given(plans())
def test_contention_never_makes_a_step_quicker_and_the_bound_still_holds(plan) -> None:
    times = TimeModel(gpt(), training(), cluster(nodes=16))
    costs, (hops, _) = times.costs(plan), times.hops(plan)
    delayed, slower = contended(costs, hops, plan.interleave)
    for one, other in zip(costs, delayed, strict=True):
        assert other.durations.forward >= one.durations.forward
        assert other.durations.backward >= one.durations.backward
        assert sum(other.terms) == pytest.approx(other.durations.total)
    assert all(after.seconds >= before.seconds for before, after in zip(hops, slower, strict=True))
    assert times.lower_bound(plan) <= times.seconds(plan)


@given(st.floats(0, 9), st.floats(0, 9))
def test_more_traffic_on_a_tier_never_delays_a_message_less(first: float, second: float) -> None:
    low, high = sorted((first, second))
    hop = (Hop(1.0, "fabric", True),)
    slow = [contended([stage(fabric=held)] * 2, hop)[1][0].seconds for held in (low, high)]
    assert slow[0] <= slow[1] * (1 + 1e-12)
