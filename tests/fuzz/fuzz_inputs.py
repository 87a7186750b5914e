"""Inputs for fuzzing, drawn from a `random.Random`: whole proposals valid, nearly valid and hostile; rules; topologies; logs.

The same drawing serves hypothesis (through `st.randoms()`), the runner `bench/fuzz.py` (a million of them, by seed) and the
coverage-guided `bench/fuzz_atheris.py` (which brings its own bytes). Models have at most 8 layers, clusters at most 16 devices.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cache
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

from fuzz_launch import launch_file, model_files, named, unnamed
from planproof.cluster.description import DescriptionError, read_description
from planproof.config.toml_file import read_toml
from planproof.document import parse_document
from planproof.errors import PlanproofError
from planproof.facts import KINDS
from planproof.hardware.reader import read_device
from planproof.hardware.sheets import Origin
from planproof.importers import hf_config, nccl_tests, nvidia_topo, rocm_smi, torch_allreduce
from planproof.importers.launch import LAUNCH, SourceFile, kinds_of, read_launch
from planproof.importers.run_log import read_run_log
from planproof.inference import load_rule
from planproof.inference.comments import read_comments
from planproof.proposal.launching import load_launch
from planproof.proposal.load import validate
from planproof.proposal.profile import read_profile
from planproof.report.baseline import parse_baseline

#: What a reader may raise: everything else is a fault of ours.
ALLOWED = (PlanproofError, DescriptionError)
_NODES = ("dgx_h100", "dgx_a100", "dgx1_v100")
_VALUES: tuple[object, ...] = (
    0, -1, 1, 3, 7, 2**31, 2**63, 10**30, 1.5, float("inf"), float("nan"), -0.0, 1e308, True, False, None, "", "none", "all", "x",
    "1e9", "400 GB/s", "80 GiB", "2 us", "1:30", "yes", "{0}", "../x", "/etc/passwd", "\u202e", "a" * 300, [], {}, [[]],
    {"value": "1 GB/s", "grade": "measured"}, [0, 7], ["data", "data"], "::error::x", "<b>", "=1+1", "\x00", "\x1b[2J",
)  # fmt: skip
_WORDS = (
    "planproof", "model", "transformer", "layers", "cluster", "nodes", "fabric", "plans", "stages", "uniform", "policy",
    "claims", "profile", "file", "grade", "measured", "tensor", "data", "&a", "*a", "<<", "!!python/object:x", "- ", "? ",
    "---", "...", "%", "{", "}", "[", "]", ",", ": ", "\n", "\t", "'", '"', "#", "|", ">", "\\", "\r", "\u0085", "\ufeff",
    "\ud7ff", "0x", "1e400", "NV18", "GPU0", "X", "SYS", "# Out of bounds values", "9" * 5000, "float", "sum", "nan", "XGMI",
    "when", "all", "absent", "= group.size", "< params.x",
)  # fmt: skip


def proposal(rng: Random) -> dict[str, Any]:
    """A whole proposal that is well formed; whether its plan runs is another matter."""
    pick = rng.choice
    nodes, per = pick((1, 2)), 8
    tensor, pipeline, context = pick((1, 1, 2, 4)), pick((1, 1, 2, 4)), pick((1, 1, 1, 2))
    data = max(1, nodes * per // (tensor * pipeline * context))
    heads, layers = pick((4, 8)), pick((2, 4, 6, 8))
    shapes: dict[str, Any] = {
        "family": pick(("llama", "gpt")), "layers": layers, "hidden": heads * pick((32, 64)), "heads": heads,
        "kv_heads": pick((heads, heads // 2)), "ffn": pick((512, 1024, 1000)), "vocabulary": pick((1000, 32000, 50257)),
    }  # fmt: skip
    plan: dict[str, Any] = {
        "name": "submitted", "role": "submitted", "microbatch": pick((1, 2, 3)), "zero": pick((0, 1, 2, 3)),
        "recompute": pick(("none", "selective", "full")), "sequence_parallel": pick((True, False)),
        "uniform": {"data": data, "tensor": tensor, "pipeline": pipeline, "context": context},
    }  # fmt: skip
    if rng.random() < 0.2:
        cut = rng.randrange(layers)
        spans = [[0, cut], [cut + 1, layers - 1]] if cut + 1 < layers else [[0, layers - 1]]
        plan.pop("uniform")
        plan["stages"] = [{"layers": span, "devices": nodes * per // len(spans)} for span in spans]
    if rng.random() < 0.3:
        plan["schedule"] = pick(("gpipe", "1f1b", "interleaved_1f1b", "zb_h1"))
        plan["interleave"] = pick((1, 2))
    whole: dict[str, Any] = {
        "planproof": 1,
        "proposal": {"title": "drawn", "date": "2026-11-02", "objective": "step_time", "run_length": {"steps": 1000}},
        "model": {"transformer": shapes},
        "workload": {
            "sequence_length": pick((128, 512, 2048)), "global_batch": f"{pick((16, 32, 48))} sequences",
            "precision": {"parameters": pick(("bf16", "fp16")), "gradients": "fp32", "master": "fp32", "moments": "fp32"},
            "optimizer": "adamw", "attention": pick(("flash", "unfused")),
        },
        "cluster": {
            "nodes": {"count": nodes, "type": pick(_NODES)},
            "fabric": {"nics": {"count": 8, "bandwidth": pick(("100 Gbit/s", "400 Gbit/s"))}},
            "contention": pick(("none", {"shared_with": "storage", "share": "20 %"})),
        },
        "profile": "none",
        "layouts": pick(("all", {"allow": ["data", "tensor"], "max_axes": 2}, {"allow": ["data", "pipeline"]})),
        "plans": [{"name": "reference", "role": "reference", "uniform": {"data": nodes * per}, "zero": 1, "microbatch": 1}, plan],
        "planning_cost": {"profiling": "64 device-hours"},
    }  # fmt: skip
    for key in list(whole)[1:]:
        if rng.random() < 0.04:
            del whole[key]
    return whole


def narrow(rng: Random) -> dict[str, Any]:
    """A limit on the space, such that a whole review of it is short: few degrees, and one value of what multiplies plans."""
    pick = rng.choice
    return {
        "degrees": {"tensor": pick(([1], [1, 2], [1, 8])), "pipeline": pick(([1], [1, 2], [2])), "context": [1]},
        "microbatch": pick(([1], [1, 2])), "zero": pick(([0], [1], [1, 3])), "recompute": pick((["none"], ["none", "full"])),
        "schedules": [pick(("gpipe", "1f1b", "interleaved_1f1b", "zb_h1"))], "interleave": [pick((1, 2))],
        "sequence_parallel": [pick((True, False))],
    }  # fmt: skip


def changed(rng: Random, whole: Any) -> Any:
    """`whole` with a few values replaced, removed, renamed or put elsewhere."""
    copy = deepcopy(whole)
    for _ in range(rng.randint(1, 3)):
        places = list(_places(copy))
        if not places:
            break
        holder, key = rng.choice(places)
        move = rng.random()
        if move < 0.6:
            holder[key] = deepcopy(rng.choice(_VALUES))
        elif move < 0.75:
            del holder[key]
        elif move < 0.9 and isinstance(holder, dict):
            holder[rng.choice(_WORDS).strip() or "x"] = holder.pop(key)
        else:
            other, name = rng.choice(places)
            holder[key] = deepcopy(other[name])
    return copy


def _places(value: Any) -> Any:
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def written(rng: Random, whole: Any) -> bytes:
    """As JSON, or as YAML in block style; a text that begins with a brace is read as JSON."""
    import yaml

    try:
        if rng.random() < 0.3:
            text = json.dumps(whole, indent=rng.choice((None, 1)), ensure_ascii=rng.random() < 0.5, default=str)
            return text.encode("utf-8", "surrogatepass")
        style = {"sort_keys": rng.random() < 0.5, "default_flow_style": rng.choice((None, False)), "allow_unicode": True}
        return str(yaml.dump(whole, Dumper=yaml.CSafeDumper, **style)).encode("utf-8", "surrogatepass")
    except yaml.YAMLError:
        return json.dumps(whole, default=str).encode()


def spoilt(rng: Random, raw: bytes) -> bytes:
    """`raw` with bytes cut, doubled, flipped, or words put in."""
    found = bytearray(raw)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(found) + 1)
        move = rng.randrange(6)
        if move == 0:
            del found[at : at + rng.randint(1, 40)]
        elif move == 1:
            found[at:at] = rng.choice(_WORDS).encode("utf-8", "surrogatepass")
        elif move == 2:
            found[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 4)))
        elif move == 3:
            found[at:at] = found[at : at + rng.randint(1, 200)]
        elif move == 4 and found:
            found[at % len(found)] ^= 1 << rng.randrange(8)
        else:
            del found[at:]
    return bytes(found)


def noise(rng: Random) -> bytes:
    """Words and bytes in any order."""
    return b"".join(
        rng.choice(_WORDS).encode("utf-8", "surrogatepass") if rng.random() < 0.8 else bytes([rng.randrange(256)])
        for _ in range(rng.randint(0, 60))
    )


@cache
def rule_texts() -> tuple[bytes, ...]:
    """The shipped rules."""
    root = files("planproof.rules")
    return tuple(
        entry.read_bytes()
        for folder in sorted(root.iterdir(), key=lambda one: one.name) if folder.is_dir() and folder.name != "bases"
        for entry in sorted(folder.iterdir(), key=lambda one: one.name) if entry.name.endswith(".yaml")
    )  # fmt: skip


def topology(rng: Random) -> str:
    """A matrix as nvidia-smi prints it."""
    devices, cards = rng.randint(1, 8), rng.randint(0, 4)
    names = [f"GPU{k}" for k in range(devices)] + [f"mlx5_{k}" for k in range(cards)]
    word = {}
    for i in range(len(names)):
        for j in range(i):
            word[i, j] = word[j, i] = rng.choice(("NV4", "NV12", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS"))
    rows = ["\t" + "\t".join(names) + "\tCPU Affinity\tNUMA Affinity"]
    for i, name in enumerate(names):
        cells = [" X " if i == j else word[i, j] for j in range(len(names))]
        rows.append("\t".join([name, *cells, *(["0-31", "0"] if i < devices else [])]))
    return "\n".join(rows) + "\n\nLegend:\n\n  X    = Self\n"


def rocm(rng: Random) -> str:
    """Tables as rocm-smi prints them."""
    devices = rng.randint(1, 6)
    names = [f"GPU{k}" for k in range(devices)]
    tables = []
    for title, values in (("Weight", ("15", "40", "72")), ("Hops", ("1", "2")), ("Link Type", ("XGMI", "PCIE"))):
        rows = [f"{'=' * 30} {title} between two GPUs {'=' * 30}", "       " + " ".join(f"{name:<12}" for name in names)]
        for i, name in enumerate(names):
            rows.append(f"{name}   " + " ".join(f"{'0' if i == j else rng.choice(values):<12}" for j in range(devices)))
        tables.append("\n".join(rows))
    head, end = (f"{'=' * 20} {words} {'=' * 20}" for words in ("ROCm System Management Interface", "End of ROCm SMI Log"))
    return "\n".join([head, *tables, end])


def nccl(rng: Random) -> str:
    """A log as nccl-tests prints it."""
    ranks = rng.choice((2, 4, 8))
    head = [f"# nThread 1 nGpus {ranks} minBytes 8 maxBytes 1048576 step: 2(factor) warmup iters: 5 iters: 20 validation: 1"]
    head += ["#", "# Using devices"]
    head += [f"#  Rank {k} Group  0 Pid 1 on node{k // 8} device {k} [0x0{k}] NVIDIA A100" for k in range(ranks)]
    columns = "    time   algbw   busbw #wrong"
    head += ["#", "#       size         count      type   redop    root " + 2 * columns]
    head += ["#        (B)    (elements)                          " + 2 * "     (us)  (GB/s)  (GB/s)       "]
    rows = []
    for k in range(rng.randint(1, 12)):
        size, time = 2 ** (k + 8), rng.uniform(5, 500)
        rate = size / time / 1e3
        cells = f"{time:.2f} {rate:.2f} {rate * 2 * (ranks - 1) / ranks:.2f} 0"
        rows.append(f"{size} {size // 4} float sum -1 {cells} {cells}")
    return "\n".join([*head, *rows, "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 1.0", "#"])


def torch_log(rng: Random) -> str:
    """A log as the all-reduce benchmark prints it."""
    rate, ranks = rng.uniform(1, 400), rng.choice((2, 8, 16))
    bus = rate * 2 * (ranks - 1) / ranks
    return (
        f"The average bandwidth of all_reduce with a 4.0GB payload (5 trials, {ranks} ranks):\n"
        f" algbw: {rate:.3f} GBps ({rate * 8:.1f} Gbps)\n busbw: {bus:.3f} GBps ({bus * 8:.1f} Gbps)\n"
    )


def words(rng: Random) -> str:
    """A cluster in words."""
    clauses = [
        f"{rng.randint(0, 99)} nodes of {rng.choice(_NODES)}", "8 x NVLink 4 island", "8 x 400 Gbit/s NICs", "rail-optimised",
        "2:1 over-subscribed", "InfiniBand", "5 us latency",
    ]  # fmt: skip
    rng.shuffle(clauses)
    return ", ".join(clauses[: rng.randint(1, 7)])


def stage_rows(rng: Random) -> str:
    """A profile of stages."""
    rows = [f"{k},1,{rng.uniform(1, 9):.2f},{rng.uniform(1, 9):.2f},100,10" for k in range(rng.randint(1, 8))]
    return "\n".join(["layer,microbatch,forward_ms,backward_ms,activation_mib,workspace_mib", *rows])


def settings_text(rng: Random) -> str:
    """A configuration."""
    return f'fail-on = "{rng.choice(("error", "warning", "x"))}"\nignore = ["EVI036"]\n[severity]\nEVI030 = "note"\n[params]\n'


def run_lines(rng: Random) -> str:
    """A log as Megatron-LM prints it."""
    return "".join(
        f" [2026-11-02 10:00:{k:02}] iteration {k:8}/ 100 | consumed samples: {k * 64:12} | elapsed time per iteration (ms): "
        f"{rng.uniform(100, 9000):.1f} | learning rate: 1.0E-04 | global batch size: 64 | lm loss: 2.0E+00 |\n"
        for k in range(1, rng.randint(2, 20))
    )


@cache
def sheet_texts() -> tuple[bytes, ...]:
    """The shipped data sheets of devices."""
    root = files("planproof.hardware.devices")
    return tuple(one.read_bytes() for one in sorted(root.iterdir(), key=lambda one: one.name) if one.name.endswith(".yaml"))


def sheet(rng: Random) -> bytes:
    """A data sheet, as shipped or with a few values changed."""
    import yaml

    raw = rng.choice(sheet_texts())
    return raw if rng.random() < 0.3 else written(rng, changed(rng, yaml.load(raw, yaml.CSafeLoader)))


def model_config(rng: Random) -> bytes:
    """A model's configuration file with a few values changed."""
    raw = rng.choice(model_files())
    return raw if rng.random() < 0.2 else json.dumps(changed(rng, json.loads(raw))).encode()


