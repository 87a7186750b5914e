"""Ways in which scripts and configurations are written: what must be read of each, and what may not be guessed."""

from __future__ import annotations

import pytest
from planproof.errors import InputError
from planproof.importers.launch import Launch, SourceFile, Use, only_kind, read_launch

SHAPES = "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048"
BATCH = "--micro-batch-size 2 --global-batch-size 64"


def launch(text: str, name: str = "train.sh") -> Launch:
    file = SourceFile(name, text.encode())
    return read_launch(file, only_kind(file))


def notes(found: Launch) -> str:
    return "; ".join(text for text, _ in found.notes)


def gaps(found: Launch) -> dict[str, str]:
    return {gap.path: gap.why for gap in found.gaps}


def refusal(text: str, name: str = "train.sh") -> InputError:
    with pytest.raises(InputError) as caught:
        launch(text, name)
    assert caught.value.place.line is not None
    assert caught.value.remedy
    return caught.value


@pytest.mark.parametrize("given", ["--fp8-format hybrid", "--fp8-format e4m3", "--fp8-hybrid", "--fp8-e4m3"])
def test_products_in_fp8_are_the_workloads_and_not_a_note(given: str) -> None:
    found = launch(f"torchrun pretrain_gpt.py {SHAPES} {BATCH} --bf16 {given}")
    assert found.value("/workload/precision/compute") == "fp8"
    assert found.value("/workload/precision/parameters") == "bf16"


TITAN = '[job]\ndump_folder = "out"\n[model]\nname = "llama3"\nflavor = "8B"\n'
TRAINING = "[training]\nlocal_batch_size = 1\nseq_len = 8\n"
NEMO = "micro_batch_size: 1, global_batch_size: 8}\n"


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a.toml", (TITAN, 'converters = ["float8"]\n', TRAINING)),
        ("b.toml", (TITAN, 'converters = ["quantize.linear.float8"]\n', TRAINING)),
        ("c.toml", (TITAN, TRAINING, "[float8]\nenable_float8_linear = true\n")),
        (
            "d.yaml",
            (
                "trainer: {devices: 8, num_nodes: 1, precision: bf16}\n",
                "model: {mcore_gpt: true, megatron_amp_O2: true, fp8: true, num_layers: 4, hidden_size: 64, ", NEMO,
            ),
        ),
        (
            "e.yaml",
            (
                "model: {num_layers: 4, hidden_size: 64, tensor_model_parallel_size: 1}\n",
                "train: {train_iters: 1, ", NEMO, "ddp: {use_distributed_optimizer: true}\n",
                "mixed_precision: bf16_with_fp8_hybrid\n",
            ),
        ),
        (
            "f.yaml",
            (
                "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: fp8\n",
                "fsdp_config: {fsdp_sharding_strategy: FULL_SHARD}\nnum_machines: 1\nnum_processes: 8\n",
            ),
        ),
    ],
)  # fmt: skip
def test_fp8_is_read_from_every_kind_that_can_say_it(name: str, lines: tuple[str, ...]) -> None:
    assert launch("".join(lines), name).value("/workload/precision/compute") == "fp8"


def test_without_o2_nemo_keeps_fp32_parameters_and_multiplies_in_bf16() -> None:
    text = "trainer: {devices: 8, num_nodes: 1, precision: bf16}\nmodel: {mcore_gpt: true, num_layers: 4, hidden_size: 64}\n"
    found = launch(text, "nemo.yaml")
    assert found.value("/workload/precision/parameters") == "fp32"
    assert found.value("/workload/precision/compute") == "bf16"


def test_what_follows_a_switch_is_not_its_value() -> None:
    found = launch(f'torchrun pretrain_gpt.py {SHAPES} {BATCH} --bf16 "$@"')
    assert found.value("/workload/precision/parameters") == "bf16"
    assert "more arguments may be given: '$@'" in notes(found)


def test_fp32_is_not_taken_for_stated_where_arguments_may_be_added() -> None:
    found = launch(f"torchrun pretrain_gpt.py {SHAPES} {BATCH} $EXTRA")
    assert found.value("/workload/precision/parameters") is None
    assert "more arguments may be given: 'EXTRA' is not set" in gaps(found)["/workload/precision/parameters"]
    plain = launch(f"torchrun pretrain_gpt.py {SHAPES} {BATCH}")
    assert plain.value("/workload/precision/parameters") == "fp32"


def test_fp32_is_not_taken_for_stated_where_a_script_only_fills_variables() -> None:
    found = launch(f'ARGS="{SHAPES} {BATCH}"\nexport ARGS\n./run.sh\n')
    assert "/workload/precision/parameters" in gaps(found)


def test_an_argument_behind_a_comment_that_ended_the_command_is_told() -> None:
    lines = ("torchrun pretrain_gpt.py", SHAPES, BATCH, "--bf16", "# --seed 1", "--pipeline-model-parallel-size 2\n")
    found = launch(" \\\n ".join(lines))
    assert found.value("/plans/0/uniform/pipeline") == 1
    assert "'--pipeline-model-parallel-size' stands alone" in notes(found)


def test_degrees_that_are_stated_beside_an_open_one_are_told() -> None:
    text = f"for T in 1 2; do torchrun pretrain_gpt.py {SHAPES} {BATCH} --bf16 --tensor-model-parallel-size $T "
    found = launch(text + "--pipeline-model-parallel-size 4; done")
    assert found.value("/plans/0/uniform/pipeline") is None
    assert "'pipeline_model_parallel_size' 4" in notes(found)


