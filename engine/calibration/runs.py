"""Rows of the general layout: one run a row, its model, degrees, batch and time in named columns.

Needed: `model`, `layers`, `hidden`, `heads`, `seq`, `gpus`, `gpu_type`, `tp`, `pp`, `dp`, `mbs`, `gbs`, `step_time_s`. Units:
seconds, sequences, TFLOP/s. A time that is empty may stand as `step_time_s_derived`, from throughput. Other columns refine the
run; what is not stated and not a convention of the software leaves the row out.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ..hardware import Library
from ..model import Attention, Transformer, training_flops_per_token
from ..plan import Mesh, Recompute
from .case import Case, check_degrees, check_rate, cluster_of, device_of, gpt, plan_of, shape_of, workload_of
from .table import Rejected, Row

COLUMNS = ("model", "layers", "hidden", "heads", "seq", "gpus", "gpu_type", "tp", "pp", "dp", "mbs", "gbs", "step_time_s")

#: How far a stated TFLOP/s may lie from every way to count it before time and FLOPs contradict each other.
TOLERANCE = 0.2

_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?) *Gbps", re.IGNORECASE)


def software_of(row: Row) -> tuple[str, str]:
    """(family, what it was taken from): stated, or told by the source and by how states are sharded."""
    if stated := row.text("software"):
        return stated, ""
    source = f"{row.text('source_url_or_path')} {row.text('source')}".lower()
    for words, family in (
        (("bigscience", "megatron-deepspeed"), "megatron-deepspeed"),
        (("llm-foundry", "mosaic"), "fsdp"),
        (("nemo", "megatron-bridge"), "megatron-core"),
        (("megatron-lm",), "megatron-core"),
        (("vtrain",), "megatron-lm-2021"),
    ):
        if any(word in source for word in words):
            return family, f"software {family}, by the row's source"
    if row.text("zero_stage").startswith("3") or "fsdp" in row.text("zero_stage").lower():
        return "fsdp", "software fsdp, by its sharding"
    return "megatron-core", "software megatron-core, as nothing is stated"


def case_of(row: Row, library: Library) -> Case:
    """The run of a row. Rejected with its reason where it cannot be one."""
    if "not for step time" in row.text("note").lower():
        raise row.reject("not modelled: the row's note says its time is no training step's", "note", "its memory may be used")
    seconds = _seconds(row)
    software, said = software_of(row)
    assumed = [said] if said else []
    device = device_of(row, "gpu_type", library, row.text("gpu_mem_gb"))
    devices, tensor, pipeline = row.whole("gpus"), row.whole("tp"), row.whole("pp")
    context, expert = row.whole("cp", 1), row.whole("ep", 1)
    data = row.whole("dp")
    degrees = {"data": data, "tensor": tensor, "pipeline": pipeline} | ({"context": context} if context > 1 else {})
    check_degrees(row, devices, **degrees)
    sequence, batch, microbatch = row.whole("seq"), row.whole("gbs"), row.whole("mbs")
    model = _model(row, software, sequence)
    if expert > 1 and model.moe is None:
        raise row.reject("contradictory: experts of a dense model", "ep", "the model has no experts")
    zero = _zero(row)
    recompute = _recompute(row)
    interleave = row.whole("vpp", 1)
    if interleave == 1 and pipeline > 1 and not row.text("vpp"):
        assumed.append("no interleaving, as none is stated")
    compute = _compute(row)
    backend = row.text("attention_backend").lower()
    attention = None
    if backend:
        attention = Attention.UNFUSED if backend.startswith(("unfused", "local")) else Attention.FLASH
    else:
        assumed.append(f"attention kernel: as {software} runs it")
    workload = workload_of(software, sequence, batch, attention=attention, compute=compute)
    rate = _RATE.search(row.text("internode") or row.text("source_table"))
    source = row.text("source_url_or_path") or row.text("source")
    cluster, machine = cluster_of(
        row, device, devices, library, f"{source} {software}", row.whole("gpus_per_node", 0),
        float(rate[1]) / 8 * 1e9 if rate else 0.0,
    )  # fmt: skip
    assumed += [machine] if machine and devices > cluster.devices_per_node else []
    split = row.text("sequence_parallel").lower() in ("true", "yes", "1")
    plan = plan_of(
        row, model.layers, Mesh(data, tensor, context, expert), pipeline, microbatch, batch, interleave=interleave,
        recompute=recompute, zero=zero, sequence_parallel=split,
    )  # fmt: skip
    flops = float(training_flops_per_token(model, sequence, causal=False)) * batch * sequence
    peak = device.peak(workload.precision.compute) or device.peak("bf16") or device.peak("fp16")
    if peak is not None:
        check_rate(row, flops, seconds, devices, peak.value)
    _check_flops(row, model, flops / seconds / devices, recompute)
    date = re.search(r"\[(\d\d-\d\d)\]", row.text("source_table"))
    group = row.text("group") or f"{software}/{device.name}/h{model.hidden}"
    sweep = (model.layers, model.hidden, model.heads, sequence, batch, devices, device.name, software, date[1] if date else "")
    return Case(
        row,
        model,
        workload,
        cluster,
        plan,
        seconds,
        device.name,
        software,
        _source(source, device.name),
        group,
        sweep,
        tuple(assumed),
    )


def _source(source: str, device: str) -> str:
    """The repository that a row is from, and the device: what one interval or mean is of."""
    found = re.search(r"github\.com/[^/ ]+/[^/ #]+", source)
    return f"{found[0] if found else source.split(' ')[0] or 'no source'} on {device}"


def _seconds(row: Row) -> float:
    if row.text("step_time_s") or not row.text("step_time_s_derived"):
        return row.number("step_time_s")
    return row.number("step_time_s_derived")


def _model(row: Row, software: str, sequence: int) -> Transformer:
    layers_stated = row.text("layers")
    if not row.text("hidden"):
        known = shape_of(row.text("model"))
        if known is None:
            raise row.reject("incomplete: layers is not stated", "layers", "nor is the model's name a known one")
        return replace(known, layers=row.whole("layers")) if layers_stated else known
    if row.text("num_experts"):
        raise row.reject("not modelled: experts stated by column", "num_experts", "the routed widths are not all stated")
    layers, hidden, heads = row.whole("layers"), row.whole("hidden"), row.whole("heads")
    return gpt(row, layers, hidden, heads, _vocabulary(row), sequence, ffn=row.whole("ffn", 4 * hidden))


def _vocabulary(row: Row) -> int:
    """The whole number that the cell begins with; `250k` is 250,000."""
    text = row.text("vocab")
    found = re.match(r"(\d+)(k?)(?![\w.])", text)
    if found is None:
        raise row.reject(
            "incomplete: vocab is not stated" if not text else "not a number: vocab", "vocab", "a vocabulary is needed"
        )
    return int(found[1]) * (1000 if found[2] else 1)


def _zero(row: Row) -> int:
    text = row.text("zero_stage").lower()
    if not text:
        return 0
    if "fsdp" in text:
        return 3
    if text[0] not in "0123" or text[1:2].isdigit():
        raise row.reject("out of range: zero_stage", "zero_stage", "0, 1, 2 or 3 is needed")
    return int(text[0])


def _recompute(row: Row) -> Recompute:
    text = row.text("recompute").lower()
    if not text:
        raise row.reject("incomplete: recompute is not stated", "recompute", "none, selective or full is needed")
    for kind in Recompute:
        if text.startswith(kind.value):
            if "[" in text:
                raise row.reject(
                    "not modelled: recomputation of chosen modules", "recompute", "none, selective or full is priced"
                )
            return kind
    raise row.reject("not a word: recompute", "recompute", "none, selective or full is needed")


def _compute(row: Row) -> str:
    text = row.text("precision").lower()
    for name in ("fp8", "bf16", "fp16", "tf32", "fp32"):
        if name in text and not (name == "bf16" and text.startswith("fp16")):
            return name
    if not text:
        raise row.reject("incomplete: precision is not stated", "precision", "a number format is needed")
    raise row.reject("not a word: precision", "precision", "fp8, bf16, fp16, tf32 or fp32 is needed")


def _check_flops(row: Row, model: Transformer, rate: float, recompute: Recompute) -> None:
    """Rejected where a stated TFLOP/s fits the time under no way to count: with or without attention, head, recomputation."""
    if not row.text("tflops_per_gpu"):
        return
    stated = row.number("tflops_per_gpu") * 1e12
    whole = [1.0] if recompute is Recompute.NONE else [1.0, 4 / 3]
    h, layers, s = model.hidden, model.layers, row.whole("seq")
    dense = 72 * layers * h * h
    counted = dense + 12 * layers * h * s + 6 * h * model.vocabulary
    parts = [counted, counted - 12 * layers * h * s, dense, dense + 12 * layers * h * s]
    if model.moe is not None or model.gated:
        return
    ratios = [stated / (rate * part / counted * factor) for part in parts for factor in whole]
    if all(abs(ratio - 1) > TOLERANCE for ratio in ratios):
        nearest = min(ratios, key=lambda ratio: abs(ratio - 1))
        raise row.reject("contradictory: FLOPs and time", "tflops_per_gpu", f"{nearest:.2f} of what step time and shapes give")


def check_exchanged(cases: list[Case]) -> list[tuple[Case, Rejected]]:
    """Rows whose time and TFLOP/s stand exchanged in another row of the same run."""
    found = []
    pairs = {(case.identity, case.seconds, case.row.text("tflops_per_gpu")): case for case in cases}
    for case in cases:
        text = case.row.text("tflops_per_gpu")
        if not text or not text.replace(".", "").isdigit():
            continue
        other = pairs.get((case.identity, float(text), case.row.text("step_time_s")))
        if other is not None and other.row.line < case.row.line and other.row is not case.row:
            detail = f"{case.row.where('step_time_s')}: line {other.row.line} has the two the other way round"
            found.append((case, Rejected("contradictory: time and TFLOP/s exchanged", detail)))
    return found
