"""Every value of a configuration with where it came from, as text or as plain data."""

from __future__ import annotations

from typing import Any

from ..errors import Place
from .settings import ADDED_UP, FAIL_ON, KEYS, Entry, Settings

#: What holds where the configuration says nothing.
DEFAULTS = {"select": "ALL", "fail-on": FAIL_ON[0]}
SCHEMA = 1


def rows(settings: Settings) -> list[tuple[str, object, Place | None]]:
    """Key, value and place, in the order of the keys; a default has no place. What an inner layer replaces is left out."""
    found: list[tuple[str, object, Place | None]] = []
    for key in KEYS:
        entries = settings.entries(key) if key != "extend" else tuple(e for layer in settings.layers for e in layer.of(key))
        kept: dict[object, Entry] = {}
        for entry in entries:
            # Of a table the innermost value of a name counts; the items of lists all count.
            single = key in ADDED_UP and key in ("severity", "params")
            kept[entry.key if single else (entry.key, entry.written or entry.value)] = entry
        found += [(entry.name, entry.written or entry.value, entry.place) for entry in kept.values()]
        if not kept:
            found.append((key, DEFAULTS.get(key), None))
    return found


def settings_json(settings: Settings, path: str) -> dict[str, Any]:
    """The configuration that counts for `path`, as plain data."""
    return {
        "schema": SCHEMA,
        "path": path,
        "revision": settings.revision,
        "files": [{"path": layer.name, "sha256": layer.sha256} for layer in reversed(settings.layers)],
        "values": [
            {"key": key, "value": value, "file": place.file if place else None, "line": place.line if place else None}
            for key, value, place in rows(settings)
        ],
    }


def settings_text(settings: Settings, path: str) -> str:
    """The same for people: one value a line, and where it is written."""
    table = [(key, _shown(value), f"{place.file}:{place.line}" if place else "default") for key, value, place in rows(settings)]
    widths = [max(len(row[k]) for row in table) for k in (0, 1)]
    files = [layer.name for layer in reversed(settings.layers)]
    at = f" of revision {settings.revision}" if settings.revision else ""
    what = ", which extends ".join(files) + at if files else "no configuration: every value is the default"
    lines = [f"{path}: {what}"]
    lines += [f"{key:<{widths[0]}}  {value:<{widths[1]}}  {place}" for key, value, place in table]
    return "\n".join(lines) + "\n"


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
