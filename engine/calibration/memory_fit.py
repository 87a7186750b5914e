"""The memory model's calibrated constants from measured rows: few, each with its range and its error on groups left out.

Fitted: `workspace` (bytes allocated between steps beyond the counted states), `allocator_reserve` (reserved over allocated, or
device-visible less context over the ledger's allocated), and the residual of allocated memory by family. Medians and 10-90 %
ranges, so that no row pulls; nothing is fitted to fewer than `LEAST` groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import fsum
from statistics import median

from .memory_case import Prediction

#: A constant of fewer cases is not fitted.
LEAST = 3
#: The states that persist: what is allocated between steps beside the workspace.
_STATES = ("parameters", "gradients", "optimizer state")


@dataclass(frozen=True, slots=True)
class FittedConstant:
    """One constant: its value and 10-90 % range, from how many cases and groups, and its error on groups left out.

    `left_out_*` (median, 95th percentile, largest): the size of (predicted - measured) / measured of what the constant predicts
    (reserved or device-visible memory), each group from the others'; for a workspace the difference in bytes over it.
    """

    name: str
    device: str
    value: float
    low: float
    high: float
    cases: int
    groups: int
    left_out_median: float
    left_out_p95: float
    left_out_max: float


def quantile(values: Sequence[float], share: float) -> float:
    """The quantile with linear interpolation between order statistics. ValueError for no values."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def fit_memory(rows: Iterable[Prediction]) -> tuple[FittedConstant, ...]:
    """Every constant that the rows allow, by device name; the residuals under the device "".

    `rows` are declared cases as the ledger prices them; only what does not depend on the constants themselves is read.
    """
    these = [row for row in rows if row.case.declared and row.case.ran]
    found = []
    for device in sorted({row.case.device.name for row in these}):
        here = [row for row in these if row.case.device.name == device]
        found += _one("workspace", device, here, _scratch, lambda share: share)
        found += _one("allocator_reserve", device, here, _reserve, lambda share: 1 + share)
    for family, name in ((False, "residual_shown"), (True, "residual_experts")):
        found += _residual(name, [row for row in these if (row.case.model.moe is not None) is family])
    return tuple(found)


def _scratch(row: Prediction) -> float | None:
    """Bytes between steps beyond the states. Narrow gradients' copies blur it, so only fp32 gradients are read."""
    if row.case.step_end is None or row.case.workload.precision.gradients != "fp32":
        return None
    return row.case.step_end - sum(row.memory.row(name).bytes for name in _STATES)


def _reserve(row: Prediction) -> float | None:
    """Share of allocated that the allocator holds beyond it."""
    measured = row.case.measured
    if "reserved" in measured and "allocated" in measured:
        return measured["reserved"] / measured["allocated"] - 1
    if "device" in measured:
        return (measured["device"] - row.memory.context.value) / row.memory.allocated.value - 1
    return None


def _one(
    name: str,
    device: str,
    rows: Sequence[Prediction],
    read: Callable[[Prediction], float | None],
    scale: Callable[[float], float],
) -> list[FittedConstant]:
    pairs = [(row.case.group, value) for row in rows if (value := read(row)) is not None and value > 0]
    if len(pairs) < LEAST:
        return []
    values = [value for _, value in pairs]
    groups = sorted({group for group, _ in pairs})
    errors = []
    for group in groups:
        others = [value for other, value in pairs if other != group]
        if others:
            fitted = median(others)
            errors += [abs(scale(fitted) / scale(value) - 1) for own, value in pairs if own == group]
    spread = (median(errors), quantile(errors, 0.95), max(errors)) if errors else (float("nan"),) * 3
    fitted = median(values)
    return [
        FittedConstant(
            name, device, fitted, quantile(values, 0.1), quantile(values, 0.9), len(values), len(groups), *spread
        )
    ]


def _residual(name: str, rows: Sequence[Prediction]) -> list[FittedConstant]:
    """The relative half-width that holds 90 % of rows, each group weighing as one. Half of them: the low of its range."""
    left: list[tuple[float, float]] = []
    sizes: dict[str, int] = {}
    with_allocated = [row for row in rows if "allocated" in row.case.measured]
    for row in with_allocated:
        sizes[row.case.group] = sizes.get(row.case.group, 0) + 1
    for row in with_allocated:
        left.append((abs(row.error("allocated")), 1 / sizes[row.case.group]))
    if len(sizes) < LEAST:
        return []
    value = _weighted(left, 0.9)
    middle, most = _weighted(left, 0.5), _weighted(left, 0.95)
    return [FittedConstant(name, "", value, middle, most, len(left), len(sizes), middle, most, max(left)[0])]


def _weighted(pairs: Sequence[tuple[float, float]], share: float) -> float:
    total, ordered = fsum(weight for _, weight in pairs), sorted(pairs)
    passed = 0.0
    for value, weight in ordered:
        passed += weight
        if passed >= share * total - 1e-12:
            return value
    return ordered[-1][0]


def describe(constant: FittedConstant) -> str:
    """One line for people."""
    unit, factor = ("MiB", 2**20) if constant.name == "workspace" else ("%", 0.01)
    low, value, high = (number / factor for number in (constant.low, constant.value, constant.high))
    return (
        f"{constant.name:20s} {constant.device or 'all devices':12s} {value:8.2f} {unit} ({low:.2f} to {high:.2f}), "
        f"{constant.cases} cases in {constant.groups} groups; left out: median {100 * constant.left_out_median:.2f} %, "
        f"p95 {100 * constant.left_out_p95:.2f} %, worst {100 * constant.left_out_max:.2f} %"
    )
