"""Estimated beside published step times of GPT-3 shapes on A100.

No parameter was fitted to these rows alone; the A100 data sheet's efficiencies come from fits to published iteration times
that the Megatron-LM papers' tables were among, so the rows are not unseen.

    python bench/gpt3_published.py [--json]

The rows stand in `data/gpt3_published.csv`, each with its source. The cluster is DGX A100 nodes with a 200 Gbit/s card
a device; fp16 with fp32 gradients, Adam, dropout, attention not fused. Prints; judges nothing.
"""

from __future__ import annotations

import argparse
import csv
import json
from math import exp, log
from pathlib import Path

from planproof.cluster.cluster import Cluster, Nodes, Tier
from planproof.cost import Uncertainty
from planproof.hardware import load_node
from planproof.model import Attention, Optimizer, Precision, Transformer, Workload
from planproof.plan import Mesh, Plan, Recompute, Schedule, even_stages
from planproof.quantity import Dimension, Grade, Provenance, Quantity

ROWS = Path(__file__).parent / "data" / "gpt3_published.csv"
SOURCE = Provenance(Grade.VENDOR, "NVIDIA Selene: DGX A100 with eight 200 Gbit/s InfiniBand cards a node")


def cluster(nodes: int) -> Cluster:
    sheet = load_node("dgx_a100")
    tiers = [Tier(one.name, one.kind.value, one.island, one.bandwidth, one.latency) for one in sheet.links]
    if nodes > 1:
        bandwidth, latency = Quantity(25e9, Dimension.BANDWIDTH, SOURCE), Quantity(5e-6, Dimension.TIME, SOURCE)
        tiers.append(Tier("fabric", "infiniband", nodes * sheet.devices, bandwidth, latency))
    return Cluster((Nodes(nodes, sheet),), tuple(tiers))


def case(row: dict[str, str]) -> tuple[Plan, Transformer, Workload, Cluster]:
    number = {key: int(row[key]) for key in row if row[key].isdigit()}
    hidden, heads = number["hidden"], number["heads"]
    model = Transformer(
        layers=number["layers"], hidden=hidden, heads=heads, kv_heads=heads, head_dim=hidden // heads, ffn=4 * hidden,
        vocabulary=number["vocabulary"], gated=False, tied_embeddings=True, norm="layer",
        learned_positions=number["sequence"], attention_bias=True, output_bias=True, mlp_bias=True,
    )  # fmt: skip
    precision = Precision("fp16", "fp32", "fp32", "fp32")
    workload = Workload(
        number["sequence"], number["global_batch"], precision, Optimizer("adam", 2, fused=True), Attention.UNFUSED,
        dropout=0.1,
    )  # fmt: skip
    stages = even_stages(number["layers"], number["pipeline"], Mesh(number["data"], number["tensor"]))
    if stages is None:
        raise SystemExit(f"{ROWS.name}: {row['name']}: {row['layers']} layers do not divide by {row['pipeline']} stages")
    plan = Plan(
        row["name"], stages, number["microbatch"], number["global_batch"] // number["data"] // number["microbatch"],
        schedule=Schedule.INTERLEAVED if number["interleave"] > 1 else Schedule.ONE_F_ONE_B,
        interleave=number["interleave"], recompute=Recompute(row["recompute"]),
        sequence_parallel=row["sequence_parallel"] == "yes",
    )  # fmt: skip
    return plan, model, workload, cluster(number["nodes"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print a JSON summary")
    as_json = parser.parse_args().json
    with ROWS.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    results = []
    for row in rows:
        plan, model, workload, machine = case(row)
        found = Uncertainty(model, workload, machine).interval(plan)
        results.append((row["name"], float(row["seconds"]), found))
    errors = [found.value / published - 1 for _, published, found in results]
    summary = {
        "rows": len(results),
        "mape": sum(abs(error) for error in errors) / len(errors),
        "bias": exp(sum(log(1 + error) for error in errors) / len(errors)) - 1,
        "inside_interval": sum(found.low <= published <= found.high for _, published, found in results),
    }
    if as_json:
        named = [
            {
                "name": name,
                "published_s": published,
                "estimate_s": found.value,
                "low_s": found.low,
                "high_s": found.high,
            }
            for name, published, found in results
        ]
        print(json.dumps(summary | {"results": named}, indent=2))
        return
    print(f"{'run':<16}{'published':>11}{'estimate':>10}{'interval':>20}{'error':>9}")
    for (name, published, found), error in zip(results, errors, strict=True):
        interval = f"{found.low:.2f} to {found.high:.2f}"
        print(f"{name:<16}{published:>9.2f} s{found.value:>8.2f} s{interval:>20}{100 * error:>+8.1f} %")
    print(
        f"{summary['rows']} rows, mean error {100 * summary['mape']:.1f} %, bias {100 * summary['bias']:+.1f} %, "
        f"{summary['inside_interval']} inside their 90 % interval"
    )


if __name__ == "__main__":
    main()
