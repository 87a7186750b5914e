"""From findings, closures and prices to the decision: verdict, conditions, needs, counter-signals, invariants.

No rule is named and no severity is tested: what refuses is what `closed` facts closed, what conditions is what `condition` and
`counter_signal` facts say and the grades of the quantities that decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..facts import Fact, of_kind
from ..facts.from_case import evidence, gaps
from ..frozen import dataclass
from ..inference import Finding
from ..plan import Plan, Role, describe
from ..proposal import Case
from ..quantity import Decider, Grade
from .closures import Closures
from .review import Candidate, Condition, CounterSignal, Invariant, Need, Verdict

#: How each kind of evidence is obtained: the command or the document.
HOW = {
    "stage_latency": "profile single stages: forward and backward of one microbatch on the plan's mesh, as a CSV under 'profile'",
    "workspace": "the same profiling run: peak memory less what persists, by stage",
    "activation_memory": "the same profiling run: memory that grows with each microbatch in flight, by stage",
    "collective_curves": "nccl-tests, for example all_reduce_perf -b 1M -e 4G -f 2 over the groups that the plan uses",
    "link_bandwidth": "nccl-tests over the link in question, or the switch's data sheet with grade, source and date",
    "link_latency": "nccl-tests at 8 bytes over the link in question",
    "device_memory": "the device tool's total, as device_memory with grade measured",
    "contention": "the fabric's counters over a day of ordinary traffic",
    "compute_rate": "a profiling run of one layer on one device",
    "memory_bandwidth": "the device's data sheet, or a stream benchmark",
    "launch_overhead": "a profiling run of one small layer",
    "framework_context": "the device tool's figure of an idle process with its communicators open",
    "allocator_reserve": "reserved and allocated memory of any run of the same framework",
    "attention": "the framework's attention backend: workload.attention",
}
#: Evidence items that the step time of a measured stage does not rest on.
_REPLACED_BY_STAGES = ("compute_rate", "memory_bandwidth", "launch_overhead")
_REPLACED_BY_MEMORY = ("framework_context", "allocator_reserve")


#: A tie is a close one up to this ratio of expected step times; beyond it one plan is expected to be faster.
CLOSE = 1.05


@dataclass(frozen=True, slots=True)
class Ruling:
    """The verdict, what is refused, one sentence, and the reasons in words."""

    verdict: Verdict
    refused_of: str | None
    sentence: str
    because: tuple[str, ...]


def rule_on(
    case: Case,
    shut: Closures,
    recommended: Candidate | None,
    searched: bool,
    conditions: Sequence[Condition],
    signals: Sequence[CounterSignal],
    size: int = 0,
    cut_off: bool = False,
    against: Candidate | None = None,
) -> Ruling:
    """The verdict: evidence first, then the submitted plan, then the space, then the conditions. `against`: the plan whose
    running is asked for, with its ratio to the recommended one."""
    refusing = shut.chain("ranking")
    if refusing is not None:
        reasons = tuple(dict.fromkeys(link.message for link in refusing.chain))
        what = _joined(tuple(dict.fromkeys(_lower(link.title) for link in refusing.chain)))
        return Ruling(
            Verdict.REFUSED, "evidence", f"Refused: {what}. Nothing that depends on it is priced or recommended.", reasons
        )
    judged = case.with_role(Role.SUBMITTED) or case.with_role(Role.REFERENCE)
    if judged is not None and shut.plan_falls(judged.name) and judged.role is Role.SUBMITTED:
        links = [link for (scope, _), found in shut.links.items() if scope == judged.name for link in found]
        reasons = tuple(dict.fromkeys(link.message for link in links))
        instead = (
            f" A plan that stands: {describe(recommended.plan)}; it needs a new proposal."
            if recommended is not None
            else " Nothing in the declared space stands in its place."
        )
        titles = _joined(tuple(dict.fromkeys(_lower(link.title) for link in links)))
        return Ruling(Verdict.REFUSED, "plan", f"Refused: the plan '{judged.name}' falls: {titles}.{instead}", reasons)
    if recommended is None:
        if not searched:
            return Ruling(Verdict.REFUSED, "evidence", "Refused: the search could not run on what is stated.", ())
        what = "no plan of the declared space fits the devices' memory and stands"
        if cut_off:
            what = "the search stopped at its limit before it found a plan that stands; nothing is said of the rest of the space"
        elif not size:
            what = "the declared space holds no plan: nothing divides the devices, layers and batch within 'layouts'"
        return Ruling(Verdict.REFUSED, "space", f"Refused: {what}.", ())
    opened = [signal for signal in signals if signal.state == "open"]
    plan = describe(recommended.plan)
    if conditions or opened:
        counts = ((len(conditions), "condition"), (len(opened), "open counter-signal"))
        parts = [f"{number} {word}{'s' if number > 1 else ''}" for number, word in counts if number]
        verb = "are" if len(conditions) + len(opened) > 1 else "is"
        reasons = tuple([condition.text for condition in conditions] + [signal.text for signal in opened])
        return Ruling(
            Verdict.CONDITIONAL,
            None,
            f"Conditional: the plan to run is {plan}, once {' and '.join(parts)} {verb} settled.{_tie(recommended, against)}",
            reasons,
        )
    sentence = f"Supported: the plan to run is {plan}; what decides is measured or published, no counter-signal is open."
    return Ruling(Verdict.SUPPORTED, None, sentence + _tie(recommended, against), ())


def _tie(recommended: Candidate, against: Candidate | None) -> str:
    """What the verdict may not leave unsaid: the plan that was asked for stands too, and is not shown to be slower."""
    if against is None or against.id == recommended.id or against.ratio is None or against.fallen or against.feasible == "no":
        return ""
    ratio, name = against.ratio, against.plan.name
    if not ratio.low <= 1 <= ratio.high:
        return ""
    span = f"{ratio.value:.3g} times its step time, {ratio.low:.3g} to {ratio.high:.3g} possible"
    if ratio.value > CLOSE:
        return f" It is expected to be faster than '{name}', and not shown to be: '{name}' takes {span}."
    return f" Neither it nor '{name}' is shown to be faster: '{name}' takes {span}."


def conditions_of(
    facts: Iterable[Fact], findings: Sequence[Finding], recommended: Candidate | None, *, cut_off: bool = False
) -> tuple[Condition, ...]:
    """What must be settled: conditions that rules concluded for the case or the recommended plan, and weak deciders."""
    found: dict[str, Condition] = {}
    if cut_off:
        found["search"] = Condition(
            "search",
            "the search stopped at its limit of work or time: a better plan of the declared space may not have been looked at",
            "Run the review again without --work-limit or --time-limit.",
        )
    name = recommended.plan.name if recommended else None
    for finding in findings:
        for fact in finding.concluded:
            if fact.kind == "condition" and fact.get("plan") in (None, name):
                item = str(fact["item"])
                found.setdefault(item, Condition(item, _condition_text(finding, fact), finding.remedy))
    for fact in of_kind(facts, "condition"):
        item = str(fact["item"])
        if fact.get("rule") is not None:
            found.setdefault(item, Condition(item, f"rule {fact['rule']} was suppressed or lowered: {item}", ""))
    if recommended is not None:
        parts = [one for one in recommended.numbers if one.estimated]
        if any(not one.timed for one in parts) or any(name != "optimizer" for one in parts for name in one.estimated):
            shown = "; ".join(one.words for one in parts[:6]) + (f"; {len(parts) - 6} more kinds" if len(parts) > 6 else "")
            found["profile"] = Condition(
                "profile",
                f"the profile measures a part of the recommended plan's numbers, and the others are estimated: {shown}.",
                "Profile the stages that are named, on their mesh and microbatch, with the columns that are named.",
            )
        weak = [decider for decider in deciders_of(recommended) if decider.quantity.grade.rank > Grade.PUBLISHED.rank]
        if weak:
            shown = "; ".join(f"{one.name} ({one.quantity.grade.value})" for one in weak[:6])
            more = f" and {len(weak) - 6} more" if len(weak) > 6 else ""
            found["deciding_quantities"] = Condition(
                "deciding_quantities",
                f"{len(weak)} quantities that decide are neither measured nor published: {shown}{more}.",
                "See the missing evidence, in the order of its effect.",
            )
    return tuple(found.values())


def _condition_text(finding: Finding, fact: Fact) -> str:
    """A condition in words; of a finding that was kept from its effect, by whom."""
    if finding.suppressed is not None:
        return f"{finding.rule_id}, suppressed by {finding.suppressed.owner}: {finding.message}"
    if fact.get("rule") is not None:
        return f"{finding.rule_id}, lowered by the configuration: {finding.message}"
    return finding.message


def deciders_of(candidate: Candidate) -> tuple[Decider, ...]:
    """The quantities that the candidate's step time and memory rest on, each once."""
    found: dict[str, Decider] = {}
    for decider in candidate.step.deciders if candidate.step else ():
        found.setdefault(decider.name, decider)
    for memory in candidate.memory:
        for decider in memory.device.deciders:
            found.setdefault(decider.name, decider)
    return tuple(found.values())


