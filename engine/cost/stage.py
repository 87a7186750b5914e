"""Seconds of one microbatch on one stage: computation, the collectives inside the stage, recomputation; and its end of
a step.

Vocabulary: a *term* names what seconds are spent on; *exposed* communication is what computation does not hide. A stage
is priced by its kind (layers, mesh, what it holds, how it recomputes), never by its place, so equal stages are priced
once. Nothing here knows schedules or other stages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum

from ..model import DTYPE_BYTES, Dispatcher, Transformer, Workload
from ..plan import Mesh, Recompute, Stage
from .activations import element_bytes, expert_tokens
from .collectives import FREE, Network, Spent
from .compute import (
    LayerWork,
    Rates,
    embedding_work,
    head_work,
    layer_work,
)
from .dispatch import copies_between
from .end_of_step import EndOfStep
from .factors import Constant, Factors
from .overlap import add, beside, by_tier, floor, longer, shared, wait
from .simulation import Durations
from .stage_costs import STAGE_TERMS, LayerCost, Layout, StageCost, of_layer
from .states import expert_tensor, padded_vocabulary, rank_parameters


class StagePricer:
    """Prices stages of one model and workload on one network; `constants` are those of `factors`."""

    def __init__(
        self,
        model: Transformer,
        workload: Workload,
        network: Network,
        constants: Mapping[str, Constant],
        factors: Factors,
    ) -> None:
        self.model, self.workload, self.network = model, workload, network
        self._prefetch = min(1.0, constants["prefetch_overlap"].value * factors.overlap)
        share = factors.gradient_overlap
        gradient = constants["gradient_overlap"].value if share is None else share
        self.end_of_step = EndOfStep(model, workload, network, gradient, constants["unfused_optimizer"].value)
        self._ring = min(1.0, constants["ring_overlap"].value * factors.overlap)
        self._cores = constants["dispatch_cores"].value
        self._expert_stall = constants["expert_stall"].value * factors.launch
        precision = workload.precision
        self._wire_gradient = DTYPE_BYTES[precision.communication or precision.gradients]
        self._wire_parameter = DTYPE_BYTES[precision.parameters]
        self._works: dict[tuple[object, ...], LayerWork] = {}
        self._layers: dict[tuple[object, ...], LayerCost] = {}
        self._end_costs: dict[tuple[object, ...], list[LayerCost]] = {}

    def price(
        self, stage: Stage, moe: int, groups: Layout, sequences: int, recompute: Recompute, zero: int,
        sequence_parallel: bool, rates: Rates,
    ) -> StageCost:  # fmt: skip
        """`stage` with `moe` MoE layers among its own, `sequences` a microbatch on each replica."""
        parts = self.layers(stage, moe, groups, sequences, recompute, zero, sequence_parallel, rates)
        parts += [(1, end) for end in self.ends(stage, groups, sequences, zero, sequence_parallel, rates)]
        forward = backward = weight = compute = 0.0
        terms = [0.0] * len(STAGE_TERMS)
        tiers: dict[str, float] = {}
        for count, part in parts:
            forward += count * part.durations.forward
            backward += count * part.durations.backward
            weight += count * part.durations.weight
            compute += count * part.compute
            for k, seconds in enumerate(part.terms):
                terms[k] += count * seconds
            for name, seconds in part.tiers:
                tiers[name] = tiers.get(name, 0.0) + count * seconds
        durations = Durations(forward, backward, weight)
        sync, optimizer = self.end_of_step(stage, moe, groups, zero, durations, tuple(tiers.items()), rates)
        return StageCost(
            durations, tuple(terms), compute, tuple(tiers.items()), sync.seconds, sync.tiers, optimizer, rates.instead
        )

    def passes(
        self, stage: Stage, moe: int, groups: Layout, sequences: int, recompute: Recompute, zero: int,
        sequence_parallel: bool, rates: Rates,
    ) -> Durations:  # fmt: skip
        """The durations of `price` alone: the same sums."""
        parts = self.layers(stage, moe, groups, sequences, recompute, zero, sequence_parallel, rates)
        parts += [(1, end) for end in self.ends(stage, groups, sequences, zero, sequence_parallel, rates)]
        forward = backward = weight = 0.0
        for count, part in parts:
            forward += count * part.durations.forward
            backward += count * part.durations.backward
            weight += count * part.durations.weight
        return Durations(forward, backward, weight)

    def least_after(
        self, stages: Sequence[tuple[Stage, int]], groups: Layout, sequences: int, recompute: Recompute, zero: int,
        sequence_parallel: bool, rates: Rates,
    ) -> float:  # fmt: skip
        """The least seconds after their last pass of stages that differ in nothing but their layers, as (stage, MoE layers)."""
        first = stages[0][0]
        there = any(one.layers > moe for one, moe in stages), any(moe for _, moe in stages)
        dense, routed = (
            self.layer(first.mesh, groups, sequences, recompute, zero, sequence_parallel, kind, rates) if some else None
            for kind, some in zip((False, True), there, strict=True)
        )
        ends = self.ends(first, groups, sequences, zero, sequence_parallel, rates)
        return self.end_of_step.least(stages, groups, zero, (dense, routed), ends, rates)

    def layers(
        self, stage: Stage, moe: int, groups: Layout, sequences: int, recompute: Recompute, zero: int,
        sequence_parallel: bool, rates: Rates,
    ) -> list[tuple[int, LayerCost]]:  # fmt: skip
        """The kinds of layers of `stage`, dense ones first, and how many there are of each."""
        return [
            (count, self.layer(stage.mesh, groups, sequences, recompute, zero, sequence_parallel, kind, rates))
            for count, kind in ((stage.layers - moe, False), (moe, True))
            if count
        ]

    def layer(
        self, mesh: Mesh, groups: Layout, sequences: int, recompute: Recompute, zero: int, sequence_parallel: bool,
        moe: bool, rates: Rates,
    ) -> LayerCost:  # fmt: skip
        """One layer and microbatch. Stages share it that differ in their ends alone, or in degrees of which it knows nothing:
        replicas while nothing is sharded over them, experts where it has none.
        """
        known = of_layer(mesh, groups, zero, moe=moe)
        key = (*known, sequences, recompute, max(1, zero), sequence_parallel, moe, rates)
        found = self._layers.get(key)
        if found is None:
            found = self._layers[key] = self._layer(mesh, groups, sequences, recompute, zero, sequence_parallel, moe, rates)
        return found

    def _layer(
        self, mesh: Mesh, groups: Layout, sequences: int, recompute: Recompute, zero: int, sequence_parallel: bool,
        moe: bool, rates: Rates,
    ) -> LayerCost:  # fmt: skip
        """What a pass cannot hide is added to it; the host's launches are a floor under each pass.

        Recomputation runs the forward pass again, collectives included (full), or the attention core (selective;
        Korthikanti et al. 2022, arXiv 2205.05198). ZeRO 3 gathers a layer's parameters before each of its passes and
        scatters its gradients after the second, ZeRO 2 scatters gradients (Rajbhandari et al. 2020, arXiv 1910.02054),
        hidden under the pass, less what the pass itself sends over the same tiers: a link carries one thing at a time.
        """
        inside = (mesh.expert, mesh.expert_tensor) if moe else ()
        shape = (mesh.tensor, mesh.context, *inside, sequences, sequence_parallel, moe, rates)
        work = self._works.get(shape)
        if work is None:
            work = self._works[shape] = layer_work(self.model, self.workload, mesh, sequences, sequence_parallel, moe, rates)
        split = sequence_parallel and mesh.tensor > 1
        tensor = self._tensor(mesh, groups, sequences, split, moe)
        expert = self._expert(mesh, groups, sequences) if moe else FREE
        exchange = self._exchange(mesh, groups, sequences)
        core, core_back = work.forward.attention, work.backward.attention
        context = exchange.seconds - min(exchange.seconds, self._ring * core)
        # Keys and values go round again in the backward pass, and their gradients with them.
        context_back = 2 * exchange.seconds - min(2 * exchange.seconds, self._ring * core_back)
        sent, returned = self._between_experts(expert, work)

        ahead = work.forward.seconds + tensor.seconds + sent + context
        idle = self._expert_stall if moe else 0.0
        ahead_launch = wait(ahead, work.forward.kernels, rates) + idle
        ahead += ahead_launch
        again = ahead if recompute is Recompute.FULL else 0.0
        if recompute is Recompute.SELECTIVE:
            again = max(work.core.seconds, work.core.kernels * rates.launch)
        back = work.backward.seconds + tensor.seconds + returned + context_back
        back_launch = wait(back, work.backward.kernels, rates) + idle
        weight_launch = longer(work.weight.seconds, work.weight.kernels * rates.launch) - work.weight.seconds
        weight = work.weight.seconds + weight_launch

        gathered, scattered = self._sharded(mesh, groups, zero, moe)
        hidden = self._prefetch
        behind = add(gathered, scattered)
        repeats = 2 if recompute is Recompute.FULL else 1
        gather = beside(gathered.seconds, hidden * (ahead - shared(gathered, tensor, expert, exchange)), rates.interference)
        busy = repeats * shared(behind, tensor, expert) + (repeats + 1) * shared(behind, exchange)
        window = back + back_launch + again + weight - busy
        gather_back = beside(behind.seconds, hidden * window, rates.interference)
        durations = Durations(ahead + gather, back + back_launch + again + gather_back, weight)
        terms = (
            work.forward.gemm + work.backward.gemm + work.weight.gemm,
            core + core_back,
            work.forward.memory + work.backward.memory + work.weight.memory,
            ahead_launch + back_launch + weight_launch,
            2 * tensor.seconds,
            context + context_back,
            sent + returned,
            gather + gather_back,
            again,
            0.0,
        )
        passes = 3 if recompute is Recompute.FULL else 2
        tiers = by_tier(tensor.scaled(passes), expert.scaled(passes), exchange.scaled(passes + 1), gathered.scaled(2), scattered)
        repeated = work.forward.seconds if recompute is Recompute.FULL else again
        compute = work.forward.seconds + work.backward.seconds + work.weight.seconds + repeated
        return LayerCost(durations, terms, compute, tiers, (tensor.seconds, context, sent, gather))

    def _between_experts(self, expert: Spent, work: LayerWork) -> tuple[float, float]:
        """What dispatch and combine add to the forward and to the backward pass.

        Where they are overlapped, those of one microbatch's forward pass run beside the backward computation of another and
        the other way round (Megatron-Core's combined 1F1B; DualPipe, arXiv 2412.19437, section 3.2.1).
        """
        if not self.workload.dispatch_overlap:
            return expert.seconds, expert.seconds
        ahead, back = work.forward.seconds, work.backward.seconds + work.weight.seconds
        sent, returned = (beside(expert.seconds, self._prefetch * window, self._cores) for window in (back, ahead))
        return sent, returned

    def carried(
        self, mesh: Mesh, groups: Layout, sequences: int, zero: int, sequence_parallel: bool, moe: bool
    ) -> tuple[Spent, Spent, Spent, Spent]:
        """What the collectives of one layer and microbatch spend by tier, hidden or not, in the order of `EXPOSED_TERMS`."""
        split = sequence_parallel and mesh.tensor > 1
        expert = self._expert(mesh, groups, sequences) if moe else FREE
        gathered, scattered = self._sharded(mesh, groups, zero, moe)
        both = add(gathered, scattered)
        return self._tensor(mesh, groups, sequences, split, moe), self._exchange(mesh, groups, sequences), expert, both

    def _activation(self, mesh: Mesh, sequences: int) -> float:
        """Bytes of one microbatch's residual stream on a rank, not divided by tensor parallelism."""
        here = self.workload.sequence_length * sequences / mesh.context
        return here * self.model.hidden * element_bytes(self.workload)

    def _tensor(self, mesh: Mesh, groups: Layout, sequences: int, split: bool, moe: bool) -> Spent:
        """Tensor-parallel collectives of one pass, forward or backward: two all-reduces of the activations of a layer.

        Shoeybi et al. 2019 (arXiv 1909.08053), section 3; with sequence parallelism an all-gather and a reduce-scatter
        each, the same bytes (Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2). A routed MLP gathers and
        scatters its pairs.
        """
        if mesh.tensor <= 1:
            return FREE
        size = self._activation(mesh, sequences)
        if split:
            once = add(
                self.network.collective("all_gather", size, *groups.tensor),
                self.network.collective("reduce_scatter", size, *groups.tensor),
            )
        else:
            once = self.network.collective("all_reduce", size, *groups.tensor)
        if not moe or self.model.moe is None:
            return once.scaled(2)
        routed = FREE
        if groups.expert_tensor[0] > 1:
            here = int(self.workload.sequence_length * sequences / mesh.context)
            pairs = float(expert_tokens(self.model, mesh, here))
            if self.workload.dispatcher is Dispatcher.ALLGATHER:
                pairs = here / mesh.tensor * mesh.expert * groups.expert_tensor[0]
            pairs *= self.model.hidden * element_bytes(self.workload)
            routed = add(
                self.network.collective("all_gather", pairs, *groups.expert_tensor),
                self.network.collective("reduce_scatter", pairs, *groups.expert_tensor),
            )
        return add(once, routed, once if self.model.moe.shared_experts else FREE)

    def _expert(self, mesh: Mesh, groups: Layout, sequences: int) -> Spent:
        """Dispatch and combine of one pass: two all-to-alls of top_k x tokens of a rank (Lepikhin et al. 2020, arXiv
        2006.16668), or what the stated dispatcher does instead (see `Dispatcher`).
        """
        moe = self.model.moe
        assert moe is not None
        here = int(self.workload.sequence_length * sequences / mesh.context)
        pairs = expert_tokens(self.model, mesh, here) / expert_tensor(mesh)
        token = self.model.hidden * element_bytes(self.workload)
        if self.workload.dispatcher is Dispatcher.ALLGATHER:
            whole = here / mesh.tensor * mesh.expert * token
            return add(
                self.network.collective("all_gather", whole, *groups.expert),
                self.network.collective("reduce_scatter", whole, *groups.expert),
            )
        if self.workload.dispatcher is Dispatcher.DEEPEP:
            return self.network.once_a_unit(pairs / moe.top_k * token, self._copies, *groups.expert).scaled(2)
        return self.network.collective("all_to_all", pairs * token, *groups.expert).scaled(2)

    def _copies(self, units: int, siblings: int) -> float:
        assert self.model.moe is not None
        return copies_between(self.model.moe, units, siblings)

    def _exchange(self, mesh: Mesh, groups: Layout, sequences: int) -> Spent:
        """Keys and values of a rank once round the context group, forward (Liu et al. 2023, Ring Attention, arXiv
        2310.01889).

        The bytes that an all-gather of them moves, in as many steps.
        """
        if mesh.context <= 1:
            return FREE
        model = self.model
        tokens = self.workload.sequence_length * sequences
        if model.latent is not None:
            width = -(-model.heads // mesh.tensor) * (
                model.latent.rope_head_dim + model.latent.nope_head_dim + model.latent.value_head_dim
            )
        else:
            width = 2 * max(1, -(-model.kv_heads // mesh.tensor)) * model.head_dim
        size = tokens * width * element_bytes(self.workload)
        return self.network.collective("all_gather", size, *groups.context)

    def _sharded(self, mesh: Mesh, groups: Layout, zero: int, moe: bool) -> tuple[Spent, Spent]:
        """(gather before a pass, scatter after the backward pass) of one layer and microbatch under ZeRO 2 and 3."""
        if zero < 2:
            return FREE, FREE
        layer = rank_parameters(self.model, Stage(*self._one_layer(moe), mesh), self.model.vocabulary)
        gathered = scattered = FREE
        for count, group in ((layer.dense, groups.data), (layer.experts, groups.expert_data)):
            scattered = add(scattered, self.network.collective("reduce_scatter", count * self._wire_gradient, *group))
            if zero == 3:
                gathered = add(gathered, self.network.collective("all_gather", count * self._wire_parameter, *group))
        return gathered, scattered

    def _one_layer(self, moe: bool) -> tuple[int, int]:
        """A layer that is, or is not, an MoE layer, as (first, last)."""
        experts = self.model.moe
        if experts is None:
            return 0, 0
        layer = experts.first_dense + experts.every - 1 if moe else 0 if experts.first_dense else experts.first_dense
        return layer, layer

    def ends(
        self, stage: Stage, groups: Layout, sequences: int, zero: int, sequence_parallel: bool, rates: Rates
    ) -> list[LayerCost]:
        """The embedding and the head of `stage`, with the tensor-parallel collective that each has either way."""
        if not (stage.embedding or stage.head):
            return []
        one, sharded = stage.mesh, groups.data if zero == 3 else None
        key = (one.tensor, one.context, groups.tensor, sharded, sequences, sequence_parallel, stage.embedding, stage.head, rates)
        found = self._end_costs.get(key)
        if found is None:
            mesh = stage.mesh
            split = sequence_parallel and mesh.tensor > 1
            size = self._activation(mesh, sequences) if mesh.tensor > 1 else 0.0
            table = padded_vocabulary(self.model.vocabulary, mesh.tensor)
            rows: list[tuple[LayerWork, str, str, int]] = []
            if stage.embedding:
                work = embedding_work(self.model, self.workload, mesh, sequences, rates)
                held = table // mesh.tensor * self.model.hidden
                rows.append((work, *(("reduce_scatter", "all_gather") if split else ("all_reduce", "")), held))
            if stage.head:
                work = head_work(self.model, self.workload, mesh, sequences, table, rates)
                held = 0 if stage.embedding and self.model.tied_embeddings else table // mesh.tensor * self.model.hidden
                rows.append((work, *(("all_gather", "reduce_scatter") if split else ("", "all_reduce")), held))
            found = self._end_costs[key] = [
                self._end(work, groups, ahead, back, size, held if zero == 3 else 0, rates) for work, ahead, back, held in rows
            ]
        return found

    def _end(self, work: LayerWork, groups: Layout, ahead: str, back: str, size: float, sharded: int, rates: Rates) -> LayerCost:
        """One end. `sharded`: its parameters that ZeRO 3 gathers once and scatters the gradients of (it stays
        between passes).
        """
        forth = self.network.collective(ahead, size, *groups.tensor) if ahead else FREE
        home = self.network.collective(back, size, *groups.tensor) if back else FREE
        gathered = self.network.collective("all_gather", sharded * self._wire_parameter, *groups.data)
        scattered = self.network.collective("reduce_scatter", sharded * self._wire_gradient, *groups.data)
        ends = [floor(one, rates) for one in (work.forward, work.backward, work.weight)]
        gather = max(0.0, gathered.seconds - self._prefetch * ends[0])
        gather_back = max(0.0, scattered.seconds - self._prefetch * (ends[1] + ends[2]))
        terms = (0.0,) * 4 + (forth.seconds + home.seconds, 0.0, 0.0, gather + gather_back, 0.0, fsum(ends))
        durations = Durations(ends[0] + forth.seconds + gather, ends[1] + home.seconds + gather_back, ends[2])
        compute = work.forward.seconds + work.backward.seconds + work.weight.seconds
        first = (forth.seconds, 0.0, 0.0, gather)
        return LayerCost(durations, terms, compute, by_tier(forth, home, gathered, scattered), first)

    def tied_sync(self, mesh: Mesh, distance: int) -> Spent:
        """The all-reduce of a tied table's gradient between first and last stage, `distance` devices apart."""
        table = padded_vocabulary(self.model.vocabulary, mesh.tensor) // mesh.tensor * self.model.hidden
        return self.network.collective("all_reduce", table * self._wire_gradient, 2, distance)

    def message(self, mesh: Mesh, sequences: int, sequence_parallel: bool) -> float:
        """Bytes that one device sends to the next stage: the residual stream, its share under sequence parallelism."""
        size = self._activation(mesh, sequences)
        return size / mesh.tensor if sequence_parallel else size
