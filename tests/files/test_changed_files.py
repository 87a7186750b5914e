"""What changed against a revision, as git has it; every way in which that cannot be told is one message."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from planproof.errors import UsageError
from planproof.files.changes import Changes, changes_since

SETTINGS = ("user.name=t", "user.email=t@example.org", "commit.gpgsign=false", "init.defaultBranch=main")
GIT = ["git", *(part for setting in SETTINGS for part in ("-c", setting))]


def git(folder: Path, *arguments: str) -> None:
    subprocess.run([*GIT, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    root.mkdir()
    git(root, "init", "-q")
    for name, text in {
        "kept.yaml": "planproof: 1\n", "edited.yaml": "planproof: 1\n", "gone.yaml": "planproof: 1\n",
        "names.yaml": "planproof: 1\nprofile: {file: data/profile.csv}\n", "data/profile.csv": "a\n", "data/other.csv": "a\n",
        "ü b.yaml": "planproof: 1\n", "moved.yaml": "planproof: 1\nlayouts: all\n",
    }.items():  # fmt: skip
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    return root


def touched(changes: Changes, root: Path) -> set[str]:
    return {path.name for path in root.glob("*.yaml") if changes.touches(str(path))}


def test_nothing_changed_is_nothing_touched(checkout: Path) -> None:
    assert touched(changes_since("HEAD", checkout), checkout) == set()


def test_edits_staged_or_not_new_files_renames_and_odd_names_are_changes(checkout: Path) -> None:
    (checkout / "edited.yaml").write_text("planproof: 1\nlayouts: all\n")
    git(checkout, "add", "edited.yaml")
    (checkout / "ü b.yaml").write_text("planproof: 1\n# x\n")
    (checkout / "new.yaml").write_text("planproof: 1\n")
    (checkout / ".gitignore").write_text("ignored.yaml\n")
    (checkout / "ignored.yaml").write_text("planproof: 1\n")
    (checkout / "gone.yaml").unlink()
    git(checkout, "mv", "moved.yaml", "renamed.yaml")
    assert touched(changes_since("HEAD", checkout), checkout) == {"edited.yaml", "ü b.yaml", "new.yaml", "renamed.yaml"}


def test_a_proposal_that_names_a_changed_or_deleted_file_is_touched(checkout: Path) -> None:
    (checkout / "data" / "profile.csv").write_text("b\n")
    assert touched(changes_since("HEAD", checkout), checkout) == {"names.yaml"}
    (checkout / "data" / "profile.csv").unlink()
    assert touched(changes_since("HEAD", checkout), checkout) == {"names.yaml"}


def test_what_happened_on_the_base_since_is_not_counted(checkout: Path) -> None:
    git(checkout, "branch", "feature")
    (checkout / "kept.yaml").write_text("planproof: 1\n# on main\n")
    git(checkout, "commit", "-qam", "two")
    git(checkout, "checkout", "-q", "feature")
    (checkout / "edited.yaml").write_text("planproof: 1\n# on the branch\n")
    git(checkout, "commit", "-qam", "three")
    assert touched(changes_since("main", checkout), checkout) == {"edited.yaml"}
    assert touched(changes_since("main", checkout / "data"), checkout) == {"edited.yaml"}


def test_histories_with_nothing_in_common_are_compared_as_they_are(checkout: Path) -> None:
    git(checkout, "checkout", "-q", "--orphan", "lone")
    (checkout / "edited.yaml").write_text("planproof: 1\n# lone\n")
    git(checkout, "commit", "-qam", "lone")
    assert touched(changes_since("main", checkout), checkout) == {"edited.yaml"}


@pytest.mark.parametrize("base", ["nope", "-h", "--output=x", "", "HEAD:kept.yaml", "a\nb", "HEAD~99"])
def test_an_unknown_revision_is_said_and_no_option_of_git(checkout: Path, base: str) -> None:
    with pytest.raises(UsageError, match="there is no revision") as caught:
        changes_since(base, checkout)
    assert "\n" not in caught.value.message
    assert not (checkout / "x").exists()


def test_outside_of_a_checkout_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(UsageError, match="only be told inside a git checkout"):
        changes_since("HEAD", tmp_path)


def test_a_file_of_elsewhere_is_said(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("planproof: 1\n")
    with pytest.raises(UsageError, match="is not in this checkout"):
        changes_since("HEAD", checkout).touches(str(tmp_path / "p.yaml"))


def test_without_git_the_message_names_it(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(checkout))
    with pytest.raises(UsageError, match="git is not installed"):
        changes_since("HEAD", checkout)


def test_a_git_that_hangs_is_ended(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from planproof.files import changes

    slow = tmp_path / "bin"
    slow.mkdir()
    (slow / "git").write_text("#!/bin/sh\nexec sleep 30\n")
    (slow / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow}:/usr/bin:/bin")
    monkeypatch.setattr(changes, "TIMEOUT", 0.2)
    with pytest.raises(UsageError, match=r"did not end within 0\.2 s"):
        changes_since("HEAD", checkout)


def test_programs_that_the_checkout_asks_git_to_run_are_not_run(checkout: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    for key in ("core.fsmonitor", "diff.external", "diff.evil.textconv"):
        git(checkout, "config", key, f"touch {mark}")
    (checkout / ".gitattributes").write_text("*.yaml diff=evil\n")
    (checkout / "edited.yaml").write_text("planproof: 1\n# x\n")
    assert "edited.yaml" in touched(changes_since("HEAD", checkout), checkout)
    assert not mark.exists()
