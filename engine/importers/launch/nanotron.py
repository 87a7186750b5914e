"""A nanotron configuration in YAML. Keys and defaults: src/nanotron/config of nanotron at 2411b022."""

from __future__ import annotations

from typing import Final

from ...errors import InputError
from .draft import PLAN, Draft, finish, full_precision, mixed_precision, schedule_of
from .entries import Entries, Open
from .parts import Launch, Part
from .presets import set_aside
from .settings import put_settings
from .sources import SourceFile, not_this
from .uneven import by_cost, put_layers

KIND: Final = "nanotron"
SOURCE: Final = "nanotron 2411b022, src/nanotron/config"
MODEL: Final = "/model/transformer"
UNIFORM: Final = f"{PLAN}/uniform"
_ENGINES: Final = {"1f1b": "1f1b", "afab": "gpipe"}
_MODEL_ASIDE: Final = frozenset(
    [
        "bos_token_id",
        "eos_token_id",
        "pad_token_id",
        "hidden_act",
        "initializer_range",
        "pretraining_tp",
        "rms_norm_eps",
        "rope_scaling",
        "rope_theta",
        "rope_interleaved",
        "use_cache",
        "_fused_rms_norm",
        "_fused_rotary_emb",
        "_use_doc_masking",
        "_use_qkv_packed",
        "flex_attention_mask",
        "no_rope_layer",
        "sliding_window_size",
        "z_loss_coefficient",
        "z_loss_enabled",
        "log_attn_probs",
        "ring_attn_heads_k_stride",
        "is_llama_config",
        "is_qwen2_config",
        "is_starcoder2_config",
        "is_llamoe_config",
        "_attn_implementation",
        "attention_bias",
        "max_position_embeddings",
        "layer_norm_epsilon",
        "use_position_embeddings",
        "use_rotary_embeddings",
        "scale_attention_softmax_in_fp32",
        "scale_attn_weights",
        "global_attn_layers",
        "attn_layer_indices",
    ]
)
_TOKENS_ASIDE: Final = ("tokens.limit_test_batches", "tokens.limit_val_batches", "tokens.val_check_interval")


def recognises(file: SourceFile) -> bool:
    """Whether a YAML file has nanotron's sections."""
    top = file.top if file.form == "yaml" else {}
    return "parallelism" in top and "tokens" in top and isinstance(top.get("parallelism"), dict)


def read(file: SourceFile) -> Launch:
    """Read a nanotron configuration."""
    if not recognises(file):
        from .detect import kind_of

        raise not_this(file, KIND, kind_of(file), "the sections 'parallelism' and 'tokens'")
    e, d = Entries(file.entries()), Draft(file.start, SOURCE)
    other = e.peek("model.model_config.is_mamba_config")
    if other is not None and other.value is True:
        raise InputError(
            "'is_mamba_config' makes this a state-space model, not a transformer.", place=other.place,
            code="launch.not_a_decoder", remedy="Only decoder-only transformers are read.",
        )  # fmt: skip
    for pointer, place in file.document.twice:
        d.note(f"'{pointer.rpartition('/')[2]}' is given twice: the later one counts", place)
    _model(e, d)
    _workload(e, d)
    _plan(e, d)
    d.assume("/proposal/framework/name", "nanotron", "the file's kind")
    put_settings(d, e)
    table = dict.fromkeys(_TOKENS_ASIDE, "when the run evaluates")
    table["model.make_vocab_size_divisible_by"] = "padding of the vocabulary, read with it"
    for entry in e:
        if entry.key.startswith("model.model_config.") and entry.key.split(".")[2] in _MODEL_ASIDE:
            table[entry.key] = "changes no shape that is modelled"
        elif entry.key.startswith("model.model_config.moe_config."):
            table[entry.key] = "routing in detail"
    e.set_aside(table)
    set_aside(e, KIND)
    return Launch(
        KIND,
        file.name,
        file.sha256,
        "nanotron",
        tuple(d.parts.values()),
        tuple(e.uses()),
        tuple(d.gaps),
        tuple(d.notes),
        file.source.text,
    )


