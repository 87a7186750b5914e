"""From a rule to definitions for durable_rules that are known to be safe.

The engine crashes or answers wrongly on much of what its syntax allows, so only this is emitted:

- a closing `go` fact is the first antecedent of every definition and is asserted last, so that `$not` is judged once,
  on all facts;
- positive antecedents come next, in order, and `$not` antecedents last;
- an antecedent is one flat `$and`: kind, constants, `$ex` guards for joined fields, joins, and, where there is a join,
  a last term that always holds (a false join in last place reads beyond the engine's own expression);
- alternatives, lists of values and fields that may be absent become several definitions (a disjunctive normal form),
  whose matches are one set for the rule;
- antecedents are renamed, so that no name of a rule file can meet a word of the engine.

Nothing here runs the engine.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..facts.fact import Kind, Scalar
from ..frozen import dataclass
from .rule import Clause, Operator, ParamReference, Reference, Rule, Test

#: What the engine takes in one set before it miscounts (64 matches of one fact), with a margin.
GROUP = 40
#: Definitions that one rule may become, antecedents of one definition (`go` included), and terms of one antecedent.
MOST_DEFINITIONS, MOST_ANTECEDENTS, MOST_TERMS = 64, 12, 20

GO_KIND = "*go*"
#: The definition in every set that only asks for `go`: it shows that the engine is alive, and by firing it makes the
#: engine set up the fields of a state that are freed when the state is deleted.
CLOSING = "closing"
_PAD: dict[str, Any] = {"$lte": {"z0": {"go": "z0"}}}
_WORD = {
    Operator.UNEQUAL: "$neq",
    Operator.LESS: "$lt",
    Operator.AT_MOST: "$lte",
    Operator.GREATER: "$gt",
    Operator.AT_LEAST: "$gte",
}


class TooLarge(ValueError):
    """A rule needs more definitions, antecedents or terms than the engine takes; the message says which."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One engine rule: what it asks, which antecedents it binds in the rule's own names, and the fields it looks at."""

    rule_id: str
    all: tuple[dict[str, Any], ...]
    names: tuple[str, ...]
    fields: Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Group:
    """Definitions that form one rule set, as the engine takes them, and the fields to send of each kind of fact."""

    definitions: tuple[Definition, ...]
    text: str
    fields: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Literal:
    """A test whose alternatives have been chosen: the terms it becomes, and the reference it makes, if any."""

    terms: tuple[dict[str, Any], ...]
    reference: Reference | None
    field: str


@dataclass(frozen=True, slots=True)
class _Positive:
    name: str
    kind: str
    literals: tuple[_Literal, ...]


@dataclass(frozen=True, slots=True)
class _Case:
    """One way in which a `$not` can hold: these fields absent, those present, and nothing fits the negatives."""

    absent: frozenset[Reference]
    present: frozenset[Reference]
    negatives: tuple[tuple[str, tuple[_Literal, ...]], ...]


def compile_rule(rule: Rule, kinds: Mapping[str, Kind]) -> tuple[Definition, ...]:
    """The definitions of `rule`. Raises TooLarge."""
    found: list[Definition] = []
    for alternative in rule.any or ((),):
        clauses = (*rule.all, *alternative)
        engine_name = {clause.name: f"a{i}" for i, clause in enumerate(c for c in clauses if c.name is not None)}
        _check_size(rule, clauses, engine_name)
        options: list[Sequence[_Positive | _Case]] = []
        for clause in clauses:
            if clause.name is None:
                options.append(_cases(rule, clause, clauses, engine_name, kinds))
            else:
                options.append(_positives(rule, clause, engine_name))
        for chosen in itertools.product(*options):
            definition = _definition(rule, chosen, engine_name)
            if definition is not None:
                found.append(definition)
            if len(found) > MOST_DEFINITIONS:
                raise TooLarge(
                    f"the rule needs more than {MOST_DEFINITIONS} combinations of its listed values and alternatives"
                )
    return tuple(found)