def test_an_argument_without_its_value_is_refused() -> None:
    error = refusal(f"torchrun pretrain_gpt.py {SHAPES} --micro-batch-size --global-batch-size 8")
    assert (error.code, "has no value" in error.message) == ("launch.type", True)


@pytest.mark.parametrize("program", ["tools/run_text_generation_server.py", "generate_samples_gpt.py", "gpt_static_inference.py"])
def test_a_command_that_generates_text_is_refused(program: str) -> None:
    error = refusal(f"torchrun {program} {SHAPES} --micro-batch-size 1 --bf16")
    assert error.code == "launch.inference"
    assert program in error.message


@pytest.mark.parametrize(
    ("line", "kind", "file"),
    [
        ("torchrun --nproc_per_node=8 -m torchtitan.train --job.config_file ./llama3_8b.toml", "torchtitan", "./llama3_8b.toml"),
        ("accelerate launch --config_file fsdp.yaml train.py --bf16", "accelerate", "fsdp.yaml"),
        ("deepspeed --num_gpus 8 train.py --deepspeed ds.json", "deepspeed", "ds.json"),
        ("torchrun \\\n  run_train.py \\\n  --config-file tiny.yaml", "nanotron", "tiny.yaml"),
        ("python deepy.py train.py configs/20B.yml", "neox", "configs/20B.yml"),
        ("composer train/train.py train/yamls/mpt-7b.yaml", "llm-foundry", "train/yamls/mpt-7b.yaml"),
        ("python megatron_gpt_pretraining.py --config-path conf --config-name llama", "nemo", "llama"),
        ("axolotl train config.yaml", "accelerate", "config.yaml"),
    ],
)
def test_a_script_that_starts_a_framework_names_the_file_that_is_wanted(line: str, kind: str, file: str) -> None:
    error = refusal(f"#!/bin/bash\n# deepspeed --deepspeed old.json\nexport X=1\n{line}\n")
    assert (error.code, error.place.line) == ("launch.elsewhere", 4)
    assert f"'{file}'" in error.message
    assert f"planproof import {kind} FILE" in (error.remedy or "")


def test_a_section_with_nothing_in_it_is_no_key_that_was_not_understood() -> None:
    found = launch('[job]\n[model]\nname = "llama3"\nflavor = "8B"\n[training]\nseq_len = 8\n', "train.toml")
    assert [key.name for key in found.keys if key.use is Use.UNKNOWN] == []


def test_the_older_name_of_the_pipeline_degree_is_a_degree() -> None:
    found = launch(f"deepspeed pretrain_gpt.py {SHAPES} {BATCH} --fp16 --pipe-parallel-size 4 --deepspeed")
    assert found.value("/plans/0/uniform/pipeline") == 4


@pytest.mark.parametrize(("strategy", "zero"), [("FULL_SHARD", 3), ("SHARD_GRAD_OP", 2), ("NO_SHARD", 0)])
def test_a_sharding_strategy_counts_without_its_prefix(strategy: str, zero: int) -> None:
    text = f"base_model: x\nsequence_len: 512\nmicro_batch_size: 1\nbf16: true\nfsdp_config: {{sharding_strategy: {strategy}}}\n"
    assert launch(text, "a.yaml").value("/plans/0/zero") == zero


def test_a_part_of_a_neox_configuration_is_no_deepspeed_configuration() -> None:
    text = (
        '{"zero_optimization": {"stage": 1}, "train_micro_batch_size_per_gpu": 4, "checkpoint_activations": true,\n'
        ' "train_iters": 10, "lr_decay_iters": 10, "hidden_dropout": 0, "fp16": {"enabled": true}}\n'
    )
    found = launch(text, "train.yml")
    assert (found.kind, found.value("/plans/0/recompute"), found.value("/plans/0/zero")) == ("neox", "full", 1)


@pytest.mark.parametrize(
    "text",
    [
        "modules: {pre_trainer: {framework: megatron, model: llama3_8B.yaml, overrides: {lora: {enabled: true, dim: 16}}}}\n",
        "trainer: {devices: 1, num_nodes: 1}\nmodel: {virtual_prompt_style: p-tuning, micro_batch_size: 1, num_layers: 2}\n",
    ],
)
def test_adapters_are_refused_where_they_are_switched_on(text: str) -> None:
    assert refusal(text, "a.yaml").code == "launch.adapter"


def test_torchrun_starts_one_node_unless_told_otherwise() -> None:
    found = launch(f"torchrun --nproc_per_node 8 pretrain_gpt.py {SHAPES} {BATCH} --bf16")
    part = found.part("/cluster/nodes/count")
    assert part is not None
    assert (part.value, found.value("/plans/0/uniform/data")) == (1, 8)
    assert "torch/distributed/run.py" in (part.assumed or "")


@pytest.mark.parametrize("given", ["--nnodes $NNODES", "--nnodes 1:4"])
def test_nodes_that_are_open_stay_open(given: str) -> None:
    found = launch(f"torchrun {given} --nproc_per_node 8 pretrain_gpt.py {SHAPES} {BATCH} --bf16")
    assert found.value("/cluster/nodes/count") is None
    assert "/cluster/nodes/count" in gaps(found)
    assert found.value("/plans/0/uniform/data") == "rest"


def test_a_launcher_without_a_default_leaves_the_nodes_open() -> None:
    found = launch(f"srun python pretrain_gpt.py {SHAPES} {BATCH} --bf16")
    assert found.value("/cluster/nodes/count") is None
