"""What is installed is what is in the repository: nothing left behind, nothing picked up on the way."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

#: Folder of the checkout -> package that it becomes.
PACKAGES = {"engine": "planproof", "rules": "planproof.rules", "templates": "planproof.templates"}
COMMANDS = (
    "python3 -m venv .venv && .venv/bin/pip install -q . "
    "&& .venv/bin/planproof review examples/llama3-70b-h100/proposal.yaml",
    'python3 -m venv .venv && .venv/bin/pip install -q -e ".[test]" && .venv/bin/python -m pytest',
)


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def built(root: Path, tracked: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist, built from a copy, without a network, by setuptools itself."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    for name in tracked:
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, target)
    code = "import sys; from setuptools import build_meta as b; to = sys.argv[1]; b.build_wheel(to); b.build_sdist(to)"
    done = subprocess.run([sys.executable, "-c", code, str(out)], cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return out


def wheel_names(tracked: tuple[str, ...]) -> set[str]:
    """Where the wheel should have each file of the folders that become packages."""
    found = set()
    for name in tracked:
        top, _, rest = name.partition("/")
        if top in PACKAGES and rest:
            found.add(PACKAGES[top].replace(".", "/") + "/" + rest)
    return found


def test_every_folder_with_files_is_a_listed_package_and_the_other_way_round(
    project: dict[str, Any], tracked: tuple[str, ...]
) -> None:
    folders = {PurePosixPath(name).parent for name in wheel_names(tracked)}
    assert {str(folder).replace("/", ".") for folder in folders} == set(project["tool"]["setuptools"]["packages"])


def test_every_package_folder_has_an_init_file(tracked: tuple[str, ...]) -> None:
    names = wheel_names(tracked)
    folders = {str(PurePosixPath(name).parent) for name in names}
    assert sorted(folder for folder in folders if f"{folder}/__init__.py" not in names) == []


def test_the_wheel_holds_the_tracked_files_and_nothing_else(built: Path, tracked: tuple[str, ...]) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        licenses = [name for name in archive.namelist() if name.endswith("licenses/LICENSE")]
        read = {name: archive.read(name) for name in ("planproof/py.typed", licenses[0])}
    assert held == wheel_names(tracked)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert b"Apache License" in read[licenses[0]]


def test_the_sdist_holds_the_repository(built: Path, tracked: tuple[str, ...]) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        held = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    made = {name for name in held if name in ("PKG-INFO", "setup.cfg") or name.startswith("planproof.egg-info/")}
    assert held - made == set(tracked)


def test_an_installed_wheel_answers_from_any_folder_with_its_rules_and_data_sheets(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    target, elsewhere = tmp_path / "target", tmp_path / "elsewhere"
    elsewhere.mkdir()
    install = ["install", "-q", "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", *install, "--target", str(target), str(wheel)], check=True)
    shipped = len([name for name in (target / "planproof" / "rules").glob("*/*.yaml") if name.parent.name != "bases"])
    sheets = [len(list((target / "planproof" / "hardware" / kind).glob("*.yaml"))) for kind in ("devices", "nodes")]
    code = f"""
import sys
sys.path.insert(0, {str(target)!r})
import planproof.cli, planproof.rules, planproof.templates
for module in (planproof, planproof.rules, planproof.templates):
    assert module.__file__.startswith({str(target)!r}), module.__file__
from planproof.facts import KINDS
from planproof.hardware import open_library
from planproof.inference import load_catalogue
library = open_library()
assert len(load_catalogue(KINDS).rules) == {shipped}
assert [len(library.names(kind)) for kind in ("device", "node")] == {sheets}
assert [library.node(name) for name in library.names("node")]
sys.argv = ["planproof", "--version"]
planproof.cli.main()
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], cwd=elsewhere, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert wheel.name.split("-")[1] in done.stdout
    assert list(elsewhere.iterdir()) == []
    assert shipped > 0
    assert min(sheets) > 0


def test_the_rule_engine_is_pinned_and_asked_for_only_where_it_can_be_built(project: dict[str, Any]) -> None:
    needed = [line for line in project["project"]["dependencies"] if line.startswith("durable-rules")]
    assert needed == ["durable-rules==2.0.28; python_version < '3.13'"]
    assert project["project"]["optional-dependencies"]["durable"] == ["durable-rules==2.0.28"]


def test_a_build_needs_setuptools_alone(project: dict[str, Any]) -> None:
    assert [re.split("[<>=]", line)[0] for line in project["build-system"]["requires"]] == ["setuptools"]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_the_two_commands_are_printed_as_they_are_tested(page: str, root: Path) -> None:
    lines = {line.strip() for line in (root / page).read_text(encoding="utf-8").splitlines()}
    assert [command for command in COMMANDS if command not in lines] == []


def test_the_continuous_check_runs_the_second_command_in_a_folder_of_its_own(root: Path) -> None:
    script = (root / ".ci" / "run").read_text(encoding="utf-8")
    inside = COMMANDS[1].replace(".venv", ".venv-ci").replace("python3 -m", '"$python" -m', 1)
    assert inside in re.sub(r"\s*\\\n\s*", " ", script)
    assert "/.venv*/" in (root / ".gitignore").read_text(encoding="utf-8").split()
