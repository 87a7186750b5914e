"""A repository in a temporary folder, with configurations and a proposal in it."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

from planproof.config import Settings, nearest_settings
from planproof.facts import KINDS
from planproof.inference import Catalogue, load_catalogue

#: A git that knows no user's configuration and asks nobody.
GIT = {
    **os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
}  # fmt: skip


@cache
def shipped() -> Catalogue:
    return load_catalogue(KINDS)


def repository(root: Path, files: dict[str, str]) -> Path:
    """`root` with `files` in it, and the mark of a checkout."""
    (root / ".git").mkdir(parents=True, exist_ok=True)
    return written(root, files)


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def configured(root: Path, text: str) -> Settings:
    return nearest_settings(repository(root, {"planproof.toml": text}) / "proposal.yaml")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, env=GIT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def committed(root: Path, files: dict[str, str]) -> Path:
    """A git checkout with `files` in its first commit, on the branch `base`."""
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "-q", "-b", "base")
    written(root, files)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "base")
    return root
