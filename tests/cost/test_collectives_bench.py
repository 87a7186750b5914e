"""The benchmark of collectives: what it reads, what it leaves out, and that no fit sees what it is judged on."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

HEADER = "system,lib,lib_version,latency,message_size,nccl_dtype,num_gpus,op_name\n"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    path = Path(__file__).parents[2] / "bench" / "collectives.py"
    spec = importlib.util.spec_from_file_location("bench_collectives", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def write(folder: Path, *rows: str) -> Path:
    (folder / "nccl.csv").write_text(HEADER + "".join(row + "\n" for row in rows), encoding="utf-8")
    return folder


def test_sizes_are_elements_of_their_type_and_oneccl_counts_one_shard_of_an_all_gather(bench: ModuleType, tmp_path: Path) -> None:
    write(
        tmp_path,
        "a,nccl,1,0.5,1024,half,4,all_gather", "a,nccl,1,0.5,1024,int8,4,alltoall", "b,oneccl,2,0.5,1024,half,4,all_gather",
    )  # fmt: skip
    found, left = bench.read(tmp_path)
    assert found == {
        "a 1": [bench.Measured("all_gather", 4, 2048, 5e-4), bench.Measured("all_to_all", 4, 1024, 5e-4)],
        "b 2": [bench.Measured("all_gather", 4, 8192, 5e-4)],
    }
    assert not left


def test_repeats_are_one_row_and_what_cannot_be_used_is_counted_with_its_reason(bench: ModuleType, tmp_path: Path) -> None:
    write(
        tmp_path,
        "a,nccl,1,0.1,64,half,2,all_reduce", "a,nccl,1,0.3,64,half,2,all_reduce", "a,nccl,1,0.2,64,half,2,all_reduce",
        "a,nccl,1,0.2,64,half,1,all_reduce", "a,nccl,1,nan,64,half,2,all_reduce", "a,nccl,1,0.2,64,half,2,gather",
        "a,nccl,1,0.2,64,fp4,2,all_reduce",
    )  # fmt: skip
    (tmp_path / "gemm.csv").write_text("m,n,k\n1,2,3\n", encoding="utf-8")
    (tmp_path / "v.csv").write_text(
        "gpu,ngpus,bytes,dtype,time_ns,busbw_GBps\na100,2,1048576,float,50000,20.97\na100,2,1048576,float,50000,5.24\n",
        encoding="utf-8",
    )
    found, left = bench.read(tmp_path)
    times = {name: [row.seconds for row in rows] for name, rows in found.items()}
    assert times == {"a 1": [2e-4], "vtrain a100": [pytest.approx(5e-5)]}
    assert sorted(left.values()) == [1, 1, 1, 2, 2]
    assert any("contradict" in reason for _, reason in left)


def test_a_fit_finds_the_parameters_that_made_the_times(bench: ModuleType) -> None:
    system = bench.System("switch", 8, 300e9, 2039e9)
    truth = bench.Parameters(6e-6, 1.2e-6, 210e9, 900e9, 7e-6)
    shapes = [(op, n, 4**k) for op in bench.KNOWN for n in (2, 4, 8) for k in range(5, 15)]
    times = bench.predict(system, truth, [bench.Measured(*shape, 1.0) for shape in shapes])
    rows = [bench.Measured(*shape, seconds) for shape, seconds in zip(shapes, times, strict=True)]
    found = bench.fit(system, rows)
    for name in ("startup", "latency", "bandwidth", "copy", "ramp"):
        assert getattr(found, name) == pytest.approx(getattr(truth, name), rel=0.03)


def test_no_fit_sees_a_row_that_it_is_judged_on(bench: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    system = bench.System("switch", 8, 300e9, 2039e9)
    rows = [
        bench.Measured(op, n, 2**k, 1e-5 + 2**k * 1e-11)
        for op in ("all_reduce", "all_gather") for n in (2, 4, 8) for k in range(10, 20)
    ]  # fmt: skip
    seen: dict[int, set[object]] = {}

    def fit(_: object, rows: Sequence[object]) -> object:
        given = bench.Parameters(1e-6 * (len(seen) + 1), 1e-6, 1e11, 1e12, 1e-6)
        seen[id(given)] = {given, *rows}
        return given

    def judge(_: object, given: object, fitted: int, judged: Sequence[object]) -> object:
        if fitted:
            assert judged
            assert not seen[id(given)] & set(judged)
            assert len(seen[id(given)]) == fitted + 1
        return bench.Score(fitted, len(judged), 0.1, 0.1)

    monkeypatch.setattr(bench, "fit", fit)
    monkeypatch.setattr(bench, "judge", judge)
    result, _ = bench.evaluate("x", system, rows)
    assert len(result) == 6
    for row in result:
        judged = {split: score.judged for split, score in row.scores.items()}
        assert judged == {"sizes": 5, "halves": 5, "count": 10, "operation": 10, "sheet": 10}
    # Two splits of sizes, three counts and two operations.
    assert len(seen) == 7


def test_every_system_and_every_split_is_reported_or_says_why_not(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"new_chip,nccl,1,{0.01 + 2**k * 1e-8},{2**k},half,{n},all_reduce" for n in (2, 4) for k in range(8, 24, 2)]
    write(tmp_path, *rows, *(f"h100_sxm,nccl,1,0.05,{2**k},half,16,all_reduce" for k in range(8, 12)))
    monkeypatch.setattr(sys, "argv", ["collectives.py", "--data", str(tmp_path), "--json"])
    bench.main()
    found = json.loads(capsys.readouterr().out)
    assert {(row["system"], row["ranks"]) for row in found["rows"]} == {("new_chip 1", 2), ("new_chip 1", 4)}
    for row in found["rows"]:
        reasons = {split: score["reason"] for split, score in row["scores"].items()}
        assert reasons["sizes"] is None
        assert reasons["operation"] == "only one operation"
        assert "no data sheet" in reasons["sheet"]
        assert row["scores"]["sizes"]["large"] < 0.3
    assert found["left_out"] == [
        {"system": "h100_sxm 1", "reason": "more devices than the 8 of its node; the fabric is not stated", "rows": 4}
    ]


def test_every_described_system_has_sane_figures_and_a_source(bench: ModuleType) -> None:
    table = bench.systems()
    assert {"a100_sxm", "h100_sxm", "l40s", "vtrain v100"} <= table.keys()
    for name, system in table.items():
        assert 1e9 < system.link < system.memory < 2e13, name
        assert all(rate <= system.link for _, rate in system.rings), name
    assert bench.describe("a100_sxm 2.27.3", table, []) is table["a100_sxm"]
