"""Rows of BigScience's logs: GPT runs of Megatron-LM (2021) rank by rank, and sweeps of Megatron-DeepSpeed by nvidia-smi.

The first are recognised by `rank` and `max_reserved_gib`, the second by `mem_smi_gb`. Both recompute every layer, in fp16
unless the row says bf16; attention is unfused, dropout 0.1, the head is the embedding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ..cost.memory_terms import GradientCopy
from ..hardware import DeviceSheet
from ..model import Attention, Optimizer, Precision, Transformer, Workload
from ..plan import Mesh, Plan, Recompute
from .memory_case import (
    GIB,
    MEGATRON,
    MIB,
    Case,
    Kind,
    LeftOut,
    Quantity,
    Row,
    Table,
    accumulation_of,
    count,
    device_of,
    number,
    text,
    uniform_plan,
)

_FP16 = Precision("fp16", "fp16", "fp32", "fp32")
_BF16 = Precision("bf16", "fp32", "fp32", "fp32")
_ADAM = Optimizer("adam", 2)
#: GPT-2's tokenizer, where a row states no vocabulary.
_VOCABULARY = 50257
_RAN_OUT = re.compile(r"out of memory|\boom\b", re.IGNORECASE)


def _gpt(row: Row, heads: int, vocabulary: int) -> Transformer:
    hidden = count(row, "hidden")
    return Transformer(
        layers=count(row, "layers"), hidden=hidden, heads=heads, kv_heads=heads, head_dim=max(1, hidden // heads),
        ffn=count(row, "ffn", 4 * hidden), vocabulary=vocabulary, gated=False, tied_embeddings=True, norm="layer",
        learned_positions=count(row, "seq"), attention_bias=True, output_bias=True, mlp_bias=True,
    )  # fmt: skip


def _plan(row: Row, model: Transformer, zero: int) -> Plan:
    data, tensor, pipeline = count(row, "dp"), count(row, "tp"), count(row, "pp")
    context = count(row, "cp", 1)
    if data * tensor * pipeline * context != count(row, "gpus"):
        raise LeftOut("tp x pp x cp x dp is not gpus", "gpus", row["gpus"])
    if not text(row, "recompute").startswith("full"):
        raise LeftOut("recompute is not stated as full", "recompute", row["recompute"])
    microbatch = count(row, "mbs")
    accumulation = accumulation_of(count(row, "gbs"), microbatch, data)
    mesh = Mesh(data, tensor, context)
    return uniform_plan(model, mesh, pipeline, microbatch, accumulation, recompute=Recompute.FULL, zero=zero)


def _v100(row: Row, reserved: float) -> DeviceSheet:
    """The device; where its memory is stated as one of several, the smallest that holds what the rank reserved."""
    sizes = re.findall(r"\d+", text(row, "gpu_mem_gb").split("(")[0])
    for size in sizes:
        sheet = device_of(text(row, "gpu_type"), size)
        if sheet.capacity.value >= reserved:
            return sheet
    raise LeftOut("no stated device memory holds what was reserved", "gpu_mem_gb", row["gpu_mem_gb"])


def rank_case(row: Row, line: int) -> list[Case]:
    """One rank of a run: peak allocated, peak reserved, and what is allocated after a step."""
    if not (text(row, "rank") and text(row, "peak_mem_raw")):
        raise LeftOut("the row holds no memory", "peak_mem_raw")
    if text(row, "precision") != "fp16":
        raise LeftOut("not modelled: precision", "precision", row["precision"])
    allocated, reserved = number(row, "peak_mem_gib") * GIB, number(row, "max_reserved_gib") * GIB
    stated = re.search(r"max allocated ([0-9.]+) MB", text(row, "peak_mem_raw"))
    if stated and abs(float(stated[1]) * MIB / allocated - 1) > 0.001:  # this log's MB are MiB
        raise LeftOut("peak_mem_gib and peak_mem_raw differ", "peak_mem_gib", row["peak_mem_gib"])
    model = _gpt(row, count(row, "heads"), count(row, "vocab", _VOCABULARY))
    plan = _plan(row, model, int(text(row, "zero_stage")[:1] or 0))
    rank = int(number(row, "rank")) if text(row, "rank") != "0" else 0
    stage = rank // (plan.mesh.tensor * plan.mesh.data)
    if stage >= plan.pipeline:
        raise LeftOut("rank is beyond the devices", "rank", row["rank"])
    workload = Workload(count(row, "seq"), count(row, "gbs"), _FP16, _ADAM, Attention.UNFUSED, dropout=0.1)
    end = number(row, "mem_allocated_gib") * GIB if text(row, "mem_allocated_gib") else None
    measured: dict[Quantity, float] = {"allocated": allocated, "reserved": reserved}
    return [
        Case(
            line=line,
            group=text(row, "model"),
            family="fp16 ranks",
            model=model,
            workload=workload,
            plan=plan,
            device=_v100(row, reserved),
            implementation=replace(MEGATRON, gradient_copy=GradientCopy.TWICE),
            stages=(stage,),
            measured=measured,
            step_end=end,
            software="megatron-lm-2021",
        )
    ]


def _vocabulary(row: Row) -> int:
    found = re.match(r"(\d+)\s*k\b", text(row, "vocab"))
    if found:
        return 1000 * int(found[1])
    return count(row, "vocab")


def sweep_case(row: Row, line: int) -> list[Case]:
    """One run of a sweep: the larger of the first and the last stage, as nvidia-smi shows it."""
    ran = not _RAN_OUT.search(text(row, "status"))
    if ran and not text(row, "mem_smi_gb"):
        raise LeftOut("the row holds no memory", "mem_smi_gb")
    if not ran and text(row, "mem_smi_gb"):
        raise LeftOut("ran out of memory, and a figure is stated", "mem_smi_gb")
    precision = {"fp16": _FP16, "bf16": _BF16}.get(text(row, "precision")[:4])
    if precision is None:
        raise LeftOut("not modelled: precision", "precision", row["precision"])
    if "SUSPECT" in text(row, "note") or "contradict" in text(row, "note").lower():
        raise LeftOut("the row's own note doubts it", "note")
    if text(row, "model").partition("-")[2].rstrip("B") not in ("", text(row, "params_b")):
        raise LeftOut("model and params_b differ", "params_b", row["params_b"])
    # Scores are worth a third of a percent under full recomputation, so an empty `heads` is taken as width 128.
    hidden = count(row, "hidden")
    model = _gpt(row, count(row, "heads", max(1, hidden // 128)), _vocabulary(row))
    size = 12 * model.layers * model.hidden**2
    if abs(size / (1e9 * number(row, "params_b")) - 1) > 0.15:
        raise LeftOut("layers and hidden do not make params_b", "params_b", row["params_b"])
    plan = _plan(row, model, int(text(row, "zero_stage")[:1] or 0))
    workload = Workload(count(row, "seq"), count(row, "gbs"), precision, _ADAM, Attention.UNFUSED, dropout=0.1)
    measured: dict[Quantity, float] = {"device": number(row, "mem_smi_gb") * 1e9} if ran else {}
    degrees = f"tp {plan.mesh.tensor} pp {plan.pipeline} dp {plan.mesh.data} mbs {plan.microbatch}"
    stages = tuple({0, plan.pipeline - 1})
    return [
        Case(
            line=line,
            group=f"{text(row, 'model')} {degrees}",
            family="device-visible",
            model=model,
            workload=workload,
            plan=plan,
            device=device_of(text(row, "gpu_type"), text(row, "gpu_mem_gb")),
            implementation=replace(MEGATRON, gradient_copy=GradientCopy.KEPT),
            stages=stages,
            measured=measured,
            ran=ran,
            software="megatron-deepspeed",
        )
    ]


def _ranks(table: Table) -> Iterator[tuple[int, list[Case] | LeftOut]]:
    for line, row in enumerate(table.rows, start=2):
        try:
            yield line, rank_case(row, line)
        except LeftOut as why:
            yield line, why


def _sweeps(table: Table) -> Iterator[tuple[int, list[Case] | LeftOut]]:
    found: list[tuple[int, list[Case] | LeftOut]] = []
    for line, row in enumerate(table.rows, start=2):
        try:
            found.append((line, sweep_case(row, line)))
        except LeftOut as why:
            found.append((line, why))
    yield from _contradictions(found)


def _contradictions(found: list[tuple[int, list[Case] | LeftOut]]) -> Iterator[tuple[int, list[Case] | LeftOut]]:
    """Twins, rows of one configuration, that differ by more than 10 % are left out, all of them."""
    measured: dict[object, list[float]] = {}
    for _, cases in found:
        if not isinstance(cases, LeftOut) and cases[0].ran:
            measured.setdefault(_configuration(cases[0]), []).append(cases[0].measured["device"])
    for line, cases in found:
        if not isinstance(cases, LeftOut) and cases[0].ran:
            twins = measured[_configuration(cases[0])]
            if max(twins) > 1.1 * min(twins):
                yield line, LeftOut("rows of the same configuration contradict each other", "mem_smi_gb")
                continue
        yield line, cases


def _configuration(case: Case) -> object:
    return case.model, case.plan.identity, case.workload.precision


RANKS = Kind("ranks of a run", frozenset({"rank", "max_reserved_gib", "peak_mem_gib"}), _ranks)
SWEEPS = Kind("a sweep by nvidia-smi", frozenset({"mem_smi_gb", "mbs", "gbs"}), _sweeps)
