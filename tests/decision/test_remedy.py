"""What is offered to clear memory differs in one thing, fits, and is the cheapest of all that do: by enumeration."""

from __future__ import annotations

from pathlib import Path

import pytest
from planproof.decision.desk import Desk
from planproof.decision.remedy import clearing_of, single_changes
from planproof.facts.limits import limits_of
from planproof.hardware import open_library
from planproof.pipeline import review
from planproof.plan import Mesh, Plan, Recompute, even_stages
from planproof.proposal import load_proposal, resolve
from planproof.search.tally import Found

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def desk() -> Desk:
    return Desk(resolve(load_proposal(EXAMPLES / "large-vocabulary/proposal.yaml"), open_library(())))


def too_large(desk: Desk) -> Plan:
    model = desk.case.model
    assert model is not None
    stages = even_stages(model.layers, 1, Mesh(data=8, tensor=8))
    assert stages is not None
    batch = desk.case.global_batch
    assert batch is not None
    return Plan("big", stages, 16, batch // 128, zero=1)


def test_each_change_is_one_and_keeps_the_global_batch(desk: Desk) -> None:
    plan = too_large(desk)
    assert desk.case.model is not None
    assert desk.case.workload is not None
    changes = list(single_changes(plan, desk.case.model, desk.case.workload))
    assert len({what for what, _ in changes}) == len(changes) > 10
    for what, other in changes:
        assert other.global_batch == plan.global_batch, what
        assert other.devices == plan.devices, what
        assert other.identity != plan.identity, what
        choices = (
            other.recompute is not plan.recompute,
            other.zero != plan.zero,
            other.sequence_parallel != plan.sequence_parallel and other.mesh == plan.mesh,
            other.microbatch != plan.microbatch,
            other.mesh != plan.mesh,
            other.schedule != plan.schedule and other.pipeline == plan.pipeline,
        )
        assert sum(choices) == 1, what


def test_the_cheapest_of_all_single_changes_that_fit_is_offered(desk: Desk) -> None:
    plan = too_large(desk)
    assert desk.case.model is not None
    assert desk.case.workload is not None
    priced = desk.price(plan)
    assert priced.feasible == "no"
    found = clearing_of(desk, priced, limits_of(None), lambda _: ())
    fitting = {
        what: desk.pricer.seconds(other)
        for what, other in single_changes(plan, desk.case.model, desk.case.workload)
        if desk.pricer.fit(other, desk.pricer.ledger(other)) == "yes"
    }
    assert fitting
    assert found.fitting == len(fitting)
    assert found.changes[0].what == min(fitting, key=lambda what: fitting[what])
    assert [one.priced.step.seconds for one in found.changes] == sorted(fitting.values())[: len(found.changes)]
    assert all(one.priced.feasible == "yes" for one in found.changes)


def test_what_falls_by_a_rule_is_not_offered(desk: Desk) -> None:
    priced = desk.price(too_large(desk))
    first = clearing_of(desk, priced, limits_of(None), lambda _: ()).changes[0]

    def stands(found: Found) -> tuple[str, ...]:
        return ("SHP001",) if found.plan.identity == first.priced.plan.identity else ()

    left = clearing_of(desk, priced, limits_of(None), stands).changes
    assert first.what not in [one.what for one in left]


def test_a_refused_plan_of_an_example_is_told_what_clears_it() -> None:
    done = review(EXAMPLES / "infeasible-memory/proposal.yaml")
    clearing = next(one for one in done.clearings if one.plan == "planner")
    assert clearing.state == "no"
    assert clearing.changes[0].what == "microbatch 2 x 8"
    assert clearing.changes[0].priced.plan.recompute is Recompute.NONE
