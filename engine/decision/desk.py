"""The desk: prices the stated plans, runs the search, and keeps what a decision needs of both.

It is given the gate as a function (`stands`) and asks nothing else of the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field

from ..cost import Priced, StageMemory
from ..cost.measured import MeasuredNumbers, nothing_measured
from ..errors import InputError
from ..facts import Fact
from ..facts.from_claims import speed_up_facts
from ..facts.from_price import amortisation_fact, comparison_fact, result_fact, step_fact
from ..facts.from_profile import usable_profile
from ..facts.from_topology import probe_fact
from ..facts.limits import limits_of
from ..frozen import dataclass
from ..plan import Plan, Role
from ..proposal import Case
from ..quantity import Estimate
from ..search.pricing import PlanPricer
from ..search.space import UniformSpace
from ..search.tally import Found
from .boundaries import Boundary, plan_boundaries
from .closures import Closures
from .operators import PlanOperators, facts_of, plan_operators
from .pricers import Search, pricer_of, search_of, space_of
from .probe import axes_on_the_fabric, halved
from .profile_stages import ProfileStages
from .selection import Selection, Stands, fallback, select

#: Candidates that are kept for the sensitivity's pool.
MET = 12
Judge = Callable[[Plan, Sequence[StageMemory]], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the search came to, with its facts."""

    space: UniformSpace
    search: Search
    selection: Selection
    fastest: Priced | None
    recommended: Priced | None
    fallback: Priced | None
    fallback_reason: str
    ratios: Mapping[str, Estimate]
    facts: tuple[Fact, ...]
    #: The rules that fell a plan, as they were asked in the search.
    stands: Stands
    #: The first candidates that the choice looked at, in their order.
    met: tuple[Found, ...] = ()


