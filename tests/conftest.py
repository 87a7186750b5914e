"""What every test may use: the checkout's files, the `long` marker, and one profile of generated examples.

`long` tests take minutes and run only with PLANPROOF_LONG=1, which also draws other examples each time; otherwise the
same checkout draws the same examples. No example is judged by the time it takes: machines differ.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
LONG = os.environ.get("PLANPROOF_LONG") == "1"
#: What a checkout collects beside its own files, for a folder that git does not answer for (an unpacked sdist).
_LEFTOVERS = ("__pycache__", "build", "dist", ".git", ".hypothesis", ".pytest_cache", ".mypy_cache", ".ruff_cache")
_OF_AN_SDIST = ("PKG-INFO", "setup.cfg")

settings.register_profile("planproof", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=not LONG)
settings.load_profile("planproof")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not LONG and item.get_closest_marker("long") is not None:
            # Minutes each: the everyday run has ten for all; `.ci/full` runs them.
            item.add_marker(pytest.mark.skip(reason="takes minutes: set PLANPROOF_LONG=1"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def tracked() -> tuple[str, ...]:
    """The checkout's own files as POSIX paths from its root: tracked ones, and new ones that git does not ignore."""
    asked = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        answer = subprocess.run(asked, capture_output=True, check=False)
    except FileNotFoundError:
        answer = None
    if (ROOT / ".git").exists() and answer is not None and answer.returncode == 0:
        names = (name for name in answer.stdout.decode().split("\0") if name)
        return tuple(sorted(name for name in names if (ROOT / name).is_file()))
    return tuple(sorted(_walked()))


def _walked() -> list[str]:
    found: list[str] = []
    for folder, below, names in os.walk(ROOT):
        below[:] = [
            name for name in below
            if name not in _LEFTOVERS and not name.startswith(".venv") and not name.endswith(".egg-info")
        ]  # fmt: skip
        here = Path(folder).relative_to(ROOT)
        found += [(here / name).as_posix() for name in names if name not in _OF_AN_SDIST and not name.endswith(".pyc")]
    return found
