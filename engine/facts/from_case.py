"""Facts about a proposal as a whole: what is stated, what is missing, and how good the evidence is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date

from ..model import forward_flops_per_token, layer_runs, parameters, problems
from ..proposal import Case, Evidence, Missing
from ..proposal.schema import Policy
from ..quantity import Dimension, Grade, Provenance, Quantity
from .fact import Fact, in_field_unit
from .from_graph import unpriced, without_attention
from .from_profile import largest, model_of, profile_facts, usable_profile
from .from_shapes import in_words, shapes_facts
from .kinds import fact
from .words import PRECISION_ROLES

ESTIMATED = Provenance(Grade.ESTIMATED, "cost model over the device's data sheet")
#: What a profile would measure; estimated where a data sheet exists, missing where neither does.
MEASURABLE = (
    ("stage_latency", "latency of each stage, forward and backward", "a profiling run of single stages on one mesh"),
    ("workspace", "workspace memory of each stage", "the same profiling run: peak less what persists"),
    ("activation_memory", "activation memory of one microbatch in flight", "the same profiling run, by stage"),
)
#: Contradictions of one profile that are told; the first of them is enough to refuse it.
MOST_CONTRADICTIONS = 20
EVIDENCE_ITEMS = (
    "link_bandwidth", "link_latency", "device_memory", "contention", "stage_latency", "workspace", "activation_memory",
    "collective_curves", "compute_rate", "memory_bandwidth", "launch_overhead", "framework_context", "allocator_reserve",
)  # fmt: skip


def gaps(case: Case) -> tuple[Missing, ...]:
    """All that is missing: what the proposal lacks, and what neither a profile nor a data sheet can give."""
    stated = [one for one in case.missing if one.item != "attention" or not without_attention(case)]
    return (*stated, *(gap for gap, _ in _measurables(case) if gap is not None))


def evidence(case: Case) -> tuple[Evidence, ...]:
    """All evidence: what was stated or read, and what has to be estimated in place of a measurement."""
    return (*case.evidence, *(item for _, item in _measurables(case) if item is not None))


def _measurables(case: Case) -> Iterator[tuple[Missing | None, Evidence | None]]:
    profile = usable_profile(case) if model_of(case) is not None else case.profile
    held = {
        "stage_latency": profile is not None and any(row.time is not None for row in profile.rows),
        "workspace": profile is not None and any(row.workspace is not None for row in profile.rows),
        "activation_memory": profile is not None and any(row.activation is not None for row in profile.rows),
    }
    if profile is not None and any(row.memory is not None for row in profile.rows):
        held["workspace"] = held["activation_memory"] = True
    described = case.described
    sheet = described.bare_device is not None or any(node.device is not None for node in described.nodes)
    for item, name, how in MEASURABLE:
        if held[item] and case.profile_quantity is not None:
            assert profile is not None
            yield None, Evidence(item, name, "/profile", largest(item, profile, case.profile_quantity))
        elif sheet:
            yield None, Evidence(item, name, "/profile", Quantity(0, Dimension.TIME, ESTIMATED))
        elif case.described.nodes or case.described.bare_devices:
            yield Missing(item, "/profile", f"the {name}: neither a profile nor a data sheet of the device", how), None


def case_facts(case: Case, today: date | None = None) -> list[Fact]:
    """Every fact that does not depend on a particular plan. `today` dates evidence; None leaves its age out."""
    facts = [_proposal(case), *_framework(case), *_launches(case), *_left_out(case)]
    for gap in gaps(case) if not case.loaded.bare else ():
        facts.append(
            fact("missing", gap.path, item=gap.item, what=gap.what, plan=gap.plan, role=gap.role.value if gap.role else None)
        )
    for clash in case.contradictions:
        facts.append(fact("contradiction", clash.path, code=clash.code, detail=clash.detail, plan=clash.plan))
    for default in case.assumed:
        key = default.item.rsplit(".", 1)[-1]
        facts.append(
            fact("assumed", default.path, item=default.item, key=key, value=default.value, why=default.why)
        )
    items = evidence(case)
    facts += [_evidence(item, today) for item in items]
    facts += _policy(case.loaded.stated.policy, items)
    facts += [*_model(case), *shapes_facts(case), *_workload(case), *_cluster(case), *profile_facts(case), *_claims(case)]
    limits = case.loaded.stated.layouts
    if limits is not None:
        stated = "all" if isinstance(limits, str) else "limited"
        max_axes = None if isinstance(limits, str) else limits.max_axes
        facts.append(fact("layouts", "/layouts", stated=stated, max_axes=max_axes))
    cost = case.loaded.stated.planning_cost
    parts = [part.value for part in (cost.profiling, cost.change_over) if part is not None] if cost else []
    facts.append(fact("planning", "/planning_cost", cost_device_seconds=round(sum(parts)) if parts else None))
    return facts


def _framework(case: Case) -> list[Fact]:
    heading = case.loaded.stated.proposal
    if heading is None or heading.framework is None:
        return []
    from .from_framework import framework_facts  # a proposal that names none does not pay for it

    facts = framework_facts(case)
    if heading.framework.settings:
        from .from_settings import batch_schedule_facts

        facts += batch_schedule_facts(case)
    return facts


def _left_out(case: Case) -> Iterator[Fact]:
    """What was not taken over from the model's configuration."""
    for k, one in enumerate(case.left_out):
        if one.up_to is not None and case.sequence_length is not None and case.sequence_length <= one.up_to:
            continue
        yield fact(
            "config_left_out", f"/model/config/file/{k}", what="part" if one.why else "unknown", why=one.why or None,
            keys=", ".join(one.keys[:8])[:200], count=len(one.keys), file=one.file,
        )  # fmt: skip


