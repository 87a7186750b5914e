"""What a software family is taken to get on a device of which it has no measured run, from one where it has.

Carried are shares of peaks. A matrix product's share moves with the share that isolated products were measured to reach on the
two devices (power and clocks set both); a fused attention kernel written for one generation of tensor cores keeps its FLOPs
a multiprocessor and clock, so its share of peak falls as the cores grow wider (Shah et al. 2024, FlashAttention-3, arXiv
2407.08608, section 1: 35 % of peak on H100 where the same kernel had 60-70 % on A100); memory-bound passes keep their share
of bandwidth; host times keep their seconds. `achievable.csv` holds both device figures with their sources. Knows no plan.
"""

from __future__ import annotations

import csv
from dataclasses import replace
from functools import cache
from importlib.resources import files

from ..frozen import dataclass
from ..quantity import Grade, Provenance, Quantity
from .sheets import Calibration, DeviceSheet, Ranged

#: Families whose fused attention is the vendor's library, written anew for each generation: its share of peak is kept.
_VENDOR_ATTENTION = ("megatron-core",)

#: Half-width, relative, that a carried value's range has at least: what shares of one family differ by between A100 and H100.
SPREAD = 0.1


@dataclass(frozen=True, slots=True)
class Achievable:
    """`product`: the share of the 16-bit peak that isolated products reach; `tensor_width`: 16-bit FLOPs of a multiprocessor and
    clock. None where it is not known.
    """

    product: float | None
    tensor_width: float | None


@cache
def _known() -> dict[str, Achievable]:
    text = files(__package__).joinpath("achievable.csv").read_text(encoding="utf-8")
    return {
        row["device"]: Achievable(
            float(row["product"]) if row["product"] else None, float(row["tensor_width"]) if row["tensor_width"] else None
        )
        for row in csv.DictReader(text.splitlines())
    }


def achievable(sheet: DeviceSheet) -> Achievable:
    """What is known of `sheet`; nothing of a device that the table does not name."""
    return _known().get(sheet.name, Achievable(None, None))


def carried(known: Calibration, source: DeviceSheet, target: DeviceSheet) -> Calibration:
    """`known`, of `source`, as it is taken to be on `target`; graded `assumed`, `carried_from` naming the device."""
    here, there = achievable(source), achievable(target)
    product = there.product / here.product if here.product and there.product else 1.0
    width = here.tensor_width / there.tensor_width if here.tensor_width and there.tensor_width else 1.0

    def moved(value: Ranged | None, factor: float = 1.0, most: float | None = 1.0) -> Ranged | None:
        if value is None:
            return None
        note = f"carried from {source.name}: {value.provenance.source}"
        evidence = Provenance(Grade.ASSUMED, note, value.provenance.file, value.provenance.line, value.provenance.date)
        number = value.value * factor if most is None else min(most, value.value * factor)
        low, high = min(value.low * factor, number * (1 - SPREAD)), max(value.high * factor, number * (1 + SPREAD))
        top = high if most is None else max(number, min(most, high))
        return Ranged(Quantity(number, value.quantity.dimension, evidence), low, top)

    return replace(
        known, device=target.name, name=f"{target.name}.{known.software}", carried_from=source.name,
        gemm=moved(known.gemm, product), memory=moved(known.memory),
        attention_flash=moved(known.attention_flash, 1.0 if known.software in _VENDOR_ATTENTION else width),
        attention_unfused=moved(known.attention_unfused, product),
        launch=moved(known.launch, most=None), stall=moved(known.stall, most=None), interference=moved(known.interference),
        fabric=moved(known.fabric), loss=moved(known.loss), workspace=None, allocator_reserve=None,
    )  # fmt: skip
