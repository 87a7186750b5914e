"""The plans of a proposal: from degrees or stages to one form, with what is missing or contradictory in each.

A plan is built (`PlanCase.plan`) where it can be priced: its stages cover the model's layers once, in order, and its batch
arithmetic is known. Where it cannot, its degrees and stages are still there for the rules to judge.
"""

from __future__ import annotations

from dataclasses import replace

from ..document import pointer_to
from ..plan import DEFAULT_ORDER, Mesh, Origin, Plan, Recompute, Role, Schedule, Stage, even_stages
from ..plan.frameworks import nearest
from .case import ClusterCase, PlanCase, StatedStage
from .collector import Collector
from .schema import Degrees, PlanChoice, StageChoice, StageMesh

MAX_STAGES = 4096
#: Frameworks that make stages of unequal length where the layers do not divide (torchtitan distributed/pipeline_parallel.py,
#: DeepSpeed runtime/pipe/module.py, nanotron models/base.py); Megatron-LM and what stands on it refuse.
CUT_UNEVENLY = {"torchtitan": "weighed", "deepspeed": "balanced", "nanotron": "balanced"}


def replicas_of(stated: list[PlanChoice] | None, described: ClusterCase) -> tuple[int, str] | None:
    """The batch that a launched plan amounts to, where it states microbatch and accumulation and its replicas are known."""
    for choice in stated or []:
        if choice.uniform is None or choice.microbatch is None or choice.accumulation is None:
            continue
        data = choice.uniform.data if isinstance(choice.uniform.data, int) else _rest(choice.uniform, described.devices)
        if data is not None:
            how = f"microbatch {choice.microbatch} x accumulation {choice.accumulation} x data {data}"
            return choice.microbatch * choice.accumulation * data, how
    return None


def _rest(degrees: Degrees, devices: int | None) -> int | None:
    """The data degree that the other axes leave of the devices; None where it is not whole or the devices are not known."""
    product = _replica(degrees)
    return devices // product if devices is not None and devices % product == 0 and devices >= product else None


def _replica(degrees: Degrees) -> int:
    """Devices of one replica: tensor x pipeline x context."""
    return (degrees.tensor or 1) * (degrees.pipeline or len(degrees.layers or (0,))) * (degrees.context or 1)


def resolve_plans(
    stated: list[PlanChoice] | None,
    layers: int | None,
    global_batch: int | None,
    described: ClusterCase,
    collect: Collector,
    framework: str | None = None,
) -> tuple[PlanCase, ...]:
    """Every stated plan, in order. Names are made unique; a name given twice is a contradiction.

    Equal stages that the layers cannot make are cut as `framework` does it by itself, where it is one that does.
    """
    own = framework or ""
    found: list[PlanCase] = []
    taken: set[str] = set()
    per_node = next((node.devices for node in described.nodes if node.devices), None)
    for k, choice in enumerate(stated or []):
        path = f"/plans/{k}"
        role = Role(choice.role) if choice.role else Role.CANDIDATE
        name = choice.name or (role.value if role is not Role.CANDIDATE else f"plan {k}")
        if name in taken:
            collect.contradicts("plan_name_twice", f"{path}/name", f"two plans are called '{name}'", name)
            name = f"{name} ({k})"
        taken.add(name)
        found.append(_plan(choice, name, role, path, layers, global_batch, per_node, described.devices, collect, own))
    for role in (Role.REFERENCE, Role.SUBMITTED):
        several = [plan for plan in found if plan.role is role]
        if len(several) > 1:
            names = " and ".join(f"'{plan.name}'" for plan in several)
            collect.contradicts(
                "plan_role_twice",
                f"{several[1].path}/role",
                f"{names} all have 'role: {role.value}'; one plan has it, the others are candidates",
            )
    if not any(plan.role is Role.REFERENCE for plan in found):
        collect.lacks(
            "reference_plan",
            "/plans",
            "a plan with 'role: reference': the simple plan that everything is compared with",
            "what would be run without planning: data x tensor, no pipeline",
        )
    return tuple(found)


