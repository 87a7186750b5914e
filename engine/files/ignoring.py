"""Ignore files: what `.gitignore` and `.planproofignore` leave out, by git's rules (gitignore(5)).

Vocabulary: a *pattern* is one line; its *parts* are what stands between slashes; a *part* matches one name. `**` as a whole
part stands for any number of folders. Patterns come from strangers: matching takes at most the product of the lengths, never
more, so no pattern makes it hang. Knows nothing of what the files hold.
"""

from __future__ import annotations

import os
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from ..document.source import read_at_most
from ..frozen import dataclass

#: In this order: what the first says outweighs the second.
NAMES: Final = (".planproofignore", ".gitignore")
#: An ignore file is read up to here.
MAX_BYTES: Final = 256 * 1024
_CLASSES: Final[Mapping[str, Callable[[str], bool]]] = {
    "alnum": str.isalnum,
    "alpha": str.isalpha,
    "blank": lambda char: char in " \t",
    "cntrl": lambda char: not char.isprintable(),
    "digit": str.isdigit,
    "graph": lambda char: char.isprintable() and char != " ",
    "lower": str.islower,
    "print": str.isprintable,
    "punct": lambda char: char in string.punctuation,
    "space": str.isspace,
    "upper": str.isupper,
    "xdigit": lambda char: char in string.hexdigits,
}
_CLASS: Final = re.compile(r"\[:([a-z]+):\]")


@dataclass(frozen=True, slots=True)
class _Set:
    """A bracket: single characters, ranges and named classes, all of them negated or not."""

    negated: bool
    ranges: tuple[tuple[str, str], ...]
    classes: tuple[str, ...]

    def holds(self, char: str) -> bool:
        inside = any(low <= char <= high for low, high in self.ranges) or any(_CLASSES[name](char) for name in self.classes)
        return inside is not self.negated


