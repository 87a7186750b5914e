"""`planproof calibrate` as a command: what it prints, what it writes, and what it says of files that will not do."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from click.testing import CliRunner
from planproof.cli.calibrate import calibrate
from planproof.errors import PlanproofError
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


HEAD = "model,layers,hidden,heads,seq,gpus,gpu_type,tp,pp,dp,mbs,gbs,step_time_s,vocab,precision,recompute,software\n"
RUN = "x,32,4096,32,2048,8,A100-80GB,1,1,8,1,64,10,50000,bf16,full,megatron-lm\n"


@pytest.mark.parametrize(
    ("table", "options", "told", "remedy"),
    [
        ("colour,size\nred,3\n", [], "0 rows can be used, fewer than 6 for 3 parameters", "step_time_s"),
        (HEAD, [], "0 of 0 rows", "at least 6 measured runs"),
        (HEAD + RUN, [], "1 row can be used", "at least 6 measured runs"),
        (HEAD + RUN.replace(",10,", ",-10,"), [], "column 'step_time_s': '-10'", "docs/accuracy.md"),
        (HEAD + RUN.replace("A100-80GB", "FOO9"), [], "'FOO9': no data sheet has this name", "at least 6"),
        (HEAD + RUN.replace(",1,1,8,", ",2,1,8,"), [], "tensor 2 x pipeline 1 = 16, 8 devices", "at least 6"),
        (HEAD + RUN, ["--software", "zoo"], "the files hold A100-80GB under megatron-lm (1 row)", "--software"),
        (HEAD + RUN + RUN.replace("A100-80GB", "H100"), [], "H100 under megatron-lm (1 row)", "--device"),
        (HEAD + "x,32\n", [], "2 cells under 17 columns", "one header line"),
        ("a\n", [], "no header", "one header line"),
    ],
)
def test_runs_that_do_not_suffice_are_told_with_file_and_remedy(
    tmp_path: Path, table: str, options: list[str], told: str, remedy: str
) -> None:
    some = tmp_path / "runs.csv"
    some.write_text(table, encoding="utf-8")
    with pytest.raises(PlanproofError) as raised:
        CliRunner().invoke(calibrate, [str(some), "-o", str(tmp_path / "out.yaml"), *options], catch_exceptions=False)
    assert told in raised.value.message
    assert remedy in str(raised.value.remedy)
    assert raised.value.place.file == str(some)
    assert not (tmp_path / "out.yaml").exists()


def test_a_folder_that_is_not_there_is_told_before_the_fit(tmp_path: Path) -> None:
    with pytest.raises(PlanproofError, match="no folder 'nowhere'"):
        CliRunner().invoke(calibrate, [str(RUNS), "-o", str(tmp_path / "nowhere" / "out.yaml")], catch_exceptions=False)
