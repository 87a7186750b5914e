"""docs/rules.md: the rule catalogue by phase, from the rule files alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..inference.rule import CLOSED, PHASES, Phase, Rule, Severity, Status
from .escape import code, fence_for, markdown
from .rule_words import (
    clause_words,
    conclusion_words,
    example_text,
    form_words,
    frameworks_words,
    param_words,
    source_words,
)

#: What each stratum is about.
ABOUT = {
    Phase.INTAKE: "Whether the proposal is one, and says what it asks for.",
    Phase.EVIDENCE: "What a review needs to know, at the grade that is demanded.",
    Phase.SHAPE: "Whether the plan divides what it must, and keeps the training semantics.",
    Phase.MAPPING: "The mesh on the topology: which links a group uses.",
    Phase.MEMORY: "The largest per-rank peak of each stage.",
    Phase.SCHEDULE: "The pipeline, without times.",
    Phase.NETWORK: "What communication costs.",
    Phase.CLAIMS: "Figures that the proposal quotes.",
    Phase.OUTCOME: "The result of the search, and what speaks against trusting it.",
}
_HEAD = """\
# Rules

This page is generated from the rule files (`python -m planproof.report.docs docs`). `planproof explain ID` prints one
rule, `planproof rules test` runs the examples of all of them. The kinds of fact that a rule asks for are in
[facts.md](facts.md).

An error is for what cannot start, changes training, contradicts itself or lacks required evidence; what is merely slow is
a warning. Phases run in this order; what a rule concludes is a fact for later phases.
"""


def rules_page(rules: Sequence[Rule]) -> str:
    """The page for `rules`, by phase and id."""
    return "\n".join(_lines(rules)) + "\n"


def _lines(rules: Sequence[Rule]) -> Iterator[str]:
    yield _HEAD
    counts = ", ".join(
        f"{sum(rule.severity is severity for rule in rules)} {severity.value}s" for severity in Severity
    )
    yield f"{len(rules)} rules: {counts}.\n"
    yield "| rule | severity | says | closes |"
    yield "|---|---|---|---|"
    for phase in PHASES:
        for rule in _of(rules, phase):
            closes = ", ".join(dict.fromkeys(_closes(rule)))
            yield f"| [{rule.id}](#{rule.id.lower()}) | {rule.severity.value} | {markdown(rule.title, live=True)} | {closes} |"
    for phase in PHASES:
        found = _of(rules, phase)
        if found:
            yield f"\n## {phase.value}\n\n{ABOUT[phase]}"
        for rule in found:
            yield from _rule(rule)


def _of(rules: Sequence[Rule], phase: Phase) -> list[Rule]:
    return sorted((rule for rule in rules if rule.phase is phase), key=lambda rule: rule.id)


def _closes(rule: Rule) -> Iterator[str]:
    """The capabilities that the rule closes; with a plan, for that plan alone."""
    for conclusion in rule.concludes:
        if conclusion.kind == CLOSED:
            values = dict(conclusion.values)
            yield f"{values['capability']}" + (" of the plan" if "plan" in values else "")


def _rule(rule: Rule) -> Iterator[str]:
    status = "" if rule.status is Status.STABLE else f", {rule.status.value}"
    counter = ", counter-signal" if rule.counter else ""
    yield f"\n### {rule.id}\n"
    yield f"**{markdown(rule.title, live=True)}** ({rule.severity.value}{status}{counter}; {code(rule.file)})\n"
    yield f"> {markdown(form_words(rule.message), live=True)}\n"
    yield f"What to do: {markdown(form_words(rule.remedy), live=True)}\n"
    if rule.frameworks:
        yield f"Holds for {markdown(frameworks_words(rule), live=True)}\n"
    yield "Fires where"
    for clause in rule.all:
        yield f"- {markdown(clause_words(clause, rule), live=True)}"
    for k, alternative in enumerate(rule.any):
        yield f"- {'or' if k else 'either'}"
        for clause in alternative:
            yield f"  - {markdown(clause_words(clause, rule), live=True)}"
    if rule.params:
        yield f"\nParameters: {'; '.join(markdown(param_words(param), live=True) for param in rule.params.values())}"
    if rule.concludes:
        yield f"\nConcludes {'; '.join(markdown(conclusion_words(conclusion), live=True) for conclusion in rule.concludes)}"
    yield f"\nSource: {'; '.join(markdown(source_words(source), live=True) for source in rule.source)}"
    text = example_text(rule.fires[0])
    fence = fence_for(text)
    yield f"\n{fence}yaml\n{text}\n{fence}"
