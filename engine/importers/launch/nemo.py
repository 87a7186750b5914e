"""NeMo and Megatron-Bridge configurations in YAML, and the environment files that MLPerf runs of NeMo are configured by.

All three speak Megatron's keys in sections: `trainer` and `model` (NeMo), `model`, `train`, `optimizer`, `ddp`, `dataset`
(Megatron-Bridge), shell variables (MLPerf). Defaults that differ from Megatron-LM's are those of NeMo's
megatron_gpt_config.yaml and of Megatron-Bridge 067f987df, src/megatron/bridge/training/config.py.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from ...errors import InputError
from .draft import PLAN, Draft, fp8_products
from .entries import Entries, Entry, Open
from .interpolation import resolved
from .megatron import arguments_as_lists, read_arguments
from .megatron_keys import PATTERNS
from .megatron_model import Dialect
from .parts import Key, Launch
from .presets import set_aside
from .settings import put_settings
from .shell_run import walk
from .shell_text import offset_of, plain, reason
from .shell_words import ShellError
from .sources import SourceFile, not_this

KIND: Final = "nemo"
NEMO: Final = Dialect(
    "nemo", "NeMo, megatron_gpt_config.yaml and NeMo-Framework-Launcher 26e42fa91",
    gated_two_thirds=False, groups_need_flag=False,
    optimizer=None, sharded_optimizer=None,
)  # fmt: skip
BRIDGE: Final = Dialect(
    "megatron-bridge", "Megatron-Bridge 067f987df, src/megatron/bridge/training/config.py",
    tied=None, biases=None, positions=None,
    dropout=None, gated_two_thirds=False, groups_need_flag=False, sharded_optimizer=None,
)  # fmt: skip
_SECTIONS: Final = (
    "model.", "train.", "ddp.", "optimizer.", "dataset.", "data.", "trainer.", "mixed_precision.", "trainer.strategy.",
    "model.config.", "trainer.strategy.ddp.", "optim.config.", "model.optim.", "model.data.",
)  # fmt: skip
#: Shell variables of MLPerf's NeMo runs -> Megatron's name.
_VARIABLES: Final = {
    "TENSOR_MODEL_PARALLEL": "tensor_model_parallel_size", "TP": "tensor_model_parallel_size",
    "PIPELINE_MODEL_PARALLEL": "pipeline_model_parallel_size", "PP": "pipeline_model_parallel_size",
    "CONTEXT_PARALLEL": "context_parallel_size", "CP": "context_parallel_size", "EP": "expert_model_parallel_size",
    "INTERLEAVED_PIPELINE": "virtual_pipeline_model_parallel_size", "VP": "virtual_pipeline_model_parallel_size",
    "MICRO_BATCH_SIZE": "micro_batch_size", "MBS": "micro_batch_size", "MINIBS": "minibatch", "GBS": "global_batch_size",
    "DGXNNODES": "nnodes", "DGXNGPU": "nproc_per_node", "MAX_STEPS": "train_iters", "SEQ_LEN": "seq_length",
    "SEQ_PARALLEL": "sequence_parallel", "SP": "sequence_parallel_flag", "USE_DIST_OPTIMIZER": "use_distributed_optimizer",
    "ACT_CKPT_GRANULARITY": "recompute_granularity",
}  # fmt: skip


def recognises(file: SourceFile) -> bool:
    """Whether a YAML file has the sections of NeMo or Megatron-Bridge, or a script sets MLPerf's variables."""
    if file.form == "yaml":
        top = file.top
        model = top.get("model")
        if isinstance(model, dict) and (
            "trainer" in top or "train" in top or "exp_manager" in top or "ddp" in top or "_target_" in top
        ):
            return True
        return ("train" in top and "ddp" in top) or str(top.get("_target_", "")).startswith(("megatron.bridge", "nemo."))
    if file.form == "shell":
        text = file.source.text
        return len(
            {name for name in _VARIABLES if re.search(rf"^\s*(?:export\s+|:\s*\"?\$\{{){name}\b", text, re.MULTILINE)}
        ) >= 2 and (
            "DGXNNODES" in text
            or "MINIBS" in text
            or ("MICRO_BATCH_SIZE" in text and "export NCCL" in text)
            or "WALLTIME" in text
        )
    return False


