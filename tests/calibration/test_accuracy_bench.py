"""`bench/accuracy.py --json` has the form that is documented, and every file of the folder is reported on or its reason told."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
ERRORS = {"mape", "median", "bias", "max", "coverage", "width"}
PARTS = {"rows", "used", "left_out", "step_time", "memory", "ranking", "oom"}


def bench(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *options: str) -> str:
    monkeypatch.setattr(sys, "argv", ["accuracy.py", "--data", str(folder), *options])
    runpy.run_path(str(ROOT / "bench" / "accuracy.py"), run_name="__main__")
    return capsys.readouterr().out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six step times, two memory rows, a table of shapes, and a file that is no table."""
    for name, rows in (("step_times", 6), ("memory_runs", 2)):
        lines = (ROOT / "bench" / "data" / f"{name}.csv").read_text(encoding="utf-8").splitlines(keepends=True)
        (tmp_path / f"some_{name}.csv").write_text("".join(lines[: rows + 1]), encoding="utf-8")
    (tmp_path / "shapes.csv").write_text("model,model_type,layers,hidden,vocab\na,gpt,2,64,100\n", encoding="utf-8")
    (tmp_path / "broken.csv").write_text("alone\n", encoding="utf-8")
    return tmp_path


def test_the_json_form(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[str, Any] = json.loads(bench(folder, capsys, monkeypatch, "--json"))["files"]
    assert set(files) == {"some_step_times.csv", "some_memory_runs.csv", "shapes.csv", "broken.csv"}
    assert all(set(one) == PARTS for one in files.values())
    times, memory = files["some_step_times.csv"], files["some_memory_runs.csv"]
    assert (times["rows"], times["used"], set(times["step_time"]), times["memory"]) == (6, 6, ERRORS, None)
    assert (memory["rows"], memory["used"], set(memory["memory"]), memory["step_time"]) == (2, 2, ERRORS, None)
    assert set(memory["oom"]) == {"true_positive", "false_positive", "true_negative", "false_negative"}
    assert memory["oom"]["true_negative"] == 2
    assert times["step_time"]["mape"] < 0.2
    assert files["shapes.csv"]["left_out"] == {"shapes of models, no measurement": 1}
    assert next(iter(files["broken.csv"]["left_out"])).startswith("not a table")


def test_an_unseen_machine_has_the_width_of_one(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("some_memory_runs.csv", "shapes.csv", "broken.csv"):
        (folder / name).unlink()
    found = json.loads(bench(folder, capsys, monkeypatch, "--json", "--unseen"))["files"]["some_step_times.csv"]["step_time"]
    assert found["width"] > 0.25
    assert 0.1 < found["mape"] < 0.5, "launch-bound rows of one odd width, priced by the shares of another device"
