"""The operator graph of residual networks of bottlenecks: ResNet and Wide-ResNet."""

from __future__ import annotations

from collections.abc import Sequence

from .building import Building, Handle, use
from .graph import OperatorGraph
from .operator import Kind, Role, Split, Use


def wide_resnet_graph(
    batch: int, *, blocks: Sequence[int] = (3, 4, 6, 3), width: int = 128, classes: int = 1000, image: int = 224,
    dtype: str = "bf16",
) -> OperatorGraph:  # fmt: skip
    """A residual network of bottlenecks (He et al. 2015, arXiv 1512.03385) of `width` base channels a group.

    64 is ResNet, 128 Wide-ResNet-2 (Zagoruyko and Komodakis 2016, arXiv 1605.07146). Four groups of `blocks`, the later three
    halving the picture; convolutions without bias, each with a batch norm.
    """
    build = Building(dtype)
    x = build.source("pixels", {"batch": batch, "channel": 3, "row": image, "column": image})
    x = _unit(build, "stem", x, 64, 7, 2)
    x = _pooled(build, "stem.pool", x, 2)
    for group, count in enumerate(blocks):
        for k in range(count):
            x = _bottleneck(build, f"group{group}.block{k}", x, width << group, 256 << group, 2 if group and not k else 1)
    pooled = build.tensor("pool.out", {"batch": batch, "channel": x.size("channel")})
    build.add(
        "pool", Kind.REDUCTION, [use(x)], [use(pooled)], dict(zip(x.dims, x.sizes, strict=True)),
        splits={"row": Split.SUM, "column": Split.SUM}, linear=True,
    )  # fmt: skip
    (logits,) = build.linear("classifier", pooled, ("channel",), {"logits": {"class": classes}}, bias=True)
    labels = build.source("labels", {"batch": batch}, Role.INDEX, "int64")
    build.sink(build.cross_entropy("loss", logits, labels, "class"))
    return build.finish()


def convolution(build: Building, name: str, x: Handle, channels: int, kernel: int, stride: int) -> Handle:
    """A square convolution without bias, padded so that stride 1 keeps the picture's size."""
    rows, columns = -(-x.size("row") // stride), -(-x.size("column") // stride)
    out = build.tensor(f"{name}.out", {"batch": x.size("batch"), "channel": channels, "row": rows, "column": columns})
    weight = build.parameter(f"{name}.weight", {"out": channels, "in": x.size("channel"), "kr": kernel, "kc": kernel})
    sizes = {
        "batch": x.size("batch"), "in": x.size("channel"), "out": channels, "row": rows, "column": columns,
        "kr": kernel, "kc": kernel,
    }  # fmt: skip
    build.add(
        name, Kind.CONVOLUTION, [Use(x.name, ("batch", "in", "row", "column"))],
        [Use(out.name, ("batch", "out", "row", "column"))], sizes, parameters=[use(weight, role="weight")],
        splits={"in": Split.SUM, "kr": Split.WHOLE, "kc": Split.WHOLE},
        halos={"row": kernel // 2, "column": kernel // 2},
    )  # fmt: skip
    return out


def _unit(build: Building, name: str, x: Handle, channels: int, kernel: int, stride: int, *, activate: bool = True) -> Handle:
    """Convolution, batch norm over all but the channels, activation."""
    x = convolution(build, f"{name}.conv", x, channels, kernel, stride)
    x = build.norm(f"{name}.norm", x, ("batch", "row", "column"), bias=True, affine=("channel",))
    return build.elementwise(f"{name}.relu", [x]) if activate else x


def _pooled(build: Building, name: str, x: Handle, stride: int) -> Handle:
    """A maximum over windows: a strided map."""
    rows, columns = -(-x.size("row") // stride), -(-x.size("column") // stride)
    sizes = {"batch": x.size("batch"), "channel": x.size("channel"), "row": rows, "column": columns}
    out = build.tensor(f"{name}.out", sizes)
    build.add(name, Kind.REDUCTION, [Use(x.name, x.dims)], [Use(out.name, out.dims)], sizes, halos={"row": 1, "column": 1})
    return out


def _bottleneck(build: Building, name: str, x: Handle, width: int, channels: int, stride: int) -> Handle:
    """1 x 1 down to `width`, 3 x 3, 1 x 1 up to `channels`, and the shortcut, projected where shapes differ."""
    inner = _unit(build, f"{name}.a", x, width, 1, 1)
    inner = _unit(build, f"{name}.b", inner, width, 3, stride)
    inner = _unit(build, f"{name}.c", inner, channels, 1, 1, activate=False)
    if stride > 1 or x.size("channel") != channels:
        x = _unit(build, f"{name}.shortcut", x, channels, 1, stride, activate=False)
    added = build.elementwise(f"{name}.add", [x, inner], linear=True)
    return build.elementwise(f"{name}.relu", [added])


