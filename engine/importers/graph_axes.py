"""Operations of exported programs by their axes, as `model.tracing` takes them; alike in ONNX, torch and jax. Knows no format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import InputError
from ..model.traced import Value
from ..model.tracing import Trace


def product(
    trace: Trace, title: str, one: Value, two: Value, sizes: Sequence[int], dtype: str, *, bias: Value | None = None
) -> Value:
    """A matrix product as numpy has it: the last axis of `one` with the last but one of `two`, others broadcast."""
    shared = max(len(one.sizes), len(two.sizes)) - 2
    pairs = [(len(one.sizes) - 1, len(two.sizes) - 2 if len(two.sizes) > 1 else 0)]
    left = [f"b{shared - (len(one.sizes) - 2) + k}" for k in range(len(one.sizes) - 2)]
    right = [f"b{shared - (len(two.sizes) - 2) + k}" for k in range(max(0, len(two.sizes) - 2))]
    labels = [*left, *(["m"] if len(one.sizes) > 1 else []), "k"]
    others = [*right, "k", *(["n"] if len(two.sizes) > 1 else [])]
    out = [f"b{k}" for k in range(max(0, shared))] + (["m"] if len(one.sizes) > 1 else []) + (["n"] if len(two.sizes) > 1 else [])
    return general(trace, title, one, two, pairs, labels, others, out, sizes, dtype, bias)


def general(
    trace: Trace, title: str, one: Value, two: Value, pairs: Sequence[tuple[int, int]], left: Sequence[str],
    right: Sequence[str], out: Sequence[str], sizes: Sequence[int], dtype: str, bias: Value | None = None,
) -> Value:  # fmt: skip
    """A product with a label for each axis; labels that both sides have and the result has not are summed."""
    for a, b in pairs:
        if one.sizes[a] != two.sizes[b]:
            raise InputError(
                f"'{title[:80]}' multiplies {one.sizes[a]:,} with {two.sizes[b]:,} elements", code="input.graph.shape",
                remedy="Export the program again.",
            )  # fmt: skip
    if one.made.parameter and not two.made.parameter:
        one, two, left, right = two, one, right, left
    stored = two.made.parameter
    # A weight that was broadcast has an axis there and nothing along it.
    both = {label for label, axis in zip(left, one.axes, strict=True) if axis}
    both &= {label for label, axis in zip(right, two.axes, strict=True) if axis}
    kind = "matmul" if stored and not both & set(out) else "batched_matmul"
    _named(trace, one, two, left, right, out, stored=stored)
    ins: list[tuple[Value, Sequence[str | None]]] = [(one, left), (two, right)]
    if bias is not None:
        ins.append((bias, list(out)[len(out) - len(bias.sizes) :]))
    return trace.add(title, kind, ins, sizes, out, dtype)


def _named(
    trace: Trace, one: Value, two: Value, left: Sequence[str], right: Sequence[str], out: Sequence[str], *, stored: bool
) -> None:
    """Names for people, from what products do: heads are the inner batch of a product of two activations, a head its depth."""
    if stored:
        for k, label in enumerate(right):
            if label in out and label not in left:
                trace.call(two.axes[k], "inner", late=True)
        return
    batch = [k for k, label in enumerate(left) if label in right and label in out]
    depth = [k for k, label in enumerate(left) if label in right and label not in out]
    if len(batch) > 1:
        trace.call(one.axes[batch[-1]], "heads")
        own = set(out) - set(right)
        if len(depth) == 1 and own and one.sizes[depth[0]] <= 512:
            trace.call(one.axes[depth[0]], "head")
        for k, label in enumerate(right):
            if label in out and label not in left and two.sizes[k] <= 512:
                trace.call(two.axes[k], "head")


def lookup(trace: Trace, title: str, table: Value, index: Value, sizes: Sequence[int], dtype: str) -> Value:
    """Rows of a table: the first table of a program has the vocabulary, and its rows are the residual stream."""
    labels = [f"i{k}" for k in range(len(index.sizes))]
    if table.sizes[0] >= 1024:
        trace.call(table.axes[0], "vocabulary")
    trace.call(table.axes[1], "hidden")
    return trace.add(title, "embedding", [(index, labels), (table, ["rows", "width"])], sizes, [*labels, "width"], dtype)


def reduction(
    trace: Trace, title: str, x: Value, axes: Sequence[int], sizes: Sequence[int], dtype: str, *, linear: bool,
    window: Mapping[int, int] | None = None,
) -> Value:  # fmt: skip
    """A reduction over axes, kept as 1 or dropped; with a `window` (axis: size) a pooling that keeps them, strided."""
    labels = [f"a{k}" for k in range(len(x.sizes))]
    kept = [k for k in range(len(x.sizes)) if k not in axes]
    if len(sizes) == len(x.sizes):
        out: Sequence[str | None] = [None if k in axes else f"a{k}" for k in range(len(sizes))]
    else:
        out = [f"a{k}" for k in kept][: len(sizes)]
    windows = {f"a{k}": size for k, size in (window or {}).items() if size > 1}
    return trace.add(title, "reduction", [(x, labels)], sizes, out, dtype, window=windows, linear=linear)


def softmax(trace: Trace, title: str, x: Value, axis: int, dtype: str) -> Value:
    """A softmax over one axis."""
    labels = [f"s{k}" for k in range(len(x.sizes))]
    return trace.add(title, "softmax", [(x, labels)], x.sizes, labels, dtype, over=[labels[axis]])


def norm(
    trace: Trace, title: str, x: Value, axes: Sequence[int], held: Sequence[Value], dtype: str, *, channel: bool = False
) -> Value:
    """A normalisation over axes with its weights, which are over the same axes, or over the second (`channel`)."""
    labels = [f"s{k}" for k in range(len(x.sizes))]
    ins: list[tuple[Value, Sequence[str | None]]] = [(x, labels)]
    for one in held:
        if one.made.parameter:
            ins.append((one, [labels[1]] if channel else labels[len(labels) - len(one.sizes) :]))
    return trace.add(title, "norm", ins, x.sizes, labels, dtype, over=[labels[axis] for axis in axes])


def loss(trace: Trace, title: str, logits: Value, labels: Value, sizes: Sequence[int]) -> Value:
    """The cross-entropy of [batch, classes, ...] with [batch, ...]: a number a label, and one of them where one is made."""
    rest = [f"l{k}" for k in range(len(labels.sizes))]
    trace.call(logits.axes[1], "vocabulary", late=True)
    each = trace.add(
        title, "cross_entropy", [(logits, [*rest[:1], "c", *rest[1:]]), (labels, rest)], labels.sizes, rest, "fp32", over=["c"]
    )
    if tuple(sizes) == labels.sizes:
        return each
    return reduction(trace, f"{title}.mean", each, list(range(len(rest))), sizes, "fp32", linear=True)


def part(trace: Trace, title: str, x: Value, axis: int, size: int, dtype: str) -> Value:
    """A part of an axis, one of equal ones where it divides: which one does not matter to what may be divided.

    Of a weight it is a view: a fused one counts once however often it is cut.
    """
    sizes = tuple(size if k == axis else one for k, one in enumerate(x.sizes))
    if sizes == x.sizes:
        return x
    if x.sizes[axis] % size:
        return moved(trace, title, [x], sizes, dtype)
    cut = trace.reshaped(title, x, (*x.sizes[:axis], x.sizes[axis] // size, size, *x.sizes[axis + 1 :]))
    labels: list[str | None] = [f"p{k}" for k in range(len(cut.sizes))]
    labels[axis] = None
    return trace.add(title, "reshape", [(cut, labels)], sizes, [one for one in labels if one is not None], dtype)


def moved(trace: Trace, title: str, xs: Sequence[Value], sizes: Sequence[int], dtype: str) -> Value:
    """A concatenation, a slice, padding: axes that change their size are needed whole, all others are kept."""
    same = [all(len(x.sizes) == len(sizes) and x.sizes[k] == size for x in xs) for k, size in enumerate(sizes)]
    ins: list[tuple[Value, Sequence[str | None]]] = [
        (x, [f"m{k}" if k < len(same) and same[k] else None for k in range(len(x.sizes))]) for x in xs
    ]
    return trace.add(title, "reshape", ins, sizes, [f"m{k}" if keep else None for k, keep in enumerate(same)], dtype)


def gathered(trace: Trace, title: str, x: Value, axis: int, sizes: Sequence[int], dtype: str) -> Value:
    """What an index picks along one axis: that axis is needed whole, all others are kept."""
    kept = len(sizes) - (len(x.sizes) - 1)
    labels: list[str | None] = [None if k == axis else f"g{k}" for k in range(len(x.sizes))]
    return trace.add(title, "reshape", [(x, labels)], sizes, [*labels[:axis], *[None] * kept, *labels[axis + 1 :]], dtype)


def convolution(
    trace: Trace, title: str, x: Value, weight: Value, sizes: Sequence[int], dtype: str, groups: int, bias: Value | None
) -> Value:
    """A convolution [batch, channels, ...] with [out, in / groups, kernel ...]; a filter a channel, or one group."""
    rank = len(x.sizes) - 2
    by_channel = groups == x.sizes[1] == sizes[1] and groups > 1
    if groups > 1 and not by_channel:
        raise InputError(
            f"'{title[:80]}' is a convolution in {groups} groups; one group, or a filter for each channel, is read",
            code="input.graph.kind", remedy="Give this operator by hand in 'model.graph'.",
        )  # fmt: skip
    space = [f"p{k}" for k in range(rank)]
    kernel = [f"k{k}" for k in range(rank)]
    channel = ("c", "c") if by_channel else ("c", "o")
    ins: list[tuple[Value, Sequence[str | None]]] = [
        (x, ["b", channel[0], *space]),
        (weight, [channel[1], None if by_channel else "c", *kernel]),
    ]
    if bias is not None:
        ins.append((bias, [channel[1]]))
    window = {f"p{k}": weight.sizes[2 + k] for k in range(rank) if weight.sizes[2 + k] > 1}
    return trace.add(title, "convolution", ins, sizes, ["b", channel[1], *space], dtype, window=window)


def attention(
    trace: Trace, title: str, operands: Sequence[Value], sizes: Sequence[int], dtype: str, *, causal: bool,
    heads: tuple[int | None, int | None] = (None, None),
) -> Value:  # fmt: skip
    """Fused attention of [batch, heads, sequence, width], or of [batch, sequence, heads x width] where heads are stated."""
    if len(operands) < 3:
        raise InputError(f"'{title[:80]}' has no query, key and value", code="input.graph.operator", remedy="Export it again.")
    query, key, value = operands[:3]
    flat = len(query.sizes) == 3
    if flat:
        split = []
        for one, count in ((query, heads[0]), (key, heads[1]), (value, heads[1])):
            if not count or one.sizes[2] % count:
                raise InputError(
                    f"'{title[:80]}' does not say into how many heads it divides", code="input.graph.operator",
                    remedy="Export it again.",
                )  # fmt: skip
            split.append(trace.reshaped(title, one, (one.sizes[0], one.sizes[1], count, one.sizes[2] // count)))
        query, key, value = (trace.transposed(one, (0, 2, 1, 3)) for one in split)
    trace.call(query.axes[1], "heads")
    trace.call(key.axes[1], "kv_heads")
    trace.call(query.axes[3], "head")
    ins: list[tuple[Value, Sequence[str | None]]] = [
        (query, ["b", "h", "q", "w"]), (key, ["b", "h", "k", "w"]), (value, ["b", "h", "k", "v"]),
    ]  # fmt: skip
    made = (query.sizes[0], query.sizes[1], query.sizes[2], value.sizes[3])
    out = trace.add(
        title, "attention", ins, made, ["b", "h", "q", "v"], dtype, over=["k"], whole=["w", "v"], causal=causal
    )
    return trace.reshaped(title, trace.transposed(out, (0, 2, 1, 3)), sizes) if flat else out
