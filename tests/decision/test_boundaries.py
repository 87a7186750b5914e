"""What crosses between stages: bytes and times by closed form, boundaries alike once, groups of hosts apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from planproof.cost.frameworks import implementation_of
from planproof.cost.sending import Transfer
from planproof.decision.boundaries import Boundary, plan_boundaries
from planproof.decision.desk import Desk
from planproof.plan import Plan
from planproof.proposal import load_proposal, resolve
from planproof.report.record_boundaries import _line, _priced, boundary_json
from planproof.search.pricing import PlanPricer
from planproof.session import session

BASE = Path(__file__).resolve().parent.parent.parent / "rules/bases/stages.yaml"


@pytest.fixture(scope="module")
def desk() -> Desk:
    with session(None, str(BASE)) as opened:
        return Desk(resolve(load_proposal(str(BASE)), opened.library))


def uneven(desk: Desk) -> Plan:
    """Four stages of eight devices, data 4 x tensor 2, sequence parallel, on nodes of eight."""
    plan = desk.case.plans[1].plan
    assert plan is not None
    assert [stage.mesh.devices for stage in plan.stages] == [8, 8, 8, 8]
    return plan


def boundaries(desk: Desk, plan: Plan) -> tuple[Boundary, ...]:
    return plan_boundaries(desk.price(plan), desk.pricer)


def test_equal_stages_send_every_element_once_between_their_nodes(desk: Desk) -> None:
    (one,) = boundaries(desk, uneven(desk))
    batch, tokens, hidden = one.shape
    assert one.first == (0, 1, 2)
    assert one.slow_bytes == 2 * batch * tokens * hidden
    assert one.fast_bytes == 0
    assert one.forward is not None
    assert one.forward.strategy == "repeated_sends"
    network = desk.pricer.pricer.time.network
    tier = desk.pricer.cluster.tiers[-1]
    seconds = one.slow_bytes / (8 * network.rate(tier)) + network.send(0.0, tier).seconds
    assert one.forward_s == pytest.approx(seconds, rel=1e-9)
    assert one.backward_s == one.forward_s
    assert one.priced_s == pytest.approx(one.forward_s, rel=0.1)


def test_what_every_tensor_device_holds_crosses_once_and_is_gathered(desk: Desk) -> None:
    """Without sequence parallelism both devices of a tensor group hold all tokens: once over the cards, not twice."""
    (one,) = boundaries(desk, replace(uneven(desk), sequence_parallel=False))
    batch, tokens, hidden = one.shape
    assert one.slow_bytes == one.fast_bytes == 2 * batch * tokens * hidden
    assert one.forward is not None
    assert one.forward.strategy == "send_and_gather"
    times = {other.strategy: other.time_s for other in one.forward.alternatives}
    network = desk.pricer.pricer.time.network
    tier = desk.pricer.cluster.tiers[-1]
    once, latency = one.slow_bytes / (8 * network.rate(tier)), network.send(0.0, tier).seconds
    assert times["send_and_gather"] == pytest.approx(once + latency, rel=1e-9)
    assert times["repeated_sends"] == pytest.approx(2 * once + latency, rel=1e-9)


def test_meshes_that_differ_are_boundaries_of_their_own(desk: Desk) -> None:
    plan = uneven(desk)
    wide = replace(plan.stages[1].mesh, data=2, tensor=4)
    changed = replace(plan, stages=(plan.stages[0], replace(plan.stages[1], mesh=wide), *plan.stages[2:]))
    found = boundaries(desk, changed)
    assert sorted(one.first for one in found) == [(0,), (1,), (2,)]
    before = next(one for one in found if one.first == (0,))
    assert (before.source.sharding, before.destination.sharding) == (
        "batch on data 4, tokens on tensor 2", "batch on data 2, tokens on tensor 4",
    )  # fmt: skip
    batch, tokens, hidden = before.shape
    assert before.slow_bytes == 2 * batch * tokens * hidden
    assert "to batch on data 2, tokens on tensor 4" in _line(before)


def test_replicas_on_hosts_of_their_own_are_planned_once(desk: Desk) -> None:
    plan = uneven(desk)
    stage = replace(plan.stages[0], mesh=replace(plan.stages[0].mesh, data=2, tensor=8))
    two = replace(plan, stages=(replace(stage, first=0, last=14), replace(stage, first=15, last=29, embedding=False)))
    two = replace(two, stages=(replace(two.stages[0], head=False), replace(two.stages[1], head=True)))
    (one,) = boundaries(desk, two)
    assert one.groups == 2
    assert one.forward is not None
    assert sum(one.forward.bytes_by_link.values()) == one.slow_bytes / 2
    body = boundary_json(one)
    assert body["slow_bytes"] == one.slow_bytes
    assert body["forward"]["links"] == [{"from": 0, "to": 2, "bytes": one.slow_bytes // 2}]


def test_one_cost_prices_stated_and_recommended_and_the_record_says_what_the_other_way_gives(desk: Desk) -> None:
    """The base names no framework that scatters: direct sends are priced, and twice their bytes cross for two copies."""
    whole = replace(uneven(desk), sequence_parallel=False)
    (one,) = boundaries(desk, whole)
    time = desk.pricer.pricer.time
    assert one.way is Transfer.DIRECT
    assert one.priced_s == time.hops(whole)[0][0].seconds
    assert one.other_s == time.hops_by(whole, Transfer.SCATTER_GATHER)[0][0].seconds < one.priced_s
    assert "(direct sends); scatter and gather would be" in _line(one)
    assert boundary_json(one)["other_way"] == {"way": "scatter_gather", "seconds": one.other_s}
    (same,) = boundaries(desk, uneven(desk))
    assert same.other_s == same.priced_s
    assert "no part is held twice" in _line(same)


def test_a_framework_that_scatters_is_priced_so_for_every_plan(desk: Desk) -> None:
    case = desk.case
    assert case.model is not None
    assert case.workload is not None
    assert case.cluster is not None
    pricer = PlanPricer(case.model, case.workload, case.cluster, implementation=implementation_of("deepspeed"))
    whole = replace(uneven(desk), sequence_parallel=False)
    (one,) = plan_boundaries(pricer.price(whole), pricer)
    (direct,) = boundaries(desk, whole)
    assert (one.way, one.priced_s, one.other_s) == (Transfer.SCATTER_GATHER, direct.other_s, direct.priced_s)
    assert pricer.seconds(whole) < desk.pricer.seconds(whole)
    assert pricer.bound(whole) <= pricer.seconds(whole)
    assert "as deepspeed sends unless told otherwise" in _priced(one, "deepspeed")
    assert "nothing says that torchtitan does better" in _priced(direct, "torchtitan")
