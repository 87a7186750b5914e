"""What a reader of the record sees first: front matter, verdict, the three answers, and what is proposed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..decision.review import Candidate, Review
from ..frozen import dataclass
from ..model import active_parameters, parameters
from ..plan import Role, describe
from ..quantity import Dimension, Grade, human
from .escape import clipped, yaml_text
from .figures import count, counted, interval, large, plural, ratio, share
from .places import in_repository, title_of

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of each part of a record is shown; what is left out is counted, and the JSON has it."""

    reasons: int = 8
    plans: int = 16
    findings: int = 40
    errors: int = 80
    of_a_rule: int = 3
    sources: bool = True
    stages: int = 48
    notes: bool = True
    candidates: int = 16
    rows: int = 32
    classes: int = 12
    pictures: bool = True
    #: Plans whose memory is shown.
    ledgers: int = 2
    #: Operators of a stage; 0: the two prices alone.
    operators: int = 6


def head(review: Review, limits: Limits) -> dict[str, Any]:
    """Front matter, title, verdict and the three answers."""
    title = clipped(title_of(review.case.loaded), 200)
    verdict = review.verdict.value
    sentence = review.sentence
    if sentence.lower().startswith(f"{verdict.lower()}: "):
        sentence = _sentence(sentence[len(verdict) + 2 :])
    return {
        "front": _front_matter(review, title),
        "title": title,
        "verdict": verdict,
        "sentence": sentence,
        "because": shortened(review.because, limits.reasons, "reasons"),
        "may_run": _sentence(_may_run(review)),
        "instead": _sentence(_instead(review)),
        "sure": _sentence(_how_sure(review)),
    }


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _front_matter(review: Review, title: str) -> list[str]:
    """Lines of YAML; what is not known is left out."""
    heading = review.case.loaded.stated.proposal
    day = review.as_of or (heading.date if heading else None)
    lines = ["status: proposed", f"verdict: {review.verdict.value}"]
    if review.refused_of:
        lines.append(f"refused_of: {review.refused_of}")
    if day:
        lines.append(f'date: "{day}"')
    if heading and heading.decision_makers:
        lines.append(f"decision_makers: [{', '.join(map(yaml_text, heading.decision_makers))}]")
    lines.append(f"title: {yaml_text(title)}")
    if heading and heading.supersedes:
        lines.append(f"supersedes: {yaml_text(heading.supersedes)}")
    lines += [
        "proposal:",
        f"  path: {yaml_text(in_repository(review.case.loaded))}",
        f"  sha256: {review.case.loaded.document.sha256}",
        *_options(review),
        f"planproof_record: {FORMAT}",
    ]
    return lines


def _options(review: Review) -> list[str]:
    """What the review was asked with, for whoever makes it again."""
    if not review.options:
        return []
    said = [f"--{name}" if value is True else f"--{name}={value}" for name, value in review.options]
    return [f"options: [{', '.join(map(yaml_text, said))}]"]


def judged(review: Review) -> Candidate | None:
    """The candidate whose running is asked for: the submitted plan, else the reference."""
    for role in (Role.SUBMITTED, Role.REFERENCE):
        found = next((one for one in review.candidates if one.plan.role is role and one.path), None)
        if found is not None:
            return found
    return None


def _may_run(review: Review) -> str:
    subject = judged(review)
    plan = review.case.with_role(Role.SUBMITTED) or review.case.with_role(Role.REFERENCE)
    if review.refused_of == "evidence":
        return "not on this evidence; nothing that depends on what is missing was priced."
    if plan is None:
        return "no plan is submitted and there is no reference plan."
    if subject is None or subject.plan.name != plan.name:
        return f"'{plan.name}' cannot be judged: its description is incomplete or contradicts itself."
    name = f"'{subject.plan.name}' ({subject.plan.role.value})"
    if subject.fallen:
        return f"{name} may not: it falls by {', '.join(subject.fallen)}."
    if subject.feasible == "no":
        return f"{name} may not: it does not fit the devices' memory."
    step = f", {interval(subject.step)} a step" if subject.step is not None else ""
    if subject.feasible == "at_risk":
        return f"{name} may run out of memory: the interval of its peak passes the capacity{step}."
    return f"{name} fits and no rule stops it{step}."


def _instead(review: Review) -> str:
    best, subject = review.candidate(review.recommended), judged(review)
    if best is None:
        return "nothing is recommended."
    if subject is not None and subject.id == best.id:
        return "nothing: it is the recommended plan."
    step = f", {interval(best.step)} a step" if best.step is not None else ""
    against = ""
    if subject is not None and subject.ratio is not None:
        against = f"; '{subject.plan.name}' takes {ratio(subject.ratio)} times as long"
        if subject.ratio.low <= 1 <= subject.ratio.high:
            against += ", which on this evidence cannot be told from a tie: that changing to it pays is not shown"
    return f"{describe(best.plan)} ({best.id}{step}){against}."


def _how_sure(review: Review) -> str:
    opened = sum(signal.state == "open" for signal in review.counter_signals)
    parts = []
    best = review.candidate(review.recommended)
    if best is not None and best.step is not None:
        step = best.step
        below, above = 1 - step.low / step.value, step.high / step.value - 1
        wide = f"its 90 % interval is from {share(below)} below it to {share(above)} above"
        parts.append(f"the step time is {step.grade.value}; {wide}")
        weak = sum(one.quantity.grade.rank > Grade.PUBLISHED.rank for one in step.deciders)
        parts.append(f"{weak} of the {len(step.deciders)} quantities it rests on are weaker than published")
    parts.append(f"{plural(len(review.conditions), 'condition')} and {plural(opened, 'counter-signal')} open")
    missing = sum(need.grade is None for need in review.needs)
    if missing:
        parts.append(f"{plural(missing, 'item')} of evidence missing")
    return "; ".join(parts) + "."


