"""Our own table of measured memory: one row a case, flat, each with its source; written from cases and read back as cases.

`bench/data/memory_runs.csv` is such a table. What the rows of a public source leave implicit (a tokenizer's vocabulary, the MLP
rule) stands here in figures. Recognised by `implementation` and `allocated_bytes`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from ..cost.activations import Loss
from ..cost.memory_terms import GradientCopy, Implementation
from ..model import Attention, LatentAttention, MixtureOfExperts, Optimizer, Precision, Transformer, Workload
from ..plan import Mesh, Plan, Recompute, Schedule, Stage
from .memory_case import Case, Kind, LeftOut, Quantity, Row, Table, device_of, number, text

COLUMNS = (
    "source", "group", "family", "software", "device", "model", "workload", "plan", "layers_by_stage", "implementation", "stages",
    "allocated_bytes", "reserved_bytes", "device_bytes", "step_end_bytes", "status", "declared",
)  # fmt: skip
_MEASURED: tuple[Quantity, ...] = ("allocated", "reserved", "device")


def _words(thing: Transformer | Implementation | MixtureOfExperts | LatentAttention) -> str:
    """`name=value` of every field, those at their default left out."""
    parts = []
    for field in fields(thing):
        value = getattr(thing, field.name)
        if value != field.default:
            inner = isinstance(value, MixtureOfExperts | LatentAttention)
            parts.append(f"{field.name}={f'({_words(value)})' if inner else value}")
    return " ".join(parts)


def _values(words: str) -> dict[str, str]:
    found: dict[str, str] = {}
    while words:
        name, _, rest = words.partition("=")
        if rest.startswith("("):
            end = rest.index(")")
            found[name.strip()], words = rest[1:end], rest[end + 1 :].strip()
        else:
            value, _, words = rest.partition(" ")
            found[name.strip()] = value
    return found


def _whole(value: str) -> int | None:
    return None if value == "None" else int(value)


def write_runs(cases: Iterable[tuple[str, Case]]) -> str:
    """The table of `(source, case)` as CSV text."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for source, case in cases:
        model, work, plan, mesh = case.model, case.workload, case.plan, case.plan.mesh
        precision = work.precision
        workload = (
            f"sequence={work.sequence_length} global_batch={work.global_batch} parameters={precision.parameters} "
            f"gradients={precision.gradients} attention={work.attention} dropout={work.dropout}"
        )
        words = (
            f"data={mesh.data} tensor={mesh.tensor} context={mesh.context} expert={mesh.expert} "
            f"expert_tensor={mesh.expert_tensor} microbatch={plan.microbatch} accumulation={plan.accumulation} "
            f"schedule={plan.schedule.value} interleave={plan.interleave} recompute={plan.recompute.value} zero={plan.zero} "
            f"sequence_parallel={plan.sequence_parallel}"
        )
        measured = [case.measured.get(quantity) for quantity in _MEASURED]
        writer.writerow([
            source, case.group, case.family, case.software, case.device.name, _words(model), workload, words,
            " ".join(str(stage.layers) for stage in plan.stages), _words(case.implementation),
            " ".join(str(stage) for stage in case.stages), *(round(value) if value else "" for value in measured),
            round(case.step_end) if case.step_end else "", "ok" if case.ran else "oom", case.declared,
        ])  # fmt: skip
    return out.getvalue()


def _typed(words: str) -> dict[str, Any]:
    """Every value as what it reads as: a flag, a whole number, a number, or a word."""
    found: dict[str, Any] = {}
    for name, value in _values(words).items():
        if value in ("True", "False"):
            found[name] = value == "True"
        elif value == "None":
            found[name] = None
        else:
            try:
                found[name] = int(value) if value.lstrip("-").isdigit() else float(value)
            except ValueError:
                found[name] = value
    return found


def _model(words: str) -> Transformer:
    values = _typed(words)
    moe, latent = values.pop("moe", None), values.pop("latent", None)
    return Transformer(
        **values,
        moe=MixtureOfExperts(**_typed(moe)) if moe else None,
        latent=LatentAttention(**_typed(latent)) if latent else None,
    )


def _implementation(words: str) -> Implementation:
    values = _typed(words)
    copy, loss = values.pop("gradient_copy", None), values.pop("loss", None)
    return Implementation(
        gradient_copy=GradientCopy(copy) if copy else None, loss=Loss(loss) if loss else None, **values
    )


def run_case(row: Row, line: int) -> list[Case]:
    """The case of one row."""
    try:
        values = _values(text(row, "plan"))
        data, tensor, context, expert = (int(values[name]) for name in ("data", "tensor", "context", "expert"))
        mesh = Mesh(data, tensor, context, expert, _whole(values["expert_tensor"]))
        sizes = [int(size) for size in text(row, "layers_by_stage").split()]
        stages = tuple(
            Stage(sum(sizes[:k]), sum(sizes[: k + 1]) - 1, mesh, k == 0, k == len(sizes) - 1) for k in range(len(sizes))
        )
        plan = Plan(
            "measured", stages, int(values["microbatch"]), int(values["accumulation"]), schedule=Schedule(values["schedule"]),
            interleave=int(values["interleave"]), recompute=Recompute(values["recompute"]), zero=int(values["zero"]),
            sequence_parallel=values["sequence_parallel"] == "True",
        )  # fmt: skip
        work = _values(text(row, "workload"))
        precision = Precision(work["parameters"], work["gradients"], "fp32", "fp32")
        attention = None if work["attention"] == "None" else Attention(work["attention"])
        workload = Workload(
            int(work["sequence"]),
            int(work["global_batch"]),
            precision,
            Optimizer("adam", 2),
            attention,
            dropout=float(work["dropout"]),
        )
        model, implementation = _model(text(row, "model")), _implementation(text(row, "implementation"))
    except (KeyError, ValueError, TypeError) as why:
        raise LeftOut("model, workload, plan or implementation cannot be read", "plan", str(why)[:60]) from None
    measured: dict[Quantity, float] = {q: number(row, f"{q}_bytes") for q in _MEASURED if text(row, f"{q}_bytes")}
    end = number(row, "step_end_bytes") if text(row, "step_end_bytes") else None
    return [
        Case(
            line=line,
            group=text(row, "group"),
            family=text(row, "family"),
            model=model,
            workload=workload,
            plan=plan,
            device=device_of(text(row, "device"), column="device"),
            implementation=implementation,
            stages=tuple(int(stage) for stage in text(row, "stages").split()),
            measured=measured,
            ran=text(row, "status") != "oom",
            declared=text(row, "declared") == "True",
            step_end=end,
            software=row.get("software", "").strip(),
        )
    ]


def _cases(table: Table) -> Iterator[tuple[int, list[Case] | LeftOut]]:
    for line, row in enumerate(table.rows, start=2):
        try:
            yield line, run_case(row, line)
        except LeftOut as why:
            yield line, why


KIND = Kind("our own table of runs", frozenset({"implementation", "allocated_bytes", "plan"}), _cases)
