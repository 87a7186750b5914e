"""Proposals whose model is an operator graph, for fuzzing: the families, and graphs of blocks over drawn dims.

Small, so that a whole review of one takes a second: at most 8 layers and 16 devices. Stages are cut, meshes and layouts stated at
random; whether they fit the graph is another matter.
"""

from __future__ import annotations

from random import Random
from typing import Any

#: Sizes of a dim: small, prime, odd, large, and what no device divides.
SIZES = (
    1, 2, 3, 7, 8, 24, 64, 96, 128, 509, 1000, 1024, 2**20, "microbatch", "sequence_length", "microbatch x 2",
    "sequence_length x 2 / 8",
)  # fmt: skip
_AXES = ("data", "tensor", "pipeline", "context", "expert")


def graph(rng: Random) -> dict[str, Any]:
    """A model: one of the families, or operators."""
    return rng.choice((_resnet, _towers, _vision, _blocks, _blocks))(rng)


def _resnet(rng: Random) -> dict[str, Any]:
    found = {"family": "wide_resnet", "image_size": rng.choice((1, 7, 32, 64)), "classes": rng.choice((1, 10, 1000))}
    found["blocks"] = [rng.randint(1, 3) for _ in range(rng.randint(1, 4))]
    for key, values in (("base_channels", (1, 16, 63, 64)), ("width_factor", (1, 2)), ("reduction_width_factor", (1, 2))):
        if rng.random() < 0.5:
            found[key] = rng.choice(values)
    return found


def _shape(rng: Random) -> dict[str, Any]:
    heads = rng.choice((1, 2, 3, 8))
    wide, ffn = heads * rng.choice((1, 16, 64)), rng.choice((1, 96, 256, 509))
    return {"layers": rng.randint(1, 4), "hidden": wide, "heads": heads, "ffn": ffn}


def _towers(rng: Random) -> dict[str, Any]:
    found: dict[str, Any] = {"family": "encoder_decoder", "encoder": _shape(rng), "vocabulary": rng.choice((1, 1000, 32128))}
    if rng.random() < 0.5:
        found["decoder"] = {**_shape(rng), "hidden": found["encoder"]["hidden"], "heads": found["encoder"]["heads"]}
    for key, values in (("target_length", (1, 37, 128)), ("relative_positions", (0, 32)), ("tied_embeddings", (True, False))):
        if rng.random() < 0.5:
            found[key] = rng.choice(values)
    return found


def _vision(rng: Random) -> dict[str, Any]:
    found: dict[str, Any] = {
        "family": "vision_decoder",
        "vision": {**_shape(rng), "image_size": rng.choice((16, 28, 30)), "patch_size": rng.choice((7, 14, 16))},
        "decoder": {"family": rng.choice(("llama", "gpt")), **_shape(rng), "vocabulary": 1000},
    }  # fmt: skip
    if rng.random() < 0.5:
        found |= {"images": rng.choice((1, 2)), "projector": {"layers": rng.choice((1, 2))}}
    if rng.random() < 0.5:
        found["fusion"] = rng.choice(("prefix", "cross_attention"))
    return found


def _blocks(rng: Random) -> dict[str, Any]:
    """Blocks of one MLP or of one attention, with or without a table at the ends; names of dims in any way."""
    token = rng.choice((1, 5, 64, "sequence_length"))
    dims = {"batch": "microbatch", "token": token, "keys": token, "wide": rng.choice(SIZES), "inner": rng.choice(SIZES)}
    rows: list[dict[str, Any]] = []
    stream, parameters = ["batch", "token", "wide"], {}
    before = "x"
    shared = rng.random() < 0.2
    if shared:
        parameters["both"] = ["wide", "inner"]
    for k in range(rng.randint(1, 6)):
        name = f"b{k}"
        if rng.random() < 0.3:
            keys = {"from": before, "dims": ["batch", "keys", "wide"]}
            rows += [
                {"name": f"{name}.score", "kind": "batched_matmul", "inputs": [before, keys], "output": [*stream[:2], "keys"]},
                {"name": f"{name}.soft", "kind": "softmax", "inputs": [f"{name}.score"], "over": ["keys"]},
                {"name": f"{name}.down", "kind": "batched_matmul", "inputs": [f"{name}.soft", keys], "output": stream},
            ]  # fmt: skip
        else:
            norm = {"name": f"{name}.norm", "kind": "norm", "inputs": [before], "over": ["wide"]}
            rows.append({**norm, "parameters": {"w": ["wide"]}})
            weight: Any = "both" if shared else ["wide", "inner"]
            up = {"name": f"{name}.up", "kind": "matmul", "inputs": [f"{name}.norm"], "output": [*stream[:2], "inner"]}
            down = {"name": f"{name}.down", "kind": "matmul", "inputs": [f"{name}.up"], "output": stream}
            rows += [{**up, "parameters": {"weight": weight}}, {**down, "parameters": {"weight": ["inner", "wide"]}}]
        if rng.random() < 0.8:
            rows.append({"name": f"{name}.sum", "kind": "add", "inputs": [before, f"{name}.down"]})
        before = rows[-1]["name"]
    if rng.random() < 0.3:
        rng.shuffle(rows)
    return {"dims": dims, "inputs": {"x": {"dims": stream, "dtype": "bf16"}}, "parameters": parameters, "operators": rows}


def plan(rng: Random, devices: int) -> dict[str, Any]:
    """Stages that are cut, sized and laid out at random."""
    stages: list[dict[str, Any]] = []
    first = 0
    for _ in range(rng.randint(1, 4)):
        last = first + rng.randint(0, 3)
        mesh = {axis: rng.choice((1, 1, 2, 3, 4)) for axis in rng.sample(("data", "tensor"), rng.randint(0, 2))}
        stage: dict[str, Any] = {"layers": [first, last], "devices": rng.choice((1, 2, 4, devices))}
        if mesh:
            stage |= {"mesh": mesh, "devices": mesh.get("data", 1) * mesh.get("tensor", 1)}
        if rng.random() < 0.4:
            names = rng.sample(("up", "down", "norm", "b0.up", "head", "qkv", "conv", "u\u0440"), 2)
            dims = ("inner", "wide", "token", "batch", "heads", "+", "")
            stage["layouts"] = {name: {rng.choice(dims): rng.choice(_AXES)} for name in names}
        if rng.random() < 0.1:
            stage["repeat"] = rng.randint(1, 3)
        stages.append(stage)
        first = last + rng.choice((1, 1, 1, 1, 0, 2))
    return {
        "name": "submitted", "role": "submitted", "schedule": rng.choice(("gpipe", "1f1b", "interleaved_1f1b", "zb_h1")),
        "microbatch": rng.choice((1, 2, 3)), "zero": rng.choice((0, 1, 2, 3)), "sequence_parallel": rng.choice((True, False)),
        "recompute": rng.choice(("none", "selective", "full")), "stages": stages,
    }  # fmt: skip


def on_a_graph(rng: Random, whole: dict[str, Any]) -> dict[str, Any]:
    """A proposal with a graph in place of its shapes, and half the time stages of its own."""
    found = {**whole, "model": {"graph": graph(rng)}}
    if rng.random() < 0.5 and len(whole.get("plans", ())) > 1:
        found["plans"] = [whole["plans"][0], plan(rng, 8)]
    return found
