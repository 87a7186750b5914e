"""The view of a measured file alone: the matrix that a topology tool printed, or logs of collectives. No proposal is needed.

Which format a file has is asked of the importers. One that nobody knows, or that two know, is an error that names them.
"""

from __future__ import annotations

from ..cluster.graph import ClusterGraph
from ..cluster.parts import Machine, Parts
from ..errors import InputError, Place
from ..importers import nccl_tests, nvidia_topo, rocm_smi, torch_allreduce
from ..importers.collective_log import CollectiveLog, curve
from ..importers.nvidia_topo import TopologyMatrix
from ..importers.text_table import Gap
from ..proposal.cluster_parts import measured_of
from ..quantity import Dimension, Grade, Provenance, Quantity
from .cluster_view import ClusterView, MachineRow

_TOPOLOGIES = {"nvidia-topo": nvidia_topo, "rocm-smi": rocm_smi}
_LOGS = {"nccl-tests": nccl_tests, "torch-allreduce": torch_allreduce}
KINDS = (*_TOPOLOGIES, *_LOGS)


def recognised(text: str) -> tuple[str, ...]:
    """The formats that know `text` as theirs."""
    readers = {**_TOPOLOGIES, **_LOGS}
    return tuple(kind for kind, reader in readers.items() if reader.recognises(text))


def bare_view(text: str, name: str) -> ClusterView:
    """What a measured file says. Raises InputError for a file of no known format, DataError for one that cannot be believed."""
    kinds = recognised(text)
    if len(kinds) != 1:
        nothing = "is none of the formats that are known" if text.strip() else "is empty"
        what = f"could be {' or '.join(kinds)}" if kinds else nothing
        raise InputError(
            f"The file {what}.",
            place=Place(name, 1, 1),
            code="input.format",
            remedy=(
                "A proposal begins with 'planproof: 1'; measured files are the whole output of `nvidia-smi topo -m`, "
                "`rocm-smi --showtopo`, nccl-tests or a torch all-reduce benchmark."
            ),
        )
    (kind,) = kinds
    if kind in _TOPOLOGIES:
        return _topology(_TOPOLOGIES[kind].read(text, name), name, kind)
    return _logs(_LOGS[kind].read_all(text, name), name, kind)


def _topology(matrix: TopologyMatrix, name: str, kind: str) -> ClusterView:
    measured = measured_of(matrix, name)
    parts = Parts((Machine("node", 1, "GPU", len(matrix.devices), (), measured=measured),))
    graph = ClusterGraph(parts)
    labels = {vertex.index: vertex.label for vertex in graph.of_kind("device", 0)}
    machine = MachineRow(
        name="node",
        count=1,
        device="GPU",
        devices=len(matrix.devices),
        islands=tuple(tuple(labels[k] for k in island) for island in graph.islands(0)),
        cards=tuple(graph.devices_of_nic(0).items()),
        card_rate=None,
        bisection=graph.node_bisection(0),
        source=name,
        gaps=measured.gaps,
    )
    return _view(name, kind, graph, (machine,), len(matrix.devices), 1, complete=not matrix.missing)


def _logs(logs: tuple[CollectiveLog, ...], name: str, kind: str) -> ClusterView:
    rows: list[tuple[str, Quantity]] = []
    gaps: list[tuple[str, str]] = []
    for log in logs:
        what = f"{log.operation or 'an unnamed operation'} over {log.ranks or 'an unknown number of'} devices"
        what += f" on {log.nodes} {'node' if log.nodes == 1 else 'nodes'}" if log.nodes else ""
        points = curve(log)
        rates = [row.busbw_bytes_per_s for row in log.rows if not row.wrong]
        if points and rates:
            evidence = Provenance(Grade.MEASURED, f"{len(points)} sizes, {log.tool}", name, log.line)
            rows.append((what, Quantity(max(rates), Dimension.BANDWIDTH, evidence)))
        gaps += [(f"{what}: {_gap(gap)}", f"expected {gap.expected}") for gap in log.gaps]
    ranks = {log.ranks for log in logs}
    nodes = {log.nodes for log in logs}
    return _view(
        name, kind, ClusterGraph(Parts(())), (), ranks.pop() if len(ranks) == 1 else None,
        nodes.pop() if len(nodes) == 1 else None, measured=tuple(rows), missing=tuple(gaps),
        complete=all(log.complete and not log.gaps for log in logs),
    )  # fmt: skip


def _gap(gap: Gap) -> str:
    return f"line {gap.line}, {gap.what}" if gap.line else gap.what


def _view(
    name: str, kind: str, graph: ClusterGraph, machines: tuple[MachineRow, ...], devices: int | None, nodes: int | None, *,
    complete: bool, measured: tuple[tuple[str, Quantity], ...] = (), missing: tuple[tuple[str, str], ...] = (),
) -> ClusterView:  # fmt: skip
    return ClusterView(
        path=name, complete=complete, devices=devices, nodes=nodes, connected=True, machines=machines, tiers=(), fabrics=(),
        measured=measured, slowest=None, plans=(), missing=missing, assumed=(), contradictions=(), graph=graph, kind=kind,
    )  # fmt: skip
