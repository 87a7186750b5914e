"""What a search yields and what it counts on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import field

from ..cost import StageMemory
from ..cost.memory import Fit
from ..frozen import dataclass
from ..plan import Plan, simplicity


@dataclass(frozen=True, slots=True)
class Miss:
    """A plan that does not fit, its stage and by how many bytes the allocated memory of its fullest rank exceeds the device."""

    plan: Plan
    stage: int
    excess_bytes: int
    largest_row: str


@dataclass(frozen=True, slots=True)
class Found:
    """A candidate with what ordering and choosing need; its full price, interval included, is made when it is asked for."""

    plan: Plan
    seconds: float
    feasible: Fit
    memory: tuple[StageMemory, ...]


@dataclass(frozen=True, slots=True)
class SimplerThan:
    """Wants plans under the simplicity tuple that `limit` gives when it is asked, all of them while it gives None.

    A search may ask the limit itself and leave alone what holds no such plan.
    """

    limit: Callable[[], tuple[int, ...] | None]

    def __call__(self, plan: Plan) -> bool:
        """Whether the plan is wanted."""
        limit = self.limit()
        return limit is None or simplicity(plan) < limit


@dataclass(slots=True)
class Tally:
    """What happened on the way: counts only grow. `classes` and `nearest`: plans that do not fit, by class.

    `expanded`: states of the stage tables, a cut of the layers behind a place for a kind of stage each; `bounded`: plans and
    settings with a bound of their own.
    """

    priced: int = 0
    bounded: int = 0
    expanded: int = 0
    yielded: int = 0
    too_large: int = 0
    cut_off: bool = False
    classes: Counter[str] = field(default_factory=Counter)
    nearest: dict[str, Miss] = field(default_factory=dict)

    def note(self, miss: Miss) -> None:
        """Count a plan that does not fit under its class: ZeRO stage and recompute, what frees memory."""
        self.reject(f"ZeRO {miss.plan.zero}, recompute {miss.plan.recompute.value}", 1, miss)

    def reject(self, name: str, plans: int, miss: Miss) -> None:
        """Count `plans` of a class, none of which fits; `miss` is the nearest of them."""
        self.classes[name] += plans
        known = self.nearest.get(name)
        if known is None or miss.excess_bytes < known.excess_bytes:
            self.nearest[name] = miss
