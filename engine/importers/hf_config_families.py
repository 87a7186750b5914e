"""What each family of Hugging Face configs makes of its keys: one function a family, from keys to a transformer.

What a family fixes was read off the classes of transformers 4.57.1 (configuration and model of each family); for MPT
also off llm-foundry's MPTConfig (commit 0085285). `kimi_k2` is read as `deepseek_v3`, whose keys its configs have.
A new family is one function and one line in `FAMILIES`. This module knows no files and no messages but those about
values whose shapes are not modelled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from ..model import LatentAttention, MixtureOfExperts, Transformer, is_moe
from ..model.transformer import LAYER_LIMIT
from .hf_config_keys import Config


def decoder(
    c: Config, *, tied: bool = False, head_dim: int | None = 0, kv_silent: bool = False, sizes: Mapping[str, int] = {}
) -> Transformer:
    """The common shape since Llama: RMS norms, a gated MLP, rotary positions.

    `head_dim` 0 divides hidden by heads where the config is silent, None demands it. `kv_silent`: a missing number of
    key-value heads is that of the heads. `sizes`: defaults of a class whose saved configs leave them out.
    """

    def size(field: str, key: str) -> int:
        silent = (sizes[key], f"the default of '{key}'") if key in sizes else None
        return c.count(field, key, silent=silent)

    hidden, heads = size("hidden", "hidden_size"), size("heads", "num_attention_heads")
    same = (heads, "the number of attention heads where 'num_key_value_heads' is null or absent")
    usual = sizes.get("num_key_value_heads")
    silent = (usual, "the default of 'num_key_value_heads'") if usual is not None else same if kv_silent else None
    return Transformer(
        layers=size("layers", "num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=c.count("kv_heads", "num_key_value_heads", silent=silent, null=same),
        head_dim=c.divided(hidden, heads, "head_dim") if head_dim == 0 else size("head_dim", "head_dim"),
        ffn=size("ffn", "intermediate_size"),
        vocabulary=size("vocabulary", "vocab_size"),
        gated=True,
        tied_embeddings=c.flag("tied_embeddings", "tie_word_embeddings", tied),
        norm="rms",
        family=c.family,
    )


def biased(c: Config, model: Transformer) -> Transformer:
    """With `attention_bias` on all four projections, as Llama has it."""
    bias = c.flag("attention_bias", "attention_bias", False)
    c.follow("attention_bias", "output_bias")
    return replace(model, attention_bias=bias, output_bias=bias)


def _llama(c: Config) -> Transformer:
    return replace(biased(c, decoder(c, kv_silent=True)), mlp_bias=c.flag("mlp_bias", "mlp_bias", False))


def _mixtral(c: Config) -> Transformer:
    return all_experts(c, decoder(c))


def all_experts(c: Config, model: Transformer, *, router_bias: bool = False) -> Transformer:
    """Every layer routes; the width of an expert is `intermediate_size`."""
    moe = MixtureOfExperts(
        experts=c.count("moe.experts", "num_local_experts"),
        top_k=c.count("moe.top_k", "num_experts_per_tok", "experts_per_token"),
        ffn=model.ffn,
        router_bias=router_bias,
    )
    c.follow("ffn", "moe.ffn")
    return replace(model, moe=moe)


def qwen3(c: Config) -> Transformer:
    """Norms on the queries and keys of each head, whose width is stated."""
    return replace(biased(c, decoder(c, head_dim=None)), qk_norm=True)


def _qwen2_moe(c: Config) -> Transformer:
    model = replace(decoder(c), attention_bias=c.flag("attention_bias", "qkv_bias", True))
    width = c.count("moe.shared_ffn", "shared_expert_intermediate_size")
    return sparse(c, model, lambda moe: replace(moe, shared_experts=1, shared_ffn=width, shared_gate=True))


def _qwen3_moe(c: Config) -> Transformer:
    return sparse(c, qwen3(c), lambda moe: moe)


def sparse(
    c: Config, model: Transformer, extend: Callable[[MixtureOfExperts], MixtureOfExperts]
) -> Transformer:
    """Qwen's choice of MoE layers: every `decoder_sparse_step`-th, but none of `mlp_only_layers`."""
    step = c.count("moe.every", "decoder_sparse_step", silent=(1, "the default of 'decoder_sparse_step'"))
    moe = extend(
        MixtureOfExperts(
            experts=c.count("moe.experts", "num_experts"),
            top_k=c.count("moe.top_k", "num_experts_per_tok"),
            ffn=c.count("moe.ffn", "moe_intermediate_size"),
            every=step,
        )
    )
    found = c.value("mlp_only_layers")
    listed = found[1] if found is not None and found[1] is not None else []
    if not isinstance(listed, list) or any(isinstance(one, bool) or not isinstance(one, int) for one in listed):
        raise c.wrong("mlp_only_layers", listed, "a list of layer numbers")
    if found is None or found[1] is None:
        c.assume("moe.first_dense", 0, "'mlp_only_layers' is empty where absent or null")
    else:
        c.origins["moe.first_dense"] = c.pointer("mlp_only_layers")
    if listed and 0 < model.layers <= LAYER_LIMIT and step > 0:
        dense = set(listed)
        wanted = [(layer + 1) % step == 0 and layer not in dense for layer in range(model.layers)]
        for first in (0, next((layer for layer in range(model.layers) if layer not in dense), model.layers)):
            candidate = replace(model, moe=replace(moe, first_dense=first))
            if wanted == [is_moe(candidate, layer) for layer in range(model.layers)]:
                return candidate
        raise c.unsupported(
            "mlp_only_layers", listed, "dense layers are modelled at the start only, the others at a fixed distance",
            "List the first layers, or state the model as a transformer in the proposal.",
        )  # fmt: skip
    return replace(model, moe=moe)