def read(file: SourceFile) -> Launch:
    """Read a configuration."""
    if not recognises(file):
        from .detect import kind_of

        raise not_this(
            file, KIND, kind_of(file), "the sections 'trainer' and 'model' (NeMo) or 'model' and 'train' (Megatron-Bridge)"
        )
    return _from_variables(file) if file.form == "shell" else _from_yaml(file)


def _from_yaml(file: SourceFile) -> Launch:
    peft = next((key for key in ("model.peft", "peft", "model.virtual_prompt_style") if _inside(file, key)), None)
    if peft is not None:
        raise InputError(
            f"This configuration trains an adapter ('{peft.rpartition('.')[2]}'); only training of all parameters is modelled.",
            place=file.document.place("/" + peft.replace(".", "/")), code="launch.adapter",
            remedy="Give a configuration of full training.",
        )  # fmt: skip
    model = file.top.get("model")
    other = next((key for key in _OTHERS if isinstance(model, dict) and isinstance(model.get(key), dict)), None)
    if other is not None:
        raise InputError(
            f"'model.{other}' makes this another model than a decoder-only language model.",
            place=file.document.place(f"/model/{other}"), code="launch.not_a_decoder",
            remedy="Only decoder-only language models are read.",
        )  # fmt: skip
    sign = next((key for key in _SIGNS_OF_OTHERS if isinstance(model, dict) and key in model), None)
    if sign is not None or "multimodal" in str(file.top.get("_target_", "")):
        at = f"/model/{sign}" if sign is not None else "/_target_"
        raise InputError(
            f"'{at.rpartition('/')[2]}' makes this another model than a decoder-only language model.",
            place=file.document.place(at), code="launch.not_a_decoder", remedy="Only decoder-only language models are read.",
        )  # fmt: skip
    found = resolved(file.entries(), file.given, roots=("training.", "cfg."))
    bridge = not any(e.key.startswith("trainer.") for e in found)
    dialect = BRIDGE if bridge else NEMO
    d = Draft(file.start, dialect.source)
    renamed, written = _renamed(found)
    e = Entries(renamed)
    _sections(e, d)
    overrides = bridge and e.peek("num_layers") is None
    if overrides:
        _left_to_the_recipe(e, d)
    read_arguments(e, d, dialect)
    if overrides:
        for path in [path for path, part in d.parts.items() if path.startswith("/model/") and part.assumed is not None]:
            d.drop(path)
    _rest(e, d, bridge)
    put_settings(d, arguments_as_lists(renamed), _megatron_name, loose=True)
    d.assume("/proposal/framework/name", "megatron-bridge" if bridge else "nemo", "the file's kind")
    for pointer, place in file.document.twice:
        d.note(f"'{pointer.rpartition('/')[2]}' is given twice: the later one counts", place)
    set_aside(e, "megatron", last=True)
    set_aside(e, KIND, last=True)
    e.set_aside({entry.key: "names a class of the framework" for entry in e if entry.key.rpartition(".")[2] in _CLASSES})
    e.set_aside({}, PATTERNS)
    keys = [Key(written.get(key.name, key.name), key.place, key.use, key.why) for key in e.uses()]
    name = "megatron-bridge" if bridge else "nemo"
    parts = tuple(replace(part, key=written.get(part.key, part.key)) for part in d.parts.values())
    return Launch(KIND, file.name, file.sha256, name, parts, tuple(keys), tuple(d.gaps), tuple(d.notes), file.source.text)


