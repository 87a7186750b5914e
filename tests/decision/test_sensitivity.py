"""A break-even is where the answer changes: inside it is today's, beyond it another, re-decided and in a whole review."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from planproof.decision import assemble
from planproof.decision.assemble import Material
from planproof.decision.review import Candidate, Review
from planproof.decision.sensitivity import Pool, Sensitivity, basis_of, inputs, joint_of, key, pool_of, sensitivity_of
from planproof.decision.student import quantile
from planproof.decision.verification import Noise, load_noise, repetitions, steps_needed, told_apart
from planproof.pipeline import Options, review, review_loaded, session
from planproof.proposal import load_proposal
from scipy.stats import nct
from scipy.stats import t as t_distribution

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@dataclass
class Looked:
    """One example's pool with what was found over it."""

    review: Review
    pool: Pool
    rows: list[Sensitivity]


@pytest.fixture(scope="module", params=["smallest", "large-vocabulary"])
def looked(request: pytest.FixtureRequest) -> Iterator[Looked]:
    kept: list[Material] = []
    decide = assemble.decide
    path = EXAMPLES / request.param / "proposal.yaml"
    with session(Options(), path) as opened:
        opened.gate.start()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(assemble, "_sensitivity", lambda *_: ((), None))
            patch.setattr(assemble, "decide", lambda material: kept.append(material) or decide(material))
            done = review_loaded(load_proposal(path), opened)
        desk, outcome = kept[0].desk, kept[0].outcome
        assert desk is not None
        assert outcome is not None
        assert outcome.recommended is not None
        known = inputs(desk, outcome.recommended.plan)
        pool = pool_of(desk, outcome, outcome.stands, known, [one.plan for one in desk.contenders(kept[0].shut)])
        yield Looked(done, pool, sensitivity_of(pool, known))


def test_todays_decision_over_the_pool_is_the_reported_one(looked: Looked) -> None:
    best = looked.review.candidate(looked.review.recommended)
    assert best is not None
    again = looked.pool.decide(basis_of(looked.pool.desk).world())
    assert again is not None
    assert again.plan.identity == best.plan.identity
    assert best.step is not None
    assert again.seconds == pytest.approx(best.step.value, rel=1e-9)


def test_a_hundredth_inside_a_break_even_the_answer_is_todays_and_a_hundredth_beyond_it_is_not(looked: Looked) -> None:
    pool, start = looked.pool, basis_of(looked.pool.desk)
    best = looked.review.candidate(looked.review.recommended)
    assert best is not None
    today = key(pool.decide(start.world()))
    known = {one.name: one for one in inputs(pool.desk, best.plan)}
    tried = 0
    for row in looked.rows:
        if row.name not in known:
            continue
        for side, edge in ((-1, row.below), (1, row.above)):
            if edge is None or edge.value <= 0:
                continue
            inside, beyond = (0.99, 1.01) if side > 0 else (1.01, 0.99)
            if (edge.value * inside - row.today) * side < 0:
                continue  # today's value is nearer than a hundredth
            change = known[row.name].change
            assert key(pool.decide(change(start, edge.value * inside).world())) == today, row.name
            assert key(pool.decide(change(start, edge.value * beyond).world())) != today, row.name
            tried += 1
    assert tried >= 3


def test_the_number_of_microbatches_changes_the_answer_where_it_says(looked: Looked) -> None:
    row = next(one for one in looked.rows if one.unit == "microbatches")
    pool = looked.pool
    world = basis_of(pool.desk).world()
    best = looked.review.candidate(looked.review.recommended)
    assert best is not None
    each = best.plan.microbatch * best.plan.mesh.data
    assert row.today == best.plan.accumulation
    for edge in (row.below, row.above):
        if edge is not None:
            found = pool.decide(replace(world, batch=round(edge.value * each)))
            assert key(found) != key(pool.decide(world))


def test_ranges_come_from_the_evidence_and_the_factor_is_of_todays_value(looked: Looked) -> None:
    for row in looked.rows:
        assert row.low <= row.today <= row.high
        for edge in (row.below, row.above):
            if edge is not None and edge.factor is not None:
                assert edge.factor == pytest.approx(edge.value / row.today)
                assert edge.inside == (row.low <= edge.value <= row.high and row.unit != "microbatches")


