"""Files that are not what they seem, or that leave too much to guess: each ends in a message that names it and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from planproof.errors import InputError
from planproof.importers.launch import LAUNCH, SourceFile, kinds_of, only_kind, read_launch
from planproof.importers.launch.entries import Entry
from planproof.importers.launch.interpolation import resolved
from planproof.proposal import parse_proposal

DATA = Path(__file__).resolve().parents[2] / "data" / "launch"
SCRIPT = "torchrun pretrain_gpt.py --num-layers {layers} --hidden-size 512 --micro-batch-size 1 {more}\n"


def refused(text: str, name: str = "train.sh", kind: str | None = None, **given: str) -> InputError:
    file = SourceFile(name, text.encode(), given)
    with pytest.raises(InputError) as caught:
        read_launch(file, kind or only_kind(file))
    assert caught.value.place.line is not None
    assert caught.value.remedy
    return caught.value


@pytest.mark.parametrize(
    ("text", "name", "code", "words"),
    [
        (SCRIPT.format(layers=8, more="") + SCRIPT.format(layers=16, more=""), "two.sh", "launch.several_commands", ("1, 2",)),
        ("echo --num-layers 8 --hidden-size 4\n", "none.sh", "launch.no_command", ("Megatron",)),
        (SCRIPT.format(layers=8, more="'open"), "open.sh", "launch.shell", ("single quote",)),
        (SCRIPT.format(layers="many", more=""), "word.sh", "launch.type", ("num_layers", "many", "whole number")),
        (SCRIPT.format(layers=8, more="--prompts a"), "infer.sh", "launch.inference", ("inference",)),
        (SCRIPT.replace("pretrain_gpt", "pretrain_t5").format(layers=8, more=""), "t5.sh", "launch.not_a_decoder", ("t5",)),
        ('{"train_batch_size": 8, // per step\n "bf16": {"enabled": true}}', "ds.json", "input.syntax", ("JSON",)),
        ('{"train_batch_size": "eight"}', "ds.json", "launch.type", ("train_batch_size", "eight")),
        ('{"replace_with_kernel_inject": true}', "ds.json", "launch.inference", ("inference",)),
        ('[model]\nname = "llama3"\n[training]\nlocal_batch_size = "8"\n[parallelism]', "t.toml", "launch.type", ("local",)),
        ("[model]\nname = llama3\n[training]\n[parallelism]\n", "t.toml", "launch.syntax", ("TOML",)),
        ("base_model: a/b\nadapter: lora\nmicro_batch_size: 1\n", "a.yaml", "launch.adapter", ("lora",)),
        ("model: {peft: {lora_rank: 8}}\ntrainer: {devices: 8}\n", "n.yaml", "launch.adapter", ("peft",)),
        ("parallelism: {dp: two, tp: 1, pp: 1}\ntokens: {micro_batch_size: 1}\n", "n.yaml", "launch.type", ("dp", "two")),
        ("trainer: {devices: 8}\nmodel: {num_layers: 8, patch_dim: 14}\n", "v.yaml", "launch.not_a_decoder", ("patch_dim",)),
        ("parallelism: {dp: 1}\ntokens: {}\nmodel: {model_config: {is_mamba_config: true}}\n", "n.yaml",
         "launch.not_a_decoder", ("mamba",)),
        (SCRIPT.replace("pretrain_gpt.py", "-m examples.mimo.pretrain_mimo").format(layers=8, more=""), "m.sh",
         "launch.not_a_decoder", ("mimo",)),
        ("hello\n", "x.txt", "launch.unknown", ("no kind",)),
        ("[model]\n[training]\n[parallelism]\ntensor_parallel_degree = 2.5\n", "t.toml", "launch.type", ("2.5",)),
        ("model: a/b\ntensor_parallel_size: 4\ngpu_memory_utilization: 0.9\n", "v.yaml", "launch.inference", ("inference",)),
        ('{"max_new_tokens": 128, "do_sample": true}', "g.json", "launch.inference", ("inference",)),
        ("parallelism: {dp: 1}\ntokens:\n  <<: 3\n", "n.yaml", "input.merge_key", ("mapping",)),
        ("import torch\n", "config_registry.py", "launch.python", ("Python",)),
        ("[model\nname=\n", "cut.toml", "launch.syntax", ("TOML",)),
        (SCRIPT.format(layers=8, more="--tensor-model-parallel-size -2"), "neg.sh", "launch.type", ("tensor_model", "-2")),
    ],
)  # fmt: skip
def test_bad_input_is_named_with_its_place_and_what_would_do(text: str, name: str, code: str, words: tuple[str, ...]) -> None:
    error = refused(text, name)
    assert error.code == code
    for word in words:
        assert word in error.message


@pytest.mark.parametrize("kind", LAUNCH)
def test_a_file_of_one_kind_passed_as_another_is_told_what_it_is(kind: str) -> None:
    for path in sorted(DATA.iterdir()):
        file = SourceFile(path.name, path.read_bytes())
        own = only_kind(file)
        if own != kind:
            with pytest.raises(InputError) as caught:
                read_launch(file, kind)
            assert caught.value.code in ("launch.kind", "input.syntax"), path.name
            if caught.value.code == "launch.kind":
                assert f"'{own}'" in caught.value.message, path.name


def test_an_ambiguous_file_is_an_error_that_names_both() -> None:
    text = b"parallelism: {dp: 1}\ntokens: {micro_batch_size: 1}\ndistributed_type: FSDP\n"
    file = SourceFile("both.yaml", text)
    assert len(kinds_of(file)) == 2
    with pytest.raises(InputError) as caught:
        only_kind(file)
    assert "'nanotron' and 'accelerate'" in caught.value.message


def test_a_command_can_be_chosen_among_several() -> None:
    text = (SCRIPT.format(layers=8, more="") + SCRIPT.format(layers=16, more="")).encode()
    found = read_launch(SourceFile("two.sh", text, {}, 2), "megatron")
    assert found.value("/model/transformer/layers") == 16


def test_a_loop_over_configurations_leaves_what_it_varies_open() -> None:
    text = "for L in 8 16; do\n" + SCRIPT.format(layers="$L", more="") + "done\n"
    found = read_launch(SourceFile("loop.sh", text.encode()), "megatron")
    assert found.value("/model/transformer/layers") is None
    gap = next(gap for gap in found.gaps if gap.path == "/model/transformer/layers")
    assert "takes 8, 16" in gap.why
    assert "line 1" in gap.why
    chosen = read_launch(SourceFile("loop.sh", text.encode(), {"L": "16"}), "megatron")
    assert chosen.value("/model/transformer/layers") == 16


def test_an_open_degree_leaves_no_degrees_for_one_that_is_left_out_counts_as_1() -> None:
    text = SCRIPT.format(layers=8, more="--tensor-model-parallel-size $TP --pipeline-model-parallel-size 2").encode()
    found = read_launch(SourceFile("open.sh", text), "megatron")
    assert [part.path for part in found.parts if "/uniform/" in part.path] == []
    assert any(gap.path == "/plans/0/uniform/tensor" and "'TP' is not set" in gap.why for gap in found.gaps)


def test_an_argument_given_twice_counts_as_the_later_and_is_noted() -> None:
    text = SCRIPT.format(layers=8, more="--num-layers 12").encode()
    found = read_launch(SourceFile("twice.sh", text), "megatron")
    assert found.value("/model/transformer/layers") == 12
    assert any("num_layers" in note and "twice" in note for note, _ in found.notes)


def test_a_yaml_key_given_twice_counts_as_the_later_and_is_noted() -> None:
    text = b"parallelism: {dp: 2, tp: 1, pp: 1}\ntokens:\n  micro_batch_size: 1\n  micro_batch_size: 3\n"
    found = read_launch(SourceFile("n.yaml", text), "nanotron")
    assert found.value("/plans/0/microbatch") == 3
    assert any("micro_batch_size" in note for note, _ in found.notes)


def test_a_template_of_names_in_capitals_is_read_and_its_slots_are_open() -> None:
    text = b'{\n  "train_batch_size": GBSIZE,\n  "zero_optimization": {"stage": ZERO_STAGE},\n  "fp16": {"enabled": true}\n}'
    found = read_launch(SourceFile("ds.json", text), "deepspeed")
    assert found.value("/workload/precision/parameters") == "fp16"
    whys = {gap.path: gap.why for gap in found.gaps}
    assert "'GBSIZE'" in whys["/workload/global_batch"]
    assert "'ZERO_STAGE'" in whys["/plans/0/zero"]


def test_a_key_that_names_a_degree_is_never_set_aside_by_a_pattern() -> None:
    text = SCRIPT.format(layers=8, more="--warp-parallel-size 4 --lr-warp 3").encode()
    keys = {key.name: key.use.value for key in read_launch(SourceFile("x.sh", text), "megatron").keys}
    assert keys["--warp-parallel-size"] == "not understood"
    assert keys["--lr-warp"] == "set aside"


def test_a_merge_key_lends_what_the_mapping_does_not_have_at_the_place_where_it_stands() -> None:
    text = (
        b"base: &base {micro_batch_size: 2, sequence_length: 1024}\nmore: &more {sequence_length: 4096, train_steps: 9}\n"
        b"parallelism: {dp: 2, tp: 1, pp: 1}\ntokens:\n  <<: [*base, *more]\n  micro_batch_size: 4\n"
    )
    found = read_launch(SourceFile("n.yaml", text), "nanotron")
    part = found.part("/workload/sequence_length")
    assert (found.value("/plans/0/microbatch"), found.value("/proposal/run_length/steps")) == (4, 9)
    assert part is not None
    assert (part.value, part.place.line) == (1024, 1)
    lent = {key.name: key.use.value for key in found.keys}
    assert lent["base.sequence_length"] == "set aside"  # it is read where it is taken over
    assert lent["more.sequence_length"] == "set aside"
    other = read_launch(SourceFile("n.yaml", text.replace(b"*more", b"{train_steps: 9}")), "nanotron")
    assert {key.name: key.use.value for key in other.keys}["more.sequence_length"] == "not understood"


def test_a_written_engine_configuration_is_read_and_what_the_script_does_not_set_is_open() -> None:
    text = (
        b'cat <<CFG > ds.json\n{"zero_optimization": {"stage": $ZERO}, "train_micro_batch_size_per_gpu": 1, '
        b'"fp16": {"enabled": true, "loss_scale": "$SCALE"}}\nCFG\n'
        b"deepspeed pretrain_gpt.py --deepspeed --deepspeed_config ds.json --num-layers 8 --hidden-size 512 --seq-length 8\n"
    )
    found = read_launch(SourceFile("a.sh", text), "megatron")
    assert found.value("/proposal/framework/settings/fp16.enabled") is True
    assert found.value("/proposal/framework/settings/zero_optimization.stage") is None
    assert not any("no JSON" in note for note, _ in found.notes)
    given = read_launch(SourceFile("a.sh", text, {"ZERO": "1", "SCALE": "0"}), "megatron")
    assert given.value("/proposal/framework/settings/zero_optimization.stage") == 1


def test_an_unset_variable_is_open_and_one_that_is_given_is_not() -> None:
    text = SCRIPT.format(layers="$LAYERS", more="--tensor-model-parallel-size ${TP:-2}").encode()
    found = read_launch(SourceFile("a.sh", text), "megatron")
    assert found.value("/model/transformer/layers") is None
    assert any("'LAYERS' is not set" in gap.why and gap.place.line == 1 for gap in found.gaps)
    assert read_launch(SourceFile("a.sh", text, {"LAYERS": "8"}), "megatron").value("/model/transformer/layers") == 8


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ('{"architectures": ["Foo"], "model_type": "llama", "hidden_size": 8}', "config.json", ("'hf-config'", "model.config")),
        ('{"peft_type": "LORA", "r": 8}', "adapter_config.json", ("'hf-config'",)),
        ("GPU0\tGPU1\nGPU0\t X \tNV12\nGPU1\tNV12\t X \n", "topo.txt", ()),
    ],
)
def test_lint_says_which_kind_a_file_is_that_is_no_launch_file(
    text: str, name: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        parse_proposal(text.encode(), name, tmp_path / name, bare=True)
    assert all(word in str(caught.value) for word in words)


def test_what_overrides_of_a_recipe_do_not_state_is_the_recipes_and_no_default() -> None:
    text = b"train: {micro_batch_size: 2, global_batch_size: 64}\nmodel: {seq_length: 9,tensor_model_parallel_size: 4}\nddp: {}\n"
    found = read_launch(SourceFile("o.yaml", text), "nemo")
    assert found.value("/workload/global_batch") == "64 sequences"
    left = ("/plans/0/uniform/", "/model/", "/workload/precision/")
    assert [part.path for part in found.parts if part.path.startswith(left)] == []
    gaps = {gap.path for gap in found.gaps}
    assert {"/plans/0/uniform/pipeline", "/workload/precision/parameters", "/plans/0/recompute", "/model/transformer"} <= gaps


def test_experts_of_nanotrons_older_example_are_read() -> None:
    text = (
        b"parallelism: {dp: 2, tp: 1, pp: 1, expert_parallel_size: 2}\ntokens: {micro_batch_size: 1}\nmodel:\n  model_config: "
        b"{num_hidden_layers: 4, intermediate_size: 64, moe_num_experts: 4, num_experts_per_tok: 1, moe_capacity_factor: 1}\n"
    )
    found = read_launch(SourceFile("n.yaml", text), "nanotron")
    moe = {part.path.rpartition("/")[2]: part.value for part in found.parts if "/moe/" in part.path}
    assert moe == {"experts": 4, "top_k": 1, "capacity_factor": 1.0, "ffn": 64}


def test_references_that_multiply_are_left_open_at_once() -> None:
    rows = "".join(f"  a{k}: \"{f'${{model.a{k - 1}}}' * 10}\"\n" for k in range(1, 10))
    text = "trainer: {devices: 8, num_nodes: 2}\nmodel:\n  tensor_model_parallel_size: 2\n  a0: xxxxxxxxxx\n" + rows
    file = SourceFile("bomb.yaml", text.encode(), {})
    launch = read_launch(file, only_kind(file))
    assert len(str(launch)) < 100_000


def test_a_chain_that_is_open_from_afar_is_resolved_from_near() -> None:
    place = SourceFile("n.yaml", b"", {}).start
    chain = [Entry("a0", 8, place), *(Entry(f"a{k}", f"${{a{k - 1}}}", place) for k in range(1, 20))]
    for entries in (chain, chain[::-1]):
        found = {entry.key: entry.value for entry in resolved(entries)}
        assert found["a3"] == 8
        assert found["a12"] == 8


def test_a_function_that_calls_itself_is_told_once_a_place() -> None:
    script = "f() { f; f; }\nf\n" + SCRIPT.format(layers=8, more="")
    file = SourceFile("rec.sh", script.encode(), {})
    assert str(read_launch(file, "megatron")).count("too deep") <= 4
