"""What a change does: two reviews side by side, in verdict, plans, step time, memory and findings; as text or JSON.

Vocabulary: a *pair* is one plan before and after, matched by the role that it plays and, for candidates, by its name. The ratio
of two step times is formed under common draws where model, workload and cluster are the same, since the two errors are then
mostly one error; otherwise from the ends of both intervals, which is wider. Findings are matched by what they are about, so
moved lines and reordered plans are no change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

from ..cost import StageMemory, Uncertainty
from ..decision.review import Candidate, Review
from ..frozen import dataclass
from ..inference import Finding, Severity
from ..quantity import Dimension, Estimate, Provenance, human
from .escape import clipped, terminal, visible
from .figures import interval, ratio, seconds
from .fingerprints import about
from .lint_report import SEVERITIES
from .outlook_json import estimate_of
from .places import in_repository
from .review_json import finding_json, memory_json, suppression_json

SCHEMA: Final = 1
#: Rows of memory and terms of time that moved are shown from this share of the whole on, and so many at most.
_SHARE: Final = 0.01
_ROWS: Final = 5
#: Roles by which a plan is the same plan, whatever it is called.
_ROLES: Final = ("submitted", "reference", "recommended")


@dataclass(frozen=True, slots=True)
class Pair:
    """A plan before and after, what it is called here, and its step time after over that before."""

    label: str
    before: Candidate | None
    after: Candidate | None
    ratio: Estimate | None


@dataclass(frozen=True, slots=True)
class Difference:
    """Two reviews and what differs. `changed` are findings about the same thing that say something else now."""

    before: Review
    after: Review
    pairs: tuple[Pair, ...]
    new: tuple[Finding, ...]
    gone: tuple[Finding, ...]
    changed: tuple[tuple[Finding, Finding], ...]
    kept: int

    @property
    def refused(self) -> bool:
        """Whether the change is what makes it refused."""
        return self.after.verdict.value == "REFUSED" != self.before.verdict.value

    @property
    def worse(self) -> tuple[Finding, ...]:
        """The findings that the change brings: new ones, and those that became more severe or stand again."""
        return self.new + tuple(now for was, now in self.changed if _weight(now) < _weight(was))


def compare(before: Review, after: Review) -> Difference:
    """What differs between two reviews."""
    old = _by_subject(before)
    new = _by_subject(after)
    both = [key for key in new if key in old]
    changed = tuple((old[key], new[key]) for key in both if _said(old[key]) != _said(new[key]))
    return Difference(
        before,
        after,
        tuple(_pairs(before, after)),
        tuple(_in_order(finding for key, finding in new.items() if key not in old)),
        tuple(_in_order(finding for key, finding in old.items() if key not in new)),
        changed,
        len(both) - len(changed),
    )


def _by_subject(review: Review) -> dict[tuple[str, int], Finding]:
    """Findings by what they are about, and a number where several are about one thing."""
    seen: Counter[str] = Counter()
    found = {}
    for finding in review.findings:
        key = about(finding, review.case.loaded.document.data)
        seen[key] += 1
        found[key, seen[key]] = finding
    return found


def _said(finding: Finding) -> tuple[object, ...]:
    return finding.severity, finding.message, finding.suppressed is None


def _weight(finding: Finding) -> int:
    """0 for a standing error, and so on; what is suppressed weighs least."""
    return SEVERITIES.index(finding.severity) if finding.suppressed is None else len(SEVERITIES)


def _in_order(findings: Iterator[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda one: (_weight(one), one.rule_id, one.path))


def _pairs(before: Review, after: Review) -> Iterator[Pair]:
    shown: set[tuple[str | None, str | None]] = set()
    uncertainty = _common(before, after)

    def pair(label: str, was: Candidate | None, now: Candidate | None) -> Iterator[Pair]:
        key = (was.id if was else None, now.id if now else None)
        if key != (None, None) and key not in shown:
            shown.add(key)
            yield Pair(label, was, now, _ratio(was, now, uncertainty))

    for role in _ROLES:
        yield from pair(role, _with_role(before, role), _with_role(after, role))
    names = {one.plan.name: one for one in before.candidates if one.path}
    for one in after.candidates:
        if one.path and one.plan.name in names:
            yield from pair("candidate", names[one.plan.name], one)


def _with_role(review: Review, role: str) -> Candidate | None:
    return next((one for one in review.candidates if role in one.roles), None)


def _ratio(before: Candidate | None, after: Candidate | None, uncertainty: Uncertainty | None) -> Estimate | None:
    """The step time after over that before; None where one of them is not known."""
    if before is None or after is None or before.step is None or after.step is None:
        return None
    old, new = before.step, after.step
    modelled = before.priced is not None and after.priced is not None and not (before.measured or after.measured)
    if uncertainty is not None and modelled and before.priced is not None and after.priced is not None:
        return uncertainty.ratio(after.plan, before.plan, (after.priced.step, before.priced.step))
    grade = max(old.grade, new.grade, key=lambda one: one.rank)
    return Estimate(
        new.value / old.value, new.low / old.high, new.high / old.low, Dimension.FRACTION, grade, (*old.deciders, *new.deciders)
    )


def _common(before: Review, after: Review) -> Uncertainty | None:
    """The intervals that both reviews share; None where what is trained, or what on, is not the same."""
    old, new = before.case, after.case
    if new.model is None or new.workload is None or new.cluster is None:
        return None
    if _values((old.model, old.workload, old.cluster)) != _values((new.model, new.workload, new.cluster)):
        return None
    return Uncertainty(new.model, new.workload, new.cluster)


def _values(one: object) -> object:
    """A value without where it was written: of a provenance its grade alone counts."""
    if isinstance(one, Provenance):
        return one.grade
    if is_dataclass(one):
        return type(one).__name__, tuple(_values(getattr(one, field.name)) for field in fields(one))
    if isinstance(one, tuple | list):
        return tuple(map(_values, one))
    if isinstance(one, dict):
        return tuple((key, _values(value)) for key, value in one.items())
    return one


# Text


def difference_text(found: Difference) -> str:
    """Verdict first, then the plans, then the findings: what came, what went, what says something else."""
    before, after = found.before, found.after
    lines = [
        terminal(f"{_name(before)} -> {_name(after)}"),
        f"verdict: {_verdict(before)} -> {_verdict(after)}",
    ]
    if after.sentence != before.sentence:
        lines.append(f"  now: {visible(after.sentence)}")
    for pair in found.pairs:
        lines += ["", *_pair_lines(pair)]
    counts = f"{len(found.new)} new, {len(found.gone)} gone, {len(found.changed)} changed, {found.kept} as before"
    lines += ["", f"findings: {counts}"]
    lines += [f"  + {_finding(one, after)}" for one in found.new]
    lines += [f"  - {_finding(one, before)}" for one in found.gone]
    for was, now in found.changed:
        lines.append(f"  ~ {_finding(now, after)}")
        lines.append(f"    was: {visible(_standing(was))} {visible(was.message)}")
    return "\n".join(lines) + "\n"


def _name(review: Review) -> str:
    return review.case.loaded.document.name


def _verdict(review: Review) -> str:
    return review.verdict.value + (f" of {review.refused_of}" if review.refused_of else "")


def _standing(finding: Finding) -> str:
    return finding.severity.value + (" (suppressed)" if finding.suppressed is not None else "")


def _finding(finding: Finding, review: Review) -> str:
    line, column = review.place(finding.path)
    where = visible(f"{_name(review)}:{line}:{column}")
    return f"{_standing(finding)} {finding.rule_id} {where}: {visible(finding.message)}"


def _pair_lines(pair: Pair) -> Iterator[str]:
    was, now = pair.before, pair.after
    names = [clipped(visible(one.plan.name), 60) if one is not None else "none" for one in (was, now)]
    yield f"{pair.label}: " + (f"'{names[0]}'" if names[0] == names[1] else f"{_quoted(names[0])} -> {_quoted(names[1])}")
    if was is None or now is None:
        yield f"  there is no {pair.label} plan {'before' if was is None else 'after'} the change"
    steps = [interval(one.step) if one is not None and one.step is not None else "not known" for one in (was, now)]
    yield f"  step time    {steps[0]} -> {steps[1]}" + (f"; {_ratio_words(pair.ratio)}" if pair.ratio is not None else "")
    yield from _terms(was, now)
    peaks = [_peak(one) for one in (was, now)]
    words = [_peak_words(one) for one in peaks]
    left = [one.capacity_bytes - one.device.value if one is not None else None for one in peaks]
    change = f"; {_change(left[1] - left[0])} left" if left[0] is not None and left[1] is not None else ""
    yield f"  peak memory  {words[0]} -> {words[1]}{change}"
    yield from _rows(*peaks)
    fits = [one.feasible if one is not None else "not known" for one in (was, now)]
    if fits[0] != fits[1]:
        yield f"  fits         {fits[0]} -> {fits[1]}"


def _quoted(name: str) -> str:
    return name if name == "none" else f"'{name}'"


def _ratio_words(estimate: Estimate) -> str:
    if estimate.low == estimate.high == 1:
        return "as before"
    word = "faster" if estimate.high < 1 else "slower" if estimate.low > 1 else "no difference that is sure"
    return f"{ratio(estimate)} of before: {word}"


def _terms(was: Candidate | None, now: Candidate | None) -> Iterator[str]:
    """The terms of the step that moved most."""
    if was is None or now is None or was.priced is None or now.priced is None:
        return
    old, new = ({name: float(value) for name, value in one.step.terms} for one in (was.priced, now.priced))
    for name in _moved(old, new, was.priced.step.seconds):
        yield f"    {name.replace('_', ' ')}: {seconds(old.get(name, 0.0))} -> {seconds(new.get(name, 0.0))}"


def _rows(was: StageMemory | None, now: StageMemory | None) -> Iterator[str]:
    """The rows of the fullest ranks' memory that moved most."""
    if was is None or now is None:
        return
    old, new = ({row.name: float(row.bytes) for row in one.rows} for one in (was, now))
    for name in _moved(old, new, float(was.capacity_bytes)):
        yield f"    {name}: {human(old.get(name, 0.0), Dimension.BYTES)} -> {human(new.get(name, 0.0), Dimension.BYTES)}"