def _plan(
    choice: PlanChoice,
    name: str,
    role: Role,
    path: str,
    layers: int | None,
    global_batch: int | None,
    per_node: int | None,
    devices: int | None,
    collect: Collector,
    framework: str,
) -> PlanCase:
    if choice.uniform is not None and choice.stages is not None:
        collect.contradicts("plan_twice", f"{path}/stages", f"plan '{name}' states both 'uniform' and 'stages'", name)
    stages = None
    known = True
    if choice.uniform is not None:
        cut = choice.uniform.layers
        mesh, pipeline = _mesh(choice.uniform), choice.uniform.pipeline or len(cut or (0,))
        own_cut = nearest(framework, CUT_UNEVENLY)
        if cut is None and layers is not None and 1 < pipeline <= layers and layers % pipeline and own_cut is not None:
            cut = _own_cut(own_cut, layers, pipeline, choice.interleave or 1)
            how = f"{framework} cuts layers that do not divide by itself"
            collect.assume(f"plan.{name}.layers", f"{path}/uniform/layers", ", ".join(map(str, cut)), how)
        if choice.uniform.data == "rest":
            data = _rest(choice.uniform, devices)
            known = data is not None
            mesh = replace(mesh, data=data or 1)
            _note_rest(choice.uniform, name, path, devices, data, collect, role)
        if cut is not None and len(cut) != pipeline:
            said = f"plan '{name}' states the layers of {len(cut)} stages and 'pipeline' {pipeline}"
            collect.contradicts("stages", f"{path}/uniform/layers", said, name)
        elif cut is not None and len(set(cut)) > 1:
            stages = _cut(cut, mesh, f"{path}/uniform/layers")
    elif choice.stages:
        stages = _stages(choice.stages, name, f"{path}/stages", per_node, collect)
        mesh, pipeline = (stages[0].mesh, len(stages)) if stages else (Mesh(), len(choice.stages))
    else:
        collect.lacks("plan", path, f"'uniform' or 'stages' of plan '{name}'", "the launch configuration", name, role)
        mesh, pipeline = Mesh(), 1
    if choice.microbatch is None:
        collect.lacks(
            "microbatch", f"{path}/microbatch", f"'microbatch' of plan '{name}'", "the launch configuration", name, role
        )
    if choice.schedule is None and pipeline > 1:
        collect.lacks(
            "schedule",
            f"{path}/schedule",
            f"'schedule' of plan '{name}', which has {pipeline} stages",
            "the launch configuration: gpipe, 1f1b, interleaved_1f1b or zb_h1",
            name,
            role,
        )
    if choice.schedule == "interleaved_1f1b" and choice.interleave is None:
        collect.lacks(
            "schedule", f"{path}/interleave", f"'interleave' of plan '{name}'", "the launch configuration", name, role
        )
    if choice.interleave and choice.interleave > 1 and choice.schedule not in (None, "interleaved_1f1b"):
        collect.contradicts(
            "interleave",
            f"{path}/interleave",
            f"plan '{name}' states interleave {choice.interleave} with schedule {choice.schedule}",
            name,
        )
    for field, default in (("recompute", "none"), ("zero", "0"), ("sequence_parallel", "false")):
        if getattr(choice, field) is None:
            collect.assume(f"plan.{name}.{field}", f"{path}/{field}", default, "documented default of a plan")
    accumulation = _accumulation(choice, mesh, global_batch) if known else choice.accumulation
    plan = _built(choice, name, role, mesh, pipeline, stages, layers, accumulation) if known else None
    return PlanCase(name, role, path, choice, mesh, pipeline, stages, accumulation, plan, known)


