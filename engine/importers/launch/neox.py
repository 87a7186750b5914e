"""A GPT-NeoX configuration: YAML (or JSON in a .yml file) with dashes or underscores in its keys.

Keys and defaults: megatron/neox_arguments/neox_args.py, arguments.py and deepspeed_args.py of gpt-neox at ea7aefd8f.
"""

from __future__ import annotations

import re
from typing import Final

from ...errors import InputError
from .draft import PLAN, Draft, finish, full_precision, mixed_precision, schedule_of
from .entries import Entries, Entry, Open
from .megatron_keys import PATTERNS
from .parts import Key, Launch, Part
from .presets import set_aside
from .settings import put_settings
from .sources import SourceFile, not_this
from .uneven import balanced, put_layers

KIND: Final = "neox"
SOURCE: Final = "gpt-neox ea7aefd8f, megatron/neox_arguments/neox_args.py"
MODEL: Final = "/model/transformer"
UNIFORM: Final = f"{PLAN}/uniform"


def recognises(file: SourceFile) -> bool:
    """Whether a file has GPT-NeoX's names of degrees."""
    if file.form not in ("yaml", "json"):
        return False
    names = {key.replace("-", "_") for key in file.top}
    # A part of a configuration, which another one completes: arguments of its own beside DeepSpeed's.
    if "zero_optimization" in names and {"checkpoint_activations", "lr_decay_iters", "train_iters"} <= names:
        return True
    return bool(
        names & {"pipe_parallel_size", "model_parallel_size", "no_weight_tying", "gpt_j_residual", "attention_config"}
    ) and bool(names & {"num_layers", "train_micro_batch_size_per_gpu", "num_attention_heads", "hidden_size"})


def read(file: SourceFile) -> Launch:
    """Read a GPT-NeoX configuration."""
    if not recognises(file):
        from .detect import kind_of

        raise not_this(file, KIND, kind_of(file), "'pipe_parallel_size' or 'model_parallel_size' beside 'num_layers'")
    found = file.entries()
    written: dict[str, str] = {}
    entries = []
    for entry in found:
        name = entry.key.replace("-", "_")
        written[name] = entry.key
        entries.append(Entry(name, entry.value, entry.place))
    e, d = Entries(entries), Draft(file.start, SOURCE)
    kinds = e.peek("attention_config")
    if kinds is not None and re.search("mamba|rwkv", str(kinds.value)) and not re.search("global|flash|local", str(kinds.value)):
        raise InputError(
            f"'{kinds.key}' makes this a state-space or recurrent model, not a transformer.", place=kinds.place,
            code="launch.not_a_decoder", remedy="Only decoder-only transformers are read.",
        )  # fmt: skip
    for pointer, place in file.document.twice:
        d.note(f"'{pointer.rpartition('/')[2]}' is given twice: the later one counts", place)
    _model(e, d)
    _workload(e, d)
    _plan(e, d)
    d.assume("/proposal/framework/name", "gpt-neox", "the file's kind")
    put_settings(d, e)
    set_aside(e, KIND)
    set_aside(e, "megatron")
    e.set_aside({}, [*PATTERNS, (re.compile("wandb|tensorboard|comet"), "logging")])
    keys = [Key(written[key.name], key.place, key.use, key.why) for key in e.uses()]
    return Launch(
        KIND,
        file.name,
        file.sha256,
        "gpt-neox",
        tuple(d.parts.values()),
        tuple(keys),
        tuple(d.gaps),
        tuple(d.notes),
        file.source.text,
    )


