"""Units, grades of evidence, provenance and intervals: the words in which every other package speaks of numbers."""

from .evidence import Decider, Estimate, Grade, Provenance, Quantity, weakest
from .units import Dimension, UnitError, human, parse, spell

__all__ = [
    "Decider",
    "Dimension",
    "Estimate",
    "Grade",
    "Provenance",
    "Quantity",
    "UnitError",
    "human",
    "parse",
    "spell",
    "weakest",
]
