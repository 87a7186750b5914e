"""What every section of a proposal has in common: strict keys, and the two loosenings that the form allows."""

from __future__ import annotations

import difflib
from typing import Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, GetCoreSchemaHandler
from pydantic_core.core_schema import CoreSchema, ModelSchema, no_info_before_validator_function

from .stated import problem


class Section(BaseModel):
    """A mapping with a fixed set of keys; an unknown one is an error that lists them and suggests the nearest."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", defer_build=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # What a validator of the mode "before" comes to, without the look at its signature for each of the sections.
        schema = handler(source)
        model = cast("ModelSchema", handler.resolve_ref_schema(schema))
        if model["schema"]["type"] != "function-before":
            model["schema"] = no_info_before_validator_function(cls._only_known_keys, model["schema"])
        return schema

    @classmethod
    def _only_known_keys(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            expected = ", ".join(cls.keys()[:6])
            raise problem("mapping", f"expected a mapping with keys such as {expected}, found {_kind(raw)}")
        known = cls.keys()
        for key in raw:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.6)
                hint = f" (did you mean '{near[0]}'?)" if near else ""
                raise problem(
                    "unknown_key", f"unknown key '{key}'{hint}; allowed here: {', '.join(known)}", key=key
                )
        return raw

    @classmethod
    def keys(cls) -> list[str]:
        """The keys that a proposal may write here."""
        return [field.alias or name for name, field in cls.model_fields.items()]


def _kind(raw: object) -> str:
    if raw is None:
        return "nothing"
    words = {dict: "a mapping", list: "a list", bool: "a truth value", str: f"the text {str(raw)[:40]!r}"}
    return words.get(type(raw), f"{raw!r}"[:60])


def listed(raw: Any) -> Any:
    """One mapping for a list of one."""
    return [raw] if isinstance(raw, dict) else raw


def word_or(word: str, what: str, others: tuple[type, ...] = ()) -> BeforeValidator:
    """Accepts a word or what another branch of a union reads: a mapping, or a value of one of `others`."""

    def check(raw: Any) -> Any:
        if type(raw) in others:
            return raw
        if isinstance(raw, str) and raw != word:
            raise problem("word", f"'{raw[:60]}' is not an answer here; write {word}, or {what}")
        if isinstance(raw, bool | int | float | list) or raw is None:
            raise problem("word", f"expected {word}, or {what}; found {_kind(raw)}")
        return raw

    return BeforeValidator(check)
