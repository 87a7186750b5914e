"""How fast `planproof lint` is: its start against a bare interpreter's, and proposals a second over a folder.

    python bench/lint_speed.py [--proposals N] [--jobs J] [--runs R] [--json]

- Start: whole processes, in turn with what they are compared with, so that a busy machine slows both. `lint` of one proposal
  against an interpreter that imports click and yaml and validates one pydantic model of one field; `--help` against a bare
  click program. The ratio is that of the medians.
- Throughput: N proposals that differ in shapes, devices and plan, linted with both evaluators by J processes.
- Memory: the largest resident process of that run, and of one with a quarter of the proposals: flat means equal.

Prints; judges nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

FLOOR = "import click, yaml, pydantic\nclass M(pydantic.BaseModel):\n    x: int\nM.model_validate({'x': 1})\n"
CLICK = "import click\n@click.command()\ndef main(): pass\nmain(['--help'])\n"
LINT = [sys.executable, "-m", "planproof.cli", "lint"]
PROPOSAL = """\
planproof: 1
proposal: {{title: number {number}, date: 2026-11-02, objective: step_time, run_length: {{steps: 20000}}}}
model:
  transformer: {{family: llama, layers: {layers}, hidden: {hidden}, heads: {heads}, kv_heads: 8, ffn: {ffn}, vocabulary: 128256}}
workload:
  sequence_length: {sequence}
  global_batch: {batch} sequences
  precision: {{parameters: bf16, gradients: fp32, master: fp32, moments: fp32}}
  optimizer: adamw
  attention: flash
cluster:
  nodes: {{count: {nodes}, type: {node}}}
  fabric: {{nics: {{count: 8, bandwidth: 400 Gbit/s}}}}
  contention: none
profile: none
layouts: {{allow: [data, tensor, pipeline], schedules: [1f1b]}}
plans:
  - {{name: reference, role: reference, uniform: {{data: {devices}}}, zero: 3, microbatch: 1, recompute: full}}
  - {{name: submitted, role: submitted, schedule: 1f1b, uniform: {{data: {data}, tensor: {tensor}, pipeline: {pipeline}}},
     zero: 1, microbatch: 1, recompute: selective, sequence_parallel: true}}
planning_cost: {{profiling: 64 device-hours}}
"""


def text(number: int) -> str:
    """A proposal that no other number has."""
    tensor, pipeline, nodes = (1, 2, 4, 8)[number % 4], (1, 2, 4)[number // 4 % 3], (4, 8, 16)[number // 12 % 3]
    heads, devices = (32, 40, 64)[number // 36 % 3], nodes * 8
    hidden = heads * 128
    return PROPOSAL.format(
        number=number,
        layers=24 + 8 * (number % 7),
        hidden=hidden,
        heads=heads,
        ffn=4 * hidden,
        sequence=(2048, 4096, 8192)[number % 3],
        batch=512 + 64 * (number % 11),
        nodes=nodes,
        node=("dgx_h100", "dgx_a100", "hgx_h200")[number // 5 % 3],
        devices=devices,
        data=devices // tensor // pipeline,
        tensor=tensor,
        pipeline=pipeline,
    )


#: An installation has its modules compiled; so has a checkout after the first run, unless that is switched off.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def seconds(command: Sequence[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT, check=False)
    return time.perf_counter() - started


def beside(command: Sequence[str], floor: Sequence[str], runs: int) -> dict[str, float]:
    """The medians of both, measured in turn, and their ratio."""
    pairs = [(seconds(command), seconds(floor)) for _ in range(runs + 1)][1:]
    own, other = (statistics.median(column) for column in zip(*pairs, strict=True))
    return {"seconds": round(own, 4), "floor_seconds": round(other, 4), "ratio": round(own / other, 3)}


def throughput(folder: Path, count: int, jobs: int) -> dict[str, float]:
    """Proposals a second, and the largest resident size among the processes of the run."""
    folder.mkdir()
    for number in range(count):
        (folder / f"{number:05}.yaml").write_text(text(number), encoding="utf-8")
    command = [*LINT, str(folder), "--format", "concise", "--jobs", str(jobs), "--fail-on", "never"]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    largest = 0
    while process.poll() is None:
        largest = max(largest, resident(process.pid))
        time.sleep(0.2)
    took = time.perf_counter() - started
    if process.returncode:
        sys.exit(f"lint ended with {process.returncode}")
    rate = round(count / took, 1)
    return {"proposals": count, "jobs": jobs, "seconds": round(took, 2), "per_second": rate, "largest_mib": largest}


def resident(parent: int) -> int:
    """The largest resident size in MiB of a process and those below it; 0 where the system does not tell."""
    sizes, waiting = [0], [parent]
    while waiting:
        pid = waiting.pop()
        try:
            fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
            sizes.append(int(fields.get("VmRSS", "0 kB").split()[0]) // 1024)
            for task in Path(f"/proc/{pid}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except (OSError, ValueError):
            continue
    return max(sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--proposals", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        one = folder / "one.yaml"
        one.write_text(text(1), encoding="utf-8")
        found = {
            "lint_of_one": beside([*LINT, str(one)], [sys.executable, "-c", FLOOR], chosen.runs),
            "help": beside([sys.executable, "-m", "planproof.cli", "--help"], [sys.executable, "-c", CLICK], chosen.runs),
            "lint_of_a_quarter": throughput(folder / "quarter", chosen.proposals // 4, chosen.jobs),
            "lint_of_many": throughput(folder / "many", chosen.proposals, chosen.jobs),
        }
    if chosen.json:
        print(json.dumps(found, indent=2))
        return
    for name, row in found.items():
        print(f"{name:<18} " + "  ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
