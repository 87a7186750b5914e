"""Reads the lines that DeepSpeed's throughput timer and pipeline engine print every few steps.

`epoch=E/micro_step=M/global_step=G, RunningAvgSamplesPerSec=R, CurrSamplesPerSec=C, MemAllocated=AGB, MaxMemAllocated=BGB`,
where C is the global batch over the time of a step and GB is 2^30 bytes (deepspeed/utils/timer.py); and `steps: N loss: L
iter time (s): T samples/sec: S` of the pipeline engine (deepspeed/runtime/pipe/engine.py). It must not know proposals."""

from __future__ import annotations

import re

from .run_log import Building, RunLog, numbered

_TIMER = re.compile(r"global_step=(\d{1,12}),.*?CurrSamplesPerSec=([0-9.eE+-]+)")
_MEMORY = re.compile(r"MaxMemAllocated=([0-9.]+)\s*GB")
_PIPE = re.compile(r"\bsteps:\s*(\d{1,12})\b.*?iter time \(s\):\s*([0-9.eE+-]+)")
_RANK = re.compile(r"\[Rank (\d{1,7})\]")


def read_deepspeed(text: str) -> RunLog:
    """What the log says; a log without such lines has no samples."""
    built = Building("deepspeed")
    for number, line in numbered(text):
        rank = _RANK.search(line)
        at = int(rank[1]) if rank is not None else None
        pipe, timer = _PIPE.search(line), _TIMER.search(line)
        if pipe is not None:
            built.add("step_time", pipe[2], 1.0, number, step=int(pipe[1]), rank=at)
        elif timer is not None:
            built.add("samples_per_s", timer[2], 1.0, number, step=int(timer[1]), rank=at)
        memory = _MEMORY.search(line)
        if memory is not None and memory[1].strip("0."):
            built.add("allocated", memory[1], 2.0**30, number, rank=at)
    return built.done()
