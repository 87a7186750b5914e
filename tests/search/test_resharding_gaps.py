"""A resharding plan that takes longer than its bound allows says why: gaps planted one by one, and the bench that lists them."""

from __future__ import annotations

import importlib.util
import json
import sys
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planproof.search.resharding import plan_resharding
from planproof.search.resharding_gap import CAUSES, Bounds, Gap, gap_of
from planproof.search.resharding_time import Flow, Hosts, Step, card_loads, flows, local_time, network_time
from planproof.search.resharding_units import Box, Sharding, Tensor, Unit

TENSOR = Tensor((64,), 2)
WHOLE: Box = ((0, 64),)
HALVES: tuple[Box, Box] = (((0, 32),), ((32, 64),))
CARD = 128.0


def step(kind: str, source: int, destination: int, box: Box = WHOLE) -> Step:
    return Step(kind, source, destination, box, 2 * prod(high - low for low, high in box))


def gap(steps: list[Step], units: list[Unit], hosts: Hosts, bounds: Bounds, chunk: int = 4) -> Gap | None:
    """Of steps that no planner chose. Devices have their host as tens."""
    time = max(network_time(flows(steps, hosts), hosts, chunk), local_time(steps, hosts))
    return gap_of(TENSOR, units, steps, hosts, time, bounds, chunk)


