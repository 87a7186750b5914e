"""Files that a proposal names: read from inside its repository, and from nowhere else.

A reference is a relative POSIX path, taken from the proposal's folder. Proposals come from strangers: nothing outside
the repository's root is opened, read or told apart from what is missing; nothing is fetched; nothing blocks. Links
inside the root are followed. Knows nothing of what the files mean.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ..document import quoted
from ..document.source import file_type, read_at_most
from ..errors import FileReferenceError, Place
from ..frozen import dataclass

DEFAULT_LIMIT: Final = 8 * 1024 * 1024
MAX_REFERENCE_CHARACTERS: Final = 1024
_ROOT_MARKS: Final = (".git", "planproof.toml")
# Compiled where a proposal names a file.
_URL: Final = r"(?i:[a-z][a-z0-9+.-]*://|(?:https?|ftp|file|data):)"
_DRIVE: Final = r"[A-Za-z]:"
_UNPRINTABLE: Final = "[\x00-\x1f\x7f-\x9f\ud800-\udfff]"
_HOW: Final = "Name a file of this repository by its path from the proposal's folder, such as data/stages.csv."


@dataclass(frozen=True, slots=True)
class Referenced:
    """A file as it was read: the reference as written, its POSIX path from the root, its bytes and their digest."""

    name: str
    path_in_repository: str
    raw: bytes
    sha256: str


def repository_root(proposal_path: str | os.PathLike[str]) -> Path:
    """The nearest folder around the proposal that holds `.git` or `planproof.toml`; else the proposal's own folder."""
    folder = _folder(proposal_path)
    for candidate in (folder, *folder.parents):
        if any(os.path.lexists(candidate / mark) for mark in _ROOT_MARKS):
            return candidate
    return folder


def read_reference(
    reference: str, *, proposal: Path, root: Path, place: Place, limit: int = DEFAULT_LIMIT
) -> Referenced:
    """The file that a proposal names. Whatever is wrong with it is a FileReferenceError at `place`."""
    request = _Request(reference, place, limit)
    request.demand_form()
    real_root = os.path.realpath(root)
    try:
        inside = request.inside(os.path.realpath(_folder(proposal)), real_root)
        raw = request.read(real_root, inside)
    except OSError as error:
        raise request.of_system(error) from None
    except UnicodeError:
        raise request.error("cannot be written in this file system's encoding", "reference.form") from None
    return Referenced(reference, "/".join(inside), raw, hashlib.sha256(raw).hexdigest())


def _folder(proposal: str | os.PathLike[str]) -> Path:
    return Path(os.path.realpath(Path(proposal).absolute().parent))


@dataclass(frozen=True, slots=True)
class _Request:
    """One reference on its way through the checks, in their order."""

    reference: str
    place: Place
    limit: int

    def demand_form(self) -> None:
        """What the text alone tells."""
        reference = self.reference
        if not reference.strip():
            raise self.error("names no file", "reference.empty")
        if len(reference) > MAX_REFERENCE_CHARACTERS:
            raise self.error(
                f"has {len(reference):,} characters; the limit is {MAX_REFERENCE_CHARACTERS:,}", "reference.form"
            )
        if found := re.search(_UNPRINTABLE, reference):
            raise self.error(f"holds the control character U+{ord(found[0]):04X}", "reference.form")
        if re.match(_URL, reference):
            raise self.error(
                "is a URL, and nothing is fetched",
                "reference.url",
                "Save the file in the repository and name its path; the URL can stand in 'source'.",
            )
        if "\\" in reference:
            raise self.error("holds a backslash", "reference.form", "Separate folders with '/'.")
        if re.match(_DRIVE, reference):
            raise self.error("begins with a drive letter", "reference.absolute")
        if reference.startswith("/"):
            raise self.error("is an absolute path", "reference.absolute")
        if reference.endswith(("/", "/.", "/..")):
            raise self.error("names a directory, not a regular file", "reference.not_a_file")
        if reference.startswith("~"):
            raise self.error("begins with '~', which is not expanded", "reference.absolute")

    def inside(self, folder: str, root: str) -> tuple[str, ...]:
        """The components from the root to the file, links resolved."""
        start = _below(folder, root)
        if start is None:
            raise self.error("belongs to a proposal that is outside the repository's root", "reference.outside")
        # Judged on the text first: whether something exists beyond the root must not show.
        depth = len(start)
        for component in self.reference.split("/"):
            depth += {"": 0, ".": 0, "..": -1}.get(component, 1)
            if depth < 0:
                raise self.error("leaves the repository with '..'", "reference.outside")
        inside = _below(os.path.realpath(os.path.join(folder, self.reference)), root)
        if inside is None:
            raise self.error("leaves the repository through a symbolic link", "reference.outside")
        if any(component.lower() == ".git" for component in inside):
            raise self.error("lies in .git, which may hold credentials", "reference.outside")
        if not inside:
            raise self.error("is a directory, not a regular file", "reference.not_a_file")
        return inside

    def read(self, root: str, inside: tuple[str, ...]) -> bytes:
        """The bytes, opened component by component without following links: what was judged is what is read."""
        if os.open not in os.supports_dir_fd:
            raise self.error("cannot be opened safely on this operating system", "reference.unreadable")
        with _opened(root, os.O_DIRECTORY) as top, _walked(top, inside[:-1]) as folder:
            # A device may act on being opened: look first, and again at what was opened.
            self.demand_regular(os.stat(inside[-1], dir_fd=folder, follow_symlinks=False).st_mode)
            with _opened(inside[-1], os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW, folder) as file:
                status = os.fstat(file)
                self.demand_regular(status.st_mode)
                if status.st_size > self.limit:
                    raise self.error(
                        f"has {status.st_size:,} bytes; the limit is {self.limit:,}",
                        "reference.too_large",
                        "Cut it to the rows that the proposal rests on.",
                    )
                if status.st_size == 0:
                    raise self.error("is empty", "reference.empty", "Name the file that holds the data.")
                raw = read_at_most(file, status.st_size + 1)
        if len(raw) != status.st_size:
            # Also what the kernel's own files do (/proc, /sys).
            raise self.error(
                f"gave {len(raw):,} bytes where its size is {status.st_size:,}",
                "reference.unreadable",
                "Name a file that nothing writes meanwhile.",
            )
        return raw

    def demand_regular(self, mode: int) -> None:
        if not stat.S_ISREG(mode):
            raise self.error(f"is a {file_type(mode)}, not a regular file", "reference.not_a_file")

    def of_system(self, error: OSError) -> FileReferenceError:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return self.error("does not exist", "reference.missing")
        if error.errno == errno.ELOOP:
            return self.error("is a symbolic link that ends nowhere, or changed just now", "reference.missing")
        return self.error(f"cannot be read: {error.strerror}", "reference.unreadable", "Make it readable.")

    def error(self, what: str, code: str, remedy: str = _HOW) -> FileReferenceError:
        return FileReferenceError(
            f"The file reference {quoted(self.reference)} {what}.", code=code, place=self.place, remedy=remedy
        )


def _below(path: str, root: str) -> tuple[str, ...] | None:
    """The components of `path` below `root`, both resolved; None where it is not below."""
    path_parts, root_parts = Path(path).parts, Path(root).parts
    return path_parts[len(root_parts) :] if path_parts[: len(root_parts)] == root_parts else None


@contextmanager
def _opened(path: str, flags: int, folder: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _walked(top: int, components: tuple[str, ...]) -> Iterator[int]:
    """The folder below an open one, no component of it a link. Two folders are open at a time, however deep it lies."""
    folder = os.dup(top)
    try:
        for component in components:
            below = os.open(component, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)
