"""Further families of Hugging Face configs, beside those of `hf_config_families`: one function a family.

What a family fixes was read off the classes of transformers 4.57.1, and, for families whose code lies beside their weights
(baichuan, chatglm, deepseek, internlm, internlm2, internlm3, qwen, minimax_m2), off that code.
`UNMODELLED` names families that are known and cannot be described by the shapes here, with the reason. A new family is one
function and one line in `LATER`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from ..model import MixtureOfExperts, Transformer
from .hf_config_families import all_experts, as_heads, biased, decoder
from .hf_config_keys import Config


def _llama4(c: Config) -> Transformer:
    """Every n-th layer has experts and one shared expert; the dense layers have a width of their own."""
    model = decoder(c, head_dim=None)
    bias = c.flag("attention_bias", "attention_bias", False)
    c.follow("attention_bias", "output_bias")
    step = c.count("moe.every", "interleave_moe_layer_step", silent=(1, "the default of 'interleave_moe_layer_step'"))
    listed = c.value("moe_layers")
    if listed is not None and listed[1] is not None and listed[1] != list(range(step - 1, model.layers, max(1, step))):
        raise c.unsupported("moe_layers", listed[1], "layers with experts are modelled at a fixed distance", "Leave it out.")
    expert = model.ffn
    c.follow("ffn", "moe.ffn", "moe.shared_ffn")
    c.value("use_qk_norm")  # a norm without parameters
    moe = MixtureOfExperts(
        experts=c.count("moe.experts", "num_local_experts"),
        top_k=c.count("moe.top_k", "num_experts_per_tok"),
        ffn=expert, every=step, shared_experts=1, shared_ffn=expert,
    )  # fmt: skip
    return replace(
        model, moe=moe, attention_bias=bias, output_bias=bias, ffn=c.count("ffn", "intermediate_size_mlp"),
    )  # fmt: skip


def _phimoe(c: Config) -> Transformer:
    model = all_experts(c, biased(c, replace(decoder(c), norm="layer")))
    return replace(model, head_bias=c.flag("head_bias", "lm_head_bias", False))


def _olmo2(c: Config) -> Transformer:
    """Norms behind attention and MLP, and one over all heads of the queries, one over those of the keys."""
    return replace(biased(c, decoder(c, kv_silent=True)), wide_qk_norm=True)


def _olmoe(c: Config) -> Transformer:
    model = _olmo2(c)
    moe = MixtureOfExperts(
        experts=c.count("moe.experts", "num_experts"), top_k=c.count("moe.top_k", "num_experts_per_tok"), ffn=model.ffn
    )
    c.follow("ffn", "moe.ffn")
    return replace(model, moe=moe)


def _granite(c: Config) -> Transformer:
    return replace(biased(c, decoder(c, kv_silent=True)), mlp_bias=c.flag("mlp_bias", "mlp_bias", False))


def _cohere(c: Config) -> Transformer:
    """Attention and MLP side by side on one norm without a bias."""
    model = biased(c, decoder(c, tied=True, kv_silent=True))
    wide = c.family == "cohere" and c.flag("wide_qk_norm", "use_qk_norm", False)
    return replace(model, norm="layer_without_bias", norms_per_layer=1, wide_qk_norm=wide)


def _starcoder2(c: Config) -> Transformer:
    model = decoder(c, tied=True)
    c.word("norm_type", ("layer_norm",), "layer_norm")
    c.word("mlp_type", ("default",), "default")
    bias = c.flag("attention_bias", "use_bias", True)
    c.follow("attention_bias", "output_bias", "mlp_bias")
    return replace(model, gated=False, norm="layer", attention_bias=bias, output_bias=bias, mlp_bias=bias)


def _gpt_bigcode(c: Config) -> Transformer:
    """StarCoder and SantaCoder: GPT-2 with one key-value head."""
    hidden, heads = c.count("hidden", "n_embd", "hidden_size"), c.count("heads", "n_head", "num_attention_heads")
    kv_heads = 1 if c.flag("multi_query", "multi_query", True) else heads
    c.follow("multi_query", "kv_heads")
    c.settle(kv_heads, "kv_heads")
    four = (4 * hidden, "4 x 'n_embd' where 'n_inner' is null or absent")
    return Transformer(
        layers=c.count("layers", "n_layer", "num_hidden_layers"),
        hidden=hidden, heads=heads, kv_heads=kv_heads, head_dim=c.divided(hidden, heads),
        ffn=c.count("ffn", "n_inner", silent=four), vocabulary=c.count("vocabulary", "vocab_size"), gated=False,
        tied_embeddings=c.flag("tied_embeddings", "tie_word_embeddings", True), norm="layer",
        learned_positions=c.count("learned_positions", "n_positions", "max_position_embeddings"),
        attention_bias=True, output_bias=True, mlp_bias=True, family=c.family,
    )  # fmt: skip


def _bloom(c: Config) -> Transformer:
    hidden = c.count("hidden", "hidden_size", "n_embed")
    heads = c.count("heads", "n_head", "num_attention_heads")
    c.follow("hidden", "ffn")
    return Transformer(
        layers=c.count("layers", "n_layer", "num_hidden_layers"),
        hidden=hidden, heads=heads, kv_heads=as_heads(c, heads), head_dim=c.divided(hidden, heads), ffn=4 * hidden,
        vocabulary=c.count("vocabulary", "vocab_size"), gated=False,
        tied_embeddings=c.flag("tied_embeddings", "tie_word_embeddings", True), norm="layer", embedding_norm=True,
        attention_bias=True, output_bias=True, mlp_bias=True, family=c.family,
    )  # fmt: skip


def _opt(c: Config) -> Transformer:
    """Learned positions, two more of them than the config says; the shape before OPT-350M's projections."""
    hidden, heads = c.count("hidden", "hidden_size"), c.count("heads", "num_attention_heads")
    width = c.value("word_embed_proj_dim")
    if width is not None and width[1] not in (None, hidden):
        raise c.unsupported(
            "word_embed_proj_dim", width[1], "an embedding narrower than the model is not modelled",
            "State the model as a transformer in the proposal.",
        )  # fmt: skip
    for key in ("do_layer_norm_before", "layer_norm_elementwise_affine"):
        if c.value(key) is not None and not c.flag(key, key):
            raise c.unsupported(key, False, "its norms are not modelled", "Only true is read.")
    final = c.value("_remove_final_layer_norm") is None or not c.flag("final_norm", "_remove_final_layer_norm")
    bias = c.flag("attention_bias", "enable_bias", True)
    c.follow("attention_bias", "output_bias", "mlp_bias")
    return Transformer(
        layers=c.count("layers", "num_hidden_layers"),
        hidden=hidden, heads=heads, kv_heads=as_heads(c, heads), head_dim=c.divided(hidden, heads),
        ffn=c.count("ffn", "ffn_dim"), vocabulary=c.count("vocabulary", "vocab_size"), gated=False,
        tied_embeddings=c.flag("tied_embeddings", "tie_word_embeddings", True), norm="layer", final_norm=final,
        learned_positions=c.count("learned_positions", "max_position_embeddings") + 2,
        attention_bias=bias, output_bias=bias, mlp_bias=bias, family=c.family,
    )  # fmt: skip


