"""Activations of a layer against closed forms of the literature and counts written out."""

from __future__ import annotations

import pytest
from memory_cases import FP16, GIB, gpt, llama, training
from planproof.cost.activations import LayerActivations, expert_tokens, layer_activations, logits_bytes
from planproof.cost.in_flight import in_flight
from planproof.model import Attention, LatentAttention, MixtureOfExperts, Transformer, Workload
from planproof.plan import Mesh, Recompute, Schedule

GPT3 = gpt(96, 12288, 96)
PAPER = training(2048, precision=FP16, attention=Attention.UNFUSED, dropout=0.1)


def layer(
    model: Transformer, workload: Workload, mesh: Mesh, microbatch: int = 1, split: bool = False, moe: bool = False
) -> LayerActivations:
    return layer_activations(
        model, workload, mesh, moe=moe, microbatch=microbatch, sequence_parallel=split,
        attention=workload.attention or Attention.UNFUSED,
    )  # fmt: skip


@pytest.mark.parametrize("tensor", [1, 2, 8])
@pytest.mark.parametrize("microbatch", [1, 4])
def test_gpt_layer_keeps_10_plus_24_over_t(tensor: int, microbatch: int) -> None:
    """Korthikanti et al. 2022, equation 2: s b h (10 + 24 / t) + 5 a s^2 b / t bytes."""
    s, b, h, a = 2048, microbatch, 12288, 96
    expected = s * b * h * (10 + 24 / tensor) + 5 * a * s * s * b / tensor
    assert layer(GPT3, PAPER, Mesh(tensor=tensor), microbatch).kept == expected


@pytest.mark.parametrize("tensor", [2, 8])
def test_sequence_parallel_divides_all_of_it(tensor: int) -> None:
    """Korthikanti et al. 2022, equation 4: s b h (34 / t) + 5 a s^2 b / t bytes."""
    s, h, a = 2048, 12288, 96
    expected = (34 * s * h + 5 * a * s * s) / tensor
    assert layer(GPT3, PAPER, Mesh(tensor=tensor), split=True).kept == expected


def test_selective_recompute_drops_the_attention_core() -> None:
    """Korthikanti et al. 2022, equation 6: 34 s b h / t bytes stay."""
    row = layer(GPT3, PAPER, Mesh(tensor=8), split=True)
    assert row.held(Recompute.SELECTIVE) == 34 * 2048 * 12288 / 8


def test_full_recompute_keeps_the_layers_input() -> None:
    """Korthikanti et al. 2022, section 5: 2 s b h bytes."""
    assert layer(GPT3, PAPER, Mesh(tensor=8)).held(Recompute.FULL) == 2 * 2048 * 12288


@pytest.mark.parametrize(
    ("split", "recompute", "gib"), [(False, Recompute.NONE, 66.84375), (True, Recompute.SELECTIVE, 12.3515625)]
)
def test_gpt3_on_tensor_8_pipeline_8_interleave_3(split: bool, recompute: Recompute, gib: float) -> None:
    """Korthikanti et al. 2022, figure 1, closed form: 175B, first stage, 12 layers, 31 chunks of 4 layers in flight."""
    flight = in_flight(Schedule.INTERLEAVED, 0, 8, 64, 3)
    held = layer(GPT3, PAPER, Mesh(tensor=8), split=split).held(recompute)
    assert held * 12 * flight.microbatches / GIB == gib


def test_flash_attention_keeps_no_scores() -> None:
    """Only one fp32 log-sum-exp a head and token is left of the scores."""
    flash = training(2048, precision=FP16, dropout=0.1)
    row = layer(GPT3, flash, Mesh(tensor=8))
    assert row.kept == 2048 * 12288 * (10 + 24 / 8) + 4 * 96 / 8 * 2048


def test_without_dropout_there_are_no_masks() -> None:
    """Two masks of s b h outside attention, and of the scores only the softmax output, 2 bytes of 5."""
    plain = training(2048, precision=FP16, attention=Attention.UNFUSED)
    s, h, a, t = 2048, 12288, 96, 8
    assert layer(GPT3, plain, Mesh(tensor=t)).kept == s * h * (8 + 24 / t) + 2 * a * s * s / t


