"""A described graph is the one that the builders make, and its layers are recognised whatever they are called."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from planproof.model import Transformer, parameters
from planproof.model.builders import Shape, transformer_graph
from planproof.model.builders_convolution import wide_resnet_graph
from planproof.model.cutting import layers_of, stage_graph
from planproof.model.described import DescribedGraph, DescribedOperator, Operand, Size, built
from planproof.model.graph import GraphError, OperatorGraph
from planproof.model.operator import Kind, Role, Split
from planproof.proposal.resolve_graph import graph_document, read_graph
from published_shapes import DEEPSEEK_V3, GPT2_XL, LLAMA3_8B, MIXTRAL_8X7B

DATA = Path(__file__).resolve().parent.parent / "data/graphs"
BATCH, SEQUENCE = 2, 256


def graph(name: str) -> OperatorGraph:
    document, _ = graph_document((DATA / name).read_bytes(), name)
    return read_graph(document, "", "/model/graph", SEQUENCE).build(BATCH, SEQUENCE, "bf16")


def written(one: OperatorGraph) -> list[object]:
    """Every operator without names: kind, loops, what runs over which operand, what backward keeps. Ends count as they are."""
    return sorted(
        (
            operator.kind.value, operator.causal, operator.linear,
            sorted((loop.size, loop.split.value, loop.halo) for loop in operator.loops),
            sorted(
                (one.tensors[use.tensor].sizes, one.tensors[use.tensor].dtype, one.tensors[use.tensor].role.value, use.repeats,
                 [(operator.sizes[loop], loop in ("keys",)) if loop else (0, False) for loop in use.loops])
                for use in operator.uses
            ),
            sorted(one.tensors[name].sizes for name in operator.keeps),
        )
        for operator in one.operators
    )  # fmt: skip


@pytest.mark.parametrize(("name", "model"), [("llama_layer.yaml", LLAMA3_8B), ("mixtral_layer.yaml", MIXTRAL_8X7B)])
def test_a_described_layer_is_the_one_that_is_built(name: str, model: Transformer) -> None:
    model = replace(model, layers=1)
    described, own = graph(name), transformer_graph(model, Shape(BATCH, SEQUENCE))
    assert described.parameters == own.parameters == parameters(model)
    assert described.forward_flops == own.forward_flops
    assert written(described) == written(own)


@pytest.mark.parametrize("model", [LLAMA3_8B, GPT2_XL, MIXTRAL_8X7B])
def test_layers_are_recognised_and_a_stage_of_them_is_the_stage(model: Transformer) -> None:
    model = replace(model, layers=8, tied_embeddings=False)
    whole = transformer_graph(model, Shape(BATCH, SEQUENCE))
    layers = layers_of(whole)
    assert layers.count == 8
    bare = transformer_graph(model, Shape(BATCH, SEQUENCE), layers=(3, 3), embedding=False, head=False)
    assert layers.operators == len(bare.operators) - 2  # its source and its sink
    without = transformer_graph(model, Shape(BATCH, SEQUENCE), embedding=False, head=False)
    assert layers_of(without).count == 8
    for first, last in ((0, 2), (3, 5), (6, 7)):
        own = transformer_graph(
            model, Shape(BATCH, SEQUENCE), layers=(first, last), embedding=first == 0, head=last == 7
        )
        cut = stage_graph(whole, layers, first, last)
        assert (cut.parameters, cut.forward_flops) == (own.parameters, own.forward_flops)
        assert written(cut) == written(own)
    assert stage_graph(whole, layers, 0, 7) is whole


def test_what_never_repeats_is_one_layer() -> None:
    assert layers_of(graph("llama_layer.yaml")).count == 1
    assert layers_of(transformer_graph(replace(DEEPSEEK_V3, layers=9), Shape(1, 64))).count == 9  # by their attention
    assert layers_of(wide_resnet_graph(2)).count == 16  # the four groups', those that widen too


def reading(*operators: DescribedOperator, **dims: int) -> DescribedGraph:
    sizes = {name: Size(size) for name, size in dims.items()} | {"b": Size(1, ("microbatch",))}
    return DescribedGraph(sizes, {"x": Operand("x", ("b", "h"))}, operators)


def test_a_mask_that_all_layers_read_ties_none_to_another() -> None:
    dims = {"b": Size(1, ("microbatch",)), "h": Size(64)}
    operators = []
    before = "x"
    for k in range(6):
        masked, total = Operand(f"masked{k}", ("b", "h")), Operand(f"sum{k}", ("b", "h"))
        operators.append(DescribedOperator(f"masked{k}", "elementwise", (Operand(before), Operand("mask")), (masked,)))
        operators.append(DescribedOperator(f"sum{k}", "add", (Operand(before), Operand(f"masked{k}")), (total,)))
        before = f"sum{k}"
    inputs = {"x": Operand("x", ("b", "h")), "mask": Operand("mask", ("b", "h"), "bool")}
    assert layers_of(built(DescribedGraph(dims, inputs, tuple(operators)), 4, 1)).count == 6


def test_splits_follow_from_where_a_dim_stands() -> None:
    product = DescribedOperator(
        "p", "matmul", (Operand("x"),), (Operand("p", ("b", "o")),), {"w": Operand("p:w", ("h", "o"))}
    )
    pooled = DescribedOperator("m", "reduction", (Operand("p"),), (Operand("m", ("b",)),), linear=True)
    largest = DescribedOperator("l", "reduction", (Operand("p"),), (Operand("l", ("b",)),))
    found = {one.name: one for one in built(reading(product, pooled, largest, h=8, o=4), 2, 1).operators}
    assert {loop.name: loop.split for loop in found["p"].loops} == {"b": Split.FREE, "h": Split.SUM, "o": Split.FREE}
    assert {loop.name: loop.split for loop in found["m"].loops} == {"b": Split.FREE, "o": Split.SUM}
    assert {loop.name: loop.split for loop in found["l"].loops} == {"b": Split.FREE, "o": Split.WHOLE}
    assert [one.kind for one in found.values() if one.name.endswith(".sink")] == [Kind.OUTPUT] * 2


def test_sizes_follow_the_batch_and_the_sequence() -> None:
    sizes = {"b": Size(1, ("microbatch", "sequence_length")), "h": Size(8), "c": Size(3, ("sequence_length",), 2)}
    one = DescribedOperator("n", "elementwise", (Operand("x"),), (Operand("n", ("b", "h", "c")),))
    made = built(DescribedGraph(sizes, {"x": Operand("x", ("b", "h", "c"))}, (one,)), 4, 5)
    assert made.tensors["n"].sizes == (20, 8, 8)  # 3 x 5 / 2, rounded up
    assert made.tensors["x"].role is Role.ACTIVATION


@pytest.mark.parametrize(
    ("kind", "change", "word"),
    [
        ("norm", {}, "over which dims"),
        ("attention", {"over": ("h",)}, "1 inputs"),
        ("embedding", {}, "one table"),
        ("cross_entropy", {"over": ("h",)}, "logits with labels"),
        ("elementwise", {"outputs": ()}, "makes nothing"),
        ("elementwise", {"inputs": ()}, "reads nothing"),
        ("elementwise", {"over": ("hh",)}, "Did you mean 'h'"),
        ("matmul", {}, "sums over nothing"),
        ("elementwise", {"outputs": (Operand("y", ("b",)),)}, "keeps all dims"),
        ("elementwise", {"outputs": (Operand("y", ("b", "b")),)}, "a dim twice"),
        ("elementwise", {"parameters": {"bias": Operand("tble")}}, "not among the graph's 'parameters'"),
        ("reduction", {"window": {"h": 0}}, "window of 0"),
    ],
)  # fmt: skip
def test_what_an_operator_lacks_is_named_with_what_would_do(kind: str, change: dict[str, object], word: str) -> None:
    one = replace(DescribedOperator("y", kind, (Operand("x"),), (Operand("y", ("b", "h")),)), **change)
    with pytest.raises(GraphError) as caught:
        built(reading(one, h=8), 2, 1)
    assert caught.value.operator == "y"
    assert word in f"{caught.value.message} {caught.value.remedy}"
