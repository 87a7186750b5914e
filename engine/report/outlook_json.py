"""The JSON of how far an answer carries: break-even values, the joint worst case, what clears memory, how long to measure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..plan import to_dict
from ..quantity import Estimate

if TYPE_CHECKING:  # lint's JSON goes through here too, and loads neither prices nor decisions
    from ..decision.remedy import Clearing
    from ..decision.review import Trials
    from ..decision.sensitivity import BreakEven, Joint, Sensitivity


def estimate_of(estimate: Estimate) -> dict[str, Any]:
    """An estimate with its interval and grade."""
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high, "grade": estimate.grade.value}


def sensitivity_json(one: Sensitivity) -> dict[str, Any]:
    """One input with its break-even values."""
    origin = one.provenance
    return {
        "input": one.name,
        "unit": one.dimension.value if one.dimension is not None else one.unit,
        "value": one.today,
        "low": one.low,
        "high": one.high,
        "grade": origin.grade.value if origin is not None else None,
        "range": one.why_range,
        "searched": [end if end != float("inf") else None for end in one.searched],
        "below": _edge(one.below),
        "above": _edge(one.above),
    }


def _edge(one: BreakEven | None) -> dict[str, Any] | None:
    if one is None:
        return None
    plan = to_dict(one.becomes) if one.becomes is not None else None
    return {"value": one.value, "factor": one.factor, "why": one.text, "inside_range": one.inside, "plan": plan}


def joint_json(one: Joint) -> dict[str, Any]:
    """The joint worst case."""
    return {
        "input": "joint worst case",
        "at": [{"input": name, "value": value, "unit": dimension.value} for name, value, dimension in one.at],
        "step_time_s": one.step_s,
        "over_best": one.regret,
        "best": to_dict(one.best),
        "feasible": one.fits,
        "slowest_step_time_s": one.slowest_s,
    }


def clearing_json(one: Clearing) -> dict[str, Any]:
    """What clears the memory of one plan."""
    return {
        "plan": one.plan,
        "feasible": one.state,
        "looked_at": one.looked_at,
        "fitting": one.fitting,
        "changes": [
            {
                "change": change.what,
                "step_time_s": estimate_of(change.priced.step_estimate),
                "slower": change.slower,
                "left_bytes": change.priced.headroom_bytes,
                "plan": to_dict(change.priced.plan),
            }
            for change in one.changes
        ],
    }


def trials_json(one: Trials) -> dict[str, Any]:
    """How long to measure."""
    return {
        "warm_up_steps": one.warm_up,
        "steps": one.steps,
        "runs": one.runs,
        "told_apart": one.told_apart,
        "against": one.against,
        "ratio": estimate_of(one.ratio) if one.ratio is not None else None,
        "step_noise": one.step_noise,
        "run_noise": one.run_noise,
        "sources": [f"{origin.file}:{origin.line}" for origin in one.sources],
    }
