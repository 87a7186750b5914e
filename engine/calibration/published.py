"""Rows of layouts of their own: vTrain iteration times, the Megatron papers' tables, SimuMax runs.

Each layout is known by its columns. What a layout never states is a convention of what it was published for and is listed with
each case: vTrain ran Megatron-LM with full recomputation on A100; the tables name their hardware in words; SimuMax names a
model and its layers.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ..hardware import Library
from ..model import Attention, training_flops_per_token
from ..plan import Mesh, Recompute
from .case import Case, check_degrees, check_rate, cluster_of, device_of, gpt, plan_of, shape_of, workload_of
from .table import Rejected, Row

VTRAIN = ("params_b", "gpus", "gbs", "mbs", "hidden", "heads", "layers", "seq", "tp", "dp", "pp", "measured_ms")
VTRAIN_NODE = (
    "gpus", "global_batch", "micro_batch", "hidden", "heads", "layers", "seq", "tp", "dp", "pp", "measured_iter_ms",
)  # fmt: skip
PAPER = (
    "model", "hidden", "layers", "heads", "seq", "vocab", "gpus", "tp", "pp", "dp", "mbs", "gbs", "recompute", "hardware",
    "metric", "unit", "value",
)  # fmt: skip
SIMUMAX = ("case", "model", "layer_num", "mbc", "real_ms", "case_tp", "case_pp", "case_dp")

_FULL = "full recomputation, vocabulary 51,200 and fp16, as published with these runs"


def vtrain(row: Row, library: Library) -> Case:
    """An iteration time of vTrain; the columns of a single node have other names and the same meaning."""
    single = "measured_iter_ms" in row.cells
    batch_column, micro_column, time_column = (
        ("global_batch", "micro_batch", "measured_iter_ms") if single else ("gbs", "mbs", "measured_ms")
    )
    seconds = row.number(time_column) / 1e3
    devices, tensor, data, pipeline = (row.whole(name) for name in ("gpus", "tp", "dp", "pp"))
    check_degrees(row, devices, data=data, tensor=tensor, pipeline=pipeline)
    sequence, batch, micro = row.whole("seq"), row.whole(batch_column), row.whole(micro_column)
    model = gpt(row, row.whole("layers"), row.whole("hidden"), row.whole("heads"), 51200, sequence)
    named = row.text("gpu_type") or "A100-80GB"
    device = device_of(Row(row.file, row.line, {"gpu_type": named}), "gpu_type", library, row.text("gpu_mem_gb"))
    software = "megatron-lm-2021"
    workload = workload_of(software, sequence, batch)
    cluster, machine = cluster_of(row, device, devices, library, "vtrain")
    plan = plan_of(row, model.layers, Mesh(data, tensor), pipeline, micro, batch, recompute=Recompute.FULL)
    _plausible(row, model, sequence, batch, seconds, devices, device)
    size = f"{model.layers} x {model.hidden}"
    group = f"vtrain/{size}" if not single else f"vtrain node/tp{tensor}"
    sweep = (model.layers, model.hidden, sequence, batch, devices, device.name, "vtrain")
    source = f"vTrain{' single node' if single else ''} on {device.name}"
    return Case(row, model, workload, cluster, plan, seconds, device.name, software, source, group, sweep, (_FULL, machine))


def paper(row: Row, library: Library) -> Case:
    """A run of the Megatron papers' tables. Closed forms, utilisation that repeats a time, and single layers are left out."""
    metric, unit = row.text("metric").lower(), row.text("unit")
    if "closed form" in metric:
        raise row.reject("closed form, not measured", "metric", "compared apart")
    if "per layer" in metric:
        raise row.reject("not a step: time of a layer", "metric", "a step time is needed")
    year = re.search(r"20\d\d", row.text("paper"))
    if "utilization" in metric:
        if row.text("table").lower() != "abstract" or not row.text("derived_iteration_s"):
            raise row.reject("repeats another row as utilisation", "metric", "the same run stands with its time")
        seconds = row.number("derived_iteration_s")
    elif "iteration time" in metric:
        if unit not in ("s", "ms"):
            raise row.reject("another unit: value", "unit", "s or ms is needed")
        seconds = row.number("value") / (1e3 if unit == "ms" else 1.0)
    elif "throughput" in metric:
        if unit != "TFLOP/s":
            raise row.reject("another unit: value", "unit", "TFLOP/s is needed")
        row.number("value")
        seconds = row.number("derived_iteration_s")
    else:
        raise row.reject("not modelled: metric", "metric", "an iteration time or a throughput is needed")
    devices, tensor, pipeline, data = (row.whole(name) for name in ("gpus", "tp", "pp", "dp"))
    check_degrees(row, devices, data=data, tensor=tensor, pipeline=pipeline)
    if not row.text("interleave_v"):
        raise row.reject("incomplete: interleave_v is not stated", "interleave_v", "the number of chunks is needed")
    sequence, batch = row.whole("seq"), row.whole("gbs")
    model = gpt(row, row.whole("layers"), row.whole("hidden"), row.whole("heads"), row.whole("vocab"), sequence)
    name = re.match(r"[A-Za-z0-9]+(?:-[0-9]+GB)?", row.text("hardware"))
    device = device_of(Row(row.file, row.line, {"hardware": name[0] if name else ""}), "hardware", library)
    kind = row.text("recompute").lower()
    if kind not in {one.value for one in Recompute}:
        raise row.reject("not a word: recompute", "recompute", "none, selective or full is needed")
    software = "megatron-lm-2021" if year and year[0] < "2022" else "megatron-lm"
    workload = workload_of(software, sequence, batch)
    cluster, machine = cluster_of(row, device, devices, library, "selene")
    plan = plan_of(
        row, model.layers, Mesh(data, tensor), pipeline, row.whole("mbs"), batch, interleave=row.whole("interleave_v"),
        recompute=Recompute(kind), zero=0, sequence_parallel=row.text("sequence_parallel").lower() == "yes",
    )  # fmt: skip
    _plausible(row, model, sequence, batch, seconds, devices, device)
    band = "small" if devices <= 128 else "middle" if devices <= 1024 else "large"
    group = f"{software}/{model.hidden}" if software == "megatron-lm" else f"{software}/{band}"
    sweep = (model.layers, model.hidden, sequence, batch, devices, device.name, software)
    source = f"Megatron-LM tables {year[0] if year else ''} on {device.name}"
    return Case(row, model, workload, cluster, plan, seconds, device.name, software, source, group, sweep, (machine,))


