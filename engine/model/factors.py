"""Dims of traced tensors as products of factors, so that reshapes and transpositions are views and no operators.

Vocabulary: a *factor* is a size that all tensors share which say so; splitting it splits it in all of them. A *dim* is where a
factor stands in one tensor: a tensor may have one factor twice, as the scores of attention have the sequence. Where two lists of
factors of one product cannot be made equal (2 x 3 and 3 x 2), they stay apart. Nothing here knows operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod


@dataclass(eq=False, slots=True)
class Factor:
    """A size; after a split the factors that it is the product of, outermost first; after a join the one that it is."""

    size: int
    parts: list[Factor] | None = None
    same: Factor | None = None
    name: str = ""

    def root(self) -> Factor:
        """The factor that stands for all that were joined."""
        found = self
        while found.same is not None:
            found = found.same
        if found is not self:
            self.same = found
        return found


@dataclass(eq=False, slots=True)
class Dim:
    """Where a factor stands in a tensor."""

    factor: Factor
    _inner: list[Dim] = field(default_factory=list)

    def expanded(self) -> list[Dim]:
        """The dims that it has been split into; itself where it has not."""
        root = self.factor.root()
        if root.parts is None:
            return [self]
        if not self._inner:
            self._inner = [Dim(part) for part in root.parts]
        return [one for inner in self._inner for one in inner.expanded()]


def dims_of(sizes: Sequence[int]) -> list[list[Dim]]:
    """New dims for the axes of a tensor; an axis of size 1 has none."""
    return [[Dim(Factor(size))] if size > 1 else [] for size in sizes]


def flat(dims: Sequence[Dim]) -> list[Dim]:
    """The dims after all splits."""
    return [one for dim in dims for one in dim.expanded()]


def unified(one: Sequence[Dim], two: Sequence[Dim]) -> bool:
    """Make two lists of dims of one product the same factors, splitting where it must. False where they cannot be."""
    pairs = _paired([dim.factor.root() for dim in flat(one)], [dim.factor.root() for dim in flat(two)])
    if pairs is None:
        return False
    for a, b in pairs:
        _join(a, b)
    return True


def _paired(one: list[Factor], two: list[Factor]) -> list[tuple[list[Factor], list[Factor]]] | None:
    """Which factors together are which; None where neither of two divides the other. Nothing is changed."""
    if prod(f.size for f in one) != prod(f.size for f in two):
        return None
    found: list[tuple[list[Factor], list[Factor]]] = []
    a, b = list(one), list(two)
    while a and b:
        left, right = [a.pop(0)], [b.pop(0)]
        while (x := prod(f.size for f in left)) != (y := prod(f.size for f in right)):
            if x < y and a:
                left.append(a.pop(0))
            elif y < x and b:
                right.append(b.pop(0))
            else:
                return None
        if len(left) > 1 and len(right) > 1:
            return None  # 2 x 3 and 3 x 2
        found.append((left, right))
    return found


def _join(one: list[Factor], two: list[Factor]) -> None:
    """One factor on one side at least: it is split into the others, or is the other."""
    if len(one) > 1:
        one, two = two, one
    whole = one[0].root()
    if len(two) == 1:
        other = two[0].root()
        if whole is other:
            return
        if whole.parts is None or other.parts is None:
            # The one that is split stands for both.
            if whole.parts is None:
                whole.same = other
                other.name = other.name or whole.name
            else:
                other.same = whole
                whole.name = whole.name or other.name
            return
        rows = _paired([f.root() for f in whole.parts], [f.root() for f in other.parts])
        if rows is not None:
            for a, b in rows:
                _join(a, b)
        return
    if whole.parts is None:
        whole.parts = [f.root() for f in two]
        return
    rows = _paired(_leaves(whole), [leaf for f in two for leaf in _leaves(f.root())])
    for a, b in rows or ():
        _join(a, b)


def _leaves(factor: Factor) -> list[Factor]:
    root = factor.root()
    return [root] if root.parts is None else [leaf for part in root.parts for leaf in _leaves(part)]
