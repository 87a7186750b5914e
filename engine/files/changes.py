"""What a git checkout has changed against a revision: committed, staged, in the work tree, and new files.

Git is called with a fixed list of arguments, without a shell, with a deadline, and only to read. A change is taken against the
point where the checkout left the revision, so what happened there since is not counted. Knows nothing of proposals.
"""

from __future__ import annotations

import os
import subprocess
from typing import Final

from ..errors import UsageError
from ..frozen import dataclass

TIMEOUT: Final = 30.0
#: A file is searched for names of changed files up to here.
_SEARCHED: Final = 1024 * 1024
_SWITCHES: Final = ("-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false")
_QUIET: Final = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}


@dataclass(frozen=True, slots=True)
class Changes:
    """Changed files of the checkout at `root`, as resolved paths: those that are there, and the names of all, gone ones too."""

    base: str
    root: str
    present: frozenset[str]
    names: frozenset[bytes]

    def touches(self, path: str) -> bool:
        """Whether a file is changed, or names one that is: what a proposal rests on may change while it does not.

        A name is looked for anywhere in the text, so this errs on the side of yes. Raises UsageError for a file outside of
        the checkout, OSError for one that cannot be read.
        """
        real = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(path))), os.path.basename(path))
        if os.path.commonpath([real, self.root]) != self.root:
            raise UsageError(
                f"'{path}' is not in this checkout, so what it was at '{self.base}' is not known",
                code="usage.diff",
                remedy="Run the command in the checkout that the file belongs to.",
            )
        if real in self.present:
            return True
        if not self.names:
            return False
        with open(real, "rb") as file:
            text = file.read(_SEARCHED)
        return any(name in text for name in self.names)


def changes_since(base: str, folder: str | os.PathLike[str]) -> Changes:
    """What the checkout around `folder` has changed since `base`. Raises UsageError: no checkout, no such revision, no git."""
    if not base or base.startswith("-") or not base.isprintable():
        raise _no_revision(base)
    done = _git(folder, "rev-parse", "--show-toplevel")
    if done.returncode:
        raise UsageError(
            "what changed can only be told inside a git checkout, and this folder is in none",
            code="usage.diff",
            remedy="Run it in the checkout, or leave --diff out.",
        )
    root = os.path.realpath(os.fsdecode(done.stdout.rstrip(b"\r\n")))
    found = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}")
    commit = found.stdout.decode("ascii", "replace").strip()
    if found.returncode or not commit:
        raise _no_revision(base)
    # Where histories have nothing in common, or a shallow clone lacks it, the revision itself is the point.
    fork = _git(root, "merge-base", "--end-of-options", commit, "HEAD")
    point = fork.stdout.decode("ascii", "replace").strip() if not fork.returncode else commit
    options = ("--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-relative", "--ignore-submodules=all")
    changed = _listed(root, "diff", *options, point, "--")
    new = _listed(root, "ls-files", "-z", "--others", "--exclude-standard")
    paths = {os.path.join(root, os.fsdecode(name)) for name in (*changed, *new)}
    return Changes(
        base,
        root,
        frozenset(path for path in paths if os.path.lexists(path)),
        frozenset(os.fsencode(os.path.basename(path)) for path in paths),
    )


def _listed(root: str, *arguments: str) -> list[bytes]:
    done = _git(root, *arguments)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise UsageError(
            f"'git {arguments[0]}' failed: {said[-1] if said else f'status {done.returncode}'}",
            code="usage.git",
            remedy="Try it by hand in this checkout.",
        )
    return [name for name in done.stdout.split(b"\0") if name]


def _git(folder: str | os.PathLike[str], *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = ["git", "-C", os.fspath(folder), *_SWITCHES, *arguments]
    try:
        return subprocess.run(  # git with a list of arguments, no shell  # nosec B603
            command, capture_output=True, stdin=subprocess.DEVNULL, env={**os.environ, **_QUIET}, timeout=TIMEOUT, check=False
        )
    except FileNotFoundError:
        raise UsageError("git is not installed here", code="usage.git", remedy="Install git, or leave --diff out.") from None
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"'git {arguments[0]}' did not end within {TIMEOUT:g} s", code="usage.git", remedy="Try it by hand in this checkout."
        ) from None


def _no_revision(base: str) -> UsageError:
    shown = base if base.isprintable() else ascii(base)
    return UsageError(
        f"there is no revision '{shown}' in this checkout",
        code="usage.diff",
        remedy="Name a branch, a tag or a commit that is here, such as origin/main; a shallow clone may have to fetch it first.",
    )
