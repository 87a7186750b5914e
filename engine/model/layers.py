"""What one layer is made of, and exact counts: matrices, parameters of layers and stages, FLOPs a token.

Vocabulary: a *linear* is one matrix with an optional bias; its *split* says how tensor parallelism divides it in the
usual Megatron layout (Shoeybi et al. 2019, arXiv 1909.08053): "column" divides the outputs, "row" the inputs and leaves
the bias whole, "none" leaves the matrix on every rank. All counts are of the whole model: this module knows no degree,
no bytes, no device. Every count is a whole number, exact.
"""

from __future__ import annotations

from typing import Literal

from ..frozen import dataclass
from .transformer import Transformer

Split = Literal["column", "row", "none"]
Group = Literal["attention", "mlp", "expert", "shared", "router"]


@dataclass(frozen=True, slots=True)
class Linear:
    """One matrix of `inputs` x `outputs`; `bias` adds `outputs` parameters."""

    name: str
    inputs: int
    outputs: int
    split: Split
    bias: bool
    group: Group

    @property
    def weights(self) -> int:
        """Elements of the matrix alone."""
        return self.inputs * self.outputs

    @property
    def parameters(self) -> int:
        """The matrix and its bias."""
        return self.inputs * self.outputs + (self.outputs if self.bias else 0)

    @property
    def replicated(self) -> int:
        """Parameters that every tensor-parallel rank holds whole: all where not split, the bias where split by rows."""
        if self.split == "none":
            return self.parameters
        return self.outputs if self.bias and self.split == "row" else 0


@dataclass(frozen=True, slots=True)
class LayerParameters:
    """Parameters of one layer by kind; `experts` is all routed experts together.

    `replicated` (of everything but `experts`) and `experts_replicated` are parts of the counts above them, not further
    parameters: what tensor parallelism leaves whole on every rank.
    """

    attention: int
    mlp: int
    experts: int
    shared: int
    router: int
    norms: int
    replicated: int
    experts_replicated: int = 0

    @property
    def dense(self) -> int:
        """Everything but the routed experts: what expert parallelism does not divide."""
        return self.attention + self.mlp + self.shared + self.router + self.norms

    @property
    def total(self) -> int:
        """Everything."""
        return self.dense + self.experts


@dataclass(frozen=True, slots=True)
class StageParameters:
    """Parameters of a run of layers with, perhaps, the embedding and the head. `norms` includes the final norm.

    `head` includes the second copy of a tied embedding where the head is on this stage and the embedding is not.
    `replicated` and `experts_replicated` are parts of the other counts, as in `LayerParameters`.
    """

    attention: int
    mlp: int
    experts: int
    shared: int
    router: int
    norms: int
    embedding: int
    head: int
    replicated: int
    experts_replicated: int = 0

    @property
    def dense(self) -> int:
        """Everything but the routed experts."""
        return self.attention + self.mlp + self.shared + self.router + self.norms + self.embedding + self.head

    @property
    def total(self) -> int:
        """Everything."""
        return self.dense + self.experts


@dataclass(frozen=True, slots=True)
class ForwardFlops:
    """Forward FLOPs of one token through the whole model: its linears, the attention core, and the head."""

    linears: int
    attention: int
    head: int

    @property
    def total(self) -> int:
        """Linears, attention core and head."""
        return self.linears + self.attention + self.head


def is_moe(model: Transformer, layer: int) -> bool:
    """Whether layer `layer` (from 0) routes its tokens to experts."""
    moe = model.moe
    return moe is not None and layer >= moe.first_dense and (layer - moe.first_dense) % moe.every == moe.every - 1


def moe_layers(model: Transformer, first: int, last: int) -> int:
    """How many of the layers `first` to `last`, inclusive, are MoE layers."""
    moe = model.moe
    if moe is None or last < first:
        return 0
    return max(0, last + 1 - moe.first_dense) // moe.every - max(0, first - moe.first_dense) // moe.every


def layer_runs(model: Transformer) -> tuple[tuple[int, int, bool], ...]:
    """The layers as runs of equal ones, `(first, last, moe)`, in order and covering all."""
    runs: list[tuple[int, int, bool]] = []
    for layer in range(model.layers):
        moe = is_moe(model, layer)
        if runs and runs[-1][2] == moe:
            runs[-1] = (runs[-1][0], layer, moe)
        else:
            runs.append((layer, layer, moe))
    return tuple(runs)


def query_key_dim(model: Transformer) -> int:
    """The width of one head's query and key: `head_dim`, or with MLA the rotary part and the other part together."""
    return model.latent.rope_head_dim + model.latent.nope_head_dim if model.latent else model.head_dim


def value_dim(model: Transformer) -> int:
    """The width of one head's value."""
    return model.latent.value_head_dim if model.latent else model.head_dim