def test_the_joint_worst_case_is_no_better_than_any_single_one(looked: Looked) -> None:
    best = looked.review.candidate(looked.review.recommended)
    assert best is not None
    assert best.step is not None
    known = inputs(looked.pool.desk, best.plan)
    joint = joint_of(looked.pool, known)
    assert joint is not None
    assert joint.slowest_s >= joint.step_s * (1 - 1e-9)
    assert joint.slowest_s >= best.step.value
    start = basis_of(looked.pool.desk)
    for one in known:
        for value in (one.low, one.high):
            single = one.change(start, value).world().seconds(best.plan) * looked.pool.correction(best.plan)
            assert joint.slowest_s >= single * (1 - 1e-9), one.name


@pytest.mark.long
def test_a_whole_review_beyond_a_break_even_recommends_another_plan(tmp_path: Path) -> None:
    """Not over the pool: the proposal is written with another bandwidth and reviewed from its bytes."""
    text = (EXAMPLES / "smallest/proposal.yaml").read_text(encoding="utf-8")
    rate = re.search(r"bandwidth: (\d+) Gbit/s", text)
    assert rate is not None
    path = tmp_path / "proposal.yaml"

    def recommended(factor: float) -> Candidate:
        path.write_text(text.replace(rate[0], f"bandwidth: {float(rate[1]) * factor:.6f} Gbit/s"), encoding="utf-8")
        done = review(path)
        best = done.candidate(done.recommended)
        assert best is not None
        if factor == 1:
            rows.extend(one for one in done.sensitivity if one.name.startswith("bandwidth of") and one.today < 100e9)
        return best

    rows: list[Sensitivity] = []
    today = recommended(1)
    edges = [(edge, side) for one in rows for edge, side in ((one.below, -1), (one.above, 1)) if edge is not None]
    assert edges
    for edge, side in edges:
        assert edge.factor is not None
        assert recommended(edge.factor * (1 + 0.01 * side)).plan.identity != today.plan.identity
        assert recommended(edge.factor * (1 - 0.01 * side)).plan.identity == today.plan.identity


@pytest.mark.parametrize("freedom", [2, 4, 10, 38, 78])
@pytest.mark.parametrize("probability", [0.6, 0.9, 0.975, 0.9995])
def test_students_quantiles_are_those_of_scipy(freedom: int, probability: float) -> None:
    assert quantile(probability, freedom) == pytest.approx(t_distribution.ppf(probability, freedom), rel=1e-9)


@pytest.mark.parametrize("ratio", [1.02, 1.03, 1.05, 1.08, 1.15, 1 / 1.06])
def test_the_runs_that_are_proposed_tell_the_plans_apart_nine_times_in_ten(ratio: float) -> None:
    """A t test on normal logarithms, its power by the noncentral t distribution: at least 88 % with the runs that are proposed,
    less with fewer of them."""
    noise, steps = load_noise(), 20
    runs = repetitions(ratio, noise, steps)
    assert runs is not None
    spread = math.sqrt(noise.run**2 + noise.step**2 / steps)

    def power(n: int) -> float:
        away = abs(math.log(ratio)) / (spread * math.sqrt(2 / n))
        return float(nct.sf(t_distribution.ppf(0.975, 2 * n - 2), 2 * n - 2, away))

    assert power(runs) > 0.88
    assert runs == 2 or power(runs - 1) < 0.92
    assert told_apart(runs, noise, steps) <= math.exp(abs(math.log(ratio)))


def test_repetitions_follow_the_formula_of_two_means() -> None:
    noise = Noise(0.03, 0.02, load_noise().step_source, load_noise().run_source)
    # n = 12, 22 degrees of freedom: 2 (2.0739 + 1.3212)^2 (0.02^2 + 0.03^2 / 20) / ln(1.03)^2 = 11.74; n = 11 would need 11.82.
    assert repetitions(1.03, noise, 20) == 12
    assert repetitions(1 / 1.03, noise, 20) == 12
    # Two runs, 2 degrees of freedom: exp((4.3027 + 1.8856) 0.02110) = 1.1394.
    assert told_apart(2, noise, 20) == pytest.approx(1.1394, abs=1e-4)
    assert repetitions(1.5, noise, 20) == 2
    assert repetitions(1.139, noise, 20) == 3
    assert repetitions(1.001, noise, 20) is None
    assert repetitions(1.0, noise, 20) is None
    assert steps_needed(noise) == 20
    assert steps_needed(replace(noise, step=0.3)) > 1000
