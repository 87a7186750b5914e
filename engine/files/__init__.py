"""Which files are meant: proposals below folders, what ignore files leave out, what a git checkout has changed."""

from .changes import Changes, changes_since
from .discovery import Discovery, Found, checkout_root, discover
from .ignoring import IgnoreRules, Ignoring
from .sniff import looks_like_a_proposal

__all__ = [
    "Changes",
    "Discovery",
    "Found",
    "IgnoreRules",
    "Ignoring",
    "changes_since",
    "checkout_root",
    "discover",
    "looks_like_a_proposal",
]
