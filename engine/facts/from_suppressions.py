"""Facts about suppressions: what their comments are worth, for the rules that speak of it. Knows no comment's form."""

from __future__ import annotations

from datetime import date

from .fact import Fact
from .kinds import fact


def suppression_fact(
    pointer: str, *, line: int, rule: str, state: str, owner: str, until: date | None, near: str | None = None
) -> Fact:
    """One suppression: `line` is the comment's, `pointer` a value in the line that it speaks of."""
    return fact(
        "suppression",
        pointer,
        rule=rule,
        state=state,
        line=line,
        owner=owner,
        until=until.isoformat() if until is not None else None,
        near=near,
    )
