"""The shipped rules in one file, so that a command that starts often need not parse a YAML file for each rule.

`python -m planproof.inference` writes `compiled.json` beside the rules; a test fails where it is stale. It
holds what the loader made of each file and the size of each file; where a file has come, gone, changed its size or is
clearly newer, the rules are read from their files instead, so an edited rule counts at once.

A row is read when its rule is asked for: its first line says of each rule what is needed to know whether it will be. So
the rules of a framework cost next to nothing where that is not named.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, overload

from ..facts.fact import Fact
from ..quantity import Grade, Provenance
from .rule import (
    Clause,
    Conclusion,
    Example,
    Form,
    Operator,
    Param,
    ParamReference,
    Pattern,
    Phase,
    Reference,
    Rule,
    Severity,
    Source,
    Status,
    Test,
)

NAME = "compiled.json"
_FORMAT = 3
#: Seconds by which an installer may unpack a rule after the compiled file without being taken for an edit.
_SLACK = 10.0


def compiled_text(rules: Iterable[Rule], sizes: Mapping[str, int]) -> str:
    """The content of the compiled file: the rules as loaded, in order, one a line, and the sizes of their files."""
    known = list(rules)
    rows = ",\n".join(json.dumps(_encoded(rule), ensure_ascii=False, separators=(",", ":")) for rule in known)
    heads = json.dumps([[rule.id, rule.phase.value, rule.status.value, list(rule.frameworks)] for rule in known])
    sized = json.dumps(dict(sorted(sizes.items())))
    return f'{{"format":{_FORMAT},"sizes":{sized},"heads":{heads},"rules":[\n{rows}\n]}}\n'


class Head(NamedTuple):
    """What must be known of a rule before it is read: its id, its phase, whether it is in force, and its frameworks."""

    id: str
    phase: Phase
    active: bool
    frameworks: tuple[str, ...]


class Shelf(Sequence[Rule]):
    """Rules in order, each read from its row when it is asked for."""

    def __init__(self, heads: Sequence[Head], rows: Sequence[str]) -> None:
        self.heads = tuple(heads)
        self._rows = rows
        self._read: dict[int, Rule] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.heads)

    @overload
    def __getitem__(self, index: int) -> Rule: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Rule, ...]: ...
    def __getitem__(self, index: int | slice) -> Rule | tuple[Rule, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        position = range(len(self))[index]
        found = self._read.get(position)
        if found is None:
            found = self._read[position] = _decoded(json.loads(self._rows[position].removesuffix(",")))
        return found


def read_compiled(text: str, sizes: Mapping[str, int]) -> Shelf | None:
    """The rules of a compiled file; None where it was made of other files or by another version."""
    first, *rows = text.split("\n")
    header = json.loads(first + "]}")
    if header["format"] != _FORMAT or header["sizes"] != sizes:
        return None
    heads = [
        Head(rule_id, Phase(phase), status != Status.DEPRECATED.value, tuple(frameworks))
        for rule_id, phase, status, frameworks in header["heads"]
    ]
    return Shelf(heads, rows[: len(heads)])


def sizes_of(root: Path, phases: Iterable[str]) -> tuple[dict[str, int], float]:
    """The size of every rule file below `root`, by its name there, and when the newest was changed."""
    sizes, newest = {}, 0.0
    for phase in phases:
        folder = root / phase
        for entry in os.scandir(folder) if folder.is_dir() else ():
            if entry.name.endswith(".yaml"):
                status = entry.stat()
                sizes[f"{phase}/{entry.name}"] = status.st_size
                newest = max(newest, status.st_mtime)
    return sizes, newest


def fresh(root: Path, phases: Iterable[str]) -> Shelf | None:
    """The rules of the compiled file in `root`; None where there is none or it is not of the files beside it."""
    path = root / NAME
    if not path.is_file():
        return None
    sizes, newest = sizes_of(root, phases)
    if newest > path.stat().st_mtime + _SLACK:
        return None
    return read_compiled(path.read_text(encoding="utf-8"), sizes)


def _right(value: object) -> Any:
    if isinstance(value, Reference):
        return {"name": value.name, "field": value.field}
    if isinstance(value, ParamReference):
        return {"param": value.name}
    return list(value) if isinstance(value, tuple) else value


def _encoded(rule: Rule) -> dict[str, Any]:
    def clause(one: Clause) -> list[Any]:
        tests = [[test.field, test.operator.value, _right(test.right)] for test in one.pattern.tests]
        return [one.name, one.pattern.kind, tests]

    def example(one: Example) -> list[Any]:
        facts = [[fact.kind, fact.path, dict(fact.values)] for fact in one.facts]
        return [one.base, dict(one.patch), facts, one.note]

    def param(one: Param) -> list[Any]:
        origin = one.provenance
        known = [origin.grade.value, origin.source, origin.file, origin.date] if origin is not None else None
        return [one.name, list(one.values), one.written, one.many, known, [list(use) for use in one.uses]]

    return {
        "id": rule.id,
        "title": rule.title,
        "severity": rule.declared.value,
        "phase": rule.phase.value,
        "status": rule.status.value,
        "framework": list(rule.frameworks),
        "params": [param(one) for one in rule.params.values()],
        "counter": rule.counter,
        "all": [clause(one) for one in rule.all],
        "any": [[clause(one) for one in alternative] for alternative in rule.any],
        "concludes": [
            [one.kind, _right(one.path), [[name, _right(value)] for name, value in one.values]] for one in rule.concludes
        ],
        "at": _right(rule.at),
        "message": [_right(part) for part in rule.message],
        "remedy": [_right(part) for part in rule.remedy],
        "source": [[one.kind, one.value, one.version, one.why] for one in rule.source],
        "fires": [example(one) for one in rule.fires],
        "silent": [example(one) for one in rule.silent],
        "file": rule.file,
        "digest": rule.digest,
    }


def _left(value: Any) -> Any:
    """What `_right` encoded."""
    if isinstance(value, dict):
        return ParamReference(value["param"]) if "param" in value else Reference(value["name"], value["field"])
    return tuple(value) if isinstance(value, list) else value


def _clauses(rows: list[Any]) -> tuple[Clause, ...]:
    return tuple(
        Clause(name, Pattern(kind, tuple(Test(field, Operator(op), _left(right)) for field, op, right in tests)))
        for name, kind, tests in rows
    )


def _examples(rows: list[Any]) -> tuple[Example, ...]:
    return tuple(
        Example(
            base,
            tuple(patch.items()),
            tuple(Fact(kind, path, MappingProxyType(values)) for kind, path, values in facts),
            note,
        )
        for base, patch, facts, note in rows
    )


def _param(row: list[Any]) -> Param:
    name, values, text, many, known, uses = row
    origin = Provenance(Grade(known[0]), known[1], known[2], date=known[3]) if known is not None else None
    return Param(name, tuple(values), text, many, origin, tuple((kind, field) for kind, field in uses))


def _form(parts: list[Any]) -> Form:
    return tuple(_left(part) for part in parts)


def _decoded(row: Mapping[str, Any]) -> Rule:
    severity = Severity(row["severity"])
    return Rule(
        id=row["id"],
        title=row["title"],
        severity=severity,
        declared=severity,
        phase=Phase(row["phase"]),
        status=Status(row["status"]),
        params={one[0]: _param(one) for one in row["params"]},
        counter=row["counter"],
        all=_clauses(row["all"]),
        any=tuple(_clauses(alternative) for alternative in row["any"]),
        concludes=tuple(
            Conclusion(kind, _left(path), tuple((name, _left(value)) for name, value in values))
            for kind, path, values in row["concludes"]
        ),
        at=_left(row["at"]),
        message=_form(row["message"]),
        remedy=_form(row["remedy"]),
        source=tuple(Source(*one) for one in row["source"]),
        fires=_examples(row["fires"]),
        silent=_examples(row["silent"]),
        file=row["file"],
        digest=row["digest"],
        frameworks=tuple(row["framework"]),
    )


def write(root: Path, rules: Iterable[Rule], phases: Iterable[str]) -> Path:
    """Write the compiled file of `rules`, which were read from the files below `root`."""
    path = root / NAME
    path.write_text(compiled_text(rules, sizes_of(root, phases)[0]), encoding="utf-8")
    return path
