"""Configurations of Hugging Face accelerate (FSDP, DeepSpeed, Megatron-LM) and of axolotl, which is started through it.

Keys and defaults: accelerate/utils/dataclasses.py at 16cb6eb80; axolotl's schema at 067b021c8. Neither holds the model's shapes:
axolotl names the model, whose config.json completes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ...errors import InputError
from .draft import PLAN, Draft, finish, fp8_products, full_precision, mixed_precision, schedule_of
from .entries import Entries, Entry, Open
from .parts import Launch
from .presets import set_aside
from .settings import put_settings
from .sources import SourceFile, not_this

KIND: Final = "accelerate"
SOURCE: Final = "accelerate 16cb6eb80, src/accelerate/utils/dataclasses.py"
AXOLOTL: Final = "axolotl 067b021c8, src/axolotl/utils/schemas"
UNIFORM: Final = f"{PLAN}/uniform"
_STRATEGY: Final = {
    "FULL_SHARD": 3,
    "1": 3,
    "SHARD_GRAD_OP": 2,
    "2": 2,
    "NO_SHARD": 0,
    "3": 0,
    "HYBRID_SHARD": 3,
    "4": 3,
    "HYBRID_SHARD_ZERO2": 2,
    "5": 2,
}


def recognises(file: SourceFile) -> bool:
    """Whether a YAML (or JSON) file is accelerate's or axolotl's."""
    if file.form not in ("yaml", "json"):
        return False
    top = file.top
    if "distributed_type" in top or "compute_environment" in top:
        return True
    return _is_axolotl(top)


def _is_axolotl(top: Mapping[str, object]) -> bool:
    return "base_model" in top and bool(
        {"micro_batch_size", "sequence_len", "datasets", "gradient_accumulation_steps"} & top.keys()
    )


def read(file: SourceFile) -> Launch:
    """Read a configuration of either."""
    if not recognises(file):
        from .detect import kind_of

        raise not_this(
            file, KIND, kind_of(file), "'distributed_type' (accelerate), or 'base_model' beside 'micro_batch_size' (axolotl)"
        )
    axolotl = _is_axolotl(file.top)
    d = Draft(file.start, AXOLOTL if axolotl else SOURCE)
    e = Entries(file.entries())
    for pointer, place in file.document.twice:
        d.note(f"'{pointer.rpartition('/')[2]}' is given twice: the later one counts", place)
    if axolotl:
        _axolotl(e, d)
    else:
        _accelerate(e, d)
    put_settings(d, e)
    if axolotl:
        set_aside(e, "axolotl")
        why = "an adapter's setting, without effect where no adapter is trained"
        e.set_aside({entry.key: why for entry in e if re.search(r"lora|adapter|peft", entry.key)})
    set_aside(e, KIND)
    name = "axolotl" if axolotl else "accelerate"
    return Launch(
        KIND,
        file.name,
        file.sha256,
        name,
        tuple(d.parts.values()),
        tuple(e.uses()),
        tuple(d.gaps),
        tuple(d.notes),
        file.source.text,
    )


def _mixed(d: Draft, word: str, entry: Entry, *, sharded: bool) -> None:
    """accelerate's mixed precision: fp32 parameters that are cast for each product; under FSDP fp32 shards."""
    dtype = {"bf16": "bf16", "fp16": "fp16", "fp8": "bf16"}.get(word.lower())
    if dtype is None:
        full_precision(d, "no mixed precision", entry)
        return
    if word.lower() == "fp8":
        fp8_products(d, entry)
    how = (
        "FSDP keeps fp32 shards and gathers them in 16 bits"
        if sharded
        else "parameters are kept in fp32 and cast for each product"
    )
    mixed_precision(d, entry, dtype, gradients="fp32", why=how)
    if dtype == "fp16":
        d.assume("/workload/loss_scaling", "dynamic", "fp16 scales the loss dynamically")


