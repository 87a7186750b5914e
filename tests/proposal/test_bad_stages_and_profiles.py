"""Bad stages and bad profiles, one by one: each is named with its rule or error, its place, and what would do."""

from __future__ import annotations

import shutil
from pathlib import Path

import planproof
import pytest
from planproof.errors import PlanproofError

BASES = Path(__file__).resolve().parent.parent.parent / "rules/bases"
STAGES = (BASES / "stages.yaml").read_text(encoding="utf-8")
PROFILED = (BASES / "profiled.yaml").read_text(encoding="utf-8")


def line_of(text: str, part: str) -> int:
    return next(n for n, line in enumerate(text.splitlines(), 1) if part in line)


def linted(folder: Path, text: str) -> list[tuple[str, str, int, str]]:
    """(rule, severity, line, message and remedy) of the findings."""
    path = folder / "proposal.yaml"
    path.write_text(text, encoding="utf-8")
    found = []
    for report in planproof.lint([str(path)]):
        for one in report.to_json()["findings"]:
            found.append((one["rule"], one["severity"], one["line"], f"{one['message']} {one['remedy']}"))
    return found


@pytest.mark.parametrize(
    ("old", "new", "part", "said"),
    [
        ("{layers: [7, 14]", "{layers: [6, 14]", "layers: [6, 14]", "6"),
        ("{layers: [15, 22]", "{layers: [16, 22]", "layers: [16, 22]", "15"),
        ("{layers: [23, 29]", "{layers: [23, 30]", "layers: [23, 30]", "30"),
        ("devices: 8, mesh: {data: 4, tensor: 2}", "devices: 16, mesh: {data: 8, tensor: 2}", "name: uneven", "32"),
    ],
    ids=["stages overlap", "stages leave a gap", "beyond the model", "more devices than the cluster has"],
)
def test_stages_that_cannot_be_are_errors_where_they_stand(tmp_path: Path, old: str, new: str, part: str, said: str) -> None:
    text = STAGES.replace(old, new)
    assert text != STAGES
    errors = [one for one in linted(tmp_path, text) if one[1] == "error"]
    assert errors
    block = range(line_of(text, "name: uneven"), line_of(text, "planning_cost"))
    assert all(line in block for _, _, line, _ in errors)
    assert any(said in message for _, _, _, message in errors)
    assert any(line == line_of(text, part) for _, _, line, _ in errors) or len(block) > 1


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("    microbatch: 2\n", "    microbatch: 0\n", "0"),
        ("    microbatch: 2\n", "    microbatch: 2\n    accumulation: 0\n", "0"),
        ("{layers: [15, 22]", "{layers: [22, 15]", "22"),
    ],
    ids=["a microbatch of nothing", "zero microbatches", "layers that run backwards"],
)
def test_what_is_no_number_of_something_is_refused_with_its_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = STAGES.replace(old, new)
    path = tmp_path / "proposal.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        found = [(one["line"], f"{one['message']} {one['remedy']}") for report in planproof.lint([str(path)])
                 for one in report.to_json()["findings"] if one["severity"] == "error"]  # fmt: skip
    except PlanproofError as error:
        found = [(error.place.line, f"{error.message} {error.remedy}")]
    at = line_of(text, new.strip().splitlines()[-1])
    assert (at, True) in [(line, said in message) for line, message in found], found


def test_fewer_microbatches_than_stages_is_told_with_what_it_costs(tmp_path: Path) -> None:
    """Four stages and two microbatches: 3 of 5 slots of the pipeline idle where stages are equal, (p - 1) / (m + p - 1)."""
    text = STAGES.replace("global_batch: 512 sequences", "global_batch: 32 sequences").replace(
        "    microbatch: 2\n", "    microbatch: 4\n"
    )
    (told,) = [one for one in linted(tmp_path, text) if one[0] == "SCH001"]
    assert told[1] == "warning"
    assert line_of(text, "name: uneven") <= told[2] < line_of(text, "planning_cost")
    assert "2 microbatches a step through 4 stages" in told[3]
    assert "60" in told[3]
    assert "at least 4" in told[3]


