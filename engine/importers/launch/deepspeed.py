"""A DeepSpeed configuration: batch, precision, ZeRO stage and optimizer. Degrees of model parallelism are not in it.

Keys and defaults were read off deepspeed/runtime/config.py and deepspeed/runtime/zero/config.py at edaa72212. `auto` is a value
that the Hugging Face trainer fills in from its own arguments: it stays open.
"""

from __future__ import annotations

from typing import Final

from ...errors import InputError
from .draft import PLAN, Draft, finish, full_precision, mixed_precision
from .entries import Entries, Entry, Open
from .parts import Launch
from .presets import set_aside
from .settings import put_settings
from .sources import SourceFile, not_this

KIND: Final = "deepspeed"
SOURCE: Final = "DeepSpeed edaa72212, deepspeed/runtime/config.py"
#: Any of these makes a JSON file a DeepSpeed configuration.
SIGNS: Final = frozenset(
    {
        "zero_optimization",
        "train_micro_batch_size_per_gpu",
        "train_batch_size",
        "gradient_accumulation_steps",
        "zero_allow_untested_optimizer",
    }
)


def recognises(file: SourceFile) -> bool:
    """Whether a JSON (or YAML) file is a DeepSpeed configuration."""
    if file.form == "json" and _generates(file):
        return True
    if file.form not in ("json", "yaml") or {"distributed_type", "base_model"} & file.top.keys():
        return False
    return bool(SIGNS & file.top.keys()) and (
        "num_layers" not in file.top and "num-layers" not in file.top and "pipe_parallel_size" not in file.top
        and "pipe-parallel-size" not in file.top and not {"train_iters", "train-iters"} & file.top.keys()
    )  # fmt: skip


def _generates(file: SourceFile) -> bool:
    """Whether a JSON file configures DeepSpeed's inference engine."""
    return bool({"replace_with_kernel_inject", "kernel_inject", "max_out_tokens"} & file.top.keys())


def read(file: SourceFile) -> Launch:
    """Read a DeepSpeed configuration."""
    if file.form == "json" and _generates(file):
        raise InputError(
            "This is a configuration of DeepSpeed's inference engine, not for training.", place=file.start,
            code="launch.inference", remedy="Give the training configuration; inference is not modelled.",
        )  # fmt: skip
    if not recognises(file):
        from .detect import kind_of

        raise not_this(file, KIND, kind_of(file), "'zero_optimization', 'train_batch_size' or 'train_micro_batch_size_per_gpu'")
    d = Draft(file.start, SOURCE)
    e = Entries(automatic(file.entries()))
    read_entries(e, d)
    put_settings(d, e)
    d.assume("/proposal/framework/name", "deepspeed", "the file's kind")
    close(e)
    return Launch(
        KIND,
        file.name,
        file.sha256,
        "deepspeed",
        tuple(d.parts.values()),
        tuple(e.uses()),
        tuple(d.gaps),
        tuple(d.notes),
        file.source.text,
    )


def automatic(entries: list[Entry]) -> list[Entry]:
    """The entries with `auto` as open."""
    why = "it is 'auto': the trainer fills it in from its own arguments"
    return [Entry(e.key, Open(why), e.place) if e.value == "auto" else e for e in entries]


def close(e: Entries) -> None:
    """Set aside what decides nothing."""
    set_aside(e, KIND)


