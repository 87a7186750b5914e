"""Texts of a shell script that remember where each part was written, and integer arithmetic over them.

Vocabulary: a *piece* is a run of characters with the offset at which the script has it; an *open* piece is one that the script
alone does not decide, with the reason; a *text* is pieces side by side. Nothing here knows commands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

#: Characters of one value; a script that builds longer ones is not read further.
MAX_LENGTH: Final = 100_000
#: Pieces of one value: open ones may have no characters, and are counted all the same.
MAX_PIECES: Final = 5_000
_TOKEN: Final = re.compile(r"\s*(\d+#\w+|0[xX][0-9a-fA-F]+|\d+|[A-Za-z_]\w*|\*\*|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%()<>!~&|^?:])")
_LEVELS: Final = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<=", ">=", "<", ">"), ("<<", ">>"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of characters; `why` is set where the script does not decide it, and `text` is then what it shows."""

    text: str
    offset: int
    why: str | None = None


Text = tuple[Piece, ...]


def plain(text: Text) -> str | None:
    """The characters of a text; None where a part of it is open."""
    return None if any(piece.why is not None for piece in text) else "".join(piece.text for piece in text)


def shown(text: Text) -> str:
    """The characters of a text, open parts as they stand in the script."""
    return "".join(piece.text for piece in text)


def reason(text: Text) -> str | None:
    """Why a text is open, if it is."""
    return next((piece.why for piece in text if piece.why is not None), None)


def offset_of(text: Text) -> int | None:
    """Where a text begins in the script: its first piece that has characters."""
    return next((piece.offset for piece in text if piece.text), text[0].offset if text else None)


def bounded(text: Text) -> Text:
    """The text, or an open one where it has grown beyond reason."""
    if len(text) <= MAX_PIECES and sum(len(piece.text) for piece in text) <= MAX_LENGTH:
        return text
    return (Piece("", text[0].offset, f"its value is longer than {MAX_LENGTH:,} characters"),)


def split(text: Text) -> list[Text]:
    """The words of a text, parted at white space."""
    words: list[list[Piece]] = [[]]
    for piece in text:
        for match in re.finditer(r"\s+|\S+", piece.text):
            if match[0].isspace():
                if words[-1]:
                    words.append([])
            else:
                words[-1].append(Piece(match[0], piece.offset + match.start(), piece.why))
        if not piece.text and piece.why is not None:
            words[-1].append(piece)
    return [tuple(word) for word in words if word]


def sliced(text: Text, start: int, stop: int | None) -> Text:
    """Characters `start` to `stop` of a text."""
    found: list[Piece] = []
    at = 0
    for piece in text:
        low, high = max(start - at, 0), len(piece.text) if stop is None else min(len(piece.text), stop - at)
        if low < high:
            found.append(Piece(piece.text[low:high], piece.offset + low, piece.why))
        at += len(piece.text)
    return tuple(found)


def merged(texts: Iterable[Text], why: str) -> Text:
    """One text for several that a condition chooses among: what they have in common in front, then an open rest."""
    several = list(texts)
    first = several[0]
    if all(same(one, first) for one in several[1:]):
        return first
    longest = max(several, key=lambda one: len(shown(one)))
    common = 0
    words = [shown(one) for one in several]
    while all(len(word) > common and word[common] == words[0][common] for word in words):
        common += 1
    while (
        common and any(len(word) > common and not word[common].isspace() for word in words) and not words[0][common - 1].isspace()
    ):
        common -= 1
    rest = sliced(longest, common, None)
    open_rest = tuple(Piece(piece.text, piece.offset, piece.why or why) for piece in rest)
    return sliced(longest, 0, common) + (open_rest or (Piece("", longest[0].offset if longest else 0, why),))


def same(one: Text, other: Text) -> bool:
    """Whether two texts say the same."""
    return shown(one) == shown(other) and reason(one) == reason(other)


class NotANumber(Exception):
    """An expression that has no value here; the text says why."""