def _note_rest(
    degrees: Degrees, name: str, path: str, devices: int | None, data: int | None, collect: Collector, role: Role
) -> None:
    """What follows of `data: rest`: a gap without devices, a contradiction where they do not divide."""
    product = _replica(degrees)
    if devices is None:
        collect.lacks(
            "devices", f"{path}/uniform/data",
            f"the number of devices: 'data: rest' of plan '{name}' is what tensor x pipeline x context = {product} leave of it",
            "the batch system's request, as 'cluster.nodes'", name, role,
        )  # fmt: skip
    elif data is None:
        collect.contradicts(
            "rest", f"{path}/uniform/data",
            f"plan '{name}': {devices} devices are no multiple of tensor x pipeline x context = {product}: none left for data",
            name,
        )  # fmt: skip


def _mesh(degrees: Degrees | StageMesh) -> Mesh:
    return Mesh(
        data=degrees.data if isinstance(degrees.data, int) else 1,
        tensor=degrees.tensor or 1,
        context=degrees.context or 1,
        expert=degrees.expert or 1,
        expert_tensor=degrees.expert_tensor,
    )


def _stages(
    choices: list[StageChoice], name: str, path: str, per_node: int | None, collect: Collector
) -> tuple[StatedStage, ...] | None:
    """The stages after `repeat`; None where one has no layers or there are too many."""
    total = sum(choice.repeat or 1 for choice in choices)
    if total > MAX_STAGES:
        collect.contradicts("stages", path, f"plan '{name}' has {total} stages; at most {MAX_STAGES} are read", name)
        return None
    found: list[StatedStage] = []
    stated_with = any(choice.with_ is not None for choice in choices)
    for k, choice in enumerate(choices):
        here = f"{path}/{k}"
        if choice.layers is None:
            collect.lacks("plan", f"{here}/layers", f"'layers' of stage {k} of plan '{name}'", "the plan", name)
            return None
        first, last = choice.layers
        if last < first:
            collect.contradicts("stage_layers", f"{here}/layers", f"layers [{first}, {last}] run backwards", name)
            return None
        if choice.devices is not None and choice.nodes is not None:
            collect.contradicts(
                "stage_devices", f"{here}/nodes", f"stage {k} of plan '{name}' states both 'devices' and 'nodes'", name
            )
        devices = choice.devices
        if devices is None and choice.nodes is not None and per_node is not None:
            devices = choice.nodes * per_node
        if choice.mesh is None:
            collect.assume(
                f"plan.{name}.stages.{k}.mesh", f"{here}/mesh", f"data {devices or 1}", "documented default: data parallel"
            )
            mesh = Mesh(data=devices or 1)
        else:
            mesh = _mesh(choice.mesh)
        held = choice.with_ or []
        layouts = tuple((operator, tuple(dims.items())) for operator, dims in (choice.layouts or {}).items())
        for operator, dims in layouts:
            axes = [axis for _, axis in dims]
            twice = next((axis for axis in axes if axes.count(axis) > 1), None)
            if twice is not None:
                both = " and ".join(f"'{dim}'" for dim, axis in dims if axis == twice)
                what = f"'layouts' of stage {k} divide {both} of '{operator}' on the axis '{twice}', which divides one dim"
                collect.contradicts("stage_layouts", f"{here}/layouts{pointer_to(operator)}", what, name)
        size = last - first + 1
        for j in range(choice.repeat or 1):
            found.append(
                StatedStage(
                    first=first + j * size,
                    last=last + j * size,
                    mesh=mesh,
                    devices=devices,
                    embedding="embedding" in held and j == 0,
                    head="head" in held and j == (choice.repeat or 1) - 1,
                    recompute=Recompute(choice.recompute) if choice.recompute else None,
                    layouts=layouts,
                    path=here,
                )
            )
    if not stated_with and found:
        collect.assume(
            f"plan.{name}.stages.with", path, "embedding on the first stage, head on the last", "documented default"
        )
        found = [
            replace(stage, embedding=k == 0, head=k == len(found) - 1) for k, stage in enumerate(found)
        ]
    return tuple(found)


