"""How much of the answer hangs on each kind of evidence: the step time re-priced at the ends of each parameter's range.

The effect of an item is the width of the step time over the item's own range, all else nominal, as a share of the step. It is
computed by re-pricing, not guessed, and it orders the missing evidence.
"""

from __future__ import annotations

from dataclasses import replace
from math import fsum

from ..cost import NOMINAL, Factors, Priced, Pricer
from ..cost.intervals import GRADE_RANGE
from ..hardware import Ranged


def effects_of(pricer: Pricer, priced: Priced) -> dict[str, float]:
    """Effect by evidence item, as a share of the step time; memory items by their share of the device's memory."""
    plan, cluster = priced.plan, pricer.cluster
    nominal = pricer.time.seconds(plan)

    def width(low: Factors, high: Factors) -> float:
        ends = [pricer.time.under(factors).seconds(plan) for factors in (low, high)]
        return abs(ends[0] - ends[1]) / nominal

    sheet = cluster.device
    efficiency = sheet.efficiency
    flash = pricer.workload.attention is None or pricer.workload.attention.value == "flash"
    attention = efficiency.attention_flash if flash else efficiency.attention_unfused
    parts = {
        "gemm": _ends(efficiency.gemm),
        "attention": _ends(attention),
        "memory": _ends(efficiency.memory),
        "launch": _ends(sheet.launch),
    }
    single = {name: width(_scaled(name, low), _scaled(name, high)) for name, (low, high) in parts.items()}
    links = {}
    for tier in cluster.tiers:
        low, high = GRADE_RANGE[tier.bandwidth.grade]
        links[tier.name] = width(
            replace(NOMINAL, bandwidth=((tier.name, low),)), replace(NOMINAL, bandwidth=((tier.name, high),))
        )
    stage = fsum(value**2 for value in single.values()) ** 0.5
    network = fsum(value**2 for value in links.values()) ** 0.5
    found = {
        "stage_latency": stage,
        "compute_rate": max(single["gemm"], single["attention"], single["memory"]),
        "memory_bandwidth": single["memory"],
        "launch_overhead": single["launch"],
        "link_bandwidth": max(links.values(), default=0.0),
        "collective_curves": network,
    }
    if priced.memory:
        peak = priced.memory[priced.peak]
        width_of = peak.allocated.high - peak.allocated.low
        found["activation_memory"] = found["workspace"] = width_of / peak.capacity_bytes
        found["allocator_reserve"] = (peak.device.high - peak.device.low) / peak.capacity_bytes
        found["framework_context"] = (peak.context.high - peak.context.low) / peak.capacity_bytes
    return found


def _scaled(name: str, factor: float) -> Factors:
    values = {"gemm": 1.0, "attention": 1.0, "memory": 1.0, "launch": 1.0, name: factor}
    return Factors(values["gemm"], values["attention"], values["memory"], values["launch"])


def _ends(ranged: Ranged) -> tuple[float, float]:
    return ranged.low / ranged.value, ranged.high / ranged.value
