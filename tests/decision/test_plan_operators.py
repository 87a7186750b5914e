"""A plan's longest stage by operator: its own layouts, the best, and the stage's own price beside them."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
from planproof.cost import Priced
from planproof.decision.desk import Desk
from planproof.decision.operators import PlanOperators, facts_of, plan_operators
from planproof.plan import Plan, Recompute
from planproof.proposal import load_proposal, resolve
from planproof.session import session

BASES = Path(__file__).resolve().parent.parent.parent / "rules/bases"
NONE, SELECTIVE, FULL = Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL
#: The two prices leave out different things: launches of kernels under a whole pass, traffic of dropout, exchanges of small
#: statistics. Larger differences have been faults.
MARGIN = 0.05


def desk_of(base: str) -> Desk:
    path = str(BASES / f"{base}.yaml")
    with session(None, path) as opened:
        return Desk(resolve(load_proposal(path), opened.library))


@pytest.fixture(scope="module")
def desk() -> Desk:
    return desk_of("stages")


@pytest.fixture(scope="module")
def desks(desk: Desk) -> dict[str, Desk]:
    return {"stages": desk, "dense": desk_of("dense"), "moe": desk_of("moe")}


def uneven(desk: Desk, **layouts: dict[str, str]) -> Plan:
    """The submitted plan, its two middle stages laid out as stated."""
    plan = desk.case.plans[1].plan
    assert plan is not None
    stated = tuple((name.replace("_", "."), tuple(dims.items())) for name, dims in layouts.items())
    return replace(plan, stages=tuple(replace(one, layouts=stated) for one in plan.stages))


def looked_at(desk: Desk, plan: Plan) -> tuple[Priced, PlanOperators]:
    priced = desk.price(plan)
    return priced, plan_operators(priced, desk.pricer)


@pytest.mark.parametrize(
    ("base", "degrees", "zero", "sequence_parallel", "recompute"),
    [
        ("stages", {"data": 32}, 0, False, NONE),
        ("stages", {"data": 8, "tensor": 4}, 1, True, SELECTIVE),
        ("stages", {"data": 4, "tensor": 8}, 2, False, FULL),
        ("dense", {"data": 32}, 3, False, NONE),
        ("dense", {"data": 16, "tensor": 2}, 3, True, FULL),
        ("dense", {"data": 8, "tensor": 2, "context": 2}, 3, True, SELECTIVE),
        ("dense", {"data": 8, "context": 4}, 1, False, NONE),
        ("moe", {"data": 64, "expert": 8}, 1, False, SELECTIVE),
        ("moe", {"data": 32, "expert": 8}, 3, False, NONE),
        ("moe", {"data": 8, "tensor": 2, "expert": 4}, 1, True, FULL),
    ],
)
def test_the_price_by_operator_is_near_the_stages_own(
    desks: dict[str, Desk], base: str, degrees: dict[str, int], zero: int, *, sequence_parallel: bool, recompute: Recompute
) -> None:
    one = desks[base]
    plan = one.case.plans[0].plan
    assert plan is not None
    stage = plan.stages[0]
    mesh = replace(stage.mesh, **({"data": 1, "tensor": 1, "context": 1, "expert": 1} | degrees))
    batch = plan.microbatch * plan.accumulation * stage.mesh.data * plan.stages[0].mesh.context
    plan = replace(
        plan, stages=(replace(stage, mesh=mesh),), zero=zero, sequence_parallel=sequence_parallel, recompute=recompute,
        accumulation=max(1, batch // (plan.microbatch * mesh.data)),
    )  # fmt: skip
    found = plan_operators(one.price(plan), one.pricer, compare=False)
    assert found.own is not None, found.reason
    assert abs(found.disagreement) < MARGIN


def test_stated_plans_are_priced_alike_by_operator_and_by_stage(desk: Desk) -> None:
    for plan in desk.case.plans:
        assert plan.plan is not None
        found = plan_operators(desk.price(plan.plan), desk.pricer, compare=False)
        assert found.own is not None
        assert abs(found.disagreement) < MARGIN


def test_a_stage_on_other_nodes_than_the_first_is_priced_on_its_own_devices() -> None:
    """A100 before H100: the same layers on either half, each priced by operator as the cost model prices its stage."""
    path = str(BASES.parents[1] / "examples" / "mixed-devices" / "proposal.yaml")
    with session(None, path) as opened:
        mixed = Desk(resolve(load_proposal(path), opened.library))
    cluster = mixed.case.cluster
    assert cluster is not None
    assert len({group.device.name for group in cluster.nodes}) == 2
    for stated in mixed.case.plans:
        plan = stated.plan
        if plan is None or plan.pipeline == 1:
            continue
        priced = mixed.price(plan)
        for at in range(plan.pipeline):
            one = replace(priced, step=replace(priced.step, bottleneck=at))
            found = plan_operators(one, mixed.pricer, compare=False)
            assert found.own is not None, found.reason
            assert abs(found.disagreement) < MARGIN, (stated.name, at)


def test_the_best_layouts_are_never_dearer_and_fit(desk: Desk) -> None:
    _, found = looked_at(desk, uneven(desk))
    assert found.own is not None
    assert found.best is not None
    assert found.best.objective <= found.own.objective
    assert found.best.memory_bytes <= found.budget_bytes
    assert found.best.lower_bound <= found.best.objective


def test_stated_layouts_are_priced_as_stated(desk: Desk) -> None:
    usual, whole = uneven(desk), uneven(desk, mlp_up={}, mlp_activation={}, mlp_down={})
    _, one = looked_at(desk, usual)
    priced, two = looked_at(desk, whole)
    assert two.stated
    assert not one.stated
    assert one.own is not None
    assert two.own is not None
    assert two.own.objective > one.own.objective
    split = {row.operator.partition(".")[2]: dict(row.split)["tensor"] for row in two.own.layouts}
    assert split["mlp.up"] == split["mlp.down"] == ""
    assert split["attention.qkv"] == "heads"
    (fact,) = facts_of(priced, "/plans/1", two)
    assert fact["replicated_axis"] == "tensor"
    assert fact["replicated_ppm"] > 100_000
    assert str(fact["replicated_operator"]).endswith(("mlp.up", "mlp.down"))


def test_an_operator_or_dim_that_there_is_not_is_named_with_those_there_are(desk: Desk) -> None:
    _, one = looked_at(desk, uneven(desk, mlp_sideways={"inner": "tensor"}))
    assert "'mlp.sideways'" in one.reason
    assert "mlp.up" in one.reason
    _, two = looked_at(desk, uneven(desk, mlp_up={"width": "tensor"}))
    assert "'width'" in two.reason
    assert "inner" in two.reason
    assert list(facts_of(desk.price(uneven(desk)), "", two)) == []


def test_a_layout_against_its_neighbours_can_be_bettered(desk: Desk) -> None:
    """Heads on data and batch on tensor, where all else has it the other way round."""
    _, found = looked_at(desk, uneven(desk, attention_core={"heads": "data", "batch": "tensor"}))
    assert found.own is not None
    assert found.own.objective < inf
    assert found.saved_s > 0
