"""Measured CSVs: known by their columns, read as they stand, every row that is not used named with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from planproof.calibration.kinds import Reading, read_cases
from planproof.errors import DataError
from planproof.hardware import open_library
from planproof.plan import Recompute

LIBRARY = open_library()
VTRAIN = "params_b,gpus,gbs,mbs,hidden,heads,layers,seq,tp,dp,pp,measured_ms\n"
RUN = {
    "model": "GPT", "layers": "24", "hidden": "2048", "ffn": "8192", "heads": "16", "vocab": "50368", "seq": "2048", "gpus": "8",
    "gpu_type": "H100", "tp": "1", "pp": "1", "dp": "8", "zero_stage": "3", "recompute": "none", "mbs": "14", "gbs": "112",
    "precision": "amp_bf16", "step_time_s": "0.63", "tflops_per_gpu": "413",
}  # fmt: skip


def read(tmp_path: Path, text: str, name: str = "any.csv") -> Reading:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_cases(path, LIBRARY)


def run(tmp_path: Path, drop: str = "", **changes: str) -> Reading:
    cells = {key: value for key, value in (RUN | changes).items() if key != drop}
    return read(tmp_path, ",".join(cells) + "\n" + ",".join(f'"{value}"' for value in cells.values()) + "\n")


def test_a_layout_is_known_by_its_columns_in_any_order_and_under_any_name(tmp_path: Path) -> None:
    found = read(tmp_path, VTRAIN + "3.6,64,512,8,3072,32,30,2048,2,32,1,3975.2\n", "mosaic_mpt_fsdp.csv")
    assert (found.layout, len(found.cases)) == ("vTrain iteration times", 1)
    case = found.cases[0]
    assert case.seconds == pytest.approx(3.9752)
    assert (case.plan.mesh.tensor, case.plan.mesh.data, case.plan.accumulation) == (2, 32, 2)
    assert (case.plan.recompute, case.device, case.model.vocabulary) == (Recompute.FULL, "A100-80GB", 51200)
    turned = read(
        tmp_path,
        "measured_ms,pp,dp,tp,seq,layers,heads,hidden,mbs,gbs,gpus,params_b\n3975.2,1,32,2,2048,30,32,3072,8,512,64,3.6\n",
    )
    assert turned.cases[0].identity == case.identity


def test_a_complete_run_becomes_a_case_with_what_was_assumed(tmp_path: Path) -> None:
    found = run(tmp_path)
    assert found.reasons == {}
    case = found.cases[0]
    assert (case.software, case.plan.zero, case.plan.accumulation, case.seconds) == ("fsdp", 3, 1, 0.63)
    assert any("sharding" in one for one in case.assumed)


@pytest.mark.parametrize(
    ("changes", "reason", "told"),
    [
        ({"layers": ""}, "incomplete: layers is not stated", "layers"),
        ({"recompute": ""}, "incomplete: recompute is not stated", "recompute"),
        ({"hidden": "wide"}, "not a number: hidden", "'wide'"),
        ({"step_time_s": "630 ms"}, "another unit: step_time_s", "'630 ms'"),
        ({"step_time_s": "nan"}, "out of range: step_time_s", "'nan'"),
        ({"step_time_s": "-1"}, "out of range: step_time_s", "'-1'"),
        ({"step_time_s": "0.00063", "tflops_per_gpu": ""}, "contradictory: faster than the device's peak", "unit"),
        ({"step_time_s": "0.00063"}, "contradictory: faster than the device's peak", "unit"),
        ({"step_time_s": "1.9"}, "contradictory: FLOPs and time", "tflops_per_gpu"),
        ({"step_time_s": "2000", "tflops_per_gpu": ""}, "contradictory: slower than any training run", "unit"),
        ({"tp": "2"}, "contradictory: degrees are not the device count", "tensor 2"),
        ({"gbs": "113"}, "contradictory: batch is not data x microbatch x accumulation", "113"),
        ({"gpu_type": "Z900"}, "unknown device", "'Z900'"),
        ({"heads": "15"}, "contradictory: heads do not divide hidden", "15 heads"),
        ({"precision": "quick"}, "not a word: precision", "'quick'"),
        (
            {"note": "use for MEMORY, not for step time"},
            "not modelled: the row's note says its time is no training step's",
            "note",
        ),
    ],
)
def test_a_row_that_is_not_used_says_why_and_where(tmp_path: Path, changes: dict[str, str], reason: str, told: str) -> None:
    found = run(tmp_path, **changes)
    assert found.cases == ()
    assert found.reasons == {reason: 1}
    line, rejected = found.left_out[0]
    assert line == 2
    assert "any.csv, line 2" in rejected.detail
    assert told in rejected.detail
    assert found.told() == [f"1 left out: {reason} (first: {rejected.detail})"]


def test_a_missing_column_is_named_and_a_near_one_in_another_unit_too(tmp_path: Path) -> None:
    found = run(tmp_path, drop="tp")
    assert (found.layout, found.missing, found.reasons) == ("runs", ("tp",), {"missing column: tp": 1})
    found = read(tmp_path, VTRAIN.replace("measured_ms", "measured_s") + "3.6,64,512,8,3072,32,30,2048,2,32,1,3.97\n")
    assert found.missing == ("measured_ms",)
    assert "'measured_s' stands there" in found.note


def test_time_and_rate_that_stand_exchanged_in_a_second_row_are_found(tmp_path: Path) -> None:
    rows = [RUN | {"step_time_s": "0.63", "tflops_per_gpu": "413"}, RUN | {"step_time_s": "413", "tflops_per_gpu": "0.63"}]
    text = ",".join(RUN) + "\n" + "".join(",".join(row.values()) + "\n" for row in rows)
    assert len(read(tmp_path, text).cases) == 1


def test_copies_of_a_measurement_count_once_and_repeats_with_their_own_time_stay(tmp_path: Path) -> None:
    row = "3.6,64,512,8,3072,32,30,2048,2,32,1,"
    found = read(tmp_path, VTRAIN + f"{row}3975.2\n{row}3975.2\n{row}3990.1\n")
    assert len(found.cases) == 2
    assert found.reasons == {"exact repeat of another row": 1}


def test_closed_forms_and_shares_of_other_rows_are_no_measurements(tmp_path: Path) -> None:
    head = "paper,table,model,hidden,layers,heads,seq,vocab,gpus,tp,pp,dp,mbs,gbs,interleave_v,recompute,sequence_parallel,"
    head += "hardware,metric,unit,value,derived_iteration_s\n"
    base = "A 2022,T,22B,6144,48,64,2048,51200,8,8,1,1,4,4,1,full,no,A100-80GB,"
    found = read(
        tmp_path,
        head
        + f"{base}iteration time,s,1.42,\n{base}closed form activation memory,GiB,59,\n"
        + f"{base}hardware FLOPs utilization,percent,43,\n{base}iteration time,hours,1,\n",
    )
    assert [case.seconds for case in found.cases] == [1.42]
    assert found.reasons == {
        "another unit: value": 1, "closed form, not measured": 1, "repeats another row as utilisation": 1,
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "a\n1\n", "a,b\n1\n", "a,a\n1,2\n", 'a,b\n"1,2\n', "\x00"])
def test_what_is_no_table_is_a_planned_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError):
        read(tmp_path, text)


def test_columns_of_no_known_layout_are_told(tmp_path: Path) -> None:
    found = read(tmp_path, "colour,size\nred,3\n")
    assert found.layout == "unknown"
    assert "colour, size" in found.note


def test_stage_times_need_all_stages_of_a_run_and_are_simulated(tmp_path: Path) -> None:
    (tmp_path / "plans.csv").write_text(
        "machine,plan_json_stem,num_layers,seq,heads,hidden,gbs,mbs,num_stages,gpus_per_stage\na10g,p,4,2048,16,2048,8,1,2,1 1\n"
    )
    head = "machine,model,num_stages,run,stage,rank,global_batch_size,step_time_ms,fwd_compute_ms,bwd_compute_ms,"
    head += "params_allreduce_ms,optimizer_ms,plan_json_stem\n"
    rows = "a10g,m,2,r,0,0,8,950,300,500,0,10,p\na10g,m,2,r,1,1,8,950,300,500,0,20,p\n"
    found = read(tmp_path, head + rows)
    assert len(found.cases) == 1
    assert found.cases[0].measured_stages == ((0.3 / 8, 0.5 / 8), (0.3 / 8, 0.5 / 8))
    assert read(tmp_path, head + rows.splitlines()[0] + "\n").reasons == {"incomplete: stages of the run are missing": 1}
