"""A parallel plan: stages of layers, the mesh of each stage, a schedule, and how memory is traded for work.

Vocabulary: an *axis* is a mesh axis (data, tensor, pipeline, context, expert); a *stage* is a contiguous run of layers on one
mesh; a *microbatch* is counted in sequences a data-parallel replica; *accumulation* is the number of microbatches a step.
Expert parallelism divides data x context, so it adds no devices of its own. A plan knows nothing of models or clusters:
whether it divides, fits or pays is for others to say.
"""

from __future__ import annotations

from dataclasses import field, replace
from enum import StrEnum

from ..frozen import dataclass


class Schedule(StrEnum):
    """Pipeline schedules, simplest first: this order decides ties."""

    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"
    INTERLEAVED = "interleaved_1f1b"
    ZB_H1 = "zb_h1"

    @property
    def rank(self) -> int:
        """0 for the simplest schedule."""
        return _RANKS[self]


_RANKS = {schedule: rank for rank, schedule in enumerate(Schedule)}


class Recompute(StrEnum):
    """What the backward pass computes again: nothing, the attention core, or whole layers."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class Role(StrEnum):
    """Why a plan is in the proposal: the simple one kept for comparison, the one that is to run, or another to weigh."""

    REFERENCE = "reference"
    SUBMITTED = "submitted"
    CANDIDATE = "candidate"


#: Mesh axes in the order in which frameworks lay them out, innermost (nearest devices) first.
DEFAULT_ORDER = ("tensor", "context", "data", "pipeline")


@dataclass(frozen=True, slots=True, order=True)
class Mesh:
    """The logical mesh of one stage. `expert` divides `data * context`; `expert_tensor` is the tensor degree inside an expert."""

    data: int = 1
    tensor: int = 1
    context: int = 1
    expert: int = 1
    expert_tensor: int | None = None

    @property
    def devices(self) -> int:
        """Devices that the mesh spans: data x tensor x context."""
        return self.data * self.tensor * self.context

    def __str__(self) -> str:
        names = ("data", "tensor", "context", "expert")
        shown = [f"{name} {getattr(self, name)}" for name in names if getattr(self, name) > 1]
        return " x ".join(shown) or "1 device"


@dataclass(frozen=True, slots=True, order=True)
class Stage:
    """Layers `first` to `last`, inclusive and from 0, on one mesh, with the embedding or the head where they live."""

    first: int
    last: int
    mesh: Mesh
    embedding: bool = False
    head: bool = False
    recompute: Recompute | None = None
    #: operator -> tensor dim -> mesh axis, as stated; empty for the family's usual layout.
    layouts: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()

    @property
    def layers(self) -> int:
        """How many layers the stage holds."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Origin:
    """The planner that a plan was taken from and the objective that it minimised, as stated."""

    planner: str
    objective: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """One complete plan. `stages` is never empty; `uniform` says that it was stated as degrees and stages follow from them."""

    name: str
    stages: tuple[Stage, ...]
    microbatch: int
    accumulation: int
    role: Role = Role.CANDIDATE
    schedule: Schedule = Schedule.ONE_F_ONE_B
    interleave: int = 1
    recompute: Recompute = Recompute.NONE
    zero: int = 0
    sequence_parallel: bool = False
    order: tuple[str, ...] = DEFAULT_ORDER
    uniform: bool = True
    origin: Origin | None = field(default=None, compare=False)

    @property
    def pipeline(self) -> int:
        """The number of stages."""
        return len(self.stages)

    @property
    def devices(self) -> int:
        """Devices that the plan uses, summed over its stages."""
        return sum(stage.mesh.devices for stage in self.stages)

    @property
    def mesh(self) -> Mesh:
        """The mesh of the first stage; that of all of them where `same_meshes`."""
        return self.stages[0].mesh

    @property
    def same_meshes(self) -> bool:
        """Whether every stage has the same mesh."""
        return len({stage.mesh for stage in self.stages}) == 1

    @property
    def global_batch(self) -> int:
        """Sequences a step: microbatch x accumulation x data-parallel replicas (of the first stage)."""
        return self.microbatch * self.accumulation * self.mesh.data

    def recompute_of(self, stage: int) -> Recompute:
        """What stage `stage` recomputes: its own word, or the plan's."""
        return self.stages[stage].recompute or self.recompute

    def named(self, name: str, role: Role) -> Plan:
        """The same plan under another name and role."""
        return replace(self, name=name, role=role)

    @property
    def identity(self) -> tuple[object, ...]:
        """What the plan is, apart from its name and role: equal for two plans that run alike."""
        return (
            self.stages, self.microbatch, self.accumulation, self.schedule, self.interleave, self.recompute,
            self.zero, self.sequence_parallel, self.order,
        )  # fmt: skip


