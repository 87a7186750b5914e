"""The gate: facts in, findings and further facts out, stratum by stratum, judged by two evaluators that must agree.

A *match* is a rule and the facts that its antecedents bound; a *finding* is a match put into words, with what it
concludes. Both evaluators see every phase. Where they differ, or the rule engine fails, there is no finding and no
verdict but an InternalFault that names the rule and the facts. The gate names no rule and no capability; what a rule
concludes is a fact, and who calls the gate decides what follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from functools import cached_property, partial
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypeVar

from ..errors import InternalFault
from ..facts.fact import Fact, Kind, Scalar, make
from ..frozen import dataclass
from . import durable, reference
from .catalogue import Catalogue
from .durable import DurableEvaluator, EngineFault, Probe
from .reference import Bound
from .rule import CLOSED, Bindings, Conclusion, ParamReference, Phase, Reference, Rule, Severity, render
from .suppression import Suppression, covering

if TYPE_CHECKING:
    from .compiler import Definition

#: Facts that a message about a fault shows; the rest is counted.
_SHOWN = 12
_REPORT = "this is a defect of planproof or durable_rules, not of the proposal: please report it with this message"

#: The kind of fact that names a framework: rules that hold for some are evaluated where it names one of those.
FRAMEWORK = "framework"

T = TypeVar("T")
Closed = Callable[[Phase, Sequence[Fact]], bool]
LinesOf = Callable[[str], Collection[int]]


@dataclass(frozen=True, slots=True)
class Match:
    """A rule that holds, and the facts that its positive antecedents bound, by name, in the rule's order."""

    rule: Rule
    bindings: Bindings


@dataclass(frozen=True, slots=True)
class Finding:
    """A match in words. `path` is a JSON pointer, `concluded` the facts it added, `suppressed` by whom."""

    rule_id: str
    title: str
    severity: Severity
    phase: Phase
    message: str
    remedy: str
    path: str
    bindings: Bindings
    counter: bool | str
    concluded: tuple[Fact, ...]
    suppressed: Suppression | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the gate found: findings in order, all facts, the concluded ones last, and the phases that did not run."""

    findings: tuple[Finding, ...]
    facts: tuple[Fact, ...]
    skipped: tuple[Phase, ...] = ()


class Pack:
    """Rules of one phase that hold for the same frameworks (for all, where there are none); read when they are first needed."""

    def __init__(self, frameworks: tuple[str, ...], read: Callable[[], tuple[Rule, ...]]) -> None:
        self.frameworks = frameworks
        self._read = read

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """Its rules."""
        return self._read()

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds of fact that they look at."""
        return frozenset().union(*(rule.kinds() for rule in self.rules))


class Gate:
    """Judges facts by the rules of a catalogue. Use it in a `with`, or close it: it may own a worker process."""

    def __init__(
        self,
        catalogue: Catalogue,
        kinds: Mapping[str, Kind],
        evaluators: Literal["both", "reference"] = "both",
        *,
        timeout: float = 20.0,
        probe: Probe | None = None,
    ) -> None:
        self._packs = {
            phase: tuple(Pack(names, read) for names, read in catalogue.packs(phase)) for phase in Phase
        }
        for packs in self._packs.values():  # those for all are read now, so that the worker need not read them again
            for pack in packs:
                if not pack.frameworks:
                    _ = pack.kinds
        self._kinds = kinds
        self._engine: DurableEvaluator | None = None
        self._batch = False
        self._unchecked: list[tuple[int, tuple[Fact, ...], set[tuple[str, Bound]]]] = []
        if evaluators == "both" and durable.available():
            self._engine = DurableEvaluator(
                {
                    _key(phase, pack): partial(_compiled, pack, kinds)
                    for phase, packs in self._packs.items()
                    for pack in packs
                },
                timeout=timeout,
                probe=probe,
                first=[_key(phase, pack) for phase, packs in self._packs.items() for pack in packs if not pack.frameworks],
            )

    @property
    def evaluators(self) -> dict[str, str]:
        """The evaluators that judge here, by name, with their versions."""
        from importlib.metadata import version

        return {"reference": version("planproof")} | ({"durable_rules": durable.version()} if self._engine else {})

    def start(self) -> None:
        """Start the worker now, so that it is ready when the first facts are."""
        if self._engine is not None:
            self._guard(self._engine.start)

    def close(self) -> None:
        """End the worker process, if there is one."""
        if self._engine is not None:
            self._engine.close()

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Within it the comparison of the evaluators may lag behind, so that both work at once; at its end it is done.

        Nothing that was found inside may be used before it ends: it raises InternalFault where they differ.
        """
        if self._batch:
            yield
            return
        self._batch = True
        try:
            yield
            self._check()
        finally:
            self._batch = False
            self._unchecked.clear()

    def run_phase(self, phase: Phase, facts: Iterable[Fact]) -> list[Match]:
        """The matches of the rules of `phase` over `facts`, in order of rule and facts. Raises InternalFault."""
        distinct = tuple({fact.key: fact for fact in facts}.values())
        return self._matches(phase, distinct)

    def run(
        self,
        phases: Iterable[Phase],
        facts: Iterable[Fact],
        closed: Closed | None = None,
        *,
        suppressions: Sequence[Suppression] = (),
        lines_of: LinesOf | None = None,
        today: date | None = None,
    ) -> Outcome:
        """Run `phases` in the order of the strata; what each concludes is a fact for the later ones.

        `closed(phase, facts so far)` says whether what the phase needs is closed: then it is skipped. `lines_of` gives
        the lines that a pointer stands in, for suppressions by line; `today` ends suppressions. Raises InternalFault,
        never a partial outcome.
        """
        known = {fact.key: fact for fact in facts}
        findings: list[Finding] = []
        skipped: list[Phase] = []
        with self.batch():
            for phase in sorted(set(phases), key=lambda phase: phase.order):
                present = tuple(known.values())
                if closed is not None and closed(phase, present):
                    skipped.append(phase)
                    continue
                for finding, added in self._findings(self._matches(phase, present), suppressions, lines_of, today):
                    findings.append(finding)
                    known.update((fact.key, fact) for fact in added if fact.key not in known)
        return Outcome(tuple(findings), tuple(known.values()), tuple(skipped))

    def run_many(
        self, phases: Iterable[Phase], fact_sets: Iterable[Iterable[Fact]], closed: Closed | None = None
    ) -> list[Outcome]:
        """`run` for several independent sets of facts, with both evaluators working at once."""
        wanted = tuple(phases)
        with self.batch():
            return [self.run(wanted, facts, closed) for facts in fact_sets]

    def _matches(self, phase: Phase, known: tuple[Fact, ...]) -> list[Match]:
        named = {fact.get("name") for fact in known if fact.kind == FRAMEWORK}
        packs = [pack for pack in self._packs[phase] if not pack.frameworks or not named.isdisjoint(pack.frameworks)]
        if not packs:
            return []
        kinds = frozenset().union(*(pack.kinds for pack in packs))
        facts = tuple(fact for fact in known if fact.kind in kinds)
        engine = self._engine
        tickets = [
            self._guard(partial(engine.submit, _key(phase, pack), facts)) if engine is not None else None for pack in packs
        ]
        found: set[tuple[str, Bound]] = set()
        for ticket, pack in zip(tickets, packs, strict=True):
            of_pack = reference.evaluate(pack.rules, facts)
            found |= of_pack
            if ticket is not None:
                self._unchecked.append((ticket, facts, of_pack))
        if not self._batch:
            self._check()
        by_id = {rule.id: rule for pack in packs for rule in pack.rules}
        ordered = sorted(found, key=lambda match: (match[0], [position for _, position in match[1]], match[1]))
        return [Match(by_id[rule], tuple((name, facts[i]) for name, i in bound)) for rule, bound in ordered]

    def _check(self) -> None:
        """Compare what is still unchecked. Raises InternalFault."""
        engine, unchecked = self._engine, list(self._unchecked)
        self._unchecked.clear()
        if engine is None:
            return
        for ticket, facts, expected in unchecked:
            found = self._guard(partial(engine.result, ticket))
            if found != expected:
                raise _disagreement(expected, found, facts)

    def _guard(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except EngineFault as fault:
            self._unchecked.clear()
            together = " together" if len(fault.rules) > 1 and not fault.alone else ""
            which = f" on {', '.join(fault.rules)}{together}" if fault.rules else ""
            raise InternalFault(
                f"the rule engine failed{which}: it {fault.reason}; facts: {_shown(fault.facts) or 'none'}",
                code="internal.engine",
                remedy=_REPORT,
            ) from fault

    def _findings(
        self, matches: Iterable[Match], suppressions: Sequence[Suppression], lines_of: LinesOf | None, today: date | None
    ) -> Iterator[tuple[Finding, tuple[Fact, ...]]]:
        """The findings of `matches`, those that say and conclude the same once, each with the facts it adds."""
        seen: set[object] = set()
        for match in matches:
            rule, bound = match.rule, dict(match.bindings)
            path = _path(rule.at, match)
            lines = lines_of(path) if lines_of is not None and suppressions else ()
            suppressed = None if rule.mandatory else covering(suppressions, rule.id, path, lines, today=today)
            if suppressed is None and rule.ignored:
                suppressed = Suppression(rule.id, "ignored by the configuration", "configuration")
            concluded = self._concluded(match, path, suppressed is not None)
            finding = Finding(
                rule_id=rule.id,
                title=rule.title,
                severity=rule.severity,
                phase=rule.phase,
                message=render(rule.message, bound, rule.params),
                remedy=render(rule.remedy, bound, rule.params),
                path=path,
                bindings=match.bindings,
                counter=rule.counter,
                concluded=concluded,
                suppressed=suppressed,
            )
            announced = () if suppressed is not None else self._announced(finding)
            same = (
                rule.id,
                path,
                finding.message,
                finding.remedy,
                tuple(fact.key for fact in (*concluded, *announced)),
            )
            if same not in seen:
                seen.add(same)
                yield finding, (*concluded, *announced)

    def _concluded(self, match: Match, path: str, suppressed: bool) -> tuple[Fact, ...]:
        """What a match concludes.

        Where it is suppressed, or an error has lost its force, it closes nothing: a condition stands for what it would
        have closed, or for the error.
        """
        rule = match.rule
        facts = [self._conclude(conclusion, match, path) for conclusion in rule.concludes]
        if not suppressed and not rule.lowered:
            return tuple(facts)
        kept = [fact for fact in facts if fact.kind != CLOSED]
        if rule.declared is Severity.ERROR or len(kept) < len(facts):
            values: dict[str, Scalar | None] = {"item": rule.title, "rule": rule.id}
            scopes = {fact.get("plan") for fact in facts if fact.kind == CLOSED}
            if len(scopes) == 1 and (kind := self._kinds.get("condition")) and "plan" in kind.fields:
                values["plan"] = scopes.pop()
            kept.append(make(self._kinds, "condition", path, **values))
        return tuple(kept)

    def _conclude(self, conclusion: Conclusion, match: Match, path: str) -> Fact:
        bound = dict(match.bindings)
        values: dict[str, Scalar | None] = {}
        for name, value in conclusion.values:
            if isinstance(value, Reference):
                values[name] = bound[value.name].get(value.field)
            elif isinstance(value, ParamReference):
                values[name] = match.rule.params[value.name].values[0]
            else:
                values[name] = value
        return make(self._kinds, conclusion.kind, path if conclusion.path is None else _path(conclusion.path, match), **values)

    def _announced(self, finding: Finding) -> tuple[Fact, ...]:
        """The finding itself as a fact, where the registry has the kind."""
        kind = self._kinds.get("finding")
        if kind is None:
            return ()
        values: dict[str, Scalar | None] = {
            "rule": finding.rule_id,
            "severity": finding.severity.value,
            "phase": finding.phase.value,
        }
        if "plan" in kind.fields:
            plans = (fact.get("plan") for _, fact in finding.bindings)
            values["plan"] = next((plan for plan in plans if plan is not None), None)
        return (make(self._kinds, "finding", finding.path, **values),)


def _key(phase: Phase, pack: Pack) -> str:
    """The name of a pack's definitions in the engine."""
    return "/".join((phase.value, *pack.frameworks))


def _compiled(pack: Pack, kinds: Mapping[str, Kind]) -> list[Definition]:
    from .compiler import compile_rule  # needed in the worker only

    return [definition for rule in pack.rules for definition in compile_rule(rule, kinds)]


def _path(at: str | Reference | None, match: Match) -> str:
    """The pointer that `at` stands for; the first fact's path by default, and where the field is absent its fact's."""
    if isinstance(at, str):
        return at
    if at is None:
        return match.bindings[0][1].path if match.bindings else ""
    fact = dict(match.bindings)[at.name]
    value = fact.get(at.field)
    return fact.path if value is None else str(value)


def _disagreement(expected: set[tuple[str, Bound]], found: set[tuple[str, Bound]], facts: Sequence[Fact]) -> InternalFault:
    rule, bound = min(expected ^ found)
    held, other = ("reference", "durable_rules") if (rule, bound) in expected else ("durable_rules", "reference")
    names = "; ".join(f"{name} = {_shown([facts[i]])}" for name, i in bound) or "no fact"
    rules = ", ".join(sorted({one for one, _ in expected ^ found}))
    return InternalFault(
        f"the two rule evaluators disagree on {rules}: {held} holds that {rule} fires for {names}, "
        f"and {other} does not; facts: {_shown(facts)}",
        code="internal.evaluators",
        remedy=_REPORT,
    )


def _shown(facts: Sequence[Fact]) -> str:
    """Facts for a message about a fault, shortened."""
    shown = []
    for fact in facts[:_SHOWN]:
        values = ", ".join(f"{name}: {value!r}" for name, value in fact.values.items())
        shown.append(f"{{{fact.kind} {fact.path or '/'} {values[:200]}}}")
    return " ".join(shown) + (f" and {len(facts) - _SHOWN} more" if len(facts) > _SHOWN else "")
