"""The ways in which frameworks send the stream from stage to stage, by name. What each costs: `transfers`."""

from __future__ import annotations

from enum import StrEnum


class Transfer(StrEnum):
    """`direct`: each device receives all that it needs. `scatter_gather`: a tensor rank receives its part, the group gathers."""

    DIRECT = "direct"
    SCATTER_GATHER = "scatter_gather"

    @property
    def words(self) -> str:
        """For people."""
        return "direct sends" if self is Transfer.DIRECT else "scatter and gather"
