"""Boxes of a tensor that move as a whole between two shardings, and the check of a plan on the grid of their borders.

Vocabulary. A *tile* is what one device holds of a tensor; a *box* is a half-open range in every tensor dim; a *unit*
is a box inside one source tile and one destination tile of every device that touches it. Knows no links, hosts or
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, product
from math import prod

import numpy as np

from ..errors import InputError, InternalFault
from ..frozen import dataclass

Box = tuple[tuple[int, int], ...]

#: More units than this are not planned one by one.
LARGEST_GRID = 20_000


@dataclass(frozen=True, slots=True)
class Tensor:
    """Elements by dim, and the bytes of one element."""

    shape: tuple[int, ...]
    element_bytes: int


@dataclass(frozen=True, slots=True)
class Sharding:
    """A tensor on a mesh: `mesh` axis sizes, `devices` in row-major order of the mesh, and the mesh axes that cut
    each tensor dim.

    `axes_of_dim[d]` lists mesh axes, the coarsest cut first; a mesh axis that cuts no dim replicates. A dim of n
    elements cut k ways has tiles of ceil(n / k), the last ones smaller or empty.
    """

    mesh: tuple[int, ...]
    devices: tuple[int, ...]
    axes_of_dim: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Unit:
    """A box, the devices that hold it before, and those that must hold it after."""

    box: Box
    holders: tuple[int, ...]
    needed_by: tuple[int, ...]


def elements(box: Box) -> int:
    """How many elements a box has."""
    return prod(high - low for low, high in box)


def check_sharding(name: str, tensor: Tensor, sharding: Sharding) -> None:
    """Raises `InputError` for a sharding that does not describe the tensor."""
    numbers = (*tensor.shape, tensor.element_bytes, *sharding.mesh)
    if any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in numbers) or not tensor.shape:
        raise InputError(
            f"{name}: shape {tensor.shape}, element_bytes {tensor.element_bytes} and mesh {sharding.mesh} "
            "are whole numbers from 1",
            remedy="State a tensor of at least one dim and one element, on a mesh of at least one device.",
        )
    if len(sharding.devices) != prod(sharding.mesh) or len(set(sharding.devices)) != len(sharding.devices):
        raise InputError(
            f"{name}: {len(sharding.devices)} devices on a mesh of {prod(sharding.mesh)}, each once",
            remedy="List the devices in row-major order of the mesh.",
        )
    axes = [axis for dim in sharding.axes_of_dim for axis in dim]
    if (
        len(sharding.axes_of_dim) != len(tensor.shape)
        or len(set(axes)) != len(axes)
        or not set(axes) <= set(range(len(sharding.mesh)))
    ):
        raise InputError(
            f"{name}: axes_of_dim is {sharding.axes_of_dim}: one list of mesh axes for each of "
            f"{len(tensor.shape)} dims, an axis at most once",
            remedy=f"Mesh axes count from 0 to {len(sharding.mesh) - 1}; an empty list leaves a dim whole.",
        )


def tiles(tensor: Tensor, sharding: Sharding) -> dict[int, Box]:
    """The box that each device holds."""
    found: dict[int, Box] = {}
    for device, at in zip(sharding.devices, product(*(range(n) for n in sharding.mesh)), strict=True):
        box: list[tuple[int, int]] = []
        for size, axes in zip(tensor.shape, sharding.axes_of_dim, strict=True):
            part, parts = 0, 1
            for axis in axes:
                part, parts = part * sharding.mesh[axis] + at[axis], parts * sharding.mesh[axis]
            step = -(-size // parts)
            box.append((min(size, part * step), min(size, (part + 1) * step)))
        found[device] = tuple(box)
    return found


def contains(outer: Box, inner: Box) -> bool:
    """Whether `inner` lies in `outer`."""
    return all(a <= c and d <= b for (a, b), (c, d) in zip(outer, inner, strict=True))


def units(tensor: Tensor, before: dict[int, Box], after: dict[int, Box]) -> list[Unit]:
    """The boxes between all borders of both shardings, with their holders and needs."""
    borders = [
        sorted({0, size, *(end for box in (*before.values(), *after.values()) for end in box[dim])})
        for dim, size in enumerate(tensor.shape)
    ]
    if prod(len(b) - 1 for b in borders) > LARGEST_GRID:
        raise InputError(
            f"the tiles of both shardings cut the tensor into more than {LARGEST_GRID} boxes",
            remedy="Use meshes that share borders.",
        )
    return [
        Unit(
            box,
            tuple(device for device, tile in before.items() if contains(tile, box)),
            tuple(device for device, tile in after.items() if contains(tile, box)),
        )
        for box in product(*(list(pairwise(b)) for b in borders))
    ]


def split(unit: Unit, share: float) -> tuple[Unit, Unit] | None:
    """The unit in two, the first with about `share` of its elements, cut across its longest dim; None if that leaves
    one empty.
    """
    dim = max(range(len(unit.box)), key=lambda d: unit.box[d][1] - unit.box[d][0])
    low, high = unit.box[dim]
    cut = low + round((high - low) * share)
    if not low < cut < high:
        return None

    def part(ends: tuple[int, int]) -> Unit:
        return Unit((*unit.box[:dim], ends, *unit.box[dim + 1 :]), unit.holders, unit.needed_by)

    return part((low, cut)), part((cut, high))


def cut(unit: Unit, parts: int) -> list[Unit]:
    """The unit in at most `parts` of about the same size, cut across its longest dim."""
    dim = max(range(len(unit.box)), key=lambda d: unit.box[d][1] - unit.box[d][0])
    low, high = unit.box[dim]
    ends = sorted({low + (high - low) * k // parts for k in range(parts + 1)})
    return [
        Unit((*unit.box[:dim], pair, *unit.box[dim + 1 :]), unit.holders, unit.needed_by) for pair in pairwise(ends)
    ]


def check_moves(
    tensor: Tensor, before: dict[int, Box], after: dict[int, Box], moves: Sequence[tuple[int, int, Box]]
) -> None:
    """Carries out (from, to, box) in order on index grids; `InternalFault` if one sends what is not there, or a tile
    stays incomplete.

    One grid cell stands for all elements between two borders. That is exact, because every end of a tile or a box is
    a border.
    """
    borders = [
        np.unique(
            [0, size, *(end for box in (*before.values(), *after.values(), *(m[2] for m in moves)) for end in box[dim])]
        )
        for dim, size in enumerate(tensor.shape)
    ]

    def cells(box: Box) -> tuple[slice, ...]:
        return tuple(slice(*np.searchsorted(b, ends).tolist()) for b, ends in zip(borders, box, strict=True))

    held = {device: np.zeros([len(b) - 1 for b in borders], dtype=bool) for device in {*before, *after}}
    for device, box in before.items():
        held[device][cells(box)] = True
    for source, destination, box in moves:
        if not held[source][cells(box)].all():
            raise InternalFault(f"resharding: device {source} is to send {box} before it holds it")
        held[destination][cells(box)] = True
    missing = [device for device, box in after.items() if not held[device][cells(box)].all()]
    if missing:
        raise InternalFault(f"resharding: the shards of devices {missing} stay incomplete")


def total_bytes(tensor: Tensor, boxes: Iterable[Box]) -> int:
    """Bytes of all boxes."""
    return sum(elements(box) for box in boxes) * tensor.element_bytes
