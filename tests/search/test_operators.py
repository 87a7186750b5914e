"""The operator solver against enumeration of every choice, and what it says of input that is no operator problem."""

from __future__ import annotations

import sys
from itertools import product
from typing import Any

import numpy as np
import pytest
from planproof.errors import InputError, UsageError
from planproof.search import operators
from planproof.search.operators import OperatorPlan, solve_operators


def random_case(rng: np.random.Generator, *, budget: bool) -> dict[str, Any]:
    count = int(rng.integers(1, 7))
    sizes = rng.integers(1, 5, count)
    follow = np.full(count, -1)
    for i in range(count):
        # Chains of followers in either direction, never a circle: a follower's leader has a smaller rank.
        leaders = [k for k in range(i) if sizes[k] == sizes[i]]
        if leaders and rng.random() < 0.3:
            follow[i] = rng.choice(leaders)
    shuffle = rng.permutation(count)
    sizes, follow = (
        sizes[shuffle],
        np.array([-1 if k < 0 else int(np.flatnonzero(shuffle == k)[0]) for k in follow[shuffle]]),
    )
    whole = rng.random() < 0.4

    def costs(shape: tuple[int, ...], holes: float) -> np.ndarray:
        table = rng.integers(-3, 6, shape) * 1.0 if whole else rng.normal(1, 2, shape)
        table[rng.random(shape) < holes] = np.inf
        return table

    holes = rng.choice([0.0, 0.1, 0.5])
    edges = [tuple(int(i) for i in rng.integers(0, count, 2)) for _ in range(int(rng.integers(0, 2 * count + 1)))]
    case: dict[str, Any] = {
        "node_costs": [costs((n,), 0.3 * holes) for n in sizes],
        "edges": edges,
        "edge_costs": [costs((sizes[i], sizes[j]), holes) for i, j in edges],
        "follow": follow,
    }
    if budget:
        case["memory"] = [rng.integers(0, 5, n) * 1.0 if whole else rng.random(n) * 4 for n in sizes]
        if rng.random() < 0.8:
            case["alive"] = [np.flatnonzero(rng.random(count) < 0.6) for _ in range(int(rng.integers(1, 5)))]
            times = len(case["alive"])
            case["budget"] = (
                rng.integers(0, 3 * count, times) * 1.0 if rng.random() < 0.5 else float(rng.integers(0, 2 * count))
            )
        else:
            case["budget"] = float(rng.integers(0, 2 * count + 2))
    return case


def keeps_the_budget(case: dict[str, Any], choice: tuple[int, ...]) -> bool:
    if "budget" not in case:
        return True
    alive = case.get("alive", [range(len(choice))])
    limits = np.broadcast_to(case["budget"], len(alive))
    return all(
        sum(case["memory"][i][choice[i]] for i in now) <= limit + 1e-11
        for now, limit in zip(alive, limits, strict=True)
    )


def total(case: dict[str, Any], choice: tuple[int, ...]) -> float:
    nodes = sum(costs[s] for costs, s in zip(case["node_costs"], choice, strict=True))
    return float(
        nodes + sum(t[choice[i], choice[j]] for (i, j), t in zip(case["edges"], case["edge_costs"], strict=True))
    )


def least(case: dict[str, Any]) -> float:
    best = np.inf
    for choice in product(*(range(len(costs)) for costs in case["node_costs"])):
        if all(k < 0 or choice[k] == choice[i] for i, k in enumerate(case["follow"])) and keeps_the_budget(
            case, choice
        ):
            best = min(best, total(case, choice))
    return best


def check(case: dict[str, Any]) -> OperatorPlan:
    expected, found = least(case), solve_operators(**case)
    assert found.proven
    assert found.objective == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert found.lower_bound == found.objective
    if expected == np.inf:
        assert found.choice == ()
        assert found.binding
    else:
        assert found.binding == ""
        assert total(case, found.choice) == pytest.approx(found.objective, rel=1e-12, abs=1e-12)
        assert keeps_the_budget(case, found.choice)
        assert all(k < 0 or found.choice[k] == found.choice[i] for i, k in enumerate(case["follow"]))
    return found


@pytest.mark.parametrize("cases", [200, pytest.param(3000, marks=pytest.mark.long)])
def test_the_choice_is_the_best_of_all_choices(cases: int) -> None:
    rng = np.random.default_rng(1)
    feasible = sum(check(random_case(rng, budget=False)).objective < np.inf for _ in range(cases))
    assert cases * 0.3 < feasible < cases * 0.98, "the cases must hold both feasible and infeasible problems"


