"""The words that facts share: capabilities and what each is built on, grades, roles, axes, schedules."""

from __future__ import annotations

CAPABILITIES = ("shapes", "batch", "topology", "communication", "memory", "time", "search", "ranking")
#: What each capability is built on: closing one closes those that need it.
NEEDS: dict[str, tuple[str, ...]] = {
    "shapes": (),
    "batch": (),
    "topology": (),
    "communication": ("topology",),
    "memory": ("shapes", "batch"),
    "time": ("shapes", "batch", "communication"),
    "search": ("memory", "time"),
    "ranking": ("search",),
}
GRADES = ("measured", "published", "vendor", "estimated", "assumed")
ROLES = ("reference", "submitted", "candidate")
PRECISION_ROLES = ("parameters", "gradients", "master", "moments", "communication", "compute")
DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8", "none")
AXES = ("data", "tensor", "pipeline", "context", "expert")
SCHEDULES = ("gpipe", "1f1b", "interleaved_1f1b", "zb_h1")
RECOMPUTES = ("none", "selective", "full")
