"""Inference: the rule catalogue, the two evaluators and the gate that compares them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .catalogue import Catalogue, Override, load_catalogue
from .gate import Finding, Gate, Match, Outcome
from .rule import PHASES, Phase, Rule, Severity, Status
from .suppression import Suppression

if TYPE_CHECKING:
    from .loader import load_rule

__all__ = [
    "PHASES",
    "Catalogue",
    "Finding",
    "Gate",
    "Match",
    "Outcome",
    "Override",
    "Phase",
    "Rule",
    "Severity",
    "Status",
    "Suppression",
    "load_catalogue",
    "load_rule",
]


def __getattr__(name: str) -> object:
    """`load_rule` on demand: it brings the YAML reader, which a command that reads compiled rules does not need."""
    if name == "load_rule":
        from .loader import load_rule

        return load_rule
    raise AttributeError(name)