def _launches(case: Case) -> Iterator[Fact]:
    """What became of launch files; of one on its own also all that it lacks."""
    launched = case.loaded.launched
    if launched is None:
        return
    for number, (launch, path) in enumerate(launched.files):
        counts = {use.value: count for use, count in launch.counts().items()}
        unknown = [key.name for key in launch.keys if key.use.value == "not understood"]
        yield fact(
            "launch",
            "/launch",
            launch_kind=launch.kind,
            file=path,
            read=counts["read"],
            aside=counts["set aside"],
            unknown=len(unknown),
            unknown_keys=", ".join(unknown[:8]) or None,
        )
        for gap in launch.gaps[:MOST_CONTRADICTIONS] if not case.loaded.bare else ():
            at = gap.path.replace("/plans/0", launched.plan, 1)
            if at not in launched.taken:
                yield fact("launch_gap", at, what="open", why=gap.why, file=path, line=gap.place.line)
        for k, (said, place) in enumerate(launch.notes[:MOST_CONTRADICTIONS]):
            yield fact("launch_gap", f"/launch/{number}/said/{k}", what="said", why=said, file=path, line=place.line)
    if case.loaded.bare:
        lacking = list(dict.fromkeys(gap.item for gap in gaps(case)))
        if lacking:
            open_ = [gap for launch, _ in launched.files for gap in launch.gaps if gap.path not in launched.taken]
            left = [gap.why for gap in open_ if "'" in gap.why]
            words = ", ".join(item.replace("_", " ") for item in lacking[:12]) + (" and more" if len(lacking) > 12 else "")
            words += f"; the file leaves open: {'; '.join(left[:3])}" if left else ""
            known = {"launch.zero": "ZeRO", "launch.recompute": "recompute", "launch.schedule": "schedule"}
            filled = [(known[default.item], default.value) for default in case.assumed if default.item in known]
            yield fact(
                "unstated", "", count=len(lacking), items=words, launch_kind=launched.files[0][0].kind,
                defaults=", ".join(f"{name} {value}" for name, value in filled) or "none that decides memory or time",
            )  # fmt: skip


def _proposal(case: Case) -> Fact:
    heading = case.loaded.stated.proposal
    framework = heading.framework if heading else None
    return fact(
        "proposal",
        "/proposal",
        objective=heading.objective if heading else None,
        scaling=heading.scaling if heading else None,
        framework=case.framework,
        framework_version=framework.version if framework else None,
        authority=heading.authority if heading else None,
        run_steps=case.run_steps,
        run_tokens=case.run_tokens,
    )


