"""The kinds of fact that rules can ask for: names, fields, and what each says. `docs/facts.md` is generated from here.

A field ends in its unit (`_bytes`, `_ns`, `_ppm`, `_bytes_per_s`, `_tokens` ...); `plan` is a plan's name wherever it occurs;
`path` (in every fact) is a JSON pointer into the proposal. Grades are texts with, beside each, a `*_rank` from 0 (measured) to
4 (assumed) so that rules can compare them. Nothing here computes: see the modules beside this one.
"""

from __future__ import annotations

from .fact import Fact, declare, make
from .kinds_of_case import OF_CASE
from .kinds_of_claims import OF_CLAIMS
from .kinds_of_operators import OF_OPERATORS
from .kinds_of_plan import OF_PLAN
from .kinds_of_result import OF_RESULT
from .kinds_of_settings import OF_SETTINGS
from .words import CAPABILITIES, NEEDS

KINDS = declare(*OF_CASE, *OF_CLAIMS, *OF_SETTINGS, *OF_PLAN, *OF_OPERATORS, *OF_RESULT)


def fact(kind: str, path: str, /, **values: int | str | bool | None) -> Fact:
    """A fact of one of planproof's kinds."""
    return make(KINDS, kind, path, **values)


__all__ = ["CAPABILITIES", "KINDS", "NEEDS", "fact"]
