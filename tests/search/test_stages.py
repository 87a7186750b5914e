"""The stage solver against enumeration of every plan, and what it says of input that is no stage problem."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planproof.errors import InputError
from planproof.search.stages import StagePlan, solve_stages


def random_case(rng: np.random.Generator, kind: str) -> dict[str, Any]:
    layers, choices, configurations = int(rng.integers(1, 6)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    devices = int(rng.integers(1, 9))
    shape = (layers, layers, choices, configurations)
    # Few distinct values make ties; holes and tight limits make infeasible and barely feasible problems.
    cost = rng.integers(1, 6, shape) * 1.0 if rng.random() < 0.5 else rng.random(shape) + 0.01
    cost[rng.random(shape) < rng.choice([0.0, 0.1, 0.4])] = np.inf
    later = rng.integers(-1, rng.choice([2, 3, 6]), shape) if rng.random() < 0.7 else np.full(shape, 99)
    case: dict[str, Any] = {
        "compute_cost": cost,
        "max_n_succ_stages": later,
        "devices_per_choice": rng.integers(1, 5, choices) if rng.random() < 0.7 else np.arange(1, choices + 1),
        "n_devices": devices,
        "n_microbatches": int(rng.choice([1, 2, 4, 16, 100])),
        "allow_idle": bool(rng.random() < 0.3),
    }
    if "transfer" in kind:
        pairs = choices * configurations
        of = rng.choice(["number", "boundary", "pair", "all"])
        form = {"number": (), "boundary": (layers - 1,), "pair": (pairs, pairs), "all": (layers - 1, pairs, pairs)}[of]
        transfer = np.asarray(
            rng.integers(0, 4, form) * 1.0 if rng.random() < 0.5 else rng.random(form) * rng.choice([0.3, 3.0])
        )
        if form:
            transfer[rng.random(form) < rng.choice([0.0, 0.2])] = np.inf
        case["transfer_cost"] = transfer
    if "types" in kind:
        types = int(rng.integers(1, 4))
        counts = rng.multinomial(devices, np.full(types, 1 / types))
        case |= {"choice_type": rng.integers(0, types, choices), "devices_per_type": counts}
    return case


def every_plan(case: dict[str, Any]) -> Iterator[tuple[float, float, list[tuple[int, int, int, int]]]]:
    """(sum, slowest, stages) of every plan that the definition of the problem allows."""
    cost, later, sizes = case["compute_cost"], case["max_n_succ_stages"], case["devices_per_choice"]
    layers, _, choices, configurations = cost.shape
    types = case.get("choice_type", [0] * choices)
    counts = list(case.get("devices_per_type", [case["n_devices"]]))
    transfer = case.get("transfer_cost")
    for mask in range(2 ** (layers - 1)):
        cuts = [0, *(k + 1 for k in range(layers - 1) if mask >> k & 1), layers]
        spans = [(a, b - 1) for a, b in pairwise(cuts)]
        for picks in product(range(choices), repeat=len(spans)):
            used = [0] * len(counts)
            for m in picks:
                used[types[m]] += sizes[m]
            if any(u > n or (u < n and not case["allow_idle"]) for u, n in zip(used, counts, strict=True)):
                continue
            for ways in product(range(configurations), repeat=len(spans)):
                stages = [(i, j, m, c) for (i, j), m, c in zip(spans, picks, ways, strict=True)]
                if any(later[s] < len(stages) - 1 - at for at, s in enumerate(stages)):
                    continue
                terms = [float(cost[s]) for s in stages]
                if transfer is not None:
                    for (_, end, m, c), (_, _, m2, c2) in pairwise(stages):
                        pair = (m * configurations + c, m2 * configurations + c2)
                        at = {0: (), 1: (end,), 2: pair, 3: (end, *pair)}[transfer.ndim]
                        terms.append(float(transfer[at]))
                if max(terms) < np.inf:
                    yield sum(terms), max(terms), stages


def check(case: dict[str, Any]) -> bool:
    """The plan is what enumeration finds; whether there is one."""
    weight = case["n_microbatches"] - 1
    plans = [(total + weight * slowest, total, slowest, stages) for total, slowest, stages in every_plan(case)]
    found = solve_stages(**case)
    assert found.proven
    if not plans:
        assert found.objective == np.inf
        assert found.stages == ()
        assert found.binding
        return False
    assert found.objective == pytest.approx(min(plans)[0], rel=1e-9)
    assert found.binding == ""
    by_stages = {tuple(stages): (objective, slowest) for objective, _, slowest, stages in plans}
    objective, slowest = by_stages[found.stages]
    assert found.objective == pytest.approx(objective, rel=1e-12)
    assert found.bottleneck == slowest
    return True


@pytest.mark.parametrize("cases", [80, pytest.param(4000, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["plain", "transfer", "types", "transfer and types"])
def test_the_plan_is_the_best_of_all_plans(kind: str, cases: int) -> None:
    rng = np.random.default_rng(sum(map(ord, kind)))
    feasible = sum(check(random_case(rng, kind)) for _ in range(cases))
    assert cases * 0.15 < feasible < cases * 0.95, "the cases must hold both feasible and infeasible problems"


def profile(layers: int, devices: int, memory: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Costs and limits shaped like a transformer's: work by layer, an efficiency that falls with devices, activations
    in flight.
    """
    rng = np.random.default_rng(layers)
    sizes = np.array([n for n in (1, 2, 4, 8, 16) if n <= devices])
    work, held = (np.concatenate([[0.0], np.cumsum(rng.lognormal(0, 0.2, layers))]) for _ in range(2))
    i, j = np.arange(layers)[:, None], np.arange(layers)
    span = np.where(i <= j, work[j + 1] - work[i], np.inf)[:, :, None, None]
    state = (held[j + 1] - held[i])[:, :, None, None]
    shards = np.array([1.0, 2.0])
    cost = span / sizes[:, None] * (1 + 0.25 * np.log2(sizes))[:, None] * (1 + 0.07 * (shards - 1)) + 0.02
    with np.errstate(divide="ignore", invalid="ignore"):
        later = np.floor((memory - state / (sizes[:, None] ** 0.5 * shards)) / (0.6 * state / sizes[:, None])) - 1
    return cost, np.where(i <= j, 1, -1)[:, :, None, None] * np.clip(np.nan_to_num(later, nan=-1), -1, 999), sizes