def _evidence(item: Evidence, today: date | None) -> Fact:
    by = item.quantity.provenance
    grade, dated = by.grade, by.date
    age = (today - date.fromisoformat(dated)).days if today is not None and dated and len(dated) == 10 else None
    return fact(
        "evidence",
        item.path,
        item=item.item,
        name=item.name,
        grade=grade.value,
        grade_rank=grade.rank,
        age_days=age,
        sourced=bool(by.source) or (by.file is not None and by.line is None),
        dated=dated is not None,
    )


def _policy(policy: Policy | None, items: Iterable[Evidence]) -> Iterator[Fact]:
    if policy is not None and policy.headroom is not None:
        yield fact(
            "policy", "/policy/headroom", headroom_ppm=in_field_unit(policy.headroom.value, "headroom_ppm")
        )
    known = {item.item for item in items} | set(EVIDENCE_ITEMS)
    for item, grade in (policy.require or {}).items() if policy else ():
        yield fact(
            "demand",
            f"/policy/require/{item}",
            item=item,
            grade=grade,
            grade_rank=Grade(grade).rank,
            known=item in known,
        )


def _model(case: Case) -> Iterator[Fact]:
    model, graph = case.model, case.graph
    if graph is not None:
        yield fact(
            "graph", graph.path, operators=graph.operators, layers=graph.layers, layer_operators=graph.layer_operators,
            parameters=graph.parameters, gflop=graph.forward_flops // 10**9, alone=model is None,
            family=graph.family, unpriced=unpriced(case) or None,
        )  # fmt: skip
    if model is None:
        return
    path = "/model/transformer" if case.loaded.stated.model and case.loaded.stated.model.transformer else "/model/config"
    for problem in problems(model):
        at = f"{path}/{problem.field.replace('.', '/')}" if path == "/model/transformer" else path
        detail = in_words(problem.code, problem.field, dict(problem.detail), case)
        yield fact("shape_problem", at, code=problem.code, detail=detail)
    flops = forward_flops_per_token(model, case.sequence_length or 1, True)
    layer = (flops.linears + flops.attention) / model.layers
    yield fact(
        "model",
        path,
        name=model.name or model.family,
        layers=model.layers,
        hidden=model.hidden,
        heads=model.heads,
        kv_heads=model.kv_heads,
        head_dim=model.head_dim,
        ffn=model.ffn,
        vocabulary=model.vocabulary,
        experts=model.moe.experts if model.moe else None,
        top_k=model.moe.top_k if model.moe else None,
        positions=model.learned_positions or None,
        tied=model.tied_embeddings,
        biases=model.mlp_bias,
        latent=model.latent is not None,
        capacity_ppm=round(1e6 * model.moe.capacity_factor) if model.moe and model.moe.capacity_factor else None,
        parameters=parameters(model),
        layer_kinds=len({moe for _, _, moe in layer_runs(model)}),
        ends_share_ppm=round(1e6 * flops.head / layer) if layer else 0,
    )


def _workload(case: Case) -> Iterator[Fact]:
    stated = case.loaded.stated.workload
    if stated is None:
        return
    tokens = case.global_batch * case.sequence_length if case.global_batch and case.sequence_length else None
    yield fact(
        "workload",
        "/workload",
        sequence_length=case.sequence_length,
        global_batch_sequences=case.global_batch,
        global_batch_tokens=tokens,
        batch_remainder_tokens=case.batch_remainder_tokens or None,
        optimizer=stated.optimizer.name if stated.optimizer else None,
        optimizer_known=case.workload is not None or None,
        attention=stated.attention,
        dispatcher=case.workload.dispatcher.value if case.workload and case.workload.dispatcher else stated.dispatcher,
        dispatch_overlap=case.workload.dispatch_overlap if case.workload else stated.dispatch_overlap,
        dynamic_shapes=stated.dynamic_shapes,
        document_mask=stated.packing.document_mask if stated.packing else None,
        loss_scaling=stated.loss_scaling,
        dropout_ppm=in_field_unit(stated.dropout, "dropout_ppm") if stated.dropout is not None else None,
    )
    for role in PRECISION_ROLES:
        dtype = getattr(stated.precision, role) if stated.precision else None
        if dtype is not None:
            yield fact("precision", f"/workload/precision/{role}", role=role, dtype=dtype)


