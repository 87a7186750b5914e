"""What a printed matrix of one machine says beyond its cells: nearest cards, lanes behind a switch, the rate of a lane.

Needs no graph, so that facts can be had of a matrix without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from .parts import FAST, MOST_NVLINKS, NEAREST, Machine, Measured


def nearest_nics(measured: Measured) -> dict[str, tuple[str, ...]]:
    """By device: the cards that no other card is nearer than, by the tool's words (PIX, PXB, PHB, NODE, SYS)."""
    found: dict[str, tuple[str, ...]] = {}
    for device in measured.devices:
        ranks = {nic: NEAREST.index(path.word) for nic in measured.nics
                 if (path := measured.paths.get((device, nic))) is not None and path.word in NEAREST}  # fmt: skip
        if ranks:
            found[device] = tuple(nic for nic, rank in ranks.items() if rank == min(ranks.values()))
    return found


def nic_loads(measured: Measured) -> dict[str, int]:
    """By card: the devices that come to it when each takes one of its nearest, spread as evenly as can be."""
    loads = dict.fromkeys(measured.nics, 0)
    for near in sorted(nearest_nics(measured).values(), key=len):
        loads[min(near, key=lambda nic: loads[nic])] += 1
    return loads


def switched_lanes(measured: Measured, island: Sequence[str]) -> int | None:
    """NVLinks of a device into the switch of its island; None where the island is a mesh of lanes.

    A tool prints as many NVLinks for every pair behind a switch as a device has; added up over the pairs they are more than
    any device has. Where one pair shows fewer than another, the most is what was built.
    """
    paths = [measured.paths.get(pair) for pair in combinations(island, 2)]
    lanes = [path.lanes for path in paths if path is not None and path.lanes]
    if len(island) < 3 or not lanes or (len(island) - 1) * max(lanes) <= MOST_NVLINKS or len(lanes) < len(paths) / 2:
        return None
    return max(lanes)


def weak_pairs(measured: Measured, island: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Pairs behind a switch for which fewer NVLinks are printed than for the others: links that are down."""
    each = switched_lanes(measured, island)
    if each is None:
        return ()
    known = ((pair, measured.paths.get(pair)) for pair in combinations(island, 2))
    return tuple(pair for pair, path in known if path is not None and (path.lanes or 0) < each)


def pcie_rate(machine: Machine) -> float | None:
    """What one device gets of its PCI Express: of the links between devices where they are that, else its way to the host."""
    inner = next((one.bandwidth for one in machine.inner if one.kind == "pcie" and one.bandwidth is not None), None)
    found = inner or machine.host_link
    return float(found.value) if found is not None else None


def lane_rate(machine: Machine, measured: Measured) -> float | None:
    """Bytes/s of one NVLink: as stated, or the device's rate over the most NVLinks that the file shows of one device."""
    fast = next((one for one in machine.inner if one.kind in FAST), None)
    if fast is None or (fast.lane is None and fast.bandwidth is None):
        return None
    if fast.lane is not None:
        return float(fast.lane.value)
    lanes = [path.lanes for path in measured.paths.values() if path.lanes]
    if not lanes or fast.bandwidth is None:
        return None
    totals = [sum(p.lanes or 0 for (a, _), p in measured.paths.items() if a == device) for device in measured.devices]
    most = max(totals)
    return float(fast.bandwidth.value) / (most if most <= MOST_NVLINKS else max(lanes))


def xgmi_rate(machine: Machine, measured: Measured, island: Sequence[str]) -> float | None:
    """Bytes/s between two devices of an island that XGMI joins pair by pair: the device's rate in even parts; else None."""
    rate = next((one.bandwidth for one in machine.inner if one.kind == "xgmi" and one.bandwidth is not None), None)
    pairs = [measured.paths.get(pair) for pair in combinations(island, 2)]
    if rate is None or not all(path is not None and path.word == "XGMI" for path in pairs):
        return None
    return float(rate.value) / (len(island) - 1)
