"""Kinds of fact about the search and its result, and those that only rules conclude."""

from __future__ import annotations

from .fact import Kind, flag, text, whole
from .words import CAPABILITIES, GRADES, ROLES

OF_RESULT: tuple[Kind, ...] = (
    Kind(
        "result",
        "What the search came to.",
        {
            "outcome": text("found: a plan is recommended; empty: nothing fits.", one_of=("found", "empty")),
            "plan": text("The recommended plan.", optional=True),
            "even": flag("Whether it has equal stages.", optional=True),
            "candidates": whole("Plans of the declared space."),
            "uneven_priced": flag("Whether uneven stages were priced."),
            "same_as": text("The stated plan that it is, if any.", optional=True),
            "run_seconds_s": whole("Length of the run with it.", optional=True),
            "grade": text("Grade of its step time.", optional=True, one_of=GRADES),
            "grade_rank": whole("Its rank.", optional=True),
        },
        "search",
    ),
    Kind(
        "comparison",
        "A stated plan beside the recommended one: the ratio of their step times.",
        {
            "plan": text("The stated plan."),
            "role": text("Its role.", one_of=ROLES),
            "best": text("The recommended plan."),
            "ratio_ppm": whole("Step time of the stated plan over that of the recommended one."),
            "low_ppm": whole("Low end of the ratio's 90 % interval."),
            "high_ppm": whole("High end."),
            "relation": text("same, tie, slower or faster.", one_of=("same", "tie", "slower", "faster")),
            "slower_ppm": whole("How much slower the stated plan is, as a share; 0 where it is not."),
            "fits": text("Whether the stated plan fits its devices.", one_of=("yes", "at_risk", "no")),
        },
        "search",
    ),
    Kind(
        "amortisation",
        "Whether planning pays over the run.",
        {
            "plan": text("The recommended plan."),
            "against": text("The plan that it replaces."),
            "cost_device_seconds": whole("What planning costs.", optional=True),
            "saved_per_step_us": whole("Device time saved a step, in microseconds of all devices together."),
            "break_even_steps": whole("Steps after which it has paid.", optional=True),
            "run_steps": whole("Steps of the run.", optional=True),
            "pays": flag("Whether the run is longer than the break-even.", optional=True),
        },
        "search",
    ),
    Kind(
        "closed",
        "A capability that a rule closes: for one plan, or for all.",
        {
            "capability": text("What may not be used.", one_of=CAPABILITIES),
            "plan": text("The plan it is closed for; absent: for all.", optional=True),
        },
        "rules",
    ),
    Kind(
        "condition",
        "Something that must be settled before the verdict can be better than CONDITIONAL.",
        {
            "item": text("What must be settled."),
            "plan": text("The plan it concerns.", optional=True),
            "rule": text("The suppressed or lowered rule, where it is one.", optional=True),
        },
        "rules",
    ),
    Kind(
        "counter_signal",
        "Something that speaks against trusting a plan or the search, and what was found about it.",
        {
            "name": text("homogeneous_model, short_run, dynamic_shapes, asymmetric_devices, changing_contention ..."),
            "state": text("open, or closed by a computation or by evidence.", one_of=("open", "closed")),
            "by": text("What closed it, or what would."),
            "plan": text("The plan it speaks against.", optional=True),
        },
        "rules",
    ),
    Kind(
        "finding",
        "Every finding is a fact too.",
        {
            "rule": text("The rule."),
            "severity": text("error, warning or note."),
            "phase": text("The rule's phase."),
            "plan": text("The plan it is about, where it is about one.", optional=True),
        },
        "rules",
    ),
)
