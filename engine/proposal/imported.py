"""The text of a proposal made from launch files and what completes them, with where each value comes from beside it.

Parts that launch files state are written out as the proposal's own; a framework's default has `assumed` in its comment. What no
file says is not written, but listed below. The text is read back by the strict loader before it is given out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ..errors import FileReferenceError, InputError, Place
from ..hardware import Library
from ..importers import hf_config, nvidia_topo, rocm_smi
from ..importers.launch import EVIDENCE, KINDS, LAUNCH, PROPOSAL, Launch, Part, SourceFile, Use, kind_of, only_kind, read_launch
from .case import Case
from .launching import Launched, _merge
from .load import parse_proposal
from .references import read_reference, repository_root
from .resolve import resolve
from .skeleton import _scalar, _shapes

SECTIONS: Final = ("proposal", "model", "workload", "cluster", "plans")
_ORDER: Final = (
    "name",
    "role",
    "uniform",
    "data",
    "tensor",
    "pipeline",
    "context",
    "expert",
    "expert_tensor",
    "schedule",
    "interleave",
)
_HF: Final = "hf-config"


@dataclass(slots=True)
class Imported:
    """A proposal's text, the case that it makes, and what was read."""

    text: str
    case: Case
    launches: list[Launch] = field(default_factory=list)
    clashes: list[str] = field(default_factory=list)


def import_files(kind: str, files: Sequence[SourceFile], target: Path, library: Library) -> Imported:
    """Read files, the first as `kind`, the others as what they are. Raises InputError for a wrong one."""
    kinds = [_kind(file, kind if k == 0 else "auto") for k, file in enumerate(files)]
    launches = [read_launch(file, one) for file, one in zip(files, kinds, strict=True) if one in LAUNCH]
    data: dict[str, Any] = {"planproof": 1}
    places: dict[str, Place] = {}
    for file, one in zip(files, kinds, strict=True):
        if one == PROPOSAL:
            _take_proposal(file, data, places)
    launched = Launched(files=[(launch, launch.name) for launch in launches])
    shaped = any(
        part.path.startswith("/model/transformer/layers") and part.assumed is None for one in launches for part in one.parts
    )
    for file, one in zip(files, kinds, strict=True):
        if one == _HF:
            parts = _model_parts(file, target, whole=not shaped)
            launches.append(Launch(_HF, file.name, file.sha256, None, tuple(parts), (), text=file.source.text))
        elif one in EVIDENCE:
            parts = _evidence_parts(file, one, target)
            launches.append(Launch(one, file.name, file.sha256, None, tuple(parts), (), text=file.source.text))
    if any(part.path.startswith("/model/config") for one in launches for part in one.parts):
        launches = [_without_shapes(one) for one in launches]
    _merge(data, places, launches, launched, own=None)
    taken = launched.taken
    text = _text(data, taken, places, launches, files, kinds)
    case = resolve(parse_proposal(text.encode(), str(target), target), library)
    text += _still(case, launches)
    parse_proposal(text.encode(), str(target), target)
    return Imported(text, case, launches, [clash.detail for clash in launched.clashes])


def _kind(file: SourceFile, kind: str) -> str:
    """The kind of a file that is passed as `kind`. Raises InputError where it is another."""
    if kind == "auto":
        return only_kind(file)
    if kind in LAUNCH:
        return kind  # its reader says what else it is
    found = kind_of(file)
    if kind == _HF and found is None and file.form in ("json", "yaml"):
        return kind
    if found != kind:
        from ..importers.launch.sources import not_this

        raise not_this(file, kind, found, f"the signs of '{kind}'")
    return kind


def _without_shapes(launch: Launch) -> Launch:
    """A launch file beside a model's own configuration: the latter has the shapes."""
    from dataclasses import replace

    if launch.kind == _HF:
        return launch
    return replace(launch, parts=tuple(part for part in launch.parts if not part.path.startswith("/model/transformer")))


def _take_proposal(file: SourceFile, data: dict[str, Any], places: dict[str, Place]) -> None:
    """A proposal, or a part of one such as a cluster file: its sections as they are."""
    document = file.document
    for key, value in file.top.items():
        if key not in ("planproof", "launch") and key not in data:
            data[key] = value
            places[f"/{key}"] = document.place(f"/{key}")


def _model_parts(file: SourceFile, target: Path, *, whole: bool) -> list[Part]:
    """A model's configuration: named where it lies in the repository and is all there is, else its shapes."""
    document = file.document
    data = document.data
    assert isinstance(data, dict)
    found = hf_config.read(data, document.place)
    reference = _reference(file, target)
    if whole and reference is not None:
        return [
            Part("/model/config/file", reference, file.start, "the file itself"),
            Part("/model/config/kind", _HF, file.start, "the file itself"),
        ]
    parts = []
    for name, value in _shapes(found.transformer).items():
        for path, inner in _leaves(f"/model/transformer/{name}", value):
            field_name = path.removeprefix("/model/transformer/").replace("/", ".")
            origin = found.origins.get(field_name, "/model_type")
            assumed = found.assumed.get(field_name)
            place = document.place(origin)
            parts.append(Part(path, inner, place, origin.rpartition("/")[2], assumed[1] if assumed else None))
    return parts


def _leaves(path: str, value: object) -> list[tuple[str, object]]:
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in _leaves(f"{path}/{key}", inner)]
    return [(path, value)]


def _reference(file: SourceFile, target: Path) -> str | None:
    """How a proposal at `target` names a file; None where it may not."""
    folder = os.path.realpath(target.absolute().parent)
    reference = os.path.relpath(os.path.realpath(file.name), folder).replace(os.sep, "/")
    try:
        read_reference(reference, proposal=target, root=repository_root(target), place=Place())
    except FileReferenceError:
        return None
    return reference


