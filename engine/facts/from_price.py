"""Facts about the memory and time of a priced plan, and about what the search came to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..cost.memory import fits, headroom_bytes
from ..plan import Plan
from ..proposal import Case, MeasuredProfile, PlanCase, ProfileRow
from ..quantity import Estimate
from .fact import Fact, in_field_unit
from .from_profile import model_of, usable_profile
from .kinds import fact

if TYPE_CHECKING:
    # The price of time is not loaded by a lint, which never has one.
    from ..cost import Priced, StageMemory

#: Rows of the ledger that persist: no measurement of a rank can be below them.
STATES = ("parameters", "gradients", "optimizer state")
#: A pipeline with more stages has a fact of memory for its ends, its fullest and its tightest stage only.
MOST_STAGES = 128
#: What a fact can hold of a count; a space of uneven plans is larger.
MOST_COUNTED = 2**62


def memory_facts(plan: Plan, path: str, ledger: Sequence[StageMemory]) -> Iterator[Fact]:
    """One fact a stage, from the memory ledger."""
    most = max(memory.device.value for memory in ledger)
    peak = next(memory.stage for memory in ledger if memory.device.value == most)
    unfit = {"no": 2, "at_risk": 1, "yes": 0}
    tightest = max(ledger, key=lambda memory: (unfit[fits(memory)], memory.device.high - memory.capacity_bytes)).stage
    for memory in _told(ledger, peak, tightest):
        stage = plan.stages[memory.stage]
        headroom = headroom_bytes(memory)
        yield fact(
            "memory",
            path,
            plan=plan.name,
            role=plan.role.value,
            stage=memory.stage,
            stages=plan.pipeline,
            first_layer=stage.first,
            last_layer=stage.last,
            allocated_bytes=round(memory.allocated.value),
            reserved_bytes=round(memory.reserved.value),
            device_bytes=round(memory.device.value),
            low_bytes=round(memory.allocated.low + memory.context.low),
            high_bytes=round(memory.device.high),
            capacity_bytes=memory.capacity_bytes,
            headroom_bytes=headroom,
            headroom_ppm=round(1e6 * headroom / memory.capacity_bytes),
            fits=fits(memory),
            peak=memory.stage == peak,
            tightest=memory.stage == tightest,
            unfit_stages=sum(fits(one) == fits(memory) for one in ledger),
            largest_row=max(memory.rows, key=lambda row: row.bytes).name,
            in_flight=-(-memory.in_flight.numerator // memory.in_flight.denominator),
        )


def _told(ledger: Sequence[StageMemory], peak: int, tightest: int) -> Iterator[StageMemory]:
    """The stages that get a fact of their own: all of a short pipeline, else the ends, the fullest and the tightest."""
    for memory in ledger:
        if len(ledger) <= MOST_STAGES or memory.stage in (0, len(ledger) - 1, peak, tightest):
            yield memory


def measured_rows(profile: MeasuredProfile, plan: PlanCase, layers: int) -> list[tuple[ProfileRow, ...] | None]:
    """The profile's rows for each stage of a plan; None where a stage was not measured."""
    microbatch = plan.stated.microbatch
    if microbatch is None:
        return []
    if plan.stages is not None:
        bounds = [(s.first, s.last, s.mesh, s.embedding, s.head) for s in plan.stages]
    elif layers % plan.pipeline == 0:
        size = layers // plan.pipeline
        last = plan.pipeline - 1
        bounds = [(k * size, (k + 1) * size - 1, plan.mesh, k == 0, k == last) for k in range(plan.pipeline)]
    else:
        return []
    first_data = plan.mesh.data
    return [
        profile.stage_rows(
            low, high, mesh, microbatch * first_data // mesh.data or 1, embedding=embedding, head=head
        )
        for low, high, mesh, embedding, head in bounds
    ]


