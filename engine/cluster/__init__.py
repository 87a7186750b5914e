"""The cluster: which devices and links there are, and which of them a group of devices uses."""

from .cluster import Cluster, Collective, Nodes, Reach, Tier, reach, strides

__all__ = ["Cluster", "Collective", "Nodes", "Reach", "Tier", "reach", "strides"]
