"""Operator graphs of more than one tower: an encoder with its decoder, and a vision tower before a decoder."""

from __future__ import annotations

from dataclasses import replace

from .builders import Shape, attention, block, mlp, norm, residual
from .building import Building, Handle, use
from .graph import OperatorGraph
from .operator import WHOLE, Kind, Role, Split, Use
from .transformer import Transformer


def encoder_decoder_graph(
    encoder: Transformer, decoder: Transformer, source: Shape, target: Shape, *, buckets: int = 0, dtype: str = "bf16"
) -> OperatorGraph:
    """An encoder whose output every decoder layer attends to (Vaswani et al. 2017, arXiv 1706.03762); one shared table.

    `buckets`: rows of the relative position table of each tower's first layer, whose attention others share (T5, Raffel et al.
    2019, arXiv 1910.10683). Attention without learned positions is rotary unless `buckets` is stated.
    """
    build = Building(dtype)
    if buckets:
        # Neither rotary nor absolute positions: the table of relative ones stands for them.
        encoder, decoder = replace(encoder, learned_positions=1), replace(decoder, learned_positions=1)
    table = build.parameter("table", {"vocabulary": encoder.vocabulary, "hidden": encoder.hidden})
    ids = build.source("source_tokens", {"batch": source.batch, "sequence": source.sequence}, Role.INDEX, "int64")
    x = build.embedding("source_embedding", ids, table)
    seen = replace(source, causal=False)
    for layer in range(encoder.layers):
        x = _layer(build, f"encoder{layer}", encoder, seen, x, None, buckets if layer == 0 else 0)
    if encoder.final_norm:
        x = norm(build, "encoder_norm", encoder, x)
    tokens = {"batch": target.batch, "sequence": target.sequence}
    y = build.embedding("target_embedding", build.source("target_tokens", tokens, Role.INDEX, "int64"), table)
    for layer in range(decoder.layers):
        y = _layer(build, f"decoder{layer}", decoder, target, y, x, buckets if layer == 0 else 0)
    if decoder.final_norm:
        y = norm(build, "decoder_norm", decoder, y)
    tied = table if decoder.tied_embeddings else None
    (logits,) = build.linear("head", y, ("hidden",), {"logits": {"vocabulary": decoder.vocabulary}}, weight=tied)
    build.sink(build.cross_entropy("loss", logits, build.source("labels", tokens, Role.INDEX, "int64"), "vocabulary"))
    return build.finish()


def _layer(
    build: Building, name: str, model: Transformer, shape: Shape, x: Handle, memory: Handle | None, buckets: int
) -> Handle:
    """Self-attention, cross-attention where there is a memory, MLP, each with its norm and residual."""
    x = residual(
        build, f"{name}.self", model, x, lambda y: attention(build, f"{name}.self", model, shape, y, buckets=buckets)
    )
    if memory is not None:
        x = residual(build, f"{name}.cross", model, x, lambda y: attention(build, f"{name}.cross", model, shape, y, memory))
    return residual(build, f"{name}.mlp", model, x, lambda y: mlp(build, f"{name}.mlp", model, model.ffn, y))


def vision_graph(
    tower: Transformer, images: int, size: int, patch: int, *, decoder: Transformer | None = None, shape: Shape | None = None,
    class_token: bool = True, dtype: str = "bf16",
) -> OperatorGraph:  # fmt: skip
    """A vision transformer (Dosovitskiy et al. 2020, arXiv 2010.11929; norms before and after as in CLIP), then a decoder.

    The tower's vocabulary does not count; `images` of `size` x `size` pixels, three channels, patches of `patch`. With a
    `decoder` every token of its sequence attends to the picture's patches, projected to its width, in cross attention.
    """
    build = Building(dtype)
    pixels = build.source("pixels", {"batch": images, "channel": 3, "row": size, "column": size})
    side = size // patch
    grid = {"batch": images, "row": side, "column": side, "hidden": tower.hidden}
    patches = build.tensor("patches.out", grid)
    kernel = {"channel": 3, "kernel_row": patch, "kernel_column": patch, "hidden": tower.hidden}
    weight = build.parameter("patches.weight", kernel)
    build.add(
        "patches", Kind.CONVOLUTION, [Use(pixels.name, ("batch", "channel", "row", "column"))], [use(patches)],
        {**grid, **{dim: n for dim, n in kernel.items() if dim != "hidden"}},
        parameters=[use(weight, role="weight")],
        splits={"channel": Split.SUM, "kernel_row": Split.WHOLE, "kernel_column": Split.WHOLE},
    )  # fmt: skip
    count = side * side + (1 if class_token else 0)
    x = build.tensor("tokens", {"batch": images, "sequence": count, "hidden": tower.hidden})
    held = [build.parameter("class_token", {"hidden": tower.hidden})] if class_token else []
    build.add(
        "flatten", Kind.RESHAPE, [Use(patches.name, ("batch", WHOLE, WHOLE, "hidden"))],
        [Use(x.name, ("batch", WHOLE, "hidden"))], {"batch": images, "hidden": tower.hidden},
        parameters=[use(one, role="bias") for one in held],
    )  # fmt: skip
    positions = build.parameter("positions", {"position": count, "hidden": tower.hidden})
    x = build.elementwise("add_positions", [x], parameters=[positions])
    x = norm(build, "tower_norm", tower, x)
    seen = Shape(images, count, causal=False)
    learned = replace(tower, learned_positions=count)
    for layer in range(tower.layers):
        x = block(build, f"tower{layer}", learned, seen, x, moe=False)
    if tower.final_norm:
        x = norm(build, "tower_final_norm", tower, x)
    if decoder is not None:
        assert shape is not None
        x = _decoded(build, decoder, shape, x)
    build.sink(x)
    return build.finish()


def _decoded(build: Building, decoder: Transformer, shape: Shape, memory: Handle) -> Handle:
    """The projected patches as the memory of a decoder, up to its loss."""
    (memory,) = build.linear("projector", memory, ("hidden",), {"out": {"width": decoder.hidden}}, bias=True)
    memory = memory.renamed(width="hidden")
    tokens = {"batch": shape.batch, "sequence": shape.sequence}
    table = build.parameter("table", {"vocabulary": decoder.vocabulary, "hidden": decoder.hidden})
    y = build.embedding("embedding", build.source("text", tokens, Role.INDEX, "int64"), table)
    for layer in range(decoder.layers):
        y = _layer(build, f"decoder{layer}", decoder, shape, y, memory, 0)
    if decoder.final_norm:
        y = norm(build, "final_norm", decoder, y)
    tied = table if decoder.tied_embeddings else None
    (logits,) = build.linear("head", y, ("hidden",), {"logits": {"vocabulary": decoder.vocabulary}}, weight=tied)
    return build.cross_entropy("loss", logits, build.source("labels", tokens, Role.INDEX, "int64"), "vocabulary")
