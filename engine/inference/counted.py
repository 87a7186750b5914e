"""A count of one and the words behind it: `1 stages are left` is `1 stage is left`.

Texts of rules are written for many; where a number turns out to be 1, the noun that follows it, with at most two words that
describe it, and the verb that follows either are put in the singular. Knows words, no rules and no facts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_IRREGULAR: Final = {
    "entries": "entry", "copies": "copy", "batches": "batch", "microbatches": "microbatch", "processes": "process",
    "losses": "loss", "boundaries": "boundary", "axes": "axis",
}  # fmt: skip
#: Nouns that rules count, in the plural.
_NOUNS: Final = (
    "cards|chunks|columns|days|devices|embeddings|entries|experts|files|groups|heads|images|islands|keys|kinds|layers|links|losses"
    "|microbatches|nodes|operators|pairs|parameters|parts|pieces|plans|positions|processes|ranks|replicas|rows|rules|segments|sequences"
    "|stages|steps|things|tokens|types|fabrics|copies|boundaries|axes"
)
_VERBS: Final = {"are": "is", "were": "was", "have": "has", "stay": "stays", "do": "does", "fill": "fills", "fit": "fits",
                 "hold": "holds", "remain": "remains", "share": "shares", "differ": "differs", "find": "finds"}  # fmt: skip
_VERB: Final = "|".join(_VERBS)
_AHEAD: Final = re.compile(
    r"(?P<lead> (?:(?!of |and |or |to |in |on |at |from )[a-z][a-z/-]* ){0,2}?)"
    rf"(?P<noun>{_NOUNS})\b(?: (?P<verb>{_VERB})\b)?| (?P<alone>{_VERB})\b"
)
#: One of a unit, as a value is shown.
_UNIT: Final = re.compile(r"^1 (?:sequences|tokens|steps|device-hours)$")


def in_singular(text: str) -> str:
    """The text that follows a count of one, its first noun and verb in the singular; as it is where neither follows."""
    found = _AHEAD.match(text)
    if found is None:
        return text
    if found["alone"] is not None:
        return f" {_VERBS[found['alone']]}{text[found.end():]}"
    noun = found["noun"]
    verb = f" {_VERBS[found['verb']]}" if found["verb"] is not None else ""
    return f"{found['lead']}{_IRREGULAR.get(noun, noun.removesuffix('s'))}{verb}{text[found.end():]}"


def joined(parts: Sequence[tuple[str, bool]]) -> str:
    """Parts as one text, each a literal or a value (true): what stands behind a value of 1, or in one, is in the singular."""
    text, one = "", False
    for part, is_value in parts:
        shown = _UNIT.sub(lambda found: found[0][:-1], part) if is_value else in_singular(part) if one else part
        text, one = text + shown, is_value and part == "1"
    return text
