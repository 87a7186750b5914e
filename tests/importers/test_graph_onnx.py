"""ONNX models: the parameters and FLOPs of the graphs that are built, whatever reshapes and transpositions are between."""

from __future__ import annotations

import os
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import pytest
from planproof.errors import InputError
from planproof.hardware import open_library
from planproof.model import Transformer
from planproof.model.builders import Shape, transformer_graph
from planproof.model.builders_convolution import wide_resnet_graph
from planproof.model.cutting import layers_of
from planproof.model.described import built
from planproof.model.graph import OperatorGraph
from planproof.model.operator import Kind
from planproof.proposal.imported_graph import import_graph

onnx = pytest.importorskip("onnx", reason="the extra 'onnx' is not installed: pip install 'planproof[onnx]'")
from planproof.importers import graph_onnx  # noqa: E402 - what it reads is there only after the line above

HIDDEN, HEADS, KV, HEAD, INNER, VOCABULARY, LAYERS = 256, 8, 2, 32, 512, 1024, 3


class Making:
    """A model in the making."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.functions: list[Any] = []

    def weight(self, name: str, *sizes: int) -> str:
        raw = b"\0" * (4 * prod(sizes))
        self.weights.append(onnx.helper.make_tensor(name, onnx.TensorProto.FLOAT, sizes, raw, raw=True))
        return name

    def whole(self, name: str, *values: int) -> str:
        self.weights.append(onnx.helper.make_tensor(name, onnx.TensorProto.INT64, [len(values)], values))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: object) -> str:
        self.nodes.append(onnx.helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def save(self, path: Path, inputs: dict[str, tuple[int, list[object]]], output: str) -> Path:
        entered = [onnx.helper.make_tensor_value_info(name, dtype, sizes) for name, (dtype, sizes) in inputs.items()]
        made = onnx.helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None)
        graph = onnx.helper.make_graph(self.nodes, "g", entered, [made], self.weights)
        versions = [onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("own", 1)]
        onnx.save(onnx.helper.make_model(graph, opset_imports=versions, functions=self.functions), str(path))
        return path


def decoder(path: Path, sizes: list[object], *, masked: bool = True) -> Path:
    """Grouped-query attention, keys repeated as exporters do, scores masked and unfused; a gated MLP; everything reshaped."""
    m = Making()
    m.whole("heads", 0, 0, HEADS, HEAD)
    m.whole("keys", 0, 0, KV, HEAD)
    m.whole("joined", 0, 0, HIDDEN)
    x = m.node("Gather", [m.weight("table", VOCABULARY, HIDDEN), "tokens"], "embedding")
    m.node("Cast", ["mask"], "mask_bool", to=onnx.TensorProto.BOOL)
    m.weights.append(onnx.helper.make_tensor("scale", onnx.TensorProto.FLOAT, [], [HEAD**-0.5]))
    m.weights.append(onnx.helper.make_tensor("low", onnx.TensorProto.FLOAT, [], [-1e9]))
    for k in range(LAYERS):
        p = f"layer{k}."
        n = m.node("LayerNormalization", [x, m.weight(f"{p}norm_w", HIDDEN)], f"{p}norm", axis=-1)
        q = m.node("MatMul", [n, m.weight(f"{p}q_w", HIDDEN, HEADS * HEAD)], f"{p}q")
        q = m.node("Transpose", [m.node("Reshape", [q, "heads"], f"{p}q4")], f"{p}qt", perm=[0, 2, 1, 3])
        parts = []
        for name in ("k", "v"):
            one = m.node("MatMul", [n, m.weight(f"{p}{name}_w", HIDDEN, KV * HEAD)], f"{p}{name}")
            one = m.node("Transpose", [m.node("Reshape", [one, "keys"], f"{p}{name}4")], f"{p}{name}t", perm=[0, 2, 1, 3])
            parts.append(one)
        keys = m.node("Transpose", [repeated(m, parts[0], f"{p}kk")], f"{p}kt2", perm=[0, 1, 3, 2])
        scores = m.node("Mul", [m.node("MatMul", [q, keys], f"{p}scores"), "scale"], f"{p}scaled")
        if masked:
            scores = m.node("Where", ["mask_bool", scores, "low"], f"{p}masked")
        soft = m.node("Softmax", [scores], f"{p}softmax", axis=-1)
        out = m.node("MatMul", [soft, repeated(m, parts[1], f"{p}vv")], f"{p}values")
        out = m.node("Reshape", [m.node("Transpose", [out], f"{p}ot", perm=[0, 2, 1, 3]), "joined"], f"{p}o3")
        out = m.node("MatMul", [out, m.weight(f"{p}o_w", HEADS * HEAD, HIDDEN)], f"{p}output")
        x = m.node("Add", [x, out], f"{p}add")
        n = m.node("LayerNormalization", [x, m.weight(f"{p}norm2_w", HIDDEN)], f"{p}norm2", axis=-1)
        gate = m.node("MatMul", [n, m.weight(f"{p}gate_w", HIDDEN, INNER)], f"{p}gate")
        up = m.node("MatMul", [n, m.weight(f"{p}up_w", HIDDEN, INNER)], f"{p}up")
        act = m.node("Mul", [m.node("Mul", [gate, m.node("Sigmoid", [gate], f"{p}sig")], f"{p}silu"), up], f"{p}act")
        x = m.node("Add", [x, m.node("MatMul", [act, m.weight(f"{p}down_w", INNER, HIDDEN)], f"{p}down")], f"{p}add2")
    x = m.node("LayerNormalization", [x, m.weight("final_w", HIDDEN)], "final", axis=-1)
    m.node("MatMul", [x, m.weight("head_w", HIDDEN, VOCABULARY)], "logits")
    last = sizes[1]
    inputs = {
        "tokens": (onnx.TensorProto.INT64, sizes), "mask": (onnx.TensorProto.INT64, [1, 1, last, last]),
    }  # fmt: skip
    return m.save(path, inputs, "logits")


def repeated(m: Making, one: str, name: str) -> str:
    """[b, kv, s, d] to [b, heads, s, d], by Unsqueeze, Expand and Reshape."""
    m.whole(f"{name}.two", 2)
    m.whole(f"{name}.times", 1, 1, HEADS // KV, 1, 1)
    m.whole(f"{name}.shape", 0, HEADS, -1, HEAD)
    wide = m.node("Unsqueeze", [one, f"{name}.two"], f"{name}.u")
    wide = m.node("Expand", [wide, f"{name}.times"], f"{name}.e")
    return m.node("Reshape", [wide, f"{name}.shape"], name)


MODEL = Transformer(
    layers=LAYERS, hidden=HIDDEN, heads=HEADS, kv_heads=KV, head_dim=HEAD, ffn=INNER, vocabulary=VOCABULARY, gated=True,
    tied_embeddings=False, norm="layer_without_bias",
)  # fmt: skip


def graph(path: Path, batch: int, sequence: int, **sizes: int) -> OperatorGraph:
    return built(graph_onnx.read(str(path), sizes).described, batch, sequence)


@pytest.mark.parametrize("sizes", [["batch", "sequence"], [2, 64]], ids=["symbolic", "static"])
def test_a_decoder_counts_what_the_built_one_counts(tmp_path: Path, sizes: list[object]) -> None:
    found = graph(decoder(tmp_path / "m.onnx", sizes), 4, 128)
    own = transformer_graph(MODEL, Shape(4, 128, causal=False))
    assert found.parameters == own.parameters
    assert found.forward_flops == own.forward_flops
    kinds = [one.kind for one in found.operators]
    assert kinds.count(Kind.ATTENTION) == LAYERS
    assert Kind.SOFTMAX not in kinds
    assert Kind.BATCHED_MATMUL not in kinds
    assert layers_of(found).count == LAYERS


def test_names_of_dims_are_those_that_plans_use(tmp_path: Path) -> None:
    described = graph_onnx.read(str(decoder(tmp_path / "m.onnx", ["n", "t"])), {}).described
    assert {"batch", "sequence", "hidden", "heads", "head", "inner", "vocabulary"} <= set(described.dims)
    (up,) = (one for one in described.operators if one.name == "layer0.up")
    assert up.parameters["weight"].dims == ("hidden", "inner")


def test_a_sum_of_anything_but_a_mask_keeps_attention_apart(tmp_path: Path) -> None:
    path = decoder(tmp_path / "m.onnx", [2, 64], masked=False)
    model = onnx.load(str(path))
    for node in model.graph.node:
        if node.op_type == "Softmax":
            node.input[0] = node.input[0].replace("scaled", "biased")
    at = [k for k, node in enumerate(model.graph.node) if node.op_type == "Softmax"]
    for n, k in enumerate(at):
        model.graph.node.insert(k + n, onnx.helper.make_node("Add", [f"layer{n}.scaled", "bias"], [f"layer{n}.biased"]))
    raw = b"\0" * (4 * HEADS * 64 * 64)
    model.graph.initializer.append(onnx.helper.make_tensor("bias", onnx.TensorProto.FLOAT, [1, HEADS, 64, 64], raw, raw=True))
    onnx.save(model, str(path))
    found = graph(path, 2, 64)
    assert [one.kind for one in found.operators].count(Kind.SOFTMAX) == LAYERS
    assert found.forward_flops == transformer_graph(MODEL, Shape(2, 64, causal=False)).forward_flops


def residual(path: Path) -> Path:
    """A stem, two bottlenecks, pooling and a classifier: a small ResNet-50."""
    m = Making()

    def unit(name: str, x: str, before: int, after: int, kernel: int, stride: int, *, activate: bool = True) -> str:
        pads = [kernel // 2] * 4
        x = m.node(
            "Conv", [x, m.weight(f"{name}.w", after, before, kernel, kernel)], f"{name}.conv", strides=[stride] * 2, pads=pads,
            kernel_shape=[kernel] * 2,
        )  # fmt: skip
        held = [m.weight(f"{name}.{one}", after) for one in ("scale", "shift", "mean", "var")]
        x = m.node("BatchNormalization", [x, *held], f"{name}.norm")
        return m.node("Relu", [x], f"{name}.relu") if activate else x

    x = unit("stem", "pixels", 3, 64, 7, 2)
    x = m.node("MaxPool", [x], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for k in range(2):
        inner = unit(f"{k}.a", x, 64 if k == 0 else 256, 64, 1, 1)
        inner = unit(f"{k}.c", unit(f"{k}.b", inner, 64, 64, 3, 1), 64, 256, 1, 1, activate=False)
        short = unit("short", x, 64, 256, 1, 1, activate=False) if k == 0 else x
        x = m.node("Relu", [m.node("Add", [short, inner], f"{k}.add")], f"{k}.out")
    x = m.node("Flatten", [m.node("GlobalAveragePool", [x], "mean")], "flat")
    m.node("Gemm", [x, m.weight("fc.w", 1000, 256), m.weight("fc.b", 1000)], "logits", transB=1)
    return m.save(path, {"pixels": (onnx.TensorProto.FLOAT, ["batch", 3, 64, 64])}, "logits")


def test_a_residual_network_counts_what_the_built_one_counts(tmp_path: Path) -> None:
    found, own = graph(residual(tmp_path / "r.onnx"), 2, 1), wide_resnet_graph(2, blocks=(2,), width_factor=1, image=64)
    assert found.forward_flops == own.forward_flops
    assert found.parameters == own.parameters
    (seven,) = (one for one in found.operators if one.name == "stem.conv")
    (theirs,) = (one for one in own.operators if one.name == "stem.conv")
    assert sorted((loop.size, loop.split.value, loop.halo) for loop in seven.loops) == sorted(
        (loop.size, loop.split.value, loop.halo) for loop in theirs.loops
    )


def test_it_becomes_a_proposal_that_reads(tmp_path: Path) -> None:
    path = decoder(tmp_path / "m.onnx", ["batch", "sequence"])
    made = import_graph("onnx", str(path), {"sequence": "73"}, tmp_path / "p.yaml", open_library(()))
    assert made.case.graph is not None
    assert made.case.graph.layers == LAYERS
    assert "Still to state" in made.text
    assert "fp32" not in made.text  # precision is the workload's


def test_a_weight_that_is_broadcast_counts_once(tmp_path: Path) -> None:
    path = decoder(tmp_path / "m.onnx", [2, 64])
    model = onnx.load(str(path))
    model.graph.initializer.append(onnx.helper.make_tensor("wide", onnx.TensorProto.INT64, [3], [2, 1, 1]))
    at = next(k for k, node in enumerate(model.graph.node) if node.name == "layer1.output")
    model.graph.node[at].input[1] = "broadcast"
    model.graph.node.insert(at, onnx.helper.make_node("Expand", ["layer1.o_w", "wide"], ["broadcast"], name="expand"))
    onnx.save(model, str(path))
    found, own = graph(path, 2, 64), transformer_graph(MODEL, Shape(2, 64, causal=False))
    assert (found.parameters, found.forward_flops) == (own.parameters, own.forward_flops)
    assert layers_of(found).count == LAYERS


def test_a_loss_is_over_the_classes_of_every_token(tmp_path: Path) -> None:
    path = decoder(tmp_path / "m.onnx", ["batch", "sequence"])
    model = onnx.load(str(path))
    model.graph.input.append(onnx.helper.make_tensor_value_info("labels", onnx.TensorProto.INT64, ["batch", "sequence"]))
    model.graph.node.append(onnx.helper.make_node("Transpose", ["logits"], ["classes"], perm=[0, 2, 1]))
    model.graph.node.append(onnx.helper.make_node("SoftmaxCrossEntropyLoss", ["classes", "labels"], ["loss"], name="loss"))
    model.graph.output[0].name = "loss"
    onnx.save(model, str(path))
    found = graph(path, 2, 64)
    (loss,) = (one for one in found.operators if one.kind is Kind.CROSS_ENTROPY)
    assert {loop.size: loop.split.value for loop in loss.loops} == {2: "free", 64: "free", VOCABULARY: "statistics"}
    own = transformer_graph(MODEL, Shape(2, 64, causal=False))
    assert (found.parameters, found.forward_flops) == (own.parameters, own.forward_flops)


def refused(path: Path, **sizes: int) -> InputError:
    with pytest.raises(InputError) as caught:
        graph_onnx.read(str(path), sizes)
    assert caught.value.place.file == str(path)
    assert caught.value.remedy
    return caught.value


def changed(tmp_path: Path, change: Callable[[Any], object]) -> Path:
    path = decoder(tmp_path / "m.onnx", [2, 64])
    model = onnx.load(str(path))
    change(model)
    onnx.save(model, str(path))
    return path


def nested(model: Any) -> None:
    """Functions that each call another twice: 2^40 nodes."""
    versions = [onnx.helper.make_opsetid("", 20)]
    for k in range(40):
        calls = [onnx.helper.make_node(f"f{k + 1}", [a], [b], domain="own") for a, b in (("x", "y"), ("y", "z"))]
        if k == 39:
            calls = [onnx.helper.make_node("Relu", ["x"], ["z"])]
        model.functions.append(onnx.helper.make_function("own", f"f{k}", ["x"], ["z"], calls, versions))
    model.graph.node.append(onnx.helper.make_node("f0", ["logits"], ["more"], domain="own"))


def endless(model: Any) -> None:
    """A function that calls itself."""
    call = onnx.helper.make_node("f", ["x"], ["z"], domain="own")
    model.functions.append(onnx.helper.make_function("own", "f", ["x"], ["z"], [call], [onnx.helper.make_opsetid("", 20)]))
    model.graph.node.append(onnx.helper.make_node("f", ["logits"], ["more"], domain="own"))


def branch(model: Any) -> None:
    body = onnx.helper.make_graph([], "b", [], [])
    model.graph.node.append(onnx.helper.make_node("If", ["mask_bool"], ["r"], then_branch=body, else_branch=body))


def kind(name: str, to: str) -> Callable[[Any], object]:
    def change(model: Any) -> None:
        next(one for one in model.graph.node if one.name == name).op_type = to

    return change


def dim(index: int, size: int) -> Callable[[Any], object]:
    def change(model: Any) -> None:
        model.graph.input[0].type.tensor_type.shape.dim[index].dim_value = size

    return change


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (kind("layer0.softmax", "Hardmax"), "input.graph.kind", "is of the kind Hardmax"),
        (lambda m: m.graph.node[5].input.__setitem__(0, "nowhere"), "input.graph.dangling", "'nowhere'"),
        (branch, "input.onnx", "runs a graph of its own"),
        (nested, "input.graph.size", "nodes; at most 200,000 are read"),
        (endless, "input.graph.size", "nodes; at most 200,000 are read"),
        (dim(1, 0), "input.graph.shape", "a dim of 0"),
        (dim(0, 1), "input.onnx", "batch above 1"),
        (lambda m: m.graph.ClearField("node"), "input.onnx", "no graph with a node"),
        (lambda m: m.graph.output.pop(), "input.onnx", "makes no output"),
    ],
    ids=["kind", "dangling", "branch", "nested", "endless", "zero", "batch", "empty", "output"],
)
def test_a_model_that_cannot_be_read_is_refused_in_words(
    tmp_path: Path, change: Callable[[Any], object], code: str, words: str
) -> None:
    error = refused(changed(tmp_path, change))
    assert error.code == code, str(error)
    assert words in str(error)


def test_files_that_are_no_model_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.onnx"
    for raw in (b"", b"PK\x03\x04", b"\xff" * 1000, b"planproof: 1\n"):
        path.write_bytes(raw)
        assert "is no ONNX model" in refused(path).message
    with path.open("wb") as file:
        file.truncate(graph_onnx.MOST_BYTES + 1)
    assert "at most 536,870,912 are read" in refused(path).message
    assert "not a file" in refused(tmp_path).message
    assert "cannot be read" in refused(tmp_path / "none.onnx").message
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.onnx")
        assert "not a file" in refused(tmp_path / "pipe.onnx").message


def test_external_weights_are_never_opened(tmp_path: Path) -> None:
    path = decoder(tmp_path / "m.onnx", [2, 64])
    model = onnx.load(str(path))
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and tensor.dims:
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            entry = tensor.external_data.add()
            entry.key, entry.value = "location", "../../etc/passwd"
    path.write_bytes(model.SerializeToString())
    assert graph(path, 2, 64).parameters == transformer_graph(MODEL, Shape(2, 64)).parameters


def test_a_symbolic_dim_of_no_known_size_is_asked_for(tmp_path: Path) -> None:
    """What enters is no token id: its second axis is no sequence, and a size that nobody stated is not made up."""
    made = Making()
    made.node("MatMul", ["x", made.weight("w", 64, 256)], "y")
    path = made.save(tmp_path / "m.onnx", {"x": (onnx.TensorProto.FLOAT, ["n", "patches", 64])}, "y")
    error = refused(path)
    assert "'patches'" in error.message
    assert "--set patches=" in (error.remedy or "")
    stated = graph_onnx.read(path, {"patches": 196})
    assert sorted(size.factor for size in stated.described.dims.values() if not size.words) == [64, 196, 256]


def test_a_symbolic_dim_that_there_is_not_is_told(tmp_path: Path) -> None:
    assert "no symbolic dim 'time'" in refused(decoder(tmp_path / "m.onnx", ["batch", "sequence"]), time=4).message
