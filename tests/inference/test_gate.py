"""The gate: strata in order, findings in words, conclusions as facts, suppressions and overrides that leave a trace."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from planproof.errors import InternalFault, UsageError
from planproof.facts.fact import Fact, declare, make
from planproof.inference import PHASES, Catalogue, Gate, Phase, Rule, Severity, Suppression, load_rule
from planproof.inference.catalogue import in_order
from rule_texts import KINDS, RULE, rule


@pytest.fixture(params=["both", "reference"])
def evaluators(request: pytest.FixtureRequest) -> Any:
    return request.param


def group(**values: Any) -> Fact:
    given = {"axis": "tensor", "size": 8, "slowest_link": "nic", "plan": "p"} | values
    return make(KINDS, "group", f"/plans/{given['plan']}", **given)


def link(name: str = "nic", speed: int = 10**10, **values: Any) -> Fact:
    return make(KINDS, "link", f"/links/{name}", name=name, bandwidth_bytes_per_s=speed, **values)


def run(rules: list[Rule], facts: list[Fact], evaluators: Any = "both", **options: Any) -> Any:
    with Gate(Catalogue(in_order(rules), KINDS), KINDS, evaluators) as gate:
        return gate.run(PHASES, facts, **options)


def added(outcome: Any, facts: list[Fact]) -> list[tuple[str, dict[str, Any]]]:
    return [(fact.kind, dict(fact.values)) for fact in outcome.facts[len(facts) :]]


def test_finding_says_what_the_rule_says_with_units(evaluators: Any) -> None:
    facts = [group(), link()]
    outcome = run([rule()], facts, evaluators)
    (finding,) = outcome.findings
    assert finding.message == "The group of 8 crosses nic of 10 GB/s, below 200 GB/s."
    assert (finding.rule_id, finding.severity, finding.path) == ("MAP004", Severity.WARNING, "/plans/p")
    assert [name for name, _ in finding.bindings] == ["group", "link"]
    assert added(outcome, facts) == [
        ("closed", {"capability": "topology"}),
        ("finding", {"rule": "MAP004", "severity": "warning", "phase": "mapping", "plan": "p"}),
    ]


def test_absent_clause_silences_the_rule(evaluators: Any) -> None:
    contended = make(KINDS, "contention", "/c", plan="p", share_ppm=1)
    other = make(KINDS, "contention", "/c", plan="q", share_ppm=1)
    assert not run([rule()], [group(), link(), contended], evaluators).findings
    assert run([rule()], [group(), link(), other], evaluators).findings


def test_conclusion_is_seen_by_later_strata_only(evaluators: Any) -> None:
    when = {"all": [{"it": {"kind": "closed", "capability": "topology"}}]}
    texts: dict[str, Any] = {"when": when, "params": None, "message": "m", "remedy": "r", "concludes": None}
    earlier = rule(id="SHP001", phase="shape", **texts)
    same = rule(id="MAP999", phase="mapping", **texts)
    later = rule(id="MEM001", phase="memory", **texts)
    outcome = run([later, same, earlier, rule()], [group(), link()], evaluators)
    assert [finding.rule_id for finding in outcome.findings] == ["MAP004", "MEM001"]
    assert outcome.findings[1].path == "/plans/p"


def test_findings_are_facts_for_later_rules(evaluators: Any) -> None:
    when = {"all": [{"it": {"kind": "finding", "rule": "MAP004", "plan": "p"}}]}
    later = rule(id="OUT001", phase="outcome", when=when, params=None, message="{it.rule}", remedy="r", concludes=None)
    assert [f.message for f in run([rule(), later], [group(), link()], evaluators).findings][1] == "MAP004"


def test_closed_phase_does_not_run_and_is_listed(evaluators: Any) -> None:
    outcome = run([rule()], [group(), link()], evaluators, closed=lambda phase, facts: phase is Phase.MAPPING)
    assert not outcome.findings
    assert outcome.skipped == (Phase.MAPPING,)


def test_closed_is_asked_with_what_earlier_phases_concluded(evaluators: Any) -> None:
    when = {"all": [{"g": {"kind": "group"}}]}
    later = rule(id="MEM001", phase="memory", when=when, params=None, message="m", remedy="r", concludes=None)
    outcome = run(
        [rule(), later],
        [group(), link()],
        evaluators,
        closed=lambda phase, facts: phase is Phase.MEMORY and any(fact.kind == "closed" for fact in facts),
    )
    assert [finding.rule_id for finding in outcome.findings] == ["MAP004"]
    assert outcome.skipped == (Phase.MEMORY,)


def test_any_holds_once_for_the_same_facts_and_once_for_each_binding(evaluators: Any) -> None:
    when = {
        "all": [{"g": {"kind": "group"}}],
        "any": [
            [{"absent": {"kind": "contention", "plan": "= g.plan"}}],
            {"all": [{"absent": {"kind": "link", "name": "= g.slowest_link"}}]},
            [{"l": {"kind": "link", "latency_ns": "> 5"}}],
        ],
    }
    made = rule(when=when, params=None, message="{g.plan}", remedy="r")
    with Gate(Catalogue((made,), KINDS), KINDS, evaluators) as gate:
        matches = gate.run_phase(Phase.MAPPING, [group(), link("a", latency_ns=6), link("b", latency_ns=5)])
    assert [[name for name, _ in match.bindings] for match in matches] == [["g"], ["g", "l"]]
    # Both say the same of the same place, so there is one finding.
    assert len(run([made], [group(), link("a", latency_ns=6)], evaluators).findings) == 1


def test_rule_without_an_antecedent_speaks_of_the_root(evaluators: Any) -> None:
    made = rule(when={"all": [{"absent": {"kind": "link"}}]}, params=None, message="m", remedy="r")
    (finding,) = run([made], [group()], evaluators).findings
    assert (finding.path, finding.bindings) == ("", ())
    assert not run([made], [link()], evaluators).findings


def test_one_fact_may_answer_two_antecedents(evaluators: Any) -> None:
    when = {"all": [{"a": {"kind": "link"}}, {"b": {"kind": "link", "name": "= a.name"}}]}
    made = rule(when=when, params=None, message="{a.name} {b.name}", remedy="r")
    assert [f.message for f in run([made], [link(), link("x")], evaluators).findings] == ["nic nic", "x x"]
    alone = {
        "all": [
            {"a": {"kind": "link"}},
            {"absent": {"kind": "link", "bandwidth_bytes_per_s": "<= a.bandwidth_bytes_per_s"}},
        ]
    }
    assert not run([rule(when=alone, params=None, message="m", remedy="r")], [link()], evaluators).findings


@pytest.mark.parametrize(
    ("test", "fires"),
    [
        ("present", True),
        ("absent", False),
        ("!= nvl", True),
        ("!= nic", False),
        (["nic", "nvl"], True),
        (["nvl"], False),
    ],
)
def test_tests_on_an_optional_field(evaluators: Any, test: Any, fires: bool) -> None:
    made = rule(when={"all": [{"g": {"kind": "group", "slowest_link": test}}]}, params=None, message="m", remedy="r")
    assert bool(run([made], [group()], evaluators).findings) is fires
    missing = run([made], [group(slowest_link=None)], evaluators)
    assert bool(missing.findings) is (test == "absent")


def test_absent_field_on_the_right_makes_a_test_false(evaluators: Any) -> None:
    when = {"all": [{"g": {"kind": "group"}}, {"absent": {"kind": "link", "name": "= g.slowest_link"}}]}
    made = rule(when=when, params=None, message="{g.slowest_link}", remedy="r")
    (finding,) = run([made], [group(slowest_link=None), link()], evaluators).findings
    assert finding.message == "not stated"
    assert not run([made], [group(), link()], evaluators).findings


def test_place_is_the_field_that_at_names(evaluators: Any) -> None:
    (finding,) = run([rule(at="group.place")], [group(place="/cluster/links/3"), link()], evaluators).findings
    assert finding.path == "/cluster/links/3"
    (finding,) = run([rule(at="group.place")], [group(), link()], evaluators).findings
    assert finding.path == "/plans/p"
    (finding,) = run([rule(at="link")], [group(), link()], evaluators).findings
    assert finding.path == "/links/nic"
    (finding,) = run([rule(at="/cluster")], [group(), link()], evaluators).findings
    assert finding.path == "/cluster"


def test_conclusion_copies_fields_and_parameters(evaluators: Any) -> None:
    concludes = [
        {
            "kind": "floor",
            "plan": "= group.plan",
            "bandwidth_bytes_per_s": "= params.floor",
            "note": "= group.place",
            "path": "link",
        }
    ]
    facts = [group(), link()]
    outcome = run([rule(concludes=concludes)], facts, evaluators)
    assert added(outcome, facts)[0] == ("floor", {"plan": "p", "bandwidth_bytes_per_s": 200 * 10**9})
    assert outcome.facts[2].path == "/links/nic"


def test_braces_and_braces_from_facts_stay_as_they_are(evaluators: Any) -> None:
    facts = [group(slowest_link="{group.size} %s"), link("{group.size} %s")]
    (finding,) = run([rule(message="{{x}} {link.name} {params.floor} {group.kind}")], facts, evaluators).findings
    assert finding.message == "{x} {group.size} %s 200 GB/s group"


def test_order_of_facts_does_not_change_what_is_found(evaluators: Any) -> None:
    facts = [group(), link(), group(plan="q"), link("x")]
    forward, backward = run([rule()], facts, evaluators), run([rule()], facts[::-1], evaluators)
    assert {f.message + f.path for f in forward.findings} == {f.message + f.path for f in backward.findings}
    assert [f.path for f in forward.findings] == ["/plans/p", "/plans/q"]


def test_same_fact_given_twice_counts_once(evaluators: Any) -> None:
    assert len(run([rule()], [group(), group(), link(), link()], evaluators).findings) == 1


def test_many_sets_are_judged_as_each_alone(evaluators: Any) -> None:
    sets = [[group(size=i), link(speed=10**10 if i % 2 else 10**12)] for i in range(60)]
    with Gate(Catalogue((rule(),), KINDS), KINDS, evaluators) as gate:
        together = gate.run_many(PHASES, sets)
        assert together == [gate.run(PHASES, facts) for facts in sets]
    assert [len(outcome.findings) for outcome in together] == [i % 2 for i in range(60)]


ERROR = {"severity": "error"}


def test_suppressed_error_leaves_a_condition_and_closes_nothing(evaluators: Any) -> None:
    facts = [group(), link()]
    silence = Suppression("MAP004", "known", "me", path="/plans")
    outcome = run([rule(**ERROR)], facts, evaluators, suppressions=[silence])
    assert outcome.findings[0].suppressed is silence
    assert added(outcome, facts) == [("condition", {"item": "Tensor-parallel group spans a slow link", "rule": "MAP004"})]


def test_condition_is_of_the_plan_that_would_have_been_closed() -> None:
    concludes = [{"kind": "closed", "capability": "time", "plan": "= group.plan"}]
    outcome = run([rule(**ERROR, concludes=concludes)], [group(), link()], suppressions=[Suppression("MAP004", "r", "me")])
    assert outcome.facts[2].kind == "condition"
    assert outcome.facts[2]["plan"] == "p"


@pytest.mark.parametrize(
    ("suppression", "silenced"),
    [
        (Suppression("MAP004", "r", "me"), True),
        (Suppression("MAP005", "r", "me"), False),
        (Suppression("MAP004", "r", "me", path="/plans/p"), True),
        (Suppression("MAP004", "r", "me", path="/plans/p2"), False),
        (Suppression("MAP004", "r", "me", path="/pla"), False),
        (Suppression("MAP004", "r", "me", line=7), True),
        (Suppression("MAP004", "r", "me", line=8), False),
        (Suppression("MAP004", "r", "me", until=date(2026, 11, 2)), True),
        (Suppression("MAP004", "r", "me", until=date(2026, 11, 1)), False),
    ],
)
def test_suppression_covers_its_rule_place_and_time_only(suppression: Suppression, silenced: bool) -> None:
    outcome = run(
        [rule(**ERROR)],
        [group(), link()],
        "reference",
        suppressions=[suppression],
        lines_of=lambda path: [7],
        today=date(2026, 11, 2),
    )
    assert (outcome.findings[0].suppressed is not None) is silenced
    assert any(fact.kind == "closed" for fact in outcome.facts) is not silenced


def gated(catalogue: Catalogue, **options: Any) -> Any:
    with Gate(catalogue, KINDS, "reference") as gate:
        return gate.run(PHASES, [group(), link()], **options)


def kinds_of(outcome: Any) -> list[str]:
    return [fact.kind for fact in outcome.facts[2:]]


def test_lowered_error_leaves_a_condition_and_is_recorded() -> None:
    catalogue = Catalogue((rule(**ERROR),), KINDS).with_overrides(severity={"MAP004": "note"})
    outcome = gated(catalogue)
    assert outcome.findings[0].severity is Severity.NOTE
    assert kinds_of(outcome) == ["condition", "finding"]
    (override,) = catalogue.overrides
    assert (override.rule, override.what, override.before, override.after) == ("MAP004", "severity", "error", "note")


def test_ignored_error_still_leaves_a_condition() -> None:
    catalogue = Catalogue((rule(**ERROR),), KINDS).with_overrides(ignore=["MAP004"])
    outcome = gated(catalogue)
    assert outcome.findings[0].suppressed is not None
    assert kinds_of(outcome) == ["condition"]


def test_ignored_rule_without_force_is_silent() -> None:
    catalogue = Catalogue((rule(concludes=None),), KINDS)
    assert gated(catalogue).findings
    assert not gated(catalogue.with_overrides(ignore=["MAP004"])).findings


def test_parameter_of_the_configuration_decides_and_is_shown() -> None:
    catalogue = Catalogue((rule(),), KINDS)
    assert not gated(catalogue.with_overrides(params={"MAP004": {"floor": "5 GB/s"}})).findings
    raised = catalogue.with_overrides(params={"MAP004": {"floor": "80 Gbit/s"}})
    assert not gated(raised).findings
    raised = catalogue.with_overrides(params={"MAP004": {"floor": "96 Gbit/s"}})
    assert gated(raised).findings[0].message.endswith("below 96 Gbit/s.")
    assert raised.overrides[0].before == "200 GB/s"
    assert raised.digest == catalogue.digest


def test_mandatory_rule_can_be_neither_suppressed_lowered_nor_ignored() -> None:
    catalogue = Catalogue((rule(**ERROR),), KINDS).with_overrides(mandatory=["MAP004"])
    outcome = gated(catalogue, suppressions=[Suppression("MAP004", "r", "me")])
    assert outcome.findings[0].suppressed is None
    assert "closed" in kinds_of(outcome)
    with pytest.raises(UsageError, match="mandatory"):
        catalogue.with_overrides(ignore=["MAP004"])
    with pytest.raises(UsageError, match="mandatory"):
        catalogue.with_overrides(severity={"MAP004": "warning"})


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ({"severity": {"MAP005": "note"}}, "MAP005.*did you mean 'MAP004'"),
        ({"severity": {"MAP004": "loud"}}, "'loud'"),
        ({"params": {"MAP004": {"flor": 1}}}, "did you mean 'floor'"),
        ({"params": {"MAP004": {"floor": "3 GiB"}}}, "GiB"),
        ({"params": {"MAP004": {"floor": ["3 GB/s", "4 GB/s"]}}}, "not a list"),
        ({"params": {"MAP004": {"floor": None}}}, "nothing"),
        ({"ignore": ["X"]}, "'X'"),
    ],
)
def test_override_that_cannot_be_is_refused(override: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Catalogue((rule(),), KINDS).with_overrides(**override)


def test_rule_that_closes_nothing_cannot_be_raised_to_error() -> None:
    with pytest.raises(UsageError, match="label only"):
        Catalogue((rule(concludes=None),), KINDS).with_overrides(severity={"MAP004": "error"})


def test_deprecated_rule_loads_and_never_fires() -> None:
    assert not gated(Catalogue((rule(status="deprecated"),), KINDS)).findings


def test_disagreement_of_the_evaluators_is_a_fault_that_names_rule_and_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    from planproof.inference import durable, reference

    if not durable.available():
        pytest.skip("durable_rules is not installed for this Python")
    monkeypatch.setattr(reference, "evaluate", lambda rules, facts: set())
    with (
        Gate(Catalogue((rule(),), KINDS), KINDS) as gate,
        pytest.raises(InternalFault, match=r"disagree on MAP004: durable_rules holds .* group = \{group /plans/p"),
    ):
        gate.run(PHASES, [group(), link()])


def test_conclusion_outside_its_kind_is_a_fault_and_not_a_fact() -> None:
    narrow = declare(*(kind for kind in KINDS.values() if kind.name != "condition"))
    with (
        Gate(Catalogue((rule(**ERROR),), KINDS), narrow, "reference") as gate,
        pytest.raises(InternalFault, match="condition"),
    ):
        gate.run(PHASES, [group(), link()], suppressions=[Suppression("MAP004", "r", "me")])


def test_counter_signal_is_carried_to_the_finding(evaluators: Any) -> None:
    (finding,) = run([rule(counter="slow-fabric")], [group(), link()], evaluators).findings
    assert finding.counter == "slow-fabric"


def test_gate_names_its_evaluators_with_versions() -> None:
    with Gate(Catalogue((rule(),), KINDS), KINDS, "reference") as gate:
        assert set(gate.evaluators) == {"reference"}


def test_text_of_the_rule_is_all_that_its_digest_covers() -> None:
    spaced = load_rule(RULE.replace("\nseverity", "\n\n# a comment\nseverity"), "elsewhere.yaml", KINDS)
    assert spaced.digest == rule().digest
    assert rule(title="other").digest != rule().digest
