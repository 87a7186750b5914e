"""Model states on a rank: parameters, gradients, optimizer state, and what sharding divides.

Vocabulary: *master* is a high-precision copy of the parameters, *moments* are the optimizer's; ZeRO 1 shards master and
moments over data x context, ZeRO 2 the gradients too, ZeRO 3 the parameters too (Rajbhandari et al. 2020,
arXiv 1910.02054, section 5). Routed experts are sharded over their own, smaller, data-parallel group. Bytes a parameter
follow from the precision by role, never from a fixed 16 or 18. Nothing here knows activations, schedules or devices.
"""

from __future__ import annotations

from functools import lru_cache

from ..frozen import dataclass
from ..model import DTYPE_BYTES, Transformer, Workload
from ..model.layers import (
    attention_linears,
    final_norm_parameters,
    layer_parameters,
    linears,
    moe_layers,
)
from ..plan import Mesh, Stage


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Bytes of each state for one parameter, unsharded. `gradient_copy`: the optimizer's, of narrow gradients."""

    parameters: int
    gradients: int
    master: int
    moments: int
    gradient_copy: int

    @property
    def optimizer(self) -> int:
        """Master copy and moments."""
        return self.master + self.moments


@dataclass(frozen=True, slots=True)
class StateTerm:
    """One named term of the bytes a parameter costs on a rank: `bytes` unsharded, divided by `shards`."""

    name: str
    dtype: str
    bytes: int
    shards: int

    @property
    def bytes_per_parameter(self) -> float:
        """The term as one rank pays it."""
        return self.bytes / self.shards


@dataclass(frozen=True, slots=True)
class RankParameters:
    """Parameters one rank computes with, before ZeRO. `largest_layer` and `ends` (embedding, head) are parts."""

    dense: int
    experts: int
    largest_layer: int
    ends: int

    @property
    def total(self) -> int:
        """All of the rank's parameters."""
        return self.dense + self.experts


def state_bytes(workload: Workload) -> StateBytes:
    """Bytes of each state a parameter, from the precision by role and the optimizer's number of moments.

    Where gradients are narrower than the master copy, the optimizer works on a copy of them at the master's precision
    (Micikevicius et al. 2018, arXiv 1710.03740; the 20 bytes of fp16 Adam in Megatron-LM's mixed-precision optimizer).
    """
    precision, optimizer = workload.precision, workload.optimizer
    gradients = DTYPE_BYTES[precision.gradients]
    master = DTYPE_BYTES[precision.master] if precision.master is not None else 0
    return StateBytes(
        parameters=DTYPE_BYTES[precision.parameters],
        gradients=gradients,
        master=master,
        moments=optimizer.moments * DTYPE_BYTES[precision.moments],
        gradient_copy=master if master > gradients else 0,
    )


def state_bytes_per_parameter(workload: Workload, zero: int = 0, shards: int = 1) -> tuple[StateTerm, ...]:
    """Each term of the bytes that a parameter costs on a rank, under ZeRO stage `zero` over `shards` ranks, by name.

    bf16 Adam with fp32 gradients: 2 + 4 + 4 + 8 = 18, or 6 + 12 / d under ZeRO 1. A term of no bytes is left out. The
    gradient copy stands apart, for when it is alive depends on the framework (`memory_terms.GradientCopy`).
    """
    each, precision = state_bytes(workload), workload.precision
    sharded = tuple(shards if zero >= stage else 1 for stage in (1, 2, 3))
    terms = (
        StateTerm("parameters", precision.parameters, each.parameters, sharded[2]),
        StateTerm("gradients", precision.gradients, each.gradients, sharded[1]),
        StateTerm("gradient copy", precision.master or "", each.gradient_copy, sharded[0]),
        StateTerm("master parameters", precision.master or "", each.master, sharded[0]),
        StateTerm("moments", precision.moments, each.moments, sharded[0]),
    )
    return tuple(term for term in terms if term.bytes)


def expert_tensor(mesh: Mesh) -> int:
    """The tensor-parallel degree inside an expert: as stated, or that of the rest."""
    return mesh.expert_tensor or mesh.tensor


def shard_groups(mesh: Mesh) -> tuple[int, int]:
    """Ranks over which ZeRO shards (dense parameters, routed experts).

    Dense: data x context. Experts: the devices of the stage divided by those that one copy of the experts needs,
    data x context x tensor / (expert x expert tensor).
    """
    return mesh.data * mesh.context, max(1, mesh.devices // (mesh.expert * expert_tensor(mesh)))


def padded_vocabulary(vocabulary: int, tensor: int, multiple: int = 1) -> int:
    """Rows of the token table after padding to the next multiple of `multiple` x `tensor`.

    Megatron-LM pads to 128 x tensor (50,257 becomes 50,304 at tensor 1, 51,200 at 8); other frameworks do not pad, so
    the default only makes the table divide.
    """
    step = multiple * tensor
    return -(-vocabulary // step) * step


def rank_parameters(model: Transformer, stage: Stage, vocabulary: int) -> RankParameters:
    """Parameters on one rank of `stage`; `vocabulary` as padded.

    Column- and row-parallel matrices are divided by the tensor degree; norms, the router, MLA's down projections and
    biases after a row-parallel matrix are whole on every rank (Shoeybi et al. 2019, arXiv 1909.08053), as are learned
    positions. Keys and values are at least one head on each rank, so beyond `kv_heads` they are repeated. Experts:
    divided by the expert and the expert-tensor degrees. A tied head without the embedding beside it is a second copy
    of the table.
    """
    mesh = stage.mesh
    moe = moe_layers(model, stage.first, stage.last)
    dense = experts = largest = 0
    for count, kind in ((stage.layers - moe, False), (moe, True)):
        if count:
            plain, routed = _layer(model, kind, mesh)
            dense, experts, largest = dense + count * plain, experts + count * routed, max(largest, plain + routed)
    table = vocabulary * model.hidden // mesh.tensor
    ends = table + model.learned_positions * model.hidden if stage.embedding else 0
    if stage.head:
        ends += final_norm_parameters(model) + (vocabulary // mesh.tensor if model.head_bias else 0)
        ends += 0 if model.tied_embeddings and stage.embedding else table
    return RankParameters(dense + ends, experts, largest, ends)


#: Asked for each stage of each plan of a search.
_parameters = lru_cache(maxsize=64)(layer_parameters)


def _layer(model: Transformer, moe: bool, mesh: Mesh) -> tuple[int, int]:
    """(dense, expert) parameters of one layer on a rank."""
    layer, tensor, inner = _parameters(model, moe), mesh.tensor, expert_tensor(mesh)
    dense = layer.replicated + -(-(layer.dense - layer.replicated) // tensor)
    if model.latent is None and tensor > model.kv_heads:
        shared = sum(row.parameters for row in attention_linears(model) if row.name in ("key", "value"))
        dense += shared // model.kv_heads - shared // tensor
    split, whole = layer.experts - layer.experts_replicated, layer.experts_replicated
    return dense, -(-split // (mesh.expert * inner)) + -(-whole // mesh.expert)


def largest_weight(model: Transformer, moe: bool, mesh: Mesh) -> int:
    """Elements of the largest matrix that one rank multiplies with in a layer, gate and up joined."""
    inner = expert_tensor(mesh)
    return max(
        row.weights // (1 if row.split == "none" else inner if row.group == "expert" else mesh.tensor)
        for row in linears(model, moe, fused=True)
    )
