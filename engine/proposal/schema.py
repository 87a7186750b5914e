"""The form of a proposal: sections, keys, types. Strict: an unknown key is an error, and no key but `planproof` is mandatory.

What a missing key means is not decided here; it reaches the rules as a fact. The text of each field is the one source of
`planproof schema` and of the tables in docs/proposal.md.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from .section import Section, listed, word_or
from .stated import Bandwidth, Batch, Bytes, Date, DeviceTime, Seconds, Share, Tokens

Count = Annotated[int, Field(ge=1, le=10**9)]
Index = Annotated[int, Field(ge=0, le=10**6)]
Text = Annotated[str, Field(max_length=4000)]
Name = Annotated[str, Field(min_length=1, max_length=120)]
Degree = Annotated[int, Field(ge=1, le=10**6)]
Axis = Literal["data", "tensor", "pipeline", "context", "expert"]
LaunchKind = Literal[
    "megatron", "deepspeed", "torchtitan", "nemo", "nanotron", "neox", "llm-foundry", "accelerate", "primus"
]
Dtype = Literal["fp32", "tf32", "bf16", "fp16", "fp8"]
ScheduleName = Literal["gpipe", "1f1b", "interleaved_1f1b", "zb_h1"]
RecomputeName = Literal["none", "selective", "full"]
MetricName = Literal[
    "mfu", "speed_up", "throughput", "step_time", "memory", "loss_agreement", "gradient_agreement", "other"
]
GradeName = Literal["measured", "published", "vendor", "estimated", "assumed"]


SettingValue = bool | int | float | Annotated[str, Field(max_length=4000)] | None


class Framework(Section):
    """The training framework that will run the plan."""

    name: Name | None = Field(None, description="megatron-lm, torchtitan, deepspeed, nanotron, ...")
    version: Name | None = Field(None, description="release or commit; framework rules hold for versions")
    settings: Annotated[
        dict[Name, SettingValue | Annotated[list[SettingValue], Field(max_length=10_000)]], Field(max_length=2000)
    ] | None = Field(
        None,
        description="its own options by their own names, such as overlap_param_gather: true; nested ones with dots, "
        "environment variables by theirs; what the framework's rules ask for beyond the plan",
    )


class RunLength(Section):
    """How long the run is expected to be: in tokens or in steps."""

    tokens: Tokens | None = Field(None, description="15.6 Ttokens")
    steps: Count | None = Field(None, description="optimizer steps")


class Heading(Section):
    """What the proposal is, who makes it, and what it asks for."""

    title: Text | None = Field(None, description="one line")
    authors: list[Name] | None = Field(None, description="who proposes")
    decision_makers: list[Name] | None = Field(None, description="who decides")
    date: Date | None = Field(None, description="of the proposal, ISO")
    objective: Literal["step_time", "tokens_per_second", "time_to_result", "cost"] | None = Field(
        None, description="what the best plan is best at"
    )
    run_length: RunLength | None = Field(None, description="expected length of the run")
    scaling: Literal["fixed_model", "weak_scaling"] | None = Field(
        None, description="one model on more devices, or a model that grows with them"
    )
    framework: Framework | None = None
    authority: Literal["paper_only", "run", "install", "reconfigure", "edit", "benchmark"] | None = Field(
        None, description="what the review is asked to do; it only ever reads and computes"
    )
    supersedes: Text | None = Field(None, description="the decision record that this one replaces")


class ConfigFile(Section):
    """A model configuration as its framework stores it."""

    file: Text | None = Field(None, description="path relative to the proposal, inside the repository")
    kind: Literal["hf-config"] | None = Field(None, description="what the file is")


class LaunchFile(Section):
    """A launch file of a training framework: what it states counts as stated here."""

    kind: LaunchKind | None = Field(None, description="what the file is; default: told by its content")
    file: Text | None = Field(None, description="path relative to the proposal, inside the repository")
    plan: Name | None = Field(None, description="the plan that it launches; default: the submitted one, or one of its own")
    set: dict[Name, str | int | float | bool] | None = Field(
        None, description="variables that its caller sets: {TP: 8}; '1' is a script's first argument"
    )
    command: Count | None = Field(None, description="which of several training commands of a script, from 1")


class Moe(Section):
    """Routed experts in place of MLPs."""

    experts: Count | None = Field(None, description="routed experts of one layer")
    top_k: Count | None = Field(None, description="experts a token is sent to")
    ffn: Count | None = Field(None, description="inner width of one expert; default: the model's ffn")
    every: Count | None = Field(None, description="every n-th layer has experts; default 1")
    first_dense: Index | None = Field(None, description="leading layers without experts; default 0")
    shared_experts: Index | None = Field(None, description="experts that every token passes; default 0")
    shared_ffn: Count | None = Field(None, description="inner width of one shared expert; default: ffn")
    capacity_factor: Annotated[float, Field(gt=0, le=64)] | None = Field(
        None, description="room of an expert over the mean load; a token above it is dropped"
    )
    imbalance: Annotated[float, Field(ge=1, le=64)] | None = Field(
        None, description="load of the busiest expert rank over the mean; default 1, a stated factor"
    )
    group_size: Count | None = Field(None, description="tokens routed together")
    route_groups: Count | None = Field(None, description="groups of experts that the router is limited to; default 1")
    route_groups_kept: Count | None = Field(None, description="of these, how many a token may use; default all")


class Mla(Section):
    """Multi-head latent attention."""

    kv_rank: Count | None = None
    q_rank: Count | None = None
    rope_head_dim: Count | None = None
    nope_head_dim: Count | None = None
    value_head_dim: Count | None = None


class TransformerShape(Section):
    """A transformer by its shapes. What is left out follows `family`, and the record says so."""

    family: Literal["gpt", "llama"] | None = Field(
        None,
        description="gpt: plain MLP, layer norm, biases, learned positions, tied embeddings; "
        "llama: gated MLP, RMS norm, no biases, rotary positions, untied; default gpt",
    )
    layers: Annotated[int, Field(ge=1, le=10**5)] | None = Field(None, description="blocks")
    hidden: Annotated[int, Field(ge=1, le=10**7)] | None = Field(None, description="residual width")
    heads: Annotated[int, Field(ge=1, le=10**5)] | None = Field(None, description="query heads")
    kv_heads: Annotated[int, Field(ge=1, le=10**5)] | None = Field(
        None, description="key/value heads; default: heads"
    )
    head_dim: Annotated[int, Field(ge=1, le=10**5)] | None = Field(None, description="default: hidden / heads")
    ffn: Annotated[int, Field(ge=1, le=10**8)] | None = Field(None, description="inner width of the MLP")
    vocabulary: Annotated[int, Field(ge=1, le=10**8)] | None = Field(None, description="rows of the embedding")
    gated: bool | None = Field(None, description="three matrices in the MLP instead of two")
    tied_embeddings: bool | None = Field(None, description="the head is the embedding")
    norm: Literal["layer", "rms"] | None = None
    biases: bool | None = Field(None, description="on the attention and MLP projections")
    positions: Index | None = Field(None, description="learned positions; 0: none; gpt default: the sequence length")
    moe: Moe | None = None
    mla: Mla | None = None


class Model(Section):
    """The operator graph, or what it follows from: a configuration file or shapes."""

    config: ConfigFile | None = Field(None, description="a configuration file")
    transformer: TransformerShape | None = Field(None, description="shapes")
    graph: dict[str, Any] | None = Field(
        None, description="operators over named dims, here or in a file: alone, or beside shapes, whose operators it replaces"
    )


class PrecisionByRole(Section):
    """Dtype by role; bytes a parameter follow from it."""

    parameters: Dtype | None = None
    gradients: Dtype | None = None
    master: Dtype | Literal["none"] | None = Field(None, description="high-precision copy, or none")
    moments: Dtype | None = None
    communication: Dtype | None = Field(None, description="of gradient collectives; default: gradients")
    compute: Dtype | None = Field(None, description="of the linear layers' products, as fp8 training; default: parameters")


class OptimizerChoice(Section):
    """The optimizer: its name decides its states."""

    name: Name | None = Field(None, description="adam, adamw, lamb, lion, muon, sgd, sgd_momentum")
    fused: bool | None = None


def _named(raw: Any) -> Any:
    return {"name": raw} if isinstance(raw, str) else raw


class Packing(Section):
    """How sequences are packed and masked."""

    causal: bool | None = Field(None, description="default true")
    document_mask: bool | None = None


class WorkloadChoice(Section):
    """What is trained how. All of it is training semantics: a plan may not change it."""

    sequence_length: Annotated[int, Field(ge=1, le=10**8)] | None = Field(None, description="tokens a sequence")
    global_batch: Batch | None = Field(None, description="2048 sequences, or 4194304 tokens")
    packing: Packing | None = None
    precision: PrecisionByRole | None = None
    optimizer: Annotated[OptimizerChoice, BeforeValidator(_named)] | None = Field(
        None, description="a name, or a mapping"
    )
    attention: Literal["flash", "unfused"] | None = Field(None, description="the attention kernel")
    dispatcher: Literal["alltoall", "allgather", "deepep"] | None = Field(
        None, description="how tokens reach their experts; default: what framework.settings say, or alltoall"
    )
    dispatch_overlap: bool | None = Field(
        None, description="the exchange between experts runs beside another microbatch's computation"
    )
    dynamic_shapes: bool | None = Field(None, description="shapes change from step to step")
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    loss_scaling: Literal["none", "static", "dynamic"] | None = None
    data_order: Text | None = Field(None, description="how the order of samples is fixed")


class Nodes(Section):
    """Nodes of one type, from a data sheet or described here."""

    name: Name | None = Field(None, description="to refer to these nodes; needed where there are several kinds")
    count: Count | None = None
    type: Name | None = Field(None, description="a node data sheet: dgx_h100, p3.16xlarge, ...")
    device: Name | None = Field(None, description="a device data sheet, where no node type is named")
    devices: Annotated[int, Field(ge=1, le=1024)] | None = Field(None, description="devices a node")
    device_memory: Bytes | None = Field(None, description="capacity of one device; replaces the sheet's")


class Devices(Section):
    """A device count without nodes: it says nothing of topology."""

    count: Count | None = None
    type: Name | None = Field(None, description="a device data sheet")


class IntraNode(Section):
    """The links inside a node: a measured topology file, or in numbers."""

    file: Text | None = None
    kind: Literal["nvidia-topo", "rocm-smi", "nvlink", "nvswitch", "xgmi", "pcie"] | None = Field(
        None, description="of the file, or of the links"
    )
    bandwidth: Bandwidth | None = Field(None, description="of one device, per direction")
    latency: Seconds | None = None
    island: Count | None = Field(None, description="devices that reach each other at this rate; default: all")
    grade: GradeName | None = Field(None, description="of the bare quantities beside it")
    source: Text | None = None
    date: Date | None = None


class Nics(Section):
    """The network cards of one node."""

    count: Annotated[int, Field(ge=1, le=1024)] | None = None
    bandwidth: Bandwidth | None = Field(None, description="of one card, per direction")


class Fabric(Section):
    """The network between nodes."""

    name: Name | None = None
    kind: Name | None = Field(None, description="infiniband, ethernet, slingshot, ...")
    nics: Nics | None = Field(None, description="cards of a node")
    bandwidth: Bandwidth | None = Field(None, description="per direction, instead of nics")
    per: Literal["node", "device"] | None = Field(None, description="whose bandwidth it is; default node")
    layout: Literal["rail_optimised", "fat_tree", "leaf_spine", "dragonfly", "torus", "direct"] | None = None
    oversubscription: Annotated[float, Field(ge=1, le=1000)] | None = Field(
        None, description="1 is full bisection; default 1, assumed"
    )
    latency: Seconds | None = None
    in_network_reduction: bool | None = Field(None, description="its switches reduce in flight (SHARP); default false")
    connects: list[Name] | None = Field(None, description="names of the nodes it joins; default: all")
    grade: GradeName | None = Field(None, description="of the bare quantities beside it")
    source: Text | None = None
    date: Date | None = None


class Contention(Section):
    """Who else uses the fabric, and how much of it."""

    shared_with: Text | None = None
    share: Share | None = Field(None, description="of the fabric's bandwidth that others take")
    changing: bool | None = Field(None, description="it varies while the run lasts")


class CollectiveLog(Section):
    """A log of measured collectives on this cluster."""

    file: Text | None = None
    kind: Literal["nccl-tests", "torch-allreduce"] | None = None
    date: Date | None = Field(None, description="of the measurement")


class ClusterDescription(Section):
    """What there is to run on."""

    description: Text | None = Field(
        None,
        description="in words, instead of the keys beside it or in addition: "
        "'4 nodes of 8 x H100, 8 x NVLink 4 island, 8 x 400 Gbit/s NICs, rail-optimised, 2:1 over-subscribed'",
    )
    nodes: Annotated[list[Nodes], BeforeValidator(listed)] | None = Field(
        None, description="one kind of node, or a list of kinds"
    )
    devices: Devices | None = Field(None, description="a bare device count")
    intra_node: IntraNode | None = Field(None, description="links inside a node; default: the node sheet's")
    fabric: Annotated[list[Fabric], BeforeValidator(listed)] | None = Field(
        None, description="the network between nodes, or a list of networks"
    )
    contention: Annotated[Literal["none"] | Contention, word_or("none", "a mapping with shared_with and share")] | None = (
        Field(None, description="none, or who shares the fabric")
    )
    collectives: list[CollectiveLog] | None = None


class Profile(Section):
    """Measured stages or layers, as a CSV file."""

    file: Text | None = None
    grade: GradeName | None = Field(None, description="default measured where a date or source is given, else assumed")
    source: Text | None = None
    date: Date | None = None
    ends: Literal["included", "separate"] | None = Field(
        None,
        description="separate: the first and last rows are the embedding and the head, layers count from 1; "
        "default included: they are part of the first and last layer",
    )
    memory: Literal["one_layer_a_device", "whole_stage"] | None = Field(
        None, description="how memory was measured: each layer alone on a device, or stages as they will run"
    )


class Layouts(Section):
    """Limits on the declared space of plans."""

    allow: list[Axis] | None = Field(None, description="axes that may exceed 1; an empty list allows none")
    max_axes: Annotated[int, Field(ge=1, le=5)] | None = Field(None, description="axes above 1 at once")
    degrees: dict[Axis, Annotated[list[Degree], Field(min_length=1)]] | None = Field(None, description="allowed degrees by axis")
    microbatch: Annotated[list[Count], Field(min_length=1)] | None = None
    zero: Annotated[list[Annotated[int, Field(ge=0, le=3)]], Field(min_length=1)] | None = None
    recompute: Annotated[list[RecomputeName], Field(min_length=1)] | None = None
    schedules: Annotated[list[ScheduleName], Field(min_length=1)] | None = None
    interleave: Annotated[list[Count], Field(min_length=1)] | None = None
    sequence_parallel: Annotated[list[bool], Field(min_length=1)] | None = None


Replicas = Annotated[Degree | Literal["rest"], word_or("rest", "a whole number", others=(int,))]


class Degrees(Section):
    """Degrees by axis; one that is left out is 1."""

    data: Replicas | None = Field(None, description="or rest: what the other axes leave of the cluster's devices")
    tensor: Degree | None = None
    pipeline: Degree | None = None
    context: Degree | None = None
    expert: Degree | None = None
    expert_tensor: Degree | None = Field(None, description="tensor degree inside an expert; default: tensor")
    layers: Annotated[
        list[Annotated[int, Field(ge=1, le=10**5)]], Field(min_length=1, max_length=4096)
    ] | None = Field(None, description="layers of each stage in order, where they are not equal")


class StageMesh(Section):
    """The mesh of one stage; an axis that is left out is 1."""

    data: Degree | None = None
    tensor: Degree | None = None
    context: Degree | None = None
    expert: Degree | None = None
    expert_tensor: Degree | None = None


class StageChoice(Section):
    """One stage of a plan, or several alike."""

    layers: Annotated[list[Index], Field(min_length=2, max_length=2)] | None = Field(
        None, description="first and last, inclusive, from 0"
    )
    with_: list[Literal["embedding", "head"]] | None = Field(
        None, alias="with", description="default: embedding on the first stage, head on the last"
    )
    devices: Count | None = None
    nodes: Count | None = Field(None, description="whole nodes, instead of devices")
    mesh: StageMesh | None = None
    layouts: dict[Name, dict[Name, Axis]] | None = Field(None, description="operator: {dim: axis}")
    recompute: RecomputeName | None = None
    repeat: Annotated[int, Field(ge=1, le=10**4)] | None = Field(
        None, description="this many stages alike, one after the other; default 1"
    )


class PlanOrigin(Section):
    """The planner that a plan comes from."""

    planner: Name | None = None
    objective: Text | None = Field(None, description="what it minimised, in its own words")


class PlanChoice(Section):
    """One plan."""

    name: Name | None = None
    role: Literal["reference", "submitted", "candidate"] | None = Field(None, description="default candidate")
    origin: PlanOrigin | None = None
    uniform: Degrees | None = Field(None, description="degrees; or stages")
    stages: Annotated[list[StageChoice], Field(max_length=4096)] | None = Field(None, description="or uniform")
    schedule: ScheduleName | None = Field(None, description="needed where pipeline exceeds 1")
    interleave: Annotated[int, Field(ge=1, le=1024)] | None = Field(None, description="model chunks a device; default 1")
    microbatch: Annotated[int, Field(ge=1, le=10**6)] | None = Field(
        None, description="sequences a data-parallel replica"
    )
    accumulation: Annotated[int, Field(ge=1, le=10**9)] | None = Field(
        None, description="microbatches a step; derived, and checked where stated"
    )
    recompute: RecomputeName | None = Field(None, description="default none")
    zero: Annotated[int, Field(ge=0, le=3)] | None = Field(None, description="ZeRO stage; default 0")
    sequence_parallel: bool | None = Field(None, description="default false")
    order: list[Axis] | None = Field(None, description="axes, innermost first; default tensor, context, data, pipeline")
    changes: dict[Name, Any] | None = Field(
        None, description="training semantics that this plan would change: a finding, never a tuning knob"
    )


class Baseline(Section):
    """What a claim compares with."""

    system: Name | None = None
    inter_operator: bool | None = Field(None, description="whether the baseline has pipeline parallelism")
    source: Text | None = None


class Recipe(Section):
    """What two runs had in common where their losses or gradients are said to be equal."""

    seed: int | Name | None = Field(None, description="of the weights and of the data, the same in both")
    data_order: Text | None = Field(None, description="how both saw the same samples in the same order")
    precision: Dtype | None = Field(None, description="of the matrix products, the same in both")
    global_batch: Batch | None = Field(None, description="the same in both: 2048 sequences, or 4194304 tokens")
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = Field(None, description="the same in both; 0 where it was off")
    tolerance: Annotated[float, Field(ge=0)] | None = Field(
        None, description="the relative difference that still counts as equal; 0: bit by bit"
    )
    steps: Count | None = Field(None, description="optimizer steps that were compared")


class Claim(Section):
    """A figure that the proposal quotes."""

    text: Text | None = None
    metric: MetricName | None = None
    value: float | None = Field(
        None,
        description="a plain number: a fraction for mfu, a factor for speed_up, seconds for step_time, the largest relative "
        "difference for an agreement; throughput: see unit",
    )
    plan: Name | None = Field(None, description="the plan that it is of; default: any of the proposal")
    recipe: Recipe | None = Field(None, description="of an agreement: what both runs had in common")
    unit: Literal["tokens_per_second", "tokens_per_second_per_device", "tflops_per_device"] | None = Field(
        None, description="of a throughput"
    )
    baseline: Baseline | None = None
    scaling: Literal["fixed_model", "weak_scaling"] | None = None
    nodes: Count | None = None
    source: Text | None = None


class PlanningCost(Section):
    """What planning costs before it pays."""

    profiling: DeviceTime | None = Field(None, description="64 device-hours")
    change_over: DeviceTime | None = None


class Policy(Section):
    """What this proposal demands beyond the rules; it can only tighten."""

    require: dict[Name, GradeName] | None = Field(None, description="evidence item: weakest grade accepted")
    headroom: Share | None = Field(None, description="memory to stay free on every rank")


class Proposal(Section):
    """A distributed-training proposal."""

    planproof: Literal[1] | None = Field(None, description="the format's version: 1; the only mandatory key")
    proposal: Heading | None = None
    launch: Annotated[list[LaunchFile], BeforeValidator(listed), Field(max_length=20)] | None = Field(
        None, description="launch files of training frameworks, one or a list: what they state counts as stated here"
    )
    model: Model | None = None
    workload: WorkloadChoice | None = None
    cluster: ClusterDescription | None = None
    profile: Annotated[Literal["none"] | Profile, word_or("none", "a mapping with file")] | None = Field(
        None, description="none, or a measured profile"
    )
    layouts: Annotated[Literal["all"] | Layouts, word_or("all", "a mapping with limits")] | None = Field(
        None, description="all, or limits on the space"
    )
    plans: Annotated[list[PlanChoice], Field(max_length=200)] | None = None
    claims: Annotated[list[Claim], Field(max_length=200)] | None = None
    planning_cost: PlanningCost | None = None
    policy: Policy | None = None
