"""Data sheets of devices and nodes, shipped and a user's own: every value with its grade, source and date."""

from .library import Library, device_names, load_device, load_node, node_names, open_library
from .sheets import (
    DTYPES,
    CollectiveCurve,
    DeviceSheet,
    Efficiency,
    HalfDims,
    LinkKind,
    LinkTopology,
    Nics,
    NodeLink,
    NodeSheet,
    Origin,
    Ranged,
    Ring,
)

__all__ = [
    "DTYPES",
    "CollectiveCurve",
    "DeviceSheet",
    "Efficiency",
    "HalfDims",
    "Library",
    "LinkKind",
    "LinkTopology",
    "Nics",
    "NodeLink",
    "NodeSheet",
    "Origin",
    "Ranged",
    "Ring",
    "device_names",
    "load_device",
    "load_node",
    "node_names",
    "open_library",
]
