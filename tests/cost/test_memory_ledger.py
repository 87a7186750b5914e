"""The ledger: rows, totals, moments, notes, intervals, device types, verdicts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from memory_cases import ADAM, FP16, GIB, MIB, cluster, device, gpt, llama, training, uniform
from planproof.cost.activations import Loss
from planproof.cost.memory import (
    MemoryModel,
    StageMemory,
    excess_bytes,
    feasible,
    fits,
    headroom_bytes,
    largest_amounts,
    load_residuals,
    memory_ledger,
    peak_stage,
    stage_amounts,
)
from planproof.cost.memory_rows import ROW_NAMES
from planproof.cost.memory_terms import GradientCopy, Implementation
from planproof.cost.states import rank_parameters
from planproof.hardware import DeviceSheet, load_node
from planproof.model import Attention, MixtureOfExperts, Optimizer, Precision, Transformer, Workload, parameters
from planproof.plan import Mesh, Plan, Recompute, Schedule, Stage
from planproof.quantity import Grade

RESIDUALS = load_residuals()
UNFUSED = training(attention=Attention.UNFUSED, dropout=0.1)


def one(plan: Plan, model: Transformer, workload: Workload, **fields: object) -> StageMemory:
    known = MemoryModel(model, workload, Implementation(loss=Loss.IN_PLACE))
    (memory,) = memory_ledger(plan, model, workload, cluster(device(**fields)), known)
    return memory


def test_every_row_is_there_in_order_whatever_the_plan() -> None:
    for plan in (uniform(gpt()), uniform(gpt(), Mesh(data=4), 4, zero=3, schedule=Schedule.ZB_H1)):
        for memory in memory_ledger(plan, gpt(), UNFUSED, cluster()):
            assert tuple(row.name for row in memory.rows) == ROW_NAMES


def test_a_row_of_nothing_says_why() -> None:
    for plan in (uniform(gpt()), uniform(gpt(), Mesh(data=4), 4, zero=1), uniform(gpt(), Mesh(data=4), 4, zero=3)):
        for memory in memory_ledger(plan, gpt(), training(), cluster()):
            assert all(row.note for row in memory.rows if row.bytes == 0)


def test_every_total_names_its_deciders_and_is_estimated() -> None:
    memory = one(uniform(gpt()), gpt(), training())
    names = [decider.name for decider in memory.device.deciders]
    assert names == ["kernel workspace", "allocator reserve", "framework context", "device memory"]
    assert {e.grade for e in (memory.allocated, memory.reserved, memory.device)} == {Grade.ESTIMATED}


def test_a_small_gpt_adds_up_by_hand() -> None:
    """12 layers of 1024, one rank, bf16 Adam, flash, no dropout: 18 P, 12 x (8 + 24) s h + 64 s of log-sum-exps, the
    final norm's and the head's inputs, 6 bytes of logits, 80 MiB of kernels."""
    model, s, h, v = gpt(), 1024, 1024, 51200
    memory = one(uniform(model), model, training())
    p = 12 * (12 * h * h + 13 * h) + (v + 2048) * h + 2 * h
    rows = {row.name: row.bytes for row in memory.rows}
    assert [rows["parameters"], rows["gradients"], rows["optimizer state"]] == [2 * p, 4 * p, 12 * p]
    assert rows["in-flight activations"] == 12 * (32 * s * h + 64 * s) + 4 * s * h
    assert rows["logits and loss"] == 6 * s * v
    assert rows["layer workspace"] == 80 * MIB
    assert memory.allocated.value == sum(list(rows.values())[:8])
    assert rows["allocator reserve"] == round(0.1 * memory.allocated.value)
    assert rows["framework context"] == 1.5e9


def test_full_recompute_peaks_in_a_layer_or_in_the_loss_never_in_both() -> None:
    """Small vocabulary: one layer's activations are larger than the loss, and the row of the loss says so; large:
    reversed."""
    plan = uniform(gpt(), recompute=Recompute.FULL)
    layer, loss = (one(plan, gpt(vocabulary=v), UNFUSED) for v in (1024, 200_000))
    assert layer.row("logits and loss").bytes == 0
    assert "backward pass of a layer" in layer.row("logits and loss").note
    assert layer.row("layer workspace").bytes > 34 * 1024 * 1024
    assert loss.row("layer workspace").bytes == 80 * MIB
    assert "the loss" in loss.row("layer workspace").note


def test_full_recompute_holds_checkpoints_and_the_stages_output() -> None:
    """2 s b h for each of 3 layers and for the output, 4 microbatches in flight on the first of 4 stages."""
    plan = uniform(gpt(), Mesh(), 4, recompute=Recompute.FULL)
    first, *_, last = memory_ledger(plan, gpt(), training(), cluster())
    assert first.row("in-flight activations").bytes == 4 * (3 + 1) * 2 * 1024 * 1024
    # The last stage's output is the input of the final norm, whose output is the head's input.
    assert last.row("in-flight activations").bytes == (3 + 2) * 2 * 1024 * 1024


def test_stages_recompute_by_their_own_word() -> None:
    plan = uniform(gpt(), Mesh(), 4)
    mixed = replace(plan, stages=(replace(plan.stages[0], recompute=Recompute.FULL), *plan.stages[1:]))
    plain, own = (memory_ledger(each, gpt(), training(), cluster()) for each in (plan, mixed))
    assert own[0].allocated.value < plain[0].allocated.value
    assert own[1:] == plain[1:]


def test_earlier_stages_hold_more_microbatches() -> None:
    """1f1b over 4: the two middle stages, alike in layers, differ by one microbatch's activations."""
    ledger = memory_ledger(uniform(gpt(), Mesh(), 4), gpt(), training(), cluster())
    assert [memory.in_flight for memory in ledger] == [4, 3, 2, 1]
    held = 3 * (32 * 1024 * 1024 + 64 * 1024)
    assert ledger[1].allocated.value - ledger[2].allocated.value == held


