"""Choices within limits: repairs fit, improvements never cost more, and a search that is cut off leaves a small proven gap."""

from __future__ import annotations

import numpy as np
import pytest
from planproof.search.incumbents import Incumbents
from planproof.search.operators import solve_operators
from planproof.search.pairwise import PairwiseProblem


def random_problem(rng: np.random.Generator, count: int, rows: int) -> PairwiseProblem:
    """A cycle of variables, memory that trades against cost, some pairs forbidden; a choice that fits is known to exist."""
    sizes = rng.integers(2, 5, count)
    edges = [(i, i + 1) for i in range(count - 1)] + [(0, count - 1)]
    tables = [np.where(rng.random((sizes[i], sizes[j])) < 0.05, np.inf, rng.random((sizes[i], sizes[j]))) for i, j in edges]
    unary = [rng.random(n) for n in sizes]
    flat = np.concatenate([1.5 - one for one in unary]) * (rng.random((rows, int(sizes.sum()))) < 0.5)
    fits = np.cumsum([0, *sizes[:-1]]) + [int(rng.integers(n)) for n in sizes]
    return PairwiseProblem(unary, edges, tables, flat / np.maximum(flat[:, fits].sum(axis=1), 0.1)[:, None] / 1.001)


def test_what_is_repaired_fits_and_what_is_improved_costs_no_more() -> None:
    rng = np.random.default_rng(7)
    repaired = 0
    for _ in range(80):
        problem = random_problem(rng, int(rng.integers(3, 9)), 3)
        incumbents = Incumbents(problem)
        start = np.array([int(costs.argmin()) for costs in problem.unary])
        found = incumbents.repaired(start, np.zeros(3))
        if found is None:
            continue
        repaired += not problem.fits(start)
        better = incumbents.improved(found)
        assert problem.fits(found)
        assert problem.fits(better)
        assert problem.total(better) <= problem.total(found)
        # Alone, no change of one value is cheaper and fits.
        for v, costs in enumerate(problem.unary):
            for value in range(costs.size):
                other = better.copy()
                other[v] = value
                assert not problem.fits(other) or problem.total(other) >= problem.total(better) - 1e-9
    assert repaired > 20


def test_neighbourhoods_are_what_is_joined_by_the_shortest_ways() -> None:
    incumbents = Incumbents(random_problem(np.random.default_rng(1), 8, 1))
    assert incumbents.near(0, 3) == [0, 1, 7]
    assert incumbents.near(4, 5) == [2, 3, 4, 5, 6]
    assert incumbents.near(4, 99) == list(range(8))


def test_a_hard_budget_by_time_that_is_cut_off_leaves_a_small_proven_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 5, 60)
    costs = [rng.random(n) for n in sizes]
    edges = [(i, i + 1) for i in range(59)] + [(i, i + 2) for i in range(0, 58, 2)]
    memory = [1.5 - one + 0.3 * rng.random(one.size) for one in costs]
    alive = [range(t, min(t + 12, 60)) for t in range(0, 60, 4)]
    tables = [rng.random((sizes[i], sizes[j])) for i, j in edges]
    free = solve_operators(costs, edges, tables)
    least, most = (max(sum(one) for one in rows) for rows in (
        [[memory[i].min() for i in row] for row in alive], [[memory[i][free.choice[i]] for i in row] for row in alive],
    ))  # fmt: skip
    for name, value in (("_NODES", 1), ("_POLISHING", 5), ("_FREE", 8), ("_MANY", 500)):
        monkeypatch.setattr(f"planproof.search.budget.{name}", value)
    budget = 0.4 * least + 0.6 * most
    found = solve_operators(costs, edges, tables, memory=memory, alive=alive, budget=budget)
    held = [sum(memory[i][found.choice[i]] for i in row) for row in alive]
    assert max(held) <= budget * (1 + 1e-9)
    assert not found.proven
    assert 0 < found.objective - found.lower_bound < 0.04 * found.objective
