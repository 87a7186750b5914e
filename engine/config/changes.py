"""What a configuration changes in the rules: the catalogue that is in force, and every change with its place.

Layers are applied from the outermost in, so that what an outer one made mandatory holds for those that extend it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import Place, UsageError
from ..frozen import dataclass
from ..inference import Catalogue, Override, Suppression
from .settings import Entry, Layer, Settings

ALL = "ALL"
_GROUP = re.compile(r"[A-Z]{3}\Z")


@dataclass(frozen=True, slots=True)
class Change:
    """One change to one rule and where it is written. `what`: severity, param, ignore, mandatory, select, per-file-ignore.

    `name` is the parameter's, or the pattern's; `before` and `after` are in words.
    """

    rule: str
    what: str
    name: str
    before: str
    after: str
    place: Place


def in_force(catalogue: Catalogue, settings: Settings) -> tuple[Catalogue, tuple[Change, ...]]:
    """The catalogue under a configuration, and what that changed. Raises UsageError at the entry that cannot be obeyed."""
    changes: list[Change] = []
    for layer in settings.layers:
        catalogue = _layered(catalogue, layer, changes)
    catalogue = _selected(catalogue, settings, changes)
    for entry in settings.entries("per-file-ignores"):
        _demand_free(catalogue, entry, "suppressed for a file")
    return catalogue, tuple(changes)


def exempted(
    settings: Settings, catalogue: Catalogue, path: str | os.PathLike[str]
) -> tuple[tuple[Suppression, ...], tuple[Change, ...]]:
    """What `per-file-ignores` suppresses in the file `path`, and the changes that this amounts to."""
    suppressions: dict[str, Suppression] = {}
    changes: list[Change] = []
    for layer in settings.layers:
        inside = _below(path, Path(settings.root) / layer.folder)
        for entry in layer.of("per-file-ignores") if inside is not None else ():
            if not matches(entry.key[1], inside or ""):
                continue
            for rule in _rules(str(entry.value), catalogue):
                if rule not in suppressions:
                    reason = f"ignored in files like '{entry.key[1]}' by the configuration"
                    suppressions[rule] = Suppression(rule, reason, "configuration")
                    changes.append(Change(rule, "per-file-ignore", entry.key[1], "in force", "suppressed", entry.place))
    return tuple(suppressions.values()), tuple(changes)


def matches(pattern: str, path: str) -> bool:
    """Whether a POSIX path fits a pattern: `*` and `?` stay within a folder, `**` does not; a bare name fits in any folder."""
    return bool(_compiled(pattern).fullmatch(path))


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    if "/" not in pattern.rstrip("/"):
        pattern = "**/" + pattern
    if pattern.endswith("/"):
        pattern += "**"
    tokens = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    return re.compile("".join(tokens.get(part, re.escape(part)) for part in parts), re.DOTALL)


def _below(path: str | os.PathLike[str], folder: Path) -> str | None:
    """`path` from `folder`, POSIX; None where it lies elsewhere."""
    given = Path(path).absolute()
    real = Path(os.path.realpath(given.parent)) / given.name
    return real.relative_to(folder).as_posix() if real.is_relative_to(folder) else None


def _rules(selector: str, catalogue: Catalogue) -> tuple[str, ...]:
    """The ids that a selector stands for; the selector itself where it fits none, for the catalogue to refuse."""
    if selector == ALL:
        return tuple(rule.id for rule in catalogue.rules)
    if _GROUP.match(selector):
        return tuple(rule.id for rule in catalogue.rules if rule.id.startswith(selector)) or (selector,)
    return (selector,)


def _layered(catalogue: Catalogue, layer: Layer, changes: list[Change]) -> Catalogue:
    held = frozenset(rule.id for rule in catalogue.rules if rule.mandatory)
    for entry in layer.of("mandatory"):
        for rule in _rules(str(entry.value), catalogue):
            catalogue = _changed(catalogue, entry, changes, mandatory=[rule])
    for entry in layer.of("severity"):
        catalogue = _changed(catalogue, entry, changes, severity={entry.key[1]: str(entry.value)})
    for entry in layer.of("params"):
        rule = entry.key[1]
        if rule in held:
            raise UsageError(
                f"{rule} is mandatory by what this file extends, and its parameters are fixed there",
                place=entry.place,
                code="usage.config",
                remedy="Remove the parameter, or have it changed where the rule is made mandatory.",
            )
        catalogue = _changed(catalogue, entry, changes, params={rule: {entry.key[2]: entry.value}})
    for entry in layer.of("ignore"):
        for rule in _rules(str(entry.value), catalogue):
            catalogue = _changed(catalogue, entry, changes, ignore=[rule])
    return catalogue


def _changed(catalogue: Catalogue, entry: Entry, changes: list[Change], **override: Any) -> Catalogue:
    """The catalogue with one override, which is added to `changes` with its place."""
    try:
        new = catalogue.with_overrides(**override)
    except UsageError as error:
        raise _placed(error, entry) from None
    for made in new.overrides[len(catalogue.overrides) :]:
        before, after = _words(made)
        changes.append(Change(made.rule, made.what, made.name, before, after, entry.place))
    return new


def _words(made: Override) -> tuple[str, str]:
    plain: Mapping[str, tuple[str, str]] = {"ignore": ("in force", "ignored"), "mandatory": ("not mandatory", "mandatory")}
    return plain.get(made.what, (made.before, made.after))


def _placed(error: UsageError, entry: Entry) -> UsageError:
    return UsageError(error.message, place=entry.place, remedy=error.remedy, code="usage.config")


def _selected(catalogue: Catalogue, settings: Settings, changes: list[Change]) -> Catalogue:
    """Without the rules that `select` leaves out; a mandatory rule stays."""
    entries = settings.entries("select")
    if not entries:
        return catalogue
    kept: set[str] = set()
    for entry in entries:
        rules = _rules(str(entry.value), catalogue)
        if catalogue.get(rules[0]) is None:
            _unknown(catalogue, entry)
        kept.update(rules)
    left_out = [rule.id for rule in catalogue.rules if rule.id not in kept and not rule.mandatory and not rule.ignored]
    changes += [Change(rule, "select", "", "in force", "not selected", entries[0].place) for rule in left_out]
    return catalogue.with_overrides(ignore=left_out)


def _unknown(catalogue: Catalogue, entry: Entry) -> None:
    """Raise the catalogue's own error for a rule that does not exist, at the entry and with its key."""
    try:
        catalogue.with_overrides(ignore=[str(entry.value)])
    except UsageError as error:
        raise _placed(UsageError(error.message.replace("`ignore`", f"`{entry.key[0]}`", 1), remedy=error.remedy), entry) from None


def _demand_free(catalogue: Catalogue, entry: Entry, what: str) -> None:
    """That the entry names rules, and no mandatory one."""
    for rule_id in _rules(str(entry.value), catalogue):
        rule = catalogue.get(rule_id)
        if rule is None:
            _unknown(catalogue, entry)
        elif rule.mandatory:
            raise UsageError(
                f"{rule_id} is mandatory, and cannot be {what}",
                place=entry.place,
                code="usage.config",
                remedy=f"Remove it from `{entry.key[0]}`.",
            )


def groups(changes: Iterable[Change]) -> list[tuple[Change, tuple[str, ...]]]:
    """Changes that differ in their rule alone, together: the first, and all their rules, for a report that is read."""
    found: dict[tuple[object, ...], list[Change]] = {}
    for one in changes:
        shared = one.what in ("select", "ignore", "mandatory", "per-file-ignore")
        key = (one.what, one.name, one.before, one.after, one.place.file, None if shared else one.rule)
        found.setdefault(key, []).append(one)
    return [(many[0], tuple(dict.fromkeys(one.rule for one in many))) for many in found.values()]