def test_gpipe_keeps_the_logits_of_every_microbatch() -> None:
    one_at_once, all_of_them = (
        memory_ledger(uniform(gpt(), Mesh(), 4, schedule=schedule), gpt(), training(), cluster())[-1]
        for schedule in (Schedule.ONE_F_ONE_B, Schedule.GPIPE)
    )
    assert all_of_them.row("logits and loss").bytes == 8 * one_at_once.row("logits and loss").bytes


def test_zero_bubble_holds_gradients_of_logits_for_weight_gradients_put_off() -> None:
    """Head of 4 stages: the loss of one microbatch, 14 s V as no framework is named, and 2 s V for each of the 3 before."""
    plan = uniform(gpt(), Mesh(), 4, schedule=Schedule.ZB_H1)
    last = memory_ledger(plan, gpt(), training(), cluster())[-1]
    assert last.row("logits and loss").bytes == (14 + 3 * 2) * 1024 * 51200
    assert last.row("in-flight activations").bytes == 4 * (3 * (32 * 1024 * 1024 + 64 * 1024) + 4 * 1024 * 1024)


def test_in_a_layers_backward_pass_zero_bubble_still_holds_four() -> None:
    plan = uniform(gpt(), Mesh(), 4, schedule=Schedule.ZB_H1, recompute=Recompute.FULL)
    last = memory_ledger(plan, gpt(vocabulary=1024), training(), cluster())[-1]
    assert last.row("logits and loss").bytes == 4 * 2 * 1024 * 1024
    assert "other microbatches" in last.row("logits and loss").note


