"""`planproof config show`, and the options of a configuration on every command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from planproof.cli.main import root
from planproof.errors import UsageError

SMALL = (Path(__file__).resolve().parents[2] / "rules" / "bases" / "small.yaml").read_text()


def run(*arguments: object) -> Result:
    return CliRunner().invoke(root, [str(one) for one in arguments], standalone_mode=False, catch_exceptions=False)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "a").mkdir()
    (tmp_path / "planproof.toml").write_text('mandatory = ["MEM003"]\nfail-on = "note"\n')
    (tmp_path / "a" / "planproof.toml").write_text(
        'extend = "../planproof.toml"\n\n[severity]\nINT002 = "warning"\n[per-file-ignores]\n"old/*" = ["CLM"]\n'
    )
    (tmp_path / "a" / "p.yaml").write_text(SMALL)
    return tmp_path


def test_show_prints_each_value_with_where_it_came_from(repo: Path) -> None:
    lines = run("config", "show", repo / "a" / "p.yaml").output.splitlines()
    assert lines[0] == f"{repo}/a/p.yaml: a/planproof.toml, which extends planproof.toml"
    rows = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert rows["mandatory"] == ["MEM003", "planproof.toml:1"]
    assert rows["fail-on"] == ["note", "planproof.toml:2"]
    assert rows["severity.INT002"] == ["warning", "a/planproof.toml:4"]
    assert rows['per-file-ignores."old/*"'] == ["CLM", "a/planproof.toml:6"]
    assert rows["select"] == ["ALL", "default"]
    assert rows["hardware"] == ["-", "default"]


def test_show_of_a_folder_is_what_counts_for_a_proposal_in_it(repo: Path) -> None:
    body = json.loads(run("config", "show", repo / "a", "--format", "json").output)
    assert [one["path"] for one in body["files"]] == ["a/planproof.toml", "planproof.toml"]
    assert {"key": "fail-on", "value": "note", "file": "planproof.toml", "line": 2} in body["values"]
    assert {"key": "select", "value": "ALL", "file": None, "line": None} in body["values"]


def test_show_without_a_configuration_says_that_all_are_defaults(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    done = run("config", "show", tmp_path)
    assert "no configuration: every value is the default" in done.output
    assert all(line.split()[-1] == "default" for line in done.output.splitlines()[1:])


def test_show_checks_what_it_shows(repo: Path) -> None:
    (repo / "planproof.toml").write_text('mandatory = ["MEM999"]\n')
    with pytest.raises(UsageError, match="MEM999"):
        run("config", "show", repo)


def test_a_file_may_be_named_and_all_left_out(repo: Path) -> None:
    other = repo / "ci.toml"
    other.write_text('fail-on = "never"\n')
    assert "never" in run("config", "show", repo / "a", "--config", other).output
    assert "no configuration" in run("config", "show", repo / "a", "--isolated").output
    import click

    with pytest.raises(click.UsageError, match="exclude each other"):
        run("config", "show", repo, "--config", other, "--isolated")


def test_the_exit_status_of_a_review_follows_the_configuration_unless_the_command_says_otherwise(repo: Path) -> None:
    path = repo / "a" / "p.yaml"
    limit = ("--work-limit", 20)
    assert run("review", path, *limit).return_value == 1
    assert run("review", path, *limit, "--fail-on", "error").return_value == 0
    assert run("review", path, *limit, "--isolated").return_value == 0


def test_facts_and_explain_are_under_the_configuration(repo: Path) -> None:
    (repo / "a" / "planproof.toml").write_text("severity = {EVI028 = 'warning'}\n")
    found = json.loads(run("facts", repo / "a" / "p.yaml", "--kind", "finding", "--format", "json").output)
    assert [one["severity"] for one in found if one["rule"] == "EVI028"] == ["warning"]
