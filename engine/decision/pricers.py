"""Which pricer and which declared space a case has: those of shapes, or those of an operator graph that is given alone.

A graph is priced where its batch can be told and its devices are of one type; `unpriced` says why it is not.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..cluster import Cluster
from ..cost.frameworks import implementation_of
from ..cost.measured import MeasuredNumbers, nothing_measured
from ..facts import Fact
from ..facts.from_graph import graph_of_case
from ..facts.from_operators import tensor_weights
from ..facts.limits import limits_of
from ..model.graph_model import GraphModel
from ..plan.frameworks import nearest
from ..proposal import Case, PlanCase
from ..search.driver import PlanSearch
from ..search.freedoms import freedom_of
from ..search.graph_pricing import GraphPlanPricer, StageLayouts
from ..search.graph_search import GraphSearch
from ..search.graph_space import DIVIDED, GraphSpace
from ..search.pricing import PlanPricer
from ..search.space import UniformSpace

#: Frameworks that shard gradients and parameters of a pipelined model (torchtitan: FSDP composed with its pipeline).
SHARDS_PIPELINES = {"torchtitan": True}
Search = PlanSearch | GraphSearch
#: Tensor degrees that a finding looks among for those that would divide the weights.
MOST_TENSOR = 16
#: The last graph laid out, with what it was laid out for.
_last: list[tuple[GraphModel, object, StageLayouts]] = []


def pricer_of(
    case: Case, cluster: Cluster | None = None, numbers: MeasuredNumbers = nothing_measured, headroom: float = 0.0,
    like: PlanPricer | None = None,
) -> PlanPricer:  # fmt: skip
    """The pricer of a case, or of it on another cluster. `like`: that of the case as it is, whose layouts a graph keeps."""
    assert case.workload is not None
    there = cluster or case.cluster
    assert there is not None
    kept = implementation_of(*case.framework_choices)
    if case.model is not None:
        return PlanPricer(case.model, case.workload, there, numbers, kept, headroom)
    layouts = like.layouts if isinstance(like, GraphPlanPricer) else _layouts(case, there)
    return GraphPlanPricer(layouts.model, case.workload, there, numbers, kept, headroom, layouts)


def tensor_facts(pricer: PlanPricer, plan: PlanCase) -> Iterator[Fact]:
    """What the tensor axes of a plan's stages leave whole, of a graph that is given alone: one fact a mesh."""
    if plan.plan is None or not isinstance(pricer, GraphPlanPricer):
        return
    would = ", ".join(str(t) for t in range(2, MOST_TENSOR + 1) if pricer.graph.divides(t, DIVIDED))
    seen: set[object] = set()
    for at, stage in enumerate(plan.plan.stages):
        if stage.mesh.tensor > 1 and stage.mesh not in seen:
            seen.add(stage.mesh)
            path = plan.stages[at].path if plan.stages and at < len(plan.stages) else plan.path
            yield tensor_weights(plan.name, path, at, stage.mesh.tensor, pricer.tensor_weights(plan.plan, at), would)


def _layouts(case: Case, cluster: Cluster) -> StageLayouts:
    """The layouts of a case's graph, which its ledgers and its search share."""
    model = graph_of_case(case)
    assert model is not None
    assert case.workload is not None
    if not (_last and _last[0][0] is model and _last[0][1] == (case.workload, cluster)):
        _last[:] = [(model, (case.workload, cluster), StageLayouts(model, case.workload, cluster))]
    return _last[0][2]


def space_of(case: Case, pricer: PlanPricer) -> UniformSpace:
    """The declared space of a case."""
    assert case.workload is not None
    assert case.cluster is not None
    shards = bool(nearest(case.framework, SHARDS_PIPELINES))
    limits, freedom = limits_of(case.limits), freedom_of(case.framework)
    if isinstance(pricer, GraphPlanPricer):
        return GraphSpace(pricer.graph, case.workload, case.cluster, limits, shards, freedom)
    return UniformSpace(pricer.model, case.workload, case.cluster, limits, shards, freedom)


def search_of(space: UniformSpace, pricer: PlanPricer, work_limit: int | None, seconds: float | None) -> Search:
    """The search over a space."""
    if isinstance(pricer, GraphPlanPricer):
        assert isinstance(space, GraphSpace)
        return GraphSearch(space, pricer, work_limit=work_limit, seconds=seconds)
    return PlanSearch(space, pricer, work_limit=work_limit, seconds=seconds)
