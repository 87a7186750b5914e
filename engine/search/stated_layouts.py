"""The layouts that a stage states, by operator: which of them means an operator, and what it says of an axis.

A stage names operators with or without the names of their layer and block; where several names mean one operator, the one that
says most of it stands. Nothing here knows what a layout costs.
"""

from __future__ import annotations

from ..model.naming import dim_named, operator_named
from ..model.operator import WHOLE, Operator
from ..plan import Stage


def stated_layout(operator: Operator, stage: Stage) -> dict[str, str] | None:
    """{dim: axis} of the operator where the stage states one; a dim that it does not have stays as written."""
    there = endings(operator)
    best: tuple[int, dict[str, str]] | None = None
    for name, dims in stage.layouts:
        meant = operator_named(name, there)
        if meant is not None and (best is None or meant.count(".") > best[0]):
            best = meant.count("."), {dim_named(dim, operator.sizes) or dim: axis for dim, axis in dims}
    return best[1] if best is not None else None


def stated_loop(operator: Operator, stage: Stage, axis: str) -> str | None:
    """The loop of the operator that `axis` divides as stated, `WHOLE` for none; None where nothing is said that it could be."""
    named = stated_layout(operator, stage)
    if named is None:
        return None
    dims = [dim for dim, on in named.items() if on == axis]
    return next((dim for dim in dims if dim in operator.sizes), None if dims else WHOLE)


def endings(operator: Operator) -> tuple[str, ...]:
    """The name of an operator with ever fewer of the names of its layer and block before it."""
    parts = operator.name.split(".")
    return tuple(".".join(parts[k:]) for k in range(len(parts)))
