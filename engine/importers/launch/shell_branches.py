"""What is known after several ways that a script may take: what they agree on; the rest is open, with the reason."""

from __future__ import annotations

from .shell_expand import Scope, Value
from .shell_text import Piece, Text, merged, shown


def agreed(ends: list[Scope], why: str) -> Scope:
    """One scope for several that a condition chooses among."""
    first = ends[0].copy()
    names = dict.fromkeys(name for end in ends for name in end.variables)
    for name in names:
        values = [end.variables.get(name) for end in ends]
        there = [value for value in values if value is not None]
        if len(there) < len(values):
            texts = [value.scalar if value is not None else () for value in values]
            first.variables[name] = Value(_open_of(texts, why))
        elif any(value.items is not None for value in there):
            first.variables[name] = _agreed_items(there, why)
        else:
            first.variables[name] = Value(merged([value.text for value in there], why))
    for end in ends[1:]:
        first.exported |= end.exported
        first.functions |= end.functions
    return first


def _open_of(texts: list[Text], why: str) -> Text:
    longest = max(texts, key=lambda one: len(shown(one)))
    return tuple(Piece(piece.text, piece.offset, piece.why or why) for piece in longest) or (Piece("", 0, why),)


def _agreed_items(values: list[Value], why: str) -> Value:
    """An array that is common in front; what only some of the ways add is open."""
    lists = [list((value.items if value.items is not None else {"0": value.text}).items()) for value in values]
    longest = max(lists, key=len)
    items: dict[str, Text] = {}
    for k, (key, text) in enumerate(longest):
        everywhere = all(len(one) > k and one[k][0] == key and shown(one[k][1]) == shown(text) for one in lists)
        items[key] = text if everywhere else tuple(Piece(piece.text, piece.offset, piece.why or why) for piece in text)
    return Value((), items)
