"""The JSON of a review: schema 1, the form that other programs build on. Values in base units (bytes, seconds).

Everything is taken over from the decision; nothing is computed but the form. What was not priced is null.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import InternalFault
from ..plan import Plan, to_dict
from ..quantity import Decider, Estimate, Grade, Provenance, Quantity
from .critical import path_json
from .outlook_json import clearing_json, estimate_of, joint_json, sensitivity_json, trials_json
from .places import file_of, first_rank, in_repository, title_of

if TYPE_CHECKING:  # lint's JSON goes through here too, and loads neither prices nor decisions
    from ..config import Change
    from ..cost import Priced, StageMemory
    from ..decision.closures import Link, NotExamined
    from ..decision.review import Amortisation, Candidate, CounterSignal, Review, SpaceReport
    from ..facts import Fact
    from ..inference import Finding
    from ..proposal import Assumed, Evidence, LoadedProposal

SCHEMA = 1
#: What a review never does and nobody authorised by asking for one.
NOT_AUTHORISED = (
    "running or profiling any plan",
    "installing or changing software",
    "reconfiguring devices, nodes or the fabric",
    "the measurements of the verification plan",
)


def review_json(review: Review) -> dict[str, Any]:
    """The review as plain data, keys as the contract has them."""
    loaded = review.case.loaded
    name = in_repository(loaded)
    return {
        "schema": SCHEMA,
        "proposal": {"name": title_of(loaded), "path": name, "sha256": loaded.document.sha256},
        "verdict": review.verdict.value,
        "refused_of": review.refused_of,
        "findings": [finding_json(one, loaded, name) for one in review.findings if one.suppressed is None],
        "recommended": review.recommended,
        "fallback": review.fallback,
        "candidates": [candidate_json(one) for one in review.candidates],
        "missing_evidence": [
            {
                "item": need.item,
                "text": need.text,
                "how": need.how,
                "grade": need.grade,
                "effect": need.effect,
                **_where(loaded, need.path),
            }
            for need in review.needs
        ],
        "counter_signals": [_signal(signal, loaded) for signal in review.counter_signals],
        "invariants": [
            {"name": one.name, "value": one.value, "kept": one.kept, "changed_by": list(one.changed_by)}
            for one in review.invariants
        ],
        "evidence": [
            *(_evidence(one, loaded, name) for one in review.evidence),
            *(_default(one, loaded) for one in review.assumed),
        ],
        "claims": _claims(review),
        "rejected": _rejected(review.space),
        "not_examined": [_not_examined(one) for one in review.not_examined]
        + [
            {"capability": None, "phase": phase, "plan": None, "through": [], "chain": []}
            for phase in review.skipped_phases
        ],
        "search_space": _space(review),
        "sensitivity": [
            *(sensitivity_json(one) for one in review.sensitivity),
            *([joint_json(review.joint)] if review.joint else []),
        ],
        "clearing": [clearing_json(one) for one in review.clearings],
        "amortisation": _amortisation(review.amortisation),
        "verification": {
            "conditions": [{"item": one.item, "text": one.text, "how": one.how} for one in review.conditions],
            "measurements": [
                {
                    "key": one.key,
                    "what": one.what,
                    "predicted": one.predicted,
                    "overturns": one.overturns,
                    "value": one.estimate.value if one.estimate is not None else None,
                    "low": one.estimate.low if one.estimate is not None else None,
                    "high": one.estimate.high if one.estimate is not None else None,
                }
                for one in review.verification
            ],
            "trials": trials_json(review.trials) if review.trials is not None else None,
        },
        "authority": authority_json(review),
        "suppressed": [
            finding_json(one, loaded, name) | {"suppressed": suppression_json(one)}
            for one in review.findings
            if one.suppressed is not None
        ],
        "overrides": [override_json(one) for one in review.overrides],
        "digests": {name: review.digests[name] for name in sorted(review.digests)},
        "produced_with": {
            "as_of": review.as_of,
            "suppressions_judged_on": review.judged_on,
            **review.produced_with,
        },
    }


def json_text(body: Mapping[str, Any] | Sequence[Any]) -> str:
    """`body` as text, keys in their order, a line end at the end. InternalFault for a number that is not finite."""
    try:
        text = json.dumps(body, ensure_ascii=False, indent=2, allow_nan=False)
    except ValueError as error:
        raise InternalFault(f"a result is not a finite number: {error}") from None
    # Half surrogates have no UTF-8; as escapes they are still JSON.
    return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in text) + "\n"


def deciders_of(deciders: Iterable[Decider]) -> list[dict[str, Any]]:
    """The quantities that decided a result, each with its grade."""
    return [{"name": one.name, **_quantity(one.quantity)} for one in deciders]


def candidate_json(candidate: Candidate) -> dict[str, Any]:
    """One candidate; time and memory are null or empty where it was not priced."""
    plan = candidate.plan
    priced = candidate.priced
    body: dict[str, Any] = {
        "id": candidate.id,
        "roles": list(candidate.roles),
        "plan": to_dict(plan),
        "simplicity": list(candidate.simplicity),
        "step_time_s": estimate_of(candidate.step) if candidate.step is not None else None,
    }
    body |= time_json(priced)
    body |= memory_json(plan, candidate.memory)
    body |= {
        "critical_path": path_json(candidate.critical),
        "feasible": candidate.feasible,
        "binding_constraint": candidate.binding,
        "fallen_by": list(candidate.fallen),
        "measured": candidate.measured,
        "measured_numbers": [
            {"stages": list(one.stages), "measured": list(one.measured), "estimated": list(one.estimated)}
            for one in candidate.numbers
        ],
        "ratio_to_recommended": estimate_of(candidate.ratio) if candidate.ratio is not None else None,
        "deciders": deciders_of(candidate.step.deciders) if candidate.step is not None else [],
    }
    body |= {"operators": None, "boundaries": None}
    if candidate.operators is not None:
        from .record_operators import operators_json

        body["operators"] = operators_json(candidate.operators)
    if candidate.boundaries is not None:
        from .record_boundaries import boundary_json

        body["boundaries"] = [boundary_json(one) for one in candidate.boundaries]
    return body


def time_json(priced: Priced | None) -> dict[str, Any]:
    """The time ledger of a priced plan and the figures that follow from it."""
    if priced is None:
        return {"time_ledger": None, "terms_s": None, "mfu": None, "tokens_per_second": None, "stages": []}
    step, ledger = priced.step, priced.step.ledger
    return {
        "time_ledger": {
            "first_microbatch_s": ledger.first_microbatch_s,
            "bottleneck_s": ledger.bottleneck_s,
            "microbatches": ledger.microbatches,
            "transfer_intra_s": ledger.transfer_intra_s,
            "transfer_inter_s": ledger.transfer_inter_s,
            "exposed_s": ledger.exposed_s,
            "bubble_s": ledger.bubble_s,
            "optimizer_s": ledger.optimizer_s,
        },
        "terms_s": dict(step.terms),
        "mfu": priced.mfu,
        "tokens_per_second": priced.tokens_per_second,
        "stages": [
            {
                "stage": k,
                "forward_s": stage.forward_s,
                "backward_s": stage.backward_s,
                "compute_s": stage.compute_s,
                "communication_s": dict(stage.communication),
            }
            for k, stage in enumerate(step.stages)
        ],
    }


def memory_json(plan: Plan, ledger: tuple[StageMemory, ...]) -> dict[str, Any]:
    """The memory of every stage, and the peak: the stage with the least left."""
    if not ledger:
        return {"memory": [], "peak": None}
    peak = min(ledger, key=lambda memory: memory.capacity_bytes - memory.device.value)
    return {
        "memory": [
            {
                "stage": memory.stage,
                "rank_class": memory.rank_class,
                "first_rank": first_rank(plan, memory.stage),
                "in_flight": float(memory.in_flight),
                "rows": [
                    {"name": r.name, "bytes": r.bytes, "formula": r.formula, "note": r.note, "modelled": r.modelled}
                    for r in memory.rows
                ],
                "allocated_bytes": _bytes(memory.allocated),
                "reserved_bytes": _bytes(memory.reserved),
                "device_bytes": _bytes(memory.device),
                "capacity_bytes": memory.capacity_bytes,
            }
            for memory in ledger
        ],
        "peak": {
            "stage": peak.stage,
            "rank": first_rank(plan, peak.stage),
            "device_bytes": round(peak.device.value),
            "capacity_bytes": peak.capacity_bytes,
        },
    }


def _bytes(estimate: Estimate) -> dict[str, int]:
    return {"value": round(estimate.value), "low": round(estimate.low), "high": round(estimate.high)}


def finding_json(finding: Finding, loaded: LoadedProposal, file: str) -> dict[str, Any]:
    """One finding with its place in `file` and the facts that it is about."""
    place = loaded.place(finding.path)
    return {
        "rule": finding.rule_id,
        "severity": finding.severity.value,
        "phase": finding.phase.value,
        "message": finding.message,
        "remedy": finding.remedy,
        "path": file_of(loaded, place, file),
        "line": place.line,
        "column": place.column,
        "pointer": finding.path,
        "facts": [{"as": name, **_fact(fact)} for name, fact in finding.bindings],
    }


def suppression_json(finding: Finding) -> dict[str, Any] | None:
    """By whom, why and until when a finding is suppressed; None where it is not."""
    by = finding.suppressed
    if by is None:
        return None
    return {
        "reason": by.reason,
        "owner": by.owner,
        "until": by.until.isoformat() if by.until else None,
        "by": "configuration" if by.line is None else "comment",
    }


def override_json(change: Change) -> dict[str, Any]:
    """One change that the configuration made to a rule, and where it is written."""
    return {
        "rule": change.rule,
        "what": change.what,
        "name": change.name or None,
        "before": change.before,
        "after": change.after,
        "path": change.place.file,
        "line": change.place.line,
    }


def _fact(fact: Fact) -> dict[str, Any]:
    values = {name: fact.values[name] for name in sorted(fact.values)}
    return {"kind": fact.kind, "pointer": fact.path, "values": values}


def _where(loaded: LoadedProposal, pointer: str) -> dict[str, Any]:
    place = loaded.place(pointer)
    if place.file not in (None, loaded.document.name):
        file = file_of(loaded, place, in_repository(loaded))
        return {"file": file, "line": place.line, "column": place.column, "pointer": pointer}
    return {"line": place.line, "column": place.column, "pointer": pointer}


def source_file(provenance: Provenance, loaded: LoadedProposal, file: str) -> str | None:
    """The file that a quantity is written in, the proposal by its path in the repository."""
    return file if provenance.file == loaded.document.name else provenance.file


def _quantity(quantity: Quantity) -> dict[str, Any]:
    origin = quantity.provenance
    return {
        "value": quantity.value,
        "unit": quantity.dimension.value,
        "grade": origin.grade.value,
        "source": origin.source or None,
        "date": origin.date,
    }


def _evidence(one: Evidence, loaded: LoadedProposal, file: str) -> dict[str, Any]:
    origin = one.quantity.provenance
    quantity = _quantity(one.quantity)
    if one.quantity.grade is Grade.ESTIMATED and not one.quantity.value:
        # An item that stands for many figures, one a stage: they are in the candidates' ledgers.
        quantity |= {"value": None, "unit": None}
    return {
        "item": one.item,
        "name": one.name,
        **quantity,
        "file": source_file(origin, loaded, file),
        "file_line": origin.line,
        **_where(loaded, one.path),
    }


def _default(one: Assumed, loaded: LoadedProposal) -> dict[str, Any]:
    """A documented default stands among the evidence, as the weakest: its value is the text that would be written."""
    return {
        "item": one.item,
        "name": f"{one.item}, not stated",
        "value": one.value,
        "unit": None,
        "grade": Grade.ASSUMED.value,
        "source": one.why,
        "date": None,
        "file": None,
        "file_line": None,
        **_where(loaded, one.path),
    }


def _signal(signal: CounterSignal, loaded: LoadedProposal) -> dict[str, Any]:
    return {
        "name": signal.name,
        "state": signal.state,
        "text": signal.text,
        "by": signal.by,
        "rule": signal.rule,
        **_where(loaded, signal.path),
    }


def _claims(review: Review) -> list[dict[str, Any]]:
    loaded = review.case.loaded
    rows = []
    for k, claim in enumerate(loaded.stated.claims or ()):
        pointer = f"/claims/{k}"
        baseline = claim.baseline
        rows.append(
            {
                "text": claim.text,
                "metric": claim.metric,
                "value": claim.value,
                "unit": claim.unit,
                "plan": claim.plan,
                "recipe": claim.recipe.model_dump(mode="json") if claim.recipe else None,
                "scaling": claim.scaling,
                "nodes": claim.nodes,
                "baseline": baseline.system if baseline else None,
                "source": claim.source,
                "findings": [finding.rule_id for finding in findings_at(review, pointer)],
                **_where(loaded, pointer),
            }
        )
    return rows


def findings_at(review: Review, pointer: str) -> list[Finding]:
    """The findings about the value at `pointer`, or about what stands in it."""
    return [one for one in review.findings if one.path == pointer or one.path.startswith(pointer + "/")]


def _rejected(space: SpaceReport | None) -> list[dict[str, Any]]:
    return [
        {
            "class": one.class_,
            "plans": one.plans,
            "nearest": one.nearest,
            "stage": one.stage,
            "excess_bytes": one.excess_bytes,
            "largest_row": one.row,
        }
        for one in (space.rejected if space is not None else ())
    ]


def _not_examined(one: NotExamined) -> dict[str, Any]:
    return {
        "capability": one.capability,
        "phase": None,
        "plan": one.plan,
        "through": list(one.through),
        "chain": [_link(link) for link in one.chain],
    }


def _link(link: Link) -> dict[str, Any]:
    return {
        "capability": link.capability,
        "rule": link.rule,
        "title": link.title,
        "message": link.message,
        "pointer": link.path,
    }


def _space(review: Review) -> dict[str, Any] | None:
    space = review.space
    if space is None:
        return None
    return {
        "size": space.size,
        "shapes": space.shapes,
        "dimensions": [{"name": name, "values": values} for name, values in space.dimensions],
        "left_out": [{"name": name, "reason": reason} for name, reason in space.left_out],
        "bounded": space.bounded,
        "priced": space.priced,
        "too_large": space.too_large,
        "fallen": [{"rule": rule, "plans": plans} for rule, plans in space.fallen],
        "ties": space.ties,
        "floor_s": space.floor_s,
        "method": space.method,
        "complete": space.complete,
        "why_recommended": review.why_recommended or None,
        "why_no_fallback": review.fallback_reason or None,
    }


def _amortisation(one: Amortisation | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {
        "against": one.against,
        "saved_per_step_s": one.saved_per_step_s,
        "devices": one.devices,
        "cost_device_seconds": one.cost_device_seconds,
        "break_even_steps": one.break_even_steps,
        "run_steps": one.run_steps,
        "priced_candidates": one.priced_candidates,
        "states_expanded": one.states,
        "profiling_device_seconds": one.profiling_device_seconds,
        "change_over_device_seconds": one.change_over_device_seconds,
    }


def authority_json(review: Review) -> dict[str, Any]:
    """What was asked, what a review takes of it, and what nobody authorised."""
    heading = review.case.loaded.stated.proposal
    return {
        "stated": heading.authority if heading else None,
        "granted": "paper_only",
        "not_authorised": list(NOT_AUTHORISED),
    }
