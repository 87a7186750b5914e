"""Operators as named-dimension contractions and maps: shapes, dtypes, FLOPs, bytes, parameters, what backward keeps.

Vocabulary: a *loop* is a named dimension of an operator's index space; a *use* is an operand: a tensor and the loop that runs
over each of its dims. A loop's *split* says what it means to divide it among devices: each does its part (`free`), outputs
without the loop become partial sums (`sum`), the devices exchange statistics (`statistics`), or it cannot be divided
(`whole`). Names mean nothing: only which loop runs over which dim of which operand. Nothing here knows devices or layouts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import prod

from .workload import DTYPE_BYTES

#: A dim that no loop runs over: the operator needs it whole.
WHOLE = ""

#: Bytes of an element by dtype, those of tokens and of statistics included.
ELEMENT_BYTES: Mapping[str, int] = {**DTYPE_BYTES, "int64": 8, "int32": 4, "int8": 1, "bool": 1, "fp64": 8}


class Kind(StrEnum):
    """What an operator computes."""

    INPUT = "input"
    OUTPUT = "output"
    MATMUL = "matmul"
    BATCHED_MATMUL = "batched_matmul"
    ATTENTION = "attention"
    CONVOLUTION = "convolution"
    NORM = "norm"
    SOFTMAX = "softmax"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    RESHAPE = "reshape"
    EMBEDDING = "embedding"
    CROSS_ENTROPY = "cross_entropy"
    ROUTING = "routing"
    DISPATCH = "dispatch"
    EXPERTS = "experts"
    COMBINE = "combine"
    OPTIMIZER = "optimizer"


#: Kinds whose FLOPs are multiply-adds of matrices.
CONTRACTIONS = frozenset({Kind.MATMUL, Kind.BATCHED_MATMUL, Kind.CONVOLUTION, Kind.ROUTING, Kind.EXPERTS})


class Split(StrEnum):
    """What dividing a loop among devices means."""

    FREE = "free"
    SUM = "sum"
    STATISTICS = "statistics"
    WHOLE = "whole"


class Role(StrEnum):
    """What a tensor is. No gradient flows into an index."""

    ACTIVATION = "activation"
    PARAMETER = "parameter"
    INDEX = "index"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the whole model: sizes in elements, one a dim."""

    name: str
    sizes: tuple[int, ...]
    dtype: str
    role: Role = Role.ACTIVATION

    @property
    def elements(self) -> int:
        """The product of the sizes."""
        return prod(self.sizes)

    @property
    def bytes(self) -> int:
        """Elements times the bytes of one."""
        return self.elements * ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Loop:
    """A dimension of an operator's index space. `halo`: rows that a part needs of each neighbour (convolution)."""

    name: str
    size: int
    split: Split = Split.FREE
    halo: int = 0


@dataclass(frozen=True, slots=True)
class Use:
    """An operand: the loop over each dim of `tensor` (`WHOLE` for none).

    `role` tells operands apart ("x", "weight", "bias", "query", ...); operands of one role may be swapped. `repeats`: where a
    loop is divided into more parts than the dim has, the dim stays whole (keys and values of grouped-query attention).
    """

    tensor: str
    loops: tuple[str, ...]
    role: str = "x"
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator. `parameters` are uses, too. `linear`: partial sums may pass through it.

    `keeps` names the tensors that its backward pass reads besides gradients; `causal` halves an attention's work.
    """

    name: str
    kind: Kind
    loops: tuple[Loop, ...]
    inputs: tuple[Use, ...] = ()
    outputs: tuple[Use, ...] = ()
    parameters: tuple[Use, ...] = ()
    keeps: tuple[str, ...] = ()
    causal: bool = False
    linear: bool = False

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each loop."""
        return {loop.name: loop.size for loop in self.loops}

    @property
    def uses(self) -> tuple[Use, ...]:
        """Inputs, parameters and outputs."""
        return self.inputs + self.parameters + self.outputs


def weights(operator: Operator) -> tuple[Use, ...]:
    """The operands of role "weight", parameters or activations: each is one matrix product with the operand "x"."""
    return tuple(use for use in operator.inputs + operator.parameters if use.role == "weight")


