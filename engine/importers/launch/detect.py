"""What a file is: the kinds whose signs it has. One with the signs of several is ambiguous, and both are named."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ...document import pointer_to
from ...errors import InputError, Place
from .. import hf_config, nccl_tests, nvidia_topo, rocm_smi, torch_allreduce
from . import accelerate, deepspeed, llm_foundry, megatron_files, nanotron, nemo, neox, primus, torchtitan
from .parts import Launch
from .sources import SourceFile, toml_entries

#: Kind of launch file -> whether a file has its signs, and its reader.
LAUNCH: Final[dict[str, tuple[Callable[[SourceFile], bool], Callable[[SourceFile], Launch]]]] = {
    "megatron": (megatron_files.recognises, megatron_files.read),
    "deepspeed": (deepspeed.recognises, deepspeed.read),
    "torchtitan": (torchtitan.recognises, torchtitan.read),
    "nemo": (nemo.recognises, nemo.read),
    "nanotron": (nanotron.recognises, nanotron.read),
    "neox": (neox.recognises, neox.read),
    "llm-foundry": (llm_foundry.recognises, llm_foundry.read),
    "accelerate": (accelerate.recognises, accelerate.read),
    "primus": (primus.recognises, primus.read),
}
#: Kind of evidence -> whether a text has its signs.
EVIDENCE: Final[dict[str, Callable[[str], bool]]] = {
    "nvidia-topo": nvidia_topo.recognises,
    "rocm-smi": rocm_smi.recognises,
    "nccl-tests": nccl_tests.recognises,
    "torch-allreduce": torch_allreduce.recognises,
}
#: Keys that only serving or generation has.
_GENERATES: Final = frozenset(
    {
        "max_new_tokens", "do_sample", "top_p", "num_beams", "gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens",
        "max_model_len", "served_model_name", "kv_cache_dtype", "max_batch_prefill_tokens", "tokens_to_generate",
    }
)  # fmt: skip
KINDS: Final = ("hf-config", *LAUNCH, *EVIDENCE)
PROPOSAL: Final = "proposal"


def kinds_of(file: SourceFile) -> tuple[str, ...]:
    """All kinds whose signs a file has; `proposal` for one of ours. A file that does not parse has none."""
    found: list[str] = []
    if file.form in ("yaml", "json"):
        try:
            top = file.top
        except InputError:
            return ()
        if "planproof" in top:
            return (PROPOSAL,)
        if hf_config.recognises(top):
            found.append("hf-config")
    found += [kind for kind, (signs, _) in LAUNCH.items() if _has(signs, file)]
    if not found and file.form in ("text", "shell"):
        found += [kind for kind, signs in EVIDENCE.items() if signs(file.source.text)]
    return tuple(found)


def _has(signs: Callable[[SourceFile], bool], file: SourceFile) -> bool:
    try:
        return signs(file)
    except InputError:
        return False


def kind_of(file: SourceFile) -> str | None:
    """The one kind whose signs a file has; None for none or several."""
    found = kinds_of(file)
    return found[0] if len(found) == 1 else None


def only_kind(file: SourceFile) -> str:
    """The kind of a file for `auto`. Raises InputError where it has the signs of none, or of several."""
    found = kinds_of(file)
    if len(found) == 1:
        return found[0]
    if found:
        names = " and ".join(f"'{kind}'" for kind in found)
        raise InputError(
            f"The file has the signs of {names}: which of them is meant is not for us to say.", place=file.start,
            code="launch.ambiguous", remedy=f"Name the kind: 'planproof import {found[0]} FILE', say.",
        )  # fmt: skip
    if file.form in ("yaml", "json"):
        top = file.top  # what keeps it from being read is the better message
        sign = next((key for key in top if key.replace("-", "_") in _GENERATES), None)
        if sign is not None:
            raise InputError(
                f"This is a configuration for inference ('{sign}'), not for training.",
                place=file.document.place(pointer_to(sign)),
                code="launch.inference",
                remedy="Give the training configuration; inference is not modelled.",
            )
    if file.form == "toml":
        toml_entries(file)  # as above
    if file.form == "python":
        raise InputError(
            "This is Python, which is neither run nor read.", place=file.start, code="launch.python",
            remedy="Give what the framework is started with, or state the plan in a proposal.",
        )  # fmt: skip
    started = _started(file) if file.form in ("text", "shell") else None
    if started is not None:
        raise started
    raise InputError(
        "The file is of no kind that is read here.",
        place=file.start,
        code="launch.unknown",
        remedy=f"Kinds are {', '.join(KINDS)}.",
    )


#: What a script that only starts a framework has in it: the framework, its kind, and where its configuration is named.
_STARTS: Final = tuple(
    (name, kind, re.compile(named), re.compile(signs))
    for name, kind, named, signs in (
        ("torchtitan", "torchtitan", r"--(?:job\.)?config[_.-]file[= ]\s*(\S+)", r"\btorchtitan\b|--job\.config"),
        ("accelerate", "accelerate", r"--config_file[= ]\s*(\S+)", r"\baccelerate\s+launch\b"),
        ("DeepSpeed", "deepspeed", r"--deepspeed(?:_config)?[= ]\s*(\S+\.json)", r"--deepspeed(?:_config)?\b"),
        ("nanotron", "nanotron", r"--config-file[= ]\s*(\S+)", r"\brun_train\.py\b.*--config-file"),
        ("GPT-NeoX", "neox", r"\btrain\.py\b.*?(\S+\.yml)", r"\bdeepy\.py\b"),
        ("llm-foundry", "llm-foundry", r"\btrain(?:\.py)?\b\s+(\S+\.yaml)", r"\bcomposer\b.*\btrain"),
        ("NeMo", "nemo", r"--config-name[= ]\s*(\S+)", r"--config-(?:name|path)\b"),
        ("axolotl", "accelerate", r"\baxolotl\b.*?(\S+\.ya?ml)", r"\baxolotl\s+train\b|axolotl\.cli\.train"),
    )
)


def _started(file: SourceFile) -> InputError | None:
    """The error for a script that starts a framework whose configuration is a file of its own."""
    begun, whole = 1, ""
    for number, line in enumerate(file.source.text.splitlines(), start=1):
        begun, whole = (number, "") if not whole else (begun, whole)
        whole += line.strip().removesuffix("\\") + " "
        if line.rstrip().endswith("\\"):
            continue
        for name, kind, named, signs in () if whole.startswith("#") else _STARTS:
            if signs.search(whole):
                found = named.search(whole)
                what = f"'{found[1][:80]}'" if found else "a file that it names"
                return InputError(
                    f"This script starts {name}, whose degrees, batch and precision stand in {what}.",
                    place=Place(file.name, begun, 1), code="launch.elsewhere",
                    remedy=f"Give that file: 'planproof import {kind} FILE'; what the script adds to it, state in the proposal.",
                )  # fmt: skip
        whole = ""
    return None


def read_launch(file: SourceFile, kind: str) -> Launch:
    """Read a launch file of one of the kinds in `LAUNCH`. Raises InputError."""
    return LAUNCH[kind][1](file)