def _evidence_parts(file: SourceFile, kind: str, target: Path) -> list[Part]:
    """Measured topology or collectives: named in the cluster section. Raises InputError for a file outside."""
    reference = _reference(file, target)
    if reference is None:
        raise InputError(
            "A proposal here cannot name this file: only files of its own repository can be.", place=file.start,
            code="import.outside", remedy="Copy it beside the proposal, or write the proposal where it lies with -o.",
        )  # fmt: skip
    if kind in ("nvidia-topo", "rocm-smi"):
        reader = nvidia_topo.read if kind == "nvidia-topo" else rocm_smi.read
        devices = len(reader(file.source.text, file.name).devices)
        return [
            Part("/cluster/nodes/devices", devices, file.start, "devices in the matrix"),
            Part("/cluster/intra_node/file", reference, file.start, "the file itself"),
            Part("/cluster/intra_node/kind", kind, file.start, "the file itself"),
        ]
    return [Part("/cluster/collectives", [{"file": reference, "kind": kind}], file.start, "the file itself")]


# ── the text ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _text(
    data: Mapping[str, Any], taken: Mapping[str, Part], places: Mapping[str, Place], launches: Sequence[Launch],
    files: Sequence[SourceFile], kinds: Sequence[str],
) -> str:  # fmt: skip
    lines = ["planproof: 1"]
    named = ", ".join(f"{_plain(PurePosixPath(file.name).name)} ({kind})" for file, kind in zip(files, kinds, strict=True))
    lines.append(f"# Imported from {named}.")
    lines.append(
        "# Beside each value stands where it was read; 'assumed' is a framework's own default. Nothing else was filled in."
    )
    for launch in launches:
        counts = launch.counts()
        if launch.keys:
            lines.append(
                f"# {_plain(PurePosixPath(launch.name).name)}, sha256 {launch.sha256[:16]}...: {counts[Use.READ]} keys read, "
                f"{counts[Use.ASIDE]} set aside, {counts[Use.UNKNOWN]} not understood."
            )
    for section in [*SECTIONS, *(key for key in data if key not in SECTIONS and key != "planproof")]:
        if section in data:
            lines += ["", *_block(section, data[section], f"/{section}", 0, taken, places)]
    return "\n".join(lines) + "\n"


def _block(key: str, value: object, path: str, depth: int, taken: Mapping[str, Part], places: Mapping[str, Place]) -> list[str]:
    pad = "  " * depth
    comment = _comment(path, taken, places)
    if isinstance(value, Mapping) and value:
        lines = [f"{pad}{key}:{comment}"]
        for inner in sorted(value, key=_rank):
            lines += _block(str(inner), value[inner], f"{path}/{inner}", depth + 1, taken, places)
        return lines
    if isinstance(value, list) and value and any(isinstance(item, Mapping) for item in value):
        lines = [f"{pad}{key}:{comment}"]
        for k, item in enumerate(value):
            first = True
            for inner in sorted(item, key=_rank) if isinstance(item, Mapping) else []:
                block = _block(str(inner), item[inner], f"{path}/{k}/{inner}", depth + 2, taken, places)
                if first:
                    block[0] = "  " * (depth + 1) + "- " + block[0].lstrip()
                    first = False
                lines += block
        return lines
    return [f"{pad}{key}: {_inline(value)}{comment}"]


def _rank(key: object) -> tuple[int, str]:
    return (_ORDER.index(str(key)), "") if key in _ORDER else (len(_ORDER), "")


def _inline(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_inline(inner)}" for key, inner in value.items()) + "}"
    return "null" if value is None else _scalar(value)


def _comment(path: str, taken: Mapping[str, Part], places: Mapping[str, Place]) -> str:
    part = taken.get(path)
    if part is None:
        place = places.get(path)
        return f"  # {_where(place)}" if place is not None and path.count("/") == 1 else ""
    if part.assumed is not None:
        return f"  # assumed: {_plain(part.assumed)}"
    return f"  # {_where(part.place)}{f' {_plain(part.key)}' if part.key else ''}" if part.key else ""


def _where(place: Place) -> str:
    name = _plain(PurePosixPath(place.file or "").name)
    return f"{name}:{place.line}" if place.line is not None else name


def _plain(text: str) -> str:
    """A text that stays on its line, without what a suppression would be read from."""
    return "".join(c if c.isprintable() else "?" for c in text).replace("planproof:", "planproof :")[:200]


def _still(case: Case, launches: Sequence[Launch]) -> str:
    lines = []
    for launch in launches:
        name = PurePosixPath(launch.name).name
        lines += [f"#   {_plain(name)}:{gap.place.line}: {_plain(gap.path)}: {_plain(gap.why)}" for gap in launch.gaps]
    text = ""
    if lines:
        text += "\n# Left open by the files:\n" + "\n".join(dict.fromkeys(lines)) + "\n"
    said = [
        f"#   {_plain(PurePosixPath(one.name).name)}:{place.line}: {_plain(note)}"
        for one in launches
        for note, place in one.notes
    ]
    if said:
        text += "\n# Said by the files and not taken over:\n" + "\n".join(said) + "\n"
    unknown = [f"#   {_plain(key.name)} ({_where(key.place)})" for one in launches for key in one.keys if key.use is Use.UNKNOWN]
    if unknown:
        text += "\n# Not understood:\n" + "\n".join(unknown[:50]) + "\n"
    if case.missing:
        text += "\n# Still to state before a review can answer:\n"
        text += "\n".join(f"#   {_plain(gap.what)}; from {_plain(gap.how)}" for gap in case.missing) + "\n"
    return text


__all__ = ["KINDS", "Imported", "import_files"]