def even_stages(layers: int, pipeline: int, mesh: Mesh) -> tuple[Stage, ...] | None:
    """`pipeline` equal stages over `layers`, embedding on the first and head on the last; None where it does not divide."""
    if pipeline < 1 or layers % pipeline:
        return None
    size = layers // pipeline
    return tuple(
        Stage(k * size, (k + 1) * size - 1, mesh, embedding=k == 0, head=k == pipeline - 1) for k in range(pipeline)
    )


def simplicity(plan: Plan) -> tuple[int, ...]:
    """How complicated a plan is to run and to reason about; the smaller tuple is simpler and wins ties.

    (axes above 1, distinct stage lengths, distinct stage meshes, operators that leave their block's layout, schedule in the
    order of `Schedule`, kinds of recompute, ZeRO stage). The pipeline counts as an axis, expert parallelism too; context
    parallelism counts as two, because it splits the sequence itself: masks, positions and the loss have to know of it.
    """
    mesh = plan.mesh
    axes = sum(degree > 1 for degree in (mesh.data, mesh.tensor, mesh.expert, plan.pipeline)) + 2 * (mesh.context > 1)
    if plan.uniform:
        kinds = int(plan.recompute is not Recompute.NONE)
        return (axes, 1, 1, 0, plan.schedule.rank if plan.pipeline > 1 else 0, kinds, plan.zero)
    recomputes = {plan.recompute_of(k) for k in range(plan.pipeline)} - {Recompute.NONE}
    return (
        axes,
        len({stage.layers for stage in plan.stages}),
        len({stage.mesh for stage in plan.stages}),
        len({name for stage in plan.stages for name, _ in stage.layouts}),
        plan.schedule.rank if plan.pipeline > 1 else 0,
        len(recomputes),
        plan.zero,
    )


def describe(plan: Plan) -> str:
    """One line for people: `data 8 x tensor 8 x pipeline 4, 1f1b, microbatch 1 x 256, ZeRO 1, recompute selective`."""
    degrees = str(plan.mesh) if plan.same_meshes else " | ".join(str(stage.mesh) for stage in plan.stages)
    parts = [degrees + (f" x pipeline {plan.pipeline}" if plan.pipeline > 1 else "")]
    if plan.pipeline > 1:
        parts.append(plan.schedule.value + (f" interleave {plan.interleave}" if plan.interleave > 1 else ""))
    parts.append(f"microbatch {plan.microbatch} x {plan.accumulation}")
    parts.append(f"ZeRO {plan.zero}" if plan.zero else "no ZeRO")
    if plan.sequence_parallel:
        parts.append("sequence parallel")
    parts.append(f"recompute {plan.recompute.value}")
    return ", ".join(parts)


def to_dict(plan: Plan) -> dict[str, object]:
    """The plan in the form that a proposal takes: pasted back under `plans` it is the same plan."""
    body: dict[str, object] = {"name": plan.name, "role": plan.role.value}
    if plan.origin is not None:
        body["origin"] = {"planner": plan.origin.planner, "objective": plan.origin.objective}
    if plan.pipeline > 1:
        body["schedule"] = plan.schedule.value
        if plan.interleave > 1:
            body["interleave"] = plan.interleave
    if plan.uniform:
        body["uniform"] = _mesh_dict(plan.mesh) | {"pipeline": plan.pipeline}
    else:
        body["stages"] = [_stage_dict(stage) for stage in plan.stages]
    body |= {"microbatch": plan.microbatch, "accumulation": plan.accumulation, "zero": plan.zero}
    body |= {"sequence_parallel": plan.sequence_parallel, "recompute": plan.recompute.value, "order": list(plan.order)}
    return body


def _mesh_dict(mesh: Mesh) -> dict[str, object]:
    body: dict[str, object] = {"data": mesh.data, "tensor": mesh.tensor, "context": mesh.context, "expert": mesh.expert}
    if mesh.expert_tensor is not None:
        body["expert_tensor"] = mesh.expert_tensor
    return body


def _stage_dict(stage: Stage) -> dict[str, object]:
    body: dict[str, object] = {"layers": [stage.first, stage.last]}
    held = [name for name, here in (("embedding", stage.embedding), ("head", stage.head)) if here]
    if held:
        body["with"] = held
    body |= {"devices": stage.mesh.devices, "mesh": _mesh_dict(stage.mesh)}
    if stage.recompute is not None:
        body["recompute"] = stage.recompute.value
    if stage.layouts:
        body["layouts"] = {operator: dict(dims) for operator, dims in stage.layouts}
    return body
