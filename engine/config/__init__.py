"""Configuration: what a repository lays down for its reviews. It is found, read and applied here, and shown."""

from .changes import Change, exempted, groups, in_force
from .finding import load_settings, nearest_settings, settings_from_revision
from .settings import ISOLATED, Settings

__all__ = [
    "ISOLATED",
    "Change",
    "Settings",
    "exempted",
    "groups",
    "in_force",
    "load_settings",
    "nearest_settings",
    "settings_from_revision",
]
