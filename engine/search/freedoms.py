"""What a training framework lets a plan vary, as data for the declared space: orders of axes, meshes and recompute by stage.

A framework that is not listed, or none, forbids nothing. Sources are the frameworks' own options. Knows no cluster, no price.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..frozen import dataclass
from ..plan import DEFAULT_ORDER
from ..plan.frameworks import nearest

Orders = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Freedom:
    """`orders` None: every order. `unequal_meshes`: stages may differ in their mesh. `why` says who forbids what is not free."""

    orders: Orders | None = None
    unequal_meshes: bool = True
    recompute_by_stage: bool = True
    expert_tensor: bool = True
    why: str = ""


FREE = Freedom()

_MEGATRON = Freedom(
    (DEFAULT_ORDER, ("tensor", "context", "pipeline", "data")),
    unequal_meshes=False,
    recompute_by_stage=False,
    why="Megatron-LM gives all stages one mesh and one recomputation (initialize_model_parallel takes single degrees), "
    "and lays axes out as tp-cp-dp-pp or, with --use-tp-pp-dp-mapping, tp-cp-pp-dp",
)
_ONE_ORDER = {
    "torchtitan": "torchtitan builds one device mesh (pp, dp, cp, tp) for all stages, one activation checkpointing mode",
    "deepspeed": "DeepSpeed's PipeModelDataParallelTopology has the axes pipe, data, model, alike on all stages",
    "nanotron": "nanotron's ParallelContext has one mesh (ep, pp, dp, cp, tp) for all stages",
}
_BY_NAME: Mapping[str, Freedom] = {
    "megatron-core": _MEGATRON,
    **{
        name: Freedom((DEFAULT_ORDER,), unequal_meshes=False, recompute_by_stage=False, expert_tensor=False, why=why)
        for name, why in _ONE_ORDER.items()
    },
}


def freedom_of(framework: str | None) -> Freedom:
    """What `framework` lets vary, by any of its names, or by what it stands on."""
    return nearest(framework, _BY_NAME) or FREE