@pytest.mark.parametrize("memory", [1.8, 2.0, 2.5, 4.0])
def test_tight_memory_agrees_with_a_programme_over_stage_positions(memory: float) -> None:
    """A second formulation: for each number of stages and each bound, a forward programme in which every stage knows
    its position.
    """
    layers, devices, microbatches = 6, 8, 60
    cost, later, sizes = profile(layers, devices, memory)
    best = np.inf
    for count in range(1, layers + 1):
        for bound in np.unique(cost[np.isfinite(cost)]):
            state = {(0, 0): 0.0}
            for place in range(count):
                after: dict[tuple[int, int], float] = {}
                for (k, used), value in state.items():
                    for j, m, c in product(range(k, layers), range(len(sizes)), range(2)):
                        if (
                            cost[k, j, m, c] <= bound
                            and later[k, j, m, c] >= count - 1 - place
                            and used + sizes[m] <= devices
                        ):
                            key = (j + 1, used + int(sizes[m]))
                            after[key] = min(after.get(key, np.inf), value + cost[k, j, m, c])
                state = after
            best = min(best, state.get((layers, devices), np.inf) + (microbatches - 1) * bound)
    assert solve_stages(cost, later, sizes, devices, microbatches).objective == pytest.approx(best, rel=1e-9)


def test_the_memory_limit_binds_where_the_profile_is_tight() -> None:
    cost, later, sizes = profile(6, 8, 1.8)
    free = solve_stages(cost, np.where(later >= 0, 999, -1), sizes, 8, 60)
    assert solve_stages(cost, later, sizes, 8, 60).objective > free.objective * 1.01


@pytest.mark.parametrize(("transfer", "objective"), [(0.0, 5 + 1 + 3 * 5.0), ([[0.0, 0.0], [7.0, 7.0]], 5 + 7 + 1 + 3 * 7.0)])
def test_the_slowest_stage_may_be_slower_than_every_quickest_configuration(transfer: Any, objective: float) -> None:
    """The quick configuration holds nothing for a later stage, so the first stage takes the slow one."""
    cost = np.broadcast_to([1.0, 5.0], (2, 2, 1, 2))
    later = np.broadcast_to([0, 9], (2, 2, 1, 2))
    assert solve_stages(cost, later, [1], 2, 4, transfer_cost=transfer).objective == objective


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["plain", "transfer", "types"]), st.floats(1e-6, 1e6))
def test_scaling_all_costs_scales_the_objective(seed: int, kind: str, factor: float) -> None:
    case = random_case(np.random.default_rng(seed), kind)
    scaled = case | {"compute_cost": case["compute_cost"] * factor}
    if "transfer_cost" in case:
        scaled["transfer_cost"] = case["transfer_cost"] * factor
    assert solve_stages(**scaled).objective == pytest.approx(solve_stages(**case).objective * factor, rel=1e-9)


