"""Names of operators and dims as frameworks and papers have them, to those of the operator graph: one table for all readers.

A name that a graph has is taken as it stands; only what it does not have is looked up here. Sources of the names: Megatron-LM
(core/transformer, `linear_qkv`, `linear_fc1`, `output_layer`), Hugging Face transformers (`q_proj`, `gate_proj`, `lm_head`,
`intermediate_size`), torchtitan (models/llama3, `wq`, `w1`, `tok_embeddings`), GPT-NeoX (`query_key_value`, `dense_h_to_4h`).
"""

from __future__ import annotations

from collections.abc import Collection

_OPERATORS = {
    "head": ("lm_head", "output_layer", "embed_out", "unembedding"),
    "embedding": ("embed", "embed_tokens", "tok_embeddings", "word_embeddings", "wte"),
    "qkv": (
        "query", "key", "value", "query_key_value", "linear_qkv", "q_proj", "k_proj", "v_proj", "qkv_proj", "c_attn",
        "wq", "wk", "wv",
    ),
    "output": ("o_proj", "out_proj", "linear_proj", "wo", "attention_output"),
    "core": ("core_attention", "attention_core", "attn_core"),
    "up": ("gate", "gate_up", "gate_proj", "up_proj", "gate_up_proj", "linear_fc1", "fc1", "dense_h_to_4h", "c_fc", "w1", "w3"),
    "down": ("down_proj", "linear_fc2", "fc2", "dense_4h_to_h", "w2"),
    "attention_norm": ("input_layernorm", "ln_1"),
    "mlp_norm": ("post_attention_layernorm", "pre_mlp_layernorm", "ffn_norm", "ln_2"),
    "final_norm": ("final_layernorm", "ln_f"),
}  # fmt: skip
_DIMS = {
    "vocabulary": ("vocab", "vocab_size", "padded_vocab", "padded_vocab_size"),
    "heads": ("num_heads", "n_heads", "n_head", "attention_heads", "num_attention_heads", "kv_heads", "num_kv_heads"),
    "head": ("head_dim", "head_size", "kv_channels"),
    "hidden": ("hidden_size", "d_model", "n_embd", "embedding_dim", "model_dim"),
    "inner": ("ffn", "ffn_hidden", "ffn_hidden_size", "intermediate", "intermediate_size", "d_ff", "mlp"),
    "sequence": ("seq", "seq_len", "sequence_length", "length", "tokens"),
    "batch": ("batch_size", "microbatch", "sequences"),
    "experts": ("num_experts", "n_experts", "expert"),
}
#: The graph's name of an operator or dim, by each other name.
OPERATOR_NAMES = {other: own for own, others in _OPERATORS.items() for other in others}
DIM_NAMES = {other: own for own, others in _DIMS.items() for other in others}


def operator_named(name: str, there: Collection[str]) -> str | None:
    """Which of the operators `there` is meant: the one of that name, or of the name that it stands for; None for none.

    Names may carry those of their block (`mlp.gate`); the last part is looked up.
    """
    block, dot, last = name.rpartition(".")
    for one in (name, f"{block}{dot}{OPERATOR_NAMES.get(last, last)}"):
        if one in there:
            return one
    return None


def dim_named(name: str, there: Collection[str]) -> str | None:
    """Which of the dims `there` is meant; None for none."""
    if name in there:
        return name
    return next((one for one in there if plain_dim(one) == plain_dim(name)), None)


def plain_dim(name: str) -> str:
    """The graph's own name of a dim, whatever it is called."""
    return DIM_NAMES.get(name, name)
