"""Unequal meshes of a declared space: the submeshes that stages may have, and how many sequences of them fill the devices.

Submeshes lie inside a node or on whole nodes, one behind the other in pipeline order. What stages hold does not matter here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from math import comb
from typing import Generic, TypeVar

from ..plan import Mesh, Schedule
from .setting import Setting
from .space import LeftOut, UniformSpace, divisors

#: Units of devices in which unequal meshes are counted, and stages of such a plan, at most.
MOST_UNITS, MOST_STAGES = 16, 8
#: What no space of uneven plans holds.
NEVER = (
    LeftOut("interleaving of uneven stages", "the simulation cuts a stage into equal chunks only"),
    LeftOut(
        "stages on hosts in another order than the pipeline's",
        "equal stages leave nodes least often so; stated stages of unequal meshes are packed in any order",
    ),
)
Space = TypeVar("Space", bound=UniformSpace)


class Submeshes(ABC, Generic[Space]):
    """The submeshes for the stages of plans beside those of `uniform`."""

    def __init__(self, uniform: Space) -> None:
        self.uniform = uniform
        self._ways: dict[tuple[int, tuple[Mesh, ...]], int] = {}

    @property
    @abstractmethod
    def layers(self) -> int:
        """Layers that stages are made of."""

    def schedules_of(self, pipeline: int) -> tuple[Schedule, ...]:
        """The schedules of a pipeline of uneven stages."""
        return tuple(kind for kind, _ in self.uniform.schedules(pipeline) if kind is not Schedule.INTERLEAVED)

    @property
    def has_unequal(self) -> bool:
        """Whether stages may differ in their mesh."""
        space = self.uniform
        there = len(space.cluster.nodes) == 1 and space.freedom.unequal_meshes
        return there and space.cluster.devices > 1 and space.limits.allows("pipeline", 2) and self.unit > 0

    @cached_property
    def unit(self) -> int:
        """Devices of a unit: the fewest that divide a node, or are whole nodes, with at most `MOST_UNITS` of them; 0 for none."""
        cluster = self.uniform.cluster
        node = min(cluster.devices_per_node, cluster.devices)
        for unit in divisors(cluster.devices):
            if cluster.devices // unit <= MOST_UNITS and (node % unit == 0 or unit % node == 0):
                return unit if unit < cluster.devices else 0
        return 0

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Devices of a submesh: divisors of a node, and whole nodes by powers of two."""
        cluster = self.uniform.cluster
        node = min(cluster.devices_per_node, cluster.devices)
        found = []
        for size in range(self.unit, cluster.devices, self.unit):
            nodes = size // node
            if node % size == 0 or (size % node == 0 and nodes & (nodes - 1) == 0):
                found.append(size)
        return tuple(found)

    def arrangements(self, stages: int, menu: tuple[Mesh, ...]) -> int:
        """Sequences of that many meshes of the menu that fill the devices, each in a node or on whole nodes, not all alike."""
        key = stages, menu
        if key not in self._ways:
            sizes: dict[int, int] = {}
            for mesh in menu:
                sizes[mesh.devices] = sizes.get(mesh.devices, 0) + 1
            alike = sum(self._filled(stages, {mesh.devices: 1}) for mesh in menu)
            self._ways[key] = self._filled(stages, sizes) - alike
        return self._ways[key]

    def _filled(self, stages: int, sizes: dict[int, int]) -> int:
        """Aligned sequences of `stages` submeshes that use every device; `sizes` says how many meshes have that size."""
        cluster = self.uniform.cluster
        devices, node = cluster.devices, min(cluster.devices_per_node, cluster.devices)
        ways = {0: 1}
        for _ in range(stages):
            grown: dict[int, int] = {}
            for used, number in ways.items():
                for size, meshes in sizes.items():
                    if used + size <= devices and used % min(size, node) == 0:
                        grown[used + size] = grown.get(used + size, 0) + number * meshes
            ways = grown
        return ways.get(devices, 0)

    def plans(self, setting: Setting) -> int:
        """How many plans a setting holds; uniform ones are not counted again."""
        layers, p, kinds = self.layers, setting.stages, len(setting.recomputes)
        cut = comb(layers - 1, p - 1)
        if len(setting.meshes) == 1:
            return cut * int(kinds**p) - (kinds if layers % p == 0 else 0)
        return cut * int(kinds**p) * self.arrangements(p, setting.meshes)
