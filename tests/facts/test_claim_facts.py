"""What the facts of claims say: the step time that a figure amounts to, and how two runs were compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from planproof.document import load_document
from planproof.facts import Fact, of_kind
from planproof.facts.from_claims import claim_facts, speed_up_facts
from planproof.hardware import open_library
from planproof.inference.examples import base_path, patched
from planproof.proposal import Case, parse_proposal, resolve

LIBRARY = open_library()
RECIPE = {
    "seed": 1, "data_order": "by seed", "precision": "bf16", "global_batch": "512 sequences", "dropout": 0.0,
    "tolerance": 0.001, "steps": 100,
}  # fmt: skip


def case_of(claim: dict[str, object], **patch: object) -> Case:
    path = base_path("dense")
    raw = json.dumps(patched(load_document(path).data, {"/claims": [claim], **patch}.items())).encode()
    return resolve(parse_proposal(raw, path.name, Path(path)), LIBRARY)


def one(claim: dict[str, object], kind: str) -> Fact | None:
    return next(iter(of_kind(list(claim_facts(case_of(claim))), kind)), None)


@pytest.mark.parametrize(
    "claim",
    [
        {"metric": "step_time", "value": 16.0},
        {"metric": "throughput", "unit": "tokens_per_second", "value": 512 * 8192 / 16},
        {"metric": "throughput", "unit": "tokens_per_second_per_device", "value": 512 * 8192 / 16 / 32},
    ],
)
def test_a_speed_in_any_unit_is_the_same_step(claim: dict[str, object]) -> None:
    found = one(claim, "claim_link")
    assert found is not None
    assert found["claimed_ns"] == 16_000_000_000


def test_a_utilisation_and_model_flops_are_the_same_step() -> None:
    """One H100: 989.4 dense bf16 TFLOP/s by its sheet; 40 % of it a device."""
    first, second = (
        one(claim, "claim_link")
        for claim in (
            {"metric": "mfu", "value": 0.4},
            {"metric": "throughput", "unit": "tflops_per_device", "value": 0.4 * 989.4},
        )
    )
    assert first is not None
    assert second is not None
    assert first["claimed_ns"] == pytest.approx(second["claimed_ns"], rel=1e-3)


def test_the_plan_that_is_bound_least_speaks_unless_the_claim_names_one() -> None:
    plans = {}
    for name in (None, "reference", "submitted"):
        found = one({"metric": "step_time", "value": 16.0} | ({"plan": name} if name else {}), "claim_link")
        assert found is not None
        plans[name] = found["plan"], found["bound_ns"]
    assert plans[None] == min((plans["reference"], plans["submitted"]), key=lambda row: row[1])


def test_a_speed_up_is_of_the_reference_and_never_bound_by_it() -> None:
    case = case_of({"metric": "speed_up", "value": 4.0})
    (found,) = speed_up_facts(case, {"reference": 20.0, "submitted": 10.0})
    assert (found["claimed_ns"], found["reference"], found["plan"]) == (5_000_000_000, "reference", "submitted")


@pytest.mark.parametrize("part", RECIPE)
def test_every_part_of_a_recipe_is_asked_for(part: str) -> None:
    recipe = {key: value for key, value in RECIPE.items() if key != part}
    found = one({"metric": "loss_agreement", "value": 0.0001, "recipe": recipe}, "agreement")
    assert found is not None
    assert (found["lacking"], found["lacks"]) == (1, f"'{part}'")


@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("the loss curve matches the baseline", "loss"),
        ("bitwise identical gradients", "gradients"),
        ("identical convergence", "loss"),
        ("41 % of peak", None),
        ("no packet loss", None),
        ("10 % less memory at equal batch", None),
    ],
)
def test_claims_without_a_metric_are_told_by_their_words(text: str, of: str | None) -> None:
    found = one({"text": text}, "agreement")
    assert (found["of"] if found is not None else None) == of


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"precision": "fp8"}, "precision fp8 there, bf16 here"),
        ({"global_batch": "256 sequences"}, "a global batch of 256 sequences there, 512 here"),
        ({"global_batch": "4194304 tokens"}, None),
        ({"dropout": 0.1}, "dropout 0.1 there, 0 here"),
    ],
)
def test_another_recipe_is_told_with_both_values(change: dict[str, object], says: str | None) -> None:
    found = one({"metric": "loss_agreement", "recipe": RECIPE | change}, "agreement")
    assert found is not None
    assert found.get("differs") == says
