"""Where a configuration's files are read from: a folder on disk, or a revision of a git checkout. Knows no format.

A path here is POSIX, from the root of the tree, without `.` and `..`; what a tree gives lies inside its root. Git is called
with fixed arguments, without a shell, and only to read: no hook, filter or fetch runs.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from ..errors import UsageError
from ..frozen import dataclass
from .settings import MAX_BYTES

#: What a folder of rules or data sheets may hold in a revision.
MAX_FILES: Final = 5000
MAX_FOLDER_BYTES: Final = 64 * 1024 * 1024
TIMEOUT: Final = 30.0
_QUIET: Final = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "LC_ALL": "C",
}


class Tree(Protocol):
    """Files below a root."""

    @property
    def root(self) -> Path:
        """The root on disk, resolved."""

    @property
    def revision(self) -> str | None:
        """The revision, as it was named; None for what lies on disk."""

    def read(self, path: str) -> bytes | None:
        """The content of a regular file, or None where there is none. Raises UsageError for one that cannot be read."""

    def folder(self, path: str) -> str | None:
        """A folder on disk with the files of the folder `path`, or None where there is none. Raises UsageError."""


@dataclass(frozen=True, slots=True)
class DiskTree:
    """The files as they lie on disk."""

    root: Path
    revision: None = None

    def _inside(self, path: str) -> str:
        real = os.path.realpath(self.root / path)
        if os.path.commonpath([real, self.root]) != str(self.root):
            raise UsageError(
                f"'{path}' leaves the repository through a symbolic link",
                code="usage.config",
                remedy="A configuration reads from inside its repository only.",
            )
        return real

    def read(self, path: str) -> bytes | None:
        """The file, links inside the root followed."""
        real = self._inside(path)
        try:
            status = os.stat(real)
            if not stat.S_ISREG(status.st_mode):
                return None
            with open(real, "rb") as file:
                return file.read(MAX_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            message = f"'{path}' cannot be read: {error.strerror}"
            raise UsageError(message, code="usage.config", remedy="Make it readable.") from None

    def folder(self, path: str) -> str | None:
        """The folder itself."""
        real = self._inside(path)
        return real if os.path.isdir(real) else None


@dataclass(frozen=True, slots=True)
class RevisionTree:
    """The files of a commit; folders are written out below `into`, a folder that the caller removes."""

    root: Path
    revision: str
    commit: str
    into: Path

    def read(self, path: str) -> bytes | None:
        """The file as it was committed."""
        found = self._listed(path, recursive=False)
        if not found or found[0][2] != path:
            return None
        mode, name, _ = found[0]
        if mode == "120000":
            raise self._wrong(f"'{path}' is a symbolic link in {self.revision}", "Commit the file itself.")
        return self._blob(name) if mode.startswith("100") else None

    def folder(self, path: str) -> str | None:
        """The folder's files, written out."""
        found = self._listed(path, recursive=True)
        if path and (not found or found[0][2] == path):
            return None
        if len(found) > MAX_FILES:
            raise self._wrong(f"'{path}' holds {len(found):,} files in {self.revision}; the limit is {MAX_FILES:,}")
        target, total = self.into / self.commit / path, 0
        if target.exists():
            return str(target)
        target.mkdir(parents=True)
        for mode, name, file in found:
            if not mode.startswith("100"):
                raise self._wrong(f"'{file}' is no regular file in {self.revision}", "Commit the file itself.")
            content = self._blob(name)
            total += len(content)
            if total > MAX_FOLDER_BYTES:
                raise self._wrong(f"'{path}' holds more than {MAX_FOLDER_BYTES:,} bytes in {self.revision}")
            out = self.into / self.commit / file
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_bytes(content)
        return str(target)

    def _listed(self, path: str, *, recursive: bool) -> list[tuple[str, str, str]]:
        """Mode, object name and path of what the commit has at `path`, or below it."""
        options = ["-r"] if recursive else []
        raw = git(self.root, "ls-tree", "-z", "--full-tree", *options, self.commit, "--", *([path] if path else []))
        rows = []
        for row in raw.split(b"\0"):
            if row:
                head, _, name = row.partition(b"\t")
                mode, _, object_name = head.decode().split(" ")
                rows.append((mode, object_name, os.fsdecode(name)))
        return [row for row in rows if ".." not in PurePosixPath(row[2]).parts]

    def _blob(self, name: str) -> bytes:
        return git(self.root, "cat-file", "blob", name)

    def _wrong(self, what: str, remedy: str = "Keep folders of rules and data sheets small.") -> UsageError:
        return UsageError(what, code="usage.config", remedy=remedy)


def git(folder: Path, *arguments: str) -> bytes:
    """What a git command prints. Raises UsageError where git is missing, fails, or takes longer than half a minute."""
    import subprocess  # only a revision needs it

    command = ["git", "-C", str(folder), "-c", "core.fsmonitor=false", *arguments]
    try:
        done = subprocess.run(  # git with a list of arguments, no shell  # nosec B603
            command, capture_output=True, stdin=subprocess.DEVNULL, env={**os.environ, **_QUIET}, timeout=TIMEOUT, check=False
        )
    except FileNotFoundError:
        remedy = "Install git, or leave the revision out."
        raise UsageError("git is not installed here", code="usage.git", remedy=remedy) from None
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"'git {arguments[0]}' did not end within {TIMEOUT:g} s", code="usage.git", remedy="Try it by hand in this checkout."
        ) from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise UsageError(
            f"'git {arguments[0]}' failed: {said[-1] if said else f'status {done.returncode}'}",
            code="usage.git",
            remedy="Run it inside a git checkout, with a revision that exists there.",
        )
    return done.stdout


def revision_tree(base: str, folder: Path, into: Path) -> RevisionTree:
    """The tree of revision `base` in the checkout around `folder`. Raises UsageError where there is none."""
    if not base or base.startswith("-") or not base.isprintable():
        remedy = "Name a branch, a tag or a commit, such as origin/main."
        raise UsageError(f"'{base}' is no revision", code="usage.git", remedy=remedy)
    try:
        root = os.fsdecode(git(folder, "rev-parse", "--show-toplevel").rstrip(b"\r\n"))
        commit = git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}").decode().strip()
    except UsageError as error:
        if error.message.startswith("'git rev-parse' failed: status"):
            raise UsageError(
                f"there is no revision '{base}' in this checkout",
                code="usage.git",
                remedy="Fetch it first (a shallow clone may lack it), or name another.",
            ) from None
        raise
    return RevisionTree(Path(os.path.realpath(root)), base, commit, into)
