"""What a framework's own settings mean for one plan: processes started, divisions, layout strings, uneven ends.

Arithmetic alone: each function says which check of which framework asks for its number; whether it may be so is for rules.
Sources by commit: Megatron-LM d98e8a64dd (training/arguments.py, core/parallel_state.py, core/transformer/
transformer_config.py), torchtitan b5bcd76c6 (trainer.py, distributed/pipeline_parallel.py), DeepSpeed edaa72212.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from ..plan import Role
from ..plan.layout_string import read_layout
from ..proposal import Case, PlanCase
from .fact import Fact
from .from_shapes import known_shapes
from .kinds import fact
from .settings import Stated, millionths, numbers, setting_text, stated_settings, switched_on, whole_number

Settings = Mapping[str, tuple[Stated, str]]
FIRST = ("decoder_first_pipeline_num_layers", "num_layers_in_first_pipeline_stage")
LAST = ("decoder_last_pipeline_num_layers", "num_layers_in_last_pipeline_stage")
DEEPSPEED_BATCH = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
#: What a fact can hold.
MOST = 2**62


def settings_plan_facts(case: Case, plan: PlanCase) -> Iterator[Fact]:
    """The facts of one plan that rest on the framework's settings; none where none are stated."""
    settings = stated_settings(case)
    if not settings:
        return
    made = _Maker(case, plan, settings)
    if settings_speak_of(case, plan):
        yield from made.world()
        yield from made.layers()
        yield from made.uneven_ends()
        yield from made.layout()
        yield from made.stated_batches()
    yield from made.engine_batch()
    yield from made.heads()
    if plan.data_known:
        # Without the number of replicas nothing can be said of what is divided among them.
        yield from made.batches()
        yield from made.replicas()
    yield from made.expert_shard()
    yield from made.tokens()
    yield from made.bounds()
    yield from made.elastic()


def settings_speak_of(case: Case, plan: PlanCase) -> bool:
    """Whether the settings are those of this plan's own launch: the submitted plan's, or the reference's where none is.

    What they say of processes, cuts and layouts holds for that plan alone; what they switch on or off holds for every plan.
    """
    return plan is (case.with_role(Role.SUBMITTED) or case.with_role(Role.REFERENCE))


def batch_schedule_facts(case: Case) -> Iterator[Fact]:
    """A schedule of global batches, read as `threshold:batch` pairs (core/num_microbatches_calculator.py)."""
    settings = stated_settings(case)
    if "step_batch_size_schedule" in settings:
        value, path = settings["step_batch_size_schedule"]
        text = setting_text(value)
        pairs = schedule_pairs(text)
        increasing = pairs is not None and all(a[0] < b[0] for a, b in pairwise(pairs))
        yield fact(
            "batch_schedule",
            path,
            text=text[:400],
            readable=pairs is not None,
            first=pairs[0][0] if pairs else None,
            increasing=increasing,
        )


def schedule_pairs(text: str) -> list[tuple[int, int]] | None:
    """`0:32,1000:64` as (threshold, batch) pairs; None where it is anything else."""
    pairs = []
    for entry in re.split(r"[,\s]+", text.strip()):
        found = re.fullmatch(r"([0-9]{1,12})([KMBT]?):([0-9]{1,9})", entry)
        if found is None:
            return None
        pairs.append((int(found[1]) * _SUFFIX[found[2]], int(found[3])))
    return pairs


_SUFFIX = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


