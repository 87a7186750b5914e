"""The model of a Megatron configuration: shapes from its arguments, whoever spells them (Megatron-LM, NeMo, Bridge, Primus).

Names are Megatron's own with underscores; those of NeMo and Megatron-Bridge stand beside them. Defaults differ between the
three and come in as a `Dialect`. Checked against megatron/training/arguments.py and megatron/core/transformer/
transformer_config.py of Megatron-LM at d98e8a64d, and megatron/arguments.py of Megatron-DeepSpeed at 4efb479d5.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from .draft import Draft
from .entries import Entries, Entry, Open, wrong
from .parts import Part

MODEL: Final = "/model/transformer"
#: How a layer pattern may be written: `[0]*3+[1]*58`, with brackets around the whole or not.
_PATTERN: Final = re.compile(r"\(?\s*(?:\[[01](?:\s*,\s*[01])*\]\s*(?:\*\s*\d+)?\s*\+?\s*)+\)?")
_RUN: Final = re.compile(r"\[([01](?:\s*,\s*[01])*)\]\s*(?:\*\s*(\d+))?")
MOST_LAYERS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between the frameworks that share Megatron's keys: defaults, each with the framework's own source."""

    name: str
    source: str
    tied: bool | None = True
    biases: bool | None = True
    positions: str | None = "learned_absolute"
    dropout: float | None = 0.1
    #: An MLP that is gated and has no width of its own gets 2/3 of the plain width.
    gated_two_thirds: bool = True
    #: Query groups count only beside the flag `group_query_attention`.
    groups_need_flag: bool = True
    top_k: int | None = 2
    #: How tokens reach their experts where nothing is said of it, nothing then overlapping the exchange.
    dispatcher: str | None = None
    optimizer: str | None = "adam"
    sharded_optimizer: bool | None = False
    #: bf16 parameters accumulate fp32 gradients unless told otherwise.
    gradients_of_bf16: str | None = "fp32"


def read_model(e: Entries, d: Draft, dialect: Dialect) -> None:
    """The shapes. What is neither stated nor filled by the framework stays a gap."""
    d.keep(f"{MODEL}/layers", e.integer("num_layers", "encoder_num_layers", "decoder_num_layers", limit=MOST_LAYERS))
    d.keep(f"{MODEL}/hidden", e.integer("hidden_size"))
    d.keep(f"{MODEL}/heads", e.integer("num_attention_heads"))
    _groups(e, d, dialect)
    d.keep(f"{MODEL}/head_dim", e.integer("kv_channels"))
    gated = _activation(e, d, dialect)
    _width(e, d, dialect, gated)
    _vocabulary(e, d)
    norm = d.known(f"{MODEL}/norm", taken := e.word("normalization", "norm"))
    if isinstance(norm, str) and taken is not None:
        d.put(f"{MODEL}/norm", "rms" if "rms" in norm.lower() else "layer", taken[1])
    else:
        d.assume(f"{MODEL}/norm", "layer", "'normalization' is LayerNorm by default")
    _switch(
        e, d, "tied_embeddings", dialect.tied, ("share_embeddings_and_output_weights",), ("untie_embeddings_and_output_weights",)
    )
    _switch(e, d, "biases", dialect.biases, ("add_bias_linear", "bias"), ("disable_bias_linear",))
    _positions(e, d, dialect)
    _experts(e, d, dialect)
    _latent(e, d)
    first = d.parts.get(f"{MODEL}/layers")
    if first is not None:
        family = "llama" if d.value(f"{MODEL}/norm") == "rms" and d.value(f"{MODEL}/gated") else "gpt"
        d.parts[f"{MODEL}/family"] = Part(f"{MODEL}/family", family, first.place)
    for names, what in (
        (("add_qkv_bias", "qkv_bias"), "biases on queries, keys and values"), (("qk_layernorm",), "norms on queries and keys"),
    ):  # fmt: skip
        taken_flag = e.flag(*names)
        if taken_flag is not None and taken_flag[0] is True:
            d.note(
                f"'{taken_flag[1].key}': {what} have no key in a description by shapes and are not counted", taken_flag[1].place
            )
    for name, what in (
        ("mtp_num_layers", "multi-token prediction layers are neither counted nor priced"),
        ("hybrid_layer_pattern", "layers that are no attention (state space, say) are not modelled"),
        ("hybrid_override_pattern", "layers that are no attention (state space, say) are not modelled"),
        ("spec", "a layer specification in code is not read: other layers than the arguments say may be built"),
        ("heterogeneous_layers_config_path", "layers that differ by a file are not read"),
    ):
        entry = e.take(name)
        if entry is not None and entry.value not in (0, "0", False):
            d.note(f"'{entry.key}': {what}", entry.place)


def _switch(e: Entries, d: Draft, field: str, default: bool | None, positive: tuple[str, ...], negative: tuple[str, ...]) -> None:
    """A truth value that one key turns on and another off."""
    path = f"{MODEL}/{field}"
    for names, meaning in ((positive, True), (negative, False)):
        taken = e.flag(*names)
        value = d.known(path, taken)
        if taken is not None and isinstance(value, bool):
            d.put(path, value if meaning else not value, taken[1])
            return
    if default is not None:
        d.assume(path, default, f"'{field.replace('_', ' ')}' is {'on' if default else 'off'} by default")


