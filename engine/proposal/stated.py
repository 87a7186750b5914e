"""Quantities as a proposal states them: `450 GB/s`, or `{value: 450 GB/s, grade: vendor, source: ...}`.

Only the form is checked here (a unit of the right dimension, a known grade); what a missing grade means is the resolver's to
say. Bare quantities are assumed, unless their section states a grade.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from ..frozen import dataclass
from ..quantity import Dimension, Grade, UnitError, parse, spell

#: The keys of a quantity in its long form.
KEYS = ("value", "grade", "source", "file", "date")
DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Stated:
    """A quantity as written: its value in base units, the text it was written as, and what it says of itself."""

    value: int | float
    text: str
    dimension: Dimension
    grade: Grade | None = None
    source: str | None = None
    file: str | None = None
    date: str | None = None


def problem(kind: str, message: str, **context: Any) -> PydanticCustomError:
    """An error of the schema with our own words: what was expected, and what would do. Braces in values stay as they are."""
    return PydanticCustomError("planproof_" + kind, "{text}", {"text": message, **context})


def check_date(value: object) -> str:
    """An ISO date as text. Raises a schema error for anything else, days that do not exist included."""
    from datetime import date

    if isinstance(value, str) and DATE.fullmatch(value):
        try:
            date.fromisoformat(value)
        except ValueError:
            pass
        else:
            return value
    raise problem("date", f"{value!r} is not a date; write 2026-11-02")


def _read(raw: object, dimension: Dimension) -> Stated:
    if isinstance(raw, Stated):
        return raw
    if isinstance(raw, dict):
        for key in raw:
            if key not in KEYS:
                raise problem("unknown_key", f"unknown key '{key}' in a quantity; allowed: {', '.join(KEYS)}", key=key)
        if "value" not in raw:
            raise problem("quantity", f"a quantity needs 'value', for example value: {spell(dimension).split(',')[0]}")
        grade = raw.get("grade")
        if grade is not None and grade not in list(Grade):
            raise problem("grade", f"'{grade}' is no grade; one of {', '.join(Grade)}", key="grade")
        for key in ("source", "file"):
            if raw.get(key) is not None and not isinstance(raw[key], str):
                raise problem("text", f"'{key}' of a quantity must be a text, not {raw[key]!r}", key=key)
        date = check_date(raw["date"]) if raw.get("date") is not None else None
        bare = _read(raw["value"], dimension)
        return Stated(
            bare.value, bare.text, dimension, Grade(grade) if grade else None, raw.get("source"), raw.get("file"), date
        )
    try:
        return Stated(parse(raw, dimension), str(raw), dimension)
    except UnitError as error:
        raise problem("quantity", str(error)) from None


def _schema(dimension: Dimension) -> dict[str, object]:
    short: dict[str, object] = {"type": "string", "description": f"for example {spell(dimension)}"}
    values = [short, {"type": "number"}] if dimension is Dimension.FRACTION else [short]
    long = {
        "type": "object",
        "additionalProperties": False,
        "required": ["value"],
        "properties": {
            "value": {"anyOf": values},
            "grade": {"enum": list(Grade)},
            "source": {"type": "string"},
            "file": {"type": "string"},
            "date": {"type": "string", "format": "date"},
        },
    }
    return {"anyOf": [*values, long]}


def _annotated(dimension: Dimension) -> Any:
    return Annotated[
        Stated,
        BeforeValidator(lambda raw: _read(raw, dimension)),
        PlainSerializer(lambda stated: stated.text, return_type=str),
        WithJsonSchema(_schema(dimension)),
    ]


Bytes = _annotated(Dimension.BYTES)
Bandwidth = _annotated(Dimension.BANDWIDTH)
Seconds = _annotated(Dimension.TIME)
Share = _annotated(Dimension.FRACTION)
Tokens = _annotated(Dimension.TOKENS)
DeviceTime = _annotated(Dimension.DEVICE_TIME)


def _batch(raw: object) -> Stated:
    """A global batch: in sequences or in tokens; the unit decides the dimension."""
    if isinstance(raw, str) and raw.rstrip().endswith(("token", "tokens")):
        return _read(raw, Dimension.TOKENS)
    if isinstance(raw, str) and not raw.rstrip().endswith(("sequence", "sequences")):
        raise problem("quantity", f"{raw!r} says neither sequences nor tokens; write 2048 sequences or 4194304 tokens")
    if isinstance(raw, bool | int | float):
        raise problem("quantity", f"{raw!r} has no unit; write {raw} sequences or {raw} tokens, whichever it is")
    return _read(raw, Dimension.SEQUENCES)


def _whole_batch(raw: object) -> Stated:
    """A batch is a whole number of sequences or tokens."""
    stated = _batch(raw)
    if not isinstance(stated.value, int):
        raise problem("quantity", f"{raw!r} is no whole number of {stated.dimension.value}; write {round(stated.value)}")
    return stated


Batch = Annotated[
    Stated,
    BeforeValidator(_whole_batch),
    PlainSerializer(lambda stated: stated.text, return_type=str),
    WithJsonSchema({"type": "string", "description": "for example 2048 sequences or 4194304 tokens"}),
]
Date = Annotated[str, BeforeValidator(check_date), WithJsonSchema({"type": "string", "format": "date"})]
