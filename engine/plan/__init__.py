"""Plans: what is proposed to run, what the search returns, and what is pasted back. One form for all three."""

from .plan import (
    DEFAULT_ORDER,
    Mesh,
    Origin,
    Plan,
    Recompute,
    Role,
    Schedule,
    Stage,
    describe,
    even_stages,
    simplicity,
    to_dict,
)

__all__ = [
    "DEFAULT_ORDER",
    "Mesh",
    "Origin",
    "Plan",
    "Recompute",
    "Role",
    "Schedule",
    "Stage",
    "describe",
    "even_stages",
    "simplicity",
    "to_dict",
]