_WANTED: Final = frozenset(
    [
        "num_layers",
        "hidden_size",
        "ffn_hidden_size",
        "num_attention_heads",
        "num_query_groups",
        "kv_channels",
        "normalization",
        "vocab_size",
        "override_vocab_size",
        "seq_length",
        "encoder_seq_length",
        "max_position_embeddings",
        "micro_batch_size",
        "global_batch_size",
        "rampup_batch_size",
        "tensor_model_parallel_size",
        "pipeline_model_parallel_size",
        "virtual_pipeline_model_parallel_size",
        "context_parallel_size",
        "expert_model_parallel_size",
        "expert_tensor_parallel_size",
        "sequence_parallel",
        "activation",
        "bias",
        "add_bias_linear",
        "gated_linear_unit",
        "share_embeddings_and_output_weights",
        "position_embedding_type",
        "hidden_dropout",
        "attention_dropout",
        "num_moe_experts",
        "moe_router_topk",
        "moe_ffn_hidden_size",
        "moe_layer_freq",
        "moe_shared_expert_intermediate_size",
        "moe_expert_capacity_factor",
        "recompute_granularity",
        "recompute_method",
        "recompute_num_layers",
        "recompute_modules",
        "activations_checkpoint_granularity",
        "activations_checkpoint_method",
        "activations_checkpoint_num_layers",
        "use_distributed_optimizer",
        "use_flash_attention",
        "attention_backend",
        "train_iters",
        "fp8",
        "bf16",
        "fp16",
        "grad_reduce_in_fp32",
        "reset_attention_mask",
        "make_vocab_size_divisible_by",
        "mtp_num_layers",
        "multi_latent_attention",
        "q_lora_rank",
        "kv_lora_rank",
        "qk_head_dim",
        "qk_pos_emb_head_dim",
        "v_head_dim",
        "add_qkv_bias",
        "qk_layernorm",
        "num_layers_in_first_pipeline_stage",
        "num_layers_in_last_pipeline_stage",
        "account_for_embedding_in_pipeline_split",
        "account_for_loss_in_pipeline_split",
        "pipeline_model_parallel_layout",
        "data_parallel_sharding_strategy",
        "use_megatron_fsdp",
        "use_torch_fsdp2",
        "use_custom_fsdp",
        "use_tp_pp_dp_mapping",
        "params_dtype",
        "use_precision_aware_optimizer",
        "main_grads_dtype",
        "main_params_dtype",
        "exp_avg_dtype",
        "exp_avg_sq_dtype",
    ]
)


#: Sections of a model that is no decoder-only language model.
_OTHERS: Final = ("encoder", "decoder", "unet_config", "unet", "vision", "first_stage_config", "nerf", "background", "guidance")
#: Keys that only such a model has: of images, and of masked language models.
_SIGNS_OF_OTHERS: Final = ("patch_dim", "img_h", "vision_pretraining_type", "num_classes", "bert_binary_head", "masked_lm_prob")
_CLASSES: Final = frozenset({"_target_", "_partial_", "_args_", "_call_", "target"})


def _inside(file: SourceFile, dotted: str) -> bool:
    data: object = file.top
    for part in dotted.split("."):
        data = data.get(part) if isinstance(data, dict) else None
    return isinstance(data, dict | str) and bool(data) and data not in ("null", "none")


def _renamed(found: list[Entry]) -> tuple[list[Entry], dict[str, str]]:
    """Entries by Megatron's name where a section has it, nearest section first; and how each name was written."""
    taken: dict[str, str] = {}
    by_key = {entry.key: entry for entry in found}
    for prefix in ("", *_SECTIONS):
        for name in _WANTED:
            if (
                name not in taken
                and prefix + name in by_key
                and (by_key[prefix + name].value is not None or prefix in ("", "model."))
            ):
                taken[name] = prefix + name
    for entry in found:
        last = entry.key.rpartition(".")[2]
        if last in _WANTED and last not in taken and "val" not in entry.key and "test" not in entry.key:
            taken[last] = entry.key
    back = {key: name for name, key in taken.items()}
    return [Entry(back.get(e.key, e.key), e.value, e.place) for e in found], {back.get(e.key, e.key): e.key for e in found}


