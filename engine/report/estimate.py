"""`planproof estimate`: the memory and time ledgers of stated plans as text or JSON, two or more also side by side.

Input are priced plans with their names. No verdict is given here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..cost import Priced
from ..plan import describe, simplicity, to_dict
from .escape import clipped, visible
from .ledgers import falls_apart, figures_table, memory_notes, memory_table, stage_table, terms_table, time_table
from .outlook_json import estimate_of
from .review_json import deciders_of, memory_json, time_json
from .tables import table_text

SCHEMA = 1
#: Plans that fit side by side on a page.
_BESIDE = 4


def estimate_text(plans: Sequence[tuple[str, Priced]]) -> str:
    """The ledgers of each plan; two to four plans side by side first."""
    parts: list[str] = []
    named = [(clipped(visible(name), 40), priced) for name, priced in plans]
    if 1 < len(named) <= _BESIDE:
        parts += [table_text(figures_table(named)), table_text(terms_table(named))]
    for name, priced in named:
        parts.append(f"plan '{name}': {describe(priced.plan)}")
        if len(named) == 1 or len(named) > _BESIDE:
            parts.append(table_text(figures_table([(name, priced)])))
        tables = (time_table(priced), stage_table(priced), memory_table(priced.plan, priced.memory))
        parts += map(table_text, tables)
        notes = [*memory_notes(priced.memory), *falls_apart(priced)]
        if notes:
            parts.append("\n".join(f"- {visible(note)}" for note in notes))
        weak = [f"{one.name} {one.quantity} ({one.quantity.grade.value})" for one in priced.step_estimate.deciders]
        if weak:
            parts.append("rests on " + visible("; ".join(weak)))
    return "\n\n".join(parts) + "\n"


def estimate_json(plans: Sequence[tuple[str, Priced]]) -> dict[str, Any]:
    """The ledgers of each plan as plain data, in the form that a review's candidates have."""
    return {"schema": SCHEMA, "plans": [_plan(name, priced) for name, priced in plans]}


def _plan(name: str, priced: Priced) -> dict[str, Any]:
    return {
        "name": name,
        "plan": to_dict(priced.plan),
        "simplicity": list(simplicity(priced.plan)),
        "step_time_s": estimate_of(priced.step_estimate),
        **time_json(priced),
        **memory_json(priced.plan, priced.memory),
        "feasible": priced.feasible,
        "binding_constraint": priced.binding,
        "deciders": deciders_of(priced.step_estimate.deciders),
    }
