"""The search over the whole declared space: uniform plans and uneven ones in one lazy sequence, in the order of their step time.

The next uniform plan is the ceiling up to which the uneven ones are looked at, so nothing uneven is solved that could not come
first. Who pulls decides when it is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..plan import Plan
from .pricing import PlanPricer
from .space import LeftOut, UniformSpace
from .tally import Found, SimplerThan, Tally
from .uneven import UnevenSpace
from .uneven_search import UnevenSearch
from .uniform import UniformSearch, everything


class PlanSearch:
    """One search over one space; candidates may be pulled several times, each from the start."""

    def __init__(
        self, space: UniformSpace, pricer: PlanPricer, *, work_limit: int | None = None, seconds: float | None = None
    ) -> None:
        self.uniform = UniformSearch(space, pricer, work_limit=work_limit, seconds=seconds)
        self.space, self.uneven_space = space, UnevenSpace(space)
        self.uneven = UnevenSearch(
            self.uneven_space, pricer, self.uniform.tally, work_limit=work_limit, deadline=self.uniform.deadline
        )

    @property
    def tally(self) -> Tally:
        """What happened on the way."""
        return self.uniform.tally

    @property
    def floor(self) -> float:
        """Seconds that no plan is below which was left unpriced though its bound was; inf where there is none, 0 where a limit of
        time was reached before all were bounded."""
        return min(self.uneven.floor, self.uniform.floor)

    @property
    def size(self) -> int:
        """How many plans the declared space holds."""
        return self.space.size + self.uneven_space.size

    @property
    def dimensions(self) -> tuple[tuple[str, str], ...]:
        """Each dimension with the values that occur in it."""
        return (*self.space.dimensions, *self.uneven_space.dimensions)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What the declared space does not hold, with the reason."""
        return (*self.space.left_out, *self.uneven_space.left_out)

    def candidates(self, wanted: Callable[[Plan], bool] = everything) -> Iterator[Found]:
        """Timed plans that may fit and are `wanted`, in the order of their step time.

        Of a `SimplerThan` the limit is asked before a setting is solved.
        """
        # The first uniform plan comes before the uneven ones are bounded, so that a limit of time leaves something to show.
        rest = self.uniform.candidates(wanted)
        head = next(rest, None)
        uneven = self.uneven.stream(wanted, wanted.limit if isinstance(wanted, SimplerThan) else lambda: None)
        while True:
            found = uneven.next_below(head.seconds if head is not None else float("inf"))
            if found is not None:
                yield found
            elif head is None:
                return
            else:
                yield head
                head = next(rest, None)

    def bounds(self) -> Iterator[tuple[Plan, float]]:
        """The uniform plans that were bounded, with their bounds, in a fixed order."""
        return self.uniform.bounds()

    def exhaust_memory(self) -> None:
        """Judge the memory of every uniform plan, so that the nearest miss is that of all of them."""
        self.uniform.exhaust_memory()
