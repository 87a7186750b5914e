"""Which family of measured runs speaks for a framework, and what a cluster is under it."""

from __future__ import annotations

import pytest
from planproof.cost import TimeModel, Uncertainty, frameworks, software
from planproof.cost.frameworks import implementation_of
from planproof.cost.software import calibrated, families
from planproof.decision.pricers import SHARDS_PIPELINES
from planproof.hardware import open_library
from planproof.model import Attention
from planproof.plan.frameworks import FRAMEWORKS
from planproof.proposal.resolve_plans import CUT_UNEVENLY
from planproof.search import freedoms
from planproof.search.freedoms import freedom_of
from time_cases import FP16, cluster, gpt, training, uniform

LIBRARY = open_library()


@pytest.mark.parametrize(
    ("framework", "version", "first"),
    [
        ("Megatron-LM", None, "megatron-lm"),
        ("megatron-lm", "v2.6", "megatron-lm-2021"),
        ("megatron-lm", "core_r0.14", "megatron-core"),
        ("llm-foundry", "0.7", "fsdp"),
        ("no such", None, None),
        (None, None, None),
    ],
)
def test_the_nearest_family_of_a_framework(framework: str | None, version: str | None, first: str | None) -> None:
    assert next(iter(families(framework, version)), None) == first


def test_a_calibration_replaces_the_shares_of_the_sheet_and_narrows_the_interval() -> None:
    plain = cluster()
    under = calibrated(plain, LIBRARY.calibration, "megatron-lm")
    known = under.device.calibration
    assert known is not None
    assert under.device.efficiency.gemm == known.gemm != plain.device.efficiency.gemm
    model, work, plan = gpt(16, 6144, 64), training(256, Attention.UNFUSED, FP16), uniform(data=8, tensor=8, accumulation=32)
    wide, narrow = (Uncertainty(model, work, one).interval(plan) for one in (plain, under))
    assert (narrow.high - narrow.low) / narrow.value < (wide.high - wide.low) / wide.value
    assert any("measured runs" in one.quantity.provenance.source for one in narrow.deciders)


def test_what_is_far_from_the_measured_runs_is_an_exception() -> None:
    under = calibrated(cluster(), LIBRARY.calibration, "megatron-lm")
    model, work = gpt(16, 1024, 8), training(256, Attention.UNFUSED, FP16)
    found = Uncertainty(model, work, under).exceptions(uniform(data=64, accumulation=4))
    assert any("hidden is beyond" in one for one in found)


def test_a_stall_is_added_to_each_layer_and_pass() -> None:
    from dataclasses import replace

    from planproof.cost import NOMINAL

    model, work, plan = gpt(), training(8), uniform(accumulation=8)
    without, with_it = (TimeModel(model, work, cluster(), replace(NOMINAL, stall=stall)).seconds(plan) for stall in (0.0, 1e-3))
    assert with_it - without == pytest.approx(8 * 16 * 2 * 1e-3, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("megatron-bridge", "megatron-core"), ("primus", "megatron-core"), ("NeMo", "megatron-core"),
        ("Megatron LM", "megatron-core"), ("mcore", "megatron-core"),
        ("primus-torchtitan", "torchtitan"), ("neox", "megatron-deepspeed"), ("composer", "fsdp"),
    ],
)  # fmt: skip
def test_what_stands_on_a_framework_has_its_memory_its_runs_and_its_freedoms(name: str, same: str) -> None:
    assert implementation_of(name) == implementation_of(same)
    assert set(families(name)) == set(families(same))
    if same != "megatron-deepspeed":
        assert freedom_of(name) == freedom_of(same)


def test_megatron_under_deepspeed_pads_like_megatron_and_leaves_copies_of_gradients_open() -> None:
    under, plain = implementation_of("megatron-deepspeed"), implementation_of("megatron-lm")
    assert (under.vocabulary_multiple, under.loss) == (plain.vocabulary_multiple, plain.loss) == (128, plain.loss)
    assert under.gradient_copy is None
    assert freedom_of("megatron-deepspeed") == freedom_of("deepspeed")


def test_every_table_by_framework_is_keyed_by_names_that_there_are() -> None:
    keys = {*frameworks._BY_NAME, *software._FAMILIES, *freedoms._BY_NAME, *SHARDS_PIPELINES, *CUT_UNEVENLY}
    assert keys <= set(FRAMEWORKS)
