"""Words of a shell script: from text to segments, quotes and substitutions told apart. Nothing is expanded.

Vocabulary: a *segment* is a part of a word (literal text, a parameter, an arithmetic expression, a command substitution); a
*word* is segments side by side; offsets count characters of the whole script. What cannot be understood is a `ShellError`
with its offset.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]|[@*#?$!-]")


class ShellError(Exception):
    """Text that is not understood, and where."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a word. `text` is literal text, or what stands inside `${...}`, `$((...))` or `$(...)`."""

    kind: Literal["text", "parameter", "arithmetic", "command"]
    text: str
    offset: int
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """Segments that make one word before it is expanded."""

    segments: tuple[Segment, ...]
    offset: int

    @property
    def literal(self) -> str | None:
        """The word's text, where nothing in it has to be expanded."""
        if all(one.kind == "text" for one in self.segments):
            return "".join(one.text for one in self.segments)
        return None


def unknown_word(offset: int) -> Word:
    """A word that is never decided."""
    return Word((Segment("command", "?", offset),), offset)


def word_of(text: str, start: int, end: int) -> Word:
    """The text from `start` to `end` as one word inside double quotes, as in `${x:-this}` or a here-document."""
    return WordReader(text, start, end).quoted_text()


class WordReader:
    """Reads words from `at` on; each method moves behind what it reads."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.text, self.at, self.end = text, start, end

    def word(self, *, empty: bool = False) -> Word:
        """The word that begins here; an empty one where that is allowed."""
        offset = self.at
        segments: list[Segment] = []
        while self.at < self.end:
            char = self.text[self.at]
            if char in " \t\r\n;&|()<>" and not (char in "<>" and self.text.startswith("(", self.at + 1)):
                break
            if char == "\\":
                if self.text.startswith("\\\n", self.at):
                    self.at += 2
                    continue
                segments.append(Segment("text", self.text[self.at + 1 : self.at + 2], self.at + 1, True))
                self.at += 2
            elif char == "'":
                stop = self.text.find("'", self.at + 1, self.end)
                if stop < 0:
                    raise ShellError("a single quote is not closed", self.at)
                segments.append(Segment("text", self.text[self.at + 1 : stop], self.at + 1, True))
                self.at = stop + 1
            elif self.text.startswith("$'", self.at):
                stop = self.at + 2
                while stop < self.end and self.text[stop] != "'":
                    stop += 2 if self.text[stop] == "\\" else 1
                segments.append(Segment("text", self.text[self.at + 2 : stop], self.at + 2, True))
                self.at = min(stop + 1, self.end)
            elif char == '"' or self.text.startswith('$"', self.at):
                self.at += 1 if char == '"' else 2
                segments += self.double_quoted()
            elif char == "$":
                segments.append(self.dollar(False))
            elif char == "`":
                segments.append(self.backtick(False))
            elif char in "<>":
                inner = self.balanced(self.at + 2, "(", ")")
                segments.append(Segment("command", inner, self.at))
            else:
                start = self.at
                while self.at < self.end and self.text[self.at] not in " \t\r\n;&|()<>\\'\"$`":
                    self.at += 1
                segments.append(Segment("text", self.text[start : self.at], start))
        if not segments and not empty:
            if self.at == offset:
                raise ShellError(f"a word must stand here, not {self.text[self.at : self.at + 1]!r}", self.at)
            segments.append(Segment("text", "", offset, True))
        return Word(tuple(segments), offset)

    def double_quoted(self) -> list[Segment]:
        """What stands between here and the closing double quote."""
        opening = self.at - 1
        segments = [Segment("text", "", self.at, True)]
        start = self.at
        while True:
            if self.at >= self.end:
                raise ShellError("a double quote is not closed", opening)
            char = self.text[self.at]
            if char in '"\\$`' and self.at > start:
                segments.append(Segment("text", self.text[start : self.at], start, True))
            if char == '"':
                self.at += 1
                return segments
            if char == "\\":
                after = self.text[self.at + 1 : self.at + 2]
                if after != "\n":
                    kept = after if after in '"\\$`' else "\\" + after
                    segments.append(Segment("text", kept, self.at + 1, True))
                self.at += 2
            elif char == "$":
                segments.append(self.dollar(True))
            elif char == "`":
                segments.append(self.backtick(True))
            else:
                self.at += 1
                continue
            start = self.at

    def quoted_text(self) -> Word:
        """Everything up to the end, as inside double quotes; double quotes are plain characters."""
        offset = start = self.at
        segments: list[Segment] = []
        while self.at < self.end:
            char = self.text[self.at]
            if char not in "\\$`":
                self.at += 1
                continue
            if self.at > start:
                segments.append(Segment("text", self.text[start : self.at], start, True))
            if char == "\\":
                after = self.text[self.at + 1 : self.at + 2]
                if after != "\n":
                    segments.append(Segment("text", after if after in "\\$`" else "\\" + after, self.at + 1, True))
                self.at = min(self.at + 2, self.end)
            else:
                segments.append(self.dollar(True) if char == "$" else self.backtick(True))
            start = self.at
        if self.at > start:
            segments.append(Segment("text", self.text[start : self.at], start, True))
        return Word(tuple(segments), offset)

    def dollar(self, quoted: bool) -> Segment:
        """What a `$` begins: a parameter, a substitution, arithmetic, or itself."""
        offset = self.at
        if self.text.startswith("$((", offset):
            saved = self.at
            try:
                return Segment("arithmetic", self.balanced(offset + 3, "((", "))"), offset, quoted)
            except ShellError:
                self.at = saved
        if self.text.startswith("$(", offset):
            return Segment("command", self.balanced(offset + 2, "(", ")"), offset, quoted)
        if self.text.startswith("$[", offset):
            return Segment("arithmetic", self.balanced(offset + 2, "[", "]"), offset, quoted)
        if self.text.startswith("${", offset):
            return Segment("parameter", self.balanced(offset + 2, "{", "}"), offset, quoted)
        match = _NAME.match(self.text, offset + 1, self.end)
        if match is None:
            self.at = offset + 1
            return Segment("text", "$", offset, quoted)
        self.at = match.end()
        return Segment("parameter", match[0], offset, quoted)

    def backtick(self, quoted: bool) -> Segment:
        """A command substitution of the older form."""
        offset = self.at
        stop = offset + 1
        while stop < self.end and self.text[stop] != "`":
            stop += 2 if self.text[stop] == "\\" else 1
        if stop >= self.end:
            raise ShellError("a backtick is not closed", offset)
        self.at = stop + 1
        return Segment("command", self.text[offset + 1 : stop], offset, quoted)

    def balanced(self, start: int, opening: str, closing: str) -> str:
        """The text from `start` to the closing bracket that belongs to it; moves behind it."""
        single_open, single_close = opening[0], closing[0]
        depth, at = len(closing), start
        while at < self.end:
            char = self.text[at]
            if char == "\\":
                at += 2
                continue
            if char == "'" and opening != "((":
                stop = self.text.find("'", at + 1, self.end)
                at = stop if stop > 0 else at
            elif char == '"':
                at = self.closing_quote(at)
            elif char == "#" and opening == "(" and self.text[at - 1] in " \t\n":
                stop = self.text.find("\n", at, self.end)
                at = self.end if stop < 0 else stop
                continue
            elif char == single_open:
                depth += 1
            elif char == single_close:
                depth -= 1
                if depth == 0:
                    inner = self.text[start : at - len(closing) + 1]
                    if len(closing) == 2 and not self.text.startswith(closing, at - 1):
                        break
                    self.at = at + 1
                    return inner
            at += 1
        raise ShellError(f"'{closing}' is missing for what begins here", max(0, start - len(opening) - 1))

    def closing_quote(self, at: int) -> int:
        """The offset of the double quote that closes the one at `at`."""
        stop = at + 1
        while stop < self.end and self.text[stop] != '"':
            stop += 2 if self.text[stop] == "\\" else 1
        return stop
