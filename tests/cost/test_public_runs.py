"""Public reports of large runs, none of which was fitted to: the estimate's interval holds what each states."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture(scope="module")
def lines() -> dict[str, tuple[float, float, float, float]]:
    """(reported, estimated, low, high) by name, as the bench works them out."""
    sys.path.insert(0, str(BENCH))
    try:
        from public_runs import ROWS, estimate
    finally:
        sys.path.remove(str(BENCH))
    from planproof.calibration.table import read_table
    from planproof.hardware import open_library

    library = open_library()
    found = {}
    for row in read_table(ROWS).rows:
        _, _, one = estimate(row, library)
        found[row.text("name")] = (row.number("seconds"), one.value, one.low, one.high)
    return found


def test_every_interval_holds_the_report(lines: dict[str, tuple[float, float, float, float]]) -> None:
    assert len(lines) == 11
    assert [name for name, (reported, _, low, high) in lines.items() if not low <= reported <= high] == []


def test_dense_runs_on_measured_devices_are_within_eight_percent(lines: dict[str, tuple[float, float, float, float]]) -> None:
    """BLOOM 105 s (bigscience, tr11 README); MT-NLG 60.1, 50.2 and 44.4 s (arXiv 2201.11990, section 2.4)."""
    for name in ("BLOOM 176B", "MT-NLG 530B on 2240", "MT-NLG 530B on 2800", "MT-NLG 530B on 3360"):
        reported, value, _, _ = lines[name]
        assert value == pytest.approx(reported, rel=0.08), name


def test_runs_with_experts_that_nothing_was_fitted_to_are_within_a_fifth(
    lines: dict[str, tuple[float, float, float, float]],
) -> None:
    """The two of GPT-OSS fixed the stall of a layer with experts; the others did not."""
    for name in ("DeepSeek-V3", "Qwen3-235B batch 8192", "Qwen3-235B batch 2048", "DeepSeek-V3 on 1024"):
        reported, value, _, _ = lines[name]
        assert value == pytest.approx(reported, rel=0.2), name
