"""The declared space beyond uniform plans: uneven cuts of the layers on one mesh, and stages on unequal meshes.

Vocabulary: *cuts* are plans whose stages share a mesh and differ in length or recomputation; *unequal* plans differ in their
meshes. Every cut of the layers is in the space; meshes come from a menu of submeshes that lie inside a node or on whole nodes.
Schedules are those without interleaving. Prices nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import comb

from ..plan import DEFAULT_ORDER, Mesh
from .setting import Setting
from .space import MICROBATCHES, LeftOut, Shape, UniformSpace, divisors, tensor_divides
from .submeshes import MOST_STAGES, NEVER, Submeshes


class UnevenSpace(Submeshes[UniformSpace]):
    """Cuts and unequal plans of the same model, batch, devices and limits as `uniform`."""

    @property
    def layers(self) -> int:
        """Layers of the model."""
        return self.uniform.model.layers

    # Cuts.

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of cuts: pipelines of two stages and more, whether the layers divide or not."""
        return tuple(one for one in self.uniform.all_shapes if one.pipeline > 1 and self.schedules_of(one.pipeline))

    def cuts(self, shape: Shape) -> Iterator[Setting]:
        """The settings of a shape."""
        space = self.uniform
        kinds = (space.recomputes,) if space.freedom.recompute_by_stage else tuple((one,) for one in space.recomputes)
        for schedule in self.schedules_of(shape.pipeline):
            for zero in space.zeros(shape):
                for parallel in space.sequence_parallels(shape):
                    for recomputes in kinds:
                        yield Setting(
                            shape.pipeline, shape.microbatch * shape.data, shape.accumulation, schedule, zero, parallel,
                            shape.order, (shape.mesh,), recomputes,
                        )  # fmt: skip

    # Unequal meshes.

    def meshes(self, sequences: int, pipeline: int, *, parallel: bool) -> tuple[Mesh, ...]:
        """The menu of a microbatch of `sequences`: data, tensor and expert degrees on each submesh."""
        space = self.uniform
        limits, allowed = space.limits, space.limits.microbatches or MICROBATCHES
        found = []
        for size in self.sizes:
            for tensor in divisors(size):
                data = size // tensor
                if not (limits.allows("tensor", tensor) and limits.allows("data", data)) or sequences % data:
                    continue
                if not tensor_divides(space.model, tensor) or sequences // data not in allowed:
                    continue
                if parallel and tensor > 1 and space.workload.sequence_length % tensor:
                    continue
                moe = space.model.moe
                for expert in divisors(data) if moe is not None else (1,):
                    above = sum(degree > 1 for degree in (pipeline, tensor, data, expert))
                    if limits.max_axes is not None and above > limits.max_axes:
                        continue
                    if moe is None or (moe.experts % expert == 0 and limits.allows("expert", expert)):
                        found.append(Mesh(data, tensor, 1, expert))
        return tuple(found)

    @cached_property
    def unequal(self) -> tuple[Setting, ...]:
        """The settings of plans with unequal meshes."""
        return tuple(self._unequal()) if self.has_unequal else ()

    def _unequal(self) -> Iterator[Setting]:
        space, units = self.uniform, self.uniform.cluster.devices // self.unit
        limits, batch = space.limits, space.workload.global_batch
        switches = sorted(set(limits.sequence_parallel or (False, True)))
        for stages in range(2, min(space.model.layers, units, MOST_STAGES) + 1):
            if not limits.allows("pipeline", stages):
                continue
            for sequences in divisors(batch):
                for parallel in switches:
                    menu = self.meshes(sequences, stages, parallel=parallel)
                    if len({mesh.devices for mesh in menu}) < 1 or len(menu) < 2:
                        continue
                    if parallel and all(mesh.tensor == 1 for mesh in menu):
                        continue
                    if not self.arrangements(stages, menu):
                        continue
                    zeros = space.zeros(Shape(2, 1, stages, 1, 1, 1, 1))
                    for schedule in self.schedules_of(stages):
                        for zero in zeros:
                            yield Setting(
                                stages, sequences, batch // sequences, schedule, zero, parallel, DEFAULT_ORDER, menu,
                                space.recomputes,
                            )  # fmt: skip

    # The whole.

    @cached_property
    def size(self) -> int:
        """How many plans there are."""
        total = sum(self.plans(one) for one in self.unequal)
        layers, space = self.uniform.model.layers, self.uniform
        kinds = len(space.recomputes)
        for shape in self.shapes:
            p = shape.pipeline
            if space.freedom.recompute_by_stage:
                each = comb(layers - 1, p - 1) * kinds**p - (kinds if layers % p == 0 else 0)
            else:
                each = kinds * (comb(layers - 1, p - 1) - (layers % p == 0))
            total += each * len(self.schedules_of(p)) * len(space.zeros(shape)) * len(space.sequence_parallels(shape))
        return total

    @property
    def dimensions(self) -> tuple[tuple[str, str], ...]:
        """What this space adds, with its values."""
        pipelines = sorted({shape.pipeline for shape in self.shapes})
        rows = [("pipeline, every cut of the layers on one mesh", ", ".join(map(str, pipelines)) or "none")]
        by_stage = "by stage" if self.uniform.freedom.recompute_by_stage else "alike on all stages"
        rows.append(("recompute of uneven plans", by_stage))
        if self.unequal:
            stages = sorted({one.stages for one in self.unequal})
            rows.append(("stages on unequal meshes", ", ".join(map(str, stages))))
            rows.append(("devices of a stage there", ", ".join(map(str, self.sizes))))
        return tuple(rows)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What it does not hold, and why."""
        space = self.uniform
        freedom, rows = space.freedom, []
        if not freedom.unequal_meshes:
            rows.append(LeftOut("unequal meshes, and recomputation by stage", freedom.why))
        elif len(space.cluster.nodes) > 1:
            rows.append(
                LeftOut("unequal meshes on mixed device types", "cuts of the layers follow the devices; stages keep one mesh")
            )
        else:
            rows.append(
                LeftOut(
                    f"unequal meshes in more than {MOST_STAGES} stages, in finer units than {max(1, self.unit)} devices, with "
                    "context parallelism or another axis order",
                    "the tables of their stages would not be done within the time of a review",
                )
            )
        return (*rows, *NEVER)