def attention_linears(model: Transformer, *, fused: bool = False) -> tuple[Linear, ...]:
    """The projections of attention.

    MLA (DeepSeek-V2, arXiv 2405.04434, section 2.1): the query either whole or down to `q_rank` and up, key and value
    down to `kv_rank` plus one rotary key that all heads share, and up; down projections are not split.
    """
    hidden, heads = model.hidden, model.heads
    if (latent := model.latent) is not None:
        width = heads * query_key_dim(model)
        rows: list[Linear] = []
        if latent.q_rank is None:
            rows.append(Linear("query", hidden, width, "column", False, "attention"))
        else:
            rows.append(Linear("query_down", hidden, latent.q_rank, "none", model.attention_bias, "attention"))
            rows.append(Linear("query_up", latent.q_rank, width, "column", False, "attention"))
        down, up = latent.kv_rank + latent.rope_head_dim, heads * (latent.nope_head_dim + latent.value_head_dim)
        rows.append(Linear("key_value_down", hidden, down, "none", model.attention_bias, "attention"))
        rows.append(Linear("key_value_up", latent.kv_rank, up, "column", False, "attention"))
    else:
        query, key = heads * model.head_dim, model.kv_heads * model.head_dim
        parts = (("qkv", query + 2 * key),) if fused else (("query", query), ("key", key), ("value", key))
        rows = [Linear(name, hidden, width, "column", model.attention_bias, "attention") for name, width in parts]
    rows.append(Linear("output", heads * value_dim(model), hidden, "row", model.output_bias, "attention"))
    return tuple(rows)


def mlp_linears(model: Transformer, ffn: int, group: Group, *, fused: bool = False) -> tuple[Linear, ...]:
    """The two (or, gated, three: Shazeer 2020, arXiv 2002.05202) matrices of one MLP of inner width `ffn`."""
    hidden, bias = model.hidden, model.mlp_bias
    if not model.gated:
        parts: tuple[tuple[str, int], ...] = (("up", ffn),)
    else:
        parts = (("gate_up", 2 * ffn),) if fused else (("gate", ffn), ("up", ffn))
    columns = tuple(Linear(name, hidden, width, "column", bias, group) for name, width in parts)
    return (*columns, Linear("down", ffn, hidden, "row", bias, group))


def linears(model: Transformer, moe: bool, *, fused: bool = False) -> tuple[Linear, ...]:
    """The matrices of one layer, in the order in which a token meets them; those of one routed expert stand once.

    `fused` joins query, key and value into `qkv` and gate and up into `gate_up`, as Megatron-LM multiplies them.
    """
    rows = attention_linears(model, fused=fused)
    experts = model.moe
    if not moe or experts is None:
        return rows + mlp_linears(model, model.ffn, "mlp", fused=fused)
    rows += (Linear("router", model.hidden, experts.experts, "none", experts.router_bias, "router"),)
    rows += mlp_linears(model, experts.ffn, "expert", fused=fused)
    if experts.shared_experts:
        # Shared experts see every token, so they are one MLP of their joint width.
        rows += mlp_linears(model, experts.shared_experts * experts.shared_ffn, "shared", fused=fused)
        if experts.shared_gate:
            rows += (Linear("shared_gate", model.hidden, 1, "none", False, "shared"),)
    return rows


def norm_parameters(model: Transformer, width: int) -> int:
    """Parameters of one norm over `width`: a weight, and a bias for `norm` "layer"."""
    return 2 * width if model.norm == "layer" else width


def layer_norm_parameters(model: Transformer) -> int:
    """Parameters of all norms of one layer: on the residual stream, on queries and keys, on MLA's latents."""
    count = model.norms_per_layer * norm_parameters(model, model.hidden)
    if model.wide_qk_norm:
        count += sum(norm_parameters(model, heads * query_key_dim(model)) for heads in (model.heads, model.kv_heads))
    elif model.qk_norm:
        count += 2 * norm_parameters(model, query_key_dim(model))
    if model.latent is not None:
        count += norm_parameters(model, model.latent.kv_rank)
        count += norm_parameters(model, model.latent.q_rank) if model.latent.q_rank is not None else 0
    return count


def expert_parameters(model: Transformer) -> int:
    """Parameters of one routed expert; 0 for a dense model."""
    return sum(row.parameters for row in mlp_linears(model, model.moe.ffn, "expert")) if model.moe else 0


def layer_parameters(model: Transformer, moe: bool) -> LayerParameters:
    """Parameters of one dense or MoE layer, by kind."""
    sums = {"attention": 0, "mlp": 0, "expert": 0, "shared": 0, "router": 0}
    whole = dict(sums)
    for row in linears(model, moe):
        sums[row.group] += row.parameters
        whole[row.group] += row.replicated
    experts = model.moe.experts if model.moe is not None else 0
    norms = layer_norm_parameters(model)
    return LayerParameters(
        attention=sums["attention"] + (model.heads if model.attention_sinks else 0),
        mlp=sums["mlp"],
        experts=sums["expert"] * experts,
        shared=sums["shared"],
        router=sums["router"],
        norms=norms,
        replicated=norms + whole["attention"] + whole["mlp"] + whole["shared"] + whole["router"],
        experts_replicated=whole["expert"] * experts,
    )


