"""What a careful reader takes from each small launch file of `tests/data/launch`: axes, batch, shapes, precision, recompute."""

from __future__ import annotations

from pathlib import Path

import pytest
from planproof.importers.launch import LAUNCH, Launch, SourceFile, Use, kinds_of, only_kind, read_launch

DATA = Path(__file__).resolve().parents[2] / "data" / "launch"
M, W, P = "/model/transformer/", "/workload/", "/plans/0/"
U = P + "uniform/"
BF16 = {W + "precision/parameters": "bf16", W + "precision/gradients": "fp32", W + "precision/master": "fp32"}
FP16 = {W + "precision/parameters": "fp16", W + "precision/gradients": "fp16", W + "precision/master": "fp32"}


#: File -> kind, and what it says, worked out by hand.
TABLE: dict[str, tuple[str, dict[str, object]]] = {
    "megatron.sh": (
        "megatron",
        {
            M + "layers": 40,
            M + "hidden": 5120,
            M + "heads": 40,
            M + "kv_heads": 8,
            M + "ffn": 13824,
            M + "vocabulary": 32000,
            M + "gated": True,
            M + "norm": "rms",
            M + "biases": False,
            M + "tied_embeddings": False,
            M + "positions": 0,
            W + "sequence_length": 4096,
            W + "global_batch": "256 sequences",
            W + "attention": "flash",
            W + "dropout": 0.0,
            U + "data": 4,
            U + "tensor": 2,
            U + "pipeline": 4,
            P + "interleave": 2,
            P + "schedule": "interleaved_1f1b",
            P + "microbatch": 1,
            P + "zero": 1,
            P + "recompute": "selective",
            P + "sequence_parallel": True,
            "/cluster/nodes/count": 4,
            "/cluster/nodes/devices": 8,
            "/proposal/run_length/steps": 1000,
            "/proposal/framework/settings/CUDA_DEVICE_MAX_CONNECTIONS": 1,
            **BF16,
        },
    ),
    "megatron.yaml": (
        "megatron",
        {
            M + "layers": 24,
            M + "hidden": 1024,
            M + "heads": 16,
            M + "ffn": 4096,
            M + "vocabulary": 50304,
            M + "positions": 1024,
            M + "moe/experts": 8,
            M + "moe/top_k": 2,
            M + "moe/first_dense": 2,
            M + "biases": True,
            M + "tied_embeddings": True,
            W + "sequence_length": 1024,
            W + "global_batch": "32 sequences",
            W + "loss_scaling": "dynamic",
            U + "data": "rest",
            U + "tensor": 2,
            U + "pipeline": 1,
            U + "expert": 4,
            P + "microbatch": 2,
            P + "recompute": "full",
            P + "zero": 0,
            "/proposal/run_length/tokens": f"{3200 * 1024} tokens",
            **FP16,
        },
    ),
    "bloom.slurm": (
        "megatron",
        {
            M + "layers": 22,
            M + "hidden": 1024,
            M + "heads": 16,
            M + "vocabulary": 50304,
            M + "positions": 0,
            W + "sequence_length": 1024,
            W + "global_batch": "64 sequences",
            P + "microbatch": 2,
            P + "recompute": "full",
            P + "zero": 1,
            P + "schedule": "1f1b",
            "/cluster/nodes/count": 2,
            **BF16,
            # 22 layers and two embeddings in four equal parts, two pipelines of 16 devices over tensor 2: data 2.
            P + "uniform/data": 2,
            P + "uniform/pipeline": 4,
            P + "uniform/layers": [5, 6, 6, 5],
        },
    ),
    "deepspeed.json": (
        "deepspeed",
        {
            W + "global_batch": "512 sequences",
            P + "microbatch": 4,
            P + "accumulation": 8,
            U + "data": 16,
            P + "zero": 2,
            W + "precision/parameters": "bf16",
            W + "precision/gradients": "bf16",
            W + "optimizer/name": "adamw",
        },
    ),
    "deepspeed_auto.json": ("deepspeed", {P + "zero": 3, U + "data": "rest"}),
    "torchtitan.toml": (
        "torchtitan",
        {
            M + "layers": 32,
            M + "hidden": 4096,
            M + "heads": 32,
            M + "kv_heads": 8,
            M + "ffn": 14336,
            M + "vocabulary": 128256,
            W + "sequence_length": 8192,
            U + "data": 8,
            U + "tensor": 4,
            U + "pipeline": 2,
            P + "microbatch": 2,
            P + "accumulation": 4,
            P + "zero": 2,
            P + "schedule": "1f1b",
            P + "recompute": "full",
            P + "sequence_parallel": True,
            **BF16,
        },
    ),
    "nemo.yaml": (
        "nemo",
        {
            M + "layers": 24,
            M + "hidden": 2048,
            M + "heads": 16,
            M + "ffn": 8192,
            M + "positions": 2048,
            W + "dropout": 0.1,
            W + "sequence_length": 2048,
            W + "global_batch": "128 sequences",
            U + "data": 4,
            U + "tensor": 4,
            U + "pipeline": 2,
            P + "interleave": 3,
            P + "microbatch": 2,
            P + "zero": 1,
            P + "recompute": "selective",
            P + "sequence_parallel": True,
            "/cluster/nodes/count": 4,
            "/cluster/nodes/devices": 8,
            **BF16,
        },
    ),
    "bridge.yaml": (
        "nemo",
        {
            M + "layers": 32,
            M + "hidden": 4096,
            M + "heads": 32,
            M + "kv_heads": 8,
            M + "ffn": 14336,
            M + "vocabulary": 128256,
            M + "gated": True,
            M + "norm": "rms",
            M + "biases": False,
            W + "sequence_length": 8192,
            W + "global_batch": "64 sequences",
            U + "data": "rest",
            U + "tensor": 2,
            U + "pipeline": 2,
            P + "zero": 1,
            **BF16,
        },
    ),
    "mlperf.sh": (
        "nemo",
        {
            U + "data": 4,
            U + "tensor": 4,
            U + "pipeline": 8,
            P + "interleave": 6,
            P + "microbatch": 2,
            P + "accumulation": 48,
            W + "global_batch": "384 sequences",
            "/cluster/nodes/count": 16,
            "/cluster/nodes/devices": 8,
        },
    ),
    "nanotron.yaml": (
        "nanotron",
        {
            M + "layers": 24,
            M + "hidden": 2048,
            M + "heads": 16,
            M + "kv_heads": 4,
            M + "ffn": 8192,
            M + "vocabulary": 49152,
            M + "tied_embeddings": True,
            W + "sequence_length": 2048,
            W + "global_batch": "256 sequences",
            U + "data": 8,
            U + "tensor": 4,
            U + "pipeline": 2,
            P + "schedule": "1f1b",
            P + "microbatch": 2,
            P + "accumulation": 16,
            P + "zero": 1,
            P + "recompute": "full",
            P + "sequence_parallel": True,
            **BF16,
        },
    ),
    "neox.yml": (
        "neox",
        {
            M + "layers": 24,
            M + "hidden": 2048,
            M + "heads": 16,
            M + "ffn": 8192,
            M + "tied_embeddings": False,
            M + "positions": 0,
            W + "sequence_length": 2048,
            U + "data": "rest",
            U + "tensor": 2,
            U + "pipeline": 2,
            P + "microbatch": 8,
            P + "accumulation": 4,
            P + "zero": 1,
            P + "recompute": "full",
            W + "loss_scaling": "dynamic",
            **FP16,
        },
    ),
    "foundry.yaml": (
        "llm-foundry",
        {
            M + "layers": 32,
            M + "hidden": 4096,
            M + "heads": 32,
            M + "ffn": 16384,
            M + "vocabulary": 50368,
            M + "positions": 0,
            W + "sequence_length": 2048,
            W + "global_batch": "1024 sequences",
            P + "microbatch": 8,
            P + "zero": 2,
            P + "recompute": "none",
            W + "optimizer/name": "lion",
            "/proposal/run_length/steps": 5000,
            W + "precision/parameters": "bf16",
            W + "precision/communication": "bf16",
        },
    ),
    "accelerate.yaml": (
        "accelerate",
        {U + "data": 16, P + "zero": 3, P + "recompute": "full", "/cluster/nodes/count": 2, "/cluster/nodes/devices": 8, **BF16},
    ),
    "axolotl.yaml": (
        "accelerate",
        {
            U + "data": 4,
            U + "tensor": 2,
            U + "context": 2,
            P + "microbatch": 1,
            P + "accumulation": 4,
            P + "zero": 3,
            P + "recompute": "full",
            W + "sequence_length": 4096,
            W + "attention": "flash",
            "/proposal/run_length/steps": 500,
            **BF16,
        },
    ),
    "primus.yaml": (
        "primus",
        {
            M + "layers": 32,
            M + "hidden": 4096,
            M + "kv_heads": 8,
            M + "ffn": 14336,
            M + "moe/experts": 8,
            M + "moe/top_k": 2,
            W + "sequence_length": 4096,
            W + "global_batch": "256 sequences",
            U + "data": "rest",
            U + "pipeline": 4,
            U + "expert": 8,
            P + "microbatch": 2,
            P + "zero": 1,
            **BF16,
        },
    ),
}
#: What each file leaves open, that a reader would look for: the pointer, and a word of the reason.
OPEN = {
    "deepspeed.json": {P + "recompute": "code"},
    "deepspeed_auto.json": {W + "global_batch": "auto", P + "microbatch": "auto", W + "precision/parameters": "auto"},
    "nemo.yaml": {M + "vocabulary": "tokenizer"},
    "axolotl.yaml": {"/model": "some-8B"},
    "primus.yaml": {P + "recompute": "2 of 8 layers"},
    "mlperf.sh": {"/model/transformer": "benchmark"},
}


