"""Plans of unequal meshes lie where their stages are placed, and are priced there."""

from __future__ import annotations

import random

from driver_cases import cluster
from planproof.cost.placement import placed, span
from planproof.plan import Mesh, Plan, Stage


def test_a_plan_is_priced_where_its_stages_are_placed() -> None:
    """A stage of eight between two halves of a node: both messages leave a node, and its own groups do not."""
    there = cluster(random.Random(4), 16)
    node = there.nodes[0].sheet.devices
    assert node < 16
    half = node // 2
    sizes = (half, node, half, *[node] * (16 // node - 2))
    stages = tuple(Stage(k, k, Mesh(data=size), k == 0, k == len(sizes) - 1) for k, size in enumerate(sizes))
    plan = Plan("", stages, 2, 4, uniform=False)
    starts, ends = placed(plan, there)
    assert starts[:3] == [0, node, half]
    assert [end - start for start, end in zip(starts, ends, strict=True)] == list(sizes)
    assert span(starts, ends, 0, 1) == (0, 2 * node - 1)
    assert span(starts, ends, 0, 2) == (0, node - 1)
    # What cannot be packed lies in pipeline order; a rule refuses it.
    odd = tuple(Stage(k, k, Mesh(data=size)) for k, size in enumerate((3, 2, 3, 3, 2, 3)))
    assert placed(Plan("", odd, 2, 4, uniform=False), there)[0] == [0, 3, 5, 8, 11, 13]
