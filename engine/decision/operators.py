"""A plan operator by operator: the layouts that it means, the best that its mesh allows in its memory, and the stage's own price.

The stage looked at is the plan's longest. Its graph is that of the model's shapes, or the one that the proposal gives. A
difference between the two prices of the same plan is kept, to be shown. Nothing here knows rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import fsum, inf
from typing import TYPE_CHECKING, Any

from ..cluster import Cluster
from ..cost import Priced
from ..cost.device_mesh import DeviceMesh, mesh_of
from ..cost.in_flight import in_flight
from ..cost.memory_terms import local_microbatch
from ..cost.operator_cost import Terms
from ..cost.placement import slowest_device
from ..errors import InputError
from ..facts import Fact
from ..facts.from_operators import operators_fact
from ..model import Transformer, Workload
from ..model.builders import Shape, transformer_graph
from ..model.cutting import stage_graph
from ..model.graph import OperatorGraph
from ..model.graph_model import GraphModel
from ..model.operator import Kind, Operator, Role
from ..plan import Plan, Stage
from ..proposal import Case
from ..search.graph_layouts import on_tensor
from ..search.graph_pricing import GraphPlanPricer
from ..search.operator_search import OperatorLayouts, search_operators
from ..search.operator_space import SUMS
from ..search.pricing import PlanPricer
from .operator_meaning import Called, allowed, divides_nothing, pinned, unknown_operator, usual

if TYPE_CHECKING:
    from ..proposal.resolve_graph import GraphCase

#: Stages of more operators are not looked at one by one in a review.
MOST_OPERATORS = 3000
#: Axes, from the innermost, whose layouts a review compares; on further ones operators keep the plan's.
FREE_AXES = 2
_NO_MESH = "its mesh has more than three axes, or experts that are divided across them, which is not laid out by operator"


@dataclass(frozen=True, slots=True)
class PlanOperators:
    """One stage of a plan by operator. `own`: as the plan lays it out; `best`: the best of the space in the same memory.

    `stage_s` is what the stage's own price says of the same step, 0 where the model is a graph alone and stages have none.
    With `reason` there is nothing but that.
    """

    stage: int
    mesh: DeviceMesh | None
    stated: bool
    own: OperatorLayouts | None
    best: OperatorLayouts | None
    stage_s: float
    budget_bytes: float
    reason: str = ""
    #: The graph is the proposal's own.
    given: bool = False
    #: Of a step by operator, passes that take no longer than a launch or two.
    launch_s: float = 0.0

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


@dataclass(frozen=True, slots=True)
class _Looked:
    """A stage to look at. `free_bytes`: what its memory leaves by the stage's ledger; None where it has none."""

    plan: Plan
    at: int
    workload: Workload
    cluster: Cluster
    stage_s: float = 0.0
    free_bytes: float | None = None
    given: GraphCase | None = None
    #: Of a graph that stands alone, whose stages are priced.
    model: GraphModel | None = None
    #: The share of a device's memory that the policy keeps free.
    headroom: float = 0.0

    @property
    def stage(self) -> Stage:
        return self.plan.stages[self.at]

    def none(self, why: str, mesh: DeviceMesh | None = None) -> PlanOperators:
        """Nothing but a reason."""
        stated = bool(self.stage.layouts)
        return PlanOperators(self.at, mesh, stated, None, None, self.stage_s, 0.0, why, self.given is not None)


def stage_cluster(plan: Plan, at: int, cluster: Cluster) -> Cluster:
    """The cluster with the nodes first whose devices a stage is priced on: operators are priced on those of the first nodes."""
    device = slowest_device(plan, at, cluster)
    own = [group for group in cluster.nodes if group.device == device]
    return replace(cluster, nodes=(*own, *(group for group in cluster.nodes if group.device != device)))