def arithmetic(expression: str, lookup: Callable[[str], int]) -> int:
    """The value of a shell expression over whole numbers. Raises NotANumber, also for what `lookup` raises it for."""
    tokens: list[str] = []
    at = 0
    expression = expression.strip()
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        if match is None:
            raise NotANumber(f"'{expression[:60]}' is no expression over whole numbers")
        tokens.append(match[1])
        at = match.end()
    if not tokens or len(tokens) > 500:
        raise NotANumber("an empty or endless expression")
    value, rest = _ternary(tokens, 0, lookup, 0)
    if rest != len(tokens):
        raise NotANumber(f"'{expression[:60]}' is no expression over whole numbers")
    return value


def _ternary(tokens: list[str], at: int, lookup: Callable[[str], int], depth: int) -> tuple[int, int]:
    if depth > 50:
        raise NotANumber("an expression that is nested too deep")
    value, at = _binary(tokens, at, lookup, 0, depth)
    if at < len(tokens) and tokens[at] == "?":
        yes, at = _ternary(tokens, at + 1, lookup, depth + 1)
        if at >= len(tokens) or tokens[at] != ":":
            raise NotANumber("a '?' without its ':'")
        no, at = _ternary(tokens, at + 1, lookup, depth + 1)
        value = yes if value else no
    return value, at


def _binary(tokens: list[str], at: int, lookup: Callable[[str], int], level: int, depth: int) -> tuple[int, int]:
    if level == len(_LEVELS):
        return _power(tokens, at, lookup, depth)
    left, at = _binary(tokens, at, lookup, level + 1, depth)
    while at < len(tokens) and tokens[at] in _LEVELS[level]:
        operator = tokens[at]
        right, at = _binary(tokens, at + 1, lookup, level + 1, depth)
        left = _applied(operator, left, right)
    return left, at


def _applied(operator: str, left: int, right: int) -> int:
    if operator in ("/", "%"):
        if right == 0:
            raise NotANumber("a division by zero")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if operator == "/" else left - quotient * right
    if operator in ("<<", ">>") and not 0 <= right < 64:
        raise NotANumber("a shift beyond 64 bits")
    table: dict[str, Callable[[int, int], int]] = {
        "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
        "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b, "&": lambda a, b: a & b, "|": lambda a, b: a | b,
        "^": lambda a, b: a ^ b, "==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b),
        "<": lambda a, b: int(a < b), ">": lambda a, b: int(a > b), "<=": lambda a, b: int(a <= b),
        ">=": lambda a, b: int(a >= b), "&&": lambda a, b: int(bool(a and b)), "||": lambda a, b: int(bool(a or b)),
    }  # fmt: skip
    value = table[operator](left, right)
    if abs(value) >= 2**63:
        raise NotANumber("a number beyond 64 bits")
    return value


def _power(tokens: list[str], at: int, lookup: Callable[[str], int], depth: int) -> tuple[int, int]:
    base, at = _unary(tokens, at, lookup, depth)
    if at < len(tokens) and tokens[at] == "**":
        exponent, at = _power(tokens, at + 1, lookup, depth + 1)
        if not 0 <= exponent <= 62 or abs(base) > 2**16:
            raise NotANumber("a power beyond 64 bits")
        return _applied("*", base**exponent, 1), at
    return base, at


def _unary(tokens: list[str], at: int, lookup: Callable[[str], int], depth: int) -> tuple[int, int]:
    if at >= len(tokens) or depth > 50:
        raise NotANumber("an expression that breaks off")
    token = tokens[at]
    if token in ("-", "+", "!", "~"):
        value, at = _unary(tokens, at + 1, lookup, depth + 1)
        return {"-": -value, "+": value, "!": int(not value), "~": ~value}[token], at
    if token == "(":
        value, at = _ternary(tokens, at + 1, lookup, depth + 1)
        if at >= len(tokens) or tokens[at] != ")":
            raise NotANumber("a bracket that is not closed")
        return value, at + 1
    if token[0].isdigit():
        if len(token) > 20:
            raise NotANumber("a number beyond 64 bits")
        try:
            if "#" in token:
                base, _, digits = token.partition("#")
                return int(digits, int(base)), at + 1
            if len(token) > 1 and token[0] == "0" and token[1] not in "xX":
                return int(token, 8), at + 1
            return int(token, 0), at + 1
        except ValueError:
            raise NotANumber(f"'{token}' is no number") from None
    if token[0].isalpha() or token[0] == "_":
        return lookup(token), at + 1
    raise NotANumber(f"'{token}' stands where a number must")
