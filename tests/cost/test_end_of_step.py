"""What a stage adds to the end of a step, asked for many stages at once; and what layers of other meshes share."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import pytest
from planproof.cost.step import TimeModel
from planproof.model import MixtureOfExperts, Transformer, moe_layers
from planproof.plan import Mesh, Plan, Recompute, Stage, even_stages
from time_cases import cluster, gpt, mixture, training, uniform

#: Half of its layers route.
HALF = replace(gpt(), moe=MixtureOfExperts(experts=8, top_k=2, ffn=4096, every=2))
MACHINE = cluster(nodes=8)


def plan_of(chance: random.Random, model: Transformer) -> Plan:
    """64 devices, two stages and more, every ZeRO stage."""
    tensor, pipeline = chance.choice((1, 2, 8)), chance.choice((2, 4))
    data = 64 // tensor // pipeline
    mesh = Mesh(data, tensor, 1, chance.choice([k for k in (1, 2, 4, 8) if data % k == 0]) if model.moe else 1)
    stages = even_stages(model.layers, pipeline, mesh)
    assert stages is not None
    order = chance.choice((("tensor", "context", "data", "pipeline"), ("data", "tensor", "context", "pipeline")))
    return replace(
        uniform(tensor=tensor, pipeline=pipeline), stages=stages, microbatch=chance.choice((1, 2)), zero=chance.choice((0, 1, 3)),
        accumulation=chance.choice((1, 8)), sequence_parallel=tensor > 1 and chance.random() < 0.5, order=order,
        recompute=chance.choice(tuple(Recompute)),
    )  # fmt: skip


@pytest.mark.parametrize("model", [gpt(), mixture(), HALF], ids=["dense", "experts", "experts in every other layer"])
def test_the_least_of_many_stages_is_that_of_each_priced_alone(model: Transformer) -> None:
    chance, work = random.Random(5), training()
    one, other = (TimeModel(model, work, MACHINE) for _ in range(2))
    waited = 0
    for _ in range(30):
        plan = plan_of(chance, model)
        for index in {0, len(plan.stages) - 1}:
            place = plan.stages[index]
            runs = {(a, b) for a, b in (sorted(chance.sample(range(model.layers), 2)) for _ in range(5))}
            stages = [replace(place, first=a, last=b) for a, b in sorted(runs)]
            costs = [other.costs(replace(plan, stages=_with(plan, index, stage)))[index] for stage in stages]
            alone = [cost.sync + cost.optimizer for cost in costs]
            assert one.least_after(plan, index, stages) == pytest.approx(min(alone), rel=1e-12)
            for stage, seconds in zip(stages, alone, strict=True):
                assert one.least_after(plan, index, [stage]) == pytest.approx(seconds, rel=1e-12)
            waited += any(cost.sync > 0 for cost in costs)
    assert waited > 30


def _with(plan: Plan, index: int, stage: Stage) -> tuple[Stage, ...]:
    return (*plan.stages[:index], stage, *plan.stages[index + 1 :])


@pytest.mark.parametrize("overlap", [False, True])
def test_what_meshes_share_is_what_each_has(overlap: bool) -> None:
    """Layers and ends by what they know of a mesh: a model that has priced all others prices each as a fresh one does."""
    chance, work = random.Random(6), replace(training(), dispatch_overlap=overlap)
    one = TimeModel(HALF, work, MACHINE)
    kinds: dict[object, tuple[float, ...]] = {}
    shared = 0
    for _ in range(150):
        plan = plan_of(chance, HALF)
        fresh = TimeModel(HALF, work, MACHINE, constants=one.constants)
        assert one.costs(plan) == fresh.costs(plan)
        key = one.kind(plan, 1, plan.mesh)
        found = tuple(
            getattr(fresh.passes(plan, 1, Stage(layer, layer, plan.mesh, *ends)), name)
            for layer, ends, name in product((0, 1), ((False, False), (True, False), (False, True)), ("forward", "total"))
        )
        shared += key in kinds
        assert kinds.setdefault(key, found) == found
    assert shared > 0
    assert {moe_layers(HALF, layer, layer) for layer in (0, 1)} == {0, 1}
