"""Reading the `when` of a rule: antecedents, `absent`, alternatives, and the tests on their fields.

Vocabulary: a *scope* maps the names of the antecedents bound so far to their kinds. A test may look back in its scope,
never forward, so every rule can be evaluated from left to right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ..facts.fact import Kind, Scalar, unit_of
from .reading import Reader, below, listed, near, spelled, unit_name
from .rule import Clause, Operator, ParamReference, Pattern, Reference, Test

Scope = Mapping[str, Kind]

NAME = re.compile(r"[a-z][a-z0-9_]*")
_COMPARISON = re.compile(r"(!=|<=|>=|=|<|>)\s*(.*)", re.DOTALL)
_NUMBER = re.compile(r"[+-]?[0-9]{1,30}")
_DOTTED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\.([A-Za-z_][A-Za-z0-9_]*)")
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_ORDERED = (Operator.LESS, Operator.AT_MOST, Operator.GREATER, Operator.AT_LEAST)
_RESERVED = ("absent", "params", "all", "any")


class ClauseReader:
    """Reads the clauses of one rule and keeps where its parameters are used."""

    def __init__(self, reader: Reader, params: Mapping[str, object]) -> None:
        self._read = reader
        self._params = params
        #: For each parameter, the (kind, field) pairs it meets, with the pointer of each use.
        self.uses: dict[str, dict[tuple[str, str], str]] = {name: {} for name in params}

    def clauses(self, items: object, pointer: str, scope: dict[str, Kind]) -> tuple[Clause, ...]:
        """The clauses of a list; `scope` gains the names that they bind."""
        found = []
        for position, item in enumerate(self._read.sequence(items, pointer, "a list of clauses")):
            found.append(self._clause(item, below(pointer, position), scope))
        return tuple(found)

    def alternative(self, item: object, pointer: str, scope: dict[str, Kind]) -> tuple[Clause, ...]:
        """One alternative of `any`: a list of clauses, or a mapping whose only key is `all`."""
        if isinstance(item, dict):
            self._read.keys(item, pointer, "an alternative", ("all",), ())
            return self.clauses(item["all"], below(pointer, "all"), scope)
        return self.clauses(item, pointer, scope)

    def param(self, name: str, kind: str, field: str, pointer: str) -> ParamReference:
        """A use of the parameter `name` with a field of `kind`; `kind` may be "" where it is only shown."""
        if name not in self._params:
            self._read.fail(
                f"the rule has no parameter '{name}'{near(name, self._params)}",
                pointer,
                f"its parameters are {listed(self._params)}; add it under `params`",
            )
        if kind:
            self.uses[name].setdefault((kind, field), pointer)
        else:
            self.uses[name].setdefault(("", ""), pointer)
        return ParamReference(name)

    def is_many(self, name: str) -> bool:
        """Whether the parameter was written as a list."""
        raw = self._params[name]
        return isinstance(raw.get("value") if isinstance(raw, dict) else raw, list)

    def _clause(self, item: object, pointer: str, scope: dict[str, Kind]) -> Clause:
        clause = self._read.mapping(item, pointer, "a clause")
        if len(clause) != 1:
            self._read.fail(
                f"a clause has one key, its name, and this one has {len(clause)}: {listed(clause)}",
                pointer,
                "write one clause a line: `- NAME: {kind: ..., field: test}`",
            )
        name, body = next(iter(clause.items()))
        at = below(pointer, name)
        if name == "absent":
            return Clause(None, self._pattern(body, at, scope)[0])
        if not NAME.fullmatch(name) or name in _RESERVED:
            self._read.fail(
                f"'{name}' cannot name an antecedent",
                at,
                f"use small letters, digits and _, and none of {', '.join(_RESERVED)}",
                key=True,
            )
        if name in scope:
            self._read.fail(f"two antecedents are called '{name}'", at, "give each antecedent its own name", key=True)
        pattern, scope[name] = self._pattern(body, at, scope)
        return Clause(name, pattern)

    def _pattern(self, body: object, pointer: str, scope: Scope) -> tuple[Pattern, Kind]:
        fields = self._read.mapping(body, pointer, "a pattern")
        if "kind" not in fields:
            self._read.fail("a pattern needs the key 'kind'", pointer, f"the kinds are {listed(self._read.kinds)}")
        kind = self._read.kind(fields["kind"], below(pointer, "kind"))
        tests = tuple(
            self._test(value, kind, name, below(pointer, name), scope) for name, value in fields.items() if name != "kind"
        )
        return Pattern(kind.name, tests), kind

    def _test(self, value: object, kind: Kind, field: str, pointer: str, scope: Scope) -> Test:
        read = self._read
        read.field(kind, field, pointer, key=True)
        if isinstance(value, list):
            values = tuple(
                read.constant(item, kind, field, below(pointer, i))
                for i, item in enumerate(read.sequence(value, pointer, f"the values of {kind.name}.{field}"))
            )
            if len(set(values)) < len(values):
                read.fail(f"the values of {kind.name}.{field} repeat", pointer, "name each value once")
            return Test(field, Operator.EQUAL, values)
        if value in ("present", "absent"):
            if field == "path" or not kind.fields[field].optional:
                read.fail(
                    f"every '{kind.name}' has the field '{field}', so testing for '{value}' says nothing",
                    pointer,
                    f"test its value; to compare with the text '{value}' write [{value}]",
                )
            return Test(field, Operator(value))
        if isinstance(value, str) and (match := _COMPARISON.fullmatch(value.strip())):
            return self._comparison(Operator(match[1]), match[2].strip(), kind, field, pointer, scope)
        self.refuse_bare(value, pointer, scope)
        return Test(field, Operator.EQUAL, (read.constant(value, kind, field, pointer),))

    def _comparison(self, op: Operator, right: str, kind: Kind, field: str, pointer: str, scope: Scope) -> Test:
        read, label = self._read, f"{kind.name}.{field}"
        declared = read.field(kind, field, pointer)
        if op in _ORDERED and declared.type is str:
            read.fail(f"{label} is a text, which '{op.value}' cannot order", pointer, "use = or !=, or list the values")
        if not right:
            read.fail(
                f"nothing stands right of '{op.value}'",
                pointer,
                "write a number, params.NAME or NAME.field; a text that begins with an operator goes in [ ]",
            )
        if match := _DOTTED.fullmatch(right):
            if match[1] == "params":
                if (
                    op is not Operator.EQUAL
                    and op is not Operator.UNEQUAL
                    and match[2] in self._params
                    and self.is_many(match[2])
                ):
                    read.fail(f"'{op.value}' takes one value, and params.{match[2]} is a list", pointer, "use = or !=")
                return Test(field, op, self.param(match[2], kind.name, field, pointer))
            return Test(field, op, self.reference(match[1], match[2], kind, field, pointer, scope))
        return Test(field, op, (self._literal(right, kind, field, pointer),))

    def reference(self, name: str, other: str, kind: Kind, field: str, pointer: str, scope: Scope) -> Reference:
        """`name.other`, checked to be of the type and the unit of `field` in `kind`."""
        read = self._read
        if name not in scope:
            read.fail(
                f"no earlier antecedent is called '{name}'{near(name, scope)}",
                pointer,
                f"the antecedents before this one are {listed(scope)}; a text with a dot goes in quotes: \"= 'a.b'\"",
            )
        found, declared = read.field(scope[name], other, pointer), read.field(kind, field, pointer)
        mine, theirs = f"{kind.name}.{field}", f"{scope[name].name}.{other}"
        if found.type is not declared.type:
            words = {int: "a whole number", str: "a text"}
            read.fail(
                f"{mine} is {words[declared.type]} and {theirs} is {words[found.type]}",
                pointer,
                "compare fields of one type",
            )
        if found.type is int and unit_of(field) != unit_of(other):
            read.fail(
                f"{mine} is in {unit_name(unit_of(field))} and {theirs} in {unit_name(unit_of(other))}",
                pointer,
                "compare fields of one unit",
            )
        if found.one_of and declared.one_of and not set(found.one_of) & set(declared.one_of):
            read.fail(f"{mine} and {theirs} have no value in common", pointer, "compare fields that can be equal")
        return Reference(name, other)

    def refuse_bare(self, value: object, pointer: str, scope: Iterable[str]) -> None:
        """Refuse a text that is surely meant as a reference, but lacks its `=`."""
        match = _DOTTED.fullmatch(value.strip()) if isinstance(value, str) else None
        if match and (match[1] == "params" or match[1] in scope):
            self._read.fail(
                f"{spelled(value)} is a text here, not the value of {match[1]}",
                pointer,
                f'write "= {value}" for the value, or [{value}] for the text',
            )

    def _literal(self, right: str, kind: Kind, field: str, pointer: str) -> Scalar:
        if self._read.field(kind, field, pointer).type is int:
            if not _NUMBER.fullmatch(right):
                self._read.fail(
                    f"{kind.name}.{field} is compared with {spelled(right)}",
                    pointer,
                    "right of an operator stands a whole number in the field's own unit, params.NAME or NAME.field; "
                    "a quantity goes under `params`, with its source",
                )
            return self._read.constant(int(right), kind, field, pointer)
        quoted = _QUOTED.fullmatch(right)
        literal = right if quoted is None else quoted[1] if quoted[1] is not None else quoted[2]
        if quoted is None and "." in literal:
            self._read.fail(
                f"{spelled(literal)} is neither params.NAME nor NAME.field",
                pointer,
                "a text with a dot goes in quotes: \"= 'a.b'\"",
            )
        return self._read.constant(literal, kind, field, pointer)
