"""What a launch file says, in one form for every format: parts of a proposal, and what became of each key of the file.

Vocabulary: a *part* is one value of a proposal with the place in the launch file that states it, or, where the file is silent,
with the framework's own default (`assumed`: its name, version and source); a *gap* is a value of a proposal that the file
leaves open, with the reason; a key of the file is `read`, `set aside` (with the reason) or `not understood`. Knows no format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ...errors import Place


class Use(StrEnum):
    """What became of a key."""

    READ = "read"
    ASIDE = "set aside"
    UNKNOWN = "not understood"


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a launch file, as it is written there."""

    name: str
    place: Place
    use: Use
    why: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One value of a proposal: the pointer at which it stands there, the launch file's own key, and where that stands."""

    path: str
    value: object
    place: Place
    key: str = ""
    assumed: str | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """A value that the file should state and leaves open: its pointer in a proposal, why, and where."""

    path: str
    why: str
    place: Place


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch file as it was read. `name` is the file as messages name it."""

    kind: str
    name: str
    sha256: str
    framework: str | None
    parts: tuple[Part, ...]
    keys: tuple[Key, ...]
    gaps: tuple[Gap, ...] = ()
    notes: tuple[tuple[str, Place], ...] = ()
    #: The text, for excerpts.
    text: str = field(default="", repr=False)

    def value(self, path: str) -> object:
        """The value of a part; None where there is none."""
        return next((part.value for part in self.parts if part.path == path), None)

    def part(self, path: str) -> Part | None:
        """The part at a pointer."""
        return next((part for part in self.parts if part.path == path), None)

    def counts(self) -> Mapping[Use, int]:
        """How many keys were read, set aside and not understood."""
        return {use: sum(key.use is use for key in self.keys) for use in Use}
