"""Where a number comes from and how good it is.

Vocabulary: a *grade* says on whose word a quantity about the world stands, best first; a *provenance* is a grade with its
source, file and date; a *quantity* is a value with provenance; an *estimate* is an interval with everything that decided it.
A *choice* of the proposer (a degree, a shape) has none of this and taints nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum

from ..frozen import dataclass
from .units import Dimension, human


class Grade(StrEnum):
    """On whose word: measured on this system, published by a third party, vendor's sheet, estimated, assumed."""

    MEASURED = "measured"
    PUBLISHED = "published"
    VENDOR = "vendor"
    ESTIMATED = "estimated"
    ASSUMED = "assumed"

    @property
    def rank(self) -> int:
        """0 for the best grade; a larger rank is weaker evidence."""
        return _ORDER.index(self)


_ORDER = (Grade.MEASURED, Grade.PUBLISHED, Grade.VENDOR, Grade.ESTIMATED, Grade.ASSUMED)


def weakest(grades: Iterable[Grade]) -> Grade:
    """The weakest of `grades`; `measured` of none, since nothing taints."""
    return max(grades, key=lambda grade: grade.rank, default=Grade.MEASURED)


@dataclass(frozen=True, slots=True)
class Provenance:
    """Grade and origin of a number. `file` and `line` say where it is written; `date` is ISO, of the evidence itself."""

    grade: Grade
    source: str = ""
    file: str | None = None
    line: int | None = None
    date: str | None = None
    pointer: str | None = None


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number about the world: `value` in the base unit of `dimension`, and its provenance."""

    value: int | float
    dimension: Dimension
    provenance: Provenance

    @property
    def grade(self) -> Grade:
        """On whose word it stands."""
        return self.provenance.grade

    def __str__(self) -> str:
        return human(self.value, self.dimension)


@dataclass(frozen=True, slots=True)
class Decider:
    """One quantity that decided an estimate: its name in the field's words, the quantity, and what it is of."""

    name: str
    quantity: Quantity


@dataclass(frozen=True, slots=True)
class Estimate:
    """A computed number: value, its 90 % interval, the grade it can claim, and what decided it.

    `low <= value <= high`, all in the base unit of `dimension`. The grade of a result of the cost model is `estimated`
    however good its inputs are, unless every input was measured and nothing was modelled.
    """

    value: float
    low: float
    high: float
    dimension: Dimension
    grade: Grade
    deciders: tuple[Decider, ...] = ()

    def scaled(self, factor: float) -> Estimate:
        """The estimate of `factor` times this, `factor` >= 0, known exactly."""
        return replace(self, value=self.value * factor, low=self.low * factor, high=self.high * factor)

    def __str__(self) -> str:
        d = self.dimension
        return f"{human(self.value, d)} ({human(self.low, d)} to {human(self.high, d)})"
