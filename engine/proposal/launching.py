"""A proposal and its launch files made one: what they state counts as stated, at the places where they state it.

Order of words: the proposal's own, then what a launch file states, then a framework's default (grade assumed). Where the
proposal and a launch file, or two launch files, state different things, the first stands and the difference is kept as a clash
with both places. Imported only where there is a launch file.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ..document import Document, bare_document, parse_document, split_pointer
from ..document.source import Source, read_file
from ..errors import InputError, Place, PlanproofError
from ..files.sniff import begins_as_a_proposal
from ..importers.launch import LAUNCH, PROPOSAL, Launch, Part, SourceFile, kinds_of, only_kind, read_launch
from .load import LoadedProposal, validate
from .references import read_reference, repository_root
from .schema import LaunchFile

#: A file beside a launch file that describes what it runs on, by name; and a proposal beside it, which has to name it.
CLUSTER_NAMES: Final = ("cluster.yaml", "cluster.yml", "cluster.json")
PROPOSAL_NAMES: Final = ("proposal.yaml", "proposal.yml", "proposal.json")
_SAME: Final = ({"adam", "adamw"},)


@dataclass(frozen=True, slots=True)
class Clash:
    """Two statements that differ: the pointer of the one that stands, and both in words with their places."""

    path: str
    detail: str
    plan: str | None = None


@dataclass(slots=True)
class Launched:
    """The launch files of a proposal, which of their parts were taken over, and what contradicts them."""

    files: list[tuple[Launch, str]] = field(default_factory=list)
    #: Pointer in the proposal -> the part that stands there.
    taken: dict[str, Part] = field(default_factory=dict)
    clashes: list[Clash] = field(default_factory=list)
    #: Shapes that a launch file states beside a model's own configuration file, to be compared with it.
    shapes: dict[str, Part] = field(default_factory=dict)
    #: Pointer of the plan that the launch files are about.
    plan: str = "/plans/0"


def load_launch(raw: bytes, name: str, path: Path, *, bare: bool) -> LoadedProposal | None:
    """A launch file as a proposal of its own; None where the bytes are no launch file (a proposal, or nothing known)."""
    file = SourceFile(name, raw)
    try:
        kinds = kinds_of(file)
    except PlanproofError:
        return None
    known = [kind for kind in kinds if kind in LAUNCH]
    if not known:
        if any(kind != PROPOSAL for kind in kinds):
            only_kind_of_launch(file)  # says which kind it is
        return None
    launch = read_launch(file, only_kind(file))
    base, whole = _beside(path, name)
    document = bare_document(file.source)
    data: dict[str, Any] = copy.deepcopy(base.data) if base is not None and isinstance(base.data, dict) else {}
    data.pop("launch", None)
    data.setdefault("planproof", 1)
    places = _places(base) if base is not None else {}
    launched = Launched(files=[(launch, PurePosixPath(name).name)])
    _merge(data, places, [launch], launched, own=base)
    texts = {base.name: base_source(base)} if base is not None else {}
    completed = document.completed(data, _with_parents(places), texts)
    return LoadedProposal(completed, validate(completed), path, repository_root(path), launched, bare and not whole)


def base_source(document: Document) -> Source:
    """The text of a document, with lines."""
    from ..document.source import source_of

    return source_of(document.name, document.text)


def _beside(path: Path, name: str) -> tuple[Document | None, bool]:
    """What lies beside a launch file and completes it: a proposal that names it (the whole), or a cluster file."""
    folder = path.parent
    shown = PurePosixPath(name).parent
    for others, whole in ((PROPOSAL_NAMES, True), (CLUSTER_NAMES, False)):
        for other in others:
            try:
                raw = read_file(folder / other, str(shown / other)) if (folder / other).is_file() else b""
            except PlanproofError:
                continue
            if not raw or not begins_as_a_proposal(raw):
                continue
            document = parse_document(raw, str(shown / other))
            stated = validate(document)
            if whole and not any(one.file is not None and _names(one.file, path.name) for one in stated.launch or ()):
                continue
            if whole or stated.launch is None:
                return document, whole
    return None, False


def _names(reference: str, name: str) -> bool:
    return os.path.normpath(reference) == name


def with_launch(document: Document, stated: Sequence[LaunchFile], path: Path) -> LoadedProposal:
    """A proposal with the launch files that it names. Raises InputError for one that cannot be read."""
    root = repository_root(path)
    launched = Launched()
    launches = []
    for k, one in enumerate(stated):
        at = f"/launch/{k}" if isinstance(document.data, dict) and isinstance(document.data.get("launch"), list) else "/launch"
        if one.file is None:
            raise InputError(
                "A launch file is named by 'file'.", place=document.place(at), code="input.launch",
                remedy="Write launch: {kind: megatron, file: train.sh}.",
            )  # fmt: skip
        found = read_reference(one.file, proposal=path, root=root, place=document.place(f"{at}/file"))
        shown = str(PurePosixPath(os.path.normpath(os.path.join(os.path.dirname(document.name), one.file))))
        given = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in (one.set or {}).items()}
        file = SourceFile(shown, found.raw, given, one.command)
        launch = read_launch(file, one.kind or only_kind_of_launch(file))
        launches.append(launch)
        launched.files.append((launch, found.path_in_repository))
    data = copy.deepcopy(document.data)
    assert isinstance(data, dict)
    launched.plan = f"/plans/{_plan_index(data, stated)}"
    places: dict[str, Place] = {}
    _merge(data, places, launches, launched, own=document)
    texts = {launch.name: SourceFile(launch.name, launch.text.encode()).source for launch in launches}
    completed = document.completed(data, _with_parents(places), texts)
    return LoadedProposal(completed, validate(completed), path, root, launched)


def only_kind_of_launch(file: SourceFile) -> str:
    """The kind of a launch file whose kind is not stated. Raises InputError for evidence and for what is unknown."""
    kind = only_kind(file)
    if kind not in LAUNCH:
        where = "'model.config'" if kind == "hf-config" else "'cluster'"
        raise InputError(
            f"The file is of kind '{kind}', which is no launch file.", place=file.start, code="launch.kind",
            remedy=f"Name it under {where}.",
        )  # fmt: skip
    return kind


def _plan_index(data: Mapping[str, Any], stated: Sequence[LaunchFile]) -> int:
    """Which plan the launch files are about: the one that is named, the submitted one, else a new one at the end."""
    plans = data.get("plans")
    listed = [plan for plan in plans if isinstance(plan, dict)] if isinstance(plans, list) else []
    name = next((one.plan for one in stated if one.plan is not None), None)
    for k, plan in enumerate(listed):
        if plan.get("name") == name if name is not None else plan.get("role") == "submitted":
            return k
    return len(listed)


def _places(document: Document) -> dict[str, Place]:
    """Where every value of a document stands, by pointer."""
    from ..document import pointer_to

    found: dict[str, Place] = {}
    stack: list[tuple[tuple[str | int, ...], object]] = [((), document.data)]
    while stack:
        tokens, value = stack.pop()
        if tokens:
            found[pointer_to(*tokens)] = document.place(pointer_to(*tokens))
        if isinstance(value, dict):
            stack += [((*tokens, key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            stack += [((*tokens, k), inner) for k, inner in enumerate(value)]
    return found


def _with_parents(places: Mapping[str, Place]) -> dict[str, Place]:
    """Places for the mappings around values too: that of the first value in them."""
    found = dict(places)
    for pointer, place in places.items():
        while pointer := pointer.rpartition("/")[0]:
            found.setdefault(pointer, place)
    return found


def _merge(
    data: dict[str, Any], places: dict[str, Place], launches: Sequence[Launch], launched: Launched, *, own: Document | None
) -> None:
    """Put the parts of the launch files into the proposal's data, and note what clashes."""
    chosen: dict[str, Part] = {}
    for wanted in (False, True):
        for launch in launches:
            for part in launch.parts:
                if (part.assumed is not None) is not wanted:
                    continue
                path = part.path.replace("/plans/0", launched.plan, 1) if part.path.startswith("/plans/0") else part.path
                first = chosen.get(path)
                if first is None:
                    chosen[path] = part
                elif first.assumed is None and part.assumed is None and not _equal(first.value, part.value):
                    if "rest" in (first.value, part.value):
                        chosen[path] = part if first.value == "rest" else first
                    elif not path.endswith(("/name", "/role")):
                        launched.clashes.append(Clash(path, _words(path, first, part), None))
    for n, launch in enumerate(launches):
        for k, (_, place) in enumerate(launch.notes):
            places[note_path(n, k)] = place
        for gap in launch.gaps:
            places.setdefault(gap.path.replace("/plans/0", launched.plan, 1), gap.place)
    fresh = _value(data, launched.plan) is None
    for path, part in chosen.items():
        if not _belongs(data, path, launched, fresh):
            continue
        stated = _value(data, path)
        if stated is None:
            if _put(data, path, copy.deepcopy(part.value)):
                places[path] = part.place
                launched.taken[path] = part
        elif part.assumed is None and part.value != "rest" and not _same(path, stated, part.value, data):
            where = own.place(path) if own is not None else Place()
            dotted = path.strip("/").replace("/", ".")
            text = (
                f"'{dotted}' is {_shown(stated)} ({where}) and '{part.key or part.path}' is {_shown(part.value)} ({part.place})"
            )
            plan = _value(data, f"{launched.plan}/name") if path.startswith(launched.plan) else None
            launched.clashes.append(Clash(path, text, plan if isinstance(plan, str) else None))


