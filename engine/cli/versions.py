"""What `--version --verbose` says: what a judgement depends on beside its files."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Final

_LIBRARIES: Final = ("click", "pydantic", "pydantic-core", "pyyaml", "numpy", "networkx", "jinja2", "scipy", "durable-rules")


def versions() -> str:
    """The interpreter, each library or that it is not there, and the shipped rules with their digest; a line each."""
    from ..facts import KINDS
    from ..inference import load_catalogue

    rules = load_catalogue(KINDS)
    rows = [("python", f"{platform.python_version()} ({platform.python_implementation()}, {platform.system()})")]
    rows += [(name, _installed(name)) for name in _LIBRARIES]
    rows.append(("rules", f"{len(rules.rules)}, sha256 {rules.digest}"))
    return "".join(f"{name:<14} {found}\n" for name, found in rows)


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
