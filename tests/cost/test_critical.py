"""The critical path adds up to the step, tells collectives by tier, and holds in cases worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from planproof.cost import TimeModel
from planproof.cost import critical as critical_module
from planproof.cost.critical import COLLECTIVE, COMPUTE, MOST_TASKS, TRANSFER, exposed_collectives, step_path
from planproof.cost.simulation import Durations, Pipeline
from planproof.cost.stage_costs import EXPOSED
from planproof.plan import Plan, Recompute, Schedule
from time_cases import cluster, gpt, mixture, plans, training, uniform

A100 = cluster(nodes=8)
DENSE = TimeModel(gpt(), training(), A100)
SPARSE = TimeModel(mixture(), training(), A100)


@settings(max_examples=60, deadline=None)
@given(plans())
def test_what_is_spent_on_the_path_adds_up_to_the_step(plan: Plan) -> None:
    for model in (DENSE, SPARSE):
        step = model.simulated(plan)
        path = step_path(plan, step, model, measured=False)
        assert path.seconds == pytest.approx(step.seconds)
        assert all(part.seconds > 0 for part in path.parts)
        inside = sum(part.seconds for part in path.parts if part.kind in (COMPUTE, COLLECTIVE))
        assert inside == pytest.approx(sum(path.stages))
        after = sum(part.seconds for part in path.parts if part.kind == critical_module.SYNC)
        assert after == pytest.approx(step.ledger.exposed_s)


@settings(max_examples=60, deadline=None)
@given(plans())
def test_exposed_collectives_are_the_terms_of_the_stage_and_what_recomputation_repeats(plan: Plan) -> None:
    for model in (DENSE, SPARSE):
        costs = model.parts(plan).costs
        for index, stage in enumerate(plan.stages):
            ahead, back = exposed_collectives(plan, index, model)
            found = sum(ahead.values()) + sum(back.values())
            terms = sum(costs[index].terms[EXPOSED])
            if (stage.recompute or plan.recompute) is Recompute.FULL:
                assert terms - 1e-12 <= found <= 1.5 * terms + 1e-9
            else:
                assert found == pytest.approx(terms, abs=1e-12)
            assert sum(ahead.values()) <= costs[index].durations.forward * (1 + 1e-9)
            assert sum(back.values()) <= costs[index].durations.backward * (1 + 1e-9)


def by_hand(stages: list[Durations], transfers: list[float], microbatches: int, schedule: Schedule) -> critical_module._Walk:
    tiers = tuple(f"link{k}" for k in range(len(transfers)))
    pipeline = Pipeline(schedule, 1, microbatches, tuple(stages), tuple(transfers), tiers)
    return critical_module._walk(pipeline, microbatches, [({}, {})] * len(stages))


def test_a_slow_second_stage_holds_the_step_between_its_filling_and_its_draining() -> None:
    """F 1, B 2 on stage 0; F 3, B 6 on stage 1; messages of half a second: 1 + 0.5 + 4 x 9 + 0.5 + 2."""
    walk = by_hand([Durations(1, 2), Durations(3, 6)], [0.5], 4, Schedule.ONE_F_ONE_B)
    assert walk.makespan == pytest.approx(40)
    assert walk.stages == pytest.approx([3, 36])
    assert walk.spent[TRANSFER, "link0"] == pytest.approx(1)
    assert [(run.stage, run.first, run.last, run.tasks) for run in walk.runs] == [(0, 0, 0, 1), (1, 0, 3, 8), (0, 3, 3, 1)]


def test_a_slow_link_holds_the_step_where_messages_follow_one_another() -> None:
    """gpipe, stages of no length to speak of, 3 messages of 5 s one after the other each way."""
    walk = by_hand([Durations(0.1, 0.1), Durations(0.1, 0.1)], [5.0], 3, Schedule.GPIPE)
    assert walk.makespan == pytest.approx(30 + 0.1 * 4, abs=0.3)
    assert walk.spent[TRANSFER, "link0"] / walk.makespan > 0.95


def test_a_step_too_long_to_walk_goes_on_as_its_second_half() -> None:
    plan = uniform(data=2, tensor=4, pipeline=4, accumulation=64)
    long = replace(plan, accumulation=64 * MOST_TASKS // 100)
    step = DENSE.simulated(long)
    path = step_path(long, step, DENSE, measured=False)
    assert path.shown < path.microbatches == long.accumulation
    assert path.seconds == pytest.approx(step.seconds)
    short = step_path(plan, DENSE.simulated(plan), DENSE, measured=False)

    def collectives(one: critical_module.StepPath) -> float:
        return sum(part.seconds for part in one.parts if part.kind == COLLECTIVE) / one.seconds

    assert collectives(path) == pytest.approx(collectives(short), rel=0.1)
