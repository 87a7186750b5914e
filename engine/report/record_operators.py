"""The longest stage of a plan operator by operator: the record's section and its part of the JSON."""

from __future__ import annotations

from math import inf
from typing import Any, Final

from ..cost.tensor_layout import LayoutStep
from ..decision.operators import PlanOperators
from ..decision.review import Candidate, Review
from ..quantity import Dimension
from ..search.operator_search import Conversion, OperatorLayout, OperatorLayouts
from .escape import clipped
from .figures import figure, gib, share
from .record_head import Limits
from .tables import Table, capped

#: A difference of the two prices of one plan above this share is put into words.
_APART: Final = 0.10
#: Conversions that the record puts into words.
_CONVERSIONS: Final = 4


def operators(review: Review, limits: Limits) -> list[dict[str, Any]]:
    """One entry for the recommended plan, and one for each stated plan that says how its operators lie."""
    shown = [one for one in review.candidates if one.operators is not None]
    ordered = sorted(shown, key=lambda one: one.id != review.recommended)
    most = 2 if limits.operators > 3 else 1
    return [_entry(one, one.operators, limits) for one in ordered[:most] if one.operators is not None]


def _entry(candidate: Candidate, found: PlanOperators, limits: Limits) -> dict[str, Any]:
    plan = candidate.plan
    name = f"{candidate.id} {clipped(plan.name, 60)}, stage {found.stage} of {plan.pipeline}"
    if found.reason or found.own is None or found.best is None:
        return {"name": name, "lines": [("Not laid out", found.reason)], "table": Table((), ()), "conversions": ""}
    lines = _totals(found)
    if not limits.operators:
        return {"name": f"{name}: {lines[-1][1]}. The JSON of this review has each operator.", "lines": ()}
    best = {one.operator: one for one in found.best.layouts}
    rows = [
        _row(one, best.get(one.operator), plan.accumulation)
        for one in sorted(found.own.layouts or found.best.layouts, key=lambda one: -one.copies)
        if one.kind not in ("input", "output")
    ]
    heads = ("operator", "copies:", "layout", "compute:", "communication:", "best layout", "next best adds:", "next best")
    shown = found.own if found.own.conversions or found.own.objective < inf else found.best
    moved = sorted(shown.conversions, key=lambda one: -one.seconds)
    words = "; ".join(_moved(one) for one in moved[:_CONVERSIONS])
    rest = f"; {len(moved) - _CONVERSIONS:,} more in the JSON" if len(moved) > _CONVERSIONS else ""
    return {
        "name": name,
        "lines": lines,
        "table": capped(heads, rows, limits.operators, "operators"),
        "conversions": words + rest,
    }


def _totals(found: PlanOperators) -> list[tuple[str, str]]:
    own, best = found.own, found.best
    assert own is not None
    assert best is not None
    lines = []
    if own.objective < inf:
        lines.append(("As the plan lays it out", f"{_time(own.objective)} a step ({_parts(own)})"))
    else:
        lines.append(("As the plan lays it out", f"not possible: {own.binding}"))
    if best.objective < inf:
        saved = f", {_time(found.saved_s)} less" if found.saved_s > 0 else ""
        lines.append(("Best layouts on this mesh", f"{_time(best.objective)} a step{saved} ({_parts(best)})"))
        gap = "proved" if best.proven else f"not proved: at least {_time(best.lower_bound)}, gap {share(best.gap)}"
        how = f"{best.method}, width {best.width}, {best.operators} operators in {best.kinds} kinds of segment; {gap}"
        lines.append(("Method", how))
        lines.append(("Memory of these operators", f"{gib(best.memory_bytes)} GiB within {gib(found.budget_bytes)} GiB"))
    else:
        lines.append(("Best layouts on this mesh", f"none: {best.binding}"))
    if found.given:
        lines.append(("Graph", "the proposal's own"))
    if not found.stage_s:
        lines.append(("The stage's own price", "none: shapes would have to stand beside the graph"))
    elif own.objective < inf:
        apart = found.disagreement
        word = "The two agree" if abs(apart) <= _APART else "THE TWO DISAGREE"
        said = f"{_time(found.stage_s)} a step. {word}: by operator {100 * apart:+.1f} %"
        if apart > _APART and found.launch_s > apart * found.stage_s:
            said += (
                f"; {_time(found.launch_s)} of it are kernels no longer than a launch or two, which the stage's price lets the "
                "host hide where it runs ahead"
            )
        lines.append(("The stage's own price", said))
    return lines


