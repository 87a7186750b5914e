"""The shipped rules: each does what its examples say, asks for facts that exist, and tells users what to do."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from planproof.facts import KINDS
from planproof.inference import Phase, Rule, Severity, load_catalogue
from planproof.inference.durable import available
from planproof.inference.examples import check_rule, example_text, shipped_bases

if TYPE_CHECKING:
    from conftest import Bench

RULES = load_catalogue(KINDS).rules
BASES = sorted(shipped_bases().glob("*.yaml"))
#: Where a rule whose id begins so belongs; a framework's pack has three letters of its own.
PREFIXES = {
    "INT": Phase.INTAKE,
    "EVI": Phase.EVIDENCE,
    "PRO": Phase.EVIDENCE,
    "SHP": Phase.SHAPE,
    "MAP": Phase.MAPPING,
    "MEM": Phase.MEMORY,
    "SCH": Phase.SCHEDULE,
    "NET": Phase.NETWORK,
    "CLM": Phase.CLAIMS,
    "OUT": Phase.OUTCOME,
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_example_fires_or_stays_silent_as_it_says(rule: Rule, bench: Bench) -> None:
    assert check_rule(rule, bench) == []


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.stem)
def test_the_bases_are_free_of_errors_under_both_evaluators(base: Path, bench: Bench) -> None:
    found = bench.findings(base.read_bytes(), base, Phase.CLAIMS, ())
    assert [finding.message for finding in found if finding.severity is Severity.ERROR] == []
    assert set(bench.session.gate.evaluators) == {"reference", *(["durable_rules"] if available() else [])}


def test_every_base_serves_an_example() -> None:
    used = {example.base for rule in RULES for example in (*rule.fires, *rule.silent)}
    assert used == {base.stem for base in BASES}


def test_every_kind_of_fact_is_derived_for_some_example_and_asked_for_by_some_rule(bench: Bench) -> None:
    derived = set()
    for rule in RULES:
        for example in rule.fires:
            raw, path = example_text(example)
            given = {fact.key for fact in example.facts}
            for finding in bench.findings(raw, path, rule.phase, example.facts):
                derived |= {fact.kind for _, fact in finding.bindings if fact.key not in given}
    asked = {kind for rule in RULES for kind in rule.kinds()}
    stated = {kind.name for kind in KINDS.values() if kind.origin != "rules"}
    # A bare launch file alone has `unstated`, and examples are proposals; tests/cli/test_launch_files.py shows it.
    assert stated - derived == {"unstated"}, "no example shows these"
    assert stated - asked == set(), "no rule asks for these"


def test_a_rule_that_asks_for_a_conclusion_comes_after_a_rule_that_draws_it() -> None:
    for rule in RULES:
        for kind in rule.kinds():
            if KINDS[kind].origin == "rules":
                drawn = [one.phase.order for one in RULES if any(fact.kind == kind for fact in one.concludes)]
                assert drawn, f"nothing concludes what {rule.id} asks for"
                assert min(drawn) < rule.phase.order, rule.id


def test_every_item_that_can_be_missing_has_a_rule_of_its_own(root: Path) -> None:
    items = set()
    for file in sorted((root / "engine").glob("proposal/*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "lacks":
                literals = [arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant)]
                items |= set(literals)
    items |= {"stage_latency", "workspace", "activation_memory"}
    answered: Counter[str] = Counter()
    for rule in RULES:
        for clause in rule.all:
            if clause.name is None or clause.pattern.kind != "missing":
                continue
            named = [test.right for test in clause.pattern.tests if test.field == "item"]
            assert len(named) == 1, f"{rule.id} must name the item that is missing"
            assert isinstance(named[0], tuple), f"{rule.id} must name it as a constant"
            assert len(named[0]) == 1, f"{rule.id} must name one item"
            answered[str(named[0][0])] += 1
    assert len(items) > 20
    assert set(answered) == items


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_ids_folders_and_counter_signals_agree(rule: Rule) -> None:
    assert rule.phase is PREFIXES.get(rule.id[:3], rule.phase)
    assert re.fullmatch(rf"rules/{rule.phase.value}/[a-z0-9]+(-[a-z0-9]+)*\.yaml", rule.file)
    names = [dict(fact.values)["name"] for fact in rule.concludes if fact.kind == "counter_signal"]
    assert names == ([rule.counter] if rule.counter else [])


def test_titles_are_phrases_and_tell_rules_apart() -> None:
    titles = [rule.title for rule in RULES]
    assert [title for title, times in Counter(titles).items() if times > 1] == []
    assert [title for title in titles if title.endswith(".") or not title[0].isupper() or len(title) > 72] == []


def test_messages_read_as_sentences(bench: Bench) -> None:
    wrong = []
    for rule in RULES:
        for example in rule.fires:
            raw, path = example_text(example)
            for finding in bench.findings(raw, path, rule.phase, example.facts):
                for text in (finding.message, finding.remedy):
                    doubled = re.search(r"\b([a-z]+) \1\b", text)
                    if not text.endswith(".") or text[0].islower() or doubled or ".." in text or len(text) > 700:
                        wrong.append(f"{finding.rule_id}: {text}")
    assert sorted(set(wrong)) == []


def test_what_is_asked_of_a_candidate_falls_on_it_alone() -> None:
    """A closure that speaks of a plan is one plan's: a rule over a plan's facts never closes the whole review."""
    of_plans = {kind.name for kind in KINDS.values() if kind.origin == "plan"}
    for rule in RULES:
        if not any(clause.name is not None and clause.pattern.kind in of_plans for clause in rule.all):
            continue
        for conclusion in rule.concludes:
            if conclusion.kind == "closed":
                assert "plan" in dict(conclusion.values), rule.id


@pytest.mark.parametrize("rule_id", ["PRO003", "PRO004", "PRO005"])
def test_a_column_that_is_wrong_throughout_is_told_once(rule_id: str, bench: Bench) -> None:
    rule = next(rule for rule in RULES if rule.id == rule_id)
    for example in rule.fires:
        raw, path = example_text(example)
        found = bench.findings(raw, path, rule.phase, example.facts)
        assert [finding.rule_id for finding in found].count(rule_id) == 1
