"""What a configuration says: its entries, each with its place, in the layers of the files that it is made of.

Vocabulary: an *entry* is one value of one key (of a list: one item); a *layer* is one file, the outermost first, so that a
file that extends another comes after it. Nothing here reads files or knows rules.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import Place
from ..frozen import dataclass

#: The largest file that a configuration may be.
MAX_BYTES = 256 * 1024
#: Key -> what its value is. Lists of all layers add up, tables too, the innermost value of a name counting; of the rest the
#: innermost layer that has the key counts.
KEYS = {
    "extend": "the configuration that this one builds on: a path from this file's folder",
    "select": "the rules in force: ids, the three letters of a phase or pack, or ALL",
    "ignore": "rules that are not in force",
    "per-file-ignores": "a table: pattern of paths -> rules that are suppressed there",
    "severity": "a table: rule -> error, warning or note",
    "params": "a table: rule -> a table: parameter -> value",
    "mandatory": "rules that can be neither ignored, lowered nor suppressed",
    "rules": "folders of further rules, from this file's folder",
    "hardware": "folders of data sheets, from this file's folder",
    "fail-on": "the severity from which on the exit status is 1: error, warning, note or never",
    "templates": "a folder whose templates replace ours, from this file's folder",
}
ADDED_UP = ("ignore", "per-file-ignores", "severity", "params", "mandatory", "rules", "hardware")
FAIL_ON = ("error", "warning", "note", "never")


@dataclass(frozen=True, slots=True)
class Entry:
    """One value: `key` is the path of keys to it, `value` a scalar or a list of them (a parameter's); a folder is absolute."""

    key: tuple[str, ...]
    value: object
    place: Place
    #: The value as it was written, where `value` is not that.
    written: str = ""

    @property
    def name(self) -> str:
        """The key as it is written in TOML."""
        return ".".join(f'"{part}"' if "/" in part or "*" in part or "." in part else part for part in self.key)


@dataclass(frozen=True, slots=True)
class Layer:
    """One file: its path from the root, its digest, the folder it lies in (from the root; empty for the root itself)."""

    name: str
    sha256: str
    folder: str
    entries: tuple[Entry, ...]

    def of(self, key: str) -> Iterator[Entry]:
        """The entries of one key, in order."""
        return (entry for entry in self.entries if entry.key[0] == key)


@dataclass(frozen=True, slots=True, eq=False)
class Settings:
    """A configuration: its layers, the root of the repository that they lie in, and the revision they were read from."""

    layers: tuple[Layer, ...] = ()
    root: str = ""
    revision: str | None = None

    @property
    def identity(self) -> tuple[object, ...]:
        """What tells two configurations apart."""
        return (self.root, self.revision, tuple((layer.name, layer.sha256) for layer in self.layers))

    def entries(self, key: str) -> tuple[Entry, ...]:
        """The entries of a key that count, outer layers first."""
        if key in ADDED_UP:
            return tuple(entry for layer in self.layers for entry in layer.of(key))
        for layer in reversed(self.layers):
            if found := tuple(layer.of(key)):
                return found
        return ()

    def _folders(self, key: str) -> tuple[str, ...]:
        return tuple(str(entry.value) for entry in self.entries(key))

    @property
    def rules(self) -> tuple[str, ...]:
        """Folders of further rules."""
        return self._folders("rules")

    @property
    def hardware(self) -> tuple[str, ...]:
        """Folders of data sheets."""
        return self._folders("hardware")

    @property
    def templates(self) -> str | None:
        """The folder of templates."""
        return next(iter(self._folders("templates")), None)

    @property
    def fail_on(self) -> str | None:
        """The severity from which on the exit status is 1; None where the configuration says nothing."""
        return next((str(entry.value) for entry in self.entries("fail-on")), None)


#: No configuration at all.
ISOLATED = Settings()
