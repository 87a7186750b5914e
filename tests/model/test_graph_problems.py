"""What cannot be a graph is refused at once, by name."""

from __future__ import annotations

import pytest
from planproof.model.graph import GraphError, graph_of
from planproof.model.operator import Kind, Loop, Operator, Role, Tensor, Use

A = Loop("a", 4)


def chain(name: str, read: str, made: str) -> Operator:
    return Operator(name, Kind.ELEMENTWISE, (A,), (Use(read, ("a",)),), (Use(made, ("a",)),))


SOURCE = Operator("source", Kind.INPUT, (A,), (), (Use("x", ("a",)),))


def tensors(*names: str, size: int = 4) -> list[Tensor]:
    return [Tensor(name, (size,), "bf16") for name in names]


def refused(made: list[Tensor], operators: list[Operator]) -> GraphError:
    with pytest.raises(GraphError) as caught:
        graph_of(made, operators)
    assert caught.value.remedy
    return caught.value


def test_a_cycle_is_named_operator_by_operator() -> None:
    found = refused(tensors("x", "y", "z"), [SOURCE, chain("one", "z", "y"), chain("two", "y", "z")])
    assert found.code == "input.graph.cycle"
    assert "one -> two -> one" in found.message or "two -> one -> two" in found.message


def test_a_dangling_edge_is_named() -> None:
    found = refused(tensors("x", "y", "z"), [SOURCE, chain("one", "y", "z")])
    assert (found.operator, found.tensor, found.code) == ("one", "y", "input.graph.dangling")
    assert refused(tensors("x"), [SOURCE, chain("one", "x", "nowhere")]).tensor == "nowhere"


def test_a_shape_that_does_not_match_has_both_sizes() -> None:
    found = refused([*tensors("x"), *tensors("y", size=6)], [SOURCE, chain("one", "x", "y")])
    assert found.code == "input.graph.shape"
    assert "is 4, and in 'y' it is 6" in found.message
    rank = refused([Tensor("x", (4, 2), "bf16")], [SOURCE])
    assert "with 1 dims, and it has 2" in rank.message


@pytest.mark.parametrize("size", [0, -3, 2**41])
def test_a_size_that_cannot_be_is_refused(size: int) -> None:
    assert "the size" in refused(tensors("x", size=size), [SOURCE]).message


def test_a_million_operators_are_refused_before_they_are_looked_at() -> None:
    assert "1,000,000 operators" in refused([], [SOURCE] * 10**6).message


def test_names_are_of_one_thing_each() -> None:
    assert "two operators" in refused(tensors("x"), [SOURCE, SOURCE]).message
    assert "two tensors" in refused(tensors("x", "x"), [SOURCE]).message
    twice = refused(tensors("x", "y"), [SOURCE, chain("one", "x", "y"), chain("two", "x", "y")])
    assert "both 'one' and 'two'" in twice.message
    written = [Tensor("y", (4,), "bf16", Role.PARAMETER), *tensors("x")]
    assert "which is a parameter" in refused(written, [SOURCE, chain("one", "x", "y")]).message
    assert "no operator" in refused([], []).message
    assert "dtype" in refused([Tensor("x", (4,), "float7")], [SOURCE]).message
