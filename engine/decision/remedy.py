"""The cheapest single change of a plan that clears its memory, priced: by search over all single changes, not by rule of thumb.

A *single change* alters one choice (recompute, ZeRO stage, microbatch, schedule with its interleave, sequence parallelism)
or moves devices once from one axis to another; the rest of the plan, the global batch above all, stays. What is offered
fits for sure and is let through by the same rules as every other plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..cost import Priced
from ..model import Transformer, Workload
from ..model.graph_model import GraphModel
from ..plan import Mesh, Plan, Recompute, Role, Schedule, even_stages
from ..search.graph_pricing import GraphPlanPricer
from ..search.graph_space import DIVIDED
from ..search.space import Limits, context_divides, tensor_divides
from ..search.tally import Found
from .desk import Desk
from .selection import Stands

Model = Transformer | GraphModel
_AXES = ("data", "tensor", "pipeline", "context")


@dataclass(frozen=True, slots=True)
class Change:
    """One single change in words, and the plan that it makes, priced. `slower` is its step time over the plan's, less 1."""

    what: str
    priced: Priced
    slower: float


@dataclass(frozen=True, slots=True)
class Clearing:
    """The cheapest single changes that clear the memory of `plan`, the cheapest first, and how many were looked at."""

    plan: str
    state: str
    changes: tuple[Change, ...]
    looked_at: int
    fitting: int


def clearing_of(desk: Desk, subject: Priced, limits: Limits, stands: Stands, most: int = 3) -> Clearing:
    """The cheapest single changes of `subject` that are sure to fit, `most` of them."""
    assert desk.case.workload is not None
    model: Model = desk.pricer.graph if isinstance(desk.pricer, GraphPlanPricer) else desk.pricer.model
    work = desk.case.workload
    rows: list[tuple[float, int, str, Plan]] = []
    looked = 0
    for what, plan in single_changes(subject.plan, model, work):
        if limits.violated(plan) is not None:
            continue
        looked += 1
        if desk.pricer.fit(plan, desk.pricer.ledger(plan)) == "yes":
            rows.append((desk.pricer.seconds(plan), len(rows), what, plan))
    changes: list[Change] = []
    for seconds, _, what, plan in sorted(rows, key=lambda row: row[:2]):
        found = Found(plan, seconds, "yes", desk.pricer.ledger(plan))
        if not stands(found):
            priced = desk.price(plan.named("cleared", Role.CANDIDATE))
            changes.append(Change(what, priced, priced.step_estimate.value / subject.step_estimate.value - 1))
        if len(changes) == most:
            break
    return Clearing(subject.plan.name, subject.feasible, tuple(changes), looked, len(rows))


def single_changes(plan: Plan, model: Model, work: Workload) -> Iterator[tuple[str, Plan]]:
    """Every plan that differs from `plan` in one choice, with the change in words; what does not divide is not among them."""
    bare = [replace(stage, recompute=None) for stage in plan.stages]
    for kind in Recompute:
        if any(plan.recompute_of(k) is not kind for k in range(plan.pipeline)):
            yield f"recompute {kind.value} on every stage", replace(plan, recompute=kind, stages=tuple(bare))
    if plan.pipeline > 1:
        for k in range(plan.pipeline):
            if plan.recompute_of(k) is not Recompute.FULL:
                stages = tuple(replace(s, recompute=Recompute.FULL) if j == k else s for j, s in enumerate(plan.stages))
                yield f"recompute full on stage {k} alone", replace(plan, stages=stages, uniform=False)
    replicas = min(stage.mesh.data * stage.mesh.context for stage in plan.stages)
    for zero in range(4):
        if zero != plan.zero and replicas > 1 and (zero < 2 or plan.pipeline == 1):
            yield f"ZeRO {zero}", replace(plan, zero=zero)
    whole = plan.microbatch * plan.accumulation
    for size in (1, 2, 4, 8, 16):
        if size != plan.microbatch and whole % size == 0:
            yield f"microbatch {size} x {whole // size}", replace(plan, microbatch=size, accumulation=whole // size)
    # How a graph's activations lie between operators is chosen with their layouts.
    if any(stage.mesh.tensor > 1 for stage in plan.stages) and not isinstance(model, GraphModel):
        flipped = not plan.sequence_parallel
        yield f"sequence parallel {'on' if flipped else 'off'}", replace(plan, sequence_parallel=flipped)
    yield from _schedules(plan)
    if plan.uniform:
        yield from _moves(plan, model, work)


def _schedules(plan: Plan) -> Iterator[tuple[str, Plan]]:
    if plan.pipeline == 1:
        return
    layers = min(stage.layers for stage in plan.stages)
    for schedule in Schedule:
        if schedule is Schedule.INTERLEAVED:
            even = len({stage.layers for stage in plan.stages}) == 1
            ways = [v for v in range(2, layers + 1) if layers % v == 0] if even else []
        else:
            ways = [1]
        for way in ways:
            if (schedule, way) != (plan.schedule, plan.interleave):
                name = schedule.value + (f" interleave {way}" if way > 1 else "")
                yield f"schedule {name}", replace(plan, schedule=schedule, interleave=way)


def _moves(plan: Plan, model: Model, work: Workload) -> Iterator[tuple[str, Plan]]:
    """Devices moved from one axis to another by a factor of 2, 4 or 8."""
    mesh = plan.mesh
    degrees = {"data": mesh.data, "tensor": mesh.tensor, "pipeline": plan.pipeline, "context": mesh.context}
    for source in _AXES:
        for target in _AXES:
            for factor in (2, 4, 8):
                if source == target or degrees[source] % factor:
                    continue
                moved = degrees | {source: degrees[source] // factor, target: degrees[target] * factor}
                made = _with_degrees(plan, moved, model, work)
                if made is not None:
                    change = f"{source} {degrees[source]} to {moved[source]}, {target} {degrees[target]} to {moved[target]}"
                    yield change, made


def _with_degrees(plan: Plan, degrees: dict[str, int], model: Model, work: Workload) -> Plan | None:
    data, tensor, pipeline, context = (degrees[axis] for axis in _AXES)
    expert = plan.mesh.expert
    each = data * plan.microbatch
    divides: tuple[Callable[[], bool], ...] = (
        lambda: model.divides(tensor, DIVIDED) if isinstance(model, GraphModel) else tensor_divides(model, tensor),
        lambda: context == 1 if isinstance(model, GraphModel) else context_divides(work, context),
        lambda: plan.global_batch % each == 0,
        lambda: (data * context) % expert == 0,
        lambda: work.sequence_length % (tensor * context) == 0 or not plan.sequence_parallel,
    )
    if not all(one() for one in divides):
        return None
    stages = even_stages(model.layers, pipeline, Mesh(data, tensor, context, expert, plan.mesh.expert_tensor))
    if stages is None:
        return None
    interleave = plan.interleave if pipeline > 1 and (model.layers // pipeline) % plan.interleave == 0 else 1
    schedule = plan.schedule
    if schedule is Schedule.INTERLEAVED and interleave == 1:
        schedule = Schedule.ONE_F_ONE_B
    zero = 0 if data * context == 1 else plan.zero
    if zero > 1 and pipeline > 1 and plan.pipeline == 1:
        return None
    return replace(
        plan, stages=stages, accumulation=plan.global_batch // each, zero=zero, schedule=schedule, interleave=interleave,
        sequence_parallel=plan.sequence_parallel and tensor > 1,
    )  # fmt: skip
