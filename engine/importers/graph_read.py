"""What every reader of exported programs gives back, and the sizes that stand for symbolic dims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..model.described import DescribedGraph

#: Sizes of symbolic dims, in the order in which they are met: no width of a model is a multiple of one of them.
PRIMES: Final = (61, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179, 181, 191, 193, 197)


@dataclass(frozen=True, slots=True)
class ReadGraph:
    """A described graph, what was set aside in reading it, and how many operations the program has."""

    described: DescribedGraph
    notes: tuple[str, ...]
    operations: int
