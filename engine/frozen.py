"""`dataclasses.dataclass`, quicker to import: what a frozen class needs is made when it is first used.

The standard decorator compiles six methods for every class as it is defined; of a command that defines two hundred classes and
uses a few dozen that was a third of its time (CPython 3.11). Here fields are the standard library's `Field`s, so that `fields`,
`replace`, `asdict` and pattern matching work as ever; `__init__` is compiled at the first instance, and the other methods are
plain functions over the fields. Classes that are not frozen, or are ordered, are left to the standard decorator.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        cls: type | None = None, *, frozen: bool = False, slots: bool = False, order: bool = False, eq: bool = True
    ) -> Callable[[type], type] | type:
        """The decorator, with the options that are used here; each means what it does in the standard library."""
        if cls is not None or not frozen or order:
            return dataclasses.dataclass(cls, frozen=frozen, slots=slots, order=order, eq=eq)

        def made(cls: type) -> type:
            return _frozen(_with_fields(cls, slots=slots), slots=slots, eq=eq)

        return made


@dataclasses.dataclass(init=False, repr=False, eq=False)
class _Standard:
    """What the standard decorator marks a field and a class with, so that its functions know ours."""

    one: int


#: Tells a field from a ClassVar or an InitVar, of which our frozen classes have none.
_OF_A_FIELD = getattr(fields(_Standard)[0], "_field_type")  # noqa: B009  # private, and what `fields` asks for
_PARAMS = getattr(_Standard, "__dataclass_params__")  # noqa: B009  # not in the types of the standard library


def _with_fields(cls: type, *, slots: bool) -> type:
    """The class with its fields, and made anew with slots for them where it has slots."""
    found: dict[str, Any] = {}
    for base in cls.__mro__[-1:0:-1]:
        found.update(base.__dict__.get("__dataclass_fields__", {}))
    own = cls.__annotations__ if "__annotations__" in cls.__dict__ or sys.version_info >= (3, 14) else {}
    for name, annotation in own.items():
        default = cls.__dict__.get(name, MISSING)
        one = default if isinstance(default, dataclasses.Field) else field(default=default)
        if isinstance(one.default, list | dict | set):
            raise ValueError(f"the field {name} has a mutable default: use default_factory")
        one.name, one.type, one.kw_only = name, annotation, False
        setattr(one, "_field_type", _OF_A_FIELD)  # noqa: B010  # as above
        found[name] = one
        if one is default:
            if one.default is MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, one.default)
    marks: dict[str, Any] = {"__dataclass_fields__": found, "__dataclass_params__": _PARAMS}
    marks["__match_args__"] = tuple(name for name, one in found.items() if one.init)
    if not slots:
        for name, mark in marks.items():
            setattr(cls, name, mark)
        return cls
    inherited = {name for base in cls.__mro__[1:-1] for name in _slots(base)}
    body = {name: value for name, value in cls.__dict__.items() if name not in found and name not in ("__dict__", "__weakref__")}
    body["__slots__"] = tuple(name for name in found if name not in inherited)
    made = type(cls)(cls.__name__, cls.__bases__, {**body, **marks})
    made.__qualname__ = cls.__qualname__
    return made


def _slots(base: type) -> tuple[str, ...]:
    found = base.__dict__.get("__slots__", ())
    return (found,) if isinstance(found, str) else tuple(found)


def _frozen(cls: type, *, slots: bool, eq: bool) -> type:
    own = cls.__dict__
    if "__init__" not in own:
        _define(cls, "__init__", _first_init(cls))
    if "__repr__" not in own:
        _define(cls, "__repr__", _repr)
    if eq and "__eq__" not in own:
        compared = _getter([one.name for one in fields(cls) if one.compare])
        _define(cls, "__eq__", _eq(compared))
        if own.get("__hash__") is None:
            _define(cls, "__hash__", _hash(_getter([one.name for one in fields(cls) if _hashed(one)])))
    _define(cls, "__setattr__", _refuse_set)
    _define(cls, "__delattr__", _refuse_delete)
    if slots:
        for name, method in (("__getstate__", _state), ("__setstate__", _restore)):
            if name not in own:
                _define(cls, name, method)
    return cls


def _define(cls: type, name: str, method: Callable[..., Any]) -> None:
    type.__setattr__(cls, name, method)


def _first_init(cls: type) -> Callable[..., None]:
    """An `__init__` that compiles the real one, puts it in its own place, and calls it."""

    def first(self: object, *args: object, **kwargs: object) -> None:
        built = _init(cls)
        _define(cls, "__init__", built)
        built(self, *args, **kwargs)

    return first


def _init(cls: type) -> Callable[..., None]:
    """The `__init__` that the standard decorator would have compiled."""
    scope: dict[str, Any] = {"_set": object.__setattr__}
    parameters, body = ["self"], []
    for one in fields(cls):
        value = one.name
        if one.default_factory is not MISSING:
            scope[f"_make_{one.name}"] = one.default_factory
            scope["_missing"] = MISSING
            made = f"_make_{one.name}()"
            parameters += [f"{one.name}=_missing"] if one.init else []
            value = f"{made} if {one.name} is _missing else {one.name}" if one.init else made
        elif one.default is not MISSING:
            scope[f"_default_{one.name}"] = one.default
            parameters += [f"{one.name}=_default_{one.name}"] if one.init else []
            value = one.name if one.init else f"_default_{one.name}"
        elif one.init:
            parameters.append(one.name)
        else:
            continue
        body.append(f"_set(self, {one.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    source = f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body or ["pass"])
    exec(source, scope)  # the text is field names of our own classes  # nosec B102
    built: Callable[..., None] = scope["__init__"]
    built.__qualname__ = f"{cls.__qualname__}.__init__"
    return built


def _getter(names: list[str]) -> Callable[[Any], Any]:
    """All of these attributes, as one value that compares and hashes as they do."""
    return attrgetter(*names) if names else lambda _: ()


def _hashed(one: dataclasses.Field[Any]) -> bool:
    return one.compare if one.hash is None else one.hash


def _eq(compared: Callable[[Any], Any]) -> Callable[[object, object], Any]:
    def equal(self: object, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return compared(self) == compared(other)

    return equal


def _hash(hashed: Callable[[Any], Any]) -> Callable[[object], int]:
    def hashing(self: object) -> int:
        return hash(hashed(self))

    return hashing


def _repr(self: Any) -> str:
    shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{self.__class__.__qualname__}({shown})"


def _refuse_set(self: object, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for one, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


__all__ = ["dataclass", "field", "fields", "replace"]
