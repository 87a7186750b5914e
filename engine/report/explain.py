"""`planproof explain`: a rule in words, from its file alone, and the facts that it bound in a proposal."""

from __future__ import annotations

from collections.abc import Sequence

from ..facts import show
from ..inference import Finding, Rule
from ..proposal import LoadedProposal
from .escape import terminal
from .rule_words import clause_words, conclusion_words, form_words, frameworks_words, param_words, source_words


def explain_rule(rule: Rule) -> str:
    """What the rule demands, when it fires, what follows, what to do, why it exists and how it is tested."""
    lines = [f"{rule.id}  {rule.title}", f"{rule.severity.value}, phase {rule.phase.value}, {rule.status.value}; {rule.file}", ""]
    if rule.frameworks:
        lines += [f"Holds for {frameworks_words(rule)}", ""]
    lines.append("Fires where")
    lines += [f"  - {clause_words(clause, rule)}" for clause in rule.all]
    for k, alternative in enumerate(rule.any):
        lines.append("  - either" if k == 0 else "  - or")
        lines += [f"      {clause_words(clause, rule)}" for clause in alternative]
    if rule.params:
        lines += ["", "Parameters", *(f"  {param_words(param)}" for param in rule.params.values())]
    if rule.concludes:
        lines += ["", "Concludes", *(f"  {conclusion_words(conclusion)}" for conclusion in rule.concludes)]
    lines += ["", "Says", f"  {form_words(rule.message)}", "", "What to do", f"  {form_words(rule.remedy)}"]
    lines += ["", "Why", *(f"  {source_words(source)}" for source in rule.source)]
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
