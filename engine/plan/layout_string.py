"""Megatron's pipeline layout strings: `Et*3|(tt|)*29,m|L` says what each virtual stage holds, token by token.

`E` is the embedding, `t` a decoder layer, `m` a multi-token-prediction layer, `L` the loss, `|` ends a virtual stage;
`x*n` and `(...)*n` repeat, commas and blanks only separate. Form and checks: Megatron-LM d98e8a64dd,
megatron/core/transformer/pipeline_parallel_layer_layout.py. Virtual stages are dealt to the ranks in rounds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TOKENS = "EtmL"
#: A layout with more virtual stages or layers than this is none.
MOST_TOKENS = 100_000
_REPEAT = re.compile(r"(\(([^()]*)\)|[EtmL|])\*([0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class LayoutString:
    """The virtual stages of a layout, each as its tokens in order."""

    stages: tuple[str, ...]

    @property
    def tokens(self) -> str:
        """All tokens in order."""
        return "".join(self.stages)

    def count(self, token: str) -> int:
        """How often a token occurs."""
        return self.tokens.count(token)


def read_layout(text: str) -> LayoutString | None:
    """The stages of a layout string; None where it holds anything else than tokens, repeats and separators."""
    flat = re.sub(r"[\s,]+", "", text)
    while (found := _REPEAT.search(flat)) is not None:
        body, times = found[2] if found[2] is not None else found[1], int(found[3])
        if len(flat) + len(body) * times > MOST_TOKENS:
            return None
        flat = flat[: found.start()] + body * times + flat[found.end() :]
    stages = tuple(flat.split("|"))
    if not flat or set(flat) - set(TOKENS + "|"):
        return None
    return LayoutString(stages)
