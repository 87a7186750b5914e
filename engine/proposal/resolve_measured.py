"""Measured files of a cluster: the topology of one node, and logs of collectives. Both become evidence of grade `measured`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..cluster import Collective
from ..quantity import Dimension, Grade, Provenance, Quantity
from .case import NodeCase, TopologyFile
from .collector import Collector
from .schema import CollectiveLog, IntraNode

if TYPE_CHECKING:
    from ..importers.collective_log import CollectiveLog as MeasuredLog


def topology_file(intra: IntraNode | None, nodes: list[NodeCase], collect: Collector) -> TopologyFile | None:
    """The topology that a tool printed, as far as it was read; None where no file is named. A count that differs contradicts."""
    if intra is None or intra.file is None:
        return None
    # Importers are imported where a file is there to read: most proposals have none, and lint is to start quickly.
    from ..importers import nvidia_topo, rocm_smi

    path = "/cluster/intra_node/file"
    if intra.kind not in ("nvidia-topo", "rocm-smi"):
        collect.lacks("topology", "/cluster/intra_node/kind", "'kind' of the file: nvidia-topo or rocm-smi", "its maker")
        return None
    raw, name, digest = collect.read(intra.file, path, intra.kind)
    reader = nvidia_topo.read if intra.kind == "nvidia-topo" else rocm_smi.read
    matrix = reader(raw.decode("utf-8", "replace"), name)
    groups = nvidia_topo.islands(matrix)
    found = TopologyFile(
        path=path,
        devices=len(matrix.devices),
        islands=len(groups),
        largest_island=max((len(group) for group in groups), default=1),
        gaps=len(matrix.missing),
        sha256=digest,
        matrix=matrix,
    )
    node_devices = next((node.devices for node in nodes if node.devices), None)
    if node_devices is not None and node_devices != len(matrix.devices):
        collect.contradicts(
            "topology_devices",
            path,
            f"{name} names {len(matrix.devices)} devices, a node as described has {node_devices}",
        )
    return found


def measured_collectives(logs: list[CollectiveLog], collect: Collector) -> tuple[Collective, ...]:
    """The curve of every run in the logs; a cluster without one lacks collective curves."""
    found: list[Collective] = []
    for k, log in enumerate(logs):
        path = f"/cluster/collectives/{k}"
        if log.file is None or log.kind is None:
            gap = "file" if log.file is None else "kind"
            collect.lacks("collective_curves", f"{path}/{gap}", f"'cluster.collectives.{gap}'", "nccl-tests")
            continue
        from ..importers import nccl_tests, torch_allreduce

        raw, name, _ = collect.read(log.file, f"{path}/file", log.kind)
        text = raw.decode("utf-8", "replace")
        read_all = nccl_tests.read_all if log.kind == "nccl-tests" else torch_allreduce.read_all
        for run in read_all(text, name):
            collective = _collective(run, f"{path}/file", name, log.date, collect)
            if collective is not None:
                found.append(collective)
    if not found:
        collect.lacks(
            "collective_curves",
            "/cluster/collectives",
            "measured collectives ('cluster.collectives')",
            "nccl-tests: all_reduce_perf -b 1M -e 4G -f 2 over the groups that the plan uses",
        )
    return tuple(found)


def _collective(
    run: MeasuredLog, path: str, name: str, date: str | None, collect: Collector
) -> Collective | None:
    """One measured run as a curve: see `curve`."""
    from ..importers.collective_log import curve

    points = curve(run)
    if run.operation is None or not run.ranks or not points:
        return None
    provenance = Provenance(
        Grade.MEASURED, f"{run.operation} over {run.ranks} devices", name, run.rows[0].line, date, path
    )
    quantity = Quantity(max(row.busbw_bytes_per_s for row in run.rows if not row.wrong), Dimension.BANDWIDTH, provenance)
    collect.witness(
        "collective_curves", f"bus bandwidth of {run.operation} over {run.ranks} devices", path, quantity
    )
    return Collective(run.operation, run.ranks, run.nodes, points, quantity)
