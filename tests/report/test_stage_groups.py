"""Of many stages the telling ones are shown, and a plan that is printed can be pasted back."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from planproof.hardware import open_library
from planproof.plan import Mesh, Plan, Recompute, Role, Schedule, Stage, even_stages
from planproof.proposal import parse_proposal, resolve
from planproof.report.places import first_rank
from planproof.report.record_plans import plan_yaml
from planproof.report.stages import SHOWN, Group, grouped, telling
from report_cases import DENSE


@given(st.lists(st.integers(0, 2), min_size=1, max_size=40))
def test_groups_cover_all_stages_in_order_and_are_alike(keys: list[int]) -> None:
    groups = grouped(len(keys), keys.__getitem__)
    assert [stage for one in groups for stage in range(one.first, one.last + 1)] == list(range(len(keys)))
    assert all(len(set(keys[one.first : one.last + 1])) == 1 for one in groups)
    assert all(keys[one.last] != keys[two.first] for one, two in pairwise(groups))


@given(st.integers(1, 100), st.data())
def test_of_many_groups_first_last_and_the_fullest_are_shown(count: int, data: st.DataObject) -> None:
    peak = data.draw(st.integers(0, count - 1))
    groups = [Group(k, k) for k in range(count)]
    shown, left = telling(groups, peak)
    assert len(shown) + left == count
    assert len(shown) <= SHOWN
    assert {groups[0], groups[peak], groups[-1]} <= set(shown)
    assert shown == sorted(shown, key=lambda one: one.first)


def pasted(text: str) -> Plan | None:
    """The plan that the printed YAML stands for, read as a proposal's."""
    head = DENSE[: DENSE.index("plans:")].replace("TITLE", "x").replace("count: 4", "count: 64")
    whole = head + "plans:\n" + "\n".join("  " + line for line in text.split("\n")) + "\n"
    case = resolve(parse_proposal(whole.encode(), "p.yaml", Path("/nowhere/p.yaml")), open_library(()))
    return case.plans[0].plan


MESH = Mesh(data=2, tensor=4)
UNEVEN = (
    Stage(0, 3, MESH, embedding=True),
    *(Stage(4 + 2 * k, 5 + 2 * k, MESH) for k in range(8)),
    *(Stage(20 + 3 * k, 22 + 3 * k, MESH, recompute=Recompute.FULL) for k in range(3)),
    Stage(29, 30, MESH, layouts=(("mlp", (("ffn", "tensor"),)),)),
    Stage(31, 31, MESH, head=True),
)


@pytest.mark.parametrize(
    "plan",
    [
        Plan("a", (Stage(0, 31, Mesh(data=8), embedding=True, head=True),), 1, 32, zero=3),
        Plan("b: #x", even_stages(32, 4, MESH) or (), 2, 64, Role.SUBMITTED, Schedule.INTERLEAVED, 2, zero=1),
        Plan("c\n```\n- x", UNEVEN, 1, 128, recompute=Recompute.SELECTIVE, sequence_parallel=True, uniform=False),
    ],
)
def test_a_printed_plan_is_the_same_plan_when_it_is_pasted_back(plan: Plan) -> None:
    found = pasted(plan_yaml(plan))
    assert found is not None
    assert (found.name, found.role, found.identity) == (plan.name, plan.role, plan.identity)


def test_stages_alike_are_printed_once_and_what_is_cut_is_said() -> None:
    plan = Plan("c", UNEVEN, 1, 128, uniform=False)
    body = yaml.safe_load(plan_yaml(plan))[0]["stages"]
    assert [(stage["layers"], stage.get("repeat", 1)) for stage in body] == [
        ([0, 3], 1),
        ([4, 5], 8),
        ([20, 22], 3),
        ([29, 30], 1),
        ([31, 31], 1),
    ]
    assert "# 3 more entries" in plan_yaml(plan, 2)


def test_the_first_rank_of_a_stage_follows_the_order_of_axes() -> None:
    stages = even_stages(32, 4, MESH) or ()
    plan = Plan("a", stages, 1, 1)
    assert [first_rank(plan, k) for k in range(4)] == [0, 8, 16, 24]
    inner = replace(plan, order=("tensor", "pipeline", "context", "data"))
    assert [first_rank(inner, k) for k in range(4)] == [0, 4, 8, 12]
    mixed = replace(plan, stages=(Stage(0, 9, Mesh(data=8)), Stage(10, 31, Mesh(data=4))))
    assert [first_rank(mixed, k) for k in range(2)] == [0, 8]
