"""The search over uniform plans agrees with pricing every plan of the space."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from planproof.cluster import Cluster, Nodes, Tier
from planproof.hardware import load_node
from planproof.model import Attention, MixtureOfExperts, Optimizer, Precision, Transformer, Workload
from planproof.plan import Plan, Recompute, Schedule
from planproof.quantity import Dimension, Grade, Provenance, Quantity
from planproof.search.pricing import PlanPricer
from planproof.search.space import Limits, UniformSpace, divisors
from planproof.search.uniform import UniformSearch

SOURCE = Provenance(Grade.VENDOR, "written for the test")


def dense(layers: int = 8, hidden: int = 2048, moe: MixtureOfExperts | None = None) -> Transformer:
    return Transformer(
        layers=layers, hidden=hidden, heads=16, kv_heads=4, head_dim=hidden // 16, ffn=4 * hidden, vocabulary=32000,
        gated=True, tied_embeddings=False, norm="rms", moe=moe,
    )  # fmt: skip


def work(batch: int = 32, sequence: int = 2048, attention: Attention = Attention.FLASH) -> Workload:
    precision = Precision("bf16", "fp32", "fp32", "fp32")
    return Workload(sequence, batch, precision, Optimizer("adamw", 2), attention)


def cluster(nodes: int = 2, node: str = "dgx_a100") -> Cluster:
    sheet = load_node(node)
    inner = sheet.links[0]
    tiers = [Tier(inner.name, inner.kind.value, sheet.devices, inner.bandwidth, inner.latency)]
    rate = Quantity(25 * 10**9, Dimension.BANDWIDTH, SOURCE)
    latency = Quantity(5e-6, Dimension.TIME, SOURCE)
    tiers.append(Tier("fabric", "infiniband", sheet.devices * nodes, rate, latency))
    return Cluster((Nodes(nodes, sheet),), tuple(tiers))


CASES = {
    "dense": (dense(), work(), cluster(), Limits(microbatches=(1, 4), interleaves=(2,))),
    "large layers on small devices": (dense(4, 8192), work(16), cluster(1, "p3.16xlarge"), Limits(microbatches=(1, 2))),
    "unfused attention": (dense(8, 1024), work(16, 1024, Attention.UNFUSED), cluster(1), Limits(zeros=(0, 2))),
    "experts": (dense(4, 1024, MixtureOfExperts(8, 2, 2048, every=2)), work(16), cluster(1), Limits(zeros=(0, 3))),
    "limited": (dense(), work(), cluster(), Limits(axes=frozenset({"data", "tensor"}), microbatches=(1, 2))),
}


def everything(space: UniformSpace) -> Iterator[Plan]:
    for shape in space.shapes:
        yield from space.variants(shape)


@pytest.fixture(scope="module", params=CASES, ids=list(CASES))
def priced(request: pytest.FixtureRequest) -> tuple[UniformSpace, PlanPricer, list[tuple[Plan, float, str]]]:
    """A space with every plan of it priced one by one, without bounds or order."""
    model, workload, there, limits = CASES[request.param]
    space = UniformSpace(model, workload, there, limits)
    pricer = PlanPricer(model, workload, there)
    rows = [(plan, pricer.seconds(plan), pricer.fit(plan, pricer.ledger(plan))) for plan in everything(space)]
    return space, pricer, rows


Priced = tuple[UniformSpace, PlanPricer, list[tuple[Plan, float, str]]]


def test_candidates_come_in_the_order_of_their_step_time_and_none_is_lost(priced: Priced) -> None:
    space, pricer, rows = priced
    search = UniformSearch(space, pricer)
    found = [(one.seconds, one.feasible) for one in search.candidates()]
    expected = sorted((seconds, fit) for _, seconds, fit in rows if fit != "no")
    assert [seconds for seconds, _ in found] == sorted(seconds for seconds, _ in found)
    assert sorted(found) == expected
    assert search.tally.too_large == sum(fit == "no" for _, _, fit in rows)


def test_bounds_are_never_above_the_step_time(priced: Priced) -> None:
    space, pricer, rows = priced
    seconds = {plan.identity: value for plan, value, _ in rows}
    for shape in space.shapes:
        least = min(pricer.stage_bound(plan) for plan in space.quickest(shape))
        for plan in space.variants(shape):
            bound = pricer.bound(plan)
            assert bound <= seconds[plan.identity], plan
            assert least <= bound * (1 + 1e-9), plan


def test_the_size_is_the_number_of_plans_and_no_plan_is_there_twice(priced: Priced) -> None:
    space, _, rows = priced
    assert space.size == len(rows) == len({plan.identity for plan, _, _ in rows})


def test_every_plan_uses_all_devices_and_the_whole_batch(priced: Priced) -> None:
    space, _, rows = priced
    for plan, _, _ in rows:
        assert plan.devices == space.cluster.devices
        assert plan.global_batch == space.workload.global_batch
        assert sum(stage.layers for stage in plan.stages) == space.model.layers


def test_narrowing_gives_the_same_plans_as_filtering(priced: Priced) -> None:
    space, pricer, rows = priced

    def wanted(plan: Plan) -> bool:
        return plan.recompute is not Recompute.FULL and plan.schedule is not Schedule.GPIPE

    found = sorted(one.seconds for one in UniformSearch(space, pricer).candidates(wanted))
    assert found == sorted(seconds for plan, seconds, fit in rows if fit != "no" and wanted(plan))


def test_little_is_priced_to_know_the_best(priced: Priced) -> None:
    space, pricer, rows = priced
    search = UniformSearch(space, pricer)
    best = next(iter(search.candidates()), None)
    fitting = [seconds for _, seconds, fit in rows if fit != "no"]
    if best is None:
        assert not fitting
        return
    assert best.seconds == min(fitting)
    assert search.tally.priced < len(rows) / 2 or len(rows) < 40


def test_a_work_limit_stops_the_search_and_says_so() -> None:
    model, workload, there, limits = CASES["dense"]
    space = UniformSpace(model, workload, there, limits)
    search = UniformSearch(space, PlanPricer(model, workload, there), work_limit=3)
    found = list(search.candidates())
    assert search.tally.cut_off
    assert search.tally.priced <= 3
    assert len(found) <= 3


def test_a_time_limit_stops_the_search_and_says_so() -> None:
    model, workload, there, limits = CASES["dense"]
    space = UniformSpace(model, workload, there, limits)
    search = UniformSearch(space, PlanPricer(model, workload, there), seconds=1e-9)
    found = list(search.candidates())
    assert search.tally.cut_off
    # The best so far is the best of all here, and what was left out is bounded.
    whole = list(UniformSearch(space, PlanPricer(model, workload, there)).candidates())
    assert [one.plan for one in found] == [whole[0].plan]
    assert 0 < search.floor <= whole[1].seconds


def test_a_time_limit_ends_a_search_that_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model, workload, there, limits = CASES["dense"]
    search = UniformSearch(UniformSpace(model, workload, there, limits), PlanPricer(model, workload, there), seconds=1e-9)
    monkeypatch.setattr(search, "_fit", lambda *_: "no")
    clock = iter(range(10**6))
    monkeypatch.setattr("planproof.search.uniform.monotonic", lambda: search.deadline + next(clock))
    assert list(search.candidates()) == []
    assert search.tally.cut_off
    assert next(clock) <= 4


def test_where_nothing_fits_the_nearest_miss_is_that_of_the_whole_space() -> None:
    model, workload, there = dense(2, 16384), work(8, 8192), cluster(1, "p3.16xlarge")
    space = UniformSpace(model, workload, there, Limits(zeros=(0,)))
    pricer = PlanPricer(model, workload, there)
    search = UniformSearch(space, pricer)
    assert list(search.candidates()) == []
    search.exhaust_memory()
    assert search.tally.too_large == space.size
    nearest = min(search.tally.nearest.values(), key=lambda miss: miss.excess_bytes)
    assert nearest.excess_bytes == min(pricer.excess(plan, pricer.ledger(plan))[1] for plan in everything(space))


def test_limits_of_the_proposal_hold() -> None:
    model, workload, there, _ = CASES["dense"]
    limits = Limits(
        axes=frozenset({"data", "tensor", "pipeline"}), max_axes=2, degrees=(("tensor", frozenset({1, 2, 4})),),
        microbatches=(2,), zeros=(1,), recomputes=("full",), schedules=("1f1b",), sequence_parallel=(False,),
    )  # fmt: skip
    plans = list(everything(UniformSpace(model, workload, there, limits)))
    assert plans
    for plan in plans:
        assert plan.mesh.context == 1
        assert plan.mesh.tensor in (1, 2, 4)
        assert sum(degree > 1 for degree in (plan.mesh.data, plan.mesh.tensor, plan.pipeline)) <= 2
        assert (plan.microbatch, plan.recompute, plan.schedule) == (2, Recompute.FULL, Schedule.ONE_F_ONE_B)
        assert plan.zero == (1 if plan.mesh.data > 1 else 0)


@pytest.mark.parametrize("number", [1, 2, 12, 97, 1024, 3600])
def test_divisors_are_all_of_them_in_order(number: int) -> None:
    assert divisors(number) == [k for k in range(1, number + 1) if number % k == 0]
