"""Stages of unequal length that a Megatron configuration asks for: layers by stage, and the plan's stages made of them.

Sources: Megatron-LM d98e8a64d, megatron/core/transformer/transformer_block.py (`account_for_*`, first and last stage's layers);
DeepSpeed edaa72212, deepspeed/runtime/pipe/module.py (`type:` partitions count matching layers, embeddings at both ends among
them). Knows no keys.
"""

from __future__ import annotations

from ...errors import Place
from .draft import PLAN, Draft
from .entries import Entry


def counted_ends(layers: int, pipeline: int, *, first: int, last: int) -> list[int] | None:
    """Layers by stage where the embedding counts as `first` layers and the head as `last`; None where it does not divide."""
    total = layers + first + last
    if pipeline < 2 or total % pipeline or total // pipeline <= max(first, last):
        return None
    each = total // pipeline
    return [each - first, *[each] * (pipeline - 2), each - last]


def stated_ends(layers: int, pipeline: int, *, first: int | None, last: int | None) -> list[int] | None:
    """Layers by stage where those of the first and the last are stated and the others are equal."""
    middle = layers - (first or 0) - (last or 0)
    stages = pipeline - (first is not None) - (last is not None)
    if stages < 0 or (stages == 0 and middle) or (stages and (middle < 0 or middle % stages)):
        return None
    each = [middle // stages] * stages if stages else []
    return [*([first] if first is not None else []), *each, *([last] if last is not None else [])]


def put_stages(draft: Draft, counts: list[int], entry: Entry) -> None:
    """The plan as stages in place of degrees; without a number of devices there is no mesh, and the plan stays open."""
    uniform = f"{PLAN}/uniform"
    degrees = {axis: draft.number(f"{uniform}/{axis}") for axis in ("data", "tensor", "context", "expert")}
    expert_tensor = draft.number(f"{uniform}/expert_tensor")
    if degrees["data"] is None:
        drop_degrees(draft, f"'{entry.key}' makes stages of unequal length; their meshes need the number of devices", entry.place)
        return
    mesh = {axis: degree for axis, degree in degrees.items() if degree is not None}
    if expert_tensor is not None:
        mesh["expert_tensor"] = expert_tensor
    devices = mesh["data"] * mesh.get("tensor", 1) * mesh.get("context", 1)
    stages: list[dict[str, object]] = []
    first = 0
    for k, count in enumerate(counts):
        held = [name for name, here in (("embedding", k == 0), ("head", k == len(counts) - 1)) if here]
        stage: dict[str, object] = {"layers": [first, first + count - 1]}
        if held:
            stage["with"] = held
        stages.append(stage | {"devices": devices, "mesh": dict(mesh)})
        first += count
    for path in [path for path in draft.parts if path.startswith(uniform)]:
        draft.drop(path)
    draft.put(f"{PLAN}/stages", stages, entry)


def drop_degrees(draft: Draft, why: str, place: Place) -> None:
    """Take the degrees back: the plan stays open, so that nothing wrong is judged."""
    for path in [path for path in draft.parts if path.startswith(f"{PLAN}/uniform")]:
        draft.drop(path)
    draft.leave(f"{PLAN}/uniform", why, place)
