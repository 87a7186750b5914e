"""Operator layouts: exact, found by themselves, the same whatever things are called."""

from __future__ import annotations

import random
from dataclasses import replace
from math import isclose

import numpy as np
import pytest
from operator_cases import GPT3, LLAMA, MIXTRAL, WORK, cluster, disguised, enumerated, mesh
from planproof.cost.operator_cost import OperatorPricer, Terms
from planproof.errors import InputError
from planproof.model.builders import Shape, transformer_graph
from planproof.model.builders_towers import encoder_decoder_graph
from planproof.model.building import Building
from planproof.model.graph import OperatorGraph
from planproof.model.repeats import alike, segments
from planproof.search.operator_chain import Chain
from planproof.search.operator_problem import OperatorProblem
from planproof.search.operator_search import OperatorLayouts, search_operators
from planproof.search.operators import solve_operators

NODE = cluster()
NVLINK = mesh(("tensor", 8, 1))
BOTH = mesh(("data", 8, 8), ("tensor", 8, 1))


def middle(model: object, layers: int, batch: int, sequence: int = 2048) -> OperatorGraph:
    """Layers of a model without its ends."""
    return transformer_graph(model, Shape(batch, sequence), layers=(0, layers - 1), embedding=False, head=False)


def of(found: OperatorLayouts, axis: str, layer: int = 0) -> dict[str, str]:
    """The loop that an axis divides, by operator of one layer."""
    mark = f"layer{layer}."
    return {one.operator.removeprefix(mark): dict(one.split)[axis] for one in found.layouts if one.operator.startswith(mark)}


MEGATRON = {
    "attention.qkv": "heads", "attention.core": "heads", "attention.output": "heads", "mlp.up": "inner",
    "mlp.activation": "inner", "mlp.down": "inner",
}  # fmt: skip


def test_megatrons_layout_is_found_on_one_node() -> None:
    found = search_operators(middle(GPT3, 2, 1), NVLINK, WORK, NODE, terms=Terms(64))
    assert found.proven
    chosen = of(found, "tensor")
    assert {name: chosen[name] for name in MEGATRON} == MEGATRON
    outside = {chosen[name] for name in ("attention_norm", "attention_add", "mlp_norm", "mlp_add")}
    assert outside == {"sequence"}  # as sequence parallelism has it
    steps = {(step.operation, way) for one in found.conversions for way in ("forward", "backward") for step in getattr(one, way)}
    assert steps == {(name, way) for name in ("all_gather", "reduce_scatter") for way in ("forward", "backward")}


def test_tensor_parallelism_does_not_cross_slow_links() -> None:
    """25 Gbit/s a node between nodes of eight: the axis between nodes divides the batch of every operator."""
    slow = cluster(8, bandwidth=25e9 / 8 / 8)
    found = search_operators(middle(GPT3, 1, 8), mesh(("nodes", 8, 8), ("node", 8, 1)), WORK, slow, terms=Terms(64))
    assert set(of(found, "nodes").values()) == {"batch"}
    assert of(found, "node") | MEGATRON == of(found, "node")


def test_expert_parallelism_is_found_for_an_moe_block() -> None:
    found = search_operators(middle(MIXTRAL, 2, 8, 4096), mesh(("devices", 8, 1)), WORK, NODE, terms=Terms(16))
    chosen = of(found, "devices")
    assert {chosen[f"moe.experts.{name}"] for name in ("up", "activation", "down")} == {"experts"}
    assert chosen["moe.dispatch"] == chosen["moe.combine"] == chosen["attention.core"] == "batch"
    moved = [one for one in found.conversions if ".moe." in one.tensor]
    assert [step.operation for one in moved for step in (*one.forward, *one.backward)] == ["all_to_all"] * 2 * len(moved)


def unrolled(problem: OperatorProblem) -> float:
    """The whole graph as one problem of pairs, every segment's tables worked out anew."""
    costs, edges, tables = {}, [], []
    for segment in problem.segments:
        piece = problem._piece(segment)
        costs |= piece.costs
        edges += [(factor.first, factor.second) for factor in piece.factors]
        tables += [factor.seconds for factor in piece.factors]
    place = {one: k for k, one in enumerate(costs)}
    plan = solve_operators(list(costs.values()), [(place[a], place[b]) for a, b in edges], tables)
    return plan.objective


