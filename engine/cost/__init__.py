"""What a plan costs: seconds and bytes, each with what decided it. Knows models, clusters, plans; no rule, no search.

The names below are imported when they are first asked for: what needs memory alone does not load the cost of time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .factors import NOMINAL, Factors
    from .intervals import Uncertainty, draws, interval, outcome, ratio
    from .memory import MemoryModel, StageMemory, memory_ledger
    from .pricing import Priced, Pricer, price
    from .simulation import CriticalPath, Durations, Simulation, simulate
    from .step import TimeModel, step_time
    from .step_result import StepTime
    from .time_ledger import StageTime, TimeLedger

_WHERE = {
    "factors": ("NOMINAL", "Factors"),
    "intervals": ("Uncertainty", "draws", "interval", "outcome", "ratio"),
    "memory": ("MemoryModel", "StageMemory", "memory_ledger"),
    "pricing": ("Priced", "Pricer", "price"),
    "simulation": ("CriticalPath", "Durations", "Simulation", "simulate"),
    "step": ("TimeModel", "step_time"),
    "step_result": ("StepTime",),
    "time_ledger": ("StageTime", "TimeLedger"),
}

__all__ = [
    "NOMINAL",
    "CriticalPath",
    "Durations",
    "Factors",
    "MemoryModel",
    "Priced",
    "Pricer",
    "Simulation",
    "StageMemory",
    "StageTime",
    "StepTime",
    "TimeLedger",
    "TimeModel",
    "Uncertainty",
    "draws",
    "interval",
    "memory_ledger",
    "outcome",
    "price",
    "ratio",
    "simulate",
    "step_time",
]


def __getattr__(name: str) -> object:
    for module, names in _WHERE.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
