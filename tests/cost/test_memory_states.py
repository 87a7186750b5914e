"""Model states: bytes a parameter by role, what sharding divides, and parameters a rank."""

from __future__ import annotations

import pytest
from memory_cases import ADAM, BF16, FP16, gpt, llama, training, uniform
from planproof.cost.states import (
    padded_vocabulary,
    rank_parameters,
    shard_groups,
    state_bytes,
    state_bytes_per_parameter,
)
from planproof.model import MixtureOfExperts, Optimizer, Precision, Workload, parameters
from planproof.plan import Mesh, Stage


def workload(precision: Precision, optimizer: Optimizer = ADAM) -> Workload:
    return training(precision=precision, optimizer=optimizer)


def test_every_term_of_bf16_adam_is_named() -> None:
    """2 + 4 + 4 + 8 = 18 bytes: parameters, fp32 gradients, fp32 master copy, two fp32 moments."""
    terms = state_bytes_per_parameter(workload(BF16))
    assert [(term.name, term.bytes) for term in terms] == [
        ("parameters", 2), ("gradients", 4), ("master parameters", 4), ("moments", 8),
    ]  # fmt: skip
    assert sum(term.bytes_per_parameter for term in terms) == 18


@pytest.mark.parametrize(("zero", "total"), [(0, 18), (1, 6 + 12 / 8), (2, 2 + 16 / 8), (3, 18 / 8)])
def test_zero_stages_shard_one_state_after_another(zero: int, total: float) -> None:
    """Rajbhandari et al. 2020, section 5: optimizer state, then gradients, then parameters over d = 8 ranks."""
    assert sum(term.bytes_per_parameter for term in state_bytes_per_parameter(workload(BF16), zero, 8)) == total


def test_fp16_gradients_need_a_copy_at_the_masters_precision() -> None:
    """fp16 Adam: 2 + 2 + 4 + 4 + 8 = 20 bytes; sharded over d, 4 + 16 / d."""
    assert state_bytes(workload(FP16)).gradient_copy == 4
    assert sum(term.bytes_per_parameter for term in state_bytes_per_parameter(workload(FP16))) == 20
    assert sum(term.bytes_per_parameter for term in state_bytes_per_parameter(workload(FP16), 1, 8)) == 6


@pytest.mark.parametrize(
    ("precision", "optimizer", "total"),
    [
        (Precision("fp32", "fp32", None, "fp32"), ADAM, 16),
        (Precision("bf16", "bf16", None, "bf16"), ADAM, 8),
        (Precision("bf16", "fp32", "fp32", "fp32"), Optimizer("lion", 1), 14),
        (Precision("fp32", "fp32", None, "fp32"), Optimizer("sgd", 0), 8),
        (Precision("fp8", "bf16", "fp32", "bf16"), ADAM, 15),
    ],
)
def test_bytes_follow_from_roles_and_moments(precision: Precision, optimizer: Optimizer, total: int) -> None:
    assert sum(term.bytes for term in state_bytes_per_parameter(workload(precision, optimizer))) == total


@pytest.mark.parametrize(("tensor", "padded"), [(1, 50304), (2, 50432), (4, 50688), (8, 51200)])
def test_megatron_pads_the_vocabulary_to_128_times_tensor(tensor: int, padded: int) -> None:
    """NVIDIA/Megatron-LM, `--make-vocab-size-divisible-by`, default 128, for the 50,257 tokens of GPT-2."""
    assert padded_vocabulary(50257, tensor, 128) == padded


def test_without_padding_the_vocabulary_only_divides() -> None:
    assert padded_vocabulary(50257, 1) == 50257
    assert padded_vocabulary(50257, 8) == 50264


def stage(model_layers: int, mesh: Mesh = Mesh(), first: int = 0, ends: str = "both") -> Stage:  # noqa: B008  # a mesh is frozen
    return Stage(first, model_layers - 1, mesh, ends in ("both", "embedding"), ends in ("both", "head"))


