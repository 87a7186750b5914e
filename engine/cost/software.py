"""Which calibrated software family a framework belongs to, and a cluster under it.

A family is known by name in the calibrations of data sheets (`DEVICE.SOFTWARE.yaml`). A framework that is not listed, or a device
without a calibration for it, leaves the data sheet's own values in force.
"""

from __future__ import annotations

from dataclasses import replace

from ..cluster.cluster import Cluster

#: Framework, in any case -> families, the nearest first.
_FAMILIES = {
    "megatron-lm": ("megatron-lm", "megatron-core"),
    "megatron": ("megatron-lm", "megatron-core"),
    "megatron-core": ("megatron-core", "megatron-lm"),
    "nemo": ("megatron-core", "megatron-lm"),
    "megatron-deepspeed": ("megatron-deepspeed",),
    "deepspeed": ("megatron-deepspeed",),
    "fsdp": ("fsdp",),
    "llm-foundry": ("fsdp",),
    "composer": ("fsdp",),
    "accelerate": ("fsdp",),
    "torchtitan": ("fsdp",),
}


def families(framework: str | None) -> tuple[str, ...]:
    """The families whose measured runs speak for `framework`, the nearest first; none where it is not known."""
    return _FAMILIES.get((framework or "").lower(), ())


def calibrated(cluster: Cluster, *software: str) -> Cluster:
    """The cluster with each device under the first of the families `software` that its data sheet is calibrated for."""
    groups = []
    for group in cluster.nodes:
        device = group.sheet.device
        for name in software:
            under = device.under(name)
            if under is not device:
                device = under
                break
        groups.append(group if device is group.sheet.device else replace(group, sheet=replace(group.sheet, device=device)))
    return replace(cluster, nodes=tuple(groups))
