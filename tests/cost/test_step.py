"""Step time: identities of its ledger, bounds, limits, and what must not make it slower or quicker."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from planproof.cluster.cluster import Cluster, Collective, Nodes
from planproof.cost import Factors, StepTime, TimeModel, step_time
from planproof.cost import makespan as makespan_module
from planproof.hardware import load_node
from planproof.model import Attention
from planproof.plan import Mesh, Plan, Recompute, Schedule, Stage
from planproof.quantity import Dimension, Grade
from time_cases import cluster, gpt, mixture, plans, quantity, training, uniform

A100 = cluster(nodes=8)
MODEL, WORK = gpt(), training()
DENSE = TimeModel(MODEL, WORK, A100)
SPARSE = TimeModel(mixture(), training(), A100)
COMPUTE = ("gemm", "attention", "memory", "launch", "recompute", "ends")


def consistent(step: StepTime) -> None:
    assert step.ledger.seconds == pytest.approx(step.seconds)
    assert sum(seconds for _, seconds in step.terms) == pytest.approx(step.seconds)
    assert all(seconds >= -1e-9 * step.seconds for _, seconds in step.terms)
    assert step.ledger.first_microbatch_s >= max(stage.total_s for stage in step.stages) * (1 - 1e-9)
    for stage in step.stages:
        assert stage.compute_s > 0


@settings(max_examples=80, deadline=None)
@given(plans())
def test_ledger_and_terms_add_up_to_the_step(plan: Plan) -> None:
    for model in (DENSE, SPARSE):
        consistent(model.step_time(plan))
        consistent(model.simulated(plan))


@settings(max_examples=80, deadline=None)
@given(plans())
def test_lower_bound_is_below_closed_form_and_simulation(plan: Plan) -> None:
    for model in (DENSE, SPARSE):
        bound = model.lower_bound(plan)
        assert bound <= model.step_time(plan).seconds
        assert bound <= model.simulated(plan).seconds
        assert model.seconds(plan) == pytest.approx(model.step_time(plan).seconds)


@settings(max_examples=60, deadline=None)
@given(plans(), st.floats(1.0, 4.0))
def test_better_parameters_never_make_a_step_slower(plan: Plan, factor: float) -> None:
    # There a quicker weight gradient hides less of what the stage before waits for.
    assume(not (plan.schedule is Schedule.ZB_H1 and plan.zero >= 2))
    usual = DENSE.seconds(plan)
    for better in (
        Factors(gemm=factor),
        Factors(attention=factor),
        Factors(memory=factor),
        Factors(launch=1 / factor),
        Factors(latency=1 / factor),
        Factors(overlap=factor),
        Factors(gradient_overlap=0.9),
        Factors(bandwidth=(("nvswitch", factor), ("fabric", factor))),
    ):
        assert TimeModel(MODEL, WORK, A100, better).seconds(plan) <= usual * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(plans())
def test_a_model_that_has_priced_others_prices_as_a_fresh_one(plan: Plan) -> None:
    assert DENSE.step_time(plan) == step_time(plan, MODEL, WORK, A100)


def test_doubling_the_fabric_helps_only_what_uses_it() -> None:
    quick = TimeModel(MODEL, WORK, cluster(nodes=8, bandwidth=50e9))
    inside = uniform(tensor=8)
    assert quick.seconds(inside) == DENSE.seconds(inside)
    for plan in (uniform(data=16), uniform(pipeline=8, tensor=8), uniform(tensor=16)):
        assert quick.seconds(plan) < DENSE.seconds(plan)


@given(plans())
def test_a_tier_never_carries_more_than_a_stage_has_time_for(plan: Plan) -> None:
    """A link carries one thing at a time: gathers cannot hide under collectives of the same tier."""
    model = TimeModel(gpt(), training(), cluster())
    for stage in model.step_time(plan).stages:
        for name, seconds in stage.communication:
            assert seconds <= stage.total_s * (1 + 1e-9), name


def test_an_axis_of_one_costs_no_communication() -> None:
    step = DENSE.step_time(uniform())
    for name in ("tensor", "context", "expert", "gather", "pipeline_transfer", "bubble", "gradient_sync"):
        assert step.term(name) == pytest.approx(0.0, abs=1e-12 * step.seconds)
    assert step.stages[0].communication == ()
    for name, plan in (
        ("tensor", uniform(tensor=2)),
        ("gather", uniform(data=64, zero=3)),
        ("gradient_sync", uniform(data=2)),
        ("pipeline_transfer", uniform(pipeline=2, tensor=8)),
    ):
        assert DENSE.step_time(plan).term(name) > 0
    assert SPARSE.step_time(uniform(data=8, expert=8)).term("expert") > 0
    assert (
        TimeModel(MODEL, training(sequence_length=65536), cluster(bandwidth=1e9))
        .step_time(uniform(context=64, tensor=1))
        .term("context")
        > 0
    )


def test_bubble_share_follows_p_minus_1_over_m_and_vanishes() -> None:
    free = TimeModel(gpt(tied_embeddings=False, vocabulary=64), WORK, cluster(nodes=8, bandwidth=1e15, inside=1e6))
    for m in (8, 80, 800):
        step = free.simulated(uniform(pipeline=4, accumulation=m))
        assert step.ledger.bubble_s / step.ledger.bottleneck_s == pytest.approx(3, rel=0.05)


def test_recomputation_adds_a_forward_pass_or_the_attention_core() -> None:
    work = training(attention=Attention.UNFUSED)
    model = TimeModel(MODEL, work, A100)
    none, selective, full = (model.step_time(uniform(tensor=4, microbatch=4, recompute=kind)) for kind in Recompute)
    assert full.stages[0].forward_s == none.stages[0].forward_s
    ends = full.term("ends") / full.ledger.microbatches
    assert full.term("recompute") / full.ledger.microbatches == pytest.approx(none.stages[0].forward_s, rel=0.35)
    assert full.term("recompute") / full.ledger.microbatches < none.stages[0].forward_s
    assert full.term("recompute") > selective.term("recompute") > none.term("recompute") == 0
    assert ends > 0
    assert dict(full.stages[0].communication)["nvswitch"] > 1.4 * dict(none.stages[0].communication)["nvswitch"]


def test_interleaving_trades_bubble_for_nothing_where_transfers_are_cheap() -> None:
    free = TimeModel(MODEL, WORK, cluster(nodes=8, bandwidth=1e15, inside=1e6))
    plain, chunked = (free.simulated(uniform(pipeline=4, tensor=8, interleave=v)) for v in (1, 4))
    assert chunked.ledger.bubble_s < plain.ledger.bubble_s / 2


def test_gradient_synchronisation_follows_the_zero_stage() -> None:
    steps = [DENSE.step_time(uniform(data=16, zero=zero, accumulation=4)) for zero in range(4)]
    assert steps[0].term("gradient_sync") == pytest.approx(steps[1].term("gradient_sync"), rel=0.35)
    assert steps[3].term("gradient_sync") == 0
    assert steps[1].ledger.optimizer_s == pytest.approx(steps[0].ledger.optimizer_s / 16, rel=1e-3)


def test_uneven_stages_are_bound_by_the_longest() -> None:
    mesh = Mesh(tensor=8)
    cut = (Stage(0, 3, mesh, embedding=True), Stage(4, 15, mesh, head=True))
    uneven = DENSE.step_time(replace(uniform(pipeline=2, tensor=8), stages=cut))
    even = DENSE.step_time(uniform(pipeline=2, tensor=8))
    assert uneven.bottleneck == 1
    assert uneven.seconds > even.seconds
    assert uneven.ledger.bottleneck_s >= uneven.stages[1].total_s * (1 - 1e-9)


def test_stages_of_different_meshes_get_their_share_of_the_microbatch() -> None:
    """The second stage has twice the replicas, so half the sequences each."""
    first, second = Mesh(data=2, tensor=8), Mesh(data=4, tensor=4)
    cut = (Stage(0, 7, first, embedding=True), Stage(8, 15, second, head=True))
    plan = replace(uniform(pipeline=2, data=2, tensor=8, microbatch=4), stages=cut, uniform=False)
    step = DENSE.step_time(plan)
    consistent(step)
    alone = DENSE.step_time(uniform(pipeline=2, data=4, tensor=4, microbatch=2))
    assert step.stages[1] == alone.stages[1]


def test_mixed_devices_price_a_stage_at_the_devices_it_runs_on() -> None:
    slow, quick = load_node("dgx_a100"), load_node("dgx_h100")
    mixed = Cluster((Nodes(1, quick), Nodes(1, slow)), cluster(nodes=2).tiers)
    step = TimeModel(gpt(), training(), mixed).step_time(uniform(pipeline=2, tensor=8, microbatch=4))
    assert step.stages[1].total_s > 1.2 * step.stages[0].total_s
    assert "links of mixed node types: priced as those of the first nodes" in step.unmodelled


def test_what_is_not_modelled_is_said() -> None:
    plan = uniform()
    stage = replace(plan.stages[0], layouts=(("qkv", (("hidden", "tensor"),)),))
    said = step_time(replace(plan, stages=(stage,)), mixture(), training(attention=None, dynamic_shapes=True), A100)
    assert len(said.unmodelled) == 4
    assert DENSE.step_time(plan).unmodelled == ()
    v100 = step_time(plan, MODEL, WORK, cluster("p3.16xlarge"))
    assert v100.unmodelled == ("no bf16 peak rate: priced at fp32",)


def test_deciders_are_the_quantities_the_plan_uses() -> None:
    alone = {decider.name for decider in DENSE.step_time(uniform(microbatch=4)).deciders}
    assert not any("bandwidth of" in name and "memory" not in name for name in alone - {"A100-80GB memory bandwidth"})
    wide = {decider.name for decider in DENSE.step_time(uniform(data=16, tensor=4)).deciders}
    assert {"bandwidth of nvswitch", "bandwidth of fabric", "gradient overlap"} <= wide
    log = Collective("all_reduce", 16, 2, ((2**20, 1e-4), (2**30, 1e-2)), quantity(1.0, Dimension.TIME, Grade.MEASURED))
    measured = step_time(uniform(data=16), MODEL, WORK, cluster(collectives=(log,))).deciders
    assert [one.quantity.grade for one in measured if one.name == "measured all_reduce of 16 devices"] == ["measured"]


def test_a_long_step_is_continued_at_its_own_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Close to what it is when simulated whole."""
    plan = uniform(pipeline=8, tensor=8, accumulation=2000)
    whole = DENSE.simulated(plan)
    monkeypatch.setattr(makespan_module, "TASK_LIMIT", 4000)
    stages = [cost.durations for cost in DENSE.costs(plan)]
    seconds, cut = makespan_module.makespan(plan.schedule, stages, [hop.seconds for hop in DENSE.hops(plan)[0]], 2000)
    assert 0 < cut < 300
    assert seconds == pytest.approx(whole.seconds - whole.ledger.exposed_s - whole.ledger.optimizer_s, rel=1e-3)
    assert "continued" in DENSE.simulated(plan).unmodelled[0]
    assert whole.unmodelled == ()


