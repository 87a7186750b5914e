"""A few physical parameters of one device under one software family, fitted to measured steps.

Vocabulary: a *parameter* is a share of a peak, a bandwidth or a time that a data sheet states, with bounds that no machine
passes. The fit is bounded least squares on the logarithm of predicted over measured time, with a soft-L1 loss, so that one odd
row moves it little, and a weak pull to the data sheet, so that what the rows do not tell stays what it was. Rows of a group
share a weight. Every prediction is the product's own closed form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import exp, log, sqrt
from typing import NamedTuple

from ..cost.factors import Factors, load_constants
from ..cost.step import TimeModel
from ..cost.step_result import StepTime
from ..errors import UsageError
from ..hardware import DeviceSheet
from ..model import Attention
from .case import Case, convention, transfer_of


class Parameter(NamedTuple):
    """Bounds of the value itself, and how far (in logarithms) a pull to the start counts as one typical error."""

    low: float
    high: float
    pull: float


#: Physical ranges. `fabric` is the share of the stated rate between nodes that communication gets while it is exposed:
#: collectives reach 0.6 to 0.98 of it (constants.csv, fabric_share); much less is not the wire, but a term that is missing.
PARAMETERS = {
    "gemm": Parameter(0.3, 0.95, 0.3),
    "memory": Parameter(0.2, 1.0, 0.4),
    "attention": Parameter(0.05, 0.85, 0.5),
    "stall": Parameter(1e-5, 8e-3, 2.0),
    "interference": Parameter(0.01, 0.9, 1.0),
    "fabric": Parameter(0.5, 1.0, 0.7),
    "launch": Parameter(3e-6, 80e-6, 0.4),
}

#: Scale of the soft-L1 loss, and what a pull of one unit weighs beside one row's residual.
SCALE, PULL = 0.05, 0.02


class Fitted(NamedTuple):
    """The values, by parameter, and the residuals (log predicted / measured) of the rows that were seen."""

    values: dict[str, float]
    residuals: tuple[float, ...]


def start(sheet: DeviceSheet, flash: bool) -> dict[str, float]:
    """The data sheet's own values."""
    e = sheet.efficiency
    share = load_constants()["fabric_share"].value
    attention = (e.attention_flash if flash else e.attention_unfused).value
    return {
        "gemm": e.gemm.value,
        "memory": e.memory.value,
        "attention": attention,
        "launch": sheet.launch.value,
        "stall": 1e-4,
        "interference": 0.1,
        "fabric": share,
    }


def factors_of(values: dict[str, float], base: dict[str, float], software: str = "") -> Factors:
    """The multipliers that turn the data sheet into `values`."""
    ratio = {name: values[name] / base[name] for name in values}
    loss = float(convention(software)["loss_traffic"]) if software else None
    bandwidth = (("fabric", ratio.get("fabric", 1.0)),)
    return replace(
        Factors(), gemm=ratio.get("gemm", 1.0), memory=ratio.get("memory", 1.0), attention=ratio.get("attention", 1.0),
        launch=ratio.get("launch", 1.0), bandwidth=bandwidth, stall=values.get("stall"), interference=values.get("interference"),
        loss=loss,
    )  # fmt: skip


_constants = cache(load_constants)


def _model(case: Case, factors: Factors) -> TimeModel:
    return TimeModel(case.model, case.workload, case.cluster, factors, _constants(), transfer_of(case.software))


def predict(case: Case, factors: Factors | None = None) -> float:
    """Seconds of the case by closed form."""
    return _model(case, factors or Factors()).seconds(case.plan)


def step_of(case: Case, values: Mapping[str, float]) -> StepTime:
    """The case's step by closed form, term by term, under fitted values."""
    base = start(case.cluster.device, case.workload.attention is not Attention.UNFUSED)
    factors = factors_of(dict(values), base, case.software)
    return _model(case, factors).step_time(case.plan)


def launch_share(case: Case, values: Mapping[str, float]) -> float:
    """The share of the case's time that launches add, under fitted values."""
    base = start(case.cluster.device, case.workload.attention is not Attention.UNFUSED)
    factors = factors_of(dict(values), base, case.software)
    return _model(case, factors).launch_share(case.plan)


def telling(cases: Sequence[Case]) -> tuple[str, ...]:
    """The parameters that these cases can tell, at most one for two rows: those that decide most come first.

    Gathers hide where states are sharded three ways; a share between nodes needs rows that cross them.
    """
    sharded = any(case.plan.zero == 3 for case in cases)
    between = any(case.plan.devices > case.cluster.devices_per_node for case in cases)
    left = {"interference"} if not sharded else {"stall"}
    left |= set() if between else {"fabric"}
    chosen = tuple(name for name in PARAMETERS if name not in left)
    return chosen[: max(3, min(len(chosen), len(cases) // 2))]


def fit(cases: Sequence[Case], names: Sequence[str] = ()) -> Fitted:
    """The parameters `names` of one device and family, fitted to `cases`. UsageError without scipy."""
    try:
        import numpy as np
        from scipy.optimize import least_squares
    except ImportError:
        raise UsageError("calibrate needs scipy", remedy="Install planproof[solvers].") from None
    names = names or telling(cases)
    flash = cases[0].workload.attention is not Attention.UNFUSED
    base = start(cases[0].cluster.device, flash)
    count = Counter(case.group for case in cases)
    weights = [1 / sqrt(max(1.0, count[case.group] / 8)) for case in cases]
    bounds = [PARAMETERS[name] for name in names]
    first = [
        min(max(log(base[name]), log(one.low) + 1e-6), log(one.high) - 1e-6) for name, one in zip(names, bounds, strict=True)
    ]

    def residuals(point: Sequence[float]) -> list[float]:
        values = {name: exp(x) for name, x in zip(names, point, strict=True)}
        factors = factors_of(values, base, cases[0].software)
        rows = [w * log(predict(case, factors) / case.seconds) for case, w in zip(cases, weights, strict=True)]
        pulls = [PULL * (x - x0) / one.pull for x, x0, one in zip(point, first, bounds, strict=True)]
        return rows + pulls

    found = least_squares(
        residuals, np.array(first), bounds=([log(one.low) for one in bounds], [log(one.high) for one in bounds]),
        loss="soft_l1", f_scale=SCALE, diff_step=1e-3, xtol=1e-5, ftol=1e-5, max_nfev=40,
    )  # fmt: skip
    values = {name: exp(float(x)) for name, x in zip(names, found.x, strict=True)}
    factors = factors_of(values, base, cases[0].software)
    return Fitted(values, tuple(log(predict(case, factors) / case.seconds) for case in cases))
