"""Estimated beside what public reports of large runs state. None of these runs was fitted to.

    python bench/public_runs.py

The rows stand in `data/public_runs.csv`, each with its source; what the report leaves open is a convention of the framework's
family (`engine/calibration/conventions.csv`). Prints measured and estimated seconds, the interval and the terms that most of
the estimate is spent on.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from planproof.calibration.case import cluster_of, device_of, gpt, shape_of, workload_of
from planproof.calibration.table import Row, read_table
from planproof.cost import Uncertainty
from planproof.cost.software import calibrated
from planproof.cost.step_result import StepTime
from planproof.hardware import Library, open_library
from planproof.model import Attention, Dispatcher
from planproof.plan import Mesh, Plan, Recompute, Schedule, Stage, even_stages
from planproof.quantity import Dimension, Estimate, Quantity

ROWS = Path(__file__).parent / "data" / "public_runs.csv"


def plan_of(row: Row, layers: int) -> Plan:
    mesh = Mesh(row.whole("dp"), row.whole("tp"), 1, row.whole("ep"), int(row.text("expert_tensor") or 0) or None)
    sizes = [int(size) for size in row.text("stages").split()]
    stages = even_stages(layers, row.whole("pp"), mesh)
    if sizes:
        ends = [sum(sizes[: k + 1]) for k in range(len(sizes))]
        stages = tuple(
            Stage(end - size, end - 1, mesh, k == 0, k == len(sizes) - 1)
            for k, (size, end) in enumerate(zip(sizes, ends, strict=True))
        )
    if stages is None:
        raise SystemExit(f"{ROWS.name}, line {row.line}: layers do not divide into stages")
    step = row.whole("gbs") // row.whole("dp") // row.whole("mbs")
    return Plan(
        row.text("name"), stages, row.whole("mbs"), step, schedule=Schedule(row.text("schedule")),
        recompute=Recompute(row.text("recompute")), zero=int(row.text("zero_stage")), uniform=not sizes,
        interleave=int(row.text("vpp") or 1), sequence_parallel=row.text("sequence_parallel") == "yes",
    )  # fmt: skip


def estimate(row: Row, library: Library) -> tuple[Uncertainty, StepTime, Estimate]:
    """What prices the row's run, its step and the interval."""
    device = device_of(row, "gpu_type", library, row.text("gpu_mem_gb"))
    if row.text("shape"):
        model = shape_of(row.text("shape"))
        if model is None:
            raise SystemExit(f"{ROWS.name}, line {row.line}: no shapes of {row.text('shape')}")
        model = replace(model, layers=row.whole("layers"))
    else:
        model = gpt(row, *(row.whole(name) for name in ("layers", "hidden", "heads", "vocab", "seq")))
    software = row.text("software")
    attention = None if software else Attention.FLASH
    workload = workload_of(
        software or "megatron-core", row.whole("seq"), row.whole("gbs"), attention=attention, compute=row.text("precision")
    )
    if row.text("dispatcher"):
        overlap = row.text("overlap") == "yes"
        workload = replace(workload, dispatcher=Dispatcher(row.text("dispatcher")), dispatch_overlap=overlap)
    cluster, _ = cluster_of(row, device, row.whole("gpus"), library, node_rate=row.number("node_gbytes") * 1e9)
    if row.text("link_gbytes"):
        inner = cluster.tiers[0]
        rate = Quantity(row.number("link_gbytes") * 1e9, Dimension.BANDWIDTH, inner.bandwidth.provenance)
        cluster = replace(cluster, tiers=(replace(inner, bandwidth=rate), *cluster.tiers[1:]))
    if software:
        cluster = calibrated(cluster, library.calibration, software, carry=library.carried)
    plan = plan_of(row, model.layers)
    sure = Uncertainty(model, workload, cluster, 24)
    step = sure.nominal.simulated(plan)
    return sure, step, sure.interval(plan, step)


def told(row: Row, library: Library) -> None:
    sure, step, found = estimate(row, library)
    seconds = row.number("seconds")
    terms = sorted(((value / step.seconds, name) for name, value in step.terms), reverse=True)[:5]
    print(
        f"{row.text('name'):20s} reported {seconds:6.1f} s, estimated {found.value:6.1f} s ({found.value / seconds:.2f}), "
        f"interval {found.low:.1f} to {found.high:.1f} s; " + ", ".join(f"{name} {share:.0%}" for share, name in terms)
    )
    for reason in sure.exceptions(plan_of(row, row.whole("layers"))):
        print(f"{'':20s} {reason}")


def main() -> None:
    library = open_library()
    for row in read_table(ROWS).rows:
        told(row, library)


if __name__ == "__main__":
    main()
