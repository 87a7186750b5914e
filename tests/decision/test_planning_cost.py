"""Planning cost: what the proposal states of it, what it does not, and counts that are the same everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from planproof import Options, review
from planproof.decision.review import Review
from planproof.report.record import render_record
from planproof.report.review_json import review_json

BASE = Path(__file__).resolve().parents[2] / "rules" / "bases" / "small.yaml"
STATED = re.compile(r"^planning_cost:.*\n", re.MULTILINE)


def done(folder: Path, cost: str) -> Review:
    path = folder / "proposal.yaml"
    text = STATED.sub("", BASE.read_text(encoding="utf-8")) + cost
    path.write_text(text.replace("tensor: 2", "tensor: 1"), encoding="utf-8")
    return review(path, Options(evaluators="reference"))


def section(record: str) -> str:
    return record.split("## Planning cost\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize(
    ("cost", "said", "missing"),
    [
        ("", "is not stated ('planning_cost')", ["profiling", "change-over"]),
        ("planning_cost: {profiling: 16 device-hours}\n", "Planning costs at least profiling 16 device-hours", ["change-over"]),
        (
            "planning_cost: {profiling: 16 device-hours, change_over: 8 device-hours}\n",
            "Planning costs profiling 16 device-hours and change-over 8 device-hours, 24 device-hours in all",
            [],
        ),
    ],
)
def test_a_part_that_is_not_stated_is_missing_evidence_and_no_zero(
    cost: str, said: str, missing: list[str], tmp_path: Path
) -> None:
    found = done(tmp_path, cost)
    assert said in section(render_record(found)).replace("\\_", "_")
    needs = [one.text.rpartition(", ")[2] for one in found.needs if one.item == "planning_cost"]
    assert needs == missing


def test_the_counts_of_the_search_follow_from_the_inputs_alone(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, two = done(tmp_path / "a", ""), done(tmp_path / "b", "")
    assert one.amortisation is not None
    assert one.space is not None
    assert one.amortisation == two.amortisation
    assert one.amortisation.states >= one.space.bounded > one.amortisation.priced_candidates > 0
    body = review_json(one)["amortisation"]
    assert body["states_expanded"] == one.amortisation.states
    assert body["profiling_device_seconds"] is body["change_over_device_seconds"] is None
