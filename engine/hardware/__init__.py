"""Data sheets of devices and nodes, and calibrations of software families: every value with its grade, source and date."""

from .library import Library, device_names, folder_name, load_device, load_node, node_names, open_library
from .sheets import (
    DTYPES,
    Calibration,
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
    "Calibration",
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
    "folder_name",
    "load_device",
    "load_node",
    "node_names",
    "open_library",
]