def _parts(one: OperatorLayouts) -> str:
    rows = (
        ("compute", one.compute_s), ("conversions", one.conversion_s), ("exchanges", one.exchange_s),
        ("parameter gathers", one.gather_s),
        ("synchronisation", one.sync_s), ("optimizer", one.optimizer_s),
    )  # fmt: skip
    return ", ".join(f"{name} {_time(seconds)}" for name, seconds in rows if seconds)


def _row(one: OperatorLayout, best: OperatorLayout | None, m: int) -> tuple[str, ...]:
    spent = one.spending
    compute = one.copies * m * (spent.forward + spent.backward)
    sent = one.copies * (m * (spent.exchanged + spent.gathered) + spent.sync)
    other = "" if best is None else "the same" if best.split == one.split else _layout(best.split)
    after = best if best is not None and best.next_split is not None else None
    return (
        one.operator,
        str(one.copies),
        _layout(one.split),
        _time(compute),
        _time(sent) if sent else "0",
        other,
        _time(after.next_extra_s) if after is not None else "",
        _layout(after.next_split) if after is not None and after.next_split is not None else "none",
    )


def _layout(split: tuple[tuple[str, str], ...]) -> str:
    """`batch on data, heads on tensor`; axes that divide nothing are named as whole."""
    words = {"": "whole", "+": "sums"}
    return ", ".join(f"{words.get(loop, loop)} on {axis}" for axis, loop in split)


def _moved(one: Conversion) -> str:
    times = f", {one.copies} times" if one.copies > 1 else ""
    return (
        f"{one.tensor} from {one.source} to {one.target}{times}: {_steps(one.forward)} forward, {_steps(one.backward)} backward, "
        f"{_time(one.seconds)}"
    )


def _steps(steps: tuple[LayoutStep, ...]) -> str:
    return ", ".join(f"{one.operation.replace('_', '-')} on {one.axis}" for one in steps) or "none"


def _time(seconds: float) -> str:
    return figure(seconds, Dimension.TIME)


# JSON.


def operators_json(found: PlanOperators) -> dict[str, Any]:
    """The section as data; figures of a whole step. What has no layout is null, with its reason."""
    return {
        "stage": found.stage,
        "reason": found.reason or None,
        "mesh": [{"axis": one.name, "size": one.size, "stride": one.stride} for one in found.mesh.axes] if found.mesh else [],
        "stated": found.stated,
        "graph_given": found.given,
        "stage_price_s": found.stage_s,
        "disagreement": found.disagreement,
        "saved_s": found.saved_s,
        "budget_bytes": found.budget_bytes,
        "own": _layouts_json(found.own) if found.own is not None else None,
        "best": _layouts_json(found.best) if found.best is not None else None,
    }


def _layouts_json(one: OperatorLayouts) -> dict[str, Any]:
    priced = one.objective < inf
    return {
        "step_s": one.objective if priced else None,
        "lower_bound_s": one.lower_bound if one.lower_bound < inf else None,
        "gap": one.gap,
        "method": one.method,
        "width": one.width,
        "binding": one.binding or None,
        "compute_s": one.compute_s,
        "exchange_s": one.exchange_s,
        "gather_s": one.gather_s,
        "conversion_s": one.conversion_s,
        "sync_s": one.sync_s,
        "optimizer_s": one.optimizer_s,
        "memory_bytes": one.memory_bytes,
        "operators": [
            {
                "operator": row.operator,
                "kind": row.kind,
                "copies": row.copies,
                "layout": dict(row.split),
                "zero": row.zero,
                "forward_s": row.spending.forward,
                "backward_s": row.spending.backward,
                "exchanged_s": row.spending.exchanged,
                "gathered_s": row.spending.gathered,
                "sync_s": row.spending.sync,
                "optimizer_s": row.spending.optimizer,
                "memory_bytes": row.spending.memory,
                "next_best": dict(row.next_split) if row.next_split is not None else None,
                "next_best_adds_s": row.next_extra_s if row.next_split is not None else None,
            }
            for row in one.layouts
        ],
        "conversions": [
            {
                "tensor": row.tensor,
                "from": row.source,
                "to": row.target,
                "copies": row.copies,
                "step_s": row.seconds,
                "forward": [_step_json(step) for step in row.forward],
                "backward": [_step_json(step) for step in row.backward],
            }
            for row in one.conversions
        ],
    }


def _step_json(step: LayoutStep) -> dict[str, Any]:
    return {"operation": step.operation, "axis": step.axis, "bytes": step.bytes, "seconds": step.seconds}
