"""What the cost of time shares between plans: multipliers on its parameters, and its own constants with their sources.

A *factor* scales one parameter that all plans on a cluster share (the devices' efficiencies, each tier's bandwidth), so
that two plans can be priced under the same draw. *Constants* are the parameters that no data sheet states; they stand
in `constants.csv`, each with its range (10-90 %), source and date.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from importlib.resources import files

from ..frozen import dataclass
from ..quantity import Dimension, Grade, Provenance, Quantity


@dataclass(frozen=True, slots=True)
class Factors:
    """Multipliers, all 1 for the nominal estimate. Rates and shares: larger is faster; times (launch, latency): slower.

    `bandwidth` is by the name of a tier; a tier that is not named has 1. `overlap` scales the shares of gathers and
    key-value exchanges that are hidden; `gradient_overlap` is a share itself, None for the constant.
    """

    gemm: float = 1.0
    attention: float = 1.0
    memory: float = 1.0
    launch: float = 1.0
    latency: float = 1.0
    overlap: float = 1.0
    gradient_overlap: float | None = None
    bandwidth: tuple[tuple[str, float], ...] = ()
    #: Seconds a layer and pass that the device idles, and the share of hidden gathers that slows what hides them; None: as the
    #: sheet has it.
    stall: float | None = None
    interference: float | None = None
    #: The share of the loss's traffic that its kernels leave; None: the sheet's.
    loss: float | None = None
    #: Of the collectives that were measured on the cluster, in place of their tiers' factors.
    measured: float = 1.0


NOMINAL = Factors()


@dataclass(frozen=True, slots=True)
class Constant:
    """One constant: its value and 10-90 % range, and where they come from. `low` and `high` are the value where none
    is stated.
    """

    name: str
    value: float
    low: float
    high: float
    provenance: Provenance

    def quantity(self, dimension: Dimension) -> Quantity:
        """The constant as a quantity of `dimension`."""
        return Quantity(self.value, dimension, self.provenance)


def load_constants() -> Mapping[str, Constant]:
    """The shipped constants by name."""
    text = files(__package__).joinpath("constants.csv").read_text(encoding="utf-8")
    rows: dict[str, Constant] = {}
    for line, row in enumerate(csv.DictReader(text.splitlines()), start=2):
        value = float(row["value"])
        provenance = Provenance(Grade(row["grade"]), row["source"], "cost/constants.csv", line, row["date"])
        rows[row["name"]] = Constant(row["name"], value, float(row["low"] or value), float(row["high"] or value), provenance)
    return rows