@pytest.mark.parametrize("model", [gpt(), llama(4), gpt(moe=MixtureOfExperts(8, 2, 2048))])
def test_one_rank_alone_holds_the_whole_model(model: object) -> None:
    from planproof.model import Transformer

    assert isinstance(model, Transformer)
    assert rank_parameters(model, stage(model.layers), model.vocabulary).total == parameters(model)


def test_norms_and_row_biases_are_whole_on_every_tensor_rank() -> None:
    """A GPT layer of hidden h: (12 h^2 + 7 h) / t + 6 h: biases of qkv 3 h and up 4 h are split, those of the output
    and down 2 h and both norms 4 h are not."""
    model, h, t = gpt(1, 1024), 1024, 8
    one = rank_parameters(model, Stage(0, 0, Mesh(tensor=t)), 51200)
    assert one.total == (12 * h * h + 7 * h) // t + 6 * h


def test_positions_are_whole_and_the_table_is_divided() -> None:
    model = gpt(1, 1024)
    bare, ends = (rank_parameters(model, Stage(0, 0, Mesh(tensor=8), embedding=embedding), 51200) for embedding in (False, True))
    assert ends.total - bare.total == ends.ends == 51200 * 1024 // 8 + 2048 * 1024


def test_keys_and_values_are_at_least_one_head_a_rank() -> None:
    """Llama-3 70B has 8 key-value heads: at tensor 16 each rank still holds one of 128 columns, not a half."""
    model = llama(1)
    eight, sixteen = (rank_parameters(model, Stage(0, 0, Mesh(tensor=t)), 128256).total for t in (8, 16))
    h, norms = 8192, 2 * 8192
    shared = 2 * h * 128
    assert sixteen - norms - shared == (eight - norms - shared) // 2


def test_tied_head_is_a_second_table_when_the_embedding_is_elsewhere() -> None:
    model = gpt(4)
    final = 2 * model.hidden
    head = rank_parameters(model, stage(4, first=2, ends="head"), 51200)
    assert head.ends == 51200 * model.hidden + final
    both = rank_parameters(model, stage(4), 51200)
    assert both.ends == 51200 * model.hidden + 2048 * model.hidden + final


def test_experts_are_divided_by_expert_and_expert_tensor_degrees() -> None:
    """Routed experts: count / expert degree, each over the expert-tensor degree; never over tensor alone."""
    model = gpt(2, moe=MixtureOfExperts(8, 2, 4096), mlp_bias=False)
    each = 2 * 1024 * 4096
    for mesh, local in (
        (Mesh(data=4, expert=4), 2 * each),
        (Mesh(data=4, tensor=2, expert=4), each),
        (Mesh(data=4, tensor=2, expert=4, expert_tensor=1), 2 * each),
        (Mesh(data=2, tensor=4, expert=8, expert_tensor=1), each),
    ):
        assert rank_parameters(model, Stage(0, 1, mesh), 51200).experts == 2 * local


@pytest.mark.parametrize(
    ("mesh", "groups"),
    [
        (Mesh(data=8), (8, 8)),
        (Mesh(data=4, context=2, tensor=2), (8, 8)),
        (Mesh(data=8, expert=4), (8, 2)),
        (Mesh(data=4, tensor=2, expert=4, expert_tensor=1), (4, 2)),
    ],
)
def test_experts_are_sharded_over_their_own_data_parallel_group(mesh: Mesh, groups: tuple[int, int]) -> None:
    assert shard_groups(mesh) == groups


def test_uneven_stages_count_their_own_layers() -> None:
    model = gpt(12)
    counts = [rank_parameters(model, Stage(first, last, Mesh()), 51200).total for first, last in ((0, 1), (2, 6), (7, 11))]
    assert [count * 12 // counts[0] for count in counts] == [12, 30, 30]
    assert rank_parameters(model, uniform(model, pipeline=4).stages[1], 51200).total == counts[0] * 3 // 2
