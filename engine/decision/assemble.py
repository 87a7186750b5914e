"""Puts the parts of a decision together: one `Material` in, one `Review` out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypedDict

from ..cost import Priced, StageMemory
from ..cost.critical import StepPath, step_path
from ..cost.memory import feasible
from ..facts import Fact, of_kind
from ..facts.from_case import evidence, gaps
from ..facts.limits import limits_of
from ..frozen import dataclass
from ..inference import Finding, Rule
from ..plan import Plan, Role, describe, simplicity
from ..proposal import Case
from ..quantity import Dimension, Estimate, human
from .boundaries import Boundary
from .closures import Closures
from .decide import (
    conditions_of,
    invariants_of,
    needs_of,
    roles_of,
    rule_on,
    signals_of,
)
from .desk import Desk, Outcome
from .effects import effects_of
from .measured_numbers import numbers_by_stage
from .operators import PlanOperators, graph_operators
from .remedy import Clearing, clearing_of
from .review import Amortisation, Candidate, Rejected, Review, SpaceReport
from .selection import PRICE_OF_SIMPLICITY
from .sensitivity import Joint, Sensitivity, inputs, joint_of, pool_of, run_length, sensitivity_of
from .verification import trials_of, verification_of

if TYPE_CHECKING:
    from ..config import Change

#: Stated plans that are laid out by operator where the model is a graph alone.
MOST_LAID_OUT = 8
METHOD = (
    "best first over uniform and uneven plans in the order of their lower bound (uneven ones from tables of stages, and by the "
    "stage solver); event simulation for the step time; "
)
EXACT = "exact within the declared space under the cost model"
#: After CUT_OFF: the bound of what was not looked at, or that there is none.
BELOW = "; no plan that was left out takes less than {floor} a step"
NO_BOUND = "; how fast what was left out could be has no bound"
WITHIN = "uneven plans beyond the first few of a setting were bounded, not priced: none is below {floor}, {gap} under the fastest"
CUT_OFF = "stopped at its limit of work or time, so no claim is made for the plans that were not looked at"


@dataclass(frozen=True, slots=True)
class Material:
    """Everything that a decision is made of."""

    case: Case
    facts: tuple[Fact, ...]
    findings: tuple[Finding, ...]
    shut: Closures
    ledgers: Mapping[str, tuple[StageMemory, ...]]
    skipped: tuple[str, ...]
    desk: Desk | None
    outcome: Outcome | None
    rules: tuple[Rule, ...]
    rules_digest: str
    as_of: str | None
    version: str
    evaluators: Mapping[str, str]
    seconds: float
    #: What the configuration changed in the rules; its files with their digests; when suppressions were judged.
    changes: tuple[Change, ...] = ()
    configuration: tuple[tuple[str, str], ...] = ()
    judged_on: str | None = None
    options: tuple[tuple[str, str | bool], ...] = ()


def decide(material: Material) -> Review:
    """The review. Nothing is computed after this."""
    case, outcome, desk = material.case, material.outcome, material.desk
    candidates = tuple(_candidates(material))
    recommended = next((one for one in candidates if "recommended" in one.roles), None)
    fallback = next((one for one in candidates if "fallback" in one.roles), None)
    signals = signals_of(material.findings)
    cut_off = outcome is not None and outcome.search.tally.cut_off
    conditions = conditions_of(material.facts, material.findings, recommended, cut_off=cut_off)
    size = outcome.search.size if outcome is not None else 0
    submitted = case.with_role(Role.SUBMITTED) or case.with_role(Role.REFERENCE)
    against = next((one for one in candidates if submitted and one.plan.name == submitted.name), None)
    ruling = rule_on(case, material.shut, recommended, outcome is not None, conditions, signals, size, cut_off, against)
    if ruling.refused_of == "evidence":
        conditions = ()
    effects: Mapping[str, float] = {}
    found = {finding.rule_id for finding in material.findings}
    amortisation = _amortisation(material)
    sensitivity, joint = _sensitivity(material, amortisation)
    if desk is not None and recommended is not None and recommended.priced is not None:
        effects = effects_of(desk.pricer.pricer, recommended.priced)
    return Review(
        case=case,
        as_of=material.as_of,
        verdict=ruling.verdict,
        refused_of=ruling.refused_of,
        sentence=ruling.sentence,
        because=ruling.because,
        findings=material.findings,
        candidates=candidates,
        recommended=recommended.id if recommended else None,
        fallback=fallback.id if fallback else None,
        fallback_reason=outcome.fallback_reason if outcome else "nothing was searched",
        why_recommended=_why(outcome, recommended, against),
        conditions=conditions,
        needs=needs_of(
            case, effects, recommended is not None and recommended.measured and all(one.timed for one in recommended.numbers)
        ),
        missing=gaps(case),
        assumed=case.assumed,
        evidence=evidence(case),
        counter_signals=signals,
        invariants=invariants_of(case),
        not_examined=material.shut.not_examined(),
        skipped_phases=material.skipped,
        space=_space(outcome) if outcome else None,
        amortisation=amortisation,
        verification=verification_of(case, recommended, against),
        trials=trials_of(recommended, against),
        sensitivity=sensitivity,
        joint=joint,
        clearings=tuple(_clearings(material, submitted.name if submitted else None)),
        digests=_digests(material),
        rules=len(material.rules),
        overrides=material.changes,
        judged_on=material.judged_on,
        options=material.options,
        sources={rule.id: rule.source for rule in material.rules if rule.id in found},
        produced_with={
            "planproof": material.version,
            "evaluators": dict(material.evaluators),
            "seconds": round(material.seconds, 3),
        },
    )


def _candidates(material: Material) -> Iterator[Candidate]:
    """The stated plans in order, then what the search adds. Ids are C1, C2 ... in that order."""
    case, outcome, desk, shut = material.case, material.outcome, material.desk, material.shut
    best = outcome.recommended.plan if outcome and outcome.recommended else None
    simpler = outcome.fallback.plan if outcome and outcome.fallback else None
    count = 0
    for plan in case.plans:
        if plan.plan is None:
            continue
        count += 1
        priced = desk.stated.get(plan.name) if desk else None
        fallen = tuple(
            sorted({link.rule for (scope, _), links in shut.links.items() if scope == plan.name for link in links})
        )
        ratio = outcome.ratios.get(plan.name) if outcome else None
        roles = roles_of(plan.plan, best, simpler)
        yield _candidate(
            f"C{count}", roles, plan.path, plan.plan, priced, material.ledgers.get(plan.name, ()), desk, fallen, ratio,
            graph_operators(case, plan.plan) if case.model is None and priced is None and count <= MOST_LAID_OUT else None,
        )  # fmt: skip
    known = {plan.plan.identity for plan in case.plans if plan.plan is not None}
    for role, found in (("recommended", outcome and outcome.recommended), ("fallback", outcome and outcome.fallback)):
        if found and found.plan.identity not in known:
            known.add(found.plan.identity)
            count += 1
            ratio = None
            if desk is not None and outcome is not None and outcome.recommended is not None and role != "recommended":
                ratio = desk.pricer.ratio(found, outcome.recommended)
            yield _candidate(f"C{count}", (role,), "", found.plan, found, found.memory, desk, (), ratio)


def _candidate(
    id_: str,
    roles: tuple[str, ...],
    path: str,
    plan: Plan,
    priced: Priced | None,
    ledger: tuple[StageMemory, ...],
    desk: Desk | None,
    fallen: tuple[str, ...],
    ratio: Estimate | None,
    laid_out: PlanOperators | None = None,
) -> Candidate:
    memory = priced.memory if priced else ledger
    fit = priced.feasible if priced else feasible(ledger) if ledger else "unknown"
    binding = priced.binding if priced else "not priced"
    if fallen:
        fit, binding = "no" if fit == "unknown" else fit, f"rule {', '.join(fallen)}"
    return Candidate(
        id=id_,
        roles=roles,
        plan=plan,
        path=path,
        simplicity=simplicity(plan),
        priced=priced,
        memory=memory,
        step=priced.step_estimate if priced else None,
        feasible=fit,
        binding=binding,
        measured=desk is not None and priced is not None and desk.is_measured(plan),
        numbers=numbers_by_stage(desk.pricer.measured(plan)) if desk is not None and priced is not None else (),
        fallen=fallen,
        ratio=None if "recommended" in roles else ratio,
        **(_looked_into(desk, priced, recommended="recommended" in roles) if laid_out is None else {"operators": laid_out}),
    )


class _LookedInto(TypedDict, total=False):
    """What a priced plan is shown with beyond its price."""

    critical: StepPath
    operators: PlanOperators
    boundaries: tuple[Boundary, ...]


def _looked_into(desk: Desk | None, priced: Priced | None, *, recommended: bool) -> _LookedInto:
    """The critical path of any priced plan; operators and boundaries of the recommended one; operators where layouts stand."""
    if desk is None or priced is None:
        return {}
    plan = priced.plan
    found: _LookedInto = {"critical": step_path(plan, priced.step, desk.pricer.pricer.time, measured=desk.is_measured(plan))}
    if recommended or any(stage.layouts for stage in plan.stages):
        found["operators"] = desk.operators(priced)
    if recommended:
        found["boundaries"] = desk.boundaries(priced)
    return found


def _why(outcome: Outcome | None, recommended: Candidate | None, against: Candidate | None) -> str:
    """Why the recommended plan: against the fastest, and against the plan that is to run."""
    if outcome is None or recommended is None:
        return ""
    chosen = outcome.selection
    parts = []
    fastest = outcome.fastest
    if chosen.ratio is not None and fastest is not None:
        parts.append(
            f"The fastest plan that stands is {describe(fastest.plan)} at {fastest.step_estimate}. The recommended one is "
            f"simpler, {recommended.simplicity} against {simplicity(fastest.plan)}, and ties with it: ratio "
            f"{chosen.ratio.value:.3f} ({chosen.ratio.low:.3f} to {chosen.ratio.high:.3f}), at most "
            f"{100 * PRICE_OF_SIMPLICITY:g} % slower in expectation."
        )
    elif chosen.fastest is chosen.risky and chosen.risky is not None:
        parts.append("No plan is sure to fit; this is the fastest that may.")
    else:
        parts.append("It is the fastest plan of the declared space that fits and stands, and no simpler one ties with it.")
    if chosen.risky is not None and chosen.recommended is not chosen.risky:
        parts.append(
            f"A faster plan may not fit: {describe(chosen.risky.plan)}, {human(chosen.risky.seconds, Dimension.TIME)} a step; "
            "measured workspace and activation memory would decide."
        )
    if against is not None and against.ratio is not None:
        ratio = against.ratio
        relation = "slower" if ratio.low > 1 else "faster" if ratio.high < 1 else "a tie"
        how = f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"
        parts.append(f"Against it '{against.plan.name}' is {relation}: ratio of step times {how}.")
    elif against is not None and "recommended" in against.roles:
        parts.append(f"It is the stated plan '{against.plan.name}'.")
    return " ".join(parts)


def _space(outcome: Outcome) -> SpaceReport:
    space, search, chosen = outcome.space, outcome.search, outcome.selection
    tally = search.tally
    rejected = []
    for name, count in sorted(tally.classes.items(), key=lambda item: tally.nearest[item[0]].excess_bytes):
        miss = tally.nearest[name]
        rejected.append(Rejected(name, count, describe(miss.plan), miss.stage, miss.excess_bytes, miss.largest_row))
    return SpaceReport(
        size=search.size,
        dimensions=search.dimensions,
        left_out=tuple((one.dimension, one.reason) for one in search.left_out),
        shapes=len(space.all_shapes),
        bounded=tally.bounded,
        priced=tally.priced,
        too_large=tally.too_large,
        fallen=tuple(sorted(chosen.fallen.items())),
        method=METHOD + _claim(outcome),
        complete=not tally.cut_off,
        rejected=tuple(rejected),
        ties=chosen.ties,
        floor_s=search.floor if search.floor < float("inf") else None,
    )


def _claim(outcome: Outcome) -> str:
    """What may be said of the plans that were not priced."""
    fastest, floor = outcome.selection.fastest, outcome.search.floor
    if outcome.search.tally.cut_off:
        return CUT_OFF + (BELOW.format(floor=human(floor, Dimension.TIME)) if 0 < floor < float("inf") else NO_BOUND)
    if fastest is None or floor >= fastest.seconds:
        return EXACT
    return WITHIN.format(floor=human(floor, Dimension.TIME), gap=f"{100 * (1 - floor / fastest.seconds):.2g} %")


def _amortisation(material: Material) -> Amortisation | None:
    found = of_kind(material.facts, "amortisation")
    if not found or material.outcome is None:
        return None
    fact = found[0]
    cost, even = fact.get("cost_device_seconds"), fact.get("break_even_steps")
    devices = material.case.described.devices or 0
    stated = material.case.loaded.stated.planning_cost
    tally = material.outcome.search.tally
    stated_parts = (stated.profiling, stated.change_over) if stated is not None else (None, None)
    parts = [part.value if part is not None else None for part in stated_parts]
    return Amortisation(
        against=str(fact["against"]),
        saved_per_step_s=int(fact["saved_per_step_us"]) / 1e6 / max(1, devices),
        devices=devices,
        cost_device_seconds=float(cost) if cost is not None else None,
        break_even_steps=int(even) if even is not None else None,
        run_steps=material.case.run_steps,
        priced_candidates=tally.priced,
        states=tally.bounded + tally.expanded,
        profiling_device_seconds=parts[0],
        change_over_device_seconds=parts[1],
    )


def _sensitivity(material: Material, amortisation: Amortisation | None) -> tuple[tuple[Sensitivity, ...], Joint | None]:
    """Where the answer changes, re-decided over the plans that lead somewhere; nothing where nothing is recommended."""
    desk, outcome = material.desk, material.outcome
    if desk is None or outcome is None or outcome.recommended is None or outcome.search.tally.cut_off:
        return (), None
    known = inputs(desk, outcome.recommended.plan)
    pool = pool_of(desk, outcome, outcome.stands, known, (found.plan for found in desk.contenders(material.shut)))
    rows = sensitivity_of(pool, known)
    length = run_length(material.case.run_steps, amortisation.break_even_steps if amortisation else None)
    return (*rows, *([length] if length is not None else [])), joint_of(pool, known)


def _clearings(material: Material, judged: str | None) -> Iterator[Clearing]:
    """For the plan that is to run and the recommended one, where memory is at risk or too small: what clears it."""
    desk, outcome = material.desk, material.outcome
    if desk is None or outcome is None:
        return
    done: set[tuple[object, ...]] = set()
    for priced in (desk.stated.get(judged or ""), outcome.recommended):
        if priced is not None and priced.feasible != "yes" and priced.plan.identity not in done:
            done.add(priced.plan.identity)
            yield clearing_of(desk, priced, limits_of(material.case.limits), outcome.stands)


def _digests(material: Material) -> dict[str, str]:
    case = material.case
    document = case.loaded.document
    digests = {"proposal": document.sha256}
    digests |= {f"{file.kind}: {file.path}": file.sha256 for file in case.files}
    digests |= {f"configuration: {name}": sha256 for name, sha256 in material.configuration}
    digests["rules"] = material.rules_digest
    digests["planproof"] = hashlib.sha256(material.version.encode()).hexdigest()
    return digests
