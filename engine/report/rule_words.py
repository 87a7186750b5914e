"""A rule's parts in words: clauses, texts with their places, parameters, sources, examples. Plain text, no layout."""

from __future__ import annotations

import json

from ..facts import show
from ..inference.rule import (
    Clause,
    Conclusion,
    Example,
    Form,
    Operator,
    Param,
    ParamReference,
    Reference,
    Rule,
    Source,
    Test,
)
from ..plan.frameworks import FRAMEWORKS

_WORDS = {
    Operator.EQUAL: "is",
    Operator.UNEQUAL: "is not",
    Operator.LESS: "is below",
    Operator.AT_MOST: "is at most",
    Operator.GREATER: "is above",
    Operator.AT_LEAST: "is at least",
}


def clause_words(clause: Clause, rule: Rule) -> str:
    """`link is a fact 'link' whose name is group's slowest_link`; `there is no fact ...` for an absence."""
    tests = "; ".join(_test_words(test, rule) for test in clause.pattern.tests)
    what = f"fact '{clause.pattern.kind}'" + (f" whose {tests}" if tests else "")
    return f"there is no {what}" if clause.name is None else f"{clause.name} is a {what}"


def frameworks_words(rule: Rule) -> str:
    """`megatron-core (read at d98e8a64dd)`: the frameworks that the rule holds for, with the version that was read."""
    read = {name: FRAMEWORKS[name].read for name in rule.frameworks}
    return ", ".join(f"{name} (read at {version})" if version else name for name, version in read.items())


def form_words(form: Form) -> str:
    """A message or remedy with its places in braces, as in the rule file."""
    return "".join(part if isinstance(part, str) else f"{{{part}}}" for part in form)


def conclusion_words(conclusion: Conclusion) -> str:
    """`closed: capability memory, plan x's plan`."""
    values = ", ".join(f"{name} {_value_words(name, value)}" for name, value in conclusion.values)
    return f"{conclusion.kind}: {values}" if values else conclusion.kind


def param_words(param: Param) -> str:
    """`floor = 200 GB/s (assumed: why)`."""
    origin = param.provenance
    if origin is None:
        return f"{param.name} = {param.written}"
    because = f": {origin.source}" if origin.source else ""
    dated = f", {origin.date}" if origin.date else ""
    return f"{param.name} = {param.written} ({origin.grade.value}{because}{dated})"


def source_words(source: Source) -> str:
    """`brief B23: why`, `framework megatron-lm (core_r0.14): why`."""
    held = f" ({source.version})" if source.version else ""
    return f"{source.kind} {source.value}{held}" + (f": {source.why}" if source.why else "")


def example_text(example: Example) -> str:
    """The patch of an example as YAML, one pointer a line, with the base and the facts that are added."""
    lines = [f"# on the base '{example.base}'" + (f": {example.note}" if example.note else "")]
    lines += [f"{pointer}: {json.dumps(value, ensure_ascii=False)}" for pointer, value in example.patch]
    for fact in example.facts:
        values = json.dumps(dict(fact.values), ensure_ascii=False)
        lines.append(f"# and the fact {fact.kind} at {fact.path or '/'}: {values}")
    return "\n".join(lines)


def _test_words(test: Test, rule: Rule) -> str:
    if test.operator is Operator.PRESENT:
        return f"{test.field} is stated"
    if test.operator is Operator.ABSENT:
        return f"{test.field} is not stated"
    if isinstance(test.right, ParamReference):
        return f"{test.field} {_WORDS[test.operator]} {test.right.name} ({rule.params[test.right.name].written})"
    return f"{test.field} {_WORDS[test.operator]} {_value_words(test.field, test.right)}"


def _value_words(field: str, value: object) -> str:
    if isinstance(value, tuple):
        return " or ".join(show(field, one) for one in value)
    if isinstance(value, Reference):
        return f"{value.name}'s {value.field}"
    if isinstance(value, ParamReference):
        return f"the parameter {value.name}"
    return show(field, value) if isinstance(value, int | str) else str(value)
