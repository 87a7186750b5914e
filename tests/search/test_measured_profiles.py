"""Measured stages number by number: what stands in place of which estimate, and the search over partial profiles is exact."""

from __future__ import annotations

import os
import random
from math import inf

import pytest
from driver_cases import everything, problem
from planproof.cost.memory import fits
from planproof.decision.profile_stages import ProfileStages
from planproof.plan import Mesh, Plan
from planproof.proposal.profile import read_profile
from planproof.quantity import Dimension, Grade, Provenance, Quantity
from planproof.search.driver import PlanSearch
from planproof.search.pricing import PlanPricer
from planproof.search.space import UniformSpace

CASES = 600 if os.environ.get("PLANPROOF_LONG") else 60
GRADE = Quantity(0, Dimension.TIME, Provenance(Grade.MEASURED, "written for the test"))
HEADER = "layers,data,tensor,microbatch,forward_ms,backward_ms,optimizer_ms,memory_mib,state_mib,workspace_mib,activation_mib"


def profile(*rows: str, header: str = HEADER, ends: bool = False) -> ProfileStages:
    return ProfileStages(read_profile("\n".join((header, *rows)).encode(), "profile.csv", separate_ends=ends), GRADE)


def drawn(draw: random.Random, space: UniformSpace) -> ProfileStages:
    """Rows of some layers on some meshes with some numbers, also such as no stage would have."""
    layers, rows = space.model.layers, []
    separate = draw.random() < 0.3
    for _ in range(draw.randint(1, 25)):
        last = layers + 1 if separate else layers - 1
        low = draw.randint(0, last)
        high = low if draw.random() < 0.6 else draw.randint(low, last)
        cells = [f"{low}-{high}", draw.choice(["1", "1", "2", "4"]), draw.choice(["1", "1", "2", "4"]), draw.choice("1124")]
        both = [f"{draw.choice((1, 20, 80)) * draw.random() * (high - low + 1):.3f}" for _ in range(2)]
        cells += both if draw.random() < 0.7 else ["", ""]
        cells.append(f"{draw.uniform(0.1, 50):.3f}" if draw.random() < 0.3 else "")
        cells += [str(draw.randint(1, 60000)) if draw.random() < 0.25 else "" for _ in range(4)]
        rows.append(",".join(cells))
    # Every file names the last layer, or it would be one of another model.
    rows.append(f"{layers + 1 if separate else layers - 1},1,1,16,1,2,,,,,")
    return profile(*rows, ends=separate)


