"""The rule catalogue: the shipped rules and a user's folders, in order, and what a configuration changes in them.

Vocabulary: an *override* is one change that a configuration makes to one rule: another severity, another value of a
parameter, `ignore`, or `mandatory`. Every override is kept, so that the record can print it. Nothing here evaluates
rules.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from ..errors import RuleError, UsageError
from ..facts.fact import Kind
from ..frozen import dataclass
from .compiled import Head, Shelf, fresh
from .reading import listed, near
from .rule import CLOSED, PHASES, Phase, Rule, Severity

#: Folders beside the phases that hold no rules: the base proposals of the examples.
_NO_RULES = frozenset({"bases"})
_PHASE_NAMES = tuple(phase.value for phase in PHASES)


@dataclass(frozen=True, slots=True)
class Override:
    """One change by the configuration: `what` is severity, param, ignore or mandatory; `name` the parameter's."""

    rule: str
    what: str
    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Rules in order of phase and id, and the overrides that are in force."""

    rules: Sequence[Rule]
    kinds: Mapping[str, Kind]
    overrides: tuple[Override, ...] = ()

    @property
    def digest(self) -> str:
        """sha256 over the rules' contents in order of their ids: neither file layout nor overrides count."""
        total = hashlib.sha256()
        for rule in sorted(self.rules, key=lambda rule: rule.id):
            total.update(f"{rule.id} {rule.digest}\n".encode())
        return total.hexdigest()

    def by_phase(self, phase: Phase) -> tuple[Rule, ...]:
        """The rules of `phase` that are in force."""
        return tuple(rule for rule in self.rules if rule.phase is phase and rule.active)

    def packs(self, phase: Phase) -> tuple[tuple[tuple[str, ...], Callable[[], tuple[Rule, ...]]], ...]:
        """The rules of `phase` in force by the frameworks they hold for, those for all first; read when they are called for."""
        heads: Iterable[Head] = (
            self.rules.heads
            if isinstance(self.rules, Shelf)
            else (Head(rule.id, rule.phase, rule.active, rule.frameworks) for rule in self.rules)
        )
        found: dict[tuple[str, ...], list[int]] = {}
        for position, head in enumerate(heads):
            if head.phase is phase and head.active:
                found.setdefault(tuple(sorted(head.frameworks)), []).append(position)
        return tuple((names, partial(self._at, tuple(positions))) for names, positions in sorted(found.items()))

    def _at(self, positions: Sequence[int]) -> tuple[Rule, ...]:
        return tuple(self.rules[position] for position in positions)

    def get(self, rule_id: str) -> Rule | None:
        """The rule called `rule_id`, in force or not."""
        if isinstance(self.rules, Shelf):
            position = next((k for k, head in enumerate(self.rules.heads) if head.id == rule_id), None)
            return None if position is None else self.rules[position]
        return next((rule for rule in self.rules if rule.id == rule_id), None)

    def with_overrides(
        self,
        severity: Mapping[str, Severity | str] | None = None,
        params: Mapping[str, Mapping[str, object]] | None = None,
        ignore: Iterable[str] = (),
        mandatory: Iterable[str] = (),
    ) -> Catalogue:
        """The catalogue with the changes of a configuration. Raises UsageError for one that cannot be made.

        A mandatory rule can be neither ignored, lowered nor suppressed. An ignored error is still evaluated and leaves
        a condition where it fires; one that concludes a condition or a counter-signal still concludes it, so that nobody
        gets a better verdict by ignoring rules. Any other ignored rule is silent.
        """
        rules = {rule.id: rule for rule in self.rules}
        made = list(self.overrides)

        def change(rule_id: str, what: str, name: str, before: str, after: str, new: Rule) -> None:
            if before != after:
                made.append(Override(rule_id, what, name, before, after))
            rules[rule_id] = new

        for rule_id in mandatory:
            rule = _find(rules, rule_id, "mandatory")
            change(rule_id, "mandatory", "", str(rule.mandatory), "True", replace(rule, mandatory=True))
        for rule_id, name in (severity or {}).items():
            rule = _find(rules, rule_id, "severity")
            new = _severity(rule, name)
            change(rule_id, "severity", "", rule.severity.value, new.value, replace(rule, severity=new))
        for rule_id, values in (params or {}).items():
            for name, raw in values.items():
                rule = _find(rules, rule_id, "params")
                changed = _with_param(rule, name, raw, self.kinds)
                change(rule_id, "param", name, rule.params[name].written, changed.params[name].written, changed)
        for rule_id in ignore:
            rule = _find(rules, rule_id, "ignore")
            if rule.mandatory:
                raise UsageError(f"{rule_id} is mandatory, and cannot be ignored", remedy="remove it from `ignore`")
            change(rule_id, "ignore", "", str(rule.ignored), "True", replace(rule, ignored=True))
        return replace(self, rules=tuple(rules[rule.id] for rule in self.rules), overrides=tuple(made))


