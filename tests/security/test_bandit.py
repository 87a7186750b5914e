"""bandit finds nothing in the package that is not explained where it stands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
def test_bandit_is_clean(root: Path) -> None:
    pytest.importorskip("bandit", reason="bandit is part of the dev extra and is not installed here")
    done = subprocess.run(
        [sys.executable, "-m", "bandit", "-q", "-r", "engine", "-c", "pyproject.toml", "-f", "json"],
        cwd=root, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    found = json.loads(done.stdout)["results"]
    assert [f"{one['filename']}:{one['line_number']} {one['test_id']} {one['issue_text']}" for one in found] == []
