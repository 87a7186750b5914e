"""What only a training framework decides about memory and about messages between stages, by the framework that a proposal names.

Megatron-LM pads the vocabulary to a multiple of 128 x tensor (arguments.py, --make-vocab-size-divisible-by, default 128) and
keeps fp32 copies of fp16 gradients in the optimizer's step alone; its vocabulary-parallel loss works in place. torchtitan
calls torch's cross entropy on fp32 logits (components/loss.py) and recomputes selectively by operators
(distributed/activation_checkpoint.py). Megatron-DeepSpeed and GPT-NeoX have Megatron-LM's padding
and loss (megatron/arguments.py and megatron/neox_arguments, make_vocab_size_divisible_by 128; mpu/cross_entropy.py) and leave
gradients to DeepSpeed's optimizers, whose copies depend on dtype and stage: that stays open. What stands on one of them has
its conventions; a framework that does not, or none, leaves all of it open: the vocabulary is padded only so that it divides,
the larger loss is taken, and the interval spans the known recipes.

Between stages every framework can send directly, and that is what is priced unless a framework does better by itself: Megatron-LM
2 and 3 scatter and gather (--no-scatter-gather-tensors-in-pipeline turns it off), Megatron-Core's p2p_communication.py sends
whole tensors, or sequence-parallel parts; DeepSpeed's PipelineEngine sends partitions and gathers them (`pipe_partitioned` and
`grad_partitioned`, true by default); Alpa gathers locally (`use_local_allgather`, true by default).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ..plan.frameworks import framework_called, nearest
from .activations import Loss, Selective
from .memory_terms import BARE, GradientCopy, Implementation, Offloaded
from .sending import Transfer

#: Megatron-core, and what is built on it.
MEGATRON = Implementation(128, GradientCopy.STEP, loss=Loss.IN_PLACE)
#: Megatron's model code under DeepSpeed's engine.
_UNDER_DEEPSPEED = Implementation(128, loss=Loss.IN_PLACE, transfer=Transfer.SCATTER_GATHER)
_SCATTERS = Implementation(transfer=Transfer.SCATTER_GATHER)
_BY_NAME = {
    "megatron-core": MEGATRON,
    "megatron-deepspeed": _UNDER_DEEPSPEED,
    "gpt-neox": _UNDER_DEEPSPEED,
    "torchtitan": Implementation(loss=Loss.SEPARATE, selective=Selective.OPERATORS),
    **dict.fromkeys(("deepspeed", "alpa"), _SCATTERS),
}
#: What torchtitan's selective recomputation goes by: 'op', or the distance of whole layers, reckoned by the attention core.
_WHOLE_LAYERS = ("activation_checkpoint.selective_ac_option", "activation_checkpoint.selective_ac_type", "selective_ac_option")
#: Options that turn scattering off, and the value that does.
_OFF = {
    "scatter_gather_tensors_in_pipeline": False,
    "no_scatter_gather_tensors_in_pipeline": True,
    "pipeline.pipe_partitioned": False,
    "pipe_partitioned": False,
    "use_local_allgather": False,
}


#: Options that keep something off the device, by the last part of their name (of two parts where one is no name), the values
#: that do, and what leaves: DeepSpeed, Megatron-Core, torchtitan, accelerate's FSDP, llm-foundry, axolotl.
_ON: Final = (True, "true", "yes", 1)
_AWAY: Final = ("cpu", "nvme")
_STATES: Final[tuple[Offloaded, ...]] = ("parameters", "gradients", "optimizer")
_OFFLOADED: Final[Mapping[str, tuple[tuple[object, ...], tuple[Offloaded, ...]]]] = {
    "offload_optimizer.device": (_AWAY, ("gradients", "optimizer")),
    "offload_optimizer_device": (_AWAY, ("gradients", "optimizer")),
    "zero_optimization.cpu_offload": (_ON, ("gradients", "optimizer")),
    "optimizer_cpu_offload": (_ON, ("optimizer",)),
    "offload_param.device": (_AWAY, ("parameters",)),
    "offload_param_device": (_AWAY, ("parameters",)),
    "enable_cpu_offload": (_ON, _STATES),
    "fsdp_offload_params": (_ON, _STATES),
    "offload_params": (_ON, _STATES),
    "cpu_offloading": (_ON, ("activations",)),
    "fine_grained_activation_offloading": (_ON, ("activations",)),
    "activation_cpu_offload": (_ON, ("activations",)),
    "activation_offloading": (_ON, ("activations",)),
}


def _offloaded(settings: Mapping[str, object]) -> frozenset[Offloaded]:
    """What the settings keep off the device."""
    found: set[Offloaded] = set()
    for name, value in settings.items():
        parts = name.split(".")
        said = value.strip().lower() if isinstance(value, str) else value
        for key in (parts[-1], ".".join(parts[-2:])):
            values, what = _OFFLOADED.get(key, ((), ()))
            if said in values:
                found.update(what)
    return frozenset(found)


def implementation_of(
    framework: str | None, version: str | None = None, settings: Mapping[str, object] | None = None
) -> Implementation:
    """The conventions of `framework`, by any of its names; those of none where it is not known.

    `version` and `settings` as the proposal states them: Megatron-LM before Megatron-Core scatters, and an option turns it off.
    """
    known = nearest(framework, _BY_NAME) or _BY_NAME.get((framework or "").lower(), BARE)
    called = framework_called(framework or "")
    if called is not None and called.name == "megatron-lm" and re.fullmatch(r"v?[23](\.\d+)*", (version or "").strip()):
        known = replace(known, transfer=Transfer.SCATTER_GATHER)
    if any((settings or {}).get(option) is value for option, value in _OFF.items()):
        known = replace(known, transfer=Transfer.DIRECT)
    if any((settings or {}).get(option, "op") != "op" for option in _WHOLE_LAYERS):
        known = replace(known, selective=Selective.CORE)
    return replace(known, offloaded=_offloaded(settings or {}))
