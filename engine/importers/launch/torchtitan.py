"""A torchtitan configuration in TOML, as releases up to the end of 2025 were started with.

Keys and defaults: torchtitan/config/job_config.py at 000204a4a and torchtitan/config/configs.py at b5bcd76c6. The size of a model
stands in torchtitan's own code under its flavour; those that are known are in `torchtitan_models.yaml`, and what is taken from
there is assumed. Newer releases are configured in Python (`config_registry.py`), which is not read: it is code.
"""

from __future__ import annotations

from typing import Any, Final

from ...errors import InputError
from .draft import PLAN, Draft, finish, fp8_products, full_precision, mixed_precision, schedule_of
from .entries import Entries, Entry, Open
from .parts import Launch, Part
from .presets import preset, set_aside
from .settings import put_settings
from .sources import SourceFile, not_this, toml_entries
from .uneven import by_rank, put_layers, weighed_ends

KIND: Final = "torchtitan"
SOURCE: Final = "torchtitan 000204a4a, torchtitan/config/job_config.py"
UNIFORM: Final = f"{PLAN}/uniform"
_SCHEDULES: Final = {
    "1f1b": ("1f1b", 1), "gpipe": ("gpipe", 1), "interleaved1f1b": ("interleaved_1f1b", 2),
    "loopedbfs": (None, 2), "interleavedzerobubble": (None, 2), "zbvzerobubble": (None, 2), "dualpipev": (None, 2),
}  # fmt: skip


def recognises(file: SourceFile) -> bool:
    """Whether a TOML file has torchtitan's tables."""
    if file.form != "toml":
        return False
    heads = {line.strip().strip("[]").split(".")[0] for line in file.source.text.splitlines() if line.lstrip().startswith("[")}
    return len(heads & {"parallelism", "training", "model", "activation_checkpoint", "job", "lr_scheduler", "metrics"}) >= 3


def read(file: SourceFile) -> Launch:
    """Read a torchtitan configuration."""
    if file.form == "python":
        raise InputError(
            "This is Python: newer releases of torchtitan are configured in code, which is neither run nor read.",
            place=file.start, code="launch.python",
            remedy="Have torchtitan print the configuration that it made, and state it in the proposal; TOML files are read.",
        )  # fmt: skip
    entries = toml_entries(file) if file.form == "toml" else []
    if not recognises(file):
        from .detect import kind_of

        raise not_this(file, KIND, kind_of(file), "the tables 'training', 'parallelism' and 'model'")
    e = Entries(entries)
    d = Draft(file.start, SOURCE)
    read_entries(e, d)
    return Launch(
        KIND,
        file.name,
        file.sha256,
        "torchtitan",
        tuple(d.parts.values()),
        tuple(e.uses()),
        tuple(d.gaps),
        tuple(d.notes),
        file.source.text,
    )


def read_entries(e: Entries, d: Draft) -> None:
    """What the keys say."""
    d.assume("/proposal/framework/name", "torchtitan", "the file's kind")
    _model(e, d)
    d.keep("/workload/sequence_length", e.integer("training.seq_len"))
    d.assume("/workload/sequence_length", 2048, "'seq_len' is 2048 by default")
    d.keep("/proposal/run_length/steps", e.integer("training.steps"))
    _workload(e, d)
    for axis, name in (
        ("tensor", "tensor_parallel_degree"), ("pipeline", "pipeline_parallel_degree"), ("context", "context_parallel_degree"),
        ("expert", "expert_parallel_degree"), ("expert_tensor", "expert_tensor_parallel_degree"),
    ):  # fmt: skip
        d.keep(f"{UNIFORM}/{axis}", e.integer(f"parallelism.{name}", f"training.{name}", f"experimental.{name}", limit=10**6))
    if d.value(f"{UNIFORM}/expert") in (None, 1):
        d.drop(f"{UNIFORM}/expert_tensor")
    elif not d.open(f"{UNIFORM}/expert"):
        d.assume(f"{UNIFORM}/expert_tensor", 1, "'expert_tensor_parallel_degree' is 1 by default")
    _schedule(e, d)
    _batch(e, d)
    _sharding(e, d)
    _recompute(e, d)
    if (d.number(f"{UNIFORM}/tensor") or 1) > 1:
        d.assume(f"{PLAN}/sequence_parallel", True, "tensor parallelism splits norms along the sequence")
    d.assume(f"{PLAN}/sequence_parallel", False, "without tensor parallelism there is nothing to split")
    put_settings(d, e)
    set_aside(e, KIND)


