"""The order of a review, and nothing else: proposal, facts, gate, search, facts, gate, decision.

`lint` stops before the search. Every step is a function of another package; what is closed by then is skipped and listed. No
rule is named and no severity tested here.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .decision.closures import Closures, closures
from .errors import PlanproofError, UsageError
from .facts import KINDS, Fact
from .facts.from_case import case_facts
from .facts.from_plan import plan_facts
from .hardware import Library, open_library
from .inference import Catalogue, Finding, Gate, Phase, load_catalogue
from .proposal import Case, LoadedProposal, load_proposal, parse_proposal, resolve

if TYPE_CHECKING:
    from .cost import Priced, StageMemory
    from .decision.desk import Desk, Outcome
    from .decision.review import Review
    from .inference import Rule
    from .plan import Plan
    from .report.lint_report import Report

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
class Options:
    """What a caller may choose. `as_of` dates evidence; `hardware` are folders of data sheets; `rules` further rule folders."""

    as_of: date | None = None
    hardware: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    work_limit: int | None = None
    time_limit: float | None = None
    evaluators: Literal["both", "reference"] = "both"


@dataclass
class Session:
    """What reviews share: the hardware library, the rule catalogue and the gate with its worker. Close it at the end."""

    options: Options = field(default_factory=Options)

    @cached_property
    def library(self) -> Library:
        """Data sheets, shipped and the caller's own."""
        return open_library(self.options.hardware)

    @cached_property
    def catalogue(self) -> Catalogue:
        """The rules in force."""
        return load_catalogue(KINDS, tuple(Path(folder) for folder in self.options.rules))

    @cached_property
    def gate(self) -> Gate:
        """The two evaluators over the rules in force."""
        return Gate(self.catalogue, KINDS, self.options.evaluators)

    def close(self) -> None:
        """End the gate's worker, if one was started."""
        if "gate" in self.__dict__:
            self.gate.close()


@contextmanager
def session(options: Options | None = None) -> Iterator[Session]:
    """A session that is closed at the end."""
    opened = Session(options or Options())
    try:
        yield opened
    finally:
        opened.close()


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


def _closed(phase: Phase, shut: Closures) -> bool:
    capability = PHASE_NEEDS.get(phase)
    return capability is not None and shut.closed(capability)


def _run(
    opened: Session, phases: Sequence[Phase], facts: Iterable[Fact], findings: Sequence[Finding]
) -> tuple[tuple[Fact, ...], list[Finding], list[Phase]]:
    """Run phases one by one, so that what one closes keeps a later one from running."""
    known, found, skipped = tuple(facts), list(findings), []
    for phase in phases:
        if _closed(phase, closures(found)):
            skipped.append(phase)
            continue
        outcome = opened.gate.run([phase], known)
        known, found = outcome.facts, found + list(outcome.findings)
    return known, found, skipped


def examine(loaded: LoadedProposal, opened: Session, extra: Sequence[Fact] = ()) -> Examination:
    """Judge a proposal as `lint` does: everything but prices in time. `extra` facts are added to the derived ones."""
    case = resolve(loaded, opened.library)
    base = [*case_facts(case, opened.options.as_of), *extra]
    stated = [fact for plan in case.plans for fact in plan_facts(case, plan)]
    with opened.gate.batch():
        facts, findings, skipped = _run(opened, LINT_BEFORE, [*base, *stated], [])
        shut = closures(findings)
        ledgers, sized = _memory(case, shut)
        facts, findings, late = _run(opened, LINT_AFTER, [*facts, *sized], findings)
    return Examination(
        case, tuple(base), facts, tuple(findings), closures(findings), ledgers, (*skipped, *late)
    )


def _memory(case: Case, shut: Closures) -> tuple[dict[str, tuple[StageMemory, ...]], list[Fact]]:
    """The memory ledgers of the stated plans that can have one, and the facts of ledgers and measured memory."""
    ledgers: dict[str, tuple[StageMemory, ...]] = {}
    facts: list[Fact] = []
    if shut.closed("memory") or not case.plans:
        return ledgers, facts
    from .cost.frameworks import implementation_of
    from .cost.memory import MemoryModel, memory_ledger
    from .facts.from_price import measured_memory_facts, memory_facts

    kept = implementation_of(case.framework)
    model = MemoryModel(case.model, case.workload, kept) if case.model and case.workload else None
    for plan in case.plans:
        if shut.closed("memory", plan.name):
            continue
        facts += measured_memory_facts(case, plan)
        if plan.plan is None or model is None or case.cluster is None:
            continue
        ledger = memory_ledger(plan.plan, model.model, model.workload, case.cluster, model)
        ledgers[plan.name] = ledger
        facts += memory_facts(plan.plan, plan.path, ledger)
    return ledgers, facts