def _model(e: Entries, d: Draft) -> None:
    d.keep(f"{MODEL}/layers", e.integer("num_layers"))
    hidden = d.keep(f"{MODEL}/hidden", e.integer("hidden_size"))
    heads = d.keep(f"{MODEL}/heads", e.integer("num_attention_heads"))
    d.keep(f"{MODEL}/kv_heads", e.integer("num_kv_heads", "num_key_value_heads"))
    if isinstance(heads, int):
        d.assume(f"{MODEL}/kv_heads", heads, "as many key-value heads as heads where 'num_kv_heads' is not stated")
    activation, kind, width = e.word("activation"), e.word("mlp_type"), e.integer("intermediate_size")
    multiple = e.integer("mlp_multiple_of")
    step = multiple[0] if multiple is not None and isinstance(multiple[0], int) and multiple[0] > 0 else 1
    shape = d.parts.get(f"{MODEL}/layers")
    if shape is not None:
        d.parts[f"{MODEL}/family"] = Part(f"{MODEL}/family", "gpt", shape.place)
    named = d.known(f"{MODEL}/gated", activation)
    llama = kind is not None and kind[0] == "llama"
    gated = llama or (isinstance(named, str) and named in ("swiglu", "geglu", "reglu", "bilinear", "glu"))
    if activation is not None or kind is not None:
        source = kind if llama and kind is not None else activation or kind
        if source is not None:
            d.put(f"{MODEL}/gated", gated, source[1])
    d.assume(f"{MODEL}/gated", False, "'activation' is gelu by default")
    if d.keep(f"{MODEL}/ffn", width) is None and isinstance(hidden, int) and width is None:
        if gated:
            rounded = -(-(8 * hidden // 3) // step) * step
            d.assume(f"{MODEL}/ffn", rounded, f"8/3 of the hidden size, up to a multiple of {step}, for a gated MLP")
        else:
            d.assume(f"{MODEL}/ffn", 4 * hidden, "4 x the hidden size")
    norm = e.word("norm")
    if norm is not None and isinstance(norm[0], str):
        d.put(f"{MODEL}/norm", "rms" if "rms" in norm[0].lower() else "layer", norm[1])
    d.assume(f"{MODEL}/norm", "layer", "'norm' is layernorm by default")
    untied = e.flag("no_weight_tying")
    if untied is not None and isinstance(untied[0], bool):
        d.put(f"{MODEL}/tied_embeddings", not untied[0], untied[1])
    d.assume(f"{MODEL}/tied_embeddings", True, "embeddings are tied by default")
    linear, attention = e.flag("use_bias_in_mlp"), e.flag("use_bias_in_attn_linear")
    if linear is not None and isinstance(linear[0], bool):
        d.put(f"{MODEL}/biases", linear[0], linear[1])
        if attention is not None and attention[0] != linear[0]:
            d.note(
                f"'{attention[1].key}' differs from '{linear[1].key}': biases are counted as the latter has it",
                attention[1].place,
            )
    elif attention is not None and isinstance(attention[0], bool):
        d.put(f"{MODEL}/biases", attention[0], attention[1])
    d.assume(f"{MODEL}/biases", True, "projections have biases by default")
    position, longest = e.word("pos_emb"), e.integer("max_position_embeddings")
    if position is not None and isinstance(position[0], str) and position[0] != "learned":
        d.put(f"{MODEL}/positions", 0, position[1])
    elif longest is not None and isinstance(longest[0], int):
        d.put(f"{MODEL}/positions", longest[0], longest[1])
    e.integer("make_vocab_size_divisible_by")
    if d.keep(f"{MODEL}/vocabulary", e.integer("padded_vocab_size", "vocab_size")) is None:
        named_file = e.peek("vocab_file") or e.peek("tokenizer_type")
        d.leave(
            f"{MODEL}/vocabulary",
            "the tokenizer decides it; state it in the proposal",
            named_file.place if named_file is not None else None,
        )
    experts = e.integer("moe_num_experts", "num_experts")
    if experts is not None and isinstance(experts[0], int) and experts[0] > 1:
        d.keep(f"{MODEL}/moe/experts", experts)
        d.keep(f"{MODEL}/moe/top_k", e.integer("moe_top_k"))
        d.assume(f"{MODEL}/moe/top_k", 1, "'moe_top_k' is 1 by default")
        d.keep(f"{MODEL}/moe/every", e.integer("moe_expert_interval", "expert_interval"))
    layers = e.take("attention_config")
    if layers is not None and "global" not in str(layers.value) and "flash" not in str(layers.value):
        d.note(f"'{layers.key}': layers that are no full attention are not modelled", layers.place)
    if layers is not None and "flash" in str(layers.value):
        d.put("/workload/attention", "flash", layers)
    flash = e.flag("use_flash_attention", "use_flashattn_swiglu")
    if flash is not None and flash[0] is True:
        d.put("/workload/attention", "flash", flash[1])
    if "/workload/attention" not in d.parts:
        d.assume("/workload/attention", "unfused", "'attention_config' is global, which keeps the scores, by default")


def _workload(e: Entries, d: Draft) -> None:
    d.keep("/workload/sequence_length", e.integer("seq_length"))
    d.keep("/proposal/run_length/steps", e.integer("train_iters"))
    hidden, attention = e.number("hidden_dropout"), e.number("attention_dropout")
    d.keep("/workload/dropout", hidden)
    if attention is not None and (hidden is None or attention[0] != hidden[0]):
        d.note(f"'{attention[1].key}' is {attention[0]} and differs from the dropout of hidden states", attention[1].place)
    d.assume("/workload/dropout", 0.0, "'hidden_dropout' is 0 by default")
    base = "/workload/precision"
    fp16, bf16, word = e.flag("fp16.enabled", "fp16.fp16"), e.flag("bf16.enabled", "bfloat16.enabled"), e.word("precision")
    accumulated = e.word("data_types.grad_accum_dtype", "grad_accum_dtype")
    e.take("fp16.fp16", "fp16.type", "fp16")
    chosen: tuple[str, Entry] | None = None
    if bf16 is not None and bf16[0] is True:
        chosen = ("bf16", bf16[1])
    elif fp16 is not None and fp16[0] is True:
        typed = e.peek("fp16.type")
        chosen = ("bf16" if typed is not None and typed.value == "bfloat16" else "fp16", fp16[1])
    elif word is not None and isinstance(word[0], str):
        chosen = ({"bfloat16": "bf16", "fp16": "fp16", "fp32": "fp32"}.get(word[0], "fp16"), word[1])
    if chosen is None:
        full_precision(d, "fp32 unless 'fp16', 'bf16' or 'precision' says otherwise")
    elif chosen[0] == "fp32":
        full_precision(d, "full precision", chosen[1])
    else:
        if accumulated is not None and isinstance(accumulated[0], str):
            d.put(f"{base}/gradients", accumulated[0], accumulated[1])
        mixed_precision(
            d, chosen[1], chosen[0], gradients=chosen[0], why=f"gradients are kept in {chosen[0]}, as the parameters are"
        )
        if chosen[0] == "fp16":
            scale = e.number("fp16.loss_scale")
            if scale is not None and isinstance(scale[0], float):
                d.put("/workload/loss_scaling", "static" if scale[0] > 0 else "dynamic", scale[1])
            d.assume("/workload/loss_scaling", "dynamic", "'loss_scale' is dynamic by default")
    optimizer = e.word("optimizer.type")
    if optimizer is not None and isinstance(optimizer[0], str):
        name = optimizer[0].lower()
        d.put("/workload/optimizer/name", "adam" if "adam" in name and name != "adamw" else name, optimizer[1])
    d.assume("/workload/optimizer/name", "adam", "'optimizer.type' is Adam by default")


def _plan(e: Entries, d: Draft) -> None:
    for axis, names in (("tensor", ("model_parallel_size",)), ("pipeline", ("pipe_parallel_size",)),
                        ("context", ("context_parallel_size",)),
                        ("expert", ("moe_expert_parallel_size", "expert_model_parallel_size"))):  # fmt: skip
        taken = e.integer(*names, limit=10**6)
        if taken is not None and taken[0] == 0:
            d.put(f"{UNIFORM}/{axis}", 1, taken[1])
        else:
            d.keep(f"{UNIFORM}/{axis}", taken)
    micro = d.keep(f"{PLAN}/microbatch", e.integer("train_micro_batch_size_per_gpu", limit=10**6))
    steps, batch = e.integer("gradient_accumulation_steps", "gas"), e.integer("train_batch_size")
    accumulation = d.keep(f"{PLAN}/accumulation", steps)
    total = d.known("/workload/global_batch", batch)
    if isinstance(total, int) and batch is not None:
        d.put("/workload/global_batch", f"{total} sequences", batch[1])
    elif accumulation is None and steps is None and micro is not None:
        d.assume(f"{PLAN}/accumulation", 1, "'gradient_accumulation_steps' is 1 by default")
    stage = e.integer("zero_optimization.stage", "zero_stage", limit=3)
    d.keep(f"{PLAN}/zero", stage)
    d.assume(f"{PLAN}/zero", 0, "ZeRO is off by default")
    recompute, number = e.flag("checkpoint_activations"), e.integer("checkpoint_num_layers")
    if recompute is not None and isinstance(recompute[0], bool):
        d.put(f"{PLAN}/recompute", "full" if recompute[0] else "none", recompute[1])
        if number is not None and number[0] != 1:
            d.note(
                f"'{number[1].key}' is {number[0]}: checkpoints lie that many layers apart; one a layer is reckoned with",
                number[1].place,
            )
    d.assume(f"{PLAN}/recompute", "none", "'checkpoint_activations' is false by default")
    d.keep(f"{PLAN}/sequence_parallel", e.flag("sequence_parallel"))
    d.assume(f"{PLAN}/sequence_parallel", False, "'sequence_parallel' is off by default")
    schedule_of(d)
    data = None
    if isinstance(total, int) and isinstance(micro, int) and isinstance(accumulation, int) and batch is not None:
        step = micro * accumulation
        data = (total // step, batch[1]) if step and total % step == 0 else None
    per_node, nodes, world = (
        e.integer("num_gpus", limit=1024),
        e.integer("num_nodes", limit=10**6),
        e.integer("global_num_gpus", limit=10**9),
    )
    for name, taken in (("devices", per_node), ("count", nodes)):
        if taken is not None and isinstance(taken[0], int) and taken[0] > 0:
            d.put(f"/cluster/nodes/{name}", taken[0], taken[1])
    if world is not None and not isinstance(world[0], Open):
        finish(d, world, data=data)
    elif per_node is not None and nodes is not None and isinstance(per_node[0], int) and isinstance(nodes[0], int):
        finish(d, (per_node[0] * nodes[0], nodes[1]), data=data)
    else:
        finish(d, data=data)
    _cut(e, d)


def _cut(e: Entries, d: Draft) -> None:
    """DeepSpeed's stages: by matching layers, by parameters, or by a count, each as equal as can be."""
    partition = e.word("pipe_partition_method")
    layers, pipeline = d.number(f"{MODEL}/layers"), d.number(f"{UNIFORM}/pipeline") or 1
    if layers is None or pipeline < 2:
        return
    known = ("type:transformer", "type:transformer|mlp", "uniform", "parameters")
    if partition is not None and isinstance(partition[0], str) and partition[0] not in known:
        d.note(f"'{partition[1].key}': how stages are cut is not taken over; the plan is read as even", partition[1].place)
    elif layers % pipeline:
        why = "'pipe_partition_method' is type:transformer|mlp by default; which stages hold one layer more is DeepSpeed's choice"
        put_layers(d, balanced(layers, pipeline), partition[1] if partition is not None else None, why)
