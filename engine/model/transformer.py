"""The transformer family as shapes: the widths of a layer, and what may be wrong with them.

Vocabulary: `hidden` is the residual width, `ffn` the inner width of an MLP, a *gated* MLP has three matrices,
*grouped-query* attention has fewer `kv_heads` than `heads`; *MLA* is latent attention with low-rank projections. This
module knows no plan, no device and no time; what the shapes amount to is counted in `layers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..frozen import dataclass


@dataclass(frozen=True, slots=True)
class MixtureOfExperts:
    """Routed experts in place of some MLPs; `ffn` is the inner width of one, `shared_ffn` that of one shared expert.

    Layers `first_dense` and on are MoE layers where `(layer - first_dense) % every == every - 1`: every 1 is all.
    """

    experts: int
    top_k: int
    ffn: int
    every: int = 1
    first_dense: int = 0
    shared_experts: int = 0
    shared_ffn: int = 0
    capacity_factor: float | None = None
    group_size: int | None = None
    #: One number an expert, added to its score: a bias of the router, or the correction that balances load.
    router_bias: bool = False
    #: A learned scalar gate (hidden to 1) on the shared experts (Qwen2-MoE).
    shared_gate: bool = False
    #: Load of the busiest expert rank over the mean, a stated factor; 1 is even.
    imbalance: float = 1.0
    #: The router keeps to `route_groups_kept` of `route_groups` groups of neighbouring experts a token; 1 of 1 is free choice.
    route_groups: int = 1
    route_groups_kept: int = 1


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): ranks and head widths. `q_rank` None: full query."""

    kv_rank: int
    q_rank: int | None
    rope_head_dim: int
    nope_head_dim: int
    value_head_dim: int