def test_order_decides_which_axis_crosses_nodes() -> None:
    plan = uniform(data=8, tensor=8)
    swapped = replace(plan, order=("data", "context", "tensor", "pipeline"))
    assert DENSE.step_time(swapped).term("tensor") > 5 * DENSE.step_time(plan).term("tensor")
    assert DENSE.step_time(swapped).term("gradient_sync") < DENSE.step_time(plan).term("gradient_sync")


def test_compute_terms_do_not_depend_on_links() -> None:
    plan = uniform(data=4, tensor=4, pipeline=2)
    slow = TimeModel(MODEL, WORK, cluster(nodes=8, bandwidth=1e9, inside=0.1)).step_time(plan)
    usual = DENSE.step_time(plan)
    for name in COMPUTE:
        if name != "launch":
            assert slow.term(name) == pytest.approx(usual.term(name))
    assert slow.term("tensor") > 5 * usual.term("tensor")


def test_a_pipeline_too_deep_to_simulate_is_priced_by_its_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(makespan_module, "TASK_LIMIT", 4)
    plan = uniform(pipeline=8, tensor=8, accumulation=64)
    assert DENSE.simulated(plan).seconds == pytest.approx(DENSE.step_time(plan).seconds)
    assert DENSE.simulated(plan).unmodelled
