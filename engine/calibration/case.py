"""One measured run as the product's own inputs: model, workload, cluster, plan, and the seconds that were measured.

Vocabulary: a *software* family is a training framework of a time whose kernels and overlap are alike (`conventions.csv`:
what its runs do where a table does not say); a *machine* is a node type with the rate between its nodes (`machines.csv`);
a *group* is what a fold leaves out together; a *sweep* holds runs of one model, batch and machine that differ in their
plan. What was taken from a convention is listed in `assumed`. Nothing here reads files of measurements or fits anything.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files

from ..cluster.cluster import Cluster, Nodes, Tier
from ..cost.sending import Transfer
from ..errors import InputError
from ..hardware import DeviceSheet, Library, NodeSheet
from ..hardware.sheets import same_name
from ..model import Attention, LatentAttention, MixtureOfExperts, Optimizer, Precision, Transformer, Workload, problems
from ..plan import Mesh, Plan, Recompute, Schedule, Stage, even_stages
from ..quantity import Dimension, Grade, Provenance, Quantity
from .table import Rejected, Row

#: Rates between nodes by convention are what a vendor states of the cards.
_LATENCY = Quantity(5e-6, Dimension.TIME, Provenance(Grade.ASSUMED, "one step between nodes over a switch"))


@dataclass(frozen=True, slots=True)
class Case:
    """One run. `measured_stages`: (forward, backward) seconds of a microbatch by stage, where those were measured too."""

    row: Row
    model: Transformer
    workload: Workload
    cluster: Cluster
    plan: Plan
    seconds: float
    device: str
    software: str
    source: str
    group: str
    sweep: tuple[object, ...]
    assumed: tuple[str, ...] = ()
    measured_stages: tuple[tuple[float, float], ...] = field(default=(), compare=False)
    outside: float = 0.0

    @property
    def identity(self) -> tuple[object, ...]:
        """What makes two rows the same run: configuration and machine, not the time."""
        return (self.device, self.software, self.model, self.workload, self.plan.identity, self.plan.devices)


@cache
def _records(name: str) -> tuple[dict[str, str], ...]:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def convention(software: str) -> dict[str, str]:
    """What runs of a software family do where a table does not say."""
    return next(record for record in _records("conventions.csv") if record["software"] == software)


def transfer_of(software: str) -> Transfer:
    """How runs of a software family send between stages."""
    return Transfer(convention(software)["transfer"])


def software_names() -> tuple[str, ...]:
    """All families with conventions."""
    return tuple(record["software"] for record in _records("conventions.csv"))


def shape_of(name: str) -> Transformer | None:
    """The shapes of a model that a table names without stating them; None where the name is not known."""
    wanted = same_name(name.replace("(", "").replace(")", "").split(" SFT")[0].split(" LoRA")[0])
    for record in _records("shapes.csv"):
        if same_name(record["name"]) == wanted:
            return _shape(record)
    return None


def _shape(record: dict[str, str]) -> Transformer:
    number = {key: int(value) for key, value in record.items() if value.isdigit()}
    moe = latent = None
    if "experts" in number:
        moe = MixtureOfExperts(
            number["experts"], number["top_k"], number["moe_ffn"], first_dense=number.get("first_dense", 0),
            shared_experts=number.get("shared_experts", 0),
            shared_ffn=number["moe_ffn"] if number.get("shared_experts") else 0,
            route_groups=number.get("route_groups", 1), route_groups_kept=number.get("route_groups_kept", 1),
        )  # fmt: skip
    if "kv_rank" in number:
        latent = LatentAttention(number["kv_rank"], number["q_rank"], 64, 128, 128)
    gated = record["gated"] == "yes"
    return Transformer(
        layers=number["layers"], hidden=number["hidden"], heads=number["heads"], kv_heads=number["kv_heads"],
        head_dim=number["head_dim"], ffn=number["ffn"], vocabulary=number["vocabulary"], gated=gated,
        tied_embeddings=record["tied"] == "yes", norm="rms" if gated else "layer",
        learned_positions=0 if gated else 2048, moe=moe, latent=latent, name=record["name"],
    )  # fmt: skip


def gpt(
    row: Row, layers: int, hidden: int, heads: int, vocabulary: int, sequence: int, *, ffn: int = 0, tied: bool = True
) -> Transformer:
    """A GPT of these widths, biases and learned positions included. Rejected where the widths cannot be."""
    if hidden % heads:
        raise Rejected(
            "contradictory: heads do not divide hidden", f"{row.file}, line {row.line}: {heads} heads, hidden {hidden}"
        )
    model = Transformer(
        layers=layers, hidden=hidden, heads=heads, kv_heads=heads, head_dim=hidden // heads, ffn=ffn or 4 * hidden,
        vocabulary=vocabulary, gated=False, tied_embeddings=tied, norm="layer", learned_positions=sequence,
        attention_bias=True, output_bias=True, mlp_bias=True,
    )  # fmt: skip
    for problem in problems(model):
        raise Rejected(f"contradictory: {problem.field}", f"{row.file}, line {row.line}: {problem.code}")
    return model


def workload_of(
    software: str, sequence: int, global_batch: int, *, attention: Attention | None = None, compute: str = ""
) -> Workload:
    """The workload that a family runs by convention; `attention` and `compute` as stated by the table."""
    known = convention(software)
    parameters = compute or known["parameters"]
    wide = "bf16" if parameters == "fp8" else parameters
    precision = Precision(
        wide, known["gradients"], "fp32", "fp32", known["communication"] or None, "fp8" if parameters == "fp8" else None
    )
    return Workload(
        sequence, global_batch, precision, Optimizer("adam", 2, fused=known["fused_optimizer"] == "yes"),
        attention or Attention(known["attention"]), dropout=float(known["dropout"]),
    )  # fmt: skip


def device_of(row: Row, column: str, library: Library, memory: str = "") -> DeviceSheet:
    """The data sheet of the device that a cell names; with `memory` in GB where the name alone is of several."""
    text = row.text(column)
    if not text:
        raise row.reject("incomplete: device is not stated", column, "a device type is needed")
    for name in (f"{text}-{memory}GB" if memory else text, text):
        try:
            return library.device(name)
        except InputError:
            continue
    raise row.reject("unknown device", column, "no data sheet has this name")


def cluster_of(
    row: Row, device: DeviceSheet, devices: int, library: Library, machine: str = "", per_node: int = 0, node_rate: float = 0.0
) -> tuple[Cluster, str]:
    """`devices` of one type in nodes of its usual kind, and what was assumed. `node_rate`: bytes/s a node, where stated."""
    records = [one for one in _records("machines.csv") if one["device"] == device.name]
    chosen = next((one for one in records if one["match"] and one["match"] in machine.lower()), None)
    chosen = chosen or next((one for one in records if not one["match"]), None)
    if chosen is None:
        raise Rejected("not modelled: no node type of the device", f"{row.file}, line {row.line}: {device.name}")
    sheet = library.node(chosen["node"])
    inside = min(per_node or sheet.devices, devices)
    if devices % inside:
        raise Rejected(
            "contradictory: devices do not fill nodes", f"{row.file}, line {row.line}: {devices} devices, {inside} a node"
        )
    sheet = replace(_node(sheet, inside), device=device)
    tiers = [Tier(one.name, one.kind.value, one.island, one.bandwidth, one.latency) for one in sheet.links]
    if devices > inside or not tiers:
        stated = node_rate or float(chosen["per_node_gbytes"]) * 1e9
        source = Provenance(Grade.PUBLISHED if node_rate else Grade.VENDOR, chosen["source"])
        rate = Quantity(stated / inside, Dimension.BANDWIDTH, source)
        tiers.append(Tier("fabric", "fabric", max(devices, 1), rate, _LATENCY))
    return Cluster((Nodes(devices // inside, sheet),), tuple(tiers)), "" if node_rate else f"machine: {chosen['source']}"


def _node(sheet: NodeSheet, devices: int) -> NodeSheet:
    """The node with its first `devices` alone."""
    if devices == sheet.devices:
        return sheet
    links = [link for link in sheet.links if link.island < devices]
    outer = next((link for link in sheet.links if link.island >= devices), None)
    if outer is not None and devices > 1:
        links.append(replace(outer, island=devices))
    return replace(sheet, devices=devices, links=tuple(links))


def plan_of(
    row: Row, layers: int, mesh: Mesh, pipeline: int, microbatch: int, global_batch: int, *, interleave: int = 1,
    recompute: Recompute = Recompute.NONE, zero: int = 0, sequence_parallel: bool = False,
) -> Plan:  # fmt: skip
    """The plan of a run. Layers that do not divide go in even stages of the larger size first, as frameworks do not: Rejected."""
    step, rest = divmod(global_batch, mesh.data * microbatch)
    if rest or not step:
        raise Rejected(
            "contradictory: batch is not data x microbatch x accumulation",
            f"{row.file}, line {row.line}: global batch {global_batch}, data {mesh.data}, microbatch {microbatch}",
        )
    stages = even_stages(layers, pipeline, mesh) or _uneven(row, layers, pipeline, mesh)
    schedule = Schedule.INTERLEAVED if interleave > 1 and pipeline > 1 else Schedule.ONE_F_ONE_B
    if schedule is Schedule.INTERLEAVED and layers % (pipeline * interleave):
        raise Rejected(
            "contradictory: layers do not divide into chunks",
            f"{row.file}, line {row.line}: {layers} layers, {pipeline} x {interleave}",
        )
    return Plan(
        f"line {row.line}", stages, microbatch, step, schedule=schedule,
        interleave=interleave if schedule is Schedule.INTERLEAVED else 1, recompute=recompute, zero=zero,
        sequence_parallel=sequence_parallel,
    )  # fmt: skip


def _uneven(row: Row, layers: int, pipeline: int, mesh: Mesh) -> tuple[Stage, ...]:
    """Whole layers spread as evenly as they go (Megatron-DeepSpeed balances so); Rejected with more stages than layers."""
    if pipeline > layers:
        raise Rejected(
            "contradictory: more stages than layers", f"{row.file}, line {row.line}: {pipeline} stages, {layers} layers"
        )
    ends = [round((k + 1) * layers / pipeline) for k in range(pipeline)]
    starts = [0, *ends[:-1]]
    return tuple(
        Stage(start, end - 1, mesh, embedding=k == 0, head=k == pipeline - 1)
        for k, (start, end) in enumerate(zip(starts, ends, strict=True))
    )


def check_degrees(row: Row, devices: int, **degrees: int) -> None:
    """Rejected where the product of the degrees is not the number of devices."""
    product = 1
    for degree in degrees.values():
        product *= degree
    if product != devices:
        shown = " x ".join(f"{name} {degree}" for name, degree in degrees.items())
        raise Rejected(
            "contradictory: degrees are not the device count",
            f"{row.file}, line {row.line}: {shown} = {product}, {devices} devices",
        )


def check_rate(row: Row, case_flops: float, seconds: float, devices: int, peak: float) -> None:
    """Rejected where the model's FLOPs in that time pass the peak, or are less than a thousandth of it: another unit."""
    share = case_flops / (seconds * devices * peak)
    if share > 1.0:
        raise Rejected(
            "contradictory: faster than the device's peak",
            f"{row.file}, line {row.line}: {share:.3g} of the peak; is the time in another unit?",
        )
    if share < 0.001:
        raise Rejected(
            "contradictory: slower than any training run",
            f"{row.file}, line {row.line}: {share:.2g} of the peak; is the time in another unit?",
        )