def needs_of(case: Case, effects: Mapping[str, float], measured: bool) -> tuple[Need, ...]:
    """Missing evidence first, then evidence weaker than published, each in the order of its effect on the answer."""
    rows: list[Need] = []
    missing_items = set()
    for gap in gaps(case):
        missing_items.add(gap.item)
        rows.append(
            Need(gap.item, f"missing: {gap.what}", HOW.get(gap.item, gap.how), gap.path, None, effects.get(gap.item))
        )
    rows += _cost_of_planning(case)
    memory = case.profile is not None and any(row.memory or row.state for row in case.profile.rows)
    replaced = (*(_REPLACED_BY_STAGES if measured else ()), *(_REPLACED_BY_MEMORY if measured and memory else ()))
    weakest: dict[str, Need] = {}
    for item in evidence(case):
        grade = item.quantity.grade
        if grade.rank <= Grade.PUBLISHED.rank or item.item in missing_items:
            continue
        if item.item in replaced:
            continue
        text = f"{grade.value}: {item.name}"
        need = Need(item.item, text, HOW.get(item.item, "its source"), item.path, grade.value, effects.get(item.item))
        known = weakest.get(text)
        if known is None:
            weakest[text] = need
    rows += weakest.values()
    order = {id(row): k for k, row in enumerate(rows)}
    return tuple(sorted(rows, key=lambda row: (row.grade is not None, -(row.effect or 0.0), order[id(row)])))


