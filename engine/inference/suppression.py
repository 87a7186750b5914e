"""Suppressions: a named person's decision, with a reason and an end, that one finding does not stop the plan.

Where they are written (a comment in the proposal, a configuration) and how their dates are read belongs elsewhere. A
suppressed finding is still printed, and an error that is suppressed leaves the verdict conditional at best.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import date

from ..frozen import dataclass


@dataclass(frozen=True, slots=True)
class Suppression:
    """`rule` is silenced until the end of `until` (None: for ever) at `path`, at `line`, or, with neither, everywhere.

    `path` is a JSON pointer and covers what stands below it. One with a line is written in the proposal itself.
    """

    rule: str
    reason: str
    owner: str
    until: date | None = None
    path: str | None = None
    line: int | None = None

    def expired(self, today: date) -> bool:
        """Whether its time is over on `today`."""
        return self.until is not None and today > self.until

    def covers(self, rule: str, path: str, lines: Collection[int] = ()) -> bool:
        """Whether it speaks of a finding of `rule` at the pointer `path`, which begins in one of `lines` of the file."""
        if rule != self.rule:
            return False
        if self.path is not None:
            return path == self.path or path.startswith(self.path.rstrip("/") + "/")
        return self.line is None or self.line in lines


def covering(
    suppressions: Iterable[Suppression], rule: str, path: str, lines: Collection[int] = (), *, today: date | None = None
) -> Suppression | None:
    """The first suppression in force (on `today`, where given) that covers the finding."""
    return next(
        (
            one
            for one in suppressions
            if one.covers(rule, path, lines) and not (today is not None and one.expired(today))
        ),
        None,
    )
