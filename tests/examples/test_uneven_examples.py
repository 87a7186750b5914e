"""Uneven stages pay where devices differ and not where layers are alike; published plans beside what the search finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from planproof import Options, review
from planproof.decision.review import Candidate, Review

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
pytestmark = pytest.mark.long


def reviewed(name: str) -> tuple[Review, Candidate]:
    done = review(EXAMPLES / name / "proposal.yaml", Options(evaluators="reference"))
    best = done.candidate(done.recommended)
    assert best is not None
    return done, best


def test_equal_layers_on_one_fabric_get_equal_stages() -> None:
    done, best = reviewed("equal-stages")
    assert len({stage.layers for stage in best.plan.stages}) == 1
    assert best.plan.same_meshes
    assert done.space is not None
    assert done.space.size > 10**20


def test_slower_devices_get_fewer_layers() -> None:
    _, best = reviewed("mixed-devices")
    lengths = [stage.layers for stage in best.plan.stages]
    assert lengths == [7, 7, 17, 17]


def test_alpas_gpt_has_the_published_stages_and_meshes() -> None:
    done, best = reviewed("alpa-gpt-39b")
    published = next(one for one in done.candidates if one.plan.name == "published")
    assert [(one.layers, one.mesh.devices) for one in best.plan.stages] == [(3, 4)] * 16
    assert [(one.layers, one.mesh) for one in published.plan.stages] == [(one.layers, one.mesh) for one in best.plan.stages]
    assert published.ratio is not None
    assert 1.0 < published.ratio.value < 1.05


def test_alpas_mixture_is_a_tie_and_the_baseline_is_three_times_slower() -> None:
    done, best = reviewed("alpa-moe-27b")
    published = next(one for one in done.candidates if one.plan.name == "published")
    baseline = next(one for one in done.candidates if one.plan.name == "reference")
    assert published.ratio is not None
    assert published.ratio.low < 1 < published.ratio.value < 1.15
    assert published.step is not None
    assert baseline.step is not None
    assert 2.5 < baseline.step.value / published.step.value < 4
    assert baseline.feasible == "no"
    assert best.feasible == "yes"


def test_alpas_larger_mixture_pays_for_the_transfers_that_its_objective_leaves_out() -> None:
    done, best = reviewed("alpa-moe-70b")
    published = next(one for one in done.candidates if one.plan.name == "published")
    assert [(one.layers, one.mesh.devices) for one in published.plan.stages] == [(4, 8)] * 8
    assert published.ratio is not None
    assert published.ratio.low < 1 < published.ratio.value < 1.2
    between = [
        sum(part.seconds for part in one.critical.parts if part.where == "ethernet" and "message" in part.kind)
        for one in (published, best) if one.critical is not None
    ]  # fmt: skip
    assert between[0] > 1.5 * between[1]
