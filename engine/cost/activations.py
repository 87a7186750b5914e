"""Activations of one layer and of the ends, counted tensor by tensor, for one microbatch on one rank.

Counting follows Korthikanti et al. 2022 (arXiv 2205.05198, section 4): what the backward pass reads is kept, the rest
is not. A GPT layer so counted keeps s b h (10 + 24 / t) + 5 a s^2 b / t bytes; grouped-query heads, gated MLPs, MLA and
experts are counted by the same rule. Shapes: s tokens of a sequence on the rank (sequence / context), b sequences a
microbatch, h hidden, a heads, t tensor degree, e bytes of an element. Kernels are taken as fused where Megatron-LM and
Transformer Engine fuse them (bias + activation, bias + dropout + residual). Nothing here knows schedules or devices.
"""

from __future__ import annotations

from enum import StrEnum

from ..frozen import dataclass
from ..model import DTYPE_BYTES, Attention, Dispatcher, Transformer, Workload
from ..plan import Mesh, Recompute
from .states import expert_tensor, largest_weight

#: Bytes a token and local expert that an all-gather dispatcher keeps: whether it was chosen, and its probability in fp32.
_CHOICE = 5


class Loss(StrEnum):
    """How the loss is formed from 16-bit logits, by what is alive at its peak beside them.

    `in_place`: an fp32 copy in which softmax and gradient are formed (Megatron-LM's vocabulary-parallel loss), 6 bytes an
    element in all. `fused`: the softmax apart from that copy (Megatron-LM --cross-entropy-loss-fusion), 10 bytes: more, not
    less. `separate`: fp32 copy, log-softmax and its gradient as tensors of their own, as torch's cross entropy makes them,
    14 bytes (the 83.9 GiB that torchtitan publishes for 32,768 tokens of Llama 3.1 8B under full recomputation, of which
    the logits in place would make 58).
    """

    IN_PLACE = "in_place"
    FUSED = "fused"
    SEPARATE = "separate"

    @property
    def wide_bytes(self) -> int:
        """Bytes an element of the logits beyond the logits themselves."""
        return {"in_place": 4, "fused": 8, "separate": 12}[self.value]


class Selective(StrEnum):
    """What `recompute: selective` recomputes, which frameworks do not agree on.

    `core`: the attention core alone (Megatron-LM). `operators`: all but attention, every second matrix product, beginning
    with the first, and what is reduced over the tensor group (torchtitan's default, selective_ac_option 'op'; the 67.0 GiB
    that it publishes for 128 devices at microbatch 2 would be 116 if only the attention core were recomputed).
    """

    CORE = "core"
    OPERATORS = "operators"


@dataclass(frozen=True, slots=True)
class LayerActivations:
    """Bytes of one layer and microbatch on a rank.

    `kept` between forward and backward without recomputation, `scores` the part that the attention core alone needs,
    `checkpoint` the layer's input, `gradients` the transient gradients of the MLP and the weight-gradient temporary,
    `scores_gradient` those of the attention core, which follow when the MLP's are gone. `products`: what is held where
    selective recomputation goes by operators; None for layers (experts, latent attention) that are counted by the core.
    """

    kept: int
    scores: int
    checkpoint: int
    gradients: int
    scores_gradient: int
    products: int | None = None

    def held(self, recompute: Recompute, selective: Selective = Selective.CORE) -> int:
        """What is held from forward to backward pass: all, all but what `selective` recomputes, or the layer's input."""
        match recompute:
            case Recompute.NONE:
                return self.kept
            case Recompute.SELECTIVE:
                return self.kept - self.scores if self.products is None or selective is Selective.CORE else self.products
            case Recompute.FULL:
                return self.checkpoint

    def workspace(self, recompute: Recompute, selective: Selective = Selective.CORE) -> int:
        """What the backward pass of one layer needs beyond what is held: gradients, and what it computes again."""
        match recompute:
            case Recompute.NONE:
                return max(self.gradients, self.scores_gradient)
            case Recompute.SELECTIVE if self.products is not None and selective is Selective.OPERATORS:
                return self.kept - self.products + max(self.gradients, self.scores_gradient)
            case Recompute.SELECTIVE:
                return max(self.gradients, self.scores + self.scores_gradient)
            case Recompute.FULL:
                return self.kept - self.checkpoint + max(self.gradients, self.scores_gradient)


