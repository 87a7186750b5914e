"""Where data sheets are found: those shipped with planproof, and a user's own, which add to them or replace them.

Names are compared without case, hyphens, underscores, dots and spaces. A shipped sheet's file is named after it and
states its aliases on one line, so that a name is found without parsing any other sheet.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from math import inf, log
from pathlib import Path, PurePosixPath

from ..document import Document, load_document, parse_document
from ..errors import DataError, InputError, UsageError
from ..frozen import dataclass, field
from .carry import carried
from .cursor import nearest, shown
from .reader import Head, read_calibration, read_device, read_head, read_node
from .sheets import Calibration, DeviceSheet, NodeSheet, Origin, same_name

_SUFFIXES = (".yaml", ".yml", ".json")
_MAX_FILES = 1000
_ALIASES = re.compile(r"^aliases: *\[([^\]\n]*)\]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class AddedSheet:
    """A user's sheet: its head, and the document, read when it is asked for."""

    head: Head
    document: Document

    def answers_to(self, name: str) -> bool:
        """Whether `name` is the sheet's name or one of its aliases."""
        return same_name(name) in {same_name(known) for known in (self.head.name, *self.head.aliases)}


@dataclass(frozen=True, slots=True)
class Library:
    """The shipped sheets and those `added` by a user. A user's sheet is found before a shipped one of the same name."""

    added: tuple[AddedSheet, ...] = ()
    #: Sheets that were read already, by kind and name: a sheet does not change while a library is open.
    _read: dict[tuple[str, str], DeviceSheet | NodeSheet] = field(default_factory=dict, init=False, repr=False, compare=False)
    _calibrations: dict[str, Calibration | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def device(self, name: str) -> DeviceSheet:
        """The sheet of the device `name`. InputError where none has that name; DataError where the sheet is wrong."""
        known = self._read.get(("device", name))
        if not isinstance(known, DeviceSheet):
            document, origin = self._find("device", name)
            known = self._read["device", name] = read_device(document, origin)
        return known

    def calibration(self, device: DeviceSheet, software: str) -> Calibration | None:
        """What is known of a software family on `device`: a user's calibration, or the shipped one; None without either.

        A shipped file is named `DEVICE.SOFTWARE.yaml`, so that no other is read.
        """
        name = f"{device.name}.{software}"
        if name not in self._calibrations:
            own = [one for one in self._own_calibrations() if device.answers_to(one.device) and one.software == software]
            found = next((one for one in own if one.times), None)
            if found is None and (entry := _find_shipped("calibration", name)) is not None:
                origin = Origin("shipped", f"hardware/calibrations/{entry.name}")
                found = read_calibration(_parse_shipped("calibration", entry), origin)
            memory = next((one for one in own if one.workspace or one.allocator_reserve), None)
            if found is None or memory is None:
                found = found or memory
            elif memory is not found:
                # Times of one sheet, memory of another: a user's sheet of memory alone leaves the times as they were.
                found = replace(
                    found, sha256=f"{found.sha256} with {memory.sha256}", workspace=memory.workspace or found.workspace,
                    allocator_reserve=memory.allocator_reserve or found.allocator_reserve,
                )  # fmt: skip
            self._calibrations[name] = found
        return self._calibrations[name]

    def carried(self, device: DeviceSheet, software: str) -> Calibration | None:
        """What is taken of a software family on `device` from one where it was measured: of the same architecture if there is
        one, else of the nearest peak rate. None where the family was measured nowhere, or only on one other architecture, so
        that nothing shows how it carries.
        """
        names = [stem.removesuffix(f".{software}") for stem, _ in _shipped("calibration") if stem.endswith(f".{software}")]
        names += [one.device for one in self._own_calibrations() if one.software == software]
        found = []
        for name in dict.fromkeys(names):
            other = self.device(name)
            known = self.calibration(other, software) if other.name != device.name else None
            if known is not None and known.times:
                found.append((other.architecture != device.architecture, _apart(other, device), known, other))
        if not found:
            return None
        new, _, known, source = min(found, key=lambda one: one[:2])
        return None if new and len({one[3].architecture for one in found}) < 2 else carried(known, source, device)

    def _own_calibrations(self) -> Iterator[Calibration]:
        return (read_calibration(one.document, _origin_of(one)) for one in self.added if one.head.kind == "calibration")

    def calibrations(self, device: DeviceSheet) -> tuple[Calibration, ...]:
        """All that are known of software families on `device`."""
        shipped = [stem for stem, _ in _shipped("calibration") if stem.startswith(f"{device.name}.")]
        names = {stem.removeprefix(f"{device.name}.") for stem in shipped}
        names |= {one.software for one in self._own_calibrations() if device.answers_to(one.device)}
        found = (self.calibration(device, name) for name in sorted(names))
        return tuple(one for one in found if one is not None)

    def node(self, name: str) -> NodeSheet:
        """The sheet of the node type `name`, with that of its device. Errors as for `device`."""
        known = self._read.get(("node", name))
        if not isinstance(known, NodeSheet):
            document, origin = self._find("node", name)
            known = self._read["node", name] = read_node(document, origin, self.device)
        return known

    def names(self, kind: str) -> tuple[str, ...]:
        """The names of all sheets of `kind`, sorted; a shipped sheet that is replaced gives its place to the other."""
        own = [sheet.head.name for sheet in self.added if sheet.head.kind == kind]
        hidden = {same_name(name) for name in own}
        return tuple(sorted([*own, *(name for name, _ in _shipped(kind) if same_name(name) not in hidden)]))

    def _find(self, kind: str, name: str) -> tuple[Document, Origin]:
        for sheet in self.added:
            if sheet.head.kind == kind and sheet.answers_to(name):
                return sheet.document, _origin_of(sheet)
        shipped = _find_shipped(kind, name)
        if shipped is None:
            raise self._unknown(kind, name)
        document = _parse_shipped(kind, shipped)
        return document, Origin("shipped", document.name)

    def _unknown(self, kind: str, name: str) -> InputError:
        names = self.names(kind)
        aliases = [alias for _, entry in _shipped(kind) for alias in _aliases(entry)]
        aliases += [alias for sheet in self.added if sheet.head.kind == kind for alias in sheet.head.aliases]
        return InputError(
            f"{shown(name)} is no {kind} with a data sheet{nearest(name, (*names, *aliases))}; "
            f"known are {', '.join(names)}",
            code=f"hardware.unknown_{kind}",
            remedy=f"Write one of these, or add a sheet with kind: {kind} to the folder given with --hardware.",
        )


def open_library(folders: Iterable[str | Path] = (), root: Path | None = None) -> Library:
    """The library of the shipped sheets and all sheets anywhere in `folders`.

    Evidence names a file of theirs by its path from `root`, the repository of what is reviewed; a folder that lies outside it
    by its own name, so that the same sheets have the same name on another machine. Errors name it as it was given, and so
    does everything without a root.

    UsageError for a folder that is none; DataError for a file there that is no sheet, or a name that two files claim.
    """
    added = [AddedSheet(read_head(document), document) for folder in folders for document in _documents(Path(folder), root)]
    claimed: dict[tuple[str, str], AddedSheet] = {}
    for sheet in added:
        for name in (sheet.head.name, *sheet.head.aliases):
            other = claimed.setdefault((sheet.head.kind, same_name(name)), sheet)
            if other is not sheet:
                first = other.document.place("").file
                raise DataError(
                    f"two sheets answer to the {sheet.head.kind} name '{name}': {first} and this one",
                    place=sheet.document.place("/name"),
                    remedy="Rename or remove one of them.",
                )
    return Library(tuple(added))


def load_device(name: str, folders: Sequence[str | Path] = ()) -> DeviceSheet:
    """The device sheet called `name`, a user's `folders` first. Errors as for `open_library` and `Library.device`."""
    return open_library(folders).device(name)


def load_node(name: str, folders: Sequence[str | Path] = ()) -> NodeSheet:
    """The node sheet called `name`, a user's `folders` first. Errors as for `open_library` and `Library.node`."""
    return open_library(folders).node(name)


def device_names(folders: Sequence[str | Path] = ()) -> tuple[str, ...]:
    """The names of all known devices, sorted, without aliases."""
    return open_library(folders).names("device")


def node_names(folders: Sequence[str | Path] = ()) -> tuple[str, ...]:
    """The names of all known node types, sorted, without aliases."""
    return open_library(folders).names("node")


def _apart(one: DeviceSheet, other: DeviceSheet) -> float:
    """How far two devices' 16-bit peaks lie apart, in logarithms."""
    rates = [sheet.peak("bf16") or sheet.peak("fp16") for sheet in (one, other)]
    return abs(log(rates[0].value / rates[1].value)) if rates[0] and rates[1] else inf


def _shipped(kind: str) -> Iterator[tuple[str, Traversable]]:
    for entry in files(f"{__package__}.{kind}s").iterdir():
        if entry.name.endswith(".yaml"):
            yield entry.name.removesuffix(".yaml"), entry


def _find_shipped(kind: str, name: str) -> Traversable | None:
    wanted = same_name(name)
    entries = list(_shipped(kind))
    for known, entry in entries:
        if same_name(known) == wanted:
            return entry
    return next((entry for _, entry in entries if wanted in {same_name(alias) for alias in _aliases(entry)}), None)


def _aliases(entry: Traversable) -> list[str]:
    found = _ALIASES.search(entry.read_text(encoding="utf-8"))
    return [alias.strip(" \"'") for alias in found[1].split(",")] if found else []


def _parse_shipped(kind: str, entry: Traversable) -> Document:
    return parse_document(entry.read_bytes(), f"hardware/{kind}s/{entry.name}")


def _origin_of(sheet: AddedSheet) -> Origin:
    replaced = _find_shipped(sheet.head.kind, sheet.head.name)
    if replaced is None:
        return Origin("added", sheet.document.name)
    document = _parse_shipped(sheet.head.kind, replaced)
    return Origin("replaces", sheet.document.name, read_head(document).name, document.sha256)


def folder_name(folder: str | Path, root: Path | None) -> str:
    """What a folder is called in results: its path from `root` where it lies below, else its own name; without a root as it
    was given."""
    if root is None:
        return Path(folder).as_posix()
    real, base = Path(os.path.realpath(folder)), os.path.realpath(root)
    return real.relative_to(base).as_posix() if real.is_relative_to(base) else real.name


def _documents(folder: Path, root: Path | None) -> Iterator[Document]:
    if not folder.is_dir():
        raise UsageError(
            f"--hardware: {shown(str(folder))} is not a folder",
            remedy="Name a folder that holds data sheets (YAML or JSON).",
        )
    paths: list[Path] = []
    for parent, below, names in os.walk(folder):
        below[:] = sorted(name for name in below if not name.startswith("."))
        paths += [Path(parent, name) for name in sorted(names) if name.lower().endswith(_SUFFIXES) and name[0] != "."]
        if len(paths) > _MAX_FILES:
            raise UsageError(
                f"--hardware: {shown(str(folder))} holds more than {_MAX_FILES} YAML or JSON files",
                remedy="Name a folder that holds data sheets only.",
            )
    named = folder_name(folder, root)
    for path in paths:
        try:
            document = load_document(path)
        except InputError as error:
            raise DataError(error.message, place=error.place, remedy=error.remedy, code=error.code) from None
        yield replace(document, name=(PurePosixPath(named) / path.relative_to(folder).as_posix()).as_posix())