def _model(e: Entries, d: Draft) -> None:
    config = "model.model_config."
    for field, name in (("layers", "num_hidden_layers"), ("hidden", "hidden_size"), ("heads", "num_attention_heads"),
                        ("kv_heads", "num_key_value_heads"), ("ffn", "intermediate_size"),
                        ("vocabulary", "vocab_size")):  # fmt: skip
        d.keep(f"{MODEL}/{field}", e.integer(config + name))
    heads = d.number(f"{MODEL}/heads")
    if heads is not None:
        d.assume(f"{MODEL}/kv_heads", heads, "as many key-value heads as heads where 'num_key_value_heads' is null")
    starcoder = e.flag(config + "is_starcoder2_config")
    plain = starcoder is not None and starcoder[0] is True
    d.keep(f"{MODEL}/tied_embeddings", e.flag(config + "tie_word_embeddings"))
    for field, value, why in (
        ("family", "gpt" if plain else "llama", "the model class"), ("gated", not plain, "the model class has a gated MLP"),
        ("norm", "layer" if plain else "rms", "the model class's norm"), ("biases", plain, "the model class's projections"),
        ("positions", 0, "positions are rotary"), ("tied_embeddings", False, "'tie_word_embeddings' is false by default"),
    ):  # fmt: skip
        d.assume(f"{MODEL}/{field}", value, why)
    bias = e.flag(config + "attention_bias")
    if bias is not None and bias[0] is True:
        d.note(
            f"'{bias[1].key}': biases of attention alone have no key in a description by shapes and are not counted",
            bias[1].place,
        )
    kernel = e.word(config + "_attn_implementation")
    named = d.known("/workload/attention", kernel)
    if isinstance(named, str) and kernel is not None:
        d.put(
            "/workload/attention",
            "flash" if "flash" in named or "ring" in named or named in ("sdpa", "flex_attention") else "unfused",
            kernel[1],
        )
    d.assume("/workload/attention", "flash", "attention runs in flash-attn")
    masked = e.flag(config + "_use_doc_masking")
    if masked is not None and isinstance(masked[0], bool):
        d.put("/workload/packing/document_mask", masked[0], masked[1])
    moe = config + "moe_config."
    count = e.integer(moe + "num_experts")
    older = e.integer(config + "moe_num_experts")
    if older is not None:
        # The MoE example of releases up to 2024: experts as wide as the MLP, keys of the model itself.
        d.keep(f"{MODEL}/moe/experts", older)
        d.keep(f"{MODEL}/moe/top_k", e.integer(config + "num_experts_per_tok"))
        room = e.number(config + "moe_capacity_factor")
        d.keep(f"{MODEL}/moe/capacity_factor", room)
        inner = d.parts.get(f"{MODEL}/ffn")
        if inner is not None:
            d.parts[f"{MODEL}/moe/ffn"] = Part(f"{MODEL}/moe/ffn", inner.value, inner.place, inner.key)
    e.take(config + "moe_config")
    if count is None or not isinstance(count[0], int):
        return
    base = f"{MODEL}/moe"
    d.keep(f"{base}/experts", count)
    d.keep(f"{base}/top_k", e.integer(moe + "top_k"))
    d.assume(f"{base}/top_k", 2, "'top_k' is 2 by default")
    d.keep(f"{base}/ffn", e.integer(moe + "moe_intermediate_size"))
    d.assume(f"{base}/ffn", 1408, "'moe_intermediate_size' is 1408 by default")
    shared, width = e.flag(moe + "enable_shared_expert"), e.integer(moe + "shared_expert_intermediate_size")
    if shared is not None and shared[0] is True:
        d.put(f"{base}/shared_experts", 1, shared[1])
        d.keep(f"{base}/shared_ffn", width)
        d.assume(f"{base}/shared_ffn", 5632, "'shared_expert_intermediate_size' is 5632 by default")
    layers = e.take(moe + "layers")
    if layers is not None and layers.value not in ([-1], -1):
        d.leave(
            f"{base}/every", f"'{layers.key}': layers with experts that are listed one by one are not taken over", layers.place
        )


