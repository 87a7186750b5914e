"""Reads the lines that Megatron-LM (and Megatron-DeepSpeed) prints every few steps.

`iteration N/ M | ... | elapsed time per iteration (ms): T | ... | global batch size: B |`, where T is a mean over the steps
since the line before; and, once, `[Rank R] ... memory (MB) | allocated: A | max allocated: A | reserved: R | max reserved:
R`, where MB is 2^20 bytes (megatron/training/training.py and utils.py, `report_memory`). It must not know proposals."""

from __future__ import annotations

import re

from .run_log import Building, RunLog, numbered

_STEP = re.compile(r"\biteration\s+(\d{1,12})\s*/\s*(?:\d{1,12}|infinity)\s*\|")
_TIME = re.compile(r"elapsed time per iteration \(ms\):\s*([^\s|]+)")
_BATCH = re.compile(r"global batch size:\s*(\d{1,9})")
_MEMORY = re.compile(r"\[Rank (\d{1,7})\].*memory \(MB\)\s*\|(.*)")
_FIGURE = re.compile(r"max (allocated|reserved):\s*([^\s|]+)")


def read_megatron(text: str) -> RunLog:
    """What the log says; a log without such lines has no samples."""
    built = Building("megatron-lm")
    batches: dict[int, None] = {}
    for number, line in numbered(text):
        step, time = _STEP.search(line), _TIME.search(line)
        if step is not None and time is not None:
            built.add("step_time", time[1], 1e-3, number, step=int(step[1]))
            batch = _BATCH.search(line)
            if batch is not None:
                batches[int(batch[1])] = None
            continue
        memory = _MEMORY.search(line)
        if memory is not None:
            for kind, value in _FIGURE.findall(memory[2]):
                built.add(kind, value, 2.0**20, number, rank=int(memory[1]))
    if len(batches) > 1:
        built.notes.append(f"the global batch changes: {', '.join(map(str, batches))} sequences")
    built.global_batch = next(iter(batches)) if len(batches) == 1 else None
    return built.done()
