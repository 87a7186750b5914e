"""The `long` marker: exhaustive runs, asked for with PLANPROOF_LONG=1."""

from __future__ import annotations

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: takes minutes; runs only with PLANPROOF_LONG=1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("PLANPROOF_LONG") == "1":
        return
    for item in items:
        if item.get_closest_marker("long") is not None:
            item.add_marker(pytest.mark.skip(reason="set PLANPROOF_LONG=1 to run it"))
