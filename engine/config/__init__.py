"""Configuration: what a repository lays down for its reviews. It is found, read and applied here, and shown.

Its parts are imported when they are asked for: most proposals have no configuration, and pay for none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .settings import ISOLATED, Settings

if TYPE_CHECKING:
    from .changes import Change, exempted, groups, in_force
    from .finding import file_from_revision, load_settings, nearest_settings, seen_from_here, settings_from_revision

__all__ = [
    "ISOLATED",
    "Change",
    "Settings",
    "exempted",
    "file_from_revision",
    "groups",
    "in_force",
    "load_settings",
    "nearest_settings",
    "seen_from_here",
    "settings_from_revision",
]


def __getattr__(name: str) -> object:
    """The rest on demand."""
    if name in ("Change", "exempted", "groups", "in_force"):
        return getattr(import_module(".changes", __name__), name)
    if name in ("file_from_revision", "load_settings", "nearest_settings", "seen_from_here", "settings_from_revision"):
        return getattr(import_module(".finding", __name__), name)
    raise AttributeError(name)
