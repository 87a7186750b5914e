"""Numbers as the reports show them: three to four significant digits, the unit once, intervals in the value's own unit.

Only text is made here; nothing is parsed back. Knows dimensions and nothing of what the numbers mean.
"""

from __future__ import annotations

from ..quantity import Dimension, Estimate, human, parse

GIB = 2**30


def digits(value: float) -> str:
    """Three to four significant digits, without an exponent below a million."""
    if abs(value) >= 1e6:
        return f"{value:.4g}"
    if value == int(value):
        return str(int(value))
    size = abs(value)
    if size < 0.001:
        return f"{value:.3g}"
    decimals = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 10 else 3
    return f"{value:.{decimals}f}"


def figure(value: float, dimension: Dimension) -> str:
    """`value` (base unit) with its unit: `13.75 s`."""
    return human(value, dimension)


def seconds(value: float) -> str:
    """Seconds as people read them."""
    return human(value, Dimension.TIME)


def span(value: float, low: float, high: float, dimension: Dimension) -> str:
    """`13.8 s (12.1 to 15.0)`: the ends of the interval in the unit of the value."""
    if dimension is Dimension.DEVICE_TIME:
        ends = [f"{float(f'{one / 3600:.4g}'):,.0f}" if one >= 36e5 else digits(one / 3600) for one in (value, low, high)]
        return f"{ends[0]} device-hours ({ends[1]} to {ends[2]})"
    shown = human(value, dimension)
    number, _, unit = shown.partition(" ")
    if value == 0 or not unit:
        return f"{shown} ({human(low, dimension)} to {human(high, dimension)})"
    per_unit = float(parse(f"1 {unit}", dimension))
    return f"{number} {unit} ({digits(low / per_unit)} to {digits(high / per_unit)})"


def interval(estimate: Estimate) -> str:
    """An estimate with its 90 % interval."""
    return span(estimate.value, estimate.low, estimate.high, estimate.dimension)


def ratio(estimate: Estimate) -> str:
    """A ratio of two step times with its interval: `1.021 (0.985 to 1.063)`."""
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


def gib(value: float) -> str:
    """Bytes in GiB without the unit, for tables that name it once; a computed zero is 0."""
    if value == 0:
        return "0"
    shown = value / GIB
    return "<0.001" if 0 < shown < 0.0005 else digits(round(shown, 3)) if abs(shown) < 10 else digits(shown)


def gib_interval(estimate: Estimate) -> str:
    """An estimate of bytes in GiB with its interval, without the unit."""
    return f"{gib(estimate.value)} ({gib(estimate.low)} to {gib(estimate.high)})"


def count(value: int) -> str:
    """A whole number with its thousands set apart; beyond 10^15 its size: `about 3.7 x 10^28`."""
    if value >= 10**15:
        power = len(str(value)) - 1
        return f"about {value / 10**power:.2g} x 10^{power}"
    return f"{value:,}"


def large(value: float) -> str:
    """A count in thousands, millions, billions or trillions: `70.55 billion`."""
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if value >= size:
            return f"{digits(value / size)} {word}"
    return count(round(value))


def share(value: float) -> str:
    """A fraction as a percentage."""
    return f"{100 * value:.3g} %"


def counted(number: int, word: str) -> str:
    """A whole number with its thousands set apart, and what it counts."""
    return f"{number:,} {word if number == 1 else _several(word)}"


def plural(number: int, word: str) -> str:
    """`1 error`, `2 errors`."""
    return f"{number} {word if number == 1 else _several(word)}"


def _several(word: str) -> str:
    return word + ("es" if word.endswith(("ch", "s", "x")) else "s")
