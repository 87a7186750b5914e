"""Tables that are shipped beside this module: models that frameworks know by a name, and keys that are set aside.

Each table says in its head where it was read.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from ...document import parse_document
from .entries import DECIDES, Entries


@cache
def _table(file: str) -> dict[str, dict[str, Any]]:
    raw = files(__package__).joinpath(file).read_bytes()
    data = parse_document(raw, file).data
    assert isinstance(data, dict)
    table: dict[str, dict[str, Any]] = data.get("models", data)
    return table


def preset(file: str, name: str) -> dict[str, Any] | None:
    """The entry of a model in one of the tables, None where it is not known."""
    found = _table(file).get(name)
    return dict(found) if found is not None else None


def set_aside(e: Entries, kind: str, *, last: bool = False) -> None:
    """Set aside what the table of `kind` names. `last`: names are asked for by the last part of a dotted key too."""
    names, prefixes, parts = _keys(kind)
    found: dict[str, str] = {}
    for entry in e:
        own = entry.key.rpartition(".")[2]
        why = names.get(entry.key) or (names.get(own) if last else None)
        if why is None and DECIDES.search(entry.key) is None:
            why = next((text for prefix, text in prefixes if entry.key.startswith(prefix)), None)
        why = why or next((parts[part] for part in entry.key.split(".") if part in parts), None)
        if why is not None:
            found[entry.key] = why
    e.set_aside(found)


@cache
def _keys(kind: str) -> tuple[dict[str, str], tuple[tuple[str, str], ...], dict[str, str]]:
    table = _table(f"keys_{kind}.yaml")

    def spread(part: str) -> dict[str, str]:
        return {name: why for why, several in table.get(part, {}).items() for name in several}

    return spread("names"), tuple(spread("prefixes").items()), spread("parts")
