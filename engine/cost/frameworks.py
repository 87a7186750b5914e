"""What only a training framework decides about memory, by the framework that a proposal names.

Megatron-LM pads the vocabulary to a multiple of 128 x tensor (arguments.py, --make-vocab-size-divisible-by, default 128) and
keeps fp32 copies of fp16 gradients in the optimizer's step alone; its vocabulary-parallel loss works in place. torchtitan
calls torch's cross entropy on fp32 logits (components/loss.py). A framework that is not listed, or none, leaves all of it
open: the vocabulary is padded only so that it divides, the larger loss is taken, and the interval spans the known recipes.
"""

from __future__ import annotations

from .activations import Loss
from .memory_terms import BARE, GradientCopy, Implementation

#: Megatron-core, and what is built on it.
MEGATRON = Implementation(128, GradientCopy.STEP, loss=Loss.IN_PLACE)
_BY_NAME = {
    "megatron-lm": MEGATRON,
    "megatron": MEGATRON,
    "megatron-core": MEGATRON,
    "nemo": MEGATRON,
    "torchtitan": Implementation(loss=Loss.SEPARATE),
}


def implementation_of(framework: str | None) -> Implementation:
    """The memory conventions of `framework`, by its name in any case; those of none where it is not known."""
    return _BY_NAME.get((framework or "").lower(), BARE)
