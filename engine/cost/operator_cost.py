"""Seconds and bytes of one operator on one device, its loops divided: from the same rates, by local shape, as a stage.

Vocabulary: *parts* says into how many parts each loop is divided. Equal arithmetic is not equal time: a product's rate follows
its local shape. `Spending` is of one microbatch but for `sync` and `optimizer`, which come once a step. Nothing here knows
which layout is chosen, or conversions between operators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from ..cluster import Cluster
from ..model import DTYPE_BYTES, Attention, Workload
from ..model.operator import (
    CONTRACTIONS,
    ELEMENT_BYTES,
    WHOLE,
    Kind,
    Operator,
    Role,
    Split,
    Tensor,
    Use,
    flops,
    local_sizes,
    product_sizes,
    weights,
)
from ..plan import Recompute
from .collectives import Network
from .compute import ALIGNED, HEAD_ALIGNED, Rates, device_rates, gemm_seconds, optimizer_seconds
from .device_mesh import DeviceMesh
from .factors import NOMINAL, Constant, Factors, load_constants
from .states import state_bytes
from .tensor_layout import LayoutGraph

#: Operators whose whole work is moving data, once read and once written, either way.
_MOVED = frozenset({Kind.DISPATCH, Kind.COMBINE, Kind.RESHAPE, Kind.REDUCTION, Kind.ELEMENTWISE, Kind.NORM, Kind.SOFTMAX})
#: Bytes of an element of exchanged statistics, which are kept in fp32.
_STATISTIC = 4


@dataclass(frozen=True, slots=True)
class Spending:
    """Seconds of one operator on one device, and the bytes that it holds there."""

    forward: float
    backward: float
    #: Exchange of statistics of divided norms, softmaxes and losses, and of halos, both passes.
    exchanged: float
    #: ZeRO 3 gathers and ZeRO 2 and 3 scatters, a microbatch: what the operator itself does not hide at an end of the model, and
    #: what hidden ones take from what hides them.
    gathered: float
    #: Once a step.
    sync: float
    optimizer: float
    memory: float
    #: Bytes of parameters, gradients and optimizer state alone, a part of `memory`.
    state: float = 0.0
    #: Seconds of parameter gathers before the forward pass, and of gathers and scatters beside the backward pass, less the
    #: computation of that pass under which prefetching hides them: only the sum over all operators counts, where above 0.
    ahead: float = 0.0
    behind: float = 0.0

    def step(self, microbatches: int) -> float:
        """Seconds of a whole step."""
        return microbatches * (self.forward + self.backward + self.exchanged + self.gathered) + self.sync + self.optimizer


class Demand(NamedTuple):
    """What an operator asks of a device: products as (copies, m, n, k), FLOPs of an attention core, bytes through memory."""

    product: tuple[int, int, int, int] | None = None
    flops: float = 0.0
    forward: float = 0.0
    backward: float = 0.0
    head: bool = False
    loss: bool = False


#: Of what is no work.
IDLE = Demand()


@dataclass(frozen=True, slots=True)
class Terms:
    """What a stage's operators are priced under: microbatches a step, those in flight, recomputation."""

    microbatches: int = 1
    in_flight: float = 1.0
    recompute: Recompute = Recompute.NONE
    pad: bool = False
    #: Parameters, of the whole mesh, that are gathered or scattered at a time in a microbatch, and reduced at a time once a step:
    #: those of a layer and of a stage. 0: each operator's by themselves, each with its own latency.
    layer: float = 0.0
    parameters: float = 0.0


