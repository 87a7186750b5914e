"""Facts about figures that the proposal quotes: what is claimed of what, and whether the devices' peak rate allows it."""

from __future__ import annotations

from collections.abc import Iterator

from ..model import training_flops_per_token
from ..proposal import Case
from ..proposal.schema import Claim
from .fact import Fact
from .kinds import fact


def claim_facts(case: Case) -> Iterator[Fact]:
    """One fact a claim, and one more for a throughput or step time that can be held against the peak rate."""
    heading = case.loaded.stated.proposal
    pipelined = any(plan.pipeline > 1 for plan in case.plans)
    counts = [node.count for node in case.described.nodes if node.count is not None]
    nodes = sum(counts) if counts and len(counts) == len(case.described.nodes) else None
    for k, claim in enumerate(case.loaded.stated.claims or []):
        path = f"/claims/{k}"
        yield _claim(claim, path, heading.scaling if heading else None, pipelined, nodes)
        yield from _limit(case, claim, path)


def _claim(claim: Claim, path: str, scaling: str | None, pipelined: bool, nodes: int | None) -> Fact:
    baseline = claim.baseline
    value = claim.value
    return fact(
        "claim",
        path,
        text=claim.text or claim.metric or "",
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
            text=claim.text or claim.metric or "",
            metric=claim.metric or "",
            claimed_tflop=round(rate / 1e12),
            peak_tflop=round(peak / 1e12),
            above=rate > peak,
        )
