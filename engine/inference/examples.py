"""Running a rule's examples: a patch on a base proposal, handed to whoever judges proposals, and what it must find.

An example never brings facts instead of a proposal: it is the base's own text, or, where it has a patch, JSON of its values
with some replaced, so that it passes through the loader and all that follows. Facts may be added to those that are derived.
How a proposal is judged is not known here: it is a callable.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import as_file, files
from itertools import pairwise
from pathlib import Path

from ..document import load_document
from ..errors import PlanproofError, RuleError
from ..facts.fact import Fact
from .rule import Example, Phase, Rule

#: From the bytes of a proposal, the path where they would stand, the rule's phase and facts to add, to the ids of the
#: rules that fired.
Judge = Callable[[bytes, Path, Phase, Sequence[Fact]], Iterable[str]]


def shipped_bases() -> Path:
    """The folder of the base proposals that examples name, with the files beside them."""
    with as_file(files("planproof.rules").joinpath("bases")) as folder:
        return folder


def base_path(name: str, folders: Iterable[Path] = ()) -> Path:
    """The base proposal called `name`: in one of `folders`, else among the shipped ones. Raises RuleError where it is not."""
    places = [*folders, shipped_bases()]
    for folder in places:
        found = folder / f"{name}.yaml"
        if found.is_file():
            return found
    known = sorted({path.stem for folder in places for path in folder.glob("*.yaml")})
    raise RuleError(f"no base proposal is called '{name}'", remedy=f"the bases are {', '.join(known)}")


def patched(data: object, patch: Iterable[tuple[str, object]]) -> object:
    """A copy of `data` with each JSON pointer of `patch` set to its value, or deleted where that is None.

    Mappings that are not there are made on the way; the index just past the end of a list appends to it. Raises RuleError
    for a pointer that leads nowhere.
    """
    result = copy.deepcopy(data)
    for pointer, value in patch:
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]
        here = result
        for token, following in pairwise(tokens):
            here = _below(here, token, pointer, [] if following == "0" else {})
        _set(here, tokens[-1], value, pointer)
    return result


def check_rule(rule: Rule, judge: Judge, bases: Iterable[Path] = ()) -> list[str]:
    """What is wrong with the examples of `rule`, in words: nothing where each does what it says.

    Bases are looked for in `bases`, then in a folder `bases` beside the rule's file or above it, then among the shipped.
    """
    file = Path(rule.file).resolve()
    folders = (*bases, *(folder / "bases" for folder in file.parents[:2] if file.is_file()))
    wrong = []
    for key, examples, expected in (("fires", rule.fires, True), ("silent", rule.silent, False)):
        for number, example in enumerate(examples):
            label = f"{rule.id}: {key}[{number}] ({example.base}{', ' + example.note if example.note else ''})"
            try:
                raw, path = example_text(example, folders)
                found = sorted(set(judge(raw, path, rule.phase, example.facts)))
            except PlanproofError as error:
                wrong.append(f"{label}: {error}")
                continue
            if (rule.id in found) is not expected:
                fired = ", ".join(found) or "none"
                wrong.append(f"{label}: the rule {'is silent' if expected else 'fires'}; the rules that fired: {fired}")
    return wrong


def example_text(example: Example, bases: Iterable[Path] = ()) -> tuple[bytes, Path]:
    """The proposal of an example as bytes, and the path of the base that it was made from.

    Without a patch it is the base as it stands, comments included; with one it is JSON (which is YAML), and has none.
    """
    path = base_path(example.base, bases)
    if not example.patch:
        return path.read_bytes(), path
    data = patched(load_document(path).data, example.patch)
    return json.dumps(data, ensure_ascii=False, indent=1).encode(), path


def _below(here: object, token: str, pointer: str, new: object) -> object:
    if isinstance(here, dict):
        return here.setdefault(token, new)
    if isinstance(here, list) and token.isdecimal() and int(token) < len(here):
        return here[int(token)]
    raise RuleError(f"the patch '{pointer}' leads nowhere: there is no '{token}' to go into")


def _set(here: object, token: str, value: object, pointer: str) -> None:
    if isinstance(here, dict):
        if value is None and token not in here:
            raise RuleError(f"the patch '{pointer}' deletes what the base does not have")
        if value is None:
            del here[token]
        else:
            here[token] = value
    elif isinstance(here, list) and token.isdecimal() and int(token) <= len(here):
        position = int(token)
        here[position : position + 1] = [] if value is None else [value]
    else:
        raise RuleError(f"the patch '{pointer}' leads nowhere: there is no place '{token}'")
