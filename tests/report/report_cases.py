"""Proposals that the report tests review, small enough to be quick, and the review of each, made once a run."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from planproof.decision.review import Review
from planproof.pipeline import Session, review_loaded
from planproof.proposal import parse_proposal

DENSE = """\
planproof: 1
proposal:
  title: TITLE
  date: 2026-11-02
  decision_makers: [the training board]
  objective: step_time
  run_length: {steps: 20000}
model: {transformer: {family: llama, layers: 32, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336, vocabulary: 128256}}
workload:
  sequence_length: 4096
  global_batch: 256 sequences
  precision: {parameters: bf16, gradients: fp32, master: fp32, moments: fp32}
  optimizer: adamw
  attention: flash
cluster:
  nodes: {count: 4, type: dgx_h100}
  fabric: {nics: {count: 8, bandwidth: 400 Gbit/s}}
  contention: none
profile: none
layouts: {allow: [data, tensor, pipeline], schedules: [1f1b], microbatch: [1], recompute: [selective]}
plans:
  - {name: reference, role: reference, uniform: {data: 32}, zero: 3, microbatch: 1, recompute: full}
  - name: uneven
    role: submitted
    schedule: 1f1b
    zero: 1
    microbatch: 1
    recompute: selective
    stages:
      - {layers: [0, 6], with: [embedding], devices: 8, mesh: {data: 8}}
      - {layers: [7, 15], devices: 8, mesh: {data: 8}, repeat: 2}
      - {layers: [25, 31], with: [head], devices: 8, mesh: {data: 8}}
claims:
  - {text: "41 % MFU", metric: mfu, value: 0.41}
planning_cost: {profiling: 64 device-hours}
"""
#: Nothing can be priced: batch, precision, optimizer, objective ... are not stated.
BARE = """\
planproof: 1
proposal: {title: TITLE, authority: run}
model: {transformer: {family: llama, layers: 32, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336, vocabulary: 128256}}
cluster: {nodes: {count: 4, type: dgx_h100}}
plans:
  - {name: NAME, role: reference, uniform: {data: 32}, zero: 3}
"""


def reviewed(text: str, name: str = "proposals/dense.yaml", root: Path | None = None) -> Review:
    """The review of a proposal that stands at `name` in a repository of its own."""
    root = root or Path(mkdtemp())
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    (root / ".git").mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    opened = Session()
    try:
        return review_loaded(parse_proposal(path.read_bytes(), name, path), opened)
    finally:
        opened.close()


@cache
def dense() -> Review:
    return reviewed(DENSE.replace("TITLE", "Dense 8B"))


@cache
def bare() -> Review:
    return reviewed(BARE.replace("TITLE", "Bare").replace("NAME", "reference"), "bare.yaml")