@dataclass(frozen=True, slots=True)
class Transformer:
    """A decoder-only transformer. All widths are whole and positive; shapes are of the whole model, not of a shard."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocabulary: int
    gated: bool
    tied_embeddings: bool
    #: "rms" and "layer_without_bias" have a weight, "layer" a weight and a bias.
    norm: str
    #: Learned absolute positions, or 0 (rotary and none have no parameters).
    learned_positions: int = 0
    #: Biases: on query, key and value (with MLA on the down projections), on the attention's output, on every MLP and
    #: expert, on the head.
    attention_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    #: A learned logit a head that takes attention away from all keys (gpt-oss).
    attention_sinks: bool = False
    #: A norm of `head_dim` on queries and keys (Qwen3), or one over all heads of each (`wide_qk_norm`: OLMo 2); norms of
    #: `hidden` a layer (2, Gemma 2: 4, Falcon 7B: 1).
    qk_norm: bool = False
    wide_qk_norm: bool = False
    norms_per_layer: int = 2
    final_norm: bool = True
    #: A norm on the token embedding (BLOOM).
    embedding_norm: bool = False
    moe: MixtureOfExperts | None = None
    latent: LatentAttention | None = None
    family: str = "transformer"
    name: str = ""


class Problem(NamedTuple):
    """Why a shape cannot be: a code, the field that is at fault, and the numbers that show it.

    Codes: `not_positive`, `negative`, `too_large` (with `limit`), `exceeds` (the field is above what bounds it),
    `indivisible` (the field does not divide what it must), `unknown` (no such word), `odd` (must be even), `mismatch`
    (two fields that must be equal differ), `empty` (no layer is left for what the field describes).
    """

    code: str
    field: str
    detail: tuple[tuple[str, int | str], ...]


#: What `norm` may be.
NORMS = ("rms", "layer", "layer_without_bias")

#: No width, count or vocabulary of a model is near this; beyond it a figure is a mistake, and counts lose their sense.
LIMIT = 2**31 - 1

#: Layers are walked one by one in places, so their number is bounded well above any model built.
LAYER_LIMIT = 100_000


def problems(model: Transformer) -> tuple[Problem, ...]:
    """Everything wrong with the shapes alone, in the order of the fields; empty for a model that can exist.

    `heads * head_dim` may differ from `hidden`: the output projection restores the width (Gemma, Qwen3, gpt-oss).
    """
    found = list(_ranges("", model, ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocabulary"), 1))
    found += _ranges("", model, ("learned_positions", "norms_per_layer"), 0)
    if model.norm not in NORMS:
        found.append(Problem("unknown", "norm", (("norm", model.norm),)))
    moe, latent = model.moe, model.latent
    if moe is not None:
        found += _ranges("moe.", moe, ("experts", "top_k", "ffn", "every", "route_groups", "route_groups_kept"), 1)
        found += _ranges("moe.", moe, ("first_dense", "shared_experts"), 0)
        if moe.shared_experts > 0 or moe.shared_ffn < 0:
            found += _ranges("moe.", moe, ("shared_ffn",), 1)
    if latent is not None:
        found += _ranges("latent.", latent, ("kv_rank", "rope_head_dim", "nope_head_dim", "value_head_dim"), 1)
        if latent.q_rank is not None:
            found += _ranges("latent.", latent, ("q_rank",), 1)
    if found:
        return tuple(found)  # the relations below mean nothing between figures that cannot be
    if model.kv_heads > model.heads:
        found.append(Problem("exceeds", "kv_heads", (("kv_heads", model.kv_heads), ("heads", model.heads))))
    elif model.heads % model.kv_heads:
        found.append(Problem("indivisible", "kv_heads", (("kv_heads", model.kv_heads), ("heads", model.heads))))
    if latent is not None and latent.rope_head_dim % 2:
        found.append(Problem("odd", "latent.rope_head_dim", (("rope_head_dim", latent.rope_head_dim),)))
    if latent is not None and model.kv_heads != model.heads:
        found.append(Problem("mismatch", "kv_heads", (("kv_heads", model.kv_heads), ("heads", model.heads))))
    if moe is not None:
        if moe.top_k > moe.experts:
            found.append(Problem("exceeds", "moe.top_k", (("top_k", moe.top_k), ("experts", moe.experts))))
        if moe.experts % moe.route_groups:
            cut = (("route_groups", moe.route_groups), ("experts", moe.experts))
            found.append(Problem("indivisible", "moe.route_groups", cut))
        elif moe.route_groups_kept > moe.route_groups:
            cut = (("route_groups_kept", moe.route_groups_kept), ("route_groups", moe.route_groups))
            found.append(Problem("exceeds", "moe.route_groups_kept", cut))
        elif moe.top_k <= moe.experts and moe.top_k > (reachable := moe.experts // moe.route_groups * moe.route_groups_kept):
            found.append(Problem("exceeds", "moe.top_k", (("top_k", moe.top_k), ("experts of the groups kept", reachable))))
        if model.layers < moe.first_dense + moe.every:
            detail = (("first_dense", moe.first_dense), ("every", moe.every), ("layers", model.layers))
            found.append(Problem("empty", "moe.first_dense" if moe.first_dense else "moe.every", detail))
        if moe.capacity_factor is not None and not 0 < moe.capacity_factor < LIMIT:
            found.append(Problem("not_positive", "moe.capacity_factor", (("value", str(moe.capacity_factor)),)))
        if moe.group_size is not None and moe.group_size < 1:
            found.append(Problem("not_positive", "moe.group_size", (("value", moe.group_size),)))
    return tuple(found)


def _ranges(prefix: str, part: object, fields: tuple[str, ...], least: int) -> Iterator[Problem]:
    for name in fields:
        value = getattr(part, name)
        limit = LAYER_LIMIT if name == "layers" else LIMIT
        if value < least:
            yield Problem("not_positive" if least else "negative", prefix + name, (("value", value),))
        elif value > limit:
            yield Problem("too_large", prefix + name, (("value", value), ("limit", limit)))