@pytest.mark.parametrize(
    ("schedule", "interleave", "masks"),
    [(Schedule.ONE_F_ONE_B, 1, 4), (Schedule.GPIPE, 1, 8), (Schedule.INTERLEAVED, 3, 4)],
)
def test_the_embeddings_dropout_mask_is_kept_for_its_microbatches(schedule: Schedule, interleave: int, masks: int) -> None:
    """One byte an element: the difference between first and second stage beyond their own layers in flight."""
    plan = uniform(gpt(), Mesh(), 4, schedule=schedule, interleave=interleave)
    dropout = training(dropout=0.1)
    first, second = memory_ledger(plan, gpt(), dropout, cluster())[:2]
    layers = 3 * (34 * 1024 * 1024 + 64 * 1024)
    mask = first.row("in-flight activations").bytes - layers * first.in_flight
    assert mask == masks * 1024 * 1024
    assert second.row("in-flight activations").bytes == layers * second.in_flight


def test_a_layer_recomputed_is_counted_without_its_checkpoint() -> None:
    """Flash, no dropout: 32 s h of the layer less its input of 2 s h, gradients of output 2 s h and inner width 8 s h,
    the weight gradient of a 4 h x h matrix."""
    s = h = 1024
    memory = one(uniform(gpt(vocabulary=1024), recompute=Recompute.FULL), gpt(vocabulary=1024), training())
    layer = 32 * s * h + 64 * s - 2 * s * h + 2 * s * h + 8 * s * h + 2 * 4 * h * h
    assert memory.row("layer workspace").bytes == layer + 80 * MIB


def test_embedding_and_head_stand_on_their_stages() -> None:
    ledger = memory_ledger(uniform(gpt(), Mesh(), 4), gpt(), training(), cluster())
    layers = ledger[1].row("parameters").bytes
    table = 51200 * 1024 * 2
    assert ledger[0].row("parameters").bytes == layers + table + 2048 * 1024 * 2
    assert ledger[3].row("parameters").bytes == layers + table + 2 * 1024 * 2
    assert [memory.rank_class for memory in ledger] == [
        "ranks with embedding", "ranks of layers alone", "ranks of layers alone", "ranks with head",
    ]  # fmt: skip
    assert [bool(memory.row("logits and loss").bytes) for memory in ledger] == [False, False, False, True]


def test_a_stage_of_embedding_alone_has_no_layer() -> None:
    stages = (Stage(0, -1, Mesh(), embedding=True), Stage(0, 11, Mesh(), head=True))
    first, _ = memory_ledger(Plan("p", stages, 1, 4, uniform=False), gpt(), training(), cluster())
    assert first.row("parameters").bytes == 2 * (51200 + 2048) * 1024
    assert first.row("layer workspace").note == "no layer on this stage"


def test_zero_3_gathers_two_layers_and_the_ends() -> None:
    model = llama(4)
    memory = one(uniform(model, Mesh(data=8), zero=3), model, training())
    layer = 8192 * (2 * 8192 + 2 * 1024) + 3 * 8192 * 28672 + 2 * 8192
    assert memory.row("gathered parameters").bytes == 2 * (2 * layer + 2 * 128256 * 8192 + 8192)
    assert memory.row("communication buffers").bytes == 4 * layer


@pytest.mark.parametrize(("zero", "bucket"), [(1, 0), (2, 1), (3, 1)])
def test_sharded_gradients_stand_whole_for_one_layer(zero: int, bucket: int) -> None:
    model = llama(4)
    layer = 8192 * (2 * 8192 + 2 * 1024) + 3 * 8192 * 28672 + 2 * 8192
    memory = one(uniform(model, Mesh(data=8), zero=zero), model, training())
    assert memory.row("communication buffers").bytes == 4 * bucket * layer


def test_of_dense_and_moe_layers_the_larger_is_gathered() -> None:
    model = gpt(4, moe=MixtureOfExperts(8, 2, 4096, every=2))
    dense, routed = (rank_parameters(model, Stage(layer, layer, Mesh(data=8)), 51200).total for layer in (0, 1))
    assert routed > dense
    row = one(uniform(model, Mesh(data=8), zero=3), model, training()).row("gathered parameters")
    assert row.bytes == 2 * (2 * routed + (51200 + 2048) * 1024 + 2 * 1024)


