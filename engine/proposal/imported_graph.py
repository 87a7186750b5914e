"""The text of a proposal made from an exported program: its operators as `model.graph`, and what is still to state.

The text is read back by the strict loader, and its graph built, before it is given out.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from ..document.limits import MAX_BYTES
from ..errors import InputError, Place, UsageError
from ..hardware import Library
from .graph_text import graph_lines
from .imported import Imported, _plain, _still
from .load import parse_proposal
from .resolve import resolve

#: Kinds of exported programs, each with what it is.
GRAPH_KINDS: Final = {"onnx": "an ONNX model", "torch-export": "a program of torch.export, as torch.export.save writes it (.pt2)"}


def import_graph(kind: str, path: str, sizes: Mapping[str, str], target: Path, library: Library) -> Imported:
    """Read the program at `path`. `sizes`: of symbolic dims. Raises InputError; UsageError for a package that is not there."""
    numbers = {}
    for name, value in sizes.items():
        if not (value.isascii() and value.isdigit() and int(value[:12]) >= 1 and len(value) <= 12):
            raise UsageError(f"--set: the size of '{name}' is '{value}'", code="usage.set", remedy="Write --set batch=2.")
        numbers[name] = int(value)
    if kind == "onnx":
        from ..importers.graph_onnx import read
    else:
        from ..importers.graph_torch import read
    found = read(path, numbers)
    name = _plain(PurePosixPath(path.replace(os.sep, "/")).name)
    lines = [
        "planproof: 1",
        f"# Imported from {name} ({kind}), sha256 {_digest(path)[:16]}...: {found.operations:,} operations, "
        f"{len(found.described.operators):,} operators.",
        "# Transpositions, reshapes and casts are views; maps that only a map reads, and attention, are one operator.",
        "# Names of dims are guesses for people, except 'microbatch' and 'sequence_length'; precision is the workload's.",
        *(f"# Set aside: {_plain(note)}." for note in found.notes),
        "",
        "model:",
        "  graph:",
        *graph_lines(found.described),
    ]
    text = "\n".join(lines) + "\n"
    if len(text.encode()) > MAX_BYTES:
        raise InputError(
            f"its operators are {len(text.encode()):,} bytes of text; a proposal has at most {MAX_BYTES:,}", place=Place(path),
            code="input.graph.size", remedy="Export some layers of each kind, or one stage.",
        )  # fmt: skip
    case = resolve(parse_proposal(text.encode(), str(target), target), library)
    text += _still(case, ())
    parse_proposal(text.encode(), str(target), target)
    return Imported(text, case)


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
