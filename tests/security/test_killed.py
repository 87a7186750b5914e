"""Killed at any moment while it writes, a record is the old one or the new one: never a part."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from planproof.report.output import write_whole

ROOT = Path(__file__).resolve().parents[2]
LAUNCH = ROOT / "rules" / "bases" / "launch_megatron.txt"
RUNS = ROOT / "bench" / "data" / "step_times.csv"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "smallest" / "proposal.yaml"
#: Writes two texts of 4 MB by turns, as fast as it can, until it is killed.
WRITER = """
import sys
from planproof.report.output import write_whole
texts = ["a" * 4_000_000 + "A", "b" * 4_000_000 + "B"]
print("ready", flush=True)
for turn in range(10**9):
    write_whole(sys.argv[1], texts[turn % 2])
"""


def killed(target: Path, after_s: float) -> None:
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(target)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(after_s)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def commands(folder: Path) -> list[tuple[list[str], list[Path]]]:
    """Every command that writes, and what each writes: several formats of findings at once, a record, a report, a proposal from a
    launch file, a new proposal, a comparison's rows and a calibration."""
    formats = {"sarif": "f.sarif", "junit": "f.xml", "json": "f.json", "markdown": "f.md"}
    lint = ["lint", str(EXAMPLE), "--fail-on", "never"]
    for name, file in formats.items():
        lint += ["--format", f"{name}={folder / file}"]
    review = ["review", str(EXAMPLE), "--work-limit", "3", "--fail-on", "never"]
    return [
        (lint, [folder / file for file in formats.values()]),
        ([*review, "-o", str(folder / "record.md")], [folder / "record.md"]),
        ([*review, "--format", "html", "-o", str(folder / "report.html")], [folder / "report.html"]),
        (["import", "megatron", str(LAUNCH), "--force", "-o", str(folder / "imported.yaml")], [folder / "imported.yaml"]),
        (
            ["calibrate", str(RUNS), "--device", "A100-80GB", "--software", "megatron-lm", "--as-of", "2026-12-02",
             "-o", str(folder / "sheet.yaml")],
            [folder / "sheet.yaml"],
        ),
    ]  # fmt: skip


def parts(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".part")


def killed_commands(folder: Path, chosen: list[tuple[list[str], list[Path]]], moments: int, seed: int) -> int:
    """Kill each command at random moments of its run, and hold what it left against what it writes; how often it had written.
    A run that is not killed leaves no neighbour of its own or of a killed one."""
    rng, written = random.Random(seed), 0
    for arguments, targets in chosen:
        command = [sys.executable, "-m", "planproof.cli", *arguments]
        started = time.monotonic()
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
        assert done.returncode in (0, 1), done.stderr
        took = time.monotonic() - started
        new = {target: target.read_bytes() for target in targets}
        for _ in range(moments):
            for target in targets:
                target.write_bytes(b"old")
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
            # Most moments near the end, which is where it writes.
            time.sleep(took * rng.choice((rng.uniform(0, 1), rng.uniform(0.8, 1.1))))
            process.send_signal(signal.SIGKILL)
            process.wait()
            found = {target: target.read_bytes() for target in targets}
            assert all(found[target] in (b"old", new[target]) for target in targets)
            written += any(found[target] == new[target] for target in targets)
        for left in folder.glob("*.part"):
            os.utime(left, (0, 0))
        subprocess.run(command, check=False, capture_output=True, cwd=folder)
        assert {target: target.read_bytes() for target in targets} == new
        assert parts(folder) == []
    assert sorted(path for path in folder.iterdir()) == sorted(target for _, targets in chosen for target in targets)
    return written


def test_commands_killed_at_six_moments_leave_old_or_new_files(tmp_path: Path) -> None:
    chosen = commands(tmp_path)
    killed_commands(tmp_path, [chosen[0], chosen[3]], 3, 1)


@pytest.mark.long
def test_commands_killed_at_a_hundred_random_moments_leave_old_or_new_files(tmp_path: Path) -> None:
    assert killed_commands(tmp_path, commands(tmp_path), 20, 20261202) > 5


def test_what_a_killed_run_left_is_cleared_and_what_a_run_beside_writes_is_not(tmp_path: Path) -> None:
    target = tmp_path / "record.md"
    names = ("record.md.a", "record.md.b", "notes.md.c", "record.md.d")
    left, live, other, fresh = (tmp_path / f".{name}.part" for name in names)
    for path in (left, live, other, fresh):
        path.write_text("half")
    for path in (left, live, other):
        os.utime(path, (0, 0))
    with live.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        write_whole(target, "whole")
        assert target.read_text() == "whole"
        assert [path.exists() for path in (left, live, other, fresh)] == [False, True, True, True]


def whole(target: Path) -> bool:
    text = target.read_text()
    return text in ("old", "a" * 4_000_000 + "A", "b" * 4_000_000 + "B")


def test_killed_while_writing_the_file_is_whole(tmp_path: Path) -> None:
    (tmp_path / "record.md").write_text("old")
    killed(tmp_path / "record.md", 0.05)
    assert whole(tmp_path / "record.md")


@pytest.mark.long
def test_killed_at_a_hundred_random_moments_the_file_is_whole(tmp_path: Path) -> None:
    rng = random.Random(20261202)
    target = tmp_path / "record.md"
    target.write_text("old")
    for _ in range(100):
        killed(target, rng.uniform(0, 0.3))
        assert whole(target)
    # What a kill leaves is a neighbour with a name of its own, which nothing reads.
    assert all(path == target or (path.name.startswith(".record.md.") and path.suffix == ".part") for path in tmp_path.iterdir())