def local_sizes(use: Use, tensor: Tensor, parts: Mapping[str, int]) -> tuple[int, ...]:
    """Sizes of the operand on one device where each loop is divided into `parts` (those not named: 1).

    What does not divide is padded: rounded up. A dim that repeats stays whole where its loop has more parts than it divides
    into.
    """
    found = []
    for loop, size in zip(use.loops, tensor.sizes, strict=True):
        n = parts.get(loop, 1)
        found.append(size if use.repeats and size % n else -(-size // n))
    return tuple(found)


def product_sizes(operator: Operator, weight: Use, tensors: Mapping[str, Tensor], parts: Mapping[str, int]) -> dict[str, int]:
    """The loops of the product of the operand "x" with `weight`, by name, with their sizes on one device."""
    x = next(use for use in operator.inputs if use.role == "x")
    sizes = {loop.name: -(-loop.size // parts.get(loop.name, 1)) for loop in operator.loops}
    own = {
        loop: size
        for loop, size in zip(weight.loops, local_sizes(weight, tensors[weight.tensor], parts), strict=True)
        if loop not in x.loops
    }
    return {name: sizes[name] for name in x.loops if name != WHOLE} | {name: n for name, n in own.items() if name != WHOLE}


def flops(operator: Operator, tensors: Mapping[str, Tensor], parts: Mapping[str, int] | None = None) -> int:
    """Forward FLOPs, 2 a multiply-add, on a device where loops are divided into `parts` (default: of the whole operator).

    Contractions: 2 x the product of all loops of x and weight, for each weight. Attention: scores and values, 2 b n q k
    (query width + value width), causal ones with k = (q + 1) / 2 keys a query in the mean (Narayanan et al. 2021, arXiv
    2104.04473, appendix). Everything else counts 0, as model FLOPs do (Chowdhery et al. 2022, arXiv 2204.02311).
    """
    divided = parts or {}
    if operator.kind in CONTRACTIONS:
        return sum(2 * prod(product_sizes(operator, one, tensors, divided).values()) for one in weights(operator))
    if operator.kind is Kind.ATTENTION:
        widths = sum(attention_widths(operator, tensors))
        pairs = prod(-(-loop.size // divided.get(loop.name, 1)) for loop in operator.loops)
        if not operator.causal:
            return 2 * pairs * widths
        keys = next(loop.size for loop in operator.loops if loop.split is Split.STATISTICS)
        # A query sees (k + 1) / 2 of k keys in the mean, so of a part of the keys it sees that share.
        return pairs * widths * (keys + 1) // keys
    return 0


def attention_widths(operator: Operator, tensors: Mapping[str, Tensor]) -> tuple[int, int]:
    """The widths of one head's query and value: the dims that no loop runs over."""
    found = []
    for role in ("query", "value"):
        use = next(one for one in operator.inputs if one.role == role)
        sizes = tensors[use.tensor].sizes
        found.append(prod(size for size, loop in zip(sizes, use.loops, strict=True) if loop == WHOLE))
    return found[0], found[1]


def bytes_read(operator: Operator, tensors: Mapping[str, Tensor]) -> int:
    """Bytes of all operands that are read, each once; of an embedding's table the rows that are looked up."""
    return sum(_moved(operator, use, tensors) for use in operator.inputs + operator.parameters)


def bytes_written(operator: Operator, tensors: Mapping[str, Tensor]) -> int:
    """Bytes of the outputs, each once; an optimizer writes its parameters."""
    written = operator.parameters if operator.kind is Kind.OPTIMIZER else operator.outputs
    return sum(tensors[use.tensor].bytes for use in written)


def _moved(operator: Operator, use: Use, tensors: Mapping[str, Tensor]) -> int:
    tensor = tensors[use.tensor]
    if operator.kind is Kind.EMBEDDING and use.role == "table":
        out = tensors[operator.outputs[0].tensor]
        return out.elements * ELEMENT_BYTES[tensor.dtype]
    return tensor.bytes


def parameters(operator: Operator, tensors: Mapping[str, Tensor]) -> int:
    """Elements of the parameters that the operator uses."""
    return sum(tensors[use.tensor].elements for use in operator.parameters)


def kept_bytes(operator: Operator, tensors: Mapping[str, Tensor]) -> int:
    """Bytes that its backward pass needs and that no other operator is counted for."""
    return sum(tensors[name].bytes for name in operator.keeps)