def _accelerate(e: Entries, d: Draft) -> None:
    kind = e.word("distributed_type")
    named = str(kind[0]).upper() if kind is not None and isinstance(kind[0], str) else "NO"
    precision = e.word("mixed_precision")
    word = d.known("/workload/precision/parameters", precision)
    if precision is None:
        d.leave("/workload/precision", "'mixed_precision' is not stated here: it is what the script asks for")
    elif isinstance(word, str):
        _mixed(d, word, precision[1], sharded=named == "FSDP")
    world, nodes = e.integer("num_processes", limit=10**9), e.integer("num_machines", limit=10**6)
    _stages(e, d, named)
    data = _axes(e, d)
    micro = e.integer("deepspeed_config.train_micro_batch_size_per_gpu", limit=10**6) if named == "DEEPSPEED" else None
    steps = e.integer("deepspeed_config.gradient_accumulation_steps", "gradient_accumulation_steps") or None
    d.keep(f"{PLAN}/microbatch", micro)
    d.keep(f"{PLAN}/accumulation", steps)
    d.leave(f"{PLAN}/microbatch", "the batch is the script's own") if micro is None else None
    if nodes is not None and world is not None and isinstance(nodes[0], int) and isinstance(world[0], int) and nodes[0] > 0:
        d.put("/cluster/nodes/count", nodes[0], nodes[1])
        if world[0] % nodes[0] == 0:
            d.put("/cluster/nodes/devices", world[0] // nodes[0], world[1])
    if world is not None and isinstance(world[0], int):
        if nodes is None:
            d.put("/cluster/devices/count", world[0], world[1])
        finish(d, world, data=data)
    else:
        finish(d, data=data)
    schedule_of(d)
    d.assume(f"{PLAN}/sequence_parallel", False, "there is no sequence parallelism unless Megatron-LM is asked for")
    d.assume("/proposal/framework/name", "accelerate", "the file's kind")


def _stages(e: Entries, d: Draft, named: str) -> None:
    """ZeRO stage and recompute by the engine that is asked for."""
    path = f"{PLAN}/zero"
    strategy = e.word("fsdp_config.fsdp_sharding_strategy")
    reshard = e.word("fsdp_config.fsdp_reshard_after_forward")
    e.take("fsdp_config.fsdp_version")
    recompute = e.flag("fsdp_config.fsdp_activation_checkpointing")
    offload = e.flag("fsdp_config.fsdp_offload_params")
    stage = e.integer("deepspeed_config.zero_stage", limit=3)
    file = e.word("deepspeed_config.deepspeed_config_file")
    if named == "FSDP":
        known = _STRATEGY.get(str(strategy[0])) if strategy is not None else None
        again = str(reshard[0]).lower() if reshard is not None else None
        if strategy is not None and known is not None:
            d.put(path, known, strategy[1])
        elif reshard is not None and again in ("true", "false"):
            d.put(path, 3 if again == "true" else 2, reshard[1])
        elif reshard is not None and again is not None and again.upper() in _STRATEGY:
            d.put(path, _STRATEGY[again.upper()], reshard[1])
        d.assume(path, 3, "FSDP shards fully by default")
        if recompute is not None and isinstance(recompute[0], bool):
            d.put(f"{PLAN}/recompute", "full" if recompute[0] else "none", recompute[1])
        d.assume(f"{PLAN}/recompute", "none", "'fsdp_activation_checkpointing' is false by default")
    elif named == "DEEPSPEED":
        if file is not None:
            d.note(f"'{file[1].key}' names DeepSpeed's own configuration: give it as a second file", file[1].place)
            d.leave(path, "it stands in DeepSpeed's own configuration", file[1].place)
        elif d.keep(path, stage) is None:
            d.assume(path, 2, "'zero_stage' is 2 by default")
        d.leave(f"{PLAN}/recompute", "whether activations are recomputed is decided in the script")
        for name in ("offload_optimizer_device", "offload_param_device"):
            entry = e.take(f"deepspeed_config.{name}")
            if entry is not None and entry.value not in ("none", None):
                d.note(f"'{entry.key}' is {entry.value}: offloading is not modelled, so memory is over-estimated", entry.place)
    elif named == "MEGATRON_LM":
        for axis, name in (("tensor", "megatron_lm_tp_degree"), ("pipeline", "megatron_lm_pp_degree")):
            d.keep(f"{UNIFORM}/{axis}", e.integer(f"megatron_lm_config.{name}", limit=10**6))
        d.keep(f"{PLAN}/sequence_parallel", e.flag("megatron_lm_config.megatron_lm_sequence_parallelism"))
        sharded, selective = (
            e.flag("megatron_lm_config.megatron_lm_use_distributed_optimizer"),
            e.flag("megatron_lm_config.megatron_lm_recompute_activations"),
        )
        if sharded is not None and isinstance(sharded[0], bool):
            d.put(path, int(sharded[0]), sharded[1])
        if selective is not None and isinstance(selective[0], bool):
            d.put(f"{PLAN}/recompute", "selective" if selective[0] else "none", selective[1])
    else:
        d.assume(path, 0, "replicas are whole without FSDP or DeepSpeed")
        d.leave(f"{PLAN}/recompute", "whether activations are recomputed is decided in the script")
    if offload is not None and offload[0] is True:
        d.note(f"'{offload[1].key}': offloading is not modelled, so memory is over-estimated", offload[1].place)


def _axes(e: Entries, d: Draft) -> tuple[object, Entry] | None:
    """`parallelism_config`: the data degree where both of its factors are stated."""
    base = "parallelism_config.parallelism_config_"
    replicate, shard = e.integer(base + "dp_replicate_size", limit=10**6), e.integer(base + "dp_shard_size", limit=10**6)
    d.keep(f"{UNIFORM}/tensor", e.integer(base + "tp_size", limit=10**6))
    context, ulysses = e.integer(base + "cp_size", limit=10**6), e.integer(base + "sp_size", limit=10**6)
    d.keep(f"{UNIFORM}/context", context if context is not None and context[0] != 1 else ulysses or context)
    return _product(replicate, shard)


def _product(replicate: tuple[int | Open, Entry] | None, shard: tuple[int | Open, Entry] | None) -> tuple[object, Entry] | None:
    if shard is None or isinstance(shard[0], Open) or shard[0] < 1:
        return None
    copies = replicate[0] if replicate is not None and isinstance(replicate[0], int) and replicate[0] > 0 else 1
    return (shard[0] * copies, shard[1])


def _axolotl(e: Entries, d: Draft) -> None:
    adapter = e.peek("adapter")
    if adapter is not None and adapter.value not in (None, "", False):
        raise InputError(
            f"This configuration trains an adapter ('adapter: {adapter.value}'); only training of all parameters is modelled.",
            place=adapter.place, code="launch.adapter", remedy="Give a configuration of full training.",
        )  # fmt: skip
    base = e.word("base_model", "base_model_config")
    if base is not None and isinstance(base[0], str):
        d.leave("/model", f"the shapes are those of '{base[0]}': add its config.json", base[1].place)
    d.keep("/workload/sequence_length", e.integer("sequence_len"))
    d.keep("/proposal/run_length/steps", steps if (steps := e.integer("max_steps")) is not None and steps[0] != -1 else None)
    epochs = e.number("num_epochs")
    if epochs is not None and "/proposal/run_length/steps" not in d.parts:
        d.leave("/proposal/run_length", "how many steps the epochs are depends on the data", epochs[1].place)
    bf16, fp16 = e.word("bf16", "bfloat16"), e.word("fp16", "float16")
    if bf16 is not None and bf16[0] in ("true", "full"):
        if bf16[0] == "full":
            for role, value in (("parameters", "bf16"), ("gradients", "bf16"), ("master", "none"), ("moments", "bf16")):
                d.put(f"/workload/precision/{role}", value, bf16[1])
        else:
            _mixed(d, "bf16", bf16[1], sharded=True)
    elif fp16 is not None and fp16[0] == "true":
        _mixed(d, "fp16", fp16[1], sharded=True)
    elif bf16 is not None and bf16[0] == "auto":
        d.leave("/workload/precision", "'bf16' is auto: it is chosen by the device", bf16[1].place)
    else:
        full_precision(d, "no mixed precision is stated")
    narrow = e.flag("fp8")
    if narrow is not None and narrow[0] is True:
        fp8_products(d, narrow[1])
    optimizer, kernel = e.word("optimizer"), e.word("attn_implementation")
    if optimizer is not None and isinstance(optimizer[0], str):
        word = optimizer[0].lower()
        d.put(
            "/workload/optimizer/name",
            "adamw" if word.startswith("adamw") else "muon" if "muon" in word else "lion" if "lion" in word else word,
            optimizer[1],
        )
        d.put("/workload/optimizer/fused", "fused" in word, optimizer[1])
        if "8bit" in word or "4bit" in word:
            d.note(
                f"'{optimizer[1].key}': the optimizer's states are in {word.rpartition('_')[2]}, which is not modelled",
                optimizer[1].place,
            )
    for name in ("flash_attention", "sdp_attention", "flex_attention", "xformers_attention"):
        flag = e.flag(name)
        if flag is not None and flag[0] is True:
            d.put("/workload/attention", "flash", flag[1])
    if kernel is not None and isinstance(kernel[0], str):
        d.put("/workload/attention", "unfused" if kernel[0] == "eager" else "flash", kernel[1])
    packed = e.flag("sample_packing")
    if packed is not None and isinstance(packed[0], bool):
        d.put("/workload/packing/document_mask", packed[0], packed[1])
    _axolotl_plan(e, d)
    d.assume("/proposal/framework/name", "axolotl", "the file's kind")


def _axolotl_plan(e: Entries, d: Draft) -> None:
    d.keep(f"{UNIFORM}/tensor", e.integer("tensor_parallel_size", limit=10**6))
    d.keep(f"{UNIFORM}/context", e.integer("context_parallel_size", "sequence_parallel_degree", limit=10**6))
    d.keep(f"{UNIFORM}/expert", e.integer("expert_parallel_size", limit=10**6))
    replicate, shard = e.integer("dp_replicate_size", limit=10**6), e.integer("dp_shard_size", limit=10**6)
    d.keep(f"{PLAN}/microbatch", e.integer("micro_batch_size", limit=10**6))
    steps, older = e.integer("gradient_accumulation_steps"), e.integer("batch_size", limit=10**6)
    micro = d.number(f"{PLAN}/microbatch")
    if d.keep(f"{PLAN}/accumulation", steps) is None and older is not None and isinstance(older[0], int) and micro:
        d.put(f"{PLAN}/accumulation", max(1, older[0] // micro), older[1])
    d.assume(f"{PLAN}/accumulation", 1, "'gradient_accumulation_steps' is 1 by default")
    engine, fsdp = e.word("deepspeed"), e.take("fsdp")
    configured = any(entry.key.startswith("fsdp_config.") for entry in e) or (fsdp is not None and bool(fsdp.value))
    strategy = e.word("fsdp_config.fsdp_sharding_strategy", "fsdp_config.sharding_strategy")
    reshard, offload = e.flag("fsdp_config.reshard_after_forward", "fsdp_config.fsdp_reshard_after_forward"), e.flag(
        "fsdp_config.offload_params", "fsdp_config.fsdp_offload_params")  # fmt: skip
    if engine is not None and isinstance(engine[0], str):
        number = re.search(r"zero(\d)", engine[0])
        d.note(f"'{engine[1].key}' names DeepSpeed's own configuration: give it as a second file", engine[1].place)
        if number:
            d.leave(f"{PLAN}/zero", f"it stands in '{engine[0]}'", engine[1].place)
    elif configured:
        if strategy is not None and _STRATEGY.get(str(strategy[0])) is not None:
            d.put(f"{PLAN}/zero", _STRATEGY[str(strategy[0])], strategy[1])
        elif reshard is not None and isinstance(reshard[0], bool):
            d.put(f"{PLAN}/zero", 3 if reshard[0] else 2, reshard[1])
        d.assume(f"{PLAN}/zero", 3, "FSDP shards fully by default")
    else:
        d.assume(f"{PLAN}/zero", 0, "replicas are whole without FSDP or DeepSpeed")
    if offload is not None and offload[0] is True:
        d.note(f"'{offload[1].key}': offloading is not modelled, so memory is over-estimated", offload[1].place)
    recompute, wrapped = (
        e.word("gradient_checkpointing"),
        e.flag("fsdp_config.activation_checkpointing", "fsdp_config.fsdp_activation_checkpointing"),
    )
    if recompute is not None and isinstance(recompute[0], str):
        d.put(f"{PLAN}/recompute", "full" if recompute[0] not in ("false", "no") else "none", recompute[1])
        if recompute[0] == "offload":
            d.note(f"'{recompute[1].key}' is offload: activations leave the device, which is not modelled", recompute[1].place)
    if wrapped is not None and wrapped[0] is True:
        d.put(f"{PLAN}/recompute", "full", wrapped[1])
    offloaded = e.word("activation_offloading")
    if offloaded is not None and offloaded[0] not in ("false", "no"):
        d.note(f"'{offloaded[1].key}': activations leave the device, which is not modelled", offloaded[1].place)
    d.assume(f"{PLAN}/recompute", "none", "'gradient_checkpointing' is off by default")
    finish(d, data=_product(replicate, shard))
    if "/plans/0/uniform/data" in d.parts and replicate is not None and shard is None and isinstance(replicate[0], int):
        d.note(f"'{replicate[1].key}' alone does not say how many replicas there are", replicate[1].place)
    d.assume(f"{PLAN}/sequence_parallel", False, "there is no sequence parallelism inside tensor parallelism")
