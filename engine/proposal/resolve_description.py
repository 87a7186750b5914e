"""`cluster.description`, a cluster in words, as the keys that it stands for.

A key that is written beside the description is kept; where both speak and differ, both are listed as a contradiction. What
follows is resolved like any other cluster section: this module knows no tiers and no data sheets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ..cluster.description import FORMS, Described, DescriptionError, read_description
from ..errors import InputError
from ..quantity import Grade, Quantity
from .collector import Collector
from .schema import ClusterDescription, Fabric, IntraNode, Nics, Nodes
from .section import Section
from .stated import Stated

PATH = "/cluster/description"
S = TypeVar("S", Nodes, IntraNode, Fabric, Nics)


def in_full(stated: ClusterDescription, text: str, collect: Collector) -> ClusterDescription:
    """The section with nodes, links and fabric as described. InputError, with the line, for a clause that does not read."""
    try:
        said = read_description(text)
    except DescriptionError as error:
        raise InputError(
            f"'cluster.description': {error}",
            place=collect.place(PATH),
            code="input.description",
            remedy=f"Clauses are separated by commas: {FORMS[2]}, {FORMS[4]} and so on; or write nodes, intra_node and fabric.",
        ) from None
    sections = {
        "nodes": _one(stated.nodes, Nodes, "nodes", _nodes(said, stated, collect), collect),
        "intra_node": _filled(
            stated.intra_node,
            IntraNode,
            "intra_node",
            kind=said.link,
            bandwidth=_stated(said.link_rate),
            island=said.island,
            collect=collect,
        ),
        "fabric": _one(stated.fabric, Fabric, "fabric", _fabric(said, stated, collect), collect),
    }
    kept = {name: getattr(stated, name) for name in type(stated).model_fields}
    return ClusterDescription.model_construct(**{**kept, **sections})


def _nodes(said: Described, stated: ClusterDescription, collect: Collector) -> dict[str, Any]:
    values: dict[str, Any] = {
        "count": said.nodes, "type": said.node_type, "devices": said.devices, "device": said.device,
    }  # fmt: skip
    known = stated.nodes[0] if stated.nodes else None
    sized = said.node_type or said.devices or (known is not None and (known.type or known.devices))
    if said.island is not None and not sized:
        values["devices"] = said.island
        collect.assume("cluster.nodes.devices", PATH, said.island, "the described island is taken for the whole node")
    return values


def _fabric(said: Described, stated: ClusterDescription, collect: Collector) -> dict[str, Any]:
    known = stated.fabric[0] if stated.fabric else None
    nics = _filled(
        known.nics if known else None, Nics, "fabric/nics", count=said.nics, bandwidth=_stated(said.nic_rate), collect=collect
    )
    return {
        "nics": nics, "layout": said.layout, "oversubscription": said.oversubscription, "kind": said.fabric,
        "latency": _stated(said.latency),
    }  # fmt: skip


def _one(known: Sequence[S] | None, section: type[S], name: str, values: dict[str, Any], collect: Collector) -> list[S] | None:
    """The list of a section of which a description speaks of one: none, one, or several that it cannot tell apart."""
    spoken = [key for key, value in values.items() if value is not None]
    if not spoken:
        return list(known) if known is not None else None
    if known is not None and len(known) > 1:
        collect.contradicts(
            "described_twice", PATH, f"the description says {', '.join(spoken)}, and 'cluster.{name}' lists {len(known)} entries"
        )
        return list(known)
    filled = _filled(known[0] if known else None, section, name, collect=collect, **values)
    return [filled] if filled is not None else None


def _filled(known: S | None, section: type[S], name: str, *, collect: Collector, **values: Any) -> S | None:
    """`known` with the described `values` where it is silent; two that differ are a contradiction, and what is written stays."""
    said = {key: value for key, value in values.items() if value is not None}
    if not said:
        return known
    kept: dict[str, Any] = {key: getattr(known, key) for key in section.model_fields} if known is not None else {}
    for key, value in said.items():
        written = kept.get(key)
        if written is None or isinstance(value, Section):
            kept[key] = value
        elif not _same(written, value):
            collect.contradicts(
                "described_twice",
                PATH,
                f"the description says {key} {_shown(value)}, 'cluster.{name}.{key}' says {_shown(written)}",
            )
    return section.model_construct(**kept)


def _stated(quantity: Quantity | None) -> Stated | None:
    """A described rate as one that is written: a table's keeps its grade, source and date, a spoken one is bare."""
    if quantity is None:
        return None
    text = str(quantity)
    if quantity.grade is Grade.ASSUMED:
        return Stated(quantity.value, text, quantity.dimension)
    by = quantity.provenance
    return Stated(quantity.value, text, quantity.dimension, by.grade, by.source, by.file, by.date)


def _same(first: object, second: object) -> bool:
    if isinstance(first, Stated) and isinstance(second, Stated):
        return first.value == second.value
    if isinstance(first, str) and isinstance(second, str):
        return first.casefold() == second.casefold()
    return first == second


def _shown(value: object) -> str:
    return value.text if isinstance(value, Stated) else str(value)
