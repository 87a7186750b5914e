"""How tokens reach their experts, as launch arguments of Megatron-LM say it or leave it to its defaults."""

from __future__ import annotations

import pytest
from planproof.importers.launch import SourceFile, read_launch

COMMAND = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
    "--max-position-embeddings 1024 --micro-batch-size 1 --global-batch-size 64 --vocab-size 50304 --bf16 {more}\n"
)
EXPERTS = "--num-experts 8 --moe-router-topk 2 --expert-model-parallel-size 8 "


@pytest.mark.parametrize(
    ("more", "dispatcher", "overlap"),
    [
        ("", None, None),
        (EXPERTS, "allgather", False),
        (EXPERTS + "--moe-token-dispatcher-type alltoall", None, False),
        (EXPERTS + "--moe-token-dispatcher-type flex --moe-enable-deepep", None, False),
        (EXPERTS + "--overlap-moe-expert-parallel-comm", "allgather", None),
    ],
)
def test_defaults_stand_where_nothing_is_said(more: str, dispatcher: str | None, overlap: bool | None) -> None:
    launch = read_launch(SourceFile("run.sh", COMMAND.format(more=more).encode()), "megatron")
    found = {name: launch.part(f"/workload/{name}") for name in ("dispatcher", "dispatch_overlap")}
    assert {name: part.value if part else None for name, part in found.items()} == {
        "dispatcher": dispatcher, "dispatch_overlap": overlap,
    }  # fmt: skip
    assert all("by default" in (part.assumed or "") for part in found.values() if part)


def test_groups_of_the_router_are_shapes() -> None:
    more = EXPERTS + "--moe-router-num-groups 4 --moe-router-group-topk 2"
    launch = read_launch(SourceFile("run.sh", COMMAND.format(more=more).encode()), "megatron")
    base = "/model/transformer/moe/"
    assert (launch.value(base + "route_groups"), launch.value(base + "route_groups_kept")) == (4, 2)