def plan_operators(
    priced: Priced, pricer: PlanPricer, *, given: GraphCase | None = None, compare: bool = True
) -> PlanOperators:
    """The longest stage of a priced plan, operator by operator; without `compare` as it lays it out alone.

    `given`: the proposal's own graph, in place of that of the model's shapes.
    """
    plan, at = priced.plan, priced.step.bottleneck
    cost = pricer.pricer.time.costs(plan)[at]
    stage_s = plan.accumulation * cost.durations.total + cost.sync + cost.optimizer
    memory = priced.memory[at]
    free = max(0.0, (1 - pricer.headroom) * memory.capacity_bytes - memory.device.value)
    alone = pricer.graph if isinstance(pricer, GraphPlanPricer) else None
    looked = _Looked(plan, at, pricer.workload, stage_cluster(plan, at, pricer.cluster), stage_s, free, given, alone)
    try:
        found = _laid_out(looked, lambda: _graph(looked, pricer.model), compare=compare)
        return replace(found, launch_s=_launches(found.own, looked.cluster.device.launch.value, plan.accumulation))
    except InputError as error:
        return looked.none(error.message, mesh_of(plan, looked.stage.mesh))


def graph_operators(case: Case, plan: Plan) -> PlanOperators | None:
    """A plan of a model that is given as a graph alone: the stage of most parameters and work; None where too little is known."""
    if case.graph is None or case.workload is None or case.cluster is None or plan.devices > case.cluster.devices:
        return None
    cluster, policy = case.cluster, case.loaded.stated.policy
    headroom = float(policy.headroom.value) if policy is not None and policy.headroom is not None else 0.0
    looked = [
        _Looked(plan, at, case.workload, stage_cluster(plan, at, cluster), given=case.graph, headroom=headroom)
        for at in range(plan.pipeline)
    ]
    try:
        graphs = [_graph(one, None) for one in looked] if plan.pipeline > 1 else []
        at = max(range(len(graphs)), key=lambda k: graphs[k].forward_flops, default=0)
        return _laid_out(looked[at], lambda: graphs[at] if graphs else _graph(looked[at], None), compare=True)
    except InputError as error:
        return looked[0].none(error.message)


def _launches(own: OperatorLayouts | None, launch: float, microbatches: int) -> float:
    """Seconds of a step of the passes of operators that take no longer than a launch or two."""
    found = 0.0
    for row in own.layouts if own is not None else ():
        passes = row.spending.forward, row.spending.backward
        found += row.copies * microbatches * fsum(one for one in passes if 0 < one <= 2 * launch * (1 + 1e-9))
    return found


