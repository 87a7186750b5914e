"""Launch files for fuzzing: shell scripts made of what scripts are made of, and the configurations of the frameworks.

A script is drawn from a grammar of assignments, defaults, arithmetic, arrays, conditions, loops, cases, functions,
here-documents and a training command; a configuration is one of `tests/data/launch` with values replaced, removed or moved.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

DATA = Path(__file__).resolve().parent.parent / "data"
#: A file's ending tells the reader what it is written in; each stands for the formats that use it.
_FORMS = (".sh", ".slurm", ".yaml", ".yml", ".json", ".toml")
_NAMES = ("TP", "PP", "NNODES", "LAYERS", "GPUS_PER_NODE", "MODEL", "ARGS", "X", "CONFIG", "SLURM_NNODES")
_FLAGS = (
    "--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--num-layers", "--hidden-size", "--seq-length",
    "--num-attention-heads", "--micro-batch-size", "--global-batch-size", "--sequence-parallel", "--bf16", "--vocab-size",
    "--use-distributed-optimizer", "--recompute-granularity", "--num-experts", "--deepspeed_config", "--train-iters",
    "--num-layers-per-virtual-pipeline-stage", "--swiglu", "--context-parallel-size", "--max-position-embeddings", "--unknown",
)  # fmt: skip
_SCALARS = ("1", "2", "8", "0", "-1", "1024", "4096", "full", "selective", "", "1e9", "1_024", "9" * 40, "x y", "ds.json")


def script(rng: Random) -> str:
    """A shell script with a training command somewhere in it."""
    lines = ["#!/bin/bash"]
    if rng.random() < 0.4:
        lines += [f"#SBATCH --nodes={rng.choice(_SCALARS)}", f"#SBATCH --gpus-per-node={rng.randint(0, 16)}"]
    for _ in range(rng.randint(0, 8)):
        lines += _statement(rng, 0)
    lines += [_command(rng)]
    return "\n".join(lines) + "\n"


def _word(rng: Random, depth: int = 0) -> str:
    name, value, pick = rng.choice(_NAMES), rng.choice(_SCALARS), rng.random()
    if depth > 3 or pick < 0.3:
        return value or "''"
    inner = _word(rng, depth + 1)
    if rng.random() < 0.01:
        return rng.choice((f"${{{name}", "$((", '"', "'", "$(", "`"))
    return rng.choice((
        f"${name}", f"${{{name}}}", f'"${name}"', f"${{{name}:-{inner}}}", f"${{{name}:={inner}}}", f"${{{name}[@]}}",
        f'"${{{name}[@]}}"', f"$(({name} * {rng.randint(0, 9)}))", f"$(( {inner} / {rng.randint(0, 2)} ))", f"`pwd`/{inner}",
        f"$(dirname {inner})", f"'{inner.replace(chr(39), '')}'", f'"{inner}"', f"${{{name}//a/b}}", f"${{{name}%.*}}",
        f"${{#{name}}}", f"${{!{name}}}", f"$(echo {inner})", f"\\{value}", "$?", "$1", '"$@"', f"${{{name}:1:2}}",
        f"$((2**{rng.choice((3, 62, 999))}))", f"~/{value}", f"{{{value},{value}}}",
    ))  # fmt: skip


def _statement(rng: Random, depth: int) -> list[str]:
    name, word = rng.choice(_NAMES), _word(rng)
    inner = _statement(rng, depth + 1) if depth < 4 else [f"{name}={word}"]
    tests = (f'[ "${name}" = {word} ]', f"[[ ${name} -gt {word} ]]", "true", f"(( {name} > 2 ))", f"test -n ${name}")
    condition, end = rng.choice(tests), rng.choice(("EOF", "EOF", "E"))
    return rng.choice((
        [f"{name}={word}"],
        [f"export {name}={word}"],
        [f"{name}+=({word} {word})"],
        [f"{name}=(", f"  {_flags(rng)} # note", ")"],
        [f'{name}="{_flags(rng)} \\', f'  {_flags(rng)}"'],
        [f"let {name}={word}"],
        [f"if {condition}; then", *inner, *(["else", f"{name}={word}"] if rng.random() < 0.5 else []), "fi"],
        [f"for {name} in {word} {word}; do", *inner, "done"],
        [f"while {condition}; do", *inner, "done"],
        [f"case ${name} in", f"  {word}) {name}=1 ;;", "  *)", *inner, "  ;;", "esac"],
        [f"{name.lower()}() {{", *inner, "}", name.lower()],
        [f"cat <<EOF > {word}", '{"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 1}}', end],
        [f"source {word}"],
        [f"read -r {name} <<< {word}"],
        [f"{name}=$({word} | head -n 1)"],
        [f"set -- {word}", "shift"],
        [f"unset {name}"],
        [f"declare -a {name}=({word})"],
        [f"eval {name}={word}"],
        [f"# {word}"],
    ))  # fmt: skip


def _flags(rng: Random) -> str:
    return " ".join(
        rng.choice((flag, f"{flag} {_word(rng)}", f"{flag}={_word(rng)}")) for flag in rng.sample(_FLAGS, rng.randint(1, 6))
    )


def _command(rng: Random) -> str:
    launcher = rng.choice((
        "torchrun --nproc_per_node 8 --nnodes 2", "srun", "python -m torch.distributed.launch", "deepspeed", "bash -c",
        "srun torchrun --nproc_per_node $GPUS_PER_NODE", "accelerate launch --config_file a.yaml", "mpirun -np 16", "",
    ))  # fmt: skip
    return f"{launcher} pretrain_gpt.py {_flags(rng)} \\\n  {_flags(rng)} ${{{rng.choice(_NAMES)}[@]}} 2>&1 | tee log.txt"


@cache
def shipped() -> tuple[tuple[str, bytes], ...]:
    """The launch files that the tests read, by name."""
    return tuple((path.name, path.read_bytes()) for path in sorted((DATA / "launch").iterdir()))


@cache
def model_files() -> tuple[bytes, ...]:
    """The model configurations that the tests read."""
    return tuple(path.read_bytes() for path in sorted((DATA / "hf_config").rglob("*.json")))


def _tree(name: str, raw: bytes) -> Any:
    import yaml

    if name.endswith(".json"):
        return json.loads(raw)
    return tomllib.loads(raw.decode()) if name.endswith(".toml") else yaml.load(raw, yaml.CSafeLoader)


def _toml(value: Any, path: tuple[str, ...] = ()) -> str:
    """Tables of a tree; what TOML has no word for is left to be refused."""
    if not isinstance(value, dict):
        return f"value = {json.dumps(value, default=str)}\n"
    own = [f"{json.dumps(str(key))} = {json.dumps(one, default=str)}" for key, one in value.items() if not isinstance(one, dict)]
    head = [f"[{'.'.join(json.dumps(one) for one in path)}]"] if path else []
    below = [_toml(one, (*path, str(key))) for key, one in value.items() if isinstance(one, dict)]
    return "\n".join([*head, *own, *below]) + "\n"


def launch_file(rng: Random, changed: Callable[[Random, Any], Any], written: Callable[[Random, Any], bytes]) -> tuple[str, bytes]:
    """The name and the bytes of a launch file."""
    if rng.random() < 0.4:
        return f"run{rng.choice(_FORMS[:2])}", script(rng).encode()
    name, raw = rng.choice(shipped())
    if name.endswith(_FORMS[:2]) or rng.random() < 0.2:
        return name, raw
    tree = changed(rng, _tree(name, raw))
    if name.endswith(".toml"):
        return name, _toml(tree).encode("utf-8", "replace")
    return name, json.dumps(tree, default=str).encode() if name.endswith(".json") else written(rng, tree)


def named(name: str, raw: bytes) -> bytes:
    """Name and bytes in one, for readers that are given nothing but bytes; `unnamed` takes it apart."""
    return name.encode() + b"\n" + raw


def unnamed(raw: bytes) -> tuple[str, bytes]:
    """The name and the rest; a name that is none of ours, after mutation, counts as a script's."""
    first, _, rest = raw.partition(b"\n")
    name = first.decode("utf-8", "replace")
    return (name, rest) if name.endswith(_FORMS) and name.isprintable() and "/" not in name else ("run.sh", raw)
