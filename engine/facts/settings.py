"""A framework's own settings in one form: names in small letters with underscores, switches as yes and no.

`--overlap-param-gather`, `overlap_param_gather` and `overlapParamGather: True` in three files are one setting. What a name
means, and which ones a framework has, is for rules to know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..proposal import Case

Stated = bool | int | float | str | None | list[bool | int | float | str | None]
PATH = "/proposal/framework/settings"
_YES, _NO = frozenset({"true", "yes", "on"}), frozenset({"false", "no", "off"})
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")


def setting_name(written: str) -> str:
    """The one form of a setting's name: `--tp-comm-overlap` is `tp_comm_overlap`."""
    return re.sub(r"[-\s]+", "_", written.strip().lstrip("-")).lower()


def setting_text(value: Stated) -> str:
    """The one form of a value."""
    if isinstance(value, list):
        return ", ".join(setting_text(item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    text = str(value).strip()
    return "yes" if text.lower() in _YES else "no" if text.lower() in _NO else text


def whole_number(value: Stated) -> int | None:
    """The whole number that a value is, whether written as one or as text; None where it is none."""
    if isinstance(value, list):
        return None
    text = setting_text(value)
    return int(text) if _WHOLE.fullmatch(text) else None


def stated_settings(case: Case) -> dict[str, tuple[Stated, str]]:
    """The settings of the proposal by their one name, each with its pointer; of two spellings the later counts."""
    heading = case.loaded.stated.proposal
    stated: Mapping[str, Stated] = (heading.framework.settings if heading and heading.framework else None) or {}
    found = {
        setting_name(name): (value, f"{PATH}/{name.replace('~', '~0').replace('/', '~1')}") for name, value in stated.items()
    }
    for name, (value, path) in tuple(found.items()):
        # `--no-overlap-p2p-communication` is how a command line says that overlap_p2p_communication is off.
        if name.startswith("no_") and setting_text(value) == "yes":
            found.setdefault(name.removeprefix("no_"), (False, path))
    return found


def millionths(value: Stated) -> int | None:
    """A number in millionths; None where it is none."""
    text = "" if isinstance(value, list) else setting_text(value)
    return round(1e6 * float(text)) if _NUMBER.fullmatch(text) and abs(float(text)) < 1e12 else None


def numbers(settings: Mapping[str, tuple[Stated, str]], *names: str) -> int | None:
    """The first of `names` that is stated as a whole number."""
    for name in names:
        if name in settings and (found := whole_number(settings[name][0])) is not None:
            return found
    return None


def switched_on(settings: Mapping[str, tuple[Stated, str]], name: str) -> bool:
    """Whether the switch `name` is stated and on."""
    return name in settings and setting_text(settings[name][0]) == "yes"
