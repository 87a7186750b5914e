"""Numbers with units, as people write them: `450 GB/s`, `80 GiB`, `2 us`, `2048 sequences`, `5 %`.

Vocabulary: a *dimension* is what is measured (bytes, seconds, bytes a second ...), a *unit* is how it is written. Inside
planproof every value is in the dimension's base unit; units appear only here and in `human`. Parsing is exact: a value that
is whole in the base unit is an int. This module knows nothing of proposals.
"""

from __future__ import annotations

import difflib
import re
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple


class Dimension(StrEnum):
    """What a number measures. The value is the base unit's name in messages."""

    BYTES = "bytes"
    TIME = "seconds"
    BANDWIDTH = "bytes/s"
    COMPUTE_RATE = "FLOP/s"
    FRACTION = "fraction"
    SEQUENCES = "sequences"
    TOKENS = "tokens"
    STEPS = "steps"
    DEVICE_TIME = "device-seconds"


class UnitError(ValueError):
    """A text is not a number with a unit of the wanted dimension; the message says what would do."""


_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}


def _scaled(names: tuple[str, ...], factor: Fraction, prefixes: dict[str, int]) -> dict[str, Fraction]:
    return {prefix + name: factor * scale for prefix, scale in prefixes.items() for name in names}


def _table() -> dict[Dimension, dict[str, Fraction]]:
    one, bit = Fraction(1), Fraction(1, 8)
    per_second = ("B/s", "byte/s", "bytes/s")
    words = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
    return {
        Dimension.BYTES: {
            **_scaled(("B", "byte", "bytes"), one, _DECIMAL | _BINARY),
        },
        Dimension.BANDWIDTH: {
            **_scaled(per_second, one, _DECIMAL | _BINARY),
            **_scaled(("bit/s", "b/s", "bps"), bit, _DECIMAL),
        },
        Dimension.TIME: {
            "s": one,
            "ms": Fraction(1, 10**3),
            "us": Fraction(1, 10**6),
            "µs": Fraction(1, 10**6),
            "μs": Fraction(1, 10**6),
            "ns": Fraction(1, 10**9),
            "min": Fraction(60),
            "h": Fraction(3600),
            "hours": Fraction(3600),
            "days": Fraction(86400),
            "day": Fraction(86400),
        },
        Dimension.COMPUTE_RATE: _scaled(("FLOP/s", "FLOPS", "flop/s"), one, _DECIMAL),
        Dimension.FRACTION: {"%": Fraction(1, 100), "percent": Fraction(1, 100), "ppm": Fraction(1, 10**6)},
        Dimension.SEQUENCES: _scaled(("sequences", "sequence"), one, {"": 1}),
        Dimension.TOKENS: _scaled(("tokens", "token"), one, words),
        Dimension.STEPS: _scaled(("steps", "step"), one, {"": 1, "k": 10**3}),
        Dimension.DEVICE_TIME: {
            "device-hours": Fraction(3600),
            "device-hour": Fraction(3600),
            "GPU-hours": Fraction(3600),
            "device-seconds": one,
            "device-days": Fraction(86400),
        },
    }


_UNITS = _table()

_SHOWN: dict[Dimension, str] = {
    Dimension.BYTES: "80 GiB, 512 MiB or 40 GB",
    Dimension.TIME: "2 us, 3.5 ms or 12 h",
    Dimension.BANDWIDTH: "450 GB/s (bytes) or 400 Gbit/s (bits), per direction",
    Dimension.COMPUTE_RATE: "989 TFLOP/s",
    Dimension.FRACTION: "5 % or 0.05",
    Dimension.SEQUENCES: "2048 sequences",
    Dimension.TOKENS: "4194304 tokens or 15.6 Ttokens",
    Dimension.STEPS: "20000 steps",
    Dimension.DEVICE_TIME: "64 device-hours",
}


class Bounds(NamedTuple):
    """The closed range a dimension's values must lie in, in base units."""

    low: Fraction
    high: Fraction


_BOUNDS: dict[Dimension, Bounds] = {
    Dimension.BYTES: Bounds(Fraction(0), Fraction(10**18)),
    Dimension.TIME: Bounds(Fraction(0), Fraction(10**10)),
    Dimension.BANDWIDTH: Bounds(Fraction(10**6), Fraction(10**17)),
    Dimension.COMPUTE_RATE: Bounds(Fraction(1), Fraction(10**19)),
    Dimension.FRACTION: Bounds(Fraction(0), Fraction(1)),
    Dimension.SEQUENCES: Bounds(Fraction(1), Fraction(10**9)),
    Dimension.TOKENS: Bounds(Fraction(1), Fraction(10**18)),
    Dimension.STEPS: Bounds(Fraction(1), Fraction(10**12)),
    Dimension.DEVICE_TIME: Bounds(Fraction(0), Fraction(10**15)),
}

