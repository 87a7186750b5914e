"""Where the stages of a pipeline lie on nodes when their meshes differ: no stage across two nodes that fits one, neighbours near.

Stages in pipeline order, one behind the other, need nothing here as long as each lies within a node or begins at one. Where some
does not, the nodes are packed anew: exactly, by dynamic programming over the stages, a state being what is left on the nodes that
were begun. Knows devices and weights of messages; no model and no seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

#: States of a stage that are kept, the cheapest ones; with fewer the placement is the cheapest there is.
MOST_STATES = 400
_SAME, _OPEN, _FRESH = range(3)


class _Node(NamedTuple):
    """A node that was begun: devices left, and whether a stage of more than a node ends on its first ones."""

    left: int
    headed: bool


class _State(NamedTuple):
    """The begun nodes but that of the last stage, the last stage's, nodes not begun; whether the last stage lies in one node."""

    others: tuple[_Node, ...]
    here: _Node
    fresh: int
    within: bool


class _Step(NamedTuple):
    cost: float
    before: _State | None
    how: int
    onto: _Node


_FULL = _Node(0, True)


def within(start: int, size: int, node: int) -> bool:
    """Whether `size` devices from `start` lie as they would from a node's first: on one node, or from a node's begin."""
    return start % node == 0 or start // node == (start + size - 1) // node


def in_order(sizes: Sequence[int]) -> tuple[int, ...]:
    """The first device of each stage when they lie one behind the other."""
    return tuple(accumulate(sizes[:-1], initial=0))


@lru_cache(maxsize=4096)
def place(sizes: tuple[int, ...], node: int, nodes: int, weights: tuple[float, ...] = ()) -> tuple[int, ...] | None:
    """The first device of each stage of so many devices on `nodes` nodes of `node`; None where some stage has to lie across two.

    In pipeline order where that does. Else so that the sum of the weights of messages that leave a node is least: `weights[k]`
    of that between stages k and k + 1, 1 each where none are given.
    """
    if sum(sizes) > node * nodes:
        return None
    starts = in_order(sizes)
    if all(within(start, size, node) for start, size in zip(starts, sizes, strict=True)):
        return starts
    layers: list[dict[_State, _Step]] = [{_State((), _FULL, nodes, False): _Step(0.0, None, _FRESH, _FULL)}]
    for k, size in enumerate(sizes):
        weight = 0.0 if k == 0 else weights[k - 1] if weights else 1.0
        found: dict[_State, _Step] = {}
        for state, step in layers[-1].items():
            for after, cost, how, onto in _moves(state, size, node, weight):
                known = found.get(after)
                if known is None or step.cost + cost < known.cost:
                    found[after] = _Step(step.cost + cost, state, how, onto)
        if len(found) > MOST_STATES:
            found = dict(sorted(found.items(), key=lambda one: one[1].cost)[:MOST_STATES])
        layers.append(found)
    if not layers[-1]:
        return None
    state = min(layers[-1], key=lambda one: layers[-1][one].cost)
    taken: list[_Step] = []
    for layer in reversed(layers[1:]):
        taken.append(layer[state])
        before = layer[state].before
        assert before is not None
        state = before
    return _starts(sizes, node, taken[::-1])


def _moves(state: _State, size: int, node: int, weight: float) -> list[tuple[_State, float, int, _Node]]:
    """(state after, cost, how, the node before it) of every place that the next stage can take."""
    whole, part = divmod(size, node)
    small, headed = size <= node, size > node
    least = size if small else part
    found = []
    begun = tuple(sorted((*state.others, state.here))) if state.here.left else state.others
    if small and state.here.left >= size:
        after = _State(state.others, _left(state.here, size, headed=False), state.fresh, True)
        found.append((after, 0.0 if state.within else weight, _SAME, state.here))
    for one in dict.fromkeys(state.others if small else begun):
        # Only one stage of more than a node can end on a node's first devices.
        if one.left >= least > 0 and not (headed and one.headed) and (small or state.fresh >= whole):
            rest = list(begun)
            rest.remove(one)
            fresh = state.fresh if small else state.fresh - whole
            found.append((_State(tuple(rest), _left(one, least, headed=headed), fresh, small), weight, _OPEN, one))
    needed = whole + (part > 0)
    if state.fresh >= needed:
        after = _State(begun, _left(_Node(node, False), part or node, headed=headed), state.fresh - needed, small)
        found.append((after, weight, _FRESH, _Node(node, False)))
    return found


def _left(one: _Node, taken: int, *, headed: bool) -> _Node:
    return _Node(one.left - taken, one.headed or headed) if one.left > taken else _FULL


def _starts(sizes: Sequence[int], node: int, taken: Sequence[_Step]) -> tuple[int, ...]:
    """The devices of stages that were put so. Nodes are numbered as they are begun, those of one stage one behind the other."""
    nodes: list[_Node] = []
    #: By the node on which a stage ends: whole nodes of it before that one, devices of it there, stages inside.
    whole_before: list[int] = []
    head: list[int] = []
    stages: list[list[int]] = []
    last: list[int] = []
    here = -1
    for k, (size, step) in enumerate(zip(sizes, taken, strict=True)):
        whole, part = divmod(size, node)
        if step.how == _FRESH:
            here = len(nodes)
            nodes.append(step.onto)
            whole_before.append(0)
            head.append(0)
            stages.append([])
        elif step.how == _OPEN:
            here = next(n for n, one in enumerate(nodes) if one == step.onto and (n != here or size > node))
        if size > node:
            whole_before[here], head[here] = (whole, part) if part else (whole - 1, node)
        else:
            stages[here].append(k)
        nodes[here] = _left(nodes[here], size if size <= node else part or node, headed=size > node)
        last.append(here)
    first, at = [], 0
    for n in range(len(nodes)):
        at += whole_before[n]
        first.append(at * node)
        at += 1
    found = [0] * len(sizes)
    for n, members in enumerate(stages):
        offset = head[n]
        for k in members:
            found[k] = first[n] + offset
            offset += sizes[k]
    for k, size in enumerate(sizes):
        if size > node:
            found[k] = first[last[k]] - whole_before[last[k]] * node
    return tuple(found)
