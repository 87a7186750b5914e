"""What a stage of an operator graph keeps on a device, in the terms that every ledger is made of.

Parameters, activations and what crosses are those of the laid-out operators; how long each is alive, what the framework decides
and what the device adds is as for shapes. Bytes only: nothing here knows seconds, texts or search.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, cast

from ..model import Attention, Transformer, Workload
from ..model.graph_model import GraphModel
from ..model.operator import Kind, Role
from ..plan import Plan, Recompute, Stage
from .activations import Loss, element_bytes
from .graph_layer import LayerParts
from .graph_time import StageParts, run_of
from .memory_terms import BARE, GradientCopy, Implementation, MemoryTerms, Shape, StageTerms, local_microbatch
from .states import state_bytes

PartsOf = Callable[[Plan, Stage, Recompute], StageParts]
#: Bytes a head and query that a fused attention keeps: one fp32 log-sum-exp (Dao et al. 2022, arXiv 2205.14135).
_LOG_SUM = 4


class GraphMemoryTerms(MemoryTerms):
    """The terms of one graph under one workload. `parts_of` lays out the layers of a stage."""

    #: No measured run of the fit shows such a model.
    shown: ClassVar[bool] = False

    def __init__(self, model: GraphModel, workload: Workload, parts_of: PartsOf, implementation: Implementation = BARE) -> None:
        super().__init__(cast(Transformer, model), workload, implementation)
        self.graph, self.parts_of = model, parts_of
        self.has_attention = Kind.ATTENTION in model.kinds_of_operators

    @property
    def attentions(self) -> tuple[Attention, Attention]:
        """The attention kernel for the (low, usual) end; one where the graph has none."""
        return super().attentions if self.has_attention else (Attention.FLASH, Attention.FLASH)

    def stage(
        self, plan: Plan, index: int, attention: Attention | None = None, copy: GradientCopy | None = None,
        loss: Loss | None = None,
    ) -> StageTerms:  # fmt: skip
        """The terms of stage `index`; `attention`, `copy` and `loss` take the place of the usual ones."""
        stage, recompute = plan.stages[index], plan.recompute_of(index)
        kernel, copied, formed = attention or self.attentions[1], copy or self.copies[1], loss or self.losses[1]
        key = (
            run_of(self.graph, stage, local_microbatch(plan, stage)), stage.mesh, stage.layouts, plan.sequence_parallel,
            recompute, kernel, copied, formed, plan.zero, plan.zero == 3 and plan.pipeline > 1 and plan.accumulation > 1,
            plan.order, plan.pipeline if plan.order[-1:] != ("pipeline",) else 0,
        )  # fmt: skip
        found = self._stages.get(key)
        if found is None:
            parts = self.parts_of(plan, stage, recompute)
            found = self._stages[key] = self._of(plan, stage, parts, recompute, kernel, copied, formed)
        return found

    def _of(
        self, plan: Plan, stage: Stage, parts: StageParts, recompute: Recompute, attention: Attention, copy: GradientCopy,
        loss: Loss,
    ) -> StageTerms:  # fmt: skip
        workload, mesh, sequences = self.workload, stage.mesh, local_microbatch(plan, stage)
        each, count, e = state_bytes(workload), parts.parameters, element_bytes(workload)
        sharded = plan.zero >= 1 and mesh.data > 1
        instances = self.implementation.optimizer_instances
        largest = max(one.divided + one.whole - one.of_ends for one in parts.layers)
        at_ends = sum(one.of_ends for one in parts.layers) + parts.shared

        def state(width: int, from_zero: int) -> int:
            shards = mesh.data if plan.zero >= from_zero else 1
            return -(-count * width // (max(1, shards // instances) if from_zero == 1 else shards))

        copied = state(each.gradient_copy, 1)
        kept = copied if sharded or copy is not GradientCopy.STEP else 0
        again = state(each.gradients, 2) if copied and not sharded and copy is GradientCopy.TWICE else 0
        whole = plan.zero == 3 and sharded and plan.pipeline > 1 and plan.accumulation > 1
        gathered = buffers = 0
        if plan.zero == 3 and sharded:
            gathered = (count if whole else min(count, min(2, stage.layers) * largest + at_ends)) * each.parameters
        if plan.zero >= 2 and sharded:
            buffers += (count if whole else largest) * each.gradients
        logits = sum(one.logits for one in parts.layers)
        head = logits > 0
        scores = [self._scores(one, attention) for one in parts.layers]
        ends = sum(one.kept_ends for one in parts.layers)
        inputs = [self._input(stage, parts, k, sequences) for k in range(len(parts.layers))]
        rows = zip(parts.layers, scores, strict=True)
        if recompute is Recompute.FULL:
            held = sum(inputs)
        elif recompute is Recompute.SELECTIVE:
            held = sum(one.kept_selective - one.kept_ends for one in parts.layers)
        else:
            held = sum(one.kept - one.kept_ends + score for one, score in rows)
        held += self._memories(stage, sequences) + (0 if head else ends)
        return StageTerms(
            shape=Shape(
                zero=plan.zero, groups=(mesh.data, mesh.data), recompute=recompute,
                attention_stated=workload.attention is not None or not self.has_attention, loss=loss,
                loss_stated=self.implementation.loss is not None, head=head, experts=False, balanced=False,
                gathers_sequence=False, context=False, whole=whole, layouts=False,
                copy=None if not copied else "sharded" if sharded else copy, operators=True,
            ),
            parameters=state(each.parameters, 3),
            gradients=state(each.gradients, 2) + kept + again,
            optimizer=state(each.optimizer, 1),
            step_copy=copied - kept,
            held=held,
            boundary=self._boundary(stage, parts, sequences),
            mask=0,
            head_input=ends if head else 0,
            logits=logits * (e + loss.wide_bytes) // e,
            logits_gradient=logits,
            layer=max(
                self._workspace(one, score, given, recompute)
                for one, score, given in zip(parts.layers, scores, inputs, strict=True)
            ),
            gathered=gathered,
            buffers=buffers,
        )  # fmt: skip

    def _scores(self, layer: LayerParts, attention: Attention) -> int:
        """Bytes that the attention cores of a layer keep of their scores."""
        if attention is Attention.FLASH:
            return _LOG_SUM * layer.queries
        e = element_bytes(self.workload)
        return layer.scores * (2 * e + 1 if self.workload.dropout > 0 else e)

    def _workspace(self, layer: LayerParts, scores: int, given: int, recompute: Recompute) -> int:
        """What the backward pass of a layer needs beyond what is held: gradients of its input, of its largest activation and
        weight, and what it computes again.
        """
        gradients = given + layer.largest + layer.matrix
        if recompute is Recompute.FULL:
            return max(0, layer.kept - layer.kept_ends + scores - given) + gradients
        if recompute is Recompute.SELECTIVE:
            return gradients + layer.kept - layer.kept_selective + scores
        return gradients

    def _input(self, stage: Stage, parts: StageParts, k: int, sequences: int) -> int:
        """Bytes on a device of what a layer starts from: its carry; of the first layer what enters the graph, or what an
        embedding makes of it.
        """
        if parts.layers[k].carry:
            return parts.layers[k].carry
        layout = parts.layouts[k]
        made = [one.operator for one in layout.placed if one.operator.kind is Kind.INPUT]
        floats = [use.tensor for one in made for use in one.outputs if layout.tensors[use.tensor].role is Role.ACTIVATION]
        if floats:
            return sum(layout.tensors[name].bytes for name in floats)
        leaving = layout.leaving[:1]
        return sum(layout.tensors[name].bytes for name in leaving) // (stage.mesh.tensor if parts.carry is not None else 1)

    def _memories(self, stage: Stage, sequences: int) -> int:
        """Bytes of the tensors that cross into the stage beside its carries, or that it passes on: each once."""
        found: dict[str, int] = {}
        for layer in range(max(0, stage.first - 1), stage.last):
            for name, size, _ in self.graph.crossing(layer, sequences)[1:]:
                found[name] = size
        return sum(found.values())

    def _boundary(self, stage: Stage, parts: StageParts, sequences: int) -> int:
        """Bytes on a device of what leaves the stage; of the last one, of what enters it."""
        last = stage.last if stage.last < self.graph.layers - 1 else stage.first - 1
        if last < 0:
            return 0
        sizes = [size for _, size, _ in self.graph.crossing(last, sequences)]
        return sizes[0] // (stage.mesh.tensor if parts.carry is not None else 1) + sum(sizes[1:])
