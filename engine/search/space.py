"""The declared space of uniform plans: which degrees and choices are in it, how many plans that is, and what was left out.

Vocabulary: a *shape* is a combination of degrees and a microbatch; its *variants* differ in schedule, interleave, ZeRO stage,
sequence parallelism and recompute. Only what divides is in the space: devices, layers, heads, experts, sequence and batch.
A dimension that is left out carries its reason. This module prices nothing and knows no rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from functools import cached_property

from ..cluster import Cluster
from ..frozen import dataclass
from ..model import Attention, Transformer, Workload
from ..plan import DEFAULT_ORDER, Mesh, Plan, Recompute, Role, Schedule, Stage, even_stages
from .freedoms import FREE, Freedom, Orders
from .orders import distinct_orders

MICROBATCHES = (1, 2, 4, 8, 16)
#: Tokens of a sequence that a context-parallel rank keeps at least; the rate of attention on shorter pieces was not measured.
CONTEXT_TOKENS = 2048
ZEROS = (0, 1, 2, 3)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the proposal allows; None is everything. `axes`: axes that may exceed 1."""

    axes: frozenset[str] | None = None
    max_axes: int | None = None
    degrees: tuple[tuple[str, frozenset[int]], ...] = ()
    microbatches: tuple[int, ...] | None = None
    zeros: tuple[int, ...] | None = None
    recomputes: tuple[str, ...] | None = None
    schedules: tuple[str, ...] | None = None
    interleaves: tuple[int, ...] | None = None
    sequence_parallel: tuple[bool, ...] | None = None

    def allows(self, axis: str, degree: int) -> bool:
        """Whether `axis` may have this degree."""
        if degree > 1 and self.axes is not None and axis not in self.axes:
            return False
        return all(degree in allowed for name, allowed in self.degrees if name == axis)


    def violated(self, plan: Plan) -> str | None:
        """The first limit that a plan does not keep, in the words of a proposal, or None."""
        for mesh in dict.fromkeys(stage.mesh for stage in plan.stages):
            degrees = {
                "data": mesh.data, "tensor": mesh.tensor, "context": mesh.context, "expert": mesh.expert,
                "pipeline": plan.pipeline,
            }  # fmt: skip
            for axis, degree in degrees.items():
                if not self.allows(axis, degree):
                    return f"{axis} {degree}"
            above = sum(degree > 1 for degree in degrees.values())
            if self.max_axes is not None and above > self.max_axes:
                return f"{above} axes above 1"
        choices: tuple[tuple[str, object, tuple[object, ...] | None], ...] = (
            ("microbatch", plan.microbatch, self.microbatches),
            ("zero", plan.zero, self.zeros if plan.mesh.data * plan.mesh.context > 1 else None),
            ("recompute", plan.recompute.value, self.recomputes),
            ("schedule", plan.schedule.value, self.schedules if plan.pipeline > 1 else None),
            ("interleave", plan.interleave, self.interleaves if plan.interleave > 1 else None),
            ("sequence_parallel", plan.sequence_parallel, self.sequence_parallel if plan.mesh.tensor > 1 else None),
        )
        for name, value, allowed in choices:
            if allowed is not None and value not in allowed:
                return f"{name} {str(value).lower() if isinstance(value, bool) else value}"
        return None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A dimension that is not in the declared space, and why."""

    dimension: str
    reason: str


@dataclass(frozen=True, slots=True)
class Shape:
    """Degrees and microbatch of a uniform plan that divides everything it must."""

    data: int
    tensor: int
    pipeline: int
    context: int
    expert: int
    microbatch: int
    accumulation: int
    #: The tensor degree inside an expert; None for that of the rest.
    expert_tensor: int | None = None
    #: Axes, innermost first.
    order: tuple[str, ...] = DEFAULT_ORDER

    @property
    def mesh(self) -> Mesh:
        """The mesh of every stage."""
        return Mesh(self.data, self.tensor, self.context, self.expert, self.expert_tensor)


@dataclass(frozen=True)
class UniformSpace:
    """All uniform plans of a model on all devices of a cluster, within limits."""

    model: Transformer
    workload: Workload
    cluster: Cluster
    limits: Limits = field(default_factory=Limits)
    #: Whether the framework shards gradients and parameters (ZeRO 2 and 3) of a pipelined model.
    shards_pipelines: bool = False
    #: What the framework lets a plan vary.
    freedom: Freedom = FREE
    _even: dict[tuple[int, Mesh], tuple[Stage, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _orders: dict[tuple[Mesh, int], Orders] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """Every shape of equal stages, in a fixed order."""
        return tuple(shape for shape in self.all_shapes if self.model.layers % shape.pipeline == 0)

    @cached_property
    def all_shapes(self) -> tuple[Shape, ...]:
        """Every shape, also those whose stages the layers do not divide into, in a fixed order."""
        return tuple(self._shapes())

    def _shapes(self) -> Iterator[Shape]:
        model, work, limits = self.model, self.workload, self.limits
        devices = self.cluster.devices
        microbatches = limits.microbatches or MICROBATCHES
        for pipeline in divisors(devices):
            if pipeline > model.layers or not limits.allows("pipeline", pipeline):
                continue
            for tensor in divisors(devices // pipeline):
                if not limits.allows("tensor", tensor) or not tensor_divides(model, tensor):
                    continue
                for context in divisors(devices // pipeline // tensor):
                    if not limits.allows("context", context) or not context_divides(work, context):
                        continue
                    data = devices // pipeline // tensor // context
                    if not limits.allows("data", data) or work.global_batch % data:
                        continue
                    for expert, inner in self._experts(tensor, data * context):
                        above = sum(degree > 1 for degree in (pipeline, tensor, context, data, expert))
                        if limits.max_axes is not None and above > limits.max_axes:
                            continue
                        replica = work.global_batch // data
                        if not self.schedules(pipeline):
                            continue
                        for microbatch in sorted(set(microbatches)):
                            if replica % microbatch:
                                continue
                            shape = Shape(
                                data, tensor, pipeline, context, expert, microbatch, replica // microbatch, inner
                            )
                            if self.zeros(shape):
                                yield from (replace(shape, order=order) for order in self._ordered(shape))

    def _ordered(self, shape: Shape) -> Orders:
        key = shape.mesh, shape.pipeline
        if key not in self._orders:
            self._orders[key] = distinct_orders(self.cluster, *key, self.freedom.orders)
        return self._orders[key]

    def _experts(self, tensor: int, replicas: int) -> Iterator[tuple[int, int | None]]:
        """(expert, expert tensor) degrees; None for an expert that is split like the rest of its layer."""
        moe = self.model.moe
        if moe is None:
            yield 1, None
            return
        for inner in (None, *(divisors(tensor)[:-1] if self.freedom.expert_tensor else ())):
            # Below the tensor degree the expert group takes in the rest of the tensor group first.
            for expert in divisors(replicas if inner is None else tensor // inner * replicas):
                whole = inner is None or (expert > 1 and expert % (tensor // inner) == 0 and moe.ffn % inner == 0)
                if whole and moe.experts % expert == 0 and self.limits.allows("expert", expert):
                    yield expert, inner

    def variants(self, shape: Shape) -> Iterator[Plan]:
        """Every plan of a shape, in a fixed order."""
        stages = self._stages(shape.pipeline, shape.mesh)
        for schedule, interleave in self.schedules(shape.pipeline):
            for zero in self.zeros(shape):
                for parallel in self.sequence_parallels(shape):
                    for recompute in self.recomputes:
                        yield _plan(shape, stages, schedule, interleave, zero, parallel, recompute)

    def quickest(self, shape: Shape) -> tuple[Plan, ...]:
        """One plan a choice of sequence parallelism, none of whose stages is slower than in any other variant of the shape.

        Recomputation and ZeRO-3 only add work to a stage, ZeRO 1 and 2 none, and a schedule changes no stage; sequence
        parallelism may do either, so both are there.
        """
        stages = self._stages(shape.pipeline, shape.mesh)
        least = self.recomputes[0]
        zero = min(self.zeros(shape))
        schedule, interleave = self.schedules(shape.pipeline)[0]
        return tuple(
            _plan(shape, stages, schedule, interleave, zero, parallel, least) for parallel in self.sequence_parallels(shape)
        )

    def _stages(self, pipeline: int, mesh: Mesh) -> tuple[Stage, ...]:
        known = self._even.get((pipeline, mesh))
        if known is None:
            stages = even_stages(self.model.layers, pipeline, mesh)
            assert stages is not None
            known = self._even[pipeline, mesh] = stages
        return known

    def schedules(self, pipeline: int) -> tuple[tuple[Schedule, int], ...]:
        """Schedules with their interleave for a number of stages; one stage needs none."""
        if pipeline == 1:
            return ((Schedule.ONE_F_ONE_B, 1),)
        found: list[tuple[Schedule, int]] = []
        allowed = self.limits.schedules or tuple(Schedule)
        layers = self.model.layers // pipeline if self.model.layers % pipeline == 0 else 1
        for schedule in Schedule:
            if schedule.value not in allowed:
                continue
            if schedule is not Schedule.INTERLEAVED:
                found.append((schedule, 1))
                continue
            wanted = self.limits.interleaves or tuple(divisors(layers))
            found += [(schedule, v) for v in wanted if v > 1 and layers % v == 0]
        return tuple(found)

    def zeros(self, shape: Shape) -> tuple[int, ...]:
        """ZeRO stages: 0 where there is nothing to shard over, below 2 with a pipeline unless the framework shards it."""
        allowed = sorted(set(self.limits.zeros or ZEROS))
        if shape.data * shape.context == 1:
            return (0,)
        most = 3 if shape.pipeline == 1 or self.shards_pipelines else 1
        return tuple(zero for zero in allowed if zero <= most)

    def sequence_parallels(self, shape: Shape) -> tuple[bool, ...]:
        """Sequence parallelism on or off; off where tensor parallelism is."""
        allowed = self.limits.sequence_parallel or (False, True)
        if shape.tensor == 1:
            return (False,)
        divides = self.workload.sequence_length % (shape.tensor * shape.context) == 0
        return tuple(one for one in sorted(set(allowed)) if divides or not one) or (False,)

    @cached_property
    def recomputes(self) -> tuple[Recompute, ...]:
        """Kinds of recomputation, the least first."""
        allowed = self.limits.recomputes or tuple(Recompute)
        return tuple(kind for kind in Recompute if kind.value in allowed)

    @cached_property
    def size(self) -> int:
        """How many plans the space holds."""
        return sum(
            len(self.schedules(shape.pipeline))
            * len(self.zeros(shape))
            * len(self.sequence_parallels(shape))
            * len(self.recomputes)
            for shape in self.shapes
        )

    @cached_property
    def dimensions(self) -> tuple[tuple[str, str], ...]:
        """Each dimension with the values that occur in it, for the record."""

        def values(found: set[int]) -> str:
            return ", ".join(map(str, sorted(found))) or "none"

        shapes = self.shapes
        schedules = {pair for shape in shapes for pair in self.schedules(shape.pipeline)}
        interleaves = {v for schedule, v in schedules if schedule is Schedule.INTERLEAVED}
        return (
            ("data", values({s.data for s in shapes})),
            ("tensor", values({s.tensor for s in shapes})),
            ("pipeline, equal stages", values({s.pipeline for s in shapes})),
            ("context", values({s.context for s in shapes})),
            ("expert", values({s.expert for s in shapes})),
            ("expert tensor, apart from tensor", values({s.expert_tensor for s in shapes if s.expert_tensor is not None})),
            ("axis order, innermost first", "; ".join(dict.fromkeys(", ".join(_shown(s)) for s in shapes)) or "none"),
            ("microbatch", values({s.microbatch for s in shapes})),
            ("schedule", ", ".join(kind.value for kind in Schedule if any(kind is one for one, _ in schedules)) or "none"),
            ("interleave", values(interleaves)),
            ("ZeRO", values({zero for shape in shapes for zero in self.zeros(shape)})),
            ("sequence parallel", "off, on" if any(True in self.sequence_parallels(s) for s in shapes) else "off"),
            ("recompute", ", ".join(kind.value for kind in self.recomputes)),
        )

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What the declared space does not hold, with the reason."""
        rows = [
            LeftOut("operator layouts", "each operator keeps the usual layout of its family on the tensor axis"),
            LeftOut("fewer devices", "every plan uses all devices: those left over would be paid for and idle"),
            LeftOut(
                f"context parallel with fewer than {CONTEXT_TOKENS} tokens a rank, or with unfused attention",
                "the rate of attention on shorter pieces was not measured; rings of keys and values need a fused kernel",
            ),
        ]
        if not self.shards_pipelines:
            rows.append(
                LeftOut(
                    "ZeRO 2 and 3 with a pipeline",
                    "DeepSpeed's pipeline engine takes ZeRO below 2, and Megatron-LM's FSDP excludes a pipeline; "
                    "a proposal whose framework is torchtitan has them",
                )
            )
        return tuple(rows)


