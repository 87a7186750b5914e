"""Stages of a pipeline: the exact minimum of sum + (B - 1) max over cuts of the layers, submesh choices and
configurations.

Vocabulary. Layers 0..L-1 are cut into consecutive *stages*; a stage takes one submesh *choice* and, on it, one
*configuration*. `compute_cost[i, j, m, c]` is the time of one microbatch through layers i..j (both included);
`max_n_succ_stages[i, j, m, c]` how many later stages the stage's memory allows, because a stage keeps one more
microbatch in flight for each of them (-1: never fits).

A *transfer* between two stages counts as a stage of its own: it is added to the sum, and it may be the slowest.
Device *types* may follow each other in any order. This module checks what it is given and says why there is no plan;
it does not know models, clusters or time.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError
from ..frozen import dataclass
from .stages_sweep import Swept, sweep
from .stages_tables import Floats, Ints, StageProblem, prefix_table, table_size

#: The largest table that is built, in numbers (8 bytes each).
LARGEST_TABLE = 16_000_000
#: The largest cost array.
LARGEST_COSTS = 64_000_000


@dataclass(frozen=True, slots=True)
class StagePlan:
    """The plan of least objective, or the reason why there is none.

    `stages` are (first layer, last layer, choice, configuration), in order. `bottleneck` is the largest cost of a
    stage or transfer. `solves` counts the tables solved. `proven`: no plan is better (or, with `objective` inf, none
    exists). `binding` is empty for a plan.
    """

    objective: float
    stages: tuple[tuple[int, int, int, int], ...]
    bottleneck: float
    solves: int
    proven: bool
    binding: str = ""


def solve_stages(
    compute_cost: ArrayLike,
    max_n_succ_stages: ArrayLike,
    devices_per_choice: ArrayLike,
    n_devices: int,
    n_microbatches: int,
    *,
    transfer_cost: ArrayLike | None = None,
    choice_type: ArrayLike | None = None,
    devices_per_type: ArrayLike | None = None,
    allow_idle: bool = False,
) -> StagePlan:
    """The stages that cover all layers, use exactly `n_devices` and minimise sum(cost) + (n_microbatches - 1)
    max(cost).

    `compute_cost` [L, L, M, C] seconds, not negative, inf = not available. `max_n_succ_stages` [L, L, M, C] whole
    numbers. `devices_per_choice` [M]. `transfer_cost`: seconds of the boundary behind layer k = 0..L-2, one of

    * a number, or [L-1]: the same for every pair of stages;
    * [Q, Q], [L-1, Q, Q] or what broadcasts to it, Q = M C: by the pair `choice * C + configuration` of the stage
      before (first) and of the stage behind (second); inf forbids the pair.

    `choice_type` [M] is the device type of each choice, `devices_per_type` [T] how many there are of each; their sum
    is `n_devices`. Types may come in any order along the layers. `allow_idle`: at most that many devices instead of
    exactly.

    Raises `InputError` for shapes, types and numbers that are no such problem. No plan is no error: `objective` is
    inf, `binding` says why. Exact in double precision: the objective is the minimum within 1e-12, relatively.
    """
    problem = _problem(
        compute_cost,
        max_n_succ_stages,
        devices_per_choice,
        n_devices,
        transfer_cost=transfer_cost,
        choice_type=choice_type,
        devices_per_type=devices_per_type,
        allow_idle=allow_idle,
    )
    microbatches = _count("n_microbatches", n_microbatches)
    if microbatches > 2**40:
        raise InputError(
            f"n_microbatches is {microbatches}: more than 2^40", remedy="Check the batch sizes that it comes from."
        )
    if isinstance(problem, str):
        return StagePlan(inf, (), inf, 0, True, problem)
    swept = sweep(problem, microbatches)
    if swept.best is None:
        return StagePlan(
            inf, (), inf, swept.solves, True, _binding(problem, swept, np.asarray(compute_cost, dtype=np.float64))
        )
    return StagePlan(swept.objective, swept.best.stages, swept.best.slowest, swept.solves, True)


def _binding(problem: StageProblem, swept: Swept, costs: Floats) -> str:
    """Why no plan exists: the first of devices, costs, memory and memory in flight whose removal leaves one."""
    if swept.relaxed_exists and not problem.paired:
        return "memory in flight: every split leaves a stage with more later stages than its memory allows"

    def exists(values: Floats) -> bool:
        return bool(prefix_table(problem, values, np.maximum)[(-1, *problem.units)] < inf)

    layers = problem.layers
    ordered = np.arange(layers)[:, None] <= np.arange(layers)
    free = np.where(ordered[:, :, None] & (np.array(problem.sizes) > 0), 0.0, inf)
    if not exists(free):
        fit = "fits the devices" if problem.idle else "uses the devices exactly"
        return f"devices: no sequence of at most {layers} submeshes {fit}"
    if not exists(np.where(free == 0.0, costs.min(axis=-1), inf)):
        return "costs: every split that uses the devices contains a stage whose cost is inf"
    if not exists(np.where(free == 0.0, problem.cost.min(axis=-1), inf)):
        return "memory: every split contains a stage that does not fit even as the last one"
    if not swept.relaxed_exists:
        return "transfers: every split that fits crosses a boundary whose transfer is inf"
    return (
        "memory in flight or transfers: every split that fits has a stage with more later stages than its memory "
        "allows, or a transfer that is inf"
    )


def _problem(
    compute_cost: ArrayLike,
    max_n_succ_stages: ArrayLike,
    devices_per_choice: ArrayLike,
    n_devices: int,
    *,
    transfer_cost: ArrayLike | None,
    choice_type: ArrayLike | None,
    devices_per_type: ArrayLike | None,
    allow_idle: bool,
) -> StageProblem | str:
    """The checked problem in device units, or the reason why the devices alone rule every plan out."""
    cost = _seconds("compute_cost", compute_cost)
    if cost.ndim != 4 or cost.shape[0] != cost.shape[1] or not cost.size:
        raise InputError(
            f"compute_cost has the shape {list(cost.shape)}: expected "
            "[layers, layers, choices, configurations], none of them 0",
            remedy="One cost a first layer, last layer, submesh choice and configuration; inf where there is none.",
        )
    if cost.size > LARGEST_COSTS:
        raise InputError(
            f"compute_cost holds {cost.size} numbers, more than {LARGEST_COSTS}",
            remedy="Merge layers into blocks, or leave choices out.",
        )
    layers, _, choices, configurations = cost.shape
    later = _whole("max_n_succ_stages", max_n_succ_stages, cost.shape)
    sizes = _whole("devices_per_choice", devices_per_choice, (choices,))
    if sizes.min() < 1:
        raise InputError(
            f"devices_per_choice holds {sizes.min()}: a submesh has at least 1 device",
            remedy="Leave empty submeshes out.",
        )
    types, counts = _types(_count("n_devices", n_devices), choices, choice_type, devices_per_type)
    if not isinstance(allow_idle, (bool, np.bool_)):
        raise InputError(
            f"allow_idle is {allow_idle!r}: expected True or False", remedy="False demands that every device is used."
        )
    kept = sizes <= np.array(counts)[types]
    step = [int(np.gcd.reduce(sizes[kept & (types == t)], initial=0)) for t in range(len(counts))]
    for t, (unit, count) in enumerate(zip(step, counts, strict=True)):
        if not allow_idle and (count % unit if unit else count):
            of_type = "" if len(counts) == 1 else f" of type {t}"
            return f"devices: no sequence of submeshes uses exactly {count} devices{of_type}" + (
                f": every submesh is a multiple of {unit}" if unit else ": none of them is small enough"
            )
    units = tuple(count // unit if unit else 0 for unit, count in zip(step, counts, strict=True))
    transfer = _transfers(transfer_cost, layers, choices * configurations)
    paired = transfer.ndim == 3
    if table_size(layers, units, choices * configurations if paired else 1) > LARGEST_TABLE:
        raise InputError(
            f"{layers} layers on {' + '.join(map(str, counts))} devices need tables of more than "
            f"{LARGEST_TABLE} numbers",
            remedy="Offer submeshes in larger units (whole nodes), or merge layers into blocks.",
        )
    ordered = np.arange(layers)[:, None] <= np.arange(layers)
    fits = ordered[:, :, None, None] & (later >= 0) & kept[:, None]
    cost = np.where(fits, cost, inf)
    entry = np.zeros((layers, choices * configurations if paired else 1))
    entry[1:] = transfer.min(axis=1) if paired else transfer[:, None]
    least = cost if paired else cost.min(axis=-1, keepdims=True)
    entering = entry.reshape(layers, 1, choices if paired else 1, configurations if paired else 1)
    return StageProblem(
        cost=cost,
        later=later,
        # A choice larger than all devices of its type has no finite cost; its size only has to stay inside the tables.
        sizes=tuple(int(n) // step[t] if k else 0 for n, t, k in zip(sizes, types, kept, strict=True)),
        types=tuple(int(t) for t in types),
        units=units,
        transfer=transfer,
        entry=entry,
        idle=bool(allow_idle),
        added=least + entering,
        slowest=np.maximum(least, entering),
    )


def _types(
    n_devices: int, choices: int, choice_type: ArrayLike | None, devices_per_type: ArrayLike | None
) -> tuple[Ints, tuple[int, ...]]:
    if (choice_type is None) != (devices_per_type is None):
        raise InputError(
            "choice_type and devices_per_type belong together: one of them is missing",
            remedy="Give the device type of each choice and the number of devices of each type, or neither.",
        )
    if choice_type is None or devices_per_type is None:
        return np.zeros(choices, dtype=np.int64), (n_devices,)
    types = _whole("choice_type", choice_type, (choices,))
    counts = _whole("devices_per_type", devices_per_type, (None,))
    if types.min() < 0 or types.max() >= counts.size:
        raise InputError(
            f"choice_type holds {types.min()} to {types.max()}: devices_per_type knows types 0 to {counts.size - 1}",
            remedy="Number the device types from 0.",
        )
    if counts.min() < 0 or counts.sum() != n_devices:
        raise InputError(
            f"devices_per_type is {counts.tolist()}: numbers from 0 that add up to "
            f"n_devices = {n_devices} are expected",
            remedy="State every device once, under its type.",
        )
    return types, tuple(int(n) for n in counts)


def _transfers(transfer_cost: ArrayLike | None, layers: int, pairs: int) -> Floats:
    """[L-1] or [L-1, Q, Q]; the shorter one where the pair makes no difference."""
    boundaries = layers - 1
    if transfer_cost is None:
        return np.zeros(boundaries)
    given = _seconds("transfer_cost", transfer_cost)
    if given.ndim == 3 and given.shape[1:] == (1, 1):
        given = given[:, 0, 0]
    full = (boundaries,) if given.ndim < 2 else (boundaries, pairs, pairs)
    try:
        return np.array(np.broadcast_to(given, full))
    except ValueError:
        raise InputError(
            f"transfer_cost has the shape {list(given.shape)}: expected a number, [{boundaries}], "
            f"[{pairs}, {pairs}] or [{boundaries}, {pairs}, {pairs}]",
            remedy="One boundary behind each layer but the last; a pair is choice * configurations + configuration.",
        ) from None


def _seconds(name: str, given: ArrayLike) -> Floats:
    array = _array(name, given)
    if array.dtype.kind not in "fiu":
        raise InputError(
            f"{name} holds {array.dtype}: real numbers are expected", remedy="Give seconds as floats, inf for none."
        )
    array = array.astype(np.float64)
    if not (array >= 0).all():
        raise InputError(
            f"{name} holds {'NaN' if np.isnan(array).any() else 'a negative number'}: seconds are 0 or more",
            remedy="inf stands for what is not available; nothing stands for what is not known.",
        )
    return array


def _whole(name: str, given: ArrayLike, shape: tuple[int | None, ...]) -> Ints:
    array = _array(name, given)
    if (
        array.ndim != len(shape)
        or not array.size
        or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True))
    ):
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise InputError(
            f"{name} has the shape {list(array.shape)}: expected [{wanted}]", remedy="See the shape of compute_cost."
        )
    if array.dtype.kind == "f" and (array == np.floor(array)).all():
        array = np.clip(array, -(2.0**53), 2.0**53).astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InputError(
            f"{name} holds {array.dtype}: whole numbers are expected",
            remedy="Convert it; NaN and halves have no meaning here.",
        )
    if array.dtype.kind == "u":
        array = np.minimum(array, 2**53)
    return array.astype(np.int64)


def _array(name: str, given: ArrayLike) -> NDArray[Any]:
    try:
        return np.asarray(given)
    except (ValueError, TypeError):
        raise InputError(f"{name} is no array: its rows differ in length", remedy="Give a rectangular array.") from None


def _count(name: str, given: int) -> int:
    value = given.item() if isinstance(given, (np.generic, np.ndarray)) and np.ndim(given) == 0 else given
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{name} is {given!r}: a whole number is expected", remedy="Give an int.")
    if value < 1:
        raise InputError(f"{name} is {value}: at least 1 is expected", remedy="A plan needs a device and a microbatch.")
    return value
