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
from .folds import Folds, ordinary, residual, residual_of_ratios, spread

_UNITS = {"launch": "us", "stall": "us"}


def sheet_text(
    cases: Sequence[Case], fitted: Fitted, folds: Folds, files: Sequence[tuple[str, str]], day: date, *, command: str = ""
) -> str:
    """The YAML of a calibration of `cases`, all of one device and software family; `files` are (name, sha256)."""
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
    body: dict[str, object] = {
        "kind": "calibration",
        "name": f"{first.device}.{first.software}",
        "device": first.device,
        "software": first.software,
        "fitted": values,
        "left_out": {
            "residual": round(max(0.03, residual(pairs)), 4),
            "residual_ratio": round(max(0.03, residual_of_ratios(pairs)), 4),
            "bias": round(mean(exp(error) - 1 for error in errors), 4),
            "mean": round(mean(abs(exp(error) - 1) for error in errors), 4),
            "worst": round(exp(max(errors, key=abs)) - 1, 4),
        },
        "rows": len(cases),
        "groups": len(groups),
        "sources": sources,
        "spans": {name: [min(found), max(found)] for name, found in spans.items()},
        "files": [{"name": name, "sha256": digest} for name, digest in files],
        "folds": [
            f"{group}: " + ", ".join(f"{name} {value:.4g}" for name, value in found.items())
            for group, found in sorted(folds.values.items())
        ],
    }
    head = f"# Written by planproof calibrate on {day.isoformat()}; do not edit: run it again.\n"
    head += f"#     {command}\n" if command else ""
    return head + yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=200)


def _quantity(name: str, value: float, low: float, high: float, source: str, day: date) -> dict[str, object]:
    def shown(number: float) -> str:
        return f"{number * 1e6:.4g} us" if _UNITS.get(name) else f"{number * 100:.4g} %"

    body: dict[str, object] = {"value": shown(value), "low": shown(low), "high": shown(high)}
    return body | {"grade": "estimated", "source": source, "date": day.isoformat()}