def _model(e: Entries, d: Draft) -> None:
    name, flavor = e.word("model.name"), e.word("model.flavor")
    norm = e.word("model.norm_type")
    converters = e.take("model.converters")
    if converters is not None and converters.value:
        _converters(d, converters)
    older = e.flag("float8.enable_float8_linear")  # releases of 2024
    if older is not None and older[0] is True:
        fp8_products(d, older[1])
    if name is None or flavor is None or isinstance(name[0], Open) or isinstance(flavor[0], Open):
        d.leave("/model/transformer", "'model.name' and 'model.flavor' name the shapes, and one is not stated")
        return
    known = preset("torchtitan_models.yaml", f"{name[0]} {flavor[0]}")
    if known is None:
        d.leave(
            "/model/transformer",
            f"the shapes of '{name[0]}', flavour '{flavor[0]}', stand in torchtitan's code and are not known here; "
            "add the model's config.json", flavor[1].place,
        )  # fmt: skip
        return
    why = f"flavour '{flavor[0]}' of '{name[0]}', torchtitan b5bcd76c6, torchtitan/models/{name[0]}/__init__.py"
    values: dict[str, Any] = {"family": "llama", **known}
    for field, value in values.items():
        for path, inner in _spread(f"/model/transformer/{field}", value):
            d.parts[path] = Part(path, inner, flavor[1].place, flavor[1].key, why)
    if norm is not None and isinstance(norm[0], str):
        d.put("/model/transformer/norm", "rms" if "rms" in norm[0] else "layer", norm[1])
    if str(name[0]) == "qwen3":
        d.note("norms on queries and keys have no key in a description by shapes and are not counted", flavor[1].place)


def _converters(d: Draft, converters: Entry) -> None:
    """Products in a narrower dtype (torchtitan/components/quantization): `float8` and its kinds, or `mx` in fp8 or fp4."""
    names = converters.value if isinstance(converters.value, list) else [converters.value]
    if any("float8" in str(name) for name in names):
        fp8_products(d, converters)
    others = [str(name) for name in names if "float8" not in str(name)]
    if others:
        d.note(f"'{converters.key}': {', '.join(others)} changes modules in a way that a proposal cannot say", converters.place)


def _spread(path: str, value: object) -> list[tuple[str, object]]:
    if isinstance(value, dict):
        return [(f"{path}/{key}", inner) for key, inner in value.items()]
    return [(path, value)]


def _workload(e: Entries, d: Draft) -> None:
    dtype, reduce = e.word("training.mixed_precision_param"), e.word("training.mixed_precision_reduce")
    stored = e.word("training.dtype")
    if reduce is not None and isinstance(reduce[0], str):
        d.put("/workload/precision/gradients", "fp32" if reduce[0] == "float32" else "bf16", reduce[1])
    if stored is not None and stored[0] == "bfloat16":
        for role, value in (("parameters", "bf16"), ("gradients", "bf16"), ("master", "none"), ("moments", "bf16")):
            d.put(f"/workload/precision/{role}", value, stored[1])
    elif dtype is not None and dtype[0] == "float32":
        full_precision(d, "parameters are kept in fp32", dtype[1])
    else:
        entry = dtype[1] if dtype is not None else None
        if entry is not None:
            mixed_precision(d, entry, "bf16", gradients="fp32", why="gradients are reduced in fp32 by default")
        else:
            for role, value in (("parameters", "bf16"), ("gradients", "fp32"), ("master", "fp32"), ("moments", "fp32")):
                d.assume(
                    f"/workload/precision/{role}",
                    value,
                    "FSDP computes in bf16, reduces in fp32 and keeps fp32 shards by default",
                )
    name, implementation = e.word("optimizer.name"), e.word("optimizer.implementation")
    found = d.known("/workload/optimizer/name", name)
    if isinstance(found, str) and name is not None:
        d.put("/workload/optimizer/name", found.lower(), name[1])
    else:
        d.assume("/workload/optimizer/name", "adamw", "'optimizer.name' is AdamW by default")
    if implementation is not None and isinstance(implementation[0], str):
        d.put("/workload/optimizer/fused", implementation[0] == "fused", implementation[1])
    elif (older := e.flag("optimizer.fused")) is not None:
        d.keep("/workload/optimizer/fused", older)
    d.assume("/workload/attention", "flash", "attention runs in PyTorch's fused kernels, which keep no scores")
    d.assume("/workload/dropout", 0.0, "the models have no dropout")
    offload = e.flag("training.enable_cpu_offload")
    if offload is not None and offload[0] is True:
        d.note(f"'{offload[1].key}': offloading is not modelled, so memory is over-estimated", offload[1].place)


