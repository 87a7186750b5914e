"""Layers by stage: what frameworks do with a number that the pipeline does not divide, against their own words."""

from __future__ import annotations

from pathlib import Path

import pytest
from planproof.importers.launch import Launch, SourceFile, read_launch
from planproof.importers.launch.uneven import balanced, by_cost, by_rank, counted_ends, stated_ends, weighed_ends
from planproof.pipeline import examine, session
from planproof.proposal.launching import load_launch

MEGATRON = (
    "torchrun --nproc_per_node 8 --nnodes 4 pretrain_gpt.py --num-layers {layers} --hidden-size 1024 --num-attention-heads 16 "
    "--seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 --global-batch-size 64 --vocab-size 50304 --bf16 "
    "--pipeline-model-parallel-size 4 {more}\n"
)
TITAN = """[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 8
seq_len = 8192
[parallelism]
pipeline_parallel_degree = {pipeline}
{more}
"""
NANOTRON = """parallelism: {{dp: 1, tp: 1, pp: {pipeline}, pp_engine: 1f1b}}
tokens: {{micro_batch_size: 1, sequence_length: 1024, batch_accumulation_per_replica: 16}}
model:
  model_config: {{num_hidden_layers: {layers}, hidden_size: 1024, num_attention_heads: 16, intermediate_size: 4096,
    vocab_size: {vocabulary}}}
"""
CLUSTER = "planproof: 1\ncluster: {nodes: {count: 4, type: dgx_h100}, contention: none}\n"
LAYERS = "/plans/0/uniform/layers"


def read(text: str, name: str, kind: str) -> Launch:
    return read_launch(SourceFile(name, text.encode()), kind)


@pytest.mark.parametrize(
    ("counts", "wanted"),
    [
        (counted_ends(22, 4, first=1, last=1), [5, 6, 6, 5]),
        (counted_ends(23, 4, first=1, last=0), [5, 6, 6, 6]),
        (counted_ends(23, 4, first=1, last=1), None),
        (stated_ends(30, 4, first=7, last=7), [7, 8, 8, 7]),
        (stated_ends(30, 4, first=None, last=6), [8, 8, 8, 6]),
        (stated_ends(30, 4, first=7, last=6), None),
        (balanced(30, 4), [8, 8, 7, 7]),
        # torchtitan, README of its pipeline: 32 layers on 8 virtual stages, the ends a layer each: 3, then 4, at last 3.
        (weighed_ends(32, 8, first=1, last=1), [4, 5, 4, 4, 4, 4, 4, 3]),
        (weighed_ends(30, 8, first=1, last=1), [3, 4, 4, 4, 4, 4, 4, 3]),
        (weighed_ends(3, 2, first=2, last=2), [2, 1]),
        (weighed_ends(2, 5, first=1, last=1), None),
        (by_rank([1, 2, 3, 4], 2), [4, 6]),
        # nanotron: equal work of head and layer makes 5 blocks of 4 layers and a head: the threshold 2.5 is passed at 3.
        (by_cost(100, 100, 4, 2), [3, 1]),
        (by_cost(100, 0, 4, 2), [3, 1]),
        (by_cost(100, 1000, 4, 2), [4, 0]),
    ],
)
def test_layers_by_stage(counts: list[int] | None, wanted: list[int] | None) -> None:
    assert counts == wanted


@pytest.mark.parametrize(
    ("layers", "more", "wanted", "interleave"),
    [
        (30, "--decoder-first-pipeline-num-layers 7 --decoder-last-pipeline-num-layers 7", [7, 8, 8, 7], None),
        (30, "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split", [7, 8, 8, 7], None),
        (29, "--pipeline-model-parallel-layout 'Et*7|t*8|t*8|t*6L'", [7, 8, 8, 6], None),
        (30, "--pipeline-model-parallel-layout 'Et*3|t*4|t*4|t*4|t*4|t*4|t*4|t*3L'", [7, 8, 8, 7], 2),
        (32, "--pipeline-model-parallel-layout 'Et*8|t*8|t*8|t*8L'", None, None),
    ],
)
def test_megatron_is_told_how_to_cut(layers: int, more: str, wanted: list[int] | None, interleave: int | None) -> None:
    found = read(MEGATRON.format(layers=layers, more=more), "a.sh", "megatron")
    assert found.value(LAYERS) == wanted
    assert found.value("/plans/0/interleave") == interleave
    if interleave is not None:
        assert found.value("/plans/0/schedule") == "interleaved_1f1b"


