"""What `lint` reports of one proposal: findings in the order of their places, and the memory that is left.

The writers (text, concise, JSON ...) put it into their formats. Knows nothing of how the findings came about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import Place
from ..facts import Fact
from ..frozen import dataclass
from ..inference import Finding, Phase, Rule, Severity

if TYPE_CHECKING:
    from datetime import date

    from ..config import Change
    from ..cost import StageMemory
    from ..proposal import Case, LoadedProposal

#: From the worst on.
SEVERITIES = (Severity.ERROR, Severity.WARNING, Severity.NOTE)


class Examined(Protocol):
    """A judged proposal, as far as a report needs it."""

    @property
    def case(self) -> Case:
        """The proposal, resolved."""

    @property
    def facts(self) -> Sequence[Fact]:
        """All facts, the concluded ones last."""

    @property
    def findings(self) -> Sequence[Finding]:
        """In any order."""

    @property
    def ledgers(self) -> Mapping[str, tuple[StageMemory, ...]]:
        """The memory ledgers of stated plans, by name."""

    @property
    def skipped(self) -> Sequence[Phase]:
        """Phases that did not run."""


@dataclass(frozen=True, slots=True)
class Headroom:
    """What is left on the fullest rank of a plan; negative where it does not fit. `basis`: estimated or measured."""

    plan: str
    stage: int
    rank_class: str
    bytes: int
    capacity_bytes: int
    basis: str


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms a proposal was judged: what the configuration changed in the rules and says of the exit status.

    `judged_on` is the day on which its suppressions were judged, None where it has none; `dated`: whether a date of the review
    was given, so that another day's run would be the same.
    """

    overrides: tuple[Change, ...] = ()
    mandatory: frozenset[str] = frozenset()
    fail_on: str | None = None
    judged_on: date | None = None
    dated: bool = False


@dataclass(frozen=True)
class Report:
    """One proposal's findings, those of earlier lines first. `skipped`: phases that closures kept from running.

    `rules` are the rules that found something, by id; `known` the positions of the findings that a baseline has.
    """

    loaded: LoadedProposal
    findings: tuple[Finding, ...]
    facts: tuple[Fact, ...]
    skipped: tuple[Phase, ...]
    headroom: Headroom | None
    rules: Mapping[str, Rule] = field(default_factory=dict)
    terms: Terms = Terms()
    known: frozenset[int] = frozenset()

    @property
    def path(self) -> str:
        """The file, as it was named."""
        return self.loaded.document.name

    @cached_property
    def standing(self) -> tuple[Finding, ...]:
        """The findings that nobody suppressed."""
        return tuple(finding for finding in self.findings if finding.suppressed is None)

    @cached_property
    def counted(self) -> tuple[Finding, ...]:
        """The findings that the exit status follows from: those that stand and that no baseline has."""
        return tuple(
            finding for k, finding in enumerate(self.findings) if finding.suppressed is None and k not in self.known
        )

    def number(self, severity: Severity) -> int:
        """How many standing findings are of `severity`."""
        return sum(finding.severity is severity for finding in self.standing)

    @property
    def passes(self) -> bool:
        """Whether there is no error."""
        return self.number(Severity.ERROR) == 0

    def place(self, finding: Finding) -> Place:
        """Where the finding stands in the file."""
        return self.loaded.place(finding.path)

    def to_json(self) -> dict[str, Any]:
        """The report as plain data, as `lint --format json` prints it."""
        from .lint_json import report_json

        return report_json(self)


def from_examination(examined: Examined, rules: Iterable[Rule] = (), terms: Terms | None = None) -> Report:
    """The report of a proposal that was judged by `rules` on `terms`."""
    loaded = examined.case.loaded
    found = {finding.rule_id for finding in examined.findings}

    def place(finding: Finding) -> tuple[int, int, str, str, str]:
        where = loaded.place(finding.path)
        return where.line or 0, where.column or 0, finding.rule_id, finding.path, finding.message

    return Report(
        loaded=loaded,
        findings=tuple(sorted(examined.findings, key=place)),
        facts=tuple(examined.facts),
        skipped=tuple(examined.skipped),
        headroom=_headroom(examined),
        rules={rule.id: rule for rule in rules if rule.id in found},
        terms=terms or Terms(),
    )


def _headroom(examined: Examined) -> Headroom | None:
    """The least memory left over the ranks of the submitted plan, else the reference, else the first that has a ledger.

    Measured bytes stand in place of estimates where the proposal's profile has them.
    """
    order = {"submitted": 0, "reference": 1}
    for plan in sorted(examined.case.plans, key=lambda plan: order.get(plan.role.value, 2)):
        ledger = examined.ledgers.get(plan.name, ())
        classes = {memory.stage: memory.rank_class for memory in ledger}
        measured = [
            Headroom(
                plan.name,
                stage := int(fact["stage"]),
                classes.get(stage, f"layers {fact['first_layer']} to {fact['last_layer']}"),
                -int(fact["excess_bytes"]),
                int(fact["capacity_bytes"]),
                "measured",
            )
            for fact in examined.facts
            if fact.kind == "measured_memory" and fact["plan"] == plan.name
        ]
        known = {one.stage for one in measured}
        estimated = [
            Headroom(
                plan.name,
                memory.stage,
                memory.rank_class,
                memory.capacity_bytes - int(memory.device.value),
                memory.capacity_bytes,
                "estimated",
            )
            for memory in ledger
            if memory.stage not in known
        ]
        found = [*measured, *estimated]
        if found:
            return min(found, key=lambda one: (one.bytes, one.stage))
    return None