def note_path(launch: int, note: int) -> str:
    """The pointer under which what a launch file says, and a proposal cannot, has its place."""
    return f"/launch/{launch}/said/{note}"


def _belongs(data: Mapping[str, Any], path: str, launched: Launched, fresh: bool) -> bool:
    """Whether a part may be put beside what the proposal has of its section."""
    if path in (f"{launched.plan}/name", f"{launched.plan}/role") and not fresh:
        return False
    if path.startswith(f"{launched.plan}/uniform/") and _value(data, f"{launched.plan}/stages") is not None:
        return False
    if path.startswith("/model/transformer/"):
        return _value(data, "/model/config") is None
    if path.startswith("/cluster/"):
        cluster = data.get("cluster")
        if not isinstance(cluster, dict):
            return True
        if "description" in cluster or isinstance(cluster.get("nodes"), list):
            return False
        if path.startswith("/cluster/devices"):
            return "nodes" not in cluster
        return "devices" not in cluster or "nodes" in cluster
    return True


def compare_shapes(launched: Launched, model: object, collect: Any) -> None:
    """What launch files state of the shapes against a model's own configuration file: each difference is a contradiction."""
    for launch, _ in launched.files:
        for part in launch.parts:
            name = part.path.removeprefix("/model/transformer/")
            if name == part.path or part.assumed is not None or "/" in name:
                continue
            there = getattr(model, {"positions": "learned_positions"}.get(name, name), None)
            if there is not None and name in ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn") and there != part.value:
                collect.contradicts(
                    "launch",
                    "/model/config/file",
                    f"the model's file says {name} {there} and '{part.key}' is {part.value} ({part.place})",
                )


