"""At which value of each input the recommendation changes, by search: re-decided over a pool of plans, then bisected.

Vocabulary: the *pool* holds the plans that lead somewhere inside the searched ranges, each with its step time as reported today
over its closed form (its *correction*), so that today's decision is the reported one; a *break-even* is the value nearest
to today's at which another plan, or none, is recommended. The choice is that of `selection.select`, with its rule of ties.
Nothing is extrapolated: where no value of the searched range changes the answer, that is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import gcd, lcm

from ..cost import Priced
from ..cost.memory import Fit
from ..plan import Plan
from ..quantity import Dimension, Estimate, Grade, Provenance
from ..search.space import Shape
from ..search.tally import Found
from .altered import Basis, Input, World, inputs_of
from .desk import Desk, Outcome
from .selection import PRICE_OF_SIMPLICITY, Selection, Stands, select

#: Relative width at which a bisection ends.
PRECISION = 1e-3
#: Shapes that are scored in each world, and plans that each world puts into the pool.
CLASSES, EACH = 24, 2
#: Plans whose memory is judged again where memory is scarcer.
LEDGERS = 300
#: Step times further apart than this, by closed form, are not put right by simulation.
NEAR = 1.12


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The value at which the answer changes: what is recommended beyond it, None where nothing fits, and why."""

    value: float
    factor: float | None
    becomes: Plan | None
    text: str
    #: Whether the value lies inside the range that the evidence leaves.
    inside: bool


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """One input: today's value, its range, and the break-even values on either side; None where none was found."""

    name: str
    dimension: Dimension | None
    unit: str
    today: float
    low: float
    high: float
    provenance: Provenance | None
    why_range: str
    below: BreakEven | None
    above: BreakEven | None
    #: The smallest and largest value that was looked at.
    searched: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Joint:
    """Every input at its worst for the recommended plan, inside its range.

    `regret`: its step time there over that of the best plan of the pool there; None where it fits nowhere.
    """

    step_s: float
    regret: float
    best: Plan
    recommended: Plan | None
    fits: Fit
    at: tuple[tuple[str, float, Dimension], ...]
    slowest_s: float


