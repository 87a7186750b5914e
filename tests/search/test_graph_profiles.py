"""Measured stages of operator graphs: they stand in place of estimates as for shapes, and the search over them is exact."""

from __future__ import annotations

import os
import random

import pytest
from planproof.decision.profile_stages import ProfileStages
from planproof.plan import Plan
from planproof.proposal.profile import read_profile
from planproof.quantity import Dimension, Grade, Provenance, Quantity
from planproof.search.graph_pricing import GraphPlanPricer
from planproof.search.graph_search import GraphSearch
from planproof.search.graph_space import GraphSpace
from test_graph_search import everything, problem

GRADE = Quantity(0, Dimension.TIME, Provenance(Grade.MEASURED, "written for the test"))
HEADER = "layers,data,tensor,microbatch,forward_ms,backward_ms,optimizer_ms,memory_mib,state_mib,workspace_mib,activation_mib"
CASES = 60 if os.environ.get("PLANPROOF_LONG") else 12


def profile(*rows: str) -> ProfileStages:
    return ProfileStages(read_profile("\n".join((HEADER, *rows)).encode(), "profile.csv"), GRADE)


def drawn(draw: random.Random, space: GraphSpace, scale: float) -> ProfileStages:
    """Rows of some runs of layers, around the estimates of a layer (`scale`, ms), also such as no stage would have."""
    layers, rows = space.graph.layers, []
    for _ in range(draw.randint(1, 25)):
        low = draw.randrange(layers)
        high = low if draw.random() < 0.6 else draw.randrange(low, layers)
        cells = [f"{low}-{high}", draw.choice(["1", "1", "2", "4"]), draw.choice(["1", "1", "2", "4"]), draw.choice("1124")]
        both = [f"{scale * draw.choice((0.1, 0.5, 1, 2)) * draw.random() * (high - low + 1):.6f}" for _ in range(2)]
        cells += both if draw.random() < 0.7 else ["", ""]
        cells.append(f"{scale * draw.random():.6f}" if draw.random() < 0.3 else "")
        cells += [str(draw.randint(1, 60000)) if draw.random() < 0.25 else "" for _ in range(4)]
        rows.append(",".join(cells))
    # Every file names the last layer, or it would be one of another model.
    return profile(*rows, f"{layers - 1},1,1,16,1,2,,,,,")


def test_the_first_candidates_over_a_profile_are_those_of_all_plans_priced_one_by_one() -> None:
    changed = partly = uneven = looked = 0
    for seed in range(CASES):
        space, bare = problem(seed)
        if GraphSearch(space, bare).size > (3000 if CASES > 20 else 400):
            continue
        one = next((plan for shape in space.shapes for plan in space.variants(shape)), None)
        if one is None:
            continue
        scale = 1e3 * bare.durations(one)[0].total / (one.stages[0].layers * 2)
        pricer = GraphPlanPricer(space.graph, space.workload, space.cluster, drawn(random.Random(seed), space, scale))
        search, plans = GraphSearch(space, pricer), list(everything(space))
        assert len(plans) == search.size
        timed = sorted(pricer.seconds(plan) for plan in plans if pricer.fit(plan, pricer.ledger(plan)) != "no")
        for plan in plans:
            assert pricer.bound(plan) <= pricer.seconds(plan) * (1 + 1e-12), seed
            stages = pricer.timed(plan)
            partly += stages is not None and not all(row is not None and row.whole for row in stages)
        found = []
        for candidate in search.candidates():
            found.append(candidate)
            if len(found) == 8:
                break
        assert [row.seconds for row in found] == pytest.approx(timed[: len(found)], rel=1e-9), seed
        assert len(found) == min(8, len(timed)), seed
        looked += 1
        if found:
            changed += found[0].seconds != bare.seconds(found[0].plan)
            uneven += not found[0].plan.uniform
    assert looked > CASES / 4
    assert changed
    assert partly > 20
    assert uneven or CASES < 20


def pipelined() -> tuple[GraphSpace, GraphPlanPricer, Plan]:
    """A plan of two stages whose stages have several layers."""
    for seed in range(60):
        space, pricer = problem(seed)
        for shape in space.shapes:
            if shape.pipeline == 2 and space.graph.layers >= 4:
                return space, pricer, next(space.variants(shape))
    raise AssertionError


def test_what_was_timed_of_a_stage_stands_in_place_of_those_layers_alone() -> None:
    space, bare, plan = pipelined()
    mesh = plan.stages[1].mesh
    first, last = plan.stages[1].first, plan.stages[1].last
    rest = f"{space.graph.layers - 1},1,1,16,1,2,,,,,"
    at = f"{mesh.data},{mesh.tensor},{plan.microbatch}"
    assert last > first
    estimated, layer = bare.durations(plan), bare.pricer.time.layer(plan, 1, first)
    layers = [bare.pricer.time.layer(plan, 1, k) for k in range(first, last + 1)]
    # A stage is the sum of its layers.
    assert tuple(map(sum, zip(*layers, strict=True))) == pytest.approx(tuple(estimated[1]))

    def priced(*rows: str) -> GraphPlanPricer:
        return GraphPlanPricer(space.graph, space.workload, space.cluster, profile(*rows, rest))

    one = priced(f"{first},{at},10,30,,,,,")
    expected = [a - b + c for a, b, c in zip(estimated[1], layer, (0.010, 0.030, 0.0), strict=True)]
    assert one.durations(plan)[1] == pytest.approx(expected)
    assert one.durations(plan)[0] == estimated[0]
    whole = priced(f"{first}-{last},{at},10,30,,,5000,700,100")
    assert whole.durations(plan)[1] == pytest.approx((0.010, 0.030, 0.0))
    ledger = whole.ledger(plan)[1]
    held = float(ledger.in_flight)
    assert ledger.device.value == round(held * 100 * 2**20) + 5700 * 2**20
    assert ledger.device.low == ledger.device.high == ledger.device.value
    step = whole.price(plan)
    assert "latency of stage 1" in [decider.name for decider in step.step_estimate.deciders]
    assert step.step.seconds == whole.seconds(plan)
