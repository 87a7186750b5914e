"""What a file looks like, a proposal or a launch file, from its name and first bytes. It is not parsed here."""

from __future__ import annotations

import os
import re
import stat
from typing import Final, Literal

ENDINGS: Final = (".yaml", ".yml", ".json")
#: Bytes that are looked at; the first key stands in them.
HEAD: Final = 4096
#: The key `planproof`, bare or quoted, at the start of a line or of a mapping in braces, before any other key.
_FIRST_KEY: Final = re.compile(
    rb"""\A(?:\xef\xbb\xbf)?
    (?:[ \t]*(?:\#[^\r\n]*|%[^\r\n]*|---[ \t]*(?:\#[^\r\n]*)?)?(?:\r\n|\r|\n))*  # blank lines, comments, directives
    [ \t]*(?:---[ \t]+)?(?:\{\s*)?
    (?:planproof|"planproof"|'planproof')[ \t\r\n]*:""",
    re.VERBOSE,
)


#: Endings of launch files, those that a shell reads among them.
LAUNCH_ENDINGS: Final = (*ENDINGS, ".toml", ".sh", ".bash", ".slurm", ".sbatch", ".sub")
#: Bytes of a launch file that are looked at: scripts state what they start at their end.
LAUNCH_HEAD: Final = 64 * 1024
#: What launch files have in them: one of these, and what stands beside it two different ones of. Compiled where one is asked for.
_LAUNCH_SIGNS: Final = (
    rb"--?(?:tensor|pipeline)-model-parallel-size|--(?:num-layers|micro-batch-size|global-batch-size|hidden-size)\b",
    rb"^\[(?:parallelism|training|activation_checkpoint|lr_scheduler|metrics|model)\]",
    rb"^\s*(?:export\s+)?(?:DGXNNODES|MINIBS|(?:TENSOR|PIPELINE)_MODEL_PARALLEL|MICRO_BATCH_SIZE|TP)=",
    *(
        rb"^[ \t{]*[\"']?(?:" + names + rb")[\"']?[ \t]*:"
        for names in (
            b"zero_optimization|train_micro_batch_size_per_gpu|train_batch_size|gradient_accumulation_steps",
            b"tensor_model_parallel_size|pipeline_model_parallel_size|micro_batch_size|global_batch_size",
            b"parallelism|tokens|data_stages",
            b"pipe.parallel.size|model.parallel.size|train_micro_batch_size_per_gpu|no.weight.tying",
            b"global_train_batch_size|device_train_microbatch_size|train_loader|max_seq_len",
            b"distributed_type|fsdp_config|deepspeed_config|num_processes|mixed_precision|base_model|micro_batch_size",
        )
    ),
)


def looks_like_a_launch_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file's name and text make it a candidate for a launch file; what reads launch files decides.

    Raises OSError where it cannot be read. Nothing but a regular file is opened.
    """
    return sniffed(path) == "launch"


def sniffed(path: str | os.PathLike[str]) -> Literal["proposal", "launch"] | None:
    """Both questions with the file opened once: what it looks like, None for neither. Raises OSError."""
    name = os.fspath(path).lower()
    if not name.endswith(LAUNCH_ENDINGS):
        return None
    head = _head(path, LAUNCH_HEAD)
    if head is None:
        return None
    if name.endswith(ENDINGS) and begins_as_a_proposal(head):
        return "proposal"
    found = any(len({match[0].strip() for match in re.finditer(sign, head, re.MULTILINE)}) > 1 for sign in _LAUNCH_SIGNS)
    return "launch" if found else None


def looks_like_a_proposal(path: str | os.PathLike[str]) -> bool:
    """Whether the name has one of the ENDINGS, and the first key is `planproof`. Raises OSError where it cannot be read.

    Nothing but a regular file is opened.
    """
    if not os.fspath(path).lower().endswith(ENDINGS):
        return False
    head = _head(path, HEAD)
    return head is not None and begins_as_a_proposal(head)


def _head(path: str | os.PathLike[str], size: int) -> bytes | None:
    """The first bytes of a regular file; None for what is none."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        return None
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
    try:
        return os.read(descriptor, size)
    finally:
        os.close(descriptor)


def begins_as_a_proposal(head: bytes) -> bool:
    """Whether the first key in these bytes is `planproof`."""
    return _FIRST_KEY.match(head[:HEAD]) is not None
