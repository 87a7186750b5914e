"""Long and entangled graphs: work that grows as the graph does, and a bound with a proven gap where elimination is too wide."""

from __future__ import annotations

import random
from itertools import pairwise
from time import process_time

import pytest
from operator_cases import WORK, cluster, mesh
from planproof.cost.operator_cost import Terms
from planproof.model.described import DescribedGraph, DescribedOperator, Operand, Size, built
from planproof.model.graph import OperatorGraph
from planproof.search.operator_search import OperatorLayouts, search_operators

SIZES = {"batch": Size(1, ("microbatch",)), "hidden": Size(4096), "inner": Size(16384)}


def between(rows: list[DescribedOperator], last: tuple[str, ...]) -> OperatorGraph:
    """A product, the rows, and a product of what is `last`."""
    row, wide = ("batch", "hidden"), ("batch", "inner")
    weight = {"weight": Operand("up:w", ("hidden", "inner"))}
    up = DescribedOperator("up", "matmul", (Operand("x"),), (Operand("up", wide),), weight)
    sums = DescribedOperator("sum", "add", tuple(map(Operand, last)), (Operand("sum", wide),))
    down = DescribedOperator(
        "down", "matmul", (Operand("sum"),), (Operand("down", row),), {"weight": Operand("down:w", ("inner", "hidden"))}
    )
    return built(DescribedGraph(SIZES, {"x": Operand("x", row)}, (up, *rows, sums, down)), 8, 1)


def chain(count: int) -> OperatorGraph:
    """Elementwise operators in a row."""
    names = ["up", *(f"e{k}" for k in range(count))]
    rows = [
        DescribedOperator(b, "elementwise", (Operand(a),), (Operand(b, ("batch", "inner")),))
        for a, b in pairwise(names)
    ]
    return between(rows, (names[-1],))


def entangled(count: int, reads: int) -> OperatorGraph:
    """Additions that each read any of those before them."""
    draw, names, rows = random.Random(1), ["up"], []
    for k in range(count):
        read = draw.sample(names, min(len(names), reads))
        rows.append(DescribedOperator(f"r{k}", "add", tuple(map(Operand, read)), (Operand(f"r{k}", ("batch", "inner")),)))
        names.append(f"r{k}")
    return between(rows, tuple(names[-reads:]))


def found(graph: OperatorGraph) -> OperatorLayouts:
    return search_operators(graph, mesh(("tensor", 4, 1)), WORK, cluster(), terms=Terms(16), zeros=(0,), next_best=False)


def test_a_long_chain_takes_time_in_proportion_to_its_length() -> None:
    seconds = []
    for count in (250, 2000):
        graph = chain(count)
        begin = process_time()
        plan = found(graph)
        seconds.append(process_time() - begin)
        assert plan.proven
        assert plan.operators == count + 5
    # Eight times the operators; a square would be sixty-four times the seconds.
    assert seconds[1] < 24 * seconds[0] + 0.5


def test_a_block_too_entangled_to_eliminate_has_a_layout_and_a_proven_gap() -> None:
    begin = process_time()
    plan = found(entangled(60, 6))
    assert process_time() - begin < 30
    assert plan.method == "relaxation"
    assert 0 < plan.lower_bound <= plan.objective < float("inf")
    assert plan.gap < 0.05
    assert len(plan.layouts) == plan.operators


@pytest.mark.parametrize(("count", "reads"), [(6, 2), (9, 3), (12, 2)])
def test_the_bound_and_the_layout_of_an_entangled_block_enclose_the_exact_minimum(
    count: int, reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = entangled(count, reads)
    exact = found(graph)
    assert exact.method == "elimination"
    monkeypatch.setattr("planproof.search.operator_chain.MOST_SUMS", 1)
    for name in ("LARGEST_TABLE", "SMALL_TABLE", "MOST_SUMS", "ALL_TABLES"):
        monkeypatch.setattr(f"planproof.search.operators.{name}", 60)
    near = found(graph)
    assert near.method == "relaxation"
    assert near.lower_bound <= exact.objective * (1 + 1e-9)
    assert exact.objective <= near.objective * (1 + 1e-9)
    assert near.gap < 0.2