def test_llama_layer_is_counted_by_operator() -> None:
    """Llama-3 70B, bytes a token and h, 16-bit: norm inputs 4, block inputs 4, qkv 2.5, rotated query and key 2.25,
    core's output 2, gate, up and product 3 x 7; 35.75 in all. Measured runs of that shape were fitted with 36 to
    38."""
    row, h = layer(llama(), training(4096), Mesh()), 8192
    assert row.kept - row.scores == 35.75 * 4096 * h


def test_fp32_doubles_the_activations() -> None:
    from planproof.model import Precision

    full = training(4096, precision=Precision("fp32", "fp32", None, "fp32"))
    half, double = (layer(llama(), workload, Mesh()) for workload in (training(4096), full))
    assert double.held(Recompute.SELECTIVE) == 2 * half.held(Recompute.SELECTIVE)


def test_context_parallel_divides_the_sequence() -> None:
    one, four = (layer(llama(), training(8192), Mesh(context=c)) for c in (1, 4))
    assert one.kept == 4 * four.kept


def test_experts_keep_top_k_times_the_tokens() -> None:
    """Beyond the attention block: top_k tokens x (2 h in and out + 2 f) x 2 bytes, and 8 bytes an expert of the
    router."""
    model = gpt(moe=MixtureOfExperts(8, 2, 4096))
    dense, routed = (layer(model, training(), Mesh(), moe=moe) for moe in (False, True))
    s, h, f = 1024, 1024, 4096
    assert routed.kept - (dense.kept - s * 2 * 2 * f) == s * 2 * 2 * (2 * h + 2 * f) + s * 8 * 8


@pytest.mark.parametrize(
    ("factor", "group", "pairs"), [(None, None, 2048), (1.5, None, 3072), (2.0, 512, 2048), (1.25, 512, 1280)]
)
def test_capacity_factor_sizes_the_experts_buffers(factor: float | None, group: int | None, pairs: int) -> None:
    moe = MixtureOfExperts(8, 2, 4096, capacity_factor=factor, group_size=group)
    assert expert_tokens(gpt(moe=moe), Mesh(), 1024) == pairs


def test_grouped_routing_keeps_dispatch_and_combine_tensors() -> None:
    """GShard: tokens x experts x capacity elements each, experts x capacity being the group times the capacity
    factor."""
    grouped, plain = (
        layer(gpt(moe=moe), training(), Mesh(), moe=True)
        for moe in (
            MixtureOfExperts(8, 2, 4096, capacity_factor=2.0, group_size=512),
            MixtureOfExperts(8, 2, 4096, capacity_factor=1.0),
        )
    )
    assert grouped.kept - plain.kept == 1024 * 2 * 2 * (512 * 2)


def test_experts_of_less_tensor_parallelism_see_their_share_of_the_sequence() -> None:
    model = gpt(moe=MixtureOfExperts(8, 2, 4096))
    assert expert_tokens(model, Mesh(tensor=4, expert_tensor=1), 1024) == 512
    assert expert_tokens(model, Mesh(tensor=4), 1024) == 2048


def test_latent_attention_keeps_its_latents_whole() -> None:
    """DeepSeek-V3, elements a token: latents 2 x 1536 + 2 x 512 + 64 on every rank; of each of 128 / t heads a query
    and key of 192, an up-projected key-value of 256 and an output of 128."""
    latent = LatentAttention(512, 1536, 64, 128, 128)
    model = Transformer(
        layers=4, hidden=7168, heads=128, kv_heads=128, head_dim=128, ffn=18432, vocabulary=129280, gated=True,
        tied_embeddings=False, norm="rms", latent=latent,
    )  # fmt: skip
    for t in (1, 8):
        row = layer(model, training(4096), Mesh(tensor=t))
        inside = 2 * 1536 + 2 * 512 + 64 + 128 // t * (2 * 192 + 256 + 128) + 3 * 18432 // t
        assert row.kept - row.scores == 4096 * 2 * (4 * 7168 + inside)


def test_logits_take_6_bytes_an_element() -> None:
    """16-bit logits and the fp32 copy in which the loss is formed."""
    assert logits_bytes(training(4096), Mesh(tensor=8), 1, 51200, 1024) == 6 * 4096 * 51200 // 8


def test_a_wide_heads_weight_gradient_can_be_larger_than_the_loss() -> None:
    assert logits_bytes(training(256), Mesh(), 1, 51200, 8192) == 2 * 51200 * (256 + 8192)
