"""Rows of Megatron-LM's functional tests: the peak that the last rank has allocated, with the test's own switches.

Recognised by `transformer_impl`, `extra_args` and `peak_mem_gib`. What the switches mean is the suite's: GPT-2's tokenizer
where no vocabulary is stated, dropout 0.1, gradients in fp32 under bf16 and in fp16 under fp16.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from ..cost.activations import Loss
from ..cost.memory_terms import Implementation
from ..hardware import DeviceSheet
from ..model import Attention, MixtureOfExperts, Optimizer, Precision, Transformer, Workload
from ..plan import Mesh, Plan, Recompute, Stage
from .memory_case import (
    GIB,
    MEGATRON,
    Case,
    Kind,
    LeftOut,
    Row,
    Table,
    accumulation_of,
    count,
    device_of,
    number,
    text,
    uniform_plan,
)

_PRECISIONS = {"bf16": Precision("bf16", "fp32", "fp32", "fp32"), "fp16": Precision("fp16", "fp16", "fp32", "fp32")}
_FAMILIES = ("gpt", "moe")
#: The suite's tokenizer where a row states no vocabulary: GPT-2's.
_VOCABULARY = 50257
#: Switches that change what is held, and that a plan cannot say.
_NOT_MODELLED = {
    "--multi-latent-attention": "latent attention, and its widths are not stated",
    "--mtp-num-layers": "prediction of several tokens",
    "--pipeline-model-parallel-layout": "a layout of layers in words",
    "--account-for-loss-in-pipeline-split": "chunks without layers",
    "--hybrid-layer-pattern": "hybrid layers",
}
_NOT_MODELLED_TESTS = {"distill": "distillation: two models", "offloading": "off-loaded activations", "bert": "an encoder"}
_DEFERRED = 2
#: What the suite runs on: of least and of most scratch, where a row does not state its device.
_TESTED_ON = ("A100-80GB", "H100")


def _switches(row: Row) -> dict[str, str]:
    found = re.findall(r"(--[a-z0-9-]+)(?:=(\[[^\]]*\]|\([^)]*\)\S*|\S*))?", text(row, "extra_args"))
    return dict(found)


def _refuse(row: Row, switches: dict[str, str]) -> None:
    family = text(row, "model").split("/")[-2] if "/" in text(row, "model") else ""
    if family and family not in _FAMILIES:
        raise LeftOut(f"not modelled: {family} models", "model")
    for switch, why in _NOT_MODELLED.items():
        if switch in switches:
            raise LeftOut(f"not modelled: {why}", "extra_args")
    for word, why in _NOT_MODELLED_TESTS.items():
        if word in text(row, "model"):
            raise LeftOut(f"not modelled: {why}", "model")
    if text(row, "dup_conflict") == "yes":
        raise LeftOut("another row of the same file says otherwise (dup_conflict)", "dup_conflict")
    if text(row, "optimizer") not in ("adam(default)", "adam", ""):
        raise LeftOut("not modelled: optimizer of mixed groups", "optimizer", row["optimizer"])


def _model(row: Row, switches: dict[str, str]) -> Transformer:
    hidden, heads = count(row, "hidden"), count(row, "heads")
    gated = text(row, "swiglu") == "True"
    # Megatron-LM without --ffn-hidden-size: 4 h, and 64 x int(8 h / 3 / 64) for a gated MLP.
    ffn = count(row, "ffn", int(8 * hidden / 3 / 64) * 64 if gated else 4 * hidden)
    bias = "--disable-bias-linear" not in switches
    experts = count(row, "num_experts", 0) if text(row, "num_experts") else 0
    shared = int(switches.get("--moe-shared-expert-intermediate-size") or 0)
    moe = None
    if experts:
        moe = MixtureOfExperts(
            experts, count(row, "moe_topk"), count(row, "moe_ffn", ffn), shared_experts=1 if shared else 0, shared_ffn=shared
        )
    sequence = count(row, "seq")
    if hidden % heads:
        raise LeftOut("hidden is no multiple of heads", "heads", row["heads"])
    return Transformer(
        layers=count(row, "layers"), hidden=hidden, heads=heads, kv_heads=count(row, "kv_heads", heads), head_dim=hidden // heads,
        ffn=ffn, vocabulary=count(row, "vocab", _VOCABULARY), gated=gated, tied_embeddings=text(row, "untied") != "True",
        norm="layer", learned_positions=0 if text(row, "position") in ("rope", "none") else sequence,
        attention_bias=bias, output_bias=bias, mlp_bias=bias, moe=moe,
    )  # fmt: skip


def _attention(row: Row) -> Attention | None:
    stated = text(row, "attention_backend")
    if text(row, "transformer_impl") == "local" or stated in ("unfused", "local"):
        return Attention.UNFUSED  # the local core attention is torch's batched products
    if stated in ("flash", "fused"):
        return Attention.FLASH
    if stated:
        raise LeftOut("attention_backend is not known", "attention_backend", stated)
    return None


def _zero(row: Row, switches: dict[str, str]) -> int:
    strategy = switches.get("--data-parallel-sharding-strategy", "no_shard")
    if strategy != "no_shard":
        return {"optim": 1, "optim_grads": 2, "optim_grads_params": 3}[strategy]
    return int(text(row, "zero_stage")[:1] or 0)


def _recompute(row: Row) -> Recompute:
    stated = text(row, "recompute")
    if stated in ("none", ""):
        return Recompute.NONE
    if stated == "full/uniform/1":
        return Recompute.FULL
    raise LeftOut("not modelled: recompute of named modules", "recompute", stated)


def _plan(row: Row, model: Transformer, mesh: Mesh, switches: dict[str, str]) -> Plan:
    microbatch, pipeline = count(row, "mbs"), count(row, "pp")
    accumulation = accumulation_of(count(row, "gbs"), microbatch, mesh.data)
    zero, parallel = _zero(row, switches), text(row, "sequence_parallel") == "True" and mesh.tensor > 1
    first, last = (switches.get(f"--decoder-{end}-pipeline-num-layers") for end in ("first", "last"))
    if first or last:
        if not (first and last) or pipeline < 3 or (model.layers - int(first) - int(last)) % (pipeline - 2):
            raise LeftOut("layers of the stages do not add up", "extra_args")
        middle = (model.layers - int(first) - int(last)) // (pipeline - 2)
        sizes = [int(first), *[middle] * (pipeline - 2), int(last)]
        starts = [sum(sizes[:k]) for k in range(pipeline)]
        stages = tuple(
            Stage(start, start + size - 1, mesh, k == 0, k == pipeline - 1)
            for k, (start, size) in enumerate(zip(starts, sizes, strict=True))
        )
        return Plan("measured", stages, microbatch, accumulation, zero=zero, sequence_parallel=parallel, uniform=False)
    return uniform_plan(
        model,
        mesh,
        pipeline,
        microbatch,
        accumulation,
        interleave=count(row, "vpp", 1),
        recompute=_recompute(row),
        zero=zero,
        sequence_parallel=parallel,
    )


def _meshes(row: Row, zero: int) -> tuple[Mesh, ...]:
    """The mesh; where the devices are not stated, the smallest and the largest that the batch allows."""
    tensor, context = count(row, "tp"), count(row, "cp", 1)
    expert, inner = count(row, "ep", 1), count(row, "etp", tensor) if text(row, "etp") and text(row, "num_experts") else None
    fixed = tensor * context * count(row, "pp")

    def mesh(data: int) -> Mesh:
        return Mesh(data, tensor, context, expert, inner)

    if text(row, "dp") or text(row, "gpus"):
        data, devices = count(row, "dp"), count(row, "gpus")
        if data * fixed != devices:
            raise LeftOut("tp x pp x cp x dp is not gpus", "gpus", row["gpus"])
        return (mesh(data),)
    most = count(row, "gbs") // count(row, "mbs")
    least = max(1, -(-expert * (inner or tensor) // (tensor * context)))
    return (mesh(least), mesh(most)) if most > least else (mesh(least),)


def _devices(row: Row) -> tuple[DeviceSheet, ...]:
    """The device; where it is not stated, those that the tests run on, as libraries' scratch differs between them."""
    if not text(row, "gpu_type"):
        return tuple(device_of(name) for name in _TESTED_ON)
    return (device_of(text(row, "gpu_type"), text(row, "gpu_mem_gb")),)


