"""Stages of unequal meshes on nodes: every placement written out, and the cheapest of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

import pytest
from planproof.cluster.stage_placement import in_order, place, within


def crossing(starts: tuple[int, ...], sizes: tuple[int, ...], node: int, weights: tuple[float, ...]) -> float:
    """Weights of the messages between stages that do not lie on one node together."""
    rows = list(zip(starts, sizes, strict=True))
    found = 0.0
    for k, ((a, m), (b, n)) in enumerate(pairwise(rows)):
        nodes = {a // node, (a + m - 1) // node, b // node, (b + n - 1) // node}
        found += weights[k] if len(nodes) > 1 else 0.0
    return found


def placements(sizes: tuple[int, ...], node: int, nodes: int) -> Iterator[tuple[int, ...]]:
    """All first devices such that stages share no device and none lies across two nodes that need not."""

    def rest(k: int, used: int) -> Iterator[tuple[int, ...]]:
        if k == len(sizes):
            yield ()
            return
        for start in range(node * nodes - sizes[k] + 1):
            taken = ((1 << sizes[k]) - 1) << start
            if within(start, sizes[k], node) and not used & taken:
                for more in rest(k + 1, used | taken):
                    yield (start, *more)

    return rest(0, 0)


@pytest.mark.parametrize("part", range(4))
def test_the_placement_is_the_cheapest_of_all(part: int) -> None:
    moved = refused = 0
    for seed in range(part * 100, part * 100 + 100):
        draw = random.Random(seed)
        node, nodes = draw.choice([(2, 3), (3, 2), (4, 2), (4, 3)])
        sizes: list[int] = []
        while len(sizes) < 5 and (free := node * nodes - sum(sizes)) > 0:
            sizes.append(draw.randint(1, min(free, draw.choice([2, 3, node, 2 * node]))))
        stages = tuple(sizes)
        weights = tuple(draw.choice([1.0, 1.0, 3.0]) for _ in stages[1:])
        found = place(stages, node, nodes, weights)
        every = list(placements(stages, node, nodes))
        assert (found is None) == (not every), (seed, stages, node)
        if found is None:
            refused += 1
            continue
        assert found in every, (seed, stages, node, found)
        if found != in_order(stages):
            moved += 1
            least = min(crossing(one, stages, node, weights) for one in every)
            assert crossing(found, stages, node, weights) == least, (seed, stages, node, found)
    assert moved > 5
    assert refused or part


def test_half_a_node_at_either_end_shares_one() -> None:
    assert place((4, 8, 4), 8, 2) == (0, 8, 4)
    assert place((8, 4, 4), 8, 2) == (0, 8, 12)
    assert place((6, 4, 6), 8, 2) is None
    assert place((4, 16, 4), 8, 3) == (0, 8, 4)
    assert place((12, 4), 8, 2) == (0, 12)
    assert place((4, 12), 8, 2) == (12, 0)
    assert place((16, 16), 8, 3) is None


def test_hundreds_of_stages_are_placed_at_once() -> None:
    sizes = tuple([1, 2, 4, 8, 3, 5, 1] * 40)
    found = place(sizes, 8, 140)
    assert found is not None
    assert all(within(start, size, 8) for start, size in zip(found, sizes, strict=True))