def test_sharding_over_one_rank_changes_nothing() -> None:
    totals = {one(uniform(gpt(), zero=zero), gpt(), training(precision=FP16)).allocated.value for zero in range(4)}
    assert len(totals) == 1


def test_communication_buffers_name_what_is_sent() -> None:
    plan = uniform(llama(4), Mesh(tensor=4, context=2), 2, sequence_parallel=True)
    row = memory_ledger(plan, llama(4), training(4096), cluster())[0].row("communication buffers")
    s, h, kv = 2048, 8192, 2 * 128
    assert row.bytes == 2 * 2 * s * h // 4 + 2 * s * h + 2 * 4 * s * kv
    assert "between stages" in row.formula
    assert "ring" in row.formula


def test_narrow_gradients_are_copied_in_the_step_where_the_framework_is_known() -> None:
    """fp16 Adam of 16 bytes and 4 more in the step: with little activation the step is the peak, and says so."""
    model = llama(8)
    known = MemoryModel(model, training(256, precision=FP16), Implementation(gradient_copy=GradientCopy.STEP))
    (memory,) = memory_ledger(uniform(model), model, known.workload, cluster(), known)
    parameters = memory.row("parameters").bytes // 2
    assert memory.row("gradients").bytes == (2 + 4) * parameters
    assert memory.row("in-flight activations").bytes == memory.row("logits and loss").bytes == 0
    assert "optimizer's step" in memory.row("in-flight activations").note


def test_where_it_is_not_known_the_interval_spans_the_ways_to_copy() -> None:
    model, workload = llama(8), training(4096, precision=FP16)
    (unknown,) = memory_ledger(uniform(model), model, workload, cluster())
    by_copy = {}
    for copy in GradientCopy:
        memory = MemoryModel(model, workload, Implementation(gradient_copy=copy))
        (by_copy[copy],) = memory_ledger(uniform(model), model, workload, cluster(), memory)
    assert unknown.allocated.value == by_copy[GradientCopy.KEPT].allocated.value
    assert unknown.allocated.low == by_copy[GradientCopy.STEP].allocated.low
    assert unknown.allocated.high == by_copy[GradientCopy.TWICE].allocated.high
    parameters = unknown.row("parameters").bytes // 2
    assert by_copy[GradientCopy.TWICE].row("gradients").bytes == 8 * parameters


def test_a_loss_that_is_not_known_takes_the_larger_and_spans_both() -> None:
    model, workload = gpt(vocabulary=512000), training()
    by_loss = {}
    for loss in (Loss.IN_PLACE, Loss.FUSED, Loss.SEPARATE, None):
        memory = MemoryModel(model, workload, Implementation(loss=loss))
        (by_loss[loss],) = memory_ledger(uniform(model), model, workload, cluster(), memory)
    elements = 1024 * 512000
    logits = [by_loss[loss].row("logits and loss").bytes for loss in (Loss.IN_PLACE, Loss.FUSED, Loss.SEPARATE)]
    assert logits == [6 * elements, 10 * elements, 14 * elements]
    assert by_loss[None].allocated.value == by_loss[Loss.SEPARATE].allocated.value
    assert by_loss[None].allocated.low == by_loss[Loss.IN_PLACE].allocated.low
    assert "not known" in by_loss[None].row("logits and loss").note
    assert by_loss[Loss.FUSED].row("logits and loss").note == ""


def test_attention_not_stated_takes_the_larger_and_spans_both() -> None:
    flash, unfused, unstated = (
        one(uniform(gpt()), gpt(), training(attention=kernel)) for kernel in (Attention.FLASH, Attention.UNFUSED, None)
    )
    assert unstated.allocated.value == unfused.allocated.value
    assert unstated.allocated.low == flash.allocated.low
    assert unstated.allocated.high == unfused.allocated.high
    assert unstated.reserved.low < flash.reserved.value
    assert "not stated" in unstated.row("in-flight activations").note
    assert unfused.row("in-flight activations").note == ""


