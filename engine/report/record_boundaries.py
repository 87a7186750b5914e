"""What crosses between the stages of the recommended plan: the record's lines, and its part of the JSON."""

from __future__ import annotations

from typing import Any

from ..cost.sending import Transfer
from ..decision.boundaries import Boundary
from ..decision.review import Review
from ..quantity import Dimension
from ..search.resharding import ReshardingPlan
from .figures import counted, figure

#: Boundaries of different kinds that the record shows; the JSON has all.
_MOST = 6


def boundaries(review: Review) -> list[str]:
    """A line for each kind of boundary, and which way is priced; where there is none, or nothing was priced, that."""
    found = next((one.boundaries for one in review.candidates if one.boundaries is not None), None)
    if found is None:
        return []
    if not found:
        return ["None: the recommended plan has one stage."]
    lines = [_line(one) for one in found[:_MOST]]
    lines.append(_priced(found[0], review.case.framework))
    if len(found) > _MOST:
        lines.append(f"{counted(len(found) - _MOST, 'more kind')} of boundary in the JSON of this review.")
    return lines


def _line(one: Boundary) -> str:
    batch, tokens, hidden = one.shape
    where = f"After stage {_runs(one.first)}" + (f" ({len(one.first)} boundaries alike)" if len(one.first) > 1 else "")
    stream = f"{batch:,} x {tokens:,} x {hidden:,} of {one.element_bytes} bytes"
    ends = one.source.sharding
    ends += ", the same on both sides" if one.source == one.destination else f" to {one.destination.sharding}"
    if one.forward is None or one.backward is None:
        return f"{where}: {stream}, {ends}. {_prices(one)} No plan of its own: {one.reason}."
    slow = f"{_bytes(one.slow_bytes)} between nodes ({one.slow_tier})" if one.slow_bytes else "nothing between nodes"
    method = one.forward.strategy.replace("_", " ")
    bound = f"at least {_time(one.forward.lower_bound_s)} for the bytes"
    times = f"{_time(one.forward_s)} forward ({bound}), {_time(one.backward_s)} backward"
    others = ", ".join(
        f"{other.strategy.replace('_', ' ')} {_time(other.time_s + one.forward_s - one.forward.time_s)}"
        for other in one.forward.alternatives if other.strategy != one.forward.strategy
    )  # fmt: skip
    return (
        f"{where}: {stream}, {ends}. A microbatch and way: {slow}, {_bytes(one.fast_bytes)} inside nodes; {method}, {times}; "
        f"otherwise {others}. {_gaps(one)}{_prices(one)}"
    )


def _gaps(one: Boundary) -> str:
    """Why a way takes longer than 5 % over what its cards allow; nothing where neither does."""
    found = ((name, plan.gap) for name, plan in (("Forward", one.forward), ("Backward", one.backward)) if plan is not None)
    return "".join(
        f"{name} it takes {gap.ratio:.2f} x what the cards allow with 5 % and a latency a hop, by {gap.cause}: {gap.words}. "
        for name, gap in found if gap is not None
    )  # fmt: skip


def _prices(one: Boundary) -> str:
    priced = f"The step is priced with {_time(one.priced_s)} ({one.way.words})"
    if one.other_s == one.priced_s:
        return f"{priced}; no part is held twice, so that {one.other.words} would be the same."
    return f"{priced}; {one.other.words} would be {_time(one.other_s)}."


def _priced(one: Boundary, framework: str | None) -> str:
    """Whose way of sending is priced, for stated and recommended plans alike."""
    if framework is None:
        who = "direct sends, which every framework has: none is named"
    else:
        who = f"{one.way.words}, as {framework} sends unless told otherwise"
        if one.way is Transfer.DIRECT:
            who = f"direct sends: nothing says that {framework} does better by itself"
    return f"All plans here, stated ones too, are priced with {who}. No way is priced that the framework does not take."


def _runs(stages: tuple[int, ...]) -> str:
    """`0 to 6`, `0, 2, 4`."""
    if len(stages) > 2 and stages == tuple(range(stages[0], stages[-1] + 1)):
        return f"{stages[0]} to {stages[-1]}"
    shown = ", ".join(str(one) for one in stages[:8])
    return shown if len(stages) <= 8 else f"{shown} to {stages[-1]}"


def _bytes(count: int) -> str:
    return figure(count, Dimension.BYTES) if count else "nothing"


def _time(seconds: float) -> str:
    return figure(seconds, Dimension.TIME)


# JSON.


def boundary_json(one: Boundary) -> dict[str, Any]:
    """One kind of boundary; figures of one microbatch and way. What was not planned is null, with its reason."""
    return {
        "after_stages": list(one.first),
        "shape": list(one.shape),
        "element_bytes": one.element_bytes,
        "source": one.source.sharding,
        "destination": one.destination.sharding,
        "groups": one.groups,
        "reason": one.reason or None,
        "slow_tier": one.slow_tier or None,
        "slow_bytes": one.slow_bytes if one.forward else None,
        "fast_bytes": one.fast_bytes if one.forward else None,
        "forward_s": one.forward_s if one.forward else None,
        "backward_s": one.backward_s if one.backward else None,
        "priced_s": one.priced_s,
        "priced_as": one.way.value,
        "other_way": {"way": one.other.value, "seconds": one.other_s},
        "forward": _plan_json(one.forward),
        "backward": _plan_json(one.backward),
    }


def _plan_json(plan: ReshardingPlan | None) -> dict[str, Any] | None:
    """The slowest group of hosts that exchange among themselves."""
    if plan is None:
        return None
    return {
        "strategy": plan.strategy,
        "lower_bound_s": plan.lower_bound_s,
        "local_bound_s": plan.local_bound_s,
        "gap": None if plan.gap is None else {"ratio": plan.gap.ratio, "cause": plan.gap.cause, "words": plan.gap.words},
        "staging_bytes": plan.staging_bytes,
        "steps": len(plan.steps),
        "links": [{"from": a, "to": b, "bytes": count} for (a, b), count in sorted(plan.bytes_by_link.items())],
        "alternatives": [
            {"strategy": other.strategy, "time_s": other.time_s, "network_bytes": other.network_bytes}
            for other in plan.alternatives
        ],
    }
