"""Writing a result to a file: whole or not at all. Knows nothing of what it writes."""

from __future__ import annotations

import errno
import glob
import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from ..errors import UsageError

#: How long the reader of a pipe may take to open it: shells start both at once.
PATIENCE_S = 2.0
#: A neighbour younger than this may be about to be locked by the run that made it.
FRESH_S = 1.0
_SUFFIX = ".part"


def write_whole(path: str | os.PathLike[str], text: str, *, overwrite: bool = True) -> None:
    """Write `text` as UTF-8 to `path`, which holds the old content or the new at every moment, never a part.

    A link is followed, so that the file it names is replaced and the link stays; a device or pipe (`/dev/stdout`) is
    written to, a pipe that nobody reads is refused. Raises UsageError where it cannot be done, or where `path` exists
    and `overwrite` is false.
    """
    shown = os.fspath(path)
    try:
        target = Path(os.path.realpath(path))
        mode = target.stat().st_mode if target.exists() else None
        if mode is not None and stat.S_ISDIR(mode):
            raise UsageError(f"'{shown}' is a folder", code="usage.output", remedy="Name a file in it.")
        if mode is not None and not stat.S_ISREG(mode):
            _send(target, text, shown)
            return
        if mode is not None and not overwrite:
            raise _exists(shown)
        _replace(target, text, mode, overwrite)
    except FileExistsError:
        raise _exists(shown) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(
            f"'{shown}' cannot be written: {reason}",
            code="usage.output",
            remedy="Name a file in a folder that exists and that you may write to.",
        ) from None


def demand_writable(path: str | os.PathLike[str]) -> None:
    """Raise UsageError where `write_whole` could not write to `path` for want of its folder, before work is spent on it."""
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise UsageError(
            f"'{os.fspath(path)}' cannot be written: there is no folder '{folder.name}'",
            code="usage.output",
            remedy="Name a file in a folder that exists and that you may write to.",
        )


def _send(target: Path, text: str, shown: str) -> None:
    """Write to a device or pipe. Opening a pipe would wait for a reader for ever; once it is open, writing may wait."""
    until = time.monotonic() + PATIENCE_S
    while (descriptor := _opened(target)) is None:
        if time.monotonic() >= until:
            raise UsageError(
                f"'{shown}' is a pipe that nobody reads",
                code="usage.output",
                remedy="Start its reader first, or name a file.",
            )
        time.sleep(0.02)
    os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


def _opened(target: Path) -> int | None:
    """An open device or pipe; None for a pipe without a reader."""
    try:
        return os.open(target, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None
        raise


def _replace(target: Path, text: str, mode: int | None, overwrite: bool) -> None:
    """Write a neighbour of `target`, then give it the name: both are steps that the file system does at once.

    The neighbour is locked while it is written, so that one which a killed run has left is told from one of a run beside.
    """
    prefix = f".{target.name[:40]}."
    _clear(target.parent, prefix)
    descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=_SUFFIX, dir=target.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            _lock(file.fileno())
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, stat.S_IMODE(mode) if mode is not None else _usual_mode())
        if overwrite:
            os.replace(name, target)
        else:
            os.link(name, target)  # unlike a rename it fails where somebody else was faster
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


def _clear(folder: Path, prefix: str) -> None:
    """Remove what earlier runs left that were killed while they wrote the same file."""
    for left in sorted(folder.glob(f"{glob.escape(prefix)}*{_SUFFIX}")):
        # A neighbour that somebody else may not touch, or that is just being made, stays.
        with suppress(OSError):
            if left.is_symlink() or not left.is_file() or time.time() - left.stat().st_mtime < FRESH_S:
                continue
            descriptor = os.open(left, os.O_RDWR | os.O_NOFOLLOW)
            try:
                if _lock(descriptor):
                    left.unlink()
            finally:
                os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Take the lock of an open file, which ends with the process; whether it was free. Where there are no locks it is not."""
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _usual_mode() -> int:
    """The mode that a new file gets here; asking for the mask is only possible by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask


def _exists(shown: str) -> UsageError:
    return UsageError(
        f"'{shown}' exists already, and was left as it is",
        code="usage.exists",
        remedy="Choose another name, or allow it to be replaced with --force.",
    )
