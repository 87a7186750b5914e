"""The search: the declared space of plans, exact solvers, candidates in the order of their step time. Knows no rule.

The solvers are numpy in, frozen results out. They are imported when they are first asked for: pricing a plan loads no numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .operators import OperatorPlan, solve_operators
    from .resharding import STRATEGIES, Alternative, ReshardingPlan, plan_resharding
    from .resharding_time import Hosts, Step
    from .resharding_units import Sharding, Tensor
    from .stages import StagePlan, solve_stages

_HOMES = {
    "OperatorPlan": "operators",
    "solve_operators": "operators",
    "STRATEGIES": "resharding",
    "Alternative": "resharding",
    "Hosts": "resharding_time",
    "ReshardingPlan": "resharding",
    "Step": "resharding_time",
    "plan_resharding": "resharding",
    "Sharding": "resharding_units",
    "Tensor": "resharding_units",
    "StagePlan": "stages",
    "solve_stages": "stages",
}

__all__ = [
    "STRATEGIES",
    "Alternative",
    "Hosts",
    "OperatorPlan",
    "ReshardingPlan",
    "Sharding",
    "StagePlan",
    "Step",
    "Tensor",
    "plan_resharding",
    "solve_operators",
    "solve_stages",
]


def __getattr__(name: str) -> Any:
    """Import a solver's module when one of its names is first asked for."""
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
