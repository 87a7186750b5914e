"""What a plain YAML scalar means: the YAML 1.2 core schema (chapter 10.3), narrowed where a reader could be misled.

Narrower than the core schema: a number with a leading zero stays text (`012`: YAML 1.1 reads 10, YAML 1.2 reads 12),
and infinities, NaN and numbers that a float cannot hold are refused. YAML 1.1's words (`yes`, `off`), dates,
sexagesimals (`12:30`) and `1_000` are text. Knows nothing of positions: a refusal is a `NumberError`, which the
reader places.
"""

from __future__ import annotations

import math
import re
from types import MappingProxyType
from typing import Final

from .limits import MAX_INTEGER_DIGITS, MAX_NUMBER_CHARACTERS
from .source import quoted


class NumberError(ValueError):
    """A number that no proposal can mean."""


_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_BASED: Final = re.compile(r"0x[0-9a-fA-F]+\Z|0o[0-7]+\Z")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")
_WORDS: Final = MappingProxyType(
    {
        "": None,
        "~": None,
        "null": None,
        "Null": None,
        "NULL": None,
        "true": True,
        "True": True,
        "TRUE": True,
        "false": False,
        "False": False,
        "FALSE": False,
    }
)
# The first characters of all that is no text (the empty text is one of them).
_TELLING: Final = frozenset(("", *"-+.0123456789", *"~nNtTfF"))


def resolve_plain(text: str) -> str | int | float | bool | None:
    """The value of a plain (unquoted) YAML scalar."""
    if text[:1] not in _TELLING:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.match(text):
        return integer(text)
    if _FLOAT.match(text):
        return real(text)
    if _BASED.match(text):
        return integer(text, 16 if text[1] == "x" else 8)
    if _NOT_FINITE.match(text):
        raise NumberError(f"{quoted(text)} is not a finite number")
    return text


def integer(text: str, base: int = 10) -> int:
    """A whole number, exactly, of a bounded number of digits."""
    digits = len(text.lstrip("+-")) - (0 if base == 10 else 2)
    if digits > MAX_INTEGER_DIGITS:
        raise NumberError(f"{quoted(text)} has {digits} digits; the limit is {MAX_INTEGER_DIGITS}")
    return int(text, base)


def real(text: str) -> float:
    """A floating-point number that a double can hold: neither overflow to infinity nor underflow to zero."""
    if len(text) > MAX_NUMBER_CHARACTERS:
        raise NumberError(f"{quoted(text)} has {len(text)} characters; the limit is {MAX_NUMBER_CHARACTERS}")
    value = float(text)
    if math.isinf(value):
        raise NumberError(f"{quoted(text)} is larger than any double-precision number")
    if value == 0.0 and re.search("[1-9]", re.split("[eE]", text)[0]):
        raise NumberError(f"{quoted(text)} is smaller than any double-precision number")
    return value
