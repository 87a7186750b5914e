"""Which files are meant: proposals below folders and what ignore files leave out (`discovery`), what changed (`changes`).

`changes` is imported where it is asked for: it brings what starts processes, which a command that names a file does not need.
"""

from .discovery import Discovery, Found, checkout_root, discover
from .ignoring import IgnoreRules, Ignoring
from .sniff import looks_like_a_proposal

__all__ = [
    "Discovery",
    "Found",
    "IgnoreRules",
    "Ignoring",
    "checkout_root",
    "discover",
    "looks_like_a_proposal",
]
