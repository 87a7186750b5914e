"""How sure a step time is: a fixed set of draws of what plans share, and what the model itself leaves open.

Vocabulary: a *draw* is one set of factors, the same for every plan; the *residual* is what the model gets wrong with
all its parameters right. The interval of a step spreads over draws and residual; the interval of a ratio of two steps
takes both under the same draw, so what they share cancels and a smaller residual remains. Nothing is random: the draws
are a fixed low-discrepancy sequence, the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import exp, fsum, hypot, log
from typing import Literal

from ..cluster.cluster import Cluster, Tier
from ..hardware import Calibration, DeviceSheet, Ranged
from ..model import Attention, Transformer, Workload
from ..plan import Plan
from ..quantity import Decider, Dimension, Estimate, Grade
from .factors import NOMINAL, Constant, Factors, load_constants
from .link_shares import share_name
from .step import TimeModel
from .step_result import StepTime

Outcome = Literal["win", "tie", "loss"]

#: 5-95 % range of a tier's bandwidth by the grade of its figure, relative: a vendor's figure is rarely passed, an
#: assumption may be half wrong. What a collective then reaches of it is the constants' own range.
GRADE_RANGE: dict[Grade, tuple[float, float]] = {
    Grade.MEASURED: (0.95, 1.05),
    Grade.PUBLISHED: (0.90, 1.10),
    Grade.VENDOR: (0.80, 1.05),
    Grade.ESTIMATED: (0.70, 1.20),
    Grade.ASSUMED: (0.50, 1.25),
}

DRAWS = 48

#: Groups of which one may lie outside a 90 % interval.
GROUPS = 9

#: Share of a stage's time added by launches above which a plan is an exception: kernels of the host's code path, which no data
#: sheet knows, then decide.
LAUNCH_BOUND = 0.15

#: log(u / (1 - u)) at the ends of a 10-90 % and of a 5-95 % range.
_AT_10, _AT_5 = log(9.0), log(19.0)


def _spread(low: float, high: float, at: float) -> Callable[[float], float]:
    """Quantile function of a two-sided log-logistic around 1, `low` and `high` being its quantiles at -`at` and
    `at`.
    """
    below, above = -log(low) / at, log(high) / at

    def quantile(u: float) -> float:
        z = log(u / (1 - u))
        return exp(z * (above if z > 0 else below))

    return quantile


def _relative(ranges: Sequence[Ranged | Constant]) -> Callable[[float], float]:
    """The widest of the ranges, each relative to its value, as 10-90 % quantiles."""
    low = min(one.low / one.value for one in ranges)
    high = max(one.high / one.value for one in ranges)
    return _spread(low, high, _AT_10)


def _tier(tier: Tier, share: Ranged | Constant) -> Callable[[float], float]:
    """The grade's range and the share's, independent of one another: half-widths add in quadrature, in logarithms,
    at 5-95 %.
    """
    low, high = GRADE_RANGE[tier.bandwidth.grade]
    scale = _AT_5 / _AT_10
    below = hypot(log(low), scale * log(share.low / share.value))
    above = hypot(log(high), scale * log(share.high / share.value))
    return _spread(exp(-below), exp(above), _AT_5)


def _sequence(dimensions: int, n: int) -> list[list[float]]:
    """`n` points that fill the cube from 0.02 to 0.98 evenly: the additive recurrence on powers of the golden ratio for
    it.

    Roberts 2018, "The Unreasonable Effectiveness of Quasirandom Sequences": the ratio solves x^(d + 1) = x + 1.
    """
    ratio = 2.0
    for _ in range(60):
        ratio = (1 + ratio) ** (1 / (dimensions + 1))
    steps = [ratio ** -(k + 1) for k in range(dimensions)]
    return [[min(max((0.5 + (i + 1) * step) % 1.0, 0.02), 0.98) for step in steps] for i in range(n)]


def draws(
    cluster: Cluster, n: int = DRAWS, *, flash: bool = True, constants: Mapping[str, Constant] | None = None
) -> tuple[Factors, ...]:
    """`n` draws of the factors over the ranges that the cluster's data sheets, grades and the constants state.

    Efficiencies of several device types move together, over the widest of their ranges. `flash`: which attention
    kernel's range counts.
    """
    known = load_constants() if constants is None else constants
    sheets: list[DeviceSheet] = list({group.device.name: group.device for group in cluster.nodes}.values())
    rates = [sheet.efficiency for sheet in sheets]
    quantiles = {
        "gemm": _relative([one.gemm for one in rates]),
        "attention": _relative([one.attention_flash if flash else one.attention_unfused for one in rates]),
        "memory": _relative([one.memory for one in rates]),
        "launch": _relative([sheet.launch for sheet in sheets]),
        "latency": _relative([known["collective_startup"]]),
        "overlap": _relative([known["prefetch_overlap"]]),
        "measured": _spread(*GRADE_RANGE[Grade.MEASURED], _AT_5),
    }
    tiers = []
    for tier in cluster.tiers:
        share = known[share_name(cluster, tier)]
        tiers.append(_tier(tier, _fabric(sheets, share) if tier.span > cluster.devices_per_node else share))
    overlap = known["gradient_overlap"]
    result = []
    for point in _sequence(len(quantiles) + len(tiers) + 1, n):
        drawn = {name: quantile(u) for (name, quantile), u in zip(quantiles.items(), point, strict=False)}
        rest = point[len(quantiles) : -1]
        bandwidth = tuple((tier.name, quantile(u)) for tier, quantile, u in zip(cluster.tiers, tiers, rest, strict=True))
        hidden = overlap.low + point[-1] * (overlap.high - overlap.low)
        result.append(replace(NOMINAL, **drawn, gradient_overlap=hidden, bandwidth=bandwidth))
    return tuple(result)


def _fabric(sheets: Sequence[DeviceSheet], share: Constant) -> Ranged | Constant:
    """The share of a fabric's rate that the calibration in force found, with its range; else the constant's."""
    found = [sheet.calibration.fabric for sheet in sheets if sheet.calibration is not None]
    return found[0] if len(found) == len(sheets) == 1 and found[0] is not None else share


class Uncertainty:
    """Intervals of one model, workload and cluster: the nominal time model and one for each draw, all with what they
    keep.
    """

    def __init__(
        self, model: Transformer, workload: Workload, cluster: Cluster, n: int = DRAWS, nominal: TimeModel | None = None
    ) -> None:
        self.nominal = nominal or TimeModel(model, workload, cluster)
        constants = self.nominal.constants
        flash = workload.attention is not Attention.UNFUSED
        chosen = draws(cluster, n, flash=flash, constants=constants)
        way = self.nominal.transfer
        self.models = [TimeModel(model, workload, cluster, factors, constants, way) for factors in chosen]
        if workload.attention is None:
            # Not stated: the other kernel under its own draws, so that the interval spans both.
            other = replace(workload, attention=Attention.UNFUSED)
            chosen = draws(cluster, n, flash=False, constants=constants)
            self.models += [TimeModel(model, other, cluster, factors, constants, way) for factors in chosen]
        self._drawn: dict[object, tuple[float, ...]] = {}

    def drawn(self, plan: Plan) -> tuple[float, ...]:
        """Seconds of `plan` by closed form, relative to the nominal ones, under each draw."""
        found = self._drawn.get(plan.identity)
        if found is None:
            nominal = self.nominal.seconds(plan)
            found = self._drawn[plan.identity] = tuple(one.seconds(plan) / nominal for one in self.models)
        return found

    def interval(self, plan: Plan, step: StepTime | None = None, *, exceptional: bool = False) -> Estimate:
        """The step time with its 90 % interval; `step` is the simulated one where it is known already.

        `exceptional`: there is a reason, beside those of `exceptions`, to be less sure of this plan than of others.
        """
        step = step or self.nominal.simulated(plan)
        low, high = _ends(self.drawn(plan))
        residual, least = self._residual(plan, exceptional)
        below, above = hypot(log(low), log1(residual)), hypot(log(high), log1(residual))
        if self.calibration is not None:
            # Errors on left-out groups hold what the parameters miss: the draws add only what reaches beyond them.
            below, above = max(-log(low), log1(residual)), max(log(high), log1(residual))
        below, above = max(below, log1(least)), max(above, log1(least))
        seconds = step.seconds
        workload = self.nominal.workload
        if workload.dispatcher is None or workload.dispatch_overlap is None:
            # A framework may hide the exchange between experts and send a token once a node: the low end is a step without it.
            below = max(below, -log(1 - min(0.99, step.term("expert") / seconds)))
        return Estimate(seconds, seconds * exp(-below), seconds * exp(above), Dimension.TIME, Grade.ESTIMATED, step.deciders)

    def ratio(self, plan: Plan, other: Plan, steps: tuple[StepTime, StepTime] | None = None) -> Estimate:
        """`plan`'s step time over `other`'s, with its 90 % interval under common draws.

        What a draw moves in both alike is gone from it. The residual is that of the difference of two layouts: it grows with
        how differently they spend their steps, from what repeats of one configuration differ by (`ratio_residual`); larger where
        one of them is a named exception and the other is not.
        """
        first, second = steps or (self.nominal.simulated(plan), self.nominal.simulated(other))
        value = first.seconds / second.seconds
        if plan.identity == other.identity:
            return Estimate(value, value, value, Dimension.FRACTION, Grade.ESTIMATED, first.deciders)
        low, high = _ends(tuple(a / b for a, b in zip(self.drawn(plan), self.drawn(other), strict=True)))
        known = self.nominal.constants
        slope = self.calibration.ratio_slope if self.calibration is not None else known["ratio_slope"].value
        distance = apart(first, second) if _unpaired(plan) == _unpaired(other) else APART
        residual = ratio_residual(distance, slope, log1(known["ratio_noise"].value))
        if bool(self.exceptions(plan)) != bool(self.exceptions(other)):
            residual = log1(known["residual_exception"].value)
        below, above = hypot(log(low), residual), hypot(log(high), residual)
        if self.calibration is not None:
            # As for a step: errors of left-out pairs hold what the parameters miss.
            below, above = max(-log(low), residual), max(log(high), residual)
        return Estimate(
            value,
            value * exp(-below),
            value * exp(above),
            Dimension.FRACTION,
            Grade.ESTIMATED,
            _union(first.deciders, second.deciders),
        )

    def exceptions(self, plan: Plan) -> tuple[str, ...]:
        """Why the model is less sure of this plan than of others on the cluster; empty for an ordinary one."""
        rows = []
        if self.nominal.misaligned(plan):
            rows.append("a tensor-parallel width is no multiple of 64")
        if self.nominal.tensor_between_nodes(plan):
            rows.append("a tensor-parallel group spans nodes and its collective was not measured")
        if self.nominal.launch_share(plan) > LAUNCH_BOUND:
            rows.append(f"launching kernels adds more than {LAUNCH_BOUND:.0%} to what the device does")
        return (*rows, *self._unmeasured(plan))

    @property
    def calibration(self) -> Calibration | None:
        """The calibration in force on every device of the cluster, if there is one."""
        found = [group.device.calibration for group in self.nominal.cluster.nodes]
        return found[0] if len({one.name if one else "" for one in found}) == 1 else None

    def _unmeasured(self, plan: Plan) -> tuple[str, ...]:
        """In what this plan is far from the measured runs of the calibration in force."""
        known, model, workload = self.calibration, self.nominal.model, self.nominal.workload
        if known is None:
            return ()
        beyond = known.far(
            hidden=model.hidden, sequence=workload.sequence_length, devices=plan.devices,
            tensor=max(stage.mesh.tensor for stage in plan.stages),
        )  # fmt: skip
        rows = [f"no measured run on {known.device}: values carried from {known.carried_from}"] if known.carried_from else []
        rows += [f"{name} is beyond the measured runs of {known.name} by more than a factor of two" for name in beyond]
        if model.moe is not None:
            rows.append(f"no measured run of {known.name} has experts")
        if workload.precision.compute == "fp8":
            rows.append(f"no measured run of {known.name} multiplies in fp8")
        return tuple(rows)

    @property
    def _of_another_kind(self) -> bool:
        """Whether the calibration in force has no run with experts, or with products in fp8, and this workload has."""
        moe, fp8 = self.nominal.model.moe is not None, self.nominal.workload.precision.compute == "fp8"
        return self.calibration is not None and (moe or fp8)

    @property
    def unseen(self) -> bool:
        """Whether some device of the cluster has no measured run behind its efficiencies."""
        return any(group.device.efficiency.gemm.grade is Grade.ASSUMED for group in self.nominal.cluster.nodes)

    def _residual(self, plan: Plan, exceptional: bool) -> tuple[float, float]:
        """(the residual's half-width, the least half-width of the whole)."""
        known = self.nominal.constants
        exceptional = exceptional or bool(self.exceptions(plan)) or self.nominal.model.moe is not None
        fitted = self.calibration
        residual = known["residual_family"].value
        if fitted is not None:
            # Nine groups are the least of which 90 % says anything; of fewer it is at least what families leave in general.
            residual = fitted.residual if fitted.groups >= GROUPS else max(residual, fitted.residual)
        if exceptional:
            residual = max(residual, known["residual_exception"].value)
        new = (self.unseen and fitted is None) or self._of_another_kind or (fitted is not None and bool(fitted.carried_from))
        return residual, known["residual_new"].value if new else 0.0


def log1(relative: float) -> float:
    """A relative half-width as one in logarithms."""
    return log(1 + relative)


def outcome(ratio: Estimate) -> Outcome:
    """What a ratio of step times says of its first plan: `win` below 1, `loss` above, `tie` where its interval holds
    1.
    """
    return "win" if ratio.high < 1 else "loss" if ratio.low > 1 else "tie"


def _ends(values: tuple[float, ...]) -> tuple[float, float]:
    """The 5 % and 95 % quantiles, never on one side of 1: the nominal value is inside its interval.

    Linear between order statistics at (k - 1/2) / n.
    """
    ordered = sorted(values)

    def quantile(share: float) -> float:
        at = min(max(share * len(ordered) - 0.5, 0.0), len(ordered) - 1.0)
        k = int(at)
        return ordered[k] + (at - k) * (ordered[min(k + 1, len(ordered) - 1)] - ordered[k])

    # A ratio's draws may all lie off its nominal value; the interval then reaches from there to them.
    return min(1.0, quantile(0.05)), max(1.0, quantile(0.95))


def apart(first: StepTime, second: StepTime) -> float:
    """How differently two steps spend their time: half the sum over terms of how far their shares lie apart, 0 to 1.

    An error of one term, a share of peak or a link's rate, moves both steps alike where its share is the same in both.
    Recomputation is the forward pass again, so it counts as more of what that is made of.
    """
    one, other = _shares(first), _shares(second)
    return 0.5 * fsum(abs(one[name] - other[name]) for name in one)


#: What a pass over a layer is made of, and so its recomputation.
_PASS = ("gemm", "attention", "memory", "launch", "tensor")


def _shares(step: StepTime) -> dict[str, float]:
    shares = {name: seconds / step.seconds for name, seconds in step.terms}
    again, whole = shares.pop("recompute"), fsum(shares[name] for name in _PASS)
    for name in _PASS if whole else ():
        shares[name] += again * shares[name] / whole
    return shares


#: Beyond this the errors of two steps have nothing in common that could cancel, so the residual of their ratio grows no more.
APART = 0.2


def ratio_residual(distance: float, slope: float, noise: float) -> float:
    """The half-width, in logarithms, that the model leaves in the ratio of two steps `distance` apart (`apart`).

    `noise`: what repeats of one plan differ by; `slope`: fitted to pairs of left-out runs (`calibration.folds.slope_of_ratios`).
    """
    return hypot(noise, slope * min(distance, APART))


def _unpaired(plan: Plan) -> tuple[object, ...]:
    """In what no two measured runs of one sweep differ, so that nothing says how much their errors share."""
    return plan.schedule, plan.interleave, {(s.mesh.context, s.mesh.expert, s.mesh.expert_tensor) for s in plan.stages}


def _union(first: tuple[Decider, ...], second: tuple[Decider, ...]) -> tuple[Decider, ...]:
    names = {decider.name for decider in first}
    return first + tuple(decider for decider in second if decider.name not in names)


def interval(plan: Plan, model: Transformer, workload: Workload, cluster: Cluster) -> Estimate:
    """The step time of one plan with its interval. For many plans keep an `Uncertainty`."""
    return Uncertainty(model, workload, cluster).interval(plan)


def ratio(plan: Plan, other: Plan, model: Transformer, workload: Workload, cluster: Cluster) -> Estimate:
    """The ratio of two plans' step times with its interval. For many pairs keep an `Uncertainty`."""
    return Uncertainty(model, workload, cluster).ratio(plan, other)
