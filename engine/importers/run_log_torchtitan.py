"""Reads the lines that torchtitan prints every few steps: `step: N loss: L ... memory: XGiB(P%) tps: T tflops: F mfu: M%`.

`memory` is the reserved peak of the rank that prints; `tps` is tokens a second and device: the tokens of a data-parallel
rank over the time and over the degrees that are not data parallel (torchtitan/components/metrics.py). What a step takes
follows from the batch, which the log does not print. It must not know proposals."""

from __future__ import annotations

import re

from .run_log import Building, RunLog, numbered

_STEP = re.compile(r"\bstep:\s*(\d{1,12})\b.*?\b(?:tps|wps):\s*([0-9.,]+)")
_MEMORY = re.compile(r"\bmemory:\s*([0-9.]+)GiB")
_RANK = re.compile(r"\[rank(\d{1,7})\]")


def read_torchtitan(text: str) -> RunLog:
    """What the log says; a log without such lines has no samples."""
    built = Building("torchtitan")
    for number, line in numbered(text):
        step = _STEP.search(line)
        if step is None:
            continue
        rank = _RANK.search(line)
        at = {"step": int(step[1]), "rank": int(rank[1]) if rank is not None else None}
        built.add("tokens_per_device_s", step[2], 1.0, number, **at)
        memory = _MEMORY.search(line)
        if memory is not None:
            built.add("reserved", memory[1], 2.0**30, number, **at)
    return built.done()
