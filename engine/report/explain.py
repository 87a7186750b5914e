"""`planproof explain`: a rule in words, from its file alone, and the facts that it bound in a proposal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..facts import KINDS, Fact, show
from ..inference import Finding, Rule
from ..inference.rule import Reference
from ..proposal import Case, LoadedProposal
from ..quantity import human
from .escape import terminal
from .rule_words import clause_words, conclusion_words, form_words, frameworks_words, param_words, source_words

#: Facts of one kind that are shown where a rule does not fire.
_MOST = 3


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


def explain_match(
    rule: Rule, findings: Sequence[Finding], loaded: LoadedProposal, facts: Sequence[Fact] = (), case: Case | None = None
) -> str:
    """Each finding of the rule in a proposal: where it stands, the facts that it bound, where their numbers came from.

    Where it does not fire, the facts that it asks for, as far as there are any: what they are, and what is asked.
    """
    name = loaded.document.name
    if not findings:
        lines = [f"\nIn {name}: {rule.id} does not fire."]
        lines += _asked(rule, facts, loaded)
        return terminal("\n".join(lines)) + "\n"
    lines = [f"\nIn {name}: {rule.id} fires {len(findings)} time{'s' if len(findings) > 1 else ''}."]
    for finding in findings:
        place = loaded.place(finding.path)
        lines += ["", f"{place}: {finding.message}"]
        for bound, fact in finding.bindings:
            where = loaded.place(fact.path)
            lines.append(f"  {bound}: {fact.kind} at {where} ({fact.path or '/'})")
            lines += _fields(rule, bound, fact)
            lines += [f"    rests on {text}" for text in _evidence(fact, case)]
        for fact in finding.concluded:
            fields = ", ".join(f"{field} {value}" for field, value in fact.values.items())
            lines.append(f"  concludes {fact.kind}: {fields}")
    return terminal("\n".join(lines)) + "\n"


def _fields(rule: Rule, name: str, fact: Fact) -> Iterator[str]:
    """The fields of a bound fact that the rule looks at or tells, with what each means; then the others, briefly."""
    looked = {test.field for clause in rule.clauses() if clause.name == name for test in clause.pattern.tests}
    for clause in rule.clauses():
        looked |= {t.right.field for t in clause.pattern.tests if isinstance(t.right, Reference) and t.right.name == name}
    told = {part.field for part in (*rule.message, *rule.remedy) if isinstance(part, Reference) and part.name == name}
    declared = KINDS[fact.kind].fields
    for field, value in fact.values.items():
        if field in looked | told:
            yield f"    {field} {show(field, value)}: {declared[field].doc}"
    rest = [f"{field} {show(field, value)}" for field, value in fact.values.items() if field not in looked | told]
    if rest:
        yield f"    also {', '.join(rest)}"


def _evidence(fact: Fact, case: Case | None) -> Iterator[str]:
    """The evidence at the fact's place, below it or above it, with its grade, source and date."""
    for item in case.evidence if case is not None and fact.path else ():
        if item.path == fact.path or item.path.startswith(fact.path + "/") or fact.path.startswith(item.path + "/"):
            origin = item.quantity.provenance
            at = f" ({origin.file}:{origin.line})" if origin.file and origin.line else f" ({origin.file})" if origin.file else ""
            source = f", {origin.source}" if origin.source else ""
            dated = f", {origin.date}" if origin.date else ""
            yield f"{item.name}, {human(item.quantity.value, item.quantity.dimension)}: {origin.grade.value}{source}{dated}{at}"


def _asked(rule: Rule, facts: Sequence[Fact], loaded: LoadedProposal) -> Iterator[str]:
    """What each clause asks for, and up to three facts of its kind."""
    for clause in rule.clauses() if facts else ():
        of_kind = [fact for fact in facts if fact.kind == clause.pattern.kind]
        yield f"  {clause_words(clause, rule)}; of that kind there are {len(of_kind)}"
        for fact in of_kind[:_MOST]:
            tested = dict.fromkeys(test.field for test in clause.pattern.tests)
            values = [f"{field} {show(field, value)}" for field in tested if (value := fact.get(field)) is not None]
            gone = [f"{field} absent" for field in tested if fact.get(field) is None]
            yield f"    at {loaded.place(fact.path)}: {', '.join([*values, *gone]) or 'nothing is asked of it'}"
        if len(of_kind) > _MOST:
            yield f"    and {len(of_kind) - _MOST} more"
