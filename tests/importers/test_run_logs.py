"""Logs of training runs are read by the lines that their frameworks print; tables by the units in their heads."""

from __future__ import annotations

import json

import pytest
from planproof.errors import DataError
from planproof.importers.run_log import read_run_log

MEGATRON = """\
training ...
 [2025-04-13 23:41:12] iteration       10/    1000 | consumed samples:          160 | elapsed time per iteration (ms): 1147.6 | \
throughput per GPU (TFLOP/s/GPU): 140.1 | learning rate: 0.0E+00 | global batch size:    16 | loss scale: 8388608.0 |
[Rank 0] (after 10 iterations) memory (MB) | allocated: 100.0 | max allocated: 2048.5 | reserved: 3000.0 | max reserved: 3072.0
[Rank 7] (after 10 iterations) memory (MB) | allocated: 100.0 | max allocated: 1024.0 | reserved: 3000.0 | max reserved: 2048.0
 iteration       20/    1000 | consumed samples: 320 | elapsed time per iteration (ms): 430.0 | global batch size:    16 |
"""
TORCHTITAN = (
    "[rank0]:\x1b[32m[titan] 2026-05-18 16:04:46,338 - root - INFO - \x1b[31mstep: 14  \x1b[32mloss:  3.24405  "
    "\x1b[38;2;54;234;195mgrad_norm:  0.8319  memory:  9.46GiB(64.99%)  tps: 7,282  tflops: 0.52  mfu: 0.17%\n"
    "[rank0]:[titan] 2026-05-18 16:04:47,456 - root - INFO - step: 15  loss: 3.1  memory: 9.50GiB(64.99%)  tps: 7,334  mfu: 1%\n"
)
DEEPSPEED = (
    "[2024-03-07 15:27:02,646] [INFO] [timer.py:260:stop] epoch=0/micro_step=199/global_step=199, "
    "RunningAvgSamplesPerSec=58.73, CurrSamplesPerSec=61.35, MemAllocated=6.01GB, MaxMemAllocated=19.52GB\n"
    "[2024-03-07] steps: 200 loss: 2.3 iter time (s): 1.234 samples/sec: 12.97\n"
)


def test_megatron_times_are_milliseconds_and_memory_is_mebibytes_a_rank() -> None:
    log = read_run_log(MEGATRON.encode(), "run.log")
    assert log.tool == "megatron-lm"
    assert [(one.step, one.value, one.line) for one in log.of("step_time")] == [
        (10, pytest.approx(1.1476), 2),
        (20, pytest.approx(0.43), 5),
    ]
    assert {(one.rank, one.value) for one in log.of("allocated")} == {(0, 2048.5 * 2**20), (7, 1024 * 2**20)}
    assert {(one.rank, one.value) for one in log.of("reserved")} == {(0, 3072 * 2**20), (7, 2048 * 2**20)}
    assert log.global_batch == 16


def test_a_batch_that_ramps_up_is_no_batch_and_is_said() -> None:
    text = MEGATRON.replace("430.0 | global batch size:    16", "430.0 | global batch size:    32")
    log = read_run_log(text.encode(), "run.log")
    assert log.global_batch is None
    assert any("16, 32 sequences" in note for note in log.notes)


def test_torchtitan_prints_rates_a_device_in_colour() -> None:
    log = read_run_log(TORCHTITAN.encode(), "run.log")
    assert log.tool == "torchtitan"
    assert [(one.step, one.rank, one.value) for one in log.of("tokens_per_device_s")] == [(14, 0, 7282.0), (15, 0, 7334.0)]
    assert [one.value for one in log.of("reserved")] == [9.46 * 2**30, 9.5 * 2**30]


def test_deepspeed_prints_samples_a_second_and_iteration_times() -> None:
    log = read_run_log(DEEPSPEED.encode(), "run.log")
    assert log.tool == "deepspeed"
    assert [(one.step, one.value) for one in log.of("samples_per_s")] == [(199, 61.35)]
    assert [(one.step, one.value) for one in log.of("step_time")] == [(200, 1.234)]
    assert [one.value for one in log.of("allocated")] == [19.52 * 2**30]


def test_megatron_lines_win_where_deepspeed_times_the_same_steps() -> None:
    assert read_run_log((DEEPSPEED + MEGATRON).encode(), "run.log").tool == "megatron-lm"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("step,step_time_s\n1,13.5\n", 13.5),
        ("step,step_time_ms\n1,13500\n", 13.5),
        ("params_b,measured_ms\n3.6,3566.5\n", 3.5665),
        (json.dumps([{"step": 1, "step_time_s": 13.5}]), 13.5),
        (json.dumps({"rows": [{"step_time_ms": 13500.0}]}), 13.5),
    ],
)
def test_tables_have_their_unit_in_the_head(text: str, value: float) -> None:
    assert [one.value for one in read_run_log(text.encode(), "x").of("step_time")] == [pytest.approx(value)]


def test_memory_of_ranks_and_columns_that_are_not_read() -> None:
    log = read_run_log(b"rank,stage,device_gib,reserved_mib,colour\n0,0,70,1024,red\n8,1,60,512,blue\n", "m.csv")
    assert [(one.rank, one.stage, one.value) for one in log.of("device")] == [(0, 0, 70 * 2**30), (8, 1, 60 * 2**30)]
    assert [one.value for one in log.of("reserved")] == [2**30, 2**29]
    assert any("colour" in note for note in log.notes)


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("step,step_time\n1,13.5\n", 1, "no unit"),
        ("step,step_time_min\n1,13.5\n", 1, "'min'"),
        ("step,device_tb\n1,13.5\n", 1, "'tb'"),
        ("step,step_time_s\n1,13.5\n2,13 s\n", 3, "'13 s'"),
        ("step,step_time_s\none,13.5\n", 2, "'one'"),
        ("step,step_time_s\n1,13.5,9\n", 2, "3 cells"),
        ("step,colour\n1,red\n", 1, "no column"),
        ("hello\nworld\n", 1, "no measured step"),
        ("", 1, "no measured step"),
        ("plan,step_time_s\na,1\nb,2\n", None, "2 plans"),
        ("[1, 2]", None, "no list of objects"),
        ("a\0b", None, "NUL"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(text: str, line: int | None, what: str) -> None:
    with pytest.raises(DataError) as raised:
        read_run_log(text.encode(), "run.csv")
    assert what in raised.value.message
    assert raised.value.place.file == "run.csv"
    assert raised.value.place.line == line


def test_bytes_that_are_no_text_and_figures_that_are_none() -> None:
    with pytest.raises(DataError, match="not UTF-8"):
        read_run_log(b"\xff\xfe\x00", "x")
    log = read_run_log(b"step_time_s\n1.5\nnan\n-3\ninf\n", "x")
    assert [one.value for one in log.of("step_time")] == [1.5]
    assert len(log.notes) == 3