def test_all_costs_zero_is_a_plan_of_zero() -> None:
    plan = solve_stages(np.zeros((3, 3, 1, 1)), np.full((3, 3, 1, 1), 9), [1], 3, 8)
    assert (plan.objective, plan.bottleneck, len(plan.stages)) == (0.0, 0.0, 3)


def test_one_layer_on_one_device() -> None:
    plan = solve_stages([[[[2.0]]]], [[[[0]]]], [1], 1, 5)
    assert plan == StagePlan(2.0 + 4 * 2.0, ((0, 0, 0, 0),), 2.0, plan.solves, True)


def ones(layers: int = 2) -> dict[str, Any]:
    return {
        "compute_cost": np.ones((layers, layers, 1, 1)),
        "max_n_succ_stages": np.full((layers, layers, 1, 1), 9),
        "devices_per_choice": np.array([1]),
        "n_devices": 2,
        "n_microbatches": 4,
    }


def test_the_binding_constraint_is_named() -> None:
    assert solve_stages(**ones() | {"n_devices": 3}).binding.startswith("devices")
    assert solve_stages(**ones() | {"devices_per_choice": [2], "n_devices": 5}).binding.startswith("devices")
    assert solve_stages(**ones() | {"devices_per_choice": [4]}).binding.startswith("devices")
    assert solve_stages(**ones() | {"compute_cost": np.full((2, 2, 1, 1), np.inf)}).binding.startswith("costs")
    assert solve_stages(**ones() | {"max_n_succ_stages": np.full((2, 2, 1, 1), -1)}).binding.startswith("memory:")
    assert solve_stages(**ones() | {"max_n_succ_stages": np.zeros((2, 2, 1, 1), int)}).binding.startswith(
        "memory in flight"
    )
    assert solve_stages(**ones() | {"transfer_cost": np.inf}).binding.startswith("transfers")
    assert solve_stages(**ones() | {"transfer_cost": np.full((1, 1), np.inf)}).binding.startswith("transfers")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"compute_cost": np.ones((2, 3, 1, 1))}, "shape"),
        ({"compute_cost": np.ones((2, 2, 1))}, "shape"),
        ({"compute_cost": np.ones((0, 0, 1, 1))}, "shape"),
        ({"compute_cost": np.full((2, 2, 1, 1), np.nan)}, "NaN"),
        ({"compute_cost": -np.ones((2, 2, 1, 1))}, "negative"),
        ({"compute_cost": np.full((2, 2, 1, 1), "a")}, "real numbers"),
        ({"compute_cost": np.ones((2, 2, 1, 1), dtype=complex)}, "real numbers"),
        ({"compute_cost": [[1.0], [1.0, 2.0]]}, "rows differ"),
        ({"max_n_succ_stages": np.ones((2, 2, 1, 2), dtype=int)}, "shape"),
        ({"max_n_succ_stages": np.full((2, 2, 1, 1), 0.5)}, "whole numbers"),
        ({"max_n_succ_stages": np.full((2, 2, 1, 1), np.nan)}, "whole numbers"),
        ({"devices_per_choice": [1, 2]}, "shape"),
        ({"devices_per_choice": [0]}, "at least 1"),
        ({"n_devices": 0}, "at least 1"),
        ({"n_devices": 2.0}, "whole number"),
        ({"n_devices": True}, "whole number"),
        ({"n_devices": 10**30}, "more than"),
        ({"n_devices": 10**8}, "more than"),
        ({"n_microbatches": -1}, "at least 1"),
        ({"n_microbatches": 10**30}, "more than"),
        ({"transfer_cost": [1.0, 2.0, 3.0]}, "shape"),
        ({"transfer_cost": np.nan}, "NaN"),
        ({"choice_type": [0]}, "belong together"),
        ({"choice_type": [1], "devices_per_type": [2]}, "types 0 to 0"),
        ({"choice_type": [0], "devices_per_type": [1]}, "add up"),
        ({"choice_type": [0], "devices_per_type": [3, -1]}, "add up"),
        ({"allow_idle": "yes"}, "True or False"),
    ],
)
def test_input_that_is_no_stage_problem_is_refused_at_once(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        solve_stages(**ones() | change)
    assert caught.value.remedy
