"""`planproof lint`: what is checked, where results go, and what the command ends with."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from planproof.cli import lint as lint_module
from planproof.cli import main as command
from planproof.cli.lint import Progress
from planproof.cli.lint_work import repository_name

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "smallest"
GOOD = (EXAMPLES / "proposal.yaml").read_text(encoding="utf-8")
REFUSED = (EXAMPLES / "refused.yaml").read_text(encoding="utf-8")
BROKEN = "planproof: 1\nlayouts: all\nlayouts: all\n"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command in this process, in a folder with three proposals: exit status, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    for name, text in (("good", GOOD), ("refused", REFUSED)):
        (tmp_path / "plans").mkdir(exist_ok=True)
        (tmp_path / "plans" / f"{name}.yaml").write_text(text, encoding="utf-8")

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["planproof", "lint", *arguments])
        with pytest.raises(SystemExit) as ended:
            command()
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        assert "Traceback" not in err
        return ended.value.code, out, err

    return call


def listed(out: str) -> set[str]:
    return {line.partition(":")[0] for line in out.splitlines()}


def test_a_folder_a_glob_and_names_are_checked(run: Run) -> None:
    for paths in (["."], ["plans"], ["plans/*.yaml"], ["**/*.yaml"], ["plans/good.yaml", "plans/refused.yaml"]):
        status, out, err = run(*paths, "--format", "concise")
        assert (status, err) == (1, "")
        assert listed(out) == {"plans/good.yaml", "plans/refused.yaml"}


def test_standard_input_is_checked_under_the_name_that_is_given(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for options, name in (([], "<stdin>"), (["--stdin-filename", "plans/x.yaml"], "plans/x.yaml")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(REFUSED.encode())))
        status, out, _ = run("-", *options, "--format", "concise")
        assert status == 1
        assert listed(out) == {name}


def test_references_of_standard_input_start_where_it_would_stand(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = GOOD.replace("profile: none", "profile: {file: there.csv}")
    (tmp_path / "plans" / "there.csv").write_text("layers,microbatch,data,latency_ms\n0-31,1,32,900\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run("-", "--stdin-filename", "plans/x.yaml")[0] == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    status, _, err = run("-", "--stdin-filename", "x.yaml")
    assert status == 2
    assert "there.csv" in err


def test_standard_input_beyond_the_limit_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"#" * 2_000_000)))
    status, _, err = run("-")
    assert status == 2
    assert "the limit is 1,048,576" in err


def test_a_file_that_cannot_be_judged_is_said_and_the_others_are_checked(run: Run, tmp_path: Path) -> None:
    (tmp_path / "plans" / "broken.yaml").write_text(BROKEN)
    status, out, err = run("plans", "nowhere.yaml", "--format", "concise")
    assert status == 2
    assert listed(out) == {"plans/good.yaml", "plans/refused.yaml"}
    assert err.startswith("error: plans/broken.yaml:3:1: ")
    assert "error: nowhere.yaml: " in err


def test_no_proposal_is_said_with_what_was_looked_at(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    status, out, err = run("empty")
    assert (status, out) == (2, "")
    assert "there is no proposal in 'empty'" in err
    assert "--allow-empty" in err
    (tmp_path / "empty" / "x.yaml").write_text("a: 1\n")
    assert "1 file was looked at, and none begins with the key 'planproof'" in run("empty")[2]
    status, out, err = run("empty", "--allow-empty", "--format", "sarif")
    assert status == 0
    assert json.loads(out)["runs"][0]["results"] == []


def test_a_hook_may_name_files_that_are_no_proposals(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("a: 1\n")
    assert run("x.yaml", "--only-proposals", "--allow-empty")[0] == 0
    status, out, _ = run("x.yaml", "plans/refused.yaml", "--only-proposals", "--allow-empty", "--format", "concise")
    assert (status, listed(out)) == (1, {"plans/refused.yaml"})


def test_each_format_goes_to_its_file_and_one_to_standard_output(run: Run, tmp_path: Path) -> None:
    formats = ("json", "sarif", "github", "gitlab", "junit", "rdjson", "markdown", "text", "concise")
    given = [part for name in formats for part in ("--format", f"{name}=out.{name}")]
    status, out, err = run("plans", *given, "--format", "concise")
    assert (status, err) == (1, "")
    made = {name: (tmp_path / f"out.{name}").read_text(encoding="utf-8") for name in formats}
    assert made["concise"] == out
    for name in formats:
        assert run("plans", "--format", name)[1] == made[name]


def test_two_formats_on_standard_output_or_in_one_file_are_a_usage_error(run: Run, tmp_path: Path) -> None:
    for given, said in (
        (["--format", "github", "--format", "text"], "Only one format can go to standard output"),
        (["--format", "json=a", "--format", "sarif=./a"], "would go to the file"),
        (["--format", "srif"], "did you mean 'sarif'"),
        (["--format", "sarif="], "names no file after the '='"),
        (["--format", "sarif=./plans/../plans/good.yaml"], "is one of the files to check"),
        (["--write-baseline", "plans/good.yaml"], "is one of the files to check"),
    ):
        status, out, err = run("plans", *given)
        assert (status, out) == (2, "")
        assert said in err
    assert not (tmp_path / "a").exists()
    assert (tmp_path / "plans" / "good.yaml").read_text(encoding="utf-8") == GOOD


def test_an_output_that_cannot_be_written_is_one_message_and_no_file(run: Run, tmp_path: Path) -> None:
    status, _, err = run("plans", "--format", "sarif=missing/plan.sarif")
    assert status == 2
    assert "'missing/plan.sarif' cannot be written" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plans"]


def test_several_processes_give_the_same_output_in_the_same_order(run: Run, tmp_path: Path) -> None:
    for k in range(12):
        text = (GOOD, REFUSED, BROKEN)[k % 3].replace("count: 4", f"count: {4 + k}")
        (tmp_path / "plans" / f"{k:02}.yaml").write_text(text, encoding="utf-8")
    for name in ("text", "json", "sarif"):
        one, two = (run(".", "--format", name, "--jobs", jobs) for jobs in ("1", "3"))
        assert one == two
        assert one[0] == 2


def test_a_wrong_configuration_ends_a_run_of_several_processes_with_its_message(run: Run, tmp_path: Path) -> None:
    for k in range(12):
        (tmp_path / "plans" / f"{k:02}.yaml").write_text(GOOD, encoding="utf-8")
    (tmp_path / "planproof.toml").write_text('ignore = ["NOP999"]\n')
    outcomes = {run(".", "--jobs", jobs) for jobs in ("1", "2")}
    ((status, _, err),) = outcomes
    assert status == 2
    assert "NOP999" in err


def test_a_process_that_dies_is_a_fault_and_no_missing_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from planproof.cli import lint_work

    for k in range(12):
        (tmp_path / "plans" / f"{k:02}.yaml").write_text(GOOD, encoding="utf-8")

    def die(*_: Any) -> None:
        os._exit(9)

    monkeypatch.setattr(lint_work, "_serve", die)
    status, _, err = run(".", "--jobs", "2")
    assert status == 2
    assert "ended without a word" in err


def test_the_summary_of_a_step_is_added_to_the_runners_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    _, out, _ = run("plans", "--format", "github")
    assert "## planproof" not in out
    assert summary.read_text().startswith("before\n## planproof\n\n2 files: 1 error")
    run("plans", "--format", "text")
    assert summary.read_text().count("## planproof") == 1
    monkeypatch.setattr(lint_module, "_SUMMARY", 2000)
    run("plans", "--format", "github")
    cut = summary.read_text()[len("before\n") :]
    assert cut.endswith("The summary is cut here: it is longer than what can be shown.\n")


def test_fail_on_comes_from_the_command_line_then_the_configuration_then_is_error(run: Run, tmp_path: Path) -> None:
    assert run("plans/good.yaml")[0] == 0
    (tmp_path / "planproof.toml").write_text('fail-on = "note"\n')
    assert run("plans/good.yaml")[0] == 1
    assert run("plans/good.yaml", "--isolated")[0] == 0
    assert run("plans/good.yaml", "--fail-on", "error")[0] == 0
    assert run("plans/refused.yaml", "--fail-on", "never")[0] == 0


def test_a_baseline_keeps_what_is_known_in_sight_and_out_of_the_exit_status(run: Run, tmp_path: Path) -> None:
    status, _, err = run("plans", "--write-baseline", "known.json")
    assert status == 0
    assert "findings are known from now on" in err
    status, out, _ = run("plans", "--baseline", "known.json")
    assert status == 0
    assert "known: the baseline has it" in out
    (tmp_path / "plans" / "refused.yaml").write_text(GOOD, encoding="utf-8")
    status, _, err = run("plans", "--baseline", "known.json")
    assert "is gone and still in the baseline" in err
    before = (tmp_path / "known.json").read_text()
    run("plans", "--baseline", "known.json", "--update-baseline")
    assert len((tmp_path / "known.json").read_text()) < len(before)
    assert run("plans", "--update-baseline")[0] == 2


def test_known_findings_are_no_failures_in_any_format(run: Run) -> None:
    run("plans", "--write-baseline", "known.json")
    assert "<failure" not in run("plans", "--baseline", "known.json", "--format", "junit")[1]
    assert "::error" not in run("plans", "--baseline", "known.json", "--format", "github")[1]
    sarif = json.loads(run("plans", "--baseline", "known.json", "--format", "sarif")[1])
    assert {result["baselineState"] for result in sarif["runs"][0]["results"]} == {"unchanged"}


def git(folder: Path, *arguments: str) -> None:
    settings = ("user.name=t", "user.email=t@example.org", "commit.gpgsign=false", "init.defaultBranch=main")
    command = ["git", *(part for one in settings for part in ("-c", one)), *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def test_diff_checks_what_changed_and_takes_the_configuration_from_the_base(run: Run, tmp_path: Path) -> None:
    (tmp_path / "planproof.toml").write_text("")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    status, out, err = run("--diff", "HEAD", ".", "--format", "concise")
    assert (status, out) == (0, "")
    assert "none of 2 proposals has changed since 'HEAD'" in err
    (tmp_path / "plans" / "refused.yaml").write_text(REFUSED + "# edited\n", encoding="utf-8")
    (tmp_path / "planproof.toml").write_text('ignore = ["EVI015"]\nfail-on = "never"\n')
    status, out, _ = run("--diff", "HEAD", ".", "--format", "concise")
    assert (status, listed(out)) == (1, {"plans/refused.yaml"})
    assert "EVI015" in out
    assert run(".", "--format", "concise")[0] == 0, "the change's own configuration is used without --diff"


def test_diff_takes_the_baseline_from_the_base_so_that_a_change_cannot_write_its_own(run: Run, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    (tmp_path / "plans" / "refused.yaml").write_text(REFUSED + "# edited\n", encoding="utf-8")
    run("plans", "--write-baseline", "known.json")
    assert run("plans", "--baseline", "known.json")[0] == 0
    assert run("plans", "--diff", "HEAD", "--baseline", "known.json")[0] == 1
    git(tmp_path, "add", "known.json")
    git(tmp_path, "commit", "-qm", "accepted")
    assert run("plans", "--diff", "HEAD", "--baseline", "known.json")[0] == 0


def test_names_in_reports_start_at_the_root_of_the_checkout(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path / "plans")
    body = json.loads(run("refused.yaml", "--format", "gitlab")[1])
    assert {one["location"]["path"] for one in body} == {"plans/refused.yaml"}


def test_names_outside_of_the_root_are_whole(tmp_path: Path) -> None:
    root = str(tmp_path / "a")
    assert repository_name(str(tmp_path / "a" / "b" / "c.yaml"), root) == "b/c.yaml"
    assert repository_name(str(tmp_path / "c.yaml"), root) == str(tmp_path / "c.yaml")


def test_a_name_that_is_no_utf_8_is_shown_in_every_format(run: Run, tmp_path: Path) -> None:
    name = os.fsdecode(b"plans/\xff.yaml")
    (tmp_path / name).write_text(REFUSED, encoding="utf-8")
    for format_ in ("text", "json", "sarif", "github", "gitlab", "junit", "rdjson", "markdown", "concise"):
        status, out, _ = run("plans", "--format", format_)
        assert status == 1
        assert "ff.yaml" in out


@pytest.mark.parametrize(
    ("choice", "environment", "terminal", "coloured"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {"FORCE_COLOR": "1"}, True, False),
    ],
)
def test_colour_follows_the_option_then_the_environment_then_the_terminal(
    choice: str, environment: dict[str, str], terminal: bool, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", type("Stream", (io.StringIO,), {"isatty": lambda self: terminal})())
    assert lint_module._colour(choice) is coloured


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown_for_long_work_on_a_terminal_only(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.5, 2.0, 2.05, 3.0, 4.0])
    monkeypatch.setattr(lint_module.time, "monotonic", lambda: next(clock))
    stream = type("Stream", (io.StringIO,), {"isatty": lambda self: terminal})()
    monkeypatch.setattr(sys, "stderr", stream)
    progress = Progress(5)
    for _ in range(5):
        progress.step()
    progress.clear()
    progress.clear()
    shown = "\r\x1b[K2 of 5 files\r\x1b[K4 of 5 files\r\x1b[K"
    assert stream.getvalue() == (shown if terminal else "")


def test_an_interrupted_run_ends_with_130_and_leaves_no_process(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from planproof.cli import lint_work

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lint_work, "_checked", interrupted)
    status, _, err = run("plans")
    assert status == 130
    assert "Interrupted" in err


def test_lint_loads_no_writer_that_was_not_asked_for(run: Run) -> None:
    code = (
        "import sys; sys.argv = ['planproof', 'lint', 'plans/good.yaml']\n"
        "from planproof.cli import main\n"
        "try:\n    main()\nexcept SystemExit: pass\n"
        "slow = {'xml.etree.ElementTree', 'multiprocessing', 'numpy', 'networkx', 'jinja2', 'scipy', 'planproof.report.sarif'}\n"
        "print(sorted(slow & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_a_closed_pipe_is_no_finding_and_leaves_no_message(run: Run, tmp_path: Path) -> None:
    for k in range(30):
        (tmp_path / "plans" / f"{k:02}.yaml").write_text(GOOD, encoding="utf-8")
    for jobs in ("1", "2"):
        command = [sys.executable, "-m", "planproof.cli", "lint", "plans", "--jobs", jobs, "--format", "text"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait() == 141
        process.stderr.close()
