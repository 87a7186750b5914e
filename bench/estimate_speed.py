"""How long estimates take on one core: one cold, and a thousand configurations.

    python bench/estimate_speed.py

One: GPT-3 175B on 1,024 A100, model, network and plan priced from nothing, and again with its interval. A thousand: the
configurations of that model on that cluster by tensor, pipeline, microbatch, recomputation and schedule, each priced by closed
form as a search does. CPU seconds of this process; prints, judges nothing.
"""

from __future__ import annotations

from itertools import islice, product
from time import process_time

from gpt3_published import cluster
from planproof.cost import TimeModel, Uncertainty
from planproof.model import Attention, Optimizer, Precision, Transformer, Workload
from planproof.plan import Mesh, Plan, Recompute, Schedule, even_stages

MODEL = Transformer(
    layers=96, hidden=12288, heads=96, kv_heads=96, head_dim=128, ffn=49152, vocabulary=51200, gated=False, tied_embeddings=True,
    norm="layer", learned_positions=2048, attention_bias=True, output_bias=True, mlp_bias=True,
)  # fmt: skip
WORK = Workload(
    2048, 1536, Precision("fp16", "fp32", "fp32", "fp32"), Optimizer("adam", 2, fused=True), Attention.UNFUSED, dropout=0.1
)


def plans() -> list[Plan]:
    found = []
    for tensor, pipeline, micro, recompute, zero, split in product(
        (1, 2, 4, 8, 16), (1, 2, 4, 8, 16, 32), (1, 2, 3, 4, 6, 8), Recompute, (0, 1), (False, True)
    ):
        data = 1024 // tensor // pipeline
        stages = even_stages(96, pipeline, Mesh(data, tensor))
        if stages is None or data < 1 or 1536 % (data * micro):
            continue
        found.append(
            Plan(
                "",
                stages,
                micro,
                1536 // data // micro,
                schedule=Schedule.ONE_F_ONE_B,
                recompute=recompute,
                zero=zero,
                sequence_parallel=split,
            )
        )
    return found


def main() -> None:
    machine = cluster(128)
    some = list(islice(plans(), 1000))
    start = process_time()
    model = TimeModel(MODEL, WORK, machine)
    model.simulated(some[len(some) // 2])
    one = process_time() - start
    start = process_time()
    Uncertainty(MODEL, WORK, machine).interval(some[len(some) // 2])
    both = process_time() - start
    start = process_time()
    fresh = TimeModel(MODEL, WORK, machine)
    for plan in some:
        fresh.seconds(plan)
    many = process_time() - start
    print(f"one estimate from nothing: {one * 1e3:.1f} ms; with its interval: {both * 1e3:.1f} ms")
    print(f"{len(some)} configurations: {many:.2f} s")


if __name__ == "__main__":
    main()
