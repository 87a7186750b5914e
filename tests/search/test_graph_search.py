"""Plans of operator graphs: the whole search against every plan of its space, and the price of a graph against that of shapes."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise, product

import pytest
from driver_cases import cluster
from planproof.cluster import Cluster
from planproof.model import Attention, Optimizer, Precision, Transformer, Workload
from planproof.model.builders import Shape, transformer_graph
from planproof.model.builders_convolution import wide_resnet_graph
from planproof.model.builders_towers import encoder_decoder_graph
from planproof.model.graph_model import GraphModel
from planproof.plan import Mesh, Plan, Recompute, Stage, even_stages
from planproof.search.graph_chains import GraphChains
from planproof.search.graph_pricing import GraphPlanPricer
from planproof.search.graph_search import GraphSearch
from planproof.search.graph_space import GraphSpace, GraphUneven, is_uniform
from planproof.search.measured_work import places
from planproof.search.pricing import PlanPricer
from planproof.search.setting import Setting
from planproof.search.space import Limits

#: Problems that together take a few seconds.
QUICK = (1, 2, 3, 4, 5, 7, 9, 12, 15, 20)
WORK = Workload(256, 8, Precision("bf16", "fp32", "fp32", "fp32"), Optimizer("adamw", 2), Attention.FLASH)


def shapes(layers: int, hidden: int, vocabulary: int = 32000) -> Transformer:
    return Transformer(
        layers=layers, hidden=hidden, heads=16, kv_heads=16, head_dim=hidden // 16, ffn=4 * hidden, vocabulary=vocabulary,
        gated=False, tied_embeddings=False, norm="layer", learned_positions=256, attention_bias=True, output_bias=True,
        mlp_bias=True,
    )  # fmt: skip


def model(draw: random.Random) -> GraphModel:
    kind = draw.choice(["resnet", "towers", "decoder"])
    if kind == "resnet":
        blocks, width = [draw.randint(1, 3), draw.randint(2, 3)], draw.choice([128, 1024, 4096])
        return GraphModel(lambda batch: wide_resnet_graph(batch, blocks=blocks, channels=width, classes=64, image=64))
    hidden, other = draw.choice([1024, 4096]), draw.randint(1, 3)
    if kind == "towers":
        towers = shapes(draw.randint(2, 3), hidden), shapes(other + 1, hidden)
        return GraphModel(
            lambda batch: encoder_decoder_graph(*towers, Shape(batch, 256, causal=False), Shape(batch, 64), buckets=32)
        )
    return GraphModel(lambda batch: transformer_graph(shapes(2 + other, hidden), Shape(batch, 256)))


def problem(seed: int) -> tuple[GraphSpace, GraphPlanPricer]:
    draw = random.Random(seed)
    limits = Limits(
        axes=frozenset(draw.sample(["data", "tensor"], draw.randint(1, 2))) | {"pipeline"},
        microbatches=tuple(draw.sample([1, 2, 4], draw.randint(1, 2))), zeros=(draw.choice([0, 1]),),
        recomputes=tuple(draw.sample(["none", "full"], draw.choice([1, 1, 2]))),
        schedules=(draw.choice(["gpipe", "1f1b", "zb_h1"]),),
    )  # fmt: skip
    there, graph = cluster(draw, draw.choice([2, 3, 4])), model(draw)
    return GraphSpace(graph, WORK, there, limits), GraphPlanPricer(graph, WORK, there)


def chains(uneven: GraphUneven, setting: Setting) -> Iterator[Plan]:
    """Every plan of a setting, written without any table or bound."""
    layers, p, there = uneven.uniform.graph.layers, setting.stages, uneven.uniform.cluster
    node = min(there.devices_per_node, there.devices)
    for cuts in combinations(range(1, layers), p - 1):
        edges = (0, *cuts, layers)
        for options in product(product(setting.meshes, setting.recomputes), repeat=p):
            meshes, kinds = [mesh for mesh, _ in options], [kind for _, kind in options]
            if sum(mesh.devices for mesh in meshes) != there.devices:
                continue
            if len(setting.meshes) > 1 and len(set(meshes)) == 1:
                continue
            starts = [sum(mesh.devices for mesh in meshes[:k]) for k in range(p)]
            places = zip(starts, meshes, strict=True)
            if len(setting.meshes) > 1 and any(start % min(mesh.devices, node) for start, mesh in places):
                continue
            usual = max(dict.fromkeys(kinds), key=kinds.count)
            stages = tuple(
                Stage(a, b - 1, mesh, k == 0, k == p - 1, None if kind is usual else kind)
                for k, ((a, b), mesh, kind) in enumerate(zip(pairwise(edges), meshes, kinds, strict=True))
            )
            plan = Plan(
                "", stages, setting.sequences // meshes[0].data, setting.accumulation, schedule=setting.schedule,
                recompute=usual, zero=setting.zero, order=setting.order, uniform=False,
            )  # fmt: skip
            if not is_uniform(plan):
                yield plan


def everything(space: GraphSpace) -> Iterator[Plan]:
    for shape in space.shapes:
        yield from space.variants(shape)
    uneven = GraphUneven(space)
    for setting in uneven.settings:
        yield from chains(uneven, setting)


@pytest.mark.parametrize("seed", [pytest.param(k, marks=[] if k in QUICK else pytest.mark.long) for k in range(60)])
def test_the_first_candidates_are_those_of_exhaustive_enumeration(seed: int) -> None:
    space, pricer = problem(seed)
    search = GraphSearch(space, pricer)
    plans = list(everything(space))
    assert len(plans) == search.size
    timed = sorted(pricer.seconds(plan) for plan in plans if pricer.fit(plan, pricer.ledger(plan)) != "no")
    found = []
    for one in search.candidates():
        found.append(one)
        if len(found) == 12:
            break
    assert len(found) == min(12, len(timed))
    assert [one.seconds for one in found] == pytest.approx(timed[: len(found)], rel=1e-9)
    assert all(one.seconds == pytest.approx(pricer.seconds(one.plan), rel=1e-9) for one in found)
    assert all(pricer.bound(plan) <= pricer.seconds(plan) for plan in plans[:50])
    assert search.floor >= found[-1].seconds if found else not timed


@pytest.mark.parametrize("kernel", list(Attention))
@pytest.mark.parametrize(("mesh", "pipeline"), [(Mesh(), 1), (Mesh(8), 1), (Mesh(2, 4), 1), (Mesh(2), 4), (Mesh(1, 8), 1)])
def test_a_transformer_by_its_graph_costs_what_it_costs_by_its_shapes(kernel: Attention, mesh: Mesh, pipeline: int) -> None:
    """Parameters exactly; time within 0.5 % and memory within 1 % without a tensor axis, under ZeRO 3 within 3 %.

    On a tensor axis a graph is as with sequence parallelism: time within 5 %; memory within 6 %, for it keeps the gathered
    operand of a product where Megatron-LM keeps its part and gathers again (Korthikanti et al. 2022, section 4.2.2). What differs
    besides: an unfused core's softmax is repeated apart by shapes under selective recomputation (0.7 %; 3.5 % on a tensor axis).
    """
    family = shapes(8, 4096)
    work = Workload(256, 256, WORK.precision, WORK.optimizer, kernel)
    graph = GraphModel(lambda batch: transformer_graph(family, Shape(batch, 256)))
    there = cluster(random.Random(3), 8)
    by_shapes, by_graph = PlanPricer(family, work, there), GraphPlanPricer(graph, work, there)
    assert graph.layers == 8
    stages = even_stages(8, pipeline, mesh)
    assert stages is not None
    for recompute in Recompute:
        for zero in (0, 1, 3) if mesh.data > 1 and pipeline == 1 else (0,):
            plan = Plan("", stages, 8, 4, recompute=recompute, zero=zero, sequence_parallel=mesh.tensor > 1)
            near_time, near_memory = (0.05, 0.06) if mesh.tensor > 1 else (0.03 if zero == 3 else 0.008, 0.01)
            one, two = by_shapes.price(plan), by_graph.price(plan)
            assert two.step.seconds == pytest.approx(one.step.seconds, rel=near_time), (recompute, zero)
            for first, second in zip(one.memory, two.memory, strict=True):
                assert second.device.value == pytest.approx(first.device.value, rel=near_memory), (recompute, zero)
                if mesh.tensor == 1:
                    assert second.row("parameters").bytes == first.row("parameters").bytes


@pytest.mark.parametrize(("seed", "limit"), [(4, 1), (4, 3), (12, 1), (12, 3)])
def test_a_limit_of_work_leaves_what_it_says_it_leaves(monkeypatch: pytest.MonkeyPatch, seed: int, limit: int) -> None:
    # The first plan past the time limit is waited for by the clock; on a busy machine in vain.
    monkeypatch.setattr("planproof.search.uniform.GRACE_S", 1e6)
    whole: list[float] = []
    for one in GraphSearch(*problem(seed)).candidates():
        whole.append(one.seconds)
        if len(whole) == 2 * limit + 2:
            break
    search = GraphSearch(*problem(seed), work_limit=limit)
    found = [one.seconds for one in search.candidates()]
    assert found
    assert found == sorted(found)
    assert (search.tally.cut_off, search.tally.priced) == (True, limit)
    left = min(seconds for seconds in whole if not any(seconds == pytest.approx(one, rel=1e-9) for one in found))
    assert search.floor <= left * (1 + 1e-9)
    late = GraphSearch(*problem(seed), seconds=0.0)
    assert (len(list(late.candidates())), late.tally.cut_off, late.floor) == (1, True, 0.0)


@pytest.mark.parametrize("seed", [1, 2, 3, 5, 8, 13])
def test_the_nearest_miss_is_that_of_every_plan(seed: int) -> None:
    """Of each setting of which nothing fits the plan whose fullest stage exceeds its device by the least, to a thousandth."""
    space, pricer = problem(seed)
    pricer = GraphPlanPricer(pricer.graph, WORK, space.cluster, headroom=0.98)
    uneven, search = GraphUneven(space), GraphSearch(space, pricer)
    tried = 0
    for setting in uneven.settings:
        ledgers = [(plan, pricer.ledger(plan)) for plan in chains(uneven, setting)]
        if not ledgers or any(pricer.fit(plan, ledger) != "no" for plan, ledger in ledgers):
            continue
        least = min(max(map(pricer.stage_excess, ledger)) for _, ledger in ledgers)
        found = search.chains(setting).nearest(None)
        assert found is not None
        plan, stage, excess, row = found
        fullest = pricer.ledger(plan)[stage]
        assert pricer.stage_excess(fullest) == excess == max(map(pricer.stage_excess, pricer.ledger(plan))) > 0
        assert row == max(fullest.rows, key=lambda one: one.bytes).name
        # Equal stages are no plan of the setting, and may be nearer.
        assert excess <= max(1.001 * least, least + 2**20)
        assert excess >= 0.999 * least or is_uniform(plan) or plan.same_meshes is (len(setting.meshes) > 1)
        assert search.chains(setting).nearest(excess // 2) is None
        tried += 1
    assert tried


def test_a_space_says_why_meshes_do_not_differ() -> None:
    """Nodes of two kinds, devices that no few units make up, one node: what is left out is that, not the finer units."""
    graph = GraphModel(lambda batch: wide_resnet_graph(batch, blocks=[2, 2], channels=64, classes=64, image=32))

    def words(there: Cluster) -> list[str]:
        rows = GraphUneven(GraphSpace(graph, WORK, there)).left_out
        return [f"{one.dimension}: {one.reason}" for one in rows if "unequal" in one.dimension]

    one = cluster(random.Random(1), 4)
    assert all("more than" in row and "finer units than 1 " not in row for row in words(one))
    two = replace(one, nodes=(*one.nodes, *one.nodes))
    assert words(two) == ["unequal meshes: the nodes are of several kinds, and submeshes are parts of nodes of one kind"]


def test_selective_recomputation_of_no_attention_is_said_to_be_none() -> None:
    graph = GraphModel(lambda batch: wide_resnet_graph(batch, blocks=[2, 2], channels=64, classes=64, image=32))
    space = GraphSpace(graph, WORK, cluster(random.Random(1), 4), Limits(recomputes=("selective",)))
    assert space.recomputes == (Recompute.NONE,)
    assert any(one.dimension == "recompute selective" for one in space.left_out)


def with_memory(there: Cluster, size: float) -> Cluster:
    """The cluster with so many bytes of memory a device."""
    group = there.nodes[0]
    device = replace(group.device, memory_usable=replace(group.device.memory, value=size))
    return replace(there, nodes=(replace(group, sheet=replace(group.sheet, device=device)),))


def test_which_runs_of_layers_may_fit_is_what_each_ledger_says() -> None:
    """Settings bound each other's answers; asked one by one, every stage at every place gets the same."""
    open_places = closed = 0
    for seed in range(60 if os.environ.get("PLANPROOF_LONG") else 8):
        space, roomy = problem(seed)
        settings = GraphUneven(space).settings
        draw = random.Random(seed)
        # Devices that hold from a third of what the largest stage needs to a little more.
        plans = [plan for shape in space.shapes for plan in space.variants(shape)]
        largest = max((one.allocated.low + one.context.low for plan in plans for one in roomy.ledger(plan)), default=2e10)
        there = with_memory(space.cluster, largest * draw.uniform(0.3, 1.2))
        pricer = GraphPlanPricer(space.graph, WORK, there)
        for setting in draw.sample(settings, min(8, len(settings))):
            chains = GraphChains(pricer, setting)
            alone = GraphPlanPricer(space.graph, WORK, there)
            for stage, option in product(range(setting.stages), range(len(chains.options))):
                allowed = chains._allowed(stage, option)
                for first, last in places(space.graph.layers, stage, setting.stages):
                    expected = alone.stage_fit(chains.probe(option, stage, first, last), stage) != "no"
                    assert allowed[first, last] == expected, (seed, setting, stage, option, first, last)
                    open_places += expected
                    closed += not expected
    assert open_places > 100
    assert closed > 50