@pytest.mark.parametrize(
    ("pipeline", "more", "wanted", "interleave"),
    [
        (4, "", [8, 9, 8, 7], None),
        (4, "pipeline_parallel_first_stage_less_layers = 0\npipeline_parallel_last_stage_less_layers = 0", None, None),
        (4, 'pipeline_parallel_schedule = "Interleaved1F1B"', [8, 9, 8, 7], 2),
        (3, "", [11, 11, 10], None),
    ],
)
def test_torchtitan_weighs_the_ends(pipeline: int, more: str, wanted: list[int] | None, interleave: int | None) -> None:
    found = read(TITAN.format(pipeline=pipeline, more=more), "a.toml", "torchtitan")
    assert found.value(LAYERS) == wanted
    assert found.value("/plans/0/interleave") == interleave


def test_nanotron_cuts_by_work_and_an_empty_stage_is_told() -> None:
    found = read(NANOTRON.format(pipeline=2, layers=24, vocabulary=32000), "a.yaml", "nanotron")
    # 4 x 1024 x 1024 + 3 x 4096 x 1024 a layer, 32000 x 1024 the head: 1.95 layers; (24 + 1.95) / 2 = 12.98.
    assert found.value(LAYERS) == [13, 11]
    empty = read(NANOTRON.format(pipeline=4, layers=4, vocabulary=256000), "a.yaml", "nanotron")
    assert empty.value(LAYERS) is None
    assert any("without any" in note for note, _ in empty.notes)


@pytest.mark.parametrize(
    ("name", "text", "refused"),
    [
        ("a.sh", MEGATRON.format(layers=30, more=""), True),
        ("a.sh", MEGATRON.format(layers=30, more="--decoder-last-pipeline-num-layers 6"), False),
        ("a.sh", MEGATRON.format(layers=29, more="--pipeline-model-parallel-layout 'Et*7|t*8|t*8|t*6L'"), False),
        ("a.toml", TITAN.format(pipeline=3, more=""), False),
        ("a.yaml", NANOTRON.format(pipeline=3, layers=32, vocabulary=32000), False),
        ("a.yml", "pipe_parallel_size: 4\nnum_layers: 30\nhidden_size: 1024\nnum_attention_heads: 16\nseq_length: 1024\n"
         "max_position_embeddings: 1024\ntrain_micro_batch_size_per_gpu: 1\n", False),
    ],
)  # fmt: skip
def test_what_a_framework_cuts_by_itself_is_not_refused(name: str, text: str, refused: bool, tmp_path: Path) -> None:
    path = tmp_path / name
    for cluster in (False, True):
        if cluster:
            (tmp_path / "cluster.yaml").write_text(CLUSTER)
        loaded = load_launch(text.encode(), name, path, bare=True)
        assert loaded is not None
        with session() as opened:
            found = {finding.rule_id for finding in examine(loaded, opened).findings}
        assert ("SHP007" in found) is refused
        assert not {"SHP021", "SHP022", "INT001"} & found


def test_the_stages_of_a_uniform_plan_are_those_that_it_states(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    text = MEGATRON.format(layers=30, more="--decoder-first-pipeline-num-layers 7 --decoder-last-pipeline-num-layers 7")
    loaded = load_launch(text.encode(), "a.sh", tmp_path / "a.sh", bare=True)
    assert loaded is not None
    with session() as opened:
        case = examine(loaded, opened).case
    assert case.plans[0].plan is not None
    assert [(stage.first, stage.last) for stage in case.plans[0].plan.stages] == [(0, 6), (7, 14), (15, 22), (23, 29)]
    assert not case.plans[0].plan.uniform
