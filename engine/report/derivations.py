"""How every computed number of a review follows from its evidence: a formula with its source, by the place in the JSON.

`paths` are patterns over JSON pointers in which `*` stands for one segment. A number that stands under none of them is evidence
with a place of its own, a choice of the proposal, or a count. A test holds that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Derivation:
    """One kind of computed number."""

    name: str
    formula: str
    source: str
    paths: tuple[str, ...]
    group: str = "Decision"


DERIVATIONS: Final = (
    Derivation(
        "step time",
        "first microbatch with the drain + (microbatches - 1) x bottleneck + exposed communication + optimizer; an event "
        "simulation of the schedule stands for the first two",
        "Narayanan et al. 2021, arXiv 2104.04473, section 2; Qi et al. 2023, arXiv 2401.10241",
        ("/candidates/*/step_time_s/*", "/candidates/*/time_ledger/*", "/candidates/*/terms_s/*", "/candidates/*/stages/*/**"),
        "Time",
    ),
    Derivation(
        "compute of a stage",
        "sum over its operators of max(FLOPs / (peak x share x width factors), bytes / (bandwidth x share)) + launches",
        "roofline, Williams et al. 2009, CACM 52(4); shares from the device's data sheet",
        ("/candidates/*/stages/*/compute_s",),
        "Time",
    ),
    Derivation(
        "critical path",
        "the chain of tasks and messages of the event simulation that ends last, walked back from its end; collectives by the "
        "tiers on which they are sent",
        "Kelley and Walker 1959, critical-path planning and scheduling; cost/critical.py",
        ("/candidates/*/critical_path/**",),
        "Time",
    ),
    Derivation(
        "collectives",
        "ring: latency x steps + (n - 1) / n x bytes / (bandwidth x share) a level, twice for all-reduce; measured curves "
        "where there are some",
        "Thakur et al. 2005, IJHPCA 19(1); constants in cost/constants.csv",
        ("/candidates/*/stages/*/communication_s/*",),
        "Time",
    ),
    Derivation(
        "operators of a stage",
        "computation by the roofline and communication by the formulas above of each operator in its layout, conversions by "
        "shortest paths between layouts",
        "decision/operators.py; search/operators.py",
        ("/candidates/*/operators/**",),
        "Time",
    ),
    Derivation(
        "what crosses a boundary",
        "bytes of the boundary's tensor by its shards on either side; seconds by the network's links",
        "search/resharding.py",
        ("/candidates/*/boundaries/**",),
        "Time",
    ),
    Derivation(
        "90 % interval of a step time",
        "5 % and 95 % quantiles over fixed draws of all ranges, and the model's residual, added in quadrature of logarithms",
        "cost/constants.csv: residual_family, residual_exception, residual_new",
        ("/candidates/*/step_time_s/low", "/candidates/*/step_time_s/high"),
        "Intervals",
    ),
    Derivation(
        "ratio of two step times",
        "of the simulated steps; its interval under common draws, so that what both share cancels",
        "cost/constants.csv: ratio_noise, ratio_slope",
        ("/candidates/*/ratio_to_recommended/*",),
        "Intervals",
    ),
    Derivation(
        "MFU and tokens/s",
        "model FLOPs / (step time x peak of all devices), recomputation not counted; tokens of the batch / step time",
        "Chowdhery et al. 2022, arXiv 2204.02311, appendix B",
        ("/candidates/*/mfu", "/candidates/*/tokens_per_second"),
        "Time",
    ),
    Derivation(
        "memory",
        "each row by the formula beside it; allocated = tensors, reserved = allocated + reserve, "
        "device-visible = reserved + context",
        "Korthikanti et al. 2022, arXiv 2205.05198; Rajbhandari et al. 2020, arXiv 1910.02054; the device's data sheet",
        ("/candidates/*/memory/**", "/candidates/*/peak/*", "/rejected/*/*"),
        "Memory",
    ),
    Derivation(
        "run cost",
        "steps of the run x step time; x devices for device-hours",
        "the proposal's run length",
        (),
        "Time",
    ),
    Derivation(
        "effect of missing evidence",
        "width of the step time (or share of the device's memory) over the item's own range, all else nominal, "
        "over the step time",
        "re-pricing; ranges of the data sheets, and of grades in cost/intervals.py",
        ("/missing_evidence/*/effect",),
    ),
    Derivation(
        "break-even value",
        "the nearest value at which the recommendation, decided again over the plans that lead anywhere in the searched range, "
        "is another; bisected to 0.1 %",
        "decision/sensitivity.py",
        ("/sensitivity/**",),
    ),
    Derivation(
        "amortisation",
        "steps = planning cost / (saved seconds a step x devices)",
        "the proposal's planning_cost",
        ("/amortisation/*",),
    ),
    Derivation(
        "runs and steps to measure",
        "n >= 2 ((t(0.975) + t(0.9)) s / ln ratio)^2, t of 2 n - 2 degrees of freedom, s^2 = run^2 + step^2 / steps",
        "NIST/SEMATECH e-Handbook of Statistical Methods, section 7.2.2.2; decision/noise.csv",
        ("/verification/**", "/clearing/**"),
        "Verification",
    ),
    Derivation(
        "counts",
        "of plans, shapes and ties met by the search; states = plans and settings bounded + entries of the stage tables",
        "search/tally.py",
        ("/search_space/**", "/candidates/*/simplicity/*"),
    ),
)


def grouped_derivations() -> list[str]:
    """The derivations in words, a line a group."""
    groups: dict[str, list[str]] = {}
    for one in DERIVATIONS:
        groups.setdefault(one.group, []).append(f"{one.name} = {one.formula} [{one.source}]")
    return [f"{group}: {'; '.join(lines)}." for group, lines in groups.items()]


def derivation_of(pointer: str) -> Derivation | None:
    """The kind of computed number that stands at a JSON pointer; the most particular pattern wins."""
    found = [(len(path), one) for one in DERIVATIONS for path in one.paths if _matches(path, pointer)]
    return max(found, key=lambda pair: pair[0])[1] if found else None


def _matches(path: str, pointer: str) -> bool:
    pattern = re.escape(path).replace(r"\*\*", ".+").replace(r"\*", "[^/]+")
    return re.fullmatch(pattern, pointer) is not None
