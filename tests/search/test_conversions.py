"""Conversions between layouts are distances, found by search; the layouts that people name are points of the space."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_cases import GPT3, MIXTRAL, WORK, cluster, mesh
from planproof.cost.collectives import Network
from planproof.cost.device_mesh import DeviceMesh, MeshAxis, device_mesh
from planproof.cost.operator_cost import OperatorPricer, Terms
from planproof.cost.tensor_layout import PARTIAL, REPLICATED, LayoutGraph
from planproof.model.builders import Shape, transformer_graph
from planproof.model.operator import Operator, Tensor
from planproof.search.conversions import Conversions
from planproof.search.operator_space import Strategy, operand, operand_gradient, result, strategies

NETWORK = Network(cluster(8))


@st.composite
def shapes(draw: st.DrawFn) -> tuple[DeviceMesh, list[int], bool]:
    sizes = draw(st.lists(st.sampled_from([2, 4]), min_size=1, max_size=2))
    axes, stride = [], 1
    for k, size in enumerate(sizes):
        axes.append(MeshAxis(f"axis{k}", size, stride))
        stride *= size * draw(st.sampled_from([1, 4]))
    dims = draw(st.lists(st.sampled_from([3, 4, 16, 4096]), min_size=1, max_size=3))
    return device_mesh(tuple(reversed(axes))), dims, draw(st.booleans())


@settings(max_examples=40, deadline=None)
@given(shapes())
def test_conversions_obey_the_triangle_inequality_and_are_free_between_equal_layouts(
    case: tuple[DeviceMesh, list[int], bool],
) -> None:
    devices, sizes, pad = case
    table = Conversions(LayoutGraph(devices, NETWORK, 1e12, pad=pad), sizes, 2)
    seconds = table.seconds
    assert (np.diagonal(seconds) == 0).all()
    assert np.isfinite(seconds).all()
    through = (seconds[:, :, None] + seconds[None, :, :]).min(axis=1)
    assert (seconds <= through * (1 + 1e-12)).all()


@settings(max_examples=25, deadline=None)
@given(shapes(), st.data())
def test_the_steps_of_a_conversion_take_what_its_table_says(
    case: tuple[DeviceMesh, list[int], bool], data: st.DataObject
) -> None:
    devices, sizes, pad = case
    table = Conversions(LayoutGraph(devices, NETWORK, 1e12, pad=pad), sizes, 2)
    one, two = (data.draw(st.sampled_from(table.layouts)) for _ in range(2))
    path = table.path(one, two)
    assert sum(step.seconds for step in path) == pytest.approx(table.seconds[table.index[one], table.index[two]], rel=1e-9)
    assert bool(path) == (one != two)


@pytest.mark.parametrize(
    ("source", "target", "steps"),
    [
        ((0,), (REPLICATED,), ["all_gather"]),
        ((REPLICATED,), (0,), ["slice"]),
        ((0,), (1,), ["all_to_all"]),
        ((PARTIAL,), (0,), ["reduce_scatter"]),
        ((REPLICATED,), (PARTIAL,), ["expand"]),
    ],
)
def test_single_steps_are_found_as_such(source: tuple[int, ...], target: tuple[int, ...], steps: list[str]) -> None:
    table = Conversions(LayoutGraph(mesh(("tensor", 8, 1)), NETWORK, 1e12), (2048, 12288), 2)
    assert [step.operation for step in table.path(source, target)] == steps


def test_gathering_the_larger_pieces_alone_needs_a_permutation_first() -> None:
    """Two axes on one dim: to keep the pieces of the outer axis away, devices exchange pieces, then gather."""
    table = Conversions(LayoutGraph(mesh(("outer", 4, 8), ("inner", 2, 1)), NETWORK, 1e12), (4096,), 2)
    path = [step.operation for step in table.path((0, 0), (REPLICATED, 0))]
    assert "permute" in path or path == ["all_gather", "all_gather", "slice"]
    assert [step.operation for step in table.path((0, 0), (0, REPLICATED))] == ["all_gather"]


def test_an_axis_gives_its_place_to_an_equal_one_by_a_permutation() -> None:
    table = Conversions(LayoutGraph(mesh(("a", 2, 2), ("b", 2, 1)), NETWORK, 1e12), (4096, 4096), 2)
    assert [step.operation for step in table.path((0, REPLICATED), (REPLICATED, 0))] == ["permute"]


# Points of the space.

PRICER = OperatorPricer(WORK, cluster(), mesh(("axis", 8, 1)), Terms(8))


def operators(model: object, **ends: bool) -> tuple[dict[str, Operator], dict[str, Tensor]]:
    shape = Shape(8, 4096)
    graph = transformer_graph(model, shape, layers=(0, 0), embedding=ends.get("ends", False), head=ends.get("ends", False))
    return {one.name.removeprefix("layer0."): one for one in graph.operators}, dict(graph.tensors)


def strategy(operator: Operator, tensors: dict[str, Tensor], loop: str, zero: int = 0) -> Strategy:
    """The one strategy of the space with that split and ZeRO stage."""
    (found,) = [
        one for one in strategies(operator, tensors, PRICER, (0, 1, 2, 3)) if one.split == (loop,) and one.zero == zero
    ]
    return found


def layouts(operator: Operator, tensors: dict[str, Tensor], loop: str) -> tuple[int, int, int]:
    """(input, output, gradient of the input) of the first operands under a split of the only axis."""
    x, y = operator.inputs[0], operator.outputs[0]
    return (
        operand(x, tensors[x.tensor], (loop,), (8,))[0],
        result(operator, y, tensors[y.tensor], (loop,), (8,))[0],
        operand_gradient(x, tensors[x.tensor], (loop,), (8,))[0],
    )


def test_megatrons_pair_is_a_column_and_a_row_split() -> None:
    found, tensors = operators(GPT3)
    up, down = found["mlp.up"], found["mlp.down"]
    assert strategy(up, tensors, "inner")
    assert strategy(down, tensors, "inner")
    # Columns: the input whole, the output divided (dim 2), the gradient a sum. Rows: divided, a sum, divided.
    assert layouts(up, tensors, "inner") == (REPLICATED, 2, PARTIAL)
    assert layouts(down, tensors, "inner") == (2, PARTIAL, 2)
    table = Conversions(PRICER.layouts, tensors[down.outputs[0].tensor].sizes, 2)
    steps = [step.operation for step in table.path((PARTIAL,), (REPLICATED,))]
    assert steps in (["all_reduce"], ["reduce_scatter", "all_gather"])
    assert strategy(up, tensors, "inner").spending.state == strategy(up, tensors, "").spending.state / 8


def test_the_vocabulary_divides_embedding_head_and_loss() -> None:
    found, tensors = operators(GPT3, ends=True)
    assert layouts(found["head"], tensors, "vocabulary") == (REPLICATED, 2, PARTIAL)
    embedding = found["embedding"]
    assert layouts(embedding, tensors, "vocabulary")[1] == PARTIAL
    loss = strategy(found["loss"], tensors, "vocabulary")
    whole = strategy(found["loss"], tensors, "")
    assert 0 < loss.spending.exchanged < whole.spending.forward - loss.spending.forward
    assert layouts(found["loss"], tensors, "vocabulary")[:2] == (2, REPLICATED)


def test_experts_divide_where_tokens_were_divided_by_an_exchange() -> None:
    found, tensors = operators(MIXTRAL)
    up = found["moe.experts.up"]
    assert strategy(up, tensors, "experts").spending.sync == 0
    assert strategy(up, tensors, "batch").spending.sync > 0
    slots = up.inputs[0].tensor
    made = layouts(found["moe.dispatch"], tensors, "batch")[1]
    read = layouts(up, tensors, "experts")[0]
    table = Conversions(PRICER.layouts, tensors[slots].sizes, 2)
    assert [step.operation for step in table.path((made,), (read,))] == ["all_to_all"]


def test_fully_sharded_data_parallelism_is_a_batch_split_with_zero_3() -> None:
    found, tensors = operators(GPT3)
    up = found["mlp.up"]
    plain, sharded = strategy(up, tensors, "batch"), strategy(up, tensors, "batch", 3)
    assert sharded.spending.state == plain.spending.state / 8
    assert sharded.spending.sync == 0 < plain.spending.sync
    slow = OperatorPricer(WORK, cluster(8, bandwidth=1e9), mesh(("axis", 8, 8)), Terms(8))
    spent = slow.spending(up, tensors, ("batch",), 3)
    once = slow.network.collective("all_gather", 2 * (12288 * 49152 + 49152), 8, 8).seconds
    back = slow.network.collective("reduce_scatter", 4 * (12288 * 49152 + 49152), 8, 8).seconds
    # Gathered before both passes, gradients scattered after one, less what hides under the computation of each (the
    # bias by itself, with its own latency).
    assert spent.gathered == 0
    assert spent.ahead == pytest.approx(once - 0.85 * spent.forward, rel=1e-4)
    assert spent.behind == pytest.approx(once + back - 0.85 * spent.backward, rel=1e-4)
    assert sharded.spending.optimizer == pytest.approx(plain.spending.optimizer / 8)


def test_context_parallelism_gathers_keys_and_values_and_scatters_their_gradients() -> None:
    found, tensors = operators(GPT3)
    core = found["attention.core"]
    assert strategy(core, tensors, "sequence")
    for use in core.inputs:
        layout = operand(use, tensors[use.tensor], ("sequence",), (8,))[0]
        gradient = operand_gradient(use, tensors[use.tensor], ("sequence",), (8,))[0]
        assert (layout, gradient) == ((1, 1) if use.role == "query" else (REPLICATED, PARTIAL))
    whole, part = strategy(core, tensors, "").spending, strategy(core, tensors, "sequence").spending
    assert part.forward == pytest.approx(whole.forward / 8, rel=1e-3)


def test_zero_stages_hold_what_their_paper_says() -> None:
    """bf16 Adam with fp32 gradients: 18 bytes; 6 + 12 / d, 2 + 16 / d, 18 / d (arXiv 1910.02054)."""
    found, tensors = operators(replace(GPT3, mlp_bias=False))
    count = 12288 * 49152
    held = [strategy(found["mlp.up"], tensors, "batch", zero).spending.state / count for zero in range(4)]
    assert held == pytest.approx([18, 6 + 12 / 8, 2 + 16 / 8, 18 / 8])


def test_padding_lets_dims_divide_at_its_cost() -> None:
    model = replace(GPT3, ffn=49152 + 4)
    graph = transformer_graph(model, Shape(1, 2048), layers=(0, 0), embedding=False, head=False)
    up = next(one for one in graph.operators if one.name == "layer0.mlp.up")
    strict = {one.split for one in strategies(up, graph.tensors, PRICER, (0,))}
    padding = OperatorPricer(WORK, cluster(), mesh(("axis", 8, 1)), Terms(8, pad=True))
    padded = {one.split: one for one in strategies(up, graph.tensors, padding, (0,))}
    assert ("inner",) not in strict
    assert padded["inner",].spending.state > padded["",].spending.state / 8
