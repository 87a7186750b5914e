"""Exact parameter counts of published models, each from its own terms."""

from __future__ import annotations

from planproof.model import active_parameters, parameters
from published_shapes import DEEPSEEK_V3, GPT2_XL, GPT3_175B, LLAMA3_8B, LLAMA3_70B, LLAMA3_405B, MIXTRAL_8X7B


def test_gpt2_xl_has_1_557_611_200_parameters():
    """h 1600, l 48, V 50,257, P 1,024; matrices 12 h^2 a layer (qkv 3, output 1, MLP 4 + 4).

    Biases 3h + h + 4h + h = 9h and two layer norms 4h, so 13h a layer; the final norm 2h; the head is the table.
    """
    h = 1600
    assert parameters(GPT2_XL) == 50257 * h + 1024 * h + 48 * (12 * h * h + 13 * h) + 2 * h == 1_557_611_200


def test_gpt3_175b_has_174_604_259_328_parameters():
    """The same terms at h 12,288, l 96, V 50,257, P 2,048."""
    h = 12288
    assert parameters(GPT3_175B) == 50257 * h + 2048 * h + 96 * (12 * h * h + 13 * h) + 2 * h == 174_604_259_328


def llama(layers: int, h: int, ffn: int, vocabulary: int = 128256) -> int:
    """Query, output h^2 each; key, value h x 1024 each; gate, up, down h x ffn each; norms 2h; two tables, a norm."""
    return 2 * vocabulary * h + layers * (2 * h * h + 2 * h * 1024 + 3 * h * ffn + 2 * h) + h


def test_llama3_8b_has_8_030_261_248_parameters():
    """Eight key-value heads of 128; no biases; embedding and head are two tables of 128,256."""
    assert parameters(LLAMA3_8B) == llama(32, 4096, 14336) == 8_030_261_248


def test_llama3_70b_has_70_553_706_496_parameters():
    """As the 8B, with 80 layers of 8,192 and 28,672."""
    assert parameters(LLAMA3_70B) == llama(80, 8192, 28672) == 70_553_706_496


def test_llama3_405b_has_405_853_388_800_parameters():
    """As the 8B, with 126 layers of 16,384 and 53,248."""
    assert parameters(LLAMA3_405B) == llama(126, 16384, 53248) == 405_853_388_800


def test_mixtral_8x7b_has_46_702_792_704_parameters_of_which_a_token_meets_two_experts():
    """A layer has 8 experts of 3 x 4096 x 14336 in place of the MLP, and a router of 4096 x 8 without bias.

    Active: six of the eight experts less, in 32 layers.
    """
    h, expert = 4096, 3 * 4096 * 14336
    layer = 2 * h * h + 2 * h * 1024 + 8 * expert + 8 * h + 2 * h
    assert parameters(MIXTRAL_8X7B) == 2 * 32000 * h + 32 * layer + h == 46_702_792_704
    assert active_parameters(MIXTRAL_8X7B) == 46_702_792_704 - 32 * 6 * expert == 12_879_925_248


def test_deepseek_v3_has_671_026_419_200_parameters_with_the_correction_of_its_router():
    """Attention, 61 times: query down 7168 x 1536 and up 1536 x 128 x (128 + 64); key and value down 7168 x (512 + 64),
    up 512 x 128 x (128 + 128); output 128 x 128 x 7168. Norms of the latents 1536 + 512, of the layer 2 x 7168.

    MLP: 3 layers of 3 x 7168 x 18432; 58 of 256 experts and 1 shared, 3 x 7168 x 2048 each, and a router 7168 x 256.
    Counted: the 256 score corrections of each router, 58 x 256 = 14,848 in all, which no gradient trains; without them
    the count is 671,026,404,352. Not counted: the layer for multi-token prediction, and scales of fp8 weights.
    """
    h = 7168
    attention = h * 1536 + 1536 * 128 * 192 + h * 576 + 512 * 128 * 256 + 128 * 128 * h
    norms = 1536 + 512 + 2 * h
    expert = 3 * h * 2048
    sparse = 257 * expert + 256 * h + 256
    total = 2 * 129280 * h + 61 * (attention + norms) + 3 * 3 * h * 18432 + 58 * sparse + h
    assert parameters(DEEPSEEK_V3) == total == 671_026_419_200
    assert total - 58 * 256 == 671_026_404_352


def test_deepseek_v3_activates_the_published_36_7_billion_with_one_table_of_two():
    """README_WEIGHTS.md of deepseek-ai/DeepSeek-V3 says 36.7B activated, 0.9B of it each for embedding and head.

    The terms come to 37.55B with both and to 36.63B with one of them: its figure holds one of the two tables only.
    """
    active = active_parameters(DEEPSEEK_V3)
    assert active == 671_026_419_200 - 58 * 248 * 3 * 7168 * 2048
    assert abs(active - 129280 * 7168 - 36.7e9) < 0.1e9
