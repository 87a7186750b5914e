"""Facts about figures that the proposal quotes: what is claimed of what, and whether devices and links allow it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ..model import training_flops_per_token
from ..plan import Plan
from ..proposal import Case
from ..proposal.schema import Claim, Recipe
from ..quantity import Dimension
from .fact import Fact, in_field_unit
from .kinds import fact

#: Parts of a recipe by which two runs can be compared, as they are written.
RECIPE = ("seed", "data_order", "precision", "global_batch", "dropout", "tolerance", "steps")
#: Words by which a claim without a metric is known to be about equal losses or gradients.
_EQUAL = re.compile(
    r"\b(bit[- ]?(wise|identical)|bit[- ](by|for)[- ]bit|same|equal|identical|match\w*|agree\w*|reproduc\w*|"
    r"indistinguishable|unchanged)\b",
    re.IGNORECASE,
)
_WHAT = re.compile(r"\b(loss(?:es)?|gradients?|grads?|convergence|numerics|numerically)\b", re.IGNORECASE)
_BITWISE = re.compile(r"\bbit[- ]?(wise|exact|identical)\b|\bbit[- ](by|for)[- ]bit\b", re.IGNORECASE)


def claim_facts(case: Case) -> Iterator[Fact]:
    """One fact a claim, and more for a speed that can be held against devices and links, and for a claim of agreement."""
    heading = case.loaded.stated.proposal
    pipelined = any(plan.pipeline > 1 for plan in case.plans)
    counts = [node.count for node in case.described.nodes if node.count is not None]
    nodes = sum(counts) if counts and len(counts) == len(case.described.nodes) else None
    for k, claim in enumerate(case.loaded.stated.claims or []):
        path = f"/claims/{k}"
        yield _claim(claim, path, heading.scaling if heading else None, pipelined, nodes)
        yield from _slips(case, claim, path)
        yield from _limit(case, claim, path)
        seconds = _step_seconds(case, claim)
        if seconds is not None and claim.nodes in (None, nodes):
            yield from _link(case, claim, path, seconds)
        yield from _agreement(case, claim, path)


def speed_up_facts(case: Case, seconds: Mapping[str, float]) -> Iterator[Fact]:
    """What links allow of each claimed speed-up: `seconds` are the longest likely step times of priced plans, by name."""
    reference = next((plan.name for plan in case.plans if plan.role.value == "reference" and plan.name in seconds), None)
    for k, claim in enumerate(case.loaded.stated.claims or []):
        value = claim.value
        if reference is not None and claim.metric == "speed_up" and value is not None and 0 < value < 1e12:
            yield from _link(case, claim, f"/claims/{k}", seconds[reference] / value, reference)


def _claim(claim: Claim, path: str, scaling: str | None, pipelined: bool, nodes: int | None) -> Fact:
    baseline = claim.baseline
    value = claim.value
    return fact(
        "claim",
        path,
        text=_text(claim),
        metric=claim.metric,
        value_ppm=round(1e6 * value) if value is not None and abs(value) < 1e12 else None,
        scaling=claim.scaling,
        proposal_scaling=scaling,
        baseline=baseline.system if baseline else None,
        baseline_inter_operator=baseline.inter_operator if baseline else None,
        pipelined=pipelined,
        source=claim.source,
        unit=claim.unit,
        nodes=claim.nodes,
        cluster_nodes=nodes,
    )


def _slips(case: Case, claim: Claim, path: str) -> Iterator[Fact]:
    """What keeps a claim from being held against anything: a figure that cannot be, a plan that is not there, idle keys."""
    value, metric = claim.value, claim.metric
    names = {plan.name for plan in case.loaded.stated.plans or []} | {plan.name for plan in case.plans}
    equal = metric in ("loss_agreement", "gradient_agreement")
    slips = (
        ("plan", claim.plan is not None and claim.plan not in names, f"no plan is called '{claim.plan}'"),
        ("value", equal and value is not None and value < 0, "a difference is at least 0"),
        (
            "value",
            not equal and metric not in (None, "other") and value is not None and value <= 0,
            f"a figure of '{metric}' is above 0",
        ),
        ("unit", claim.unit is not None and metric not in (None, "throughput"), f"'unit' is of a throughput, not of '{metric}'"),
        (
            "recipe",
            claim.recipe is not None and metric not in (None, "other") and not equal,
            f"'recipe' is of an agreement, not of '{metric}'",
        ),
    )
    for key, wrong, why in slips:
        if wrong:
            yield fact("claim_slip", f"{path}/{key}", text=_text(claim), key=key, why=why)


def _text(claim: Claim) -> str:
    return claim.text or claim.metric or ""


def _limit(case: Case, claim: Claim, path: str) -> Iterator[Fact]:
    """Model FLOPs a second of one device by the claim, against the device's highest dense rate.

    Model FLOPs are those of PaLM's appendix B (arXiv 2204.02311): three times the forward pass, nothing recomputed.
    """
    value, model, cluster, length = claim.value, case.model, case.cluster, case.sequence_length
    if value is None or not 0 < value < 1e15 or cluster is None:
        return
    peak = max((rate.value for group in cluster.nodes for _, rate in group.device.peak_rates), default=0.0)
    devices = case.described.devices
    if not peak or not devices:
        return
    rate: float | None = None
    if claim.metric == "throughput" and claim.unit == "tflops_per_device":
        rate = value * 1e12
    elif model is not None and length is not None:
        per_token = training_flops_per_token(model, length, True)
        if claim.metric == "throughput" and claim.unit is not None:
            rate = value * per_token / (devices if claim.unit == "tokens_per_second" else 1)
        elif claim.metric == "step_time" and case.global_batch is not None:
            rate = case.global_batch * length * per_token / (value * devices)
    if rate is not None and rate < 1e24:
        yield fact(
            "claim_limit",
            path,
            text=_text(claim),
            metric=claim.metric or "",
            claimed_tflop=round(rate / 1e12),
            peak_tflop=round(peak / 1e12),
            above=rate > peak,
        )


def _step_seconds(case: Case, claim: Claim) -> float | None:
    """The time of a step by the claim: a step time, a throughput in one of its units, or a utilisation."""
    value, batch, length, devices = claim.value, case.global_batch, case.sequence_length, case.described.devices
    if value is None or not 0 < value < 1e15:
        return None
    if claim.metric == "step_time":
        return value
    if batch is None or length is None or not devices:
        return None
    tokens = batch * length
    if claim.metric == "throughput" and claim.unit in ("tokens_per_second", "tokens_per_second_per_device"):
        return tokens / (value * (devices if claim.unit == "tokens_per_second_per_device" else 1))
    if case.model is None or case.workload is None or case.cluster is None:
        return None
    flops = tokens * training_flops_per_token(case.model, length, True)
    if claim.metric == "throughput" and claim.unit == "tflops_per_device":
        return flops / (value * 1e12 * devices)
    # A utilisation is of the dtype that the products are computed in; on several types of device it is of no one peak.
    peak = case.cluster.device.peak(case.workload.precision.compute) if case.cluster.homogeneous else None
    return flops / (value * peak.value * devices) if claim.metric == "mfu" and peak is not None else None


def _link(case: Case, claim: Claim, path: str, seconds: float, reference: str | None = None) -> Iterator[Fact]:
    """The claimed time of a step beside the least that links allow the plan it is of, or the least bound one of all."""
    if case.model is None or case.workload is None or case.cluster is None:
        return
    plans: list[Plan | None] = [plan.plan for plan in case.plans if claim.plan is None or plan.name == claim.plan]
    if reference is not None and claim.plan is None:
        plans = [plan.plan for plan in case.plans if plan.name != reference]
    # Few proposals quote a speed, and the cost of links is not loaded for the others.
    from ..cost.link_bound import link_bound

    relief = max((link.oversubscription or 1.0 for link in case.described.links if link.tier == "fabric"), default=1.0)
    bounds = [(plan, link_bound(plan, case.model, case.workload, case.cluster, relief)) for plan in plans if plan is not None]
    known = [(plan, bound) for plan, bound in bounds if bound is not None]
    # A plan that cannot be laid out, or that no link bounds, may be the one that the claim is of.
    if not known or len(known) < len(plans):
        return
    plan, bound = min(known, key=lambda one: one[1].seconds)
    if bound.seconds < 1e9 and seconds < 1e9:
        yield fact(
            "claim_link",
            path,
            text=_text(claim),
            metric=claim.metric or "",
            plan=plan.name,
            reference=reference,
            axis=bound.axis,
            carries=bound.carries,
            link=bound.link,
            sent_bytes=round(bound.sent),
            rate_bytes_per_s=round(bound.rate),
            claimed_ns=in_field_unit(seconds, "claimed_ns"),
            bound_ns=in_field_unit(bound.seconds, "bound_ns"),
            above=seconds < bound.seconds,
        )


def _agreement(case: Case, claim: Claim, path: str) -> Iterator[Fact]:
    """A claim of equal losses or gradients: by its metric, or by its words where it gives none or calls itself other."""
    stated = claim.metric in ("loss_agreement", "gradient_agreement")
    words = claim.text or ""
    subject = _WHAT.search(words)
    read = claim.metric in (None, "other") and subject is not None and _EQUAL.search(words) is not None
    if not stated and not read:
        return
    gradients = claim.metric == "gradient_agreement"
    if not stated and subject is not None:
        gradients = subject[0].lower().startswith("grad")
    recipe = claim.recipe or Recipe.model_construct(**dict.fromkeys(RECIPE))
    lacks = [part for part in RECIPE if getattr(recipe, part) is None]
    tolerance, found = recipe.tolerance, abs(claim.value) if stated and claim.value is not None else None
    meshes = {(plan.mesh, plan.pipeline, plan.stated.microbatch) for plan in case.plans}
    yield fact(
        "agreement",
        path,
        text=_text(claim),
        of="gradients" if gradients else "loss",
        by_words=not stated,
        lacking=len(lacks),
        lacks=", ".join(f"'{part}'" for part in lacks) or None,
        differs="; ".join(_differences(case, recipe)) or None,
        exact=tolerance == 0 or (tolerance is None and _BITWISE.search(words) is not None),
        reordered=len(meshes) > 1,
        difference=f"{found:g}" if found is not None else None,
        tolerance=f"{tolerance:g}" if tolerance is not None else None,
        within=found <= tolerance if found is not None and tolerance is not None else None,
    )


def _differences(case: Case, recipe: Recipe) -> Iterator[str]:
    """Parts of a recipe that are not this workload's, with both values."""
    stated, workload = case.loaded.stated.workload, case.workload
    if recipe.precision is not None and workload is not None and recipe.precision != workload.precision.compute:
        yield f"precision {recipe.precision} there, {workload.precision.compute} here"
    batch = recipe.global_batch
    if batch is not None and case.global_batch is not None:
        length = case.sequence_length or 1
        here = case.global_batch if batch.dimension is Dimension.SEQUENCES else case.global_batch * length
        if (batch.dimension is Dimension.SEQUENCES or case.sequence_length) and int(batch.value) != here:
            unit = "sequences" if batch.dimension is Dimension.SEQUENCES else "tokens"
            yield f"a global batch of {int(batch.value)} {unit} there, {here} here"
    if recipe.dropout is not None and stated is not None and stated.dropout is not None and recipe.dropout != stated.dropout:
        yield f"dropout {recipe.dropout:g} there, {stated.dropout:g} here"
