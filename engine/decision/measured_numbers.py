"""Which numbers of a plan were measured and which are estimated, stage by stage, those alike together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..cost.measured import MeasuredStage

_BYTES = ("state", "activation", "workspace")


@dataclass(frozen=True, slots=True)
class StageNumbers:
    """Stages of which the same numbers were measured, in words; `estimated` are the others."""

    stages: tuple[int, ...]
    measured: tuple[str, ...]
    estimated: tuple[str, ...]

    @property
    def timed(self) -> bool:
        """Whether all of their time was measured."""
        return "latency" in self.measured

    @property
    def words(self) -> str:
        """`stages 0, 2: measured latency; estimated optimizer`."""
        shown = ", ".join(str(one) for one in self.stages[:8]) + (f" to {self.stages[-1]}" if len(self.stages) > 8 else "")
        parts = [f"measured {', '.join(self.measured)}"] if self.measured else []
        parts += [f"estimated {', '.join(self.estimated)}"] if self.estimated else []
        return f"stage{'s' if len(self.stages) > 1 else ''} {shown}: {'; '.join(parts)}"


def numbers_by_stage(stages: Sequence[MeasuredStage | None] | None) -> tuple[StageNumbers, ...]:
    """Of every stage of a plan; empty where nothing of it was measured."""
    alike: dict[tuple[tuple[str, ...], tuple[str, ...]], list[int]] = {}
    for k, one in enumerate(stages or ()):
        alike.setdefault((one.numbers() if one is not None else (), _estimated(one)), []).append(k)
    return tuple(StageNumbers(tuple(at), *key) for key, at in alike.items())


def _estimated(one: MeasuredStage | None) -> tuple[str, ...]:
    if one is None:
        return ("latency", *_BYTES, "optimizer")
    rows = [] if one.whole else ["latency of the rest" if one.timed else "latency"]
    if one.memory is None and not (one.state is not None and one.activation is not None):
        rows += [name for name in _BYTES if getattr(one, name) is None]
    return (*rows, "optimizer") if one.optimizer is None else tuple(rows)
