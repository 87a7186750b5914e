"""Layers, stages and FLOPs: counts agree with each other and with closed forms."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planproof.model import (
    MixtureOfExperts,
    Transformer,
    active_parameters,
    embedding_parameters,
    expert_parameters,
    forward_flops_per_token,
    head_parameters,
    is_moe,
    layer_parameters,
    layer_runs,
    linears,
    moe_layers,
    parameters,
    stage_parameters,
    training_flops_per_token,
)
from published_shapes import ALL, DEEPSEEK_V3, GPT2_XL, GPT3_175B, LLAMA3_8B, MIXTRAL_8X7B

EVERY_OTHER = replace(MIXTRAL_8X7B, moe=MixtureOfExperts(experts=8, top_k=2, ffn=14336, every=2, first_dense=1))
SIZE = st.integers(1, 40)


@st.composite
def models(draw: st.DrawFn) -> Transformer:
    moe = draw(
        st.none()
        | st.builds(
            MixtureOfExperts, experts=st.integers(2, 9), top_k=st.integers(1, 2), ffn=SIZE, every=st.integers(1, 4),
            first_dense=st.integers(0, 5), shared_experts=st.integers(0, 2), shared_ffn=SIZE,
            router_bias=st.booleans(), shared_gate=st.booleans(),
        )
    )  # fmt: skip
    group = draw(st.integers(1, 4))
    kv_heads = draw(st.integers(1, 4))
    flag = st.booleans()
    return Transformer(
        layers=draw(st.integers(1, 17)), hidden=draw(SIZE), heads=group * kv_heads, kv_heads=kv_heads,
        head_dim=draw(SIZE), ffn=draw(SIZE), vocabulary=draw(SIZE), gated=draw(flag), tied_embeddings=draw(flag),
        norm=draw(st.sampled_from(["rms", "layer"])), learned_positions=draw(st.integers(0, 9)),
        attention_bias=draw(flag), output_bias=draw(flag), mlp_bias=draw(flag), head_bias=draw(flag),
        attention_sinks=draw(flag), qk_norm=draw(flag), norms_per_layer=draw(st.integers(1, 4)), moe=moe,
        latent=draw(st.none() | st.just(DEEPSEEK_V3.latent)),
    )  # fmt: skip


@given(models())
def test_runs_cover_every_layer_once_and_agree_with_the_single_layer(model):
    runs = layer_runs(model)
    assert [layer for first, last, _ in runs for layer in range(first, last + 1)] == list(range(model.layers))
    assert all(is_moe(model, layer) == moe for first, last, moe in runs for layer in range(first, last + 1))
    assert all(one[2] != other[2] for one, other in pairwise(runs))


@given(models(), st.data())
def test_moe_layers_of_a_range_are_counted_as_one_by_one(model, data):
    first = data.draw(st.integers(0, model.layers - 1))
    last = data.draw(st.integers(first, model.layers - 1))
    assert moe_layers(model, first, last) == sum(is_moe(model, layer) for layer in range(first, last + 1))


@given(models(), st.data())
def test_stages_sum_to_the_model_and_a_tied_table_stands_twice_where_the_ends_are_apart(model, data):
    cut = data.draw(st.integers(0, model.layers))
    whole = parameters(model)
    if cut in (0, model.layers):
        assert stage_parameters(model, 0, model.layers - 1, embedding=True, head=True).total == whole
        return
    first = stage_parameters(model, 0, cut - 1, embedding=True, head=False)
    last = stage_parameters(model, cut, model.layers - 1, embedding=False, head=True)
    copy = model.vocabulary * model.hidden if model.tied_embeddings else 0
    assert first.total + last.total == whole + copy
    assert last.head == model.vocabulary * model.hidden + (model.vocabulary if model.head_bias else 0)


@given(models())
def test_a_layer_is_its_matrices_its_norms_and_its_sinks(model):
    for moe in {is_moe(model, layer) for layer in range(model.layers)}:
        row = layer_parameters(model, moe)
        experts = model.moe.experts if model.moe else 0
        matrices = sum(one.parameters * (experts if one.group == "expert" else 1) for one in linears(model, moe))
        assert row.total == matrices + row.norms + (model.heads if model.attention_sinks else 0)
        assert row.dense == row.total - row.experts
        assert 0 <= row.replicated <= row.dense
        assert 0 <= row.experts_replicated <= row.experts


@given(models())
def test_fused_matrices_hold_what_the_single_ones_hold(model):
    for moe in (False, True):
        apart, fused = linears(model, moe), linears(model, moe, fused=True)
        assert sum(row.parameters for row in apart) == sum(row.parameters for row in fused)
        assert sum(row.replicated for row in apart) == sum(row.replicated for row in fused)


def test_the_usual_split_is_columns_in_rows_out_and_what_is_shared_is_whole():
    assert [(row.name, row.split) for row in linears(LLAMA3_8B, False)] == [
        ("query", "column"), ("key", "column"), ("value", "column"), ("output", "row"),
        ("gate", "column"), ("up", "column"), ("down", "row"),
    ]  # fmt: skip
    names = {row.name: row.split for row in linears(DEEPSEEK_V3, True)}
    whole = {"query_down", "key_value_down", "router"}
    assert {name for name, split in names.items() if split == "none"} == whole
    assert names["query_up"] == names["key_value_up"] == "column"


def test_tensor_parallelism_leaves_norms_and_row_biases_of_gpt_whole():
    """GPT-2 XL, a layer: two layer norms (4h), the output's bias (h) and the second MLP bias (h)."""
    assert layer_parameters(GPT2_XL, False).replicated == 6 * 1600
    stage = stage_parameters(GPT2_XL, 0, 47, embedding=True, head=True)
    assert stage.replicated == 48 * 6 * 1600 + 2 * 1600 + 1024 * 1600
    assert stage.norms == 48 * 4 * 1600 + 2 * 1600


