"""Whether a file is a proposal, from its name and its first bytes. It is not parsed: that it reads is for others to say."""

from __future__ import annotations

import os
import re
import stat
from typing import Final

ENDINGS: Final = (".yaml", ".yml", ".json")
#: Bytes that are looked at; the first key stands in them.
HEAD: Final = 4096
#: The key `planproof`, bare or quoted, at the start of a line or of a mapping in braces, before any other key.
_FIRST_KEY: Final = re.compile(
    rb"""\A(?:\xef\xbb\xbf)?
    (?:[ \t]*(?:\#[^\r\n]*|%[^\r\n]*|---[ \t]*(?:\#[^\r\n]*)?)?(?:\r\n|\r|\n))*  # blank lines, comments, directives
    [ \t]*(?:---[ \t]+)?(?:\{\s*)?
    (?:planproof|"planproof"|'planproof')[ \t\r\n]*:""",
    re.VERBOSE,
)


def looks_like_a_proposal(path: str | os.PathLike[str]) -> bool:
    """Whether the name has one of the ENDINGS, and the first key is `planproof`. Raises OSError where it cannot be read.

    Nothing but a regular file is opened.
    """
    if not os.fspath(path).lower().endswith(ENDINGS):
        return False
    if not stat.S_ISREG(os.stat(path).st_mode):
        return False
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
    try:
        return begins_as_a_proposal(os.read(descriptor, HEAD))
    finally:
        os.close(descriptor)


def begins_as_a_proposal(head: bytes) -> bool:
    """Whether the first key in these bytes is `planproof`."""
    return _FIRST_KEY.match(head[:HEAD]) is not None
