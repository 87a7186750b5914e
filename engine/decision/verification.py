"""The later, separately authorised comparison: what to measure, what is predicted, what overturns it, how long it takes.

It proposes; nothing is run. How many repetitions: two means of n runs each, whose logarithms differ by d and scatter by s,
are told apart at 5 % two-sided significance with 90 % power where n >= 2 ((t(0.975) + t(0.9)) s / d)^2, with
s^2 = run^2 + step^2 / steps and Student's t of 2 n - 2 degrees of freedom, since the scatter is found from the same few runs
(NIST/SEMATECH e-Handbook of Statistical Methods, section 7.2.2.2, for the mean of a normal population; the factor 2 for two
means). With the normal distribution in place of t two runs of each would be proposed that find the difference half of the time.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files
from math import ceil, exp, fsum, log, sqrt

from ..proposal import Case
from ..quantity import Dimension, Estimate, Grade, Provenance, human
from .review import Candidate, Measurement, Trials
from .student import quantile

#: Probabilities at which Student's t is taken: 5 % two-sided significance, 90 % power.
SIGNIFICANCE, POWER = 0.975, 0.9
#: Steps thrown away at the start, and the fewest that are kept.
WARM_UP, LEAST = 10, 20
#: More repetitions than this are not proposed: the plans are a tie for every purpose.
MOST = 40
#: Terms of a step that are communication inside stages.
COMMUNICATION = ("tensor", "context", "expert", "gather")


@dataclass(frozen=True, slots=True)
class Noise:
    """Relative standard deviations of a step's time, within a run and between runs, and where they come from."""

    step: float
    run: float
    step_source: Provenance
    run_source: Provenance


def load_noise() -> Noise:
    """The shipped figures, each with its line."""
    rows = {}
    text = files(__package__).joinpath("noise.csv").read_text(encoding="utf-8")
    for line, row in enumerate(csv.DictReader(text.splitlines()), start=2):
        origin = Provenance(Grade(row["grade"]), row["source"], "decision/noise.csv", line)
        rows[row["name"]] = float(row["value"]), origin
    (step, step_source), (run, run_source) = rows["step"], rows["run"]
    return Noise(step, run, step_source, run_source)


def told_apart(runs: int, noise: Noise, steps: int) -> float:
    """The ratio of step times above 1 that `runs` of each plan tell from 1: nearer ratios need more."""
    freedom = 2 * runs - 2
    spread = sqrt(noise.run**2 + noise.step**2 / steps)
    return exp((quantile(SIGNIFICANCE, freedom) + quantile(POWER, freedom)) * spread * sqrt(2 / runs))


def repetitions(ratio: float, noise: Noise, steps: int) -> int | None:
    """Runs of each plan that tell a ratio of step times from 1; None where no number of them is proposed."""
    apart = exp(abs(log(ratio)))
    return next((runs for runs in range(2, MOST + 1) if told_apart(runs, noise, steps) <= apart), None)


def steps_needed(noise: Noise) -> int:
    """Kept steps after which those of one run add no more than a tenth to the scatter between runs."""
    return max(LEAST, ceil(noise.step**2 / (0.21 * noise.run**2)))


def trials_of(recommended: Candidate | None, against: Candidate | None) -> Trials | None:
    """How long to measure. None where there is nothing to compare."""
    if recommended is None or recommended.step is None:
        return None
    noise = load_noise()
    steps = steps_needed(noise)
    ratio = against.ratio if against is not None else None
    runs = repetitions(ratio.value, noise, steps) if ratio is not None else None
    return Trials(
        warm_up=WARM_UP,
        steps=steps,
        runs=runs,
        against=against.plan.name if ratio is not None and against is not None else None,
        ratio=ratio,
        told_apart=told_apart(runs, noise, steps) if runs is not None else None,
        step_noise=noise.step,
        run_noise=noise.run,
        sources=(noise.step_source, noise.run_source),
    )


def verification_of(case: Case, recommended: Candidate | None, against: Candidate | None) -> tuple[Measurement, ...]:
    """What to measure, what is predicted, and what would overturn the decision."""
    if recommended is None or recommended.step is None:
        return ()
    rows = [
        Measurement(
            "numerics",
            "loss of the first steps, same seed and data order, against the reference plan",
            "equal within the rounding of the precision",
            "a difference that grows with the steps",
        ),
        Measurement(
            "step_time", "full step time, after warm-up", str(recommended.step), f"more than {_high(recommended.step)}",
            recommended.step,
        ),
    ]  # fmt: skip
    if recommended.memory:
        peak = min(recommended.memory, key=lambda memory: memory.capacity_bytes - memory.device.value)
        rows.append(
            Measurement(
                "device_memory",
                f"device memory of the fullest rank (stage {peak.stage})",
                str(peak.device),
                f"more than {_high(peak.device)}, or more than the device's {peak.capacity_bytes / 2**30:.4g} GiB",
                peak.device,
            )
        )
    priced = recommended.priced
    if priced is not None:
        ledger = priced.step.ledger
        inside = fsum(seconds for name, seconds in priced.step.terms if name in COMMUNICATION)
        exposed = ledger.exposed_s + ledger.transfer_inter_s + ledger.transfer_intra_s + inside
        most = max(2 * exposed, exposed + 0.05 * recommended.step.value)
        rows.append(
            Measurement(
                "exposed_communication",
                "communication that nothing hides: collectives inside stages, transfers and resharding between them, "
                "and gradient synchronisation",
                f"{human(exposed, Dimension.TIME)} a step",
                f"more than {human(most, Dimension.TIME)}",
                Estimate(exposed, 0.0, most, Dimension.TIME, Grade.ESTIMATED),
            )
        )
    if against is not None and against.ratio is not None:
        rows.append(
            Measurement(
                "ratio",
                f"step time of '{against.plan.name}' over that of the recommended plan, on the same devices",
                f"{against.ratio.value:.3f} ({against.ratio.low:.3f} to {against.ratio.high:.3f})",
                "a ratio below 1",
                against.ratio,
            )
        )
    return tuple(rows)


def _high(estimate: Estimate) -> str:
    return human(estimate.high, estimate.dimension)