def group(definitions: Iterable[Definition]) -> tuple[Group, ...]:
    """Rule sets of at most GROUP definitions, those that look at the same kinds together."""
    ordered = sorted(definitions, key=lambda d: (sorted(d.fields), d.rule_id))
    return tuple(make_group(ordered[i : i + GROUP]) for i in range(0, len(ordered), GROUP))


def make_group(definitions: Sequence[Definition]) -> Group:
    """One rule set; definition number i is called `ri` in it."""
    fields: dict[str, set[str]] = {}
    for definition in definitions:
        for kind, names in definition.fields.items():
            fields.setdefault(kind, set()).update(names)
    rules: dict[str, Any] = {f"r{i}": {"all": list(d.all), "dist": 0} for i, d in enumerate(definitions)}
    text = json.dumps({CLOSING: {"all": [{"go": {"kind": GO_KIND}}]}, **rules})
    return Group(tuple(definitions), text, {kind: tuple(sorted(names)) for kind, names in fields.items()})


def _check_size(rule: Rule, clauses: Sequence[Clause], names: Mapping[str | None, str]) -> None:
    combinations = 1
    for clause in clauses:
        for test in clause.pattern.tests:
            if clause.name is not None:
                combinations *= len(_alternatives(rule, test))
    if combinations > MOST_DEFINITIONS:
        raise TooLarge(
            f"the rule needs {combinations} combinations of its listed values, and {MOST_DEFINITIONS} is the most"
        )
    if len(names) + 1 > MOST_ANTECEDENTS:
        raise TooLarge(f"the rule has {len(names)} antecedents, and {MOST_ANTECEDENTS - 1} is the most")


def _values(rule: Rule, test: Test) -> tuple[Scalar, ...]:
    if isinstance(test.right, ParamReference):
        return rule.params[test.right.name].values
    return test.right if isinstance(test.right, tuple) else ()


def _alternatives(rule: Rule, test: Test) -> tuple[Scalar | None, ...]:
    """The values of which one must be chosen for a positive test; a single None where there is no choice."""
    values = _values(rule, test)
    return values if test.operator is Operator.EQUAL and len(values) > 1 else (None,)


def _literals(rule: Rule, clause: Clause, names: Mapping[str | None, str]) -> Iterable[tuple[_Literal, ...]]:
    """Every choice of one value for each test that lists several."""
    return itertools.product(
        *(
            [_literal(rule, test, choice, names) for choice in _alternatives(rule, test)]
            for test in clause.pattern.tests
        )
    )


def _literal(rule: Rule, test: Test, choice: Scalar | None, names: Mapping[str | None, str]) -> _Literal:
    if test.operator is Operator.PRESENT:
        return _Literal(({"$ex": {test.field: 1}},), None, test.field)
    if test.operator is Operator.ABSENT:
        return _Literal(({"$nex": {test.field: 1}},), None, test.field)
    if isinstance(test.right, Reference):
        right = {test.field: {names[test.right.name]: test.right.field}}
        join: dict[str, Any] = right if test.operator is Operator.EQUAL else {_WORD[test.operator]: right}
        return _Literal((join,), test.right, test.field)
    values = _values(rule, test) if choice is None else (choice,)
    if test.operator is Operator.EQUAL:
        return _Literal(tuple({test.field: value} for value in values), None, test.field)
    return _Literal(tuple({_WORD[test.operator]: {test.field: value}} for value in values), None, test.field)


def _positives(rule: Rule, clause: Clause, names: Mapping[str | None, str]) -> list[_Positive]:
    assert clause.name is not None
    return [_Positive(clause.name, clause.pattern.kind, chosen) for chosen in _literals(rule, clause, names)]


