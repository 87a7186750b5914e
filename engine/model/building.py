"""Building operator graphs: operators of a family from named operands, dims called by name as in an einsum.

Vocabulary: a *handle* is a tensor with the names of its dims; operators take handles and give handles. What backward keeps is
settled when the graph is finished: a tensor is counted for the first operator whose backward pass reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from .graph import OPERATOR_LIMIT, GraphError, OperatorGraph, graph_of
from .operator import CONTRACTIONS, WHOLE, Kind, Loop, Operator, Role, Split, Tensor, Use


@dataclass(frozen=True, slots=True)
class Handle:
    """A tensor and the names of its dims."""

    name: str
    dims: tuple[str, ...]
    sizes: tuple[int, ...]

    def size(self, dim: str) -> int:
        """The size of a dim."""
        return self.sizes[self.dims.index(dim)]

    def renamed(self, **names: str) -> Handle:
        """The same tensor with other names for some dims."""
        return replace(self, dims=tuple(names.get(dim, dim) for dim in self.dims))


@dataclass(slots=True)
class Building:
    """A graph in the making. `dtype` is that of activations and parameters."""

    dtype: str = "bf16"
    tensors: list[Tensor] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)

    def tensor(self, name: str, dims: Mapping[str, int], role: Role = Role.ACTIVATION, dtype: str | None = None) -> Handle:
        """A new tensor."""
        handle = Handle(name, tuple(dims), tuple(dims.values()))
        self.tensors.append(Tensor(name, handle.sizes, dtype or self.dtype, role))
        return handle

    def parameter(self, name: str, dims: Mapping[str, int]) -> Handle:
        """A parameter."""
        return self.tensor(name, dims, Role.PARAMETER)

    def add(
        self,
        name: str,
        kind: Kind,
        inputs: Sequence[Use],
        outputs: Sequence[Use],
        sizes: Mapping[str, int],
        *,
        parameters: Sequence[Use] = (),
        splits: Mapping[str, Split] | None = None,
        linear: bool = False,
        causal: bool = False,
        halos: Mapping[str, int] | None = None,
    ) -> None:
        """An operator; loops that `splits` does not name are free. `WHOLE` and dims without a loop need none.

        Raises GraphError for more of them than a graph may have.
        """
        if len(self.operators) >= OPERATOR_LIMIT:
            raise GraphError(
                f"the graph has more than {OPERATOR_LIMIT:,} operators", code="input.graph.size",
                remedy="State the layers of one stage, or of each kind.",
            )  # fmt: skip
        loops = tuple(
            Loop(dim, size, (splits or {}).get(dim, Split.FREE), (halos or {}).get(dim, 0)) for dim, size in sizes.items()
        )
        operator = Operator(
            name, kind, loops, tuple(inputs), tuple(outputs), tuple(parameters), causal=causal, linear=linear
        )
        self.operators.append(operator)

    def source(self, name: str, dims: Mapping[str, int], role: Role = Role.ACTIVATION, dtype: str | None = None) -> Handle:
        """What enters the graph from outside."""
        handle = self.tensor(name, dims, role, dtype)
        self.add(f"{name}.source", Kind.INPUT, (), (use(handle),), dims)
        return handle

    def sink(self, x: Handle) -> None:
        """What leaves the graph."""
        self.add(f"{x.name}.sink", Kind.OUTPUT, (use(x),), (), dict(zip(x.dims, x.sizes, strict=True)))

    def linear(
        self,
        name: str,
        x: Handle,
        over: Sequence[str],
        columns: Mapping[str, Mapping[str, int]],
        *,
        bias: bool = False,
        batch: Sequence[str] = (),
        kind: Kind = Kind.MATMUL,
        repeats: Mapping[str, Mapping[str, str]] | None = None,
        weight: Handle | None = None,
    ) -> list[Handle]:
        """Products of `x` with one weight for each of `columns`, contracted `over` dims of x: fused into one operator.

        `columns` names outputs with their new dims; dims of x that a weight has, too, are `batch` (experts). `repeats[column]`
        maps a new dim to the loop that it follows (keys to heads). `weight`: a parameter in place of a new one.
        """
        sizes = {dim: x.size(dim) for dim in x.dims}
        kept = [dim for dim in x.dims if dim not in over]
        parameters: list[Use] = []
        outputs: list[Use] = []
        handles: list[Handle] = []
        for column, new in columns.items():
            follows = (repeats or {}).get(column, {})
            inner = {dim: sizes[dim] for dim in (*batch, *over)}
            table = weight or self.parameter(f"{name}.{column}.weight", {**inner, **new})
            loops = tuple(follows.get(dim, dim) for dim in table.dims)
            parameters.append(Use(table.name, loops, "weight", bool(follows)))
            out = self.tensor(f"{name}.{column}", {dim: sizes[dim] for dim in kept} | dict(new))
            outputs.append(Use(out.name, tuple(follows.get(dim, dim) for dim in out.dims), column, bool(follows)))
            if bias:
                held = self.parameter(f"{name}.{column}.bias", {dim: sizes[dim] for dim in batch} | dict(new))
                parameters.append(Use(held.name, tuple(follows.get(dim, dim) for dim in held.dims), "bias", bool(follows)))
            handles.append(out)
            for dim, size in new.items():
                if dim not in follows:
                    sizes[dim] = size
        splits = dict.fromkeys(over, Split.SUM)
        self.add(name, kind, (use(x),), outputs, sizes, parameters=parameters, splits=splits)
        return handles

    def elementwise(
        self,
        name: str,
        inputs: Sequence[Handle],
        *,
        linear: bool = False,
        parameters: Sequence[Handle] = (),
        whole: Sequence[str] = (),
    ) -> Handle:
        """A map over equal dims: activation, gate, addition. Dims that `parameters` have and inputs have not are whole."""
        x = inputs[0]
        out = self.tensor(f"{name}.out", dict(zip(x.dims, x.sizes, strict=True)))
        sizes = {dim: size for dim, size in zip(x.dims, x.sizes, strict=True) if dim not in whole}
        held = [Use(one.name, tuple(d if d in sizes else WHOLE for d in one.dims), "bias") for one in parameters]
        self.add(
            name, Kind.ELEMENTWISE, [use(one, whole) for one in inputs], [use(out, whole)], sizes, parameters=held, linear=linear
        )
        return out

    def norm(self, name: str, x: Handle, over: Sequence[str], *, bias: bool, affine: Sequence[str] | None = None) -> Handle:
        """A normalisation over dims, with a weight (and a bias) over `affine` dims, those of `over` by default."""
        out = self.tensor(f"{name}.out", dict(zip(x.dims, x.sizes, strict=True)))
        dims = {dim: x.size(dim) for dim in (over if affine is None else affine)}
        held = [self.parameter(f"{name}.{part}", dims) for part in (("weight", "bias") if bias else ("weight",))]
        self.add(
            name,
            Kind.NORM,
            [use(x)],
            [use(out)],
            dict(zip(x.dims, x.sizes, strict=True)),
            parameters=[use(one, role="bias") for one in held],
            splits=dict.fromkeys(over, Split.STATISTICS),
        )
        return out

    def softmax(self, name: str, x: Handle, over: str) -> Handle:
        """A softmax over one dim."""
        out = self.tensor(f"{name}.out", dict(zip(x.dims, x.sizes, strict=True)))
        sizes = dict(zip(x.dims, x.sizes, strict=True))
        self.add(name, Kind.SOFTMAX, [use(x)], [use(out)], sizes, splits={over: Split.STATISTICS})
        return out

    def embedding(self, name: str, index: Handle, table: Handle) -> Handle:
        """Rows of `table` (rows, width) by index; divided rows give partial sums, each device looking up its own."""
        rows, width = table.dims
        out = self.tensor(f"{name}.out", dict(zip(index.dims, index.sizes, strict=True)) | {width: table.size(width)})
        sizes = dict(zip(out.dims, out.sizes, strict=True)) | {rows: table.size(rows)}
        self.add(
            name, Kind.EMBEDDING, [use(index, role="index")], [use(out)], sizes,
            parameters=[use(table, role="table")], splits={rows: Split.SUM},
        )  # fmt: skip
        return out

    def cross_entropy(self, name: str, logits: Handle, labels: Handle, over: str) -> Handle:
        """The loss of each token; divided classes exchange their maximum, sum and the label's logit."""
        dims = {dim: size for dim, size in zip(logits.dims, logits.sizes, strict=True) if dim != over}
        out = self.tensor(f"{name}.out", dims, dtype="fp32")
        sizes = dict(zip(logits.dims, logits.sizes, strict=True))
        self.add(
            name, Kind.CROSS_ENTROPY, [use(logits), use(labels, role="index")], [use(out)], sizes,
            splits={over: Split.STATISTICS},
        )  # fmt: skip
        return out

    def finish(self) -> OperatorGraph:
        """The graph, checked, with what backward keeps."""
        graph = graph_of(self.tensors, self.operators)
        return OperatorGraph(graph.tensors, keeping(graph.operators, graph.tensors))


