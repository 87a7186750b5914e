"""The operator graph of a vision transformer, alone or before a decoder that reads the picture's tokens beside its text."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .builders import Shape, attention, block, loss, mlp, norm, positioned
from .builders_towers import crossed_layer
from .building import Building, Handle, use
from .graph import OperatorGraph
from .layers import is_moe
from .operator import WHOLE, Kind, Role, Split, Use
from .transformer import Transformer


@dataclass(frozen=True, slots=True)
class VisionTower:
    """A vision transformer (Dosovitskiy et al. 2020, arXiv 2010.11929) on pictures of `image` x `image` pixels.

    The vocabulary of `model` does not count; its learned positions are one for each patch and for the class token.
    `input_norm`: before the layers (CLIP); `layer_scale`: a factor a channel on what a layer adds (InternViT).
    """

    model: Transformer
    image: int
    patch: int
    class_token: bool = True
    patch_bias: bool = False
    input_norm: bool = True
    layer_scale: bool = False

    @property
    def side(self) -> int:
        """Patches along an edge."""
        return self.image // self.patch

    @property
    def tokens(self) -> int:
        """Tokens of one picture in the tower."""
        return self.side * self.side + (1 if self.class_token else 0)


@dataclass(frozen=True, slots=True)
class Projector:
    """From the tower's width to the decoder's: `layers` products with GELU between them, on patches joined `merge` x `merge`."""

    layers: int = 1
    merge: int = 1
    norm: bool = False


def vision_graph(
    tower: VisionTower, images: int, *, decoder: Transformer | None = None, shape: Shape | None = None,
    projector: Projector | None = None, cross: bool = False, dtype: str = "bf16",
) -> OperatorGraph:  # fmt: skip
    """The tower on `images` pictures of all sequences together; with a `decoder` of sequences of `shape`, up to its loss.

    The projected patches, without the class token, stand before the text in the decoder's sequence, whose length counts them
    (LLaVA, arXiv 2304.08485); with `cross` every layer of the decoder attends to them in a cross attention instead.
    """
    build = Building(dtype)
    x = _tower(build, tower, images)
    if decoder is None:
        build.sink(x)
        return build.finish()
    assert shape is not None
    x = _projected(build, tower, projector or Projector(), x, shape.batch, decoder.hidden)
    tokens = {"batch": shape.batch, "sequence": shape.sequence}
    table = build.parameter("table", {"vocabulary": decoder.vocabulary, "hidden": decoder.hidden})
    text = tokens if cross else {**tokens, "sequence": shape.sequence - x.size("sequence")}
    y = build.embedding("embedding", build.source("text", text, Role.INDEX, "int64"), table)
    if not cross:
        y = _joined(build, x, y)
    y = positioned(build, decoder, y)
    for layer in range(decoder.layers):
        if cross:
            y = crossed_layer(build, f"decoder{layer}", decoder, shape, y, x)
        else:
            y = block(build, f"decoder{layer}", decoder, shape, y, moe=is_moe(decoder, layer))
    build.sink(loss(build, decoder, y, table if decoder.tied_embeddings else None, tokens, decoder.vocabulary))
    return build.finish()


def _tower(build: Building, tower: VisionTower, images: int) -> Handle:
    model, side, count = tower.model, tower.side, tower.tokens
    pixels = build.source("pixels", {"batch": images, "channel": 3, "row": tower.image, "column": tower.image})
    grid = {"batch": images, "row": side, "column": side, "hidden": model.hidden}
    patches = build.tensor("patches.out", grid)
    kernel = {"channel": 3, "kernel_row": tower.patch, "kernel_column": tower.patch, "hidden": model.hidden}
    held = [use(build.parameter("patches.weight", kernel), role="weight")]
    if tower.patch_bias:
        held.append(use(build.parameter("patches.bias", {"hidden": model.hidden}), role="bias"))
    build.add(
        "patches", Kind.CONVOLUTION, [Use(pixels.name, ("batch", "channel", "row", "column"))], [use(patches)],
        {**grid, **{dim: n for dim, n in kernel.items() if dim != "hidden"}}, parameters=held,
        splits={"channel": Split.SUM, "kernel_row": Split.WHOLE, "kernel_column": Split.WHOLE},
    )  # fmt: skip
    x = build.tensor("tokens", {"batch": images, "sequence": count, "hidden": model.hidden})
    first = [build.parameter("class_token", {"hidden": model.hidden})] if tower.class_token else []
    build.add(
        "flatten", Kind.RESHAPE, [Use(patches.name, ("batch", WHOLE, WHOLE, "hidden"))],
        [Use(x.name, ("batch", WHOLE, "hidden"))], {"batch": images, "hidden": model.hidden},
        parameters=[use(one, role="bias") for one in first],
    )  # fmt: skip
    positions = build.parameter("tower_positions", {"position": count, "hidden": model.hidden})
    x = build.elementwise("tower_positions_add", [x], parameters=[positions])
    if tower.input_norm:
        x = norm(build, "tower_norm", model, x)
    seen = Shape(images, count, causal=False)
    # Learned positions stand for rotary ones, which a tower has not.
    learned = replace(model, learned_positions=count)
    for layer in range(model.layers):
        name = f"tower{layer}"
        x = _scaled(build, name, learned, seen, x) if tower.layer_scale else block(build, name, learned, seen, x, moe=False)
    return norm(build, "tower_final_norm", model, x) if model.final_norm else x


def _scaled(build: Building, name: str, model: Transformer, shape: Shape, x: Handle) -> Handle:
    """A layer whose two parts are scaled by channel before they are added (Touvron et al. 2021, arXiv 2103.17239)."""
    for part in ("attention", "mlp"):
        y = norm(build, f"{name}.{part}_norm", model, x)
        own = f"{name}.{part}"
        y = attention(build, own, model, shape, y) if part == "attention" else mlp(build, own, model, model.ffn, y)
        scale = build.parameter(f"{own}_scale.weight", {"hidden": model.hidden})
        y = build.elementwise(f"{own}_scale", [y], parameters=[scale])
        x = build.elementwise(f"{own}_add", [x, y], linear=True)
    return x


def _projected(build: Building, tower: VisionTower, form: Projector, x: Handle, batch: int, width: int) -> Handle:
    """The patches of the pictures of each sequence, one after another, in the decoder's width."""
    pictures = x.size("batch") // batch
    patches, merged = tower.side**2 // form.merge**2, x.size("hidden") * form.merge**2
    if tower.class_token or pictures > 1 or form.merge > 1:
        picked = build.tensor("picked", {"batch": batch, "sequence": pictures * patches, "hidden": merged})
        wide = "hidden" if form.merge == 1 else WHOLE
        sizes = {"batch": batch} | ({"hidden": merged} if form.merge == 1 else {})
        uses = [Use(one.name, ("batch", WHOLE, wide)) for one in (x, picked)]
        build.add("pick", Kind.RESHAPE, uses[:1], uses[1:], sizes)
        x = picked
    if form.norm:
        x = build.norm("projector_norm", x, ("hidden",), bias=True)
    over = "hidden"
    for layer in range(form.layers - 1):
        new = "inner" if over == "hidden" else "hidden"
        (x,) = build.linear(f"projector{layer}", x, (over,), {"out": {new: width}}, bias=True)
        x, over = build.elementwise(f"projector{layer}_activation", [x]), new
    out = "width" if over == "hidden" else "hidden"
    (x,) = build.linear("projector", x, (over,), {"out": {out: width}}, bias=True)
    return x.renamed(width="hidden")


def _joined(build: Building, x: Handle, y: Handle) -> Handle:
    """Two runs of tokens in one sequence, which is needed whole there."""
    count = x.size("sequence") + y.size("sequence")
    out = build.tensor("joined", {"batch": y.size("batch"), "sequence": count, "hidden": y.size("hidden")})
    uses = [Use(one.name, ("batch", WHOLE, "hidden")) for one in (x, y, out)]
    build.add("join", Kind.RESHAPE, uses[:2], uses[2:], {"batch": y.size("batch"), "hidden": y.size("hidden")})
    return out