def profiled(folder: Path, *rows: str, header: str = "layers,mesh,microbatch,latency_ms,workspace_mib,activation_mib") -> str:
    for file in BASES.iterdir():
        if file.is_file() and file.name != "profile.csv":
            shutil.copy(file, folder / file.name)
    (folder / "profile.csv").write_text("\n".join((header, *rows)) + "\n", encoding="utf-8")
    return PROFILED


def test_a_profile_of_another_number_of_layers_is_told_and_not_used(tmp_path: Path) -> None:
    text = profiled(tmp_path, "0-3,tensor=4,1,0.001,260,1010", "4-9,tensor=4,1,0.001,540,1040", "0-9,tensor=8,1,0.001,310,980")
    found = {one[0]: one for one in linted(tmp_path, text)}
    assert found["PRO002"][2] == line_of(text, "profile: {")
    assert "is not used" in found["PRO002"][3]
    # What it would have measured counts as estimated.
    assert "EVI027" in found


def test_a_profile_of_other_shapes_is_told_and_not_used(tmp_path: Path) -> None:
    rows = [f"{layer},tensor=4,1,0.001,260,1010,113246208" for layer in range(8)]
    text = profiled(tmp_path, *rows, header="layer,mesh,microbatch,latency_ms,workspace_mib,activation_mib,parameters")
    found = {one[0]: one for one in linted(tmp_path, text)}
    assert "is not used" in found["PRO011"][3]
    assert found["PRO011"][2] == line_of(text, "profile: {")
    assert "EVI027" in found


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("0-3,tensor=4,1,60.8,260,1010", "0-3,tensor=4,1,79.5,260,1010"),
        ("0-3,tensor=4,1,60.8,260,1010", "0-3,tensor=4,1,60.8,260,2020"),
        ("0-3,tensor=4,1,60.8,260,1010", "0-3,tensor=4,1,,300,"),
    ],
    ids=["two times", "two activation memories", "two workspaces"],
)
def test_rows_that_contradict_each_other_are_an_error_with_both_lines(tmp_path: Path, first: str, second: str) -> None:
    text = profiled(tmp_path, first, "4-7,tensor=4,1,66.3,540,1040", second)
    (told,) = [one for one in linted(tmp_path, text) if one[0] == "PRO001"]
    assert told[1] == "error"
    assert "Lines 2 and 4" in told[3]
    assert told[2] == line_of(text, "profile: {")


def test_a_row_that_adds_a_number_to_another_is_no_contradiction(tmp_path: Path) -> None:
    text = profiled(tmp_path, "0-3,tensor=4,1,60.8,,", "4-7,tensor=4,1,66.3,540,1040", "0-3,tensor=4,1,,260,1010")
    assert "PRO001" not in [one[0] for one in linted(tmp_path, text)]


@pytest.mark.parametrize(
    ("cell", "said"), [("-60.8", "-60.8"), ("nan", "nan"), ("", "EVI")], ids=["negative", "not a number", "missing"]
)
def test_negative_and_missing_latencies(tmp_path: Path, cell: str, said: str) -> None:
    """A negative one is an error with file, line and column; of a missing one that stage is estimated, and the rest counts."""
    text = profiled(tmp_path, f"0-3,tensor=4,1,{cell},260,1010", "4-7,tensor=4,1,66.3,540,1040")
    if cell:
        with pytest.raises(PlanproofError, match=f"column 'latency_ms'.*{said}") as caught:
            linted(tmp_path, text)
        assert (Path(caught.value.place.file).name, caught.value.place.line) == ("profile.csv", 2)
    else:
        assert not [one for one in linted(tmp_path, text) if one[1] == "error" and one[0].startswith("PRO")]
