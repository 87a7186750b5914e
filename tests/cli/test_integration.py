"""What other programs run: the hook, the action's steps, the snippets of the page, and the demonstration's annotations."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from planproof.cli.main import root as root_command

ENDINGS = {"yaml": (".yaml", ".yml"), "json": (".json",)}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a `planproof` as an installation has it."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "planproof").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m planproof.cli "$@"\n')
    (folder / "planproof").chmod(0o755)
    return folder


@pytest.fixture
def repository(root: Path, tmp_path: Path) -> Path:
    """The demonstration as a git checkout, with files that are no proposals."""
    copy = tmp_path / "repository"
    shutil.copytree(root / "examples" / "pull-request", copy)
    (copy / "other.yaml").write_text("name: x\n")
    (copy / "data.json").write_text("{}\n")
    git(copy, "init", "-q")
    git(copy, "add", ".")
    git(copy, "commit", "-qm", "one")
    return copy


def git(folder: Path, *arguments: str) -> str:
    settings = ("user.name=t", "user.email=t@example.org", "commit.gpgsign=false", "init.defaultBranch=main")
    command = ["git", *(part for one in settings for part in ("-c", one)), *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def ran(command: list[str], folder: Path, path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "GITHUB_STEP_SUMMARY"}
    environment |= {"PATH": f"{path}:{os.environ['PATH']}", **variables}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


# The demonstration


def test_the_demonstration_gets_exactly_the_annotations_that_it_shows(repository: Path, root: Path, program: Path) -> None:
    done = ran(["planproof", "lint", ".", "--as-of", "2026-12-01", "--format", "github"], repository, program)
    shown = (root / "examples" / "pull-request" / "annotations.txt").read_text(encoding="utf-8")
    assert done.stdout == shown, (
        "write it again, in a copy of the folder outside of this checkout: "
        "planproof lint . --as-of 2026-12-01 --format github > annotations.txt"
    )
    assert (done.returncode, done.stderr) == (1, "")
    (error,) = [line for line in shown.splitlines() if line.startswith("::error ")]
    assert "file=plans/refused.yaml,line=31," in error
    assert shown.splitlines()[-1].endswith("1 suppressed")


def test_the_demonstration_has_a_good_plan_a_refused_one_and_a_suppressed_one(repository: Path, program: Path) -> None:
    for name, date, status in (
        ("good", "2026-12-01", 0), ("refused", "2026-12-01", 1), ("suppressed", "2026-12-01", 0), ("suppressed", "2027-02-01", 1),
    ):  # fmt: skip
        done = ran(["planproof", "lint", f"plans/{name}.yaml", "--as-of", date], repository, program)
        assert done.returncode == status, f"{name} on {date}: {done.stdout}{done.stderr}"


# The hook


@pytest.fixture(scope="module")
def hook(root: Path) -> dict[str, Any]:
    (only,) = yaml.safe_load((root / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert set(only) >= {"id", "name", "entry", "language", "types_or"}
    return dict(only)


def test_the_hooks_entry_checks_the_proposals_among_all_files_of_a_commit(
    hook: dict[str, Any], repository: Path, program: Path
) -> None:
    endings = tuple(ending for kind in hook["types_or"] for ending in ENDINGS[kind])
    names = [name for name in git(repository, "ls-files").splitlines() if name.endswith(endings)]
    assert {"other.yaml", "data.json", "plans/refused.yaml"} <= set(names)
    done = ran([*shlex.split(hook["entry"]), *names], repository, program)
    assert done.returncode == 1
    assert "plans/refused.yaml:31:5: error MEM001" in done.stdout
    assert "other.yaml" not in done.stdout + done.stderr
    done = ran([*shlex.split(hook["entry"]), "other.yaml", "data.json"], repository, program)
    assert done.returncode == 0


def test_pre_commit_itself_runs_the_hook(hook: dict[str, Any], repository: Path, program: Path, tmp_path: Path) -> None:
    tool = shutil.which("pre-commit", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if tool is None:
        # Part of the test extra; without it the hook's command has still been run by the test before.
        pytest.skip("pre-commit is not installed here; the test before runs the hook's command")
    local = {**hook, "language": "system"}
    (repository / ".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": [{"repo": "local", "hooks": [local]}]}))
    git(repository, "add", ".")
    done = ran([tool, "run", "--all-files"], repository, program, PRE_COMMIT_HOME=str(tmp_path / "cache"))
    assert done.returncode == 1
    assert "MEM001" in done.stdout
    assert "other.yaml" not in done.stdout


# The action


@pytest.fixture(scope="module")
def action(root: Path) -> dict[str, Any]:
    return dict(yaml.safe_load((root / "action.yml").read_text(encoding="utf-8")))


def expanded(step: dict[str, Any], inputs: dict[str, str], **contexts: str) -> dict[str, str]:
    """The environment of a step, as the runner makes it from inputs and contexts."""
    known = {f"inputs.{name}": value for name, value in inputs.items()} | contexts

    def value(text: str) -> str:
        return re.sub(r"\$\{\{\s*([\w.-]+)\s*\}\}", lambda match: known[match[1]], text)

    return {name: value(text) for name, text in step["env"].items()}


def checked(action: dict[str, Any], folder: Path, program: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """The second step, run by bash with the inputs that are given."""
    step = action["runs"]["steps"][1]
    inputs = {name: one["default"] for name, one in action["inputs"].items()} | {k.replace("_", "-"): v for k, v in given.items()}
    home = folder.parent / "runner" / "planproof"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    shutil.copy(program / "planproof", home / "bin" / "planproof")
    environment = expanded(step, inputs, **{"runner.temp": str(home.parent)})
    return ran(["bash", "--noprofile", "--norc", "-c", step["run"]], folder, program, **environment)


def test_inputs_reach_the_actions_commands_through_the_environment_alone(action: dict[str, Any]) -> None:
    assert action["runs"]["using"] == "composite"
    for step in action["runs"]["steps"]:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]
        used = set(re.findall(r"\$(PLANPROOF_\w+)", step["run"]))
        assert used == set(step["env"])
    assert all({"description", "default"} <= set(one) for one in action["inputs"].values())


def test_the_actions_step_checks_annotates_and_writes_sarif(action: dict[str, Any], repository: Path, program: Path) -> None:
    done = checked(action, repository, program, sarif="plan.sarif", paths="plans/good.yaml\nplans/refused.yaml\n")
    assert done.returncode == 1, done.stderr
    assert "::error file=plans/refused.yaml,line=31," in done.stdout
    results = json.loads((repository / "plan.sarif").read_text())["runs"][0]["results"]
    assert {one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in results} == {
        "plans/good.yaml", "plans/refused.yaml",
    }  # fmt: skip


def test_the_actions_step_checks_what_changed_since_the_base(action: dict[str, Any], repository: Path, program: Path) -> None:
    assert checked(action, repository, program, base="HEAD").returncode == 0
    good = repository / "plans" / "good.yaml"
    good.write_text(good.read_text() + "# edited\n")
    done = checked(action, repository, program, base="HEAD", fail_on="note")
    assert done.returncode == 1
    assert "refused.yaml" not in done.stdout


@pytest.mark.parametrize("name", ["paths", "base", "fail_on", "baseline"])
def test_inputs_are_data_to_the_actions_commands(action: dict[str, Any], repository: Path, program: Path, name: str) -> None:
    attack = "--format=json=hacked $(touch hacked) `touch hacked` ; touch hacked \" ; touch hacked ; '"
    assert checked(action, repository, program, **{name: attack}).returncode == 2
    assert not list(repository.glob("*hacked*"))


@pytest.mark.long
def test_both_steps_of_the_action_work_from_a_bare_checkout(
    action: dict[str, Any], repository: Path, root: Path, tracked: tuple[str, ...], tmp_path: Path
) -> None:
    """Without a network: the dependencies are those of this environment."""
    import setuptools

    source, temp = tmp_path / "action", tmp_path / "temp"
    for name in tracked:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, source / name)
    temp.mkdir()
    contexts = {"runner.temp": str(temp), "github.action_path": str(source)}
    inputs = {name: one["default"] for name, one in action["inputs"].items()} | {"python": sys.executable}
    # pip reads the last one as the value of its `build_isolation`: 0 is without.
    offline = {"PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    libraries = {"PYTHONPATH": str(Path(setuptools.__file__).parent.parent)}
    done = None
    for step, status in zip(action["runs"]["steps"], (0, 1), strict=True):
        variables = expanded(step, inputs, **contexts) | offline | libraries
        done = ran(["bash", "-c", step["run"]], repository, tmp_path, **variables)
        assert done.returncode == status, done.stderr[-2000:]
    assert done is not None
    assert "::error file=plans/refused.yaml" in done.stdout


# The page


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs" / "pull-requests.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_the_pages_yaml_is_yaml_and_names_what_there_is(page: str, action: dict[str, Any], hook: dict[str, Any]) -> None:
    given: set[str] = set()
    for block in blocks(page, "yaml"):
        body = yaml.safe_load(block)
        steps = body["jobs"]["planproof"]["steps"] if isinstance(body, dict) and "jobs" in body else body
        if isinstance(steps, list):
            given |= {name for step in steps if "planproof" in step["uses"] for name in step.get("with", {})}
        if isinstance(body, dict) and "repos" in body:
            assert [one["id"] for one in body["repos"][0]["hooks"]] == [hook["id"]]
    assert {"base", "sarif"} <= given <= set(action["inputs"])


def test_the_pages_workflow_is_that_of_the_demonstration(page: str, root: Path) -> None:
    workflow = root / "examples" / "pull-request" / ".github" / "workflows" / "planproof.yml"
    shown = next(block for block in blocks(page, "yaml") if block.startswith("# .github/workflows"))
    assert shown.partition("\n")[2] == workflow.read_text(encoding="utf-8")


def test_the_commands_of_the_page_are_commands(page: str) -> None:
    lines = [line for language in ("sh", "yaml") for block in blocks(page, language) for line in block.splitlines()]
    lines += re.findall(r"`(planproof [^`]+)`", page)
    found = [match[0] for line in lines if (match := re.search(r"\bplanproof (?:lint|diff|schema)\b[^|<>]*", line))]
    found = [line for line in found if " " in line.removeprefix("planproof ")]
    assert len(found) > 5
    for line in found:
        words = shlex.split(line)[1:]
        command = root_command.get_command(None, words[0])
        assert command is not None
        command.make_context(words[0], [word for word in words[1:] if word != "#"])


def test_the_script_for_gitlab_writes_both_reports(page: str, repository: Path, program: Path) -> None:
    job = next(yaml.safe_load(block) for block in blocks(page, "yaml") if ".gitlab-ci.yml" in block)["planproof"]
    refused = repository / "plans" / "refused.yaml"
    refused.write_text(refused.read_text() + "# edited\n")
    (script,) = job["script"]
    done = ran(["bash", "-c", script], repository, program, CI_MERGE_REQUEST_DIFF_BASE_SHA="HEAD")
    assert done.returncode == 1, done.stderr
    reports = job["artifacts"]["reports"]
    quality = json.loads((repository / reports["codequality"]).read_text())
    assert {one["location"]["path"] for one in quality} == {"plans/refused.yaml"}
    assert 'failures="1"' in (repository / reports["junit"]).read_text()


def test_the_schema_modeline_names_a_schema_that_the_command_prints(page: str, repository: Path, program: Path) -> None:
    done = ran(["planproof", "schema"], repository, program)
    assert json.loads(done.stdout)["title"] == "planproof proposal"
    assert "# yaml-language-server: $schema=planproof.schema.json" in page