def test_intervals_are_the_residuals_of_the_shipped_table_and_experts_are_wider() -> None:
    dense = one(uniform(gpt()), gpt(), training()).allocated
    moe = gpt(moe=MixtureOfExperts(8, 2, 4096))
    routed = one(uniform(moe), moe, training()).allocated
    assert (dense.high - dense.value) / dense.value == pytest.approx(RESIDUALS.shown)
    assert (routed.high - routed.value) / routed.value == pytest.approx(RESIDUALS.experts)
    assert RESIDUALS.shown < RESIDUALS.experts < RESIDUALS.not_shown


@pytest.mark.parametrize("fields", [{"zero": 3}, {"schedule": Schedule.ZB_H1}])
def test_what_no_run_has_shown_is_wider(fields: dict[str, object]) -> None:
    first = memory_ledger(uniform(gpt(), Mesh(data=2), 2, **fields), gpt(), training(), cluster())[0].allocated
    assert (first.high - first.value) / first.value == pytest.approx(RESIDUALS.not_shown)


def test_errors_of_allocated_memory_and_of_the_reserve_are_independent() -> None:
    """Half-widths of allocated and of 1 + reserve (0.05 of 1.1, widened from 10-90 % to 5-95 %) add in
    quadrature."""
    memory = one(uniform(gpt()), gpt(), training())
    reserve = 0.05 * 1.645 / 1.2816 / 1.1
    expected = (RESIDUALS.shown**2 + reserve**2) ** 0.5
    assert 1 - memory.reserved.low / memory.reserved.value == pytest.approx(expected, rel=1e-6)
    assert memory.device.low == memory.reserved.low + memory.context.low
    assert memory.device.high == memory.reserved.high + memory.context.high


def test_a_spread_of_workspace_widens_allocated_memory() -> None:
    memory = one(uniform(gpt()), gpt(), training(), workspace=(80 * MIB, 0, 80 * MIB))
    below = 80 * MIB * 1.645 / 1.2816
    value = memory.allocated.value
    assert value - memory.allocated.low == pytest.approx(((RESIDUALS.shown * value) ** 2 + below**2) ** 0.5)
    assert memory.allocated.high - value == pytest.approx(RESIDUALS.shown * value)


def test_the_reserve_is_never_negative() -> None:
    memory = one(uniform(gpt()), gpt(), training(), reserve=(0.02, 0.0, 0.3))
    assert memory.reserved.low >= memory.allocated.low
    assert memory.reserved.high > memory.allocated.high * 1.3


@pytest.mark.parametrize(("above", "verdict"), [(-1, "no"), (1, "at_risk")])
def test_a_plan_is_refused_only_where_low_allocated_and_context_pass_the_capacity(above: int, verdict: str) -> None:
    memory = one(uniform(gpt()), gpt(), training())
    limit = int(memory.allocated.low + memory.context.low)
    assert fits(replace(memory, capacity_bytes=limit + above)) == verdict


def test_a_plan_fits_where_the_high_end_of_device_memory_does() -> None:
    memory = one(uniform(gpt()), gpt(), training())
    high = int(memory.device.high)
    assert fits(replace(memory, capacity_bytes=high + 1)) == "yes"
    assert fits(replace(memory, capacity_bytes=high - 1)) == "at_risk"


def test_headroom_and_excess_are_two_limits() -> None:
    memory = one(uniform(gpt()), gpt(), training())
    tight = replace(memory, capacity_bytes=int(memory.allocated.value + memory.context.value) - 1000)
    assert excess_bytes(memory) == 0
    assert excess_bytes(tight) == 1000
    assert headroom_bytes(memory) == 80 * GIB - int(memory.device.value)
    assert headroom_bytes(tight) < 0


