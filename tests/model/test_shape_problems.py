"""Shapes that cannot be are named by code and field; published ones have nothing wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planproof.model import MixtureOfExperts, problems
from published_shapes import ALL, DEEPSEEK_V3, LLAMA3_8B, MIXTRAL_8X7B


@pytest.mark.parametrize("model", ALL)
def test_published_models_have_no_problem(model):
    assert problems(model) == ()


def moe(**changes):
    return replace(MIXTRAL_8X7B, moe=replace(MIXTRAL_8X7B.moe, **changes))


def latent(**changes):
    return replace(DEEPSEEK_V3, latent=replace(DEEPSEEK_V3.latent, **changes))


@pytest.mark.parametrize(
    ("model", "code", "field"),
    [
        (replace(LLAMA3_8B, layers=0), "not_positive", "layers"),
        (replace(LLAMA3_8B, layers=10**30), "too_large", "layers"),
        (replace(LLAMA3_8B, hidden=-4096), "not_positive", "hidden"),
        (replace(LLAMA3_8B, vocabulary=2**31), "too_large", "vocabulary"),
        (replace(LLAMA3_8B, learned_positions=-1), "negative", "learned_positions"),
        (replace(LLAMA3_8B, kv_heads=64), "exceeds", "kv_heads"),
        (replace(LLAMA3_8B, kv_heads=5), "indivisible", "kv_heads"),
        (replace(LLAMA3_8B, norm="batch"), "unknown", "norm"),
        (moe(top_k=9), "exceeds", "moe.top_k"),
        (moe(experts=0), "not_positive", "moe.experts"),
        (moe(every=0), "not_positive", "moe.every"),
        (moe(every=33), "empty", "moe.every"),
        (moe(first_dense=32), "empty", "moe.first_dense"),
        (moe(shared_experts=1), "not_positive", "moe.shared_ffn"),
        (moe(capacity_factor=0.0), "not_positive", "moe.capacity_factor"),
        (moe(capacity_factor=float("nan")), "not_positive", "moe.capacity_factor"),
        (moe(group_size=0), "not_positive", "moe.group_size"),
        (latent(q_rank=0), "not_positive", "latent.q_rank"),
        (latent(rope_head_dim=63), "odd", "latent.rope_head_dim"),
        (replace(DEEPSEEK_V3, kv_heads=64), "mismatch", "kv_heads"),
    ],
)
def test_a_shape_that_cannot_be_is_named(model, code, field):
    assert [(one.code, one.field) for one in problems(model)] == [(code, field)]


def test_the_numbers_that_show_the_problem_are_in_it():
    assert problems(replace(LLAMA3_8B, kv_heads=5))[0].detail == (("kv_heads", 5), ("heads", 32))


def test_several_problems_are_all_named():
    wrong = replace(LLAMA3_8B, layers=0, hidden=0, moe=MixtureOfExperts(experts=8, top_k=0, ffn=1))
    assert [one.field for one in problems(wrong)] == ["layers", "hidden", "moe.top_k"]


@given(st.integers(-(10**40), 10**40), st.integers(-(10**40), 10**40), st.integers(-3, 70))
def test_any_numbers_are_judged_without_a_fault(layers, heads, kv_heads):
    found = problems(replace(LLAMA3_8B, layers=layers, heads=heads, kv_heads=kv_heads))
    sound = 0 < layers <= 100_000 and 0 < heads < 2**31 and 0 < kv_heads <= heads and heads % kv_heads == 0
    assert (found == ()) == sound