@pytest.mark.parametrize("model", [replace(GPT3, layers=5), replace(MIXTRAL, layers=4), replace(LLAMA, layers=3)])
def test_segments_eliminated_once_give_the_optimum_of_the_whole_graph(model: object) -> None:
    graph = transformer_graph(model, Shape(8, 2048))
    problem = OperatorProblem(graph, OperatorPricer(WORK, cluster(8), BOTH, Terms(8)))
    chain = Chain(problem)
    assert sum(one is None for one in problem.repeats) < len(problem.segments)
    assert chain.objective == pytest.approx(unrolled(problem), rel=1e-12)


def test_the_parts_add_up_to_the_objective() -> None:
    found = search_operators(transformer_graph(replace(LLAMA, layers=4), Shape(8, 2048)), BOTH, WORK, cluster(8), terms=Terms(8))
    parts = found.compute_s + found.exchange_s + found.conversion_s + found.sync_s + found.optimizer_s
    assert parts == pytest.approx(found.lower_bound, rel=1e-12)
    assert sum(one.seconds for one in found.conversions) == pytest.approx(found.conversion_s, rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("model", [replace(GPT3, layers=4), replace(MIXTRAL, layers=3)])
def test_names_order_and_dims_mean_nothing(model: object, seed: int) -> None:
    graph = middle(model, 4 if model.moe is None else 3, 8)
    other = disguised(graph, seed)
    assert other.parameters == graph.parameters
    assert other.forward_flops == graph.forward_flops
    count = [sum(one is None for one in alike(one_graph, segments(one_graph))) for one_graph in (graph, other)]
    assert count[0] == count[1] < len(segments(graph))
    one, two = (search_operators(g, BOTH, WORK, cluster(8), terms=Terms(16), next_best=False) for g in (graph, other))
    assert two.objective == pytest.approx(one.objective, rel=1e-12)
    assert two.kinds == one.kinds


def test_an_encoder_whose_output_all_decoder_layers_read_is_exact_too() -> None:
    model = replace(LLAMA, layers=2, kv_heads=32, tied_embeddings=True)
    graph = encoder_decoder_graph(model, model, Shape(8, 512), Shape(8, 256))
    problem = OperatorProblem(graph, OperatorPricer(WORK, NODE, NVLINK))
    assert Chain(problem).objective == pytest.approx(unrolled(problem), rel=1e-12)


def random_graph(chance: random.Random, operators: int, reach: int) -> OperatorGraph:
    """Maps and products on one small tensor shape, each reading up to three of the `reach` tensors made last."""
    build = Building()
    dims = {"a": chance.choice((2, 3, 4)), "b": chance.choice((2, 4, 6))}
    made = [build.source("x", dims)]
    for k in range(operators):
        recent = made[-reach:]
        read = chance.sample(recent, min(len(recent), chance.choice((1, 1, 2, 3))))
        if chance.random() < 0.4:
            (out,) = build.linear(f"product{k}", read[0], ("b",), {"out": {"c": dims["b"]}})
            made.append(out.renamed(c="b"))
        else:
            made.append(build.elementwise(f"map{k}", read, linear=chance.random() < 0.5))
    return build.finish()


def agree(seed: int) -> int:
    """The width of one random problem whose optimum was compared with enumeration; -1 where there were too many choices."""
    chance = random.Random(seed)
    graph = random_graph(chance, chance.randint(2, 3), chance.randint(1, 3))
    slow = cluster(2, bandwidth=chance.choice((1e3, 1e6, 1e9)))
    axis = mesh(("pair", 2, chance.choice((1, 8))))
    problem = OperatorProblem(graph, OperatorPricer(WORK, slow, axis, Terms(chance.randint(1, 4), pad=chance.random() < 0.3)))
    counts = [len(rows) for rows in problem.strategies.values()] + [len(rows) for rows in problem.states.values()]
    if np.prod(counts, dtype=float) > 30_000:
        return -1
    chain = Chain(problem)
    assert chain.objective == pytest.approx(enumerated(problem), rel=1e-12)
    return chain.width


def hiding(seed: int) -> float:
    """The excess of one random problem with hidden gathers over enumeration, its bound checked; -1 where it is too large."""
    chance = random.Random(seed)
    graph = random_graph(chance, chance.randint(2, 3), chance.randint(1, 3))
    rate = chance.choice((1e5, 3e5, 1e6, 1e7))
    axis = mesh(("pair", 2, chance.choice((1, 8))))
    zeros = chance.choice(((3,), (0, 3), (2, 3), (0, 1, 2, 3)))
    problem = OperatorProblem(graph, OperatorPricer(WORK, cluster(2, bandwidth=rate), axis, Terms(chance.randint(1, 4))), zeros)
    counts = [len(rows) for rows in problem.strategies.values()] + [len(rows) for rows in problem.states.values()]
    if np.prod(counts, dtype=float) > 30_000:
        return -1.0
    found = search_operators(
        graph, axis, WORK, cluster(2, bandwidth=rate), terms=problem.pricer.terms, zeros=zeros, next_best=False
    )
    exact = enumerated(problem)
    assert found.lower_bound <= exact * (1 + 1e-9)
    assert found.objective >= exact * (1 - 1e-9)
    return found.objective / exact - 1


def test_what_hides_gathers_is_counted_once_and_bounded_by_enumeration() -> None:
    gaps = [gap for gap in (hiding(seed) for seed in range(25)) if gap >= -1e-9]
    assert len(gaps) > 15
    assert sum(gap < 1e-9 for gap in gaps) > 0.8 * len(gaps)


def test_random_graphs_have_the_optimum_of_enumeration() -> None:
    assert sum(agree(seed) >= 1 for seed in range(60)) > 20


@pytest.mark.long
def test_a_thousand_random_graphs_with_hidden_gathers_have_the_optimum_of_enumeration() -> None:
    gaps = [gap for gap in (hiding(seed) for seed in range(1000, 2000)) if gap >= -1e-9]
    assert len(gaps) > 700
    assert sum(gap < 1e-9 for gap in gaps) > 0.95 * len(gaps)


@pytest.mark.long
def test_thousands_of_random_graphs_have_the_optimum_of_enumeration() -> None:
    assert sum(agree(seed) >= 1 for seed in range(1000, 6000)) > 1000


@pytest.mark.parametrize("width", range(1, 9))
def test_chains_of_cliques_of_any_width_equal_enumeration(width: int) -> None:
    """Random problems of pairs of elimination width 1 to 8, as layouts give them: forbidden pairs, ties, negative costs."""
    chance = np.random.default_rng(width)
    for _ in range(6):
        count = width + 2
        nodes = [chance.integers(-4, 9, 2).astype(float) for _ in range(count)]
        edges = [(i, j) for i in range(count) for j in range(i + 1, min(count, i + width + 1))]
        tables = [np.where(chance.random((2, 2)) < 0.1, np.inf, chance.integers(-4, 9, (2, 2))) for _ in edges]
        plan = solve_operators(nodes, edges, tables)
        every = np.indices((2,) * count).reshape(count, -1)
        total = sum(nodes[i][every[i]] for i in range(count))
        total = total + sum(table[every[i], every[j]] for (i, j), table in zip(edges, tables, strict=True))
        assert plan.objective == total.min()
        assert plan.objective == np.inf or plan.width == width


def test_a_budget_is_kept_and_its_optimum_proved_or_bounded() -> None:
    graph = middle(GPT3, 3, 8)
    free = search_operators(graph, NVLINK, WORK, NODE, terms=Terms(4), zeros=(0, 1, 3), next_best=False)
    previous = free.objective
    for share in (0.97, 0.9):
        budget = share * free.memory_bytes
        found = search_operators(graph, NVLINK, WORK, NODE, terms=Terms(4), zeros=(0, 1, 3), budget=budget, next_best=False)
        assert found.memory_bytes <= budget * (1 + 1e-9)
        assert previous * (1 - 1e-9) <= found.objective
        assert found.lower_bound <= found.objective * (1 + 1e-12)
        assert found.gap < 1e-6
        previous = found.objective


def test_a_budget_that_nothing_meets_says_by_how_much_and_what_binds() -> None:
    found = search_operators(middle(GPT3, 2, 8), BOTH, WORK, cluster(8), budget=1e8)
    assert found.objective == np.inf
    assert "more than the budget of 100,000,000" in found.binding
    assert "'layer0.mlp." in found.binding


def test_the_next_best_layout_is_never_better() -> None:
    graph = middle(GPT3, 2, 1)
    found = search_operators(graph, NVLINK, WORK, NODE, terms=Terms(64))
    for one in found.layouts:
        assert one.next_split != one.split
        assert one.next_extra_s >= 0
    core = next(one for one in found.layouts if one.operator == "layer0.attention.core")

    def forbidden(operator: object, split: tuple[str, ...]) -> bool:
        return operator.name != "layer0.attention.core" or split != ("heads",)

    one_layer = middle(GPT3, 1, 1)
    best = search_operators(one_layer, NVLINK, WORK, NODE, terms=Terms(64))
    other = search_operators(one_layer, NVLINK, WORK, NODE, terms=Terms(64), allowed=forbidden)
    extra = next(one.next_extra_s for one in best.layouts if one.operator == "layer0.attention.core")
    assert other.objective - best.objective == pytest.approx(extra, rel=1e-9)
    assert core.copies == 1


@pytest.mark.parametrize("count", [0, 4, 20])
def test_a_mesh_of_many_axes_is_refused_at_once(count: int) -> None:
    with pytest.raises(InputError, match=f"{count} axes"):
        mesh(*((f"axis{k}", 2, 2**k) for k in range(count)))


def test_an_unknown_axis_is_named_with_those_there_are() -> None:
    with pytest.raises(InputError, match="'tensr'") as caught:
        BOTH.index("tensr")
    assert "data, tensor" in str(caught.value.remedy)


def test_a_layout_that_divides_nothing_is_said() -> None:
    found = search_operators(middle(GPT3, 1, 1), NVLINK, WORK, NODE, allowed=lambda operator, split: operator.kind != "norm")
    assert found.objective == np.inf
    assert "norm" in found.binding


def test_next_best_layouts_are_those_of_a_problem_that_forbids_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the least totals of one elimination, and by one elimination for every operator."""
    graph = transformer_graph(replace(MIXTRAL, layers=3), Shape(8, 512), embedding=False, head=False)
    for budget in (None, 1.03e10):
        found = []
        for wide in (False, True):
            if wide:
                for module in ("operator_chain", "operator_tied"):
                    monkeypatch.setattr(f"planproof.search.{module}.least_with_each", lambda *_: None)
            found.append(
                search_operators(graph, mesh(("a", 2, 4), ("b", 4, 1)), WORK, cluster(), terms=Terms(4), budget=budget)
            )
            monkeypatch.undo()
        quick, slow = found
        assert quick.layouts
        for one, other in zip(quick.layouts, slow.layouts, strict=True):
            assert isclose(one.next_extra_s, other.next_extra_s, rel_tol=1e-6, abs_tol=1e-9 * quick.objective)
            assert (one.next_split is None) == (other.next_split is None)


def test_cuts_of_a_wide_segment_have_the_same_table_without_what_is_dominated(monkeypatch: pytest.MonkeyPatch) -> None:
    """And in parts: an MoE block, whose gates, dispatch and combination form a ring."""
    graph = transformer_graph(replace(MIXTRAL, layers=2), Shape(8, 512))
    both = mesh(("a", 2, 4), ("b", 4, 1))
    whole = search_operators(graph, both, WORK, cluster(), terms=Terms(4))
    monkeypatch.setattr("planproof.search.operator_chain.SMALL", 0)
    monkeypatch.setattr("planproof.search.operator_chain.PART", 1000)
    reduced = search_operators(graph, both, WORK, cluster(), terms=Terms(4))
    assert isclose(reduced.objective, whole.objective, rel_tol=1e-12)
    assert reduced.proven
    monkeypatch.setattr("planproof.search.operator_chain.MOST_SUMS", 1000)
    wide = search_operators(graph, both, WORK, cluster(), terms=Terms(4))
    assert whole.objective <= wide.objective * (1 + 1e-9)
    assert wide.gap < 0.05


@pytest.mark.long
def test_an_moe_block_on_three_free_axes_is_exact_with_and_without_a_budget() -> None:
    graph = transformer_graph(MIXTRAL, Shape(16, 4096), layers=(0, 1))
    three = mesh(("a", 4, 16), ("b", 4, 4), ("c", 4, 1))
    free = search_operators(graph, three, WORK, cluster(8), terms=Terms(16), next_best=False)
    tight = search_operators(graph, three, WORK, cluster(8), terms=Terms(16), next_best=False, budget=4e9)
    assert free.proven
    assert tight.proven
    assert tight.memory_bytes <= 4e9 < free.memory_bytes
    assert free.objective < tight.objective
