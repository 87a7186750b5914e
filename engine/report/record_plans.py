"""The record's part on plans: the recommended one, why, its fallback, memory, time, and all candidates."""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

from ..cost import Priced
from ..decision.review import Candidate, Review
from ..plan import Plan, Role, describe, to_dict
from ..quantity import Dimension, Estimate
from .critical import path_lines, path_table
from .escape import clipped, fence_for, yaml_text
from .figures import counted, figure, interval, ratio, span
from .ledgers import (
    FORMULA_KEY,
    TERM_NAMES,
    falls_apart,
    memory_notes,
    memory_table,
    stage_table,
    terms_table,
    time_lines,
    time_table,
)
from .record_head import Limits, judged
from .tables import Table, capped

#: Kinds of stage whose measured numbers the record tells; the JSON has all.
_NUMBERS = 4
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def plans(review: Review, limits: Limits) -> dict[str, Any]:
    """Everything about plans."""
    best = review.candidate(review.recommended)
    return {
        "recommended": _recommended(review, best, limits) if best is not None else None,
        "comparison": _comparison(review, best),
        "run_cost": _run_cost(review, best),
        "fallback": _fallback(review),
        "memory": _memory(review, best, limits),
        "time": _time(best),
        "critical": _critical(review, best),
        "candidates": _candidates(review, limits),
    }


def _recommended(review: Review, best: Candidate, limits: Limits) -> dict[str, Any]:
    lines = [("Plan", f"{best.id}: {describe(best.plan)}")]
    step, priced = best.step, best.priced
    if step is not None:
        whole = all(one.timed for one in best.numbers)
        measured = "" if not best.measured else ", on measured stages" if whole else ", on stages that are measured in part"
        lines.append(("Step time", f"{interval(step)}, {step.grade.value}{measured}"))
        if best.numbers:
            told = [one.words for one in best.numbers[:_NUMBERS]]
            told += [f"{len(best.numbers) - _NUMBERS} more kinds of stage in the JSON"] if len(best.numbers) > _NUMBERS else []
            lines.append(("Profile", ". ".join(f"{one[:1].upper()}{one[1:]}" for one in told)))
    if step is not None and priced is not None:
        mfu = priced.model_flops / priced.peak_flops_per_s
        lines.append(("MFU", _inverse(mfu, step, Dimension.FRACTION)))
        rate = [priced.tokens / one for one in (step.value, step.high, step.low)]
        lines.append(("Tokens/s", f"{rate[0]:,.0f} ({rate[1]:,.0f} to {rate[2]:,.0f})"))
    lines.append(("Fits", f"{best.feasible}; bound by {TERM_NAMES.get(best.binding, best.binding)}"))
    lines.append(("Simplicity", str(best.simplicity)))
    text = plan_yaml(best.plan, limits.stages)
    return {"lines": lines, "why": review.why_recommended, "yaml": text, "fence": fence_for(text)}


def _run_cost(review: Review, best: Candidate | None) -> list[tuple[str, str]]:
    """Days and device-hours of the whole run: the recommended plan's, and those of the plan that was to run."""
    steps, lines = review.case.run_steps, []
    if not steps:
        return []
    for one in dict.fromkeys((best, judged(review))):
        if one is None or one.step is None:
            continue
        run, devices = one.step.scaled(steps), one.plan.devices
        work = [end * devices for end in (run.value, run.low, run.high)]
        cost = f"{interval(run)}, {span(work[0], work[1], work[2], Dimension.DEVICE_TIME)}"
        name = "recommended" if one is best else clipped(one.plan.name, 60)
        lines.append((f"{one.id} {name}", f"{counted(steps, 'step')} in {cost}"))
    return lines


def _inverse(amount: float, step: Estimate, dimension: Dimension) -> str:
    """`amount` over the step time, with the interval turned round."""
    return span(amount / step.value, amount / step.high, amount / step.low, dimension)


def plan_yaml(plan: Plan, limit: int = 10**6) -> str:
    """The plan as YAML to paste under `plans`: stages alike, one after the other, once with `repeat`.

    Beyond `limit` entries of stages a comment says that the rest is not shown.
    """
    body = to_dict(plan)
    lines: list[str] = []
    for key, value in body.items():
        if key == "stages" and isinstance(value, list):
            stages = _folded(value)
            lines.append("stages:")
            lines += [f"  - {_flow(stage)}" for stage in stages[:limit]]
            if len(stages) > limit:
                lines.append(f"  # {len(stages) - limit} more entries: the JSON of this review has the plan whole.")
        else:
            lines.append(f"{key}: {_flow(value)}")
    return "\n".join(("- " if k == 0 else "  ") + line for k, line in enumerate(lines))


