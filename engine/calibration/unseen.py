"""A machine that no fit has seen: each device family priced from the others, as if its own runs had not been published.

The shares of a family that was measured on another architecture are carried over (`hardware.carry`); a family that was not takes
the shares of another device's data sheet the same way. Of the machine itself only the data sheet counts (peaks, bandwidths,
isolated products) and one measured rate: the share of the network between nodes. Nothing here fits anything.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, log

from ..hardware import Calibration, DeviceSheet, Library
from ..hardware.carry import carried
from ..hardware.sheets import Origin, Ranged


def from_others(library: Library, device: DeviceSheet, software: str) -> Calibration:
    """What would be known of `software` on `device` without any run on its architecture."""
    own = library.calibration(device, software)
    others = [
        library.device(name)
        for name in library.names("device")
        if library.device(name).architecture != device.architecture and library.calibrations(library.device(name))
    ]
    measured = [(other, known) for other in others if (known := library.calibration(other, software)) is not None and known.times]
    if measured:
        source, known = min(measured, key=lambda pair: _apart(pair[0], device))
    else:
        source = min(others, key=lambda other: _apart(other, device))
        known = _of_sheet(source, software)
    found = carried(known, source, device)
    fabric: Ranged | None = own.fabric if own is not None and own.fabric is not None else found.fabric
    return replace(found, fabric=fabric)


def _apart(one: DeviceSheet, other: DeviceSheet) -> float:
    rates = [sheet.peak("bf16") or sheet.peak("fp16") for sheet in (one, other)]
    return abs(log(rates[0].value / rates[1].value)) if rates[0] and rates[1] else inf


def _of_sheet(sheet: DeviceSheet, software: str) -> Calibration:
    """A data sheet's own shares in the form of a calibration, of no run."""
    e = sheet.efficiency
    return Calibration(
        name=f"{sheet.name}.{software}", device=sheet.name, software=software, gemm=e.gemm, memory=e.memory,
        attention_unfused=e.attention_unfused, attention_flash=e.attention_flash, launch=sheet.launch, stall=None,
        interference=None, fabric=None, loss=None, residual=0.0, ratio_slope=0.0, bias=0.0, rows=0, groups=0, sources=(),
        spans=(), folds=(), origin=Origin("shipped", sheet.origin.file), sha256=sheet.sha256,
    )  # fmt: skip
