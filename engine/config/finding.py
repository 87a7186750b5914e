"""Which configuration counts for a file: the nearest one above it, the one that was named, or the one of a revision.

`planproof.toml` counts, and `pyproject.toml` where it has [tool.planproof]; of two in one folder the first. The search ends at
the root of the git checkout. What a configuration extends lies in the same repository.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ..document import quoted
from ..errors import Place, UsageError
from .settings import ISOLATED, MAX_BYTES, Layer, Settings

if TYPE_CHECKING:  # what reads files is loaded where there is one to read
    from .toml_file import TomlFile
    from .tree import Tree

OWN = "planproof.toml"
SHARED = "pyproject.toml"
TABLE = ("tool", "planproof")
MAX_LAYERS = 10


def nearest_settings(path: str | os.PathLike[str]) -> Settings:
    """The configuration nearest to the file or folder `path`; ISOLATED where there is none. Raises UsageError."""
    folder = _folder(path)
    root = _root(folder)
    above = (folder, *(one for one in folder.parents if one.is_relative_to(root)))
    if not any((one / OWN).is_file() or _mentioned(one / SHARED) for one in above):
        return ISOLATED
    from .tree import DiskTree

    return _nearest(DiskTree(root), folder)


def load_settings(path: str | os.PathLike[str]) -> Settings:
    """The configuration in the file `path`, and what it extends. Raises UsageError."""
    from .tree import DiskTree

    file = Path(os.path.realpath(path))
    tree = DiskTree(_root(file.parent))
    return _named(tree, file, os.fspath(path))


def seen_from_here(place: Place, path: str | os.PathLike[str]) -> Place:
    """A place in a configuration for `path`, which is named from its checkout's root, named from the folder we are in."""
    root = _root(_folder(path))
    file = root / place.file if place.file else None
    if file is None or not file.is_file() or (Path.cwd() / str(place.file)).exists():
        return place
    return replace(place, file=Path(os.path.relpath(file)).as_posix())


def settings_from_revision(
    base: str, path: str | os.PathLike[str], into: Path, *, config: str | os.PathLike[str] | None = None
) -> Settings:
    """The configuration for `path` as revision `base` has it: what the change under review says of it does not count.

    Folders that it names are written out, as they were, below `into`, which the caller removes. `config` names a file in place of
    the nearest; one outside the checkout is read from disk, for the change cannot write it. Raises UsageError.
    """
    from .tree import revision_tree

    folder = _folder(path)
    tree = revision_tree(base, _existing(folder), into)
    if config is None:
        return _nearest(tree, folder)
    file = Path(os.path.realpath(config))
    if not file.is_relative_to(tree.root):
        return load_settings(config)
    return _named(tree, file, os.fspath(config))


def file_from_revision(base: str, path: str | os.PathLike[str]) -> bytes | None:
    """The file at `path` as revision `base` of its checkout has it; None where that has none. Raises UsageError."""
    from .tree import revision_tree

    file = Path(os.path.realpath(Path(path).absolute().parent)) / Path(path).name
    tree = revision_tree(base, _existing(file.parent), Path())
    if not file.is_relative_to(tree.root):
        return None
    return tree.read(file.relative_to(tree.root).as_posix())


def _nearest(tree: Tree, folder: Path) -> Settings:
    if not folder.is_relative_to(tree.root):
        return ISOLATED
    here = PurePosixPath(folder.relative_to(tree.root).as_posix())
    for candidate in (here, *here.parents):
        for name in (OWN, SHARED):
            path = (candidate / name).as_posix()
            file = _file(tree, path)
            if file is not None:
                return _layered(tree, path, file)
    return ISOLATED


def _named(tree: Tree, file: Path, given: str) -> Settings:
    path = file.relative_to(tree.root).as_posix()
    found = _file(tree, path)
    if found is None:
        where = f" in {tree.revision}" if tree.revision else ""
        what = f"has no [{'.'.join(TABLE)}]" if tree.read(path) is not None else f"is no file{where}"
        raise UsageError(
            f"the configuration {quoted(given)} {what}",
            code="usage.config",
            remedy=f"Name a {OWN}, or a {SHARED} with that table.",
        )
    return _layered(tree, path, found)


def _file(tree: Tree, path: str) -> TomlFile | None:
    """The table of a configuration's file; None where there is no such file, or no table of ours in it."""
    from .toml_file import read_toml

    raw = tree.read(path)
    shared = PurePosixPath(path).name == SHARED
    if raw is None or (shared and len(raw) <= MAX_BYTES and TABLE[-1].encode() not in raw):
        return None
    name = f"{tree.revision}:{path}" if tree.revision else path
    return read_toml(raw, name, TABLE if shared else ())


def _layered(tree: Tree, path: str, file: TomlFile) -> Settings:
    """The layers of the file at `path`: what it extends first."""
    from .reading import read_layer

    layers: list[Layer] = []
    seen = [path]
    while True:
        layer = read_layer(file, path, tree)
        layers.insert(0, layer)
        entry = next(layer.of("extend"), None)
        if entry is None:
            return Settings(tuple(layers), str(tree.root), tree.revision)
        path = str(entry.value)
        if path in seen:
            raise _extend(f"`extend` goes round: {' -> '.join([*seen, path])}", entry.place, "Let one of them extend nothing.")
        if len(seen) >= MAX_LAYERS:
            raise _extend(f"`extend` goes on for more than {MAX_LAYERS} files", entry.place, "Let one of them extend nothing.")
        seen.append(path)
        try:
            found = _file(tree, path)
        except UsageError as error:
            raise error.at(entry.place) from None
        if found is None:
            what = f"has no [{'.'.join(TABLE)}]" if tree.read(path) is not None else "is no file"
            message = f"`extend` names {quoted(entry.written)}, which {what}"
            raise _extend(message, entry.place, "Paths start at this file's folder.")
        file = found


def _extend(message: str, place: Place, remedy: str) -> UsageError:
    return UsageError(message, place=place, remedy=remedy, code="usage.config")


def _folder(path: str | os.PathLike[str]) -> Path:
    """The folder that `path` is, or lies in, resolved."""
    given = Path(path)
    return Path(os.path.realpath(given if given.is_dir() else given.absolute().parent))


def _existing(folder: Path) -> Path:
    """`folder`, or the nearest one above it that exists."""
    return next(one for one in (folder, *folder.parents) if one.is_dir())


def _root(folder: Path) -> Path:
    """The checkout around `folder`; where there is none, the outermost folder with a configuration of ours, else `folder`."""
    above = (folder, *folder.parents)
    checkout = next((one for one in above if os.path.lexists(one / ".git")), None)
    if checkout is not None:
        return checkout
    return next((one for one in reversed(above) if (one / OWN).is_file()), folder)


def _mentioned(path: Path) -> bool:
    """Whether a shared file may have a table of ours; one that cannot be read may."""
    if not path.is_file():
        return False
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
        return len(raw) > MAX_BYTES or TABLE[-1].encode() in raw
    except OSError:
        return True
