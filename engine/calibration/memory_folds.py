"""The memory constants as a fit without one group gives them, so that each group's rows are judged by one that has not seen them.

Fitted are a device's workspace and allocator reserve and the residual of allocated memory; what is counted from shapes has
nothing to leave out. A constant of which no other group's rows are left keeps the shipped value with its range.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..cost.memory import Residuals, load_residuals
from ..hardware import DeviceSheet, Ranged
from ..quantity import Quantity
from .memory_case import Prediction
from .memory_fit import FittedConstant, fit_memory


class MemoryFolds:
    """`rows`: what the shipped constants were fitted to."""

    def __init__(self, rows: Iterable[Prediction]) -> None:
        self._rows = tuple(rows)
        self.groups = frozenset(row.case.group for row in self._rows)
        self._found: dict[str, dict[tuple[str, str], FittedConstant]] = {}

    def constants(self, group: str) -> dict[tuple[str, str], FittedConstant]:
        """By name and device, fitted to every group but `group`."""
        found = self._found.get(group)
        if found is None:
            others = [row for row in self._rows if row.case.group != group]
            found = self._found[group] = {(one.name, one.device): one for one in fit_memory(others)}
        return found

    def sheet(self, sheet: DeviceSheet, group: str) -> DeviceSheet:
        """`sheet` with the constants that have not seen `group`; the sheet itself where the fit had no such group."""
        if group not in self.groups:
            return sheet
        known = self.constants(group)
        scratch, reserve = known.get(("workspace", sheet.name)), known.get(("allocator_reserve", sheet.name))
        return replace(
            sheet,
            workspace=ranged(scratch, sheet.workspace) if scratch else sheet.workspace,
            allocator_reserve=ranged(reserve, sheet.allocator_reserve) if reserve else sheet.allocator_reserve,
            sha256=f"{sheet.sha256} without {group}",
        )

    def residuals(self, group: str) -> Residuals | None:
        """The half-widths of the other groups' errors; None where the fit had no such group."""
        if group not in self.groups:
            return None
        known, shipped = self.constants(group), load_residuals()
        shown, experts = (known.get((f"residual_{name}", "")) for name in ("shown", "experts"))
        return replace(
            shipped, shown=shown.value if shown else shipped.shown, experts=experts.value if experts else shipped.experts
        )


def ranged(constant: FittedConstant, like: Ranged) -> Ranged:
    """The constant as a data sheet states one, under the evidence of `like`."""
    quantity = Quantity(constant.value, like.quantity.dimension, like.quantity.provenance)
    return Ranged(quantity, constant.low, constant.high)