def hosts(*devices: int, local: float = float("inf"), latency: float = 0.0) -> Hosts:
    return Hosts({device: device // 10 for device in devices}, CARD, local, latency)


ONE = [Unit(WHOLE, (0,), (10, 20))]
PLANTED: dict[str, tuple[list[Step], list[Unit], Hosts, Bounds, int, str, float]] = {
    # One device passes the whole tensor on to three others, which could have gathered it.
    "local links": (
        [step("send", 0, 10), *(step("copy", 10, to) for to in (11, 12, 13))], [Unit(WHOLE, (0,), (10, 11, 12, 13))],
        hosts(0, 10, 11, 12, 13, local=CARD), Bounds(1.0, 0.0, 1), 4, "device 10 sends 384 bytes", 3.0,
    ),
    "sent more than once": (
        [step("send", 0, 10), step("send", 0, 20)], ONE, hosts(0, 10, 20), Bounds(1.0, 0.0, 2), 4,
        "host 0 sends 256 bytes, 2.000 of the bound, 128 of them again", 2.0,
    ),
    # Host 1 sends what it alone has, and passes on what host 0 has.
    "forwarding": (
        [step("send", 0, 10, HALVES[0]), step("forward", 10, 20, HALVES[0]), step("send", 11, 30, HALVES[1])],
        [Unit(HALVES[0], (0,), (10, 20)), Unit(HALVES[1], (11,), (30,))], hosts(0, 10, 11, 20, 30), Bounds(0.5, 0.0, 2), 4,
        "host 1 sends 128 bytes, 2.000 of the bound, 64 of them passed on", 2.0,
    ),
    # Host 1 holds it as well, and sends nothing.
    "unequal senders": (
        [step("send", 0, 20, HALVES[0]), step("send", 0, 30, HALVES[1])],
        [Unit(HALVES[0], (0, 10), (20,)), Unit(HALVES[1], (0, 10), (30,))], hosts(0, 10, 20, 30), Bounds(0.5, 0.0, 1), 4,
        "host 1 holds 128 bytes of them and sends 0", 2.0,
    ),
    # All is passed on when all of it is there.
    "chunks": (
        [step("send", 0, 10), step("forward", 10, 20)], ONE, hosts(0, 10, 20), Bounds(1.0, 0.0, 2), 128, "of 128 bytes", 2.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("cause", PLANTED)
def test_a_planted_gap_has_its_cause(cause: str) -> None:
    steps, units, cluster, bounds, chunk, words, times = PLANTED[cause]
    found = gap(steps, units, cluster, bounds, chunk)
    assert found is not None
    assert found.cause == cause
    assert words in found.words
    assert found.ratio == pytest.approx(times / 1.05)


def test_elements_that_cannot_be_cut_are_rounding() -> None:
    """Five elements that two hosts hold, for five others: one sends three of them."""
    to = (20, 30, 40, 50, 60)
    plan = plan_resharding(Tensor((5,), 2), Sharding((2,), (0, 10), ((),)), Sharding((5,), to, ((0,),)), hosts(0, 10, *to))
    assert plan.gap is not None
    assert (plan.gap.cause, plan.gap.ratio) == ("rounding of tiles", pytest.approx(3 / 2.5 / 1.05))
    assert "the smallest slice that host 1 could send instead is 2 bytes" in plan.gap.words


def test_cards_that_wait_for_each_other_are_the_order() -> None:
    """Three by three hosts of a matrix whose rows and columns have at most 5 units: greedy pairs leave a card idle."""
    loads = [[0, 1, 2], [1, 1, 2], [2, 2, 1]]
    steps, at = [], 0
    for one, row in enumerate(loads):
        for other, units in enumerate(row):
            if units:
                steps.append(step("send", 10 * one, 30 + 10 * other, ((at, at + 4 * units),)))
                at += 4 * units
    cluster = hosts(0, 10, 20, 30, 40, 50)
    heaviest = max(count for table in card_loads(flows(steps, cluster)) for count in table.values())
    found = gap(steps, [Unit(one.box, (one.source,), (one.destination,)) for one in steps], cluster,
                Bounds(heaviest / CARD, 0.0, 1), 1)  # fmt: skip
    assert found is not None
    assert found.cause == "order of messages"
    assert "waits for other cards" in found.words


def test_every_cause_is_planted() -> None:
    assert {*PLANTED, "rounding of tiles", "order of messages"} == set(CAUSES)


def test_a_latency_a_hop_is_no_gap() -> None:
    """A chain over two hosts may take two latencies; a third is a gap."""
    steps = [step("send", 0, 10), step("forward", 10, 20)]
    cluster = hosts(0, 10, 20, latency=7.0)
    every = flows(steps, cluster)
    assert every == (Flow(0, 1, 128, -1, 1), Flow(1, 2, 128, 0, 2))
    time = network_time(every, cluster, 4)
    assert time == pytest.approx(1 + 4 / 128 + 2 * 7)
    assert gap_of(TENSOR, ONE, steps, cluster, time, Bounds(1.0, 0.0, 2), 4) is None
    assert gap_of(TENSOR, ONE, steps, cluster, time, Bounds(1.0, 0.0, 1), 4) is not None


def test_a_chain_is_left_where_its_second_latency_costs_more() -> None:
    source, destination = Sharding((1,), (0,), ((), ())), Sharding((2,), (10, 20), ((), ()))
    tensor, once = Tensor((64, 64), 2), 64 * 64 * 2 / CARD
    for latency, strategy, time in ((0.0, "broadcast_chain", 33 / 32), (once / 2, "broadcast_chain", 33 / 32 + 1),
                                    (once * 2, "repeated_sends", 4)):  # fmt: skip
        plan = plan_resharding(tensor, source, destination, hosts(0, 10, 20, latency=latency))
        assert plan.strategy == strategy
        assert plan.time_s == pytest.approx(time * once)
        assert plan.gap is None


def bench() -> Any:
    path = Path(__file__).parents[2] / "bench" / "resharding.py"
    spec = importlib.util.spec_from_file_location("bench_resharding", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_resharding"] = module
    spec.loader.exec_module(module)
    return module


def test_the_bench_keeps_its_bound_on_large_tensors(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench().main(["--pairs", "25", "--mib", "64", "--mib", "0.0625", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["large_gaps"] == 0
    assert all(row["compared"] > 15 for row in summary["sizes"])
    assert max(row["worst"] for row in summary["sizes"] if row["mib"] == 64) < 1.05


def test_the_bench_lists_slow_local_links_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench().main(["--machine", "slow-local", "--pairs", "25", "--mib", "64", "--mib", "1"]) == 1
    out = capsys.readouterr().out
    assert "over the local links of host" in out
    assert "64 MiB and more: local links" in out
    assert "below 64 MiB: local links" in out


def test_a_planted_gap_stands_in_the_bench_with_its_cause(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Senders that nobody balances: the first holder sends everything."""
    monkeypatch.setattr("planproof.search.resharding._senders", lambda tensor, moving, cluster, strategy: [
        (unit, cluster.host_of[unit.holders[0]]) for unit in moving
    ])  # fmt: skip
    assert bench().main(["--machine", "p3", "--pairs", "40", "--mib", "64", "--seed", "2", "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)["gaps"]
    assert "unequal senders" in {row["cause"] for row in rows}
    assert all(row["ratio"] > 1.05 for row in rows)


def test_random_plans_name_what_binds() -> None:
    """The words of a gap by local links name a device that sends or receives as much in the plan's own steps."""
    rng, seen = np.random.default_rng(8), 0
    for _ in range(60):
        cluster = Hosts({k: k // 4 for k in range(16)}, CARD, CARD / 2)
        source, destination = (Sharding((2, 4), tuple(range(a, a + 8)), tuple(
            tuple(axis for axis in range(2) if rng.random() < 0.5 and axis == dim) for dim in range(2)
        )) for a in (0, 8))  # fmt: skip
        plan = plan_resharding(Tensor((32, 48), 2), source, destination, cluster)
        if plan.gap is None:
            continue
        if plan.gap.cause != "local links":
            continue
        device = int(plan.gap.words.split()[1])
        copies = [one for one in plan.steps if one.kind == "copy"]
        moved = [sum(one.bytes for one in copies if getattr(one, end) == device) for end in ("source", "destination")]
        assert f"{max(moved):,} bytes" in plan.gap.words
        assert plan.time_s == pytest.approx(max(moved) / (CARD / 2))
        seen += 1
    assert seen > 10
