"""A proposal loads with places, or fails with one message that says where, what, and what would do."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from planproof.document import parse_document
from planproof.errors import InputError
from planproof.plan import Recompute, Schedule
from planproof.proposal import load_proposal, parse_proposal, schema
from planproof.proposal.load import validate
from planproof.proposal.schema import GradeName, RecomputeName, ScheduleName
from planproof.quantity import Grade

PROPOSALS = Path(__file__).parent.parent / "data" / "proposals"


def failure(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        validate(parse_document(text.encode(), "p.yaml"))
    return caught.value


@pytest.mark.parametrize("name", ["llama3-70b-h100", "moe-27b-p3"])
def test_the_complete_proposals_load_with_every_value_at_its_place(name: str) -> None:
    path = PROPOSALS / f"{name}.yaml"
    loaded = load_proposal(path)
    lines = path.read_text().splitlines()
    assert loaded.stated.plans is not None
    for k, plan in enumerate(loaded.stated.plans):
        place = loaded.place(f"/plans/{k}/name")
        assert place.line is not None
        assert place.column is not None
        assert lines[place.line - 1][place.column - 1 :].startswith(str(plan.name))


def test_the_same_proposal_in_json_is_the_same_proposal(tmp_path: Path) -> None:
    source = PROPOSALS / "llama3-70b-h100.yaml"
    data = yaml.safe_load(source.read_text().replace("date: 2026-12-01", "date: '2026-12-01'"))
    as_json = tmp_path / "p.json"
    as_json.write_text(json.dumps(data))
    assert load_proposal(as_json).stated == load_proposal(source).stated


def test_literals_of_the_schema_are_those_of_the_plan_and_the_grades() -> None:
    assert set(ScheduleName.__args__) == {one.value for one in Schedule}
    assert set(RecomputeName.__args__) == {one.value for one in Recompute}
    assert set(GradeName.__args__) == {one.value for one in Grade}


#: Text after `planproof: 1`, and what the message must say: (line, column, words).
WRONG = [
    ("modle: {}", 2, 1, "did you mean 'model'"),
    ("model: {transfomer: {}}", 2, 9, "did you mean 'transformer'"),
    ("proposal: {objective: fastest}", 2, 23, "'step_time'"),
    ("workload: {sequence_length: long}", 2, 29, "expected a whole number, found 'long'"),
    ("workload: {sequence_length: 0}", 2, 29, "0 is too small; at least 1"),
    ("workload: {sequence_length: -8}", 2, 29, "-8 is too small"),
    ("workload: {sequence_length: 2.5}", 2, 29, "expected a whole number"),
    ("workload: {dynamic_shapes: no}", 2, 28, "expected true or false, found 'no' (yes, no, on and off are texts here)"),
    ("workload: {global_batch: 2048}", 2, 26, "has no unit"),
    ("workload: {global_batch: 2048 GB}", 2, 26, "neither sequences nor tokens"),
    ("workload: {dropout: 1.5}", 2, 21, "1.5 is too large; below 1"),
    ("model: {transformer: {moe: {capacity_factor: 0}}}", 2, 46, "0 is too small; above 0"),
    ("layouts: {degrees: {tensor: []}}", 2, 29, "an empty list says nothing; write at least 1 entry, or leave the key out"),
    ("plans: [{uniform: {layers: []}}]", 2, 28, "an empty list says nothing"),
    ("plans: [{name: ''}]", 2, 16, "an empty text says nothing"),
    ("cluster: {nodes: [{count: true}]}", 2, 27, "expected a whole number, found true"),
    ("proposal: {framework: {settings: {a: {b: 1}}}}", 2, 38, "nested options have dots: 'a.b: 1'"),
    ("claims: [{metric: loss_agreement, recipe: {tolerance: -1}}]", 2, 55, "-1 is too small; at least 0"),
    ("workload: {precision: {parameters: bf15}}", 2, 36, "'bf16'"),
    ("cluster: {fabric: {nics: {count: 8, bandwidth: 400}}}", 2, 48, "has no unit"),
    ("cluster: {fabric: {bandwidth: 50 GiB}}", 2, 31, "is a unit of bytes, not of bytes/s"),
    ("cluster: {fabric: {oversubscription: 0.5}}", 2, 38, "too small"),
    ("cluster: {contention: maybe}", 2, 23, "write none"),
    ("cluster: {contention: {share: 500 %}}", 2, 31, "outside what can be"),
    ("cluster: {nodes: {count: 0, type: dgx_h100}}", 2, 26, "0 is too small"),
    ("cluster: {nodes: {count: 1000000000000000000000000000000}}", 2, 26, "too large"),
    ("profile: 7", 2, 10, "expected none, or a mapping"),
    ("layouts: some", 2, 10, "write all"),
    ("plans: {}", 2, 8, "expected a list"),
    ("plans: [{uniform: {data: 2, tensro: 4}}]", 2, 29, "did you mean 'tensor'"),
    ("plans: [{schedule: 1f2b}]", 2, 20, "'1f1b'"),
    ("plans: [{stages: [{layers: [0]}]}]", 2, 28, "at least 2"),
    ("plans: [{zero: 4}]", 2, 16, "at most 3"),
    ("proposal: {date: 2026-02-30}", 2, 18, "is not a date"),
    ("proposal: {run_length: {tokens: 15.6e12}}", 2, 33, "has no unit"),
    ("policy: {require: {link_bandwidth: sure}}", 2, 36, "'measured'"),
    ("cluster: {fabric: {latency: {value: 2 us, grade: certain}}}", 2, 50, "'certain' is no grade"),
    ("cluster: {fabric: {latency: {grade: measured}}}", 2, 29, "needs 'value'"),
    ("cluster: {fabric: {latency: {value: 2 us, source: 3}}}", 2, 51, "must be a text"),
]


@pytest.mark.parametrize(("text", "line", "column", "said"), WRONG)
def test_a_wrong_value_is_named_with_its_place_and_what_would_do(text: str, line: int, column: int, said: str) -> None:
    error = failure("planproof: 1\n" + text)
    assert said in error.message
    assert (error.place.line, error.place.column) == (line, column), error
    assert error.exit_status == 2
    assert error.remedy


@pytest.mark.parametrize("text", ["{}", "a: 1", "planproof: 2", "planproof: true", "planproof: '1'", "planproof: 1.5"])
def test_what_does_not_say_its_version_is_no_proposal(text: str) -> None:
    assert "planproof" in failure(text).message


def test_several_mistakes_give_the_first_and_count_the_rest() -> None:
    error = failure("planproof: 1\nworkload: {sequence_length: x, dropout: 7}\nlayouts: none")
    assert error.place.line == 2
    assert "(2 more after this one)" in error.message


def test_the_schema_lists_every_section_and_refuses_unknown_keys() -> None:
    body = schema()
    assert body["required"] == ["planproof"]
    assert body["additionalProperties"] is False
    assert {"model", "workload", "cluster", "plans", "policy"} <= set(body["properties"])
    json.dumps(body)


@pytest.mark.parametrize("name", ["llama3-70b-h100", "moe-27b-p3"])
def test_the_schema_takes_what_the_loader_takes(name: str) -> None:
    data = parse_document((PROPOSALS / f"{name}.yaml").read_bytes(), "p.yaml").data
    jsonschema.validate(data, schema())


keys = st.sampled_from(
    ["planproof", "proposal", "model", "workload", "cluster", "nodes", "fabric", "plans", "uniform", "stages", "layers", "x"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**12) | st.text(max_size=8) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(keys, values, max_size=6))
def test_no_data_raises_anything_but_an_input_error(data: dict[str, object]) -> None:
    text = json.dumps({"planproof": 1} | data)
    try:
        validate(parse_document(text.encode(), "p.json"))
    except InputError as refused:
        assert refused.message
        assert refused.place.file == "p.json"


def test_a_mapping_where_only_words_would_do_is_said_at_its_place() -> None:
    raw = b"planproof: 1\nworkload:\n  precision:\n    master: {value: 1 GB/s}\n"
    with pytest.raises(InputError, match=r"workload\.precision\.master: a mapping is not one of") as caught:
        parse_proposal(raw, "p.yaml", Path("p.yaml"))
    assert (caught.value.place.line, caught.value.place.column) == (4, 13)
