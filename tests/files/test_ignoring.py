"""Ignore files mean what git means by them; no pattern makes matching hang."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planproof.files.ignoring import IgnoreRules, around, names_of

TREE = (
    "a.yaml", "b.yaml", "build/a.yaml", "build/keep/b.yaml", "src/a.yaml", "src/build/a.yaml", "src/deep/er/a.yaml",
    "src/deep/b.yml", "x/y/z.yaml", "x/ä b.yaml", "a[1].yaml", "#c.yaml", "!d.yaml", "e.yaml ", "aaa/aab/abb.yaml",
)  # fmt: skip
PATTERNS = (
    "*.yaml", "build", "build/", "/build", "src/build", "src/*", "src/**", "**/build", "**/a.yaml", "src/**/a.yaml", "a?yaml",
    "[ab].yaml", "[!a].yaml", "[^a].yaml", "[a-c]*", "[]a].yaml", "a\\[1\\].yaml", "\\#c.yaml", "\\!d.yaml", "# c", "",
    "e.yaml\\ ", "e.yaml ", "!b.yaml", "!build/", "!/a.yaml", "x/**/z.yaml", "x/y/", "**", "*/", "a**b.yaml", "/", "!", "[", "a[",
    "src//a.yaml", "[[:alpha:]].yaml", "[[:digit:]]*", "*\\", "deep/**", "*ä*", "a*a*b*.yaml", "***", "/**", "**/",
    "x/***/z.yaml",
)  # fmt: skip
lines = st.lists(
    st.one_of(
        st.sampled_from(PATTERNS),
        st.text(alphabet="ab*?/![]-\\.x", min_size=1, max_size=8),
    ),
    max_size=5,
)


def ours(root: Path) -> set[str]:
    """What is left out, by the rules that a walk asks: nothing inside a folder that is left out."""
    hidden = set()
    for name in TREE:
        level = around(str(root))
        parts = name.split("/")
        for k in range(1, len(parts) + 1):
            here = root.joinpath(*parts[:k])
            if level.hides(names_of(str(here)), is_folder=k < len(parts)):
                hidden.add(name)
                break
            if k < len(parts):
                level = level.enter(names_of(str(here)), str(here))
    return hidden


def gits(root: Path) -> set[str]:
    """What git says, asked in one go."""
    done = subprocess.run(
        ["git", "-C", str(root), "-c", "core.excludesFile=/dev/null", "check-ignore", "--no-index", "--stdin", "-z"],
        input="\0".join(TREE).encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return {name for name in done.stdout.decode().split("\0") if name}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is the judge here, and there is none")
    root = tmp_path_factory.mktemp("tree")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for name in TREE:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("planproof: 1\n")
    return root


@settings(max_examples=150)
@given(top=lines, below=lines)
def test_what_is_left_out_is_what_git_leaves_out(tree: Path, top: list[str], below: list[str]) -> None:
    (tree / ".gitignore").write_text("\n".join(top), encoding="utf-8")
    (tree / "src" / ".gitignore").write_text("\n".join(below), encoding="utf-8")
    assert ours(tree) == gits(tree)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_form_of_pattern_is_read_as_git_reads_it(tree: Path, pattern: str) -> None:
    (tree / "src" / ".gitignore").write_text("", encoding="utf-8")
    (tree / ".gitignore").write_text(pattern + "\n", encoding="utf-8")
    assert ours(tree) == gits(tree)


def test_our_own_ignore_file_outweighs_gits_and_a_deeper_file_a_higher_one(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "plans").mkdir()
    (tmp_path / ".gitignore").write_text("a.yaml\nb.yaml\n")
    (tmp_path / ".planproofignore").write_text("!a.yaml\nc.yaml\n")
    (tmp_path / "plans" / ".gitignore").write_text("!c.yaml\n")
    level = around(str(tmp_path / "plans"))
    hidden = {name for name in "abc" if level.hides(names_of(str(tmp_path / "plans" / f"{name}.yaml")), is_folder=False)}
    assert hidden == {"b"}


def test_ignore_files_above_the_checkout_say_nothing(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*\n")
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    level = around(str(tmp_path / "repository"))
    assert not level.hides(names_of(str(tmp_path / "repository" / "a.yaml")), is_folder=False)


def test_an_ignore_file_that_is_a_link_a_pipe_or_no_text_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("*\n")
    (tmp_path / ".gitignore").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / ".planproofignore")
    assert around(str(tmp_path)).rules == ()
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / ".gitignore").write_bytes(b"\xff\xfe\n*.yaml\n")
    level = around(str(tmp_path / "below"))
    assert level.hides(names_of(str(tmp_path / "below" / "a.yaml")), is_folder=False)


@pytest.mark.parametrize("pattern", ["*a" * 60 + "b", "**/" * 60 + "b", ("*" + "a" * 4) * 20 + "b"])
def test_a_pattern_made_to_explode_ends_in_steps_that_can_be_counted(pattern: str) -> None:
    steps = 0

    class Counting(str):
        def __getitem__(self, key: object) -> str:
            nonlocal steps
            steps += 1
            return super().__getitem__(key)

    names = ["a"] * 100 if "/" in pattern else [Counting("a" * 250)]
    assert IgnoreRules.parse([pattern]).verdict(names, False) is None
    assert steps <= 4 * 250 * len(pattern)