def _value(data: object, path: str) -> Any:
    for token in split_pointer(path):
        if isinstance(data, dict):
            if token == "name" and isinstance(data, str):
                return data
            data = data.get(token)
        elif isinstance(data, list) and token.isdigit() and int(token) < len(data):
            data = data[int(token)]
        elif isinstance(data, str) and token == "name":
            return data  # an optimizer that is stated by its name alone
        else:
            return None
    return data


def _put(data: dict[str, Any], path: str, value: object) -> bool:
    """Put a value at a pointer, making what is missing on the way; False where something else stands in the way."""
    here: Any = data
    tokens = split_pointer(path)
    for k, token in enumerate(tokens[:-1]):
        after = tokens[k + 1]
        if isinstance(here, list):
            if not token.isdigit() or int(token) > len(here):
                return False
            if int(token) == len(here):
                here.append([] if after.isdigit() else {})
            here = here[int(token)]
        elif isinstance(here, dict):
            if here.get(token) is None:
                here[token] = [] if after.isdigit() else {}
            here = here[token]
        else:
            return False
    if isinstance(here, dict) and here.get(tokens[-1]) is None:
        here[tokens[-1]] = value
        return True
    return False


def _equal(one: object, other: object) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) <= 1e-9 * max(1.0, abs(one))
    return one == other


def _same(path: str, own: object, other: object, data: Mapping[str, Any]) -> bool:
    """Whether two statements of one thing say the same, a batch in tokens and one in sequences included."""
    if path == "/workload/global_batch":
        length = _value(data, "/workload/sequence_length")
        return _sequences(own, length) == _sequences(other, length)
    if path == "/workload/optimizer/name" and isinstance(own, str) and isinstance(other, str):
        pair = {own.lower(), other.lower()}
        return len(pair) == 1 or pair in _SAME
    if path.startswith("/proposal/framework"):
        return True
    return _equal(own, other)


def _sequences(batch: object, length: object) -> object:
    words = str(batch).split()
    if len(words) == 2 and words[0].isdigit():
        if words[1].startswith("token") and isinstance(length, int) and length and int(words[0]) % length == 0:
            return int(words[0]) // length
        return int(words[0]) if words[1].startswith("sequence") else str(batch)
    return str(batch)


def _words(path: str, first: Part, second: Part) -> str:
    dotted = path.strip("/").replace("/", ".")
    return (
        f"'{dotted}': '{first.key}' is {_shown(first.value)} ({first.place}) and '{second.key}' is {_shown(second.value)} "
        f"({second.place})"
    )


def _shown(value: object) -> str:
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)
