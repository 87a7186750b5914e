"""Where things stand: files as a report names them, and ranks of a stage. No absolute path leaves this module."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path, PurePath

from ..errors import Place
from ..plan import Plan
from ..proposal import LoadedProposal


def in_repository(loaded: LoadedProposal) -> str:
    """The proposal's path from its repository's root, POSIX; its bare name where it lies outside."""
    root, path = os.path.realpath(loaded.root), os.path.realpath(loaded.path)
    relative = os.path.relpath(path, root)
    if relative.startswith("..") or os.path.isabs(relative):
        return PurePath(loaded.path).name
    return Path(relative).as_posix()


def title_of(loaded: LoadedProposal) -> str:
    """The proposal's title, or the name of its file where it has none."""
    heading = loaded.stated.proposal
    if heading is not None and heading.title and heading.title.strip():
        return heading.title
    path = PurePath(in_repository(loaded))
    return path.parent.name if path.stem == "proposal" and path.parent.name else path.stem


def first_rank(plan: Plan, stage: int) -> int:
    """The lowest rank of a stage.

    Where all stages have one mesh, ranks are laid out in the plan's order of axes, innermost first, and the stages lie
    as far apart as the axes inside the pipeline have devices; otherwise each stage is the next run of ranks.
    """
    if not plan.same_meshes:
        return sum(one.mesh.devices for one in plan.stages[:stage])
    degrees = {"tensor": plan.mesh.tensor, "context": plan.mesh.context, "data": plan.mesh.data}
    stride = 1
    for axis in plan.order if "pipeline" in plan.order else (*plan.order, *degrees):
        if axis == "pipeline":
            return stage * stride
        stride *= degrees.pop(axis, 1)
    return stage * stride


def beside(name: str, shown: str, file: str | None) -> str:
    """The path from the repository's root of a file, where a proposal is `name` from there and was called `shown`."""
    if file is None or file == shown:
        return name
    relative = os.path.relpath(file, os.path.dirname(shown) or ".")
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), relative.replace(os.sep, "/")))


def file_of(loaded: LoadedProposal, place: Place, file: str) -> str:
    """The file that a place is in: the proposal, which is called `file`, or a launch file whose values it took over."""
    return beside(file, loaded.document.name, place.file)
