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
from .operator_cost import Demand, OperatorPricer, Terms, at_an_end
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


Counts = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]


class _Form(NamedTuple):
    """What a layout asks: (demand, term, copies, whether it has weights) by operator, the operators that exchange statistics or
    halos, kernels of both passes, and the numbers that stand last in `LayerParts`.
    """

    demands: tuple[tuple[Demand, str, int, bool], ...]
    exchanging: tuple[Placed, ...]
    kernels: tuple[int, int]
    counts: Counts


#: Forms by layout and attention kernel.
Forms = dict[tuple[int, object], tuple[LayerLayout, _Form]]


class LayerPricer:
    """Prices layouts of layers on one cluster, under one set of factors."""

    def __init__(
        self, model: GraphModel, workload: Workload, cluster: Cluster, network: Network, factors: Factors,
        constants: Mapping[str, Constant], forms: Forms | None = None,
    ) -> None:  # fmt: skip
        self._forms: Forms = {} if forms is None else forms
        self.model, self.workload, self.cluster, self.network = model, workload, cluster, network
        self._factors, self._constants = factors, constants
        self._pricers: dict[tuple[int, int], OperatorPricer] = {}
        self._launch = 0.0
        self._collectives: dict[tuple[str, float, tuple[int, int]], Spent] = {}
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
        pricer, form = self.operators(tensor), self._form(layout, tensor)
        sums = dict.fromkeys(("gemm", "attention", "memory", "ends", "again", "core", "forward", "backward", "weight"), 0.0)
        for demand, term, copies, own in form.demands:
            forward, backward = pricer.seconds(demand)
            weight = WEIGHT_SHARE * backward if own else 0.0
            sums[term] += copies * (forward + backward)
            sums["forward"] += copies * forward
            sums["backward"] += copies * (backward - weight)
            sums["weight"] += copies * weight
            sums["again"] += 0.0 if term == "ends" else copies * forward
            sums["core"] += copies * forward if term == "attention" else 0.0
        both: dict[str, float] = {}
        again: dict[str, float] = {}
        ahead = behind = repeated = 0.0
        for one in form.exchanging:
            parts = pricer.parts((one.loop,))
            inside = one.copies * pricer.exchanged(one.operator, layout.tensors, (one.loop,), parts)
            across = self._between(pricer, one.operator, layout, parts, data).scaled(one.copies)
            rows = (*across.tiers, *(((self._tier(tensor), inside),) if inside else ()))
            seconds = inside + across.seconds
            ahead, behind = ahead + seconds / 2, behind + seconds / 2
            end = at_an_end(one.operator, head=one.head)
            repeated += 0.0 if end else seconds / 2
            for name, part in rows:
                both[name] = both.get(name, 0.0) + part
                again[name] = again.get(name, 0.0) + (0.0 if end else part / 2)
        for move in layout.moved:
            for steps, forth in ((move.forward, True), (move.backward, False)):
                for step in steps:
                    seconds, rows = self._step(step, tensor)
                    seconds *= move.copies
                    ahead, behind = (ahead + seconds, behind) if forth else (ahead, behind + seconds)
                    twice = forth and not move.end
                    repeated += seconds if twice else 0.0
                    for name, part in rows:
                        both[name] = both.get(name, 0.0) + move.copies * part
                        again[name] = again.get(name, 0.0) + (move.copies * part if twice else 0.0)
        spent, repeats = Spent(ahead + behind, tuple(both.items())), Spent(repeated, tuple(again.items()))
        passes = sums["forward"] + ahead, sums["backward"] + sums["weight"] + behind
        waits = [
            longer(seconds, number * self._launch) - seconds + pricer.rates.stall
            for seconds, number in zip(passes, form.kernels, strict=True)
        ]
        return LayerParts(
            sums["forward"] + ahead + waits[0], sums["backward"] + behind + waits[1], sums["weight"], sums["gemm"],
            sums["attention"], sums["memory"], spent.seconds, fsum(waits), sums["ends"],
            sums["again"] + repeated + waits[0], sums["core"],
            sums["forward"] + sums["backward"] + sums["weight"], spent, repeats, *form.counts,
        )  # fmt: skip

    def _form(self, layout: LayerLayout, tensor: tuple[int, int]) -> _Form:
        """What a layout asks of a device, whatever its rates and links: worked out once for all pricers of a case."""
        key = id(layout), self.workload.attention
        found = self._forms.get(key)
        if found is None:
            # The layout is kept beside its form, so that its identity stays its own.
            found = self._forms[key] = layout, self._formed(layout, tensor)
        return found[1]

    def _formed(self, layout: LayerLayout, tensor: tuple[int, int]) -> _Form:
        pricer, tensors = self.operators(tensor), layout.tensors
        demands, exchanging = [], []
        kernels = [0, 0]
        divided = whole = summed = at_ends = kept = selective = of_ends = logits = largest = matrix = scores = queries = 0
        memories = set(layout.entering[1:])
        for one in layout.placed:
            operator, copies = one.operator, one.copies
            parts = pricer.parts((one.loop,))
            end = at_an_end(operator, head=one.head)
            own = operator.kind in CONTRACTIONS and any(use.role == "weight" for use in operator.parameters)
            if operator.kind not in (Kind.INPUT, Kind.OUTPUT):
                product, core = operator.kind in CONTRACTIONS, operator.kind is Kind.ATTENTION
                term = "ends" if end else "gemm" if product else "attention" if core else "memory"
                demands.append((pricer.demand(operator, tensors, parts, head=one.head), term, copies, own))
                kernels[0] += copies
                kernels[1] += copies * (2 if own else 1)
            batch = self.model.batch_of(operator)
            if any(loop.halo or loop.split is Split.STATISTICS for loop in operator.loops if loop.name in (one.loop, batch)):
                exchanging.append(one)
            if operator.kind is Kind.ATTENTION:
                sizes = {loop.name: -(-loop.size // parts.get(loop.name, 1)) for loop in operator.loops}
                scores += copies * prod(sizes.values())
                keys = prod(sizes[loop.name] for loop in operator.loops if loop.split is Split.STATISTICS)
                queries += copies * (prod(sizes.values()) // keys)
            for use in (*operator.parameters, *operator.inputs):
                if tensors[use.tensor].role is not Role.PARAMETER or use.tensor in self.model.shared:
                    continue
                here = prod(local_sizes(use, tensors[use.tensor], parts))
                matrix = max(matrix, here * ELEMENT_BYTES[tensors[use.tensor].dtype] if not end else 0)
                at_ends += copies * here if end else 0
                if one.loop in use.loops:
                    divided += copies * here
                else:
                    whole += copies * here
                    summed += copies * here if one.loop != WHOLE else 0
            mine = {use.tensor: use for use in operator.inputs + operator.outputs}
            for name, use in mine.items():
                size = prod(local_sizes(use, tensors[name], parts)) * ELEMENT_BYTES[tensors[name].dtype]
                largest = max(largest, size if not end else 0)
                if operator.kind is Kind.CROSS_ENTROPY and use.role != "index" and use in operator.inputs:
                    logits += size
                elif name in operator.keeps and name not in memories:
                    kept += copies * size
                    of_ends += size if end else 0
                    selective += 0 if operator.kind is Kind.SOFTMAX else copies * size
        carry = 0
        if layout.entering:
            carry = tensors[layout.entering[0]].bytes // (tensor[0] if layout.carry is not None else 1)
        counts = (divided, whole, summed, at_ends, kept, selective, of_ends, logits, carry, largest, matrix, scores, queries)
        return _Form(tuple(demands), tuple(exchanging), (kernels[0], kernels[1]), counts)

    def _tier(self, axis: tuple[int, int]) -> str:
        return self.network.levels(*axis)[-1].tier.name

    def _between(
        self, pricer: OperatorPricer, operator: Operator, layout: LayerLayout, parts: Mapping[str, int], data: tuple[int, int]
    ) -> Spent:  # fmt: skip
        """What replicas tell each other of statistics over the batch, both passes."""
        batch = self.model.batch_of(operator)
        if data[0] == 1 or not batch or all(one.name != batch or one.split is not Split.STATISTICS for one in operator.loops):
            return Spent(0.0)
        rows = pricer.statistics(operator, layout.tensors, parts, batch)
        return add(*(self.network.collective("all_reduce", size, *data).scaled(times) for size, times in rows))

    def _step(self, step: LayoutStep, tensor: tuple[int, int]) -> Spent:
        """One step of a conversion at this cluster's rates."""
        if step.operation in ("slice", "expand"):
            return Spent(step.bytes / self.operators(tensor).rates.memory, ())
        key = step.operation, step.bytes, tensor
        found = self._collectives.get(key)
        if found is None:
            found = self._collectives[key] = self.network.collective(step.operation, step.bytes, *tensor)
        return found