def read_entries(e: Entries, d: Draft) -> None:
    """What the keys say, into a draft that may already hold a script's arguments."""
    batch, micro = e.integer("train_batch_size"), e.integer("train_micro_batch_size_per_gpu", limit=10**6)
    steps = e.integer("gradient_accumulation_steps")
    total = d.known("/workload/global_batch", batch)
    if isinstance(total, int) and batch is not None:
        d.put("/workload/global_batch", f"{total} sequences", batch[1])
    d.keep(f"{PLAN}/microbatch", micro)
    accumulation = d.keep(f"{PLAN}/accumulation", steps)
    if steps is None and batch is None and micro is not None:
        d.assume(
            f"{PLAN}/accumulation", 1, "one microbatch a step where neither the batch nor 'gradient_accumulation_steps' is stated"
        )
    _precision(e, d)
    _zero(e, d)
    optimizer = e.word("optimizer.type")
    name = d.known("/workload/optimizer/name", optimizer)
    if isinstance(name, str) and optimizer is not None:
        d.put("/workload/optimizer/name", _optimizer(name), optimizer[1])
    elif optimizer is None:
        d.leave("/workload/optimizer/name", "the script gives the optimizer, or the trainer does")
    d.leave(f"{PLAN}/recompute", "whether activations are recomputed is decided in the model's code")
    for axis, names in (
        ("tensor", ("tensor_parallel.autotp_size", "tensor_parallel.tp_size")),
        ("context", ("sequence_parallel_size",)),
    ):
        taken = e.integer(*names, limit=10**6)
        if taken is not None and taken[0] != 0:
            d.keep(f"{PLAN}/uniform/{axis}", taken)
    data = None
    if (
        isinstance(total, int)
        and micro is not None
        and isinstance(micro[0], int)
        and isinstance(accumulation, int)
        and batch is not None
    ):
        if micro[0] * accumulation and total % (micro[0] * accumulation) == 0:
            data = (total // (micro[0] * accumulation), batch[1])
        else:
            d.note(
                f"'train_batch_size' {total} is no multiple of 'train_micro_batch_size_per_gpu' {micro[0]} x "
                f"'gradient_accumulation_steps' {accumulation}: the framework refuses this",
                batch[1].place,
            )
    finish(d, data=data)
    d.assume(f"{PLAN}/sequence_parallel", False, "a data-parallel engine has no tensor-parallel group to split sequences over")


def _precision(e: Entries, d: Draft) -> None:
    base = "/workload/precision"
    bf16, fp16 = e.flag("bf16.enabled", "bfloat16.enabled"), e.flag("fp16.enabled", "fp16")
    accumulated, scale = e.word("data_types.grad_accum_dtype"), e.number("fp16.loss_scale")
    open_flags = [flag for flag in (bf16, fp16) if flag is not None and isinstance(flag[0], Open)]
    chosen = next(
        ((dtype, flag[1]) for flag, dtype in ((bf16, "bf16"), (fp16, "fp16")) if flag is not None and flag[0] is True), None
    )
    if chosen is None and open_flags:
        d.keep(f"{base}/parameters", open_flags[0])
        for role in ("gradients", "master", "moments"):
            d.leave(f"{base}/{role}", "it follows from the dtype of the parameters", open_flags[0][1].place)
        return
    if chosen is None:
        full_precision(d, "fp32 unless 'bf16' or 'fp16' is enabled")
        return
    if accumulated is not None and isinstance(accumulated[0], str):
        d.put(f"{base}/gradients", {"fp32": "fp32", "bf16": "bf16", "fp16": "fp16"}.get(accumulated[0], "fp32"), accumulated[1])
    mixed_precision(d, chosen[1], chosen[0], gradients=chosen[0], why=f"gradients are kept in {chosen[0]}, as the parameters are")
    if chosen[0] == "fp16":
        static = scale is not None and isinstance(scale[0], float) and scale[0] > 0
        if static and scale is not None:
            d.put("/workload/loss_scaling", "static", scale[1])
        elif scale is not None:
            d.put("/workload/loss_scaling", "dynamic", scale[1])
        else:
            d.assume("/workload/loss_scaling", "dynamic", "'loss_scale' is 0, which is dynamic, by default")


def _zero(e: Entries, d: Draft) -> None:
    path = f"{PLAN}/zero"
    stage = e.integer("zero_optimization.stage", limit=3)
    if e.peek("zero_optimization") is not None:
        e.take("zero_optimization")
    if d.keep(path, stage) is None:
        d.assume(path, 0, "ZeRO is off by default")
    for name, what in (
        ("zero_optimization.offload_optimizer.device", "optimizer states"),
        ("zero_optimization.offload_param.device", "parameters"),
        ("zero_optimization.cpu_offload", "optimizer states"),
    ):  # fmt: skip
        entry = e.take(name)
        if entry is not None and entry.value not in ("none", False, None):
            d.note(
                f"'{name}' keeps {what} off the device ({entry.value}): offloading is not modelled, so memory is over-estimated",
                entry.place,
            )
    hpz = e.integer("zero_optimization.zero_hpz_partition_size")
    if hpz is not None and isinstance(hpz[0], int) and hpz[0] > 1:
        d.note(f"'{hpz[1].key}': parameters have a second copy in each group of {hpz[0]}, which is not modelled", hpz[1].place)


def _optimizer(name: str) -> str:
    text = name.lower().replace("_", "")
    for known in ("adamw", "adam", "lamb", "lion", "muon"):
        if known in text:
            return known
    return "sgd" if text == "sgd" else name.lower()