def _workload(e: Entries, d: Draft) -> None:
    d.keep("/workload/sequence_length", e.integer("tokens.sequence_length"))
    d.keep("/proposal/run_length/steps", e.integer("tokens.train_steps"))
    dtype, summed = e.word("model.dtype"), e.flag("optimizer.accumulate_grad_in_fp32")
    named = d.known("/workload/precision/parameters", dtype)
    if isinstance(named, str) and dtype is not None:
        short = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}.get(named, named)
        if short == "fp32":
            full_precision(d, "full precision", dtype[1])
        elif summed is not None and summed[0] is False:
            for role, value in (("parameters", short), ("gradients", short), ("master", "none"), ("moments", short)):
                d.put(f"/workload/precision/{role}", value, summed[1] if role != "parameters" else dtype[1])
        else:
            if summed is not None:
                d.put("/workload/precision/gradients", "fp32", summed[1])
            mixed_precision(
                d,
                dtype[1],
                short,
                gradients="fp32",
                why="gradients are accumulated in fp32 beside an fp32 copy of the parameters",
            )
    name = e.word("optimizer.optimizer_factory.name")
    found = d.known("/workload/optimizer/name", name)
    if isinstance(found, str) and name is not None:
        d.put("/workload/optimizer/name", found.lower(), name[1])
    fused = e.flag("optimizer.optimizer_factory.torch_adam_is_fused")
    d.keep("/workload/optimizer/fused", fused)
    d.assume("/workload/dropout", 0.0, "the models have no dropout")


def _plan(e: Entries, d: Draft) -> None:
    for axis, name in (
        ("tensor", "tp"),
        ("pipeline", "pp"),
        ("context", "context_parallel_size"),
        ("expert", "expert_parallel_size"),
    ):
        d.keep(f"{UNIFORM}/{axis}", e.integer(f"parallelism.{name}", limit=10**6))
    data = e.integer("parallelism.dp", limit=10**6)
    engine, mode = e.word("parallelism.pp_engine"), e.word("parallelism.tp_mode")
    if (d.number(f"{UNIFORM}/pipeline") or 1) > 1:
        if engine is not None and isinstance(engine[0], str):
            named = _ENGINES.get(engine[0].lower())
            if named is None:
                why = f"'{engine[1].key}' is '{engine[0]}', which is no engine of nanotron"
                d.leave(f"{PLAN}/schedule", why, engine[1].place)
            else:
                d.put(f"{PLAN}/schedule", named, engine[1])
        else:
            d.assume(f"{PLAN}/schedule", "gpipe", "'pp_engine' is all forward, all backward by default")
    if not d.open(f"{PLAN}/schedule"):
        schedule_of(d)
    if mode is not None and isinstance(mode[0], str):
        d.put(
            f"{PLAN}/sequence_parallel", mode[0].upper() == "REDUCE_SCATTER" and (d.number(f"{UNIFORM}/tensor") or 1) > 1, mode[1]
        )
    d.assume(f"{PLAN}/sequence_parallel", False, "'tp_mode' is all_reduce by default")
    recompute = e.flag("parallelism.recompute_layer")
    if recompute is not None and isinstance(recompute[0], bool):
        d.put(f"{PLAN}/recompute", "full" if recompute[0] else "none", recompute[1])
    d.assume(f"{PLAN}/recompute", "none", "'recompute_layer' is false by default")
    d.keep(f"{PLAN}/zero", e.integer("optimizer.zero_stage", limit=3))
    d.assume(f"{PLAN}/zero", 0, "'zero_stage' is 0 by default")
    micro = d.keep(f"{PLAN}/microbatch", e.integer("tokens.micro_batch_size", limit=10**6))
    steps = e.integer("tokens.batch_accumulation_per_replica")
    accumulation = d.keep(f"{PLAN}/accumulation", steps)
    if accumulation is None and steps is None:
        d.assume(f"{PLAN}/accumulation", 1, "'batch_accumulation_per_replica' is 1 by default")
        accumulation = 1
    finish(d, data=data)
    _cut(d)
    if isinstance(micro, int) and isinstance(accumulation, int) and data is not None and not isinstance(data[0], Open):
        d.put("/workload/global_batch", f"{micro * accumulation * data[0]} sequences", data[1])


def _cut(d: Draft) -> None:
    """nanotron's own stages: decoder blocks and the head by their matrices, as its models count them; the embedding is none."""
    shapes = {name: d.number(f"{MODEL}/{name}") for name in ("layers", "hidden", "heads", "ffn", "vocabulary")}
    pipeline = d.number(f"{UNIFORM}/pipeline") or 1
    layers, hidden, ffn, vocabulary = (shapes[name] for name in ("layers", "hidden", "ffn", "vocabulary"))
    if pipeline < 2 or layers is None or hidden is None or ffn is None or vocabulary is None:
        return
    matrices = 3 if d.value(f"{MODEL}/gated") else 2
    counts = by_cost(4 * hidden * hidden + matrices * ffn * hidden, vocabulary * hidden, layers, pipeline)
    put_layers(d, counts, None, "blocks are cut by their work, the head among them")
