"""planproof: a rule-based checker for distributed-training proposals.

`review(path)` is the whole pipeline, `lint(paths)` stops before the search; both are pure: they read the proposal and the files
it names, and return frozen results. `planproof.search` holds the exact solvers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .pipeline import Options, lint, review

__all__ = ["Options", "lint", "review"]


def __getattr__(name: str) -> Any:
    """Import the pipeline when it is first asked for, so that `import planproof` costs nothing."""
    if name in __all__:
        from . import pipeline

        return getattr(pipeline, name)
    raise AttributeError(f"module 'planproof' has no attribute '{name}'")