def _groups(e: Entries, d: Draft, dialect: Dialect) -> None:
    path = f"{MODEL}/kv_heads"
    flag, groups = e.flag("group_query_attention"), e.integer("num_query_groups", "num_key_value_heads")
    alone = e.peek("num_key_value_heads") is not None
    on = flag is not None and flag[0] is True
    if groups is not None and (on or alone or not dialect.groups_need_flag):
        d.keep(path, groups)
        return
    if groups is not None and flag is None and groups[0] != d.number(f"{MODEL}/heads"):
        d.note(f"'{groups[1].key}' has no effect without '--group-query-attention'", groups[1].place)
    if flag is not None and isinstance(flag[0], Open):
        d.keep(path, flag)
    elif on and groups is None:
        d.assume(path, 1, "'num_query_groups' is 1 by default where group-query attention is on")
    elif (heads := d.number(f"{MODEL}/heads")) is not None:
        d.assume(path, heads, "as many key-value heads as heads without group-query attention")


def _activation(e: Entries, d: Draft, dialect: Dialect) -> bool | None:
    path = f"{MODEL}/gated"
    for name in ("swiglu", "quick_geglu", "gated_linear_unit"):
        taken = e.flag(name)
        value = d.known(path, taken)
        if taken is not None and isinstance(value, bool) and (value or name == "gated_linear_unit"):
            d.put(path, value, taken[1])
            return value
    word = e.word("activation", "glu_activation")
    named = d.known(path, word)
    if isinstance(named, str) and word is not None:
        gated = "glu" in named.lower()
        d.put(path, gated, word[1])
        return gated
    if not d.open(path):
        d.assume(path, False, "the MLP is not gated unless an argument says so")
        return False
    return None


def _width(e: Entries, d: Draft, dialect: Dialect, gated: bool | None) -> None:
    path = f"{MODEL}/ffn"
    if d.keep(path, e.integer("ffn_hidden_size")) is not None or d.open(path):
        return
    hidden = d.number(f"{MODEL}/hidden")
    if hidden is None or gated is None:
        return
    if gated and dialect.gated_two_thirds:
        d.assume(path, int((4 * hidden * 2 / 3) / 64) * 64, "8/3 of the hidden size, down to a multiple of 64, for a gated MLP")
    else:
        d.assume(path, 4 * hidden, "4 x the hidden size")


def _vocabulary(e: Entries, d: Draft) -> None:
    path = f"{MODEL}/vocabulary"
    padding = e.integer("make_vocab_size_divisible_by")
    stated = e.integer("pad_vocab_size_to", "padded_vocab_size", "vocab_size", "override_vocab_size")
    if d.keep(path, stated) is None and not d.open(path):
        named = e.peek("tokenizer_model") or e.peek("tokenizer.type") or e.peek("tokenizer_type") or e.peek("vocab_file")
        of = f" ('{named.key}')" if named is not None else ""
        d.leave(path, f"the tokenizer decides it{of}; state it in the proposal", named.place if named is not None else None)
    if padding is not None and isinstance(padding[0], int) and padding[0] not in (1, 128):
        d.note(
            f"'{padding[1].key}' pads the vocabulary to a multiple of {padding[0]} x tensor; 128 is reckoned with",
            padding[1].place,
        )


def _positions(e: Entries, d: Draft, dialect: Dialect) -> None:
    path = f"{MODEL}/positions"
    longest = e.integer("max_position_embeddings")
    kind, rotary = e.word("position_embedding_type"), e.flag("use_rotary_position_embeddings")
    off = e.flag("no_position_embedding")
    for taken in (rotary, off):
        if taken is not None and taken[0] is True:
            d.put(path, 0, taken[1])
            return
    named = d.known(path, kind)
    if isinstance(named, str) and kind is not None:
        if named != "learned_absolute":
            d.put(path, 0, kind[1])
        elif longest is not None:
            d.keep(path, longest)
        return
    if d.open(path) or dialect.positions is None:
        return
    if dialect.positions == "learned_absolute" and longest is not None:
        if d.known(path, longest) is not None:
            d.put(path, longest[0], longest[1])
    elif dialect.positions != "learned_absolute":
        d.assume(path, 0, f"positions are '{dialect.positions}' by default")


