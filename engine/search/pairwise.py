"""A sum of unary and pairwise tables with limits on rows of memory: what an elimination or an integer program minimises.

Knows nothing of operators or times: a row is a row.
"""

from __future__ import annotations

from math import fsum, inf

import numpy as np

from ..frozen import dataclass
from .elimination import Floats, Ints

#: Relative excess of a limit, or of a proof, that is rounding of a sum.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class PairwiseProblem:
    """Unary costs, edges with their tables, and memory [rows, values of all variables one after another] in units of
    each row's limit.
    """

    unary: list[Floats]
    edges: list[tuple[int, int]]
    tables: list[Floats]
    memory: Floats

    def total(self, choice: Ints) -> float:
        """The sum of all costs of a choice."""
        nodes = fsum(float(costs[s]) for costs, s in zip(self.unary, choice, strict=True))
        return nodes + fsum(
            float(table[choice[i], choice[j]]) for (i, j), table in zip(self.edges, self.tables, strict=True)
        )

    def scale(self, *totals: float) -> float:
        """The size of totals, for programs that are solved to absolute tolerances: never far below that of the costs."""
        costs = max((float(np.abs(one[one < inf]).max(initial=0.0)) for one in (*self.unary, *self.tables)), default=0.0)
        return max(*map(abs, totals), 1e-3 * costs) or 1.0

    def starts(self) -> Ints:
        """Where the values of each variable begin, and the end of the last."""
        return np.cumsum([0, *(costs.size for costs in self.unary)], dtype=np.int64)

    def used(self, choice: Ints) -> Floats:
        """Memory of a choice by row."""
        return np.asarray(self.memory[:, self.starts()[:-1] + choice].sum(axis=1))

    def restricted(self, kept: list[Ints]) -> PairwiseProblem:
        """The problem of the values in `kept` alone."""
        unary = [costs[left] for costs, left in zip(self.unary, kept, strict=True)]
        tables = [table[np.ix_(kept[i], kept[j])] for (i, j), table in zip(self.edges, self.tables, strict=True)]
        flat = np.concatenate([start + left for start, left in zip(self.starts(), kept, strict=False)])
        return PairwiseProblem(unary, self.edges, tables, self.memory[:, flat])

    def fits(self, choice: Ints) -> bool:
        """Whether every limit holds, but for rounding."""
        return bool((self.used(choice) <= 1 + ROUNDING).all())