def measured_memory_facts(case: Case, plan: PlanCase, ledger: Sequence[StageMemory] = ()) -> Iterator[Fact]:
    """Memory of each stage summed from the proposal's own profile, where all of its layers were measured; of rows that have no
    figure of the whole, what persists alone.
    """
    profile, model = usable_profile(case), model_of(case)
    if profile is None or model is None:
        return
    capacity = min((node.memory.value for node in case.described.nodes if node.memory), default=None)
    if capacity is None:
        return
    stages = measured_rows(profile, plan, model.layers)
    ends = profile.separate_ends
    for k, rows in enumerate(stages):
        if rows is None:
            continue
        held = [row.state if row.memory is None else row.memory for row in rows]
        if None in held:
            continue
        total = sum(one for one in held if one is not None)
        # What persists may have been read when gradients were freed.
        kept = STATES if all(row.memory is not None for row in rows) else (STATES[0], STATES[2])
        offset = 1 if ends else 0
        yield fact(
            "measured_memory",
            plan.path,
            plan=plan.name,
            role=plan.role.value,
            stage=k,
            first_layer=max(0, rows[0].first - offset),
            last_layer=min(model.layers - 1, rows[-1].last - offset),
            sum_bytes=total,
            sum_mib=round(total / 2**20),
            capacity_mib=round(capacity / 2**20),
            capacity_bytes=round(capacity),
            excess_bytes=total - round(capacity),
            rows=len(rows),
            states_bytes=sum(ledger[k].row(name).bytes for name in kept) if k < len(ledger) else None,
            states=" and ".join((", ".join(kept[:-1]), kept[-1])),
        )


def step_fact(priced: Priced, path: str, step: Estimate, mfu: float) -> Fact:
    """The step time of a plan, with its interval and grade."""
    ledger = priced.step.ledger
    seconds = priced.step.seconds
    return fact(
        "step",
        path,
        plan=priced.plan.name,
        role=priced.plan.role.value,
        time_ns=in_field_unit(step.value, "time_ns"),
        low_ns=in_field_unit(step.low, "low_ns"),
        high_ns=in_field_unit(step.high, "high_ns"),
        grade=step.grade.value,
        grade_rank=step.grade.rank,
        mfu_ppm=round(1e6 * mfu),
        peak_speed_up_ppm=round(1e6 / mfu) if mfu > 1e-6 else None,
        transfer_ppm=round(1e6 * (ledger.transfer_intra_s + ledger.transfer_inter_s) / seconds),
        bubble_ppm=round(1e6 * max(0.0, ledger.bubble_s) / seconds),
        exposed_ppm=round(1e6 * ledger.exposed_s / seconds),
        unmodelled=len(priced.step.unmodelled),
        lacks="; ".join(priced.step.unmodelled)[:400] or None,
    )


def comparison_fact(plan: Plan, path: str, best: Plan, ratio: Estimate, fits: str) -> Fact:
    """A stated plan beside the recommended one. `ratio` is stated over recommended."""
    if plan.identity == best.identity:
        relation = "same"
    elif ratio.low > 1:
        relation = "slower"
    elif ratio.high < 1:
        relation = "faster"
    else:
        relation = "tie"
    return fact(
        "comparison",
        path,
        plan=plan.name,
        role=plan.role.value,
        best=best.name,
        ratio_ppm=round(1e6 * ratio.value),
        low_ppm=round(1e6 * ratio.low),
        high_ppm=round(1e6 * ratio.high),
        relation=relation,
        slower_ppm=max(0, round(1e6 * (ratio.value - 1))),
        fits=fits,
    )


def result_fact(
    candidates: int, best: Priced | None, step: Estimate | None, same_as: str | None, run_steps: int | None, *, uneven: bool
) -> Fact:
    """What the search came to."""
    candidates = min(candidates, MOST_COUNTED)
    if best is None or step is None:
        return fact("result", "/plans", outcome="empty", candidates=candidates, uneven_priced=uneven)
    stages = best.plan.stages
    even = len({stage.layers for stage in stages}) == 1 and best.plan.same_meshes
    return fact(
        "result",
        "/plans",
        outcome="found",
        plan=best.plan.name,
        even=even,
        candidates=candidates,
        uneven_priced=uneven,
        same_as=same_as,
        run_seconds_s=round(step.value * run_steps) if run_steps else None,
        grade=step.grade.value,
        grade_rank=step.grade.rank,
    )


def amortisation_fact(
    best: Plan, against: Plan, saved_s: float, devices: int, cost_device_seconds: int | None, run_steps: int | None
) -> Fact:
    """Whether planning pays: its cost against the device time saved a step, over the run."""
    per_step = saved_s * devices
    break_even = None
    if cost_device_seconds is not None and per_step > 0:
        break_even = -(-cost_device_seconds // per_step)
    pays = None
    if cost_device_seconds is not None and run_steps is not None:
        pays = per_step > 0 and per_step * run_steps > cost_device_seconds
    return fact(
        "amortisation",
        "/planning_cost",
        plan=best.name,
        against=against.name,
        cost_device_seconds=cost_device_seconds,
        saved_per_step_us=round(1e6 * per_step),
        break_even_steps=None if break_even is None else min(2**62, int(break_even)),
        run_steps=run_steps,
        pays=pays,
    )
