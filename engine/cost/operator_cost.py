"""Seconds and bytes of one operator on one device, its loops divided: from the same rates, by local shape, as a stage.

Vocabulary: *parts* says into how many parts each loop is divided. Equal arithmetic is not equal time: a product's rate follows
its local shape. `Spending` is of one microbatch but for `sync` and `optimizer`, which come once a step. Nothing here knows
which layout is chosen, or conversions between operators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

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
from .compute import Rates, device_rates, gemm_seconds, optimizer_seconds
from .device_mesh import DeviceMesh
from .factors import NOMINAL, load_constants
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
    #: ZeRO 3 gathers and ZeRO 2 and 3 scatters, a microbatch, what computation does not hide.
    gathered: float
    #: Once a step.
    sync: float
    optimizer: float
    memory: float
    #: Bytes of parameters, gradients and optimizer state alone, a part of `memory`.
    state: float = 0.0

    def step(self, microbatches: int) -> float:
        """Seconds of a whole step."""
        return microbatches * (self.forward + self.backward + self.exchanged + self.gathered) + self.sync + self.optimizer


@dataclass(frozen=True, slots=True)
class Terms:
    """What a stage's operators are priced under: microbatches a step, those in flight, recomputation."""

    microbatches: int = 1
    in_flight: float = 1.0
    recompute: Recompute = Recompute.NONE
    pad: bool = False


