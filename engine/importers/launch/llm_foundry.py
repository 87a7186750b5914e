"""An llm-foundry (MosaicML) training configuration in YAML.

Keys and defaults: llmfoundry/models/mpt/configuration_mpt.py and llmfoundry/command_utils/train.py of llm-foundry at 8c8dd48f7,
and Composer's FSDP settings. `${...}` is resolved where it refers to this file.
"""

from __future__ import annotations

import re
from typing import Final

from ...errors import InputError
from .draft import PLAN, Draft, finish, fp8_products
from .entries import Entries
from .interpolation import resolved
from .parts import Launch
from .presets import set_aside
from .settings import put_settings
from .sources import SourceFile, not_this

KIND: Final = "llm-foundry"
SOURCE: Final = "llm-foundry 8c8dd48f7, llmfoundry/models/mpt/configuration_mpt.py"
MODEL: Final = "/model/transformer"
_SHARDING: Final = {"FULL_SHARD": 3, "HYBRID_SHARD": 3, "SHARD_GRAD_OP": 2, "_HYBRID_SHARD_ZERO2": 2, "NO_SHARD": 0}


def recognises(file: SourceFile) -> bool:
    """Whether a YAML file is a training configuration of llm-foundry."""
    top = file.top if file.form == "yaml" else {}
    return isinstance(top.get("model"), dict) and (
        "global_train_batch_size" in top or "device_train_microbatch_size" in top or "train_loader" in top
    )


def read(file: SourceFile) -> Launch:
    """Read a configuration."""
    if not recognises(file):
        from .detect import kind_of

        raise not_this(file, KIND, kind_of(file), "'model' beside 'global_train_batch_size' or 'train_loader'")
    e, d = Entries(resolved(file.entries(), file.given)), Draft(file.start, SOURCE)
    for pointer, place in file.document.twice:
        d.note(f"'{pointer.rpartition('/')[2]}' is given twice: the later one counts", place)
    if any(entry.key.startswith("model.peft_config") and entry.value for entry in e):
        raise InputError(
            "This configuration trains an adapter ('model.peft_config'); only training of all parameters is modelled.",
            place=file.document.place("/model/peft_config"), code="launch.adapter",
            remedy="Give a configuration of full training.",
        )  # fmt: skip
    _model(e, d)
    _workload(e, d)
    _plan(e, d)
    d.assume("/proposal/framework/name", "llm-foundry", "the file's kind")
    put_settings(d, e)
    set_aside(e, KIND)
    return Launch(
        KIND,
        file.name,
        file.sha256,
        "llm-foundry",
        tuple(d.parts.values()),
        tuple(e.uses()),
        tuple(d.gaps),
        tuple(d.notes),
        file.source.text,
    )


