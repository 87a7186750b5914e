"""Properties of the ledger over random plans: sums, and what more of an axis can do to memory."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from memory_cases import BF16, FP16, cluster, gpt, llama, training, uniform
from planproof.cost.memory import StageMemory, fits, memory_ledger
from planproof.model import Attention, MixtureOfExperts, Transformer, Workload
from planproof.plan import Mesh, Plan, Recompute, Schedule

MODELS = (
    gpt(8),
    llama(8),
    gpt(8, moe=MixtureOfExperts(8, 2, 2048, every=2)),
    llama(8, moe=MixtureOfExperts(16, 4, 4096)),
)
CLUSTER = cluster()

models = st.sampled_from(MODELS)
workloads = st.builds(
    training,
    st.sampled_from([256, 2048]),
    precision=st.sampled_from([BF16, FP16]),
    attention=st.sampled_from([Attention.FLASH, Attention.UNFUSED, None]),
    dropout=st.sampled_from([0.0, 0.1]),
)
powers = st.sampled_from([1, 2, 4])


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    data, tensor, context, pipeline = (draw(powers) for _ in range(4))
    expert = draw(st.sampled_from([e for e in (1, 2, 4) if data * context % e == 0]))
    return uniform(
        MODELS[0],
        Mesh(data, tensor, context, expert),
        pipeline,
        microbatch=draw(st.integers(1, 4)),
        accumulation=4 * draw(st.integers(1, 4)),
        schedule=draw(st.sampled_from(list(Schedule))),
        interleave=draw(st.integers(1, 2)),
        recompute=draw(st.sampled_from(list(Recompute))),
        zero=draw(st.integers(0, 3)),
        sequence_parallel=draw(st.booleans()),
    )


def ledger(plan: Plan, model: Transformer, workload: Workload) -> tuple[StageMemory, ...]:
    return memory_ledger(plan, model, workload, CLUSTER)


def allocated(plan: Plan, model: Transformer, workload: Workload) -> list[float]:
    return [memory.allocated.value for memory in ledger(plan, model, workload)]


def mesh(plan: Plan, **degrees: int) -> Plan:
    return replace(plan, stages=tuple(replace(stage, mesh=replace(stage.mesh, **degrees)) for stage in plan.stages))


def never_more(less: list[float], more: list[float]) -> None:
    assert all(a <= b for a, b in zip(less, more, strict=True)), (less, more)


@settings(max_examples=50, deadline=None)
@given(plans(), models, workloads)
def test_rows_add_up_to_the_three_totals(plan: Plan, model: Transformer, workload: Workload) -> None:
    for memory in ledger(plan, model, workload):
        by_name = {row.name: row.bytes for row in memory.rows}
        total = sum(by_name.values())
        assert all(value >= 0 for value in by_name.values())
        assert memory.device.value == total
        assert memory.reserved.value == total - by_name["framework context"]
        assert memory.allocated.value == total - by_name["framework context"] - by_name["allocator reserve"]
        for estimate in (memory.allocated, memory.reserved, memory.device):
            assert 0 <= estimate.low <= estimate.value <= estimate.high


@settings(max_examples=50, deadline=None)
@given(plans(), models, workloads)
def test_more_tensor_parallelism_never_needs_more(plan: Plan, model: Transformer, workload: Workload) -> None:
    never_more(allocated(mesh(plan, tensor=2 * plan.mesh.tensor), model, workload), allocated(plan, model, workload))


@settings(max_examples=50, deadline=None)
@given(plans(), models, workloads)
def test_a_larger_microbatch_never_needs_less(plan: Plan, model: Transformer, workload: Workload) -> None:
    never_more(allocated(plan, model, workload), allocated(replace(plan, microbatch=plan.microbatch + 1), model, workload))


@settings(max_examples=50, deadline=None)
@given(plans(), models, workloads)
def test_more_microbatches_never_need_less(plan: Plan, model: Transformer, workload: Workload) -> None:
    never_more(allocated(plan, model, workload), allocated(replace(plan, accumulation=plan.accumulation + 4), model, workload))


@settings(max_examples=50, deadline=None)
@given(plans(), models, workloads)
def test_a_higher_zero_stage_never_holds_more_states(plan: Plan, model: Transformer, workload: Workload) -> None:
    """States alone: what ZeRO 2 and 3 gather and reduce layer by layer comes on top, and can outweigh few layers."""

    def states(zero: int) -> list[float]:
        stages = ledger(replace(plan, zero=zero), model, workload)
        return [float(sum(row.bytes for row in memory.rows[:3])) for memory in stages]

    held = [states(zero) for zero in range(4)]
    # The wide copy of narrow gradients is counted in the step or in the backward pass, whichever is the peak.
    first = 1 if workload.precision is FP16 else 0
    for less, more in zip(held[first + 1 :], held[first:], strict=False):
        never_more(less, more)


@settings(max_examples=50, deadline=None)
@given(plans(), models, workloads)
def test_selective_needs_no_more_than_none(plan: Plan, model: Transformer, workload: Workload) -> None:
    """Held activations; the workspace of one layer's attention core can outweigh them on a stage of one layer."""

    def held(recompute: Recompute) -> list[float]:
        stages = ledger(replace(plan, recompute=recompute), model, workload)
        return [float(memory.row("in-flight activations").bytes) for memory in stages]

    never_more(held(Recompute.SELECTIVE), held(Recompute.NONE))


@settings(max_examples=50, deadline=None)
@given(plans(), models, workloads)
def test_more_context_parallelism_never_holds_more(plan: Plan, model: Transformer, workload: Workload) -> None:
    def held(each: Plan) -> list[float]:
        return [float(memory.row("in-flight activations").bytes) for memory in ledger(each, model, workload)]

    never_more(held(mesh(plan, context=2 * plan.mesh.context)), held(plan))


@settings(max_examples=50, deadline=None)
@given(plans(), models, workloads)
def test_more_data_parallelism_alone_never_needs_more(plan: Plan, model: Transformer, workload: Workload) -> None:
    """From two replicas on: the first sharding of ZeRO brings its buffers."""
    two = mesh(plan, data=2 * plan.mesh.data)
    never_more(allocated(mesh(two, data=2 * two.mesh.data), model, workload), allocated(two, model, workload))


@settings(max_examples=50, deadline=None)
@given(plans(), models, workloads)
def test_more_memory_never_fits_worse(plan: Plan, model: Transformer, workload: Workload) -> None:
    order = ("no", "at_risk", "yes")
    for memory in ledger(plan, model, workload):
        ranks = [
            order.index(fits(replace(memory, capacity_bytes=int(share * memory.device.value))))
            for share in (0.5, 0.8, 0.95, 1.05, 1.5)
        ]
        assert ranks == sorted(ranks)
        assert ranks[-1] == 2