def _gptj(c: Config) -> Transformer:
    """Attention without biases beside an MLP with them, on one norm; the head has a bias."""
    hidden, heads = c.count("hidden", "n_embd", "hidden_size"), c.count("heads", "n_head", "num_attention_heads")
    four = (4 * hidden, "4 x 'n_embd' where 'n_inner' is null or absent")
    return Transformer(
        layers=c.count("layers", "n_layer", "num_hidden_layers"),
        hidden=hidden, heads=heads, kv_heads=as_heads(c, heads), head_dim=c.divided(hidden, heads),
        ffn=c.count("ffn", "n_inner", silent=four), vocabulary=c.count("vocabulary", "vocab_size"), gated=False,
        tied_embeddings=c.flag("tied_embeddings", "tie_word_embeddings", False), norm="layer", norms_per_layer=1,
        mlp_bias=True, head_bias=True, family=c.family,
    )  # fmt: skip


def _glm(c: Config) -> Transformer:
    """GLM-4 of 2025: biases on query, key and value; `glm4` has norms before and after attention and MLP."""
    model = decoder(c, head_dim=0 if c.family == "glm4" else None, kv_silent=False)
    bias = c.flag("attention_bias", "attention_bias", c.family == "glm")
    return replace(model, attention_bias=bias, norms_per_layer=4 if c.family == "glm4" else 2)


