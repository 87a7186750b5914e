"""From the text of a rule file to a Rule, or to a RuleError that names the line, what was expected and what would do.

This is the only reader of rule files. It knows kinds of fact only through the registry that it is given.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence

from ..document import parse_document
from ..errors import InputError, InternalFault, RuleError
from ..facts.fact import Fact, Kind, Scalar, make, unit_of
from ..plan.frameworks import FRAMEWORKS
from ..quantity import Grade, Provenance
from .clauses import ClauseReader
from .compiler import TooLarge, compile_rule
from .forms import check_bound, read_form
from .params import ParamError, values_of, written
from .reading import Reader, below, listed, near, spelled, unit_name
from .rule import (
    CLOSED,
    Clause,
    Conclusion,
    Example,
    Form,
    Param,
    ParamReference,
    Phase,
    Reference,
    Rule,
    Severity,
    Source,
    Status,
)

_ID = re.compile(r"[A-Z]{3}[0-9]{3}")
_SLUG = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
_BRIEF = re.compile(r"B[0-9]+")
_RIGHT = re.compile(r"=\s*([A-Za-z_][A-Za-z0-9_]*)\.([A-Za-z_][A-Za-z0-9_]*)\s*")
_REQUIRED = ("id", "title", "severity", "phase", "when", "message", "remedy", "source", "examples")
_OPTIONAL = ("status", "framework", "params", "counter", "concludes", "at")
_SOURCES = ("brief", "url", "paper", "framework", "report")

Bound = Mapping[str, Sequence[Kind]]


def load_rule(text: str | bytes, name: str, kinds: Mapping[str, Kind]) -> Rule:
    """The rule in `text`, the content of the file `name`. Raises RuleError for anything that is wrong with it."""
    try:
        document = parse_document(text.encode() if isinstance(text, str) else text, name)
    except InputError as error:
        raise RuleError(error.message, place=error.place, remedy=error.remedy) from error
    return _RuleReader(Reader(document, kinds)).rule()


class _RuleReader:
    def __init__(self, reader: Reader) -> None:
        self.read = reader
        self.data = reader.mapping(reader.document.data, "", "a rule file")
        reader.keys(self.data, "", "a rule", _REQUIRED, _OPTIONAL)
        self.raw_params = reader.mapping(self.data.get("params", {}), "/params", "params")
        for name in self.raw_params:
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
                reader.fail(
                    f"'{name}' cannot name a parameter",
                    below("/params", name),
                    "use small letters, digits and _",
                    key=True,
                )
        self.clauses = ClauseReader(reader, self.raw_params)

    def rule(self) -> Rule:
        read, data = self.read, self.data
        rule_id = read.text(data["id"], "/id", "id")
        if not _ID.fullmatch(rule_id):
            read.fail(f"'{rule_id}' is no rule id", "/id", "three capital letters and three digits, as in MAP004")
        severity = read.one_of(Severity, data["severity"], "/severity", "severity")
        all_, any_, bound = self._when()
        concludes = self._concludes(bound)
        if severity is Severity.ERROR and all(conclusion.kind != CLOSED for conclusion in concludes):
            read.fail(
                f"{rule_id} is an error that closes nothing",
                "/severity",
                "conclude a fact of kind `closed` for the capability that cannot be had, or make it a warning",
            )
        fires, silent = self._examples()
        rule = Rule(
            id=rule_id,
            title=read.text(data["title"], "/title", "title"),
            severity=severity,
            declared=severity,
            phase=read.one_of(Phase, data["phase"], "/phase", "phase"),
            status=read.one_of(Status, data.get("status", "stable"), "/status", "status"),
            counter=self._counter(),
            all=all_,
            any=any_,
            concludes=concludes,
            at=self._at(bound),
            message=self._form("message", bound),
            remedy=self._form("remedy", bound),
            source=self._sources(),
            fires=fires,
            silent=silent,
            params=self._params(),
            frameworks=self._frameworks(),
            file=read.document.name,
            digest=hashlib.sha256(json.dumps(data, sort_keys=True, ensure_ascii=False).encode()).hexdigest(),
        )
        try:
            compile_rule(rule, read.kinds)
        except TooLarge as error:
            read.fail(str(error), "/when", "split the rule in two, or derive a fact that says the same")
        return rule

    def _when(self) -> tuple[tuple[Clause, ...], tuple[tuple[Clause, ...], ...], Bound]:
        """The clauses of `all`, the alternatives of `any`, and the kinds of each name that is bound in every case."""
        when = self.read.mapping(self.data["when"], "/when", "when")
        self.read.keys(when, "/when", "when", (), ("all", "any"))
        if not when:
            self.read.fail("when says nothing", "/when", "give it `all:` or `any:` with at least one clause")
        scope: dict[str, Kind] = {}
        all_ = self.clauses.clauses(when["all"], "/when/all", scope) if "all" in when else ()
        alternatives, scopes = [], []
        for position, item in enumerate(self.read.sequence(when.get("any", []), "/when/any", "any", empty="any" not in when)):
            extended = dict(scope)
            alternatives.append(self.clauses.alternative(item, below("/when/any", position), extended))
            scopes.append(extended)
        if len(alternatives) == 1:
            self.read.fail("any has one alternative only", "/when/any", "move its clauses to `all`")
        every = set.intersection(*map(set, scopes)) if scopes else set(scope)
        return all_, tuple(alternatives), {name: [known[name] for known in scopes or [scope]] for name in sorted(every)}

    def _params(self) -> dict[str, Param]:
        """The parameters, after everything that uses them has been read."""
        found = {}
        for name, raw in self.raw_params.items():
            pointer, provenance = below("/params", name), None
            met = self.clauses.uses[name]
            if not met:
                self.read.fail(f"nothing uses the parameter '{name}'", pointer, "use it in `when`, or remove it", key=True)
            if isinstance(raw, dict):
                provenance = self._provenance(raw, pointer)
                raw, pointer = raw["value"], below(pointer, "value")
            uses = tuple(use for use in met if use[0])
            try:
                values = values_of(name, raw, uses, self.read.kinds)
            except ParamError as error:
                self.read.fail(error.message, pointer, error.remedy)
            found[name] = Param(name, values, written(raw), isinstance(raw, list), provenance, uses)
        return found

    def _provenance(self, raw: dict[str, object], pointer: str) -> Provenance:
        self.read.keys(raw, pointer, "a parameter", ("value",), ("grade", "source", "file", "date"))
        texts = {key: self.read.text(raw[key], below(pointer, key), key) for key in ("source", "file", "date") if key in raw}
        grade = self.read.one_of(Grade, raw.get("grade", "assumed"), below(pointer, "grade"), "grade")
        return Provenance(grade, texts.get("source", ""), texts.get("file"), date=texts.get("date"))

    def _frameworks(self) -> tuple[str, ...]:
        """The frameworks that the rule holds for: one name, or a list of them."""
        raw = self.data.get("framework", [])
        names = self.read.sequence(raw if isinstance(raw, list) else [raw], "/framework", "framework", empty=True)
        for position, name in enumerate(names):
            if name not in FRAMEWORKS:
                hint = near(name, FRAMEWORKS) if isinstance(name, str) else ""
                pointer = below("/framework", position) if isinstance(raw, list) else "/framework"
                self.read.fail(f"no framework is called {spelled(name)}{hint}", pointer, f"they are {listed(FRAMEWORKS)}")
        return tuple(dict.fromkeys(str(name) for name in names))

    def _counter(self) -> bool | str:
        counter = self.data.get("counter", False)
        if not isinstance(counter, bool) and not (isinstance(counter, str) and _SLUG.fullmatch(counter)):
            remedy = "write true, false, or the slug of the counter-signal"
            self.read.fail(f"counter is {spelled(counter)}", "/counter", remedy)
        return counter

    def _at(self, bound: Bound) -> str | Reference | None:
        if "at" not in self.data:
            return None
        return self._pointer(self.data["at"], "/at", bound)

    def _pointer(self, value: object, pointer: str, bound: Bound) -> str | Reference:
        """A literal JSON pointer, `NAME` for the path of its fact, or `NAME.field` for a field that holds a pointer."""
        text = self.read.text(value, pointer, "a place")
        if text.startswith("/"):
            return text
        name, dot, field = text.removeprefix("=").strip().partition(".")
        check_bound(name, pointer, self.read, bound)
        for kind in bound[name]:
            if dot and self.read.field(kind, field, pointer).type is not str:
                self.read.fail(
                    f"{kind.name}.{field} is a number, and holds no place", pointer, "name a field that holds a pointer"
                )
        return Reference(name, field if dot else "path")

    def _form(self, key: str, bound: Bound) -> Form:
        text = self.read.text(self.data[key], f"/{key}", key)
        return read_form(text, f"/{key}", self.read, self.clauses, bound)

    def _concludes(self, bound: Bound) -> tuple[Conclusion, ...]:
        items = self.read.sequence(self.data.get("concludes", []), "/concludes", "concludes", empty="concludes" not in self.data)
        return tuple(self._conclusion(item, below("/concludes", i), bound) for i, item in enumerate(items))

    def _conclusion(self, item: object, pointer: str, bound: Bound) -> Conclusion:
        read = self.read
        fields = read.mapping(item, pointer, "a conclusion")
        if "kind" not in fields:
            read.fail("a conclusion needs the key 'kind'", pointer, f"the kinds are {', '.join(sorted(read.kinds))}")
        kind = read.kind(fields["kind"], below(pointer, "kind"))
        path = self._pointer(fields["path"], below(pointer, "path"), bound) if "path" in fields else None
        values = []
        for name, value in fields.items():
            if name in ("kind", "path"):
                continue
            at = below(pointer, name)
            read.field(kind, name, at, key=True)
            values.append((name, self._value(value, kind, name, at, bound)))
        missing = [name for name, field in kind.fields.items() if not field.optional and name not in fields]
        if missing:
            read.fail(f"a fact of kind '{kind.name}' needs {', '.join(missing)}", pointer, "add the missing fields")
        return Conclusion(kind.name, path, tuple(values))

    def _value(self, value: object, kind: Kind, name: str, pointer: str, bound: Bound) -> Scalar | Reference | ParamReference:
        match = _RIGHT.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            self.clauses.refuse_bare(value, pointer, bound)
            if isinstance(value, str) and value.startswith("="):
                remedy = "write = NAME.field or = params.NAME"
                self.read.fail(f"{spelled(value)} refers to nothing that can be copied", pointer, remedy)
            return self.read.constant(value, kind, name, pointer)
        if match[1] == "params":
            found = self.clauses.param(match[2], kind.name, name, pointer)
            if self.clauses.is_many(match[2]):
                self.read.fail(f"params.{match[2]} is a list, and a field holds one value", pointer, "give a single value")
            return found
        check_bound(match[1], pointer, self.read, bound)
        for source in bound[match[1]]:
            self._check_copy(source, match[2], kind, name, pointer)
        return Reference(match[1], match[2])

    def _check_copy(self, source: Kind, field: str, kind: Kind, name: str, pointer: str) -> None:
        given, taken = self.read.field(source, field, pointer), kind.fields[name]
        mine, theirs = f"{kind.name}.{name}", f"{source.name}.{field}"
        if given.type is not taken.type or (given.type is int and unit_of(field) != unit_of(name)):
            units = f"{unit_name(unit_of(name))} and {unit_name(unit_of(field))}"
            self.read.fail(
                f"{theirs} cannot become {mine}: types or units differ ({units})",
                pointer,
                "copy a field of the same kind of value",
            )
        if taken.one_of and not set(given.one_of or (None,)) <= set(taken.one_of):
            self.read.fail(f"{theirs} may hold values that {mine} cannot", pointer, f"its values are {', '.join(taken.one_of)}")
        if given.optional and not taken.optional:
            self.read.fail(f"{theirs} may be absent, and {mine} may not", pointer, "copy a field that is always there")

    def _sources(self) -> tuple[Source, ...]:
        found = []
        for i, item in enumerate(self.read.sequence(self.data["source"], "/source", "source")):
            pointer = below("/source", i)
            entry = self.read.mapping(item, pointer, "a source")
            self.read.keys(entry, pointer, "a source", (), (*_SOURCES, "version", "why"))
            named = [key for key in _SOURCES if key in entry]
            if len(named) != 1:
                self.read.fail(f"a source names {len(named)} origins", pointer, f"name exactly one of {', '.join(_SOURCES)}")
            texts = {key: self.read.text(value, below(pointer, key), key) for key, value in entry.items()}
            at, value = below(pointer, named[0]), texts[named[0]]
            if named[0] == "brief" and not _BRIEF.fullmatch(value):
                self.read.fail(f"'{value}' is no sentence of the brief", at, "write B and its number, as in B23")
            if named[0] == "url" and not re.fullmatch(r"https?://\S+", value):
                self.read.fail(f"'{value}' is no web address", at, "begin it with https://")
            if "version" in texts and named[0] != "framework":
                self.read.fail("only a framework has a version", below(pointer, "version"), "remove it, or name the framework")
            found.append(Source(named[0], value, texts.get("version"), texts.get("why")))
        return tuple(found)

    def _examples(self) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
        examples = self.read.mapping(self.data["examples"], "/examples", "examples")
        self.read.keys(examples, "/examples", "examples", ("fires", "silent"), ())
        fires, silent = (
            tuple(
                self._example(item, below("/examples", key, i))
                for i, item in enumerate(self.read.sequence(examples[key], below("/examples", key), key))
            )
            for key in ("fires", "silent")
        )
        return fires, silent

    def _example(self, item: object, pointer: str) -> Example:
        read = self.read
        example = read.mapping(item, pointer, "an example")
        read.keys(example, pointer, "an example", ("base",), ("patch", "facts", "note"))
        patch = read.mapping(example.get("patch", {}), below(pointer, "patch"), "patch")
        for target in patch:
            if not target.startswith("/"):
                read.fail(
                    f"'{target}' is no JSON pointer",
                    below(pointer, "patch", target),
                    "write it as in /workload/sequence_length",
                    key=True,
                )
        facts = tuple(
            self._fact(fact, below(pointer, "facts", i))
            for i, fact in enumerate(read.sequence(example.get("facts", []), below(pointer, "facts"), "facts", empty=True))
        )
        note = read.text(example["note"], below(pointer, "note"), "note") if "note" in example else None
        return Example(read.text(example["base"], below(pointer, "base"), "base"), tuple(patch.items()), facts, note)

    def _fact(self, item: object, pointer: str) -> Fact:
        read = self.read
        fields = read.mapping(item, pointer, "a fact")
        kind = read.kind(fields.get("kind"), below(pointer, "kind"))
        path = fields.get("path", "")
        if not isinstance(path, str) or (path and not path.startswith("/")):
            read.fail(f"the path {spelled(path)} is no JSON pointer", below(pointer, "path"), "begin it with /")
        values: dict[str, Scalar] = {}
        for name, value in fields.items():
            if name not in ("kind", "path"):
                read.field(kind, name, below(pointer, name), key=True)
                values[name] = read.constant(value, kind, name, below(pointer, name))
        try:
            return make(read.kinds, kind.name, path, **values)
        except InternalFault as error:
            read.fail(error.message, pointer, f"a '{kind.name}' needs its required fields")
