"""A program of `torch.export` as a described operator graph, from the JSON in its archive: torch is neither needed nor loaded.

`torch.export.save` writes a zip whose `models/NAME.json` has every operation with the sizes of every tensor (schema 8 of
torch/_export/serde/schema.py). Only that entry is read, within bounds: weights, sample inputs and what is pickled stay closed,
nothing is run. Operations are those of ATen that transformers and convolutional networks are made of; another is refused by name.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Mapping
from typing import Any, Final

from ..errors import InputError, Place
from ..model.traced import Value
from ..model.tracing import Trace
from .graph_axes import attention, convolution, gathered, lookup, loss, moved, norm, part, product, reduction, softmax
from .graph_read import ReadGraph

#: Bytes of the program's JSON, entries of the archive, operations.
MOST_BYTES: Final = 64 * 2**20
MOST_ENTRIES: Final = 100_000
MOST_NODES: Final = 200_000
SCHEMA: Final = 8
_MODEL: Final = re.compile(r"(?:[^/]{1,200}/)?models/[^/]{1,200}\.json|serialized_exported_program\.json")
#: `ScalarType` of the schema.
_DTYPES: Final = {
    1: "int8", 2: "int8", 3: "int32", 4: "int32", 5: "int64", 6: "fp16", 7: "fp32", 8: "fp64", 12: "bool", 13: "bf16",
    **dict.fromkeys((29, 30, 31, 32), "fp8"),
}  # fmt: skip
_VIEWS: Final = frozenset({
    "view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "contiguous", "clone", "to", "_to_copy",
    "alias", "detach", "detach_", "dropout", "dropout_", "lift_fresh_copy", "view_as", "_reshape_copy", "identity", "type_as",
})  # fmt: skip
_MAPS: Final = frozenset({
    "abs", "add", "add_", "sub", "sub_", "rsub", "mul", "mul_", "div", "div_", "pow", "sqrt", "rsqrt", "exp", "log", "log1p",
    "neg", "relu", "relu_", "gelu", "silu", "silu_", "sigmoid", "tanh", "erf", "clamp", "clamp_min", "clamp_max", "minimum",
    "maximum", "where", "masked_fill", "masked_fill_", "eq", "ne", "lt", "le", "gt", "ge", "logical_not", "logical_and",
    "logical_or", "bitwise_not", "bitwise_and", "bitwise_or", "cos", "sin", "hardswish", "hardswish_", "hardtanh", "leaky_relu",
    "elu", "softplus", "mish", "reciprocal", "square", "floor", "expand", "expand_as", "tril", "triu", "cumsum", "zeros_like",
    "ones_like", "full_like", "isnan", "sign", "fill", "relu6", "hardsigmoid", "exp2", "addcmul", "fmod", "remainder",
    "scalar_tensor",
})  # fmt: skip
_REDUCTIONS: Final = {"mean": True, "sum": True, "amax": False, "amin": False, "max": False, "min": False, "argmax": False,
                      "var": False, "std": False, "prod": False, "any": False, "all": False, "logsumexp": False}  # fmt: skip
_MADE: Final = frozenset({
    "arange", "full", "zeros", "ones", "empty", "scalar_tensor", "rand", "randn", "sym_size", "sym_numel", "_assert_scalar",
})  # fmt: skip


def read(path: str | os.PathLike[str], sizes: Mapping[str, int]) -> ReadGraph:
    """The graph of the program at `path`. Its symbolic sizes have hints; `sizes` may state none. Raises InputError."""
    where = Place(os.fspath(path))
    program = _program(os.fspath(path), where)
    if sizes:
        raise InputError(
            f"'{next(iter(sizes))}' is stated: sizes of a torch program are those that it was exported with", place=where,
            code="input.torch", remedy="Leave --set out, or export it with other sample inputs.",
        )  # fmt: skip
    try:
        return _Reader(program, where).read()
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise InputError(
            f"its program does not follow schema {SCHEMA}: {type(error).__name__} at {str(error)[:80]}", place=where,
            code="input.torch", remedy="Export and save it again with torch.export.",
        ) from error  # fmt: skip


def _program(name: str, where: Place) -> Mapping[str, Any]:
    """The JSON of the archive's one program. Raises InputError."""

    def refuse(what: str, code: str = "input.torch") -> InputError:
        remedy = "Save it with torch.export.save(torch.export.export(model, inputs), 'model.pt2')."
        return InputError(what, place=where, code=code, remedy=remedy)

    if not os.path.isfile(name):
        raise refuse("is no file", "input.file")
    try:
        with zipfile.ZipFile(name) as archive:
            entries = archive.infolist()
            if len(entries) > MOST_ENTRIES:
                raise refuse(f"has {len(entries):,} entries; at most {MOST_ENTRIES:,} are looked at", "input.too_large")
            found = [one for one in entries if _MODEL.fullmatch(one.filename)]
            if len(found) != 1:
                raise refuse(f"has {len(found)} programs in it, where one 'models/NAME.json' was expected")
            with archive.open(found[0]) as stream:
                # What is unpacked counts, whatever the directory says of it.
                raw = stream.read(MOST_BYTES + 1)
    except (zipfile.BadZipFile, RuntimeError, EOFError, OSError, ValueError) as error:
        raise refuse(f"is no archive of torch.export: {str(error)[:80]}") from error
    if len(raw) > MOST_BYTES:
        raise refuse(f"has a program of more than {MOST_BYTES:,} bytes", "input.too_large")
    try:
        program = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise refuse("its program is no JSON") from error
    version = program.get("schema_version") if isinstance(program, dict) else None
    major = version.get("major") if isinstance(version, dict) else None
    if major != SCHEMA:
        raise refuse(f"its schema is version {str(major)[:20]}; {SCHEMA} is read (torch 2.5 and later)", "input.torch.schema")
    assert isinstance(program, dict)
    return program


