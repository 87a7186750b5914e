"""What a boundary costs: closed forms, the redistribution plans that are carried out on index arrays, what frameworks send."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from planproof.cluster.cluster import Cluster
from planproof.cost.collectives import Network
from planproof.cost.frameworks import implementation_of
from planproof.cost.sending import Transfer
from planproof.cost.step import TimeModel
from planproof.cost.transfers import End, crossing, message
from planproof.plan import Mesh
from planproof.search.resharding import plan_resharding
from planproof.search.resharding_time import Hosts
from planproof.search.resharding_units import Sharding, Tensor
from time_cases import cluster, gpt, training, uniform

DGX = cluster(nodes=4)
NETWORK = Network(DGX)
FABRIC = DGX.tiers[-1]
MIB = 2.0**20


def end(mesh: Mesh, size: float, at_once: int = 8) -> End:
    return End(mesh, size, 1, at_once)


def cards(machine: Cluster, count: int) -> Cluster:
    return replace(machine, tiers=(*machine.tiers[:-1], replace(machine.tiers[-1], cards=count)))


def test_a_tensor_group_of_eight_sends_an_eighth_and_gathers() -> None:
    both = (end(Mesh(1, 8), 64 * MIB), end(Mesh(1, 8), 64 * MIB))
    direct = message(NETWORK, DGX, FABRIC, both, Transfer.DIRECT, sequence_parallel=False)
    gathered = message(NETWORK, DGX, FABRIC, both, Transfer.SCATTER_GATHER, sequence_parallel=False)
    assert direct.seconds == NETWORK.send(64 * MIB, FABRIC).seconds
    assert gathered.wire == NETWORK.send(8 * MIB, FABRIC).seconds
    assert gathered.gather == NETWORK.collective("all_gather", 64 * MIB, 8, 1)
    assert gathered.seconds < direct.seconds / 4
    split = message(NETWORK, DGX, FABRIC, both, Transfer.SCATTER_GATHER, sequence_parallel=True)
    assert split == message(NETWORK, DGX, FABRIC, both, Transfer.DIRECT, sequence_parallel=True)


@pytest.mark.parametrize(
    ("count", "at_once", "share"),
    [(None, 4, 1.0), (8, 4, 1.0), (1, 4, 0.5), (1, 8, 1.0), (4, 2, 0.5), (4, 6, 0.75), (2, 1, 0.25)],
)
def test_few_devices_of_a_node_share_its_cards_among_fewer(count: int | None, at_once: int, share: float) -> None:
    machine = DGX if count is None else cards(DGX, count)
    side = end(Mesh(1, at_once), 64 * MIB, at_once)
    assert crossing(machine, machine.tiers[-1], side, side) == share * 64 * MIB
    assert crossing(machine, machine.tiers[0], side, side) == 64 * MIB


def test_the_stage_of_fewer_devices_is_the_busy_end() -> None:
    """2 devices without tensor parallelism send to 8 that hold everything eight times: each sends four copies."""
    few, many = end(Mesh(2, 1), 32 * MIB, 2), end(Mesh(1, 8), 64 * MIB)
    assert crossing(DGX, FABRIC, few, many) == 4 * 64 * MIB
    assert crossing(DGX, FABRIC, many, few) == 32 * MIB
    both = message(NETWORK, DGX, FABRIC, (few, many), Transfer.DIRECT, sequence_parallel=False)
    assert both.seconds == NETWORK.send(256 * MIB, FABRIC).seconds


@pytest.mark.parametrize("split", [False, True])
def test_the_price_is_that_of_the_executed_redistribution(split: bool) -> None:
    """Bytes over the busiest end, as in the plan that is carried out on index arrays: copies sent one by one, and once a group.

    Stages fill whole nodes, tensor groups lie inside one, so that both speak of the same cards.
    """
    chance = random.Random(7)
    seen: Counter[str] = Counter()
    for _ in range(60):
        meshes = [_mesh(chance) for _ in range(2)]
        batch = max(mesh.data for mesh in meshes)
        shape = (batch, 64, 2048)
        total = 2.0 * batch * 64 * 2048
        sides, shardings, start = [], [], 0
        for mesh in meshes:
            held = total / mesh.data / (mesh.tensor if split else 1)
            sides.append(End(mesh, held, 1, min(8, mesh.devices)))
            devices = tuple(range(start, start + mesh.devices))
            shardings.append(Sharding((mesh.data, mesh.tensor), devices, ((0,), (1,) if split else (), ())))
            start += mesh.devices
        hosts = Hosts({device: device // 8 for device in range(start)}, 8 * 25e9)
        plan = plan_resharding(Tensor(shape, 2), shardings[0], shardings[1], hosts)
        seconds = {one.strategy: one.time_s for one in plan.alternatives}
        direct = crossing(DGX, FABRIC, *sides) / 25e9
        parts = 1 if split else meshes[1].tensor
        assert direct == pytest.approx(seconds["repeated_sends"], rel=0.1), (meshes, seconds)
        assert direct / parts == pytest.approx(seconds["send_and_gather"], rel=0.1), (meshes, seconds)
        seen["copies"] += parts > 1
    assert split or seen["copies"] > 20


def _mesh(chance: random.Random) -> Mesh:
    tensor = chance.choice((1, 2, 4, 8))
    return Mesh(chance.choice((8, 16)) // tensor, tensor)


def test_a_step_and_its_bound_and_its_draws_know_the_way() -> None:
    model, work, plan = gpt(), training(), uniform(tensor=8, pipeline=4)
    direct = TimeModel(model, work, DGX)
    better = TimeModel(model, work, DGX, transfer=Transfer.SCATTER_GATHER)
    (ahead, *_), _ = better.hops(plan)
    assert ahead == better.hops_by(plan, Transfer.SCATTER_GATHER)[0][0]
    assert ahead.gather_s > 0
    assert ahead.seconds < direct.hops(plan)[0][0].seconds / 2
    assert better.seconds(plan) < direct.seconds(plan)
    for time in (direct, better):
        assert time.lower_bound(plan) <= min(time.seconds(plan), time.simulated(plan).seconds)
    ledger = better.simulated(plan).ledger
    hops = better.parts(plan).hops
    assert ledger.transfer_intra_s == pytest.approx(2 * sum(hop.gather_s for hop in hops if hop.between_nodes))
    assert ledger.transfer_intra_s + ledger.transfer_inter_s == pytest.approx(2 * sum(hop.seconds for hop in hops))


@pytest.mark.parametrize(
    ("name", "version", "settings", "way"),
    [
        (None, None, {}, Transfer.DIRECT),
        ("torchtitan", None, {}, Transfer.DIRECT),
        ("Megatron-LM", "core_r0.14", {}, Transfer.DIRECT),
        ("megatron-lm", None, {}, Transfer.DIRECT),
        ("megatron-lm", "v2.5", {}, Transfer.SCATTER_GATHER),
        ("megatron-lm", "3.0.2", {"no_scatter_gather_tensors_in_pipeline": True}, Transfer.DIRECT),
        ("deepspeed", "0.16", {}, Transfer.SCATTER_GATHER),
        ("DeepSpeed", None, {"pipeline.pipe_partitioned": False}, Transfer.DIRECT),
        ("gpt-neox", None, {"pipeline.pipe_partitioned": True}, Transfer.SCATTER_GATHER),
        ("alpa", None, {}, Transfer.SCATTER_GATHER),
    ],
)
def test_a_framework_sends_as_it_does_unless_told_otherwise(
    name: str | None, version: str | None, settings: dict[str, object], way: Transfer
) -> None:
    assert implementation_of(name, version, settings).transfer is way
