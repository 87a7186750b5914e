"""Stages of unequal length that a configuration asks for, or that its framework makes by itself: layers by stage.

Sources: Megatron-LM d98e8a64d, megatron/core/transformer/transformer_block.py (`account_for_*`, first and last stage's layers);
DeepSpeed edaa72212, deepspeed/runtime/pipe/module.py (`type:` partitions count matching layers, embeddings at both ends among
them); torchtitan 000204a4a, torchtitan/distributed/pipeline_parallel.py (the ends weigh as layers); nanotron 2411b022,
src/nanotron/models/base.py (blocks by their cost). Knows no keys.
"""

from __future__ import annotations

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


def balanced(layers: int, pipeline: int) -> list[int]:
    """As equal as can be, the longer stages first: how engines cut that count layers and nothing else."""
    each, over = divmod(layers, pipeline)
    return [each + (k < over) for k in range(pipeline)]


def weighed_ends(layers: int, stages: int, *, first: int, last: int) -> list[int] | None:
    """torchtitan's cut: the ends count as layers, what is left over goes to the first stages; None where a stage is empty."""
    total = layers + first + last
    if stages < 1 or stages > total:
        return None
    counts = balanced(total, stages)
    if first > counts[0] or last > counts[-1]:
        return None
    counts[0] -= first
    counts[-1] -= last
    return counts


def by_cost(layer: int, head: int, layers: int, pipeline: int) -> list[int]:
    """nanotron's cut: a block ends its stage where the work up to it passes the stage's share. Zeros are empty stages."""
    counts, stage, total = [0] * pipeline, 0, layer * layers + head
    for k in range(layers):
        counts[stage] += 1
        if layer * (k + 1) * pipeline > total * (stage + 1) and stage < pipeline - 1:
            stage += 1
    return counts


def by_rank(counts: list[int], pipeline: int) -> list[int]:
    """Layers by rank of virtual stages that are dealt out in rounds."""
    return [sum(counts[rank::pipeline]) for rank in range(pipeline)]


def put_layers(draft: Draft, counts: list[int], entry: Entry | None, why: str = "") -> None:
    """The layers of each stage, where they are not equal; without an entry they are the framework's own cut (`why`).

    A stage without a layer cannot be stated: it is noted, and the stages are left as they were.
    """
    if f"{PLAN}/uniform/pipeline" not in draft.parts or len(set(counts)) == 1:
        return
    if min(counts) < 1:
        asked = f"'{entry.key}': " if entry is not None else ""
        text = f"{asked}the stages hold {_shown(counts)} layers; one without any is not modelled, and the plan is read as even"
        draft.note(text, entry.place if entry is not None else None)
    elif entry is not None:
        draft.put(f"{PLAN}/uniform/layers", counts, entry)
    else:
        draft.assume(f"{PLAN}/uniform/layers", counts, why)


def _shown(counts: list[int]) -> str:
    return ", ".join(map(str, counts[:16])) + (" ..." if len(counts) > 16 else "")
