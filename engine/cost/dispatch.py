"""How many copies of a token leave a unit of devices on their way to the experts that it was routed to.

A dispatcher that knows the topology sends a token once to each node that holds one of its experts, where it is passed on
over the links inside (Zhao et al. 2025, DeepEP; the routing of DeepSeek-V3, arXiv 2412.19437, sections 2.1.2 and 3.2.2, keeps
to few nodes for it). Counted here: the nodes, or any other units of equal size, that routing is expected to reach, experts
being chosen evenly. Nothing here knows links or seconds.
"""

from __future__ import annotations

from functools import cache
from math import comb, exp, lgamma

from ..model import MixtureOfExperts, Workload


@cache
def units_reached(experts: int, top_k: int, units: int, groups: int = 1, kept: int = 1) -> float:
    """Units, of `units` that hold `experts` between them, in which a token has at least one of `top_k` experts.

    Routers limited to groups choose `kept` of `groups` first, and all experts from these; every choice is equally likely.
    """
    pool = experts * kept / groups
    if units >= groups:
        # A unit holds a part of one group, which is among the kept ones with that share.
        return units * kept / groups * (1 - _none(pool, experts / units, top_k))
    inside = groups / units
    if inside != int(inside):
        inside, kept, groups = 1.0, units, units  # the cut goes through groups: as if routing knew none
        pool = float(experts)
    held = int(inside)
    missed = 0.0
    for taken in range(min(held, kept) + 1):
        if kept - taken > groups - held:
            continue
        share = comb(held, taken) * comb(groups - held, kept - taken) / comb(groups, kept)
        missed += share * _none(pool, taken * experts / groups, top_k)
    return units * (1 - missed)


def _none(pool: float, marked: float, drawn: int) -> float:
    """Chance that none of `drawn` experts out of `pool` is among the `marked` ones: C(pool - marked, drawn) / C(pool, drawn)."""
    if pool - marked < drawn:
        return 0.0
    rest = pool - marked
    return exp(lgamma(rest + 1) - lgamma(rest - drawn + 1) - lgamma(pool + 1) + lgamma(pool - drawn + 1))


def copies_between(moe: MixtureOfExperts, units: int, siblings: int) -> float:
    """Copies of a token that one of `siblings` units inside a larger one sends to the others: those that routing reaches, `units`
    being all of them, less the share that stays at home.
    """
    return units_reached(moe.experts, moe.top_k, units, moe.route_groups, moe.route_groups_kept) * (siblings - 1) / siblings


def exchange_notes(workload: Workload, microbatches: int) -> list[str]:
    """What is taken for granted about the exchange between experts of a step of so many microbatches, in words."""
    rows = []
    if workload.dispatcher is None:
        rows.append("exchange between experts: no dispatcher stated, priced as an all-to-all of every copy of a token")
    if workload.dispatch_overlap is None:
        rows.append("exchange between experts: not stated whether it is overlapped, priced as not hidden")
    elif workload.dispatch_overlap and microbatches > 1:
        rows.append("exchange between experts: hidden under another microbatch in warm-up and cool-down too")
    return rows