def shortened(lines: Sequence[str], limit: int, what: str) -> list[str]:
    """At most `limit` lines, and one that counts the rest."""
    left = len(lines) - limit
    return list(lines) if left <= 0 else [*lines[:limit], f"{left} more {what} stand in the JSON of this review."]


def proposed(review: Review, limits: Limits) -> dict[str, Any]:
    """What is proposed: a line each for model, workload, run, cluster and every plan."""
    lines = [line for line in (_model(review), _workload(review), _run(review), *_cluster(review)) if line]
    plans = []
    for plan in review.case.plans[: limits.plans]:
        form = describe(plan.plan) if plan.plan is not None else "not described completely"
        origin = plan.stated.origin
        planner = f"; from {origin.planner}" if origin and origin.planner else ""
        aim = f", which minimises {origin.objective}" if origin and origin.objective and planner else ""
        plans.append((plan.name, f"({plan.role.value}): {clipped(form, 300)}{planner}{aim}"))
    left = len(review.case.plans) - len(plans)
    return {"lines": lines, "plans": plans, "more_plans": f"{left} more plans are not listed." if left > 0 else ""}


def _model(review: Review) -> tuple[str, str] | None:
    model, graph = review.case.model, review.case.graph
    if graph is not None and model is None:
        repeats = "no repeats"
        if graph.layers > 1:
            repeats = f"{graph.layers} layers recognised, {graph.layer_operators} operators each"
        return (
            "Model",
            f"{graph.family or 'an operator graph'}: {plural(graph.operators, 'operator')}, {repeats}, "
            f"{large(graph.parameters)} parameters ({count(graph.parameters)}), "
            f"{large(graph.forward_flops)} FLOPs forward a sequence",
        )
    if model is None:
        return ("Model", "not described completely")
    total, active = parameters(model), active_parameters(model)
    text = (
        f"{model.name or model.family}, {large(total)} parameters ({count(total)}), {model.layers} layers, "
        f"hidden {model.hidden}, {model.heads} heads ({model.kv_heads} key/value), ffn {model.ffn}, "
        f"vocabulary {model.vocabulary}"
    )
    if model.moe is not None:
        text += f"; {model.moe.experts} experts, top {model.moe.top_k}, {large(active)} active parameters"
    if graph is not None:
        text += f"; operators as 'model.graph' has them, {graph.operators:,} with {count(graph.parameters)} parameters"
    return ("Model", text)


def _workload(review: Review) -> tuple[str, str] | None:
    case, stated = review.case, review.case.loaded.stated.workload
    parts = []
    if case.global_batch:
        parts.append(f"global batch {counted(case.global_batch, 'sequence')}")
    if case.sequence_length:
        parts.append(f"of {case.sequence_length} tokens")
    if case.global_batch and case.sequence_length:
        parts.append(f"({human(case.global_batch * case.sequence_length, Dimension.TOKENS)} a step)")
    text = " ".join(parts)
    others = []
    if stated is not None and stated.precision is not None:
        roles = ("parameters", "gradients", "master", "moments", "communication")
        found = [(role, getattr(stated.precision, role)) for role in roles]
        others.append(", ".join(f"{role} {dtype}" for role, dtype in found if dtype))
    if stated is not None and stated.optimizer is not None and stated.optimizer.name:
        others.append(stated.optimizer.name)
    if stated is not None:
        others.append(f"{stated.attention} attention" if stated.attention else "attention kernel not stated")
    return ("Workload", "; ".join(part for part in (text, *others) if part) or "not stated")


def _run(review: Review) -> tuple[str, str] | None:
    case, heading = review.case, review.case.loaded.stated.proposal
    parts = []
    if case.run_steps:
        parts.append(counted(case.run_steps, "step"))
    if case.run_tokens:
        parts.append(human(case.run_tokens, Dimension.TOKENS))
    if heading is not None and heading.objective:
        parts.append(f"objective {heading.objective}")
    if heading is not None and heading.scaling:
        parts.append(heading.scaling)
    if heading is not None and heading.framework is not None and heading.framework.name:
        parts.append(f"{heading.framework.name} {heading.framework.version or '(version not stated)'}")
    return ("Run", ", ".join(parts)) if parts else None


def _cluster(review: Review) -> list[tuple[str, str]]:
    described = review.case.described
    lines = []
    for node in described.nodes:
        memory = f" of {node.memory}" if node.memory is not None else ""
        device = node.device or "device not stated"
        lines.append(f"{node.count or '?'} x {node.name} with {node.devices or '?'} x {device}{memory} each")
    if described.bare_devices is not None and not described.nodes:
        lines.append(f"{plural(described.bare_devices, 'device')}, topology not stated")
    total = f", {plural(described.devices, 'device')} in all" if described.devices else ""
    rows = [("Cluster", "; ".join(lines) + total)] if lines else [("Cluster", "not described")]
    for link in described.links:
        rate = f"{link.bandwidth} a device and direction" if link.bandwidth is not None else "bandwidth not stated"
        grade = f" ({link.bandwidth.grade.value})" if link.bandwidth is not None else ""
        latency = f", latency {link.latency}" if link.latency is not None else ""
        rows.append((f"Link {link.name}", f"{link.medium}, {link.tier} of {link.span} devices, {rate}{grade}{latency}"))
    return rows