def _glm4_moe(c: Config) -> Transformer:
    """GLM-4.5: experts as in DeepSeek-V3, with ordinary attention."""
    model = decoder(c, head_dim=None)
    bias = c.flag("attention_bias", "attention_bias", False)
    model = replace(model, attention_bias=bias, qk_norm=c.flag("qk_norm", "use_qk_norm", False))
    return replace(model, moe=replace(_shared_experts(c), router_bias=True))


def _shared_experts(c: Config) -> MixtureOfExperts:
    """The keys that DeepSeek gave to routed and shared experts of one width."""
    shared = c.count("moe.shared_experts", "n_shared_experts", null=(0, "no shared experts where null"))
    moe = MixtureOfExperts(
        experts=c.count("moe.experts", "n_routed_experts"),
        top_k=c.count("moe.top_k", "num_experts_per_tok"),
        ffn=c.count("moe.ffn", "moe_intermediate_size"),
        first_dense=c.count("moe.first_dense", "first_k_dense_replace"),
        shared_experts=shared,
    )
    c.follow("moe.ffn", "moe.shared_ffn")
    return replace(moe, shared_ffn=moe.ffn) if shared else moe


def _deepseek_moe(c: Config) -> Transformer:
    """DeepSeekMoE of 2024: shared and routed experts under ordinary attention."""
    model = biased(c, decoder(c, kv_silent=True))
    frequency = c.value("moe_layer_freq")
    if frequency is not None and frequency[1] != 1:
        raise c.unsupported("moe_layer_freq", frequency[1], "only every layer after the first dense ones is modelled", "Write 1.")
    return replace(model, moe=_shared_experts(c))


def _chatglm(c: Config) -> Transformer:
    hidden, heads = c.count("hidden", "hidden_size"), c.count("heads", "num_attention_heads")
    head = c.count("head_dim", "kv_channels")
    kv_heads = as_heads(c, heads)
    if c.flag("multi_query_attention", "multi_query_attention", False):
        kv_heads = c.count("kv_heads", "multi_query_group_num")
    bias = c.flag("mlp_bias", "add_bias_linear", False)
    c.follow("mlp_bias", "output_bias")
    rms = c.flag("norm", "rmsnorm", True)
    c.settle("rms" if rms else "layer", "norm")
    final = c.flag("final_norm", "post_layer_norm", True)
    return Transformer(
        layers=c.count("layers", "num_layers"),
        hidden=hidden, heads=heads, kv_heads=kv_heads, head_dim=head, ffn=c.count("ffn", "ffn_hidden_size"),
        vocabulary=c.count("vocabulary", "padded_vocab_size", "vocab_size"), gated=True,
        tied_embeddings=c.flag("tied_embeddings", "tie_word_embeddings", False), norm="rms" if rms else "layer",
        final_norm=final, attention_bias=c.flag("attention_bias", "add_qkv_bias", False), output_bias=bias, mlp_bias=bias,
        family=c.family,
    )  # fmt: skip


def _internlm(c: Config) -> Transformer:
    """`bias` is on all four projections of attention; InternLM 3 has `qkv_bias` for three of them and `bias` elsewhere."""
    model = decoder(c, kv_silent=True)
    if c.family != "internlm3":
        bias = c.flag("attention_bias", "bias", c.family == "internlm")
        c.follow("attention_bias", "output_bias")
        return replace(model, attention_bias=bias, output_bias=bias)
    bias = c.flag("output_bias", "bias", False)
    c.follow("output_bias", "mlp_bias")
    return replace(model, attention_bias=c.flag("attention_bias", "qkv_bias", False), output_bias=bias, mlp_bias=bias)


