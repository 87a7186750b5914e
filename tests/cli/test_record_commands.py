"""`record verify` finds every change, `record compare` every miss, `record list` what is stale; a block of people survives."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from planproof.cli.main import root
from planproof.decision.comparison import compare
from planproof.decision.review import Review
from planproof.errors import PlanproofError
from planproof.importers.run_log import read_run_log
from planproof.pipeline import review

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(root, list(arguments), standalone_mode=False, catch_exceptions=False)
    return (done.return_value if isinstance(done.return_value, int) else 0), done.output


@pytest.fixture
def folder(tmp_path: Path, made: str) -> Path:
    """A repository with the example of measured stages and its record."""
    shutil.copytree(EXAMPLES / "measured", tmp_path / "measured")
    shutil.copy(EXAMPLES / "planproof.toml", tmp_path / "planproof.toml")
    (tmp_path / "measured" / "record.md").write_text(made, encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> str:
    base = tmp_path_factory.mktemp("made")
    shutil.copytree(EXAMPLES / "measured", base / "measured")
    shutil.copy(EXAMPLES / "planproof.toml", base / "planproof.toml")
    assert run("review", str(base / "measured" / "proposal.yaml"), "-o", str(base / "record.md"))[0] == 0
    return (base / "record.md").read_text(encoding="utf-8")


def record(folder: Path) -> Path:
    return folder / "measured" / "record.md"


def test_a_record_of_unchanged_inputs_verifies_with_whatever_people_wrote_in_their_block(folder: Path) -> None:
    text = record(folder).read_text()
    head, _, tail = text.partition("<!-- decision: begin -->\n")
    _, _, tail = tail.partition("<!-- decision: end -->")
    written = f"{head}<!-- decision: begin -->\nAccepted by **A. B.**\n\n## Even a heading\n<!-- decision: end -->{tail}"
    record(folder).write_text(written)
    status, out = run("record", "verify", str(record(folder)))
    assert (status, out.splitlines()) == (0, [f"{record(folder)}: verified"])
    # Rendering it again keeps the block, byte for byte.
    assert run("review", str(folder / "measured" / "proposal.yaml"), "-o", str(record(folder)))[0] == 0
    assert record(folder).read_text() == written


def test_a_changed_input_is_named_with_what_it_does_to_the_verdict(folder: Path) -> None:
    proposal = folder / "measured" / "proposal.yaml"
    proposal.write_text((EXAMPLES / "measured" / "proposal.yaml").read_text() + "\n# edited\n")
    log = folder / "measured" / "profile.csv"
    log.write_text(log.read_text() + "\n")
    status, out = run("record", "verify", str(record(folder)))
    assert status == 1
    assert "does NOT verify" in out
    assert "input: the proposal has changed" in out
    assert "profile.csv has changed" in out
    assert "the verdict and the plan are the same" in out


def test_an_edit_outside_the_block_is_shown_with_its_line(folder: Path) -> None:
    text = record(folder).read_text()
    line = next(k for k, row in enumerate(text.split("\n"), start=1) if row.startswith("- **Step time**"))
    record(folder).write_text(text.replace("- **Step time**: ", "- **Step time**: 1 ns or "))
    status, out = run("record", "verify", str(record(folder)))
    assert status == 1
    assert "no input differs: the record was edited" in out
    assert f"the first at line {line}" in out
    assert "-- **Step time**: 1 ns or" in out


def test_numbers_of_the_record_are_not_believed(folder: Path) -> None:
    """A forged digest does not make a record verify: the bytes are compared."""
    text = record(folder).read_text()
    verdict = next(line for line in text.split("\n") if line.startswith("verdict: ")).removeprefix("verdict: ")
    record(folder).write_text(text.replace(f"verdict: {verdict}", "verdict: REFUSED"))
    status, out = run("record", "verify", str(record(folder)))
    assert status == 1
    assert "verdict: REFUSED with" in out
    assert f"-> {verdict} with" in out


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda text: text.replace("planproof_record: 1", "planproof_record: 0"), "older format 0"),
        (lambda text: text.replace("planproof_record: 1", "planproof_record: 99"), "unknown format 99"),
        (lambda text: text.replace("planproof_record: 1\n", ""), "no 'planproof_record'"),
        (lambda text: text.replace("<!-- decision: end -->", ""), "not marked once"),
        (lambda text: text.replace("measured/proposal.yaml\"\n", "gone/proposal.yaml\"\n", 1), "is not found"),
        (lambda text: text.replace('path: "', 'path: "../../', 1), "no path inside a repository"),
        (lambda text: text.replace("planproof_record: 1", 'options: ["--exec=x"]\nplanproof_record: 1'), "'--exec=x'"),
        (lambda text: text.replace("planproof_record: 1", "options: [--as-of=never]\nplanproof_record: 1"), "wrong value"),
        (lambda text: text.replace("title: ", "title: [", 1), "not YAML"),
        (lambda text: text.replace("title: ", "title: &a [*a] #", 1), "anchors"),
        (lambda _: "# nothing\n", "front matter"),
    ],
)  # fmt: skip
def test_a_record_that_cannot_be_judged_says_why(folder: Path, change: object, what: str) -> None:
    assert callable(change)
    text = record(folder).read_text()
    changed = change(text)
    assert changed != text
    record(folder).write_text(changed)
    with pytest.raises(PlanproofError) as raised:
        run("record", "verify", str(record(folder)))
    assert what in raised.value.message
    assert raised.value.exit_status == 2
    assert raised.value.place.file is not None


def test_of_several_records_each_is_judged(folder: Path) -> None:
    other = folder / "measured" / "other.md"
    other.write_text(record(folder).read_text().replace("planproof_record: 1", "planproof_record: 0"))
    status, out = run("record", "verify", str(record(folder)), str(other))
    assert status == 2
    assert f"{record(folder)}: verified" in out


def steps(seconds: float, count: int = 40, head: str = "step,step_time_s") -> str:
    return head + "\n" + "".join(f"{k},{seconds * (1 + 0.001 * (k % 3))}\n" for k in range(1, count))


@pytest.fixture(scope="module")
def predicted() -> tuple[float, float, float]:
    done = review(EXAMPLES / "measured" / "proposal.yaml")
    best = done.candidate(done.recommended)
    assert best is not None
    assert best.step is not None
    return best.step.low, best.step.value, best.step.high


def test_a_run_inside_the_interval_gives_a_row_to_calibrate_on(folder: Path, predicted: tuple[float, float, float]) -> None:
    _, value, _ = predicted
    run_file, rows = folder / "run.csv", folder / "rows.csv"
    run_file.write_text(steps(value))
    status, out = run("record", "compare", str(record(folder)), str(run_file), "--rows", str(rows))
    assert status == 0
    assert ": holds" in out
    assert "The decision stands." in out
    (row,) = csv.DictReader(rows.read_text().splitlines())
    assert float(row["step_time_s"]) == pytest.approx(value, rel=0.002)
    degrees = [int(row[name]) for name in ("dp", "tp", "pp", "cp")]
    assert degrees[0] * degrees[1] * degrees[2] * degrees[3] == int(row["gpus"])


def test_a_run_beyond_the_threshold_overturns_and_names_a_cause(folder: Path, predicted: tuple[float, float, float]) -> None:
    _, _, high = predicted
    run_file = folder / "run.csv"
    run_file.write_text(steps(1.05 * high))
    status, out = run("record", "compare", str(record(folder)), str(run_file), "--format", "json")
    assert status == 1
    body = json.loads(out[out.index("{") :])
    (row,) = [one for one in body["rows"] if one["quantity"] == "step_time"]
    assert (row["state"], body["stands"]) == ("overturns", False)
    stage = next(one for one in row["causes"] if one["input"].startswith("latency of the recommended plan's stages"))
    assert stage["needed"] > stage["today"]


def test_a_faster_run_lies_outside_and_the_decision_stands(folder: Path, predicted: tuple[float, float, float]) -> None:
    low, _, _ = predicted
    run_file = folder / "run.csv"
    run_file.write_text(steps(900 * low, head="step,step_time_ms"))
    status, out = run("record", "compare", str(record(folder)), str(run_file))
    assert status == 0
    assert ": outside" in out
    assert "the decision stands" in out


def test_memory_beyond_the_device_overturns_and_missing_ranks_and_steps_are_said(folder: Path) -> None:
    run_file = folder / "run.csv"
    run_file.write_text("rank,stage,device_gib\n0,0,79.9\n1,0,20\n")
    status, out = run("record", "compare", str(record(folder)), str(run_file))
    assert status == 1
    assert "more than the device has" in out
    assert "2 of 16 ranks" in out
    assert "missing: step time" in out
    run_file.write_text("step,step_time_s\n1,10\n2,10\n")
    status, out = run("record", "compare", str(record(folder)), str(run_file))
    assert "all 2 logged figures lie in the warm-up" in out
    assert "Nothing measured was compared" in out
    assert status == 1


def test_a_plan_that_is_not_there_is_told(folder: Path) -> None:
    run_file = folder / "run.csv"
    run_file.write_text(steps(10))
    with pytest.raises(PlanproofError, match="no priced plan 'C99'"):
        run("record", "compare", str(record(folder)), str(run_file), "--plan", "C99")


def test_a_list_says_valid_or_stale_and_what_supersedes(folder: Path) -> None:
    older = folder / "measured" / "older.md"
    older.write_text(record(folder).read_text())
    text = record(folder).read_text()
    record(folder).write_text(text.replace("proposal:\n", 'supersedes: "older.md"\nproposal:\n', 1))
    status, out = run("record", "list", str(folder), "--format", "json")
    rows = {one["record"]: one for one in json.loads(out)}
    assert status == 0
    assert {one["state"] for one in rows.values()} == {"valid"}
    assert rows["measured/older.md"]["superseded_by"] == "measured/record.md"
    assert f"verdict: {rows['measured/record.md']['verdict']}\n" in text
    with (folder / "measured" / "profile.csv").open("a") as file:
        file.write("\n")
    status, out = run("record", "list", str(folder))
    assert status == 1
    assert "stale (profile" in out
    assert "has changed" in out


def test_a_folder_without_records_and_one_that_does_not_read(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# notes\n")
    assert run("record", "list", str(tmp_path)) == (0, f"no records under {tmp_path}\n")
    (tmp_path / "old.md").write_text("---\nverdict: X\nplanproof_record: 0\n---\n")
    assert run("record", "list", str(tmp_path))[0] == 2


@pytest.mark.long
def test_options_that_made_a_record_are_used_again(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "smallest", tmp_path / "smallest")
    shutil.copy(EXAMPLES / "planproof.toml", tmp_path / "planproof.toml")
    path = tmp_path / "smallest" / "record.md"
    proposal = str(tmp_path / "smallest" / "proposal.yaml")
    run("review", proposal, "-o", str(path), "--as-of", "2027-01-31", "--work-limit", "1")
    assert 'options: ["--as-of=2027-01-31", "--work-limit=1"]' in path.read_text()
    assert run("record", "verify", str(path))[0] == 0


def test_a_file_that_people_wrote_is_not_replaced_by_a_record_without_its_markers(folder: Path) -> None:
    record(folder).write_text(record(folder).read_text().replace("<!-- decision: begin -->", ""))
    before = record(folder).read_text()
    with pytest.raises(PlanproofError, match="not marked once"):
        run("review", str(folder / "measured" / "proposal.yaml"), "-o", str(record(folder)))
    assert record(folder).read_text() == before


def test_a_list_hashes_sheets_and_rules_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = record(folder).read_text()
    sheet = next(line for line in text.split("\n") if line.startswith("| data sheet: "))
    for name, forged in (("data sheet: ", sheet.replace(sheet.rpartition("| ")[2][:8], "0" * 8)), ("rules", "")):
        row = sheet if name != "rules" else next(line for line in text.split("\n") if line.startswith("| rules | "))
        record(folder).write_text(text.replace(row, forged or f"| rules | {'1' * 64} |"))
        status, out = run("record", "list", str(folder))
        assert status == 1
        assert "stale" in out
        assert "has changed" in out if name != "rules" else "the rules have changed" in out


def test_a_list_finds_sheets_that_people_added(tmp_path: Path) -> None:
    sheets = tmp_path / "sheets"
    sheets.mkdir()
    shipped = (EXAMPLES.parent / "engine" / "hardware" / "devices" / "A100-80GB.yaml").read_text(encoding="utf-8")
    (sheets / "A100-80GB.yaml").write_text(shipped + "# ours\n", encoding="utf-8")
    shutil.copytree(EXAMPLES / "measured", tmp_path / "measured")
    shutil.copy(EXAMPLES / "planproof.toml", tmp_path / "planproof.toml")
    file = tmp_path / "measured" / "record.md"
    made = run("review", str(tmp_path / "measured" / "proposal.yaml"), "--hardware", str(sheets), "-o", str(file))
    assert made[0] == 0
    assert run("record", "list", str(tmp_path))[0] == 0
    (sheets / "A100-80GB.yaml").write_text(shipped + "# ours, changed\n", encoding="utf-8")
    status, out = run("record", "list", str(tmp_path))
    assert (status, "A100-80GB.yaml has changed" in out) == (1, True)


@pytest.mark.parametrize("gone", ["profile.csv", "allreduce.txt"])
def test_an_input_that_is_missing_is_told(folder: Path, gone: str) -> None:
    (folder / "measured" / gone).unlink()
    status, out = run("record", "list", str(folder))
    assert (status, f"measured/{gone} is gone" in out) == (1, True)
    with pytest.raises(PlanproofError) as raised:
        run("record", "verify", str(record(folder)))
    assert gone in raised.value.message


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("step,step_time\n1,10\n", "step_time"),
        ("step,step_time_fortnights\n1,10\n", "step_time_fortnights"),
        ("step,device_kib,device_gib\n1,10,10\n", "device"),
    ],
)
def test_a_measured_quantity_without_a_unit_or_in_another_is_refused(folder: Path, table: str, told: str) -> None:
    file = folder / "run.csv"
    file.write_text(table)
    with pytest.raises(PlanproofError) as raised:
        run("record", "compare", str(record(folder)), str(file))
    assert told in raised.value.message
    assert raised.value.place.line == 1


def test_a_run_without_steps_says_what_it_lacks_and_decides_nothing(folder: Path) -> None:
    file = folder / "run.csv"
    file.write_text("rank,device_gib\n0,47.0\n3,46.0\n")
    _, out = run("record", "compare", str(record(folder)), str(file))
    assert "step time: not in the file" in out
    assert "exposed communication: not in the file" in out
    assert " of 16 ranks" in out


def test_a_record_that_was_cut_is_told_wherever_it_was_cut(folder: Path, made: str) -> None:
    """In the front matter or in the block for people: an error with a place. After them: it does not verify."""
    end = made.index("\n---\n", 4) + 5
    block = made.index("<!-- decision: end -->")
    for cut in (0, 3, 10, end // 2, end - 5, end + 1, block - 1):
        record(folder).write_text(made[:cut], encoding="utf-8")
        with pytest.raises(PlanproofError) as raised:
            run("record", "verify", str(record(folder)))
        assert (raised.value.exit_status, raised.value.place.file) == (2, str(record(folder)))
        assert raised.value.remedy
    record(folder).write_text(made[: len(made) // 2], encoding="utf-8")
    status, out = run("record", "verify", str(record(folder)))
    lines = len(made[: len(made) // 2].rstrip().split("\n"))
    assert (status, f"the record ends at line {lines}, before its last section: it was cut" in out) == (1, True)
    assert "was not an input before" not in out


@pytest.fixture(scope="module")
def abroad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose record was made with data sheets that lie outside it, under an absolute path."""
    base = tmp_path_factory.mktemp("abroad")
    sheets, repository = base / "first" / "sheets", base / "repository"
    sheets.mkdir(parents=True)
    shipped = (EXAMPLES.parent / "engine" / "hardware" / "devices" / "A100-80GB.yaml").read_text(encoding="utf-8")
    (sheets / "A100-80GB.yaml").write_text(shipped + "# ours\n", encoding="utf-8")
    shutil.copytree(EXAMPLES / "measured", repository / "measured")
    shutil.copy(EXAMPLES / "planproof.toml", repository / "planproof.toml")
    file = repository / "measured" / "record.md"
    assert run("review", str(repository / "measured" / "proposal.yaml"), "--hardware", str(sheets), "-o", str(file))[0] == 0
    shutil.move(base / "first", base / "second")
    return base


