"""Facts that hold a profile against itself, the model and the cluster: equal times, no times, other shapes, another device."""

from __future__ import annotations

from collections.abc import Iterator
from math import fsum

from ..model import Transformer, forward_flops_per_token, is_moe, layer_parameters
from ..model.graph_model import GraphModel
from ..proposal import Case, MeasuredProfile, ProfileRow
from ..quantity import Dimension, Quantity
from .fact import Fact, in_field_unit
from .from_graph import graph_of_case
from .kinds import fact

PATH = "/profile/file"
#: A layer of so many times as many parameters is one of another model: biases, norms and padding are below a tenth of it.
OTHER_SHAPES = 1.1
#: Rows that contradict each other of which each gets a fact.
MOST_CONTRADICTIONS = 20


def profile_facts(case: Case) -> Iterator[Fact]:
    """What was measured of stages, or that nothing was, and what is wrong with it."""
    stated, profile = case.loaded.stated.profile, case.profile
    if stated is None:
        return
    if isinstance(stated, str) or profile is None:
        if isinstance(stated, str):
            yield fact("profile", "/profile", stated="none")
        return
    model = model_of(case)
    yield fact(
        "profile",
        "/profile",
        stated="file",
        rows=len(profile.rows),
        grade=case.profile_quantity.grade.value if case.profile_quantity else None,
        memory_method=stated.memory,
        layers=profile.layers,
        model_layers=None if model is None else model.layers,
        ends="separate" if profile.separate_ends else "inside",
        described=None if model is None else "graph" if isinstance(model, GraphModel) else "shapes",
        usable=None if model is None else profile.layers == model.layers,
    )
    for first, second in profile.contradictions[:MOST_CONTRADICTIONS]:
        yield fact(
            "profile_contradiction",
            "/profile/file",
            line=first.line,
            other_line=second.line,
            what=f"layers {first.first}-{first.last} on {first.mesh}, microbatch {first.microbatch}",
        )
    yield from _hygiene(case, profile)
    yield from _rate(case, profile)
    yield from _totals(profile)
    yield from _parameters_by_tensor(profile)


def _rate(case: Case, profile: MeasuredProfile) -> Iterator[Fact]:
    """The row that is fastest against the peak rate: three times the forward FLOPs of its products, on its own mesh.

    A backward pass has two products for each of the forward pass (Kaplan et al. 2020, arXiv 2001.08361, section 2.1); the
    peak is the device's highest, so that nothing real is above it.
    """
    model, work, cluster = model_of(case), case.workload, case.cluster
    if model is None or work is None or cluster is None or not of_this_model(profile, model):
        return
    peak = max((rate.value for group in cluster.nodes for _, rate in group.device.peak_rates), default=0.0)
    if isinstance(model, GraphModel):
        of_layers = list(model.layer_flops)
    else:
        per_token = forward_flops_per_token(model, work.sequence_length, True).linears / model.layers
        of_layers = [per_token * work.sequence_length] * model.layers
    worst: tuple[float, Fact] | None = None
    for row in profile.rows:
        shift = 1 if profile.separate_ends else 0
        inside = of_layers[max(0, row.first - shift) : row.last + 1 - shift]
        if row.time is None or not inside or not peak:
            continue
        flops = 3 * fsum(inside) * row.microbatch / (row.mesh.tensor * row.mesh.context)
        floor = flops / peak
        ratio = floor / row.time if row.time else float("inf")
        if worst is None or ratio > worst[0]:
            worst = ratio, fact(
                "profile_rate",
                "/profile/file",
                line=row.line,
                first_layer=row.first,
                last_layer=row.last,
                time_ns=in_field_unit(row.time, "time_ns"),
                floor_ns=in_field_unit(floor, "floor_ns"),
            )
    if worst is not None:
        yield worst[1]


def _totals(profile: MeasuredProfile) -> Iterator[Fact]:
    """Stated totals against sums over single-layer rows, by (mesh, microbatch)."""
    groups: dict[tuple[int, int], list[int]] = {}
    for k, row in enumerate(profile.rows):
        if row.layers == 1:
            groups.setdefault((row.mesh.tensor, row.microbatch), []).append(k)
    for quantity in ("memory", "time"):
        found = []
        for (tensor, microbatch), members in groups.items():
            rows = [profile.rows[k] for k in members]
            totals: set[float | None]
            parts: list[float | None]
            if quantity == "memory":
                totals, parts, scale = {row.total_memory for row in rows}, [row.memory for row in rows], 1.0
            else:
                totals, parts, scale = {row.total_time for row in rows}, [row.time for row in rows], 1e9
            total = next(iter(totals))
            if len(totals) != 1 or total is None or any(part is None for part in parts):
                continue
            sum_ = round(scale * fsum(part for part in parts if part is not None))
            found.append((tensor, microbatch, round(scale * total), sum_))
        same = len(found) > 1 and len({stated for _, _, stated, _ in found}) == 1
        for tensor, microbatch, stated, sum_ in found:
            yield fact(
                "profile_total",
                "/profile/file",
                quantity=quantity,
                tensor=tensor,
                microbatch=microbatch,
                stated=stated,
                sum=sum_,
                deviation_ppm=round(1e6 * abs(stated - sum_) / sum_) if sum_ else 0,
                same_everywhere=same,
            )


