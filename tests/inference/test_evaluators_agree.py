"""The two evaluators find the same matches, whatever the rules and the facts."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planproof.inference import durable, reference
from planproof.inference.compiler import Definition, TooLarge, compile_rule
from random_cases import Case, random_case

needs_engine = pytest.mark.skipif(not durable.available(), reason="durable_rules is not installed for this Python")


def _definitions(case: Case, prefix: str) -> dict[str, list[Definition]]:
    """The rules of `case`, all in one set; a rule too large for the engine is left out of both evaluators."""
    found: list[Definition] = []
    for rule in case.rules:
        try:
            found.extend(compile_rule(rule, case.kinds))
        except TooLarge:
            continue
    return {prefix: found}


def _compared(cases: list[Case], seen: Counter[str]) -> None:
    """Both evaluators over every rule and fact set of `cases`, through one worker."""
    definitions: dict[str, list[Definition]] = {}
    for number, case in enumerate(cases):
        definitions |= _definitions(case, str(number))
    engine = durable.DurableEvaluator(definitions)
    try:
        tickets = [
            (number, case, facts, engine.submit(str(number), facts))
            for number, case in enumerate(cases)
            for facts in case.fact_sets
        ]
        for number, case, facts, ticket in tickets:
            judged = {definition.rule_id for definition in definitions[str(number)]}
            rules = [rule for rule in case.rules if rule.id in judged]
            expected = reference.evaluate(rules, facts)
            assert engine.result(ticket) == expected
            seen["pairs"] += len(rules)
            seen["matches"] += len(expected)
            seen["pairs that fire"] += len({rule for rule, _ in expected})
    finally:
        engine.close()


@needs_engine
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_evaluators_agree_on_drawn_rules(random: Random) -> None:
    _compared([random_case(random, rules=3, fact_sets=2, most_facts=6)], Counter())


@needs_engine
def test_evaluators_agree_on_many_random_rules() -> None:
    random, seen = Random(20), Counter[str]()
    for _ in range(12):
        _compared([random_case(random) for _ in range(15)], seen)
    assert seen["pairs"] > 1000
    assert seen["pairs that fire"] > seen["pairs"] / 10


@needs_engine
@pytest.mark.long
def test_evaluators_agree_on_twenty_thousand_random_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    random, seen = Random(2026), Counter[str]()
    while seen["pairs"] < 24_000:
        _compared([random_case(random) for _ in range(25)], seen)
    with capsys.disabled():
        print(f"\n{dict(seen)}")
    assert seen["pairs that fire"] > 4_000


def test_reference_evaluator_knows_neither_compiler_nor_engine() -> None:
    tree = ast.parse(Path(reference.__file__).read_text(encoding="utf-8"))
    imported = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
    }
    assert imported & {"rule", "facts.fact"} == {"rule", "facts.fact"}
    assert not {name for name in imported if any(word in name for word in ("compiler", "durable", "worker", "gate"))}
