"""Gathers of sharded parameters that computation hides: one maximum over all operators, taken into an exact sum.

A gather is prefetched under the computation of operators before it, so what a step waits for is, of each pass, the larger of 0
and all gathers less all that hides them. With a weight from 0 to 1 in place of that maximum the problem is again a sum over
operators, and its minimum is a lower bound (Geoffrion 1974, Lagrangean relaxation); where a weight of 0 finds all hidden, or 1
finds nothing idle, the bound is met. Nothing here knows how a sum is minimised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from .operator_problem import OperatorProblem, Variable

Floats = NDArray[np.float64]
#: Weights tried of one maximum after its ends.
_HALVINGS = 4
_CLOSE = 1e-9

Found = TypeVar("Found")


def exposed(problem: OperatorProblem, choice: dict[Variable, int]) -> Floats:
    """(forward, backward) seconds a step by which the gathers of a choice exceed what hides them; below 0: what is left idle."""
    total = np.zeros(2)
    for k, piece in enumerate(problem.pieces):
        if piece is None or not piece.hidden:
            continue
        for copy in problem.copies(k):
            names = problem.names(copy)
            for variable, seconds in piece.hidden.items():
                total += seconds[:, choice["operator", names[variable[1]]]]
            for factor in piece.factors:
                if factor.hides is not None:
                    states = [problem.state_in_first(copy, one, choice) for one in (factor.first, factor.second)]
                    total += factor.hides[:, states[0], states[1]]
    return total


def with_hiding(
    problem: OperatorProblem,
    solve: Callable[[OperatorProblem], tuple[Found, dict[Variable, int] | None, float, float]],
) -> tuple[Found, dict[Variable, int] | None, float]:
    """(what `solve` found, choice, lower bound) of the problem with what is exposed in its total.

    `solve` minimises a plain sum: (anything, choice or None, its objective, its lower bound).
    """
    # Weights known to leave something exposed, and (2: none yet) to leave something idle.
    low, high, weights = np.full(2, -1.0), np.full(2, 2.0), np.zeros(2)
    best: tuple[Found, dict[Variable, int] | None] | None = None
    objective, lower = np.inf, -np.inf
    for _ in range(2 + 2 * _HALVINGS):
        found, choice, total, bound = solve(problem.weighed(weights))
        if choice is None:
            return found, None, bound
        lower = max(lower, bound)
        over = exposed(problem, choice) if problem.gathers else np.zeros(2)
        total += float((np.maximum(over, 0.0) - weights * over).sum())
        if total < objective:
            best, objective = (found, choice), total
        low = np.where(over > 0, np.maximum(low, weights), low)
        high = np.where(over <= 0, np.minimum(high, weights), high)
        # Right are 0 with something idle, 1 with something exposed, and what is neither.
        wrong = ((over > 0) & (weights < 1)) | ((over < 0) & (weights > 0))
        if objective - lower <= _CLOSE * objective or not wrong.any():
            break
        tried = np.where(high > 1, 1.0, np.where(low < 0, 0.0, (low + high) / 2))
        weights = np.where(wrong, tried, weights)
    assert best is not None
    return *best, min(lower, objective)