def baseline(rng: Random) -> bytes:
    """A baseline with a few values changed."""
    same = {"rule": "MAP004", "fingerprint": "0" * 16}
    rows = [{"path": f"p{k}.yaml", "pointer": f"/plans/{k}", **same} for k in range(rng.randint(0, 4))]
    whole = {"planproof_baseline": rng.choice((1, 1, 1, 2)), "findings": rows}
    return json.dumps(changed(rng, whole) if rng.random() < 0.6 else whole).encode()


def commented(rng: Random) -> bytes:
    """A proposal with suppressions at the ends of lines and above them, some of them malformed."""
    raw = b"{"
    while raw.startswith(b"{"):
        raw = written(rng, proposal(rng))
    lines = raw.decode("utf-8", "replace").splitlines()
    for _ in range(rng.randint(1, 4)):
        spoil = rng.random() < 0.2
        reason = rng.choice(("why", '""', '"')) if spoil else '"a, b"'
        until = rng.choice(("2027-13-01", "never", "")) if spoil else rng.choice(("2027-01-01", "1999-01-01"))
        fields = [f"reason={reason}", f"owner={rng.choice(('x@y', ''))}", f"until={until}"]
        rng.shuffle(fields)
        if spoil and rng.random() < 0.5:
            fields.pop()
        word, rule = (rng.choice(("allow", "ignore", "")), rng.choice(("", "*"))) if spoil else ("ignore", "MAP004")
        text = f"# planproof: {word} {rule} "
        text += " ".join(fields)
        at = rng.randrange(len(lines) + 1)
        if at < len(lines) and rng.random() < 0.5:
            lines[at] += f"  {text}"
        else:
            lines.insert(at, text)
    return "\n".join(lines).encode("utf-8", "replace")


