"""Rows of SimuMax's releases: peak allocated and reserved of every rank, Megatron-core in bf16.

Recognised by `peak_memory_by_rank_mb` and `case_tp`. The MB are MiB. Ranks of one stage are one case, the largest; rows that
repeat another row's ranks are left out. `perf_*` columns are another tool's predictions and are not read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

from ..model import Attention, LatentAttention, MixtureOfExperts, Optimizer, Precision, Transformer, Workload
from ..plan import Mesh
from .memory_case import MEGATRON, MIB, Case, Kind, LeftOut, Quantity, Row, Table, count, device_of, text, uniform_plan

_BF16 = Precision("bf16", "fp32", "fp32", "fp32")
#: The project's strategy files: sequence 4096, microbatch 1, distributed optimizer, flash attention, sequence parallelism.
_SEQUENCE = 4096


def _llama(layers: int, hidden: int, heads: int, ffn: int) -> Transformer:
    return Transformer(
        layers=layers, hidden=hidden, heads=heads, kv_heads=8, head_dim=128, ffn=ffn, vocabulary=128256, gated=True,
        tied_embeddings=False, norm="rms",
    )  # fmt: skip


def _deepseek(layers: int, hidden: int, ffn: int, vocabulary: int, moe: MixtureOfExperts) -> Transformer:
    return Transformer(
        layers=layers, hidden=hidden, heads=128, kv_heads=128, head_dim=128, ffn=ffn, vocabulary=vocabulary, gated=True,
        tied_embeddings=False, norm="rms", moe=moe, latent=LatentAttention(512, 1536, 64, 128, 128),
    )  # fmt: skip


def _model(name: str, layers: int) -> Transformer:
    """Published shapes; of DeepSeek's dense layers the shortened models keep one."""
    match name:
        case "llama3-8b":
            return _llama(layers, 4096, 32, 14336)
        case "llama3-70b":
            return _llama(layers, 8192, 64, 28672)
        case "llama3-405b":
            return _llama(layers, 16384, 128, 53248)
        case "deepseekv2":
            return _deepseek(layers, 5120, 12288, 102400, MixtureOfExperts(160, 6, 1536, 1, 1, 2, 1536))
        case "deepseekv3":
            return _deepseek(layers, 7168, 18432, 129280, MixtureOfExperts(256, 8, 2048, 1, 1, 1, 2048))
    raise LeftOut("the model's shape is not known", "model", name)


def _ranks(row: Row) -> dict[int, dict[str, float]]:
    try:
        found = {int(rank): {str(k): float(v) for k, v in values.items()} for rank, values in json.loads(
            text(row, "peak_memory_by_rank_mb")
        ).items()}  # fmt: skip
    except (ValueError, AttributeError, TypeError) as why:
        raise LeftOut("peak_memory_by_rank_mb is no table of ranks", "peak_memory_by_rank_mb", str(why)[:60]) from None
    if not found or any(not {"max_allocated_mb", "max_reserved_mb"} <= values.keys() for values in found.values()):
        raise LeftOut("peak_memory_by_rank_mb lacks allocated or reserved", "peak_memory_by_rank_mb")
    return found


def simumax_cases(row: Row, line: int) -> list[Case]:
    """One case a stage."""
    if text(row, "status") not in ("ok", ""):
        raise LeftOut("the run did not end well", "status", row["status"])
    ranks = _ranks(row)
    model = _model(text(row, "model"), count(row, "layer_num"))
    tensor, pipeline, data = count(row, "case_tp"), count(row, "case_pp"), count(row, "case_dp")
    context = count(row, "case_cp", 1)
    if tensor * pipeline * data * context != len(ranks):
        raise LeftOut("tp x pp x cp x dp is not the number of ranks", "case_dp", row["case_dp"])
    system = re.search(r"([a-z]+\d+)_", text(row, "system_rel").rpartition("/")[2])
    sheet = device_of(system[1].upper() if system else "", column="system_rel")
    microbatches = count(row, "mbc")
    plan = uniform_plan(
        model, Mesh(data, tensor, context, count(row, "case_ep", 1), 1 if model.moe else None), pipeline, 1, microbatches,
        interleave=count(row, "vp_size", 1), zero=1, sequence_parallel=tensor > 1,
    )  # fmt: skip
    sequence = count(row, "case_seq", _SEQUENCE)
    workload = Workload(sequence, microbatches * data, _BF16, Optimizer("adam", 2), Attention.FLASH)
    size = len(ranks) // pipeline
    cases = []
    for stage in range(pipeline):
        here = [ranks[rank] for rank in range(stage * size, (stage + 1) * size) if rank in ranks]
        if len(here) != size:
            raise LeftOut("ranks are missing", "peak_memory_by_rank_mb")
        measured: dict[Quantity, float] = {
            "allocated": MIB * max(values["max_allocated_mb"] for values in here),
            "reserved": MIB * max(values["max_reserved_mb"] for values in here),
        }
        family = "moe" if model.moe else "dense"
        case = Case(
            line, text(row, "model"), family, model, workload, plan, sheet, replace(MEGATRON), (stage,), measured,
            software="megatron-core",
        )  # fmt: skip
        cases.append(case)
    return cases


def _cases(table: Table) -> Iterator[tuple[int, list[Case] | LeftOut]]:
    seen: set[str] = set()
    for line, row in enumerate(table.rows, start=2):
        try:
            cases = simumax_cases(row, line)
            if row["peak_memory_by_rank_mb"] in seen:
                raise LeftOut("repeats the ranks of another row, figure by figure", "peak_memory_by_rank_mb")
            seen.add(row["peak_memory_by_rank_mb"])
            yield line, cases
        except LeftOut as why:
            yield line, why


KIND = Kind("ranks of SimuMax", frozenset({"peak_memory_by_rank_mb", "case_tp", "layer_num"}), _cases)