def _batch(e: Entries, d: Draft) -> None:
    local = e.integer("training.local_batch_size", "training.batch_size", limit=10**6)
    total = e.integer("training.global_batch_size")
    micro = e.integer(
        "parallelism.pipeline_parallel_microbatch_size", "experimental.pipeline_parallel_microbatch_size", limit=10**6
    )
    count = e.integer("parallelism.pipeline_parallel_microbatches", "experimental.pipeline_parallel_microbatches")
    size = d.known(f"{PLAN}/microbatch", local)
    if local is None:
        d.leave(f"{PLAN}/microbatch", "'training.local_batch_size' is not stated")
        return
    if not isinstance(size, int):
        return
    pipelined = (d.number(f"{UNIFORM}/pipeline") or 1) > 1
    pieces = 1
    if pipelined and isinstance(count and count[0], int) and count is not None and int(str(count[0])) > 0:
        pieces = int(str(count[0]))
        d.put(f"{PLAN}/microbatch", max(1, size // pieces), count[1])
    elif pipelined:
        each = micro[0] if micro is not None and isinstance(micro[0], int) and micro[0] > 0 else 1
        pieces = max(1, size // each)
        if micro is not None:
            d.put(f"{PLAN}/microbatch", each, micro[1])
        else:
            d.assume(f"{PLAN}/microbatch", 1, "'pipeline_parallel_microbatch_size' is 1 by default")
    else:
        d.put(f"{PLAN}/microbatch", size, local[1])
    if total is not None and isinstance(total[0], int) and total[0] > 0:
        d.put("/workload/global_batch", f"{total[0]} sequences", total[1])
    else:
        why = "the global batch is 'local_batch_size' x the data-parallel degree where 'global_batch_size' is not stated"
        d.assume(f"{PLAN}/accumulation", pieces, why)


def _schedule(e: Entries, d: Draft) -> None:
    name = e.word("parallelism.pipeline_parallel_schedule", "experimental.pipeline_parallel_schedule")
    each = e.integer(*_both("pipeline_parallel_layers_per_stage"), limit=10**5)
    ends = [e.integer(*_both(f"pipeline_parallel_{end}_stage_less_layers"), limit=10**5) for end in ("first", "last")]
    by_name = None
    for key in ("pipeline_parallel_split_points", "module_fqns_per_model_part", "pipeline_parallel_schedule_csv"):
        for written in _both(key):
            entry = e.take(written)
            if entry is not None and entry.value not in ([], "", 0, None):
                by_name = entry
    pipeline, layers = d.number(f"{UNIFORM}/pipeline") or 1, d.number("/model/transformer/layers")
    if pipeline < 2:
        return
    chunks, entry = 1, None
    if name is not None and isinstance(name[0], str):
        known = _SCHEDULES.get(name[0].lower())
        entry = name[1]
        chunks = known[1] if known is not None else 1
        if known is None or known[0] is None:
            d.leave(f"{PLAN}/schedule", f"'{name[0]}' is a schedule that is not modelled", name[1].place)
        else:
            d.put(f"{PLAN}/schedule", known[0], name[1])
    first, last = (taken[0] if taken is not None and isinstance(taken[0], int) and taken[0] >= 0 else 1 for taken in ends)
    if each is not None and isinstance(each[0], int) and each[0] > 0 and layers is not None:
        stages = -(-(layers + first + last) // each[0])
        chunks = stages // pipeline if stages % pipeline == 0 else 1
        d.put(f"{PLAN}/interleave", max(1, chunks), each[1])
    elif chunks > 1 and entry is not None:
        d.assume(f"{PLAN}/interleave", chunks, "a looped schedule has two stages a rank by default")
    if by_name is not None:
        d.note(f"'{by_name.key}': stages cut by names are not taken over; the plan is read as even", by_name.place)
    elif layers is not None and (counts := weighed_ends(layers, pipeline * chunks, first=first, last=last)) is not None:
        stated = next((taken[1] for taken in (each, *ends) if taken is not None), None)
        why = "stages are as equal as can be, with the embedding and the head counted as a layer each"
        put_layers(d, by_rank(counts, pipeline), stated, why)
    if not d.open(f"{PLAN}/schedule"):
        schedule_of(d)


def _both(key: str) -> tuple[str, str]:
    """A key of the table that holds it today, and of the one that held it before."""
    return f"parallelism.{key}", f"experimental.{key}"


def _sharding(e: Entries, d: Draft) -> None:
    replicate = e.integer("parallelism.data_parallel_replicate_degree", "training.data_parallel_replicate_degree", limit=10**6)
    shard = e.integer(
        "parallelism.data_parallel_shard_degree",
        "training.data_parallel_shard_degree",
        "training.data_parallel_degree",
        limit=10**6,
    )
    policy = e.word("parallelism.fsdp_reshard_after_forward")
    copies = d.known(f"{UNIFORM}/data", replicate)
    degree = d.known(f"{UNIFORM}/data", shard)
    zero = f"{PLAN}/zero"
    stage = 3
    if policy is not None and policy[0] == "never":
        stage = 2
    elif policy is None or policy[0] == "default":
        stage = 2 if (d.number(f"{UNIFORM}/pipeline") or 1) > 1 else 3
    sharded = degree is None or degree != 1
    if policy is not None and policy[0] in ("always", "never") and sharded:
        d.put(zero, stage, policy[1])
    elif shard is not None:
        d.put(zero, stage if sharded else 0, shard[1])
    else:
        d.assume(zero, stage, "FSDP shards over all that is left by default")
    if isinstance(copies, int) and copies > 1 and sharded and replicate is not None:
        d.note(
            f"'{replicate[1].key}': states are sharded inside a group only; they are reckoned as sharded over all replicas",
            replicate[1].place,
        )
    if isinstance(degree, int) and degree > 0 and shard is not None:
        finish(d, data=(degree * (copies if isinstance(copies, int) else 1), shard[1]))
    elif shard is not None and isinstance(degree, int):
        d.put(f"{UNIFORM}/data", "rest", shard[1])
        finish_rest(d, shard[1])
    else:
        finish(d)


def finish_rest(d: Draft, entry: Entry) -> None:
    """The plan's frame where the data degree is -1: what the other axes leave."""
    finish(d)
    d.put(f"{UNIFORM}/data", "rest", entry)


def _recompute(e: Entries, d: Draft) -> None:
    mode = e.word("activation_checkpoint.mode")
    option = e.word("activation_checkpoint.selective_ac_option", "activation_checkpoint.selective_ac_type")
    path = f"{PLAN}/recompute"
    named = d.known(path, mode)
    if isinstance(named, str) and mode is not None:
        if named in ("none", "full"):
            d.put(path, named, mode[1])
        elif named == "selective":
            d.put(path, "selective", mode[1])
            if option is not None and option[0] != "op":
                d.note(
                    f"'{option[1].key}' is {option[0]}: whole layers at that distance are recomputed; reckoned as selective",
                    option[1].place,
                )
        else:
            d.leave(path, f"'{mode[1].key}' is '{named}', which is not modelled", mode[1].place)
    d.assume(path, "selective", "'activation_checkpoint.mode' is selective by default")
