"""Frozen classes behave as the standard library's do, whatever is made late."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planproof.frozen import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Ours:
    first: int
    second: str = "two"
    third: list[int] = field(default_factory=list, compare=False)
    fourth: float = field(default=4.0, repr=False)
    fifth: int = field(default=5, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fifth", self.first + 5)


@dataclasses.dataclass(frozen=True, slots=True)
class Standard:
    first: int
    second: str = "two"
    third: list[int] = dataclasses.field(default_factory=list, compare=False)
    fourth: float = dataclasses.field(default=4.0, repr=False)
    fifth: int = dataclasses.field(default=5, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fifth", self.first + 5)


@dataclass(frozen=True, slots=True)
class Child(Ours):
    sixth: int = 6


@dataclass(frozen=True, slots=True, eq=False)
class ByIdentity:
    value: int


VALUES = st.tuples(st.integers(), st.text(), st.lists(st.integers()), st.floats(allow_nan=False))


@given(VALUES, VALUES)
def test_as_the_standard_library(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    ours, theirs = (Ours(*one), Ours(*other)), (Standard(*one), Standard(*other))
    assert (ours[0] == ours[1]) is (theirs[0] == theirs[1])
    assert hash(ours[0]) == hash(theirs[0])
    assert repr(ours[0]).removeprefix("Ours") == repr(theirs[0]).removeprefix("Standard")
    assert dataclasses.asdict(ours[0]) == dataclasses.asdict(theirs[0])
    assert dataclasses.astuple(replace(ours[0], first=7)) == dataclasses.astuple(dataclasses.replace(theirs[0], first=7))


@pytest.mark.parametrize("kind", [Ours, Standard, Child])
def test_nothing_can_be_assigned_deleted_or_added(kind: Any) -> None:
    made = kind(1)
    for name in ("first", "other"):
        with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
            setattr(made, name, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        del made.first
    assert not hasattr(made, "__dict__")


@pytest.mark.parametrize("kind", [Ours, Child])
def test_copies_and_pickles_are_equal(kind: Any) -> None:
    made = kind(1, "x", [3], 2.5)
    for again in (pickle.loads(pickle.dumps(made)), copy.copy(made), copy.deepcopy(made)):
        assert again == made
        assert again.third == [3]
        assert again.fifth == 6


def test_the_wrong_arguments_are_refused_as_ever() -> None:
    with pytest.raises(TypeError, match=r"Ours\.__init__\(\) missing 1 required positional argument: 'first'"):
        Ours()  # what is tested
    with pytest.raises(TypeError, match="fifth"):
        Ours(1, fifth=3)  # what is tested
    assert Ours(1).third is not Ours(1).third


def test_a_child_has_its_own_and_its_parents_fields_and_matches() -> None:
    match Child(1, sixth=9):
        case Child(first, second, _, _, sixth):
            assert (first, second, sixth) == (1, "two", 9)
    assert Child(1) != Ours(1)


def test_without_eq_an_object_is_equal_to_itself_alone() -> None:
    one = ByIdentity(1)
    assert one == one
    assert one != ByIdentity(1)