def test_the_verdict_is_that_of_the_worst_stage() -> None:
    ledger = memory_ledger(uniform(gpt(), Mesh(), 4), gpt(), training(), cluster())
    assert feasible(ledger) == "yes"
    assert feasible((*ledger[:3], replace(ledger[3], capacity_bytes=1))) == "no"
    assert feasible((replace(ledger[0], capacity_bytes=int(ledger[0].device.value)), *ledger[1:])) == "at_risk"
    assert peak_stage((*ledger[:3], replace(ledger[3], capacity_bytes=1))) == 3


def test_each_stage_is_measured_on_its_own_devices() -> None:
    """Two kinds of nodes: the first stage's eight devices are of the large kind, the second's of the small one."""
    large, small = device(80 * GIB, name="large"), device(32 * GIB, name="small")
    plan = uniform(gpt(), Mesh(data=8), 2)
    inward = replace(plan, order=("pipeline", "tensor", "context", "data"))

    def capacities(each: Plan, *sheets: DeviceSheet) -> list[int]:
        return [m.capacity_bytes for m in memory_ledger(each, gpt(), training(), cluster(*sheets))]

    assert capacities(plan, large, small) == [80 * GIB, 32 * GIB]
    assert capacities(plan, small, large) == [32 * GIB, 80 * GIB]
    assert capacities(inward, large, small) == [32 * GIB, 32 * GIB]


def test_a_stage_across_two_kinds_meets_the_smaller() -> None:
    large, small = device(80 * GIB, name="large"), device(32 * GIB, name="small")
    (memory,) = memory_ledger(uniform(gpt(), Mesh(data=16)), gpt(), training(), cluster(large, small))
    assert memory.capacity_bytes == 32 * GIB


def test_a_stage_with_fewer_replicas_has_larger_microbatches() -> None:
    """Data 4 feeds data 2: each of the two replicas takes the sequences of two."""
    stages = (Stage(0, 5, Mesh(data=4), embedding=True), Stage(6, 11, Mesh(data=2, tensor=2), head=True))
    plan = Plan("p", stages, 1, 8, uniform=False)
    _, last = memory_ledger(plan, gpt(), training(), cluster())
    assert last.row("logits and loss").bytes == 14 * 2 * 1024 * 51200 // 2


def test_stated_layouts_are_said_not_to_be_modelled() -> None:
    plan = uniform(gpt())
    stated = replace(plan, stages=(replace(plan.stages[0], layouts=(("lm_head", (("vocabulary", "tensor"),)),)),))
    memory = one(stated, gpt(), training())
    assert not memory.row("parameters").modelled
    assert "not modelled" in memory.row("in-flight activations").note
    assert all(row.modelled for row in one(plan, gpt(), training()).rows)


def test_an_even_spread_over_experts_is_said_to_be_assumed() -> None:
    for factor, said in ((None, True), (1.25, False)):
        model = gpt(moe=MixtureOfExperts(8, 2, 4096, capacity_factor=factor))
        note = one(uniform(model), model, training()).row("in-flight activations").note
        assert ("spread evenly" in note) is said


def test_fp8_weights_are_said_to_be_counted_once() -> None:
    fp8 = training(precision=Precision("fp8", "bf16", "fp32", "bf16"))
    assert "transposed" in one(uniform(gpt()), gpt(), fp8).row("parameters").note


