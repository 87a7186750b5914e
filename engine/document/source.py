"""From bytes to text that can be parsed: size, encoding, forbidden characters; offsets to lines and columns.

An *offset* counts characters of the text (a byte order mark is not part of it). A line ends with LF, CR LF or CR. A
column counts characters from 1. This module knows no syntax.
"""

from __future__ import annotations

import os
import re
import stat
from bisect import bisect_right
from typing import Final

from ..errors import InputError, Place
from ..frozen import dataclass
from .limits import MAX_BYTES

_LINE_END: Final = re.compile(r"\r\n?|\n")
# C0 without tab, LF and CR; DEL; C1; half surrogates (only an escape can make one); a byte order mark inside the text;
# the two noncharacters that no YAML parser takes.
FORBIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")
_FOREIGN_MARKS: Final = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)


@dataclass(frozen=True, slots=True)
class Source:
    """The text of one file with the offsets at which its lines begin."""

    name: str
    text: str
    line_starts: tuple[int, ...]

    def place(self, offset: int, pointer: str | None = None) -> Place:
        """The line and column of a character."""
        line = bisect_right(self.line_starts, offset)
        return Place(self.name, line, offset - self.line_starts[line - 1] + 1, pointer)

    def line(self, number: int) -> str:
        """Line `number` (from 1) without its end; empty beyond the text."""
        if not 1 <= number <= len(self.line_starts):
            return ""
        end = self.line_starts[number] if number < len(self.line_starts) else len(self.text)
        return self.text[self.line_starts[number - 1] : end].rstrip("\r\n")


def source_of(name: str, text: str) -> Source:
    """The text with its line table."""
    return Source(name, text, (0, *(match.end() for match in _LINE_END.finditer(text))))


def decode(raw: bytes, name: str) -> Source:
    """The text of a file. Too large, empty, not UTF-8 or holding control characters: InputError."""
    if len(raw) > MAX_BYTES:
        raise too_large(name, MAX_BYTES, len(raw))
    for mark, encoding in _FOREIGN_MARKS:
        if raw.startswith(mark):
            raise InputError(
                f"The file is {encoding} (byte order mark at byte 0), not UTF-8.",
                code="input.encoding",
                place=Place(name, 1, 1),
                remedy="Save it as UTF-8.",
            )
    bom = 3 if raw.startswith(b"\xef\xbb\xbf") else 0
    try:
        text = raw[bom:].decode("utf-8")
    except UnicodeDecodeError as error:
        position = bom + error.start
        before = source_of(name, raw[bom:position].decode("utf-8"))
        raise InputError(
            f"Byte {position} (0x{raw[position]:02x}) is not UTF-8: {error.reason}.",
            code="input.encoding",
            place=before.place(len(before.text)),
            remedy="Save the file as UTF-8.",
        ) from None
    if not text.strip(" \t\r\n"):
        raise empty(name)
    source = source_of(name, text)
    if forbidden := FORBIDDEN.search(text):
        raise InputError(
            f"The file holds the control character U+{ord(forbidden[0]):04X} (character {forbidden.start()}).",
            code="input.control_character",
            place=source.place(forbidden.start()),
            remedy="Remove it: a document is plain text with tab and line ends only.",
        )
    return source


def read_file(path: str | os.PathLike[str], name: str) -> bytes:
    """The bytes of a regular file of at most the size limit. Never blocks; a file that is too large is not read."""
    try:
        # A device may act on being opened: look before opening, and again at what was opened.
        _demand_regular(os.stat(path).st_mode, name)
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(path, flags)
        with open(descriptor, "rb", buffering=0) as file:
            status = os.fstat(descriptor)
            _demand_regular(status.st_mode, name)
            if status.st_size > MAX_BYTES:
                raise too_large(name, MAX_BYTES, status.st_size)
            return read_at_most(file.fileno(), MAX_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"The file cannot be read: {error.strerror or error}.",
            code="input.missing" if isinstance(error, FileNotFoundError) else "input.unreadable",
            place=Place(name),
            remedy="Name a readable YAML or JSON file.",
        ) from None
    except ValueError as error:  # a NUL or a lone surrogate in the path
        raise InputError(
            f"The path cannot be opened: {error}.",
            code="input.unreadable",
            place=Place(name),
            remedy="Name a readable YAML or JSON file.",
        ) from None


def read_at_most(descriptor: int, size: int) -> bytes:
    """Up to `size` bytes from an open file."""
    parts: list[bytes] = []
    while size > 0 and (part := os.read(descriptor, min(size, 1 << 20))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def file_type(mode: int) -> str:
    """What a file of this mode is, in words."""
    for test, word in (
        (stat.S_ISREG, "regular file"),
        (stat.S_ISDIR, "directory"),
        (stat.S_ISFIFO, "FIFO"),
        (stat.S_ISSOCK, "socket"),
        (stat.S_ISCHR, "character device"),
        (stat.S_ISBLK, "block device"),
        (stat.S_ISLNK, "symbolic link"),
    ):
        if test(mode):
            return word
    return "special file"


def _demand_regular(mode: int, name: str) -> None:
    if not stat.S_ISREG(mode):
        raise InputError(
            f"This is a {file_type(mode)}, not a regular file.",
            code="input.not_a_file",
            place=Place(name),
            remedy="Name a YAML or JSON file.",
        )


def too_large(name: str, limit: int, size: int) -> InputError:
    """The error for a file above the limit."""
    return InputError(
        f"The file has {size:,} bytes; the limit is {limit:,}.",
        code="input.too_large",
        place=Place(name),
        remedy="A document of this kind is a few pages; keep measurements in files of their own and refer to them.",
    )


def empty(name: str) -> InputError:
    """The error for a file without content."""
    return InputError(
        "The file is empty.",
        code="input.empty",
        place=Place(name, 1, 1),
        remedy="Write a mapping of keys to values.",
    )


def quoted(text: str, limit: int = 60) -> str:
    """A text from a file as a message shows it: in quotes, cut, and with nothing that a terminal would obey."""
    shown = text if len(text) <= limit else text[: limit - 3] + "..."
    return "'" + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown) + "'"
