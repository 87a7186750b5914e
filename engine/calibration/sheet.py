"""The data sheet of a calibration: what `planproof calibrate` writes and `engine/hardware` reads.

Every value carries its range over the folds, grade, source and date; the sheet names the files with their digests, the rows and
groups, the errors on left-out groups, and the values without each group, so that anyone can judge a group by a fit that did not
see it. Text out, no file opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from math import exp
from statistics import mean

import yaml

from ..model import Attention
from .case import Case, convention
from .fit import Fitted
from .folds import Folds, ordinary, residual, slope_of_ratios, spread
from .memory_calibrate import HeldMemory
from .memory_fit import FittedConstant

_UNITS = {"launch": "us", "stall": "us"}


def sheet_text(
    cases: Sequence[Case], fitted: Fitted | None, folds: Folds | None, files: Sequence[tuple[str, str]], day: date, *,
    held: HeldMemory | None = None, command: str = "",
) -> str:  # fmt: skip
    """The YAML of a calibration of `cases`, all of one device and software family; `files` are (name, sha256).

    `held`: measured memory; without `fitted` and `folds` the sheet holds it alone.
    """
    body: dict[str, object]
    if fitted is not None and folds is not None:
        body = _times(cases, fitted, folds, day)
    elif held is not None:
        body = {
            "kind": "calibration", "name": f"{held.device}.{held.software}.memory", "device": held.device,
            "software": held.software, "left_out": {}, "rows": held.rows, "groups": held.groups, "sources": list(held.sources),
            "spans": {name: [low, high] for name, low, high in held.spans},
        }  # fmt: skip
    else:
        raise ValueError("neither times nor memory")
    if held is not None and held.constants:
        left = body["left_out"]
        assert isinstance(left, dict)
        left["memory"] = [
            f"{name}: median {middle:.4f}, 95 % {high:.4f}, worst {most:.4f}" for name, middle, high, most in held.errors
        ]
        body["held"] = {one.name: _held(one, held, day) for one in held.constants}
    body["files"] = [{"name": name, "sha256": digest} for name, digest in files]
    if folds is not None:
        body["folds"] = [
            f"{group}: " + ", ".join(f"{name} {value:.4g}" for name, value in found.items())
            for group, found in sorted(folds.values.items())
        ]
    head = f"# Written by planproof calibrate on {day.isoformat()}; do not edit: run it again.\n"
    head += f"#     {command}\n" if command else ""
    return head + yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=200)


def _held(one: FittedConstant, held: HeldMemory, day: date) -> dict[str, object]:
    def shown(number: float) -> str:
        return f"{number / 2**20:.5g} MiB" if one.name == "workspace" else f"{number * 100:.4g} %"

    evidence = f"planproof calibrate: {one.cases} measured ranks in {one.groups} groups of {held.rows}; see docs/accuracy.md"
    body: dict[str, object] = {"value": shown(one.value), "low": shown(one.low), "high": shown(one.high)}
    return body | {"grade": "estimated", "source": evidence, "date": day.isoformat()}


def _times(cases: Sequence[Case], fitted: Fitted, folds: Folds, day: date) -> dict[str, object]:
    first = cases[0]
    flash = first.workload.attention is not Attention.UNFUSED
    groups = sorted({case.group for case in cases})
    sources = sorted({case.source for case in cases})
    evidence = (
        f"planproof calibrate: {len(cases)} measured runs in {len(groups)} groups ({'; '.join(sources)}); see docs/accuracy.md"
    )
    values: dict[str, object] = {}
    for name in fitted.values:
        low, high = spread(folds.values, fitted, name)
        key = ("attention_flash" if flash else "attention_unfused") if name == "attention" else name
        values[key] = _quantity(name, fitted.values[name], low, high, evidence, day)
    known = convention(first.software)
    loss = float(known["loss_traffic"])
    values["loss"] = _quantity("loss", loss, loss, loss, f"convention, not fitted: {known['source']}", day)
    spans = {
        "hidden": [case.model.hidden for case in cases],
        "sequence": [case.workload.sequence_length for case in cases],
        "tensor": [case.plan.mesh.tensor for case in cases],
        "devices": [case.plan.devices for case in cases],
    }
    errors = [error for _, error in folds.errors] or list(fitted.residuals)
    pairs = ordinary(folds) or folds.errors or tuple(zip(cases, fitted.residuals, strict=True))
    return {
        "kind": "calibration",
        "name": f"{first.device}.{first.software}",
        "device": first.device,
        "software": first.software,
        "fitted": values,
        "left_out": {
            "residual": round(max(0.03, residual(pairs)), 4),
            "ratio_slope": round(slope_of_ratios(pairs, folds.values or {case.group: fitted.values for case in cases}), 3),
            "bias": round(mean(exp(error) - 1 for error in errors), 4),
            "mean": round(mean(abs(exp(error) - 1) for error in errors), 4),
            "worst": round(exp(max(errors, key=abs)) - 1, 4),
        },
        "rows": len(cases),
        "groups": len(groups),
        "sources": sources,
        "spans": {name: [min(found), max(found)] for name, found in spans.items()},
    }


def _quantity(name: str, value: float, low: float, high: float, source: str, day: date) -> dict[str, object]:
    def shown(number: float) -> str:
        return f"{number * 1e6:.4g} us" if _UNITS.get(name) else f"{number * 100:.4g} %"

    body: dict[str, object] = {"value": shown(value), "low": shown(low), "high": shown(high)}
    return body | {"grade": "estimated", "source": source, "date": day.isoformat()}
