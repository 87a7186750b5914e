"""A framework's own options as parts of a proposal: every key of a launch file that is decided, by the framework's name for it.

What a name means is for the framework's rules to know; here a value is only brought into the form that settings have. Values
that the file leaves open, nested lists and texts beyond any option's length are left out. Knows no framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from .draft import Draft
from .entries import Entry, Open, typed

SETTINGS: Final = "/proposal/framework/settings"
MOST: Final = 1500
LONGEST_NAME, LONGEST_TEXT, LONGEST_LIST = 100, 1000, 10_000


def put_settings(
    d: Draft, entries: Iterable[Entry], named: Callable[[str], str | None] = lambda key: key, *, loose: bool = False
) -> None:
    """State the decided keys as settings. `named` gives the framework's own name, None for what is no option of it.

    `loose`: texts are those of a command line, where `1`, `true` and `1e-5` are read as what they say. Of two keys with one
    name the first counts.
    """
    stated = 0
    for entry in entries:
        name = named(entry.key)
        if name is None or not 0 < len(name) < LONGEST_NAME or stated >= MOST:
            continue
        path = f"{SETTINGS}/{name.replace('~', '~0').replace('/', '~1')}"
        value = setting(entry.value, loose=loose)
        if value is not None and path not in d.parts:
            d.put(path, value, entry)
            stated += 1


def setting(value: object, *, loose: bool) -> bool | int | float | str | list[object] | None:
    """A value as settings have it; None for what is none: open, null, nested or too long."""
    if isinstance(value, list):
        items = [setting(item, loose=loose) for item in value]
        plain = all(item is not None and not isinstance(item, list) for item in items)
        return [*items] if plain and 0 < len(items) <= LONGEST_LIST else None
    if isinstance(value, str):
        value = typed(value) if loose else value
    if isinstance(value, Open) or value is None:
        return None
    if isinstance(value, bool | int | float | str) and len(str(value)) < LONGEST_TEXT:
        return value
    return None
