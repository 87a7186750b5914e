"""Every command and option says what it is for; shells complete commands, formats and the ids of rules."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from planproof.cli.main import COMMANDS, root
from planproof.facts import KINDS
from planproof.inference import load_catalogue
from planproof.report.cli_page import cli_page, commands

CONTEXT = click.Context(root, info_name="planproof")
SHELLS = {"bash": "COMP_WORDS", "zsh": "compdef", "fish": "complete --no-files"}


def options() -> Iterator[tuple[str, click.Option]]:
    for name, command in commands(root, CONTEXT):
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                yield f"{name} {parameter.opts[-1]}", parameter


def test_every_command_is_reached() -> None:
    assert {name.split()[0] for name, _ in commands(root, CONTEXT)} == set(COMMANDS)


def test_every_option_says_what_it_is_for() -> None:
    assert [name for name, option in options() if not (option.help or "").endswith((".", "..."))] == []


def test_every_command_says_what_it_does_in_a_sentence() -> None:
    assert [name for name, command in commands(root, CONTEXT) if "." not in (command.help or "")] == []


def test_the_page_of_commands_has_every_command_and_option() -> None:
    page = cli_page(root, CONTEXT)
    sections = dict(part.split("\n", 1) for part in page.split("\n## ") if part.startswith("planproof"))
    assert set(sections) == {"planproof"} | {f"planproof {name}" for name, _ in commands(root, CONTEXT)}
    for name, command in commands(root, CONTEXT):
        for parameter in command.params:
            names = parameter.opts if isinstance(parameter, click.Option) else [parameter.metavar or str(parameter.name).upper()]
            assert all(one in sections[f"planproof {name}"] for one in names), f"{name}: {names}"
    for row in (line for line in page.splitlines() if line.startswith("|")):
        assert row.replace("\\|", "").count("|") == 3, row


def complete(*words: str, shell: str = "bash") -> list[str]:
    """What the shell is offered for the last word."""
    variables = {
        "_PLANPROOF_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": " ".join(["planproof", *words]),
        "COMP_CWORD": str(len(words)),
    }
    if shell == "fish":
        variables["COMP_CWORD"] = words[-1]
        variables["COMP_WORDS"] = " ".join(["planproof", *words[:-1]])
    code = "import sys; sys.argv = ['planproof']; from planproof.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_ids_of_rules_are_completed_in_any_case() -> None:
    ids = [rule.id for rule in load_catalogue(KINDS).rules if rule.id.startswith("MEM")]
    assert ids
    assert [line.partition(",")[2] for line in complete("explain", "mem")] == ids
    assert [line.partition(",")[2] for line in complete("rules", "test", "--rule", "MEM")] == ids


def test_commands_formats_kinds_and_phases_are_completed() -> None:
    assert [line.partition(",")[2] for line in complete("li")] == ["lint"]
    assert [line.partition(",")[2] for line in complete("lint", "--format", "g")] == ["github", "gitlab"]
    assert "plain,--format" in complete("lint", "--f")
    assert "plain,memory" in complete("facts", "--kind", "mem")
    assert complete("rules", "list", "--phase", "sh") == ["plain,shape"]


def test_a_folder_of_rules_that_cannot_be_read_offers_nothing_and_says_nothing(tmp_path: Path) -> None:
    assert "".join(complete("explain", "--rules", str(tmp_path), "MEM")) == ""


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_a_script_and_rule_ids(shell: str) -> None:
    code = "import sys; sys.argv = ['planproof']; from planproof.cli import main; main()"
    if shell == "bash" and shutil.which("bash") is None:
        # No bash: click's script for it cannot be made, and the other shells are tested all the same.
        pytest.skip("the script for bash asks the bash that is there for its version")
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "_PLANPROOF_COMPLETE": f"{shell}_source"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert SHELLS[shell] in done.stdout
    assert "_PLANPROOF_COMPLETE" in done.stdout
    assert any("MEM001" in line for line in complete("explain", "MEM", shell=shell))


@pytest.mark.parametrize("order", [("--version", "--verbose"), ("--verbose", "--version")])
def test_the_version_says_what_a_judgement_depends_on(order: tuple[str, str]) -> None:
    done = subprocess.run([sys.executable, "-m", "planproof.cli", *order], capture_output=True, text=True, check=False)
    rows = dict(line.split(None, 1) for line in done.stdout.splitlines())
    assert done.returncode == 0
    assert rows["pydantic"] == version("pydantic")
    assert rows["python"].startswith(platform.python_version())
    assert re.fullmatch(r"\d+, sha256 [0-9a-f]{64}", rows["rules"])