#: A part: characters, sets, None for one character of any kind, and "" for any number of them.
_Part = tuple["str | _Set | None", ...]


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A line. `parts` None stands for `**`; `anchored` patterns start at the ignore file's folder."""

    parts: tuple[_Part | None, ...]
    anchored: bool
    folders_only: bool
    negated: bool

    def matches(self, names: Sequence[str], is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        if not self.anchored:
            part = self.parts[0]
            return part is None or _fits(part, names[-1])
        return _walks(self.parts, names)


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The patterns of one file, in order."""

    patterns: tuple[_Pattern, ...]

    @classmethod
    def parse(cls, lines: Iterable[str]) -> IgnoreRules:
        """The patterns of these lines; comments, blank lines and what can match nothing are passed over."""
        return cls(tuple(pattern for line in lines if (pattern := _pattern(line)) is not None))

    def verdict(self, names: Sequence[str], is_folder: bool) -> bool | None:
        """Whether the last pattern that matches the path (from the file's folder) leaves it out; None where none does."""
        for pattern in reversed(self.patterns):
            if pattern.matches(names, is_folder):
                return not pattern.negated
        return None


@dataclass(frozen=True, slots=True)
class Ignoring:
    """What the ignore files of a folder and of those above it say; `above` is the next one that has any."""

    folder: tuple[str, ...]
    rules: tuple[IgnoreRules, ...]
    above: Ignoring | None = None

    def hides(self, names: tuple[str, ...], is_folder: bool) -> bool:
        """Whether the path (its names from the file system's root) is left out: the deepest file that speaks of it counts."""
        level: Ignoring | None = self
        while level is not None:
            inside = names[len(level.folder) :]
            for rules in level.rules:
                found = rules.verdict(inside, is_folder)
                if found is not None:
                    return found
            level = level.above
        return False

    def enter(self, folder: tuple[str, ...], path: str) -> Ignoring:
        """The same with the ignore files that lie in the folder `path`, whose names are `folder`."""
        rules = _read(path)
        return Ignoring(folder, rules, self) if rules else self


def around(folder: str) -> Ignoring:
    """What the ignore files in and above the absolute path `folder` say, up to the checkout that it lies in.

    Where they leave `folder` itself out, somebody named it all the same: then only what lies inside it is asked.
    """
    names = names_of(folder)
    top = next((k for k in range(len(names), -1, -1) if os.path.lexists(os.path.join(_path(names[:k]), ".git"))), len(names))
    level = Ignoring((), ())
    for k in range(top, len(names)):
        level = level.enter(names[:k], _path(names[:k]))
        if level.hides(names[: k + 1], is_folder=True):
            level = Ignoring((), ())
            break
    return level.enter(names, folder)


def names_of(path: str) -> tuple[str, ...]:
    """The names on an absolute path."""
    return tuple(name for name in path.split("/") if name)


def _path(names: Sequence[str]) -> str:
    return "/" + "/".join(names)


def _read(folder: str) -> tuple[IgnoreRules, ...]:
    """The ignore files of a folder that can be read and say something; links are not followed."""
    found = []
    for name in NAMES:
        try:
            flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
            descriptor = os.open(os.path.join(folder, name), flags)
        except OSError:
            continue
        try:
            raw = read_at_most(descriptor, MAX_BYTES)
        except OSError:
            continue
        finally:
            os.close(descriptor)
        rules = IgnoreRules.parse(raw.decode("utf-8-sig", "surrogateescape").split("\n"))
        if rules.patterns:
            found.append(rules)
    return tuple(found)


def _pattern(line: str) -> _Pattern | None:
    line = line.removesuffix("\r")
    while line.endswith(" ") and not _escaped(line, len(line) - 1):
        line = line[:-1]
    if line.startswith("#"):
        return None
    negated = line.startswith("!")
    if negated:
        line = line[1:]
    folders_only = line.endswith("/")
    line = line.removesuffix("/")
    anchored = "/" in line
    line = line.removeprefix("/")
    if not line:
        return None
    if not anchored:
        part = _part(line)
        return None if part is None else _Pattern((part,), False, folders_only, negated)
    texts = line.split("/")
    parts: list[_Part | None] = []
    for text in texts:
        if text == "**":
            parts.append(None)
        else:
            part = _part(text)
            if part is None or not text:
                return None
            parts.append(part)
    if parts[-1] is None:  # what lies inside a folder, and not the folder itself
        parts.insert(-1, ("",))
    return _Pattern(tuple(parts), True, folders_only, negated)


def _escaped(line: str, position: int) -> bool:
    slashes = len(line[:position]) - len(line[:position].rstrip("\\"))
    return slashes % 2 == 1


def _part(text: str) -> _Part | None:
    """The tokens of one part; None for one that matches nothing."""
    tokens: list[str | _Set | None] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char == "*":
            if not tokens or tokens[-1] != "":
                tokens.append("")
        elif char == "?":
            tokens.append(None)
        elif char == "\\":
            if position == len(text):
                return None
            tokens.append(text[position])
            position += 1
        elif char == "[":
            made = _bracket(text, position)
            if made is None:
                return None
            held, position = made
            tokens.append(held)
        else:
            tokens.append(char)
    return tuple(tokens)


def _bracket(text: str, position: int) -> tuple[_Set, int] | None:
    """The set that begins after a '[' and where it ends; None where it does not end."""
    negated = text[position : position + 1] in ("!", "^")
    position += negated
    ranges: list[tuple[str, str]] = []
    classes: list[str] = []
    first = True
    while position < len(text):
        char = text[position]
        if char == "]" and not first:
            return _Set(negated, tuple(ranges), tuple(classes)), position + 1
        first = False
        named = _CLASS.match(text, position)
        if named:
            if named[1] not in _CLASSES:
                return None
            classes.append(named[1])
            position = named.end()
            continue
        low, position = _one(text, position)
        if text[position : position + 1] == "-" and text[position + 1 : position + 2] not in ("", "]"):
            high, position = _one(text, position + 1)
        else:
            high = low
        ranges.append((low, high))
    return None


def _one(text: str, position: int) -> tuple[str, int]:
    """A character of a set, after a backslash or not, and the position after it."""
    if text[position] == "\\" and position + 1 < len(text):
        position += 1
    return text[position], position + 1


def _fits(part: _Part, name: str) -> bool:
    """Whether a part matches a whole name. After a mismatch only the last star is tried again, one character further."""
    at, position, star, retry = 0, 0, -1, 0
    while position < len(name):
        token = part[at] if at < len(part) else False
        if token == "":
            star, retry = at, position
            at += 1
        elif token is None or token == name[position] or (isinstance(token, _Set) and token.holds(name[position])):
            at += 1
            position += 1
        elif star >= 0:
            retry += 1
            at, position = star + 1, retry
        else:
            return False
    return all(token == "" for token in part[at:])


def _walks(parts: Sequence[_Part | None], names: Sequence[str]) -> bool:
    """Whether the parts match the whole path: as `_fits`, with names for characters and `**` for the star."""
    at, position, star, retry = 0, 0, -1, 0
    while position < len(names):
        if at < len(parts) and parts[at] is None:
            star, retry = at, position
            at += 1
            continue
        part = parts[at] if at < len(parts) else None
        if part is not None and _fits(part, names[position]):
            at += 1
            position += 1
        elif star >= 0:
            retry += 1
            at, position = star + 1, retry
        else:
            return False
    return all(part is None for part in parts[at:])
