"""The package's public names: all there, and memory does not load the cost of time."""

from __future__ import annotations

import subprocess
import sys

import planproof.cost
import pytest


def test_every_public_name_can_be_imported() -> None:
    assert sorted(name for names in planproof.cost._WHERE.values() for name in names) == sorted(planproof.cost.__all__)
    assert all(getattr(planproof.cost, name) is not None for name in planproof.cost.__all__)
    with pytest.raises(AttributeError, match="no attribute 'seconds'"):
        _ = planproof.cost.seconds


def test_memory_alone_loads_neither_step_times_nor_numpy() -> None:
    code = (
        "import sys; from planproof.cost import memory_ledger; "
        "print(*sorted({'planproof.cost.step', 'planproof.cost.intervals', 'numpy', 'networkx'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""


def test_time_loads_no_numpy() -> None:
    code = (
        "import sys; from planproof.cost import price; "
        "print(*sorted({'numpy', 'networkx', 'jinja2', 'scipy'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""
