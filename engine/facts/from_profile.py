"""Facts that hold a profile against itself, the model and the cluster: equal times, no times, other shapes, another device."""

from __future__ import annotations

from collections.abc import Iterator

from ..model import Transformer, is_moe, layer_parameters
from ..proposal import Case, MeasuredProfile, ProfileRow
from .fact import Fact
from .kinds import fact

PATH = "/profile/file"
#: A layer of so many times as many parameters is one of another model: biases, norms and padding are below a tenth of it.
OTHER_SHAPES = 1.1


def hygiene_facts(case: Case, profile: MeasuredProfile) -> Iterator[Fact]:
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


def usable_profile(case: Case) -> MeasuredProfile | None:
    """The profile where it is of this model: of as many layers, and a layer of it of as many parameters."""
    profile, model = case.profile, case.model
    if profile is None or model is None or profile.layers != model.layers:
        return None
    found = _layer(model, profile)
    if found is not None and max(found[1:]) > OTHER_SHAPES * min(found[1:]):
        return None
    return profile


def _shapes(case: Case, profile: MeasuredProfile) -> Iterator[Fact]:
    """Parameters of the first layer that the profile gives by itself, against the model's."""
    model = case.model
    if model is None or profile.layers != model.layers:
        return
    found = _layer(model, profile)
    if found is not None:
        layer, stated, known = found
        ratio = max(stated, known) / min(stated, known)
        yield fact(
            "profile_shapes", PATH, layer=layer, stated=stated, counted=known,
            ratio_ppm=round(1e6 * min(ratio, 1e9)),
        )  # fmt: skip


def _layer(model: Transformer, profile: MeasuredProfile) -> tuple[int, int, int] | None:
    """(layer, its parameters by the profile, by the model's shapes) of the first inner layer that the profile gives by itself."""
    offset = 1 if profile.separate_ends else 0
    for row in profile.rows:
        layer = row.first - offset
        inner = 0 < layer < model.layers - 1  # what the ends hold beside their layer is not told apart
        if row.layers == 1 and row.parameters and inner and not is_moe(model, layer):
            stated = row.parameters * row.mesh.tensor
            return layer, stated, layer_parameters(model, False).total
    return None
