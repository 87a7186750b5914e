"""The shipped constants of memory come out of the repository's own table of runs again, and intervals hold on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from planproof.calibration.memory import memory_report, predictions_of
from planproof.calibration.memory_case import Case, Prediction
from planproof.calibration.memory_fit import FittedConstant, fit_memory, quantile
from planproof.calibration.memory_runs import write_runs
from planproof.cost.memory import load_residuals
from planproof.hardware import load_device


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