def _experts(e: Entries, d: Draft, dialect: Dialect) -> None:
    base = f"{MODEL}/moe"
    experts = e.integer("num_experts", "num_moe_experts")
    top_k, width = e.integer("moe_router_topk", "topk"), e.integer("moe_ffn_hidden_size")
    shared, capacity = (
        e.integer("moe_shared_expert_intermediate_size"),
        e.number("moe_expert_capacity_factor", "moe_train_capacity_factor"),
    )
    frequency, interval = e.take("moe_layer_freq"), e.integer("expert_interval")
    count = d.known(f"{base}/experts", experts)
    if experts is None or not isinstance(count, int) or (interval is None and experts[1].key.lstrip("-") == "x"):
        return
    if count <= 1:
        return
    d.put(f"{base}/experts", count, experts[1])
    deepspeed = (
        interval is not None or e.peek("moe_expert_parallel_size") is not None or e.peek("moe_train_capacity_factor") is not None
    )
    if d.keep(f"{base}/top_k", top_k) is None:
        if deepspeed:
            d.assume(f"{base}/top_k", 1, "'topk' is 1 by default")
        elif dialect.top_k is not None:
            d.assume(f"{base}/top_k", dialect.top_k, f"'moe_router_topk' is {dialect.top_k} by default")
    if d.keep(f"{base}/ffn", width) is None and (ffn := d.number(f"{MODEL}/ffn")) is not None:
        d.assume(f"{base}/ffn", ffn, "an expert is as wide as the MLP unless 'moe_ffn_hidden_size' is stated")
    if capacity is not None and isinstance(capacity[0], float) and capacity[0] > 0:
        d.put(f"{base}/capacity_factor", capacity[0], capacity[1])
    wide = d.known(f"{base}/shared_ffn", shared)
    if isinstance(wide, int) and shared is not None and wide > 0:
        d.put(f"{base}/shared_ffn", wide, shared[1])
        d.put(f"{base}/shared_experts", 1, shared[1])
    if dialect.dispatcher is not None:
        if not any(e.peek(name) for name in ("moe_token_dispatcher_type", "moe_enable_deepep")):
            why = f"'moe_token_dispatcher_type' is {dialect.dispatcher} by default"
            d.assume("/workload/dispatcher", dialect.dispatcher, why)
        if e.peek("overlap_moe_expert_parallel_comm") is None:
            d.assume("/workload/dispatch_overlap", False, "'overlap_moe_expert_parallel_comm' is off by default")
    d.keep(f"{base}/route_groups", e.integer("moe_router_num_groups"))
    d.keep(f"{base}/route_groups_kept", e.integer("moe_router_group_topk"))
    _sparse(d, base, frequency)
    if deepspeed and frequency is None and d.keep(f"{base}/every", interval) is None:
        d.assume(f"{base}/every", 2, "'expert_interval' is 2 by default")


def _sparse(d: Draft, base: str, frequency: Entry | None) -> None:
    """Which layers have experts: every n-th, or a pattern of leading dense ones."""
    if frequency is None:
        return
    value = frequency.value
    if isinstance(value, Open):
        d.leave(f"{base}/every", f"'{frequency.key}': {value.why}", frequency.place)
        return
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if value > 1:
            # Megatron's layer 0 is an MoE layer and every n-th after it; ours counts from the other end of each group.
            d.note(f"'{frequency.key}' {value}: MoE layers are counted as every {value}-th", frequency.place)
            d.put(f"{base}/every", value, frequency)
        return
    flags = layer_flags(value)
    if flags is None:
        raise wrong(frequency, "a whole number or a pattern like [0]*3+[1]*58")
    first = flags.index(1) if 1 in flags else len(flags)
    if any(flag != 1 for flag in flags[first:]):
        d.leave(f"{base}/every", f"'{frequency.key}': a pattern other than leading dense layers is not modelled", frequency.place)
    elif first:
        d.put(f"{base}/first_dense", first, frequency)


def layer_flags(value: object) -> list[int] | None:
    """The 0 and 1 of each layer that `moe_layer_freq` gives as a list or a pattern; None where it is neither."""
    if isinstance(value, list) and all(flag in (0, 1) for flag in value):
        return [int(flag) for flag in value if isinstance(flag, int)]
    if not isinstance(value, str) or _PATTERN.fullmatch(value.strip()) is None:
        return None
    flags: list[int] = []
    for match in _RUN.finditer(value):
        times = int(match[2] or 1)
        if times * len(match[1]) > MOST_LAYERS:
            return None
        flags += [int(flag) for flag in match[1].split(",")] * times
    return flags or None


def _latent(e: Entries, d: Draft) -> None:
    on = e.flag("multi_latent_attention")
    names = (("kv_rank", "kv_lora_rank", 512), ("rope_head_dim", "qk_pos_emb_head_dim", 64),
             ("nope_head_dim", "qk_head_dim", 128), ("value_head_dim", "v_head_dim", 128))  # fmt: skip
    taken = {field: e.integer(name) for field, name, _ in names}
    query = e.integer("q_lora_rank")
    if on is None or on[0] is not True:
        return
    for field, name, default in names:
        if d.keep(f"{MODEL}/mla/{field}", taken[field]) is None:
            d.assume(f"{MODEL}/mla/{field}", default, f"'{name}' is {default} by default")
    d.keep(f"{MODEL}/mla/q_rank", query)
    if (heads := d.number(f"{MODEL}/heads")) is not None:
        d.drop(f"{MODEL}/kv_heads")
        d.assume(f"{MODEL}/kv_heads", heads, "latent attention has as many key-value heads as heads")
