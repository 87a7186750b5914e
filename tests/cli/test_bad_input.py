"""Whatever bytes a proposal is made of, the command says in one message what is wrong, ends with 2, and writes nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from planproof.errors import PlanproofError
from planproof.pipeline import lint

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PLANPROOF = [sys.executable, "-m", "planproof.cli"]
HEAD = "planproof: 1\n"

TEXTS = {
    "empty": (b"", "empty"),
    "only a comment": (b"# nothing\n", "empty"),
    "binary": (bytes(range(256)) * 8, ""),
    "not UTF-8": (b"planproof: 1\nproposal: {title: \xff\xfe}\n", "UTF-8"),
    "a list": (b"- 1\n- 2\n", "mapping"),
    "deeply nested": (b"planproof: 1\nmodel: " + b"[" * 5000 + b"]" * 5000, "deep"),
    "a bomb of aliases": (
        b"planproof: 1\na: &a [x, x, x, x, x, x, x, x, x, x]\n"
        + b"".join(b"%c: &%c [%s]\n" % (97 + k, 97 + k, b", ".join([b"*%c" % (96 + k)] * 10)) for k in range(1, 9)),
        "alias",
    ),
    "a tab": (b"planproof: 1\nmodel:\n\ttransformer: {}\n", "tab"),
    "a duplicate key": (b"planproof: 1\nlayouts: all\nlayouts: all\n", "layouts"),
    "an unknown key": (b"planproof: 1\nworklaod: {}\n", "did you mean 'workload'"),
    "a wrong unit": (b"planproof: 1\ncluster: {fabric: {bandwidth: 50 GiB}}\n", "is a unit of bytes"),
    "no unit": (b"planproof: 1\ncluster: {fabric: {bandwidth: 50}}\n", "has no unit"),
    "zero": (b"planproof: 1\ncluster: {nodes: {count: 0}}\n", "too small"),
    "negative": (b"planproof: 1\nworkload: {sequence_length: -4}\n", "too small"),
    "NaN": (b"planproof: 1\nworkload: {dropout: .nan}\n", ""),
    "1e30": (b"planproof: 1\ncluster: {fabric: {latency: 1e30 s}}\n", "outside what can be"),
    "10^30 layers": (b"planproof: 1\nmodel: {transformer: {layers: 1000000000000000000000000000000}}\n", "too large"),
    "outside the repository": (b"planproof: 1\nprofile: {file: ../../../../etc/passwd}\n", "leaves the repository"),
    "an absolute path": (b"planproof: 1\nprofile: {file: /etc/passwd}\n", "/etc/passwd"),
    "a URL": (b"planproof: 1\nprofile: {file: 'https://example.org/p.csv'}\n", "https://example.org/p.csv"),
    "a missing file": (b"planproof: 1\nprofile: {file: nowhere.csv}\n", "does not exist"),
    "an unknown device": (b"planproof: 1\ncluster: {nodes: {count: 2, type: dgx_h1000}}\n", "dgx_h100"),
}


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PLANPROOF, *arguments], cwd=cwd, capture_output=True, text=True, timeout=120, env={**os.environ, "NO_COLOR": "1"}
    )


def main(
    arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    """The command in this process: exit status, standard output, standard error."""
    from planproof.cli import main as command

    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["planproof", *arguments])
    with pytest.raises(SystemExit) as ended:
        command()
    out, err = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, out, err


@pytest.mark.parametrize("name", TEXTS)
def test_a_bad_file_is_one_message_and_nothing_is_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, said = TEXTS[name]
    (tmp_path / "p.yaml").write_bytes(raw)
    status, out, err = main(["review", "p.yaml", "-o", "record.md"], tmp_path, monkeypatch, capsys)
    assert status == 2
    assert out == ""
    assert err.startswith("error: p.yaml:")
    assert said in err
    assert "Traceback" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.yaml"]


@pytest.mark.parametrize("name", ["a wrong unit", "a duplicate key", "outside the repository"])
def test_with_json_the_error_is_one_object_with_its_place(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.yaml").write_bytes(TEXTS[name][0])
    status, out, _ = main(["review", "p.yaml", "--format", "json"], tmp_path, monkeypatch, capsys)
    error = json.loads(out)["error"]
    assert status == 2
    assert {"code", "message", "path", "line", "column"} <= set(error)
    assert error["path"] == "p.yaml"
    assert error["line"] >= 2
    assert error["column"] >= 1


@pytest.mark.parametrize("command", ["review", "lint", "estimate", "facts"])
def test_a_path_that_is_no_file_is_said_at_once(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe", "nowhere.yaml", "/dev/zero"):
        status, _, err = main([command, name], tmp_path, monkeypatch, capsys)
        assert status == 2
        assert name in err


def test_a_file_of_100_mb_is_refused_without_being_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open(tmp_path / "p.yaml", "wb") as big:
        big.write(b"planproof: 1\n")
        big.truncate(100 * 2**20)
    status, _, err = main(["review", "p.yaml"], tmp_path, monkeypatch, capsys)
    assert status == 2
    assert "104,857,600 bytes; the limit is 1,048,576" in err


def test_good_files_among_bad_ones_are_still_linted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good.yaml").write_text(HEAD)
    (tmp_path / "bad.yaml").write_text("nonsense: [")
    status, out, err = main(["lint", "bad.yaml", "good.yaml"], tmp_path, monkeypatch, capsys)
    assert status == 2
    assert "bad.yaml" in err
    assert "good.yaml" in out


def test_an_unknown_command_or_option_is_a_usage_error(tmp_path: Path) -> None:
    for arguments in (["reviw"], ["review", "--formt", "json", "x"], ["review"], ["explain", "NOP999"]):
        done = run(*arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("value", ["nan", "inf", "1e400", "0", "-1"])
def test_a_time_limit_is_a_finite_number_of_seconds(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = main(["review", "a.yaml", "--time-limit", value], tmp_path, monkeypatch, capsys)
    assert (status, out) == (2, "")
    assert "--time-limit" in err


def test_a_folder_that_is_not_there_is_said_before_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(EXAMPLES / "smallest" / "proposal.yaml", tmp_path)
    monkeypatch.setattr("planproof.pipeline.review_loaded", lambda *_: pytest.fail("it was reviewed all the same"))
    status, out, err = main(["review", "proposal.yaml", "-o", "nowhere/record.md"], tmp_path, monkeypatch, capsys)
    assert (status, out) == (2, "")
    assert "there is no folder 'nowhere'" in err


def test_the_package_runs_as_a_module(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "planproof", "--version"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.split()[0]) == (0, "planproof")


def test_a_closed_pipe_is_no_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        f"{sys.executable} -m planproof.cli rules list | head -1", shell=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr


def test_the_record_never_replaces_the_proposal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.yaml").write_text(HEAD)
    status, _, err = main(["review", "p.yaml", "-o", "./p.yaml"], tmp_path, monkeypatch, capsys)
    assert status == 2
    assert "-o names the proposal itself" in err
    assert (tmp_path / "p.yaml").read_text() == HEAD


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_changes_no_verdict(closed: str, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(HEAD)
    command = f"{sys.executable} -m planproof.cli lint p.yaml {closed}"
    assert subprocess.run(command, shell=True, cwd=tmp_path, check=False).returncode == 1


HUGE = {
    "degrees beyond reason": "plans: [{uniform: {data: 999983, tensor: 999979, context: 999961, expert: 7, expert_tensor: 11}}]",
    "a product beyond int64": "plans: [{uniform: {data: 1000000, tensor: 1000000, context: 1000000, pipeline: 1000000}}]",
    "a thousand stages of all layers": "plans: [{name: x, stages: [" + "{layers: [0, 99999], devices: 1}," * 1000 + "]}]",
}


@pytest.mark.parametrize("name", HUGE)
def test_absurd_plans_are_findings_at_once(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = (
        "model: {transformer: {layers: 8, hidden: 64, heads: 4, ffn: 256, vocabulary: 100, positions: 64, "
        "moe: {experts: 8, top_k: 2}}}\n"
    )
    (tmp_path / "p.yaml").write_text(HEAD + model + HUGE[name] + "\n")
    status, out, err = main(["lint", "p.yaml"], tmp_path, monkeypatch, capsys)
    assert status == 1, err
    assert "internal" not in err
    assert "SHP" in out


ABSURD = {
    "device_memory: 0 B": "cluster: {nodes: {count: 1, type: dgx_h100, device_memory: 0 B}}",
    "share: 100 %": "cluster: {nodes: {count: 2, type: dgx_h100}, fabric: {bandwidth: 50 GB/s}, contention: {share: 100 %}}",
    "1 B/s": "cluster: {fabric: {bandwidth: 1 B/s}}",
    "256.9 sequences": "workload: {global_batch: 256.9 sequences}",
    "an empty limit": "layouts: {zero: []}",
}


@pytest.mark.parametrize("name", ABSURD)
def test_absurd_figures_are_input_errors(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.yaml").write_text(HEAD + ABSURD[name] + "\n")
    status, _, err = main(["lint", "p.yaml"], tmp_path, monkeypatch, capsys)
    assert status == 2
    assert err.startswith("error: p.yaml:2:")


PROFILE = (EXAMPLES / "measured" / "profile.csv").read_text(encoding="utf-8").split("\n")


@pytest.mark.parametrize(
    ("line", "old", "new", "place", "told"),
    [
        (5, "220.6", "abc", (5, 17), "column 'forward_ms': expected a number"),
        (5, "0-31", "3-1", (5, 1), "layers 3-1 run backwards"),
        (5, "tensor=4", "tensor=no", (5, 6), "expected a mesh"),
        (5, ",2,", ",,", (5, 15), "column 'microbatch' is empty"),
        (5, "220.6", '"220.6', (5, None), "is no CSV row"),
        (5, "220.6", "220.6,1", (5, 47), "has 10 cells where the header has 9 columns"),
        (3, "forward_ms", "workspace_mib", (3, 73), "names the column 'workspace' twice"),
        (3, "microbatch", "batch", (3, None), "has no column 'microbatch'"),
    ],
)
@pytest.mark.parametrize("here", [True, False])
def test_an_error_in_a_profile_has_its_file_line_and_column_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: int, old: str, new: str, place: tuple[int, int], told: str, here: bool
) -> None:
    shutil.copytree(EXAMPLES / "measured", tmp_path / "sub")
    lines = list(PROFILE)
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    (tmp_path / "sub" / "profile.csv").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.chdir(tmp_path / "sub" if here else tmp_path)
    with pytest.raises(PlanproofError) as raised:
        lint(["proposal.yaml" if here else "sub/proposal.yaml"])
    assert told in raised.value.message
    assert raised.value.remedy
    assert raised.value.place.file == ("profile.csv" if here else "sub/profile.csv")
    assert (raised.value.place.line, raised.value.place.column) == place


def test_an_error_in_a_configuration_above_is_named_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(EXAMPLES / "measured", tmp_path / "sub")
    (tmp_path / ".git").mkdir()
    (tmp_path / "planproof.toml").write_text('\nfail-on = "warnin"\n', encoding="utf-8")
    for folder, file in ((tmp_path, "planproof.toml"), (tmp_path / "sub", "../planproof.toml")):
        monkeypatch.chdir(folder)
        with pytest.raises(PlanproofError, match="did you mean 'warning'") as raised:
            lint([Path(tmp_path / "sub" / "proposal.yaml")])
        assert (raised.value.place.file, raised.value.place.line, raised.value.place.column) == (file, 2, 1)