def _model(e: Entries, d: Draft) -> None:
    name, pretrained = e.word("model.name"), e.word("model.pretrained_model_name_or_path")
    e.take(
        "model.pretrained", "model.use_auth_token", "model.max_seq_len", "model.use_flash_attention_2", "model.use_train_metrics"
    )
    if name is not None and name[0] != "mpt_causal_lm":
        of = f" '{pretrained[0]}'" if pretrained is not None else ""
        d.leave(
            "/model/transformer", f"the shapes stand in the model's own configuration{of}; add its config.json", name[1].place
        )
        return
    hidden = d.keep(f"{MODEL}/hidden", e.integer("model.d_model"))
    heads = d.keep(f"{MODEL}/heads", e.integer("model.n_heads"))
    d.keep(f"{MODEL}/layers", e.integer("model.n_layers"))
    d.keep(f"{MODEL}/vocabulary", e.integer("model.vocab_size"))
    for field, value, key in (
        ("hidden", 2048, "d_model"),
        ("heads", 16, "n_heads"),
        ("layers", 24, "n_layers"),
        ("vocabulary", 50368, "vocab_size"),
    ):
        d.assume(f"{MODEL}/{field}", value, f"'{key}' is {value} by default")
    ratio = e.number("model.expansion_ratio")
    kind = e.word("model.ffn_config.ffn_type")
    width = d.known(f"{MODEL}/ffn", ratio)
    if isinstance(width, float) and isinstance(hidden, int) and ratio is not None:
        d.put(f"{MODEL}/ffn", int(width * hidden), ratio[1])
    elif isinstance(hidden, int):
        d.assume(f"{MODEL}/ffn", 4 * hidden, "'expansion_ratio' is 4 by default")
    stated = e.integer("model.ffn_config.ffn_hidden_size")
    experts, routed = e.integer("model.ffn_config.moe_num_experts"), e.integer("model.ffn_config.moe_top_k")
    if experts is not None:
        d.keep(f"{MODEL}/moe/experts", experts)
        d.keep(f"{MODEL}/moe/top_k", routed)
        d.assume(f"{MODEL}/moe/top_k", 1, "'moe_top_k' is 1 by default")
    d.keep(f"{MODEL}/ffn", stated)
    if kind is not None and isinstance(kind[0], str):
        d.put(f"{MODEL}/gated", "glu" in kind[0], kind[1])
    d.assume(f"{MODEL}/gated", False, "'ffn_type' is mptmlp by default")
    attention = e.word("model.attn_config.attn_type")
    groups = e.integer("model.attn_config.kv_n_heads")
    if attention is not None and attention[0] == "multiquery_attention":
        d.put(f"{MODEL}/kv_heads", 1, attention[1])
    elif groups is not None:
        d.keep(f"{MODEL}/kv_heads", groups)
    elif isinstance(heads, int):
        d.assume(f"{MODEL}/kv_heads", heads, "'attn_type' is multihead_attention by default")
    norm = e.word("model.norm_type")
    if norm is not None and isinstance(norm[0], str):
        d.put(f"{MODEL}/norm", "rms" if "rms" in norm[0] else "layer", norm[1])
    d.assume(f"{MODEL}/norm", "layer", "'norm_type' is low_precision_layernorm by default")
    bare, tied = e.flag("model.no_bias"), e.flag("model.tie_word_embeddings")
    if bare is not None and isinstance(bare[0], bool):
        d.put(f"{MODEL}/biases", not bare[0], bare[1])
    d.assume(f"{MODEL}/biases", True, "'no_bias' is false by default")
    d.keep(f"{MODEL}/tied_embeddings", tied)
    d.assume(f"{MODEL}/tied_embeddings", True, "'tie_word_embeddings' is true by default")
    alibi, rope, learned = e.flag("model.attn_config.alibi"), e.flag("model.attn_config.rope"), e.flag("model.learned_pos_emb")
    longest = e.integer("max_seq_len")
    relative = next((taken for taken in (alibi, rope) if taken is not None and taken[0] is True), None)
    if relative is not None:
        d.put(f"{MODEL}/positions", 0, relative[1])
    elif learned is not None and learned[0] is False:
        d.put(f"{MODEL}/positions", 0, learned[1])
    elif longest is not None and isinstance(longest[0], int):
        d.put(f"{MODEL}/positions", longest[0], longest[1])
    d.assume(f"{MODEL}/family", "gpt", "the model class")
    kernel = e.word("model.attn_config.attn_impl")
    if kernel is not None and isinstance(kernel[0], str):
        d.put("/workload/attention", "unfused" if kernel[0] == "torch" else "flash", kernel[1])
    d.assume("/workload/attention", "flash", "'attn_impl' is flash by default")
    dropout = e.number("model.resid_pdrop")
    d.keep("/workload/dropout", dropout)
    d.assume("/workload/dropout", 0.0, "'resid_pdrop' is 0 by default")


