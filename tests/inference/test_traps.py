"""What durable_rules does wrong, and a rule file could reach, is impossible or handled.

Each test names its trap. The engine's behaviour was found with version 2.0.28; the general protection is the first
test: the compiler emits one safe shape and nothing else. The traps:

A1 a false join in last place crashes; A2 nested conditions in a join are wrong; A3 an int never joins a float; A4,
A5, A7 and A9 some floats and wide numbers are lost; A6 division by zero kills; A8 products wrap; A10 null and A11
absent fields in a join are lost or crash; A12 a condition without a kind loops; A13 rules of `$not` alone never fire;
A14 `$not` is judged too early; A15, A16 too many rules in a set are lost; A19 an unmentioned fact is refused; A21,
A22 facts are taken for one; A23, A24 `id` and `sid` are special; A25 to A29 and A38 accepted syntax that means
something else; A30, A31 booleans and number-like texts match numbers; A32 `!=` on an absent field; A33 arrays; A34
limits; A36 memory; A41 repeated firing.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from planproof.errors import InternalFault, RuleError
from planproof.facts.fact import INT64, Fact, Field, Kind, declare, make
from planproof.inference import Catalogue, Gate, Phase, Rule, durable
from planproof.inference.compiler import (
    GO_KIND,
    GROUP,
    MOST_ANTECEDENTS,
    MOST_TERMS,
    Definition,
    TooLarge,
    compile_rule,
)
from planproof.inference.compiler import (
    group as grouped,
)
from planproof.inference.durable import DurableEvaluator
from planproof.inference.reference import evaluate
from planproof.inference.rule import Clause, Operator, Pattern, Reference, Test
from random_cases import random_case
from rule_texts import KINDS, rule
from test_gate import group, link

needs_engine = pytest.mark.skipif(not durable.available(), reason="durable_rules is not installed for this Python")

PAD = {"$lte": {"z0": {"go": "z0"}}}
COMPARISONS = {"$neq", "$lt", "$lte", "$gt", "$gte"}


def engine_matches(rules: list[Rule], facts: list[Fact], kinds: Any = KINDS) -> Any:
    engine = DurableEvaluator({"x": [d for one in rules for d in compile_rule(one, kinds)]})
    try:
        return engine.result(engine.submit("x", facts))
    finally:
        engine.close()


def check_term(term: dict[str, Any], own: str, earlier: list[str]) -> bool:
    """Whether a term is one of the safe ones; True for a join."""
    ((word, body),) = term.items()
    if word in ("$ex", "$nex"):
        assert list(body.values()) == [1]
        return False
    if word in COMPARISONS:
        ((_, right),) = body.items()
    else:
        assert not word.startswith("$")
        right = body
    if isinstance(right, dict):
        ((name, field),) = right.items()
        assert name in earlier
        assert isinstance(field, str)
        return True
    assert type(right) in (int, str)
    return False


def check_shape(definition: Definition) -> None:
    first, *rest = definition.all
    assert first == {"go": {"kind": GO_KIND}}
    assert len(definition.all) <= MOST_ANTECEDENTS
    names = [next(iter(antecedent)) for antecedent in rest]
    positives = [name for name in names if not name.endswith("$not")]
    assert names == [f"a{i}" for i in range(len(positives))] + [f"n{i}$not" for i in range(len(names) - len(positives))]
    assert len(positives) == len(definition.names)
    guards: set[tuple[str, str]] = set()
    needed: set[tuple[str, str]] = set()
    for position, antecedent in enumerate(rest):
        ((name, condition),) = antecedent.items()
        terms = condition.get("$and", [condition])
        assert len(terms) <= MOST_TERMS
        assert ("$and" in condition) == (len(terms) > 1)
        assert set(terms[0]) == {"kind"}
        earlier = [other for other in names[:position] if other in positives]
        joins = [check_term(term, name, [*earlier, "go"]) for term in terms[1:]]
        if any(joins):
            assert terms[-1] == PAD
            first_join = joins.index(True)
            assert all(joins[first_join:]), "joins come last, the padding after them"
        for term in (term for term in terms[1:] if term != PAD):
            ((word, body),) = term.items()
            if word in ("$ex", "$nex"):
                guards |= {(name, field) for field in body if word == "$ex"}
                continue
            inner = body if word in COMPARISONS else term
            ((field, right),) = inner.items()
            if isinstance(right, dict):
                needed |= {(name, field), *((other, theirs) for other, theirs in right.items() if theirs != "kind")}
    assert needed <= guards, "every joined field is guarded"


def test_compiler_emits_only_the_safe_shape() -> None:
    """A1 A2 A6 A8 A10 A11 A12 A13 A25 A26 A27 A28 A29 A33 A34 A38: none of what triggers them can be written."""
    random, seen = Random(7), 0
    for _ in range(300):
        case = random_case(random, fact_sets=1, most_facts=0)
        for one in case.rules:
            try:
                definitions = compile_rule(one, case.kinds)
            except TooLarge:
                continue
            seen += len(definitions)
            for definition in definitions:
                check_shape(definition)
            assert all(len(part.definitions) <= GROUP for part in grouped(definitions))
    assert seen > 2000


@needs_engine
@pytest.mark.parametrize("op", ["<", "<=", ">", ">=", "=", "!="])
def test_a1_join_that_is_false_does_not_crash(op: str) -> None:
    clauses = [
        {"a": {"kind": "link"}},
        {"b": {"kind": "link", "bandwidth_bytes_per_s": f"{op} a.bandwidth_bytes_per_s"}},
    ]
    made = rule(when={"all": clauses}, params=None, message="m", remedy="r")
    facts = [link(f"l{i}", speed) for i, speed in enumerate([1, 2, 2, 3])]
    assert engine_matches([made], facts) == evaluate([made], facts) != set()


@needs_engine
def test_a2_alternatives_and_lists_inside_joins_are_right() -> None:
    when = {
        "all": [{"g": {"kind": "group", "axis": ["tensor", "data"]}}],
        "any": [
            [{"l": {"kind": "link", "name": "= g.slowest_link", "shared": ["yes", "no"]}}],
            [{"l": {"kind": "link", "latency_ns": "> g.size"}}],
        ],
    }
    with pytest.raises(RuleError, match="no unit"):
        rule(when=when, params=None, message="m", remedy="r")
    when["any"][1][0]["l"]["latency_ns"] = "> 5"
    made = rule(when=when, params=None, message="m", remedy="r")
    facts = [group(), group(axis="pipeline"), link(shared=True), link("x", latency_ns=6), link("y", latency_ns=5)]
    assert engine_matches([made], facts) == evaluate([made], facts)
    assert len(evaluate([made], facts)) == 2


@pytest.mark.parametrize("value", [1e16, float("inf"), float("nan"), 8.0, 2**63, -(2**63), [1], {"a": 1}])
def test_a3_a4_a5_a7_a9_a30_facts_hold_neither_floats_nor_wide_numbers(value: Any) -> None:
    with pytest.raises(InternalFault):
        make(KINDS, "contention", "", plan="p", share_ppm=value)


def test_a30_yes_and_no_are_texts() -> None:
    assert link(shared=True)["shared"] == "yes"
    with pytest.raises(RuleError, match="`yes` and `no`"):
        rule(when={"all": [{"l": {"kind": "link", "shared": True}}]}, params=None, message="m", remedy="r")


@needs_engine
@pytest.mark.parametrize("edge", [INT64, -INT64, 2**53 + 1, 2**62, 0])
def test_a7_a9_large_numbers_are_compared_exactly(edge: int) -> None:
    made = rule(
        when={
            "all": [
                {"c": {"kind": "contention", "share_ppm": f"= {edge}"}},
                {"d": {"kind": "contention", "share_ppm": "> c.share_ppm"}},
            ]
        },
        params=None,
        message="m",
        remedy="r",
    )
    values = [v for v in (edge - 1, edge, edge + 1) if -INT64 <= v <= INT64]
    facts = [make(KINDS, "contention", "", plan="p", share_ppm=v) for v in values]
    assert engine_matches([made], facts) == evaluate([made], facts)


def test_a10_nothing_absent_is_sent_as_null() -> None:
    assert "slowest_link" not in group(slowest_link=None).values


@needs_engine
def test_a14_order_of_facts_does_not_matter_for_absent() -> None:
    facts = [group(), link(), make(KINDS, "contention", "", plan="p", share_ppm=1)]
    for turn in range(3):
        assert engine_matches([rule()], facts[turn:] + facts[:turn]) == set()


@needs_engine
def test_a15_a16_two_hundred_rules_on_one_fact_all_fire() -> None:
    made = rule(when={"all": [{"g": {"kind": "group"}}]}, params=None, message="m", remedy="r")
    rules = [replace(made, id=f"MAP{i:03}") for i in range(200)]
    assert len(engine_matches(rules, [group()])) == 200
    wide = [
        replace(one, all=(Clause("g", Pattern("group", (Test("size", Operator.GREATER, (i - 200,)),))),))
        for i, one in enumerate(rules)
    ]
    assert len(engine_matches(wide, [group()])) == 200


@needs_engine
def test_a19_fact_that_no_rule_mentions_is_no_fault() -> None:
    assert engine_matches([rule()], [make(KINDS, "closed", "", capability="time")]) == set()


@needs_engine
def test_a21_a22_facts_that_look_alike_are_different_facts() -> None:
    made = rule(when={"all": [{"c": {"kind": "contention"}}]}, params=None, message="m", remedy="r")
    facts = [make(KINDS, "contention", "", plan="p", share_ppm=n) for n in range(4000)]
    assert len(engine_matches([made], facts)) == 4000


@pytest.mark.parametrize("name", ["id", "sid", "$s", "go", "n", "z0", "kind", "path"])
def test_a23_a24_words_of_the_engine_cannot_name_a_field(name: str) -> None:
    with pytest.raises(InternalFault, match="reserved"):
        declare(Kind("x", "", {name: Field(int, "")}))


@needs_engine
def test_a24_evaluations_of_one_worker_do_not_see_each_other() -> None:
    engine = DurableEvaluator({"x": compile_rule(rule(), KINDS)})
    tickets = [engine.submit("x", facts) for facts in ([group()], [link()], [group(), link()], [group()], [link()])]
    assert [len(engine.result(ticket)) for ticket in tickets] == [0, 0, 1, 0, 0]
    engine.close()


@needs_engine
def test_a31_text_that_looks_like_a_number_stays_a_text() -> None:
    made = rule(when={"all": [{"l": {"kind": "link", "name": "8"}}]}, params=None, message="m", remedy="r")
    assert len(engine_matches([made], [link("8"), link("8.0"), link("08")])) == 1
    with pytest.raises(RuleError, match="holds a text"):
        rule(when={"all": [{"l": {"kind": "link", "name": 8}}]}, params=None, message="m", remedy="r")


@needs_engine
def test_a34_rules_at_the_limits_are_right_and_beyond_them_refused() -> None:
    kinds = declare(Kind("wide", "", {f"f{i}": Field(int, "") for i in range(60)}))
    fact = make(kinds, "wide", "", **{f"f{i}": i for i in range(60)})
    other = make(kinds, "wide", "/o", **{f"f{i}": i + 1 for i in range(60)})

    def chain(count: int, tests: int) -> Rule:
        joins = tuple(Test(f"f{i}", Operator.AT_LEAST, Reference("x0", f"f{i}")) for i in range(tests))
        first = Clause("x0", Pattern("wide", (Test("f0", Operator.EQUAL, (0,)),)))
        return replace(rule(), all=(first, *(Clause(f"x{i}", Pattern("wide", joins)) for i in range(1, count))), params={})

    long, broad = chain(MOST_ANTECEDENTS - 1, 1), chain(2, (MOST_TERMS - 2) // 2)
    for made in (long, broad):
        assert engine_matches([made], [fact], kinds) == evaluate([made], [fact]) != set()
    assert engine_matches([broad], [fact, other], kinds) == evaluate([broad], [fact, other])
    for made in (chain(MOST_ANTECEDENTS, 1), chain(2, MOST_TERMS // 2)):
        with pytest.raises(TooLarge):
            compile_rule(made, kinds)


@needs_engine
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at /proc")
def test_a36_memory_of_the_worker_does_not_grow_with_evaluations() -> None:
    from test_faults import children

    before = children()
    engine = DurableEvaluator({"x": compile_rule(rule(), KINDS)})
    facts = [group(plan=f"p{i}") for i in range(10)] + [link()]

    def resident() -> int:
        (worker,) = children() - before
        return int(Path(f"/proc/{worker}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def some(count: int) -> None:
        for ticket in [engine.submit("x", facts) for _ in range(count)]:
            assert len(engine.result(ticket)) == 10

    some(50)
    first = resident()
    some(600)
    assert resident() - first < 4 * 2**20
    engine.close()


@needs_engine
def test_a41_rule_that_holds_by_two_alternatives_matches_once() -> None:
    when = {
        "all": [{"g": {"kind": "group"}}],
        "any": [[{"absent": {"kind": "link"}}], [{"absent": {"kind": "contention"}}]],
    }
    made = rule(when=when, params=None, message="m", remedy="r")
    with Gate(Catalogue((made,), KINDS), KINDS) as gate:
        assert len(gate.run_phase(Phase.MAPPING, [group()])) == 1


@needs_engine
def test_evaluation_without_a_match_can_be_forgotten() -> None:
    """The engine frees what it never set when a state in which no rule fired is deleted; one rule always fires."""
    engine = DurableEvaluator({"x": compile_rule(rule(), KINDS)})
    assert [engine.result(engine.submit("x", [])) for _ in range(100)] == [set()] * 100
    engine.close()
