"""Which calibrated software family a framework belongs to, and a cluster under it.

A family is known by name in the calibrations of data sheets (`DEVICE.SOFTWARE.yaml`). A framework that is not listed, or a device
without a calibration for it, leaves the data sheet's own values in force.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from ..cluster.cluster import Cluster
from ..hardware import Calibration, DeviceSheet
from ..plan.frameworks import framework_called, nearest

#: Framework, or one that others stand on -> families, the nearest first.
_FAMILIES = {
    "megatron-lm": ("megatron-lm", "megatron-core"),
    "megatron-core": ("megatron-core", "megatron-lm"),
    "primus": ("megatron-core", "megatron-lm"),
    "megatron-deepspeed": ("megatron-deepspeed",),
    "gpt-neox": ("megatron-deepspeed",),
    "fsdp": ("fsdp",),
    "accelerate": ("fsdp",),
}


def families(framework: str | None, version: str | None = None) -> tuple[str, ...]:
    """The families whose measured runs speak for `framework`, the nearest first; none where it is not known.

    Megatron-LM before its version 3 (2022) had other kernels; versions `core_...` are Megatron-Core's.
    """
    known, release = framework_called(framework) if framework else None, (version or "").lower()
    if known is not None and known.name == "megatron-lm":
        if release.startswith("core"):
            return _FAMILIES["megatron-core"]
        if (found := re.match(r"v?(\d+)", release)) and int(found[1]) < 3:
            return ("megatron-lm-2021",)
    return nearest(framework, _FAMILIES) or ()


Find = Callable[[DeviceSheet, str], Calibration | None]


def calibrated(cluster: Cluster, find: Find, *software: str, carry: Find | None = None) -> Cluster:
    """The cluster with each device under the first of the families `software` that `find` knows a calibration of.

    A device without one is taken as `carry` has it from another device, where that is given.
    """
    groups = []
    for group in cluster.nodes:
        known = next((one for name in software if (one := find(group.device, name)) is not None), None)
        if carry is not None and (known is None or not known.times):
            known = next((one for name in software if (one := carry(group.device, name)) is not None), known)
        if known is not None:
            group = replace(group, sheet=replace(group.sheet, device=group.device.under(known)))
        groups.append(group)
    return replace(cluster, nodes=tuple(groups))