def element_bytes(workload: Workload) -> int:
    """Bytes of an activation's element: those of the compute dtype, 2 under fp8, whose residual stream stays 16-bit."""
    return max(2, DTYPE_BYTES[workload.precision.compute])


def tokens(workload: Workload, mesh: Mesh, microbatch: int) -> int:
    """Tokens of one microbatch on a rank: context parallelism divides the sequence."""
    return -(-workload.sequence_length // mesh.context) * microbatch


def whole_tokens(workload: Workload, mesh: Mesh, microbatch: int, sequence_parallel: bool) -> int:
    """Tokens on a rank outside the tensor-parallel regions: sequence parallelism divides them by the tensor degree."""
    here = tokens(workload, mesh, microbatch)
    return -(-here // mesh.tensor) if sequence_parallel else here


def expert_tokens(model: Transformer, mesh: Mesh, here: int) -> int:
    """(token, expert) pairs on a rank in one MoE layer, `here` being the tokens of its microbatch.

    Dispatch spreads top_k x tokens over the expert group; under an expert-tensor degree below the tensor degree each
    rank dispatches its share of the sequence. A stated capacity factor sizes the buffers: of top_k x tokens in
    Megatron-LM, and, where tokens are routed in groups, of the tokens themselves (Lepikhin et al. 2020, GShard,
    arXiv 2006.16668). Without one, the busiest rank has `imbalance` times the mean, a factor that the proposal states.
    """
    moe = model.moe
    if moe is None:
        return 0
    factor = moe.top_k * moe.imbalance
    if moe.capacity_factor is not None:
        factor = moe.capacity_factor if moe.group_size is not None else moe.top_k * moe.capacity_factor
    return int(here * factor * expert_tensor(mesh) / mesh.tensor + 0.5)


def layer_activations(
    model: Transformer,
    workload: Workload,
    mesh: Mesh,
    *,
    moe: bool,
    microbatch: int,
    sequence_parallel: bool,
    attention: Attention,
) -> LayerActivations:
    """The activations of one dense or MoE layer: see the module for the rule and its source."""
    e, h, t = element_bytes(workload), model.hidden, mesh.tensor
    here = tokens(workload, mesh, microbatch)
    outside = whole_tokens(workload, mesh, microbatch, sequence_parallel)
    dropout = workload.dropout > 0

    # Outside the tensor-parallel regions: inputs of the norms, inputs of the two blocks (one, where they share a norm).
    whole = h * (model.norms_per_layer + min(2, model.norms_per_layer)) * e + (2 * h if dropout else 0)
    inner = e * _attention_elements(model, t, attention)
    scores = _scores(model, workload, mesh, microbatch, attention)
    experts_inner, experts_outer, mlp_gradient, gathered = 0, 0, 0, 0
    if moe and model.moe is not None:
        pairs, width = expert_tokens(model, mesh, here), -(-model.moe.ffn // expert_tensor(mesh))
        matrices = 3 if model.gated else 2
        experts_inner = pairs * e * matrices * width
        experts_outer = pairs * e * 2 * h + outside * _router_bytes(model, e)
        mlp_gradient = pairs * e * (matrices - 1) * width
        if workload.dispatcher is Dispatcher.ALLGATHER and mesh.expert > 1:
            # Everybody's tokens and their gradient while a layer is at work, and which of them the local experts took.
            everyone = -(-here // t) * mesh.expert * expert_tensor(mesh)
            gathered = everyone * h * e
            experts_outer += everyone * _CHOICE * -(-model.moe.experts // mesh.expert)
        shared = model.moe.shared_experts * model.moe.shared_ffn
        inner += e * -(-matrices * shared // t)
    else:
        matrices = 3 if model.gated else 2
        inner += e * -(-matrices * model.ffn // t)
        mlp_gradient = here * e * -(-(matrices - 1) * model.ffn // t)

    kept = outside * whole + here * inner + scores + experts_inner + experts_outer
    checkpoint = outside * h * e
    scores_gradient = _score_elements(model, workload, mesh, microbatch) * e if attention is Attention.UNFUSED else 0
    products = None
    if not moe and model.latent is None and attention is Attention.FLASH:
        products = checkpoint + here * e * _every_second_product(model, t) + scores
        products += 2 * outside * h * e if t > 1 else 0
    return LayerActivations(
        kept=kept,
        scores=scores,
        checkpoint=checkpoint,
        gradients=checkpoint + mlp_gradient + gathered + e * largest_weight(model, moe, mesh),
        scores_gradient=scores_gradient,
        products=products,
    )


def _attention_elements(model: Transformer, t: int, attention: Attention) -> int:
    """Elements a token inside attention's tensor-parallel region, on one rank, scores apart.

    Queries, keys and values as projected (values are a view of it, so all of it stays), the core's output, and with
    rotary positions the rotated queries and keys beside them; an unfused core lays the values out anew, so there the
    projection goes (golden values of Megatron-LM's functional tests with rotary positions, 48 MiB of 3,410). Latent
    attention: the down-projected latents and their norms, whole on every rank, the assembled queries and keys, the
    up-projected key-value tensor.
    """
    heads = -(-model.heads // t)
    latent = model.latent
    if latent is not None:
        width = latent.rope_head_dim + latent.nope_head_dim
        down = 2 * latent.kv_rank + latent.rope_head_dim + 2 * (latent.q_rank or 0)
        return down + heads * (2 * width + latent.nope_head_dim + 2 * latent.value_head_dim)
    query, key = heads * model.head_dim, max(1, -(-model.kv_heads // t)) * model.head_dim
    rotated = 0 if model.learned_positions or attention is Attention.UNFUSED else query + key
    return 2 * query + 2 * key + rotated


def _every_second_product(model: Transformer, t: int) -> int:
    """Elements a token of the outputs of every second product of a layer, the first among them, and of the attention core.

    In the order in which they run: query, key, value, output, then the MLP's gate, up and down, or its two.
    """
    query, key = -(-model.heads // t) * model.head_dim, max(1, -(-model.kv_heads // t)) * model.head_dim
    mlp = -(-model.ffn // t) + (model.hidden if model.gated else 0)
    return query + key + mlp + query


def _score_elements(model: Transformer, workload: Workload, mesh: Mesh, microbatch: int) -> int:
    """Elements of the attention scores on one rank: a / t x s_local x s x b."""
    local = -(-workload.sequence_length // mesh.context)
    return -(-model.heads // mesh.tensor) * local * workload.sequence_length * microbatch


def _scores(model: Transformer, workload: Workload, mesh: Mesh, microbatch: int, attention: Attention) -> int:
    """Bytes that the attention core keeps: 5 a s^2 b / t with dropout (softmax 2, mask 1, dropped 2), 2 without.

    A fused kernel keeps one fp32 log-sum-exp a head and token (Dao et al. 2022, arXiv 2205.14135).
    """
    if attention is Attention.FLASH:
        return 4 * -(-model.heads // mesh.tensor) * tokens(workload, mesh, microbatch)
    e = element_bytes(workload)
    return _score_elements(model, workload, mesh, microbatch) * (2 * e + 1 if workload.dropout > 0 else e)


def _router_bytes(model: Transformer, e: int) -> int:
    """Bytes a token of the router: fp32 logits and probabilities, with grouped routing dispatch and combine tensors.

    GShard (arXiv 2006.16668, algorithm 1): both are tokens x experts x capacity, and experts x capacity is the group
    times the capacity factor.
    """
    moe = model.moe
    if moe is None:
        return 0
    grouped = 2 * e * int(moe.group_size * moe.capacity_factor) if moe.group_size and moe.capacity_factor else 0
    return 8 * moe.experts + grouped


def logits_bytes(
    workload: Workload, mesh: Mesh, microbatch: int, vocabulary: int, hidden: int, loss: Loss = Loss.IN_PLACE
) -> int:
    """Bytes of logits and loss at their peak, on a rank: the larger of two moments of the head's backward pass.

    e and the loss's own bytes an element of the logits (see `Loss`), or the gradient of the logits beside the
    weight-gradient temporary of the head.
    """
    e, columns = element_bytes(workload), vocabulary // mesh.tensor
    here = tokens(workload, mesh, microbatch)
    return max((e + loss.wide_bytes) * here * columns, e * columns * (here + hidden))


def head_input_bytes(model: Transformer, workload: Workload, outside: int) -> int:
    """Bytes kept for the head: the final norm's input, and the head's."""
    return outside * model.hidden * element_bytes(workload) * (2 if model.final_norm else 1)