class OperatorPricer:
    """Prices operators of one workload on one mesh of a cluster's first device type."""

    def __init__(self, workload: Workload, cluster: Cluster, mesh: DeviceMesh, terms: Terms | None = None) -> None:
        constants = load_constants()
        self.workload, self.mesh, self.terms = workload, mesh, terms or Terms()
        self.rates: Rates = device_rates(cluster.device, workload, NOMINAL, constants["misaligned"].value)
        self.network = Network(cluster, NOMINAL, constants)
        self.layouts = LayoutGraph(mesh, self.network, self.rates.memory, pad=self.terms.pad)
        self._prefetch = constants["prefetch_overlap"].value
        self._unfused = constants["unfused_optimizer"].value
        precision = workload.precision
        self._wire_gradient = DTYPE_BYTES[precision.communication or precision.gradients]
        self._wire_parameter = DTYPE_BYTES[precision.parameters]

    def spending(self, operator: Operator, tensors: Mapping[str, Tensor], split: Sequence[str], zero: int) -> Spending:
        """`split[a]` names the loop that axis a divides, `WHOLE` for none; `zero` shards what the axes replicate."""
        parts = self.parts(split)
        forward, backward = self.compute(operator, tensors, parts)
        repeats = self.repeats(operator)
        exchanged = self._statistics(operator, tensors, split, parts)
        gathered = sync = optimizer = state = 0.0
        for use in operator.parameters:
            count = prod(local_sizes(use, tensors[use.tensor], parts))
            shared = [a for a, loop in enumerate(split) if loop not in (WHOLE, *use.loops) and self.mesh.axes[a].size > 1]
            costs = self._parameters(count, shared, zero)
            gathered += costs[0]
            sync += costs[1]
            optimizer += costs[2]
            state += costs[3]
        hidden = self._prefetch * (repeats * forward + backward)
        kept = self._kept(operator, tensors, parts)
        return Spending(
            repeats * forward, backward, exchanged * (repeats + 1) / 2, max(0.0, gathered - hidden), sync, optimizer,
            state + kept * self.terms.in_flight, state,
        )  # fmt: skip

    def parts(self, split: Sequence[str]) -> dict[str, int]:
        """Parts of each loop."""
        found: dict[str, int] = {}
        for axis, loop in zip(self.mesh.axes, split, strict=True):
            if loop != WHOLE:
                found[loop] = found.get(loop, 1) * axis.size
        return found

    def repeats(self, operator: Operator) -> int:
        """How often the forward pass is done: twice where it is recomputed."""
        recompute = self.terms.recompute
        again = recompute is Recompute.FULL or (recompute is Recompute.SELECTIVE and operator.kind is Kind.ATTENTION)
        return 2 if again else 1

    def compute(self, operator: Operator, tensors: Mapping[str, Tensor], parts: Mapping[str, int]) -> tuple[float, float]:
        """(forward, backward) seconds of one microbatch; a kernel takes at least its launch."""
        kind, launch = operator.kind, self.rates.launch
        if kind in (Kind.INPUT, Kind.OUTPUT, Kind.OPTIMIZER):
            return 0.0, 0.0
        if kind in CONTRACTIONS:
            forward, backward = self._products(operator, tensors, parts)
            return max(forward, launch), max(backward, 2 * launch)
        if kind is Kind.ATTENTION:
            return self._attention(operator, tensors, parts)
        memory = self.rates.memory
        ins = sum(self._local_bytes(use, tensors, parts) for use in operator.inputs if use.role != "index")
        outs = sum(self._local_bytes(use, tensors, parts) for use in operator.outputs)
        if kind is Kind.EMBEDDING:
            wide = outs / ELEMENT_BYTES[tensors[operator.outputs[0].tensor].dtype] * state_bytes(self.workload).gradients
            return max(2 * outs / memory, launch), max((outs + 2 * wide) / memory, launch)
        if kind is Kind.CROSS_ENTROPY:
            # As the loss of a stage is priced: widened to fp32, maximum, exponential, sum; backward widened and narrowed.
            count = ins / ELEMENT_BYTES[tensors[operator.inputs[0].tensor].dtype]
            return max((ins + 20 * count) / memory, launch), max((ins + 12 * count) / memory, launch)
        assert kind in _MOVED
        back = ins + outs if kind is Kind.REDUCTION else outs + 2 * ins
        return max((ins + outs) / memory, launch), max(back / memory, launch)

    def _products(self, operator: Operator, tensors: Mapping[str, Tensor], parts: Mapping[str, int]) -> tuple[float, float]:
        """Fused products of one operand with weights of equal depth: (m, n, k), then (m, k, n) and (n, k, m) backward."""
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
        e = ELEMENT_BYTES[self.workload.precision.compute]
        rates = self.rates
        forward = copies * gemm_seconds(rates, m, n, k, e)
        return forward, copies * (gemm_seconds(rates, m, k, n, e) + gemm_seconds(rates, n, k, m, e))

    def _attention(self, operator: Operator, tensors: Mapping[str, Tensor], parts: Mapping[str, int]) -> tuple[float, float]:
        """Fused: backward 2.5 times (Dao et al. 2022, arXiv 2205.14135). Unfused kernels pass scores through memory too."""
        seconds = flops(operator, tensors, parts) / self.rates.attention
        if self.workload.attention is not Attention.UNFUSED:
            return max(seconds, self.rates.launch), max(2.5 * seconds, self.rates.launch)
        if operator.causal:
            seconds *= 2  # no kernel skips what the mask hides
        e = ELEMENT_BYTES[self.workload.precision.compute]
        scores = prod(-(-loop.size // parts.get(loop.name, 1)) for loop in operator.loops)
        return seconds + 2 * e * scores / self.rates.memory, 2 * seconds + 3 * e * scores / self.rates.memory

    def _local_bytes(self, use: Use, tensors: Mapping[str, Tensor], parts: Mapping[str, int]) -> float:
        tensor = tensors[use.tensor]
        return prod(local_sizes(use, tensor, parts)) * ELEMENT_BYTES[tensor.dtype]

    def _kept(self, operator: Operator, tensors: Mapping[str, Tensor], parts: Mapping[str, int]) -> float:
        """Bytes kept for backward; recomputed operators keep none but the input of a norm, from which all starts again."""
        if self.terms.recompute is Recompute.FULL and operator.kind is not Kind.NORM:
            return 0.0
        mine = {use.tensor: use for use in operator.inputs + operator.outputs}
        return sum(self._local_bytes(mine[name], tensors, parts) for name in operator.keeps)

    def _statistics(
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
                for count, times in self._exchanged(operator, tensors, parts, name):
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

    def _exchanged(
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

    def _parameters(self, count: int, shared: Sequence[int], zero: int) -> tuple[float, float, float, float]:
        """(gathers and scatters a microbatch, synchronisation, optimizer, bytes held) of `count` parameters on a device.

        ZeRO 0 reduces gradients once a step and all update all; 1 scatters them and gathers new parameters, once a step; 2
        scatters every microbatch; 3 gathers parameters before both passes, too (Rajbhandari et al. 2020, arXiv 1910.02054).
        """
        each = state_bytes(self.workload)
        shards = self.layouts.parts(shared)
        wire = count * self._wire_gradient
        scatter = self._chain("reduce_scatter", wire, shared)
        gather = self._chain("all_gather", count * self._wire_parameter, shared)
        owned = count / shards if zero else float(count)
        optimizer = optimizer_seconds(self.workload, owned, self.rates, self._unfused)
        again = 2 if self.terms.recompute is Recompute.FULL else 1
        gathered, sync = 0.0, 0.0
        if zero == 0:
            sync = self._reduce(wire, shared)
        elif zero == 1:
            sync = scatter + gather
        elif zero == 2:
            gathered, sync = scatter, gather
        else:
            gathered = (1 + again) * gather + scatter
        divided = [shards if zero >= stage else 1 for stage in (3, 2, 1)]
        held = count * (each.parameters / divided[0] + each.gradients / divided[1] + each.optimizer / divided[2])
        return gathered, sync, optimizer, held

    def _chain(self, operation: str, size: float, axes: Sequence[int]) -> float:
        """A scatter or gather over several axes, the innermost first (last): each further one carries its share."""
        spent = 0.0
        for a in sorted(axes, key=lambda one: self.mesh.axes[one].stride):
            spent += self.layouts.seconds(operation, size, a)
            size /= self.mesh.axes[a].size
        return spent

    def _reduce(self, size: float, axes: Sequence[int]) -> float:
        """An all-reduce over several axes: scattered inwards, reduced on the outermost, gathered back."""
        if not axes:
            return 0.0
        *inner, last = sorted(axes, key=lambda one: self.mesh.axes[one].stride)
        left = size / self.layouts.parts(inner)
        ways = self._chain("reduce_scatter", size, inner) + self._chain("all_gather", size, inner)
        return ways + self.layouts.seconds("all_reduce", left, last)


def has_gradient(tensor: Tensor) -> bool:
    """Whether a gradient flows into the tensor as an activation."""
    return tensor.role is Role.ACTIVATION
