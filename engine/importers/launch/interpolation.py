"""Values that refer to other values of their document: `${model.hidden_size}`, `${multiply:4, ${.hidden_size}}`, `${VAR:8}`.

The forms are OmegaConf's (absolute, relative with leading dots, resolvers by name) and Primus' (a variable with a default).
What refers to the environment, to another file or to a resolver that is not known is `Open`. Nothing is evaluated but whole
numbers; depth and length are bounded and each key is resolved once, so that references that go round or multiply end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from .entries import Entry, Open

_INNER: Final = re.compile(r"\$\{([^${}]*)\}")
_NUMBER: Final = re.compile(r"[-+]?\d{1,18}")
_REAL: Final = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
MAX_DEPTH: Final = 12
#: Characters of a text with its references replaced.
MAX_TEXT: Final = 10_000
_SUMS: Final[Mapping[str, Callable[[int, int], int | None]]] = {
    "multiply": lambda a, b: a * b,
    "mul": lambda a, b: a * b,
    "add": lambda a, b: a + b,
    "sum": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "int_div": lambda a, b: a // b if b else None,
    "divide": lambda a, b: a // b if b and a % b == 0 else None,
    "div_up": lambda a, b: -(-a // b) if b else None,
    "divide_ceil": lambda a, b: -(-a // b) if b else None,
    "divide_floor": lambda a, b: a // b if b else None,
}


def resolved(entries: list[Entry], given: Mapping[str, str] | None = None, roots: tuple[str, ...] = ()) -> list[Entry]:
    """The entries with their references resolved. `given` is the environment; `roots` are prefixes of absolute references."""
    table = {entry.key: entry.value for entry in entries}
    document = _Document(table, given or {}, roots, {})
    found = []
    for entry in entries:
        value = entry.value
        if isinstance(value, str) and "${" in value:
            value = _value(value, entry.key, document, 0)
        found.append(Entry(entry.key, value, entry.place))
    return found


class _Document(NamedTuple):
    """What references may name. `known`: keys that were resolved before."""

    table: Mapping[str, object]
    given: Mapping[str, str]
    roots: tuple[str, ...]
    known: dict[str, object]


def _value(text: str, key: str, document: _Document, depth: int) -> object:
    """A text with its references replaced; a text that is one reference takes the value's own type."""
    if depth > MAX_DEPTH:
        return Open(f"'{text[:60]}' refers round in a circle or too deep")
    for _ in range(100):
        if len(text) > MAX_TEXT:
            return Open(f"'{text[:60]}' is longer than {MAX_TEXT:,} characters with what it refers to")
        match = _INNER.search(text)
        if match is None:
            return text
        value = _one(match[1].strip(), key, document, depth)
        if isinstance(value, Open):
            return value
        if match[0] == text:
            return value
        text = text[: match.start()] + ("null" if value is None else str(value)) + text[match.end() :]
    return Open("it has more references than are followed")


def _one(inner: str, key: str, document: _Document, depth: int) -> object:
    table, given, roots, known = document
    name, colon, rest = inner.partition(":")
    name = name.strip()
    if colon and name in ("oc.env", "env"):
        variable, comma, default = rest.partition(",")
        return _environment(variable.strip(), default.strip() if comma else None, given)
    if colon and name in ("oc.decode", "oc.select"):
        return _typed(rest.strip())
    if colon and name in _SUMS:
        return _computed(name, rest, inner)
    if colon and re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
        return _environment(name, rest.strip(), given)
    if colon:
        return Open(f"'${{{inner}}}' uses '{name}', which is not evaluated here")
    if re.fullmatch(r"[A-Z][A-Z0-9_]*", name) and name not in table:
        return _environment(name, None, given)
    target = _target(inner, key)
    for candidate in (target, *(target.removeprefix(root) for root in roots if target.startswith(root))):
        if candidate in known:
            return known[candidate]
        if candidate in table:
            value = table[candidate]
            if isinstance(value, str) and "${" in value:
                value = _value(value, candidate, document, depth + 1)
            # What is open may be so for the depth that it was asked from.
            if not isinstance(value, Open):
                known[candidate] = value
            return value
    return Open(f"'${{{inner}}}' is not stated in this file")


def _computed(name: str, rest: str, inner: str) -> object:
    parts = [part.strip() for part in rest.split(",")]
    if len(parts) < 2 or not all(_NUMBER.fullmatch(part) for part in parts):
        return Open(f"'${{{inner}}}' is not over whole numbers")
    total = int(parts[0])
    for part in parts[1:]:
        step = _SUMS[name](total, int(part))
        if step is None or abs(step) > 2**62:
            return Open(f"'${{{inner}}}' is no whole number")
        total = step
    return total


def _environment(variable: str, default: str | None, given: Mapping[str, str]) -> object:
    if variable in given:
        return _typed(given[variable])
    if default is None:
        return Open(f"'{variable}' is taken from the environment")
    return _typed(default)


def _typed(text: str) -> object:
    bare = text.strip().strip("\"'")
    if _NUMBER.fullmatch(bare):
        return int(bare)
    if _REAL.fullmatch(bare):
        return float(bare)
    return {"null": None, "none": None, "true": True, "false": False}.get(bare.lower(), bare)


def _target(reference: str, key: str) -> str:
    """The dotted key of a reference; leading dots go up from the key that it stands in."""
    if not reference.startswith("."):
        return reference
    dots = len(reference) - len(reference.lstrip("."))
    above = key.split(".")[: -dots or None]
    return ".".join([*above, reference.lstrip(".")])