def embedding_parameters(model: Transformer) -> int:
    """The token table and the learned positions, and a norm on them where there is one."""
    table = (model.vocabulary + model.learned_positions) * model.hidden
    return table + (norm_parameters(model, model.hidden) if model.embedding_norm else 0)


def head_parameters(model: Transformer) -> int:
    """The output matrix, 0 where it is the token table itself, and its bias."""
    matrix = 0 if model.tied_embeddings else model.vocabulary * model.hidden
    return matrix + (model.vocabulary if model.head_bias else 0)


def final_norm_parameters(model: Transformer) -> int:
    """The norm before the head."""
    return norm_parameters(model, model.hidden) if model.final_norm else 0


def stage_parameters(model: Transformer, first: int, last: int, embedding: bool, head: bool) -> StageParameters:
    """Parameters of layers `first` to `last`, inclusive, with the embedding, or the final norm and head, if here.

    A tied embedding counts once where both ends share a stage; where the head is elsewhere it holds a second copy
    (Megatron-LM keeps the two equal by an all-reduce of gradients): the stages then sum to more than `parameters`.
    """
    moe = moe_layers(model, first, last)
    plain = last - first + 1 - moe
    rows = [
        (count, layer_parameters(model, kind)) for count, kind in ((plain, False), (moe, True)) if count > 0
    ]
    final = final_norm_parameters(model) if head else 0
    at_head = head_parameters(model) if head else 0
    if head and model.tied_embeddings and not embedding:
        at_head += model.vocabulary * model.hidden
    positions = model.learned_positions * model.hidden if embedding else 0
    return StageParameters(
        attention=sum(count * row.attention for count, row in rows),
        mlp=sum(count * row.mlp for count, row in rows),
        experts=sum(count * row.experts for count, row in rows),
        shared=sum(count * row.shared for count, row in rows),
        router=sum(count * row.router for count, row in rows),
        norms=sum(count * row.norms for count, row in rows) + final,
        embedding=embedding_parameters(model) if embedding else 0,
        head=at_head,
        replicated=sum(count * row.replicated for count, row in rows) + final + positions,
        experts_replicated=sum(count * row.experts_replicated for count, row in rows),
    )


def parameters(model: Transformer) -> int:
    """All parameters of the model, exact, a tied embedding once."""
    return stage_parameters(model, 0, model.layers - 1, embedding=True, head=True).total


def active_parameters(model: Transformer) -> int:
    """The parameters that serve one token: all but the experts it is not routed to. The whole token table counts."""
    if model.moe is None:
        return parameters(model)
    idle = (model.moe.experts - model.moe.top_k) * expert_parameters(model)
    return parameters(model) - moe_layers(model, 0, model.layers - 1) * idle


def attention_flops_per_token(model: Transformer, sequence_length: int, causal: bool) -> int:
    """Forward FLOPs of one layer's attention core, a mean token: scores and values, 2 FLOPs a multiply-add.

    Narayanan et al. 2021 (arXiv 2104.04473), appendix: 2 s h for the scores and 2 s h for the values, where h is
    heads x head width. A causal token i of s sees i + 1 keys, (s + 1) / 2 in the mean. Softmax is not counted.
    """
    widths = model.heads * (query_key_dim(model) + value_dim(model))
    return widths * (sequence_length + 1) if causal else 2 * widths * sequence_length


def linear_flops_per_token(model: Transformer, moe: bool) -> int:
    """Forward FLOPs of one layer's matrices a token: 2 x inputs x outputs each, `top_k` times for those of an expert.

    Narayanan et al. 2021 (arXiv 2104.04473), appendix; biases are not counted.
    """
    top_k = model.moe.top_k if model.moe is not None else 0
    return sum(2 * row.weights * (top_k if row.group == "expert" else 1) for row in linears(model, moe))


def forward_flops_per_token(model: Transformer, sequence_length: int, causal: bool) -> ForwardFlops:
    """Forward FLOPs of a mean token through all layers and the head; the embedding is a look-up and counts 0.

    Narayanan et al. 2021 (arXiv 2104.04473), equation 2 and its appendix, term by term, for any mixture of layers: for
    GPT without a causal discount it is 24 l h^2 (1 + s / (6 h)) + 2 h V.
    """
    moe = moe_layers(model, 0, model.layers - 1)
    dense = model.layers - moe
    return ForwardFlops(
        linears=(dense * linear_flops_per_token(model, False) if dense else 0)
        + (moe * linear_flops_per_token(model, True) if moe else 0),
        attention=model.layers * attention_flops_per_token(model, sequence_length, causal),
        head=2 * model.hidden * model.vocabulary,
    )


def training_flops_per_token(model: Transformer, sequence_length: int, causal: bool) -> int:
    """Model FLOPs of one training token: the backward pass costs twice the forward, and recomputation is not counted.

    Chowdhery et al. 2022 (PaLM, arXiv 2204.02311), appendix B: the numerator of model FLOPs utilisation.
    """
    return 3 * forward_flops_per_token(model, sequence_length, causal).total
