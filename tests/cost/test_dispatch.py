"""The exchange between experts: copies that routing is expected to need, what each dispatcher sends, and what overlap hides."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from random import Random

import pytest
from planproof.cost import TimeModel
from planproof.cost.dispatch import copies_between, units_reached
from planproof.model import Attention, Dispatcher, MixtureOfExperts, Optimizer, Precision, Transformer, Workload
from planproof.plan import Mesh, Plan, Schedule, Stage
from time_cases import cluster

MOE = MixtureOfExperts(64, 8, 1024)
MODEL = Transformer(
    layers=8, hidden=4096, heads=32, kv_heads=8, head_dim=128, ffn=4096, vocabulary=32000, gated=True,
    tied_embeddings=False, norm="rms", moe=MOE,
)  # fmt: skip
WORK = Workload(4096, 64, Precision("bf16", "fp32", "fp32", "fp32"), Optimizer("adam", 2, fused=True), Attention.FLASH)


def counted(experts: int, top_k: int, units: int, groups: int, kept: int) -> float:
    """Every choice of groups and of experts inside them, one by one."""
    size, held, total, seen = experts // groups, experts // units, 0, 0
    for chosen in combinations(range(groups), kept):
        pool = [one for group in chosen for one in range(group * size, (group + 1) * size)]
        for drawn in combinations(pool, top_k):
            total += 1
            seen += len({one // held for one in drawn})
    return seen / total


@pytest.mark.parametrize(
    ("experts", "top_k", "units", "groups", "kept"),
    [
        (8, 2, 4, 1, 1), (8, 2, 8, 1, 1), (12, 3, 3, 1, 1), (12, 3, 4, 4, 2), (12, 3, 2, 4, 2), (12, 3, 12, 4, 2),
        (12, 2, 6, 3, 2), (12, 4, 1, 4, 2), (16, 4, 8, 4, 2), (16, 4, 2, 8, 3),
    ],
)  # fmt: skip
def test_units_reached_are_those_of_all_choices(experts: int, top_k: int, units: int, groups: int, kept: int) -> None:
    assert units_reached(experts, top_k, units, groups, kept) == pytest.approx(counted(experts, top_k, units, groups, kept))


def test_units_reached_of_random_routers() -> None:
    random = Random(5)
    for _ in range(60):
        groups, size = random.randint(1, 4), random.choice([2, 3, 4])
        experts, kept = groups * size, random.randint(1, groups)
        top_k = random.randint(1, min(4, kept * size))
        # Cut at the borders of groups, or inside each alike: both ways round.
        cuts = [one for one in range(1, experts + 1) if experts % one == 0 and (one % groups == 0 or groups % one == 0)]
        units = random.choice(cuts)
        found = units_reached(experts, top_k, units, groups, kept)
        assert found == pytest.approx(counted(experts, top_k, units, groups, kept)), (experts, top_k, units, groups, kept)
        assert 1 - 1e-12 <= found <= min(units, top_k) + 1e-12


def test_deepseek_v3_reaches_fewer_than_four_of_eight_nodes() -> None:
    """256 experts on 8 nodes, 8 chosen within 4 of 8 groups (arXiv 2412.19437, section 4.2): at most four nodes."""
    free, limited = units_reached(256, 8, 8), units_reached(256, 8, 8, 8, 4)
    assert free == pytest.approx(5.29, abs=0.01)
    assert limited == pytest.approx(3.63, abs=0.02)
    moe = MixtureOfExperts(256, 8, 2048, route_groups=8, route_groups_kept=4)
    assert copies_between(moe, 8, 8) == pytest.approx(limited * 7 / 8)


def step(
    dispatcher: Dispatcher | None, overlap: bool | None = None, *, expert: int = 32, nodes: int = 4, top_k: int = 8
) -> dict[str, float]:
    work = replace(WORK, dispatcher=dispatcher, dispatch_overlap=overlap)
    mesh = Mesh(data=8 * nodes, expert=expert)
    plan = Plan("p", (Stage(0, 7, mesh, True, True),), 1, 64 // (8 * nodes), schedule=Schedule.ONE_F_ONE_B, zero=1)
    model = replace(MODEL, moe=replace(MOE, top_k=top_k))
    return dict(TimeModel(model, work, cluster("dgx_h100", nodes, bandwidth=50e9)).simulated(plan).terms)


def test_not_stated_is_an_all_to_all() -> None:
    assert step(None) == step(Dispatcher.ALLTOALL)


def test_a_token_once_a_node_spares_the_fabric() -> None:
    """Four nodes, 8 of 64 experts: 3.77 nodes reached, 2.83 of them others, in place of 8 x 3/4 = 6 copies."""
    whole, once = step(Dispatcher.ALLTOALL)["expert"], step(Dispatcher.DEEPEP)["expert"]
    copies = units_reached(64, 8, 4) * 3 / 4
    assert copies == pytest.approx(2.79, abs=0.05)
    # Latency and ramp are the same; the bytes dominate.
    assert once / whole == pytest.approx(copies / 6, rel=0.05)


def test_an_all_gather_carries_every_token_of_the_group() -> None:
    """Over four nodes with a NIC a device, tokens of three others a NIC, against 3/4 of top_k copies: less for 8, more for 1."""
    assert step(Dispatcher.ALLGATHER)["expert"] < step(Dispatcher.ALLTOALL)["expert"]
    few = {one: step(one, top_k=1)["expert"] for one in (Dispatcher.ALLTOALL, Dispatcher.ALLGATHER)}
    assert few[Dispatcher.ALLGATHER] > 2 * few[Dispatcher.ALLTOALL]


def test_an_all_gather_of_few_devices_can_carry_less() -> None:
    inside = {one: step(one, expert=4, nodes=1)["expert"] for one in (Dispatcher.ALLTOALL, Dispatcher.ALLGATHER)}
    assert inside[Dispatcher.ALLGATHER] < inside[Dispatcher.ALLTOALL]


def test_overlap_hides_what_another_microbatch_computes_and_costs_its_multiprocessors() -> None:
    open_, hidden = step(Dispatcher.DEEPEP)["expert"], step(Dispatcher.DEEPEP, True)["expert"]
    assert 0.15 * open_ <= hidden * (1 + 1e-9) < open_
    assert step(Dispatcher.DEEPEP, False) == step(Dispatcher.DEEPEP)


def test_one_microbatch_a_step_has_no_other_to_hide_the_exchange_under() -> None:
    mesh, rows = Mesh(data=32, expert=32), {}
    for overlap in (False, True):
        for accumulation in (1, 2):
            work = replace(WORK, dispatcher=Dispatcher.DEEPEP, dispatch_overlap=overlap, global_batch=32 * accumulation)
            plan = Plan("p", (Stage(0, 7, mesh, True, True),), 1, accumulation, schedule=Schedule.ONE_F_ONE_B, zero=1)
            model = TimeModel(MODEL, work, cluster("dgx_h100", 4, bandwidth=50e9))
            rows[overlap, accumulation] = model.simulated(plan).seconds
            said = model.unmodelled(plan, model.costs(plan))
            assert any("hidden under another microbatch" in row for row in said) == (overlap and accumulation > 1)
    assert rows[True, 1] == rows[False, 1]
    assert rows[True, 2] < rows[False, 2]


def test_an_all_gather_dispatcher_needs_room_for_everybodys_tokens() -> None:
    from planproof.cost.activations import layer_activations

    mesh = Mesh(data=32, expert=32)
    room = {
        one: layer_activations(
            MODEL, replace(WORK, dispatcher=one), mesh, moe=True, microbatch=1, sequence_parallel=False, attention=Attention.FLASH
        )
        for one in (Dispatcher.ALLTOALL, Dispatcher.ALLGATHER)
    }  # fmt: skip
    gathered = 32 * 4096 * 4096 * 2
    assert room[Dispatcher.ALLGATHER].gradients - room[Dispatcher.ALLTOALL].gradients == gathered
    assert room[Dispatcher.ALLGATHER].kept - room[Dispatcher.ALLTOALL].kept == 32 * 4096 * 5 * 2
