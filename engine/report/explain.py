"""`planproof explain`: a rule in words, from its file alone, and the facts that it bound in a proposal."""

from __future__ import annotations

from collections.abc import Sequence

from ..facts import show
from ..inference import Finding, Rule
from ..inference.rule import Clause, Form, Operator, ParamReference, Reference, Test
from ..proposal import LoadedProposal
from .escape import terminal

_WORDS = {
    Operator.EQUAL: "is",
    Operator.UNEQUAL: "is not",
    Operator.LESS: "is below",
    Operator.AT_MOST: "is at most",
    Operator.GREATER: "is above",
    Operator.AT_LEAST: "is at least",
}


def explain_rule(rule: Rule) -> str:
    """What the rule demands, when it fires, what follows, what to do, why it exists and how it is tested."""
    lines = [f"{rule.id}  {rule.title}", f"{rule.severity.value}, phase {rule.phase.value}, {rule.status.value}; {rule.file}", ""]
    lines.append("Fires where")
    lines += [f"  - {_clause(clause)}" for clause in rule.all]
    for k, alternative in enumerate(rule.any):
        lines.append("  - either" if k == 0 else "  - or")
        lines += [f"      {_clause(clause)}" for clause in alternative]
    if rule.params:
        lines += ["", "Parameters"]
        for name, param in rule.params.items():
            origin = param.provenance
            word = f" ({origin.grade.value}: {origin.source})" if origin else ""
            lines.append(f"  {name} = {param.written}{word}")
    if rule.concludes:
        lines += ["", "Concludes"]
        for conclusion in rule.concludes:
            values = ", ".join(f"{name} {_right(value)}" for name, value in conclusion.values)
            lines.append(f"  {conclusion.kind}: {values}")
    lines += ["", "Says", f"  {_form(rule.message)}", "", "What to do", f"  {_form(rule.remedy)}", "", "Why"]
    for source in rule.source:
        held = f" ({source.version})" if source.version else ""
        why = f": {source.why}" if source.why else ""
        lines.append(f"  {source.kind} {source.value}{held}{why}")
    lines += ["", f"Tested on {len(rule.fires)} examples that fire and {len(rule.silent)} that stay silent."]
    return "\n".join(lines) + "\n"


def explain_match(rule: Rule, findings: Sequence[Finding], loaded: LoadedProposal) -> str:
    """Each finding of the rule in a proposal: where it stands, the facts that it bound, and what it concluded."""
    name = loaded.document.name
    if not findings:
        return terminal(f"\nIn {name}: {rule.id} does not fire.\n")
    lines = [f"\nIn {name}: {rule.id} fires {len(findings)} time{'s' if len(findings) > 1 else ''}."]
    for finding in findings:
        place = loaded.place(finding.path)
        lines += ["", f"{place}: {finding.message}"]
        for bound, fact in finding.bindings:
            where = loaded.place(fact.path)
            fields = ", ".join(f"{field} {show(field, value)}" for field, value in fact.values.items())
            lines.append(f"  {bound}: {fact.kind} at {where} ({fact.path or '/'}): {fields}")
        for fact in finding.concluded:
            fields = ", ".join(f"{field} {value}" for field, value in fact.values.items())
            lines.append(f"  concludes {fact.kind}: {fields}")
    return terminal("\n".join(lines)) + "\n"


def _clause(clause: Clause) -> str:
    tests = "; ".join(_test(test) for test in clause.pattern.tests)
    what = f"a fact '{clause.pattern.kind}'" + (f" whose {tests}" if tests else "")
    return f"there is no {what[2:]}" if clause.name is None else f"{clause.name} is {what}"


def _test(test: Test) -> str:
    if test.operator is Operator.PRESENT:
        return f"{test.field} is stated"
    if test.operator is Operator.ABSENT:
        return f"{test.field} is not stated"
    return f"{test.field} {_WORDS[test.operator]} {_right(test.right)}"


def _right(value: object) -> str:
    if isinstance(value, tuple):
        return " or ".join(map(str, value))
    if isinstance(value, ParamReference):
        return f"parameter {value.name}"
    if isinstance(value, Reference):
        return f"{value.name}'s {value.field}"
    return str(value)


def _form(form: Form) -> str:
    return "".join(part if isinstance(part, str) else f"{{{part}}}" for part in form)