_NUMBER = re.compile(r"\s*([+-]?(?:\d[\d_]{0,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,3})?)\s*(\S.{0,40}?)?\s*", re.ASCII)


def spell(dimension: Dimension) -> str:
    """Examples of what would do, for a message: `80 GiB, 512 MiB or 40 GB`."""
    return _SHOWN[dimension]


def parse(text: object, dimension: Dimension) -> int | float:
    """The value of `text` in the base unit of `dimension`; an int where it is whole.

    A bare number is accepted for fractions only (0.05). Raises UnitError for anything else: not a number, a missing,
    unknown or foreign unit, not finite, or outside the range that the dimension can have.
    """
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise UnitError(f"{text!r} is not a quantity; write {_SHOWN[dimension]}")
    if not isinstance(text, str):
        if dimension is not Dimension.FRACTION:
            raise UnitError(f"{text!r} has no unit; write {_SHOWN[dimension]}")
        if text != text or text in (float("inf"), float("-inf")):
            raise UnitError(f"{text!r} is not a finite number; write {_SHOWN[dimension]}")
        return _bounded(Fraction(text), dimension, repr(text))
    match = _NUMBER.fullmatch(text) if len(text) <= 120 else None
    if match is None:
        raise UnitError(f"{_short(text)} is not a number with a unit; write {_SHOWN[dimension]}")
    number, unit = Fraction(match[1].replace("_", "")), match[2]
    if unit is None:
        if dimension is Dimension.FRACTION:
            return _bounded(number, dimension, _short(text))
        raise UnitError(f"{_short(text)} has no unit; write {_SHOWN[dimension]}")
    units = _UNITS[dimension]
    if unit not in units:
        raise UnitError(f"{_short(text)}: {_foreign(unit, dimension)}; write {_SHOWN[dimension]}")
    return _bounded(number * units[unit], dimension, _short(text))


def _foreign(unit: str, dimension: Dimension) -> str:
    for other, units in _UNITS.items():
        if unit in units:
            return f"'{unit}' is a unit of {other.value}, not of {dimension.value}"
    near = difflib.get_close_matches(unit, _UNITS[dimension], n=1, cutoff=0.5)
    return f"'{unit}' is not a unit of {dimension.value}" + (f" (did you mean '{near[0]}'?)" if near else "")


def _bounded(value: Fraction, dimension: Dimension, text: str) -> int | float:
    low, high = _BOUNDS[dimension]
    if not low <= value <= high:
        raise UnitError(
            f"{text} is outside what can be: from {_plain(low)} to {_plain(high)} {dimension.value}; "
            f"write {_SHOWN[dimension]}"
        )
    return value.numerator if value.denominator == 1 else float(value)


def _plain(value: Fraction) -> str:
    return f"{float(value):g}"


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _steps(value: float, scales: tuple[tuple[float, str], ...]) -> str:
    for factor, unit in scales:
        if abs(value) >= factor:
            return f"{_digits(value / factor)} {unit}"
    factor, unit = scales[-1]
    return f"{_digits(value / factor)} {unit}"


def _digits(value: float) -> str:
    """Three to four significant digits, without an exponent below a million."""
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value)}"
    if abs(value) >= 1e6:
        return f"{float(f'{value:.4g}'):.0f}"
    decimals = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def human(value: float, dimension: Dimension) -> str:
    """`value` (base unit) as people read it: `74.5 GiB`, `13.75 s`, `50 GB/s`. For texts; never parsed back."""
    match dimension:
        case Dimension.BYTES:
            return _steps(value, ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")))
        case Dimension.TIME:
            if value == 0:
                return "0 s"
            if abs(value) >= 2 * 86400:
                return f"{_digits(value / 86400)} days"
            if abs(value) >= 2 * 3600:
                return f"{_digits(value / 3600)} h"
            return _steps(value, ((1, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")))
        case Dimension.BANDWIDTH:
            return _steps(value, ((10**12, "TB/s"), (10**9, "GB/s"), (10**6, "MB/s"), (1, "B/s")))
        case Dimension.COMPUTE_RATE:
            return _steps(value, ((10**15, "PFLOP/s"), (10**12, "TFLOP/s"), (10**9, "GFLOP/s"), (1, "FLOP/s")))
        case Dimension.FRACTION:
            return f"{_digits(100 * value)} %"
        case Dimension.TOKENS:
            return _steps(value, ((10**12, "Ttokens"), (10**9, "Gtokens"), (10**6, "Mtokens"), (1, "tokens")))
        case Dimension.DEVICE_TIME:
            return f"{_digits(value / 3600)} device-hours"
        case _:
            return f"{_digits(value)} {dimension.value}"
