"""What work adds that runs beside other work: launches beside kernels, collectives beside passes, and sums of what is spent.

Seconds only; nothing here knows models or plans.
"""

from __future__ import annotations

from math import fsum

from .collectives import FREE, Spent
from .compute import Rates, Work


def floor(work: Work, rates: Rates) -> float:
    """Seconds of a pass, launches included."""
    return longer(work.seconds, work.kernels * rates.launch)


def longer(seconds: float, launches: float) -> float:
    """The longer of two that overlap, with a soft corner: the host runs ahead of the device, but not in every kernel.

    The fourth root of the fourth powers: 19 % above either where both are equal, 1.5 % where one is twice the other.
    """
    large, small = (seconds, launches) if seconds > launches else (launches, seconds)
    return large * (1 + (small / large) ** 4) ** 0.25 if large else 0.0


def wait(seconds: float, kernels: int, rates: Rates) -> float:
    """What launching adds to a pass, and what the device idles while the host synchronises."""
    return longer(seconds, kernels * rates.launch) - seconds + rates.stall


def beside(seconds: float, window: float, interference: float) -> float:
    """What `seconds` of communication add to a pass that hides `window` of them: all beyond it, and of what is hidden the share
    `interference`, for which the pass cedes memory bandwidth and multiprocessors.
    """
    hidden = min(seconds, max(0.0, window))
    return seconds - hidden + interference * hidden


def exposed(spent: Spent, window: float, layers: int) -> Spent:
    """What is left of a step's collectives beyond `window`: at the least those of one of `layers`, which nothing follows."""
    if not spent.seconds:
        return FREE
    left = max(spent.seconds / layers, spent.seconds - window)
    return spent.scaled(left / spent.seconds)


def shared(one: Spent, *others: Spent) -> float:
    """Seconds of `others` on the tiers of `one`, each tier by its share of `one`: what `one` cannot hide under."""
    if not one.seconds:
        return 0.0
    share = {name: seconds / one.seconds for name, seconds in one.tiers}
    return fsum(share.get(name, 0.0) * seconds for other in others for name, seconds in other.tiers)


def add(*parts: Spent) -> Spent:
    """One after the other."""
    busy = [part for part in parts if part.seconds]
    if len(busy) <= 1:
        return busy[0] if busy else FREE
    return Spent(fsum(part.seconds for part in busy), by_tier(*busy))


def by_tier(*parts: Spent) -> tuple[tuple[str, float], ...]:
    """Seconds by tier of all `parts`."""
    sums: dict[str, float] = {}
    for part in parts:
        for name, seconds in part.tiers:
            sums[name] = sums.get(name, 0.0) + seconds
    return tuple(sums.items())
