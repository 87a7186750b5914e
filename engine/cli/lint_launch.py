"""Which candidates among the files that `lint` found are launch files: those that a reader of launch files knows.

A launch file that a proposal in the same folder names is judged with that proposal, and not again on its own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..document import parse_document
from ..document.source import read_file
from ..errors import PlanproofError
from ..files import Found
from ..importers.launch import LAUNCH, SourceFile, kinds_of


def confirmed(found: Sequence[Found]) -> list[Found]:
    """The files without those candidates that are no launch files, or that a proposal among the files names."""
    named = _named([one for one in found if not one.launch and one.error is None])
    return [one for one in found if not one.launch or (_known(one.path) and os.path.realpath(one.path) not in named)]


def _known(path: str) -> bool:
    try:
        return any(kind in LAUNCH for kind in kinds_of(SourceFile(path, read_file(path, path))))
    except PlanproofError:
        return False


def _named(proposals: Sequence[Found]) -> set[str]:
    """The launch files that proposals name, as resolved paths."""
    files: set[str] = set()
    for one in proposals:
        try:
            data = parse_document(read_file(one.path, one.path), one.path).data
        except PlanproofError:
            continue
        listed = data.get("launch") if isinstance(data, dict) else None
        for entry in listed if isinstance(listed, list) else [listed]:
            if isinstance(entry, dict) and isinstance(entry.get("file"), str):
                files.add(os.path.realpath(os.path.join(os.path.dirname(one.path), entry["file"])))
    return files