def _left_to_the_recipe(e: Entries, d: Draft) -> None:
    """What a file of overrides does not state is its recipe's, which is Python: open, and no default of the framework."""
    why = "the file overrides a recipe, which is Python and is not read: what it does not state is the recipe's"
    for axis, name in (
        ("tensor", "tensor_model_parallel_size"), ("pipeline", "pipeline_model_parallel_size"),
        ("context", "context_parallel_size"), ("expert", "expert_model_parallel_size"),
    ):  # fmt: skip
        if e.peek(name) is None:
            d.leave(f"{PLAN}/uniform/{axis}", f"'{name}': {why}")
    for path, names in (
        ("/workload/precision/parameters", ("bf16", "fp16", "params_dtype", "mixed_precision", "model.precision", "precision")),
        (f"{PLAN}/recompute", ("recompute_granularity",)), (f"{PLAN}/sequence_parallel", ("sequence_parallel",)),
        ("/model/transformer", ("num_layers",)),
    ):  # fmt: skip
        if not any(e.peek(name) is not None for name in names):
            d.leave(path, f"'{names[0]}': {why}")


#: Options that NeMo calls otherwise than Megatron.
_CALLED: Final = {
    "ub_tp_comm_overlap": "tp_comm_overlap", "overlap_grad_sync": "overlap_grad_reduce",
    "overlap_param_sync": "overlap_param_gather",
}  # fmt: skip


def _megatron_name(key: str) -> str:
    """Megatron's name of an option: that within its section, where the section is one of Megatron's."""
    section, dot, last = key.rpartition(".")
    name = last if section + dot in ("", *_SECTIONS, "comm_overlap.", "checkpoint.", "rng.") else key
    return _CALLED.get(name, name)


def _sections(e: Entries, d: Draft) -> None:
    """What is spelt differently from Megatron's arguments."""
    for name in ("trainer.max_steps", "train.train_iters", "trainer.max_iters"):
        taken = e.integer(name) if name in e else None
        if taken is not None and (isinstance(taken[0], Open) or taken[0] > 0):
            d.keep("/proposal/run_length/steps", taken)
    length = e.integer("dataset.sequence_length", "dataset.seq_length", "model.data.seq_length", "data.seq_length")
    if length is not None:
        d.keep("/workload/sequence_length", length)
    accumulate = e.integer("trainer.accumulate_grad_batches")
    if accumulate is not None and accumulate[0] != 1:
        d.note(f"'{accumulate[1].key}' must be 1 beside a global batch: the framework refuses else", accumulate[1].place)


def _rest(e: Entries, d: Draft, bridge: bool) -> None:
    base = "/workload/precision"
    precision = e.word("trainer.precision", "model.precision", "mixed_precision", "precision")
    kept = e.flag("model.megatron_amp_O2")
    named = d.known(f"{base}/parameters", precision)
    if isinstance(named, str) and precision is not None:
        text = named.lower()
        entry = precision[1]
        dtype = "bf16" if "bf16" in text else "fp32" if text in ("32", "fp32", "32-true") else "fp16"
        narrow = d.parts.get(f"{base}/compute")
        for path in [path for path in d.parts if path.startswith(base)]:
            d.drop(path)
        if dtype == "fp32":
            d.put(f"{base}/parameters", "fp32", entry)
            d.put(f"{base}/master", "none", entry)
        elif not bridge and (kept is None or kept[0] is not True):
            d.note(
                "without 'megatron_amp_O2' parameters are kept in fp32 and cast for each product",
                kept[1].place if kept else entry.place,
            )
            d.put(f"{base}/parameters", "fp32", entry)
            d.put(f"{base}/compute", dtype, entry)
            d.assume(f"{base}/master", "none", "'megatron_amp_O2' is off by default")
        else:
            d.put(f"{base}/parameters", dtype, entry)
            d.assume(f"{base}/master", "fp32", "an fp32 copy of the parameters is kept")
        if narrow is not None:
            d.parts[narrow.path] = narrow
        elif "fp8" in text:
            fp8_products(d, entry)
        d.assume(f"{base}/gradients", "fp32", "gradients are accumulated in fp32")
        d.assume(f"{base}/moments", "fp32", "the optimizer's states are fp32")
    sync = e.word("model.optim.grad_sync_dtype")
    if sync is not None and isinstance(sync[0], str):
        d.put(f"{base}/communication", {"bf16": "bf16", "bfloat16": "bf16", "fp16": "fp16"}.get(sync[0], "fp32"), sync[1])
    name = e.word("model.optim.name", "optimizer.optimizer", "optim.name")
    if name is not None and isinstance(name[0], str):
        sharded = name[0] in ("mcore_distributed_optim", "distributed_fused_adam")
        d.put(
            "/workload/optimizer/name",
            "adam" if "adam" in name[0] or name[0] == "mcore_distributed_optim" else name[0].lower(),
            name[1],
        )
        if f"{PLAN}/zero" not in d.parts:
            d.put(f"{PLAN}/zero", 1 if sharded else 0, name[1])
    fsdp, strategy = e.flag("model.fsdp"), e.word("model.fsdp_sharding_strategy")
    if fsdp is not None and fsdp[0] is True:
        d.put(f"{PLAN}/zero", 2 if strategy is not None and strategy[0] == "grad" else 3, fsdp[1])
    for key in ("model.restore_from_path", "model.pretrained_checkpoint"):
        e.take(key)


