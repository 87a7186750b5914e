"""Models by their operators alone: Alpa's Wide-ResNets beside the published plans, and a vision tower where uneven stages pay."""

from __future__ import annotations

from pathlib import Path

import pytest
from planproof import Options, review
from planproof.decision.review import Candidate, Review
from planproof.report.record import render_record

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
pytestmark = pytest.mark.long


def reviewed(name: str) -> tuple[Review, dict[str, Candidate], Candidate]:
    done = review(EXAMPLES / name / "proposal.yaml", Options(evaluators="reference"))
    best = done.candidate(done.recommended)
    assert best is not None
    assert best.feasible == "yes"
    assert len(render_record(done).splitlines()) < 400
    return done, {one.plan.name: one for one in done.candidates}, best


def seconds(one: Candidate, *names: str) -> float:
    assert one.priced is not None
    return sum(one.priced.step.term(name) for name in names)


def page(name: str) -> str:
    return (EXAMPLES / name / "README.md").read_text(encoding="utf-8")


def test_wide_resnet_4b_takes_unequal_submeshes_as_alpa_found() -> None:
    done, by_name, best = reviewed("alpa-wresnet-4b")
    assert done.case.graph is not None
    assert (done.case.graph.layers, done.case.graph.parameters) == (16, 4_000_937_344)
    published, text = by_name["published"], page("alpa-wresnet-4b")
    assert [stage.mesh.devices for stage in published.plan.stages] == [4, 4, 8]
    assert not best.plan.same_meshes
    sizes = [stage.mesh.devices for stage in best.plan.stages]
    assert sizes == sorted(sizes)  # few devices for large pictures, many for large weights
    assert published.ratio is not None
    assert published.ratio.low > 1
    low, value, high = published.ratio.low, published.ratio.value, published.ratio.high
    assert f"{value:.3f} ({low:.3f} to {high:.3f})" in " ".join(text.split())
    for one in (published, best):
        longest = seconds(one, "gemm", "memory", "tensor", "launch", "ends", "attention")
        assert f"{longest:.1f}" in text
        assert f"{seconds(one, 'recompute'):.1f}" in text
        assert f"{seconds(one, 'pipeline_transfer'):.2f}" in text


def test_wide_resnet_13b_gets_the_published_stages() -> None:
    done, by_name, best = reviewed("alpa-wresnet-13b")
    assert done.case.graph is not None
    assert done.case.graph.layers == 33
    published, reference = by_name["published"], by_name["reference"]
    assert {stage.mesh for stage in best.plan.stages} == {stage.mesh for stage in published.plan.stages}
    assert (best.plan.pipeline, reference.feasible) == (8, "no")
    assert sorted(stage.layers for stage in best.plan.stages) == sorted(stage.layers for stage in published.plan.stages)
    assert published.ratio is not None
    assert published.ratio.low < 1 < published.ratio.value < 1.15
    text = " ".join(page("alpa-wresnet-13b").split())
    assert f"{best.step.value:.1f} s a step" in text if best.step else False
    assert f"takes {seconds(reference, 'gradient_sync'):.0f} s of" in text


def test_a_vision_tower_before_a_decoder_wants_uneven_stages() -> None:
    done, by_name, best = reviewed("vision-tower")
    assert done.case.graph is not None
    assert done.case.graph.layers == 104
    equal = by_name["equal"]
    assert len({stage.layers for stage in best.plan.stages}) > 1
    assert best.plan.stages[0].layers >= 24
    assert equal.ratio is not None
    assert equal.ratio.low > 1.1
    assert done.space is not None
    assert done.space.size > 10**9
    low, value, high = equal.ratio.low, equal.ratio.value, equal.ratio.high
    assert f"{value:.2f} ({low:.2f} to {high:.2f})" in " ".join(page("vision-tower").split())