def read(name: str) -> Launch:
    file = SourceFile(name, (DATA / name).read_bytes())
    return read_launch(file, only_kind(file))


@pytest.mark.parametrize("name", TABLE)
def test_a_file_says_what_a_careful_reader_takes_from_it(name: str) -> None:
    kind, wanted = TABLE[name]
    found = read(name)
    assert found.kind == kind
    assert {path: found.value(path) for path in wanted} == wanted


@pytest.mark.parametrize("name", OPEN)
def test_what_a_file_leaves_open_is_told_and_not_filled(name: str) -> None:
    found = read(name)
    for path, word in OPEN[name].items():
        assert found.value(path) is None
        assert any(gap.path == path and word in gap.why for gap in found.gaps), path


def test_every_file_has_its_row() -> None:
    assert {path.name for path in DATA.iterdir()} == set(TABLE)


@pytest.mark.parametrize("name", TABLE)
def test_every_key_is_read_or_set_aside_with_a_reason(name: str) -> None:
    keys = read(name).keys
    assert keys
    assert [key.name for key in keys if key.use is Use.UNKNOWN] == []
    assert [key.name for key in keys if key.use is Use.ASIDE and not key.why] == []


@pytest.mark.parametrize("name", TABLE)
def test_every_value_stands_where_the_file_states_it(name: str) -> None:
    text = (DATA / name).read_text(encoding="utf-8").splitlines()
    found = read(name)
    for part in found.parts:
        assert part.place.file == name
        assert part.place.line is not None
        assert 1 <= part.place.line <= len(text), part.path
        if part.assumed is None and part.key and type(part.value) is int and part.value > 16:
            line = text[part.place.line - 1]
            derived = any(word in part.path for word in ("/nodes/", "data", "accumulation", "ffn"))
            assert derived or "$" in line or str(part.value) in line.replace("_", ""), part.path


@pytest.mark.parametrize("name", TABLE)
def test_a_default_names_its_framework_and_source(name: str) -> None:
    for part in read(name).parts:
        if part.assumed is not None:
            assert "; " in part.assumed or ", " in part.assumed
            assert any(char.isdigit() for char in part.assumed), part.assumed


@pytest.mark.parametrize("name", TABLE)
def test_a_file_is_of_one_kind(name: str) -> None:
    found = kinds_of(SourceFile(name, (DATA / name).read_bytes()))
    assert len(found) == 1
    assert found[0] in LAUNCH


def test_a_value_points_to_the_assignment_of_its_variable_and_not_to_its_use() -> None:
    found = read("megatron.sh")
    lines = {part.path: part.place.line for part in found.parts}
    wanted = {U + "tensor": 6, U + "pipeline": 7, W + "sequence_length": 9, M + "layers": 8}
    assert {path: lines[path] for path in wanted} == wanted