class _Maker:
    """The facts of one plan under one set of settings."""

    def __init__(self, case: Case, plan: PlanCase, settings: Settings) -> None:
        self.case, self.plan, self.settings = case, plan, settings
        self.pipeline = plan.pipeline
        self.interleave = plan.stated.interleave or 1
        self.shapes = known_shapes(case)
        self.layer_count = self.shapes.get("layers")

    def number(self, *names: str) -> int | None:
        return numbers(self.settings, *names)

    def place(self, *names: str) -> str:
        """Where the first of the settings `names` that is stated stands."""
        return next((self.settings[name][1] for name in names if name in self.settings), self.plan.path)

    def division(self, of: str, total: int, axis: str, parts: int, *names: str) -> Iterator[Fact]:
        """`total` by `parts`; nothing where either makes no sense."""
        if total < 0 or parts < 1:
            return
        yield fact(
            "division",
            self.place(*names),
            plan=self.plan.name,
            of=of,
            total=min(MOST, total),
            axis=axis,
            parts=min(MOST, parts),
            remainder=min(MOST, total % parts),
            multiple=total > 0 and parts % total == 0,
        )

    def world(self) -> Iterator[Fact]:
        """Processes of the launch against the plan's devices (parallel_state.py, parallel_dims.py, context.py)."""
        launched = self.number("world_size")
        nodes = self.number("nnodes", "num_nodes", "num_machines")
        each = self.number("nproc_per_node", "gpus_per_node", "num_gpus")
        if launched is None and nodes is not None and each is not None:
            launched = nodes * each
        if launched is None:
            launched = self.number("num_processes", "global_num_gpus")
        if launched is None or launched < 1:
            return
        mesh = self.plan.mesh
        devices = sum(s.mesh.devices for s in self.plan.stages) if self.plan.stages else mesh.devices * self.pipeline
        replica = mesh.tensor * mesh.context * self.pipeline
        remainder = launched % replica
        if not self.plan.data_known:
            devices = launched - remainder if launched >= replica else replica
        data = mesh.data if self.plan.data_known else "what is left"
        named = (("data", data), ("tensor", mesh.tensor), ("context", mesh.context), ("pipeline", self.pipeline))
        yield fact(
            "world",
            self.place("world_size", "nnodes", "num_nodes", "num_machines", "num_processes", "global_num_gpus"),
            plan=self.plan.name,
            launched=min(MOST, launched),
            devices=min(MOST, devices),
            replica=min(MOST, replica),
            remainder=min(MOST, remainder),
            agrees=launched == devices,
            product=" x ".join(f"{name} {degree}" for name, degree in named),
        )

    def engine_batch(self) -> Iterator[Fact]:
        """DeepSpeed's three batch figures (runtime/config.py)."""
        engine = [self.number(name) for name in DEEPSPEED_BATCH]
        if engine[0] is not None and engine[1] is not None and engine[2] is not None:
            parts = engine[1] * engine[2]
            yield from self.division("engine_batch", engine[0], "microbatch x accumulation", parts, "train_batch_size")

    def batches(self) -> Iterator[Fact]:
        """Batches of evaluation and of a schedule, by microbatch x data (arguments.py; num_microbatches_calculator.py)."""
        microbatch, data = self.plan.stated.microbatch, self.plan.mesh.data
        whole, small = self.number("eval_global_batch_size"), self.number("eval_micro_batch_size")
        total, each = whole or self.case.global_batch, small or microbatch
        if (whole is not None or small is not None) and total is not None and each is not None:
            names = ("eval_global_batch_size", "eval_micro_batch_size")
            yield from self.division("eval_batch", total, "eval_micro_batch_size x data", each * data, *names)
        batch = self.number("global_train_batch_size")
        if batch is not None:
            devices = self.plan.mesh.devices * self.pipeline
            yield from self.division("device_batch", batch, "devices", devices, "global_train_batch_size")
        if microbatch is None:
            return
        unit = microbatch * data
        pairs = schedule_pairs(setting_text(self.settings.get("step_batch_size_schedule", ("", ""))[0])) or []
        for size in dict.fromkeys(size for _, size in pairs):
            yield from self.division("scheduled_batch", size, "microbatch x data", unit, "step_batch_size_schedule")
        ramp = self.settings.get("rampup_batch_size", (None, ""))[0]
        if isinstance(ramp, list) and len(ramp) == 3:
            ends = [int(text) for one in ramp[:2] if re.fullmatch(r"[0-9]{1,9}", text := setting_text(one))]
            for of, size in zip(("ramp_start", "ramp_step"), ends, strict=False):
                yield from self.division(of, size, "microbatch x data", unit, "rampup_batch_size")
            if len(ends) == 2 and self.case.global_batch is not None:
                yield from self.division("ramp", self.case.global_batch - ends[0], "its step", ends[1], "rampup_batch_size")

    def layers(self) -> Iterator[Fact]:
        """Layers with what counts as one, by stages, chunks and segments (arguments.py, transformer_config.py)."""
        if self.layer_count is None:
            return
        flags = [n for n in ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split") if self.on(n)]
        total, p = self.layer_count + len(flags), self.pipeline
        if flags and p > 1:
            yield from self.division("accounted_layers", total, "pipeline", p, *flags)
            if total % p == 0 and self.interleave > 1:
                yield from self.division("accounted_chunk", total // p, "interleave", self.interleave, *flags)
        if p > 1:
            yield fact(
                "bound", f"{self.plan.path}/interleave", plan=self.plan.name, of="virtual_stages", name="pipeline x interleave",
                value=min(MOST, p * self.interleave), low=1, high=self.layer_count,
                inside=p * self.interleave <= self.layer_count,
            )  # fmt: skip
        each = self.number("num_layers_per_virtual_pipeline_stage")
        if each is not None and total % p == 0:
            name = "num_layers_per_virtual_pipeline_stage"
            yield from self.division("virtual_stage", total // p, name, each, name)
        pattern = self.settings.get("hybrid_layer_pattern")
        if pattern is not None and "|" in (main := setting_text(pattern[0]).split("/")[0]):
            yield from self.division("hybrid_segments", main.count("|") + 1, "pipeline", p, "hybrid_layer_pattern")
        per_stage = self.number("pipeline_parallel_layers_per_stage", "parallelism.pipeline_parallel_layers_per_stage")
        if per_stage is not None and per_stage > 0 and p > 1:
            ends = [
                self.number(name, f"parallelism.{name}")
                for name in (f"pipeline_parallel_{end}_stage_less_layers" for end in ("first", "last"))
            ]
            weight = sum(1 if one is None else one for one in ends)
            stages = -(-(self.layer_count + weight) // per_stage)
            names = ("pipeline_parallel_layers_per_stage", "parallelism.pipeline_parallel_layers_per_stage")
            yield from self.division("virtual_stages", stages, "pipeline", p, *names)

    def elastic(self) -> Iterator[Fact]:
        """Elastic batches: no micro batch above the largest batch (deepspeed/elasticity/elasticity.py)."""
        most = self.number("elasticity.max_train_batch_size")
        sizes = self.settings.get("elasticity.micro_batch_sizes", (None, ""))[0]
        items = [size for one in sizes if (size := whole_number(one)) is not None] if isinstance(sizes, list) else []
        if most is not None and items:
            yield from self.bound("elastic_micro", "elasticity.micro_batch_sizes", 1, most, max(items))

    def stated_batches(self) -> Iterator[Fact]:
        """The batch of a step and of a replica that the settings state, against those of the proposal."""
        for of, names, whole in (
            ("global_batch", ("global_batch_size", "train_batch_size", "global_train_batch_size"), self.case.global_batch),
            ("microbatch", ("micro_batch_size", "train_micro_batch_size_per_gpu"), self.plan.stated.microbatch),
        ):
            name = next((one for one in names if self.number(one) is not None), None)
            if name is not None and whole is not None:
                yield from self.bound(of, name, whole, whole)

    def bounds(self) -> Iterator[Fact]:
        """Settings that must lie within what stages, layers and groups leave (transformer_config.py)."""
        layers = self.layer_count
        if layers is not None:
            stage = layers // self.pipeline
            yield from self.bound("bf16_start", "num_layers_at_start_in_bf16", 0, stage)
            yield from self.bound("bf16_end", "num_layers_at_end_in_bf16", 0, stage)
            yield from self.bound("offloaded_layers", "cpu_offloading_num_layers", 0, layers - 1)
            yield from self.bound("recomputed_layers", "recompute_num_layers", 1, max(1, stage))
            unique = self.number("num_unique_layers")
            if unique is not None:
                yield from self.division("unique_layers", layers, "num_unique_layers", unique, "num_unique_layers")
            for name in ("no_rope_freq", "no_rope_layer", "model.model_config.no_rope_layer"):
                freq = self.number(name)
                if freq is not None:
                    yield from self.division("no_rope", layers, name, freq, name)
        groups = self.number("moe_router_num_groups")
        if groups is not None:
            yield from self.bound("group_top_k", "moe_router_group_topk", 1, groups)
        fraction = self.settings.get("activation_offload_fraction")
        if fraction is not None and (ppm := millionths(fraction[0])) is not None:
            yield from self.bound("offload_fraction", "activation_offload_fraction", 0, 1_000_000, ppm)

    def bound(self, of: str, name: str, low: int, high: int, value: int | None = None) -> Iterator[Fact]:
        stated = self.number(name) if value is None else value
        if stated is not None:
            yield fact(
                "bound", self.place(name), plan=self.plan.name, of=of, name=name, value=stated, low=low, high=high,
                inside=low <= stated <= high,
            )  # fmt: skip

    def on(self, name: str) -> bool:
        return switched_on(self.settings, name)

    def uneven_ends(self) -> Iterator[Fact]:
        """First and last stage by themselves, the rest evenly between (transformer_config.py)."""
        first, last, layers = self.number(*FIRST), self.number(*LAST), self.layer_count
        if (first is None and last is None) or layers is None or self.pipeline < 2:
            return
        left = layers - (first or 0) - (last or 0)
        stages = self.pipeline - (first is not None) - (last is not None)
        names = (*FIRST, *LAST)
        yield fact(
            "uneven_ends",
            self.place(*names),
            plan=self.plan.name,
            first=first,
            last=last,
            middle_layers=left,
            middle_stages=stages,
            matches=(left != 0) == (stages != 0),
        )
        v = self.interleave
        if stages > 0:
            yield from self.division("middle_layers", left, "pipeline without its ends", stages, *names)
            if v > 1 and left >= 0 and left % stages == 0:
                yield from self.division("middle_chunk", left // stages, "interleave", v, *names)
        for of, count, keys in (("first_layers", first, FIRST), ("last_layers", last, LAST)):
            if v > 1 and count is not None:
                yield from self.division(of, count, "interleave", v, *keys)

    def layout(self) -> Iterator[Fact]:
        """The layout string, read (pipeline_parallel_layer_layout.py)."""
        stated = self.settings.get("pipeline_model_parallel_layout")
        if stated is None or isinstance(stated[0], list) or stated[0] is None:
            return
        text = setting_text(stated[0])
        read = read_layout(text)
        stages = read.stages if read is not None else ()
        p, tokens = self.pipeline, read.tokens if read is not None else ""
        holding = [k for k, stage in enumerate(stages) if "m" in stage]
        yield fact(
            "pipe_layout",
            stated[1],
            plan=self.plan.name,
            text=text[:400],
            readable=read is not None,
            stages=len(stages),
            chunks=len(stages) // p,
            interleave=self.interleave,
            decoders=tokens.count("t"),
            model_layers=self.layer_count,
            embeddings=tokens.count("E"),
            losses=tokens.count("L"),
            ends_right=tokens.startswith("E") and tokens.endswith("L"),
            mtp=tokens.count("m"),
            mtp_stages=len(holding),
            mtp_after="t" not in tokens[tokens.index("m") :] if holding else True,
            mtp_on_first=p > 1 and any(k % p == 0 for k in holding),
        )
        if read is not None:
            yield from self.division("layout_stages", len(stages), "pipeline", p, "pipeline_model_parallel_layout")

    def heads(self) -> Iterator[Fact]:
        """Heads and ranks of attention by tensor and context (transformer_config.py, multi_latent_attention.py)."""
        mesh, heads = self.plan.mesh, self.shapes.get("heads")
        both = mesh.tensor * mesh.context
        if switched_on(self.settings, "hybrid_context_parallel"):
            yield from self.division("hybrid_group", mesh.data * mesh.context, "halves", 2, "hybrid_context_parallel")
        scattered = setting_text(self.settings.get("cp_comm_type", ("", ""))[0]) == "a2a"
        if scattered and mesh.context > 1 and heads is not None:
            yield from self.division("ulysses_heads", heads, "tensor x context", both, "cp_comm_type")
        for of, name in (("latent_queries", "q_lora_rank"), ("latent_keys", "kv_lora_rank")):
            rank = self.number(name)
            if rank is not None and mesh.tensor > 1:
                yield from self.division(of, rank, "tensor", mesh.tensor, name)
        keys, values = self.number("linear_num_key_heads"), self.number("linear_num_value_heads")
        if keys is not None and values is not None:
            yield from self.division("linear_heads", values, "linear_num_key_heads", keys, "linear_num_value_heads")
        for of, count, name in (
            ("linear_key_heads", keys, "linear_num_key_heads"), ("linear_value_heads", values, "linear_num_value_heads"),
        ):  # fmt: skip
            if count is not None and both > 1:
                yield from self.division(of, count, "tensor x context", both, name)
        shards = self.number("tensor_parallel_num_weight_shards")
        if shards is not None:
            yield from self.division("weight_shards", shards, "tensor", mesh.tensor, "tensor_parallel_num_weight_shards")
        groups = self.number("moe_router_num_groups")
        experts = self.shapes.get("experts")
        if groups is not None and experts is not None:
            yield from self.division("router_groups", experts, "moe_router_num_groups", groups, "moe_router_num_groups")

    def replicas(self) -> Iterator[Fact]:
        """Data-parallel groups by optimizer instances and shard groups (parallel_state.py; deepspeed/utils/groups.py)."""
        mesh = self.plan.mesh
        instances = self.number("num_distributed_optimizer_instances")
        if instances is not None:
            name = "num_distributed_optimizer_instances"
            yield from self.division("optimizer_instances", mesh.data * mesh.context, name, instances, name)
            grid = mesh.expert * (mesh.expert_tensor or mesh.tensor)
            if mesh.expert > 1 and mesh.devices % grid == 0:
                yield from self.division("expert_instances", mesh.devices // grid, name, instances, name)
        names = ("zero_optimization.zero_hpz_partition_size", "zero_hpz_partition_size")
        part = self.number(*names)
        if part is not None:
            yield from self.division("hpz", mesh.devices * self.pipeline, "zero_hpz_partition_size", part, *names)

    def expert_shard(self) -> Iterator[Fact]:
        """Ranks that torchtitan lays experts over (parallel_dims.py); replicas are not among them."""
        mesh = self.plan.mesh
        shard = self.number("parallelism.data_parallel_shard_degree", "data_parallel_shard_degree")
        if shard is not None and shard > 0 and mesh.expert > 1:
            ranks = shard * mesh.context * mesh.tensor
            names = ("parallelism.data_parallel_shard_degree", "data_parallel_shard_degree")
            yield from self.division("expert_shard", ranks, "expert", mesh.expert, *names)

    def tokens(self) -> Iterator[Fact]:
        """Tokens of a microbatch by the ranks that share them, and of a step by those of a rank (torchtitan trainer.py)."""
        mesh = self.plan.mesh
        names = ("training.num_tokens_per_microbatch_per_dp_rank", "num_tokens_per_microbatch_per_dp_rank")
        microbatch = self.number(*names)
        if microbatch is None or microbatch < 1:
            return
        unit = (mesh.tensor if self.plan.stated.sequence_parallel else 1) * (2 * mesh.context if mesh.context > 1 else 1)
        yield from self.division("microbatch_tokens", microbatch, "tensor x 2 context", unit, *names)
        step_names = ("training.num_tokens_per_train_step", "num_tokens_per_train_step")
        step = self.number(*step_names) if self.plan.data_known else None
        count = self.number("parallelism.num_pp_microbatches", "num_pp_microbatches") if self.pipeline > 1 else 1
        if step is not None and step > 0 and count is not None:
            per = microbatch * count * mesh.data
            yield from self.division("step_tokens", step, "tokens of one accumulation step", per, *step_names)
