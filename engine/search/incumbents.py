"""Choices within limits, and better ones: upper bounds for what a lower bound and an integer program are to prove.

A choice that breaks limits is *repaired* by the changes of one value that take away most excess for what they cost; one that
fits is *improved* by changes of one value, and then by integer programs over a *neighbourhood*: some variables that are near
each other are free, all others stay. Nothing here proves anything, and the same problem always gives the same choice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf

import numpy as np

from .elimination import Floats, Ints
from .pairwise import ROUNDING, PairwiseProblem

#: Changes of one value, for each variable, that a repair or an improvement may take.
_CHANGES = 4

Solve = Callable[[list[Ints]], Ints | None]


class Incumbents:
    """Repairs and improvements of one problem. `prices` of its rows weigh a change's bytes where limits are not broken."""

    def __init__(self, problem: PairwiseProblem) -> None:
        self.problem = problem
        self.starts = problem.starts()
        self.owner = np.repeat(np.arange(len(problem.unary)), np.diff(self.starts))
        finite = [one[one < inf] for one in (*problem.unary, *problem.tables)]
        #: What a forbidden value or pair counts: more than all others together.
        self._forbidden = 1.0 + 2 * sum(float(np.abs(one).max(initial=0.0)) for one in finite)
        self.around: list[list[tuple[int, Floats]]] = [[] for _ in problem.unary]
        for (i, j), table in zip(problem.edges, problem.tables, strict=True):
            soft = np.where(table < inf, table, self._forbidden)
            self.around[i].append((j, soft))
            self.around[j].append((i, soft.T))
        self._unary = np.concatenate([np.where(one < inf, one, self._forbidden) for one in problem.unary])

    def _totals(self, choice: Ints) -> Floats:
        """[values of all variables] what each costs beside the choice of its neighbours."""
        totals = self._unary.copy()
        for v, near in enumerate(self.around):
            for other, table in near:
                totals[self.starts[v] : self.starts[v + 1]] += table[:, choice[other]]
        return totals

    def _change(self, totals: Floats, choice: Ints, v: int, value: int) -> None:
        for other, table in self.around[v]:
            totals[self.starts[other] : self.starts[other + 1]] += table[value] - table[choice[v]]
        choice[v] = value

    def repaired(self, start: Ints, prices: Floats) -> Ints | None:
        """A choice that fits, from one that does not; None where no change of one value takes excess away any more."""
        problem, memory = self.problem, self.problem.memory
        choice, totals = start.copy(), self._totals(start)
        used = problem.used(choice)
        priced = prices @ memory
        for _ in range(_CHANGES * len(choice)):
            over = np.flatnonzero(used > 1 + ROUNDING)
            if not over.size:
                return choice if problem.total(choice) < inf else None
            now = self.starts[:-1] + choice
            weighed = totals + priced
            saved = memory[over][:, now].sum(axis=0)[self.owner] - memory[over].sum(axis=0)
            able = np.flatnonzero(saved > 0)
            if not able.size:
                return None
            after = used[:, None] + memory[:, able] - memory[:, now][:, self.owner[able]]
            gain = (used[over] - 1).sum() - np.maximum(after - 1, 0.0).sum(axis=0)
            cost = np.maximum(weighed[able] - weighed[now][self.owner[able]], 1e-9 * self._forbidden)
            worth = np.where(gain > 0, gain / cost, -inf)
            best = int(worth.argmax())
            if worth[best] == -inf:
                return None
            v = int(self.owner[able[best]])
            used = after[:, best]
            self._change(totals, choice, v, int(able[best] - self.starts[v]))
        return None

    def improved(self, start: Ints) -> Ints:
        """The choice with values changed one at a time, the most that is saved first, as long as all limits hold."""
        memory = self.problem.memory
        choice, totals = start.copy(), self._totals(start)
        used = self.problem.used(choice)
        for _ in range(_CHANGES * len(choice)):
            now = self.starts[:-1] + choice
            saved = totals[now][self.owner] - totals
            able = np.flatnonzero(saved > 1e-12 * self._forbidden)
            after = used[:, None] + memory[:, able] - memory[:, now][:, self.owner[able]]
            able = able[(after <= 1 + ROUNDING).all(axis=0)]
            if not able.size:
                break
            best = int(able[saved[able].argmax()])
            v = int(self.owner[best])
            self._change(totals, choice, v, best - int(self.starts[v]))
            used = self.problem.used(choice)
        return choice

    def near(self, v: int, count: int) -> list[int]:
        """`count` variables that are joined to `v` by the shortest ways, `v` among them."""
        seen, waiting = {v}, deque([v])
        while waiting and len(seen) < count:
            for other, _ in self.around[waiting.popleft()]:
                if other not in seen and len(seen) < count:
                    seen.add(other)
                    waiting.append(other)
        return sorted(seen)

    def polished(self, start: Ints, values: list[Floats], free: int, programs: int, solve: Solve) -> Ints:
        """The choice improved by at most so many integer programs over `free` variables, until a round brings nothing.

        `values[v][s]` bounds every total with that value; `solve` takes the values that are left of each variable.
        """
        choice, total = start, self.problem.total(start)
        around = list(range(0, len(choice), max(1, free // 2)))
        fruitless = 0
        for program in range(programs):
            inside = set(self.near(around[program % len(around)], free))
            fruitless += 1
            kept = [np.flatnonzero(values[v] < total) if v in inside else choice[v : v + 1] for v in range(len(choice))]
            kept = [k if k.size else choice[v : v + 1] for v, k in enumerate(kept)]
            found = solve(kept)
            if found is not None and (better := self.problem.total(found)) < total - 1e-9 * abs(total):
                choice, total, fruitless = found, better, 0
            if fruitless == len(around):
                break
        return choice
