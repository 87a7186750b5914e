"""What the search over uneven plans may take, counted in work and not in seconds, and what it says where a limit ends it."""

from __future__ import annotations

from itertools import islice

import pytest
from planproof.cluster import Cluster, Nodes, Tier
from planproof.hardware import load_node
from planproof.model import Attention, Optimizer, Precision, Transformer, Workload
from planproof.quantity import Dimension, Grade, Provenance, Quantity
from planproof.search import stage_search, uneven_search
from planproof.search.driver import PlanSearch
from planproof.search.pricing import PlanPricer
from planproof.search.space import Limits, UniformSpace

SOURCE = Provenance(Grade.VENDOR, "written for the test")


def slow_fabric(limits: Limits) -> tuple[UniformSpace, PlanPricer]:
    """A 7B model of 30 layers and 32 sequences a step, on four nodes of eight A100 with 25 Gbit/s a node between them."""
    sheet = load_node("dgx_a100")
    inner = sheet.links[0]
    rate, latency = Quantity(25e9 / 8, Dimension.BANDWIDTH, SOURCE), Quantity(1e-5, Dimension.TIME, SOURCE)
    tiers = (Tier(inner.name, inner.kind.value, 8, inner.bandwidth, inner.latency), Tier("fabric", "ethernet", 32, rate, latency))
    there = Cluster((Nodes(4, sheet),), tiers)
    model = Transformer(
        layers=30, hidden=4096, heads=32, kv_heads=32, head_dim=128, ffn=16384, vocabulary=51200, gated=False,
        tied_embeddings=True, norm="layer",
    )  # fmt: skip
    work = Workload(2048, 32, Precision("bf16", "fp32", "fp32", "fp32"), Optimizer("adam", 2), Attention.FLASH)
    return UniformSpace(model, work, there, limits), PlanPricer(model, work, there)


def test_the_first_chain_of_a_setting_takes_one_continued_beginning_a_stage() -> None:
    """Many chains share the least bound here, up to rounding; none of the others is looked at before the first is whole."""
    space, pricer = slow_fabric(Limits(microbatches=(1,), zeros=(0, 1), schedules=("1f1b", "zb_h1")))
    search = PlanSearch(space, pricer).uneven
    looked = 0
    for shape in islice(search.space.shapes, 0, None, 4):
        for setting in islice(search.space.cuts(shape), 0, None, 5):
            for level in (1, 2):
                stages = search._stages(setting)
                if stages.least(level) == float("inf"):
                    continue
                first = next(stages.chains(level))
                plain = stages.tables(level)[0][0][0, -1]
                assert first.bound == pytest.approx(plain, rel=1e-9)
                # Of the setting more is known: what round trips add.
                assert stages.least(level) >= plain
                assert stages.expanded == setting.stages, setting
                looked += 1
    assert looked > 20


def test_what_follows_the_pipeline_is_never_bounded_above_what_a_plan_has() -> None:
    space, pricer = slow_fabric(Limits(microbatches=(1,), zeros=(0, 1), schedules=("1f1b",), recomputes=("none", "full")))
    search = PlanSearch(space, pricer).uneven
    looked = 0
    for shape in islice(search.space.shapes, 0, None, 3):
        setting = next(search.space.cuts(shape))
        stages = search.search(setting)
        if stages.least(1) == float("inf"):
            continue
        after = [stages.after(fitting=fitting) for fitting in (False, True)]
        for found in islice(stages.chains(1), 20):
            plan = stages.plan(found.chain)
            seconds = pricer.seconds(plan)
            for least in after:
                assert found.bound + (least or 0.0) <= seconds * (1 + 1e-9)
                looked += bool(least)
    assert looked > 50


def test_limits_of_work_hold_and_leave_a_proven_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(
        axes=frozenset({"data", "tensor", "pipeline"}), degrees=(("pipeline", (4,)), ("tensor", (4, 8))), microbatches=(1,),
        zeros=(1,), recomputes=("none",), schedules=("1f1b",), sequence_parallel=(True,),
    )  # fmt: skip
    space, pricer = slow_fabric(limits)
    free = PlanSearch(space, pricer)
    best = next(free.candidates())
    assert sum(map(len, free.uneven._chains.values())) <= uneven_search.ALL_TASKS // uneven_search.CHAIN

    assert free.floor >= best.seconds

    monkeypatch.setattr(uneven_search, "ALL_TASKS", 20 * uneven_search.CHAIN)
    monkeypatch.setattr(uneven_search, "ENTRIES", 4 * uneven_search.OPEN)
    short = PlanSearch(space, pricer)
    found = next(short.candidates())
    chains = [len(pulled) for pulled in short.uneven._chains.values()]
    assert len(chains) <= 4
    assert sum(chains) <= 20 + (uneven_search.FEWEST + 1) * len(chains)
    assert short.floor <= best.seconds <= found.seconds


def test_a_setting_whose_beginnings_are_too_many_ends_with_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    space, pricer = slow_fabric(Limits(microbatches=(1,), zeros=(0,), schedules=("1f1b",), recomputes=("none",)))
    search = PlanSearch(space, pricer).uneven
    setting = next(one for shape in search.space.shapes if shape.pipeline == 4 for one in search.space.cuts(shape))
    whole = [found.bound for found in islice(search._stages(setting).chains(1), 200)]
    monkeypatch.setattr(stage_search, "EXPANSIONS", 3)
    cut = list(islice(search._stages(setting).chains(1), 200))
    assert cut[-1].chain == ()
    assert cut[-1].bound <= whole[len(cut) - 1] * (1 + 1e-9)