def test_sheets_outside_the_repository_are_named_without_the_machines_path(abroad: Path) -> None:
    text = (abroad / "repository" / "measured" / "record.md").read_text()
    assert '"--hardware=sheets"' in text
    assert "| data sheet: sheets/A100-80GB.yaml |" in text
    assert "| sheets/A100-80GB.yaml:" in text
    assert str(abroad) not in text


def test_sheets_outside_the_repository_are_not_listed_as_gone(abroad: Path) -> None:
    place = str(abroad / "repository")
    status, out = run("record", "list", place)
    assert (status, "gone" in out) == (1, False)
    assert "unknown (data sheet: sheets/A100-80GB.yaml lies in 'sheets' outside the repository: name it with --hardware)" in out
    status, out = run("record", "list", place, "--hardware", str(abroad / "second" / "sheets"))
    assert (status, "valid" in out) == (0, True)


def test_a_record_verifies_with_its_sheets_wherever_they_are_now(abroad: Path) -> None:
    path = str(abroad / "repository" / "measured" / "record.md")
    with pytest.raises(PlanproofError, match="'--hardware=sheets', a folder of data sheets that is not found") as raised:
        run("record", "verify", path)
    assert raised.value.place.line == 9
    assert "--hardware PATH" in str(raised.value.remedy)
    sheets = str(abroad / "second" / "sheets")
    assert run("record", "verify", path, "--hardware", sheets) == (0, f"{path}: verified\n")
    with pytest.raises(PlanproofError, match="made with 1 of --hardware, and 2 of them"):
        run("record", "verify", path, "--hardware", sheets, "--hardware", sheets)


