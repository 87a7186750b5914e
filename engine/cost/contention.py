"""What axes that meet on one tier of links take from each other.

Vocabulary: a device's *port* on a tier is what `Tier.bandwidth` states, its own part while all devices send; groups of one
axis have shared it already. Two axes *contend* where a device's traffic of both is on the same tier at the same time: the
messages between stages with the collectives inside one, gradients sent under a backward pass with the collectives of that
pass. While they meet each gets half of the port, so that each delays the other by what it sends itself; the port is never
idle meanwhile and never carries more than its rate (processor sharing).

Pure arithmetic on what others priced. Knows no shapes, no plans and no schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import TYPE_CHECKING

from .simulation import Durations

if TYPE_CHECKING:
    from .stage_costs import StageCost
    from .transfers import Hop

#: Names of the terms that collectives inside a stage are priced under, and that waiting for a port is added to.
COLLECTIVE_TERMS = ("tensor", "context", "expert", "gather")


def busy_share(cost: StageCost, tier: str) -> float:
    """The share of a microbatch's time on a stage, forward and backward, in which its own collectives hold `tier`: 0 to 1."""
    held = fsum(seconds for name, seconds in cost.tiers if name == tier)
    return min(1.0, held / cost.durations.total) if held > 0 else 0.0


def delayed_hop(hop: Hop, first: StageCost, second: StageCost) -> Hop:
    """A message between two stages, longer by its seconds on its tier times the larger share that either stage's collectives
    hold that.

    A message that arrives at any moment meets them for that share of its way, and has half the port there.
    """
    share = max(busy_share(first, hop.tier), busy_share(second, hop.tier))
    return hop._replace(seconds=hop.seconds + (hop.seconds - hop.gather_s) * share) if share else hop


def delayed_stage(cost: StageCost, before: Hop | None, after: Hop | None, messages: int, names: Sequence[str]) -> StageCost:
    """A stage whose collectives wait while messages pass: activations `after` it forward, gradients `before` it backward.

    A stage sends `messages` of each a microbatch (one for each of its model chunks); links are duplex, so what it receives is
    not in the way of what it sends. A message that meets a collective delays it by its own seconds, and meets one with the
    probability that the collective holds the tier. `names` are those of `cost.terms`; the wait is spread over the terms of
    collectives, so that they still add up to the durations.
    """
    ahead = messages * (after.seconds - after.gather_s) * busy_share(cost, after.tier) if after is not None else 0.0
    back = messages * (before.seconds - before.gather_s) * busy_share(cost, before.tier) if before is not None else 0.0
    if ahead + back <= 0.0:
        return cost
    one = cost.durations
    durations = Durations(one.forward + ahead, one.backward + back, one.weight)
    weights = [seconds if name in COLLECTIVE_TERMS else 0.0 for name, seconds in zip(names, cost.terms, strict=True)]
    whole = fsum(weights)
    if whole <= 0.0:
        # All of it is hidden under computation: the wait is what comes out of hiding.
        weights = [float(name == "gather") for name in names]
        whole = 1.0
    waited = ahead + back
    terms = tuple(seconds + waited * weight / whole for seconds, weight in zip(cost.terms, weights, strict=True))
    return cost._replace(durations=durations, terms=terms)


class Contention:
    """Stages and messages as they are beside each other, each pair of stage and messages worked out once.

    `names` are those of `StageCost.terms`. The stages given are kept: callers know them by identity.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._stages: dict[tuple[int, Hop | None, Hop | None, int], tuple[StageCost, StageCost]] = {}

    def __call__(
        self, costs: list[StageCost], hops: tuple[Hop, ...], chunks: int = 1
    ) -> tuple[list[StageCost], tuple[Hop, ...]]:
        """The stages and the messages between neighbours, each with what the other takes of the links that both use.

        Nothing changes where no message shares a tier with a collective: tensor groups inside a node, messages between nodes.
        Never less than what came in.
        """
        if not hops:
            return costs, hops
        used = {hop.tier for hop in hops}
        if not any(name in used for cost in {id(cost): cost for cost in costs}.values() for name, _ in cost.tiers):
            return costs, hops
        pairs = [(hops[k - 1] if k else None, hops[k] if k < len(hops) else None) for k in range(len(costs))]
        found = [self._stage(cost, before, after, chunks) for cost, (before, after) in zip(costs, pairs, strict=True)]
        return found, tuple(delayed_hop(hop, costs[k], costs[k + 1]) for k, hop in enumerate(hops))

    def _stage(self, cost: StageCost, before: Hop | None, after: Hop | None, chunks: int) -> StageCost:
        key = (id(cost), before, after, chunks)
        known = self._stages.get(key)
        if known is None:
            known = self._stages[key] = (cost, delayed_stage(cost, before, after, chunks, self._names))
        return known[1]


def free_window(window: float, spent: Sequence[tuple[str, float]], total: float, busy: Sequence[tuple[str, float]]) -> float:
    """The seconds of `window` in which the port is free for a traffic `spent` by tier, `total` in all, under a pass whose
    own collectives hold tiers for `busy` seconds. Each tier counts by its part of the traffic: never below 0.
    """
    if total <= 0.0 or window <= 0.0:
        return max(0.0, window)
    part = {name: seconds / total for name, seconds in spent}
    return max(0.0, window - fsum(part.get(name, 0.0) * seconds for name, seconds in busy))
