"""Clusters and graphs for the tests of operator layouts, and a graph whose names, order and dims mean nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import inf

import numpy as np
from planproof.cluster.cluster import Cluster, Nodes, Tier
from planproof.cost.device_mesh import DeviceMesh, MeshAxis, device_mesh
from planproof.hardware import load_node
from planproof.model import MixtureOfExperts, Optimizer, Precision, Transformer, Workload
from planproof.model.building import keeping
from planproof.model.graph import OperatorGraph, graph_of
from planproof.model.operator import Operator, Tensor, Use
from planproof.model.workload import Attention
from planproof.quantity import Dimension, Grade, Provenance, Quantity
from planproof.search.operator_problem import OperatorProblem, Variable

WORK = Workload(2048, 64, Precision("bf16", "fp32", "fp32", "fp32"), Optimizer("adam", 2, fused=True), Attention.FLASH)
GPT3 = Transformer(
    layers=96, hidden=12288, heads=96, kv_heads=96, head_dim=128, ffn=49152, vocabulary=51200, gated=False,
    tied_embeddings=True, norm="layer", learned_positions=2048, attention_bias=True, output_bias=True, mlp_bias=True,
)  # fmt: skip
LLAMA = Transformer(
    layers=32, hidden=4096, heads=32, kv_heads=8, head_dim=128, ffn=14336, vocabulary=128256, gated=True,
    tied_embeddings=False, norm="rms",
)  # fmt: skip
MIXTRAL = replace(LLAMA, vocabulary=32000, moe=MixtureOfExperts(experts=8, top_k=2, ffn=14336))


def cluster(nodes: int = 1, bandwidth: float = 25e9) -> Cluster:
    """Nodes of eight A100 on NVLink, joined at `bandwidth` bytes/s a device."""
    sheet = load_node("dgx_a100")
    tiers = [Tier(one.name, one.kind.value, one.island, one.bandwidth, one.latency) for one in sheet.links]
    if nodes > 1:
        given = Provenance(Grade.ASSUMED, "a test")
        rate = Quantity(bandwidth, Dimension.BANDWIDTH, given)
        tiers.append(Tier("fabric", "fabric", 8 * nodes, rate, Quantity(5e-6, Dimension.TIME, given)))
    return Cluster((Nodes(nodes, sheet),), tuple(tiers))


def mesh(*axes: tuple[str, int, int]) -> DeviceMesh:
    return device_mesh(tuple(MeshAxis(*axis) for axis in axes))


def disguised(graph: OperatorGraph, seed: int) -> OperatorGraph:
    """The same graph: operators, tensors and dims renamed, operators in another order, the dims of every tensor permuted."""
    chance = random.Random(seed)
    tensors = list(graph.tensors.values())
    names = {one.name: f"t{n}" for one, n in zip(tensors, chance.sample(range(10**6), len(tensors)), strict=True)}
    order = {one.name: chance.sample(range(len(one.sizes)), len(one.sizes)) for one in tensors}
    changed = [
        Tensor(names[one.name], tuple(one.sizes[d] for d in order[one.name]), one.dtype, one.role) for one in tensors
    ]
    operators: list[Operator] = []
    for one, n in zip(graph.operators, chance.sample(range(10**6), len(graph.operators)), strict=True):
        loops = {loop.name: f"d{k}" for loop, k in zip(one.loops, chance.sample(range(999), len(one.loops)), strict=True)}

        def moved(uses: Sequence[Use], loops: dict[str, str] = loops) -> tuple[Use, ...]:
            return tuple(
                replace(use, tensor=names[use.tensor], loops=tuple(loops.get(use.loops[d], "") for d in order[use.tensor]))
                for use in uses
            )

        shuffled = [replace(loop, name=loops[loop.name]) for loop in one.loops]
        chance.shuffle(shuffled)
        operators.append(
            replace(
                one, name=f"o{n}", loops=tuple(shuffled), inputs=moved(one.inputs), outputs=moved(one.outputs),
                parameters=moved(one.parameters), keeps=tuple(names[name] for name in one.keeps),
            )
        )
    chance.shuffle(operators)
    chance.shuffle(changed)
    return graph_of(changed, operators)


def enumerated(problem: OperatorProblem) -> float:
    """The least total over every choice of every variable, segment by segment worked out anew."""
    costs: dict[Variable, list[float]] = {}
    hidden: dict[Variable, list[list[float]]] = {}
    factors = []
    for segment in problem.segments:
        piece = problem._piece(segment)
        costs |= {one: cost.tolist() for one, cost in piece.costs.items()}
        hidden |= {one: rows.tolist() for one, rows in piece.hidden.items()}
        for one in piece.factors:
            hides = np.zeros((2, *one.seconds.shape)) if one.hides is None else one.hides
            factors.append((one.first, one.second, one.seconds.tolist(), hides.tolist()))
    variables = list(costs)
    best = inf
    for choice in product(*(range(len(costs[one])) for one in variables)):
        state = dict(zip(variables, choice, strict=True))
        total = sum(costs[one][s] for one, s in state.items())
        total += sum(table[state[a]][state[b]] for a, b, table, _ in factors)
        for way in (0, 1):
            # What a pass waits for: gathers of all operators less all that hides them.
            over = sum(rows[way][state[one]] for one, rows in hidden.items())
            total += max(0.0, over + sum(hides[way][state[a]][state[b]] for a, b, _, hides in factors))
        best = min(best, total)
    return best


__all__ = ["GPT3", "LLAMA", "MIXTRAL", "WORK", "cluster", "disguised", "enumerated", "keeping", "mesh"]
