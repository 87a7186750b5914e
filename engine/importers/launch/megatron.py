"""A Megatron configuration by its arguments, whoever spells them: workload and plan. The model is read in `megatron_model`.

Knows names and defaults of Megatron's arguments; nothing of shells or documents, which bring the entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from ...plan.layout_string import read_layout
from .draft import PLAN, Draft, finish, fp8_products, full_precision, mixed_precision, schedule_of
from .entries import Entries, Entry, Open
from .megatron_model import MODEL, Dialect, layer_flags, read_model
from .parts import Part
from .uneven import balanced, by_rank, counted_ends, put_layers, stated_ends

UNIFORM: Final = f"{PLAN}/uniform"
MEGATRON: Final = Dialect("megatron-lm", "Megatron-LM d98e8a64d, megatron/training/arguments.py", dispatcher="allgather")
_FIRST_AND_LAST: Final = (
    ("decoder_first_pipeline_num_layers", "num_layers_in_first_pipeline_stage"),
    ("decoder_last_pipeline_num_layers", "num_layers_in_last_pipeline_stage"),
)
_LAYERS: Final = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}
_SHARDING: Final = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}


#: Arguments that take several words; where one is written as a text, blanks divide it.
LISTS: Final = frozenset(
    {
        "recompute_modules", "offload_modules", "rampup_batch_size", "cp_comm_type", "cuda_graph_scope",
        "hierarchical_context_parallel_sizes",
    }
)  # fmt: skip


def arguments_as_lists(entries: Iterable[Entry]) -> Iterator[Entry]:
    """The arguments with those that are lists as lists: several words, or a pattern of layers."""
    for entry in entries:
        value = entry.value
        if isinstance(value, str) and entry.key in LISTS and (" " in value.strip() or entry.key.endswith("_modules")):
            yield Entry(entry.key, re.split(r"[\s,]+", value.strip().strip("[]()").strip()), entry.place)
        elif entry.key == "moe_layer_freq" and isinstance(value, str) and (flags := layer_flags(value)) is not None:
            yield Entry(entry.key, flags, entry.place)
        else:
            yield entry


def read_arguments(e: Entries, d: Draft, dialect: Dialect = MEGATRON) -> None:
    """Model, workload and plan. Everything that is not asked for here is left to the caller's tables."""
    d.source = d.source or dialect.source
    read_model(e, d, dialect)
    _workload(e, d, dialect)
    _precision(e, d, dialect)
    _degrees(e, d)
    _pipeline(e, d)
    _recompute(e, d)
    _states(e, d, dialect)
    _world(e, d)
    _uneven(e, d)


