"""How large a document may be. Far above any honest proposal, low enough that a hostile one ends at once."""

from __future__ import annotations

from typing import Final

MAX_BYTES: Final = 1024 * 1024
MAX_DEPTH: Final = 40
# Counted after aliases are expanded: values, not keys.
MAX_NODES: Final = 100_000
# Characters of all values and keys after aliases are expanded: what a report that repeats the document would print.
MAX_CHARACTERS: Final = 4 * 1024 * 1024
MAX_SCALAR_BYTES: Final = 64 * 1024
MAX_INTEGER_DIGITS: Final = 40
MAX_NUMBER_CHARACTERS: Final = 64