def _from_variables(file: SourceFile) -> Launch:
    """A file that sets MLPerf's variables: degrees, batch and nodes; the model stands in the benchmark's own configuration."""
    try:
        found = walk(file.source.text, file.given)
    except ShellError as error:
        raise InputError(
            f"The script cannot be read as bash: {error.message}.", place=file.place(error.offset), code="launch.shell",
            remedy="Check it with 'bash -n'.",
        ) from None  # fmt: skip
    d = Draft(file.start, NEMO.source)
    if "lora" in file.name.lower() or "lora" in file.source.text.lower():
        d.note("this benchmark trains an adapter (LoRA); only training of all parameters is modelled")
    entries: list[Entry] = []
    keys: list[Key] = []
    written: dict[str, str] = {}
    for name, value in found.scope.variables.items():
        at = offset_of(value.scalar)
        where = file.place(at) if at is not None else file.start
        known = _VARIABLES.get(name)
        if known is not None and known not in written:
            text = plain(value.scalar)
            entries.append(Entry(known, text if text is not None else Open(reason(value.scalar) or ""), where))
            written[known] = name
        elif not name.startswith("__"):
            entries.append(Entry("." + name, plain(value.scalar), where))
    e = Entries(entries, loose=True)
    mini = e.integer("minibatch")
    switch = e.flag("sequence_parallel_flag") or e.flag("sequence_parallel")
    if switch is not None:
        d.keep(f"{PLAN}/sequence_parallel", switch)
    read_arguments(e, d, BRIDGE)
    for gap in list(d.gaps):
        if gap.path.startswith("/model/"):
            d.gaps.remove(gap)
    for path in [
        path for path, part in d.parts.items() if path.startswith(("/model/", "/workload/")) and part.assumed is not None
    ]:
        d.drop(path)
    if mini is not None and isinstance(mini[0], int):
        _minibatch(d, mini[0], mini[1])
    d.leave("/model/transformer", "the model stands in the benchmark's own configuration; add it, or the model's config.json")
    d.leave("/workload/precision", "the precision stands in the benchmark's own configuration")
    d.assume("/proposal/framework/name", "nemo", "the file's kind")
    e.set_aside({entry.key: "an environment variable of the system or benchmark" for entry in e})
    keys = [Key(written.get(key.name, key.name.lstrip(".")), key.place, key.use, key.why) for key in e.uses()]
    for note, offset in found.notes:
        d.note(note, file.place(offset))
    return Launch(
        KIND,
        file.name,
        file.sha256,
        "nemo",
        tuple(d.parts.values()),
        tuple(keys),
        tuple(d.gaps),
        tuple(d.notes),
        file.source.text,
    )


def _minibatch(d: Draft, size: int, entry: Entry) -> None:
    """MINIBS is what a data-parallel replica takes a step: microbatch x accumulation."""
    micro = d.number(f"{PLAN}/microbatch")
    data = d.number(f"{PLAN}/uniform/data")
    if micro and size % micro == 0:
        d.put(f"{PLAN}/accumulation", size // micro, entry)
    elif micro is None:
        d.note("'MINIBS' is microbatch x accumulation; 'MICRO_BATCH_SIZE' is not set here", entry.place)
    if data is not None:
        d.put("/workload/global_batch", f"{size * data} sequences", entry)
