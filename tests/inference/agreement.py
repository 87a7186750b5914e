"""Both evaluators over drawn rules and facts, through one worker: for the tests, and for `bench/evaluators.py`."""

from __future__ import annotations

from collections import Counter

from planproof.inference import durable, reference
from planproof.inference.compiler import Definition, TooLarge, compile_rule
from random_cases import Case


class Disagreement(Exception):
    """The evaluators differ over one set."""


def compare(cases: list[Case], seen: Counter[str]) -> None:
    """Judge every rule and fact set of `cases` by both, and count in `seen`. Raises Disagreement, EngineFault."""
    definitions = {str(number): compiled(case) for number, case in enumerate(cases)}
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
            found = engine.result(ticket)
            if found != expected:
                raise Disagreement(f"engine only {sorted(found - expected)}, reference only {sorted(expected - found)}")
            seen["sets"] += 1
            seen["pairs"] += len(rules)
            seen["matches"] += len(expected)
            seen["pairs that fire"] += len({rule for rule, _ in expected})
    finally:
        engine.close()


def compiled(case: Case) -> list[Definition]:
    """The rules of `case`; one that is too large for the engine is left out of both evaluators."""
    found: list[Definition] = []
    for rule in case.rules:
        try:
            found.extend(compile_rule(rule, case.kinds))
        except TooLarge:
            continue
    return found
