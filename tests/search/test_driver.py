"""The driver's candidates are those of the whole declared space, priced one by one by the same simulation."""

from __future__ import annotations

import os

import pytest
from driver_cases import everything, problem
from planproof.search.driver import PlanSearch

CASES = 2000 if os.environ.get("PLANPROOF_LONG") else 70


@pytest.mark.parametrize("part", range(10))
def test_the_best_is_that_of_all_plans_priced_one_by_one(part: int) -> None:
    looked = uneven = 0
    for seed in range(part * CASES // 10, (part + 1) * CASES // 10):
        space, pricer = problem(seed)
        search = PlanSearch(space, pricer)
        if search.size > (3000 if CASES > 100 else 400):
            continue
        plans = list(everything(space))
        assert len(plans) == search.size, seed
        assert len({plan.identity for plan in plans}) == len(plans), seed
        fitting = [plan for plan in plans if pricer.fit(plan, pricer.ledger(plan)) != "no"]
        best = min((pricer.seconds(plan) for plan in fitting), default=None)
        found = next(search.candidates(), None)
        assert (found is None) == (best is None), seed
        if found is not None and best is not None:
            assert search.floor >= found.seconds, seed
            assert found.seconds == pytest.approx(best, rel=1e-12), (seed, found.plan)
            looked += 1
            uneven += not found.plan.uniform
    assert looked
    assert uneven or CASES < 100


def test_candidates_come_in_the_order_of_their_step_time_and_none_that_fits_is_lost() -> None:
    for seed in range(8):
        space, pricer = problem(seed)
        search = PlanSearch(space, pricer)
        if search.size > 600:
            continue
        found = [one.seconds for one in search.candidates()]
        expected = sorted(pricer.seconds(plan) for plan in everything(space) if pricer.fit(plan, pricer.ledger(plan)) != "no")
        assert found == sorted(found)
        if search.floor == float("inf"):
            assert found == pytest.approx(expected, rel=1e-12)


def test_a_limit_of_work_holds_for_uneven_plans_too_and_nothing_is_looked_at_beyond_it() -> None:
    cut = 0
    for seed in range(100 if CASES > 1000 else 16):
        space, pricer = problem(seed)
        free = PlanSearch(space, pricer)
        unlimited = [one.seconds for one in free.candidates()]
        for limit in (1, 3):
            search = PlanSearch(space, pricer, work_limit=limit)
            found = [one.seconds for one in search.candidates()]
            assert search.tally.priced <= limit, seed
            assert search.tally.cut_off or found == unlimited, seed
            bounded, stopped = search.tally.bounded, search.tally.cut_off
            again = [one.seconds for one in search.candidates()]
            assert again[: len(found)] == found[: len(again)], seed
            assert search.tally.priced <= limit, seed
            assert search.tally.bounded == bounded or not stopped, seed
            cut += search.tally.cut_off
    assert cut > 5