def _uneven(e: Entries, d: Draft) -> None:
    """Stages of unequal length, once the degrees are known."""
    layers, pipeline = d.number(f"{MODEL}/layers"), d.number(f"{UNIFORM}/pipeline")
    ends = [e.integer(*names, limit=10**5) for names in _FIRST_AND_LAST]
    counted = [e.flag(name) for name in ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split")]
    alone, layout = e.flag("standalone_embedding_stage"), _layout(e)
    method, by_hand = e.word("pp_partition_method"), _by_hand(e)
    if layers is None or pipeline is None or pipeline < 2:
        return
    first, last = (taken[0] if taken is not None and isinstance(taken[0], int) else None for taken in ends)
    at_first, at_last = (taken is not None and taken[0] is True for taken in counted)
    asked = next((taken[1] for taken in (*ends, *counted) if taken is not None and taken[0] not in (False, None)), None)
    if first is not None or last is not None:
        counts = stated_ends(layers, pipeline, first=first, last=last)
    elif at_first or at_last:
        counts = counted_ends(layers, pipeline, first=int(at_first), last=int(at_last))
    elif layout is not None and len(layout[0]) % pipeline == 0:
        asked, counts = layout[1], by_rank([stage.count("t") for stage in layout[0]], pipeline)
    elif by_hand is not None:
        asked, counts = by_hand[1], by_rank(by_hand[0], pipeline) if len(by_hand[0]) % pipeline == 0 else None
    elif method is not None and isinstance(method[0], str):
        asked = method[1]
        both = "embedding" in method[0].lower() and "transformer" in method[0].lower()
        counts = counted_ends(layers, pipeline, first=1, last=1) if both else balanced(layers, pipeline)
    elif alone is not None and alone[0] is True:
        asked, counts = alone[1], stated_ends(layers, pipeline, first=0, last=None)
    elif e.peek("deepspeed") is not None and layers % pipeline:
        asked, counts = e.peek("num_layers"), balanced(layers, pipeline)
    else:
        return
    if asked is not None and counts is not None:
        put_layers(d, counts, asked)


def _by_hand(e: Entries) -> tuple[list[int], Entry] | None:
    """Primus' list of layers by virtual stage; None where there is none."""
    entry = e.take("decoder_pipeline_manual_split_list")
    value = entry.value if entry is not None else None
    words = re.findall(r"[0-9]{1,6}", value) if isinstance(value, str) else value
    if entry is None or not isinstance(words, list) or not words:
        return None
    counts = [int(word) for word in words if str(word).isdigit()]
    return (counts, entry) if len(counts) == len(words) else None


def _layout(e: Entries) -> tuple[tuple[str, ...], Entry] | None:
    """The virtual stages of a layout, as a text or as lists of words; None where there is none that can be read."""
    entry = e.take("pipeline_model_parallel_layout")
    if entry is None:
        return None
    if isinstance(entry.value, list):
        stages = tuple("".join(_LAYERS.get(str(word), "?") for word in one) for one in entry.value if isinstance(one, list))
        return (stages, entry) if len(stages) == len(entry.value) and "?" not in "".join(stages) else None
    read = read_layout(entry.value) if isinstance(entry.value, str) else None
    return (read.stages, entry) if read is not None else None


def _workload(e: Entries, d: Draft, dialect: Dialect) -> None:
    length = d.keep(
        "/workload/sequence_length", e.integer("seq_length", "encoder_seq_length", "decoder_seq_length", "sequence_length")
    )
    micro = d.keep(f"{PLAN}/microbatch", e.integer("micro_batch_size", limit=10**6))
    batch = e.integer("global_batch_size")
    value = d.known("/workload/global_batch", batch)
    if isinstance(value, int) and batch is not None:
        d.put("/workload/global_batch", f"{value} sequences", batch[1])
    elif batch is None and micro is not None:
        d.assume(f"{PLAN}/accumulation", 1, "the global batch is microbatch x data where none is stated")
    for name in ("rampup_batch_size", "step_batch_size_schedule"):
        entry = e.take(name)
        if entry is not None:
            d.note(f"'{entry.key}': the batch grows to its full size; the full size is what is judged", entry.place)
    steps = d.keep("/proposal/run_length/steps", e.integer("train_iters"))
    samples, tokens = e.integer("train_samples"), e.integer("train_tokens", limit=10**17)
    if steps is None and samples is not None and isinstance(samples[0], int) and isinstance(length, int):
        d.put("/proposal/run_length/tokens", f"{samples[0] * length} tokens", samples[1])
    elif steps is None and tokens is not None and isinstance(tokens[0], int):
        d.put("/proposal/run_length/tokens", f"{tokens[0]} tokens", tokens[1])
    hidden, attention = e.number("hidden_dropout"), e.number("attention_dropout")
    if d.keep("/workload/dropout", hidden) is None and dialect.dropout is not None:
        d.assume("/workload/dropout", dialect.dropout, f"'hidden_dropout' is {dialect.dropout} by default")
    if attention is not None and hidden is not None and attention[0] != hidden[0]:
        d.note(
            f"'{attention[1].key}' is {attention[0]} and the dropout of hidden states {hidden[0]}: the latter stands",
            attention[1].place,
        )
    masked = e.flag("reset_attention_mask")
    if masked is not None and isinstance(masked[0], bool):
        d.put("/workload/packing/document_mask", masked[0], masked[1])
    _attention(e, d)
    optimizer = e.word("optimizer", "optim.name")
    called = d.known("/workload/optimizer/name", optimizer)
    if isinstance(called, str) and optimizer is not None:
        own = called == "mcore_distributed_optim"
        known = "adam" if "adam" in called or own else called.removeprefix("dist_")
        d.put("/workload/optimizer/name", "sgd_momentum" if known == "sgd" else known, optimizer[1])
    elif dialect.optimizer is not None:
        d.assume("/workload/optimizer/name", dialect.optimizer, f"'optimizer' is {dialect.optimizer} by default")


def _attention(e: Entries, d: Draft) -> None:
    path = "/workload/attention"
    backend = e.word("attention_backend")
    for name in ("use_flash_attn", "use_flash_attn_v2", "use_flash_attn_v1", "use_flash_attn_triton", "use_flash_attention"):
        flag = e.flag(name)
        if flag is not None and flag[0] is True and path not in d.parts:
            d.put(path, "flash", flag[1])
    named = d.known(path, backend)
    if isinstance(named, str) and backend is not None:
        word = named.rpartition(".")[2]
        if word in ("flash", "fused"):
            d.put(path, "flash", backend[1])
        elif word in ("unfused", "local"):
            d.put(path, "unfused", backend[1])
        else:
            d.leave(path, f"'{backend[1].key}' is {word}: the kernel is chosen where it runs", backend[1].place)


def _precision(e: Entries, d: Draft, dialect: Dialect) -> None:
    base = "/workload/precision"
    bf16, fp16, word = e.flag("bf16"), e.flag("fp16"), e.word("precision", "params_dtype")
    reduced, accumulated = e.flag("grad_reduce_in_bf16"), e.flag("accumulate_allreduce_grads_in_fp32", "grad_reduce_in_fp32")
    chosen: tuple[str, Entry] | None = None
    for flag, kind in ((bf16, "bf16"), (fp16, "fp16")):
        if d.known(f"{base}/parameters", flag) is True and flag is not None:
            if chosen is not None:
                d.note(f"'{chosen[1].key}' and '{flag[1].key}' exclude each other: the framework refuses both", flag[1].place)
            chosen = (kind, flag[1])
    named = d.known(f"{base}/parameters", word)
    if isinstance(named, str) and word is not None and chosen is None:
        text = named.lower()
        dtype = "bf16" if "bf" in text else "fp32" if text in ("32", "32-true", "fp32", "float32", "torch.float32") else "fp16"
        chosen = (dtype, word[1])
    if chosen is None:
        if e.more is not None:
            d.leave(f"{base}/parameters", f"neither 'bf16' nor 'fp16' is stated, and {e.more}")
        if not d.open(f"{base}/parameters") and dialect.gradients_of_bf16 is not None:
            full_precision(d, "fp32 unless 'bf16' or 'fp16' is stated")
    elif chosen[0] == "fp32":
        full_precision(d, "full precision", chosen[1])
    else:
        _gradients(d, chosen, reduced, accumulated, dialect)
    _fine_precision(e, d)
    scale = e.number("loss_scale")
    if chosen is not None and chosen[0] == "fp16":
        if scale is not None and isinstance(scale[0], float) and scale[0] > 0:
            d.put("/workload/loss_scaling", "static", scale[1])
        else:
            d.assume("/workload/loss_scaling", "dynamic", "fp16 without 'loss_scale' scales dynamically")
    fp8 = e.word("fp8_format", "fp8", "fp8_hybrid", "fp8_e4m3")
    if fp8 is not None and isinstance(fp8[0], Open):
        d.leave(f"{base}/compute", f"'{fp8[1].key}': {fp8[0].why}", fp8[1].place)
    elif fp8 is not None and str(fp8[0]).lower() not in ("false", "none"):
        fp8_products(d, fp8[1])


def _gradients(d: Draft, chosen: tuple[str, Entry], reduced: object, accumulated: object, dialect: Dialect) -> None:
    dtype, entry = chosen
    path = "/workload/precision/gradients"
    if isinstance(reduced, tuple) and reduced[0] is True:
        d.put(path, "bf16", reduced[1])
    elif isinstance(accumulated, tuple) and isinstance(accumulated[0], bool):
        d.put(path, "fp32" if accumulated[0] else dtype, accumulated[1])
    kept = dialect.gradients_of_bf16 or "fp32"
    why = f"bf16 parameters accumulate {kept} gradients by default" if dtype == "bf16" else "fp16 gradients stay fp16 by default"
    mixed_precision(d, entry, dtype, gradients=kept if dtype == "bf16" else dtype, why=why)


def _fine_precision(e: Entries, d: Draft) -> None:
    """The precision-aware optimizer: dtypes of its own for gradients, master copy and moments."""
    aware = e.flag("use_precision_aware_optimizer")
    roles = {"gradients": e.word("main_grads_dtype"), "master": e.word("main_params_dtype"), "moments": e.word("exp_avg_dtype")}
    second = e.word("exp_avg_sq_dtype")
    if aware is None or aware[0] is not True:
        return
    for role, taken in roles.items():
        value = d.known(f"/workload/precision/{role}", taken)
        if isinstance(value, str) and taken is not None:
            d.put(f"/workload/precision/{role}", _dtype(value), taken[1])
    first = roles["moments"]
    if second is not None and first is not None and second[0] != first[0]:
        d.note(f"'{second[1].key}' differs from '{first[1].key}': both moments are counted as the latter", second[1].place)


def _dtype(word: str) -> str:
    text = word.lower().removeprefix("torch.")
    return {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32"}.get(text, text)


def _degrees(e: Entries, d: Draft) -> None:
    deepspeed = e.integer("ds_sequence_parallel_size")
    for axis, names in (
        ("tensor", ("tensor_model_parallel_size", "model_parallel_size")),
        ("pipeline", ("pipeline_model_parallel_size", "pipe_parallel_size")),
        ("context", ("context_parallel_size",)),
        ("expert", ("expert_model_parallel_size", "moe_expert_parallel_size")),
        ("expert_tensor", ("expert_tensor_parallel_size",)),
    ):
        d.keep(f"{UNIFORM}/{axis}", e.integer(*names, limit=10**6))
    if deepspeed is not None and isinstance(deepspeed[0], int) and deepspeed[0] > 1:
        d.put(f"{UNIFORM}/context", deepspeed[0], deepspeed[1])
        d.note(f"'{deepspeed[1].key}': sequences are split by heads (Ulysses); counted as context parallel", deepspeed[1].place)
    d.keep(f"{PLAN}/sequence_parallel", e.flag("sequence_parallel"))
    d.assume(f"{PLAN}/sequence_parallel", False, "'sequence_parallel' is off by default")
    late = e.flag("use_tp_pp_dp_mapping")
    if late is not None and late[0] is True:
        d.put(f"{PLAN}/order", ["tensor", "context", "pipeline", "data"], late[1])
    order = e.word("order")
    if order is not None and isinstance(order[0], str):
        axis_names = {"tp": "tensor", "cp": "context", "dp": "data", "pp": "pipeline"}
        axes = [axis_names[word] for word in order[0].split("-") if word in axis_names]
        d.put(f"{PLAN}/order", axes, order[1])


def _pipeline(e: Entries, d: Draft) -> None:
    path = f"{PLAN}/interleave"
    chunks = e.integer("virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank", limit=1024)
    layers = e.integer("num_layers_per_virtual_pipeline_stage", limit=10**5)
    value = d.known(path, chunks)
    each = d.known(path, layers)
    pipeline, total = d.number(f"{UNIFORM}/pipeline") or 1, d.number(f"{MODEL}/layers")
    if isinstance(value, int) and chunks is not None:
        d.put(path, max(value, 1), chunks[1])
    elif isinstance(each, int) and layers is not None and each > 0:
        if total is not None and total % (pipeline * each) == 0:
            d.put(path, total // (pipeline * each), layers[1])
        elif total is not None:
            text = f"{total} layers do not divide into pipeline {pipeline} x chunks of {each}"
            d.leave(path, f"'{layers[1].key}': {text}: the framework refuses this", layers[1].place)
    elif chunks is None and (layout := _layout(e)) is not None:
        stages = len(layout[0])
        if stages % pipeline == 0 and stages > pipeline > 1:
            d.put(path, stages // pipeline, layout[1])
    zero_bubble = e.flag("enable_zbh1_pipeline")
    if zero_bubble is not None and zero_bubble[0] is True:
        d.put(f"{PLAN}/schedule", "zb_h1", zero_bubble[1])
    schedule_of(d)


def _recompute(e: Entries, d: Draft) -> None:
    path = f"{PLAN}/recompute"
    kind = e.word("recompute_granularity", "activations_checkpoint_granularity")
    method, number = e.word("recompute_method", "activations_checkpoint_method"), e.integer(
        "recompute_num_layers", "activations_checkpoint_num_layers", "checkpoint_num_layers")  # fmt: skip
    modules = e.take("recompute_modules")
    selective = e.flag("recompute_activations")
    whole = e.flag("checkpoint_activations")
    named = d.known(path, kind)
    if isinstance(named, str) and kind is not None:
        d.put(path, named if named in ("full", "selective") else "none", kind[1])
    elif selective is not None and selective[0] is True:
        d.put(path, "selective", selective[1])
    elif whole is not None and whole[0] is True:
        d.put(path, "full", whole[1])
    elif not d.open(path):
        for taken in (selective, whole):
            d.known(path, taken)
    _partial(d, method, number)
    if modules is not None and d.value(path) == "selective" and modules.value not in ("core_attn", ["core_attn"]):
        d.note(f"'{modules.key}': selective is reckoned as the attention core; other modules are not modelled", modules.place)
    d.assume(path, "none", "nothing is recomputed by default")


def _partial(d: Draft, method: object, number: object) -> None:
    """`block` recomputes the first n layers of a stage or chunk only: full recompute where that is all of them."""
    if not isinstance(method, tuple) or method[0] != "block" or d.value(f"{PLAN}/recompute") != "full":
        return
    if not isinstance(number, tuple) or not isinstance(number[0], int):
        return
    layers = d.number(f"{MODEL}/layers")
    pieces = (d.number(f"{UNIFORM}/pipeline") or 1) * (d.number(f"{PLAN}/interleave") or 1)
    if layers is not None and number[0] * pieces < layers:
        d.drop(f"{PLAN}/recompute")
        d.leave(
            f"{PLAN}/recompute",
            f"'{number[1].key}': {number[0]} of {layers // pieces} layers of each part of a stage are recomputed, which is "
            "neither none nor full",
            number[1].place,
        )
    elif layers is None:
        d.note(
            f"'{number[1].key}': read as full recompute; whether {number[0]} layers are all of a stage is not known",
            number[1].place,
        )


def _states(e: Entries, d: Draft, dialect: Dialect) -> None:
    path = f"{PLAN}/zero"
    stage, sharded = e.integer("zero_stage"), e.flag("use_distributed_optimizer", "overlap_distributed_optimizer")
    torch, own = e.flag("use_torch_fsdp2"), e.flag("use_megatron_fsdp", "use_custom_fsdp")
    strategy = e.word("data_parallel_sharding_strategy")
    if d.keep(path, stage) is not None:
        return
    if torch is not None and torch[0] is True:
        d.put(path, 3, torch[1])
    elif own is not None and own[0] is True:
        if strategy is not None and strategy[0] in _SHARDING:
            d.put(path, _SHARDING[str(strategy[0])], strategy[1])
        else:
            d.assume(path, 0, "'data_parallel_sharding_strategy' is no_shard by default")
    elif sharded is not None and isinstance(sharded[0], bool):
        d.put(path, 1 if sharded[0] else 0, sharded[1])
    elif dialect.sharded_optimizer is not None and d.known(path, sharded) is None and not d.open(path):
        value = 1 if dialect.sharded_optimizer else 0
        d.assume(path, value, f"the distributed optimizer is {'on' if value else 'off'} by default")


def _world(e: Entries, d: Draft) -> None:
    """Nodes and devices that the launcher is told of."""
    nodes, per_node = None, None
    written = e.peek("nnodes")
    if written is not None and isinstance(written.value, str) and ":" in written.value:
        e.take("nnodes")
        d.leave("/cluster/nodes/count", f"'{written.key}' is {written.value}: as many nodes as come", written.place)
    else:
        nodes = e.integer("nnodes", "num_nodes", "trainer.num_nodes", limit=10**6)
    for name in ("nproc_per_node", "num_gpus", "trainer.devices", "gpus_per_node", "num_gpus_per_node"):
        found = e.peek(name)
        if found is not None and isinstance(found.value, str) and found.value in ("gpu", "auto"):
            e.take(name)
            continue
        per_node = per_node or e.integer(name, limit=1024)
    world = e.integer("world_size", limit=10**9)
    count, each = d.known("/cluster/nodes/count", nodes), d.known("/cluster/nodes/devices", per_node)
    if isinstance(count, int) and nodes is not None and count > 0:
        d.put("/cluster/nodes/count", count, nodes[1])
    if isinstance(each, int) and per_node is not None and each > 0:
        d.put("/cluster/nodes/devices", each, per_node[1])
    if nodes is None and e.one_node is not None and isinstance(each, int) and not d.open("/cluster/nodes/count"):
        count = 1
        d.parts["/cluster/nodes/count"] = Part("/cluster/nodes/count", 1, d.place, "", e.one_node)
    if isinstance(count, int) and isinstance(each, int) and per_node is not None:
        finish(d, (count * each, per_node[1]))
    elif world is not None and not isinstance(world[0], Open):
        finish(d, world)
    else:
        finish(d)
