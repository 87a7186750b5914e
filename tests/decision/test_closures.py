"""Closing a capability closes what is built on it, for all or for one plan, and the chain of rules is kept."""

from __future__ import annotations

import pytest
from planproof.decision.closures import closures, requirements
from planproof.facts import CAPABILITIES, KINDS, NEEDS, make
from planproof.inference import Finding, Phase, Severity


def finding(rule: str, capability: str, plan: str | None = None) -> Finding:
    closed = make(KINDS, "closed", "/x", capability=capability, plan=plan)
    return Finding(rule, f"title of {rule}", Severity.ERROR, Phase.EVIDENCE, "message", "remedy", "/x", (), False, (closed,))


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_requirements_are_closed_under_needs(capability: str) -> None:
    found = requirements(capability)
    assert found[0] == capability
    assert all(set(NEEDS[one]) <= set(found) for one in found)


def test_a_missing_topology_closes_all_that_is_built_on_it() -> None:
    shut = closures([finding("EVI900", "topology")])
    assert {one for one in CAPABILITIES if shut.closed(one)} == {"topology", "communication", "time", "search", "ranking"}
    assert not shut.closed("memory")
    through = {one.capability: one.through for one in shut.not_examined()}
    assert through["topology"] == ()
    assert through["ranking"] == ("topology",)
    assert all(one.chain[0].rule == "EVI900" for one in shut.not_examined())


def test_what_is_closed_for_one_plan_is_open_for_the_others_and_for_the_search() -> None:
    shut = closures([finding("SHP900", "shapes", "a")])
    assert shut.closed("memory", "a")
    assert shut.closed("ranking", "a")
    assert not shut.closed("memory", "b")
    assert not shut.closed("search")
    assert shut.plan_falls("a")
    assert not shut.plan_falls("b")
    assert shut.not_examined() == ()
    chain = shut.chain("time", "a")
    assert chain is not None
    assert [link.rule for link in chain.chain] == ["SHP900"]


def test_a_global_closure_holds_for_every_plan_but_fells_none() -> None:
    shut = closures([finding("EVI900", "batch")])
    assert shut.closed("memory", "a")
    assert not shut.plan_falls("a")


def test_two_rules_that_close_the_same_are_both_in_the_chain() -> None:
    chain = closures([finding("EVI900", "topology"), finding("EVI901", "communication")]).chain("time")
    assert chain is not None
    assert {link.rule for link in chain.chain} == {"EVI900", "EVI901"}
    assert chain.through == ("communication", "topology")


def test_findings_without_closures_close_nothing() -> None:
    condition = make(KINDS, "condition", "/x", item="something")
    note = Finding("NOT900", "t", Severity.NOTE, Phase.EVIDENCE, "m", "r", "/x", (), False, (condition,))
    assert closures([note]).not_examined() == ()
