"""Parameters of a rule: a number or text that a user may override, turned into the unit of the fields it meets.

A parameter is written as a scalar, a list of scalars (one of), or a mapping with `value`, `grade`, `source`, `file` and
`date`. A quantity (`200 GB/s`) takes the unit of the fields that it is compared with or copied to, so these must agree
on one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..facts.fact import INT64, Field, Kind, Scalar, Unit, in_field_unit, unit_of
from ..quantity import UnitError, parse
from .reading import spelled, unit_name
from .rule import Param

Uses = tuple[tuple[str, str], ...]


class ParamError(ValueError):
    """A parameter's value does not fit the fields it meets: `args` are the message and the remedy."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message, remedy)
        self.message = message
        self.remedy = remedy


def check_uses(name: str, uses: Uses, kinds: Mapping[str, Kind]) -> None:
    """Raise ParamError where a parameter meets fields of different types or units."""
    met: dict[tuple[type, Unit | None], str] = {}
    for kind, field in uses:
        type_ = declaration(kinds, kind, field).type
        met[type_, unit_of(field) if type_ is int else None] = f"{kind}.{field}"
    if len(met) > 1:
        shown = "; ".join(
            f"{label} holds {'texts' if type_ is str else f'numbers in {unit_name(unit)}'}"
            for (type_, unit), label in met.items()
        )
        raise ParamError(
            f"the parameter '{name}' meets fields of different units: {shown}", "use one parameter for each unit"
        )


def declaration(kinds: Mapping[str, Kind], kind: str, field: str) -> Field:
    """The declaration of a field that is known to exist; `path` and `kind` are texts."""
    return Field(str, "") if field in ("path", "kind") else kinds[kind].fields[field]


def values_of(name: str, raw: object, uses: Uses, kinds: Mapping[str, Kind]) -> tuple[Scalar, ...]:
    """The values of a parameter in the unit of the fields it meets. Raises ParamError."""
    check_uses(name, uses, kinds)
    items = raw if isinstance(raw, list) else [raw]
    if not items:
        raise ParamError(f"the parameter '{name}' is an empty list", "give it at least one value")
    values = tuple(_value(name, item, uses, kinds) for item in items)
    if len(set(values)) < len(values):
        raise ParamError(f"the parameter '{name}' repeats a value", "name each value once")
    return values


def written(raw: object) -> str:
    """The parameter as messages show it."""
    return ", ".join(str(item) for item in raw) if isinstance(raw, list) else str(raw)


def overridden(param: Param, raw: object, kinds: Mapping[str, Kind]) -> Param:
    """`param` with a value from the configuration. Raises ParamError where it does not fit."""
    if isinstance(raw, list) and not param.many:
        raise ParamError(f"the parameter '{param.name}' is one value, not a list", f"write it like {param.written}")
    values = values_of(param.name, raw, param.uses, kinds)
    return replace(param, values=values, written=written(raw), provenance=None)


def _value(name: str, raw: object, uses: Uses, kinds: Mapping[str, Kind]) -> Scalar:
    if isinstance(raw, bool) or not isinstance(raw, int | str):
        raise ParamError(
            f"the parameter '{name}' is {spelled(raw)}",
            "a parameter is a whole number, a text or a quantity such as 200 GB/s, 5 % or 2 us",
        )
    if not uses:
        return raw
    kind, field = uses[0]
    label, declared, unit = f"{kind}.{field}", declaration(kinds, kind, field), unit_of(field)
    if declared.type is str:
        return _text(name, raw, uses, kinds)
    if isinstance(raw, str):
        if unit is None:
            raise ParamError(
                f"the parameter '{name}' is '{raw}', but {label} is a number without a unit",
                "give a whole number, or compare with a field whose name ends in a unit",
            )
        try:
            raw = in_field_unit(parse(raw, unit.dimension), field)
        except UnitError as error:
            raise ParamError(
                f"the parameter '{name}' does not fit {label}: {error}", f"{label} is in {unit_name(unit)}"
            ) from None
    if not -INT64 <= raw <= INT64:
        raise ParamError(f"the parameter '{name}' is too large for {label}", f"facts hold numbers to {INT64}")
    return raw


def _text(name: str, raw: int | str, uses: Uses, kinds: Mapping[str, Kind]) -> str:
    if not isinstance(raw, str):
        raise ParamError(
            f"the parameter '{name}' is {raw}, but {'.'.join(uses[0])} holds texts", f'write "{raw}" in quotes'
        )
    for kind, field in uses:
        allowed = declaration(kinds, kind, field).one_of
        if allowed and raw not in allowed:
            raise ParamError(
                f"the parameter '{name}' is '{raw}', which {kind}.{field} never is",
                f"its values are {', '.join(allowed)}",
            )
    return raw
