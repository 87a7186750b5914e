"""What an axis sends in a step is what closed forms say, and the order that follows keeps it off slow tiers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planproof.cluster.placement import bytes_by_tier
from planproof.cost.axis_bytes import bytes_by_axis, least_order
from planproof.model import parameters
from time_cases import cluster, gpt, mixture, training, uniform


def test_tensor_sends_two_all_reduces_a_pass_of_each_layer_and_those_of_the_ends() -> None:
    """16 layers x 2 passes x 2 all-reduces of 2,048 x 2,048 activations of 2 bytes, twice each, 8 microbatches; and one
    all-reduce of as much for the embedding forward and one for the head backward.
    """
    sent = bytes_by_axis(uniform(tensor=4, accumulation=8), gpt(), training(8), cluster(nodes=1))
    activation = 2048 * 2048 * 2
    assert sent == {"tensor": 8 * 2 * activation * (16 * 2 * 2 + 2)}


def test_data_sends_the_gradients_once_a_step_twice_round() -> None:
    model = gpt(tied_embeddings=True)
    sent = bytes_by_axis(uniform(data=8, accumulation=4), model, training(32), cluster(nodes=1))
    assert sent["data"] == pytest.approx(2 * 4 * parameters(model), rel=1e-3)


def test_pipeline_sends_activations_on_and_gradients_back() -> None:
    sent = bytes_by_axis(uniform(pipeline=4, accumulation=8), gpt(), training(8), cluster(nodes=1))
    assert sent == {"pipeline": 2 * 8 * 2048 * 2048 * 2}
    two = bytes_by_axis(uniform(pipeline=2, accumulation=8), gpt(), training(8), cluster(nodes=1))
    # Neither of two stages is a middle one.
    assert two == {"pipeline": 8 * 2048 * 2048 * 2}


def test_experts_are_counted_apart_from_the_data_axis_that_they_divide() -> None:
    sent = bytes_by_axis(uniform(data=8, expert=4, accumulation=4), mixture(), training(32), cluster(nodes=1))
    assert set(sent) == {"data", "expert"}


def test_the_tensor_axis_belongs_inside_the_node() -> None:
    """Tensor outermost puts all of its bytes on the fabric: the found order does not."""
    hardware, model, work = cluster(nodes=4), gpt(), training(64)
    plan = replace(uniform(data=4, tensor=8, accumulation=16), order=("data", "tensor", "context", "pipeline"))
    found = least_order(plan, model, work, hardware)
    assert found.order[0] == "tensor"
    assert found.compared == 2
    sent = bytes_by_axis(plan, model, work, hardware)
    stated = dict(bytes_by_tier(hardware, plan.mesh, sent, plan.order))
    assert dict(found.bytes_by_tier)["fabric"] < stated["fabric"]
