"""One layer of an operator graph in a chosen layout, priced: seconds by what they are spent on, parameters and bytes of a device.

The graph is that of one replica's microbatch, laid out on the tensor axis; replicas meet in statistics over the batch (`exchange`
between them, as the graph means it) and once a step in gradients. Recomputation, sharding of states and everything else that a
plan varies is left to the stage: the parts are here. Rates, links and formulas are those of `operator_cost`. Nothing here knows
how a layout is chosen, stages or schedules.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum, prod
from typing import NamedTuple

from ..cluster import Cluster
from ..frozen import dataclass
from ..model import Workload
from ..model.graph_model import GraphModel
from ..model.operator import CONTRACTIONS, ELEMENT_BYTES, WHOLE, Kind, Operator, Role, Split, Tensor, local_sizes
from .collectives import Network, Spent
from .device_mesh import DeviceMesh, MeshAxis
from .factors import Constant, Factors
from .operator_cost import OperatorPricer, Terms, at_an_end
from .overlap import add, longer
from .tensor_layout import LayoutStep

#: The one axis of a replica's devices.
TENSOR = "tensor"
#: Of the backward pass of a product with parameters, the part that is the weight's gradient: one of two products of equal FLOPs.
WEIGHT_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Placed:
    """An operator with the loop that the tensor axis divides (`WHOLE` for none); `head`: the loss reads its output."""

    operator: Operator
    loop: str
    head: bool
    copies: int = 1


@dataclass(frozen=True, slots=True)
class Moved:
    """The steps of one conversion, forward and backward. `end`: beside an end of the model, which is never recomputed."""

    forward: tuple[LayoutStep, ...]
    backward: tuple[LayoutStep, ...]
    end: bool
    copies: int = 1


@dataclass(frozen=True, slots=True)
class LayerLayout:
    """A layer laid out on `tensor` devices. `carry`: the dim of its carries that they divide, None where each has them whole."""

    carry: int | None
    placed: tuple[Placed, ...]
    moved: tuple[Moved, ...]
    tensors: Mapping[str, Tensor]
    entering: tuple[str, ...]
    leaving: tuple[str, ...]


class LayerParts(NamedTuple):
    """What a layer and microbatch are made of on one device; seconds, parameters and bytes.

    `again` is what full recomputation repeats, `core` what selective does. `ends` of forward, backward and weight: those of the
    embedding, the head and the loss, which stand in the other numbers too. `divided` parameters lie on one of the tensor devices
    each, `whole` on all; gradients of `summed`, a part of `whole`, are summed over them.
    """

    forward: float
    backward: float
    weight: float
    gemm: float
    attention: float
    memory: float
    tensor: float
    #: What launching adds to passes: the host runs ahead of the device, but not in every kernel.
    launch: float
    ends: float
    again: float
    core: float
    compute: float
    #: By tier, of both passes, and of what is repeated.
    spent: Spent
    repeated: Spent
    divided: int
    whole: int
    summed: int
    #: Of both, those of the embedding and the head.
    of_ends: int
    #: Bytes kept for the backward pass: with nothing recomputed, without attention cores, and of the ends alone.
    kept: int
    kept_selective: int
    kept_ends: int
    #: Bytes on one device of the logits, of the carry that enters, and of the largest activation and weight.
    logits: int
    carry: int
    largest: int
    matrix: int
    #: Scores of the attention cores on one device, and their rows.
    scores: int
    queries: int


class LayerPricer:
    """Prices layouts of layers on one cluster, under one set of factors."""

    def __init__(
        self, model: GraphModel, workload: Workload, cluster: Cluster, network: Network, factors: Factors,
        constants: Mapping[str, Constant],
    ) -> None:  # fmt: skip
        self.model, self.workload, self.cluster, self.network = model, workload, cluster, network
        self._factors, self._constants = factors, constants
        self._pricers: dict[tuple[int, int], OperatorPricer] = {}
        self._launch = 0.0
        self._known: dict[tuple[int, tuple[int, int], tuple[int, int]], tuple[LayerLayout, LayerParts]] = {}

    def operators(self, tensor: tuple[int, int]) -> OperatorPricer:
        """The pricer of operators on (devices, stride) of the tensor axis."""
        found = self._pricers.get(tensor)
        if found is None:
            mesh = DeviceMesh((MeshAxis(TENSOR, *tensor),))
            found = self._pricers[tensor] = OperatorPricer(
                self.workload, self.cluster, mesh, Terms(), self._factors, self._constants
            )
            # Launches are a floor under each pass, not under each kernel, as a stage of shapes has it.
            self._launch = found.rates.launch
            found.rates = found.rates._replace(launch=0.0)
        return found

    def parts(self, layout: LayerLayout, tensor: tuple[int, int], data: tuple[int, int]) -> LayerParts:
        """The parts of a layout on that tensor axis, `data` replicas (count, stride)."""
        key = id(layout), tensor, data
        found = self._known.get(key)
        if found is None:
            # The layout is kept beside its parts, so that its identity stays its own.
            found = self._known[key] = layout, self._parts(layout, tensor, data)
        return found[1]

    def _parts(self, layout: LayerLayout, tensor: tuple[int, int], data: tuple[int, int]) -> LayerParts:
        pricer, tensors = self.operators(tensor), layout.tensors
        sums = dict.fromkeys(("gemm", "attention", "memory", "ends", "again", "core", "forward", "backward", "weight"), 0.0)
        spent = repeated = Spent(0.0)
        divided = whole = summed = at_ends = kept = selective = of_ends = logits = largest = matrix = scores = queries = 0
        memories = set(layout.entering[1:])
        ahead = behind = 0.0
        kernels = 0, 0
        for one in layout.placed:
            operator, split = one.operator, (one.loop,)
            parts = pricer.parts(split)
            forward, backward = pricer.compute(operator, tensors, parts, head=one.head)
            end = at_an_end(operator, head=one.head)
            own = operator.kind in CONTRACTIONS and any(use.role == "weight" for use in operator.parameters)
            weight = WEIGHT_SHARE * backward if own else 0.0
            term = (
                "ends" if end else "gemm" if operator.kind in CONTRACTIONS
                else "attention" if operator.kind is Kind.ATTENTION else "memory"
            )  # fmt: skip
            sums[term] += one.copies * (forward + backward)
            sums["forward"] += one.copies * forward
            sums["backward"] += one.copies * (backward - weight)
            sums["weight"] += one.copies * weight
            sums["again"] += 0.0 if end else one.copies * forward
            sums["core"] += one.copies * forward if operator.kind is Kind.ATTENTION else 0.0
            if operator.kind not in (Kind.INPUT, Kind.OUTPUT):
                kernels = kernels[0] + one.copies, kernels[1] + one.copies * (2 if own else 1)
            if operator.kind is Kind.ATTENTION:
                sizes = {loop.name: -(-loop.size // parts.get(loop.name, 1)) for loop in operator.loops}
                scores += one.copies * prod(sizes.values())
                keys = prod(sizes[loop.name] for loop in operator.loops if loop.split is Split.STATISTICS)
                queries += one.copies * (prod(sizes.values()) // keys)
            inside = Spent(pricer.exchanged(operator, tensors, split, parts), ())
            exchanged = add(inside, self._between(pricer, operator, tensors, parts, data)).scaled(one.copies)
            if exchanged.seconds:
                tiers = exchanged.tiers or ((self._tier(tensor), exchanged.seconds),)
                spent = add(spent, Spent(exchanged.seconds, tiers))
                ahead, behind = ahead + exchanged.seconds / 2, behind + exchanged.seconds / 2
                repeated = repeated if end else add(repeated, Spent(exchanged.seconds / 2, ()))
            for use in (*operator.parameters, *operator.inputs):
                if tensors[use.tensor].role is not Role.PARAMETER or use.tensor in self.model.shared:
                    continue
                here = prod(local_sizes(use, tensors[use.tensor], parts))
                matrix = max(matrix, here * ELEMENT_BYTES[tensors[use.tensor].dtype] if not end else 0)
                count = one.copies * here
                at_ends += count if end else 0
                if one.loop in use.loops:
                    divided += count
                else:
                    whole += count
                    summed += count if one.loop != WHOLE else 0
            mine = {use.tensor: use for use in operator.inputs + operator.outputs}
            for name, use in mine.items():
                size = prod(local_sizes(use, tensors[name], parts)) * ELEMENT_BYTES[tensors[name].dtype]
                largest = max(largest, size if not end else 0)
                if operator.kind is Kind.CROSS_ENTROPY and use.role != "index" and use in operator.inputs:
                    logits += size
                elif name in operator.keeps and name not in memories:
                    kept += one.copies * size
                    of_ends += size if end else 0
                    selective += 0 if operator.kind is Kind.SOFTMAX else one.copies * size
        for move in layout.moved:
            there, back = (self._steps(steps, tensor).scaled(move.copies) for steps in (move.forward, move.backward))
            spent = add(spent, there, back)
            ahead, behind = ahead + there.seconds, behind + back.seconds
            repeated = repeated if move.end else add(repeated, there)
        carry = 0
        if layout.entering:
            one_carry = tensors[layout.entering[0]]
            carry = one_carry.bytes // (tensor[0] if layout.carry is not None else 1)
        compute = sums["forward"] + sums["backward"] + sums["weight"]
        passes = sums["forward"] + ahead, sums["backward"] + sums["weight"] + behind
        waits = [
            longer(seconds, number * self._launch) - seconds + pricer.rates.stall
            for seconds, number in zip(passes, kernels, strict=True)
        ]
        return LayerParts(
            sums["forward"] + ahead + waits[0], sums["backward"] + behind + waits[1], sums["weight"], sums["gemm"],
            sums["attention"], sums["memory"], spent.seconds, fsum(waits), sums["ends"],
            sums["again"] + repeated.seconds + waits[0], sums["core"], compute, spent, repeated, divided, whole, summed, at_ends,
            kept, selective, of_ends, logits, carry, largest,
            matrix, scores, queries,
        )  # fmt: skip

    def _tier(self, axis: tuple[int, int]) -> str:
        return self.network.levels(*axis)[-1].tier.name

    def _between(
        self, pricer: OperatorPricer, operator: Operator, tensors: Mapping[str, Tensor], parts: Mapping[str, int],
        data: tuple[int, int],
    ) -> Spent:  # fmt: skip
        """What replicas tell each other of statistics over the batch, both passes."""
        batch = self.model.batch_of(operator)
        if data[0] == 1 or not batch or all(one.name != batch or one.split is not Split.STATISTICS for one in operator.loops):
            return Spent(0.0)
        rows = pricer.statistics(operator, tensors, parts, batch)
        return add(*(self.network.collective("all_reduce", size, *data).scaled(times) for size, times in rows))

    def _steps(self, steps: tuple[LayoutStep, ...], tensor: tuple[int, int]) -> Spent:
        """Conversions at this cluster's rates."""
        found = Spent(0.0)
        for step in steps:
            if step.operation in ("slice", "expand"):
                found = add(found, Spent(step.bytes / self.operators(tensor).rates.memory, ()))
            else:
                found = add(found, self.network.collective(step.operation, step.bytes, *tensor))
        return found
