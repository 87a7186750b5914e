"""Random kinds, rules and facts for comparing the evaluators: few values, so that joins meet, and awkward ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from planproof.facts.fact import INT64, Fact, Field, Kind, Scalar, declare, make
from planproof.inference.rule import (
    Clause,
    Operator,
    Param,
    ParamReference,
    Pattern,
    Phase,
    Reference,
    Rule,
    Severity,
    Status,
    Test,
)

# Field names that are words of the engine, or names that the compiler itself gives, are among them on purpose.
NUMBERS = ("v", "m", "count", "a0", "size_bytes")
TEXTS = ("s", "all", "x", "n0$not")
ENUM = ("p", "q", "r")
INTS = (0, 0, 1, 1, 2, 2, 3, -1, 7, 2**53 + 1, 2**53, 2**62, INT64, -INT64)
STRINGS = (
    "",
    "p",
    "q",
    "p",
    "q",
    "8",
    "1e5",
    "true",
    "null",
    "ü",
    'a"b',
    "a'b",
    "a\\b",
    "{",
    "a\nb",
    "go",
    "\ud800",
    "-1",
)
ORDERED = (Operator.LESS, Operator.AT_MOST, Operator.GREATER, Operator.AT_LEAST)
PATHS = ("", "/a", "/b/0")


@dataclass(frozen=True)
class Case:
    """Kinds, rules over them, and several independent sets of facts."""

    kinds: Mapping[str, Kind]
    rules: tuple[Rule, ...]
    fact_sets: tuple[tuple[Fact, ...], ...]


def random_case(random: Random, rules: int = 6, fact_sets: int = 4, most_facts: int = 12) -> Case:
    kinds = _kinds(random)
    return Case(
        kinds,
        tuple(_rule(random, kinds, number) for number in range(random.randint(1, rules))),
        tuple(_facts(random, kinds, most_facts) for _ in range(random.randint(1, fact_sets))),
    )


def _kinds(random: Random) -> Mapping[str, Kind]:
    found = []
    for name in ("one", "two", "three"):
        fields = {field: Field(int, "", random.random() < 0.5) for field in NUMBERS if random.random() < 0.6}
        fields |= {field: Field(str, "", random.random() < 0.5) for field in TEXTS if random.random() < 0.6}
        fields["e"] = Field(str, "", random.random() < 0.5, ENUM)
        found.append(Kind(name, "", fields))
    return declare(*found)


def _facts(random: Random, kinds: Mapping[str, Kind], most: int) -> tuple[Fact, ...]:
    found: dict[object, Fact] = {}
    for _ in range(random.randint(0, most)):
        kind = random.choice(list(kinds.values()))
        values: dict[str, Scalar] = {
            name: _constant(random, field) for name, field in kind.fields.items() if not field.optional or random.random() < 0.6
        }
        fact = make(kinds, kind.name, random.choice(PATHS), **values)
        found[fact.key] = fact
    return tuple(found.values())


def _constant(random: Random, field: Field) -> Scalar:
    if field.one_of:
        return random.choice(field.one_of)
    return random.choice(INTS) if field.type is int else random.choice(STRINGS)


def _distinct(random: Random, field: Field, most: int) -> tuple[Scalar, ...]:
    return tuple(dict.fromkeys(_constant(random, field) for _ in range(random.randint(1, most))))


def _rule(random: Random, kinds: Mapping[str, Kind], number: int) -> Rule:
    params: dict[str, Param] = {}
    scope: dict[str, Kind] = {}
    alternatives: list[tuple[Clause, ...]] = []
    every = _clauses(random, kinds, scope, params, random.randint(0, 3))
    if not every or random.random() < 0.35:
        for _ in range(random.randint(2, 3)):
            alternatives.append(_clauses(random, kinds, dict(scope), params, random.randint(1, 2)))
    return Rule(
        id=f"RND{number:03}",
        title="random",
        severity=Severity.WARNING,
        declared=Severity.WARNING,
        phase=Phase.SHAPE,
        status=Status.STABLE,
        params=params,
        counter=False,
        all=every,
        any=tuple(alternatives),
        concludes=(),
        at=None,
        message=(),
        remedy=(),
        source=(),
        fires=(),
        silent=(),
        file="random.yaml",
    )


def _clauses(
    random: Random, kinds: Mapping[str, Kind], scope: dict[str, Kind], params: dict[str, Param], count: int
) -> tuple[Clause, ...]:
    found = []
    for _ in range(count):
        kind = random.choice(list(kinds.values()))
        name = None if random.random() < 0.3 else random.choice(["a", "b", "m", "go", "sid"]) + str(len(scope))
        tests = tuple(_test(random, kind, scope, params) for _ in range(random.choice([0, 1, 1, 2, 2, 3])))
        found.append(Clause(name, Pattern(kind.name, tests)))
        if name is not None:
            scope[name] = kind
    return tuple(found)


def _test(random: Random, kind: Kind, scope: Mapping[str, Kind], params: dict[str, Param]) -> Test:
    fields = dict(kind.fields) | {"path": Field(str, "")}
    name = random.choice(list(fields))
    field = fields[name]
    which = random.random()
    if which < 0.15 and field.optional:
        return Test(name, random.choice([Operator.PRESENT, Operator.ABSENT]))
    equality = (Operator.EQUAL, Operator.EQUAL, Operator.UNEQUAL)
    operators = equality + ORDERED if field.type is int else equality
    if which < 0.65 and scope:
        others = [
            Reference(other, theirs)
            for other, of in scope.items()
            for theirs, declared in (dict(of.fields) | {"path": Field(str, ""), "kind": Field(str, "")}).items()
            if declared.type is field.type
        ]
        if others:
            return Test(name, random.choice(operators), random.choice(others))
    if which < 0.8:
        op = random.choice(operators)
        values = _distinct(random, field, 3 if op in equality else 1)
        param = f"p{len(params)}"
        params[param] = Param(param, values, "", len(values) > 1, None, ((kind.name, name),))
        return Test(name, op, ParamReference(param))
    op = random.choice(operators)
    return Test(name, op, _distinct(random, field, 3 if op is Operator.EQUAL else 1))
