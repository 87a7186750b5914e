"""`planproof calibrate` as a command: what it prints, what it writes, and what it says of files that will not do."""

from __future__ import annotations

import csv
from pathlib import Path

from click.testing import CliRunner
from planproof.cli.calibrate import calibrate
from planproof.hardware import open_library

RUNS = Path(__file__).resolve().parents[2] / "bench" / "data" / "step_times.csv"


def test_a_sheet_is_written_that_a_folder_of_hardware_finds(tmp_path: Path) -> None:
    with RUNS.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    some = tmp_path / "mine.csv"
    chosen = [row for row in rows if row["software"] == "megatron-lm"]
    with some.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(chosen)
    folder = tmp_path / "sheets"
    folder.mkdir()
    done = CliRunner().invoke(
        calibrate, [str(some), "-o", str(folder / "mine.yaml"), "--as-of", "2026-12-02"], catch_exceptions=False
    )
    assert done.exit_code == 0
    assert "groups that the fit did not see:" in done.output
    assert "10 of 10 rows" in done.output
    library = open_library([folder])
    device = library.device("A100-80GB")
    mine = library.calibration(device, "megatron-lm")
    assert mine is not None
    assert (mine.rows, mine.origin.kind) == (10, "replaces")
    assert len(mine.folds) == mine.groups == 4
    shipped = open_library().calibration(device, "megatron-lm")
    assert shipped is not None
    assert abs(mine.gemm.value / shipped.gemm.value - 1) < 0.01


def test_a_file_without_runs_writes_nothing(tmp_path: Path) -> None:
    some = tmp_path / "none.csv"
    some.write_text("colour,size\nred,3\n", encoding="utf-8")
    done = CliRunner().invoke(calibrate, [str(some), "-o", str(tmp_path / "out.yaml")])
    assert done.exit_code != 0
    assert not (tmp_path / "out.yaml").exists()