def _launch(rng: Random) -> bytes:
    return named(*launch_file(rng, changed, written))


def _read_launch(raw: bytes) -> object:
    """By the kinds that it has the signs of, then as `lint` takes a bare one."""
    name, rest = unnamed(raw)
    file = SourceFile(name, rest)
    for kind in kinds_of(file):
        if kind in LAUNCH:
            try:
                read_launch(file, kind)
            except PlanproofError:
                continue
    return load_launch(rest, name, Path("/nowhere") / name, bare=True)


def _read_model(raw: bytes) -> object:
    document = parse_document(raw, "config.json")
    return hf_config.read(document.data, document.place) if isinstance(document.data, dict) else None


def _read_sheet(raw: bytes) -> object:
    return read_device(parse_document(raw, "device.yaml"), Origin("added", "device.yaml"))


def _proposal(raw: bytes) -> object:
    return validate(parse_document(raw, "p.yaml"))


def _text(read: Callable[[str, str], object]) -> Callable[[bytes], object]:
    return lambda raw: read(raw.decode("utf-8", "replace"), "f.txt")


#: Reader -> what it is fed: a maker of honest inputs, and the call. What an honest one gives does not matter here.
READERS: Mapping[str, tuple[Callable[[Random], bytes], Callable[[bytes], object]]] = {
    "proposal": (lambda rng: written(rng, proposal(rng)), _proposal),
    "nearly": (lambda rng: written(rng, changed(rng, proposal(rng))), _proposal),
    "rule": (lambda rng: rng.choice(rule_texts()), lambda raw: load_rule(raw, "r.yaml", KINDS)),
    "nvidia-topo": (lambda rng: topology(rng).encode(), _text(nvidia_topo.read)),
    "rocm-smi": (lambda rng: rocm(rng).encode(), _text(rocm_smi.read)),
    "nccl-tests": (lambda rng: nccl(rng).encode(), _text(nccl_tests.read_all)),
    "torch-allreduce": (lambda rng: torch_log(rng).encode(), _text(torch_allreduce.read_all)),
    "run-log": (lambda rng: run_lines(rng).encode(), lambda raw: read_run_log(raw, "log.txt")),
    "profile": (lambda rng: stage_rows(rng).encode(), lambda raw: read_profile(raw, "s.csv")),
    "description": (lambda rng: words(rng).encode(), lambda raw: read_description(raw.decode("utf-8", "replace"))),
    "launch": (_launch, _read_launch),
    "hf-config": (model_config, _read_model),
    "device": (sheet, _read_sheet),
    "baseline": (baseline, lambda raw: parse_baseline(raw, "baseline.json")),
    "suppressions": (commented, lambda raw: read_comments(parse_document(raw, "p.yaml"))),
    "configuration": (lambda rng: settings_text(rng).encode(), lambda raw: read_toml(raw, "planproof.toml")),
}


def drawn(rng: Random, reader: str) -> bytes:
    """An input for `reader`: honest, spoilt or noise."""
    make = READERS[reader][0]
    kind = rng.random()
    if kind < 0.3:
        return make(rng)
    return spoilt(rng, make(rng)) if kind < 0.9 else noise(rng)