def _route_groups(c: Config) -> tuple[int, int]:
    """Groups of experts that the router is limited to, and how many of them a token may use; 1 of 1 where it chooses freely."""
    method, keys = c.value("topk_method"), ("n_group", "topk_group")
    stated = all((found := c.value(key)) is not None and found[1] is not None for key in keys)
    if not stated or (method is not None and method[1] not in ("noaux_tc", "group_limited_greedy")):
        return 1, 1
    return c.count("moe.route_groups", keys[0]), c.count("moe.route_groups_kept", keys[1])


def _deepseek(c: Config, *, correction: bool, mlp_bias: bool = False) -> Transformer:
    """DeepSeek-V2 and V3: latent attention, first layers dense, shared experts side by side.

    The correction of V3's router is one number an expert that no gradient trains: a buffer in transformers, a parameter
    in the authors' own code (`topk_method: noaux_tc`); it is counted.
    """
    hidden, heads = c.count("hidden", "hidden_size"), c.count("heads", "num_attention_heads")
    rank = c.value("q_lora_rank")
    whole_query = rank is not None and rank[1] is None
    if whole_query:
        c.origins["latent.q_rank"] = c.pointer("q_lora_rank")
    latent = LatentAttention(
        kv_rank=c.count("latent.kv_rank", "kv_lora_rank"),
        q_rank=None if whole_query else c.count("latent.q_rank", "q_lora_rank"),
        rope_head_dim=c.count("latent.rope_head_dim", "qk_rope_head_dim"),
        nope_head_dim=c.count("latent.nope_head_dim", "qk_nope_head_dim"),
        value_head_dim=c.count("latent.value_head_dim", "v_head_dim"),
    )
    c.follow("latent.nope_head_dim", "head_dim")
    frequency = c.value("moe_layer_freq")
    if frequency is not None and (isinstance(frequency[1], bool) or frequency[1] != 1):
        raise c.unsupported(
            "moe_layer_freq", frequency[1], "every layer after the first dense ones is an MoE layer in transformers",
            "Only 1 is read.",
        )  # fmt: skip
    if correction:
        method = c.value("topk_method")
        if method is None:
            c.assume("moe.router_bias", True, "the router always has a score correction")
        else:
            correction = method[1] == "noaux_tc"
            c.origins["moe.router_bias"] = c.pointer("topk_method")
    shared = c.count("moe.shared_experts", "n_shared_experts", null=(0, "no shared experts where null"))
    groups, kept = _route_groups(c)
    moe = MixtureOfExperts(
        experts=c.count("moe.experts", "n_routed_experts"),
        top_k=c.count("moe.top_k", "num_experts_per_tok"),
        ffn=c.count("moe.ffn", "moe_intermediate_size"),
        first_dense=c.count("moe.first_dense", "first_k_dense_replace"),
        shared_experts=shared,
        router_bias=correction,
        route_groups=groups,
        route_groups_kept=kept,
    )
    if shared:
        moe = replace(moe, shared_ffn=moe.ffn)
        c.follow("moe.ffn", "moe.shared_ffn")
    same = (heads, "the number of attention heads; latent attention has no fewer")
    model = Transformer(
        layers=c.count("layers", "num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=c.count("kv_heads", "num_key_value_heads", silent=same),
        head_dim=latent.nope_head_dim + latent.rope_head_dim,
        ffn=c.count("ffn", "intermediate_size"),
        vocabulary=c.count("vocabulary", "vocab_size"),
        gated=True,
        tied_embeddings=c.flag("tied_embeddings", "tie_word_embeddings", False),
        norm="rms",
        mlp_bias=c.flag("mlp_bias", "mlp_bias", False) if mlp_bias else False,
        moe=moe,
        latent=latent,
        family=c.family,
    )
    return biased(c, model)


def _gemma(c: Config) -> Transformer:
    return biased(c, decoder(c, tied=True, head_dim=None))


def _gemma3(c: Config) -> Transformer:
    model = biased(c, decoder(c, tied=True, head_dim=None, sizes=_GEMMA3_SIZES))
    return replace(model, norms_per_layer=4, qk_norm=True)


def _gpt_oss(c: Config) -> Transformer:
    model = replace(decoder(c, head_dim=None), attention_sinks=True, mlp_bias=True)
    bias = c.flag("attention_bias", "attention_bias", True)
    c.follow("attention_bias", "output_bias")
    return all_experts(c, replace(model, attention_bias=bias, output_bias=bias), router_bias=True)


def _gpt2(c: Config) -> Transformer:
    if c.value("add_cross_attention") is not None and c.flag("add_cross_attention", "add_cross_attention"):
        raise c.unsupported(
            "add_cross_attention", True, "cross-attention reads an encoder, which is not modelled", "Set it to false."
        )
    hidden, heads = c.count("hidden", "n_embd", "hidden_size"), c.count("heads", "n_head", "num_attention_heads")
    four = (4 * hidden, "4 x 'n_embd' where 'n_inner' is null or absent")
    return Transformer(
        layers=c.count("layers", "n_layer", "num_hidden_layers"),
        hidden=hidden, heads=heads, kv_heads=as_heads(c, heads), head_dim=c.divided(hidden, heads),
        ffn=c.count("ffn", "n_inner", silent=four),
        vocabulary=c.count("vocabulary", "vocab_size"),
        gated=False,
        tied_embeddings=c.flag("tied_embeddings", "tie_word_embeddings", True),
        norm="layer",
        learned_positions=c.count("learned_positions", "n_positions", "max_position_embeddings"),
        attention_bias=True, output_bias=True, mlp_bias=True, family=c.family,
    )  # fmt: skip


def as_heads(c: Config, heads: int) -> int:
    """As many key-value heads as heads, as the family has it."""
    c.follow("heads", "kv_heads")
    return heads


def _gpt_neox(c: Config) -> Transformer:
    hidden, heads = c.count("hidden", "hidden_size"), c.count("heads", "num_attention_heads")
    bias = c.flag("attention_bias", "attention_bias", True)
    c.follow("attention_bias", "output_bias")
    return Transformer(
        layers=c.count("layers", "num_hidden_layers"),
        hidden=hidden, heads=heads, kv_heads=as_heads(c, heads), head_dim=c.divided(hidden, heads),
        ffn=c.count("ffn", "intermediate_size"),
        vocabulary=c.count("vocabulary", "vocab_size"),
        gated=False,
        tied_embeddings=c.flag("tied_embeddings", "tie_word_embeddings", False),
        norm="layer", attention_bias=bias, output_bias=bias, mlp_bias=True, family=c.family,
    )  # fmt: skip


def _falcon(c: Config) -> Transformer:
    hidden, heads = c.count("hidden", "hidden_size", "n_embed"), c.count("heads", "num_attention_heads")
    bias = c.flag("attention_bias", "bias", False)
    c.follow("attention_bias", "output_bias", "mlp_bias")
    if c.flag("new_decoder_architecture", "new_decoder_architecture", False):
        same = (heads, "the number of attention heads where 'num_kv_heads' is null or absent")
        kv_heads, norms = c.count("kv_heads", "num_kv_heads", silent=same), 2
        c.value("multi_query")  # read and without effect: the new architecture has its own number
    else:
        kv_heads, norms = 1 if c.flag("multi_query", "multi_query", True) else heads, 1
        c.follow("multi_query", "kv_heads")
        c.settle(kv_heads, "kv_heads")
    if c.flag("parallel_attn", "parallel_attn", True):
        usual = (norms, "2 in the new architecture, else 1, where 'num_ln_in_parallel_attn' is null or absent")
        stated = c.count("norms_per_layer", "num_ln_in_parallel_attn", silent=usual)
        norms = stated if stated in (1, 2) else 0
        if not norms:
            raise c.unsupported(
                "num_ln_in_parallel_attn", stated, "a parallel block has one norm or two", "Write 1 or 2."
            )
    else:
        norms = 2
        c.follow("parallel_attn", "norms_per_layer")
    four = (4 * hidden, "4 x 'hidden_size' where 'ffn_hidden_size' is null or absent")
    return Transformer(
        layers=c.count("layers", "num_hidden_layers"),
        hidden=hidden, heads=heads, kv_heads=kv_heads, head_dim=c.divided(hidden, heads),
        ffn=c.count("ffn", "ffn_hidden_size", silent=four),
        vocabulary=c.count("vocabulary", "vocab_size"),
        gated=False,
        tied_embeddings=c.flag("tied_embeddings", "tie_word_embeddings", True),
        norm="layer", attention_bias=bias, output_bias=bias, mlp_bias=bias, norms_per_layer=norms, family=c.family,
    )  # fmt: skip


def _phi(c: Config) -> Transformer:
    model = decoder(c, kv_silent=True)
    return replace(
        model, gated=False, norm="layer", norms_per_layer=1, attention_bias=True, output_bias=True, mlp_bias=True,
        head_bias=True, qk_norm=c.flag("qk_norm", "qk_layernorm", False),
    )  # fmt: skip


def _mpt(c: Config) -> Transformer:
    """MPT has two classes, of transformers and of llm-foundry; what they fill in differently must be stated.

    That is `attn_config.alibi` and `no_bias`. Where ALiBi or rotary positions are on, both drop the learned ones.
    """
    hidden, heads = c.count("hidden", "d_model", "hidden_size"), c.count("heads", "n_heads", "num_attention_heads")
    kinds = ("multihead_attention", "multiquery_attention", "grouped_query_attention")
    kind = c.word("attn_config.attn_type", kinds, kinds[0])
    kv_heads = as_heads(c, heads)
    if kind != kinds[0]:
        c.origins["kv_heads"] = c.pointer("attn_config.attn_type")
        kv_heads = 1 if kind == kinds[1] else c.count("kv_heads", "attn_config.kv_n_heads")
    for key in ("attn_config.qk_ln", "attn_config.qk_gn"):
        if c.value(key) is not None and c.flag(key, key):
            raise c.unsupported(key, True, "norms over all queries and keys are not modelled", "Set it to false.")
    positions = 0
    relative = c.flag("learned_positions", "attn_config.alibi")
    if not relative and c.value("attn_config.rope") is not None:
        relative = c.flag("learned_positions", "attn_config.rope")
    if relative:
        c.value("learned_pos_emb")  # read and without effect: positions are relative
    elif c.flag("learned_positions", "learned_pos_emb"):
        positions = c.count("learned_positions", "max_seq_len")
    bias = not c.flag("no_bias", "no_bias")
    c.follow("no_bias", "attention_bias", "output_bias", "mlp_bias", "norm")
    c.settle(bias, "attention_bias", "output_bias", "mlp_bias")
    norms = ("low_precision_layernorm", "layernorm", "low_precision_rmsnorm", "rmsnorm")
    rms = c.word("norm_type", norms, norms[0]).endswith("rmsnorm")
    gated = c.word("ffn_config.ffn_type", ("mptmlp", "mptglu"), "mptmlp") != "mptmlp"
    ratio = c.count("ffn", "expansion_ratio", silent=(4, "the default of 'expansion_ratio', times 'd_model'"))
    c.settle(ratio * hidden, "ffn")
    norm = "rms" if rms else "layer" if bias else "layer_without_bias"
    c.settle(norm, "norm")
    return Transformer(
        layers=c.count("layers", "n_layers", "num_hidden_layers"),
        hidden=hidden, heads=heads, kv_heads=kv_heads, head_dim=c.divided(hidden, heads),
        ffn=ratio * hidden,
        vocabulary=c.count("vocabulary", "vocab_size"),
        gated=gated,
        tied_embeddings=c.flag("tied_embeddings", "tie_word_embeddings", True),
        norm=norm,
        learned_positions=positions,
        attention_bias=bias, output_bias=bias, mlp_bias=bias, family=c.family,
    )  # fmt: skip


#: Defaults of Gemma3TextConfig, transformers 4.57.1: the published configs of Gemma 3 leave them out.
_GEMMA3_SIZES: Final = MappingProxyType(
    {"vocab_size": 262_208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256}
)

#: `model_type` -> the class whose defaults count, and how its keys are read.
FAMILIES: Final[Mapping[str, tuple[str, Callable[[Config], Transformer]]]] = MappingProxyType(
    {
        "llama": ("LlamaConfig", _llama),
        "mistral": ("MistralConfig", decoder),
        "mixtral": ("MixtralConfig", _mixtral),
        "qwen2": ("Qwen2Config", lambda c: replace(decoder(c), attention_bias=True)),
        "qwen3": ("Qwen3Config", qwen3),
        "qwen2_moe": ("Qwen2MoeConfig", _qwen2_moe),
        "qwen3_moe": ("Qwen3MoeConfig", _qwen3_moe),
        "deepseek_v2": ("DeepseekV2Config", lambda c: _deepseek(c, correction=False, mlp_bias=True)),
        "deepseek_v3": ("DeepseekV3Config", lambda c: _deepseek(c, correction=True)),
        "kimi_k2": ("DeepseekV3Config", lambda c: _deepseek(c, correction=True)),
        "gemma": ("GemmaConfig", _gemma),
        "gemma2": ("Gemma2Config", lambda c: replace(_gemma(c), norms_per_layer=4)),
        "gemma3_text": ("Gemma3TextConfig", _gemma3),
        "gemma3": ("Gemma3TextConfig", _gemma3),
        "gpt2": ("GPT2Config", _gpt2),
        "gpt_neox": ("GPTNeoXConfig", _gpt_neox),
        "falcon": ("FalconConfig", _falcon),
        "phi": ("PhiConfig", _phi),
        "phi3": ("Phi3Config", lambda c: decoder(c, kv_silent=True)),
        "gpt_oss": ("GptOssConfig", _gpt_oss),
        "mpt": ("MptConfig", _mpt),
    }
)

