"""From the paths of a command line to the files that are meant: files, folders, globs.

A file that is named is meant, whatever it is called and whatever it holds. Below a folder, and of what a glob finds, those
are meant that look like proposals or launch files and that no ignore file leaves out; links are not followed out of the
folder's checkout, and folders behind links not at all. Nothing is parsed here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final

from ..errors import InputError, Place, PlanproofError, UsageError
from ..frozen import dataclass
from .sniff import LAUNCH_ENDINGS, sniffed

if TYPE_CHECKING:
    from .ignoring import Ignoring

#: Folders that hold tools' own files, never proposals.
PASSED_OVER: Final = frozenset(
    {".git", ".hg", ".svn", ".jj", "__pycache__", "node_modules", ".venv", ".tox", ".nox", ".mypy_cache", ".pytest_cache"}
)
_MAGIC: Final = "*?["


@dataclass(frozen=True, slots=True)
class Found:
    """A file that is meant, as it is to be named, or a path that could not be looked into.

    `raw` has its bytes where they do not lie there (standard input).
    """

    path: str
    error: PlanproofError | None = None
    raw: bytes | None = None
    #: It was not named, and looks like a launch file: whether it is one is for their readers to say.
    launch: bool = False


@dataclass(frozen=True, slots=True)
class Discovery:
    """What was found, each file once. `looked_at`: files with a fitting name that turned out to be no proposals."""

    found: tuple[Found, ...]
    looked_at: int


@dataclass(slots=True)
class _Search:
    """One search: what was seen so far."""

    wanted: Callable[[str], bool | str | None]
    seen: set[str] = field(default_factory=set)
    looked_at: int = 0

    def new(self, path: str) -> bool:
        """Whether a file was not met before, under this name or another spelling of it."""
        key = os.path.normpath(os.path.abspath(path))
        if key in self.seen:
            return False
        self.seen.add(key)
        return True

    def named(self, path: str, only_proposals: bool) -> Iterator[Found]:
        """What one path of the command line stands for."""
        if os.path.isdir(path):
            yield from self.below(path)
        elif any(char in path for char in _MAGIC) and not os.path.lexists(path):
            yield from self.globbed(path)
        elif only_proposals:
            folder = os.path.dirname(os.path.abspath(path))
            yield from self.reached(path, checkout_root(folder))
        elif self.new(path):
            yield Found(_shown(path))

    def globbed(self, pattern: str) -> Iterator[Found]:
        """The files and folders that a glob matches, in order."""
        import glob

        matches = sorted(glob.iglob(pattern, recursive=True))
        if not matches:
            yield Found(
                pattern,
                UsageError(
                    f"nothing matches '{pattern}'",
                    code="usage.no_match",
                    place=Place(pattern),
                    remedy="Check the pattern; '**' stands for any number of folders.",
                ),
            )
        start = os.path.abspath(_unmagical(pattern))
        for path in matches:
            if not os.path.isdir(path):  # `**` brings the files in it by their own names
                yield from self.reached(path, start)

    def reached(self, path: str, start: str) -> Iterator[Found]:
        """A file that was not met on a walk: asked of every folder on the way from `start`, as a walk would."""
        from .ignoring import around, names_of

        names, level = names_of(start), around(start)
        inside = names_of(os.path.abspath(path))
        for k in range(len(names), len(inside) - 1 if inside[: len(names)] == names else 0):
            here = inside[: k + 1]
            if inside[k] in PASSED_OVER or level.hides(here, is_folder=True):
                return
            level = level.enter(here, "/" + "/".join(here))
        yield from self.looked(path, level)

    def below(self, folder: str) -> Iterator[Found]:
        """The proposals below a folder: those in it by name, then those of its folders by name."""
        from .ignoring import around, names_of

        start = os.path.abspath(folder)
        stack: list[tuple[str, Ignoring]] = [(folder, around(start))]
        root = checkout_root(start)
        while stack:
            here, level = stack.pop()
            try:
                with os.scandir(here) as entries:
                    listed = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                yield Found(_shown(here), _unreadable(here, error))
                continue
            later: list[tuple[str, Ignoring]] = []
            for entry in listed:
                path = _joined(here, entry.name)
                names = names_of(os.path.abspath(path))
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in PASSED_OVER and not level.hides(names, is_folder=True):
                        later.append((path, level.enter(names, path)))
                elif entry.name.lower().endswith(LAUNCH_ENDINGS) and not (entry.is_symlink() and not _inside(path, root)):
                    yield from self.looked(path, level)
            stack += reversed(later)

    def looked(self, path: str, level: Ignoring) -> Iterator[Found]:
        """A file, if it is a proposal that is not left out."""
        from .ignoring import names_of

        if level.hides(names_of(os.path.abspath(path)), is_folder=False):
            return
        try:
            meant = self.wanted(path)
        except OSError as error:
            if self.new(path):
                yield Found(_shown(path), _unreadable(path, error))
            return
        if meant and self.new(path):
            yield Found(_shown(path), launch=meant == "launch")
        elif not meant:
            self.looked_at += 1


def discover(
    paths: Sequence[str],
    *,
    only_proposals: bool = False,
    wanted: Callable[[str], bool | str | None] = sniffed,
) -> Discovery:
    """The files that `paths` stand for, in the order of the paths, those below a folder by name, files before folders.

    `only_proposals` treats a named file as one below a folder. `wanted` says what is meant, `launch` for what may be a launch
    file; it may raise OSError.
    """
    search = _Search(wanted)
    found = tuple(one for path in paths for one in search.named(path, only_proposals))
    return Discovery(found, search.looked_at)


def _unmagical(pattern: str) -> str:
    """The folder that all matches of a glob lie in: what stands before its first part with a magic character."""
    parts = pattern.split("/")
    first = next(k for k, part in enumerate(parts) if any(char in part for char in _MAGIC))
    return "/".join(parts[:first]) or ("/" if pattern.startswith("/") else ".")


def checkout_root(folder: str) -> str:
    """The checkout that an absolute path lies in, resolved; the folder itself where there is none."""
    here = os.path.realpath(folder)
    for candidate in _upwards(here):
        if os.path.lexists(os.path.join(candidate, ".git")):
            return candidate
    return here


def _upwards(path: str) -> Iterable[str]:
    while True:
        yield path
        above = os.path.dirname(path)
        if above == path:
            return
        path = above


def _inside(path: str, root: str) -> bool:
    """Whether what a link names is a file in `root`."""
    real = os.path.realpath(path)
    return os.path.commonpath([real, root]) == root


def _joined(folder: str, name: str) -> str:
    return name if folder in (".", "./") else os.path.join(folder, name)


def _shown(path: str) -> str:
    """A path as reports name it: without './' in front."""
    while path.startswith("./") and path.strip("./"):
        path = path[2:].lstrip("/")
    return path


def _unreadable(path: str, error: OSError) -> InputError:
    return InputError(
        f"It cannot be read: {error.strerror or error}.",
        code="input.unreadable",
        place=Place(_shown(path)),
        remedy="Make it readable, or leave it out with an ignore file.",
    )
