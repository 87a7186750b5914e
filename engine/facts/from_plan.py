"""Facts about one plan that need no price: degrees, batch arithmetic, what must divide, coverage, groups and links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import isqrt
from typing import Any

from ..cluster import reach, strides
from ..document import pointer_to
from ..model import is_moe
from ..plan import DEFAULT_ORDER, Mesh, Plan, Schedule
from ..proposal import Case, PlanCase, StatedStage
from ..proposal.schema import PlanChoice
from .fact import Fact
from .from_places import place_facts
from .from_shapes import known_layers, known_shapes
from .kinds import fact
from .limits import limits_of

#: Tokens of a sequence for which operators are built to be asked for their dims.
_TOKENS = 8
#: Names of operators that a message lists.
MOST_NAMES = 40
#: Beyond this nobody looks for divisors, and of more stages than this only so many get a fact of their own.
MOST_DIVIDED = 10**10
MOST_STAGES = 256
#: What a fact can hold: products of stated degrees can be larger, and are as wrong as this.
MOST = 2**62

def plan_case(plan: Plan, path: str = "") -> PlanCase:
    """A plan that the search made, in the shape of a stated one, so that the same facts and rules judge both."""
    stages = tuple(
        StatedStage(s.first, s.last, s.mesh, s.mesh.devices, s.embedding, s.head, s.recompute, s.layouts, path)
        for s in plan.stages
    )
    values: dict[str, Any] = {
        "microbatch": plan.microbatch, "schedule": plan.schedule.value, "interleave": plan.interleave,
        "recompute": plan.recompute.value, "zero": plan.zero, "sequence_parallel": plan.sequence_parallel,
        "order": list(plan.order), "name": plan.name, "role": plan.role.value,
    }  # fmt: skip
    choice = PlanChoice.model_construct(**values)
    return PlanCase(
        plan.name, plan.role, path, choice, plan.mesh, plan.pipeline, None if plan.uniform else stages, plan.accumulation, plan
    )


def plan_facts(case: Case, plan: PlanCase, *, found: bool = False) -> list[Fact]:
    """Every fact of one plan that does not need memory or time."""
    facts = [_plan(case, plan, found), *_batch(case, plan), *_divisions(case, plan), *_stages(case, plan)]
    facts += [*_groups(case, plan), *place_facts(case, plan), *_schedule(case, plan)]
    heading = case.loaded.stated.proposal
    if heading is not None and heading.framework is not None and heading.framework.settings:
        from .from_settings import settings_plan_facts  # most proposals state none

        facts += settings_plan_facts(case, plan)
    order = plan.stated.order
    if order is not None and not found:
        degrees = _degrees(plan)
        needed = {axis for axis, degree in degrees.items() if degree > 1 and axis != "expert"}
        listed = [axis for axis in order if axis != "expert"]
        complete = needed <= set(listed) and len(listed) == len(set(listed))
        facts.append(fact("order", f"{plan.path}/order", plan=plan.name, complete=complete, text=", ".join(order),
                          **_order_flags(plan, listed)))
    for item, value in (plan.stated.changes or {}).items():
        facts.append(
            fact("change", f"{plan.path}/changes/{item}", plan=plan.name, item=item, value=str(value)[:200])
        )
    return facts


def _order_flags(plan: PlanCase, listed: Sequence[str]) -> dict[str, bool]:
    """Whether the pipeline is outermost, and whether experts have as many replicas as the rest (Megatron's parallel_state)."""
    mesh = plan.mesh
    grid = mesh.expert * (mesh.expert_tensor or mesh.tensor)
    equal = mesh.devices == mesh.data * grid
    return {"pipeline_last": plan.pipeline == 1 or listed[-1:] == ["pipeline"], "replicas_equal": equal}


def _degrees(plan: PlanCase) -> dict[str, int]:
    mesh = plan.mesh
    return {
        "data": mesh.data,
        "tensor": mesh.tensor,
        "pipeline": plan.pipeline,
        "context": mesh.context,
        "expert": mesh.expert,
    }


def _devices(plan: PlanCase) -> int:
    if plan.stages is not None:
        return min(MOST, sum(stage.devices or stage.mesh.devices for stage in plan.stages))
    return min(MOST, plan.mesh.devices * plan.pipeline)


def _plan(case: Case, plan: PlanCase, found: bool) -> Fact:
    stated, stages = plan.stated, plan.stages
    devices, there = _devices(plan), case.described.devices
    known = plan.data_known
    degrees = {axis: degree for axis, degree in _degrees(plan).items() if known or axis != "data"}
    even = stages is None or (len({s.last - s.first for s in stages}) == 1 and len({s.mesh for s in stages}) == 1)
    origin = stated.origin
    return fact(
        "plan",
        plan.path,
        plan=plan.name,
        role=plan.role.value,
        form="uniform" if stages is None else "stages",
        **degrees,
        expert_tensor=plan.mesh.expert_tensor,
        devices=devices if known else None,
        cluster_devices=there,
        idle=there - devices if known and there is not None else None,
        schedule=stated.schedule if plan.pipeline > 1 else None,
        interleave=stated.interleave or 1,
        microbatch=stated.microbatch,
        accumulation=plan.accumulation,
        recompute=stated.recompute or "none",
        zero=stated.zero or 0,
        sequence_parallel=bool(stated.sequence_parallel),
        even=even,
        planner=origin.planner if origin else None,
        planner_objective=origin.objective if origin else None,
        found=found,
        beyond_limits=limits_of(case.limits).violated(plan.plan) if plan.plan is not None and case.limits is not None else None,
    )


def _batch(case: Case, plan: PlanCase) -> Iterator[Fact]:
    microbatch, data = plan.stated.microbatch, plan.mesh.data
    if case.global_batch is None or microbatch is None or not plan.data_known:
        return
    derived, remainder = divmod(case.global_batch, microbatch * data)
    stated = plan.stated.accumulation
    path = f"{plan.path}/accumulation" if stated is not None else f"{plan.path}/microbatch"
    yield fact(
        "batch",
        path,
        plan=plan.name,
        global_batch_sequences=case.global_batch,
        microbatch=microbatch,
        data=data,
        derived=derived,
        remainder_sequences=remainder,
        stated=stated,
        agrees=None if stated is None else stated == derived and remainder == 0,
    )


def _divisions(case: Case, plan: PlanCase) -> Iterator[Fact]:
    shapes = known_shapes(case)
    layers = known_layers(case)
    degrees_path = f"{plan.path}/uniform" if plan.stages is None else plan.path

    def division(of: str, total: int, axis: str, parts: int, where: str | None = None) -> Fact:
        at = where or (f"{degrees_path}/{axis}" if plan.stages is None else degrees_path)
        return fact(
            "division",
            at,
            plan=plan.name,
            of=of,
            total=min(MOST, total),
            axis=axis,
            parts=min(MOST, parts),
            remainder=min(MOST, total % parts),
            multiple=parts % total == 0,
            nearest=_nearest(total, parts) if total % parts else None,
        )

    if plan.stages is None and plan.pipeline > 1 and layers is not None:
        yield division("layers", layers, "pipeline", plan.pipeline)
    interleave = plan.stated.interleave or 1
    if interleave > 1 and layers is not None:
        chunks = f"{plan.path}/interleave"
        if plan.stages is None and layers % plan.pipeline == 0:
            yield division("chunk_layers", layers // plan.pipeline, "interleave", interleave, chunks)
        for stage in plan.stages or ():
            yield division("chunk_layers", stage.last - stage.first + 1, "interleave", interleave, chunks)
    meshes: list[tuple[Mesh, str | None]] = [(plan.mesh, None)]
    if plan.stages is not None:
        meshes = list(dict.fromkeys((s.mesh, s.path) for s in plan.stages))
    for mesh, where in meshes:
        if mesh.tensor > 1:
            for of in ("heads", "kv_heads", "ffn", "hidden", "vocabulary"):
                total = shapes.get(of)
                if total:
                    yield division(of, total, "tensor", mesh.tensor, where)
        if plan.stated.sequence_parallel and mesh.tensor > 1 and case.sequence_length:
            yield division("sequence", case.sequence_length, "tensor", mesh.tensor * mesh.context, where)
        if mesh.context > 1 and case.sequence_length:
            yield division("sequence", case.sequence_length, "context", 2 * mesh.context, where)
        if mesh.expert == 1 and mesh.expert_tensor is not None and mesh.expert_tensor > 1 and plan.data_known:
            at = where or f"{degrees_path}/expert_tensor"
            yield division("expert_grid", mesh.devices, "expert x expert_tensor", mesh.expert_tensor, at)
        if mesh.expert > 1:
            experts = shapes.get("experts")
            if experts is not None:
                yield division("experts", experts, "expert", mesh.expert, where)
            if not plan.data_known:
                continue  # what experts are laid over is not known
            if mesh.expert_tensor is None:
                yield division("replicas", mesh.data * mesh.context, "expert", mesh.expert, where)
            else:
                grid = mesh.expert * mesh.expert_tensor
                at = where or f"{degrees_path}/expert"
                yield division("expert_grid", mesh.devices, "expert x expert_tensor", grid, at)


def _nearest(total: int, parts: int) -> str:
    """The divisors of `total` next to `parts`, which does not divide it: `16 or 32`; none is looked for beyond reason."""
    if total > MOST_DIVIDED:
        return "a divisor of it"
    small = [divisor for divisor in range(1, isqrt(total) + 1) if total % divisor == 0]
    divisors = [*small, *(total // divisor for divisor in small)]
    below = max(divisor for divisor in divisors if divisor < parts)
    above = min((divisor for divisor in divisors if divisor > parts), default=None)
    return str(below) if above is None else f"{below} or {above}"


Runs = list[tuple[int, int]]


def _held(stages: tuple[StatedStage, ...], layers: int) -> tuple[Runs, Runs, Runs]:
    """Runs of layers (inclusive) that no stage holds, that more than one holds, and that the model does not have.

    A sweep over the stages' ends: its cost is that of their number, whatever layers they name.
    """
    steps: dict[int, int] = {0: 0, layers: 0}
    for stage in stages:
        steps[stage.first] = steps.get(stage.first, 0) + 1
        steps[stage.last + 1] = steps.get(stage.last + 1, 0) - 1
    missing: Runs = []
    repeated: Runs = []
    beyond: Runs = []
    held = 0
    edges = sorted(steps)
    for first, after in pairwise(edges):
        held += steps[first]
        run = (first, after - 1)
        if first < layers and not held:
            missing.append(run)
        if held > 1:
            repeated.append(run)
        if first >= layers and held:
            beyond.append(run)
    return missing, repeated, beyond


def _told(
    stages: tuple[StatedStage, ...], microbatch: int | None, data: int
) -> Iterator[tuple[int, StatedStage]]:
    """The stages that get a fact of their own: those that may be wrong or differ from the one before, and the first and last.

    Thousands of equal stages say nothing that one of them does not; at most `MOST_STAGES` are told.
    """
    told = 0
    for k, stage in enumerate(stages):
        odd = stage.devices not in (None, stage.mesh.devices)
        odd = odd or (microbatch is not None and (microbatch * data) % stage.mesh.data != 0)
        new = k == 0 or stage.mesh != stages[k - 1].mesh or stage.path != stages[k - 1].path
        if (odd or new or k == len(stages) - 1) and told < MOST_STAGES:
            told += 1
            yield k, stage


def _place_of_layer(plan: PlanCase, stages: tuple[StatedStage, ...], layer: int | None) -> str:
    """Where a layer that is missing, repeated or beyond is stated: by the last stage that holds it, or that ends before it."""
    if plan.stated.stages is None:
        return f"{plan.path}/uniform/layers"
    holding = [stage for stage in stages if layer is not None and stage.first <= layer <= stage.last]
    before = [stage for stage in stages if layer is not None and stage.last < layer]
    last = holding[-1] if holding else max(before, key=lambda stage: stage.last, default=None)
    return f"{last.path}/layers" if last is not None else f"{plan.path}/stages"


def _stages(case: Case, plan: PlanCase) -> Iterator[Fact]:
    if plan.stages is None:
        return
    layers = known_layers(case)
    if layers is not None:
        missing, repeated, beyond = _held(plan.stages, layers)
        wrong = missing[:1] + repeated[:1] + beyond[:1]
        problem = min(wrong)[0] if wrong else None
        yield fact(
            "coverage",
            _place_of_layer(plan, plan.stages, problem),
            plan=plan.name,
            model_layers=layers,
            missing=sum(last - first + 1 for first, last in missing),
            repeated=sum(last - first + 1 for first, last in repeated),
            beyond=sum(last - first + 1 for first, last in beyond),
            first_problem=problem,
            embedding_stages=sum(s.embedding for s in plan.stages),
            head_stages=sum(s.head for s in plan.stages),
            ordered=all(a.first < b.first for a, b in pairwise(plan.stages)),
            ends_right=plan.stages[0].embedding and plan.stages[-1].head,
        )
    yield from _operators(case, plan, plan.stages)
    microbatch = plan.stated.microbatch
    for k, stage in _told(plan.stages, microbatch, plan.mesh.data):
        before = plan.stages[k - 1] if k else None
        remainder = (microbatch * plan.mesh.data) % stage.mesh.data if microbatch is not None else None
        yield fact(
            "stage",
            stage.path,
            plan=plan.name,
            stage=k,
            layers=stage.last - stage.first + 1,
            devices=stage.devices,
            mesh_devices=stage.mesh.devices,
            agrees=None if stage.devices is None else stage.devices == stage.mesh.devices,
            mesh=str(stage.mesh),
            mesh_before=str(before.mesh) if before is not None and before.mesh != stage.mesh else None,
            data=stage.mesh.data,
            tensor=stage.mesh.tensor,
            microbatch_remainder=remainder,
        )


def _operators(case: Case, plan: PlanCase, stages: Sequence[StatedStage]) -> Iterator[Fact]:
    """The operators whose layout the stages state, each once."""
    first: dict[str, tuple[int, str, dict[str, None], dict[str, None]]] = {}
    for k, stage in enumerate(stages):
        for operator, dims in stage.layouts:
            _, _, named, idle = first.setdefault(operator, (k, stage.path, {}, {}))
            named.update(dict.fromkeys(dim for dim, _ in dims))
            idle.update(dict.fromkeys(why for dim, axis in dims if (why := _idle(case, stage.mesh, dim, axis))))
    if not first or (case.model is None and case.graph is None):
        return
    from ..model.naming import dim_named, operator_named  # few plans state any

    loops = _dims(case)
    shown = sorted(loops, key=lambda name: (name.count("."), name))[:MOST_NAMES]
    for operator, (k, path, named, idle) in first.items():
        meant = operator_named(operator, loops) or operator_named(operator.rpartition(".")[2], loops)
        there = loops[meant] if meant is not None else None
        yield fact(
            "stage_layout", f"{path}/layouts{pointer_to(operator)}", plan=plan.name, stage=k, operator=operator,
            known=meant is not None, near=", ".join(shown),
            unknown_dims=", ".join(f"'{dim}'" for dim in named if there is not None and dim_named(dim, there) is None) or None,
            dims=", ".join(sorted(there)) if there is not None else None,
            without_effect="; ".join(idle) or None,
        )  # fmt: skip


def _idle(case: Case, mesh: Mesh, dim: str, axis: str) -> str:
    """Why it changes nothing that a layout puts `dim` on `axis`; "" where it does."""
    if axis == "pipeline":
        return f"'{dim}' on 'pipeline': that axis divides layers, and no dim"
    size = {"data": mesh.data, "tensor": mesh.tensor, "context": mesh.context, "expert": mesh.expert}[axis]
    if size == 1:
        return f"'{dim}' on '{axis}': the stage has 1 device along it"
    from ..model.naming import plain_dim  # few plans state any

    called = case.graph.called if case.graph is not None else {}
    if axis == "data" and case.model is None and (called.get(dim) or plain_dim(dim)) != "batch":
        return f"'{dim}' on 'data': stages of a graph are priced with the sequences on that axis"
    return ""


def _dims(case: Case) -> dict[str, set[str]]:
    """The dims of each operator of the model by name: of a given graph, else by the last part of it, of each kind of layer."""
    from ..model.operator import Kind

    if case.graph is not None:
        graphs = [case.graph.build(1, case.sequence_length or 1, "bf16")]
    else:
        from ..model.builders import Shape, transformer_graph

        model = case.model
        assert model is not None
        layers = {is_moe(model, k): k for k in range(model.layers)}.values()
        graphs = [transformer_graph(model, Shape(1, _TOKENS), layers=(layer, layer)) for layer in layers]
    found: dict[str, set[str]] = {}
    for one in (operator for graph in graphs for operator in graph.operators):
        if one.kind not in (Kind.INPUT, Kind.OUTPUT):
            for name in {one.name, one.name.rpartition(".")[2]} if case.graph is not None else {one.name.rpartition(".")[2]}:
                found.setdefault(name, set()).update(one.sizes)
    return found


def _groups(case: Case, plan: PlanCase) -> Iterator[Fact]:
    cluster = case.cluster
    if cluster is None or not plan.data_known:
        return
    order = tuple(plan.stated.order) if plan.stated.order else DEFAULT_ORDER
    degrees = _degrees(plan)
    distance = strides(tuple(axis for axis in order if axis != "expert"), degrees)
    tiers = {link.name: link.tier for link in case.described.links}
    for axis, size in degrees.items():
        if size <= 1:
            continue
        if axis == "expert":
            stride = min(distance.get("data", 1), distance.get("context", distance.get("data", 1)))
        else:
            stride = distance.get(axis, 1)
        found = reach(cluster, size, stride, _devices(plan))
        inside = next((members for tier, members in found.members if tier.span <= cluster.island), 1)
        slowest = found.slowest
        tier = tiers.get(slowest.name, "island")
        yield fact(
            "group",
            f"{plan.path}/uniform/{axis}" if plan.stages is None else plan.path,
            plan=plan.name,
            axis=axis,
            size=size,
            stride=stride,
            island=cluster.island,
            inside=inside,
            slowest_link=slowest.name,
            slowest_tier=tier,
            crosses_fabric=tier == "fabric",
            fits_node=(size - 1) * stride < cluster.devices_per_node,
            node_devices=cluster.devices_per_node,
        )


def _schedule(case: Case, plan: PlanCase) -> Iterator[Fact]:
    if plan.pipeline < 2 or plan.accumulation is None or plan.stated.schedule is None or not plan.data_known:
        return
    p, m = plan.pipeline, plan.accumulation
    v = (plan.stated.interleave or 1) if plan.stated.schedule == Schedule.INTERLEAVED.value else 1
    # zb_h1 keeps a third of the bubble where forward, backward and weight gradient take equal times.
    share = (p - 1) / 3 if plan.stated.schedule == Schedule.ZB_H1.value else (p - 1) / v
    group = _group(case, plan) if plan.stated.schedule == Schedule.INTERLEAVED.value else None
    yield fact(
        "schedule",
        f"{plan.path}/schedule",
        plan=plan.name,
        schedule=plan.stated.schedule,
        stages=p,
        interleave=v,
        microbatches=m,
        most_stages=m + 1,
        round_remainder=m % p,
        group=group,
        group_remainder=m % group if group else None,
        bubble_ppm=round(1e6 * share / (m + share)),
    )


def _group(case: Case, plan: PlanCase) -> int | None:
    """Microbatches that an interleaved schedule takes a chunk at a time, where a setting of the framework says so."""
    heading = case.loaded.stated.proposal
    if heading is None or heading.framework is None or not heading.framework.settings:
        return None
    from .from_settings import settings_speak_of
    from .settings import numbers, stated_settings

    if not settings_speak_of(case, plan):
        return None
    names = ("microbatch_group_size_per_vp_stage", "microbatch_group_size_per_virtual_pipeline_stage")
    found = numbers(stated_settings(case), *names)
    return found if found is not None and found > 0 else None
