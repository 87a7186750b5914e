"""What a stage's memory is made of, as numbers: computed once for stages that are alike, cheap for a search.

Vocabulary: a stage peaks at one of three *moments*: the loss of a microbatch (logits alive), the backward pass of a
layer (its workspace alive, the logits gone), or the optimizer's step (no activations). An *implementation* is how a
framework does what a plan leaves open. Bytes only: nothing here knows seconds, texts, rules or search.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import ClassVar, Literal

from ..frozen import dataclass
from ..model import Attention, Transformer, Workload, moe_layers
from ..plan import Plan, Recompute, Stage
from .activations import (
    LayerActivations,
    Loss,
    Selective,
    element_bytes,
    head_input_bytes,
    layer_activations,
    logits_bytes,
    tokens,
    whole_tokens,
)
from .in_flight import InFlight, in_flight
from .sending import Transfer
from .states import padded_vocabulary, rank_parameters, shard_groups, state_bytes

Moment = Literal["loss", "layer", "step"]
#: What may be kept in the host's memory or beyond, by its field of `Amounts`.
Offloaded = Literal["parameters", "gradients", "optimizer", "activations"]


class GradientCopy(StrEnum):
    """When an unsharded optimizer's wide copy of narrow gradients is alive.

    `step`: in the optimizer's step only (Megatron-core). `kept`: always, as a copy that is never freed (fp16 Adam's 20
    bytes). `twice`: always, and the narrow gradients are made anew beside a second flat copy of them (Megatron-LM of
    2021: 22 bytes in the backward pass of three measured V100 runs).
    """

    STEP = "step"
    KEPT = "kept"
    TWICE = "twice"


@dataclass(frozen=True, slots=True)
class Implementation:
    """What the framework decides, as declared. The defaults are the usual case where nothing is.

    `vocabulary_multiple`: the token table is padded to this times the tensor degree; Megatron-LM: 128. `gradient_copy`
    None: not known; `kept` is reckoned with, and the interval spans the other two. `optimizer_instances`: copies of the
    sharded optimizer; the group it is sharded over is that many times smaller (Megatron-LM
    --num-distributed-optimizer-instances). `loss` None: not known; tensors of its own are reckoned with, and the interval
    reaches down to one in place. `deferred_heads`: microbatches whose weight gradient of the head is put off (Megatron-LM
    --wgrad-deferral-limit). `deterministic`: whether cuBLAS is given the large workspace that reproducible runs need, None
    where it is not said; `transformer_engine` and `grouped_experts`: what else keeps scratch then (see `workspace`).
    `transfer`: how stages send their messages. `selective`: what `recompute: selective` recomputes. `offloaded`: what settings
    keep off the device, all or part of it; it is reckoned with as if it were there, and the interval reaches down to none of it.
    """

    vocabulary_multiple: int = 1
    gradient_copy: GradientCopy | None = None
    optimizer_instances: int = 1
    loss: Loss | None = None
    deferred_heads: int = 0
    deterministic: bool | None = None
    transformer_engine: bool = True
    grouped_experts: bool = False
    transfer: Transfer = Transfer.DIRECT
    selective: Selective = Selective.CORE
    offloaded: frozenset[Offloaded] = frozenset()


#: What can be said where the framework is not known.
BARE = Implementation()


@dataclass(frozen=True, slots=True)
class Shape:
    """What a stage is like, as far as the words of its rows depend on it."""

    zero: int
    groups: tuple[int, int]
    recompute: Recompute
    attention_stated: bool
    loss: Loss
    loss_stated: bool
    head: bool
    experts: bool
    balanced: bool
    gathers_sequence: bool
    context: bool
    #: The stage stays gathered, and its gradients whole, over all microbatches.
    whole: bool
    layouts: bool
    copy: GradientCopy | Literal["sharded"] | None
    #: The stage's operators are counted one by one, not by the widths of a family.
    operators: bool = False
    selective: Selective = Selective.CORE

    @property
    def sharded(self) -> bool:
        """Whether ZeRO has more than one rank to shard over."""
        return max(self.groups) > 1


@dataclass(frozen=True, slots=True)
class Amounts:
    """Bytes of a stage at its peak, before context and reserve."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    workspace: int
    logits: int
    gathered: int
    buffers: int
    moment: Moment

    @property
    def allocated(self) -> int:
        """Their sum."""
        states = self.parameters + self.gradients + self.optimizer
        return states + self.activations + self.workspace + self.logits + self.gathered + self.buffers


