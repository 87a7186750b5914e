"""Families of Megatron's arguments, set aside by the form of their names; the names themselves stand in `keys_megatron.yaml`.

Argument names come and go with versions, these families stay. Nothing but patterns stands here.
"""

from __future__ import annotations

import re
from typing import Final

#: Families of names that come and go with versions.
PATTERNS: Final = (
    (re.compile(r"(^|_)(lr|wd|beta\d?|eps|momentum|warmup|decay)(_|$)"),
     "a hyperparameter, which changes neither memory nor time"),
    (re.compile(r"^(log|wandb|tensorboard|mlflow|one_logger|profile|nvtx|timing|memory_snapshot|record)_?|_logger|_to_tensorboard$"),
     "logging, profiling or reporting"),
    (re.compile(r"(^|_)(ckpt|checkpoint|save|load|resume|restart|nonpersistent)(_|$)"),
     "how checkpoints are saved, loaded or resumed"),
    (re.compile(r"(^|_)(data|dataset|dataloader|tokenizer|vocab|tiktoken|merge|fim|split|blend|path|dir)(_|$)"),
     "data, tokenizer or vocabulary files; what they hold is not read"),
    (re.compile(r"^(inference|rl|grpo|langrl|retro|ict|dino|biencoder)_"), "not pre-training of a language model"),
    (re.compile(r"(^|_)(fusion|fused|overlap|nccl|ub|cuda_graph|graph|gc|kernel|deepep|dispatcher|turbo|hip|te)(_|$)"),
     "the choice of a kernel, fusion, overlap or communication, which the cost model does not tell apart"),
    (re.compile(r"^(moe_(router|aux|z|input|token|permute|shared_expert)|rope|rotary|yarn|mscale|qk|mtp|mup)_"),
     "a detail of layers or routing that changes no shape that is modelled"),
    (re.compile(r"(^|_)(seed|rng|init|std)(_|$)"), "initial values or random numbers, which change no shape"),
    (re.compile(r"(^|_)(eval|exit|interval|timeout|iters|iterations)(_|$)"), "when the run ends, evaluates or restarts"),
)  # fmt: skip
