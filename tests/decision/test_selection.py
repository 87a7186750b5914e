"""The fastest that stands, the simplest that ties with it, and a simpler fallback."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hypothesis import given
from hypothesis import strategies as st
from planproof.decision.selection import PRICE_OF_SIMPLICITY, fallback, select
from planproof.plan import Mesh, Plan, Schedule, even_stages, simplicity
from planproof.quantity import Dimension, Estimate, Grade
from planproof.search.uniform import Found


def found(seconds: float, pipeline: int = 1, zero: int = 0, feasible: str = "yes") -> Found:
    stages = even_stages(8, pipeline, Mesh(data=2))
    assert stages is not None
    plan = Plan("x", stages, 1, 8, schedule=Schedule.ONE_F_ONE_B, zero=zero)
    return Found(plan, seconds, feasible, ())


def source(rows: list[Found]) -> Callable[[Callable[[Plan], bool]], Iterator[Found]]:
    def pull(wanted: Callable[[Plan], bool]) -> Iterator[Found]:
        for row in sorted(rows, key=lambda row: row.seconds):
            if wanted(row.plan):
                yield row

    return pull


def ratio(half: float) -> Callable[[Found, Found], Estimate]:
    def of(first: Found, second: Found) -> Estimate:
        value = first.seconds / second.seconds
        return Estimate(value, value * (1 - half), value * (1 + half), Dimension.FRACTION, Grade.ESTIMATED)

    return of


def always(_: Found) -> tuple[str, ...]:
    return ()


def test_a_simpler_plan_within_the_interval_wins_the_tie() -> None:
    chosen = select(source([found(1.0, 4), found(1.03, 1), found(1.2, 1)]), always, ratio(0.1))
    assert chosen.fastest is not None
    assert chosen.fastest.seconds == 1.0
    assert chosen.recommended is not None
    assert chosen.recommended.seconds == 1.03
    assert chosen.ties == 1


def test_a_clear_difference_is_no_tie() -> None:
    chosen = select(source([found(1.0, 4), found(1.03, 1)]), always, ratio(0.01))
    assert chosen.recommended is chosen.fastest


def test_a_wide_interval_alone_does_not_give_up_speed() -> None:
    slower = 1 + PRICE_OF_SIMPLICITY + 0.01
    chosen = select(source([found(1.0, 4), found(slower, 1)]), always, ratio(0.9))
    assert chosen.recommended is chosen.fastest


def test_a_plan_that_falls_is_counted_and_passed_over() -> None:
    def stands(one: Found) -> tuple[str, ...]:
        return ("XYZ001",) if one.seconds < 1.5 else ()

    chosen = select(source([found(1.0), found(1.2), found(2.0)]), stands, ratio(0.1))
    assert chosen.recommended is not None
    assert chosen.recommended.seconds == 2.0
    assert chosen.fallen == {"XYZ001": 2}


def test_a_plan_at_risk_is_chosen_only_where_nothing_is_sure_to_fit() -> None:
    both = select(source([found(1.0, feasible="at_risk"), found(3.0)]), always, ratio(0.1))
    assert both.recommended is not None
    assert both.recommended.seconds == 3.0
    alone = select(source([found(1.0, feasible="at_risk"), found(2.0, feasible="at_risk")]), always, ratio(0.1))
    assert alone.recommended is not None
    assert alone.recommended.seconds == 1.0
    assert alone.recommended.feasible == "at_risk"


def test_nothing_is_recommended_of_nothing() -> None:
    assert select(source([]), always, ratio(0.1)).recommended is None


def test_a_stated_plan_competes_with_the_search() -> None:
    stated = found(0.5, 2)
    chosen = select(source([found(1.0)]), lambda _: ("NEVER", ), ratio(0.01), [stated])
    assert chosen.recommended is stated


def test_the_fallback_is_the_fastest_of_what_is_simpler() -> None:
    best = found(1.0, 4)
    rows = [best, found(1.5, 4, zero=1), found(1.7, 2), found(1.9, 1)]
    simpler, reason = fallback(best, source(rows), always)
    assert simpler is not None
    assert reason == ""
    assert simpler.seconds == 1.9, "a pipeline of 2 has as many axes above 1 as one of 4 and the same schedule"


def test_a_fallback_that_is_several_times_slower_is_none_and_named() -> None:
    none, reason = fallback(found(1.0, 4), source([found(3.0, 1)]), always)
    assert none is None
    assert reason.startswith("the fastest simpler plan takes 3 times as long: data 2")


def test_no_fallback_has_its_reason() -> None:
    best = found(1.0, 1)
    none, reason = fallback(best, source([best]), always)
    assert none is None
    assert "has a smaller simplicity tuple" in reason
    fallen, reason = fallback(found(1.0, 4), source([found(2.0, 1)]), lambda _: ("XYZ001",))
    assert fallen is None
    assert "falls by a rule" in reason


@given(
    st.lists(
        st.tuples(st.integers(100, 160), st.sampled_from([1, 2, 4]), st.integers(0, 3), st.sampled_from(["yes", "at_risk"])),
        min_size=1,
        max_size=12,
    ),
    st.floats(0.0, 0.2),
)
def test_the_choice_is_what_its_definition_says(rows: list[tuple[int, int, int, str]], half: float) -> None:
    plans = [found(seconds / 100, pipeline, zero, feasible) for seconds, pipeline, zero, feasible in rows]
    chosen = select(source(plans), always, ratio(half)).recommended
    sure = [one for one in plans if one.feasible == "yes"]
    pool = sure or plans
    fastest = min(one.seconds for one in pool)
    assert chosen is not None
    if not sure:
        assert chosen.seconds == fastest
        return
    tied = [
        one
        for one in sure
        if one.seconds == fastest
        or (one.seconds <= fastest * (1 + PRICE_OF_SIMPLICITY) and one.seconds / fastest * (1 - half) <= 1)
    ]
    assert simplicity(chosen.plan) == min(simplicity(one.plan) for one in tied)