def megatron_case(row: Row, line: int) -> list[Case]:
    """The case of one row. Where devices are not stated: one for each way to read the row."""
    switches = _switches(row)
    _refuse(row, switches)
    stated = text(row, "precision")
    if stated not in _PRECISIONS:
        raise LeftOut("not modelled: precision", "precision", stated)
    measured = number(row, "peak_mem_gib") * GIB
    model, zero, attention = _model(row, switches), _zero(row, switches), _attention(row)
    workload = Workload(count(row, "seq"), count(row, "gbs"), _PRECISIONS[stated], Optimizer("adam", 2), attention, dropout=0.1)
    implementation: Implementation = replace(
        MEGATRON,
        loss=Loss.FUSED if "--cross-entropy-loss-fusion" in switches else Loss.IN_PLACE,
        optimizer_instances=int(switches.get("--num-distributed-optimizer-instances") or 1),
        deterministic={"True": True, "False": False}.get(text(row, "deterministic")),
        # Experts of Transformer Engine beside local layers are named in the test alone.
        transformer_engine=text(row, "transformer_impl") != "local" or "_te_" in text(row, "model"),
        grouped_experts="--moe-grouped-gemm" in switches,
        deferred_heads=_DEFERRED if "defer_embedding_wgrad" in text(row, "model") else 0,
    )
    end = number(row, "mem_allocated_gib") * GIB if text(row, "mem_allocated_gib") else None
    sheets, meshes = _devices(row), _meshes(row, zero)
    open_ways = {"device": len(sheets) > 1, "number of devices": len(meshes) > 1, "attention kernel": attention is None}
    cases = []
    for sheet, mesh in product(sheets, meshes):
        plan = _plan(row, model, mesh, switches)
        cases.append(
            Case(
                line=line,
                group=text(row, "model"),
                family="moe" if model.moe else f"dense, {text(row, 'transformer_impl')}",
                model=model,
                workload=workload,
                plan=plan,
                device=sheet,
                implementation=implementation,
                stages=(plan.pipeline - 1,),
                measured={"allocated": measured},
                declared=attention is not None,
                missing=", ".join(name for name, is_open in open_ways.items() if is_open),
                step_end=end,
                software="megatron-core",
            )
        )
    return cases


def _cases(table: Table) -> Iterator[tuple[int, list[Case] | LeftOut]]:
    for line, row in enumerate(table.rows, start=2):
        try:
            yield line, megatron_case(row, line)
        except LeftOut as why:
            yield line, why


KIND = Kind(
    "functional tests of Megatron-LM",
    frozenset({"transformer_impl", "extra_args", "peak_mem_gib"}),
    _cases,
    alternatives=True,
)