def test_uneven_stages_are_each_counted_and_the_largest_decides() -> None:
    """Eight layers cut 1, 2, 2, 3, not tied: the stages add up to the model, and no stage stands for the others."""
    model = gpt(8, tied_embeddings=False, vocabulary=1024, learned_positions=0)
    cuts = ((0, 0), (1, 2), (3, 4), (5, 7))
    stages = tuple(Stage(a, b, Mesh(), embedding=a == 0, head=b == 7) for a, b in cuts)
    ledger = memory_ledger(Plan("uneven", stages, 1, 1, uniform=False), model, training(64), cluster())
    counts = [memory.row("parameters").bytes // 2 for memory in ledger]
    layer, table = 12 * 1024 * 1024 + 13 * 1024, 1024 * 1024
    assert counts == [layer + table, 2 * layer, 2 * layer, 3 * layer + table + 2 * 1024]
    assert sum(counts) == parameters(model)
    assert peak_stage(ledger) == 3


def test_varying_shapes_are_said_to_fragment() -> None:
    assert "fragmentation" in one(uniform(gpt()), gpt(), training(dynamic_shapes=True)).row("allocator reserve").note


def test_an_optimizer_without_state_says_so() -> None:
    bare = training(precision=Precision("fp32", "fp32", None, "fp32"), optimizer=Optimizer("sgd", 0))
    row = one(uniform(gpt()), gpt(), bare).row("optimizer state")
    assert row.bytes == 0
    assert "sgd" in row.note


def test_the_cheap_form_agrees_with_the_ledger() -> None:
    model, nodes = gpt(), cluster()
    for schedule in Schedule:
        plan = uniform(model, Mesh(data=2), 4, schedule=schedule, zero=1)
        memory = MemoryModel(model, UNFUSED)
        ledger = memory_ledger(plan, model, UNFUSED, nodes, memory)
        for index, stage in enumerate(ledger):
            assert stage_amounts(plan, index, memory.terms, nodes.device).allocated == stage.allocated.value
        index, amounts = largest_amounts(plan, memory.terms, nodes)
        assert amounts.allocated == ledger[index].allocated.value == max(s.allocated.value for s in ledger)


def test_the_stage_that_decides_may_be_a_later_one_on_smaller_devices() -> None:
    large, small = device(80 * GIB, name="large"), device(32 * GIB, name="small")
    nodes = cluster(large, small)
    model = gpt(vocabulary=1024)
    plan = uniform(model, Mesh(data=4), 4)
    index, _ = largest_amounts(plan, MemoryModel(model, training()).terms, nodes)
    assert index == peak_stage(memory_ledger(plan, model, training(), nodes)) == 2


def test_one_memory_model_gives_every_plan_what_a_fresh_one_does() -> None:
    model, shared = gpt(), MemoryModel(gpt(), UNFUSED)
    for plan in (
        uniform(model, Mesh(data=2), 4),
        uniform(model, Mesh(data=2), 4, schedule=Schedule.GPIPE),
        uniform(model, Mesh(data=2), 4, accumulation=2),
        uniform(model, Mesh(data=2), 2, zero=1),
        uniform(model, Mesh(data=2, tensor=2), 2, sequence_parallel=True, recompute=Recompute.SELECTIVE),
    ):
        assert memory_ledger(plan, model, UNFUSED, cluster(), shared) == memory_ledger(plan, model, UNFUSED, cluster())


def test_gpt3_fits_a_dgx_a100_as_published_and_not_without_tensor_parallelism() -> None:
    """Korthikanti et al. 2022, table 5: 175B ran on 64 A100 80 GB with tensor 8, pipeline 8, interleave 3, selective
    recomputation and sequence parallelism."""
    from planproof.cluster.cluster import Cluster, Nodes

    model = gpt(96, 12288, 96)
    nodes = Cluster((Nodes(8, load_node("dgx_a100")),), ())
    workload = Workload(2048, 64, FP16, ADAM, Attention.UNFUSED, dropout=0.1)
    published = uniform(
        model, Mesh(tensor=8), 8, accumulation=64, schedule=Schedule.INTERLEAVED, interleave=3,
        recompute=Recompute.SELECTIVE, sequence_parallel=True,
    )  # fmt: skip
    assert feasible(memory_ledger(published, model, workload, nodes)) in ("yes", "at_risk")
    data_only = uniform(model, Mesh(data=8), 8, accumulation=8, recompute=Recompute.FULL)
    refused = memory_ledger(data_only, model, workload, nodes)
    assert feasible(refused) == "no"
    assert excess_bytes(refused[peak_stage(refused)]) > 0