class OperatorPricer:
    """Prices operators of one workload on one mesh of a cluster's first device type."""

    def __init__(
        self, workload: Workload, cluster: Cluster, mesh: DeviceMesh, terms: Terms | None = None, factors: Factors = NOMINAL,
        constants: Mapping[str, Constant] | None = None,
    ) -> None:  # fmt: skip
        constants = load_constants() if constants is None else constants
        self.workload, self.mesh, self.terms = workload, mesh, terms or Terms()
        self.rates: Rates = device_rates(cluster.device, workload, factors, constants["misaligned"].value)
        self.network = Network(cluster, factors, constants)
        self.layouts = LayoutGraph(mesh, self.network, self.rates.memory, pad=self.terms.pad)
        self._prefetch = constants["prefetch_overlap"].value
        #: Of computation, the share that hides gathers, less what a hidden one takes from it.
        self.hidden = self._prefetch * (1 - self.rates.interference)
        #: Share of the attention core under which keys and values that go round are hidden.
        self.ring = constants["ring_overlap"].value
        self._unfused = constants["unfused_optimizer"].value
        precision = workload.precision
        self._wire_gradient = DTYPE_BYTES[precision.communication or precision.gradients]
        self._wire_parameter = DTYPE_BYTES[precision.parameters]

    def spending(
        self, operator: Operator, tensors: Mapping[str, Tensor], split: Sequence[str], zero: int, *, head: bool = False
    ) -> Spending:
        """`split[a]` names the loop that axis a divides, `WHOLE` for none; `zero` shards what the axes replicate.

        `head`: the loss reads its output. Its parameters and those of an embedding are gathered once, beside the operator
        itself (between its passes there is nothing that would hide a second gather); all others are prefetched under the
        computation of the operators before them (Zhao et al. 2023, arXiv 2304.11277).
        """
        parts = self.parts(split)
        forward, backward = self.compute(operator, tensors, parts, head=head)
        repeats = self.repeats(operator, head=head)
        again = (repeats - 1) * forward
        exchanged = self.exchanged(operator, tensors, split, parts)
        gather = scatter = sync = optimizer = state = 0.0
        for use in operator.parameters:
            count = prod(local_sizes(use, tensors[use.tensor], parts))
            shared = [a for a, loop in enumerate(split) if loop not in (WHOLE, *use.loops) and self.mesh.axes[a].size > 1]
            costs = self._parameters(count, shared, zero)
            gather += costs[0]
            scatter += costs[1]
            sync += costs[2]
            optimizer += costs[3]
            state += costs[4]
        ahead = behind = 0.0
        if at_an_end(operator, head=head):
            gathered = max(0.0, gather - self._prefetch * forward) + max(0.0, scatter - self._prefetch * backward)
        else:
            slowed = self.rates.interference
            gathered = slowed * (2 * gather + scatter)
            if zero >= 2:
                ahead = (1 - slowed) * gather - self.hidden * forward
                behind = (1 - slowed) * (gather + scatter) - self.hidden * (again + backward)
        kept = self._kept(operator, tensors, parts, head=head)
        return Spending(
            forward + again, backward, exchanged * (repeats + 1) / 2, gathered, sync, optimizer,
            state + kept * self.terms.in_flight, state, ahead, behind,
        )  # fmt: skip

    def parts(self, split: Sequence[str]) -> dict[str, int]:
        """Parts of each loop."""
        found: dict[str, int] = {}
        for axis, loop in zip(self.mesh.axes, split, strict=True):
            if loop != WHOLE:
                found[loop] = found.get(loop, 1) * axis.size
        return found

    def repeats(self, operator: Operator, *, head: bool = False) -> int:
        """How often the forward pass is done: twice where it is recomputed; the ends of the model never are."""
        recompute = self.terms.recompute
        if at_an_end(operator, head=head):
            return 1
        again = recompute is Recompute.FULL or (recompute is Recompute.SELECTIVE and operator.kind is Kind.ATTENTION)
        return 2 if again else 1

    def compute(
        self, operator: Operator, tensors: Mapping[str, Tensor], parts: Mapping[str, int], *, head: bool = False
    ) -> tuple[float, float]:
        """(forward, backward) seconds of one microbatch; a kernel takes at least its launch."""
        return self.seconds(self.demand(operator, tensors, parts, head=head))

    def demand(
        self, operator: Operator, tensors: Mapping[str, Tensor], parts: Mapping[str, int], *, head: bool = False
    ) -> Demand:
        """What one microbatch asks of a device, whatever its rates."""
        kind = operator.kind
        if kind in (Kind.INPUT, Kind.OUTPUT, Kind.OPTIMIZER):
            return IDLE
        if kind in CONTRACTIONS and not _by_channel(operator):
            return Demand(product=self._product(operator, tensors, parts), head=head)
        if kind is Kind.ATTENTION:
            return self._attention(operator, tensors, parts)
        ins = sum(self._local_bytes(use, tensors, parts) for use in operator.inputs if use.role != "index")
        outs = sum(self._local_bytes(use, tensors, parts) for use in operator.outputs)
        if kind is Kind.EMBEDDING:
            wide = outs / ELEMENT_BYTES[tensors[operator.outputs[0].tensor].dtype] * state_bytes(self.workload).gradients
            return Demand(forward=2 * outs, backward=outs + 2 * wide)
        if kind is Kind.CROSS_ENTROPY:
            # As the loss of a stage is priced: widened to fp32, maximum, exponential, sum; backward widened and narrowed.
            count = ins / ELEMENT_BYTES[tensors[operator.inputs[0].tensor].dtype]
            return Demand(forward=ins + 20 * count, backward=ins + 12 * count, loss=True)
        assert kind in _MOVED or kind is Kind.CONVOLUTION
        back = ins + outs if kind is Kind.REDUCTION else outs + 2 * ins
        if kind is Kind.CONVOLUTION:
            back += outs  # once for the input's gradient, once for the weight's
        return Demand(forward=ins + outs, backward=back)

    def seconds(self, demand: Demand) -> tuple[float, float]:
        """(forward, backward) seconds of what is asked, at the rates in force."""
        rates, launch = self.rates, self.rates.launch
        if demand is IDLE:
            return 0.0, 0.0
        if demand.product is not None:
            forward, backward = self._products(*demand.product, head=demand.head)
            return max(forward, launch), max(backward, 2 * launch)
        if demand.flops:
            core = demand.flops / rates.attention
            if demand.forward:
                # Unfused: the scores pass through memory.
                return core + demand.forward / rates.memory, 2 * core + demand.backward / rates.memory
            return max(core, launch), max(2.5 * core, launch)
        share = (rates.loss if demand.loss else 1.0) / rates.memory
        return max(demand.forward * share, launch), max(demand.backward * share, launch)

    def _product(
        self, operator: Operator, tensors: Mapping[str, Tensor], parts: Mapping[str, int]
    ) -> tuple[int, int, int, int]:
        """(copies, m, n, k) of fused products of one operand with weights of equal depth."""
        x = next(use for use in operator.inputs if use.role == "x")
        out = {loop for use in operator.outputs for loop in use.loops}
        m = copies = k = 1
        n = 0
        for one in weights(operator):
            sizes = product_sizes(operator, one, tensors, parts)
            own = [loop for loop in sizes if loop not in x.loops]
            columns = [loop for loop in own if loop in out or operator.kind is Kind.ROUTING]
            depth = [loop for loop in own if loop not in columns]
            common = [loop for loop in sizes if loop in x.loops and loop in one.loops]
            copies = prod(sizes[loop] for loop in common if loop in out)
            k = prod(sizes[loop] for loop in common if loop not in out) * prod(sizes[loop] for loop in depth)
            m = prod(sizes[loop] for loop in sizes if loop in x.loops and loop not in one.loops)
            n += prod(sizes[loop] for loop in columns)
        return copies, m, n, k

    def _products(self, copies: int, m: int, n: int, k: int, *, head: bool) -> tuple[float, float]:
        """Forward (m, n, k), then (m, k, n) and (n, k, m) backward.

        A head stays 16-bit under fp8, and its many columns need only be aligned to 16 bytes, as a stage has it.
        """
        e = ELEMENT_BYTES[self.workload.precision.compute]
        rates = self.rates
        peak, aligned = (rates.wide, HEAD_ALIGNED) if head else (None, ALIGNED)

        def product(rows: float, columns: float, depth: float) -> float:
            return copies * gemm_seconds(rates, rows, columns, depth, e, peak=peak, aligned=aligned)

        return product(m, n, k), product(m, k, n) + product(n, k, m)

    def _attention(self, operator: Operator, tensors: Mapping[str, Tensor], parts: Mapping[str, int]) -> Demand:
        """Fused: backward 2.5 times (Dao et al. 2022, arXiv 2205.14135). Unfused kernels pass scores through memory too."""
        number = float(flops(operator, tensors, parts))
        if self.workload.attention is not Attention.UNFUSED:
            return Demand(flops=number)
        if operator.causal:
            number *= 2  # no kernel skips what the mask hides
        e = ELEMENT_BYTES[self.workload.precision.compute]
        scores = prod(-(-loop.size // parts.get(loop.name, 1)) for loop in operator.loops)
        return Demand(flops=number, forward=2 * e * scores, backward=3 * e * scores)

    def _local_bytes(self, use: Use, tensors: Mapping[str, Tensor], parts: Mapping[str, int]) -> float:
        tensor = tensors[use.tensor]
        return prod(local_sizes(use, tensor, parts)) * ELEMENT_BYTES[tensor.dtype]

    def _kept(self, operator: Operator, tensors: Mapping[str, Tensor], parts: Mapping[str, int], *, head: bool) -> float:
        """Bytes kept for backward; recomputed operators keep none but the input of a norm, from which all starts again."""
        again = self.repeats(operator, head=head) > 1
        if self.terms.recompute is Recompute.FULL and again and operator.kind is not Kind.NORM:
            return 0.0
        mine = {use.tensor: use for use in operator.inputs + operator.outputs}
        return sum(self._local_bytes(mine[name], tensors, parts) for name in operator.keeps)

    def exchanged(
        self, operator: Operator, tensors: Mapping[str, Tensor], split: Sequence[str], parts: Mapping[str, int]
    ) -> float:
        """Seconds, both passes, of what devices tell each other where a loop of statistics, or one with a halo, is divided."""
        loops = {loop.name: loop for loop in operator.loops}
        spent = 0.0
        for a, name in enumerate(split):
            loop = loops.get(name)
            if loop is None or self.mesh.axes[a].size == 1:
                continue
            if loop.split is Split.STATISTICS:
                for count, times in self.statistics(operator, tensors, parts, name):
                    spent += times * self.layouts.seconds("all_reduce", count, a)
            if loop.halo:
                use = next(one for one in operator.inputs if name in one.loops)
                here = self._local_bytes(use, tensors, parts)
                rows = local_sizes(use, tensors[use.tensor], parts)[use.loops.index(name)]
                axis = self.mesh.axes[a]
                tier = self.network.levels(axis.size, axis.stride)[-1].tier
                # To both neighbours and from both, forward and backward: links are full duplex.
                spent += 2 * 2 * self.network.send(here / rows * loop.halo, tier).seconds
        return spent

    def statistics(
        self, operator: Operator, tensors: Mapping[str, Tensor], parts: Mapping[str, int], divided: str
    ) -> list[tuple[float, int]]:
        """(bytes, times) of the all-reduces of a divided loop's statistics, both passes."""
        sizes = {loop.name: -(-loop.size // parts.get(loop.name, 1)) for loop in operator.loops}
        spread = [loop.name for loop in operator.loops if loop.split is Split.STATISTICS]
        rest = prod(size for name, size in sizes.items() if name not in spread)
        if operator.kind is Kind.ATTENTION:
            # Each part's output with its maximum and sum are combined; backward the row sums of gradient times output.
            rows = prod(size for name, size in sizes.items() if name != divided)
            out = self._local_bytes(operator.outputs[0], tensors, parts)
            return [(out + 2 * rows * _STATISTIC, 1), (rows * _STATISTIC, 1)]
        if operator.kind is Kind.ROUTING:
            return [(rest * _STATISTIC, 1)]
        if operator.kind is Kind.CROSS_ENTROPY:
            return [(rest * _STATISTIC, 3)]
        return [(2 * rest * _STATISTIC, 2)]

    def _parameters(self, count: int, shared: Sequence[int], zero: int) -> tuple[float, float, float, float, float]:
        """(gather, scatter a microbatch, synchronisation, optimizer, bytes held) of `count` parameters on a device.

        ZeRO 0 reduces gradients once a step and all update all; 1 scatters them and gathers new parameters, once a step; 2
        scatters every microbatch; 3 gathers parameters before both passes, too (Rajbhandari et al. 2020, arXiv 1910.02054):
        what is recomputed comes right before its backward pass, and they stay.
        """
        each = state_bytes(self.workload)
        shards = self.layouts.parts(shared)
        groups = self._groups(shared)
        # A part of a bucket takes its part of the bucket's seconds: that of a layer each microbatch, of all once a step.
        bucket = max(count, (self.terms.layer if zero >= 2 else self.terms.parameters) * shards / self.mesh.devices)
        part = count / bucket
        wire = bucket * self._wire_gradient
        scatter = part * self._chain("reduce_scatter", wire, groups)
        gather = part * self._chain("all_gather", bucket * self._wire_parameter, groups)
        owned = count / shards if zero else float(count)
        optimizer = optimizer_seconds(self.workload, owned, self.rates, self._unfused)
        sync = scatter + gather if zero == 1 else gather if zero == 2 else 0.0 if zero else part * self._reduce(wire, groups)
        divided = [shards if zero >= stage else 1 for stage in (3, 2, 1)]
        held = count * (each.parameters / divided[0] + each.gradients / divided[1] + each.optimizer / divided[2])
        return gather if zero == 3 else 0.0, scatter if zero >= 2 else 0.0, sync, optimizer, held

    def _groups(self, axes: Sequence[int]) -> list[tuple[int, int]]:
        """(devices, stride) of the groups that `axes` form, the innermost first: axes right beside each other are one group."""
        found: list[tuple[int, int]] = []
        for axis in sorted((self.mesh.axes[a] for a in axes), key=lambda one: one.stride):
            if found and found[-1][0] * found[-1][1] == axis.stride:
                found[-1] = (found[-1][0] * axis.size, found[-1][1])
            else:
                found.append((axis.size, axis.stride))
        return found

    def _chain(self, operation: str, size: float, groups: Sequence[tuple[int, int]]) -> float:
        """A scatter or gather over several groups, the innermost first (last): each further one carries its share."""
        spent = 0.0
        for devices, stride in groups:
            spent += self.layouts.over(operation, size, devices, stride)
            size /= devices
        return spent

    def _reduce(self, size: float, groups: Sequence[tuple[int, int]]) -> float:
        """An all-reduce over several groups: scattered inwards, reduced on the outermost, gathered back."""
        if not groups:
            return 0.0
        *inner, (devices, stride) = groups
        left = size / prod(one for one, _ in inner)
        ways = self._chain("reduce_scatter", size, inner) + self._chain("all_gather", size, inner)
        return ways + self.layouts.over("all_reduce", left, devices, stride)


def _by_channel(operator: Operator) -> bool:
    """Whether a convolution has a filter for each channel: few multiply-adds a byte, so that moving it is all that counts."""
    if operator.kind is not Kind.CONVOLUTION:
        return False
    x = {loop for use in operator.inputs for loop in use.loops}
    out = {loop for use in operator.outputs for loop in use.loops}
    return not any((loop in out) != (loop in x) for one in weights(operator) for loop in one.loops if loop in out | x)


def at_an_end(operator: Operator, *, head: bool) -> bool:
    """Whether an operator is the embedding, the head (the loss reads its output) or the loss: outside the layers."""
    return head or operator.kind in (Kind.EMBEDDING, Kind.CROSS_ENTROPY)


def has_gradient(tensor: Tensor) -> bool:
    """Whether a gradient flows into the tensor as an activation."""
    return tensor.role is Role.ACTIVATION
