"""The record's part on grounds: findings, invariants, claims, evidence, what was not examined, the space, digests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..config import groups
from ..decision.closures import NotExamined
from ..decision.decide import deciders_of
from ..decision.review import Amortisation, Review
from ..inference import Finding, Severity
from ..inference.rule import Source
from ..quantity import Dimension, human
from .derivations import grouped_derivations
from .escape import clipped
from .figures import count, counted, seconds, share
from .places import file_of, in_repository
from .record_head import Limits, shortened
from .review_json import NOT_AUTHORISED, findings_at, source_file
from .tables import Table, capped

Sources = Mapping[str, Sequence[Source]]
#: Characters of one text.
_TEXT = 600
#: Evidence that has a figure for every stage and none for all.
_BY_STAGE = ("stage_latency", "workspace", "activation_memory")


def trail(review: Review, sources: Sources, limits: Limits) -> dict[str, Any]:
    """Everything that the decision stands on."""
    return {
        "findings": _findings(review, sources if limits.sources else {}, limits),
        "suppressed": _suppressed(review, limits),
        "overrides": _overrides(review, limits),
        "invariants": _invariants(review),
        "signals": [
            {"name": one.name, "state": one.state, "text": clipped(one.text, _TEXT), "by": one.by, "rule": one.rule}
            for one in review.counter_signals[: limits.rows]
        ],
        "claims": _claims(review, limits),
        "evidence": _evidence(review, limits),
        "assumed": _assumed(review, limits),
        "missing": _missing(review, limits),
        "conditions": _conditions(review, limits),
        "not_examined": [_closed(one) for one in review.not_examined],
        "skipped": ", ".join(review.skipped_phases),
        "space": _space(review, limits),
        "planning": _planning(review.amortisation),
        "authority": _authority(review),
        "digests": _digests(review, limits),
        "deciders": _deciders(review, limits),
        "derivations": grouped_derivations() if _computed(review) else [],
        "verify_command": "planproof record verify RECORD",
        "proposal_path": in_repository(review.case.loaded),
    }


def _place(review: Review, pointer: str) -> str:
    loaded = review.case.loaded
    place = loaded.place(pointer)
    return f"{file_of(loaded, place, in_repository(loaded))}:{place.line}"


def _findings(review: Review, sources: Sources, limits: Limits) -> list[dict[str, Any]]:
    """By severity, then as they were found; of one rule the first few in words and the places of the rest."""
    groups = []
    shown = 0
    for severity in Severity:
        standing = [one for one in review.findings if one.severity is severity and one.suppressed is None]
        by_rule: dict[str, list[Finding]] = {}
        for finding in standing:
            by_rule.setdefault(finding.rule_id, []).append(finding)
        entries, left = [], 0
        for rule, found in by_rule.items():
            for finding in found[: limits.of_a_rule]:
                if shown >= (limits.errors if severity is Severity.ERROR else limits.findings):
                    left += 1
                    continue
                shown += 1
                entries.append(_entry(review, finding, sources))
            if len(found) > limits.of_a_rule and shown < limits.errors:
                places = [_place(review, one.path) for one in found[limits.of_a_rule :]]
                more = f", and {len(places) - 6} more places" if len(places) > 6 else ""
                also = f"also at {', '.join(places[:6])}{more}."
                entries.append({"rule": rule, "place": "", "message": also, "remedy": "", "source": ""})
        title = {"error": "Errors", "warning": "Warnings", "note": "Notes"}[severity.value]
        if standing:
            groups.append(
                {
                    "title": f"{title} ({len(standing)})",
                    "entries": entries,
                    "more": f"{left} more stand in the JSON of this review." if left else "",
                }
            )
    return groups


def _entry(review: Review, finding: Finding, sources: Sources) -> dict[str, Any]:
    return {
        "rule": finding.rule_id,
        "place": _place(review, finding.path),
        "message": clipped(finding.message, _TEXT),
        "remedy": clipped(finding.remedy, _TEXT),
        "source": "; ".join(_source(one) for one in sources.get(finding.rule_id, ())),
    }


def _source(source: Source) -> str:
    held = f" ({source.version})" if source.version else ""
    return f"{source.kind} {source.value}{held}" + (f": {source.why}" if source.why else "")


def _suppressed(review: Review, limits: Limits) -> list[str]:
    lines = []
    for one in review.findings:
        by = one.suppressed
        if by is not None:
            until = f", until {by.until.isoformat()}" if by.until else ""
            place = _place(review, one.path)
            reason = by.reason.rstrip(".")
            lines.append(f"{one.rule_id} at {place}: {one.message} Suppressed by {by.owner}: {reason}{until}.")
    shown = shortened(lines, limits.rows, "entries")
    if review.judged_on is not None:
        whose = "the date of the review" if review.as_of is not None else "the day of the run"
        shown.append(f"Whether suppressions have run out was judged on {review.judged_on}, {whose}.")
    return shown


def _overrides(review: Review, limits: Limits) -> Table:
    """What the configuration changed, changes of one kind together."""
    rows = []
    for one, rules in groups(review.overrides):
        listed = ", ".join(rules[:12]) + (f" and {len(rules) - 12} more" if len(rules) > 12 else "")
        what = f"{one.what} {one.name}".rstrip()
        rows.append((listed, what, one.before, one.after, f"{one.place.file}:{one.place.line}"))
    return capped(("rule", "what", "before", "after", "place"), rows, limits.rows, "overrides")


def _conditions(review: Review, limits: Limits) -> dict[str, Any]:
    """What must be settled: the findings that say so by their rules, the rest in words."""
    said = {one.message: one.rule_id for one in review.findings}
    rules = [said[one.text] for one in review.conditions if one.text in said]
    others = [f"{one.text} {one.how}".strip() for one in review.conditions if one.text not in (*said, *review.because)]
    return {"rules": ", ".join(dict.fromkeys(rules)), "others": shortened(others, limits.reasons, "conditions")}


def _invariants(review: Review) -> list[str]:
    """What a plan would change, a line each; what every plan keeps in one line."""
    lines = [f"{one.name}: {one.value}, CHANGED by {', '.join(one.changed_by)}" for one in review.invariants if not one.kept]
    kept = [f"{one.name} ({clipped(one.value, 200)})" for one in review.invariants if one.kept]
    return [*lines, f"Kept by every plan: {'; '.join(kept)}."] if kept else lines


def _claims(review: Review, limits: Limits) -> list[str]:
    lines = []
    for k, claim in enumerate(review.case.loaded.stated.claims or ()):
        value = None if claim.value is None else f"{claim.value:g}"
        plan = f"of plan '{clipped(claim.plan, 60)}'" if claim.plan else None
        recipe = claim.recipe.model_dump(mode="json", exclude_none=True) if claim.recipe else {}
        alike = f"alike in both runs: {clipped(', '.join(f'{k} {v}' for k, v in recipe.items()), 200)}" if recipe else None
        said = [part for part in (claim.metric, value, claim.unit, plan, claim.scaling, alike) if part]
        text = f"'{clipped(claim.text, 200)}'" if claim.text else "a figure without a text"
        source = f"source: {clipped(claim.source, 200)}" if claim.source else "no source"
        pointer = f"/claims/{k}"
        found = [f"{one.rule_id}: {clipped(one.message, 300)}" for one in findings_at(review, pointer)]
        verdict = " ".join(found) if found else "no finding"
        lines.append(f"{text} ({', '.join([*said, source])}), {_place(review, pointer)}. {verdict}")
    return shortened(lines, limits.rows, "entries")


def _evidence(review: Review, limits: Limits) -> Table:
    file = in_repository(review.case.loaded)
    rows = []
    for one in review.evidence:
        origin = one.quantity.provenance
        where = source_file(origin, review.case.loaded, file)
        place = f"{where}:{origin.line}" if where and origin.line else where or _place(review, one.path)
        dated = f", {origin.date}" if origin.date else ""
        source = (clipped(origin.source, 200) or "not stated") + dated
        value = "by stage" if one.item in _BY_STAGE and not one.quantity.value else str(one.quantity)
        rows.append((one.item, one.name, value, origin.grade.value, source, place))
    return capped(("item", "what", "value", "grade", "source", "place"), rows, limits.rows, "quantities")


def _assumed(review: Review, limits: Limits) -> Table:
    rows = [(one.item, one.value, one.why, _place(review, one.path)) for one in review.assumed]
    return capped(("not stated", "taken as", "why", "would stand at"), rows, limits.rows, "defaults")


def _missing(review: Review, limits: Limits) -> Table:
    rows = [
        (
            str(k),
            need.text,
            share(need.effect) if need.effect is not None else "not known",
            clipped(need.how, _TEXT),
            _place(review, need.path),
        )
        for k, need in enumerate(review.needs, 1)
    ]
    heads = ("#:", "missing or weak", "moves the answer by:", "how to get it", "place")
    return capped(heads, rows, limits.rows, "items")


def _closed(one: NotExamined) -> dict[str, str]:
    """A capability that is closed, and the chain of rules that closed it or what it is built on."""
    chain = [f"{link.rule} closes {link.capability} ({link.title})" for link in one.chain[:6]]
    left = len(one.chain) - len(chain)
    return {
        "capability": one.capability + (f" of plan '{one.plan}'" if one.plan else ""),
        "chain": "; ".join(
            [
                *([f"it is built on {', '.join(one.through)}"] if one.through else []),
                *chain,
                *([f"and {left} more"] if left > 0 else []),
            ]
        ),
    }


def _space(review: Review, limits: Limits) -> dict[str, Any] | None:
    space = review.space
    if space is None:
        return None
    counts = (
        f"{count(space.size)} plans over {count(space.shapes)} shapes; {count(space.bounded)} bounded from below, "
        f"{count(space.priced)} priced, {count(space.too_large)} of those looked at do not fit, "
        f"{space.ties} tie{'' if space.ties == 1 else 's'} with the fastest"
    )
    fallen = ", ".join(f"{rule} {count(plans)}" for rule, plans in space.fallen)
    return {
        "counts": counts + (f"; fallen by rule: {fallen}" if fallen else "") + ".",
        "method": space.method,
        "complete": "The search ran to its end."
        if space.complete
        else "The search was cut off by a limit: the recommendation is the best of what was looked at.",
        "dimensions": "; ".join(f"{name}: {values}" for name, values in space.dimensions),
        "left_out": [f"{name}: {reason}" for name, reason in space.left_out],
        "rejected": capped(
            ("class that does not fit", "plans:", "nearest miss", "stage:", "excess:", "largest row"),
            [
                (
                    one.class_,
                    count(one.plans),
                    clipped(one.nearest, 200),
                    str(one.stage),
                    human(one.excess_bytes, Dimension.BYTES),
                    one.row,
                )
                for one in space.rejected
            ],
            limits.classes,
            "classes",
        ),
    }


def _planning(one: Amortisation | None) -> list[str]:
    if one is None:
        return []
    lines = [
        f"The search priced {counted(one.priced_candidates, 'candidate')} and expanded {counted(one.states, 'state')}, on paper: "
        "it used no device. Both counts follow from the inputs alone."
    ]
    if one.saved_per_step_s > 0:
        saved = f"The recommended plan saves {seconds(one.saved_per_step_s)} a step"
    else:
        saved = f"The recommended plan costs {seconds(-one.saved_per_step_s)} a step more"
    lines.append(f"{saved} against '{one.against}' on {counted(one.devices, 'device')}.")
    parts = (("profiling", one.profiling_device_seconds), ("change-over", one.change_over_device_seconds))
    known = [f"{name} {human(cost, Dimension.DEVICE_TIME)}" for name, cost in parts if cost is not None]
    unknown = [name for name, cost in parts if cost is None]
    if one.cost_device_seconds is None or not known:
        lines.append(
            "What profiling and change-over cost is not stated ('planning_cost'): whether planning pays is not known, which is "
            "missing evidence and not a cost of nothing."
        )
        return lines
    cost = f"{' and '.join(known)}, {human(one.cost_device_seconds, Dimension.DEVICE_TIME)} in all, by the proposal"
    steps = one.break_even_steps
    least = "at least " if unknown else ""
    even = "is never paid back" if steps is None else f"is paid back after {least}{counted(steps, 'step')}"
    run = f" of a run of {counted(one.run_steps, 'step')}" if one.run_steps else "; the length of the run is not stated"
    lines.append(f"Planning costs {least}{cost}, and {even}{run}.")
    if unknown:
        lines.append(f"What {unknown[0]} costs is not stated ('planning_cost.{unknown[0].replace('-', '_')}'): missing evidence.")
    return lines


def _authority(review: Review) -> dict[str, Any]:
    heading = review.case.loaded.stated.proposal
    asked = heading.authority if heading and heading.authority else "paper_only"
    return {
        "asked": "" if asked == "paper_only" else f"The proposal asks for '{asked}'; a review only reads and computes.",
        "not_authorised": "; ".join(NOT_AUTHORISED),
    }


def _computed(review: Review) -> bool:
    return any(one.priced is not None or one.memory for one in review.candidates)


def _deciders(review: Review, limits: Limits) -> Table:
    """What the recommended plan's step time and memory rest on beside the evidence above, with grade and place."""
    best = review.candidate(review.recommended)
    if best is None:
        return Table((), ())
    file = in_repository(review.case.loaded)
    rows = []
    listed = {(one.quantity.provenance.file, one.quantity.provenance.line) for one in review.evidence}
    for one in deciders_of(best):
        origin = one.quantity.provenance
        if origin.line and (origin.file, origin.line) in listed:
            continue
        where = source_file(origin, review.case.loaded, file) or "the proposal"
        place = f"{where}:{origin.line}" if origin.line else where
        rows.append((one.name, str(one.quantity), one.quantity.grade.value, place))
    return capped(("what decides", "value:", "grade", "place"), rows, limits.rows, "quantities")


def _digests(review: Review, limits: Limits) -> Table:
    names = sorted(review.digests, key=lambda name: (name != "proposal", name))
    rows = [(name, review.digests[name]) for name in names]
    return capped(("input", "sha256"), rows, limits.rows, "inputs")
