"""docs/facts.md: every kind of fact with its fields, from their declarations alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..facts.fact import Field, Kind, unit_of
from .escape import code

#: Who produces a kind -> heading and what is said of it.
ORIGINS = {
    "proposal": ("What the proposal states", "Derived once from the proposal and the files that it names."),
    "plan": ("Of every plan that is judged", "Derived for each stated plan, and for each plan that the search offers."),
    "search": ("Of the search and its result", "There once the search has run; rules of the phase `outcome` see them."),
    "rules": ("What rules conclude", "No module produces these; rules of later phases see what earlier ones concluded."),
}
_HEAD = """\
# Facts

Rules see a proposal as facts: flat records of one kind each. This page is generated from their declarations
(`python -m planproof.report.docs docs`); `planproof facts FILE` prints those of a proposal.

- Every fact has a `path`, a JSON pointer into the proposal, which rules use as a place.
- A field is a whole number or a text. A number's unit is the end of its name: `latency_ns`, `headroom_ppm`,
  `capacity_bytes`, `bandwidth_bytes_per_s`. A rule may be written in any unit of that dimension: `< 200 GB/s`.
- Yes and no are texts. A field that does not apply is absent, and a rule can ask for that: `absent`, `present`.
"""


def facts_page(kinds: Mapping[str, Kind]) -> str:
    """The page for `kinds`, in the order of their declaration within each origin."""
    return "\n".join(_lines(kinds)) + "\n"


def _lines(kinds: Mapping[str, Kind]) -> Iterator[str]:
    yield _HEAD
    yield "| kind | says |"
    yield "|---|---|"
    for kind in kinds.values():
        yield f"| [{code(kind.name)}](#{kind.name}) | {_cell(kind.doc)} |"
    for origin, (heading, text) in ORIGINS.items():
        yield f"\n## {heading}\n\n{text}"
        for kind in kinds.values():
            if kind.origin == origin:
                yield f"\n### {kind.name}\n\n{_cell(kind.doc)}\n"
                yield "| field | holds | says |"
                yield "|---|---|---|"
                for name, field in kind.fields.items():
                    yield f"| {code(name)} | {_holds(name, field)} | {_cell(field.doc)} |"


def _holds(name: str, field: Field) -> str:
    unit = unit_of(name)
    if field.one_of:
        what = ", ".join(code(value) for value in field.one_of)
    elif field.type is int and unit is not None:
        scale = f" x {unit.per_base:,}" if unit.per_base != 1 else ""
        what = f"number, {unit.dimension.value}{scale}"
    else:
        what = "number" if field.type is int else "text"
    return what + ("; may be absent" if field.optional else "")


def _cell(text: str) -> str:
    """Our own words, which may use Markdown, kept inside a table's cell."""
    return text.replace("|", "\\|")