def _workload(e: Entries, d: Draft) -> None:
    length = d.keep("/workload/sequence_length", e.integer("max_seq_len"))
    batch, duration = e.integer("global_train_batch_size"), e.word("max_duration")
    value = d.known("/workload/global_batch", batch)
    if isinstance(value, int) and batch is not None:
        d.put("/workload/global_batch", f"{value} sequences", batch[1])
    text = d.known("/proposal/run_length/steps", duration)
    if isinstance(text, str) and duration is not None:
        match = re.fullmatch(r"(\d[\d_]*)(ba|tok|sp|ep)", text.strip())
        count = int(match[1].replace("_", "")) if match else 0
        if match and match[2] == "ba":
            d.put("/proposal/run_length/steps", count, duration[1])
        elif match and match[2] == "tok":
            d.put("/proposal/run_length/tokens", f"{count} tokens", duration[1])
        elif match and match[2] == "sp" and isinstance(length, int):
            d.put("/proposal/run_length/tokens", f"{count * length} tokens", duration[1])
        else:
            d.leave(
                "/proposal/run_length",
                f"'max_duration' is '{text}': how many steps that is depends on the data",
                duration[1].place,
            )
    base = "/workload/precision"
    precision, mixed = e.word("precision"), e.take("fsdp_config.mixed_precision")
    named = d.known(f"{base}/parameters", precision)
    policy = (
        mixed.value
        if mixed is not None and isinstance(mixed.value, str)
        else "PURE"
        if any(x.key.startswith("fsdp_config") for x in e)
        else None
    )
    if isinstance(named, str) and precision is not None:
        dtype = "bf16" if "bf16" in named else "fp32" if named == "fp32" else "fp16"
        d.put(f"{base}/parameters", dtype, precision[1])
        if dtype == "fp32":
            d.assume(f"{base}/gradients", "fp32", "full precision")
            d.assume(f"{base}/master", "none", "full precision")
        else:
            reduce = "fp32" if policy == "DEFAULT" else dtype
            if mixed is not None:
                d.put(f"{base}/communication", reduce, mixed)
            d.assume(f"{base}/gradients", "fp32", "FSDP keeps fp32 shards of parameters and gradients")
            d.assume(f"{base}/master", "fp32", "FSDP keeps fp32 shards of parameters and gradients")
        d.assume(f"{base}/moments", "fp32", "the optimizer's states are as its shards")
        if "fp8" in named:
            fp8_products(d, precision[1])
    optimizer = e.word("optimizer.name")
    if optimizer is not None and isinstance(optimizer[0], str):
        word = optimizer[0].lower()
        d.put("/workload/optimizer/name", "adamw" if "adam" in word else "lion" if "lion" in word else word, optimizer[1])


def _plan(e: Entries, d: Draft) -> None:
    sharding, recompute = e.word("fsdp_config.sharding_strategy"), e.flag("fsdp_config.activation_checkpointing")
    offload = e.flag("fsdp_config.activation_cpu_offload")
    if sharding is not None and isinstance(sharding[0], str):
        if sharding[0] in _SHARDING:
            d.put(f"{PLAN}/zero", _SHARDING[sharding[0]], sharding[1])
        else:
            d.leave(f"{PLAN}/zero", f"'{sharding[0]}' is no sharding strategy that is known", sharding[1].place)
    elif any(entry.key.startswith("fsdp_config") for entry in e):
        d.assume(f"{PLAN}/zero", 3, "'sharding_strategy' is FULL_SHARD by default")
    else:
        d.assume(f"{PLAN}/zero", 0, "without 'fsdp_config' replicas are whole")
    if recompute is not None and isinstance(recompute[0], bool):
        d.put(f"{PLAN}/recompute", "full" if recompute[0] else "none", recompute[1])
    d.assume(f"{PLAN}/recompute", "none", "'activation_checkpointing' is false by default")
    if offload is not None and offload[0] is True:
        d.note(f"'{offload[1].key}': offloading is not modelled, so memory is over-estimated", offload[1].place)
    micro = e.peek("device_train_microbatch_size")
    if micro is not None and micro.value == "auto":
        e.take("device_train_microbatch_size")
        d.leave(f"{PLAN}/microbatch", "'device_train_microbatch_size' is auto: it is found where it runs", micro.place)
    else:
        taken = e.number("device_train_microbatch_size")
        if taken is not None and isinstance(taken[0], float) and taken[0] != int(taken[0]):
            d.leave(f"{PLAN}/microbatch", f"'{taken[1].key}' is {taken[0]}: a part of a sequence is not modelled", taken[1].place)
        elif taken is not None:
            d.keep(f"{PLAN}/microbatch", (int(taken[0]) if isinstance(taken[0], float) else taken[0], taken[1]))
        elif "device_train_microbatch_size" not in e:
            d.leave(f"{PLAN}/microbatch", "'device_train_microbatch_size' is auto by default: it is found where it runs")
    d.keep(
        f"{PLAN}/uniform/tensor",
        e.integer("parallelism_config.tp.tensor_parallel_degree", "tp_config.tensor_parallel_degree", limit=10**6),
    )
    d.assume(f"{PLAN}/sequence_parallel", False, "there is no sequence parallelism")
    finish(d)
