"""What a profile says of one stage, number by number: of the whole, else added up over its layers, else of those it has.

A row of the whole stage is preferred to rows of its layers, and a row on the stage's own mesh to one of a single data replica,
which serves for any number of them: memory and time of a microbatch of one replica do not depend on the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..cost.measured import MeasuredStage
from ..plan import Mesh
from ..proposal import MeasuredProfile
from ..proposal.profile import ProfileRow
from ..quantity import Dimension, Quantity

_Key = tuple[int, int, Mesh, int, bool, bool]


@dataclass(slots=True)
class ProfileStages:
    """A profile of the model's own number of layers, as the `MeasuredNumbers` of its stages. What was looked up is kept."""

    profile: MeasuredProfile
    grade: Quantity
    _known: dict[_Key, MeasuredStage | None] = field(default_factory=dict)
    _covered: frozenset[tuple[int, int, int]] = field(init=False)

    def __post_init__(self) -> None:
        self._covered = frozenset((row.microbatch, row.mesh.tensor, row.mesh.context) for row in self.profile.rows)

    def __call__(self, first: int, last: int, mesh: Mesh, microbatch: int, embedding: bool, head: bool) -> MeasuredStage | None:
        """What was measured of the stage of layers `first` to `last`; None where nothing was."""
        if (microbatch, mesh.tensor, mesh.context) not in self._covered:
            return None
        key = first, last, mesh, microbatch, embedding, head
        if key not in self._known:
            self._known[key] = self._found(*key)
        return self._known[key]

    def _found(self, first: int, last: int, mesh: Mesh, microbatch: int, embedding: bool, head: bool) -> MeasuredStage | None:
        profile, apart = self.profile, self.profile.separate_ends
        shift = 1 if apart else 0
        low, high = first + shift - (apart and embedding), last + shift + (apart and head)
        meshes = tuple(dict.fromkeys((mesh, replace(mesh, data=1, expert=1))))

        def of(one: int, other: int) -> list[ProfileRow]:
            rows = (profile.find(one, other, wanted, microbatch) for wanted in meshes)
            return [row for row in rows if row is not None]

        whole = of(low, high)
        pieces = {index: of(index, index) for index in range(low, high + 1)}
        if not whole and not any(pieces.values()):
            return None
        timed: tuple[ProfileRow, ...] | None = next(((row,) for row in whole if row.time is not None), None)
        parts: dict[int, ProfileRow] = {}
        if timed is None:
            for index, rows in pieces.items():
                row = next((one for one in rows if one.time is not None), None)
                if row is not None:
                    parts[index] = row
            if len(parts) == len(pieces):
                timed, parts = tuple(parts.values()), {}
        forward, total = _time(timed if timed is not None else tuple(parts.values()))
        layers = None if timed is not None else tuple(index - shift for index in parts if first <= index - shift <= last)

        def number(name: str) -> float | None:
            """Of the whole, else of all layers: their sum, of workspace the largest."""
            for row in whole:
                if (value := getattr(row, name)) is not None:
                    return float(value)
            values = [next((v for row in rows if (v := getattr(row, name)) is not None), None) for rows in pieces.values()]
            known = [value for value in values if value is not None]
            return None if len(known) < len(values) else max(known) if name == "workspace" else float(sum(known))

        memory, state, workspace, activation = (_int(number(name)) for name in ("memory", "state", "workspace", "activation"))
        found = MeasuredStage(
            forward=forward, backward=total - forward, optimizer=number("optimizer"), memory=memory, state=state,
            workspace=workspace, activation=activation, source=Quantity(total, Dimension.TIME, self.grade.provenance),
            layers=layers, embedding=embedding and low in parts, head=head and high in parts,
        )  # fmt: skip
        return found if found.numbers() else None


def _time(rows: Sequence[ProfileRow]) -> tuple[float, float]:
    """(forward, both); a third of both where a row does not tell them apart."""
    total = sum(row.time or 0.0 for row in rows)
    if any(row.forward is None or row.backward is None for row in rows):
        return total / 3, total
    return sum(row.forward or 0.0 for row in rows), total


def _int(value: float | None) -> int | None:
    return None if value is None else round(value)
