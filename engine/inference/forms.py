"""Reading the texts of a rule: `{NAME.field}` and `{params.NAME}` in a message or remedy, `{{` and `}}` for braces.

There are no format specifications, attributes, conversions or nested forms: a text from a rule file reaches the fields
of the facts that it was given and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..facts.fact import Kind
from .clauses import ClauseReader
from .reading import Reader, listed, near
from .rule import Form, ParamReference, Reference

_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_PLACE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\.([A-Za-z_][A-Za-z0-9_]*)")


def read_form(
    text: str, pointer: str, reader: Reader, clauses: ClauseReader, scope: Mapping[str, Sequence[Kind]]
) -> Form:
    """The parts of `text`; every place in it is a field of each kind that its name can have, or a parameter."""
    parts: list[str | Reference | ParamReference] = []
    literal, end = "", 0
    for match in _PART.finditer(text):
        literal += text[end : match.start()]
        end = match.end()
        if match[0] in ("{{", "}}"):
            literal += match[0][0]
            continue
        place = _PLACE.fullmatch(match[1]) if match[1] is not None else None
        if place is None:
            reader.fail(
                f"{match[0]} in the text is no place for a value",
                pointer,
                "write {NAME.field} or {params.NAME} with nothing else inside, and {{ and }} for braces",
            )
        if literal:
            parts.append(literal)
            literal = ""
        parts.append(_place(place[1], place[2], pointer, reader, clauses, scope))
    literal += text[end:]
    return (*parts, literal) if literal else tuple(parts)


def _place(
    name: str, field: str, pointer: str, reader: Reader, clauses: ClauseReader, scope: Mapping[str, Sequence[Kind]]
) -> Reference | ParamReference:
    if name == "params":
        return clauses.param(field, "", "", pointer)
    check_bound(name, pointer, reader, scope)
    for kind in scope[name]:
        reader.field(kind, field, pointer)
    return Reference(name, field)


def check_bound(name: str, pointer: str, reader: Reader, scope: Mapping[str, Sequence[Kind]]) -> None:
    """Refuse a name that is not bound in every way in which the rule can hold."""
    if name not in scope:
        reader.fail(
            f"no antecedent '{name}' is bound whenever the rule holds{near(name, scope)}",
            pointer,
            f"the names to use here are {listed([*scope, 'params'])}",
        )
