"""A framework's own settings as facts read them: numbers and switches by their one name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..proposal import Case
from ..proposal.settings import PATH as PATH
from ..proposal.settings import Stated as Stated
from ..proposal.settings import setting_name as setting_name
from ..proposal.settings import setting_text as setting_text
from ..proposal.settings import settings_of

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")


def whole_number(value: Stated) -> int | None:
    """The whole number that a value is, whether written as one or as text; None where it is none."""
    if isinstance(value, list):
        return None
    text = setting_text(value)
    return int(text) if _WHOLE.fullmatch(text) else None


def stated_settings(case: Case) -> dict[str, tuple[Stated, str]]:
    """The settings of the proposal by their one name, each with its pointer; of two spellings the later counts."""
    return settings_of(case.loaded.stated.proposal)


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
