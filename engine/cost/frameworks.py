"""What only a training framework decides about memory, by the framework that a proposal names.

Megatron-LM pads the vocabulary to a multiple of 128 x tensor (arguments.py, --make-vocab-size-divisible-by, default 128) and
keeps fp32 copies of fp16 gradients in the optimizer's step alone; its vocabulary-parallel loss works in place. torchtitan
calls torch's cross entropy on fp32 logits (components/loss.py). Megatron-DeepSpeed and GPT-NeoX have Megatron-LM's padding
and loss (megatron/arguments.py and megatron/neox_arguments, make_vocab_size_divisible_by 128; mpu/cross_entropy.py) and leave
gradients to DeepSpeed's optimizers, whose copies depend on dtype and stage: that stays open. What stands on one of them has
its conventions; a framework that does not, or none, leaves all of it open: the vocabulary is padded only so that it divides,
the larger loss is taken, and the interval spans the known recipes.
"""

from __future__ import annotations

from ..plan.frameworks import nearest
from .activations import Loss
from .memory_terms import BARE, GradientCopy, Implementation

#: Megatron-core, and what is built on it.
MEGATRON = Implementation(128, GradientCopy.STEP, loss=Loss.IN_PLACE)
#: Megatron's model code under DeepSpeed's engine.
_UNDER_DEEPSPEED = Implementation(128, loss=Loss.IN_PLACE)
_BY_NAME = {
    "megatron-core": MEGATRON,
    "megatron-deepspeed": _UNDER_DEEPSPEED,
    "gpt-neox": _UNDER_DEEPSPEED,
    "torchtitan": Implementation(loss=Loss.SEPARATE),
}


def implementation_of(framework: str | None) -> Implementation:
    """The memory conventions of `framework`, by any of its names; those of none where it is not known."""
    return nearest(framework, _BY_NAME) or BARE