def _cost_of_planning(case: Case) -> list[Need]:
    """The parts of what planning costs that the proposal does not state; none where it compares no plans."""
    if case.with_role(Role.REFERENCE) is None:
        return []
    stated = case.loaded.stated.planning_cost
    parts = (
        ("profiling", stated.profiling if stated else None, "the device time of profiling, every device that it holds counted"),
        ("change_over", stated.change_over if stated else None, "the device time lost while the run changes to the new plan"),
    )
    return [
        Need("planning_cost", f"missing: what planning costs, {name.replace('_', '-')}", f"{how}, under 'planning_cost.{name}'",
             "/planning_cost", None, None)
        for name, given, how in parts
        if given is None
    ]  # fmt: skip


def signals_of(findings: Sequence[Finding]) -> tuple[CounterSignal, ...]:
    """Counter-signals as rules concluded them; where one rule opens what another closes, the closed state stands."""
    found: dict[str, CounterSignal] = {}
    for finding in findings:
        for fact in finding.concluded:
            if fact.kind != "counter_signal":
                continue
            name, state = str(fact["name"]), str(fact["state"])
            signal = CounterSignal(name, state, finding.message, str(fact["by"]), finding.rule_id, finding.path)
            if name not in found or state == "closed":
                found[name] = signal
    return tuple(found.values())


def invariants_of(case: Case) -> tuple[Invariant, ...]:
    """What every compared plan keeps, as stated, and the plans that would change it."""
    work = case.loaded.stated.workload
    precision = work.precision if work else None
    moe = case.model.moe if case.model else None
    roles = ("parameters", "gradients", "master", "moments")
    rows = (
        ("model", _model(case)),
        ("sequence_length", case.sequence_length and f"{case.sequence_length} tokens"),
        ("global_batch", case.global_batch and f"{case.global_batch} sequences"),
        ("precision", precision and ", ".join(f"{r} {getattr(precision, r)}" for r in roles if getattr(precision, r))),
        ("optimizer", work and work.optimizer and work.optimizer.name),
        ("dropout", work and work.dropout is not None and f"{work.dropout:g}"),
        ("expert_capacity", moe and (f"{moe.capacity_factor:g}" if moe.capacity_factor else "no limit stated")),
        ("loss_scaling", work and work.loss_scaling),
        ("data_order", work and work.data_order),
    )
    result = []
    for name, value in rows:
        changed = tuple(plan.name for plan in case.plans if name in (plan.stated.changes or {}))
        result.append(Invariant(name, str(value) if value else "not stated", not changed, changed))
    return tuple(result)


def _model(case: Case) -> str | None:
    """The model in a line: its shapes, or its graph."""
    if case.model is not None:
        return f"{case.model.name or case.model.family}, {case.model.layers} layers, hidden {case.model.hidden}"
    if case.graph is None:
        return None
    named = case.graph.family or "an operator graph"
    return f"{named} of {case.graph.operators:,} operators and {case.graph.parameters:,} parameters"


def roles_of(plan: Plan, recommended: Plan | None, fallback: Plan | None) -> tuple[str, ...]:
    """The roles that a plan plays in the decision, its own first."""
    roles = [plan.role.value]
    if recommended is not None and plan.identity == recommended.identity:
        roles.append("recommended")
    if fallback is not None and plan.identity == fallback.identity:
        roles.append("fallback")
    return tuple(dict.fromkeys(roles))


def _lower(title: str) -> str:
    return title[:1].lower() + title[1:] if title[1:2].islower() or title[1:2] == " " else title


def _joined(parts: Sequence[str]) -> str:
    if len(parts) <= 1:
        return "".join(parts)
    if len(parts) <= 4:
        return ", ".join(parts[:-1]) + " and " + parts[-1]
    return ", ".join(parts[:3]) + f" and {len(parts) - 3} more"