def _own_cut(how: str, layers: int, pipeline: int, interleave: int) -> list[int]:
    """Layers by stage as a framework cuts them; of nanotron, which weighs blocks by their work, as equal as can be."""
    from ..importers.launch.uneven import balanced, by_rank, weighed_ends  # few plans need it

    weighed = weighed_ends(layers, pipeline * interleave, first=1, last=1) if how == "weighed" else None
    counts = by_rank(weighed, pipeline) if weighed is not None else balanced(layers, pipeline)
    return counts if min(counts) > 0 else balanced(layers, pipeline)


def _cut(layers: list[int], mesh: Mesh, path: str) -> tuple[StatedStage, ...]:
    """Stages of unequal length on equal meshes, the embedding on the first and the head on the last."""
    found, first = [], 0
    for k, count in enumerate(layers):
        ends = (k == 0, k == len(layers) - 1)
        found.append(StatedStage(first, first + count - 1, mesh, mesh.devices, *ends, None, (), path))
        first += count
    return tuple(found)


def _accumulation(choice: PlanChoice, mesh: Mesh, global_batch: int | None) -> int | None:
    """global batch / (microbatch x data), where it is whole and at least 1; the stated one where nothing can be derived."""
    if global_batch is None or choice.microbatch is None:
        return choice.accumulation
    derived, remainder = divmod(global_batch, choice.microbatch * mesh.data)
    return None if remainder or derived < 1 else derived


def _built(
    choice: PlanChoice,
    name: str,
    role: Role,
    mesh: Mesh,
    pipeline: int,
    stages: tuple[StatedStage, ...] | None,
    layers: int | None,
    accumulation: int | None,
) -> Plan | None:
    if layers is None or choice.microbatch is None or accumulation is None or pipeline > layers:
        return None
    if choice.uniform is not None and stages is None:
        built = even_stages(layers, pipeline, mesh) if choice.uniform.layers in (None, [layers // pipeline] * pipeline) else None
    elif stages is not None and _covers(stages, layers):
        built = tuple(Stage(s.first, s.last, s.mesh, s.embedding, s.head, s.recompute, s.layouts) for s in stages)
        if any((choice.microbatch * mesh.data) % stage.mesh.data for stage in built):
            return None
    else:
        return None
    if built is None or (choice.schedule is None and pipeline > 1):
        return None
    if choice.schedule == "interleaved_1f1b" and choice.interleave is None:
        return None
    schedule = Schedule(choice.schedule) if choice.schedule else Schedule.ONE_F_ONE_B
    interleave = choice.interleave or 1
    if schedule is not Schedule.INTERLEAVED:
        interleave = 1
    if interleave > 1 and any(stage.layers % interleave for stage in built):
        return None
    origin = choice.origin
    return Plan(
        name=name,
        stages=built,
        microbatch=choice.microbatch,
        accumulation=accumulation,
        role=role,
        schedule=schedule,
        interleave=interleave,
        recompute=Recompute(choice.recompute or "none"),
        zero=choice.zero or 0,
        sequence_parallel=bool(choice.sequence_parallel),
        order=tuple(choice.order) if choice.order else DEFAULT_ORDER,
        uniform=choice.uniform is not None and stages is None,
        origin=Origin(origin.planner or "", origin.objective or "") if origin else None,
    )


def _covers(stages: tuple[StatedStage, ...], layers: int) -> bool:
    """Whether the stages hold every layer once, in order, with one embedding first and one head last."""
    expected = 0
    for stage in stages:
        if stage.first != expected:
            return False
        expected = stage.last + 1
    ends = [k for k, s in enumerate(stages) if s.embedding] == [0] and [k for k, s in enumerate(stages) if s.head] == [
        len(stages) - 1
    ]
    return expected == layers and ends
