"""The cheapest way from any layout of a tensor to any other: shortest paths over all states, found once for each shape.

Costs obey the triangle inequality and are zero between equal layouts, because they are distances.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from ..cost.tensor_layout import REPLICATED, Layout, LayoutGraph, LayoutStep, State

Floats = NDArray[np.float64]


class Conversions:
    """Seconds between all layouts of tensors of one shape. `layouts[i]` is the layout of row and column i of `seconds`."""

    def __init__(self, graph: LayoutGraph, sizes: Sequence[int], element: float) -> None:
        self._graph, self._sizes, self._element = graph, tuple(sizes), element
        self.layouts = graph.layouts(sizes)
        self.index = {layout: k for k, layout in enumerate(self.layouts)}
        self._inner: Floats | None = None
        self.seconds = self._distances()[0]

    @property
    def inner(self) -> Floats:
        """The part of `seconds` in which the mesh's outermost links are free; worked out when it is first asked for."""
        if self._inner is None:
            self._inner = self._distances(inner=True)[1]
        return self._inner

    def _distances(self, *, inner: bool = False) -> tuple[Floats, Floats]:
        """Floyd and Warshall over the states, then the rows and columns of the layouts; with `inner` the part of it of each."""
        graph, sizes = self._graph, self._sizes
        start = graph.state((REPLICATED,) * len(graph.mesh.axes), len(sizes))
        states: dict[State, int] = {start: 0}
        rows: list[tuple[int, int, float, bool]] = []
        for state in (queue := [start]):
            for found, step in graph.steps(state, sizes, self._element):
                if found not in states:
                    states[found] = len(states)
                    queue.append(found)
                rows.append((states[state], states[found], step.seconds, inner and graph.leaves_free(step)))
        distance = np.full((len(states), len(states)), inf)
        np.fill_diagonal(distance, 0.0)
        part = np.zeros_like(distance)
        for i, j, seconds, free in rows:
            if seconds < distance[i, j]:
                distance[i, j], part[i, j] = seconds, seconds if free else 0.0
        kept = [states[graph.state(layout, len(sizes))] for layout in self.layouts]
        chosen = np.ix_(kept, kept)
        for k in range(len(states)):
            if inner:
                through = distance[:, k, None] + distance[None, k, :] < distance
                np.copyto(part, part[:, k, None] + part[None, k, :], where=through)
            np.minimum(distance, distance[:, k, None] + distance[None, k, :], out=distance)
        return distance[chosen], part[chosen]

    def path(self, source: Layout, target: Layout) -> tuple[LayoutStep, ...]:
        """The steps of the cheapest way, by Dijkstra from `source`; none between equal layouts."""
        graph, sizes = self._graph, self._sizes
        start, goal = graph.state(source, len(sizes)), graph.state(target, len(sizes))
        best: dict[State, tuple[float, State | None, LayoutStep | None]] = {start: (0.0, None, None)}
        heap: list[tuple[float, int, State]] = [(0.0, 0, start)]
        count, closed = 0, set()
        while heap:
            spent, _, state = heapq.heappop(heap)
            if state in closed:
                continue
            closed.add(state)
            if state == goal:
                break
            for found, step in graph.steps(state, sizes, self._element):
                total = spent + step.seconds
                if found not in best or total < best[found][0]:
                    best[found] = (total, state, step)
                    count += 1
                    heapq.heappush(heap, (total, count, found))
        steps: list[LayoutStep] = []
        at = goal
        while (before := best[at])[1] is not None:
            assert before[2] is not None
            steps.append(before[2])
            at = before[1]
        return tuple(reversed(steps))