def use(handle: Handle, whole: Sequence[str] = (), *, role: str = "x", repeats: bool = False) -> Use:
    """An operand whose loops are its dims; `whole` ones have none."""
    return Use(handle.name, tuple(WHOLE if dim in whole else dim for dim in handle.dims), role, repeats)


def keeping(operators: Sequence[Operator], tensors: Mapping[str, Tensor]) -> tuple[Operator, ...]:
    """The operators with what their backward passes keep, each tensor once, at the first operator that reads it backwards.

    Products keep their operands, normalisation and activation their input, softmax its output, attention queries, keys,
    values and its output; additions, and what only moves data, nothing.
    """
    taken: set[str] = set()
    done: list[Operator] = []
    for operator in operators:
        kind = operator.kind
        names: list[str] = []
        if kind in CONTRACTIONS or kind in (Kind.ATTENTION, Kind.NORM, Kind.CROSS_ENTROPY, Kind.COMBINE, Kind.EMBEDDING):
            names += [one.tensor for one in operator.inputs]
        if kind is Kind.ELEMENTWISE and not operator.linear:
            names += [one.tensor for one in operator.inputs]
        if kind in (Kind.SOFTMAX, Kind.ATTENTION):
            names += [one.tensor for one in operator.outputs]
        kept = [name for name in dict.fromkeys(names) if name not in taken and tensors[name].role is not Role.PARAMETER]
        taken.update(kept)
        done.append(replace(operator, keeps=tuple(kept)))
    return tuple(done)