MEGATRON = " iteration {step:8d}/ 500000 | elapsed time per iteration (ms): 10100.0 | global batch size: 128 |\n"
TORCHTITAN = "[rank0]: step: {step}  loss:  7.5  memory: 40.0GiB(50.0%)  tps: 1,000  mfu: 40.0%\n"


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("step,step_time_s\n11,-1\n12,-2\n", "no figure of the table can be used: line 2: step_time '-1' is no positive number"),
        ("step,step_time_s\n11,0\n", "step_time '0' is no positive number"),
        ("step,step_time_s\n11,nan\n", "step_time 'nan' is no positive number"),
        ("step,step_time_s\n11,\n", "its cells are empty"),
        ("rank,device_gib\n-4,40\n", "'-4' under 'rank' is no whole number from 0"),
        ("step,step_time_s\n11,13 s\n", "'13 s' under 'step_time_s' is no number"),
        ("step,step_time_min\n11,1\n", "has the unit 'min'"),
        ("[1, 2]", "no list of objects"),
        ("", "no measured step"),
    ],
)
def test_a_run_of_which_nothing_can_be_used_is_an_error_with_its_line(folder: Path, table: str, told: str) -> None:
    file = folder / "run.txt"
    file.write_text(table)
    with pytest.raises(PlanproofError) as raised:
        run("record", "compare", str(record(folder)), str(file))
    assert told in raised.value.message
    assert raised.value.place.file == str(file)
    assert raised.value.remedy
    assert raised.value.exit_status == 2


