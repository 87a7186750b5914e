"""An ONNX model as a described operator graph. Only the structure is read: no weight, no external file, and nothing is run.

The package `onnx` parses the file and infers shapes; it is imported here alone (`pip install planproof[onnx]`). Symbolic dims are
given sizes of their own (primes, so that no reshape takes them for a part of something else). Operators are those of ONNX's
operator reference that transformers and convolutional networks are made of; another one is refused by name, never skipped.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from ..document.source import file_type
from ..errors import InputError, Place, UsageError
from ..model.described import DescribedGraph
from ..model.traced import Value
from ..model.tracing import Trace
from .graph_axes import attention, convolution, gathered, lookup, loss, moved, norm, part, product, reduction, softmax
from .graph_read import PRIMES, ReadGraph

#: A file without its weights is far smaller; those can be kept beside it (`save_as_external_data`).
MOST_BYTES: Final = 512 * 2**20
MOST_NODES: Final = 200_000
#: Names of dims that stand for the batch and the tokens of a sequence; else they are the first two axes of what enters.
_SEQUENCES: Final = ("sequence", "seq", "length", "tokens")
_VIEWS: Final = frozenset({"Identity", "Cast", "CastLike", "Dropout", "Reshape", "Flatten", "Squeeze", "Unsqueeze"})
_MAPS: Final = frozenset({
    "Abs", "Acos", "Add", "And", "Atan", "BitwiseAnd", "Ceil", "Celu", "Clip", "Cos", "CumSum", "Div", "Elu", "Equal", "Erf",
    "Exp", "Floor", "Gelu", "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "IsNaN", "LeakyRelu", "Less",
    "LessOrEqual", "Log", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu",
    "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tan", "Tanh",
    "ThresholdedRelu", "Trilu", "Where", "Xor", "Expand", "QuickGelu", "FastGelu", "BiasGelu", "RotaryEmbedding",
})  # fmt: skip
_REDUCTIONS: Final = {
    "ReduceMean": True, "ReduceSum": True, "ReduceMax": False, "ReduceMin": False, "ReduceL2": False, "ReduceSumSquare": False,
    "ReduceLogSumExp": False, "ReduceProd": False, "ArgMax": False, "ArgMin": False, "GlobalAveragePool": True,
    "GlobalMaxPool": False,
}  # fmt: skip
_NORMS: Final = {"LayerNormalization": 1, "RMSNormalization": 1, "SimplifiedLayerNormalization": 1, "InstanceNormalization": 2}
_KNOWN: Final = frozenset({"Constant", "Shape", "ConstantOfShape", "Range", "Size"})
_FLOATS: Final = {1: "fp32", 10: "fp16", 11: "fp64", 16: "bf16", 17: "fp8", 18: "fp8", 19: "fp8", 20: "fp8"}
_DTYPES: Final = {**_FLOATS, 2: "int8", 3: "int8", 5: "int32", 6: "int32", 7: "int64", 9: "bool", 12: "int32", 13: "int64"}


def read(path: str | os.PathLike[str], sizes: Mapping[str, int]) -> ReadGraph:
    """The graph of the model at `path`; `sizes` of symbolic dims by name. Raises InputError; UsageError without the package."""
    onnx = _package()
    name = os.fspath(path)
    where = Place(name)
    model = _parsed(onnx, name, where)
    return _Reader(onnx, model, dict(sizes), where).read()


def _package() -> Any:
    try:
        onnx = import_module("onnx")
        for part_of_it in ("inliner", "shape_inference"):
            import_module(f"onnx.{part_of_it}")
    except ImportError as error:
        raise UsageError(
            "reading an ONNX model needs the package 'onnx', which is not installed here", code="usage.extra",
            remedy="pip install 'planproof[onnx]'",
        ) from error  # fmt: skip
    return onnx


def _parsed(onnx: Any, name: str, where: Place) -> Any:
    """The model without its external data. Raises InputError."""
    try:
        descriptor = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        said = f"cannot be read: {error.strerror}"
        raise InputError(said, place=where, code="input.file", remedy="Name an ONNX file.") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        said = f"is {file_type(status.st_mode)}, not a file"
        raise InputError(said, place=where, code="input.file", remedy="Name an ONNX file.")
    with os.fdopen(descriptor, "rb") as file:
        if status.st_size > MOST_BYTES:
            raise InputError(
                f"has {status.st_size:,} bytes; at most {MOST_BYTES:,} are read", place=where, code="input.too_large",
                remedy="Save its weights beside it (onnx.save_model with save_as_external_data=True): its structure is enough.",
            )  # fmt: skip
        raw = file.read(MOST_BYTES + 1)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(raw)
    except Exception as error:  # protobuf's own class of error differs between its implementations
        said = "is no ONNX model: it does not parse"
        raise InputError(said, place=where, code="input.onnx", remedy="Export it again.") from error
    if not model.graph.node:
        said = "is no ONNX model: there is no graph with a node in it"
        raise InputError(said, place=where, code="input.onnx", remedy="Name a file of an ONNX model.")
    count = _expanded(model)
    if count > MOST_NODES:
        raise InputError(
            f"has {count:,} nodes; at most {MOST_NODES:,} are read", place=where, code="input.graph.size",
            remedy="Export some layers of each kind, or one stage.",
        )  # fmt: skip
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    return model


def _expanded(model: Any) -> int:
    """How many nodes there are once local functions are put in their place; a function in itself counts without end."""
    bodies = {(one.domain, one.name): one.node for one in model.functions}
    counts: dict[tuple[str, str], int] = {}
    endless = MOST_NODES + 1
    order = list(bodies)
    for _ in range(len(bodies) + 1):
        before = dict(counts)
        for key in order:
            counts[key] = min(endless, sum(counts.get((n.domain, n.op_type), 0) + 1 for n in bodies[key]))
        if counts == before:
            break
    else:
        return endless
    return sum(counts.get((n.domain, n.op_type), 0) + 1 for n in model.graph.node)


class _Reader:
    """One model on its way."""

    def __init__(self, onnx: Any, model: Any, sizes: dict[str, int], where: Place) -> None:
        self.onnx, self.model, self.sizes, self.where = onnx, model, sizes, where
        self.trace = Trace()
        self.values: dict[str, Value] = {}
        self.known: set[str] = {""}
        self.shapes: dict[str, tuple[tuple[int, ...], str]] = {}
        self.aside: dict[str, int] = {}
        #: Symbolic dims by the size that stands for them, where none was stated.
        self.stand_ins: dict[int, str] = {}
        self.opset = max((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), default=0)

    def refuse(self, what: str, remedy: str, code: str = "input.onnx") -> InputError:
        """An error at the file."""
        return InputError(what, place=self.where, code=code, remedy=remedy)

    def read(self) -> ReadGraph:
        graph = self.model.graph
        self._concrete(graph)
        for tensor in graph.initializer:
            self._stored(tensor)
        entered = []
        for one in graph.input:
            if one.name not in self.values and one.name not in self.known:
                shape, dtype = self._typed(one)
                self.values[one.name] = self.trace.enter(one.name, shape, dtype)
                entered.append(self.values[one.name])
        for k, node in enumerate(graph.node):
            self._node(k, node)
        results = [self.values[one.name] for one in graph.output if one.name in self.values]
        if not results:
            raise self.refuse("makes no output from what enters it", "Export the model with its inputs as inputs.")
        made = self._described(entered, results)
        for size in made.dims.values():
            if not size.words and size.factor in self.stand_ins:
                symbol = self.stand_ins[size.factor][:80]
                raise self.refuse(
                    f"does not say how large '{symbol}' is, a symbolic dim that is neither batch nor sequence of token ids",
                    f"State it, as in --set {symbol}=1024.",
                )
        notes = [f"{name}, {count} times: does not change what is trained or where" for name, count in sorted(self.aside.items())]
        return ReadGraph(made, tuple(notes), len(graph.node))

    def _described(self, entered: list[Value], results: list[Value]) -> DescribedGraph:
        """Which axes are the batch and the sequence: the first two of what is looked up, else the first of what enters."""
        looked_up = [one for one in entered if one.made.dtype.startswith("int") and one.sizes]
        first = looked_up or [one for one in entered if one.sizes]
        batch = [one.axes[0] for one in first if one.axes[0]]
        sequence = [one.axes[1] for one in looked_up if len(one.sizes) > 1 and one.axes[1]]
        if not batch:
            raise self.refuse("has no input with a batch above 1 in its first axis", "Export it with a batch of 2 or more.")
        return self.trace.described(results, batch, sequence)

    def _concrete(self, graph: Any) -> None:
        """Sizes for symbolic dims, and the shapes of all that follows from them."""
        given, met = dict(self.sizes), set[str]()
        stored = {one.name for one in graph.initializer}
        fresh = iter(PRIMES)
        for one in graph.input:
            if one.name in stored:
                continue
            for dim in one.type.tensor_type.shape.dim:
                if not dim.HasField("dim_value"):
                    symbol = dim.dim_param or f"{one.name}.{len(given)}"
                    met.add(symbol)
                    if symbol not in given:
                        given[symbol] = next(fresh, 0)
                        self.stand_ins[given[symbol]] = symbol
                    dim.dim_value = given[symbol]
        if 0 in given.values():
            raise self.refuse(f"has more than {len(PRIMES)} symbolic dims", "State sizes of some with --set NAME=SIZE.")
        for name in self.sizes:
            if name not in met:
                known = ", ".join(f"'{one[:40]}'" for one in sorted(met)[:20]) or "none"
                raise self.refuse(f"has no symbolic dim '{name[:80]}'", f"Its symbolic dims: {known}.")
        for tensor in graph.initializer:
            if tensor.data_type in _FLOATS:
                for stored_as in ("raw_data", "float_data", "double_data", "int32_data", "external_data"):
                    tensor.ClearField(stored_as)
        del graph.value_info[:]
        for out in graph.output:
            out.type.tensor_type.ClearField("shape")
        try:
            inferred = self.onnx.shape_inference.infer_shapes(self.model, data_prop=True)
        except Exception as error:  # the C++ checker raises its own classes
            said = str(error).splitlines()[0][:160] if str(error) else "no reason"
            what = f"its shapes cannot be inferred: {said}"
            raise self.refuse(what, "Check it with onnx.checker, or export it again.") from error
        for one in (*inferred.graph.value_info, *inferred.graph.output, *inferred.graph.input):
            shape = one.type.tensor_type.shape
            if one.type.HasField("tensor_type") and all(dim.HasField("dim_value") for dim in shape.dim):
                sizes = tuple(int(dim.dim_value) for dim in shape.dim)
                self.shapes[one.name] = sizes, _DTYPES.get(one.type.tensor_type.elem_type, "fp32")

    def _typed(self, one: Any) -> tuple[tuple[int, ...], str]:
        return self._shape(one.name)

    def _shape(self, name: str) -> tuple[tuple[int, ...], str]:
        found = self.shapes.get(name)
        if found is None:
            raise self.refuse(
                f"the shape of '{name[:80]}' is not known", "Export with static shapes, or run onnx.shape_inference on it.",
                "input.graph.shape",
            )
        if any(size < 1 for size in found[0]):
            raise self.refuse(f"'{name[:80]}' has a dim of 0", "Export it with inputs that are not empty.", "input.graph.shape")
        return found

    def _stored(self, tensor: Any) -> None:
        """A weight; what is no number of a model (shapes, masks, scalars) is known and moves nothing."""
        sizes = tuple(int(size) for size in tensor.dims)
        if tensor.data_type not in _FLOATS or not sizes or max(sizes) == 1:
            self.known.add(tensor.name)
            return
        self.values[tensor.name] = self.trace.enter(tensor.name, sizes, _FLOATS[tensor.data_type], parameter=True)

    def _node(self, k: int, node: Any) -> None:
        kind = node.op_type
        if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
            raise self.refuse(
                f"node {k} '{node.name[:80]}' ({kind}) runs a graph of its own", "Unroll loops and branches when exporting."
            )
        ins = [self.values.get(name) for name in node.input]
        for name in node.input:
            if name not in self.values and name not in self.known:
                raise self.refuse(
                    f"node {k} '{node.name[:80]}' reads '{name[:80]}', which nothing above it makes", "Export it again.",
                    "input.graph.dangling",
                )
        if kind in _KNOWN or not any(one is not None for one in ins):
            self.known.update(node.output)
            return
        attributes = {one.name: self.onnx.helper.get_attribute_value(one) for one in node.attribute}
        title = node.name or node.output[0]
        found = self._made(kind, title, node, ins, attributes, k)
        for name, value in zip(node.output, found, strict=False):
            if name:
                if value is None:
                    self.known.add(name)
                else:
                    self.values[name] = value
        self.known.update(name for name in node.output[len(found) :])

    def _made(
        self, kind: str, title: str, node: Any, ins: list[Value | None], attributes: Mapping[str, Any], k: int
    ) -> list[Value | None]:
        there = [one for one in ins if one is not None]
        x = there[0]
        sizes, dtype = self._shape(node.output[0])
        trace = self.trace
        if kind == "Transpose":
            order = attributes.get("perm", list(range(len(x.sizes)))[::-1])
            return [trace.transposed(x, order)]
        if kind in _VIEWS:
            if kind.startswith("Cast") and dtype.startswith(("int", "bool")) != x.made.dtype.startswith(("int", "bool")):
                return [trace.map(title, [x], sizes, dtype)]
            if kind in ("Cast", "CastLike", "Dropout"):
                self.aside[kind] = self.aside.get(kind, 0) + 1
            return [trace.reshaped(title, x, sizes)]
        if kind in _MAPS:
            return [self._map(kind, title, there, ins, sizes, dtype)]
        if kind in _REDUCTIONS:
            axes = self._axes(attributes, x, sizes, kind)
            return [reduction(trace, title, x, axes, sizes, dtype, linear=_REDUCTIONS[kind])]
        if kind in ("Softmax", "LogSoftmax"):
            return [softmax(trace, title, x, attributes.get("axis", -1 if self.opset >= 13 else 1), dtype)]
        if kind in _NORMS:
            start = attributes.get("axis", -1) if kind != "InstanceNormalization" else 2
            over = list(range(start % len(x.sizes), len(x.sizes)))
            return [norm(trace, title, x, over, there[1:], dtype, channel=kind == "InstanceNormalization")]
        if kind == "BatchNormalization":
            over = [axis for axis in range(len(x.sizes)) if axis != 1]
            return [norm(trace, title, x, over, there[1:3], dtype, channel=True)]
        if kind == "SoftmaxCrossEntropyLoss" and len(there) > 1:
            return [loss(trace, title, x, there[1], sizes)]
        if kind == "MatMul":
            if len(there) < 2:
                return [trace.map(title, [x], sizes, dtype)]
            return [product(trace, title, there[0], there[1], sizes, dtype)]
        if kind == "Gemm":
            one = trace.transposed(there[0], (1, 0)) if attributes.get("transA") else there[0]
            two = trace.transposed(there[1], (1, 0)) if attributes.get("transB") else there[1]
            return [product(trace, title, one, two, sizes, dtype, bias=there[2] if len(there) > 2 else None)]
        if kind == "Conv":
            bias = there[2] if len(there) > 2 else None
            return [convolution(trace, title, x, there[1], sizes, dtype, attributes.get("group", 1), bias)]
        if kind in ("MaxPool", "AveragePool"):
            kernel = attributes.get("kernel_shape", [1] * (len(sizes) - 2))
            return [reduction(trace, title, x, [], sizes, dtype, linear=False, window=dict(enumerate(kernel, 2)))]
        if kind == "Gather" and ins[0] is not None:
            return [self._gathered(title, ins, attributes.get("axis", 0), sizes, dtype)]
        if kind == "Attention":
            causal = bool(attributes.get("is_causal"))
            heads = (attributes.get("q_num_heads"), attributes.get("kv_num_heads"))
            return [attention(trace, title, there[:3], sizes, dtype, causal=causal, heads=heads)]
        if kind in ("Concat", "Pad"):
            return [moved(trace, title, there if kind == "Concat" else there[:1], sizes, dtype)]
        if kind in ("Slice", "Split"):
            return [self._cut(f"{title}.{n}" if n else title, x, *self._shape(name)) for n, name in enumerate(node.output)]
        raise self.refuse(
            f"node {k} '{node.name[:80]}' is of the kind {kind[:60]}, which is not read",
            "Give its operators in 'model.graph' by hand, or export the model without it.", "input.graph.kind",
        )

    def _map(
        self, kind: str, title: str, there: list[Value], ins: list[Value | None], sizes: tuple[int, ...], dtype: str
    ) -> Value:
        active = [one for one in there if not one.made.parameter]
        if not active:
            return self.trace.widened(title, there[0], sizes)
        linear = kind in ("Add", "Sum") and len(active) == len(ins) and all(one.sizes == sizes for one in active)
        return self.trace.map(title, there, sizes, dtype, linear=linear)

    def _axes(self, attributes: Mapping[str, Any], x: Value, sizes: tuple[int, ...], kind: str) -> list[int]:
        """The axes that a reduction drops: as it says, or those whose size became 1 where an input says it."""
        if kind.startswith("Global"):
            return list(range(2, len(x.sizes)))
        if "axes" in attributes or "axis" in attributes:
            axes = attributes.get("axes", [attributes.get("axis", 0)])
            return [axis % len(x.sizes) for axis in axes]
        if len(sizes) == len(x.sizes):
            return [k for k, (a, b) in enumerate(zip(x.sizes, sizes, strict=True)) if b == 1 and a != 1]
        if not sizes:
            return list(range(len(x.sizes)))
        left = list(sizes)
        found = []
        for k, size in enumerate(x.sizes):
            if left and left[0] == size:
                left.pop(0)
            else:
                found.append(k)
        return found

    def _gathered(self, title: str, ins: list[Value | None], axis: int, sizes: tuple[int, ...], dtype: str) -> Value:
        """Rows of a table by index; of an activation the part that is picked."""
        table, index = ins[0], ins[1]
        assert table is not None
        if table.made.parameter and axis == 0 and len(table.sizes) == 2:
            if index is None:
                index = self.trace.enter(f"{title}.index", sizes[: len(sizes) - 1], "int64")
            return lookup(self.trace, title, table, index, sizes, dtype)
        return gathered(self.trace, title, table, axis % len(table.sizes), sizes, dtype)

    def _cut(self, title: str, x: Value, sizes: tuple[int, ...], dtype: str) -> Value:
        """A slice: of one axis a part of it, of several what is kept of the others."""
        changed = [k for k, (a, b) in enumerate(zip(x.sizes, sizes, strict=True)) if a != b]
        if len(changed) == 1:
            return part(self.trace, title, x, changed[0], sizes[changed[0]], dtype)
        return moved(self.trace, title, [x], sizes, dtype) if changed else x


__all__ = ["MOST_BYTES", "MOST_NODES", "read"]
