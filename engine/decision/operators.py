"""A plan operator by operator: the layouts that it means, the best that its mesh allows in its memory, and the stage's own price.

The stage looked at is the plan's longest. Its usual layouts are those of the framework's family (Shoeybi et al. 2019, arXiv
1909.08053; Korthikanti et al. 2022, arXiv 2205.05198): batch on data, tokens on context, heads, inner widths and vocabulary on
tensor, experts on expert; `layouts` of a stage replace them. A difference between the two prices of the same plan is kept, to be
shown. Nothing here knows rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from ..cost import Priced
from ..cost.device_mesh import DeviceMesh, mesh_of
from ..cost.in_flight import in_flight
from ..cost.memory_terms import local_microbatch
from ..cost.operator_cost import Terms
from ..errors import InputError
from ..facts import Fact
from ..facts.from_operators import operators_fact
from ..model.builders import Shape, transformer_graph
from ..model.graph import OperatorGraph
from ..model.operator import WHOLE, Kind, Operator, Role
from ..plan import Plan, Stage
from ..search.operator_search import OperatorLayouts, search_operators
from ..search.operator_space import SUMS
from ..search.pricing import PlanPricer

#: Loops that tensor parallelism divides, the first that an operator has.
_TENSOR = ("heads", "inner", "vocabulary")
#: Stages of more operators are not looked at one by one in a review.
MOST_OPERATORS = 3000
#: Axes, from the innermost, whose layouts a review compares; on further ones operators keep the plan's.
FREE_AXES = 2


@dataclass(frozen=True, slots=True)
class PlanOperators:
    """One stage of a plan by operator. `own`: as the plan lays it out; `best`: the best of the space in the same memory.

    `stage_s` is what the stage's own price says of the same step. With `reason` there is nothing but that.
    """

    stage: int
    mesh: DeviceMesh | None
    stated: bool
    own: OperatorLayouts | None
    best: OperatorLayouts | None
    stage_s: float
    budget_bytes: float
    reason: str = ""

    @property
    def saved_s(self) -> float:
        """What the best layouts would save of a step."""
        if self.own is None or self.best is None or inf in (self.own.objective, self.best.objective):
            return 0.0
        return max(0.0, self.own.objective - self.best.objective)

    @property
    def disagreement(self) -> float:
        """The price by operator over that of the stage, less 1; 0 where one of them is not there."""
        if self.own is None or self.own.objective == inf or not self.stage_s:
            return 0.0
        return self.own.objective / self.stage_s - 1


def plan_operators(priced: Priced, pricer: PlanPricer, *, compare: bool = True) -> PlanOperators:
    """The longest stage of a priced plan, operator by operator; without `compare` as it lays it out alone."""
    plan, at = priced.plan, priced.step.bottleneck
    stage = plan.stages[at]
    cost = pricer.pricer.time.costs(plan)[at]
    stage_s = plan.accumulation * cost.durations.total + cost.sync + cost.optimizer
    stated = bool(stage.layouts)
    mesh = mesh_of(plan, stage.mesh)
    if mesh is None or stage.mesh.expert_tensor not in (None, stage.mesh.tensor):
        why = "its mesh has more than three axes, or experts that are divided across them, which is not laid out by operator"
        return PlanOperators(at, None, stated, None, None, stage_s, 0.0, why)
    model, workload = pricer.model, pricer.workload
    batch = local_microbatch(plan, stage) * stage.mesh.data
    try:
        graph = transformer_graph(
            model,
            Shape(batch, workload.sequence_length, workload.causal),
            layers=(stage.first, stage.last),
            embedding=stage.embedding,
            head=stage.head,
            dtype="bf16" if workload.precision.compute == "fp8" else workload.precision.compute,
            vocabulary=-(-model.vocabulary // stage.mesh.tensor) * stage.mesh.tensor,
        )
        if len(graph.operators) > MOST_OPERATORS:
            why = f"its {len(graph.operators):,} operators are more than the {MOST_OPERATORS:,} that a review lays out"
            return PlanOperators(at, mesh, stated, None, None, stage_s, 0.0, why)
        unknown = unknown_operator(graph, stage)
        if unknown:
            return PlanOperators(at, mesh, stated, None, None, stage_s, 0.0, unknown)
        held = in_flight(plan.schedule, at, plan.pipeline, plan.accumulation, plan.interleave)
        count = sum(one.elements for one in graph.tensors.values() if one.role is Role.PARAMETER)
        terms = Terms(
            plan.accumulation, float(held.microbatches), plan.recompute_of(at), layer=count / stage.layers, parameters=count
        )
        zeros = (plan.zero,)
        cluster = pricer.cluster
        outer = pinned(plan, mesh, range(len(mesh.axes) - FREE_AXES)) if len(mesh.axes) > FREE_AXES else None
        own = search_operators(
            graph, mesh, workload, cluster, terms=terms, zeros=zeros, allowed=allowed(plan, stage, mesh),
            pinned=outer, next_best=False,
        )  # fmt: skip
        if not compare:
            return PlanOperators(at, mesh, stated, own, own, stage_s, own.memory_bytes)
        memory = priced.memory[at]
        free = max(0.0, memory.capacity_bytes - memory.device.value)
        budget = free + own.memory_bytes if own.objective < inf else float(memory.capacity_bytes)
        best = search_operators(
            graph, mesh, workload, cluster, terms=terms, zeros=zeros, budget=budget, integer_program=False,
            pinned=outer,
        )  # fmt: skip
    except InputError as error:
        return PlanOperators(at, mesh, stated, None, None, stage_s, 0.0, error.message)
    if own.objective < best.objective:
        best = own
    return PlanOperators(at, mesh, stated, own, best, stage_s, budget)


def allowed(plan: Plan, stage: Stage, mesh: DeviceMesh) -> Callable[[Operator, tuple[str, ...]], bool]:
    """The one split of each operator that the plan means: as its stage states it, or as its family has it.

    What does not divide its loop is replicated where it is only usual; what is stated stands, or there is no layout.
    """
    devices = {axis.name: axis.size for axis in mesh.axes}

    def meant(operator: Operator) -> tuple[str, ...]:
        named = stated_layout(operator, stage)
        found = []
        for axis in mesh.axes:
            loop = usual(operator, axis.name, plan, devices)
            if named is not None:
                at = next((dim for dim, on in named.items() if on == axis.name), None)
                loop = at if at is not None else WHOLE if axis.name == "tensor" else loop
            found.append(loop)
        return tuple(found)

    known: dict[str, tuple[str, ...]] = {}

    def matches(operator: Operator, split: tuple[str, ...]) -> bool:
        if operator.name not in known:
            known[operator.name] = meant(operator)
        wanted = known[operator.name]
        if operator.kind in (Kind.INPUT, Kind.OUTPUT):
            return SUMS not in split
        return split == wanted

    return matches


def pinned(plan: Plan, mesh: DeviceMesh, axes: Sequence[int]) -> Callable[[Operator], tuple[str | None, ...]]:
    """For each operator its usual loop on `axes`; None on the others."""
    devices = {axis.name: axis.size for axis in mesh.axes}

    def of(operator: Operator) -> tuple[str | None, ...]:
        return tuple(
            usual(operator, axis.name, plan, devices) if a in axes else None for a, axis in enumerate(mesh.axes)
        )

    return of


def stated_layout(operator: Operator, stage: Stage) -> dict[str, str] | None:
    """{dim: axis} of the operator where the stage states one, by its name with or without those of its layer and block."""
    for name, dims in stage.layouts:
        if operator.name == name or operator.name.endswith(f".{name}"):
            return dict(dims)
    return None


def unknown_operator(graph: OperatorGraph, stage: Stage) -> str:
    """What is wrong with the stated layouts: an operator or a dim that there is not. "" where nothing is."""
    for name, dims in stage.layouts:
        found = next((one for one in graph.operators if one.name == name or one.name.endswith(f".{name}")), None)
        if found is None:
            names = dict.fromkeys(one.name.partition(".")[2] or one.name for one in graph.operators)
            return f"'layouts' names the operator '{name}', which the model does not have; it has {', '.join(names)}"
        for dim, _ in dims:
            if dim not in found.sizes:
                return f"'layouts' names the dim '{dim}' of '{name}', which it does not have; it has {', '.join(found.sizes)}"
    return ""


def usual(operator: Operator, axis: str, plan: Plan, devices: dict[str, int]) -> str:
    """The loop that an axis divides in the family's layout; `WHOLE` for none."""
    sizes = operator.sizes

    def divides(loop: str) -> bool:
        return loop in sizes and sizes[loop] % devices[axis] == 0

    if axis == "expert":
        mine = "experts" in sizes and operator.kind not in (Kind.DISPATCH, Kind.COMBINE)
        order: tuple[str, ...] = ("experts",) if mine else ("batch", "sequence")
    elif axis == "data":
        order = ("batch",)
    elif axis == "context":
        order = ("sequence",)
    elif axis == "tensor":
        split = operator.kind is not Kind.NORM or "heads" in sizes
        order = tuple(loop for loop in _TENSOR if split and loop in sizes)
        if not order and plan.sequence_parallel and operator.kind is not Kind.ROUTING:
            order = ("sequence",)
    else:
        order = ()
    return next((loop for loop in order if divides(loop)), WHOLE)


def facts_of(priced: Priced, path: str, found: PlanOperators) -> Iterator[Fact]:
    """The fact of a plan's operators, where they were laid out."""
    if found.own is not None and found.best is not None and found.mesh is not None:
        one = operators_fact(
            priced.plan.name, path, found.stage, found.mesh, found.own, found.best, found.stage_s,
            priced.plan.accumulation, stated=found.stated,
        )  # fmt: skip
        if one is not None:
            yield one
