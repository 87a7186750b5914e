"""Resharding plans complete every destination shard, on full index arrays, and stay close to what the cards allow."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from planproof.errors import InputError, InternalFault
from planproof.search.resharding import STRATEGIES, ReshardingPlan, plan_resharding
from planproof.search.resharding_time import Hosts
from planproof.search.resharding_units import Sharding, Tensor, check_moves, tiles

CARD = 1e9


def slices(box: Any) -> tuple[slice, ...]:
    return tuple(slice(*ends) for ends in box)


def tile(tensor: Tensor, sharding: Sharding, position: int) -> tuple[slice, ...]:
    """An independent reading of a sharding: cut each dim axis by axis, with tiles of `ceil` division."""
    at = np.unravel_index(position, sharding.mesh)
    found = []
    for size, axes in zip(tensor.shape, sharding.axes_of_dim, strict=True):
        parts = prod(sharding.mesh[a] for a in axes)
        part = int(np.ravel_multi_index([at[a] for a in axes], [sharding.mesh[a] for a in axes])) if axes else 0
        step = -(-size // parts)
        found.append(slice(part * step, (part + 1) * step))
    return tuple(found)


def random_sharding(rng: np.random.Generator, dims: int, devices: list[int]) -> Sharding:
    mesh = [(4,), (2, 2), (1, 4)][rng.integers(3)] if len(devices) == 4 else [(8,), (2, 4), (2, 2, 2)][rng.integers(3)]
    cut: list[list[int]] = [[] for _ in range(dims)]
    for axis in rng.permutation(len(mesh)):
        if rng.random() < 0.75:
            cut[rng.integers(dims)].append(int(axis))
    order = rng.permutation(len(devices)) if rng.random() < 0.3 else range(len(devices))
    return Sharding(mesh, tuple(devices[i] for i in order), tuple(tuple(axes) for axes in cut))


def random_case(rng: np.random.Generator) -> tuple[Tensor, Sharding, Sharding, Hosts]:
    dims = int(rng.integers(1, 4))
    tensor = Tensor(tuple(int(n) for n in rng.integers(1, 40, dims)), 2)
    per_host = int(rng.choice([2, 4]))
    source = list(range(2 * per_host))
    # Meshes apart, overlapping, or the same.
    first = int(rng.choice([0, per_host, 2 * per_host]))
    destination = list(range(first, first + 2 * per_host))
    hosts = Hosts({d: d // per_host for d in range(6 * per_host)}, CARD, float(rng.choice([np.inf, CARD, CARD / 8])))
    return tensor, random_sharding(rng, dims, source), random_sharding(rng, dims, destination), hosts


def carry_out(tensor: Tensor, source: Sharding, destination: Sharding, plan: ReshardingPlan) -> None:
    """Moves values, not flags: every device starts with its tile and NaN elsewhere."""
    whole = np.arange(prod(tensor.shape), dtype=float).reshape(tensor.shape)
    held = {device: np.full(tensor.shape, np.nan) for device in {*source.devices, *destination.devices}}
    for position, device in enumerate(source.devices):
        held[device][tile(tensor, source, position)] = whole[tile(tensor, source, position)]
    for step in plan.steps:
        held[step.destination][slices(step.box)] = held[step.source][slices(step.box)]
    for position, device in enumerate(destination.devices):
        at = tile(tensor, destination, position)
        np.testing.assert_array_equal(held[device][at], whole[at])


@pytest.mark.parametrize("cases", [150, pytest.param(2000, marks=pytest.mark.long)])
def test_every_destination_shard_is_complete(cases: int) -> None:
    rng = np.random.default_rng(4)
    over, chains = [], 0
    for _ in range(cases):
        tensor, source, destination, hosts = random_case(rng)
        plan = plan_resharding(tensor, source, destination, hosts)
        carry_out(tensor, source, destination, plan)
        assert [a.strategy for a in plan.alternatives] == list(STRATEGIES)
        assert plan.time_s >= plan.lower_bound_s * (1 - 1e-9)
        assert plan.time_s <= min(a.time_s for a in plan.alternatives) * 1.05
        sent = sum(n for (a, b), n in plan.bytes_by_link.items() if a != b)
        assert sent == next(a.network_bytes for a in plan.alternatives if a.strategy == plan.strategy)
        chains += plan.strategy == "broadcast_chain"
        if plan.lower_bound_s > 0 and prod(tensor.shape) > 500 and hosts.local_bytes_per_s == np.inf:
            over.append(plan.time_s / plan.lower_bound_s)
    assert np.mean(over) < 1.1
    assert chains > 0


@pytest.mark.parametrize("cases", [40, pytest.param(3000, marks=pytest.mark.long)])
def test_large_tensors_keep_within_five_per_cent_of_the_bound(cases: int) -> None:
    """64 MiB and more, eight devices on two hosts to eight on two others: layouts and device orders at random."""
    rng = np.random.default_rng(1)
    hosts = Hosts({d: d // 4 for d in range(16)}, CARD)
    compared = 0
    for _ in range(cases):
        dims = int(rng.integers(1, 4))
        sides = [int(n) for n in rng.integers(2, 9, dims)]
        scale = int(np.ceil((2**25 / prod(sides)) ** (1 / dims)))
        tensor = Tensor(tuple(n * scale for n in sides), 2)
        source, destination = (random_sharding(rng, dims, list(range(first, first + 8))) for first in (0, 8))
        plan = plan_resharding(tensor, source, destination, hosts)
        assert plan.time_s <= 1.05 * plan.lower_bound_s
        compared += plan.lower_bound_s > 0
    assert compared == cases


def test_no_element_reaches_a_device_twice() -> None:
    rng = np.random.default_rng(11)
    for _ in range(60):
        tensor, source, destination, hosts = random_case(rng)
        plan = plan_resharding(tensor, source, destination, hosts)
        arrived = {device: np.zeros(tensor.shape, dtype=int) for device in destination.devices}
        for step in plan.steps:
            arrived[step.destination][slices(step.box)] += 1
        for count in arrived.values():
            assert count.max() <= 1


def test_a_whole_tensor_enters_a_host_once_and_its_devices_gather_it() -> None:
    """Eight devices hold it, eight of another host need it: once over the cards, and 7 / 8 of it out of each device."""
    tensor = Tensor((64, 64), 2)
    source, destination = (Sharding((8,), tuple(range(k, k + 8)), ((), ())) for k in (0, 8))
    plan = plan_resharding(tensor, source, destination, Hosts({d: d // 8 for d in range(16)}, CARD, CARD / 2))
    once = 64 * 64 * 2
    assert [a.network_bytes for a in plan.alternatives] == [8 * once, once, once]
    assert plan.strategy == "send_and_gather"
    assert plan.bytes_by_link == {(0, 1): once, (1, 1): 7 * once}
    assert plan.time_s == pytest.approx(7 / 8 * once / (CARD / 2))


def test_the_same_sharding_moves_nothing() -> None:
    sharding = Sharding((2, 2), (0, 1, 2, 3), ((0,), (1,)))
    plan = plan_resharding(Tensor((8, 8), 2), sharding, sharding, Hosts({0: 0, 1: 0, 2: 1, 3: 1}, CARD))
    assert (plan.steps, plan.time_s, plan.staging_bytes, plan.lower_bound_s) == ((), 0.0, 0, 0.0)


def test_a_whole_tensor_for_two_hosts_enters_once_and_is_forwarded() -> None:
    """One host holds it, two hosts with two devices each need all of it: 4, 2 and (1 + a chunk) times the tensor on
    the sender's card.
    """
    tensor = Tensor((64, 64), 2)
    source = Sharding((1,), (0,), ((), ()))
    destination = Sharding((4,), (2, 3, 4, 5), ((), ()))
    plan = plan_resharding(tensor, source, destination, Hosts({0: 0, 2: 1, 3: 1, 4: 2, 5: 2}, CARD))
    once = 64 * 64 * 2 / CARD
    assert [a.time_s / once for a in plan.alternatives] == pytest.approx([4, 2, 1 + 1 / 32])
    assert plan.strategy == "broadcast_chain"
    assert plan.bytes_by_link[0, 1] + plan.bytes_by_link[1, 2] == 2 * 64 * 64 * 2


def test_a_box_that_two_hosts_hold_is_sent_half_by_each() -> None:
    tensor = Tensor((64,), 2)
    plan = plan_resharding(
        tensor, Sharding((2,), (0, 1), ((),)), Sharding((2,), (2, 3), ((0,),)), Hosts({0: 0, 1: 1, 2: 2, 3: 3}, CARD)
    )
    assert plan.time_s == pytest.approx(64 / CARD)
    assert plan.strategy == "repeated_sends"


def test_slow_local_links_decide_where_all_is_local() -> None:
    tensor = Tensor((10,), 4)
    hosts = Hosts({0: 0, 1: 0}, CARD, local_bytes_per_s=10.0)
    plan = plan_resharding(tensor, Sharding((1,), (0,), ((),)), Sharding((1,), (1,), ((),)), hosts)
    assert (plan.time_s, plan.bytes_by_link) == (4.0, {(0, 0): 40})


@pytest.mark.parametrize("fault", ["left out", "wrong holder"])
def test_a_faulty_plan_is_caught(fault: str) -> None:
    rng = np.random.default_rng(9)
    caught = 0
    for _ in range(40):
        tensor, source, destination, hosts = random_case(rng)
        before, after = tiles(tensor, source), tiles(tensor, destination)
        moves = [(s.source, s.destination, s.box) for s in plan_resharding(tensor, source, destination, hosts).steps]
        check_moves(tensor, before, after, moves)
        if not moves:
            continue
        at = int(rng.integers(len(moves)))
        _, to, box = moves[at]
        broken = [*moves[:at], *([] if fault == "left out" else [(to, to, box)]), *moves[at + 1 :]]
        with pytest.raises(InternalFault):
            check_moves(tensor, before, after, broken)
        caught += 1
    assert caught > 20


@pytest.mark.parametrize(
    ("tensor", "source", "hosts", "words"),
    [
        (Tensor((0,), 2), Sharding((1,), (0,), ((),)), Hosts({0: 0}, CARD), "whole numbers"),
        (Tensor((4,), -2), Sharding((1,), (0,), ((),)), Hosts({0: 0}, CARD), "whole numbers"),
        (Tensor((), 2), Sharding((1,), (0,), ()), Hosts({0: 0}, CARD), "whole numbers"),
        (Tensor((4,), 2), Sharding((2,), (0,), ((),)), Hosts({0: 0}, CARD), "mesh of 2"),
        (Tensor((4,), 2), Sharding((2,), (0, 0), ((),)), Hosts({0: 0}, CARD), "each once"),
        (Tensor((4,), 2), Sharding((1,), (0,), ((0,), (0,))), Hosts({0: 0}, CARD), "axes_of_dim"),
        (Tensor((4,), 2), Sharding((1,), (0,), ((1,),)), Hosts({0: 0}, CARD), "axes_of_dim"),
        (Tensor((4,), 2), Sharding((1,), (0,), ((),)), Hosts({1: 0}, CARD), "host_of"),
        (Tensor((4,), 2), Sharding((1,), (0,), ((),)), Hosts({0: 0}, 0.0), "more than 0"),
        (Tensor((4,), 2), Sharding((1,), (0,), ((),)), Hosts({0: 0}, float("nan")), "more than 0"),
    ],
)
def test_input_that_is_no_resharding_is_refused(tensor: Tensor, source: Sharding, hosts: Hosts, words: str) -> None:
    with pytest.raises(InputError, match=words):
        plan_resharding(tensor, source, source, hosts)
