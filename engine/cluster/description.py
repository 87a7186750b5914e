"""A cluster in words: `4 nodes of 8 x H100, 8 x NVLink 4 island, 8 x 400 Gbit/s NICs, rail-optimised, 2:1 over-subscribed`.

Clauses are separated by commas or line ends and stand in any order, each kind once. What is not understood is an error that
quotes the clause and lists the forms; nothing is skipped. Knows units and the rates of link generations, no proposal.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import fields, replace
from importlib.resources import files

from ..frozen import dataclass
from ..quantity import Dimension, Grade, Provenance, Quantity, UnitError, parse

MAX_LENGTH = 1000
FORMS = (
    "N nodes",
    "N nodes of NODE_TYPE",
    "N nodes of M x DEVICE",
    "N x NVLink GENERATION island (or NVSwitch, XGMI, PCIe; with 'at RATE' in place of a generation)",
    "N x RATE NICs",
    "rail-optimised (or fat tree, leaf-spine, dragonfly, torus, direct)",
    "N:M over-subscribed (or non-blocking)",
    "InfiniBand (or Ethernet, RoCE, Slingshot)",
    "TIME latency",
)
_LAYOUTS = {
    "railoptimised": "rail_optimised",
    "railoptimized": "rail_optimised",
    "fattree": "fat_tree",
    "leafspine": "leaf_spine",
    "dragonfly": "dragonfly",
    "torus": "torus",
    "direct": "direct",
}
_FABRICS = ("infiniband", "ethernet", "roce", "slingshot")
_COUNT = r"(\d{1,10})"
_TIMES = r"\s*[x×*]\s*"
_NODES = re.compile(rf"{_COUNT}\s+(?:nodes?|machines?|hosts?)(?:\s+of\s+(.+))?", re.IGNORECASE)
_OF_DEVICES = re.compile(rf"{_COUNT}(?:{_TIMES}|\s+)(.+)")
_ISLAND = re.compile(
    rf"{_COUNT}{_TIMES}(nvlink|nvswitch|xgmi|pcie|pci express)(?:[\s-]*(?:gen(?:eration)?\s*)?(\d{{1,2}}))?"
    r"(?:\s+islands?)?(?:\s+at\s+(.+))?",
    re.IGNORECASE,
)
_NICS = re.compile(rf"{_COUNT}{_TIMES}(.+?)\s+(?:nics?|cards?|hcas?|adapters?)", re.IGNORECASE)
_RATIO = re.compile(r"(\d{1,4}(?:\.\d{1,3})?)\s*:\s*(\d{1,4}(?:\.\d{1,3})?)\s+over-?\s?subscri(?:bed|ption)", re.IGNORECASE)
_LATENCY = re.compile(r"(\S+\s*\S+)\s+(?:fabric\s+)?latency", re.IGNORECASE)


class DescriptionError(ValueError):
    """A clause that is not understood, or two that cannot both hold. The message quotes it and says what would do."""


@dataclass(frozen=True, slots=True)
class Described:
    """What a description says; None for what it does not. Rates are of one device or one card, per direction."""

    nodes: int | None = None
    node_type: str | None = None
    devices: int | None = None
    device: str | None = None
    link: str | None = None
    island: int | None = None
    link_rate: Quantity | None = None
    nics: int | None = None
    nic_rate: Quantity | None = None
    layout: str | None = None
    oversubscription: float | None = None
    fabric: str | None = None
    latency: Quantity | None = None


def read_description(text: str) -> Described:
    """What `text` says. Raises DescriptionError for the first clause that is not understood or says a thing again."""
    if len(text) > MAX_LENGTH:
        raise DescriptionError(f"the description has {len(text)} characters; a cluster is described in {MAX_LENGTH} or fewer")
    clauses = [" ".join(clause.split()) for clause in re.split(r"[,;\n]", text)]
    said = [(number, clause) for number, clause in enumerate((c for c in clauses if c), start=1)]
    if not said:
        raise DescriptionError(f"the description is empty; it is made of clauses such as: {'; '.join(FORMS)}")
    found = Described()
    for number, clause in said:
        part = next((part for read in _READERS if (part := read(clause)) is not None), None)
        if part is None:
            raise DescriptionError(f"clause {number}, {clause[:80]!r}, is not understood; expected one of: {'; '.join(FORMS)}")
        for field in fields(part):
            value = getattr(part, field.name)
            if value is None:
                continue
            if getattr(found, field.name) is not None and field.name == "nodes" and (part.node_type or part.device):
                raise DescriptionError(
                    f"clause {number}, {clause[:80]!r}, is a second kind of node, and words describe one; in a proposal list "
                    "them under 'cluster.nodes': [{count: 2, type: dgx_h100}, {count: 4, type: dgx_a100}]"
                )
            if getattr(found, field.name) is not None:
                raise DescriptionError(f"clause {number}, {clause[:80]!r}, says again what an earlier clause says: keep one")
            found = replace(found, **{field.name: value})
    if found.island and found.devices and found.devices % found.island:
        raise DescriptionError(f"islands of {found.island} do not divide the {found.devices} devices of a node")
    return found


def _nodes(clause: str) -> Described | None:
    match = _NODES.fullmatch(clause)
    if match is None:
        return None
    count = _bounded(match[1], 10**9, clause, "nodes")
    if match[2] is None:
        return Described(nodes=count)
    inside = _OF_DEVICES.fullmatch(match[2])
    if inside is None:
        return Described(nodes=count, node_type=match[2])
    return Described(nodes=count, devices=_bounded(inside[1], 1024, clause, "devices of a node"), device=inside[2])


def _island(clause: str) -> Described | None:
    match = _ISLAND.fullmatch(clause)
    if match is None:
        return None
    size = _bounded(match[1], 1024, clause, "devices of an island", least=2)
    kind = "pcie" if match[2].lower().startswith("pci") else match[2].lower()
    if match[4] is not None:
        return Described(link=kind, island=size, link_rate=_rate(match[4], clause))
    rate = link_rate(kind, int(match[3])) if match[3] else None
    if rate is None:
        known = ", ".join(f"{name} {generation}" for name, generation in _known())
        wanted = f"{match[2]} {match[3]}" if match[3] else match[2]
        raise DescriptionError(f"{clause[:80]!r}: no rate is known of {wanted}; known are {known}; or write 'at 450 GB/s'")
    return Described(link=kind, island=size, link_rate=rate)


def _cards(clause: str) -> Described | None:
    match = _NICS.fullmatch(clause)
    if match is None:
        return None
    return Described(nics=_bounded(match[1], 1024, clause, "cards of a node"), nic_rate=_rate(match[2], clause))


def _layout(clause: str) -> Described | None:
    name = _LAYOUTS.get(re.sub(r"[\s_-]", "", clause.lower()))
    return Described(layout=name) if name else None


def _oversubscription(clause: str) -> Described | None:
    if re.fullmatch(r"non-?\s?blocking|full bisection", clause, re.IGNORECASE):
        return Described(oversubscription=1.0)
    match = _RATIO.fullmatch(clause)
    if match is None:
        return None
    above, below = float(match[1]), float(match[2])
    if below == 0 or not 1 <= above / below <= 1000:
        raise DescriptionError(f"{clause[:80]!r}: write the larger side first, as in 2:1; 1:1 is non-blocking")
    return Described(oversubscription=above / below)


def _fabric(clause: str) -> Described | None:
    name = re.sub(r"\s+(fabric|network)$", "", clause.lower())
    return Described(fabric=name) if name in _FABRICS else None


def _latency(clause: str) -> Described | None:
    match = _LATENCY.fullmatch(clause)
    return Described(latency=_quantity(match[1], Dimension.TIME, clause)) if match else None


_READERS: tuple[Callable[[str], Described | None], ...] = (
    _nodes, _island, _cards, _layout, _oversubscription, _fabric, _latency,
)  # fmt: skip


def link_rate(kind: str, generation: int) -> Quantity | None:
    """What one device gets of a generation of links, all its lanes together; None where the table has it not."""
    return next((rate for name, number, rate in _rates() if (name, number) == (kind, generation)), None)


def _known() -> list[tuple[str, int]]:
    return [(name, generation) for name, generation, _ in _rates()]


def _rates() -> list[tuple[str, int, Quantity]]:
    text = files(__package__).joinpath("link_rates.csv").read_text(encoding="utf-8")
    found = []
    for line, row in enumerate(csv.DictReader(text.splitlines()), start=2):
        evidence = Provenance(Grade(row["grade"]), row["source"], "cluster/link_rates.csv", line, row["date"])
        rate = Quantity(parse(row["bandwidth"], Dimension.BANDWIDTH), Dimension.BANDWIDTH, evidence)
        found.append((row["kind"], int(row["generation"]), rate))
    return found


def _bounded(digits: str, most: int, clause: str, what: str, least: int = 1) -> int:
    number = int(digits)
    if not least <= number <= most:
        raise DescriptionError(f"{clause[:80]!r}: {number} {what}; from {least} to {most} can be described")
    return number


def _rate(text: str, clause: str) -> Quantity:
    return _quantity(text, Dimension.BANDWIDTH, clause)


def _quantity(text: str, dimension: Dimension, clause: str) -> Quantity:
    try:
        return Quantity(parse(text, dimension), dimension, Provenance(Grade.ASSUMED, "the cluster's description"))
    except UnitError as error:
        raise DescriptionError(f"{clause[:80]!r}: {error}") from None
