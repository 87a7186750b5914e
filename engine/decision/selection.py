"""Choosing among candidates: the fastest that stands, the simplest that ties with it, and a simpler fallback.

Candidates arrive in the order of their step time. A candidate *stands* where no rule closes anything for it. It *ties* with the
fastest where the interval of the ratio of their step times, under common draws, does not lie above 1, and where it is not
expected to be slower by more than `PRICE_OF_SIMPLICITY`: weak evidence makes intervals wide, and a wide interval alone is no
reason to give up a fifth of the speed. Among ties the simpler wins. A plan that may not fit (`at_risk`) is chosen only where
nothing is sure to fit. This module prices nothing and knows no rule: both come as functions.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field

from ..frozen import dataclass
from ..plan import Plan, describe, simplicity
from ..quantity import Estimate
from ..search.tally import Found, SimplerThan

#: What simplicity may cost in expectation, as a share of the step time.
PRICE_OF_SIMPLICITY = 0.05
#: A fallback that takes more times as long as the recommended plan is none.
USELESS = 2.0

Stands = Callable[[Found], tuple[str, ...]]
Ratio = Callable[[Found, Found], Estimate]
Candidates = Callable[[Callable[[Plan], bool]], Iterable[Found]]


@dataclass(slots=True)
class Selection:
    """What was chosen and why. `ratio` is recommended over fastest where they differ; `fallen` counts rules that fell plans."""

    fastest: Found | None = None
    recommended: Found | None = None
    ratio: Estimate | None = None
    risky: Found | None = None
    looked_at: int = 0
    ties: int = 0
    fallen: Counter[str] = field(default_factory=Counter)
    limit: tuple[int, ...] | None = None

    def wants(self, plan: Plan) -> bool:
        """Whether a plan can still change the choice: any before the fastest is known, only simpler ones after."""
        return self.limit is None or simplicity(plan) < self.limit

    def choose(self, found: Found, ratio: Estimate | None = None) -> None:
        """Make `found` the recommended plan."""
        self.recommended, self.ratio, self.limit = found, ratio, simplicity(found.plan)


def select(
    candidates: Candidates, stands: Stands, ratio: Ratio, contenders: Sequence[Found] = ()
) -> Selection:
    """Pull candidates until the fastest that stands, and the simplest plan that ties with it, are known.

    `contenders` are plans from elsewhere that compete; they stand already.
    """
    chosen = Selection()
    standing = {id(found) for found in contenders}
    own = sorted(contenders, key=lambda found: found.seconds)
    merged = heapq.merge(own, candidates(SimplerThan(lambda: chosen.limit)), key=lambda found: found.seconds)
    for found in merged:
        chosen.looked_at += 1
        best = chosen.fastest
        sure = found.feasible == "yes"
        if best is None:
            if not sure and chosen.risky is not None:
                continue
            if id(found) not in standing and _falls(found, stands, chosen):
                continue
            if sure:
                chosen.fastest = found
                chosen.choose(found)
            elif found.feasible == "at_risk":
                chosen.risky = found
            continue
        if found.seconds > best.seconds * (1 + PRICE_OF_SIMPLICITY):
            break
        if not sure or not chosen.wants(found.plan):
            continue
        between = ratio(found, best)
        if between.low > 1 or (id(found) not in standing and _falls(found, stands, chosen)):
            continue
        chosen.ties += 1
        chosen.choose(found, between)
    if chosen.fastest is None and chosen.risky is not None:
        chosen.fastest = chosen.risky
        chosen.choose(chosen.risky)
    return chosen


def fallback(
    recommended: Found, candidates: Candidates, stands: Stands, contenders: Sequence[Found] = ()
) -> tuple[Found | None, str]:
    """The fastest plan that stands among those with a smaller simplicity tuple, or None with the reason."""
    limit = simplicity(recommended.plan)
    own = sorted(
        (found for found in contenders if simplicity(found.plan) < limit), key=lambda found: found.seconds
    )
    standing = {id(found) for found in own}
    seen = 0
    rest = candidates(SimplerThan(lambda: limit))
    for found in heapq.merge(own, rest, key=lambda found: found.seconds):
        seen += 1
        if found.feasible == "yes" and (id(found) in standing or not stands(found)):
            times = found.seconds / recommended.seconds
            if times > USELESS:
                return None, f"the fastest simpler plan takes {times:.3g} times as long: {describe(found.plan)}"
            return found, ""
    if not seen:
        return None, "no plan of the declared space has a smaller simplicity tuple and fits the memory"
    return None, "every simpler plan of the declared space that may fit is at risk or falls by a rule"


def _falls(found: Found, stands: Stands, chosen: Selection) -> bool:
    rules = stands(found)
    chosen.fallen.update(rules)
    return bool(rules)
