"""The operator graphs of the builders count what the closed forms and the published models count."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planproof.model import MixtureOfExperts, Transformer, forward_flops_per_token, parameters
from planproof.model.builders import Shape, transformer_graph
from planproof.model.builders_convolution import wide_resnet_graph
from planproof.model.builders_towers import encoder_decoder_graph
from planproof.model.builders_vision import Projector, VisionTower, vision_graph
from planproof.model.operator import Kind, bytes_read, bytes_written, kept_bytes
from published_shapes import ALL, DEEPSEEK_V3, GPT2_XL, GPT3_175B, LLAMA3_8B, LLAMA3_70B, MIXTRAL_8X7B

#: Variants that no published row of this list has: four norms, one norm, query and key norms, biases, sinks, a gate.
VARIANTS = (
    replace(LLAMA3_8B, layers=3, norms_per_layer=4, qk_norm=True),
    replace(GPT2_XL, layers=2, norms_per_layer=1, head_bias=True, attention_sinks=True),
    replace(
        MIXTRAL_8X7B, layers=4, qk_norm=True,
        moe=MixtureOfExperts(
            experts=8, top_k=2, ffn=512, every=2, first_dense=1, shared_experts=2, shared_ffn=256, shared_gate=True
        ),
    ),
    replace(DEEPSEEK_V3, layers=5, latent=replace(DEEPSEEK_V3.latent, q_rank=None)),
)  # fmt: skip

CLIP = Transformer(
    layers=24, hidden=1024, heads=16, kv_heads=16, head_dim=64, ffn=4096, vocabulary=1, gated=False, tied_embeddings=True,
    norm="layer", attention_bias=True, output_bias=True, mlp_bias=True,
)  # fmt: skip


def few(model: Transformer) -> Transformer:
    """The model with few layers: counts are linear in them."""
    return replace(model, layers=min(model.layers, 6))


@pytest.mark.parametrize("model", [*map(few, ALL), *VARIANTS], ids=lambda m: f"{m.hidden}-{m.layers}-{m.norms_per_layer}")
@pytest.mark.parametrize("causal", [True, False])
def test_parameters_and_flops_are_those_of_the_closed_forms(model: Transformer, causal: bool) -> None:
    batch, sequence = 2, 256
    graph = transformer_graph(model, Shape(batch, sequence, causal))
    assert graph.parameters == parameters(model)
    assert graph.forward_flops == batch * sequence * forward_flops_per_token(model, sequence, causal).total


@pytest.mark.parametrize("model", ALL, ids=lambda m: str(m.hidden))
def test_whole_published_models_have_their_parameters(model: Transformer) -> None:
    assert transformer_graph(model, Shape(1, 2048)).parameters == parameters(model)


def test_unfused_attention_counts_the_same_and_keeps_every_score() -> None:
    model = replace(LLAMA3_70B, layers=2)
    fused = transformer_graph(model, Shape(1, 128, causal=False), embedding=False, head=False)
    unfused = transformer_graph(model, Shape(1, 128, causal=False, fused_attention=False), embedding=False, head=False)
    assert unfused.forward_flops == fused.forward_flops
    assert unfused.parameters == fused.parameters
    scores = 2 * 64 * 128 * 128  # bytes of one layer's scores in bf16
    kept = sum(kept_bytes(one, unfused.tensors) for one in unfused.operators)
    assert kept - sum(kept_bytes(one, fused.tensors) for one in fused.operators) == 2 * scores


def test_a_gpt_block_keeps_the_bytes_that_korthikanti_counts() -> None:
    """34 s b h a layer (arXiv 2205.05198, equation 1 without the scores), less the two masks of dropout (2 s b h)."""
    model = replace(GPT3_175B, layers=1)
    graph = transformer_graph(model, Shape(2, 2048), embedding=False, head=False)
    assert sum(kept_bytes(one, graph.tensors) for one in graph.operators) == (34 - 2) * 2048 * 2 * 12288


def test_bytes_of_a_matmul_are_its_three_matrices() -> None:
    model = replace(GPT3_175B, layers=1, mlp_bias=False)
    graph = transformer_graph(model, Shape(1, 64), embedding=False, head=False)
    (up,) = [one for one in graph.operators if one.name == "layer0.mlp.up"]
    assert up.kind is Kind.MATMUL
    assert bytes_read(up, graph.tensors) == 2 * (64 * 12288 + 12288 * 49152)
    assert bytes_written(up, graph.tensors) == 2 * 64 * 49152


def test_experts_are_routed_dispatched_run_and_combined() -> None:
    graph = transformer_graph(replace(MIXTRAL_8X7B, layers=1), Shape(1, 4096), embedding=False, head=False)
    kinds = [one.kind for one in graph.operators]
    wanted = [Kind.ROUTING, Kind.DISPATCH, Kind.EXPERTS, Kind.EXPERTS, Kind.COMBINE]
    assert [kind for kind in kinds if kind in wanted] == wanted
    slots = graph.tensors["layer0.moe.slots"]
    assert slots.sizes == (8, 1, 1024, 4096)


def test_t5_small_has_its_published_parameters() -> None:
    """60,506,624: google-t5/t5-small; one table, relative positions in the first layer of each tower."""
    tower = Transformer(
        layers=6, hidden=512, heads=8, kv_heads=8, head_dim=64, ffn=2048, vocabulary=32128, gated=False,
        tied_embeddings=True, norm="rms",
    )  # fmt: skip
    graph = encoder_decoder_graph(tower, tower, Shape(1, 64), Shape(1, 32), buckets=32)
    assert graph.parameters == 60_506_624
    s, t, h = 64, 32, 512
    encoder = 6 * (2 * s * (4 * h * h + 2 * h * 2048) + 4 * h * s * s)
    decoder = 6 * (2 * t * (6 * h * h + 2 * h * 2048) + 2 * s * 2 * h * h + 2 * h * t * (t + 1) + 4 * h * t * s)
    assert graph.forward_flops == encoder + decoder + 2 * t * h * 32128


def test_clip_large_336_has_its_published_parameters() -> None:
    """303,507,456 of the vision tower of openai/clip-vit-large-patch14-336, without its projection."""
    graph = vision_graph(VisionTower(CLIP, 336, 14), 2)
    assert graph.parameters == 303_507_456
    tokens = 24 * 24 + 1
    patches = 2 * 2 * 24 * 24 * 3 * 14 * 14 * 1024
    layers = 24 * 2 * (2 * tokens * (4 * 1024**2 + 2 * 1024 * 4096) + 4 * 1024 * tokens**2)
    assert graph.forward_flops == patches + layers


def test_a_decoder_attends_to_a_vision_tower_in_one_graph() -> None:
    decoder = replace(LLAMA3_8B, layers=2)
    graph = vision_graph(VisionTower(CLIP, 336, 14), 2, decoder=decoder, shape=Shape(2, 64), cross=True)
    cross = 2 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 4096)  # one cross attention and its norm a layer
    assert graph.parameters == 303_507_456 + parameters(decoder) + cross + 1024 * 4096 + 4096


def test_patches_before_the_text_are_tokens_of_the_decoder() -> None:
    """Two pictures of 576 patches a sequence, merged four to one; the decoder's work is that of the whole sequence."""
    decoder, tower, batch, sequence = replace(LLAMA3_8B, layers=2), VisionTower(CLIP, 336, 14), 3, 320
    alone = vision_graph(tower, 6).forward_flops
    projector = Projector(layers=2, merge=2, norm=True)
    graph = vision_graph(tower, 6, decoder=decoder, shape=Shape(batch, sequence), projector=projector)
    patches = batch * 2 * 144
    own = 2 * patches * (4096 * 4096 + 4096 * 4096)
    assert graph.forward_flops - alone - own == batch * sequence * forward_flops_per_token(decoder, sequence, True).total
    assert graph.parameters == 303_507_456 + 2 * 4096 + 2 * (4096**2 + 4096) + parameters(decoder)
    (embedded,) = (one for one in graph.operators if one.name == "embedding")
    assert embedded.sizes["sequence"] == sequence - 2 * 144


@pytest.mark.parametrize(
    ("blocks", "factor", "count"),
    [((3, 4, 6, 3), 1, 25_557_032), ((3, 4, 6, 3), 2, 68_883_240), ((3, 4, 23, 3), 2, 126_886_696)],
)
def test_residual_networks_have_their_published_parameters(blocks: tuple[int, ...], factor: int, count: int) -> None:
    """ResNet-50, Wide-ResNet-50-2, Wide-ResNet-101-2 as torchvision counts them."""
    assert wide_resnet_graph(2, blocks=blocks, width_factor=factor).parameters == count


def test_resnet_50_has_its_published_multiply_adds() -> None:
    """4.089 G multiply-adds a picture of 224 x 224: torchvision's table, 4.09 GFLOPS."""
    graph = wide_resnet_graph(1, width_factor=1)
    assert round(graph.forward_flops / 2 / 1e9, 2) == 4.09
