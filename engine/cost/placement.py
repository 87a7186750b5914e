"""Where a plan's stages lie on the cluster: devices of each, distances between neighbours of an axis, device types.

Devices are numbered as in `cluster`; axes are laid out innermost first in the plan's order. Knows no cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..cluster.cluster import Cluster, strides
from ..cluster.stage_placement import place
from ..hardware import DeviceSheet
from ..plan import Mesh, Plan


def axis_strides(plan: Plan, mesh: Mesh) -> Mapping[str, int]:
    """Distances of all axes, those that the order leaves out laid outermost."""
    degrees = {
        "tensor": mesh.tensor, "context": mesh.context, "data": mesh.data, "pipeline": len(plan.stages),
    }  # fmt: skip
    order = tuple(axis for axis in plan.order if axis in degrees)
    return strides((*order, *(axis for axis in degrees if axis not in order)), degrees)


def same_meshes(plan: Plan) -> bool:
    """`plan.same_meshes`, by identity first: stages of a uniform plan share one mesh."""
    first = plan.stages[0].mesh
    return all(stage.mesh is first or stage.mesh == first for stage in plan.stages)


def blocks(plan: Plan) -> tuple[list[int], list[int]]:
    """(first device, end) of each stage: runs of devices where the pipeline is outermost or meshes differ, else by
    its stride.
    """
    if same_meshes(plan):
        step = axis_strides(plan, plan.mesh)["pipeline"]
        return [k * step for k in range(len(plan.stages))], [(k + 1) * step for k in range(len(plan.stages))]
    starts, ends, at = [], [], 0
    for stage in plan.stages:
        starts.append(at)
        at += stage.mesh.devices
        ends.append(at)
    return starts, ends


def placed(plan: Plan, cluster: Cluster, weights: tuple[float, ...] = ()) -> tuple[list[int], list[int]]:
    """(first device, end) of each stage where the plan is launched: `blocks`, and stages of unequal meshes that would lie across
    nodes packed onto them, so that messages of the least `weights` leave a node. As `blocks` where they cannot be packed.
    """
    starts, ends = blocks(plan)
    if same_meshes(plan) or len(cluster.nodes) > 1:
        return starts, ends
    group = cluster.nodes[0]
    sizes = tuple(stage.mesh.devices for stage in plan.stages)
    found = place(sizes, group.sheet.devices, group.count, weights)
    if found is None:
        return starts, ends
    return list(found), [start + size for start, size in zip(found, sizes, strict=True)]


def span(starts: Sequence[int], ends: Sequence[int], one: int, other: int) -> tuple[int, int]:
    """The first and the last device of two stages."""
    return min(starts[one], starts[other]), max(ends[one], ends[other]) - 1


def slowest_device(plan: Plan, index: int, cluster: Cluster) -> DeviceSheet:
    """The device type of stage `index`: where types are mixed, the one of the lowest bf16 (or best stated) rate that
    it meets.
    """
    if len(cluster.nodes) == 1:
        return cluster.nodes[0].device
    first = sum(stage.mesh.devices for stage in plan.stages[:index])
    last = first + plan.stages[index].mesh.devices
    contiguous = plan.order[-1:] == ("pipeline",) or len(plan.stages) == 1
    met: list[DeviceSheet] = []
    start = 0
    for group in cluster.nodes:
        end = start + group.devices
        if not contiguous or (first < end and start < last):
            met.append(group.device)
        start = end
    return min(met or [cluster.nodes[-1].device], key=_speed)


def _speed(sheet: DeviceSheet) -> float:
    rate = sheet.peak("bf16") or sheet.peak("fp16")
    return rate.value if rate is not None else max((one.value for _, one in sheet.peak_rates), default=0.0)
