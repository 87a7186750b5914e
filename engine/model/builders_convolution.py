"""The operator graph of residual networks of bottlenecks: ResNet and Wide-ResNet."""

from __future__ import annotations

from collections.abc import Sequence

from .building import Building, Handle, use
from .graph import OperatorGraph
from .operator import Kind, Role, Split, Use


def wide_resnet_graph(
    batch: int, *, blocks: Sequence[int] = (3, 4, 6, 3), channels: int = 64, width_factor: int = 2,
    reduction_width_factor: int | None = None, classes: int = 1000, image: int = 224, dtype: str = "bf16",
) -> OperatorGraph:  # fmt: skip
    """A residual network of bottlenecks (He et al. 2015, arXiv 1512.03385), wide ones (Zagoruyko and Komodakis 2016, 1605.07146).

    Groups of `blocks`, the later ones halving the picture and doubling `channels`, which the stem has, too. In a block the 3 x 3
    convolution has `width_factor` times the group's channels, the 1 x 1 before it `reduction_width_factor` times (default: as
    wide, as in torchvision; Alpa's networks: 1), the 1 x 1 after it 4 times. Convolutions without bias, each with a batch norm.
    """
    build = Building(dtype)
    reduced = width_factor if reduction_width_factor is None else reduction_width_factor
    x = build.source("pixels", {"batch": batch, "channel": 3, "row": image, "column": image})
    x = _unit(build, "stem", x, channels, 7, 2)
    x = _pooled(build, "stem.pool", x, 2)
    for group, count in enumerate(blocks):
        own = channels << group
        widths = (reduced * own, width_factor * own, 4 * own)
        for k in range(count):
            x = _bottleneck(build, f"group{group}.block{k}", x, widths, 2 if group and not k else 1)
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


def _bottleneck(build: Building, name: str, x: Handle, widths: tuple[int, int, int], stride: int) -> Handle:
    """1 x 1, 3 x 3 and 1 x 1 to these widths, and the shortcut, projected where shapes differ."""
    reduced, inner, out = widths
    y = _unit(build, f"{name}.a", x, reduced, 1, 1)
    y = _unit(build, f"{name}.b", y, inner, 3, stride)
    y = _unit(build, f"{name}.c", y, out, 1, 1, activate=False)
    if stride > 1 or x.size("channel") != out:
        x = _unit(build, f"{name}.shortcut", x, out, 1, stride, activate=False)
    added = build.elementwise(f"{name}.add", [x, y], linear=True)
    return build.elementwise(f"{name}.relu", [added])
