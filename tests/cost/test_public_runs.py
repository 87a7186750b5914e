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
    assert len(lines) == 6
    assert [name for name, (reported, _, low, high) in lines.items() if not low <= reported <= high] == []


def test_dense_runs_on_measured_devices_are_within_eight_percent(lines: dict[str, tuple[float, float, float, float]]) -> None:
    """BLOOM 105 s (bigscience, tr11 README); MT-NLG 60.1, 50.2 and 44.4 s (arXiv 2201.11990, section 2.4)."""
    for name in ("BLOOM 176B", "MT-NLG 530B on 2240", "MT-NLG 530B on 2800", "MT-NLG 530B on 3360"):
        reported, value, _, _ = lines[name]
        assert value == pytest.approx(reported, rel=0.08), name
