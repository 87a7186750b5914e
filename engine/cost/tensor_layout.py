"""Layouts of one tensor on a mesh, and the single steps that lead from one to another, each with its seconds.

Vocabulary: a *layout* says for each axis which dim it divides, or `REPLICATED`, or `PARTIAL` (each device holds a summand). A
*state* is finer: where several axes divide one dim it keeps their order, the largest pieces first. Steps: slice, all-gather,
all-to-all, reduce-scatter, all-reduce, permute, and expand (a value becomes a sum of itself and zeros). Nothing here knows
operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from .collectives import Network
from .device_mesh import DeviceMesh

REPLICATED, PARTIAL = -1, -2

Layout = tuple[int, ...]
#: (axes of each dim, outermost first; partial axes).
State = tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class LayoutStep:
    """One step: what is done on which axis, bytes of one device's buffer, seconds."""

    operation: str
    axis: str
    bytes: float
    seconds: float


class LayoutGraph:
    """States and steps of tensors on one mesh. `copy`: bytes/s of a device's own memory. `pad`: sizes need not divide."""

    def __init__(self, mesh: DeviceMesh, network: Network, copy: float, *, pad: bool = False) -> None:
        self.mesh, self.network, self.copy, self.pad = mesh, network, copy, pad
        self._known: dict[tuple[str, float, int, int], float] = {}
        wide = [axis for axis in mesh.axes if axis.size > 1]
        crossed = {axis.name: {level.tier.name for level in network.levels(axis.size, axis.stride)} for axis in wide}
        outermost = max(wide, key=lambda one: one.stride, default=None)
        last = network.levels(outermost.size, outermost.stride)[-1].tier.name if outermost else ""
        #: Axes whose collectives are on the outermost links.
        self._outer = {name for name, tiers in crossed.items() if last in tiers}

    def fits(self, size: int, axes: Sequence[int]) -> bool:
        """Whether a dim of `size` may be divided by all of `axes`."""
        parts = self.parts(axes)
        return parts <= size if self.pad else size % parts == 0

    def parts(self, axes: Sequence[int]) -> int:
        """The product of the sizes of `axes`."""
        count = 1
        for axis in axes:
            count *= self.mesh.axes[axis].size
        return count

    def layouts(self, sizes: Sequence[int], *, partial: bool = True) -> list[Layout]:
        """Every layout of a tensor of `sizes`: each axis on a dim that it divides, replicated, or partial."""
        choices = [REPLICATED, *((PARTIAL,) if partial else ()), *range(len(sizes))]
        return [one for one in product(choices, repeat=len(self.mesh.axes)) if self.allowed(one, sizes)]

    def allowed(self, layout: Layout, sizes: Sequence[int]) -> bool:
        """Whether every dim divides by the axes on it."""
        return all(self.fits(size, [a for a, on in enumerate(layout) if on == d]) for d, size in enumerate(sizes))

    def state(self, layout: Layout, rank: int) -> State:
        """The state of a layout: the axes of a dim in the mesh's order."""
        dims = tuple(tuple(a for a, on in enumerate(layout) if on == d) for d in range(rank))
        return dims, tuple(a for a, on in enumerate(layout) if on == PARTIAL)

    def local_bytes(self, state: State, sizes: Sequence[int], element: float) -> float:
        """Bytes of one device."""
        count = element
        for size, axes in zip(sizes, state[0], strict=True):
            count *= -(-size // self.parts(axes))
        return count

    def steps(self, state: State, sizes: Sequence[int], element: float) -> Iterator[tuple[State, LayoutStep]]:
        """Every single step from `state`."""
        dims, partial = state
        here = self.local_bytes(state, sizes, element)
        used = {axis: d for d, axes in enumerate(dims) for axis in axes}
        for a, axis in enumerate(self.mesh.axes):
            if a in partial:
                rest = tuple(one for one in partial if one != a)
                yield (dims, rest), self._collective("all_reduce", a, here)
                for d in self._room(dims, sizes, a):
                    yield (_appended(dims, d, a), rest), self._collective("reduce_scatter", a, here)
            elif a not in used:
                grown = tuple(sorted((*partial, a)))
                yield (dims, grown), self._local("expand", axis.name, here)
                for d in self._room(dims, sizes, a):
                    found = (_appended(dims, d, a), partial)
                    yield found, self._local("slice", axis.name, 2 * self.local_bytes(found, sizes, element))
            else:
                d = used[a]
                if dims[d][-1] == a:
                    less = _without(dims, d)
                    whole = self.local_bytes((less, partial), sizes, element)
                    yield (less, partial), self._collective("all_gather", a, whole)
                    grown = tuple(sorted((*partial, a)))
                    yield (less, grown), self._local("expand", axis.name, 2 * whole)
                    for other in self._room(less, sizes, a):
                        if other != d:
                            yield (_appended(less, other, a), partial), self._collective("all_to_all", a, here)
                for b, second in enumerate(self.mesh.axes):
                    if b == a:
                        continue
                    if b not in used and b not in partial and second.size == axis.size:
                        moved = tuple(tuple(b if x == a else x for x in axes) for axes in dims)
                        yield (moved, partial), self._permute(a, b, here)
                    elif b > a and b in used and (used[b] == d or second.size == axis.size):
                        swap = {a: b, b: a}
                        moved = tuple(tuple(swap.get(x, x) for x in axes) for axes in dims)
                        yield (moved, partial), self._permute(a, b, here)

    def _room(self, dims: tuple[tuple[int, ...], ...], sizes: Sequence[int], axis: int) -> list[int]:
        return [d for d, axes in enumerate(dims) if self.fits(sizes[d], (*axes, axis))]

    def _local(self, name: str, axis: str, moved: float) -> LayoutStep:
        return LayoutStep(name, axis, moved, moved / self.copy)

    def _collective(self, operation: str, a: int, size: float) -> LayoutStep:
        return LayoutStep(operation, self.mesh.axes[a].name, size, self.seconds(operation, size, a))

    def seconds(self, operation: str, size: float, a: int) -> float:
        """Seconds of a collective of axis `a`, on the links that it crosses."""
        axis = self.mesh.axes[a]
        return self.over(operation, size, axis.size, axis.stride)

    def over(self, operation: str, size: float, devices: int, stride: int) -> float:
        """Seconds of a collective of `devices`, `stride` apart."""
        key = (operation, size, devices, stride)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.network.collective(operation, size, devices, stride).seconds
        return found

    def leaves_free(self, step: LayoutStep) -> bool:
        """Whether a step leaves the mesh's outermost links free: copies on the device, and what crosses inner ones alone."""
        if step.operation in ("slice", "expand"):
            return True
        return not set(step.axis.split(", ")) & self._outer

    def _permute(self, a: int, b: int, size: float) -> LayoutStep:
        """Every device sends its part to one other of the two axes' devices, over the slowest link between them."""
        key = ("permute", size, a, b)
        found = self._known.get(key)
        if found is None:
            slowest = 0.0
            for axis in (self.mesh.axes[a], self.mesh.axes[b]):
                if axis.size > 1:
                    tier = self.network.levels(axis.size, axis.stride)[-1].tier
                    slowest = max(slowest, self.network.send(size, tier).seconds)
            found = self._known[key] = slowest
        return LayoutStep("permute", f"{self.mesh.axes[a].name}, {self.mesh.axes[b].name}", size, found)


def _appended(dims: tuple[tuple[int, ...], ...], d: int, axis: int) -> tuple[tuple[int, ...], ...]:
    return (*dims[:d], (*dims[d], axis), *dims[d + 1 :])


def _without(dims: tuple[tuple[int, ...], ...], d: int) -> tuple[tuple[int, ...], ...]:
    return (*dims[:d], dims[d][:-1], *dims[d + 1 :])
