"""The record's part on how far the answer carries: what clears the memory, sensitivity, the joint worst case, verification."""

from __future__ import annotations

from typing import Any

from ..decision.remedy import Clearing
from ..decision.review import Review, Trials
from ..decision.sensitivity import BreakEven, Joint, Sensitivity
from ..plan import describe
from ..quantity import Dimension, human
from .escape import clipped
from .figures import count, counted, digits, ratio, share
from .record_head import Limits
from .tables import Table, capped

#: Inputs of the sensitivity that are always shown.
INPUTS = 12


def outlook(review: Review, limits: Limits) -> dict[str, Any]:
    """What changes the answer, what clears memory, and how the answer is checked later."""
    return {
        "clearing": [line for one in review.clearings for line in clearing_lines(one)],
        "sensitivity": sensitivity_table(review, limits),
        "sensitivity_notes": _notes(review),
        "verification": capped(
            ("measure", "predicted", "overturned by"),
            [(one.what, one.predicted, one.overturns) for one in review.verification],
            limits.rows,
        ),
        "trials": _trials(review.trials) if review.trials is not None else [],
    }


def clearing_lines(one: Clearing) -> list[str]:
    """The cheapest single change of a plan that clears its memory, and the next ones."""
    state = "does not fit" if one.state == "no" else "may not fit"
    if not one.changes:
        return [
            f"'{one.plan}' {state}; of the single changes that the declared space allows ({count(one.looked_at)} looked at) none "
            "is sure to fit and stands."
        ]
    best, *others = one.changes
    cost = f"{share(abs(best.slower))} {'more' if best.slower > 0 else 'less'} a step than priced for it"
    step = human(best.priced.step_estimate.value, Dimension.TIME)
    left = human(best.priced.headroom_bytes, Dimension.BYTES)
    lines = [
        f"'{one.plan}' {state}. The cheapest single change that clears it: {best.what}, {step} a step, {cost}, {left} left on "
        f"the fullest rank ({counted(one.looked_at, 'single change')} looked at, {one.fitting} sure to fit)."
    ]
    lines += [
        f"Next: {other.what}, {human(other.priced.step_estimate.value, Dimension.TIME)} a step." for other in others
    ]
    return lines


def shown(value: float, row: Sensitivity) -> str:
    """A value of an input with its unit."""
    if row.dimension is not None:
        return human(value, row.dimension)
    return count(round(value)) if value == round(value) else digits(value)


def sensitivity_table(review: Review, limits: Limits) -> Table:
    """One row an input: today's value, the range of its evidence, and the break-even values."""
    rows = []
    for one in review.sensitivity:
        unit = f" {one.unit}" if one.dimension is None else ""
        spread = f"{shown(one.low, one)} to {shown(one.high, one)}" if one.high > one.low else one.why_range
        rows.append((one.name, shown(one.today, one) + unit, spread, _edge(one.below, one, -1), _edge(one.above, one, 1)))
    heads = ("input", "today:", "its range", "the answer changes below", "the answer changes above")
    return capped(heads, rows, max(limits.rows, INPUTS), "inputs")


def _edge(change: BreakEven | None, row: Sensitivity, side: int) -> str:
    if change is None:
        end = row.searched[0] if side < 0 else row.searched[1]
        if end == row.today or end == float("inf"):
            return "not looked at" if row.unit != "steps" or end == row.today else "never"
        return f"not down to {shown(end, row)}" if side < 0 else f"not up to {shown(end, row)}"
    factor = f" (x {digits(change.factor)})" if change.factor is not None else ""
    inside = ", INSIDE its range" if change.inside else ""
    then = f" then {clipped(describe(change.becomes), 160)}" if change.becomes is not None else ""
    return f"{shown(change.value, row)}{factor}{inside}: {change.text}{';' if then else ''}{then}"


def _notes(review: Review) -> list[str]:
    if not review.sensitivity:
        return []
    notes = []
    inside = [one.name for one in review.sensitivity for edge in (one.below, one.above) if edge is not None and edge.inside]
    if inside:
        notes.append(f"Inside its own range alone, {', '.join(dict.fromkeys(inside))} can change the recommendation.")
    else:
        notes.append("No input changes the recommendation inside its own range alone.")
    if review.joint is not None:
        notes.append(_joint(review.joint))
    return notes


def _joint(one: Joint) -> str:
    settings = ", ".join(f"{name} {human(value, dimension)}" for name, value, dimension in one.at)
    fits = {"yes": "still sure to fit", "at_risk": "no longer sure to fit", "no": "too large"}[one.fits]
    better = (
        f"the best plan sure to fit there ({describe(one.best)}) takes {digits(1 / one.regret)} times its time"
        if one.regret != 1
        else "no plan looked at is better there"
    )
    return (
        f"Joint worst case inside the ranges: the recommended plan takes {human(one.step_s, Dimension.TIME)} a step and is "
        f"{fits}; {better}. All at their slowest ends: {human(one.slowest_s, Dimension.TIME)} a step. The worst case has "
        f"{settings}."
    )


def _trials(one: Trials) -> list[str]:
    lines = [
        "Keep model, global batch, precision, optimizer, data order and the placement on the same nodes matched in every run.",
        f"In every run throw away {one.warm_up} steps and keep {one.steps}: then the scatter of single steps "
        f"({share(one.step_noise)}, {one.sources[0].grade.value}) adds little to that between runs "
        f"({share(one.run_noise)}, {one.sources[1].grade.value}; {one.sources[0].file}:{one.sources[0].line} and "
        f"{one.sources[1].file}:{one.sources[1].line}). A run's own log replaces both.",
    ]
    if one.ratio is not None and one.against is not None:
        source = (
            "at 5 % two-sided significance and 90 % power: n >= 2 ((t(0.975) + t(0.9)) s / ln ratio)^2 with Student's t of "
            "2 n - 2 degrees of freedom, s^2 = run^2 + step^2 / steps (NIST/SEMATECH e-Handbook of Statistical Methods, 7.2.2.2)"
        )
        if one.runs is not None and one.told_apart is not None:
            lines.append(
                f"{one.runs} runs of each plan, alternating, tell the predicted ratio {ratio(one.ratio)} to '{one.against}' from "
                f"1 {source}. So many tell any ratio beyond {digits(one.told_apart)} or below {digits(1 / one.told_apart)}; one "
                "that is measured nearer to 1 needs more runs, or is a tie for every purpose."
            )
        else:
            lines.append(
                f"The predicted ratio {ratio(one.ratio)} to '{one.against}' is so near to 1 that no practical number of runs "
                f"tells the plans apart {source}: treat them as a tie."
            )
    return lines
