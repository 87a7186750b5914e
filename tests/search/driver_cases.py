"""Small random problems of the whole search, and every plan of their spaces, written without any table or bound."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations, pairwise, product

from planproof.cluster import Cluster, Nodes, Tier
from planproof.hardware import load_node
from planproof.model import Attention, MixtureOfExperts, Optimizer, Precision, Transformer, Workload
from planproof.plan import Plan, Recompute, Stage
from planproof.quantity import Dimension, Grade, Provenance, Quantity
from planproof.search.pricing import PlanPricer
from planproof.search.setting import Setting
from planproof.search.space import Limits, UniformSpace
from planproof.search.uneven import UnevenSpace

SOURCE = Provenance(Grade.VENDOR, "written for the test")


def cluster(draw: random.Random, devices: int) -> Cluster:
    """One node, or several small ones: a tier inside a node and a fabric between."""
    sheet = load_node(draw.choice(["dgx_a100", "p3.16xlarge"]))
    per_node = draw.choice([size for size in (1, 2, 4, 8) if devices % size == 0 and size <= devices])
    rate = Quantity(draw.choice([2, 25]) * 10**9, Dimension.BANDWIDTH, SOURCE)
    latency = Quantity(5e-6, Dimension.TIME, SOURCE)
    small = type(sheet)(**{name: getattr(sheet, name) for name in sheet.__slots__} | {"devices": per_node})
    inner = sheet.links[0]
    tiers = (Tier(inner.name, inner.kind.value, per_node, inner.bandwidth, inner.latency),)
    if per_node < devices:
        tiers += (Tier("fabric", "infiniband", devices, rate, latency),)
    return Cluster((Nodes(devices // per_node, small),), tiers)


def problem(seed: int) -> tuple[UniformSpace, PlanPricer]:
    draw = random.Random(seed)
    layers, devices = draw.randint(2, 6), draw.choice([2, 3, 4, 6, 8])
    hidden = draw.choice([1024, 4096, 8192])
    moe = MixtureOfExperts(4, 2, hidden, every=draw.choice([1, 2])) if draw.random() < 0.25 else None
    model = Transformer(
        layers=layers, hidden=hidden, heads=16, kv_heads=4, head_dim=hidden // 16, ffn=4 * hidden,
        vocabulary=draw.choice([32000, 256000]), gated=True, tied_embeddings=draw.random() < 0.3, norm="rms", moe=moe,
    )  # fmt: skip
    work = Workload(
        2048, draw.choice([4, 6, 8]), Precision("bf16", "fp32", "fp32", "fp32"), Optimizer("adamw", 2), Attention.FLASH
    )
    limits = Limits(
        axes=frozenset(draw.sample(["data", "tensor", "expert"], draw.randint(1, 3))) | {"pipeline"},
        microbatches=tuple(draw.sample([1, 2, 4], draw.randint(1, 2))), zeros=(draw.choice([0, 1]),),
        recomputes=tuple(draw.sample([kind.value for kind in Recompute], draw.choice([1, 1, 2]))),
        schedules=(draw.choice(["gpipe", "1f1b", "zb_h1"]),), sequence_parallel=(False,),
    )  # fmt: skip
    there = cluster(draw, devices)
    return UniformSpace(model, work, there, limits), PlanPricer(model, work, there)


def chains(space: UnevenSpace, setting: Setting) -> Iterator[Plan]:
    """Every plan of a setting, written without any table or bound."""
    layers, p = space.uniform.model.layers, setting.stages
    cluster = space.uniform.cluster
    node = min(cluster.devices_per_node, cluster.devices)
    for cuts in combinations(range(1, layers), p - 1):
        edges = (0, *cuts, layers)
        for options in product([(mesh, kind) for mesh in setting.meshes for kind in setting.recomputes], repeat=p):
            meshes, kinds = [mesh for mesh, _ in options], [kind for _, kind in options]
            if sum(mesh.devices for mesh in meshes) != cluster.devices:
                continue
            starts = [sum(mesh.devices for mesh in meshes[:k]) for k in range(p)]
            if len(setting.meshes) > 1:
                if len(set(meshes)) == 1:
                    continue
                if any(start % min(mesh.devices, node) for start, mesh in zip(starts, meshes, strict=True)):
                    continue
            elif len(set(kinds)) == 1 and len({b - a for a, b in pairwise(edges)}) == 1:
                continue
            usual = max(dict.fromkeys(kinds), key=kinds.count)
            stages = tuple(
                Stage(
                    edges[k], edges[k + 1] - 1, meshes[k], embedding=k == 0, head=k == p - 1,
                    recompute=None if kinds[k] is usual else kinds[k],
                )
                for k in range(p)
            )  # fmt: skip
            yield Plan(
                "", stages, setting.sequences // meshes[0].data, setting.accumulation, schedule=setting.schedule,
                recompute=usual, zero=setting.zero, sequence_parallel=setting.sequence_parallel, order=setting.order,
                uniform=False,
            )  # fmt: skip


def everything(space: UniformSpace) -> Iterator[Plan]:
    for shape in space.shapes:
        yield from space.variants(shape)
    uneven = UnevenSpace(space)
    for shape in uneven.shapes:
        for setting in uneven.cuts(shape):
            yield from chains(uneven, setting)
    for setting in uneven.unequal:
        yield from chains(uneven, setting)
