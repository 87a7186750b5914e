"""The critical path of a simulated step: the chain of tasks and messages that the step cannot end before, and what it spends.

Vocabulary: a *run* is one unbroken stretch of the chain on one stage; a *part* is a kind of spending along the chain. The parts
add up to the step: the chain waits for nothing that is not on it, so there is no idle time on it. A message counts with its wait
for the one before it on its channel. Exposed collectives of a pass are those that `StagePricer` adds to it, by the tiers on which
they are sent. Reads prices; sets none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import fsum
from typing import NamedTuple

from ..model import moe_layers
from ..plan import Plan, Recompute, Schedule
from .memory_terms import local_microbatch
from .placement import slowest_device
from .simulation import FORWARD, WEIGHT, Durations, Link, Pipeline, simulate
from .stage_costs import EXPOSED, EXPOSED_TERMS, LayerCost
from .step import TimeModel
from .step_result import StepTime

#: Tasks that are simulated for the chain; a longer step is continued at its own steady pace.
MOST_TASKS = 20_000
COMPUTE, COLLECTIVE, TRANSFER = "computation", "collectives inside stages, exposed", "messages between stages"
SYNC, OPTIMIZER = "gradient synchronisation, exposed", "optimizer step"
PARTS = (COMPUTE, COLLECTIVE, TRANSFER, SYNC, OPTIMIZER)
Tiers = dict[str, float]


class Run(NamedTuple):
    """A stretch of the chain on one stage. `waited` is the message before it; `first` and `last` are microbatches, of the
    task that it begins and ends with; the kinds of its tasks are FORWARD, BACKWARD and WEIGHT."""

    stage: int
    first: int
    last: int
    kinds: tuple[int, ...]
    tasks: int
    start: float
    seconds: float
    waited: float


class Part(NamedTuple):
    """Seconds of the step that the chain spends on one thing; `where` is a tier or empty."""

    kind: str
    where: str
    seconds: float


class StepPath(NamedTuple):
    """The chain of a whole step. `stages`: seconds of it on each; `idle` seconds that each stage's devices wait in the pipeline.

    `shown` microbatches of `microbatches` were simulated for it. `split` is False over measured stages, whose collectives
    stand inside the computation.
    """

    runs: tuple[Run, ...]
    parts: tuple[Part, ...]
    stages: tuple[float, ...]
    idle: tuple[float, ...]
    bottleneck: int
    microbatches: int
    shown: int
    split: bool

    @property
    def seconds(self) -> float:
        """The whole step."""
        return fsum(one.seconds for one in self.parts)


def drawable(pipeline: Pipeline, most_tasks: int) -> int:
    """Microbatches whose tasks are at most so many: whole rounds of the pipeline where there are that many."""
    p, chunks = len(pipeline.stages), pipeline.interleave if pipeline.schedule is Schedule.INTERLEAVED else 1
    m = min(pipeline.microbatches, max(1, most_tasks // (p * chunks * (3 if pipeline.schedule is Schedule.ZB_H1 else 2))))
    return m if m == pipeline.microbatches or m < p else m // p * p


def step_path(plan: Plan, step: StepTime, time: TimeModel, *, measured: bool) -> StepPath:
    """The critical path of `step`, the simulated step of `plan`; `measured`: its stages are those of a profile.

    Microbatches beyond those simulated spend what the second half of those that are did, scaled to the seconds left.
    """
    pipeline = step.pipeline
    assert pipeline is not None
    p, m = len(pipeline.stages), pipeline.microbatches
    shown = drawable(pipeline, MOST_TASKS)
    exposed: list[tuple[Tiers, Tiers]] = [({}, {})] * p if measured else [exposed_collectives(plan, k, time) for k in range(p)]
    whole = step.ledger.first_microbatch_s + (m - 1) * step.ledger.bottleneck_s
    walk = _walk(pipeline, shown, exposed)
    spent, here = walk.spent, walk.stages
    if shown < m:
        half = _walk(pipeline, max(1, shown // 2), exposed)
        pace = {key: max(0.0, seconds - half.spent.get(key, 0.0)) for key, seconds in spent.items()}
        scale = (whole - walk.makespan) / (fsum(pace.values()) or 1.0)
        spent = {key: seconds + scale * pace[key] for key, seconds in spent.items()}
        here = [a + scale * max(0.0, a - b) for a, b in zip(here, half.stages, strict=True)]
    rows = [Part(COMPUTE, "", spent.get((COMPUTE, ""), 0.0))]
    for kind in (COLLECTIVE, TRANSFER):
        found = {tier: seconds for (name, tier), seconds in spent.items() if name == kind}
        rows += [Part(kind, tier, seconds) for tier, seconds in _ordered(found, time)]
    rows += _after(plan, step, time)
    rows.append(Part(OPTIMIZER, "", step.ledger.optimizer_s))
    idle = tuple(max(0.0, whole - m * one.total) for one in pipeline.stages)
    parts = tuple(row for row in rows if row.seconds > 0)
    return StepPath(walk.runs, parts, tuple(here), idle, step.bottleneck, m, shown, not measured)


class _Walk(NamedTuple):
    """The chain of a simulation of some microbatches, and what it spends on (kind, where)."""

    makespan: float
    spent: dict[tuple[str, str], float]
    stages: list[float]
    runs: tuple[Run, ...]


def _walk(pipeline: Pipeline, microbatches: int, exposed: Sequence[tuple[Tiers, Tiers]]) -> _Walk:
    p, chunks = len(pipeline.stages), pipeline.interleave if pipeline.schedule is Schedule.INTERLEAVED else 1
    chain: list[Link] = []
    run = simulate(
        pipeline.schedule, pipeline.stages, pipeline.transfers, microbatches, pipeline.interleave, chain=chain
    )
    chain.reverse()
    spent: dict[tuple[str, str], float] = defaultdict(float)
    here, before = [0.0] * p, -1
    for link in chain:
        kind, within = divmod(link.task, p * chunks * microbatches)
        stage = within // microbatches % p
        usual = _of_kind(pipeline.stages[stage], kind, pipeline.schedule)
        part = link.seconds / usual if usual else 0.0
        waits = exposed[stage][kind] if kind != WEIGHT else {}
        for tier, seconds in waits.items():
            spent[COLLECTIVE, tier] += part * seconds
        spent[COMPUTE, ""] += link.seconds - part * fsum(waits.values())
        if before not in (-1, stage):
            spent[TRANSFER, _tier(pipeline, before, stage)] += link.waited
        here[stage] += link.seconds
        before = stage
    return _Walk(run.makespan, spent, here, tuple(_runs(chain, microbatches, p, chunks)))


def exposed_collectives(plan: Plan, index: int, time: TimeModel) -> tuple[Tiers, Tiers]:
    """(forward, backward) seconds of one microbatch that a stage waits for its collectives and for their links, by tier.

    A recomputed pass repeats its collectives in the backward pass. Together they are the stage's exposed terms, and those that
    recomputation repeats.
    """
    ahead: Tiers = defaultdict(float)
    back: Tiers = defaultdict(float)
    own = time.exposed_by_tier(plan, index)
    if own is not None:
        for tiers, found in zip(own, (ahead, back), strict=True):
            found.update(tiers)
        _waits(ahead, back, plan, index, time)
        return ahead, back
    stage = plan.stages[index]
    groups, sequences = time.layout(plan, stage.mesh), local_microbatch(plan, stage)
    recompute = stage.recompute or plan.recompute
    rates = time.rates(slowest_device(plan, index, time.cluster))
    moe = moe_layers(time.model, stage.first, stage.last) if time.model.moe is not None else 0
    pricer, split = time.pricer, plan.sequence_parallel
    kinds = [kind for count, kind in ((stage.layers - moe, False), (moe, True)) if count]
    layers = pricer.layers(stage, moe, groups, sequences, recompute, plan.zero, split, rates)
    for (count, cost), kind in zip(layers, kinds, strict=True):
        shares = [one.tiers for one in pricer.carried(stage.mesh, groups, sequences, plan.zero, split, kind)]
        _share(ahead, back, cost, count, shares, again=recompute is Recompute.FULL)
    for cost in pricer.ends(stage, groups, sequences, plan.zero, split, rates):
        tensor = time.network.collective("all_gather", 1e6, *groups.tensor).tiers
        data = time.network.collective("all_gather", 1e6, *groups.data).tiers
        _share(ahead, back, cost, 1, [tensor, (), (), data], again=False)
    _waits(ahead, back, plan, index, time)
    return ahead, back


def _share(
    ahead: Tiers, back: Tiers, cost: LayerCost, count: int, shares: list[tuple[tuple[str, float], ...]], *, again: bool
) -> None:
    """Add the exposed seconds of `count` layers to the tiers, each term as its collectives fall on them."""
    both = cost.terms[EXPOSED]
    for name, whole, forward, tiers in zip(EXPOSED_TERMS, both, cost.ahead, shares, strict=True):
        # What ZeRO gathers stays for the repeated pass: it is gathered once for both.
        repeated = forward if again and name != "gather" else 0.0
        total = fsum(seconds for _, seconds in tiers)
        for tier, seconds in tiers:
            ahead[tier] += count * forward * seconds / total
            back[tier] += count * (whole - forward + repeated) * seconds / total


def _waits(ahead: Tiers, back: Tiers, plan: Plan, index: int, time: TimeModel) -> None:
    """Add what collectives wait for messages between stages on the same links."""
    alone, beside = time.costs(plan)[index].durations, time.parts(plan).costs[index].durations
    hops = time.hops(plan)[0]
    if beside.forward > alone.forward:
        ahead[hops[index].tier] += beside.forward - alone.forward
    if beside.backward > alone.backward:
        back[hops[index - 1].tier] += beside.backward - alone.backward


def _of_kind(one: Durations, kind: int, schedule: Schedule) -> float:
    """Seconds of one microbatch's pass on a whole stage."""
    if kind == FORWARD:
        return one.forward
    if kind == WEIGHT:
        return one.weight
    return one.backward if schedule is Schedule.ZB_H1 else one.backward + one.weight


