"""Clusters, shapes and plans of round figures for the tests of time."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from planproof.cluster.cluster import Cluster, Collective, Nodes, Tier
from planproof.hardware import load_node
from planproof.model import Attention, MixtureOfExperts, Optimizer, Precision, Transformer, Workload
from planproof.plan import Mesh, Plan, Recompute, Schedule, Stage, even_stages
from planproof.quantity import Dimension, Grade, Provenance, Quantity

FP16 = Precision("fp16", "fp32", "fp32", "fp32")
BF16 = Precision("bf16", "fp32", "fp32", "fp32")


def quantity(value: float, dimension: Dimension, grade: Grade = Grade.VENDOR) -> Quantity:
    return Quantity(value, dimension, Provenance(grade, "a test"))


def fabric(span: int, bandwidth: float = 25e9, latency: float = 5e-6, grade: Grade = Grade.VENDOR) -> Tier:
    return Tier("fabric", "fabric", span, quantity(bandwidth, Dimension.BANDWIDTH, grade), quantity(latency, Dimension.TIME))


def cluster(
    node: str = "dgx_a100",
    nodes: int = 8,
    *,
    bandwidth: float = 25e9,
    inside: float = 1.0,
    grade: Grade = Grade.VENDOR,
    collectives: tuple[Collective, ...] = (),
) -> Cluster:
    """`nodes` nodes of a shipped type, joined at `bandwidth` a device; `inside` scales the links inside a node."""
    sheet = load_node(node)
    tiers = [
        Tier(
            one.name,
            one.kind.value,
            one.island,
            replace(one.bandwidth, value=one.bandwidth.value * inside),
            one.latency,
        )
        for one in sheet.links
    ]
    tiers.append(fabric(nodes * sheet.devices, bandwidth, grade=grade))
    return Cluster((Nodes(nodes, sheet),), tuple(tiers), collectives=collectives)


def gpt(layers: int = 16, hidden: int = 2048, heads: int = 16, vocabulary: int = 51200, **fields: object) -> Transformer:
    model = Transformer(
        layers=layers, hidden=hidden, heads=heads, kv_heads=heads, head_dim=hidden // heads, ffn=4 * hidden,
        vocabulary=vocabulary, gated=False, tied_embeddings=True, norm="layer", learned_positions=2048,
        attention_bias=True, output_bias=True, mlp_bias=True,
    )  # fmt: skip
    return replace(model, **fields)


def mixture(layers: int = 16, experts: int = 8) -> Transformer:
    moe = MixtureOfExperts(experts=experts, top_k=2, ffn=4096)
    return gpt(layers, gated=True, norm="rms", tied_embeddings=False, learned_positions=0, moe=moe)


def training(
    global_batch: int = 64, attention: Attention | None = Attention.FLASH, precision: Precision = BF16, **fields: object
) -> Workload:
    work = Workload(2048, global_batch, precision, Optimizer("adam", 2, fused=True), attention)
    return replace(work, **fields)


def uniform(
    layers: int = 16,
    *,
    data: int = 1,
    tensor: int = 1,
    pipeline: int = 1,
    context: int = 1,
    expert: int = 1,
    microbatch: int = 1,
    accumulation: int = 8,
    interleave: int = 1,
    schedule: Schedule = Schedule.ONE_F_ONE_B,
    recompute: Recompute = Recompute.NONE,
    zero: int = 0,
    sequence_parallel: bool = False,
) -> Plan:
    stages = even_stages(layers, pipeline, Mesh(data, tensor, context, expert))
    assert stages is not None
    return Plan(
        "plan", stages, microbatch, accumulation, schedule=Schedule.INTERLEAVED if interleave > 1 else schedule,
        interleave=interleave, recompute=recompute, zero=zero, sequence_parallel=sequence_parallel,
    )  # fmt: skip


@st.composite
def plans(draw: st.DrawFn, layers: int = 16, devices: int = 64) -> Plan:
    """Plans of all kinds on at most `devices`: even and uneven cuts, all schedules, degrees, recomputation, ZeRO."""
    tensor, context = draw(st.sampled_from((1, 2, 4, 8, 16))), draw(st.sampled_from((1, 2)))
    pipeline = draw(st.sampled_from((1, 2, 3, 4, 8)))
    room = max(1, devices // (tensor * context * pipeline))
    data = draw(st.sampled_from([d for d in (1, 2, 4, 8, 16) if d <= room]))
    expert = draw(st.sampled_from([e for e in (1, 2, 4) if data * context % e == 0]))
    mesh = Mesh(data, tensor, context, expert)
    borders = sorted(draw(st.sets(st.integers(1, layers - 1), min_size=pipeline - 1, max_size=pipeline - 1)))
    cuts = [0, *borders, layers]
    recompute = st.sampled_from(Recompute)
    mixed = draw(st.booleans())
    stages = tuple(
        Stage(cuts[k], cuts[k + 1] - 1, mesh, k == 0, k == pipeline - 1, draw(recompute) if mixed else None)
        for k in range(pipeline)
    )
    schedule = draw(st.sampled_from(Schedule))
    return Plan(
        "drawn", stages, draw(st.integers(1, 4)), draw(st.integers(1, 24)), schedule=schedule,
        interleave=draw(st.integers(1, 4)) if schedule is Schedule.INTERLEAVED else 1,
        recompute=draw(recompute), zero=draw(st.integers(0, 3)), sequence_parallel=draw(st.booleans()),
    )  # fmt: skip
