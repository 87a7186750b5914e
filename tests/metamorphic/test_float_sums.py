"""From CPython 3.12 on `sum` compensates the rounding of floats and before it does not, so that a record would depend on the
version in its last digits, and on a tie in its choice. The code adds floats with `math.fsum`, which is exact everywhere."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from planproof.pipeline import Options, review
from planproof.report.html import render_html
from planproof.report.record import render_record
from planproof.report.review_json import review_json

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "name", ["mixed-devices", pytest.param("measured", marks=pytest.mark.long), pytest.param("smallest", marks=pytest.mark.long)]
)
def test_floats_are_added_in_one_way_on_every_version(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, found, called = builtins.sum, set(), 0

    def watched(values: Iterable[float], /, start: float = 0) -> float:
        nonlocal called
        total = plain(values, start)
        code = sys._getframe(1)
        if Path(code.f_code.co_filename).is_relative_to(ROOT / "engine"):
            called += 1
            if isinstance(total, float):
                found.add(f"{Path(code.f_code.co_filename).relative_to(ROOT)}:{code.f_lineno}")
        return total

    monkeypatch.setattr(builtins, "sum", watched)
    done = review(ROOT / "examples" / name / "proposal.yaml", Options(work_limit=20))
    render_record(done), render_html(done), review_json(done)
    assert called > 100
    assert not found, f"math.fsum in place of sum: {sorted(found)}"