def simumax(row: Row, library: Library) -> Case:
    """A run of SimuMax: `mbc` microbatches of one sequence of 4,096 tokens, nothing recomputed, ZeRO 1, bf16."""
    seconds = row.number("real_ms") / 1e3
    found = shape_of(row.text("model"))
    if found is None:
        raise row.reject("incomplete: the model's shapes are not known", "model", "no shapes of this name")
    layers = row.whole("case_layers" if row.text("case_layers") else "layer_num")
    model = replace(found, layers=layers)
    if model.moe is not None and model.moe.first_dense >= layers:
        raise row.reject("contradictory: no layer left for experts", "layer_num", "the first layers are dense")
    tensor, pipeline, data, expert = (row.whole(name, 1) for name in ("case_tp", "case_pp", "case_dp", "case_ep"))
    context = row.whole("case_cp", 1)
    named = re.search(r"([abh]\d{2,3}x?|mi\d{3}x?)(?![a-z0-9])", row.text("system_rel").replace("_", " ").lower())
    if not row.text("gpu_type") and named is None:
        raise row.reject("incomplete: device is not stated", "system_rel", "a device type is needed")
    cells = {"device": row.text("gpu_type") or (named[1] if named else "")}
    device = device_of(Row(row.file, row.line, cells), "device", library)
    devices = tensor * pipeline * data * context
    if row.text("gpus"):
        check_degrees(row, row.whole("gpus"), data=data, tensor=tensor, pipeline=pipeline, context=context)
    sequence = row.whole("case_seq", 4096)
    batch = row.whole("mbc") * data
    software = "megatron-core"
    workload = workload_of(software, sequence, batch, attention=Attention.FLASH)
    cluster, machine = cluster_of(row, device, devices, library)
    plan = plan_of(
        row, layers, Mesh(data, tensor, context, expert), pipeline, 1, batch, interleave=row.whole("vp_size", 1), zero=1,
        sequence_parallel=tensor > 1,
    )  # fmt: skip
    _plausible(row, model, sequence, batch, seconds, devices, device)
    assumed = ("microbatch 1, sequence 4,096, nothing recomputed, ZeRO 1, sequence parallel: not in the columns", machine)
    group = f"simumax/{model.name}/tp{tensor} pp{pipeline}"
    sweep = (model.name, layers, row.whole("mbc"), device.name)
    return Case(
        row, model, workload, cluster, plan, seconds, device.name, software, f"SimuMax on {device.name}", group, sweep, assumed
    )


def _plausible(row: Row, model: object, sequence: int, batch: int, seconds: float, devices: int, device: object) -> None:
    from ..hardware import DeviceSheet
    from ..model import Transformer

    assert isinstance(model, Transformer)
    assert isinstance(device, DeviceSheet)
    flops = float(training_flops_per_token(model, sequence, causal=True)) * batch * sequence
    peak = device.peak("bf16") or device.peak("fp16")
    if peak is None:
        raise Rejected("not modelled: no peak rate of the device", f"{row.file}, line {row.line}: {device.name}")
    check_rate(row, flops, seconds, devices, peak.value)