def _tier(pipeline: Pipeline, one: int, other: int) -> str:
    """The link between two stages; the way from last to first is on the slowest of them."""
    if abs(one - other) == 1:
        return pipeline.tiers[min(one, other)]
    slowest = max(range(len(pipeline.tiers)), key=lambda k: pipeline.transfers[k])
    return pipeline.tiers[slowest]


def _ordered(found: Tiers, time: TimeModel) -> list[tuple[str, float]]:
    """By tier, from the innermost outwards."""
    names = [tier.name for tier in time.cluster.tiers]
    return sorted(found.items(), key=lambda one: (names.index(one[0]) if one[0] in names else len(names), one[0]))


def _after(plan: Plan, step: StepTime, time: TimeModel) -> list[Part]:
    """Exposed synchronisation after the pipeline by tier."""
    parts = time.parts(plan)
    last = max(parts.costs, key=lambda cost: cost.sync + cost.optimizer)
    found: Tiers = defaultdict(float)
    for tier, seconds in last.sync_tiers:
        found[tier] += seconds
    for tier in parts.tied_tiers:
        found[tier] += parts.tied / len(parts.tied_tiers)
    total = fsum(found.values())
    scale = step.ledger.exposed_s / total if total else 0.0
    return [Part(SYNC, tier, seconds * scale) for tier, seconds in _ordered(found, time)]


def _runs(chain: Sequence[Link], m: int, p: int, chunks: int) -> Iterator[Run]:
    """The chain's stretches on one stage each."""
    one: Run | None = None
    for link in chain:
        kind, within = divmod(link.task, p * chunks * m)
        stage, microbatch = within // m % p, within % m
        if one is not None and one.stage == stage:
            kinds = one.kinds if kind in one.kinds else (*one.kinds, kind)
            one = one._replace(last=microbatch, kinds=kinds, tasks=one.tasks + 1, seconds=one.seconds + link.seconds)
            continue
        if one is not None:
            yield one
        one = Run(stage, microbatch, microbatch, (kind,), 1, link.start, link.seconds, link.waited)
    if one is not None:
        yield one