def _cases(
    rule: Rule, clause: Clause, clauses: Sequence[Clause], names: Mapping[str | None, str], kinds: Mapping[str, Kind]
) -> list[_Case]:
    """The ways in which no fact fits `clause`: each field it refers to, but which may be absent, is absent; or all are
    present and, for each choice of its listed values, nothing fits."""
    of_name = {c.name: c.pattern for c in clauses if c.name is not None}
    uncertain: list[Reference] = []
    certain_absent = False
    for test in clause.pattern.tests:
        reference = test.right
        if not isinstance(reference, Reference) or reference in uncertain or reference.field in ("path", "kind"):
            continue
        pattern = of_name[reference.name]
        tested = {other.operator for other in pattern.tests if other.field == reference.field}
        if Operator.ABSENT in tested:
            certain_absent = True
        elif not tested and kinds[pattern.kind].fields[reference.field].optional:
            uncertain.append(reference)
    if certain_absent:
        return [_Case(frozenset(), frozenset(), ())]
    cases = [_Case(frozenset({reference}), frozenset(uncertain[:i]), ()) for i, reference in enumerate(uncertain)]
    negatives = tuple((clause.pattern.kind, chosen) for chosen in _literals(rule, clause, names))
    return [*cases, _Case(frozenset(), frozenset(uncertain), negatives)]


def _definition(rule: Rule, chosen: Sequence[_Positive | _Case], names: Mapping[str | None, str]) -> Definition | None:
    """The definition of one choice; None where it asks for a field to be both absent and present."""
    positives = [part for part in chosen if isinstance(part, _Positive)]
    cases = [part for part in chosen if isinstance(part, _Case)]
    absent = frozenset().union(*(case.absent for case in cases))
    present = frozenset().union(*(case.present for case in cases))
    if absent & present:
        return None
    negatives = [negative for case in cases for negative in case.negatives]
    if len(positives) + len(negatives) + 1 > MOST_ANTECEDENTS:
        raise TooLarge(
            f"the rule needs {len(positives) + len(negatives)} antecedents at once, each value listed under `absent` "
            f"being one, and {MOST_ANTECEDENTS - 1} is the most"
        )
    joined = {
        literal.reference
        for literals in [*(p.literals for p in positives), *(literals for _, literals in negatives)]
        for literal in literals
        if literal.reference is not None
    }
    fields: dict[str, set[str]] = {}
    antecedents: list[dict[str, Any]] = [{"go": {"kind": GO_KIND}}]
    for part in positives:
        here = {reference.field for reference in joined | present if reference.name == part.name}
        gone = {reference.field for reference in absent if reference.name == part.name}
        antecedents.append({names[part.name]: _condition(part.kind, part.literals, here, gone, fields)})
    for i, (kind, literals) in enumerate(negatives):
        antecedents.append({f"n{i}$not": _condition(kind, literals, set(), set(), fields)})
    return Definition(
        rule.id,
        tuple(antecedents),
        tuple(part.name for part in positives),
        {kind: frozenset(used) for kind, used in fields.items()},
    )


def _condition(
    kind: str, literals: Sequence[_Literal], present: set[str], absent: set[str], fields: dict[str, set[str]]
) -> dict[str, Any]:
    """One antecedent in the order that the engine survives; `fields` gains what it looks at."""
    joins = [term for literal in literals if literal.reference is not None for term in literal.terms]
    guarded = present | {literal.field for literal in literals if literal.reference is not None}
    guarded -= {"kind"}
    terms: list[dict[str, Any]] = [
        {"kind": kind},
        *(term for literal in literals if literal.reference is None for term in literal.terms),
        *({"$nex": {name: 1}} for name in sorted(absent)),
        *({"$ex": {name: 1}} for name in sorted(guarded)),
        *joins,
    ]
    if joins:
        terms.append(_PAD)
    if len(terms) > MOST_TERMS:
        raise TooLarge(f"an antecedent of kind '{kind}' needs {len(terms)} terms, and {MOST_TERMS} is the most")
    fields.setdefault(kind, set()).update(guarded | absent | {literal.field for literal in literals})
    return terms[0] if len(terms) == 1 else {"$and": terms}
