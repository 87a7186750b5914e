"""Stages grouped for a reader: those alike together, and of many the telling ones alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from ..frozen import dataclass

#: Groups that a table shows side by side; of more it shows the telling ones.
SHOWN = 8


@dataclass(frozen=True, slots=True)
class Group:
    """Stages `first` to `last`, all alike."""

    first: int
    last: int

    @property
    def label(self) -> str:
        """`stage 3`, or `stages 3..9 alike`."""
        return f"stage {self.first}" if self.first == self.last else f"stages {self.first}..{self.last} alike"


def grouped(count: int, key: Callable[[int], Hashable]) -> list[Group]:
    """Runs of stages with the same key."""
    groups: list[Group] = []
    previous: Hashable = None
    for stage in range(count):
        here = key(stage)
        if groups and here == previous:
            groups[-1] = Group(groups[-1].first, stage)
        else:
            groups.append(Group(stage, stage))
        previous = here
    return groups


def telling(groups: Sequence[Group], peak: int) -> tuple[list[Group], int]:
    """The groups to show, and how many are not: of many the first, second, a middle one, that of `peak`, the last."""
    if len(groups) <= SHOWN:
        return list(groups), 0
    full = next((k for k, one in enumerate(groups) if one.first <= peak <= one.last), 0)
    wanted = sorted({0, 1, len(groups) // 2, full, len(groups) - 1})
    return [groups[k] for k in wanted], len(groups) - len(wanted)