def _baichuan(c: Config) -> Transformer:
    return decoder(c, kv_silent=True)


def _qwen(c: Config) -> Transformer:
    """Qwen of 2023: `intermediate_size` is of gate and up together, and only query, key and value have biases."""
    model = decoder(c, kv_silent=True)
    bias = not c.flag("no_bias", "no_bias", True)
    c.settle(bias, "no_bias")
    model = replace(model, head_dim=c.divided(model.hidden, model.heads, "kv_channels"))
    return replace(model, ffn=model.ffn // 2, attention_bias=True, output_bias=bias, mlp_bias=bias)


def _stablelm(c: Config) -> Transformer:
    model = replace(decoder(c), norm="layer", attention_bias=c.flag("attention_bias", "use_qkv_bias", False))
    if c.value("qk_layernorm") is not None and c.flag("qk_norm", "qk_layernorm"):
        raise c.unsupported("qk_layernorm", True, "a norm for each head of its own is not modelled", "Set it to false.")
    parallel = c.flag("norms_per_layer", "use_parallel_residual", False)
    c.settle(1 if parallel else 2, "norms_per_layer")
    return replace(model, norms_per_layer=1 if parallel else 2)


def _nemotron(c: Config) -> Transformer:
    """Nemotron 4: squared ReLU without a gate, layer norms whose weight counts from 1."""
    model = biased(c, decoder(c, kv_silent=True))
    return replace(model, gated=False, norm="layer", mlp_bias=c.flag("mlp_bias", "mlp_bias", False))


def _minimax_m2(c: Config) -> Transformer:
    """Softmax attention everywhere, norms over all heads, a score correction for each expert."""
    bias = c.flag("moe.router_bias", "use_routing_bias")
    c.word("qk_norm_type", ("per_layer",), "per_layer")
    for key, usual in (("shared_intermediate_size", 0), ("attn_type_list", None)):
        found = c.value(key)
        plain = found is None or found[1] == usual or (isinstance(found[1], list) and set(found[1]) == {1})
        if found is not None and not plain:
            raise c.unsupported(key, found[1], "shared experts and linear attention are not modelled", "Leave it out.")
    model = all_experts(c, decoder(c, head_dim=None), router_bias=bias)
    return replace(model, wide_qk_norm=c.flag("wide_qk_norm", "use_qk_norm"))


def _dbrx(c: Config) -> Transformer:
    hidden, heads = c.count("hidden", "d_model"), c.count("heads", "n_heads")
    moe = MixtureOfExperts(
        experts=c.count("moe.experts", "ffn_config.moe_num_experts"),
        top_k=c.count("moe.top_k", "ffn_config.moe_top_k"),
        ffn=c.count("moe.ffn", "ffn_config.ffn_hidden_size"),
    )
    c.follow("moe.ffn", "ffn")
    return Transformer(
        layers=c.count("layers", "n_layers"),
        hidden=hidden, heads=heads, kv_heads=c.count("kv_heads", "attn_config.kv_n_heads"), head_dim=c.divided(hidden, heads),
        ffn=moe.ffn, vocabulary=c.count("vocabulary", "vocab_size"), gated=True,
        tied_embeddings=c.flag("tied_embeddings", "tie_word_embeddings", False), norm="layer_without_bias", moe=moe,
        family=c.family,
    )  # fmt: skip


def _seed_oss(c: Config) -> Transformer:
    model = decoder(c, head_dim=None)
    out = c.flag("output_bias", "attention_out_bias", False)
    bias = c.flag("attention_bias", "attention_bias", True)
    return replace(model, attention_bias=bias, output_bias=out, mlp_bias=c.flag("mlp_bias", "mlp_bias", False))


#: `model_type` -> the class whose defaults count, and how its keys are read.
LATER: Final[Mapping[str, tuple[str, Callable[[Config], Transformer]]]] = MappingProxyType(
    {
        "llama4_text": ("Llama4TextConfig", _llama4),
        "llama4": ("Llama4TextConfig", _llama4),
        "phimoe": ("PhimoeConfig", _phimoe),
        "olmo2": ("Olmo2Config", _olmo2),
        "olmo3": ("Olmo3Config", _olmo2),
        "olmoe": ("OlmoeConfig", _olmoe),
        "granite": ("GraniteConfig", _granite),
        "granitemoe": ("GraniteMoeConfig", lambda c: all_experts(c, biased(c, decoder(c, kv_silent=True)))),
        "cohere": ("CohereConfig", _cohere),
        "cohere2": ("Cohere2Config", _cohere),
        "starcoder2": ("Starcoder2Config", _starcoder2),
        "gpt_bigcode": ("GPTBigCodeConfig", _gpt_bigcode),
        "bloom": ("BloomConfig", _bloom),
        "opt": ("OPTConfig", _opt),
        "gptj": ("GPTJConfig", _gptj),
        "glm": ("GlmConfig", _glm),
        "glm4": ("Glm4Config", _glm),
        "glm4_moe": ("Glm4MoeConfig", _glm4_moe),
        "chatglm": ("ChatGLMConfig", _chatglm),
        "deepseek": ("DeepseekConfig", _deepseek_moe),
        "internlm": ("InternLMConfig", _internlm),
        "internlm2": ("InternLM2Config", _internlm),
        "internlm3": ("InternLM3Config", _internlm),
        "baichuan": ("BaichuanConfig", _baichuan),
        "qwen": ("QWenConfig", _qwen),
        "stablelm": ("StableLmConfig", _stablelm),
        "nemotron": ("NemotronConfig", _nemotron),
        "minimax_m2": ("MiniMaxM2Config", _minimax_m2),
        "dbrx": ("DbrxConfig", _dbrx),
        "smollm3": ("SmolLM3Config", lambda c: replace(biased(c, decoder(c)), mlp_bias=c.flag("mlp_bias", "mlp_bias", False))),
        "seed_oss": ("SeedOssConfig", _seed_oss),
    }
)

#: What holds a language model in its `text_config` -> the family of that where it does not say.
INSIDE: Final[Mapping[str, str]] = MappingProxyType({
    "gemma3": "gemma3_text", "llama4": "llama4_text", "mistral3": "mistral", "qwen2_vl": "qwen2", "qwen2_5_vl": "qwen2",
    "qwen3_vl": "qwen3", "qwen3_vl_moe": "qwen3_moe", "llava": "llama", "pixtral": "mistral", "kimi_vl": "deepseek_v3",
})  # fmt: skip
#: Names that families have inside a `text_config`.
ALSO: Final[Mapping[str, str]] = MappingProxyType(
    {"qwen2_vl_text": "qwen2", "qwen2_5_vl_text": "qwen2", "qwen3_vl_text": "qwen3", "qwen3_vl_moe_text": "qwen3_moe"}
)

_STATE_SPACE = "it has layers of a state-space model"
_LINEAR = "it has layers of linear attention, whose shapes and work are others"
#: Families that are known and not modelled -> why.
UNMODELLED: Final[Mapping[str, str]] = MappingProxyType({
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba", "falcon_h1", "jamba", "bamba", "zamba", "zamba2", "nemotron_h",
                     "granitemoehybrid", "recurrent_gemma", "lfm2"), _STATE_SPACE),
    **dict.fromkeys(("minimax", "minimax_text_01", "MiniMaxText01", "qwen3_next", "rwkv", "kimi_linear"), _LINEAR),
    "mllama": "it has layers that attend to an image",
    "olmo": "its norms have no parameters, which is not modelled",
    "phi3small": "it mixes dense and block-sparse attention",
    "gemma3n": "its layers share keys and have embeddings of their own",
    "deepseek_v32": "its attention chooses tokens by an indexer",
    "openelm": "its layers have different widths",
    "nemotron-nas": "its layers have different widths",
})  # fmt: skip
