"""A TOML file with the place of its keys. Knows nothing of what they mean.

The standard library's reader keeps no positions, so a place is found by looking for the key again: exact for what people
write (headers, plain and dotted keys, inline tables), and else the place of the nearest table above.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from ..errors import Place, UsageError
from ..frozen import dataclass
from .settings import MAX_BYTES

_KEY: Final = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_KEYS: Final = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_HEADER: Final = re.compile(rf"[ \t]*\[[ \t]*({_KEYS})[ \t]*\]")
_STATEMENT: Final = re.compile(rf"[ \t]*({_KEYS})[ \t]*=")
_ONE: Final = re.compile(_KEY)
_AT: Final = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)\s*\Z")


@dataclass(frozen=True, slots=True)
class TomlFile:
    """One table of a TOML file: the whole, or the one at `prefix`."""

    name: str
    table: Mapping[str, Any]
    prefix: tuple[str, ...]
    sha256: str
    text: str = field(repr=False)

    def place(self, *keys: str, item: str | None = None) -> Place:
        """Where the key stands; of a list's `item` the item itself. The nearest table above where it is not found."""
        wanted = (*self.prefix, *keys)
        table: tuple[str, ...] = ()
        found, depth, start = 0, 0, 0
        for line in self.text.splitlines(keepends=True):
            if header := _HEADER.match(line):
                table = _parts(header[1])
                full, column = table, header.start(1)
            elif statement := _STATEMENT.match(line):
                full, column = (*table, *_parts(statement[1])), statement.start(1)
            else:
                start += len(line)
                continue
            if len(full) > depth and wanted[: len(full)] == full:
                found, depth = start + column, len(full)
            start += len(line)
        for key in wanted[depth:] if depth else ():
            inside = re.compile(rf"""(?<![\w"'-])(?:{re.escape(key)}|"{re.escape(key)}"|'{re.escape(key)}')[ \t]*=""")
            further = inside.search(self.text, found)
            if further is None:
                break
            found = further.start()
        if item is not None:
            quoted = re.compile(rf"""["']{re.escape(item)}["']""").search(self.text, found)
            found = quoted.start() if quoted is not None else found
        line_start = self.text.rfind("\n", 0, found) + 1
        return Place(self.name, self.text.count("\n", 0, found) + 1, found - line_start + 1)


def read_toml(raw: bytes, name: str, prefix: Sequence[str] = ()) -> TomlFile | None:
    """The table at `prefix` in these bytes; None where there is none. Raises UsageError for bytes that are no TOML."""
    import tomllib

    if len(raw) > MAX_BYTES:
        raise _wrong(f"the file has {len(raw):,} bytes; the limit is {MAX_BYTES:,}", name)
    try:
        text = raw.decode("utf-8")
        data: Any = tomllib.loads(text)
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8")
        line = before.count("\n") + 1
        raise _wrong(f"byte {error.start} (0x{raw[error.start]:02x}) is not UTF-8", name, line, 1) from None
    except (ValueError, RecursionError) as error:
        said = str(error) if isinstance(error, ValueError) else "it nests too deep"
        at = _AT.search(said)
        last = text.count("\n", 0, len(text.rstrip())) + 1
        where = (None, None) if at is None else (int(at[1]), int(at[2])) if at[1] else (last, None)
        raise _wrong(f"this is not TOML: {_AT.sub('', said)}", name, *where) from None
    for key in prefix:
        if not isinstance(data, dict) or key not in data:
            return None
        data = data[key]
    # tomllib takes CR LF as a line end too; the places count characters of the text that it saw.
    file = TomlFile(name, data if isinstance(data, dict) else {}, tuple(prefix), hashlib.sha256(raw).hexdigest(), text)
    if not isinstance(data, dict):
        dotted = ".".join(prefix)
        raise UsageError(f"`{dotted}` must be a table", place=file.place(), code="usage.config", remedy=f"Write [{dotted}].")
    return file


def _parts(keys: str) -> tuple[str, ...]:
    return tuple(one[1:-1] if one[0] in "\"'" else one for one in _ONE.findall(keys))


def _wrong(what: str, name: str, line: int | None = None, column: int | None = None) -> UsageError:
    remedy = "Correct the file, or run with --isolated to leave it out."
    return UsageError(what, place=Place(name, line, column), code="usage.config", remedy=remedy)