def _cluster(case: Case) -> Iterator[Fact]:
    from .from_topology import topology_facts

    described, stated = case.described, case.loaded.stated.cluster
    if stated is None:
        return
    nodes = described.nodes
    inner = [link for link in described.links if link.tier != "fabric"]
    vendors = {group.device.name: group.device.vendor.lower() for group in case.cluster.nodes} if case.cluster else {}
    counts = [node.count for node in nodes if node.count is not None]
    yield fact(
        "cluster",
        "/cluster",
        devices=described.devices,
        nodes=sum(counts) if nodes and len(counts) == len(nodes) else None,
        devices_per_node=nodes[0].devices if nodes else None,
        device_types=len({node.device for node in nodes if node.device}) or None,
        island=inner[0].span if inner else None,
        connected=None if described.parts is None else described.parts == 1,
        parts=described.parts,
        bare_count=not nodes and described.bare_devices is not None,
    )
    for node in nodes:
        if node.count is not None and node.devices is not None and node.device is not None:
            yield fact(
                "node_type",
                node.path,
                name=node.name,
                count=node.count,
                devices=node.devices,
                device=node.device,
                memory_bytes=round(node.memory.value) if node.memory else None,
                memory_grade=node.memory.grade.value if node.memory else None,
                sheet_memory_bytes=round(node.sheet_memory.value) if node.sheet_memory else None,
                nics=node.nics[0] if node.nics else None,
                nic_bandwidth_bytes_per_s=round(node.nics[1].value) if node.nics else None,
                vendor=vendors.get(node.device),
            )
    fabrics = [link for link in described.links if link.tier == "fabric" and link.bandwidth is not None]
    slowest = min(fabrics, key=lambda link: link.bandwidth.value if link.bandwidth else 0.0, default=None)
    for k, link in enumerate(described.links):
        # Fabrics lie side by side: what is inside each is the node.
        inside = [one for one in described.links[:k] if "fabric" not in {one.tier} & {link.tier}]
        before = inside[-1] if inside else None
        faster = slower = None
        if link in fabrics and slowest is not None and link.bandwidth is not None and slowest.bandwidth is not None:
            slower = slowest.name if link.bandwidth.value > slowest.bandwidth.value else None
        if before is not None and before.bandwidth is not None and link.bandwidth is not None:
            faster = link.bandwidth.value > before.bandwidth.value
        yield fact(
            "link",
            link.path,
            name=link.name,
            tier=link.tier,
            medium=link.medium,
            bandwidth_bytes_per_s=round(link.bandwidth.value) if link.bandwidth else None,
            latency_ns=in_field_unit(link.latency.value, "latency_ns") if link.latency else None,
            span=link.span,
            grade=link.bandwidth.grade.value if link.bandwidth else None,
            nics=link.nics,
            nic_bandwidth_bytes_per_s=round(link.nic_bandwidth.value) if link.nic_bandwidth else None,
            uneven_share=_uneven(link.nics, nodes[0].devices if nodes else None),
            faster_than_inner=faster,
            priced_as=slower,
        )
    yield from topology_facts(case)
    contention = stated.contention
    if isinstance(contention, str):
        yield fact("contention", "/cluster/contention", stated="none")
    elif contention is not None:
        share = in_field_unit(contention.share.value, "share_ppm") if contention.share else None
        yield fact(
            "contention", "/cluster/contention", stated="shared", share_ppm=share, changing=contention.changing
        )


def _uneven(cards: int | None, devices: int | None) -> bool | None:
    """Whether some devices of a node share a card and others do not."""
    return None if cards is None or devices is None else cards < devices and devices % cards != 0


def _claims(case: Case) -> Iterator[Fact]:
    if case.loaded.stated.claims:
        from .from_claims import claim_facts  # most proposals quote nothing

        yield from claim_facts(case)
