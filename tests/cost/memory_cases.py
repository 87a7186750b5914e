"""Shapes, plans and a device of round figures for the tests of memory."""

from __future__ import annotations

from dataclasses import replace

from planproof.cluster.cluster import Cluster, Nodes
from planproof.hardware import DeviceSheet, Efficiency, HalfDims, NodeSheet, Origin, Ranged
from planproof.model import Attention, Optimizer, Precision, Transformer, Workload
from planproof.plan import Mesh, Plan, even_stages
from planproof.quantity import Dimension, Grade, Provenance, Quantity

MIB, GIB = 2**20, 2**30
BF16 = Precision("bf16", "fp32", "fp32", "fp32")
FP16 = Precision("fp16", "fp16", "fp32", "fp32")
ADAM = Optimizer("adam", 2)
_SOURCE = Provenance(Grade.ASSUMED, "round figures of a test")


def quantity(value: float, dimension: Dimension = Dimension.BYTES) -> Quantity:
    return Quantity(value, dimension, _SOURCE)


def ranged(value: float, low: float, high: float, dimension: Dimension = Dimension.FRACTION) -> Ranged:
    return Ranged(quantity(value, dimension), low, high)


def device(
    memory: int = 80 * GIB,
    workspace: tuple[float, float, float] = (80 * MIB, 80 * MIB, 80 * MIB),
    reserve: tuple[float, float, float] = (0.1, 0.05, 0.2),
    context: tuple[float, float, float] = (1.5e9, 1.3e9, 1.7e9),
    name: str = "test device",
) -> DeviceSheet:
    """A device of which only the memory matters."""
    share = ranged(0.5, 0.4, 0.6)
    return DeviceSheet(
        name=name, aliases=(), vendor="", architecture="", memory=quantity(memory), memory_usable=None,
        memory_bandwidth=quantity(2e12, Dimension.BANDWIDTH), peak_rates=(),
        launch=ranged(5e-6, 4e-6, 6e-6, Dimension.TIME),
        efficiency=Efficiency(share, HalfDims(1, 1, _SOURCE), share, share, share),
        context=ranged(*context, Dimension.BYTES), workspace=ranged(*workspace, Dimension.BYTES),
        allocator_reserve=ranged(*reserve), origin=Origin("shipped", "test"), sha256=f"{name} {memory}",
    )  # fmt: skip


def cluster(*sheets: DeviceSheet, nodes: int = 1) -> Cluster:
    """`nodes` nodes of eight devices for each of `sheets`."""

    def node(sheet: DeviceSheet) -> NodeSheet:
        return NodeSheet(sheet.name, (), "", sheet, 8, (), None, None, sheet.origin, sheet.sha256)

    return Cluster(tuple(Nodes(nodes, node(sheet)) for sheet in sheets or (device(),)), ())


def gpt(layers: int = 12, hidden: int = 1024, heads: int = 16, vocabulary: int = 51200, **fields: object) -> Transformer:
    """A GPT-2 shape: learned positions, biases, tied head."""
    model = Transformer(
        layers=layers, hidden=hidden, heads=heads, kv_heads=heads, head_dim=hidden // heads, ffn=4 * hidden,
        vocabulary=vocabulary, gated=False, tied_embeddings=True, norm="layer", learned_positions=2048,
        attention_bias=True, output_bias=True, mlp_bias=True,
    )  # fmt: skip
    return replace(model, **fields)


def llama(layers: int = 12, **fields: object) -> Transformer:
    """Llama-3 70B's layer: grouped-query attention, a gated MLP, rotary positions, an untied head."""
    model = Transformer(
        layers=layers, hidden=8192, heads=64, kv_heads=8, head_dim=128, ffn=28672, vocabulary=128256, gated=True,
        tied_embeddings=False, norm="rms",
    )  # fmt: skip
    return replace(model, **fields)


def training(
    sequence: int = 1024,
    *,
    precision: Precision = BF16,
    attention: Attention | None = Attention.FLASH,
    dropout: float = 0.0,
    optimizer: Optimizer = ADAM,
    dynamic_shapes: bool = False,
) -> Workload:
    return Workload(sequence, 64, precision, optimizer, attention, True, dropout, dynamic_shapes)


def uniform(model: Transformer, mesh: Mesh = Mesh(), pipeline: int = 1, **fields: object) -> Plan:  # noqa: B008  # a mesh is frozen
    """A plan of equal stages, microbatch 1 and 8 microbatches unless `fields` says otherwise."""
    stages = even_stages(model.layers, pipeline, mesh)
    assert stages is not None
    return replace(Plan("plan", stages, 1, 8), **fields)
