"""Killed at any moment while it writes, a record is the old one or the new one: never a part."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

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