def _graph(looked: _Looked, model: Transformer | None) -> OperatorGraph:
    """The operators of the stage, for a microbatch of all its replicas. Raises InputError."""
    plan, stage, workload = looked.plan, looked.stage, looked.workload
    batch = local_microbatch(plan, stage) * stage.mesh.data
    compute = workload.precision.compute
    dtype = "bf16" if compute == "fp8" else compute
    if looked.given is None:
        assert model is not None
        return transformer_graph(
            model,
            Shape(batch, workload.sequence_length, workload.causal),
            layers=(stage.first, stage.last),
            embedding=stage.embedding,
            head=stage.head,
            dtype=dtype,
            vocabulary=-(-model.vocabulary // stage.mesh.tensor) * stage.mesh.tensor,
        )
    graph = looked.given.build(batch, workload.sequence_length, dtype)
    if plan.pipeline == 1:
        return graph
    layers = looked.given.layering
    if layers.count != plan.stages[-1].last + 1:
        raise InputError(
            f"the plan cuts {plan.stages[-1].last + 1} layers, and {layers.count} are recognised in the graph: its stages "
            "cannot be told",
            code="input.graph.layers",
        )
    return stage_graph(graph, layers, stage.first, stage.last)


def _laid_out(looked: _Looked, graph_of_stage: Callable[[], OperatorGraph], *, compare: bool) -> PlanOperators:
    plan, at, stage = looked.plan, looked.at, looked.stage
    mesh = mesh_of(plan, stage.mesh)
    if mesh is None or stage.mesh.expert_tensor not in (None, stage.mesh.tensor):
        return looked.none(_NO_MESH)
    graph = graph_of_stage()
    if len(graph.operators) > MOST_OPERATORS:
        why = f"its {len(graph.operators):,} operators are more than the {MOST_OPERATORS:,} that a review lays out"
        return looked.none(why, mesh)
    unknown = unknown_operator(graph, stage)
    if unknown:
        return looked.none(unknown, mesh)
    called = looked.given.called if looked.given is not None else {}
    held = in_flight(plan.schedule, at, plan.pipeline, plan.accumulation, plan.interleave)
    count = sum(one.elements for one in graph.tensors.values() if one.role is Role.PARAMETER)
    terms = Terms(
        plan.accumulation, float(held.microbatches), plan.recompute_of(at), layer=count / stage.layers, parameters=count
    )
    outer = pinned(plan, mesh, range(len(mesh.axes) - FREE_AXES), called) if len(mesh.axes) > FREE_AXES else None
    idle = divides_nothing(graph, plan, stage, mesh, called) if looked.given is not None else ""

    def searched(**options: Any) -> OperatorLayouts:
        return search_operators(
            graph, mesh, looked.workload, looked.cluster, terms=terms, zeros=(plan.zero,), pinned=outer, **options
        )

    if looked.model is not None and not stage.layouts:
        # Where nothing is stated a graph's stages are priced in the best layouts of the same space.
        own = searched(allowed=_as_priced(graph, looked.model, plan, mesh, called), next_best=False)
    elif idle:
        why = (
            f"layouts: neither the plan nor the names of dims say what the axis '{idle}' divides; state 'layouts' of the stage, "
            "as in {up: {inner: tensor}}"
        )
        own = OperatorLayouts(inf, inf, "elimination", 0, len(graph.operators), 0, binding=why)
    else:
        own = searched(allowed=allowed(plan, stage, mesh, called), next_best=False)
    stated, given = bool(stage.layouts), looked.given is not None
    if not compare:
        return PlanOperators(at, mesh, stated, own, own, looked.stage_s, own.memory_bytes, given=given)
    budget = (1 - looked.headroom) * float(looked.cluster.device.capacity.value)
    if looked.free_bytes is not None and own.objective < inf:
        budget = looked.free_bytes + own.memory_bytes
    best = searched(budget=budget, integer_program=False)
    if own.objective < best.objective and own.memory_bytes <= budget:
        best = own
    return PlanOperators(at, mesh, stated, own, best, looked.stage_s, budget, given=given)


def _as_priced(
    graph: OperatorGraph, model: GraphModel, plan: Plan, mesh: DeviceMesh, called: Called
) -> Callable[[Operator, tuple[str, ...]], bool]:
    """The splits that stages of a graph are priced in: batch on data, and what the tensor axis may divide."""
    devices = {axis.name: axis.size for axis in mesh.axes}

    def allowed(operator: Operator, split: tuple[str, ...]) -> bool:
        if operator.kind in (Kind.INPUT, Kind.OUTPUT):
            return SUMS not in split
        return all(
            on_tensor(model, graph, axis.size, operator, loop) if axis.name == "tensor"
            else loop == usual(operator, axis.name, plan, devices, called)
            for axis, loop in zip(mesh.axes, split, strict=True)
        )  # fmt: skip

    return allowed


def facts_of(priced: Priced, path: str, found: PlanOperators) -> Iterator[Fact]:
    """The fact of a plan's operators, where they were laid out."""
    if found.own is not None and found.best is not None and found.mesh is not None:
        one = operators_fact(
            priced.plan.name, path, found.stage, found.mesh, found.own, found.best, found.stage_s,
            priced.plan.accumulation, stated=found.stated,
        )  # fmt: skip
        if one is not None:
            yield one
