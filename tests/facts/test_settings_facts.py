"""A framework's own settings: one form for every spelling, and the numbers that follow from them for a plan."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planproof.document import load_document
from planproof.facts import Fact, of_kind
from planproof.facts.from_case import case_facts
from planproof.facts.from_plan import plan_facts
from planproof.facts.from_settings import schedule_pairs
from planproof.facts.settings import setting_name, setting_text
from planproof.hardware import open_library
from planproof.inference.examples import base_path, patched
from planproof.plan.frameworks import FRAMEWORKS, framework_called, lineage, release_number
from planproof.plan.layout_string import TOKENS, read_layout
from planproof.proposal import parse_proposal, resolve

LIBRARY = open_library()


def facts_of(base: str, settings: dict[str, Any], patch: dict[str, Any] | None = None) -> list[Fact]:
    path = base_path(base)
    changes = {"/proposal/framework/settings": settings, **(patch or {})}
    raw = json.dumps(patched(load_document(path).data, changes.items())).encode()
    case = resolve(parse_proposal(raw, path.name, path), LIBRARY)
    return [*case_facts(case), *(fact for plan in case.plans for fact in plan_facts(case, plan))]


def division(facts: list[Fact], of: str, plan: str) -> tuple[object, object, object]:
    found = [fact for fact in of_kind(facts, "division") if fact["of"] == of and fact["plan"] == plan]
    assert len(found) == 1, of
    return found[0]["total"], found[0]["parts"], found[0]["remainder"]


@pytest.mark.parametrize(
    ("version", "number"),
    [("core_r0.14", 14_000), ("core_v0.12.2", 12_002), ("v2.3", 2_003_000), ("0.17.0", 17_000), ("b5bcd76c6", None)],
)
def test_a_release_is_a_number_and_a_commit_is_none(version: str, number: int | None) -> None:
    assert release_number(version) == number


def test_a_framework_is_found_under_every_name_and_stands_on_what_it_hands_its_configuration_to() -> None:
    found = framework_called("Megatron_LM")
    assert found is not None
    assert [one.name for one in lineage(found)] == ["megatron-lm", "megatron-core"]
    assert [one.name for one in lineage(FRAMEWORKS["primus"])] == ["primus", "megatron-lm", "megatron-core"]
    assert framework_called("house-trainer") is None


def test_every_framework_stands_on_known_ones() -> None:
    for framework in FRAMEWORKS.values():
        assert set(framework.stands_on) <= set(FRAMEWORKS)
        assert all(name == name.lower() for name in (framework.name, *framework.also))


def test_one_setting_has_one_name_and_one_value_however_it_is_spelled() -> None:
    assert {setting_name(name) for name in ("--Tp-Comm-Overlap", "tp_comm_overlap", "tp comm overlap")} == {"tp_comm_overlap"}
    assert [setting_text(value) for value in (True, "True", "on", False, "off", None, 8, 8.0, 0.5, [1, "a"])] == [
        "yes", "yes", "yes", "no", "no", "none", "8", "8", "0.5", "1, a",
    ]  # fmt: skip


def test_a_switch_that_is_turned_off_on_the_command_line_is_off() -> None:
    settings = of_kind(facts_of("dense", {"--no-overlap-p2p-communication": True}), "setting")
    assert {(fact["name"], fact["value"]) for fact in settings} == {
        ("no_overlap_p2p_communication", "yes"),
        ("overlap_p2p_communication", "no"),
    }


def test_numbers_lists_and_items_of_a_setting() -> None:
    facts = facts_of("dense", {"sizes": [2, 4], "words": ["a", "b", "a"], "factor": 1.25, "text": "16"})
    by_name = {fact["name"]: fact for fact in of_kind(facts, "setting")}
    assert (by_name["sizes"]["product"], by_name["sizes"]["count"]) == (8, 2)
    assert (by_name["words"].get("product"), by_name["words"]["count"]) == (None, 3)
    assert by_name["factor"]["value_ppm"] == 1_250_000
    assert by_name["text"]["number"] == 16
    items = [(fact["name"], fact["item"]) for fact in of_kind(facts, "setting_item")]
    assert items == [("sizes", "2"), ("sizes", "4"), ("words", "a"), ("words", "b")]


def test_the_settings_of_a_launch_are_those_of_the_submitted_plan() -> None:
    worlds = of_kind(facts_of("dense", {"nnodes": 4, "nproc_per_node": 6}), "world")
    assert [(fact["plan"], fact["launched"], fact["devices"], fact["replica"], fact["remainder"]) for fact in worlds] == [
        ("submitted", 24, 32, 4, 0)
    ]


def test_layers_counted_with_the_ends_and_cut_into_chunks() -> None:
    both = {"account_for_embedding_in_pipeline_split": True, "account_for_loss_in_pipeline_split": True}
    assert division(facts_of("stages", both), "accounted_layers", "uneven") == (32, 4, 0)
    assert division(facts_of("moe", {"num_layers_per_virtual_pipeline_stage": 3}), "virtual_stage", "submitted") == (8, 3, 2)
    pattern = {"hybrid_layer_pattern": "M*|M*|M*/MM"}
    assert division(facts_of("dense", pattern), "hybrid_segments", "submitted") == (3, 2, 1)
    stages = {"parallelism.pipeline_parallel_layers_per_stage": 12}
    assert division(facts_of("dense", stages), "virtual_stages", "submitted") == (3, 2, 1)  # ceil((32 + 1 + 1) / 12)


def test_what_the_ends_of_a_pipeline_leave_for_the_middle() -> None:
    facts = facts_of("stages", {"decoder_first_pipeline_num_layers": 7, "decoder_last_pipeline_num_layers": 6})
    ends = of_kind(facts, "uneven_ends")
    assert [(one["middle_layers"], one["middle_stages"], one["matches"]) for one in ends] == [(17, 2, "yes")]
    assert division(facts, "middle_layers", "uneven") == (17, 2, 1)


def test_batches_of_evaluation_and_of_a_schedule() -> None:
    facts = facts_of("dense", {"eval_global_batch_size": 100, "step_batch_size_schedule": "0:96,1000:512"})
    assert division(facts, "eval_batch", "submitted") == (100, 8, 4)
    totals = [fact["total"] for fact in of_kind(facts, "division") if fact["of"] == "scheduled_batch"]
    assert totals == [96, 512, 96, 512]
    assert schedule_pairs("0:96 1000:512") == [(0, 96), (1000, 512)]
    assert schedule_pairs("0-96") is None


def test_tokens_of_a_microbatch_and_of_a_step() -> None:
    context = {"/plans/1/uniform": {"data": 4, "tensor": 2, "pipeline": 2, "context": 2}, "/plans/1/accumulation": 128}
    stated = {"num_tokens_per_microbatch_per_dp_rank": 8190, "num_tokens_per_train_step": 1_000_000, "num_pp_microbatches": 4}
    facts = facts_of("dense", stated, context)
    assert division(facts, "microbatch_tokens", "submitted") == (8190, 8, 6)
    assert division(facts, "step_tokens", "submitted") == (1_000_000, 8190 * 4 * 4, 1_000_000 % (8190 * 16))


def test_a_layout_string_is_read_stage_by_stage() -> None:
    read = read_layout("Et*3|(tt|)*29,m|L")  # the example in Megatron's own docstring, with its repeats unrolled
    assert read is not None
    assert read.stages == ("Ettt", *["tt"] * 29, "m", "L")
    assert read_layout("Et|x|L") is None
    assert read_layout("") is None
    assert read_layout("t*999999") is None


@given(st.lists(st.text(alphabet=TOKENS, max_size=6), min_size=1, max_size=8).filter(lambda stages: any(stages)))
def test_a_layout_that_repeats_nothing_is_its_stages(stages: list[str]) -> None:
    read = read_layout("|".join(stages))
    assert read is not None
    assert list(read.stages) == stages
    assert read.tokens == "".join(stages)


def test_the_facts_of_a_layout_count_its_tokens() -> None:
    layout = of_kind(facts_of("stages", {"pipeline_model_parallel_layout": "Et*7|t*8m|t*8|t*7mL"}), "pipe_layout")[0]
    names = ("stages", "chunks", "decoders", "model_layers", "embeddings", "losses", "mtp", "mtp_stages")
    counts = [layout[name] for name in names]
    assert counts == [4, 1, 30, 30, 1, 1, 2, 2]
    assert (layout["ends_right"], layout["mtp_after"], layout["mtp_on_first"]) == ("yes", "no", "no")


def test_bounds_follow_the_layers_of_a_stage_and_of_the_model() -> None:
    settings = {"num_layers_at_start_in_bf16": 9, "cpu_offloading_num_layers": 31, "activation_offload_fraction": 1.5}
    facts = facts_of("moe", settings)
    bounds = {(one["of"], one["plan"]): (one["low"], one["high"], one["inside"]) for one in of_kind(facts, "bound")}
    assert bounds["bf16_start", "submitted"] == (0, 8, "no")
    assert bounds["bf16_start", "reference"] == (0, 32, "yes")
    assert bounds["offloaded_layers", "submitted"] == (0, 31, "yes")
    assert bounds["offload_fraction", "submitted"] == (0, 1_000_000, "no")


def test_a_proposal_without_settings_has_no_facts_of_any() -> None:
    facts = facts_of("dense", {})
    assert [fact for fact in facts if fact.kind in ("setting", "world", "bound", "pipe_layout", "uneven_ends")] == []


@pytest.mark.parametrize(
    ("settings", "dispatcher", "overlap"),
    [
        ({}, None, None),
        ({"moe-token-dispatcher-type": "alltoall"}, "alltoall", None),
        ({"model.moe_token_dispatcher_type": "allgather", "overlap_moe_expert_parallel_comm": False}, "allgather", "no"),
        ({"moe_token_dispatcher_type": "flex"}, "deepep", None),
        ({"moe_token_dispatcher_type": "alltoall", "moe_enable_deepep": True}, "deepep", None),
        ({"moe_token_dispatcher_type": "alltoall", "moe_enable_deepep": False}, "alltoall", None),
        ({"--overlap-moe-expert-parallel-comm": True}, None, "yes"),
        ({"parallelism.expert_parallel_comm_backend": "hybridep"}, "deepep", None),
        ({"use_turbo_deepep": True}, "deepep", None),
        ({"moe_token_dispatcher_type": "unheard"}, None, None),
    ],
)
def test_settings_say_how_tokens_reach_experts(settings: dict[str, Any], dispatcher: str | None, overlap: str | None) -> None:
    (work,) = of_kind(facts_of("moe", settings), "workload")
    assert (work.get("dispatcher"), work.get("dispatch_overlap")) == (dispatcher, overlap)


def test_a_dispatcher_against_the_settings_is_a_contradiction() -> None:
    facts = facts_of("moe", {"moe_token_dispatcher_type": "allgather"}, {"/workload/dispatcher": "alltoall"})
    (clash,) = of_kind(facts, "contradiction")
    assert (clash.path, clash["detail"]) == (
        "/workload/dispatcher", "'workload.dispatcher' is alltoall, and 'framework.settings' say allgather"
    )  # fmt: skip
