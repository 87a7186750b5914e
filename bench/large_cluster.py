"""How long a large cluster takes: described, placed and drawn by `planproof cluster`, and priced by `planproof estimate`.

    python bench/large_cluster.py [--devices 16384] [--review] [--json]

Each command runs in a process of its own, start of the interpreter included; wall time, CPU time and peak memory are the
operating system's. Reach: 2 s and 300 MiB for 16,384 devices. With `--review` also the whole review of the same proposal
(60 s) and of GPT-3 175B on 1,024 devices, the shipped example (10 s and 500 MiB).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROPOSAL = """\
planproof: 1
proposal: {{title: a large cluster, objective: step_time, run_length: {{tokens: 15 Ttokens}}}}
model: {{transformer: {{family: llama, layers: 128, hidden: 16384, heads: 128, kv_heads: 8, ffn: 53248, vocabulary: 128256}}}}
workload:
  sequence_length: 8192
  global_batch: {batch} sequences
  precision: {{parameters: bf16, gradients: fp32, master: fp32, moments: fp32, communication: bf16}}
  optimizer: adamw
  attention: flash
cluster:
  description: {nodes} nodes of dgx_h100, 8 x 400 Gbit/s NICs, rail-optimised, 2:1 over-subscribed, InfiniBand, 4 us latency
  contention: none
profile: none
layouts: all
plans:
  - {{name: reference, role: reference, uniform: {{data: {data}, tensor: 8, pipeline: 16}}, schedule: 1f1b, microbatch: 1,
     zero: 1, recompute: selective, sequence_parallel: true}}
"""
COMMANDS = {
    "cluster": ("cluster", "--format", "text"),
    "cluster as svg": ("cluster", "--format", "svg"),
    "estimate": ("estimate",),
}
GPT3 = Path(__file__).resolve().parents[1] / "examples" / "gpt3-175b-a100" / "proposal-1024.yaml"


def measured(arguments: list[str]) -> tuple[float, float, float, int]:
    """Wall seconds, CPU seconds, peak MiB and exit status of one command."""
    started = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-m", "planproof.cli", *arguments], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    wall = time.perf_counter() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    unit = 1 if sys.platform == "darwin" else 1024
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss * unit / 2**20, child.returncode


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--devices", type=int, default=16384, help="a multiple of 128")
    asked.add_argument("--review", action="store_true", help="also the whole reviews")
    asked.add_argument("--json", action="store_true", help="print one JSON object")
    options = asked.parse_args()
    if options.devices < 128 or options.devices % 128:
        asked.error("--devices must be a multiple of 128")
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proposal.yaml"
        path.write_text(
            PROPOSAL.format(nodes=options.devices // 8, data=options.devices // 128, batch=max(2048, options.devices // 8))
        )
        runs = [(name, [command, str(path), *more]) for name, (command, *more) in COMMANDS.items()]
        if options.review:
            runs += [("review", ["review", "--fail-on", "never", str(path)]), ("review of GPT-3", ["review", str(GPT3)])]
        for name, arguments in runs:
            wall, cpu, peak, status = measured(arguments)
            if status != 0:
                print(f"{name}: the command ended with {status}", file=sys.stderr)
                return 1
            rows[name] = {"wall_s": round(wall, 3), "cpu_s": round(cpu, 3), "peak_mib": round(peak, 1)}
    if options.json:
        print(json.dumps({"devices": options.devices, "commands": rows}, indent=2))
    else:
        for name, row in rows.items():
            print(f"{name:16} {row['wall_s']:8.3f} s wall {row['cpu_s']:8.3f} s CPU {row['peak_mib']:8.1f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