def review(path: str | Path, options: Options | None = None) -> Review:
    """The whole review of the proposal at `path`. Raises PlanproofError for what cannot be judged."""
    with session(options) as opened:
        opened.gate.start()
        return review_loaded(load_proposal(path), opened)


def judge(loaded: LoadedProposal, opened: Session, phase: Phase, extra: Sequence[Fact] = ()) -> tuple[Finding, ...]:
    """Every finding that a rule of `phase` can be seen among: without a search where the phase needs none."""
    if phase in (Phase.NETWORK, Phase.OUTCOME):
        return review_loaded(loaded, opened, extra).findings
    return examine(loaded, opened, extra).findings


def review_loaded(loaded: LoadedProposal, opened: Session, extra: Sequence[Fact] = ()) -> Review:
    """The whole review of a loaded proposal, in an open session."""
    from .decision.assemble import Material, decide
    from .decision.desk import Desk

    started = time.perf_counter()
    examined = examine(loaded, opened, extra)
    findings, facts = list(examined.findings), examined.facts
    skipped = list(examined.skipped)
    desk = Desk(examined.case) if not examined.shut.closed("time") and not examined.shut.closed("memory") else None
    if desk is not None:
        desk.price_stated(examined.shut)
        facts, findings, late = _run(opened, [Phase.NETWORK], [*facts, *desk.step_facts()], findings)
        skipped += late
    else:
        skipped.append(Phase.NETWORK)
    shut = closures(findings)
    outcome = None
    if desk is not None and not shut.closed("search"):
        outcome = _search(desk, examined, opened, shut)
        facts, findings, late = _run(opened, [Phase.OUTCOME], [*facts, *outcome.facts], findings)
        skipped += late
    else:
        skipped.append(Phase.OUTCOME)
    skipped = [phase for phase in Phase if phase in skipped]
    return decide(
        Material(
            case=examined.case,
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
            seconds=time.perf_counter() - started,
        )
    )


def _search(desk: Desk, examined: Examination, opened: Session, shut: Closures) -> Outcome:
    """Pull candidates from the search and gate each, until one stands and the ties with it are known."""

    from .facts.from_plan import plan_case
    from .facts.from_price import measured_memory_facts, memory_facts

    def stands(plan: Plan, ledger: Sequence[StageMemory]) -> tuple[str, ...]:
        """The rules that close something for a plan that the search made; the rules are those that judge stated plans."""
        found = plan_case(plan)
        facts = [*examined.base, *plan_facts(examined.case, found, found=True), *memory_facts(plan, "", ledger)]
        facts += measured_memory_facts(examined.case, found)
        with opened.gate.batch():
            _, findings, _ = _run(opened, GATED, facts, [])
        links = closures(findings).links
        return tuple(sorted({link.rule for (scope, _), row in links.items() if scope == plan.name for link in row}))

    return desk.search(stands, shut, opened.options.work_limit)


def lint_each(paths: Iterable[str], options: Options | None = None) -> Iterator[tuple[str, Report | PlanproofError]]:
    """Each path with its report, or with the error that kept it from being judged."""
    from .report.lint_report import from_examination

    with session(options) as opened:
        opened.gate.start()
        for path in paths:
            try:
                yield path, from_examination(examine(load_proposal(path), opened))
            except PlanproofError as error:
                yield path, error


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
    ready = case.model is not None and case.workload is not None and case.cluster is not None
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


def test_examples(opened: Session, folder: str | None, wanted: Sequence[str]) -> Iterator[tuple[Rule, list[str]]]:
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


test_examples.__test__ = False  # type: ignore[attr-defined]

__all__ = [
    "Examination",
    "Options",
    "Session",
    "examine",
    "judge",
    "lint",
    "lint_each",
    "price_plans",
    "review",
    "review_loaded",
    "session",
    "test_examples",
]
