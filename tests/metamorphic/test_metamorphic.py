"""Changes of a question whose effect on the answer is known, whatever the answer is."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from planproof.cluster.cluster import Cluster
from planproof.cost import memory_ledger, simulate
from planproof.cost.makespan import makespan
from planproof.cost.memory import feasible
from planproof.cost.schedule import lower_bound
from planproof.cost.simulation import Durations
from planproof.cost.step import TimeModel
from planproof.pipeline import Options, examine, review_loaded, session
from planproof.plan import Plan, Schedule
from planproof.proposal import parse_proposal

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cost"))

from time_cases import cluster, gpt, plans, training

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "smallest" / "proposal.yaml"
FITS = ("no", "at_risk", "yes")
TEXT = """\
planproof: 1
proposal: {objective: step_time, run_length: {steps: 20000}}
model: {transformer: {family: llama, layers: 8, hidden: 2048, heads: 16, kv_heads: 8, ffn: 8192, vocabulary: 32000}}
workload:
  sequence_length: 2048
  global_batch: 32 sequences
  precision: {parameters: bf16, gradients: fp32, master: fp32, moments: fp32}
  optimizer: adamw
  attention: flash
cluster:
  nodes: {count: 2, type: dgx_a100}
  fabric: {nics: {count: 8, bandwidth: 200 Gbit/s}, oversubscription: 1.0, latency: 4 us}
  contention: none
profile: none
layouts: {microbatch: [1], schedules: [1f1b], zero: [1], allow: [data, tensor]}
plans:
  - {name: reference, role: reference, uniform: {data: 16}, zero: 1, microbatch: 1, recompute: full}
  - {name: submitted, role: submitted, uniform: {data: 4, tensor: 4}, zero: 1, microbatch: 1, sequence_parallel: true}
