"""Tables that hold memory and no run that a plan can say: each row is left out with its reason, so that none is passed over.

Mist's stages are cut inside layers and recompute single operators; Metis's and Galvatron's are profiles of layers, which a
proposal states as its own measured `profile`, where they outrank the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .memory_case import Case, Kind, LeftOut, Row, Table, number, text


def _each(reason: Callable[[Row], LeftOut | None]) -> Callable[[Table], Iterator[tuple[int, list[Case] | LeftOut]]]:
    def cases(table: Table) -> Iterator[tuple[int, list[Case] | LeftOut]]:
        for line, row in enumerate(table.rows, start=2):
            try:
                why = reason(row)
            except LeftOut as wrong:
                why = wrong
            if why is not None:
                yield line, why

    return cases


def _mist(row: Row) -> LeftOut:
    number(row, "max_allocated_mb")
    return LeftOut("not modelled: stages cut inside layers, recompute by operator", "plan_json_stem", text(row, "plan_json_stem"))


def _metis(row: Row) -> LeftOut:
    number(row, "memory_mb")
    return LeftOut("a profile of single layers and no run: a proposal's own 'profile' takes it", "memory_mb")


def _galvatron(row: Row) -> LeftOut | None:
    """The memory entries alone: the file holds times too, which are not rows of memory."""
    key = text(row, "key")
    if not key.endswith(("_ms", "_act", "_act_peak")):
        return None
    return LeftOut("a profile of single layers and no run: a proposal's own 'profile' takes it", "key", key)


MIST = Kind("stages of Mist", frozenset({"max_allocated_mb", "max_reserved_mb", "plan_json_stem"}), _each(_mist))
METIS = Kind("a profile of Metis", frozenset({"memory_mb", "layer", "tp", "bs"}), _each(_metis))
GALVATRON = Kind("profiles of Galvatron", frozenset({"source", "key", "value"}), _each(_galvatron))
