"""The exceptions of planproof, and nothing else.

    PlanproofError               anything that stops a command; exit status 2 unless said otherwise
    ├── UsageError               the command line, or a configuration, is wrong
    ├── InputError               bytes that are no proposal, an unknown key, a wrong type or unit
    │   └── FileReferenceError      a file that a proposal names is missing, foreign or outside the repository
    ├── RuleError                a rule file, or an example in it, is wrong
    ├── DataError                a data sheet, a profile or a measured table is wrong
    └── InternalFault            the two evaluators disagree, the engine died, a promise of ours is broken

Each carries a `code` (stable, for machines), a message, the place (file, JSON pointer, line, column, all optional) and a
remedy. What is absent or contradictory *inside* a readable proposal is never an exception: it is a finding.
"""

from __future__ import annotations

from .frozen import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a file something stands. `line` and `column` count from 1; `pointer` is an RFC 6901 JSON pointer."""

    file: str | None = None
    line: int | None = None
    column: int | None = None
    pointer: str | None = None

    def __str__(self) -> str:
        parts = [self.file or "<input>"]
        if self.line is not None:
            parts.append(str(self.line))
            if self.column is not None:
                parts.append(str(self.column))
        return ":".join(parts)


class PlanproofError(Exception):
    """The root: whatever a user can be told in one message. `exit_status` is what the command ends with."""

    code = "error"
    exit_status = 2

    def __init__(
        self,
        message: str,
        *,
        place: Place | None = None,
        remedy: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.place = place or Place()
        self.remedy = remedy
        if code is not None:
            self.code = code

    def at(self, place: Place) -> PlanproofError:
        """The same error with a place, kept if it already has one. Returns itself, for `raise error.at(place)`."""
        if self.place == Place():
            self.place = place
        return self

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place != Place() else ""
        remedy = f"\n  {self.remedy}" if self.remedy else ""
        return f"{where}{self.message}{remedy}"


class UsageError(PlanproofError):
    """The command line or a configuration cannot be obeyed."""

    code = "usage"


class InputError(PlanproofError):
    """The input is not a proposal that can be judged: its bytes, a key, a type, a unit or a range."""

    code = "input"


class FileReferenceError(InputError):
    """A referenced file is missing, is not a regular file, is too large, or lies outside the repository."""

    code = "reference"


class RuleError(PlanproofError):
    """A rule file does not load, or one of its examples does not hold."""

    code = "rule"


class DataError(PlanproofError):
    """A data sheet, a profile or a table of measurements does not read."""

    code = "data"


class InternalFault(PlanproofError):
    """A promise of planproof itself is broken. Never a verdict."""

    code = "internal"
