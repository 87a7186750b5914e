"""The two evaluators find the same matches, whatever the rules and the facts."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from agreement import compare
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planproof.inference import durable, reference
from random_cases import random_case

needs_engine = pytest.mark.skipif(not durable.available(), reason="durable_rules is not installed for this Python")


@needs_engine
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_evaluators_agree_on_drawn_rules(random: Random) -> None:
    compare([random_case(random, rules=3, fact_sets=2, most_facts=6)], Counter())


@needs_engine
def test_evaluators_agree_on_many_random_rules() -> None:
    random, seen = Random(20), Counter[str]()
    for _ in range(12):
        compare([random_case(random) for _ in range(15)], seen)
    assert seen["pairs"] > 1000
    assert seen["pairs that fire"] > seen["pairs"] / 10


@needs_engine
@pytest.mark.long
def test_evaluators_agree_on_twenty_thousand_random_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    random, seen = Random(2026), Counter[str]()
    while seen["pairs"] < 24_000:
        compare([random_case(random) for _ in range(25)], seen)
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