@pytest.mark.parametrize("cases", [90, pytest.param(1500, marks=pytest.mark.long)])
def test_the_choice_is_the_best_of_all_that_keep_the_budget(cases: int) -> None:
    rng = np.random.default_rng(2)
    found = [check(random_case(rng, budget=True)) for _ in range(cases)]
    assert sum(plan.method == "lagrangian+milp" for plan in found) > cases * 0.1, "the budget must bind often"
    assert cases * 0.2 < sum(plan.objective < np.inf for plan in found) < cases * 0.95


@pytest.mark.parametrize("budget", [False, True])
@pytest.mark.parametrize("cases", [25, pytest.param(700, marks=pytest.mark.long)])
def test_graphs_too_wide_to_eliminate_are_solved_by_the_integer_program(
    cases: int, budget: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operators, "MOST_SUMS", 0)
    rng = np.random.default_rng(3)
    for largest in (0, 6, 15):
        monkeypatch.setattr(operators, "LARGEST_TABLE", largest)
        methods = {check(random_case(rng, budget=budget)).method for _ in range(cases)}
        assert "relaxation+milp" in methods


@pytest.mark.parametrize("budget", [False, True])
@pytest.mark.parametrize("cases", [60, pytest.param(1500, marks=pytest.mark.long)])
def test_leaving_out_what_no_optimum_needs_changes_no_optimum(
    cases: int, budget: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With it on every table, with tables in parts, and with equal costs, where each of two values could go."""
    monkeypatch.setattr(operators, "SMALL_TABLE", 0)
    monkeypatch.setattr("planproof.search.elimination._PART", 5)
    if not budget:
        monkeypatch.setattr(operators, "ALL_TABLES", 0)
    rng = np.random.default_rng(4)
    for k in range(cases):
        case = random_case(rng, budget=budget)
        if k % 3 == 0:
            case["node_costs"] = [np.round(np.minimum(one, 9.0)) for one in case["node_costs"]]
            case["edge_costs"] = [np.where(np.isfinite(one), np.round(one), np.inf) for one in case["edge_costs"]]
        check(case)


def chain(count: int, seed: int = 0) -> dict[str, Any]:
    """A chain with a skip edge over every second operator: width 2; memory that trades against cost; lives of five
    operators.
    """
    rng = np.random.default_rng(seed)
    edges = [(i, i + 1) for i in range(count - 1)] + [(i, i + 2) for i in range(0, count - 2, 2)]
    cost = rng.random((count, 4))
    return {
        "node_costs": list(cost),
        "edges": edges,
        "edge_costs": [rng.random((4, 4)) for _ in edges],
        "memory": list(1.5 - cost + 0.3 * rng.random((count, 4))),
        "alive": [range(t, t + 5) for t in range(count - 4)],
    }


def test_a_chain_equals_a_forward_programme() -> None:
    """A second formulation for a long graph: a table over the last two operators."""
    case = chain(60)
    table = {
        (s, t): case["node_costs"][0][s] + case["node_costs"][1][t] + case["edge_costs"][0][s, t]
        for s, t in product(range(4), repeat=2)
    }
    of = dict(zip(case["edges"], case["edge_costs"], strict=True))
    for i in range(2, 60):
        skip = of.get((i - 2, i), np.zeros((4, 4)))
        table = {
            (t, u): min(table[s, t] + skip[s, u] for s in range(4)) + of[i - 1, i][t, u] + case["node_costs"][i][u]
            for t, u in product(range(4), repeat=2)
        }
    plan = solve_operators(case["node_costs"], case["edges"], case["edge_costs"])
    assert plan.objective == pytest.approx(min(table.values()), rel=1e-12)
    assert plan.width == 2


def test_a_budget_by_time_lies_between_no_budget_and_the_tightest_at_all_times() -> None:
    case = chain(14, 5)
    free = solve_operators(case["node_costs"], case["edges"], case["edge_costs"])
    peak = max(sum(case["memory"][i][free.choice[i]] for i in now) for now in case["alive"])
    limits = np.full(len(case["alive"]), peak)
    limits[::2] *= 0.85
    by_time, tight = (solve_operators(**case, budget=b) for b in (limits, peak * 0.85))
    assert by_time.proven
    assert tight.proven
    assert free.objective <= by_time.objective <= tight.objective
    assert free.objective < tight.objective
    assert solve_operators(**case, budget=peak).method == "elimination"


def test_the_bound_holds_where_the_integer_program_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    case = chain(16, 7)
    exact = solve_operators(**case, budget=5.0)
    monkeypatch.setattr("planproof.search.budget._NODES", 0)
    cut_off = solve_operators(**case, budget=5.0)
    assert (exact.proven, cut_off.proven) == (True, False)
    assert exact.objective < np.inf
    assert cut_off.lower_bound <= exact.objective * (1 + 1e-9) <= cut_off.objective * (1 + 2e-9)
    assert cut_off.lower_bound > -np.inf


def test_a_budget_that_binds_needs_scipy_and_says_which_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    case = {"node_costs": [[0.0, 1.0], [0.0, 1.0]], "edges": [], "edge_costs": [], "memory": [[2.0, 1.0], [2.0, 1.0]]}
    assert solve_operators(**case, budget=4.0).objective == 0.0
    with pytest.raises(UsageError, match="scipy") as caught:
        solve_operators(**case, budget=3.0)
    assert "planproof[solvers]" in str(caught.value.remedy)


def pair() -> dict[str, Any]:
    return {"node_costs": [[0.0, 1.0], [0.0, 2.0]], "edges": [(0, 1)], "edge_costs": [[[0.0, -3.0], [1.0, 1.0]]]}


def test_a_negative_edge_is_taken() -> None:
    assert solve_operators(**pair()) == OperatorPlan(-1.0, (0, 1), -1.0, 1, "elimination", True)


def test_the_binding_constraint_is_named() -> None:
    memory = {"memory": [[2.0, 3.0], [2.0, 3.0]]}
    assert solve_operators(**pair() | {"edge_costs": [np.full((2, 2), np.inf)]}).binding.startswith("edges")
    assert solve_operators(**pair() | {"node_costs": [[np.inf, np.inf], [0.0, 0.0]]}).binding.startswith("operators")
    assert "time 1" in solve_operators(**pair() | memory, alive=[[0], [0, 1]], budget=3.0).binding
    forbidden = pair() | {"edge_costs": [[[np.inf, 0.0], [0.0, 0.0]]]}
    assert solve_operators(**forbidden | memory, budget=4.5).binding.startswith("memory: no choice")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"node_costs": []}, "empty"),
        ({"node_costs": [[0.0, np.nan], [0.0, 1.0]]}, "NaN"),
        ({"node_costs": [[0.0, -np.inf], [0.0, 1.0]]}, "-inf"),
        ({"node_costs": [[], [0.0, 1.0]]}, "at least one"),
        ({"node_costs": [["a", "b"], [0.0, 1.0]]}, "real numbers"),
        ({"edges": [(0, 2)]}, "operator from 0 to 1"),
        ({"edges": [(0, 1.0)]}, "operator from 0 to 1"),
        ({"edges": [(0, 1, 1)]}, "two operators"),
        ({"edges": []}, "one table an edge"),
        ({"edge_costs": [np.zeros((2, 3))]}, "shape"),
        ({"edge_costs": [[[0.0], [0.0, 1.0]]]}, "rows differ"),
        ({"follow": [-1]}, "one an operator"),
        ({"follow": [1, 0]}, "circle"),
        ({"follow": [-2, -1]}, "operator from -1 to 1"),
        ({"follow": [-1, 0], "node_costs": [[0.0, 1.0], [0.0]], "edges": [], "edge_costs": []}, "follows operator 0"),
        ({"budget": 1.0}, "without memory"),
        ({"memory": [[1.0, 1.0], [1.0, 1.0]]}, "without a budget"),
        ({"memory": [[1.0, 1.0]], "budget": 1.0}, "expected 2"),
        ({"memory": [[1.0, 1.0], [1.0]], "budget": 1.0}, "shape"),
        ({"memory": [[1.0, -1.0], [1.0, 1.0]], "budget": 1.0}, "0 or more"),
        ({"memory": [[1.0, 1.0], [1.0, 1.0]], "budget": -1.0}, "0 or more"),
        ({"memory": [[1.0, 1.0], [1.0, 1.0]], "budget": np.nan}, "NaN"),
        ({"memory": [[1.0, 1.0], [1.0, 1.0]], "budget": [1.0, 2.0]}, "one a time"),
        ({"memory": [[1.0, 1.0], [1.0, 1.0]], "budget": 1.0, "alive": [[2]]}, "list of operators"),
        ({"memory": [[1.0, 1.0], [1.0, 1.0]], "budget": 1.0, "alive": [[0.5]]}, "list of operators"),
    ],
)
def test_input_that_is_no_operator_problem_is_refused_at_once(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        solve_operators(**pair() | change)
    assert caught.value.remedy
