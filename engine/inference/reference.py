"""The reference evaluator: a rule as written, by plain nested loops over the facts.

It is the check on the rule engine, so it must know nothing of how rules are compiled for that engine: no normal form,
no padding, no guards. The two share the parsed rule and the facts, nothing else. Its only liberty is an index by kind
and value.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..facts.fact import Fact, Scalar
from .rule import Clause, Operator, ParamReference, Pattern, Reference, Rule, Test

_COMPARE = {
    Operator.LESS: operator.lt,
    Operator.AT_MOST: operator.le,
    Operator.GREATER: operator.gt,
    Operator.AT_LEAST: operator.ge,
}

#: The positions of the facts that the antecedents bound, by name, in the order in which they were bound.
Bound = tuple[tuple[str, int], ...]


class Index:
    """The facts of one evaluation, found by kind or by the value of one field."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        self.facts = facts
        self._of_kind: dict[str, list[int]] = {}
        self._of_value: dict[tuple[str, str], dict[Scalar | None, list[int]]] = {}
        for position, fact in enumerate(facts):
            self._of_kind.setdefault(fact.kind, []).append(position)

    def of_kind(self, kind: str) -> Sequence[int]:
        """Positions of the facts of `kind`."""
        return self._of_kind.get(kind, ())

    def of_value(self, kind: str, field: str, value: Scalar | None) -> Sequence[int]:
        """Positions of the facts of `kind` whose `field` is `value`."""
        table = self._of_value.get((kind, field))
        if table is None:
            table = self._of_value[kind, field] = {}
            for position in self.of_kind(kind):
                table.setdefault(self.facts[position].get(field), []).append(position)
        return table.get(value, ())


def evaluate(rules: Iterable[Rule], facts: Sequence[Fact]) -> set[tuple[str, Bound]]:
    """Every (rule id, facts bound by its positive antecedents) for which a rule holds over `facts`."""
    index = Index(facts)
    return {(rule.id, bound) for rule in rules for bound in matches(rule, index)}


def matches(rule: Rule, index: Index) -> Iterator[Bound]:
    """The bindings under which `rule` holds; the same one may come twice, by two alternatives."""
    for bound in _solve(rule, rule.all, {}, index):
        if not rule.any:
            yield tuple(bound.items())
        for alternative in rule.any:
            for extended in _solve(rule, alternative, bound, index):
                yield tuple(extended.items())


def _solve(rule: Rule, clauses: Sequence[Clause], bound: dict[str, int], index: Index) -> Iterator[dict[str, int]]:
    if not clauses:
        yield bound
        return
    clause, rest = clauses[0], clauses[1:]
    found = _fitting(rule, clause.pattern, bound, index)
    if clause.name is None:
        if next(found, None) is None:
            yield from _solve(rule, rest, bound, index)
        return
    for position in found:
        yield from _solve(rule, rest, {**bound, clause.name: position}, index)


def _fitting(rule: Rule, pattern: Pattern, bound: Mapping[str, int], index: Index) -> Iterator[int]:
    """Positions of the facts that fit `pattern`, given the facts bound so far."""
    wanted = [(test, _right(rule, test, bound, index)) for test in pattern.tests]
    positions = index.of_kind(pattern.kind)
    for test, right in wanted:
        if test.operator is Operator.EQUAL and isinstance(test.right, Reference):
            positions = index.of_value(pattern.kind, test.field, right[0]) if right else ()
            break
    for position in positions:
        fact = index.facts[position]
        if all(_holds(test.operator, fact.get(test.field), right) for test, right in wanted):
            yield position


def _right(rule: Rule, test: Test, bound: Mapping[str, int], index: Index) -> tuple[Scalar, ...]:
    """The values on the right side; none where the field referred to is absent."""
    if test.right is None:
        return ()
    if isinstance(test.right, ParamReference):
        return rule.params[test.right.name].values
    if isinstance(test.right, Reference):
        value = index.facts[bound[test.right.name]].get(test.right.field)
        return () if value is None else (value,)
    return test.right


def _holds(op: Operator, left: Scalar | None, right: tuple[Scalar, ...]) -> bool:
    if op is Operator.ABSENT:
        return left is None
    if op is Operator.PRESENT:
        return left is not None
    if left is None or not right:
        return False
    if op is Operator.EQUAL:
        return left in right
    if op is Operator.UNEQUAL:
        return left not in right
    return bool(_COMPARE[op](left, right[0]))
