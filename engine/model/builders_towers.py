"""The operator graph of an encoder with its decoder."""

from __future__ import annotations

from dataclasses import replace

from .builders import Shape, attention, mlp, norm, residual
from .building import Building, Handle
from .graph import OperatorGraph
from .operator import Role
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
        x = crossed_layer(build, f"encoder{layer}", encoder, seen, x, None, buckets if layer == 0 else 0)
    if encoder.final_norm:
        x = norm(build, "encoder_norm", encoder, x)
    tokens = {"batch": target.batch, "sequence": target.sequence}
    y = build.embedding("target_embedding", build.source("target_tokens", tokens, Role.INDEX, "int64"), table)
    for layer in range(decoder.layers):
        y = crossed_layer(build, f"decoder{layer}", decoder, target, y, x, buckets if layer == 0 else 0)
    if decoder.final_norm:
        y = norm(build, "decoder_norm", decoder, y)
    tied = table if decoder.tied_embeddings else None
    (logits,) = build.linear("head", y, ("hidden",), {"logits": {"vocabulary": decoder.vocabulary}}, weight=tied)
    build.sink(build.cross_entropy("loss", logits, build.source("labels", tokens, Role.INDEX, "int64"), "vocabulary"))
    return build.finish()


def crossed_layer(
    build: Building, name: str, model: Transformer, shape: Shape, x: Handle, memory: Handle | None, buckets: int = 0
) -> Handle:
    """Self-attention, cross-attention where there is a memory, MLP, each with its norm and residual."""
    x = residual(
        build, f"{name}.self", model, x, lambda y: attention(build, f"{name}.self", model, shape, y, buckets=buckets)
    )
    if memory is not None:
        x = residual(build, f"{name}.cross", model, x, lambda y: attention(build, f"{name}.cross", model, shape, y, memory))
    return residual(build, f"{name}.mlp", model, x, lambda y: mlp(build, f"{name}.mlp", model, model.ffn, y))
