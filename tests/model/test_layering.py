"""Layers of graphs of one and of several towers, what crosses their cuts, and that names and order mean nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from planproof.model import MixtureOfExperts, Transformer
from planproof.model.builders import Shape, transformer_graph
from planproof.model.builders_convolution import wide_resnet_graph
from planproof.model.builders_towers import encoder_decoder_graph
from planproof.model.graph import OperatorGraph
from planproof.model.graph_model import GraphModel
from planproof.model.layering import MOST_LAYERS, layer_graph, layering
from planproof.model.operator import Kind

sys.path.append(str(Path(__file__).resolve().parents[1] / "search"))
from operator_cases import disguised


def shapes(layers: int, **more: object) -> Transformer:
    values: dict[str, object] = {
        "layers": layers, "hidden": 256, "heads": 4, "kv_heads": 4, "head_dim": 64, "ffn": 1024, "vocabulary": 1000,
        "gated": False, "tied_embeddings": False, "norm": "layer",
    }  # fmt: skip
    return Transformer(**values | more)  # type: ignore[arg-type]  # widths by name


def t5(batch: int = 2) -> OperatorGraph:
    return encoder_decoder_graph(shapes(6), shapes(5), Shape(batch, 64, causal=False), Shape(batch, 32), buckets=32)


GRAPHS = {
    "decoder": (lambda: transformer_graph(shapes(12), Shape(2, 64)), 12),
    "every second layer routed": (
        lambda: transformer_graph(shapes(12, moe=MixtureOfExperts(8, 2, 512, every=2)), Shape(2, 64)), 12,
    ),
    "first layers dense": (
        lambda: transformer_graph(shapes(9, moe=MixtureOfExperts(8, 2, 512, first_dense=3)), Shape(2, 64)), 9,
    ),
    "encoder and decoder": (t5, 11),
    "Wide-ResNet-50": (lambda: wide_resnet_graph(2), 16),
    "Wide-ResNet-101": (lambda: wide_resnet_graph(2, blocks=(3, 4, 23, 3)), 33),
    "a last group of one block": (lambda: wide_resnet_graph(2, blocks=(3, 4, 6, 1)), 14),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_every_layer_is_recognised_whatever_it_is_called(name: str) -> None:
    build, count = GRAPHS[name]
    graph = build()
    found = layering(graph)
    assert (found.count, found.recognised, found.joined) == (count, count, 1)
    assert sorted(k for one in found.layers for k in one.operators) == list(range(len(graph.operators)))
    for seed in range(3):
        assert layering(disguised(graph, seed)).count == count


@pytest.mark.parametrize("name", GRAPHS)
def test_layers_add_up_to_the_graph(name: str) -> None:
    graph = GRAPHS[name][0]()
    model = GraphModel(lambda batch: graph)
    parts = [layer_graph(graph, one) for one in model.layering.layers]
    assert sum(one.forward_flops for one in parts) == graph.forward_flops
    shared = sum(graph.tensors[tensor].elements * (len(layers) - 1) for tensor, layers in model.shared.items())
    assert sum(one.parameters for one in parts) == graph.parameters + shared


def test_what_crosses_into_a_decoder_is_its_stream_and_the_memory() -> None:
    graph = t5()
    rows = layering(graph).layers
    crossing = [[graph.tensors[name].sizes for name in one.leaving] for one in rows[:-1]]
    assert crossing[:5] == [[(2, 64, 256)]] * 5
    # Behind the encoder its output alone, inside the decoder the stream of the target first.
    assert crossing[5] == [(2, 64, 256)]
    assert crossing[6:] == [[(2, 32, 256), (2, 64, 256)]] * 4
    assert rows[0].entering == rows[-1].leaving == ()


def test_layers_alike_are_of_one_kind_and_share_a_signature() -> None:
    model = GraphModel(lambda batch: wide_resnet_graph(batch))
    kinds = model.kinds(2)
    # Of each group the first block widens, the others are alike; the last one has the classifier.
    assert [kinds.index(kind) for kind in dict.fromkeys(kinds)] == [0, 1, 3, 4, 7, 8, 13, 14, 15]
    assert model.signature(8, 9, 2) == model.signature(9, 10, 2)
    assert len({model.signature(7, 9, 2), model.signature(8, 9, 2), model.signature(8, 9, 4), model.signature(8, 10, 2)}) == 4


def test_more_layers_than_plans_are_cut_into_are_joined_by_neighbours() -> None:
    graph = transformer_graph(shapes(2 * MOST_LAYERS + 10), Shape(1, 8))
    found = layering(graph)
    assert (found.recognised, found.joined) == (2 * MOST_LAYERS + 10, 3)
    assert found.count == -(-found.recognised // 3)
    assert {kind for one in found.layers for kind in (graph.operators[k].kind for k in one.operators)} >= {Kind.EMBEDDING}
