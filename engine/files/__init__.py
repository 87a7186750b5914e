"""Which files are meant: proposals below folders (`discovery`), what ignore files leave out (`ignoring`), what `changes` in git.

The latter two are imported where they are asked for: a command that names a file needs neither.
"""

from .discovery import Discovery, Found, checkout_root, discover
from .sniff import looks_like_a_proposal

__all__ = [
    "Discovery",
    "Found",
    "checkout_root",
    "discover",
    "looks_like_a_proposal",
]
