"""The shipped constants of memory come out of the repository's own table of runs again, and intervals hold on it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from planproof.calibration.calibrate import calibrate_files
from planproof.calibration.memory import memory_report, predictions_of
from planproof.calibration.memory_case import Case, Prediction
from planproof.calibration.memory_fit import FittedConstant, fit_memory, quantile
from planproof.calibration.memory_folds import MemoryFolds
from planproof.calibration.memory_runs import write_runs
from planproof.cost.memory import load_residuals
from planproof.errors import UsageError
from planproof.hardware import load_device, open_library


@pytest.fixture(scope="module")
def table(root: Path) -> Path:
    return root / "bench" / "data" / "memory_runs.csv"


@pytest.fixture(scope="module")
def priced(table: Path) -> list[Prediction]:
    return predictions_of(table)


@pytest.fixture(scope="module")
def fitted(priced: list[Prediction]) -> dict[tuple[str, str], FittedConstant]:
    return {(constant.name, constant.device): constant for constant in fit_memory(priced)}


@pytest.mark.parametrize("device", ["A100-80GB", "B200", "V100-32GB"])
def test_shipped_reserves_come_out_of_the_fit(device: str, fitted: dict[tuple[str, str], FittedConstant]) -> None:
    found, shipped = fitted["allocator_reserve", device], load_device(device).allocator_reserve
    assert (found.value, found.low, found.high) == pytest.approx((shipped.value, shipped.low, shipped.high), abs=0.0006)


@pytest.mark.parametrize("device", ["A100-80GB", "GB200", "H100"])
def test_shipped_workspaces_come_out_of_the_fit(device: str, fitted: dict[tuple[str, str], FittedConstant]) -> None:
    found, shipped = fitted["workspace", device], load_device(device).workspace
    assert (found.value, found.low, found.high) == pytest.approx((shipped.value, shipped.low, shipped.high), rel=0.01)


def test_shipped_residuals_come_out_of_the_fit(fitted: dict[tuple[str, str], FittedConstant]) -> None:
    residuals = load_residuals()
    assert fitted["residual_shown", ""].value == pytest.approx(residuals.shown, abs=0.001)
    assert fitted["residual_experts", ""].value == pytest.approx(residuals.experts, abs=0.001)


def test_device_visible_memory_of_groups_left_out_is_within_5_and_12_percent(
    fitted: dict[tuple[str, str], FittedConstant],
) -> None:
    reserve = fitted["allocator_reserve", "A100-80GB"]
    assert reserve.left_out_median < 0.05
    assert reserve.left_out_p95 < 0.12


def test_no_run_that_ran_is_called_infeasible_and_few_at_risk(table: Path) -> None:
    found = memory_report(table)
    assert found is not None
    assert found["oom"]["false_positive"] == 0
    assert found["oom"]["at_risk"] <= 0.1 * found["used"]


def test_intervals_hold_at_least_nine_tenths(table: Path) -> None:
    found = memory_report(table)
    assert found is not None
    for quantity in ("allocated", "reserved", "device"):
        assert found["quantities"][quantity]["coverage"] >= 0.88
        assert found["quantities"][quantity]["width"] <= 0.12


def test_a_case_is_the_same_after_it_was_written_and_read(tmp_path: Path, priced: list[Prediction]) -> None:
    chosen: dict[str, Case] = {one.case.family + one.case.device.name: one.case for one in priced}
    path = tmp_path / "runs.csv"
    path.write_text(write_runs(("a source", case) for case in chosen.values()), encoding="utf-8")
    again = [one.case for one in predictions_of(path)]
    assert len(again) == len(chosen)
    for before, after in zip(chosen.values(), again, strict=True):
        same = ("group", "family", "model", "workload", "plan", "device", "implementation", "stages", "ran", "declared")
        assert [getattr(before, name) for name in same] == [getattr(after, name) for name in same]
        assert dict(after.measured) == {name: round(value) for name, value in before.measured.items()}


def test_a_fit_refuses_too_few_rows(priced: list[Prediction]) -> None:
    assert fit_memory(priced[:2]) == ()


def test_quantiles_interpolate() -> None:
    assert quantile([1.0, 2.0, 4.0], 0.75) == 3.0
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)


def test_a_damaged_row_of_the_table_is_left_out_and_the_others_stay(tmp_path: Path, table: Path) -> None:
    lines = table.read_text(encoding="utf-8").splitlines()
    path = tmp_path / "runs.csv"
    path.write_text("\n".join([*lines[:3], lines[3].replace("microbatch=", "microbatches=")]), encoding="utf-8")
    found = memory_report(path)
    assert found is not None
    assert found["used"] == 2
    assert found["left_out"] == {"model, workload, plan or implementation cannot be read": 1}


def test_folds_price_a_group_by_the_constants_of_the_others(priced: list[Prediction], table: Path) -> None:
    """V100: three runs with reserves of their own; without one of them the reserve is that of the other two."""
    folds = MemoryFolds(priced)
    sheet = load_device("V100-32GB")
    runs = sorted({row.case.group for row in priced if row.case.device.name == "V100-32GB"})
    reserves = {group: folds.sheet(sheet, group).allocator_reserve.value for group in runs}
    for group in runs:
        others = [
            row.case.measured["reserved"] / row.case.measured["allocated"] - 1
            for row in priced
            if row.case.device.name == "V100-32GB" and row.case.group != group
        ]
        assert reserves[group] == pytest.approx(quantile(others, 0.5))
    assert folds.sheet(sheet, "a run of nobody") is sheet
    report = memory_report(table, folds)
    assert report is not None
    assert report["folded"] == len(priced)


def test_calibrate_fits_memory_and_its_sheet_is_read_again(table: Path, tmp_path: Path) -> None:
    found = calibrate_files([table], device="B200", day=date(2026, 12, 2))
    assert found.held is not None
    assert any("allocator_reserve" in line and "3 groups" in line for line in found.lines)
    assert any(line.strip().startswith("reserved of groups that the fit did not see") for line in found.lines)
    (tmp_path / "b200.yaml").write_text(found.sheet.replace("value: 5.236 %", "value: 6.2 %"), encoding="utf-8")
    library = open_library([str(tmp_path)])
    known = library.calibration(library.device("B200"), "megatron-core")
    assert known is not None
    assert known.times, "the shipped times stay in force beside memory of one's own"
    under = library.device("B200").under(known)
    assert under.allocator_reserve.value == pytest.approx(0.062)
    assert under.efficiency.gemm.value == pytest.approx(known.gemm.value if known.gemm else 0)


def test_memory_of_a_family_without_times_stands_alone(table: Path, tmp_path: Path) -> None:
    found = calibrate_files([table], device="V100-32GB", day=date(2026, 12, 2))
    (tmp_path / "v100.yaml").write_text(found.sheet, encoding="utf-8")
    library = open_library([str(tmp_path)])
    sheet = library.device("V100-32GB")
    known = library.calibration(sheet, "megatron-lm-2021")
    assert known is not None
    assert not known.times
    under = sheet.under(known)
    assert under.calibration is None, "no time was measured, so the times are those of a device without calibration"
    assert under.allocator_reserve.low == pytest.approx(0.1997, abs=1e-4)


def test_memory_of_several_devices_must_be_chosen_from(table: Path) -> None:
    with pytest.raises(UsageError, match="B200 under megatron-core"):
        calibrate_files([table], day=date(2026, 12, 2))