@dataclass(slots=True)
class Desk:
    """The pricing of one case. `stated` holds the priced stated plans by name."""

    case: Case
    stated: dict[str, Priced] = field(default_factory=dict)
    pricer: PlanPricer = field(init=False)
    #: The same on the cluster with half the fabric; made when it is first asked for.
    halved: PlanPricer | None = field(default=None, init=False)
    _operators: dict[tuple[object, ...], PlanOperators] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        case = self.case
        self.pricer = pricer_of(case, None, numbers_of(case), headroom_of(case))

    def is_measured(self, plan: Plan) -> bool:
        """Whether the plan is priced on measured stages, all of them or some."""
        return self.pricer.timed(plan) is not None

    def price_stated(self, shut: Closures) -> None:
        """Price every stated plan that is complete and for which time is open.

        One that cannot be laid out has no price: rules refuse it, and where a configuration or a comment silences them, what
        they would have closed stands as a condition.
        """
        for plan in self.case.plans:
            if plan.plan is None or shut.closed("time", plan.name):
                continue
            if self.case.cluster is not None and plan.plan.devices <= self.case.cluster.devices:
                with suppress(InputError):
                    self.stated[plan.name] = self.price(plan.plan)

    def price(self, plan: Plan) -> Priced:
        """A plan with everything that is known of it."""
        return self.pricer.price(plan)

    def step_facts(self) -> Iterator[Fact]:
        """One fact a priced stated plan, and what links allow of a claimed speed-up over the reference."""
        yield from speed_up_facts(self.case, {name: priced.step_estimate.high for name, priced in self.stated.items()})
        for plan in self.case.plans:
            priced = self.stated.get(plan.name)
            if priced is not None:
                yield step_fact(priced, plan.path, priced.step_estimate, priced.mfu)
                yield from self.probe(priced, plan.path)
                if any(stage.layouts for stage in priced.plan.stages):
                    yield from facts_of(priced, plan.path, self.operators(priced))

    def operators(self, priced: Priced) -> PlanOperators:
        """The longest stage of a plan operator by operator, worked out once."""
        found = self._operators.get(priced.plan.identity)
        if found is None:
            found = self._operators[priced.plan.identity] = plan_operators(priced, self.pricer, given=self.case.graph)
        return found

    def boundaries(self, priced: Priced) -> tuple[Boundary, ...]:
        """What crosses between the stages of a plan."""
        return plan_boundaries(priced, self.pricer)

    def probe(self, priced: Priced, path: str) -> Iterator[Fact]:
        """What the step time of a plan does where the fabric has half its bandwidth; nothing for one that keeps off it."""
        case = self.case
        assert case.cluster is not None
        axes = axes_on_the_fabric(priced.plan, case.cluster)
        slower = halved(case.cluster) if axes else None
        if slower is not None:
            if self.halved is None:
                self.halved = pricer_of(case, slower, self.pricer.numbers, like=self.pricer)
            seconds = self.halved.seconds(priced.plan)
            name = case.cluster.tiers[-1].name
            yield probe_fact(priced.plan.name, path, name, axes, priced.step.seconds, seconds)

    def search(self, judge: Judge, shut: Closures, work_limit: int | None, seconds: float | None = None) -> Outcome:
        """The declared space, best first, until one plan stands and the simplest tie and a fallback are known."""
        case = self.case
        space = space_of(case, self.pricer)
        search = search_of(space, self.pricer, work_limit, seconds)
        verdicts: dict[tuple[object, ...], tuple[str, ...]] = {}

        def stands(found: Found) -> tuple[str, ...]:
            known = verdicts.get(found.plan.identity)
            if known is None:
                known = verdicts[found.plan.identity] = judge(found.plan.named("found", Role.CANDIDATE), found.memory)
            return known

        def ratio(first: Found, second: Found) -> Estimate:
            return self.pricer.ratio(self.pricer.price(first.plan), self.pricer.price(second.plan))

        met: list[Found] = []

        def candidates(wanted: Callable[[Plan], bool]) -> Iterator[Found]:
            for found in search.candidates(wanted):
                if len(met) < MET:
                    met.append(found)
                yield found

        contenders = self.contenders(shut)
        chosen = select(candidates, stands, ratio, contenders)
        best, simpler, reason = None, None, "nothing is recommended"
        if chosen.recommended is not None:
            best = self._as_stated(chosen.recommended, "recommended")
            found, reason = fallback(chosen.recommended, search.candidates, stands, contenders)
            simpler = self._as_stated(found, "fallback") if found is not None else None
        elif not search.tally.cut_off:
            search.exhaust_memory()
        ratios = {name: self.pricer.ratio(priced, best) for name, priced in self.stated.items()} if best else {}
        facts = tuple(self._facts(search.size, best, ratios))
        fastest = self.price(chosen.fastest.plan) if chosen.fastest is not None else None
        return Outcome(space, search, chosen, fastest, best, simpler, reason, ratios, facts, stands, tuple(met))

    def contenders(self, shut: Closures) -> tuple[Found, ...]:
        """Stated plans within the limits that no rule fells: they compete with what the search finds, uneven ones too."""
        limits = limits_of(self.case.limits)
        return tuple(
            Found(priced.plan, priced.step.seconds, priced.feasible, priced.memory)
            for name, priced in self.stated.items()
            if not shut.plan_falls(name) and limits.violated(priced.plan) is None
        )

    def _as_stated(self, found: Found, name: str) -> Priced:
        """The stated plan that is the same, if any, under its own name; else the found one under `name`, priced."""
        for stated in self.stated.values():
            if stated.plan.identity == found.plan.identity:
                return stated
        return self.price(found.plan.named(name, Role.CANDIDATE))

    def _facts(self, size: int, best: Priced | None, ratios: Mapping[str, Estimate]) -> Iterator[Fact]:
        case = self.case
        same = next((n for n, p in self.stated.items() if best and p.plan.identity == best.plan.identity), None)
        step = best.step_estimate if best else None
        yield result_fact(size, best, step, same, case.run_steps, uneven=True)
        if best is None:
            return
        if same is None:
            yield from self.probe(best, "/plans")
        for plan in case.plans:
            if plan.name in ratios:
                stated = self.stated[plan.name]
                yield comparison_fact(stated.plan, plan.path, best.plan, ratios[plan.name], stated.feasible)
        against = self.against()
        if against is not None and case.described.devices is not None:
            yield amortisation_fact(
                best.plan,
                against.plan,
                against.step_estimate.value - best.step_estimate.value,
                case.described.devices,
                self.planning_cost(),
                case.run_steps,
            )

    def against(self) -> Priced | None:
        """What would run without planning: the reference plan, where it is priced."""
        reference = self.case.with_role(Role.REFERENCE)
        return self.stated.get(reference.name) if reference else None

    def planning_cost(self) -> int | None:
        """Device-seconds of profiling and change-over, None where neither is stated."""
        cost = self.case.loaded.stated.planning_cost
        parts = [part.value for part in (cost.profiling, cost.change_over) if part is not None] if cost else []
        return round(sum(parts)) if parts else None


def numbers_of(case: Case) -> MeasuredNumbers:
    """What the proposal's profile says of stages, where it is of this model."""
    profile = usable_profile(case)
    if profile is None or case.profile_quantity is None:
        return nothing_measured
    return ProfileStages(profile, case.profile_quantity)


def headroom_of(case: Case) -> float:
    """The share of memory that the proposal's policy keeps free on every rank."""
    policy = case.loaded.stated.policy
    return float(policy.headroom.value) if policy is not None and policy.headroom is not None else 0.0
