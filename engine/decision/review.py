"""What a review is: the whole decision as one frozen value. Writers put it into words; nothing in it is computed later.

Vocabulary: a *candidate* is a priced plan with the roles it plays (recommended, fallback, reference, submitted ...); a
*condition* is what must be settled before the verdict can be better; a *counter-signal* speaks against trusting the result
until it is closed by a computation or by evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING

from ..cost import Priced, StageMemory
from ..cost.critical import StepPath
from ..frozen import dataclass
from ..inference import Finding
from ..inference.rule import Source
from ..plan import Plan
from ..proposal import Assumed, Case, Evidence, Missing
from ..quantity import Estimate, Provenance
from .closures import NotExamined
from .measured_numbers import StageNumbers

if TYPE_CHECKING:
    from ..config import Change
    from .boundaries import Boundary
    from .operators import PlanOperators
    from .remedy import Clearing
    from .sensitivity import Joint, Sensitivity


class Verdict(StrEnum):
    """REFUSED: may not run as proposed, or cannot be judged. CONDITIONAL: a plan, with conditions. SUPPORTED: no conditions."""

    REFUSED = "REFUSED"
    CONDITIONAL = "CONDITIONAL"
    SUPPORTED = "SUPPORTED"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan with its price. `step` carries the interval and grade that are reported; `measured`: some stage was timed."""

    id: str
    roles: tuple[str, ...]
    plan: Plan
    path: str
    simplicity: tuple[int, ...]
    priced: Priced | None
    memory: tuple[StageMemory, ...]
    step: Estimate | None
    feasible: str
    binding: str
    measured: bool = False
    #: What of each stage was measured and what is estimated; empty where the profile has nothing of the plan.
    numbers: tuple[StageNumbers, ...] = ()
    fallen: tuple[str, ...] = ()
    #: Its step time over that of the recommended plan, under common draws; None for that plan itself.
    ratio: Estimate | None = None
    #: What its step cannot end before; None where it is not priced.
    critical: StepPath | None = None
    #: Its longest stage operator by operator, of the recommended plan and of stated plans that say how operators lie.
    operators: PlanOperators | None = None
    #: What crosses between its stages, of the recommended plan; None of others and where nothing is priced.
    boundaries: tuple[Boundary, ...] | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class Condition:
    """Something to settle: what, why it matters, and the command or document that settles it."""

    item: str
    text: str
    how: str


@dataclass(frozen=True, slots=True)
class Need:
    """Missing or weak evidence. `effect` is the share of the step time or memory that hangs on it, None where unknown."""

    item: str
    text: str
    how: str
    path: str
    grade: str | None
    effect: float | None


@dataclass(frozen=True, slots=True)
class CounterSignal:
    """What speaks against the result, its state, and what closed it or would."""

    name: str
    state: str
    text: str
    by: str
    rule: str
    path: str


@dataclass(frozen=True, slots=True)
class Invariant:
    """Training semantics that every compared plan keeps, with its value; `kept` is False where a plan would change it."""

    name: str
    value: str
    kept: bool
    changed_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejected:
    """A class of plans of the declared space that does not fit: how many, and the smallest excess among them."""

    class_: str
    plans: int
    nearest: str
    stage: int
    excess_bytes: int
    row: str


@dataclass(frozen=True, slots=True)
class SpaceReport:
    """The declared space: dimensions, size, what happened to its plans, what it leaves out, and the method with its bound."""

    size: int
    dimensions: tuple[tuple[str, str], ...]
    left_out: tuple[tuple[str, str], ...]
    shapes: int
    bounded: int
    priced: int
    too_large: int
    fallen: tuple[tuple[str, int], ...]
    method: str
    complete: bool
    rejected: tuple[Rejected, ...]
    ties: int
    #: Seconds that no plan left unpriced, though its bound was below a priced one, can be under; None where there is none.
    floor_s: float | None = None


@dataclass(frozen=True, slots=True)
class Amortisation:
    """What planning costs and when it has paid. None is unknown, which is missing evidence.

    `cost_device_seconds` is the sum of what is stated of `profiling_device_seconds` and `change_over_device_seconds`.
    `states`: what the search bounded or put into its stage tables; it and `priced_candidates` depend on the inputs alone.
    """

    against: str
    saved_per_step_s: float
    devices: int
    cost_device_seconds: float | None
    break_even_steps: int | None
    run_steps: int | None
    priced_candidates: int
    states: int
    profiling_device_seconds: float | None = None
    change_over_device_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """One line of the verification plan: what to measure, what is predicted, and what would overturn the decision.

    `estimate` is the prediction as a number with the interval inside which it holds; None where it is no number.
    """

    key: str
    what: str
    predicted: str
    overturns: str
    estimate: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Trials:
    """How long to measure: steps thrown away and kept in a run, runs of each plan; `runs` None where no number is proposed."""

    warm_up: int
    steps: int
    runs: int | None
    against: str | None
    ratio: Estimate | None
    #: The smallest ratio above 1 that so many runs tell from 1; None without runs.
    told_apart: float | None
    step_noise: float
    run_noise: float
    sources: tuple[Provenance, Provenance]


@dataclass(frozen=True, slots=True)
class Review:
    """A finished review."""

    case: Case
    as_of: str | None
    verdict: Verdict
    refused_of: str | None
    sentence: str
    because: tuple[str, ...]
    findings: tuple[Finding, ...]
    candidates: tuple[Candidate, ...]
    recommended: str | None
    fallback: str | None
    fallback_reason: str
    why_recommended: str
    conditions: tuple[Condition, ...]
    needs: tuple[Need, ...]
    missing: tuple[Missing, ...]
    assumed: tuple[Assumed, ...]
    evidence: tuple[Evidence, ...]
    counter_signals: tuple[CounterSignal, ...]
    invariants: tuple[Invariant, ...]
    not_examined: tuple[NotExamined, ...]
    skipped_phases: tuple[str, ...]
    space: SpaceReport | None
    amortisation: Amortisation | None
    verification: tuple[Measurement, ...]
    digests: Mapping[str, str]
    rules: int
    trials: Trials | None = None
    #: Where each input changes the answer; the joint worst case; what clears the memory of plans at risk or too large.
    sensitivity: tuple[Sensitivity, ...] = ()
    joint: Joint | None = None
    clearings: tuple[Clearing, ...] = ()
    #: What the configuration changed in the rules.
    overrides: tuple[Change, ...] = ()
    #: The day on which suppressions were judged; None where the proposal has none.
    judged_on: str | None = None
    #: What was chosen for this review beyond the proposal, as (option, value): what `record verify` uses again.
    options: tuple[tuple[str, str | bool], ...] = ()
    #: Why each rule exists, by rule id, for those that found something.
    sources: Mapping[str, tuple[Source, ...]] = field(default_factory=dict)
    produced_with: Mapping[str, object] = field(default_factory=dict, compare=False)

    def candidate(self, id_: str | None) -> Candidate | None:
        """The candidate of that id."""
        return next((one for one in self.candidates if one.id == id_), None)

    def place(self, pointer: str) -> tuple[int | None, int | None]:
        """Line and column of a pointer in the proposal."""
        place = self.case.loaded.place(pointer)
        return place.line, place.column