def load_catalogue(
    kinds: Mapping[str, Kind],
    folders: Sequence[str | Path] | None = None,
    *,
    shipped: bool = True,
    compiled: bool = True,
) -> Catalogue:
    """The shipped rules (unless `shipped` is false) and those of `folders`, checked against `kinds`.

    The shipped rules come from their compiled file where that is of the files beside it, unless `compiled` is false.
    Raises RuleError for a rule that does not load, lies in the wrong phase's folder, or has an id that is taken;
    UsageError for a folder that cannot be read or holds no rule.
    """
    root = rules_root()
    ready = fresh(root, _PHASE_NAMES) if shipped and compiled and isinstance(root, Path) else None
    texts = [
        *(_shipped(root) if shipped and ready is None else ()),
        *(item for folder in folders or () for item in _in_folder(Path(folder))),
    ]
    if ready is not None and not texts:
        return Catalogue(ready, kinds)
    return Catalogue(in_order([*(ready or ()), *_loaded(texts, kinds, {rule.id: rule.file for rule in ready or ()})]), kinds)


def _loaded(texts: Sequence[tuple[str, bytes, str | None]], kinds: Mapping[str, Kind], taken: dict[str, str]) -> Iterator[Rule]:
    """The rules in `texts`, each a name, the content, and the phase of its folder; `taken` are the ids of others."""
    if not texts:
        return
    from ..document import parse_document
    from .loader import load_rule  # it brings the YAML reader, which is not needed where the rules are compiled

    for name, raw, phase in texts:
        rule = load_rule(raw, name, kinds)
        if phase is not None and rule.phase.value != phase:
            raise RuleError(
                f"{rule.id} is of phase '{rule.phase.value}' and lies in the folder '{phase}'",
                place=parse_document(raw, name).place("/phase"),
                remedy=f"move it to {rule.phase.value}/, or change its phase",
            )
        if rule.id in taken:
            raise RuleError(
                f"the rule id {rule.id} is taken by {taken[rule.id]}",
                place=parse_document(raw, name).place("/id"),
                remedy="ids are never reused: choose the next free number",
            )
        taken[rule.id] = name
        yield rule


def rules_root() -> Traversable:
    """Where the shipped rules are."""
    return files("planproof.rules")


def in_order(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules by phase, then id."""
    return tuple(sorted(rules, key=lambda rule: (rule.phase.order, rule.id)))


def _shipped(root: Traversable) -> Iterator[tuple[str, bytes, str | None]]:
    for phase in _PHASE_NAMES:
        folder = root.joinpath(phase)
        if folder.is_dir():
            for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
                if file.name.endswith(".yaml"):
                    yield f"rules/{phase}/{file.name}", file.read_bytes(), phase


def _in_folder(folder: Path) -> Iterable[tuple[str, bytes, str | None]]:
    if not folder.is_dir():
        raise UsageError(f"the rule folder '{folder}' is not a folder", remedy="name a folder that holds rule files (*.yaml)")
    names = [
        path
        for path in sorted(folder.rglob("*.y*ml"))
        if path.suffix in (".yaml", ".yml") and path.is_file() and not _NO_RULES & set(path.relative_to(folder).parts[:-1])
    ]
    if not names:
        raise UsageError(f"the rule folder '{folder}' holds no rule file", remedy="add a *.yaml file, or drop the folder")
    for path in names:
        parent = path.parent.name if path.parent != folder else ""
        yield path.as_posix(), path.read_bytes(), parent if parent in _PHASE_NAMES else None


def _find(rules: Mapping[str, Rule], rule_id: str, key: str) -> Rule:
    if rule_id not in rules:
        raise UsageError(
            f"`{key}` names the rule '{rule_id}', and there is none{near(rule_id, rules)}",
            remedy=f"the rules are {listed(rules)}",
        )
    return rules[rule_id]


def _severity(rule: Rule, name: Severity | str) -> Severity:
    if name not in {member.value for member in Severity}:
        raise UsageError(
            f"the severity '{name}' of {rule.id} is unknown",
            remedy=f"it is one of {', '.join(member.value for member in Severity)}",
        )
    new = Severity(name)
    order = list(Severity)
    if rule.mandatory and order.index(new) > order.index(rule.severity):
        raise UsageError(
            f"{rule.id} is mandatory, and cannot be lowered to {new.value}", remedy=f"leave it {rule.severity.value}"
        )
    if new is Severity.ERROR and all(conclusion.kind != CLOSED for conclusion in rule.concludes):
        raise UsageError(
            f"{rule.id} cannot be raised to error: it closes no capability, so the error would be a label only",
            remedy="copy it under an id of your own into a rule folder, with a `closed` fact in `concludes`",
        )
    return new


def _with_param(rule: Rule, name: str, raw: object, kinds: Mapping[str, Kind]) -> Rule:
    from .compiler import TooLarge, compile_rule
    from .params import ParamError, overridden

    if name not in rule.params:
        raise UsageError(
            f"{rule.id} has no parameter '{name}'{near(name, rule.params)}",
            remedy=f"its parameters are {listed(rule.params)}",
        )
    try:
        new = replace(rule, params={**rule.params, name: overridden(rule.params[name], raw, kinds)})
        compile_rule(new, kinds)
    except ParamError as error:
        raise UsageError(f"{rule.id}: {error.message}", remedy=error.remedy) from None
    except TooLarge as error:
        raise UsageError(f"{rule.id}: {error}", remedy="give the parameter fewer values") from None
    return new