"""


def with_memory(one: Cluster, factor: float) -> Cluster:
    """The same cluster of devices with `factor` times the memory."""
    (nodes,) = one.nodes
    device = nodes.sheet.device
    usable = device.memory_usable
    grown = replace(
        device,
        memory=replace(device.memory, value=device.memory.value * factor),
        memory_usable=replace(usable, value=usable.value * factor) if usable is not None else None,
    )
    return replace(one, nodes=(replace(nodes, sheet=replace(nodes.sheet, device=grown)),))


def slower(one: Cluster, factor: float) -> Cluster:
    """The same cluster of devices that compute and copy at 1 / `factor` of the rate."""
    (nodes,) = one.nodes
    device = nodes.sheet.device
    halved = replace(
        device,
        peak_rates=tuple((name, replace(rate, value=rate.value / factor)) for name, rate in device.peak_rates),
        memory_bandwidth=replace(device.memory_bandwidth, value=device.memory_bandwidth.value / factor),
    )
    return replace(one, nodes=(replace(nodes, sheet=replace(nodes.sheet, device=halved)),))


@settings(max_examples=12)
@given(plans(), st.floats(1.0, 4.0))
def test_more_memory_never_makes_a_plan_infeasible(plan: Plan, factor: float) -> None:
    small, large = (
        feasible(memory_ledger(plan, gpt(), training(), one)) for one in (cluster(), with_memory(cluster(), factor))
    )
    assert FITS.index(large) >= FITS.index(small)


@settings(max_examples=12)
@given(plans(), st.floats(1.0, 8.0), st.floats(1.0, 4.0))
def test_a_faster_link_never_makes_a_plan_slower_and_so_not_the_best_one(plan: Plan, outside: float, inside: float) -> None:
    base = TimeModel(gpt(), training(), cluster()).seconds(plan)
    quick = TimeModel(gpt(), training(), cluster(bandwidth=25e9 * outside, inside=inside)).seconds(plan)
    assert quick <= base * (1 + 1e-9)


@settings(max_examples=12)
@given(plans())
def test_devices_of_half_the_capacity_never_help(plan: Plan) -> None:
    whole, half = cluster(), slower(with_memory(cluster(), 0.5), 2.0)
    assert TimeModel(gpt(), training(), half).seconds(plan) >= TimeModel(gpt(), training(), whole).seconds(plan) * (1 - 1e-9)
    fits = [FITS.index(feasible(memory_ledger(plan, gpt(), training(), one))) for one in (whole, half)]
    assert fits[1] <= fits[0]


TIMES = st.floats(0.001, 10.0)


@settings(max_examples=60)
@given(
    st.sampled_from(Schedule), st.lists(st.builds(Durations, TIMES, TIMES, TIMES), min_size=1, max_size=5),
    st.lists(st.floats(0.0, 1.0), min_size=4, max_size=4), st.integers(1, 12), st.floats(0.1, 100.0),
)  # fmt: skip
def test_scaling_all_times_scales_the_step_and_the_closed_form_bounds_the_simulation(
    schedule: Schedule, stages: list[Durations], gaps: list[float], microbatches: int, factor: float
) -> None:
    interleave = 2 if schedule is Schedule.INTERLEAVED else 1
    sent = gaps[: len(stages) - 1] + ([gaps[-1]] if interleave > 1 else [])
    scaled = [Durations(*(factor * value for value in one)) for one in stages]
    once, _ = makespan(schedule, stages, sent, microbatches, interleave)
    again, _ = makespan(schedule, scaled, [factor * one for one in sent], microbatches, interleave)
    assert again == pytest.approx(factor * once)
    assert lower_bound(schedule, stages, microbatches, interleave, sent[: len(stages) - 1]) <= once * (1 + 1e-9)
    if len(stages) > 1:
        assert simulate(schedule, stages, sent, microbatches, interleave).makespan == pytest.approx(once)


# Whole proposals.


def shuffled(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        rng.shuffle(keys)
        return {key: shuffled(value[key], rng) for key in keys}
    return [shuffled(one, rng) for one in value] if isinstance(value, list) else value


def answers(*texts: str) -> list[tuple[object, ...]]:
    """Of each: the findings by rule, the recommended plan, its time and its fullest rank."""
    found = []
    with session(Options(evaluators="reference", work_limit=20)) as opened:
        for text in texts:
            review = review_loaded(parse_proposal(text.encode(), "p.yaml", Path("/nowhere/p.yaml")), opened)
            best = review.recommended
            assert best is not None
            found.append((sorted((one.rule_id, one.path) for one in review.findings), review.verdict, best))
    return found


def test_the_order_of_keys_and_the_style_of_the_file_change_nothing() -> None:
    data = yaml.safe_load(TEXT)
    moved = yaml.safe_dump(shuffled(data, random.Random(3)), sort_keys=False)
    first, second = answers(TEXT, moved)
    assert first == second


def test_the_order_of_node_kinds_changes_no_finding_of_evidence_or_shape() -> None:
    kinds = ["{count: 1, type: dgx_a100, name: a}", "{count: 1, type: dgx_a100, name: b}"]
    texts = [TEXT.replace("{count: 2, type: dgx_a100}", f"[{', '.join(order)}]") for order in (kinds, kinds[::-1])]
    with session(Options(evaluators="reference")) as opened:
        loaded = [parse_proposal(text.encode(), "p.yaml", Path("/nowhere/p.yaml")) for text in texts]
        rules = [sorted(found.rule_id for found in examine(one, opened).findings) for one in loaded]
    assert rules[0] == rules[1]


def test_names_of_nodes_and_plans_change_nothing_but_themselves() -> None:
    named = TEXT.replace("name: submitted", "name: other").replace("type: dgx_a100}", "type: dgx_a100, name: machine}")
    first, second = answers(TEXT, named)
    assert [rule for rule, _ in first[0]] == [rule for rule, _ in second[0]]
    assert first[1] == second[1]


@pytest.mark.parametrize(
    ("old", "same"),
    [
        ("200 Gbit/s", ("25 GB/s", "25000 MB/s", "0.2 Tbit/s", "25e9 B/s")),
        ("4 us", ("4000 ns", "0.004 ms", "4e-6 s")),
        ("32 sequences", ("65536 tokens",)),
    ],
)  # fmt: skip
def test_units_and_their_multiples_agree(old: str, same: tuple[str, ...]) -> None:
    assert TEXT.count(old) == 1
    with session(Options(evaluators="reference")) as opened:
        facts = []
        for value in (old, *same):
            loaded = parse_proposal(TEXT.replace(old, value).encode(), "p.yaml", Path("/nowhere/p.yaml"))
            base = [one for one in examine(loaded, opened).base if one.kind in ("link", "batch", "group", "memory", "rank")]
            facts.append(sorted((one.kind, one.path, sorted(map(str, one.values.items()))) for one in base))
    assert all(one == facts[0] for one in facts[1:])
    assert facts[0]


@pytest.mark.parametrize(
    "surroundings",
    [
        {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "UTC"},
        {"PYTHONHASHSEED": "2", "LC_ALL": "de_DE.UTF-8", "LANG": "tr_TR.UTF-8", "TZ": "Pacific/Kiritimati", "COLUMNS": "40"},
    ],
    ids=["plain", "elsewhere"],
)
def test_the_record_does_not_depend_on_hashes_locale_or_time_zone(
    surroundings: dict[str, str], record: str, tmp_path: Path
) -> None:
    assert written(tmp_path, surroundings) == record


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("record"), {"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", "TZ": "America/Los_Angeles"})


def written(folder: Path, surroundings: dict[str, str]) -> str:
    # Plans of two axes: a whole space takes no other code, and five times as long.
    text = EXAMPLE.read_text(encoding="utf-8").replace("layouts: all", "layouts: {allow: [data, tensor, pipeline], max_axes: 2}")
    (folder / EXAMPLE.name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "planproof.cli", "review", EXAMPLE.name, "--as-of", "2026-12-01", "--isolated"]
    command += ["--work-limit", "5"]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **surroundings}, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout
