"""The order of a review, and nothing else: proposal, facts, gate, search, facts, gate, decision.

`lint` stops before the search. Every step is a function of another package; what is closed by then is skipped and listed. No
rule is named and no severity tested here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .decision.closures import Closures, closures
from .errors import InputError, PlanproofError, UsageError
from .facts import Fact
from .facts.from_case import case_facts
from .facts.from_plan import plan_facts
from .frozen import dataclass
from .inference import Finding, Phase, Suppression
from .proposal import Case, LoadedProposal, PlanCase, load_proposal, parse_proposal, resolve
from .session import Options, Session, Sessions, session

if TYPE_CHECKING:
    from .config import Change
    from .cost import Priced, StageMemory
    from .decision.desk import Desk, Outcome
    from .decision.review import Review
    from .inference import Rule
    from .inference.comments import Judged
    from .plan import Plan
    from .report.lint_report import Report, Terms

#: The capability that each phase is about; a phase whose capability is closed does not run.
PHASE_NEEDS: Mapping[Phase, str] = {
    Phase.MAPPING: "topology",
    Phase.MEMORY: "memory",
    Phase.SCHEDULE: "batch",
    Phase.NETWORK: "time",
    Phase.OUTCOME: "search",
}
LINT_BEFORE = (Phase.INTAKE, Phase.EVIDENCE, Phase.SHAPE, Phase.MAPPING)
#: What judges a plan that the search made.
GATED = (Phase.SHAPE, Phase.MAPPING, Phase.MEMORY, Phase.SCHEDULE)
LINT_AFTER = (Phase.MEMORY, Phase.SCHEDULE, Phase.CLAIMS)


@dataclass(frozen=True, slots=True)
class Silencing:
    """What may suppress findings of one proposal: its comments, as they were judged, and the configuration for its file."""

    notes: tuple[Judged, ...] = ()
    exempt: tuple[Suppression, ...] = ()
    #: What the configuration changed, this file's own exemptions included.
    changes: tuple[Change, ...] = ()

    @property
    def suppressions(self) -> tuple[Suppression, ...]:
        """All that are in force."""
        return (*(note.comment.suppression for note in self.notes if note.state == "in_force"), *self.exempt)


@dataclass(frozen=True, slots=True)
class Examination:
    """A proposal judged without a search: what `lint` reports and a review goes on from."""

    case: Case
    base: tuple[Fact, ...]
    facts: tuple[Fact, ...]
    findings: tuple[Finding, ...]
    shut: Closures
    ledgers: Mapping[str, tuple[StageMemory, ...]]
    skipped: tuple[Phase, ...]
    silencing: Silencing


def _closed(phase: Phase, shut: Closures) -> bool:
    capability = PHASE_NEEDS.get(phase)
    return capability is not None and shut.closed(capability)


def _run(
    opened: Session,
    case: Case,
    phases: Sequence[Phase],
    facts: Iterable[Fact],
    findings: Sequence[Finding],
    suppressions: Sequence[Suppression],
) -> tuple[tuple[Fact, ...], list[Finding], list[Phase]]:
    """Run phases one by one, so that what one closes keeps a later one from running."""
    lines = partial(_lines, case.loaded)
    known, found, skipped = tuple(facts), list(findings), []
    for phase in phases:
        if _closed(phase, closures(found)):
            skipped.append(phase)
            continue
        outcome = opened.gate.run([phase], known, suppressions=suppressions, lines_of=lines)
        known, found = outcome.facts, found + list(outcome.findings)
    return known, found, skipped


def examine(loaded: LoadedProposal, opened: Session, extra: Sequence[Fact] = ()) -> Examination:
    """Judge a proposal as `lint` does: everything but prices in time. `extra` facts are added to the derived ones."""
    case = resolve(loaded, opened.library)
    silencing = _silencing(loaded, opened)
    base = [*case_facts(case, opened.options.as_of or case.dated), *extra]
    base += [_note(note, note.state) for note in silencing.notes if note.state != "in_force"]
    # A plan without degrees, or whose stages cannot be read, says nothing that could be judged: that is told, and nothing else.
    open_plans = {p.name for p in case.plans if p.stated.uniform is None and p.stages is None}
    stated = [fact for plan in case.plans if plan.name not in open_plans for fact in plan_facts(case, plan)]
    with opened.gate.batch():
        facts, findings, skipped = _run(opened, case, LINT_BEFORE, [*base, *stated], [], silencing.suppressions)
        shut = closures(findings)
        ledgers, sized = _memory(case, shut)
        facts, findings, late = _run(opened, case, LINT_AFTER, [*facts, *sized], findings, silencing.suppressions)
    skipped += late
    ran = frozenset((*LINT_BEFORE, *LINT_AFTER)) - frozenset(skipped)
    settled, said = _settled(opened, base, silencing, findings, ran)
    findings += said
    return Examination(
        case, tuple(base), (*facts, *settled), tuple(findings), closures(findings), ledgers, tuple(skipped), silencing
    )


def _silencing(loaded: LoadedProposal, opened: Session) -> Silencing:
    """The suppressions of a proposal. Raises InputError for a comment that is malformed."""
    notes: tuple[Judged, ...] = ()
    if any("planproof:" in part for part in loaded.document.text.split("#")[1:]):
        from .inference.comments import judged, read_comments

        notes = judged(read_comments(loaded.document), opened.catalogue.rules, opened.today)
    if not opened.settings.layers:
        return Silencing(notes)
    from .config import exempted

    exempt, changes = exempted(opened.settings, opened.catalogue, loaded.path)
    return Silencing(notes, exempt, (*opened.changes, *changes))


def _lines(loaded: LoadedProposal, pointer: str) -> tuple[int, ...]:
    """The lines that a finding stands in: a comment on or above that of its value or of its key speaks of it."""
    places = (loaded.place(pointer), loaded.document.key_place(pointer))
    own = loaded.document.name
    return tuple(dict.fromkeys(place.line for place in places if place.line is not None and place.file == own))


def _note(note: Judged, state: str) -> Fact:
    """The fact of a suppression."""
    from .facts.from_suppressions import suppression_fact

    one, where = note.comment.suppression, note.comment
    return suppression_fact(
        where.pointer, line=where.place.line or 0, rule=one.rule, state=state, owner=one.owner, until=one.until, near=note.near
    )


def _settled(
    opened: Session, base: Sequence[Fact], silencing: Silencing, findings: Sequence[Finding], ran: frozenset[Phase]
) -> tuple[list[Fact], list[Finding]]:
    """The suppressions in force of rules whose phase `ran`, as facts, and what intake says now that their use is known."""
    used = {finding.suppressed for finding in findings}
    facts = []
    for note in silencing.notes:
        rule = opened.catalogue.get(note.comment.suppression.rule)
        if note.state == "in_force" and rule is not None and rule.phase in ran:
            facts.append(_note(note, "in_force" if note.comment.suppression in used else "unused"))
    if all(fact["state"] == "in_force" for fact in facts):
        return facts, []
    known = {(one.rule_id, one.path, one.message) for one in findings}
    outcome = opened.gate.run([Phase.INTAKE], [*base, *facts], suppressions=silencing.exempt)
    return facts, [one for one in outcome.findings if (one.rule_id, one.path, one.message) not in known]


def _memory(case: Case, shut: Closures) -> tuple[dict[str, tuple[StageMemory, ...]], list[Fact]]:
    """The memory ledgers of the stated plans that can have one, and the facts of ledgers and measured memory."""
    ledgers: dict[str, tuple[StageMemory, ...]] = {}
    facts: list[Fact] = []
    if shut.closed("memory") or not case.plans:
        return ledgers, facts
    from .facts.from_price import measured_memory_facts, memory_facts

    ledger_of, more = _ledgers(case)
    for plan in case.plans:
        if shut.closed("memory", plan.name):
            continue
        if plan.plan is None or ledger_of is None:
            facts += measured_memory_facts(case, plan)
            continue
        try:
            ledger = ledger_of(plan.plan)
        except InputError as error:
            from .facts.from_operators import not_laid_out  # nearly every plan can be

            facts.append(not_laid_out(plan.name, plan.path, error.message))
            continue
        ledgers[plan.name] = ledger
        facts += more(plan)
        facts += measured_memory_facts(case, plan, ledger)
        facts += memory_facts(plan.plan, plan.path, ledger)
    return ledgers, facts


def _ledgers(
    case: Case,
) -> tuple[Callable[[Plan], tuple[StageMemory, ...]] | None, Callable[[PlanCase], Iterable[Fact]]]:
    """What gives the memory of a plan's stages, None where the model, the workload or the devices are not known; and what more
    is said of a plan that has one.
    """
    workload, cluster = case.workload, case.cluster
    if workload is None or cluster is None:
        return None, lambda _: ()
    if case.model is not None:
        from .cost.frameworks import implementation_of
        from .cost.memory import MemoryModel, memory_ledger

        model = MemoryModel(case.model, workload, implementation_of(*case.framework_choices))
        return lambda plan: memory_ledger(plan, model.model, workload, cluster, model), lambda _: ()
    if case.graph is None:
        return None, lambda _: ()
    from .decision.pricers import pricer_of, tensor_facts  # few proposals give a graph alone, whose layers have to be laid out

    pricer = pricer_of(case)
    return pricer.ledger, partial(tensor_facts, pricer)


def review(path: str | Path, options: Options | None = None) -> Review:
    """The whole review of the proposal at `path`. Raises PlanproofError for what cannot be judged."""
    with session(options, path) as opened:
        opened.gate.start()
        return review_loaded(load_proposal(path), opened)


def judge(loaded: LoadedProposal, opened: Session, phase: Phase, extra: Sequence[Fact] = ()) -> tuple[Finding, ...]:
    """Every finding that a rule of `phase` can be seen among: without a search where the phase needs none.

    A rule of the network phase is judged by the stated plans; a review holds it to the plans that it recommends, too.
    """
    if phase is Phase.OUTCOME:
        return review_loaded(loaded, opened, extra).findings
    examined = examine(loaded, opened, extra)
    return tuple(_priced(examined, opened)[2]) if phase is Phase.NETWORK else examined.findings


def explained(loaded: LoadedProposal, opened: Session, rule: Rule) -> tuple[list[Finding], tuple[Fact, ...], Case]:
    """The findings of one rule, the facts that it was held against, and the case that they were derived from."""
    if rule.phase in (Phase.NETWORK, Phase.OUTCOME):
        case = resolve(loaded, opened.library)
        done = review_loaded(loaded, opened)
        return [one for one in done.findings if one.rule_id == rule.id], (), case
    examined = examine(loaded, opened)
    return [one for one in examined.findings if one.rule_id == rule.id], examined.facts, examined.case


def review_loaded(loaded: LoadedProposal, opened: Session, extra: Sequence[Fact] = ()) -> Review:
    """The whole review of a loaded proposal, in an open session."""
    # Read where it is printed: the packages' metadata take longer to import than a proposal to judge.
    from importlib.metadata import version

    from .decision.assemble import Material, decide

    started = time.perf_counter()
    examined = examine(loaded, opened, extra)
    case, silencing = examined.case, examined.silencing
    skipped = list(examined.skipped)
    desk, facts, findings, late = _priced(examined, opened)
    skipped += late
    shut = closures(findings)
    outcome = None
    if desk is not None and not shut.closed("search"):
        outcome = _search(desk, examined, opened, shut)
        facts, findings, late = _run(
            opened, case, [Phase.OUTCOME], [*facts, *outcome.facts], findings, silencing.suppressions
        )
        skipped += late
        findings += _on_found(outcome, desk, examined, opened)
    else:
        skipped.append(Phase.OUTCOME)
    settled, said = _settled(opened, examined.base, silencing, findings, frozenset({Phase.NETWORK, Phase.OUTCOME}) - set(skipped))
    facts, findings = (*facts, *settled), [*findings, *said]
    skipped = [phase for phase in Phase if phase in skipped]
    return decide(
        Material(
            case=case,
            facts=facts,
            findings=tuple(findings),
            shut=closures(findings),
            ledgers=examined.ledgers,
            skipped=tuple(phase.value for phase in skipped),
            desk=desk,
            outcome=outcome,
            rules=tuple(opened.catalogue.rules),
            rules_digest=opened.catalogue.digest,
            as_of=opened.options.as_of.isoformat() if opened.options.as_of else None,
            version=version("planproof"),
            evaluators=opened.gate.evaluators,
            changes=silencing.changes,
            configuration=tuple((layer.name, layer.sha256) for layer in opened.settings.layers if layer.entries),
            judged_on=opened.today.isoformat() if silencing.notes else None,
            options=opened.options.said(case.loaded.root),
            seconds=time.perf_counter() - started,
        )
    )


def _priced(examined: Examination, opened: Session) -> tuple[Desk | None, tuple[Fact, ...], list[Finding], list[Phase]]:
    """The desk with the stated plans priced, and what the rules say of their steps; no desk where time or memory is closed."""
    from .decision.desk import Desk

    if examined.shut.closed("time") or examined.shut.closed("memory"):
        return None, examined.facts, list(examined.findings), [Phase.NETWORK]
    desk = Desk(examined.case)
    desk.price_stated(examined.shut)
    facts, findings, late = _run(
        opened, examined.case, [Phase.NETWORK], [*examined.facts, *desk.step_facts()], examined.findings,
        examined.silencing.suppressions,
    )  # fmt: skip
    return desk, facts, findings, late


def _search(desk: Desk, examined: Examination, opened: Session, shut: Closures) -> Outcome:
    """Pull candidates from the search and gate each, until one stands and the ties with it are known."""

    from .facts.from_plan import plan_case
    from .facts.from_price import measured_memory_facts, memory_facts

    def stands(plan: Plan, ledger: Sequence[StageMemory]) -> tuple[str, ...]:
        """The rules that close something for a plan that the search made; the rules are those that judge stated plans."""
        found = plan_case(plan)
        facts = [*examined.base, *plan_facts(examined.case, found, found=True), *memory_facts(plan, "", ledger)]
        if desk.pricer.has_profile:
            facts += measured_memory_facts(examined.case, found, desk.pricer.estimated_ledger(plan))
        with opened.gate.batch():
            _, findings, _ = _run(opened, examined.case, GATED, facts, [], examined.silencing.exempt)
        links = closures(findings).links
        return tuple(sorted({link.rule for (scope, _), row in links.items() if scope == plan.name for link in row}))

    return desk.search(stands, shut, opened.options.work_limit, opened.options.time_limit)


def _on_found(outcome: Outcome, desk: Desk, examined: Examination, opened: Session) -> list[Finding]:
    """What the rules say of the recommended plan and the fallback where the search made them: as of a stated plan."""
    from .decision.operators import facts_of
    from .facts.from_plan import plan_case
    from .facts.from_price import measured_memory_facts, memory_facts, step_fact

    case, said = examined.case, []
    stated = {plan.name for plan in case.plans}
    for priced in (outcome.recommended, outcome.fallback):
        if priced is None or priced.plan.name in stated:
            continue
        found = plan_case(priced.plan, "/plans")
        facts = [*examined.base, *plan_facts(case, found, found=True), *measured_memory_facts(case, found)]
        facts += [*memory_facts(priced.plan, "/plans", priced.memory)]
        facts.append(step_fact(priced, "/plans", priced.step_estimate, priced.mfu))
        if priced is outcome.recommended:
            facts += facts_of(priced, "/plans", desk.operators(priced))
        with opened.gate.batch():
            _, findings, _ = _run(opened, case, [*GATED, Phase.NETWORK], facts, [], examined.silencing.exempt)
        said += [one for one in findings if any(fact.get("plan") == priced.plan.name for _, fact in one.bindings)]
    return said


@dataclass(frozen=True, slots=True)
class Submitted:
    """A file to lint: its path, and its bytes where they do not lie there (standard input)."""

    path: str
    raw: bytes | None = None
    #: A launch file on its own is held to all the evidence of a proposal.
    require_evidence: bool = False

    def load(self) -> LoadedProposal:
        """Read and validate it. Raises InputError."""
        bare = not self.require_evidence
        if self.raw is None:
            return load_proposal(self.path, bare=bare)
        return parse_proposal(self.raw, self.path, Path(self.path), bare=bare)


def lint_each(
    files: Iterable[str | Submitted], options: Options | None = None
) -> Iterator[tuple[str, Report | PlanproofError]]:
    """Each file's path with its report, or with the error that kept it from being judged."""
    from .report.lint_report import from_examination

    with Sessions(options or Options()) as sessions:
        for file in files:
            one = Submitted(file) if isinstance(file, str) else file
            opened = sessions.at(one.path)
            opened.gate.start()
            try:
                examined = examine(one.load(), opened)
                yield one.path, from_examination(examined, _found(examined, opened), _terms(examined, opened))
            except PlanproofError as error:
                yield one.path, error


def _found(examined: Examination, opened: Session) -> list[Rule]:
    """The rules that found something, by their ids; the others need not be read."""
    found = [opened.catalogue.get(rule_id) for rule_id in dict.fromkeys(one.rule_id for one in examined.findings)]
    return [rule for rule in found if rule is not None]


def _terms(examined: Examination, opened: Session) -> Terms:
    """On what terms a proposal was judged."""
    from .report.lint_report import Terms

    return Terms(
        overrides=examined.silencing.changes,
        mandatory=frozenset(one.rule for one in opened.catalogue.overrides if one.what == "mandatory"),
        fail_on=opened.settings.fail_on,
        judged_on=opened.today if examined.silencing.notes else None,
        dated=opened.options.as_of is not None,
    )


def lint(paths: Iterable[str | Path], options: Options | None = None) -> list[Report]:
    """The reports of several proposals. Raises PlanproofError for the first that cannot be judged."""
    reports: list[Report] = []
    for _, result in lint_each(map(str, paths), options):
        if isinstance(result, PlanproofError):
            raise result
        reports.append(result)
    return reports


def price_plans(
    loaded: LoadedProposal, opened: Session, names: Sequence[str] = ()
) -> tuple[list[tuple[str, Priced]], list[tuple[str, tuple[str, ...]]]]:
    """The priced plans of a proposal, all or those named, and for each that is not priced why. Raises UsageError for a name."""
    from .decision.desk import Desk

    examined = examine(loaded, opened)
    case, shut = examined.case, examined.shut
    known = [plan.name for plan in case.plans]
    for name in names:
        if name not in known:
            raise UsageError(f"there is no plan '{name}'", remedy=f"Plans of this proposal: {', '.join(known) or 'none'}.")
    described = case.model is not None or case.graph is not None
    ready = described and case.workload is not None and case.cluster is not None
    desk = Desk(case) if ready and not shut.closed("time") and not shut.closed("memory") else None
    if desk is not None:
        desk.price_stated(shut)
    priced, refused = [], []
    for name in names or known:
        found = desk.stated.get(name) if desk is not None else None
        if found is not None:
            priced.append((name, found))
            continue
        chains = [shut.chain("time", name), shut.chain("memory", name)]
        reasons = tuple(dict.fromkeys(link.message for chain in chains if chain for link in chain.chain))
        refused.append((name, reasons or ("its description is incomplete; see 'planproof lint'",)))
    return priced, refused


def run_examples(opened: Session, folder: str | None, wanted: Sequence[str]) -> Iterator[tuple[Rule, list[str]]]:
    """Every rule (of `folder`, where one is given) with what its examples do wrong."""
    from .inference.examples import check_rule

    root = str(Path(folder).resolve()) if folder is not None else None

    def run(raw: bytes, path: Path, phase: Phase, extra: Sequence[Fact]) -> set[str]:
        found = judge(parse_proposal(raw, path.name, path), opened, phase, extra)
        return {finding.rule_id for finding in found}

    for rule in opened.catalogue.rules:
        if wanted and rule.id not in wanted:
            continue
        if root is not None and not str(Path(rule.file).resolve()).startswith(root):
            continue
        yield rule, check_rule(rule, run)


__all__ = [
    "Examination",
    "Options",
    "Session",
    "Submitted",
    "examine",
    "explained",
    "judge",
    "lint",
    "lint_each",
    "price_plans",
    "review",
    "review_loaded",
    "run_examples",
    "session",
]
