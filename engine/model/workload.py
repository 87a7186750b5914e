"""What is trained how: sequence length, global batch, precision by role, optimizer, kernels.

These are choices of the proposer and part of the training semantics: a plan may not change them. Nothing here knows a
plan.
"""

from __future__ import annotations

from enum import StrEnum

from ..frozen import dataclass


class Attention(StrEnum):
    """The attention kernel: fused and never materialising the scores, or unfused."""

    FLASH = "flash"
    UNFUSED = "unfused"


class Dispatcher(StrEnum):
    """How tokens reach their experts and come back.

    `ALLTOALL`: every copy of a token goes to its expert's device. `ALLGATHER`: every device gets all tokens of the expert group,
    and the outputs are reduced and scattered. `DEEPEP`: a token goes once to each node that has an expert for it, and from
    there on over the links inside (DeepEP, HybridEP).
    """

    ALLTOALL = "alltoall"
    ALLGATHER = "allgather"
    DEEPEP = "deepep"


#: Bytes of one element by dtype name; fp8 training keeps its high-precision copies under other roles.
DTYPE_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1}


@dataclass(frozen=True, slots=True)
class Precision:
    """Dtype by role. `master` is None where there is no separate high-precision copy of the parameters."""

    parameters: str
    gradients: str
    master: str | None
    moments: str
    communication: str | None = None
    #: Of the linear layers' products where it is narrower than the parameters, as in fp8 training; None: theirs.
    products: str | None = None

    @property
    def compute(self) -> str:
        """The dtype of the matrix multiplications: `products`, or that of the parameters."""
        return self.products or self.parameters

    @property
    def mixed(self) -> bool:
        """Whether a separate high-precision copy of the parameters is kept."""
        return self.master is not None


@dataclass(frozen=True, slots=True)
class Optimizer:
    """An optimizer and the number of moments it keeps a parameter: 2 for Adam, 1 for SGD with momentum, 0 for SGD."""

    name: str
    moments: int
    fused: bool = False


#: Optimizers whose states are known, by name as written in proposals.
OPTIMIZER_MOMENTS = {"adam": 2, "adamw": 2, "lamb": 2, "lion": 1, "sgd_momentum": 1, "muon": 1, "sgd": 0}


@dataclass(frozen=True, slots=True)
class Workload:
    """One training step's demands. `global_batch` is in sequences of `sequence_length` tokens."""

    sequence_length: int
    global_batch: int
    precision: Precision
    optimizer: Optimizer
    #: None: not stated; memory is then predicted both ways and the larger decides.
    attention: Attention | None
    causal: bool = True
    dropout: float = 0.0
    #: Sequences differ in length or shape from step to step.
    dynamic_shapes: bool = False
    #: None: not stated; priced as an all-to-all. `dispatch_overlap`: the exchange of one microbatch runs beside the
    #: computation of another, None: not stated.
    dispatcher: Dispatcher | None = None
    dispatch_overlap: bool | None = None

    @property
    def tokens_per_step(self) -> int:
        """Tokens of one step, all data-parallel replicas together."""
        return self.sequence_length * self.global_batch