def _flow(value: object) -> str:
    """A value of a plan in YAML's flow style, on one line: a mapping, a list, a text, a number or a truth value."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    plain = not isinstance(value, str) or (_PLAIN.fullmatch(text) and yaml.safe_load(text) == text)
    return text if plain else yaml_text(text)


def _folded(stages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs of equal stages of equal length as one entry with `repeat`. What holds embedding or head stands alone."""
    folded: list[dict[str, Any]] = []
    for stage in stages:
        first, last = stage["layers"]
        if folded and "with" not in stage:
            before = folded[-1]
            start, end = before["layers"]
            repeat = before.get("repeat", 1)
            rest = {key: value for key, value in before.items() if key not in ("layers", "repeat")}
            alike = rest == {key: value for key, value in stage.items() if key != "layers"}
            if alike and last - first == end - start and first == start + repeat * (end - start + 1):
                folded[-1] = before | {"repeat": repeat + 1}
                continue
        folded.append(stage)
    return folded


def _named(review: Review, best: Candidate | None) -> list[tuple[str, Priced]]:
    """The priced plans to show side by side: recommended, submitted, reference, each once."""
    found: dict[str, tuple[str, Priced]] = {}
    if best is not None and best.priced is not None:
        found[best.id] = (f"{best.id} recommended", best.priced)
    for role in (Role.SUBMITTED, Role.REFERENCE):
        for one in review.candidates:
            if one.plan.role is role and one.path and one.priced is not None:
                found.setdefault(one.id, (f"{one.id} {clipped(one.plan.name, 40)}", one.priced))
    return list(found.values())[:3]


def _comparison(review: Review, best: Candidate | None) -> Table:
    named = _named(review, best)
    return terms_table(named) if len(named) > 1 else Table((), ())


def _fallback(review: Review) -> str:
    found = review.candidate(review.fallback)
    if found is None:
        return f"None: {review.fallback_reason or 'nothing is recommended'}."
    step = f", {interval(found.step)} a step" if found.step is not None else ""
    versus = f", {ratio(found.ratio)} times the recommended plan's" if found.ratio is not None else ""
    return f"{found.id}: {describe(found.plan)}{step}{versus}; simplicity {found.simplicity}."


def _memory(review: Review, best: Candidate | None, limits: Limits) -> list[dict[str, Any]]:
    """The ledger of the recommended plan, and that of the plan that was to run where it is another."""
    subject = judged(review)
    wanted = [one for one in (best, subject) if one is not None and one.memory]
    if len(wanted) == 2 and wanted[0].id == wanted[1].id:
        wanted = wanted[:1]
    left = "".join(f" That of {one.id} stands in the JSON of this review." for one in wanted[limits.ledgers :])
    wanted = wanted[: limits.ledgers]
    return [
        {
            "name": f"{one.id} {'recommended' if one is best else clipped(one.plan.name, 60)}",
            "table": memory_table(one.plan, one.memory),
            "key": FORMULA_KEY + left if one is wanted[-1] else "",
            "notes": memory_notes(one.memory) if one is wanted[0] and limits.notes else [],
        }
        for one in wanted
    ]


def _time(best: Candidate | None) -> dict[str, Any] | None:
    if best is None or best.priced is None:
        return None
    return {
        "name": f"One step of {best.id}, the recommended plan",
        "table": time_table(best.priced),
        "lines": time_lines(best.priced, best.id),
        "stages": stage_table(best.priced),
        "notes": falls_apart(best.priced),
    }


def _critical(review: Review, best: Candidate | None) -> dict[str, Any] | None:
    """The critical path of the recommended plan, and of the plan that was to run where it is another."""
    subject = judged(review)
    wanted = [one for one in dict.fromkeys((best, subject)) if one is not None]
    named = [
        (f"{one.id} {'recommended' if one is best else clipped(one.plan.name, 60)}", one.critical)
        for one in wanted
        if one.critical is not None
    ]
    if not named:
        return None
    lines = path_lines(named)
    if not all(path.split for _, path in named):
        lines.append("Where stages are measured, their collectives stand inside the computation.")
    return {"table": path_table(named), "lines": lines}


def _candidates(review: Review, limits: Limits) -> Table:
    """The candidates with a role in the decision first, then the others as they are stated."""
    telling = {"recommended", "fallback", "submitted", "reference"}
    ordered = sorted(review.candidates, key=lambda one: not telling.intersection(one.roles))
    rows = [
        (
            one.id,
            ", ".join(one.roles),
            clipped(describe(one.plan), 200),
            figure(one.step.value, Dimension.TIME) if one.step is not None else "not priced",
            _ends(one.step) if one.step is not None else "",
            one.feasible,
            TERM_NAMES.get(one.binding, one.binding),
            str(one.simplicity),
            ratio(one.ratio) if one.ratio is not None else "1" if one.id == review.recommended else "",
        )
        for one in ordered
    ]
    heads = ("id", "roles", "plan", "step time:", "90 % interval", "fits", "bound by", "simplicity", "over recommended")
    return capped(heads, rows, limits.candidates, "candidates")


def _ends(step: Estimate) -> str:
    return interval(step).partition("(")[2].rstrip(")")
