"""Computation: FLOPs and bytes against closed forms, limits of the rate."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planproof.cost.compute import (
    Rates,
    attention_core,
    device_rates,
    elementwise_bytes,
    gemm_seconds,
    head_work,
    layer_work,
    optimizer_seconds,
    peak_rate,
)
from planproof.cost.factors import NOMINAL
from planproof.hardware import load_device
from planproof.model import Attention, Optimizer, Precision
from planproof.plan import Mesh
from time_cases import BF16, FP16, cluster, gpt, mixture, training

#: One FLOP and one byte a second, no saturation, no launches: seconds are FLOPs or bytes.
FLOPS = Rates(1.0, 1.0, 0.0, 0.0, 1.0, 1e30, 0.0, 1.0, "")
BYTES = Rates(1e30, 1e30, 0.0, 0.0, 1e30, 1.0, 0.0, 1.0, "")
A100 = device_rates(load_device("A100-80GB"), training(), NOMINAL, 0.8)


def test_a_gpt_layer_has_24_b_s_h2_flops_forward_and_twice_that_backward() -> None:
    """Narayanan et al. 2021 (arXiv 2104.04473), appendix: 24 B s h^2 without attention; 4 B s^2 h in attention."""
    model, work = gpt(hidden=1024), training(attention=Attention.UNFUSED)
    for tensor in (1, 2, 4):
        layer = layer_work(model, work, Mesh(tensor=tensor), 3, False, False, FLOPS)
        assert layer.forward.gemm == pytest.approx(24 * 3 * 2048 * 1024**2 / tensor)
        assert layer.backward.gemm == pytest.approx(layer.forward.gemm)
        assert layer.weight.gemm == pytest.approx(layer.forward.gemm)
        assert layer.forward.attention == pytest.approx(4 * 3 * 2048**2 * 1024 / tensor)
        assert layer.backward.attention == pytest.approx(2 * layer.forward.attention)


def test_fused_causal_attention_does_half_the_flops_and_moves_no_scores() -> None:
    model = gpt(hidden=1024)
    full = attention_core(model, training(attention=Attention.UNFUSED), Mesh(), 1, FLOPS)[0]
    flash, back = attention_core(model, training(), Mesh(), 1, FLOPS)
    assert flash.attention == pytest.approx(full.attention / 2)
    assert back.attention == pytest.approx(2.5 * flash.attention)
    assert attention_core(model, training(), Mesh(), 1, BYTES)[0].memory == 0
    assert attention_core(model, training(causal=False), Mesh(), 1, FLOPS)[0].attention == full.attention


def test_unfused_scores_pass_through_memory_with_dropout_twice() -> None:
    """a s^2 b scores of 2 bytes: softmax reads and writes, 4; dropout again with a byte of mask, 5 more."""
    model, work = gpt(hidden=1024, heads=8), training(attention=Attention.UNFUSED)
    scores = 8 * 2048**2
    assert attention_core(model, work, Mesh(), 1, BYTES)[0].memory == pytest.approx(4 * scores)
    assert attention_core(model, replace(work, dropout=0.1), Mesh(), 1, BYTES)[0].memory == pytest.approx(9 * scores)


def test_elementwise_bytes_of_a_gpt_layer_by_hand() -> None:
    """Per token forward: two norms 8 h, two residual additions 12 h, activation of 4 h 16 h: 36 h bytes."""
    model, work = gpt(hidden=1024), training()
    ahead, back = elementwise_bytes(model, work, Mesh(), 10, False, False)
    assert ahead == 10 * 36 * 1024
    assert back == 10 * (12 + 12 + 24) * 1024
    split = elementwise_bytes(model, work, Mesh(tensor=4), 10, True, False)
    assert split == (ahead / 4, back / 4)
    whole = elementwise_bytes(model, work, Mesh(tensor=4), 10, False, False)
    assert whole == (10 * (20 + 16 / 4) * 1024, 10 * (24 + 24 / 4) * 1024)


def test_experts_work_on_top_k_of_the_tokens_wherever_they_are() -> None:
    model, work = mixture(experts=8), training()
    flops = [layer_work(model, work, Mesh(data=8, expert=degree), 1, False, True, FLOPS).forward.gemm for degree in (1, 2, 8)]
    h, f = model.hidden, 4096
    expected = 2 * 2048 * (h * h * 4 + h * 8 + 2 * 3 * h * f)
    assert flops == pytest.approx([expected] * 3)


def test_the_head_multiplies_with_its_share_of_the_vocabulary() -> None:
    model = gpt(hidden=1024)
    for tensor in (1, 8):
        head = head_work(model, training(), Mesh(tensor=tensor), 1, 51200, FLOPS)
        assert head.forward.gemm == pytest.approx(2 * 2048 * 1024 * 51200 / tensor)


def test_mixed_precision_adam_moves_34_bytes_a_parameter() -> None:
    work = training(precision=BF16)
    assert optimizer_seconds(work, 1e6, BYTES, 2.0) == pytest.approx(34e6)
    plain = replace(work, optimizer=Optimizer("adam", 2), precision=Precision("fp32", "fp32", None, "fp32"))
    assert optimizer_seconds(plain, 1e6, BYTES, 2.0) == pytest.approx(2 * (8 + 16 + 8) * 1e6)


@given(st.integers(64, 20000), st.integers(1, 300), st.integers(1, 300))
def test_a_product_is_never_quicker_than_the_peak_allows_nor_than_its_bytes(m: int, n: int, k: int) -> None:
    n, k = 64 * n, 64 * k
    seconds = gemm_seconds(A100, m, n, k, 2)
    assert seconds >= 2 * m * n * k / A100.gemm
    assert seconds >= 2 * (m * n + n * k + m * k) / A100.memory
    assert gemm_seconds(A100, 2 * m, n, k, 2) >= seconds


def test_a_width_off_the_grid_loses_a_stated_share() -> None:
    aligned, off = gemm_seconds(A100, 8192, 1792, 14400, 2), gemm_seconds(A100, 8192, 1800, 14400, 2)
    assert off > aligned * 1800 / 1792 * 1.2


def test_a_dtype_without_units_is_priced_at_the_nearest_and_named() -> None:
    v100 = load_device("V100-32GB")
    assert peak_rate(v100, "fp16") == (125e12, "")
    assert peak_rate(v100, "bf16")[1] == "fp32"
    assert device_rates(v100, training(precision=FP16), NOMINAL, 0.8).instead == ""
    assert device_rates(v100, training(precision=BF16), NOMINAL, 0.8).instead == "fp32"


def test_fp8_leaves_attention_and_the_head_at_16_bit_rates() -> None:
    h100 = cluster("dgx_h100").device
    rates = device_rates(h100, training(precision=replace(BF16, parameters="fp8")), NOMINAL, 0.8)
    assert rates.gemm == pytest.approx(2 * rates.wide, rel=1e-3)
    plain = device_rates(h100, training(), NOMINAL, 0.8)
    assert rates.attention == plain.attention
