"""Facts: the flat, typed records that rules see, and the declaration of their kinds.

A fact has a kind, a JSON pointer into the proposal (`path`), and scalar fields. A field is a whole number (int64, with its
unit as the suffix of its name: `latency_ns`, `share_ppm`, `capacity_bytes`) or a text; there are no floats, no nulls and
no nesting, and yes/no is spelled `yes` and `no`. A field that does not apply is absent, and rules can test for that.
Nothing here knows any particular kind (see `kinds`), any rule, or where facts come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ..errors import InternalFault
from ..frozen import dataclass
from ..quantity import Dimension, human

INT64 = 2**63 - 1
#: Names that the rule engine keeps for itself, and the two fields that every fact has.
RESERVED = frozenset({"id", "sid", "$s", "go", "n", "z0", "kind", "path"})

Scalar = int | str


class Unit(NamedTuple):
    """What a field's suffix says: the dimension, and how many of the field's units are one base unit."""

    dimension: Dimension
    per_base: int


#: Longest suffix first: `_bytes_per_s` before `_s`.
SUFFIXES: tuple[tuple[str, Unit], ...] = (
    ("_bytes_per_s", Unit(Dimension.BANDWIDTH, 1)),
    ("_device_seconds", Unit(Dimension.DEVICE_TIME, 1)),
    ("_sequences", Unit(Dimension.SEQUENCES, 1)),
    ("_tokens", Unit(Dimension.TOKENS, 1)),
    ("_steps", Unit(Dimension.STEPS, 1)),
    ("_bytes", Unit(Dimension.BYTES, 1)),
    ("_ppm", Unit(Dimension.FRACTION, 10**6)),
    ("_ns", Unit(Dimension.TIME, 10**9)),
    ("_us", Unit(Dimension.TIME, 10**6)),
    ("_ms", Unit(Dimension.TIME, 10**3)),
    ("_s", Unit(Dimension.TIME, 1)),
)


def unit_of(field: str) -> Unit | None:
    """The unit in a field's name, or None for a plain count or a text."""
    return next((unit for suffix, unit in SUFFIXES if field.endswith(suffix)), None)


def in_field_unit(value: float, field: str) -> int:
    """`value` in base units as the whole number that `field` holds: 2e-06 s is 2000 for `latency_ns`."""
    unit = unit_of(field)
    return round(value * unit.per_base) if unit else round(value)


def show(field: str, value: Scalar) -> str:
    """A field's value for a message: with its unit, `74.5 GiB` for `74.5 * 2**30` in `allocated_bytes`."""
    unit = unit_of(field)
    if unit is None or isinstance(value, str):
        return str(value)
    return human(value / unit.per_base, unit.dimension)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a kind: its type, what it says, whether it may be absent, and its values where they are few."""

    type: type[int] | type[str]
    doc: str
    optional: bool = False
    one_of: tuple[str, ...] = ()


def whole(doc: str, *, optional: bool = False) -> Field:
    """A whole number; the unit is the suffix of the field's name."""
    return Field(int, doc, optional)


def text(doc: str, *, optional: bool = False, one_of: tuple[str, ...] = ()) -> Field:
    """A text, perhaps one of a few."""
    return Field(str, doc, optional, one_of)


def flag(doc: str, *, optional: bool = False) -> Field:
    """A text that is `yes` or `no`."""
    return Field(str, doc, optional, ("yes", "no"))


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fact: its name, what one such fact says, who produces it, and its fields."""

    name: str
    doc: str
    fields: Mapping[str, Field]
    #: "proposal", "plan" (derived for every plan that is judged), "search", or "rules" (concluded by rules only).
    origin: str = "proposal"


def declare(*kinds: Kind) -> Mapping[str, Kind]:
    """The registry of `kinds` by name. Raises InternalFault for a name or field declared twice or reserved."""
    registry: dict[str, Kind] = {}
    for kind in kinds:
        if kind.name in registry:
            raise InternalFault(f"the fact kind '{kind.name}' is declared twice")
        taken = RESERVED & set(kind.fields)
        if taken or len(kind.fields) > 60:
            raise InternalFault(f"the fact kind '{kind.name}' uses reserved names or too many fields: {sorted(taken)}")
        registry[kind.name] = kind
    return MappingProxyType(registry)


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact. `values` holds the fields that apply, never None; `path` points into the proposal ("" is its root)."""

    kind: str
    path: str
    values: Mapping[str, Scalar]

    def __getitem__(self, field: str) -> Scalar:
        return self.path if field == "path" else self.kind if field == "kind" else self.values[field]

    def get(self, field: str) -> Scalar | None:
        """The field's value, the kind or the path; None where the field is absent."""
        return self.path if field == "path" else self.kind if field == "kind" else self.values.get(field)

    @property
    def key(self) -> tuple[str, str, tuple[tuple[str, Scalar], ...]]:
        """Identity: two facts with the same key are the same fact."""
        return self.kind, self.path, tuple(sorted(self.values.items()))


def make(kinds: Mapping[str, Kind], kind: str, path: str, /, **values: Scalar | bool | None) -> Fact:
    """A fact of `kind`, checked against its declaration. None is dropped; True and False become yes and no.

    Raises InternalFault for an unknown kind or field, a missing required field, a wrong type, a text outside the field's
    values, or a number outside int64: facts are made by planproof, so each of these is a fault of its own.
    """
    declared = kinds.get(kind)
    if declared is None:
        raise InternalFault(f"no fact kind '{kind}' is declared")
    kept: dict[str, Scalar] = {}
    for name, value in values.items():
        if value is None:
            continue
        field = declared.fields.get(name)
        if field is None:
            raise InternalFault(f"the fact kind '{kind}' has no field '{name}'")
        if isinstance(value, bool):
            value = "yes" if value else "no"
        if not isinstance(value, field.type):
            raise InternalFault(f"{kind}.{name} takes {field.type.__name__}, not {value!r}")
        if isinstance(value, int) and not -INT64 <= value <= INT64:
            raise InternalFault(f"{kind}.{name} = {value} is outside int64")
        if field.one_of and value not in field.one_of:
            raise InternalFault(f"{kind}.{name} = {value!r} is none of {', '.join(field.one_of)}")
        kept[name] = value
    absent = [name for name, field in declared.fields.items() if not field.optional and name not in kept]
    if absent:
        raise InternalFault(f"a fact of kind '{kind}' lacks {', '.join(absent)}")
    return Fact(kind, path, MappingProxyType(kept))


def of_kind(facts: Iterable[Fact], kind: str) -> list[Fact]:
    """The facts of one kind, in order."""
    return [fact for fact in facts if fact.kind == kind]