@dataclass(slots=True)
class Pool:
    """The plans that a decision is re-made over, and what re-making it needs. `decide` is the whole rule."""

    desk: Desk
    stands: Stands
    plans: list[Plan] = field(default_factory=list)
    standing: set[tuple[object, ...]] = field(default_factory=set)
    _known: set[tuple[object, ...]] = field(default_factory=set)
    _correction: dict[tuple[object, ...], float] = field(default_factory=dict)
    _fits: dict[tuple[tuple[object, ...], float | None], Found] = field(default_factory=dict)
    _priced: dict[tuple[object, ...], Priced] = field(default_factory=dict)
    _spread: dict[tuple[object, object], tuple[float, float]] = field(default_factory=dict)
    _worlds: dict[tuple[str, float], World] = field(default_factory=dict)

    def add(self, plan: Plan) -> None:
        """Take a plan in, once."""
        if plan.identity not in self._known:
            self._known.add(plan.identity)
            self.plans.append(plan)

    def world(self, one: Input, start: Basis, value: float) -> World:
        """The case with one input at `value`; made once, for it keeps what it has priced."""
        key = one.name, value
        found = self._worlds.get(key)
        if found is None:
            found = self._worlds[key] = one.change(start, value).world()
        return found

    def correction(self, plan: Plan) -> float:
        """The reported step time over the closed form, today; 1 over measured stages."""
        found = self._correction.get(plan.identity)
        if found is None:
            measured = self.desk.pricer.timed(plan) is not None
            whole = self.desk.pricer.seconds(plan)
            found = self._correction[plan.identity] = 1.0 if measured else whole / self.desk.pricer.pricer.time.seconds(plan)
        return found

    def fit(self, plan: Plan, world: World) -> Found:
        """The plan with its memory: judged once for each size of the allocator's reserve."""
        key = plan.identity, world.memory
        found = self._fits.get(key)
        if found is None:
            pricer = self.desk.pricer if world.memory is None else world.pricer
            ledger = pricer.ledger(plan)
            found = self._fits[key] = Found(plan, 0.0, pricer.fit(plan, ledger), ledger)
        return found

    def sure(self, plan: Plan, world: World) -> bool:
        """Whether the plan is sure to fit; of one that is not the first stage that may not is looked at, no more."""
        if (plan.identity, world.memory) not in self._fits and self.desk.pricer.measured(plan) is None:
            pricer = self.desk.pricer if world.memory is None else world.pricer
            if pricer.stage_fit(plan, 0) != "yes":
                return False
        return self.fit(plan, world).feasible == "yes"

    def timed(self, world: World, plans: Iterable[Plan], *, slow: bool = True) -> list[Found]:
        """The plans that may fit, by step time; those that may lead with the correction of the simulation.

        Without `slow` those are left out that no rule of choice takes while a faster one is sure to fit and stands.
        """
        rows: list[tuple[float, Plan, Plan]] = []
        for plan in plans:
            at = world.at(plan)
            if at is not None:
                rows.append((world.seconds(at), plan, at))
        rows.sort(key=lambda row: row[0])
        found: list[Found] = []
        least = float("inf")
        for seconds, plan, at in rows:
            if seconds > NEAR * least:
                corrected = seconds * self._correction.get(plan.identity, 1.0)
                if slow or corrected <= (1 + PRICE_OF_SIMPLICITY) * least:
                    found.append(replace(self.fit(at, world), seconds=corrected))
                continue
            one = self.fit(at, world)
            if one.feasible == "no":
                continue
            seconds *= self.correction(plan)
            found.append(replace(one, seconds=seconds))
            if one.feasible == "yes":
                least = min(least, seconds)
        return sorted((one for one in found if one.feasible != "no"), key=lambda one: one.seconds)

    def decide(self, world: World, plans: Iterable[Plan] | None = None) -> Found | None:
        """What is recommended in `world`, by the same rule as today."""
        within = self.plans if plans is None else list(plans)

        def ratio(first: Found, second: Found) -> Estimate:
            """Today's interval around the ratio in this world."""
            value = first.seconds / second.seconds
            low, high = self._spread_of(self.as_today(first.plan), self.as_today(second.plan))
            return Estimate(value, value * low, value * high, Dimension.FRACTION, Grade.ESTIMATED)

        def chosen(ordered: Sequence[Found]) -> Selection:
            return select(lambda wanted: (one for one in ordered if wanted(one.plan)), self._gated, ratio)

        ordered = self.timed(world, within, slow=False)
        first = chosen(ordered)
        sure = next((one for one in ordered if one.feasible == "yes"), None)
        if sure is not None and first.fastest is sure:
            return first.recommended
        # What is fastest falls by a rule, or nothing is sure to fit: slower ones may count.
        return chosen(self.timed(world, within)).recommended

    def _spread_of(self, first: Plan, second: Plan) -> tuple[float, float]:
        """The ends of today's interval of the ratio of two plans, over its value."""
        pair = first.identity, second.identity
        found = self._spread.get(pair)
        if found is None:
            one, two = (self._price(plan) for plan in (first, second))
            ratio = self.desk.pricer.ratio(one, two)
            found = self._spread[pair] = ratio.low / ratio.value, ratio.high / ratio.value
        return found

    def _price(self, plan: Plan) -> Priced:
        found = self._priced.get(plan.identity)
        if found is None:
            found = self._priced[plan.identity] = self.desk.pricer.price(plan)
        return found

    def as_today(self, plan: Plan) -> Plan:
        """The plan at the proposal's batch."""
        batch = self.desk.case.global_batch
        each = plan.microbatch * plan.mesh.data
        return replace(plan, accumulation=batch // each) if batch and batch % each == 0 else plan

    def _gated(self, found: Found) -> tuple[str, ...]:
        """The rules on a plan as it is today: what a world changes is a price, and memory, which `fit` has judged."""
        today = self.as_today(found.plan)
        return () if today.identity in self.standing else self.stands(replace(found, plan=today))


def key(found: Found | None) -> tuple[object, ...] | None:
    """What a recommendation is: the plan, but for the number of its microbatches."""
    return None if found is None else replace(found.plan, accumulation=1).identity


def basis_of(desk: Desk) -> Basis:
    """The case as it is."""
    assert desk.case.cluster is not None
    return Basis(desk.case, desk.case.cluster, desk.pricer, desk.pricer.numbers)


def inputs(desk: Desk, best: Plan) -> list[Input]:
    """The inputs of the case that the sensitivity looks at."""
    return list(inputs_of(desk.case, best, max(one.total for one in desk.pricer.durations(best))))


def pool_of(desk: Desk, outcome: Outcome, stands: Stands, known: Sequence[Input], contenders: Iterable[Plan] = ()) -> Pool:
    """The plans that lead today or at an end of some input's searched range, in the declared space or among those stated."""
    pool = Pool(desk, stands)
    chosen = outcome.selection
    for found in (outcome.recommended, outcome.fallback, chosen.fastest, chosen.risky):
        if found is not None:
            pool.add(found.plan)
    for plan in contenders:
        pool.add(plan)
        pool.standing.add(plan.identity)
    if outcome.recommended is not None:
        pool.standing.add(outcome.recommended.plan.identity)
    # What the search has timed already, plans of uneven stages among them.
    for found in outcome.met:
        if not found.plan.uniform:
            pool.add(found.plan)
    space, start = outcome.space, basis_of(desk)
    best_of: dict[tuple[int, ...], tuple[float, Shape]] = {}
    for shape in space.shapes:
        bound = min(desk.pricer.stage_bound(plan) for plan in space.quickest(shape))
        name = (shape.tensor, shape.pipeline, shape.context, shape.expert)
        if name not in best_of or bound < best_of[name][0]:
            best_of[name] = (bound, shape)
    kept = [shape for _, shape in sorted(best_of.values(), key=lambda row: row[0])[:CLASSES]]
    sides = [(one, way, side) for one in known for way, side in ((-1, one.below), (1, one.above)) if side]
    worlds = [start.world(), *(pool.world(one, start, side[-1]) for one, way, side in sides if way in one.leads)]
    for world in worlds:
        if world.memory is not None:
            continue
        scores = sorted((min(world.seconds(plan) for plan in space.quickest(shape)), k) for k, shape in enumerate(kept))
        kinds = 0
        for _, k in scores[:6]:
            for plan in sorted(space.variants(kept[k]), key=world.seconds):
                if pool.sure(plan, world):
                    pool.add(plan)
                    kinds += 1
                    break
            if kinds >= EACH:
                break
    _tight(pool, outcome, known, start)
    return pool


def _tight(pool: Pool, outcome: Outcome, known: Sequence[Input], start: Basis) -> None:
    """Add the first plans, in the order of their bounds, that are sure to fit where memory is scarcer."""
    bounded = sorted(((bound, k, plan) for k, (plan, bound) in enumerate(outcome.search.bounds())), key=lambda row: row[:2])
    for one in known:
        for value in (one.high, *one.above[1:2]):
            world = pool.world(one, start, value)
            if world.memory is None:
                break
            fitting = (plan for _, _, plan in bounded[:LEDGERS] if pool.sure(plan, world))
            for plan in islice(fitting, EACH + 1):
                pool.add(plan)


def sensitivity_of(pool: Pool, known: Sequence[Input]) -> list[Sensitivity]:
    """Each input's break-even values, then the number of microbatches'."""
    start = basis_of(pool.desk)
    today = pool.decide(start.world())
    rows = []
    for one in known:
        sides = [_break_even(pool, one, start, today, side) for side in (one.below, one.above)]
        lowest, highest = (one.below or (one.today,))[-1], (one.above or (one.today,))[-1]
        row = Sensitivity(
            one.name, one.dimension, "", one.today, one.low, one.high, one.provenance, one.why_range,
            sides[0], sides[1], (lowest, highest),
        )  # fmt: skip
        rows.append(row)
    batch = _microbatches(pool, start, today)
    return [*rows, batch] if batch is not None else rows


def _break_even(pool: Pool, one: Input, start: Basis, today: Found | None, values: Sequence[float]) -> BreakEven | None:
    same, other, beyond = one.today, None, None
    last = values[-1:]
    if last and key(pool.decide(pool.world(one, start, last[0]))) == key(today):
        values = values[-2:-1]
    for value in values:
        beyond = pool.decide(pool.world(one, start, value))
        if key(beyond) != key(today):
            other = value
            break
        same = value
    if other is None:
        return None
    near = pool.plans
    while abs(other - same) > PRECISION * max(abs(other), abs(same)):
        near = _leaders(pool, near, [pool.world(one, start, value) for value in (same, other)], (today, beyond))
        middle = (other + same) / 2
        found = pool.decide(pool.world(one, start, middle), near)
        if key(found) == key(today):
            same = middle
        else:
            other, beyond = middle, found
    low, high = sorted((one.low, one.high))
    return BreakEven(
        value=other,
        factor=other / one.today if one.today else None,
        becomes=beyond.plan if beyond is not None else None,
        text=_why(pool, pool.world(one, start, other), today, beyond),
        inside=low <= other <= high,
    )


def _leaders(pool: Pool, plans: Sequence[Plan], ends: Sequence[World], stand: Sequence[Found | None]) -> list[Plan]:
    """The plans that may be chosen between two worlds that differ in one input.

    A step time moves with each input in one direction, and so does memory: between the ends a plan takes no less than at its
    quicker end, and one of those that `stand` and surely fit at both takes no more than at its slower. What the first leaves
    above the second by more than a choice allows, and closed forms are off by, is left out.
    """
    least = float("inf")
    for found in stand:
        if found is not None and all(pool.sure(found.plan, world) for world in ends):
            plan = pool.as_today(found.plan)
            least = min(least, max(world.seconds(plan) * pool.correction(plan) for world in ends))
    reach = NEAR * NEAR * (1 + PRICE_OF_SIMPLICITY) * least
    return [plan for plan in plans if min(world.seconds(plan) for world in ends) <= reach]


def _why(pool: Pool, world: World, today: Found | None, beyond: Found | None) -> str:
    if beyond is None:
        return "no plan fits"
    if today is not None:
        at = world.at(today.plan)
        if at is None or pool.fit(at, world).feasible != "yes":
            return "today's plan is no longer sure to fit"
    return "another plan is better"


def _microbatches(pool: Pool, start: Basis, today: Found | None) -> Sensitivity | None:
    """The number of microbatches of a step, that is the global batch, in steps that all plans of the pool divide."""
    if today is None:
        return None
    batch = pool.desk.case.global_batch or today.plan.global_batch
    each = today.plan.microbatch * today.plan.mesh.data
    unit = lcm(each, *(plan.microbatch * plan.mesh.data for plan in pool.plans))
    if batch % unit:
        unit = gcd(unit, batch)
    world = start.world()
    here = batch // unit

    def differs(count: int) -> Found | bool | None:
        found = pool.decide(replace(world, batch=count * unit))
        return False if key(found) == key(today) else found

    sides: list[BreakEven | None] = []
    ends = []
    for direction in (-1, 1):
        same, other, beyond = here, None, None
        looked = here
        for step in range(1, 6):
            count = max(1, here >> step) if direction < 0 else here << step
            if count == looked:
                break
            looked = count
            found = differs(count)
            if found is not False:
                other, beyond = count, found
                break
            same = count
        ends.append(looked * unit // each)
        if other is None:
            sides.append(None)
            continue
        while abs(other - same) > 1:
            middle = (other + same) // 2
            found = differs(middle)
            if found is False:
                same = middle
            else:
                other, beyond = middle, found
        assert not isinstance(beyond, bool)
        becomes = beyond.plan if beyond is not None else None
        why = _why(pool, replace(world, batch=other * unit), today, beyond)
        sides.append(BreakEven(other * unit / each, other / here, becomes, why, inside=False))
    now = batch / each
    return Sensitivity(
        "microbatches a step of the recommended plan, through the global batch", None, "microbatches", now, now, now,
        None, "chosen by the proposal", sides[0], sides[1], (float(ends[0]), float(ends[1])),
    )  # fmt: skip


def joint_of(pool: Pool, known: Sequence[Input]) -> Joint | None:
    """The worst case of the recommended plan inside all ranges at once: by coordinate ascent on its regret, twice round."""
    start = basis_of(pool.desk)
    today = pool.decide(start.world())
    if today is None:
        return None
    plan = today.plan
    ranged = [one for one in known if one.high > one.low]

    worlds: dict[tuple[float, ...], World] = {}
    known_regrets: dict[tuple[float, ...], float] = {}

    def corner(values: dict[str, float]) -> tuple[float, ...]:
        return tuple(values.get(one.name, one.today) for one in ranged)

    def world(values: dict[str, float]) -> World:
        found = worlds.get(corner(values))
        if found is None:
            basis = start
            for one in ranged:
                if one.name in values:
                    basis = one.change(basis, values[one.name])
            found = worlds[corner(values)] = basis.world()
        return found

    def regret(values: dict[str, float]) -> float:
        found = known_regrets.get(corner(values))
        if found is None:
            found = known_regrets[corner(values)] = measured_regret(world(values))
        return found

    def measured_regret(here: World) -> float:
        timed = [found for found in pool.timed(here, pool.plans) if found.feasible == "yes"]
        own = here.seconds(plan) * pool.correction(plan)
        fits = pool.fit(plan, here).feasible == "yes"
        return (own / timed[0].seconds if timed else 1.0) * (1.0 if fits else 1e3)

    at: dict[str, float] = {}
    slow: dict[str, float] = {}
    for _ in range(2):
        for one in ranged:
            at[one.name] = max((regret(at | {one.name: value}), value) for value in (one.low, one.high))[1]
    for one in ranged:
        ends = (one.low, one.high)
        slow[one.name] = max((world(slow | {one.name: value}).seconds(plan), value) for value in ends)[1]
    here = world(at)
    best = next((found for found in pool.timed(here, pool.plans) if found.feasible == "yes"), None)
    own = here.seconds(plan) * pool.correction(plan)
    recommended = pool.decide(here)
    return Joint(
        step_s=own,
        regret=own / best.seconds if best is not None else 1.0,
        best=best.plan if best is not None else plan,
        recommended=recommended.plan if recommended is not None else None,
        fits=pool.fit(plan, here).feasible,
        at=tuple((one.name, at[one.name], one.dimension) for one in ranged),
        slowest_s=world(slow).seconds(plan) * pool.correction(plan),
    )


def run_length(today: int | None, break_even: int | None) -> Sensitivity | None:
    """The run length below which planning does not pay, where its cost and gain are known."""
    if today is None:
        return None
    change = None
    if break_even is not None:
        text = "planning and change-over are not paid back: keep the reference plan"
        change = BreakEven(float(break_even), break_even / today, None, text, False)
    below, above = (change, None) if change is not None and change.value <= today else (None, change)
    return Sensitivity(
        "length of the run", None, "steps", float(today), float(today), float(today), None, "as stated", below, above,
        (0.0, float("inf")) if change is not None else (float(today), float(today)),
    )  # fmt: skip


__all__ = [
    "BreakEven", "Joint", "Pool", "Sensitivity", "basis_of", "inputs", "joint_of", "key", "pool_of", "run_length",
    "sensitivity_of",
]  # fmt: skip
