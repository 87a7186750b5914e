"""A timeline shows the simulated step: nothing overlaps on a stream, and its end is the simulation's."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from planproof.cli.main import root
from planproof.cost import Pricer
from planproof.cost.critical import TRANSFER, step_path
from planproof.errors import UsageError
from planproof.pipeline import Options, session
from planproof.plan import Mesh, Plan, Schedule, even_stages
from planproof.proposal import load_proposal, resolve
from planproof.report.timeline import STREAMS, Timeline, render_timeline, timeline, trace_json, trace_svg

PROPOSAL = Path(__file__).resolve().parents[2] / "examples" / "smallest" / "proposal.yaml"
KINDS = {"gpipe": 1, "1f1b": 1, "interleaved_1f1b": 2, "zb_h1": 1}


@pytest.fixture(scope="module")
def pricer() -> Pricer:
    with session(Options(evaluators="reference")) as opened:
        case = resolve(load_proposal(PROPOSAL), opened.library)
    assert case.model is not None
    assert case.workload is not None
    assert case.cluster is not None
    return Pricer(case.model, case.workload, case.cluster)


def line(pricer: Pricer, schedule: str, accumulation: int = 8) -> Timeline:
    stages = even_stages(32, 4, Mesh(data=8))
    assert stages is not None
    plan = Plan("p", stages, 1, accumulation, schedule=Schedule(schedule), interleave=KINDS[schedule])
    return timeline(pricer.price(plan))


@pytest.mark.parametrize("schedule", KINDS)
def test_every_task_is_shown_once_and_streams_carry_one_thing_at_a_time(pricer: Pricer, schedule: str) -> None:
    shown = line(pricer, schedule)
    compute = [one for one in shown.events if one.stream == "compute" and one.microbatch >= 0]
    assert len(compute) == 4 * 8 * KINDS[schedule] * (3 if schedule == "zb_h1" else 2)
    assert max(one.start + one.seconds for one in compute) == pytest.approx(shown.simulation.makespan)
    for stage in range(4):
        busy = sum(one.seconds for one in compute if one.stage == stage)
        assert busy == pytest.approx(shown.simulation.busy[stage])
        for stream in STREAMS:
            bars = sorted((one for one in shown.events if (one.stage, one.stream) == (stage, stream)), key=lambda one: one.start)
            for before, after in pairwise(bars):
                assert after.start >= before.start + before.seconds - 1e-9


def test_the_json_is_a_trace_whose_step_is_the_priced_one(pricer: Pricer) -> None:
    shown = line(pricer, "1f1b")
    body = json.loads(trace_json(shown))
    assert {row["ph"] for row in body["traceEvents"]} == {"M", "X"}
    assert all(row["ts"] >= 0 and row["dur"] >= 0 for row in body["traceEvents"] if row["ph"] == "X")
    whole = body["otherData"]
    priced = pricer.time.simulated(shown.plan)
    parts = whole["pipeline_s"] + whole["exposed_gradient_sync_s"] + whole["optimizer_s"]
    assert parts == pytest.approx(priced.seconds)


@pytest.mark.parametrize("schedule", KINDS)
def test_the_critical_path_of_a_review_is_that_of_the_timeline(pricer: Pricer, schedule: str) -> None:
    shown = line(pricer, schedule)
    path = step_path(shown.plan, pricer.time.simulated(shown.plan), pricer.time, measured=False)
    assert list(path.stages) == pytest.approx(list(shown.simulation.critical.compute_s))
    sent = sum(part.seconds for part in path.parts if part.kind == TRANSFER)
    assert sent == pytest.approx(shown.simulation.critical.transfer_s, abs=1e-9)
    assert list(path.idle) == pytest.approx(list(shown.simulation.bubble))


def test_the_svg_is_well_formed_and_a_long_step_says_what_it_shows(pricer: Pricer) -> None:
    shown = line(pricer, "1f1b", 4000)
    assert shown.shown < shown.microbatches == 4000
    text = trace_svg(shown)
    ElementTree.fromstring(text)
    assert f"the first {shown.shown} of 4000 microbatches" in text


def test_the_command_writes_by_the_ending_and_refuses_others(tmp_path: Path, pricer: Pricer) -> None:
    target = tmp_path / "step.json"
    result = CliRunner().invoke(root, ["estimate", str(PROPOSAL), "--timeline", str(target)])
    assert result.exit_code == 0, result.output
    assert json.loads(target.read_text())["traceEvents"]
    with pytest.raises(UsageError, match="says no format"):
        render_timeline(line(pricer, "1f1b"), "step.png")
