"""From a table of TOML to a layer: every key known, every value of the type and range that it must have, or one clear error.

Whether a rule of that id exists is not known here.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NoReturn

from ..document import quoted
from ..errors import Place, UsageError
from ..inference.reading import near
from ..inference.rule import Severity
from .settings import FAIL_ON, KEYS, Entry, Layer
from .toml_file import TomlFile
from .tree import Tree

SEVERITIES = tuple(member.value for member in Severity)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
#: Key -> what a list holds, for messages.
_LISTS = {
    "select": "rule ids",
    "ignore": "rule ids",
    "mandatory": "rule ids",
    "rules": "folders",
    "hardware": "folders",
}
_EXAMPLES = {
    "select": 'select = ["INT", "EVI"]',
    "ignore": 'ignore = ["RULE"]',
    "mandatory": 'mandatory = ["RULE"]',
    "rules": 'rules = ["house-rules"]',
    "hardware": 'hardware = ["data-sheets"]',
    "per-file-ignores": 'per-file-ignores = {"legacy/*.yaml" = ["RULE"]}',
    "severity": 'severity = {RULE = "warning"}',
    "params": 'params = {RULE = {floor = "100 GB/s"}}',
    "extend": 'extend = "../planproof.toml"',
    "templates": 'templates = "templates"',
    "fail-on": 'fail-on = "warning"',
}


def read_layer(file: TomlFile, path: str, tree: Tree) -> Layer:
    """The layer of a file that lies at `path` in `tree`. Raises UsageError at the key that is wrong."""
    for key in file.table:
        if key not in KEYS:
            hint = near(key.replace("_", "-"), KEYS)
            _fail(f"a configuration has no key {quoted(key)}{hint}", file.place(key), f"The keys are {', '.join(KEYS)}.")
    folder = posixpath.dirname(path)
    return Layer(path, file.sha256, folder, tuple(_entries(file, folder, tree)))


def _entries(file: TomlFile, folder: str, tree: Tree) -> Iterator[Entry]:
    for key, value in file.table.items():
        if key in _LISTS:
            for item in _texts(value, file, key):
                place = file.place(key, item=item)
                if key in ("rules", "hardware"):
                    yield Entry((key,), _folder(item, folder, tree, place, key), place, item)
                else:
                    yield Entry((key,), item, place)
        elif key == "per-file-ignores":
            for pattern, rules in _table(value, file, key).items():
                if not pattern or pattern.startswith("/") or "\\" in pattern:
                    _fail(
                        f"the pattern {quoted(pattern)} is not a path from this file's folder",
                        file.place(key, pattern),
                        "Write it like 'legacy/*.yaml'; '*' and '?' stay within a folder, '**' does not.",
                    )
                for item in _texts(rules, file, key, pattern):
                    yield Entry((key, pattern), item, file.place(key, pattern, item=item))
        elif key == "severity":
            for rule, name in _table(value, file, key).items():
                yield Entry((key, rule), _one_of(name, SEVERITIES, file, key, rule), file.place(key, rule))
        elif key == "params":
            for rule, values in _table(value, file, key).items():
                for name, raw in _table(values, file, key, rule).items():
                    yield Entry((key, rule, name), _param(raw, file, key, rule, name), file.place(key, rule, name))
        elif key == "fail-on":
            yield Entry((key,), _one_of(value, FAIL_ON, file, key), file.place(key))
        else:
            text, place = _text(value, file, key), file.place(key)
            if key == "extend":
                yield Entry((key,), inside(text, folder, place), place, text)
            else:
                yield Entry((key,), _folder(text, folder, tree, place, key), place, text)


def inside(written: str, folder: str, place: Place) -> str:
    """`written`, a path from `folder`, as a path from the root. Raises UsageError where it is none inside the root."""
    why = ""
    if not written.strip() or not written.isprintable():
        why = "names nothing"
    elif "\\" in written:
        why = "holds a backslash; separate folders with '/'"
    elif written.startswith(("/", "~")) or _URL.match(written):
        why = "is not a relative path"
    path = posixpath.normpath(posixpath.join(folder, written)) if not why else ""
    if path == ".." or path.startswith("../"):
        why = "leaves the repository"
    if ".git" in path.lower().split("/"):
        why = "lies in .git"
    if why:
        _fail(f"the path {quoted(written)} {why}", place, "Name a path inside the repository, from the folder of this file.")
    return "" if path == "." else path


def _folder(written: str, folder: str, tree: Tree, place: Place, key: str) -> str:
    path = inside(written, folder, place)
    try:
        found = tree.folder(path)
    except UsageError as error:
        raise error.at(place) from None
    if found is None:
        where = f" in {tree.revision}" if tree.revision else ""
        message = f"`{key}` names the folder {quoted(written)}, and there is none{where}"
        _fail(message, place, "Paths start at this file's folder.")
    return found


def _text(value: object, file: TomlFile, *keys: str) -> str:
    if not isinstance(value, str):
        _fail(f"`{_dotted(keys)}` must be a text, not {_found(value)}", file.place(*keys), f"Write it like {_EXAMPLES[keys[0]]}.")
    return value


def _texts(value: object, file: TomlFile, *keys: str) -> list[str]:
    what = _LISTS.get(keys[0], "rule ids")
    example = f"Write it like {_EXAMPLES[keys[0]]}."
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        _fail(f"`{_dotted(keys)}` must be a list of {what}, not {_found(value)}", file.place(*keys), example)
    if not value and keys[0] == "select":
        _fail("`select` is empty: no rule would be in force", file.place(*keys), "Leave it out to have all, or name some.")
    doubled = next((item for k, item in enumerate(value) if item in value[:k]), None)
    if doubled is not None:
        _fail(f"`{_dotted(keys)}` names {quoted(doubled)} twice", file.place(*keys, item=doubled), "Name it once.")
    return value


def _table(value: object, file: TomlFile, *keys: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        message = f"`{_dotted(keys)}` must be a table, not {_found(value)}"
        _fail(message, file.place(*keys), f"Write it like {_EXAMPLES[keys[0]]}.")
    return value


def _one_of(value: object, allowed: Iterable[str], file: TomlFile, *keys: str) -> str:
    names = list(allowed)
    if not isinstance(value, str) or value not in names:
        hint = near(value, names) if isinstance(value, str) else ""
        _fail(f"`{_dotted(keys)}` is {_found(value)}{hint}", file.place(*keys), f"It is one of {', '.join(names)}.")
    return value


def _param(value: object, file: TomlFile, *keys: str) -> object:
    """A number, a text, or a list of them."""
    items = value if isinstance(value, list) else [value]
    for item in items:
        if isinstance(item, bool) or not isinstance(item, int | float | str):
            _fail(
                f"`{_dotted(keys)}` must be a number, a text or a list of them, not {_found(value)}",
                file.place(*keys),
                f"Write it like {_EXAMPLES['params']}.",
            )
        if isinstance(item, float):
            _fail(
                f"`{_dotted(keys)}` is {item}, and rules compare whole numbers and quantities",
                file.place(*keys),
                'Write a whole number, or a quantity with its unit in quotes, such as "12.5 %" or "3.5 us".',
            )
    return value


def _found(value: object) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value) if isinstance(value, str) else str(value)[:60]


def _dotted(keys: tuple[str, ...]) -> str:
    return ".".join(keys)


def _fail(message: str, place: Place, remedy: str) -> NoReturn:
    raise UsageError(message, place=place, remedy=remedy, code="usage.config")