def _moved(old: dict[str, float], new: dict[str, float], whole: float) -> list[str]:
    moves = {name: abs(new.get(name, 0.0) - old.get(name, 0.0)) for name in {**old, **new}}
    large = [name for name, size in moves.items() if size >= _SHARE * whole]
    return sorted(large, key=lambda name: (-moves[name], name))[:_ROWS]


def _peak(one: Candidate | None) -> StageMemory | None:
    """The memory of the stage with the least left."""
    return min(one.memory, key=lambda memory: memory.capacity_bytes - memory.device.value, default=None) if one else None


def _peak_words(memory: StageMemory | None) -> str:
    if memory is None:
        return "not known"
    amount, of = human(memory.device.value, Dimension.BYTES), human(memory.capacity_bytes, Dimension.BYTES)
    return f"{amount} of {of} (stage {memory.stage}, {memory.rank_class})"


def _change(difference: float) -> str:
    if not round(difference):
        return "as much"
    return f"{human(abs(difference), Dimension.BYTES)} {'more' if difference > 0 else 'less'}"


# JSON


def difference_json(found: Difference) -> dict[str, Any]:
    """The same as plain data; findings and candidates in the form that a review's JSON has."""
    before, after = found.before, found.after
    return {
        "schema": SCHEMA,
        "before": _side(before),
        "after": _side(after),
        "plans": [
            {
                "label": pair.label,
                "before": _candidate(pair.before),
                "after": _candidate(pair.after),
                "step_time_ratio": estimate_of(pair.ratio) if pair.ratio is not None else None,
            }
            for pair in found.pairs
        ],
        "findings": {
            "new": _findings(found.new, after),
            "gone": _findings(found.gone, before),
            "changed": [
                {"before": _findings([was], before)[0], "after": _findings([now], after)[0]} for was, now in found.changed
            ],
            "kept": found.kept,
        },
        "refused_by_the_change": found.refused,
    }


def _side(review: Review) -> dict[str, Any]:
    return {
        "path": in_repository(review.case.loaded),
        "sha256": review.case.loaded.document.sha256,
        "verdict": review.verdict.value,
        "refused_of": review.refused_of,
        "recommended": review.recommended,
        "findings": {severity.value: _number(review, severity) for severity in SEVERITIES},
    }


def _number(review: Review, severity: Severity) -> int:
    return sum(one.severity is severity and one.suppressed is None for one in review.findings)


def _candidate(one: Candidate | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {
        "id": one.id,
        "name": one.plan.name,
        "roles": list(one.roles),
        "step_time_s": estimate_of(one.step) if one.step is not None else None,
        "peak": memory_json(one.plan, one.memory)["peak"],
        "feasible": one.feasible,
    }


def _findings(findings: Sequence[Finding], review: Review) -> list[dict[str, Any]]:
    loaded, name = review.case.loaded, in_repository(review.case.loaded)
    return [finding_json(one, loaded, name) | {"suppressed": suppression_json(one)} for one in findings]
