"""Operators of a traced program that one kernel does: chains of maps, and attention from its two products and their softmax."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from .factors import Dim
from .traced import Made, Step

_MAPS = ("elementwise", "add")


def maps_fused(steps: list[Step], results: set[Made]) -> list[Step]:
    """Maps that only one map reads become part of it: no kernel writes what it could keep."""
    readers: dict[Made, list[Step]] = {}
    for step in steps:
        for made, _ in step.ins:
            readers.setdefault(made, []).append(step)
    gone: set[int] = set()
    for step in steps:
        made, own = step.out
        later = readers.get(made, [])
        if step.kind not in _MAPS or len(later) != 1 or later[0].kind not in _MAPS or made in results:
            continue
        (reader,) = later
        uses = [k for k, (one, _) in enumerate(reader.ins) if one is made]
        # An axis that only one side has, or of a residual sum, keeps them apart.
        if len(uses) != 1 or step.kind != reader.kind or len(own) != len(reader.out[1]):
            continue
        theirs = reader.ins[uses[0]][1]
        renamed = {loop: theirs[dim] for dim, loop in own.items()}
        if any(loop not in renamed for _, dims in step.ins for loop in dims.values()):
            continue
        moved = [(one, {dim: renamed[loop] for dim, loop in dims.items()}) for one, dims in step.ins]
        reader.ins[uses[0] : uses[0] + 1] = moved
        for one, _ in moved:
            readers[one] = [reader if other is step else other for other in readers[one]]
        gone.add(id(step))
    return [step for step in steps if id(step) not in gone]


def attention_fused(steps: list[Step], results: set[Made]) -> list[Step]:
    """Scores, maps of them, softmax and the product with the values, each read by the next alone, are one attention.

    A mask goes with them; what else is added to the scores (a parameter, an activation) keeps them apart.
    """
    readers: dict[Made, list[Step]] = {}
    makers = {step.out[0]: step for step in steps}
    for step in steps:
        for made in {made for made, _ in step.ins}:
            readers.setdefault(made, []).append(step)

    def alone(made: Made) -> Step | None:
        """Its only reader, where it has one."""
        found = readers.get(made, [])
        return found[0] if len(found) == 1 and made not in results else None

    gone: set[int] = set()
    for softmax in steps:
        if softmax.kind != "softmax" or len(softmax.ins) != 1 or len(softmax.over) != 1:
            continue
        # Back to the product that makes the scores, then on to the one that reads them.
        before = [softmax]
        while (maker := makers.get(_main(before[-1])[0])) is not None and alone(maker.out[0]) is before[-1]:
            before.append(maker)
            if maker.kind not in _MAPS or sum(not made.index for made, _ in maker.ins) != 1:
                break
        scores = before[-1]
        after = [softmax]
        while (reader := alone(after[-1].out[0])) is not None:
            after.append(reader)
            if reader.kind not in _MAPS or len(reader.ins) != 1:
                break
        values = after[-1]
        if scores.kind != "batched_matmul" or values.kind != "batched_matmul" or values.ins[0][0] is not after[-2].out[0]:
            continue
        loops = _through(before, after)
        if loops is None:
            continue
        (over,) = softmax.over
        depth = set(scores.ins[0][1].values()) - set(scores.out[1].values())
        to_scores = {loop: own for own, loop in loops.items()}
        value = {dim: to_scores.get(loop, f"v.{loop}") for dim, loop in values.ins[1][1].items()}
        result = {dim: to_scores.get(loop, f"v.{loop}") for dim, loop in values.out[1].items()}
        keys = {own for own in scores.out[1].values() if own not in result.values()}
        if len(keys) != 1 or not over:
            continue
        width = set(value.values()) - set(scores.out[1].values())
        values.kind, values.ins, values.out = "attention", [*scores.ins, (values.ins[1][0], value)], (values.out[0], result)
        values.over, values.whole = keys, depth | width
        gone.update(id(step) for step in (*before, *after[:-1]))
    return [step for step in steps if id(step) not in gone]


def _main(step: Step) -> tuple[Made, dict[Dim, str]]:
    """The operand that is no mask: the first that has a gradient."""
    return next((one for one in step.ins if not one[0].index), step.ins[0])


def _through(before: list[Step], after: list[Step]) -> dict[str, str] | None:
    """Loops of the scores' product to those of the product that reads them, dim by dim on the way; None where one is lost."""
    chain = [*before[:0:-1], before[0], *after[1:]]
    known = {loop: loop for loop in chain[0].out[1].values()}
    for made_by, reader in pairwise(chain):
        there: Mapping[Dim, str] = _main(reader)[1]
        step = {loop: there[dim] for dim, loop in made_by.out[1].items() if dim in there}
        known = {own: step[loop] for own, loop in known.items() if loop in step}
        if len(known) != len(chain[0].out[1]):
            return None
    return known
