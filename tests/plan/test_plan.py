"""A plan has one form: what is stated, what is searched and what is pasted back are the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planproof.plan import Mesh, Plan, Recompute, Role, Schedule, Stage, describe, even_stages, simplicity, to_dict


def plan(pipeline: int = 4, layers: int = 32, **changes: object) -> Plan:
    stages = even_stages(layers, pipeline, Mesh(data=2, tensor=4))
    assert stages is not None
    values = {"name": "p", "stages": stages, "microbatch": 1, "accumulation": 8} | changes
    return Plan(**values)


@given(st.integers(1, 200), st.integers(1, 64))
def test_even_stages_cover_every_layer_once_or_do_not_exist(layers: int, pipeline: int) -> None:
    stages = even_stages(layers, pipeline, Mesh())
    if layers % pipeline:
        assert stages is None
        return
    assert stages is not None
    assert [layer for stage in stages for layer in range(stage.first, stage.last + 1)] == list(range(layers))
    assert [stage.embedding for stage in stages] == [k == 0 for k in range(pipeline)]
    assert [stage.head for stage in stages] == [k == pipeline - 1 for k in range(pipeline)]


def test_devices_and_batch_follow_from_meshes_and_microbatches() -> None:
    assert plan().devices == 32
    assert plan().global_batch == 16
    assert Mesh(data=8, tensor=2, expert=4).devices == 16


def test_simplicity_orders_plans_as_the_record_prints() -> None:
    stages = even_stages(32, 1, Mesh(data=8))
    assert stages is not None
    simple = Plan("s", stages, 1, 8)
    assert simplicity(simple) == (1, 1, 1, 0, 0, 0, 0)
    assert simplicity(plan()) == (3, 1, 1, 0, 1, 0, 0)
    assert simplicity(plan(schedule=Schedule.INTERLEAVED, interleave=2)) == (3, 1, 1, 0, 2, 0, 0)
    assert simplicity(plan(recompute=Recompute.FULL, zero=1)) == (3, 1, 1, 0, 1, 1, 1)
    ring = Plan("c", (Stage(0, 31, Mesh(data=4, context=2), True, True),), 1, 8)
    assert simplicity(ring)[0] == 3, "context parallelism counts as two axes"
    uneven = Plan("u", (Stage(0, 9, Mesh(8), True), Stage(10, 31, Mesh(4, 2), head=True)), 1, 8, uniform=False)
    assert simplicity(uneven)[1:3] == (2, 2)
    assert simplicity(simple) < simplicity(plan())


def test_a_stage_overrides_the_plans_recompute() -> None:
    stages = (Stage(0, 1, Mesh(), True, recompute=Recompute.FULL), Stage(2, 3, Mesh(), head=True))
    both = Plan("r", stages, 1, 4, recompute=Recompute.SELECTIVE)
    assert [both.recompute_of(k) for k in range(2)] == [Recompute.FULL, Recompute.SELECTIVE]


def test_identity_is_what_runs_and_not_what_it_is_called() -> None:
    assert plan().identity == plan().named("other", Role.REFERENCE).identity
    assert plan().identity != plan(zero=1).identity


@pytest.mark.parametrize("one", [plan(), plan(schedule=Schedule.INTERLEAVED, interleave=2, zero=1, sequence_parallel=True)])
def test_a_description_names_what_differs(one: Plan) -> None:
    text = describe(one)
    assert "pipeline 4" in text
    assert one.schedule.value in text
    assert ("ZeRO 1" in text) == (one.zero == 1)


def test_the_printed_form_has_the_keys_of_a_proposal() -> None:
    body = to_dict(plan())
    assert body["uniform"] == {"data": 2, "tensor": 4, "context": 1, "expert": 1, "pipeline": 4}
    assert body["accumulation"] == 8
    uneven = Plan("u", (Stage(0, 9, Mesh(8), True), Stage(10, 31, Mesh(4, 2), head=True)), 1, 8, uniform=False)
    stages = to_dict(uneven)["stages"]
    assert isinstance(stages, list)
    assert stages[0]["with"] == ["embedding"]
    assert stages[1]["devices"] == 8