@pytest.fixture(scope="module")
def reviewed() -> Review:
    return review(EXAMPLES / "measured" / "proposal.yaml")


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("step,step_time_s\n1,10\n2,10\n", "step time: all 2 logged figures lie in the warm-up, the first 10 steps of the log"),
        (
            "step,step_time_s\n" + "".join(f"{k},10.1\n" for k in (10, 20, 30, 70)),
            "step time: 3 of the steps between 10 and 70, logged every 10, are not in the file",
        ),
        ("rank,device_gib\n0,46\n99999,47\n", "rank 99999 is none of the plan's 16 devices, and 1 such were left out"),
        (
            MEGATRON.format(step=20) + MEGATRON.format(step=30) + TORCHTITAN.format(step=77),
            "line 3: lines of torchtitan stand in this log of megatron-lm and were not read",
        ),
        (
            "".join(MEGATRON.format(step=k) for k in (20, 30, 20, 30)),
            "line 3: steps start again at 20; of a step that is logged twice the slower counts",
        ),
    ],
)
def test_what_a_run_lacks_or_mixes_is_said(reviewed: Review, table: str, told: str) -> None:
    candidate = reviewed.candidate(reviewed.recommended)
    assert candidate is not None
    result = compare(reviewed, candidate, read_run_log(table.encode(), "run.txt"))
    assert any(told in line for line in (*result.gaps, *result.notes))