def _plan(
    shape: Shape,
    stages: tuple[Stage, ...],
    schedule: Schedule,
    interleave: int,
    zero: int,
    parallel: bool,
    recompute: Recompute,
) -> Plan:
    return Plan(
        name="",
        stages=stages,
        microbatch=shape.microbatch,
        accumulation=shape.accumulation,
        role=Role.CANDIDATE,
        schedule=schedule,
        interleave=interleave,
        recompute=recompute,
        zero=zero,
        sequence_parallel=parallel,
        order=shape.order,
    )


def _shown(shape: Shape) -> tuple[str, ...]:
    """The axes above 1 of a shape in its order."""
    degrees = {"tensor": shape.tensor, "context": shape.context, "data": shape.data, "pipeline": shape.pipeline}
    return tuple(axis for axis in shape.order if degrees[axis] > 1) or ("one device",)


def divisors(number: int) -> list[int]:
    """The divisors of `number`, ascending."""
    small = [k for k in range(1, int(number**0.5) + 1) if number % k == 0]
    return small + [number // k for k in reversed(small) if k * k != number]


def tensor_divides(model: Transformer, tensor: int) -> bool:
    """Whether heads and widths split over `tensor` devices; key/value heads may be copied where they are fewer."""
    kv = model.kv_heads % tensor == 0 or tensor % model.kv_heads == 0
    widths = (model.ffn, model.hidden) if model.ffn else (model.hidden,)
    return model.heads % tensor == 0 and kv and all(width % tensor == 0 for width in widths)


def context_divides(workload: Workload, context: int) -> bool:
    """Whether a causal sequence splits evenly, 2 x context pieces, and each rank keeps `CONTEXT_TOKENS` of it."""
    length = workload.sequence_length
    if context == 1:
        return True
    fused = workload.attention is not Attention.UNFUSED
    return fused and length % (2 * context) == 0 and length // context >= CONTEXT_TOKENS
