"""The mesh that operators are laid out on: one to three axes of devices, each a group size and a distance between members."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError
from ..plan import Mesh, Plan
from .placement import axis_strides

#: Axes that a mesh may have: layouts grow with the power of them.
MOST_AXES = 3


@dataclass(frozen=True, slots=True)
class MeshAxis:
    """`size` devices, `stride` apart."""

    name: str
    size: int
    stride: int


@dataclass(frozen=True, slots=True)
class DeviceMesh:
    """Axes, outermost first: the first of two axes on one dim divides it into the larger pieces."""

    axes: tuple[MeshAxis, ...]

    @property
    def devices(self) -> int:
        """The product of the sizes."""
        count = 1
        for axis in self.axes:
            count *= axis.size
        return count

    def index(self, name: str) -> int:
        """The position of an axis. Raises InputError for a name that is none."""
        for k, axis in enumerate(self.axes):
            if axis.name == name:
                return k
        raise InputError(
            f"a layout names the axis '{name}', and the mesh has none of that name",
            code="input.layout",
            remedy=f"Axes of the mesh: {', '.join(axis.name for axis in self.axes)}.",
        )


def device_mesh(axes: tuple[MeshAxis, ...]) -> DeviceMesh:
    """The mesh, checked: one to three axes of sizes and strides of 1 or more, each name once. Raises InputError."""
    if not 1 <= len(axes) <= MOST_AXES:
        raise InputError(
            f"the mesh has {len(axes)} axes; operators are laid out on one to {MOST_AXES}",
            code="input.mesh",
            remedy="Join axes whose devices are neighbours, or leave out those of size 1.",
        )
    names = [axis.name for axis in axes]
    if len(set(names)) < len(names):
        raise InputError(
            f"the mesh names an axis twice: {', '.join(names)}", code="input.mesh", remedy="Give each a name of its own."
        )
    for axis in axes:
        if axis.size < 1 or axis.stride < 1:
            raise InputError(
                f"the axis '{axis.name}' has size {axis.size} and stride {axis.stride}: both are 1 or more",
                code="input.mesh",
                remedy="State the devices of a group and the distance between them.",
            )
    return DeviceMesh(axes)


def mesh_of(plan: Plan, mesh: Mesh) -> DeviceMesh | None:
    """The mesh of a stage: its axes above 1, `data` divided where experts are. None where that needs more than three.

    Experts divide data x context from the inner one outwards; where they take in more than one of the two, or a part of the
    context group, the axes cannot be told apart and there is no such mesh.
    """
    distance = axis_strides(plan, mesh)
    found = [MeshAxis(name, getattr(mesh, name), distance[name]) for name in ("data", "context", "tensor")]
    if mesh.expert > 1:
        inner = min((axis for axis in found[:2] if axis.size > 1), key=lambda axis: axis.stride, default=None)
        if inner is None or inner.size % mesh.expert:
            return None
        found.remove(inner)
        found.append(MeshAxis("expert", mesh.expert, inner.stride))
        found.append(MeshAxis(inner.name, inner.size // mesh.expert, inner.stride * mesh.expert))
    axes = sorted((axis for axis in found if axis.size > 1), key=lambda axis: -axis.stride)
    if not axes:
        return DeviceMesh((MeshAxis("device", 1, 1),))
    return DeviceMesh(tuple(axes)) if len(axes) <= MOST_AXES else None