def _parameters_by_tensor(profile: MeasuredProfile) -> Iterator[Fact]:
    by_layer: dict[int, dict[int, int]] = {}
    for row in profile.rows:
        if row.layers == 1 and row.parameters is not None:
            by_layer.setdefault(row.first, {}).setdefault(row.mesh.tensor, row.parameters)
    for layer, by_tensor in sorted(by_layer.items()):
        low, high = min(by_tensor), max(by_tensor)
        if low != high:
            yield fact(
                "profile_parameters",
                "/profile/file",
                layer=layer,
                tensor_low=low,
                tensor_high=high,
                same=by_tensor[low] == by_tensor[high],
            )


def _hygiene(case: Case, profile: MeasuredProfile) -> Iterator[Fact]:
    """What a profile says that no measurement of this model on these devices would."""
    yield from _layouts(profile)
    for what, rows in (
        ("time", [row for row in profile.rows if row.instant]),
        ("memory", [row for row in profile.rows if row.weightless or (row.activation == 0 and not _end(row, profile))]),
        ("half", [row for row in profile.rows if row.half]),
    ):
        if rows:
            yield fact("profile_cells", PATH, what=what, rows=len(rows), line=rows[0].line)
    for heading in profile.unread:
        yield fact("profile_column", PATH, column=heading[:100], file=profile.name, line=profile.header)
    yield from _shapes(case, profile)
    named = next((row.device for row in profile.rows if row.device), None)
    devices = {node.device for node in case.described.nodes if node.device}
    if named is not None and devices:
        plain, others = _plain(named), [_plain(one) for one in devices]
        if not any(plain in one or one in plain for one in others):
            yield fact("profile_device", PATH, device=named[:100], cluster_device=", ".join(sorted(devices)))


def _end(row: ProfileRow, profile: MeasuredProfile) -> bool:
    """Whether a row is of the embedding or the head alone, which may keep nothing that a layer does not keep."""
    return profile.separate_ends and row.first == row.last and row.first in (0, profile.layers + 1)


def _plain(name: str) -> str:
    return "".join(char for char in name.lower() if char.isalnum())


def _layouts(profile: MeasuredProfile) -> Iterator[Fact]:
    """The same layers and microbatch at the smallest and the largest tensor degree that was timed."""
    times: dict[tuple[int, int, int], dict[int, float]] = {}
    for row in profile.rows:
        if row.time is not None:
            times.setdefault((row.first, row.last, row.microbatch), {}).setdefault(row.mesh.tensor, row.time)
    for (first, last, _), by_tensor in sorted(times.items()):
        low, high = min(by_tensor), max(by_tensor)
        if low != high:
            yield fact(
                "profile_layouts", PATH, first_layer=first, last_layer=last, tensor_low=low, tensor_high=high,
                same=by_tensor[low] == by_tensor[high],
            )  # fmt: skip


def model_of(case: Case) -> Transformer | GraphModel | None:
    """What the profile is held against: the model's shapes, or its graph where that is all there is; None where neither."""
    return case.model or graph_of_case(case)


def of_this_model(profile: MeasuredProfile, model: Transformer | GraphModel) -> bool:
    """Whether the profile has the model's layers. Those of a graph hold its ends: nothing of it has rows of its own."""
    return profile.layers == model.layers and not (profile.separate_ends and isinstance(model, GraphModel))


def usable_profile(case: Case) -> MeasuredProfile | None:
    """The profile where it is of this model: of as many layers, and a layer of it of as many parameters."""
    profile, model = case.profile, model_of(case)
    if profile is None or model is None or not of_this_model(profile, model):
        return None
    found = _layer(model, profile)
    if found is not None and max(found[1:]) > OTHER_SHAPES * min(found[1:]):
        return None
    return profile


def _shapes(case: Case, profile: MeasuredProfile) -> Iterator[Fact]:
    """Parameters of the first layer that the profile gives by itself, against the model's."""
    model = model_of(case)
    if model is None or not of_this_model(profile, model):
        return
    found = _layer(model, profile)
    if found is not None:
        layer, stated, known = found
        ratio = max(stated, known) / min(stated, known)
        yield fact(
            "profile_shapes", PATH, layer=layer, stated=stated, counted=known,
            ratio_ppm=round(1e6 * min(ratio, 1e9)),
        )  # fmt: skip


def _layer(model: Transformer | GraphModel, profile: MeasuredProfile) -> tuple[int, int, int] | None:
    """(layer, its parameters by the profile, by the model) of the first inner layer that the profile gives by itself."""
    offset = 1 if profile.separate_ends else 0
    for row in profile.rows:
        layer = row.first - offset
        # What the ends hold beside their layer is not told apart.
        if row.layers == 1 and row.parameters and 0 < layer < model.layers - 1:
            known = _parameters(model, layer)
            if known:
                return layer, row.parameters * row.mesh.tensor, known
    return None


def _parameters(model: Transformer | GraphModel, layer: int) -> int:
    """Parameters of a layer; 0 where a row may mean another number: experts may be divided, shared ones lie elsewhere."""
    if isinstance(model, GraphModel):
        return 0 if any(layer in layers for layers in model.shared.values()) else model.layer_parameters(layer)
    return 0 if is_moe(model, layer) else layer_parameters(model, False).total


def largest(item: str, profile: MeasuredProfile, source: Quantity) -> Quantity:
    """The largest that the profile has of an item: its longest time, its most bytes; of the whole where no part is told apart."""
    if item == "stage_latency":
        return source
    named = "workspace" if item == "workspace" else "activation"
    for column in (named, "memory"):
        values = [value for row in profile.rows if (value := getattr(row, column)) is not None]
        if values:
            return Quantity(max(values), Dimension.BYTES, source.provenance)
    return source
