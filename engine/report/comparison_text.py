"""A comparison of a measured run with a record's predictions: as text, as JSON, and its rows as a table of measured runs.

The table has the columns of a folder of measured runs as `planproof calibrate` and the accuracy benchmark read them:
configuration, `step_time_s` and memory, one row a run. What the proposal does not say is left empty."""

from __future__ import annotations

import csv
import io
from typing import Any

from ..decision.comparison import Compared, Comparison
from ..decision.review import Review
from ..plan import describe, to_dict
from ..quantity import human
from .escape import visible
from .figures import plural
from .places import in_repository

#: The columns, in order; units stand in the names.
COLUMNS = (
    "model", "layers", "hidden", "ffn", "heads", "kv_heads", "vocab", "seq", "gpus", "gpu_type", "nodes", "gpus_per_node", "tp",
    "pp", "vpp", "dp", "cp", "ep", "zero_stage", "recompute", "sequence_parallel", "schedule", "mbs", "gbs", "precision",
    "optimizer", "attention_backend", "step_time_s", "mem_allocated_gib", "mem_reserved_gib", "peak_mem_gib", "status", "source",
)  # fmt: skip


def comparison_text(review: Review, comparison: Comparison) -> str:
    """For a terminal: a line a quantity, its causes, gaps, and whether the decision stands."""
    lines = [f"plan {comparison.candidate}: {describe(comparison.plan)}"]
    for row in comparison.rows:
        lines.append(_line(row))
        if row.why:
            lines.append(f"    {row.why}")
        for cause in row.causes:
            where = "inside its range" if cause.inside else "outside its range" if cause.ranged else "no range is stated for it"
            needed, today = human(cause.needed, cause.dimension), human(cause.today, cause.dimension)
            lines.append(f"    explained alone by: {cause.name} {needed} in place of {today}, {where}")
        if row.state != "holds" and row.key == "step_time" and not row.causes:
            lines.append(
                "    no single input explains it as far as it was looked at: several together, or something not modelled"
            )
    lines += [f"missing: {gap}" for gap in comparison.gaps]
    lines += [f"note: {note}" for note in comparison.notes]
    if not comparison.rows:
        lines.append("Nothing measured was compared: nothing is said of the decision.")
    elif comparison.stands:
        lines.append("The decision stands.")
    else:
        lines.append("The decision is OVERTURNED: review again with what was measured.")
    return "\n".join(visible(line) if not line.startswith("    ") else "    " + visible(line) for line in lines) + "\n"


def _line(row: Compared) -> str:
    predicted = row.predicted
    noise = f" +- {human(row.noise, row.dimension)}" if row.noise is not None else ""
    span = f"{human(predicted.low, row.dimension)} to {human(predicted.high, row.dimension)}"
    return (
        f"{row.what}: measured {human(row.measured, row.dimension)}{noise} ({plural(row.samples, 'figure')}), predicted "
        f"{human(predicted.value, row.dimension)} ({span}): {row.state}"
    )


def comparison_json(review: Review, comparison: Comparison) -> dict[str, Any]:
    """Everything as plain data, base units."""
    return {
        "schema": 1,
        "proposal": {"path": in_repository(review.case.loaded), "sha256": review.case.loaded.document.sha256},
        "candidate": comparison.candidate,
        "plan": to_dict(comparison.plan),
        "stands": comparison.stands if comparison.rows else None,
        "rows": [
            {
                "quantity": row.key,
                "what": row.what,
                "unit": row.dimension.value,
                "measured": row.measured,
                "noise": row.noise,
                "samples": row.samples,
                "predicted": {"value": row.predicted.value, "low": row.predicted.low, "high": row.predicted.high},
                "state": row.state,
                "why": row.why or None,
                "causes": [
                    {
                        "input": one.name,
                        "unit": one.dimension.value,
                        "today": one.today,
                        "needed": one.needed,
                        "inside": one.inside,
                    }
                    for one in row.causes
                ],
            }
            for row in comparison.rows
        ],
        "missing": list(comparison.gaps),
        "notes": list(comparison.notes),
        "calibration": calibration_row(review, comparison, ""),
    }


def calibration_row(review: Review, comparison: Comparison, source: str) -> dict[str, str]:
    """The run as one row of a table of measured runs."""
    case, plan = review.case, comparison.plan
    model, work, cluster = case.model, case.workload, case.cluster
    stated = case.loaded.stated.workload
    found = dict.fromkeys(COLUMNS, "")
    if model is not None:
        found |= {
            "model": model.name or model.family, "layers": str(model.layers), "hidden": str(model.hidden), "ffn": str(model.ffn),
            "heads": str(model.heads), "kv_heads": str(model.kv_heads), "vocab": str(model.vocabulary),
        }  # fmt: skip
    if cluster is not None:
        found |= {
            "gpu_type": cluster.device.name, "gpus_per_node": str(cluster.devices_per_node),
            "nodes": str(-(-plan.devices // cluster.devices_per_node)),
        }  # fmt: skip
    if work is not None:
        found |= {"precision": work.precision.compute, "attention_backend": work.attention.value if work.attention else ""}
    mesh = plan.mesh
    found |= {
        "seq": str(case.sequence_length or ""), "gpus": str(plan.devices), "tp": str(mesh.tensor), "pp": str(plan.pipeline),
        "vpp": str(plan.interleave), "dp": str(mesh.data), "cp": str(mesh.context), "ep": str(mesh.expert),
        "zero_stage": str(plan.zero), "recompute": plan.recompute.value, "sequence_parallel": str(plan.sequence_parallel),
        "schedule": plan.schedule.value, "mbs": str(plan.microbatch), "gbs": str(plan.global_batch),
        "optimizer": stated.optimizer.name or "" if stated is not None and stated.optimizer is not None else "",
        "status": "ok", "source": source,
    }  # fmt: skip
    for row in comparison.rows:
        if row.key == "step_time":
            found["step_time_s"] = f"{row.measured:.6g}"
        for kind, column in (("allocated", "mem_allocated_gib"), ("reserved", "mem_reserved_gib"), ("device", "peak_mem_gib")):
            if row.key == f"{kind}_memory":
                largest = max(float(found[column] or 0), row.measured / 2**30)
                found[column] = f"{largest:.6g}"
    return found


def calibration_csv(row: dict[str, str]) -> str:
    """One row under its heads. Cells that a spreadsheet would run as a formula get an apostrophe."""
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerow({key: f"'{value}" if value[:1] in "=+@" else value for key, value in row.items()})
    return file.getvalue()