class _Reader:
    """One program on its way."""

    def __init__(self, program: Mapping[str, Any], where: Place) -> None:
        module = program["graph_module"]
        self.graph, self.signature, self.where = module["graph"], module["signature"], where
        self.trace = Trace()
        self.values: dict[str, Value] = {}
        self.known: set[str] = set()
        self.aside: dict[str, int] = {}

    def refuse(self, what: str, remedy: str, code: str = "input.torch") -> InputError:
        """An error at the file."""
        return InputError(what, place=self.where, code=code, remedy=remedy)

    def read(self) -> ReadGraph:
        nodes = self.graph["nodes"]
        if len(nodes) > MOST_NODES:
            what = f"has {len(nodes):,} operations; at most {MOST_NODES:,} are read"
            raise self.refuse(what, "Export one stage.", "input.graph.size")
        entered = []
        for spec in self.signature["input_specs"]:
            ((what, body),) = spec.items()
            name = str(body["arg"]["name"] if "name" in body["arg"] else next(iter(body["arg"].values()))["name"])
            if what == "parameter":
                shape, dtype = self._shape(name)
                self.values[name] = self.trace.enter(body["parameter_name"], shape, dtype, parameter=True)
            elif what == "user_input" and "as_tensor" in body["arg"]:
                shape, dtype = self._shape(name)
                self.values[name] = self.trace.enter(name, shape, dtype)
                entered.append(self.values[name])
            else:
                self.known.add(name)
        for k, node in enumerate(nodes):
            self._node(k, node)
        results = []
        for one in self.graph["outputs"]:
            name = one.get("as_tensor", {}).get("name")
            if name in self.values:
                results.append(self.values[name])
        if not results:
            raise self.refuse("makes no output from what enters it", "Export the model with its inputs as inputs.")
        looked_up = [one for one in entered if one.made.index and one.sizes]
        first = looked_up or [one for one in entered if one.sizes]
        batch = [one.axes[0] for one in first if one.axes[0]]
        if not batch:
            raise self.refuse("has no input with a batch above 1 in its first axis", "Export it with a batch of 2 or more.")
        sequence = [one.axes[1] for one in looked_up if len(one.sizes) > 1 and one.axes[1]]
        notes = [f"{name}, {count} times: does not change what is trained or where" for name, count in sorted(self.aside.items())]
        return ReadGraph(self.trace.described(results, batch, sequence), tuple(notes), len(nodes))

    def _shape(self, name: str) -> tuple[tuple[int, ...], str]:
        value = self.graph["tensor_values"][name]
        sizes = []
        for size in value["sizes"]:
            found = size["as_int"] if "as_int" in size else (size["as_expr"]["hint"] or {}).get("as_int")
            if not isinstance(found, int) or not 1 <= found <= 2**40:
                raise self.refuse(
                    f"'{name[:80]}' has a size of {str(found)[:40]}", "Export it with sample inputs that are not empty.",
                    "input.graph.shape",
                )
            sizes.append(found)
        return tuple(sizes), _DTYPES.get(value["dtype"], "fp32")

    def _node(self, k: int, node: Mapping[str, Any]) -> None:
        target = str(node["target"])
        kind = target.removeprefix("torch.ops.aten.").partition(".")[0] if target.startswith("torch.ops.aten.") else target
        arguments = {one["name"] or str(n): one["arg"] for n, one in enumerate(node["inputs"])}
        names = [name for argument in arguments.values() for name in _tensors(argument)]
        made = [name for one in node["outputs"] for name in _tensors(one)]
        there = [self.values[name] for name in names if name in self.values]
        if kind in _MADE or not there:
            self.known.update(made)
            return
        title = str(node.get("name") or made[0])
        module = str((node.get("metadata") or {}).get("nn_module_stack", "")).rpartition(";")[2].split(",")
        if len(module) > 1 and module[1]:
            title = f"{module[1]}.{kind}" if not title.startswith(module[1]) else title
        for name, value in zip(made, self._made(kind, title, there, arguments, made, k, target), strict=False):
            self.values[name] = value
        self.known.update(made)

    def _made(
        self, kind: str, title: str, there: list[Value], arguments: Mapping[str, Any], made: list[str], k: int, target: str
    ) -> list[Value]:
        trace, x = self.trace, there[0]
        sizes, dtype = self._shape(made[0])
        if kind in ("permute", "transpose", "t", "movedim", "swapaxes"):
            return [trace.transposed(x, _order(kind, arguments, len(x.sizes)))]
        if kind in _VIEWS:
            if kind in ("dropout", "dropout_", "clone", "contiguous", "to", "_to_copy"):
                self.aside[kind] = self.aside.get(kind, 0) + 1
            return [trace.reshaped(title, x, sizes)]
        if kind in _MAPS:
            active = [one for one in there if not one.made.parameter]
            if not active:
                return [trace.widened(title, x, sizes)]
            whole = all(one.sizes == sizes for one in active) and len(active) == len(there) > 1
            return [trace.map(title, there, sizes, dtype, linear=kind in ("add", "add_") and whole)]
        if kind in _REDUCTIONS:
            axes = [axis % len(x.sizes) for axis in _ints(arguments.get("dim")) or range(len(x.sizes))]
            return [reduction(trace, title, x, axes, sizes, dtype, linear=_REDUCTIONS[kind])]
        if kind in ("softmax", "_softmax", "log_softmax", "_log_softmax"):
            return [softmax(trace, title, x, arguments["dim"]["as_int"], dtype)]
        if kind in ("layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm"):
            count = len(_ints(arguments["normalized_shape"]))
            return [norm(trace, title, x, list(range(len(x.sizes) - count, len(x.sizes))), there[1:], dtype)]
        if kind in ("batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "native_batch_norm"):
            over = [axis for axis in range(len(x.sizes)) if axis != 1]
            return [norm(trace, title, x, over, [one for one in there[1:] if one.made.parameter], dtype, channel=True)]
        if kind in ("linear", "mm", "bmm", "matmul", "addmm", "baddbmm"):
            return [self._product(kind, title, there, sizes, dtype)]
        if kind == "embedding":
            return [self._embedding(title, arguments, sizes, dtype)]
        if kind.removesuffix("_for_cpu") in ("scaled_dot_product_attention", "_scaled_dot_product_flash_attention"):
            causal = bool(arguments.get("is_causal", {}).get("as_bool"))
            return [attention(trace, title, there[:3], sizes, dtype, causal=causal)]
        if kind == "cross_entropy_loss" and len(there) > 1:
            return [loss(trace, title, x, there[1], sizes)]
        if kind in ("convolution", "conv1d", "conv2d", "conv3d"):
            groups = int(arguments.get("groups", {}).get("as_int", 1))
            return [convolution(trace, title, x, there[1], sizes, dtype, groups, there[2] if len(there) > 2 else None)]
        if kind in ("max_pool2d", "avg_pool2d", "max_pool2d_with_indices"):
            window = dict(enumerate(_ints(arguments["kernel_size"]) * 2, len(x.sizes) - 2))
            window = {axis: size for axis, size in window.items() if axis < len(x.sizes)}
            return [reduction(trace, title, x, [], sizes, dtype, linear=False, window=window)]
        if kind in ("adaptive_avg_pool2d", "_adaptive_avg_pool2d", "adaptive_avg_pool1d"):
            axes = [axis for axis in range(2, len(x.sizes)) if sizes[axis] == 1]
            return [reduction(trace, title, x, axes, sizes, dtype, linear=True)]
        if kind in ("cat", "stack", "constant_pad_nd", "pad"):
            return [moved(trace, title, there, sizes, dtype)]
        if kind in ("chunk", "split", "split_with_sizes", "slice", "narrow", "unbind"):
            return [self._cut(f"{title}.{n}" if n else title, x, *self._shape(name)) for n, name in enumerate(made)]
        if kind in ("select", "index", "gather", "index_select"):
            axis = next((a for a, (one, two) in enumerate(zip(x.sizes, (*sizes, 0), strict=False)) if one != two), 0)
            return [gathered(trace, title, x, axis, sizes, dtype)]
        raise self.refuse(
            f"operation {k} '{title[:80]}' is {target[:80]}, which is not read",
            "Give its operators in 'model.graph' by hand, or export the model without it.", "input.graph.kind",
        )

    def _product(self, kind: str, title: str, there: list[Value], sizes: tuple[int, ...], dtype: str) -> Value:
        trace = self.trace
        if kind == "linear":
            weight = trace.transposed(there[1], (1, 0))
            return product(trace, title, there[0], weight, sizes, dtype, bias=there[2] if len(there) > 2 else None)
        if kind in ("addmm", "baddbmm"):
            if len(there) == 2:
                return product(trace, title, there[0], there[1], sizes, dtype)
            bias, one, two = there[:3]
            if bias.made.parameter:
                return product(trace, title, one, two, sizes, dtype, bias=bias)
            return trace.map(f"{title}.add", [bias, product(trace, title, one, two, sizes, dtype)], sizes, dtype, linear=True)
        return product(trace, title, there[0], there[1], sizes, dtype)

    def _embedding(self, title: str, arguments: Mapping[str, Any], sizes: tuple[int, ...], dtype: str) -> Value:
        table = self.values[arguments["weight"]["as_tensor"]["name"]]
        name = arguments["indices"]["as_tensor"]["name"]
        index = self.values.get(name)
        if index is None:
            index = self.trace.enter(f"{title}.index", self._shape(name)[0], "int64")
        return lookup(self.trace, title, table, index, sizes, dtype)

    def _cut(self, title: str, x: Value, sizes: tuple[int, ...], dtype: str) -> Value:
        if len(sizes) < len(x.sizes):
            axis = next((a for a, (one, two) in enumerate(zip(x.sizes, (*sizes, 0), strict=False)) if one != two), 0)
            return gathered(self.trace, title, x, axis, sizes, dtype)
        changed = [k for k, (a, b) in enumerate(zip(x.sizes, sizes, strict=True)) if a != b]
        if len(changed) == 1:
            return part(self.trace, title, x, changed[0], sizes[changed[0]], dtype)
        return moved(self.trace, title, [x], sizes, dtype) if changed else x


def _tensors(argument: Mapping[str, Any]) -> list[str]:
    """The names of the tensors of an argument."""
    if "as_tensor" in argument:
        return [str(argument["as_tensor"]["name"])]
    if "as_tensors" in argument:
        return [str(one["name"]) for one in argument["as_tensors"]]
    if "as_optional_tensors" in argument:
        return [str(one["as_tensor"]["name"]) for one in argument["as_optional_tensors"] if "as_tensor" in one]
    return []


def _ints(argument: Mapping[str, Any] | None) -> list[int]:
    if argument is None:
        return []
    if "as_int" in argument:
        return [int(argument["as_int"])]
    found = argument.get("as_ints") or [one.get("as_int", 0) for one in argument.get("as_sym_ints") or ()]
    return [int(one) for one in found]


def _order(kind: str, arguments: Mapping[str, Any], rank: int) -> list[int]:
    """The axes in their new order."""
    if kind == "permute":
        return [axis % rank for axis in _ints(arguments["dims"])]
    order = list(range(rank))
    if kind == "t":
        return order[::-1]
    a, b = (int(next(iter(one.values()))) % rank for one in list(arguments.values())[1:3])
    if kind == "movedim":
        order.insert(b, order.pop(a))
    else:
        order[a], order[b] = order[b], order[a]
    return order
