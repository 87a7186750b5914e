"""Facts about a plan's stage taken operator by operator, from its layouts and the best ones."""

from __future__ import annotations

from math import fsum, inf
from typing import TYPE_CHECKING

from .fact import Fact
from .kinds import fact

if TYPE_CHECKING:
    # A lint, which prices nothing by operator, does not load the search.
    from ..cost.device_mesh import DeviceMesh
    from ..search.operator_search import OperatorLayout, OperatorLayouts


def operators_fact(
    plan: str, path: str, stage: int, mesh: DeviceMesh, own: OperatorLayouts, best: OperatorLayouts, stage_s: float,
    microbatches: int, *, stated: bool,
) -> Fact | None:  # fmt: skip
    """The one fact of a stage; None where one of the two has no layout."""
    if inf in (own.objective, best.objective):
        return None
    total = own.objective
    by_tensor: dict[str, float] = {}
    for one in own.conversions:
        by_tensor[one.tensor] = by_tensor.get(one.tensor, 0.0) + one.seconds
    largest = max(by_tensor, key=lambda name: by_tensor[name], default=None)
    repeated = {one.operator: repeated_work(one, mesh, microbatches) for one in own.layouts}
    most = max(repeated, key=lambda name: repeated[name][0], default=None)
    avoidable = max(0.0, min(own.conversion_s - best.conversion_s, total - best.objective))
    return fact(
        "operators",
        path,
        plan=plan,
        stage=stage,
        stated="yes" if stated else "no",
        own_ns=round(1e9 * total),
        best_ns=round(1e9 * best.objective),
        saved_ppm=max(0, round(1e6 * (1 - best.objective / total))),
        conversion_ppm=round(1e6 * own.conversion_s / total),
        avoidable_ppm=round(1e6 * avoidable / total),
        largest_tensor=largest,
        largest_ppm=round(1e6 * by_tensor[largest] / total) if largest else 0,
        replicated_ppm=round(1e6 * fsum(seconds for seconds, _ in repeated.values()) / total),
        replicated_operator=most if most and repeated[most][0] else None,
        replicated_axis=repeated[most][1] if most and repeated[most][0] else None,
        stage_ns=round(1e9 * stage_s),
        disagreement_ppm=round(1e6 * abs(total / stage_s - 1)) if stage_s else 0,
    )


def repeated_work(one: OperatorLayout, mesh: DeviceMesh, microbatches: int) -> tuple[float, str]:
    """(seconds of a step that an operator spends on what other devices do as well, the axis where it does so most)."""
    spent = one.copies * microbatches * (one.spending.forward + one.spending.backward)
    sizes = {axis.name: axis.size for axis in mesh.axes}
    whole = [name for name, loop in one.split if not loop and sizes[name] > 1]
    alike = 1
    for name in whole:
        alike *= sizes[name]
    return spent * (1 - 1 / alike), max(whole, key=lambda name: sizes[name], default="")


def not_laid_out(plan: str, path: str, why: str) -> Fact:
    """A plan of a graph whose stated layouts cannot be."""
    return fact("not_laid_out", f"{path}/stages", plan=plan, why=why)


def tensor_weights(plan: str, path: str, stage: int, tensor: int, counts: tuple[int, int], would: str) -> Fact:
    """How many parameters of a stage its tensor axis leaves whole. `counts`: (of one device, those of them that all have)."""
    here, whole = counts
    every = whole + (here - whole) * tensor
    return fact(
        "tensor_weights", path, plan=plan, stage=stage, tensor=tensor, parameters=every, whole=whole,
        whole_ppm=round(1e6 * whole / every) if every else 0, would=would or None,
    )  # fmt: skip