@pytest.mark.parametrize("part", range(4))
def test_the_best_over_a_partial_profile_is_that_of_all_plans_priced_one_by_one(part: int) -> None:
    looked = partly = uneven = 0
    for seed in range(part * CASES // 4, (part + 1) * CASES // 4):
        space, bare = problem(seed)
        numbers = drawn(random.Random(seed), space)
        assert numbers.profile.layers == space.model.layers
        pricer = PlanPricer(space.model, space.workload, space.cluster, numbers)
        search = PlanSearch(space, pricer)
        if search.size > (1500 if CASES > 100 else 250):
            continue
        plans = list(everything(space))
        assert len(plans) == search.size, seed
        times = {plan.identity: pricer.seconds(plan) for plan in plans if pricer.fit(plan, pricer.ledger(plan)) != "no"}
        for plan in plans:
            assert pricer.bound(plan) <= pricer.seconds(plan) * (1 + 1e-12), seed
            stages = pricer.timed(plan)
            partly += stages is not None and not all(one is not None and one.whole for one in stages)
        best = min(times.values(), default=None)
        found = next(search.candidates(), None)
        assert (found is None) == (best is None), seed
        if found is not None and best is not None:
            assert search.floor >= found.seconds, seed
            assert found.seconds == pytest.approx(best, rel=1e-12), (seed, found.plan)
            looked += best != bare.seconds(found.plan)
            uneven += not found.plan.uniform
    assert looked
    assert partly > 20


def test_no_chain_is_below_its_bound_and_none_that_fits_is_lost() -> None:
    checked = 0
    for seed in range(40):
        space, _ = problem(seed)
        pricer = PlanPricer(space.model, space.workload, space.cluster, drawn(random.Random(seed + 1), space))
        search = PlanSearch(space, pricer)
        if search.size > 200:
            continue
        found = [one.seconds for one in search.candidates()]
        expected = sorted(pricer.seconds(plan) for plan in everything(space) if pricer.fit(plan, pricer.ledger(plan)) != "no")
        assert found == sorted(found)
        if search.floor == inf:
            assert found == pytest.approx(expected, rel=1e-12), seed
            checked += 1
    assert checked > 5


def pipelined(seed: int = 0) -> tuple[UniformSpace, Plan]:
    """A plan of two stages on one device each, from whichever problem has one."""
    while True:
        space, _ = problem(seed)
        for shape in space.shapes:
            if shape.pipeline == 2 and shape.mesh == Mesh() and shape.microbatch == 1 and space.model.moe is None:
                return space, next(space.variants(shape))
        seed += 1


def test_each_number_stands_in_place_of_its_estimate_and_the_rest_stays() -> None:
    space, plan = pipelined()
    layers = space.model.layers
    half = layers // 2
    bare = PlanPricer(space.model, space.workload, space.cluster)
    estimated, ledger = bare.durations(plan), bare.ledger(plan)
    rest = f"{layers - 1},1,1,16,1,2,,,,,"

    def pricer(*rows: str) -> PlanPricer:
        return PlanPricer(space.model, space.workload, space.cluster, profile(*rows, rest))

    # The first stage alone was timed: the second keeps its estimate.
    first = pricer(f"0-{half - 1},1,1,1,10,30,,,,,")
    assert first.durations(plan)[0] == pytest.approx((0.010, 0.030, 0.0))
    assert first.durations(plan)[1] == estimated[1]
    priced = first.price(plan)
    assert first.measured_share(plan, first.timed(plan) or ()) == 0.0
    assert priced.step_estimate.grade is Grade.ESTIMATED
    assert priced.step_estimate.low < priced.step.seconds < priced.step_estimate.high
    assert "latency of stage 0" in [decider.name for decider in priced.step_estimate.deciders]
    # One layer of the second stage: its estimate goes, the others' stay.
    layer = bare.pricer.time.layer(plan, 1, half)
    one = pricer(f"{half},1,1,1,10,30,,,,,")
    expected = [a - b + c for a, b, c in zip(estimated[1], layer, (0.010, 0.030, 0.0), strict=True)]
    if half != layers - 1:
        assert one.durations(plan)[1] == pytest.approx(expected)
        assert one.durations(plan)[0] == estimated[0]
    # Activations alone: that row, measured bytes times what is in flight.
    kept = pricer(f"0-{half - 1},1,1,1,,,,,,,100").ledger(plan)[0]
    held = float(ledger[0].in_flight)
    assert kept.row("in-flight activations").bytes == round(held * 100 * 2**20)
    assert kept.row("parameters") == ledger[0].row("parameters")
    moved = kept.row("in-flight activations").bytes - ledger[0].row("in-flight activations").bytes
    assert kept.device.value == pytest.approx(ledger[0].device.value + moved)
    assert kept.device.low <= kept.device.value <= kept.device.high
    assert sum(row.bytes for row in kept.rows) == pytest.approx(kept.device.value, abs=2)
    # State alone holds the context; workspace alone holds what is transient.
    state = pricer(f"0-{half - 1},1,1,1,,,,,5000,,").ledger(plan)[0]
    assert state.rows[0].name == "state"
    assert state.context.value == 0
    assert sum(row.bytes for row in state.rows) == pytest.approx(state.device.value, abs=2)
    scratch = pricer(f"0-{half - 1},1,1,1,,,,,,700,").ledger(plan)[0]
    assert scratch.row("workspace").bytes == 700 * 2**20
    assert "logits and loss" not in [row.name for row in scratch.rows]
    # All of it: nothing is left to estimate.
    whole = pricer(f"0-{half - 1},1,1,1,,,,,5000,700,100").ledger(plan)[0]
    assert whole.device.value == whole.device.low == whole.device.high == 5700 * 2**20 + round(held * 100 * 2**20)
    assert fits(whole) in ("yes", "no")
    assert first.ledger(plan) == ledger


def test_what_was_measured_is_said_number_by_number() -> None:
    numbers = profile("0-1,1,1,1,10,20,,,,,", "2,1,1,1,5,9,1,,,300,", "4,1,1,1,5,9,1,,,200,40", "5,1,1,16,1,2,,,,,")
    found = numbers(0, 1, Mesh(4), 1, True, False)
    assert found is not None
    assert found.numbers() == ("latency",)
    part = numbers(2, 4, Mesh(), 1, False, False)
    assert part is not None
    assert part.numbers() == ("latency of layers 2, 4",)
    assert (part.forward, part.backward) == pytest.approx((0.010, 0.018))
    assert numbers(2, 2, Mesh(), 1, False, False).numbers() == ("latency", "workspace", "optimizer")  # type: ignore[union-attr]  # it is there
    assert numbers(3, 3, Mesh(), 1, False, False) is None
    assert numbers(2, 2, Mesh(tensor=2), 1, False, False) is None
    assert numbers(2, 2, Mesh(), 2, False, False) is None


def test_ends_of_their_own_are_timed_apart() -> None:
    numbers = profile("0,1,1,1,1,2,,,,,", "1,1,1,1,5,9,,,,,", "4,1,1,1,3,3,,,,,", "5,1,1,16,1,2,,,,,", ends=True)
    first = numbers(0, 1, Mesh(), 1, True, False)
    assert first is not None
    assert (first.layers, first.embedding, first.head) == ((0,), True, False)
    assert first.numbers() == ("latency of layers 0 and the embedding",)
    whole = numbers(0, 0, Mesh(), 1, True, False)
    assert whole is not None
    assert whole.whole
    assert whole.durations.total == pytest.approx(0.017)