def test_moe_layers_follow_period_and_first_dense_layers():
    assert [is_moe(EVERY_OTHER, layer) for layer in range(6)] == [False, False, True, False, True, False]
    assert layer_runs(DEEPSEEK_V3) == ((0, 2, False), (3, 60, True))
    assert layer_runs(GPT2_XL) == ((0, 47, False),)
    stage = stage_parameters(DEEPSEEK_V3, 2, 3, embedding=False, head=False)
    assert stage.mlp == 3 * 7168 * 18432
    assert stage.experts == 256 * expert_parameters(DEEPSEEK_V3) == 256 * 3 * 7168 * 2048


def test_biases_of_experts_are_whole_on_each_rank_only_after_the_row_split():
    """gpt-oss, one expert: down's bias (h) is whole; biases of gate and up are split with their columns."""
    model = replace(MIXTRAL_8X7B, mlp_bias=True)
    assert layer_parameters(model, True).experts_replicated == 8 * 4096
    assert layer_parameters(model, True).experts == 8 * (3 * 4096 * 14336 + 2 * 14336 + 4096)


def test_embedding_holds_learned_positions_and_a_tied_head_holds_nothing():
    assert embedding_parameters(GPT2_XL) == (50257 + 1024) * 1600
    assert head_parameters(GPT2_XL) == 0
    assert head_parameters(LLAMA3_8B) == 128256 * 4096
    assert head_parameters(replace(GPT2_XL, head_bias=True)) == 50257


@pytest.mark.parametrize("model", [GPT2_XL, LLAMA3_8B])
def test_all_parameters_of_a_dense_model_are_active(model):
    assert active_parameters(model) == parameters(model)


def test_gpt3_flops_are_those_of_the_published_formula():
    """Narayanan et al. 2021, equation 2: 96 B s l h^2 (1 + s/6h + V/16lh) with full recomputation, so four forwards of
    the layers and three of the head; without recomputation three of both: 72 l h^2 (1 + s/6h) + 6 h V a token.
    """
    h, layers, s, vocabulary = 12288, 96, 2048, 50257
    assert training_flops_per_token(GPT3_175B, s, causal=False) == (
        72 * layers * h * h + 12 * layers * h * s + 6 * h * vocabulary
    )


def test_a_causal_token_attends_to_half_the_sequence_and_itself():
    s = 4096
    full = forward_flops_per_token(LLAMA3_8B, s, causal=False)
    causal = forward_flops_per_token(LLAMA3_8B, s, causal=True)
    assert full.attention == 32 * 4 * s * 4096
    assert causal.attention * 2 * s == full.attention * (s + 1)
    assert (causal.linears, causal.head) == (full.linears, full.head)
    assert causal.head == 2 * 4096 * 128256
    assert causal.total == causal.linears + causal.attention + causal.head


def test_causal_attention_is_the_sum_over_the_keys_that_each_token_sees():
    s, widths = 7, DEEPSEEK_V3.heads * (192 + 128)
    per_token = forward_flops_per_token(DEEPSEEK_V3, s, causal=True).attention
    assert s * per_token == 61 * sum(2 * widths * (token + 1) for token in range(s))


@pytest.mark.parametrize("model", ALL)
def test_linear_flops_are_twice_the_active_matrices(model):
    """Two FLOPs a weight that a token meets; biases, norms, tables and router corrections have none."""
    flops = forward_flops_per_token(model, 1, causal=False)
    matrices = 0
    for layer in range(model.layers):
        for row in linears(model, is_moe(model, layer)):
            matrices += row.weights * (model.moe.top_k if row.group == "expert" else 1)
    assert flops.linears == 2 * matrices
