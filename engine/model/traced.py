"""What a traced program is made of: tensors, views of them, and operators with a loop for each dim. Knows no format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .factors import Dim

#: What each axis of an operand is to its operation; equal labels are one loop, None is whole.
Labels = Sequence[str | None]


@dataclass(eq=False, slots=True)
class Made:
    """A tensor of the graph: its dims in the order in which it is made."""

    name: str
    dims: list[Dim]
    dtype: str
    parameter: bool = False
    index: bool = False
    #: The names that its dims are made with, once it is written.
    names: dict[Dim, str] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Value:
    """A view of a tensor: the sizes of its axes, and the dims that each axis is made of."""

    made: Made
    sizes: tuple[int, ...]
    axes: list[list[Dim]]


@dataclass(eq=False, slots=True)
class Step:
    """One operator: operands with the loop of each dim; `out` likewise."""

    name: str
    kind: str
    ins: list[tuple[Made, dict[Dim, str]]]
    out: tuple[Made, dict[Dim, str]]
    over: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)
    window: dict[str, int] = field(default_factory=dict)
    causal: bool = False
    linear: bool = False