@dataclass(frozen=True, slots=True)
class StageTerms:
    """What a stage's bytes are made of, whatever its schedule and its place in the pipeline. One microbatch's each.

    `held` by the layers from forward to backward, `boundary` the stage's output, `mask` the embedding's, `head_input`
    the head's. `logits` are alive with the loss, `logits_gradient` until the head's weight gradient; `layer` is the
    workspace of a layer's backward pass, `step_copy` the copy of the gradients that only the optimizer's step needs.
    """

    shape: Shape
    parameters: int
    gradients: int
    optimizer: int
    step_copy: int
    held: int
    boundary: int
    mask: int
    head_input: int
    logits: int
    logits_gradient: int
    layer: int
    gathered: int
    buffers: int

    def amounts(self, flight: InFlight, workspace: int, pipelined: bool) -> Amounts:
        """The bytes with `flight` held at once and `workspace` of kernels, at the largest moment."""
        # Under full recomputation a stage keeps its output too; a head's is its input.
        output = self.boundary if self.shape.recompute is Recompute.FULL and not self.shape.head else 0
        held = flight.chunks * (-(-self.held // flight.parts) + output) + flight.embeddings * self.mask
        held += max(flight.heads, flight.put_off) * self.head_input
        loss = flight.heads * self.logits + flight.before_loss * self.logits_gradient
        left = (flight.heads - 1) * self.logits + flight.put_off * self.logits_gradient
        layer = left + self.layer
        buffers = self.buffers + (2 * self.boundary if pipelined else 0)
        states = (self.parameters, self.gradients, self.optimizer)
        if self.step_copy > held + max(loss, layer) + self.gathered + buffers:
            return Amounts(states[0], states[1] + self.step_copy, states[2], 0, workspace, 0, 0, 0, "step")
        if loss and loss >= layer:
            return Amounts(*states, held, workspace, loss, self.gathered, buffers, "loss")
        return Amounts(*states, held, workspace + self.layer, left, self.gathered, buffers, "layer")


def local_microbatch(plan: Plan, stage: Stage) -> int:
    """Sequences of one microbatch on a replica of `stage`, whose data degree may differ from the first stage's."""
    return -(-plan.microbatch * plan.stages[0].mesh.data // stage.mesh.data)


@dataclass(slots=True)
class MemoryTerms:
    """The terms of one model under one workload, each computed once. One object serves every plan."""

    #: Whether measured runs stand behind the count.
    shown: ClassVar[bool] = True

    model: Transformer
    workload: Workload
    implementation: Implementation = BARE
    _layers: dict[tuple[object, ...], LayerActivations] = field(default_factory=dict, repr=False)
    _stages: dict[tuple[object, ...], StageTerms] = field(default_factory=dict, repr=False)

    @property
    def copies(self) -> tuple[GradientCopy, GradientCopy, GradientCopy]:
        """The copy of narrow gradients for the (low, usual, high) end of the interval."""
        stated = self.implementation.gradient_copy
        return (stated, stated, stated) if stated else (GradientCopy.STEP, GradientCopy.KEPT, GradientCopy.TWICE)

    @property
    def attentions(self) -> tuple[Attention, Attention]:
        """The attention kernel for the (low, usual) end: as stated; where it is not, flash, and unfused, the larger."""
        stated = self.workload.attention
        return (stated, stated) if stated else (Attention.FLASH, Attention.UNFUSED)

    def flight(self, plan: Plan, index: int) -> InFlight:
        """What stage `index` of `plan` holds at once, as the implementation has it.

        Where gradients are made anew in each step (`twice`) and all microbatches are on their way forward at once, the first
        backward pass runs before they exist: beside them one microbatch less is held (three measured V100 runs).
        """
        stages, microbatches = plan.pipeline, plan.accumulation
        found = in_flight(plan.schedule, index, stages, microbatches, plan.interleave)
        if self.implementation.gradient_copy is GradientCopy.TWICE and 1 < microbatches <= stages - index and found.parts == 1:
            found = found._replace(chunks=found.chunks - 1, embeddings=found.embeddings - 1)
        if stages > 1 and (deferred := min(self.implementation.deferred_heads, microbatches)) > found.put_off:
            found = found._replace(put_off=deferred, before_loss=min(deferred, microbatches - 1))
        return found

    @property
    def losses(self) -> tuple[Loss, Loss]:
        """The loss for the (low, usual) end: as stated; where it is not, in place, and separate, the larger."""
        stated = self.implementation.loss
        return (stated, stated) if stated else (Loss.IN_PLACE, Loss.SEPARATE)

    def stage(
        self,
        plan: Plan,
        index: int,
        attention: Attention | None = None,
        copy: GradientCopy | None = None,
        loss: Loss | None = None,
    ) -> StageTerms:
        """The terms of stage `index` of `plan`; `attention`, `copy` and `loss` take the place of the usual ones."""
        stage = plan.stages[index]
        moe = moe_layers(self.model, stage.first, stage.last)
        recompute, kernel, copied = plan.recompute_of(index), attention or self.attentions[1], copy or self.copies[1]
        formed = loss or self.losses[1]
        key = (
            stage.layers - moe, moe, formed, stage.mesh, stage.embedding, stage.head, recompute, kernel, copied,
            plan.zero, plan.zero == 3 and plan.pipeline > 1 and plan.accumulation > 1, plan.sequence_parallel,
            local_microbatch(plan, stage), bool(stage.layouts),
        )  # fmt: skip
        found = self._stages.get(key)
        if found is None:
            found = self._stages[key] = self._compute(plan, stage, moe, recompute, kernel, copied, formed)
        return found

    def _layer(self, plan: Plan, stage: Stage, moe: bool, attention: Attention) -> LayerActivations:
        microbatch = local_microbatch(plan, stage)
        key = (moe, stage.mesh, microbatch, plan.sequence_parallel, attention)
        found = self._layers.get(key)
        if found is None:
            found = self._layers[key] = layer_activations(
                self.model,
                self.workload,
                stage.mesh,
                moe=moe,
                microbatch=microbatch,
                sequence_parallel=plan.sequence_parallel,
                attention=attention,
            )
        return found

    def _compute(
        self,
        plan: Plan,
        stage: Stage,
        moe: int,
        recompute: Recompute,
        attention: Attention,
        copy: GradientCopy,
        loss: Loss,
    ) -> StageTerms:
        model, workload, mesh = self.model, self.workload, stage.mesh
        microbatch = local_microbatch(plan, stage)
        vocabulary = padded_vocabulary(model.vocabulary, mesh.tensor, self.implementation.vocabulary_multiple)
        count, each, groups = rank_parameters(model, stage, vocabulary), state_bytes(workload), shard_groups(mesh)
        here, e = tokens(workload, mesh, microbatch), element_bytes(workload)
        outside = whole_tokens(workload, mesh, microbatch, plan.sequence_parallel)
        sharded = plan.zero >= 1 and max(groups) > 1
        gathers_sequence = plan.sequence_parallel and mesh.tensor > 1
        instances = self.implementation.optimizer_instances

        def state(width: int, from_zero: int) -> int:
            dense, experts = groups if plan.zero >= from_zero else (1, 1)
            if from_zero == 1:
                dense, experts = max(1, dense // instances), max(1, experts // instances)
            return -(-count.dense * width // dense) - (-count.experts * width // experts)

        # A sharded optimizer keeps its share of the copy; for an unsharded one it is the framework's choice.
        copied = state(each.gradient_copy, 1)
        kept = copied if sharded or copy is not GradientCopy.STEP else 0
        again = state(each.gradients, 2) if copied and not sharded and copy is GradientCopy.TWICE else 0

        kinds = [
            (number, self._layer(plan, stage, kind, attention))
            for number, kind in ((stage.layers - moe, False), (moe, True))
            if number
        ]
        gathered = 0
        # Under a pipeline the stage stays gathered from microbatch to microbatch and its gradients whole until the last one
        # (FSDP2 as torchtitan drives it: reshard_after_forward off, one reduction a step); else two layers and the ends do.
        whole = plan.zero == 3 and sharded and plan.pipeline > 1 and plan.accumulation > 1
        if plan.zero == 3 and sharded:
            most = count.total if whole else min(2, stage.layers) * count.largest_layer + count.ends
            gathered = most * each.parameters
        buffers = here * model.hidden * e if gathers_sequence else 0
        if mesh.context > 1:
            buffers += 4 * here * max(1, -(-model.kv_heads // mesh.tensor)) * model.head_dim * e
        if plan.zero >= 2 and sharded:
            buffers += (count.total if whole else count.largest_layer) * each.gradients

        return StageTerms(
            shape=Shape(
                zero=plan.zero,
                groups=groups,
                recompute=recompute,
                attention_stated=workload.attention is not None,
                loss=loss,
                loss_stated=self.implementation.loss is not None,
                head=stage.head,
                experts=moe > 0,
                balanced=moe > 0 and model.moe is not None and model.moe.capacity_factor is None,
                gathers_sequence=gathers_sequence,
                context=mesh.context > 1,
                whole=whole,
                layouts=bool(stage.layouts),
                copy=None if not copied else "sharded" if sharded else copy,
                selective=Selective.CORE if any(row.products is None for _, row in kinds) else self.implementation.selective,
            ),
            parameters=state(each.parameters, 3),
            gradients=state(each.gradients, 2) + kept + again,
            optimizer=state(each.optimizer, 1),
            step_copy=copied - kept,
            held=sum(number * row.held(recompute, self.implementation.selective) for number, row in kinds),
            boundary=outside * model.hidden * e,
            mask=outside * model.hidden if stage.embedding and workload.dropout > 0 else 0,
            head_input=head_input_bytes(model, workload, outside) if stage.head else 0,
            logits=logits_bytes(
                workload, mesh, microbatch, vocabulary, model.hidden, loss
            )
            if stage.head
            else 0,
            logits_gradient=e * here * (vocabulary // mesh.tensor) if stage.head else 0,
            layer=max((row.workspace(recompute, self.implementation.selective) for _, row in kinds), default=0),
            gathered=gathered,
            buffers=buffers,
        )
