"""Launch files as text, document, TOML or shell, each with its entries and places: what every format starts from.

Documents are read as their frameworks read them: of a key that is given twice the last counts, and that is noted. JSON may hold
names in capitals where a script fills values in; these are open. Knows no format's keys.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

from ...document import Document, parse_document, quoted
from ...document.source import Source, decode
from ...errors import InputError, Place
from .entries import Entry, Open, flattened

_SLOT: Final = re.compile(r"(?<=[:\[,])(\s*)(\$\{[A-Z][A-Z0-9_]+\}|\$?[A-Z][A-Z0-9_]+)(?=\s*[,}\]\n])")
_TABLE: Final = re.compile(r"^\s*\[+\s*([^\]\n]+?)\s*\]+\s*(?:#.*)?$")
_PAIR: Final = re.compile(r"^\s*((?:\"[^\"]*\"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:\"[^\"]*\"|[\w-]+))*)\s*=\s*")


@dataclass(frozen=True)
class SourceFile:
    """One launch file: its name in messages and its bytes. `given` are variables that its caller sets."""

    name: str
    raw: bytes
    given: Mapping[str, str] = field(default_factory=dict)
    #: Which of several training commands of a script is meant, from 1.
    command: int | None = None

    @cached_property
    def source(self) -> Source:
        """Its text with lines."""
        return decode(self.raw, self.name)

    @cached_property
    def sha256(self) -> str:
        """Digest of its bytes."""
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def suffix(self) -> str:
        """The ending of its name, lower case, with the dot."""
        name = self.name.rpartition("/")[2].lower()
        return "." + name.rpartition(".")[2] if "." in name[1:] else ""

    @cached_property
    def form(self) -> Literal["yaml", "json", "toml", "shell", "text", "python"]:
        """What it is written in, by name and first characters."""
        text = self.source.text.lstrip()
        if self.suffix in (".toml", ".json"):
            return "toml" if self.suffix == ".toml" else "json"
        if self.suffix in (".yaml", ".yml"):
            return "yaml"
        if self.suffix == ".py":
            return "python"
        shells = (".sh", ".bash", ".slurm", ".sbatch", ".sub", ".job", ".pbs")
        if self.suffix in shells or (text.startswith("#!") and "sh" in text[:40]) or "#SBATCH" in text[:4000]:
            return "shell"
        if text.startswith("{"):
            return "json"
        if re.match(r"\[[\w.\"-]+\]\s*$", text, re.MULTILINE) or re.match(r"(?:#.*\n|\s*\n)*\[[\w.]+\]", text):
            return "toml"
        if re.search(r"^[ \t]*--[a-z][\w-]+[ =\\]", text, re.MULTILINE):
            return "shell"
        if re.match(r"(?:#.*\n|\s*\n|---\s*\n)*[\"'\w.-]+\s*:(?:\s|$)", text):
            return "yaml"
        return "text"

    @cached_property
    def document(self) -> Document:
        """It as YAML or JSON. Raises InputError."""
        if self.form != "json":
            return parse_document(self.raw, self.name, syntax="yaml", last_wins=True)
        text, _ = filled(self.source.text)
        return parse_document(text.encode(), self.name, syntax="json")

    @cached_property
    def slots(self) -> Mapping[int, str]:
        """Offsets of values that a script fills in, by name."""
        return filled(self.source.text)[1] if self.form == "json" else {}

    def entries(self, at: str = "") -> list[Entry]:
        """The values of a document by dotted key. A word that stands for a value to fill in is open."""
        found = flattened(self.document, at)
        if not self.slots:
            return found
        names = {(place.line, place.column): name for offset, name in self.slots.items() for place in [self.source.place(offset)]}
        return [
            Entry(e.key, Open(f"'{names[e.place.line, e.place.column]}' is filled in by whoever uses this template"), e.place)
            if (e.place.line, e.place.column) in names else e
            for e in found
        ]  # fmt: skip

    @property
    def top(self) -> Mapping[str, object]:
        """The document's mapping; empty for what is none."""
        data = self.document.data
        return data if isinstance(data, dict) else {}

    def place(self, offset: int) -> Place:
        """Where a character stands."""
        return self.source.place(offset)

    @cached_property
    def start(self) -> Place:
        """The file's first line."""
        return Place(self.name, 1, 1)


def filled(text: str) -> tuple[str, Mapping[int, str]]:
    """JSON with its bare capital names put in quotes of the same length, and where they stood."""
    slots: dict[int, str] = {}

    def put(match: re.Match[str]) -> str:
        name = match[2]
        if len(name) < 3:
            return match[0]
        slots[match.start(2)] = name.strip("${}")
        return match[1] + '"' + re.sub(r"\W", "_", name[1:-1]) + '"'

    return _SLOT.sub(put, text), slots


def toml_entries(file: SourceFile) -> list[Entry]:
    """The values of a TOML file by dotted key, with the line of each. Raises InputError where it is no TOML."""
    try:
        data = tomllib.loads(file.source.text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        where = Place(file.name, int(found[1]), int(found[2])) if found else file.start
        said = re.sub(r" \(at .*\)", "", str(error))
        raise InputError(
            f"This is not TOML: {said[:1].lower() + said[1:]}.", place=where, code="launch.syntax",
            remedy="Write 'key = value' lines under '[table]' heads; texts stand in quotes.",
        ) from None  # fmt: skip
    except (ValueError, RecursionError):
        raise InputError(
            "This is not TOML that can be read here.",
            place=file.start,
            code="launch.syntax",
            remedy="Check its numbers and dates.",
        ) from None
    places = _toml_places(file)
    found_entries: list[Entry] = []

    def below(value: object, tokens: tuple[str, ...]) -> None:
        if isinstance(value, dict) and value and len(tokens) < 12:
            for key, inner in value.items():
                below(inner, (*tokens, key))
        elif tokens:
            dotted = ".".join(tokens)
            plain = value if isinstance(value, str | int | float | bool | list | dict) or value is None else str(value)
            found_entries.append(Entry(dotted, plain, places.get(dotted, file.start)))

    below(data, ())
    return found_entries


def _toml_places(file: SourceFile) -> dict[str, Place]:
    """Where the value of each dotted key begins, from lines of heads and pairs."""
    found: dict[str, Place] = {}
    table: list[str] = []
    for number, line in enumerate(file.source.text.splitlines(), 1):
        if head := _TABLE.match(line):
            table = _parts(head[1])
        elif pair := _PAIR.match(line):
            key = ".".join([*table, *_parts(pair[1])])
            found.setdefault(key, Place(file.name, number, pair.end() + 1))
    return found


def _parts(dotted: str) -> list[str]:
    return [part.strip().strip("\"'") for part in dotted.split(".")]


def not_this(file: SourceFile, kind: str, is_kind: str | None, looked_for: str) -> InputError:
    """The error for a file that is not of the kind it is passed as: what it is, where that is known."""
    what = f"it is a file of kind '{is_kind}'" if is_kind else f"it has none of {looked_for}"
    remedy = f"Import it as '{is_kind}', or as 'auto'." if is_kind else "Name the file that the launcher is given."
    return InputError(
        f"{quoted(file.name)} is not read as '{kind}': {what}.", place=file.start, code="launch.kind", remedy=remedy
    )
