"""What rules may not compute is derived for them: the degrees that would do, and whether stages follow each other."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from planproof.document import load_document
from planproof.facts import Fact, of_kind
from planproof.facts.from_case import case_facts
from planproof.facts.from_plan import plan_facts
from planproof.hardware import open_library
from planproof.inference.examples import base_path, patched
from planproof.proposal import parse_proposal, resolve

LIBRARY = open_library()


def facts_of(base: str, patch: dict[str, object]) -> list[Fact]:
    path = base_path(base)
    raw = json.dumps(patched(load_document(path).data, patch.items())).encode()
    case = resolve(parse_proposal(raw, path.name, Path(path)), LIBRARY)
    return [*case_facts(case), *(fact for plan in case.plans for fact in plan_facts(case, plan))]


@settings(max_examples=40)
@given(st.integers(1, 4000), st.integers(2, 300))
def test_the_nearest_degrees_divide_and_nothing_between_them_does(layers: int, pipeline: int) -> None:
    patch = {"/model/transformer/layers": layers, "/plans/1/uniform": {"data": 1, "pipeline": pipeline}}
    cuts = [fact for fact in of_kind(facts_of("dense", patch), "division") if fact["of"] == "layers"]
    assert len(cuts) == 1
    nearest = cuts[0].get("nearest")
    assert (nearest is None) is (layers % pipeline == 0)
    if isinstance(nearest, str):
        found = [int(word) for word in nearest.split(" or ")]
        assert [layers % degree for degree in found] == [0] * len(found)
        assert found[0] < pipeline
        if len(found) == 2:
            assert found[1] > pipeline
        upper = found[1] if len(found) == 2 else layers + 1
        assert [degree for degree in range(found[0] + 1, upper) if layers % degree == 0] == []


def test_coverage_tells_order_and_ends_apart_from_what_is_held() -> None:
    def coverage(patch: dict[str, object]) -> tuple[object, ...]:
        fact = of_kind(facts_of("stages", patch), "coverage")[0]
        return fact["missing"], fact["repeated"], fact["ordered"], fact["ends_right"]

    assert coverage({}) == (0, 0, "yes", "yes")
    swapped = {"/plans/1/stages/1/layers": [15, 22], "/plans/1/stages/2/layers": [7, 14]}
    assert coverage(swapped) == (0, 0, "no", "yes")
    assert coverage({"/plans/1/stages/0/with": None}) == (0, 0, "yes", "no")


def test_a_stage_tells_the_mesh_before_it_only_where_that_is_another() -> None:
    stages = of_kind(facts_of("stages", {"/plans/1/stages/1/mesh": {"data": 8}}), "stage")
    assert [stage.get("mesh_before") for stage in stages] == [None, "data 4 x tensor 2", "data 8", None]


def test_meshes_that_differ_in_the_experts_tensor_degree_alone_are_told_apart() -> None:
    patch = {"/plans/1/stages/1/mesh": {"data": 4, "tensor": 2, "expert": 2, "expert_tensor": 1}}
    patch |= {"/plans/1/stages/2/mesh": {"data": 4, "tensor": 2, "expert": 2}}
    grids = [(fact["of"], fact.path) for fact in of_kind(facts_of("stages", patch), "division") if fact["parts"] == 2]
    assert ("expert_grid", "/plans/1/stages/1") in grids
    assert ("replicas", "/plans/1/stages/2") in grids


def test_a_layer_that_is_wrong_is_told_where_it_is_stated() -> None:
    """Beyond the model: by the stage that names it; twice: by the last that does; in none: by the stage that ends before it."""

    def place(patch: dict[str, object]) -> str:
        return of_kind(facts_of("stages", patch), "coverage")[0].path

    assert place({"/plans/1/stages/3/layers": [23, 30]}) == "/plans/1/stages/3/layers"
    assert place({"/plans/1/stages/1/layers": [5, 14]}) == "/plans/1/stages/1/layers"
    assert place({"/plans/1/stages/1/layers": [8, 14]}) == "/plans/1/stages/0/layers"
    assert place({}) == "/plans/1/stages"
