"""A fit finds what made the rows, shipped sheets come from the table in the repository, and folds have not seen their group."""

from __future__ import annotations

import csv
from dataclasses import replace
from datetime import date
from hashlib import sha256
from pathlib import Path

import pytest
from planproof.calibration.calibrate import calibrate_files
from planproof.calibration.case import Case
from planproof.calibration.fit import factors_of, fit, predict, start
from planproof.calibration.folds import leave_out, residual
from planproof.calibration.kinds import read_cases
from planproof.calibration.report import Estimator
from planproof.cost.software import calibrated
from planproof.errors import DataError, UsageError
from planproof.hardware import open_library

RUNS = Path(__file__).resolve().parents[2] / "bench" / "data" / "step_times.csv"
LIBRARY = open_library()
CASES = [case for case in read_cases(RUNS, LIBRARY).cases if case.row.text("use") == "fit"]


def of(device: str, software: str) -> list[Case]:
    return [case for case in CASES if (case.device, case.software) == (device, software)]


def test_every_row_of_the_table_is_a_case_with_a_source() -> None:
    found = read_cases(RUNS, LIBRARY)
    assert found.left_out == ()
    assert all(row.text("source") for row in found.table.rows)


def test_a_fit_finds_the_values_that_made_its_rows() -> None:
    cases = of("A100-80GB", "fsdp")[::4]
    base = start(cases[0].cluster.device, flash=True)
    truth = {"gemm": 0.7, "memory": 0.5, "attention": 0.25}
    made = [replace(case, seconds=predict(case, factors_of(truth, base, case.software))) for case in cases]
    found = fit(made, tuple(truth))
    assert found.values == pytest.approx(truth, rel=0.02)


def test_the_shipped_sheet_is_what_the_table_gives_again() -> None:
    shipped = LIBRARY.calibration(LIBRARY.device("H100"), "fsdp")
    assert shipped is not None
    found = fit(of("H100", "fsdp")).values
    assert shipped.gemm.value == pytest.approx(found["gemm"], rel=0.01)
    assert shipped.memory.value == pytest.approx(found["memory"], rel=0.01)
    assert shipped.attention_flash is not None
    assert shipped.attention_flash.value == pytest.approx(found["attention"], rel=0.01)


def test_shipped_sheets_name_the_file_that_they_came_from() -> None:
    digest = sha256(RUNS.read_bytes()).hexdigest()
    for name in ("A100-80GB", "H100", "B200"):
        for one in LIBRARY.calibrations(LIBRARY.device(name)):
            assert one.rows == len(of(one.device, one.software))
            sheet = Path(__file__).resolve().parents[2] / "engine" / one.origin.file
            assert digest in sheet.read_text(encoding="utf-8"), f"{sheet.name} is of another {RUNS.name}"


def test_a_row_that_the_fit_saw_is_priced_without_its_group() -> None:
    case = of("A100-80GB", "megatron-lm")[0]
    seen, unseen = Estimator(LIBRARY, CASES), Estimator(LIBRARY, [])
    without, with_it = seen.point(case), unseen.point(case)
    assert (seen.folded, unseen.folded) == (1, 0)
    assert without.predicted != with_it.predicted


def test_folds_leave_out_whole_groups() -> None:
    cases = of("A100-80GB", "megatron-lm")
    folds = leave_out(cases, ("gemm", "memory", "attention"))
    assert set(folds.values) == {case.group for case in cases}
    assert len(folds.errors) == len(cases)
    assert 0 < residual(folds.errors) < 0.3


def test_several_kinds_of_runs_are_a_question_and_too_few_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--device"):
        calibrate_files([RUNS], day=date(2026, 12, 2))
    with RUNS.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    few = tmp_path / "few.csv"
    with few.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows[:3])
    with pytest.raises(DataError, match="fewer than"):
        calibrate_files([few], day=date(2026, 12, 2))


def test_a_framework_without_a_calibration_leaves_the_sheet_alone() -> None:
    cluster = CASES[0].cluster
    assert calibrated(cluster, LIBRARY.calibration, "no such family") == cluster
    found = calibrated(cluster, LIBRARY.calibration, "no such family", "fsdp").device.calibration
    assert found is not None
    assert found.software == "fsdp"
