"""Suppressions: a named person's decision, with a reason and an end, that one finding does not stop the plan.

Where they are written (a comment in the proposal, a configuration) and how their dates are read belongs elsewhere. A
suppressed finding is still printed, and an error that is suppressed leaves the verdict conditional at best.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True, slots=True)
class Suppression:
    """`rule` is silenced until the end of `until` (None: for ever) at `path`, at `line`, or, with neither, everywhere.

    `path` is a JSON pointer and covers what stands below it.
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

    def covers(self, rule: str, path: str, line: int | None = None) -> bool:
        """Whether it speaks of a finding of `rule` at the pointer `path`, in `line` of the file where known."""
        if rule != self.rule:
            return False
        if self.path is not None:
            return path == self.path or path.startswith(self.path.rstrip("/") + "/")
        return self.line is None or self.line == line


def covering(
    suppressions: Iterable[Suppression], rule: str, path: str, line: int | None = None, *, today: date | None = None
) -> Suppression | None:
    """The first suppression in force (on `today`, where given) that covers the finding."""
    return next(
        (
            one
            for one in suppressions
            if one.covers(rule, path, line) and not (today is not None and one.expired(today))
        ),
        None,
    )
