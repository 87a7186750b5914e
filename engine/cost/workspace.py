"""Scratch that libraries keep inside the allocator from the first step on, by device and by what the run declares.

Where nothing is declared the device's data sheet says what was left after a counted ledger. Where it is, the scratch is
counted: PyTorch keeps one cuBLAS workspace for the forward and one for the autograd thread (8,519,680 bytes, 32 MiB on
Hopper and Blackwell, or what CUBLAS_WORKSPACE_CONFIG=:4096:8 asks for, 32 MiB; aten/src/ATen/cuda/CublasHandlePool.cpp),
Transformer Engine one of its own (4 MiB, 32 MiB from Hopper on) and four more for grouped products of experts
(transformer_engine/pytorch/module/base.py). Small tensors are a fitted constant. Bytes only.
"""

from __future__ import annotations

from typing import NamedTuple

from ..hardware import DeviceSheet
from .memory_terms import Implementation

_MIB = 2**20
_DEFAULT, _LARGE, _SMALL = 8_519_680, 32 * _MIB, 4 * _MIB
_LARGE_BY_DEFAULT = ("hopper", "blackwell")
_TORCH_HANDLES, _GROUPED_STREAMS = 2, 4
#: What is left of the golden values of Megatron-LM's functional tests after all that is counted, 10-90 %.
_REST, _REST_LOW, _REST_HIGH = 10 * _MIB, 2 * _MIB, 18 * _MIB
#: From the 10-90 % range that data sheets state to a 90 % interval of a normal spread.
TO_90 = 1.645 / 1.2816


class Workspace(NamedTuple):
    """Bytes, and from there to the ends of the 90 % interval."""

    value: int
    below: float
    above: float


def workspace(sheet: DeviceSheet, implementation: Implementation) -> Workspace:
    """The scratch of a rank on `sheet`: counted where the run declares its cuBLAS workspace, the sheet's otherwise."""
    if implementation.deterministic is None:
        stated = sheet.workspace
        return Workspace(
            int(stated.value), TO_90 * (stated.value - stated.low), TO_90 * (stated.high - stated.value)
        )
    counted = _TORCH_HANDLES * (_LARGE if implementation.deterministic or sheet.architecture in _LARGE_BY_DEFAULT else _DEFAULT)
    # Images before PyTorch gave Blackwell the large one have the default: a spread that is not declared.
    less = _TORCH_HANDLES * (_LARGE - _DEFAULT) if sheet.architecture == "blackwell" and not implementation.deterministic else 0
    if implementation.transformer_engine:
        own = _LARGE if sheet.architecture in ("hopper", "blackwell") else _SMALL
        counted += own * (1 + (_GROUPED_STREAMS if implementation.grouped_experts else 0))
    return Workspace(counted + _REST, less + TO_90 * (_REST - _REST_LOW), TO_90 * (_REST_HIGH - _REST))
