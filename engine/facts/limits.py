"""The proposal's limits on the declared space, in the form that the search takes."""

from __future__ import annotations

from ..proposal import Layouts
from ..search.space import Limits


def limits_of(stated: Layouts | None) -> Limits:
    """The proposal's limits on the space."""
    if stated is None:
        return Limits()
    return Limits(
        axes=frozenset(stated.allow) if stated.allow is not None else None,
        max_axes=stated.max_axes,
        degrees=tuple((axis, frozenset(degrees)) for axis, degrees in (stated.degrees or {}).items()),
        microbatches=tuple(stated.microbatch) if stated.microbatch else None,
        zeros=tuple(stated.zero) if stated.zero is not None else None,
        recomputes=tuple(stated.recompute) if stated.recompute else None,
        schedules=tuple(stated.schedules) if stated.schedules else None,
        interleaves=tuple(stated.interleave) if stated.interleave else None,
        sequence_parallel=tuple(stated.sequence_parallel) if stated.sequence_parallel else None,
    )
