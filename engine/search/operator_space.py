"""The layouts that an operator may take on a mesh: each axis divides one of its loops, nothing, or passes partial sums on.

What follows from a split is derived, not listed: an operand with the loop is divided, one without is whole, an output without a
summed loop is partial, and the gradient of an operand without the loop is partial. Megatron's pairs, vocabulary, expert, context
and data parallelism are points of this space.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from ..cost.operator_cost import OperatorPricer, Spending
from ..cost.tensor_layout import PARTIAL, REPLICATED, Layout
from ..model.operator import WHOLE, Operator, Split, Tensor, Use

#: The split of an axis whose partial sums pass through a linear operator.
SUMS = "+"


@dataclass(frozen=True, slots=True)
class Strategy:
    """One layout of an operator: the loop (or `WHOLE`, or `SUMS`) of each axis, and the ZeRO stage of its parameters."""

    split: tuple[str, ...]
    zero: int
    spending: Spending


def splits(operator: Operator, tensors: Mapping[str, Tensor], pricer: OperatorPricer) -> list[tuple[str, ...]]:
    """Every assignment of axes to loops that divides all operands (or pads them, where the pricer allows it)."""
    names = [loop.name for loop in operator.loops if loop.split is not Split.WHOLE]
    choices = [WHOLE, *names, *((SUMS,) if operator.linear else ())]
    return [
        one for one in product(choices, repeat=len(pricer.mesh.axes)) if _divides(operator, tensors, one, pricer)
    ]


def _divides(operator: Operator, tensors: Mapping[str, Tensor], split: Sequence[str], pricer: OperatorPricer) -> bool:
    for name in set(split) - {WHOLE, SUMS}:
        axes = [a for a, loop in enumerate(split) if loop == name]
        for use in operator.uses:
            if name in use.loops and not use.repeats:
                sizes = tensors[use.tensor].sizes
                if not all(
                    pricer.layouts.fits(size, axes) for loop, size in zip(use.loops, sizes, strict=True) if loop == name
                ):
                    return False
        loop_size = next(loop.size for loop in operator.loops if loop.name == name)
        if not pricer.layouts.fits(loop_size, axes):
            return False
    return True


def strategies(
    operator: Operator,
    tensors: Mapping[str, Tensor],
    pricer: OperatorPricer,
    zeros: Sequence[int],
    allowed: Callable[[Operator, tuple[str, ...]], bool] | None = None,
    *,
    head: bool = False,
) -> list[Strategy]:
    """Every allowed split with every ZeRO stage of `zeros`; where no axis leaves parameters whole, one is as good as another.

    `head`: the loss reads its output.
    """
    found = []
    for split in splits(operator, tensors, pricer):
        if allowed is not None and not allowed(operator, split):
            continue
        named = tuple(WHOLE if loop == SUMS else loop for loop in split)
        whole = any(loop not in (WHOLE, *use.loops) for use in operator.parameters for loop in named)
        stages = zeros if whole else zeros[:1]
        found += [Strategy(split, zero, pricer.spending(operator, tensors, named, zero, head=head)) for zero in stages]
    return found


def operand(use: Use, tensor: Tensor, split: Sequence[str], sizes: Sequence[int]) -> Layout:
    """The layout that the operator reads an operand in. `sizes`: devices of each axis."""
    return tuple(_on(use, tensor, split, a, sizes, sums=PARTIAL, other=REPLICATED) for a in range(len(split)))


def operand_gradient(use: Use, tensor: Tensor, split: Sequence[str], sizes: Sequence[int]) -> Layout:
    """The layout in which the operator's backward pass leaves the gradient of an operand."""
    return tuple(_on(use, tensor, split, a, sizes, sums=REPLICATED, other=PARTIAL) for a in range(len(split)))


def result(operator: Operator, use: Use, tensor: Tensor, split: Sequence[str], sizes: Sequence[int]) -> Layout:
    """The layout of an output."""
    summed = {loop.name for loop in operator.loops if loop.split is Split.SUM}
    return tuple(
        _on(use, tensor, split, a, sizes, sums=PARTIAL, other=PARTIAL if split[a] in summed else REPLICATED)
        for a in range(len(split))
    )


def result_gradient(layout: Layout) -> Layout:
    """The layout in which the backward pass needs the gradient of an output: that of a partial sum is whole."""
    return tuple(REPLICATED if on == PARTIAL else on for on in layout)


def _on(use: Use, tensor: Tensor, split: Sequence[str], a: int, sizes: Sequence[int], *, sums: int, other: int) -> int:
    loop = split[a]
    if loop == WHOLE:
        return REPLICATED
    if loop == SUMS:
        return sums
    if loop not in use.loops:
        return other
    d = use.loops.index(loop)
    parts = prod(size for one, size in zip(split, sizes, strict=True) if one == loop)
    # A dim that repeats stays whole where it has fewer pieces than there are parts.
    return other if use.repeats and tensor.sizes[d] % parts else d


def shared_states(layouts: Sequence[Layout]) -> list[tuple[Layout, Layout]]:
    """(value, gradient) layouts of a tensor that several operators read: divided alike, or one partial where the other is
    whole, so that gradients are summed before they are reduced.
    """
    found: list[tuple[Layout, Layout]] = []
    for layout in layouts:
        whole = [a for a, on in enumerate(layout) if on == REPLICATED]
        for chosen in product((REPLICATED, PARTIAL), repeat=len(whole)):
            gradient = [REPLICATED if on == PARTIAL else on for on in layout]
            for a, on in zip(whole, chosen, strict=True):
                gradient[a] = on
            found.append((layout, tuple(gradient)))
    return found
