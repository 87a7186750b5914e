"""A skeleton loads, states only what was given, says where that comes from, and its suggestions are valid lines."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planproof.hardware import Library, open_library
from planproof.importers import hf_config
from planproof.model import Transformer
from planproof.proposal import Case, parse_proposal, resolve
from planproof.proposal.skeleton import Draft, Given, batch_text, draft, read_model, reference_plan
from planproof.quantity import UnitError

CONFIGS = sorted((Path(__file__).parent.parent / "data" / "hf_config").glob("*.json"))
#: What nobody can write down without measuring.
MEASURED = {"collective_curves"}


@pytest.fixture(scope="module")
def library() -> Library:
    return open_library()


def read_back(text: str, path: Path, library: Library) -> Case:
    return resolve(parse_proposal(text.encode(), path.name, path), library)


def answered(text: str) -> str:
    """The skeleton with every suggestion taken."""
    return re.sub(r"^( *)# ([a-z_]+: |- )", r"\1\2", text, flags=re.MULTILINE)


def missing(made: Draft | Case) -> set[str]:
    case = made.case if isinstance(made, Draft) else made
    return {gap.item for gap in case.missing}


def llama(folder: Path) -> Path:
    (folder / ".git").mkdir()
    (folder / "models").mkdir()
    file = folder / "models" / "config.json"
    file.write_bytes(next(path for path in CONFIGS if path.name == "llama3_70b.json").read_bytes())
    return file


def test_an_empty_skeleton_loads_and_lacks_everything_that_is_required(tmp_path: Path, library: Library) -> None:
    made = draft(Given(), tmp_path / "proposal.yaml", library)
    assert {"objective", "run_length", "model", "global_batch", "precision", "optimizer", "devices"} <= missing(made)
    assert {"contention", "profile", "layouts", "reference_plan"} <= missing(made)
    assert made.case.plans == ()
    assert made.case.contradictions == ()


def test_every_suggestion_is_a_valid_line_and_together_they_lack_only_measurements(tmp_path: Path, library: Library) -> None:
    path = tmp_path / "proposal.yaml"
    case = read_back(answered(draft(Given(), path, library).text), path, library)
    assert missing(case) <= MEASURED
    assert case.contradictions == ()
    assert [plan.plan is not None for plan in case.plans] == [True]


@pytest.mark.parametrize("node", ["dgx_h100", "p4d.24xlarge", "mi300x_8", "p3.16xlarge"])
@pytest.mark.parametrize(("nodes", "batch", "length"), list(product([1, 4], ["512 sequences", None], [4096, None])))
def test_suggestions_complete_whatever_was_given(
    node: str, nodes: int, batch: str | None, length: int | None, tmp_path: Path, library: Library
) -> None:
    path = tmp_path / "proposal.yaml"
    model = read_model(llama(tmp_path), path)
    made = draft(Given(model, library.node(node), nodes, batch, length), path, library)
    assert made.case.sequence_length == length
    assert made.case.global_batch == (512 if batch else None)
    assert made.case.described.devices == nodes * library.node(node).devices
    assert ("fabric" in missing(made)) == (nodes > 1)
    case = read_back(answered(made.text), path, library)
    assert missing(case) <= MEASURED
    assert case.contradictions == ()
    assert case.plans[0].plan is not None
    assert case.plans[0].plan.devices == case.described.devices


def test_a_model_inside_the_repository_is_referred_to_from_the_proposals_folder(tmp_path: Path, library: Library) -> None:
    file = llama(tmp_path)
    (tmp_path / "runs").mkdir()
    path = tmp_path / "runs" / "proposal.yaml"
    made = draft(Given(model=read_model(file, path)), path, library)
    assert "config: {file: ../models/config.json, kind: hf-config}" in made.text.replace("'", "")
    assert made.case.model is not None
    assert made.case.model.layers == 80
    assert str(tmp_path) not in made.text


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_shapes_copied_from_outside_are_the_models_or_say_what_they_leave_out(
    config: Path, tmp_path: Path, library: Library
) -> None:
    path = tmp_path / "proposal.yaml"
    model = read_model(config, path)
    assert model.reference is None
    made = draft(Given(model=model, sequence_length=4096), path, library)
    case = read_back(made.text, path, library)
    assert model.sha256 in made.text
    assert str(config.parent) not in made.text
    assert case.model is not None
    different = {
        name for name in Transformer.__dataclass_fields__
        if name not in ("name", "family") and getattr(case.model, name) != getattr(model.transformer, name)
    }  # fmt: skip
    assert different == {text.split()[0].split(".")[0] for text in made.left_out}
    assert all(text in made.text for text in made.left_out)


def test_a_file_name_that_would_break_the_line_stays_in_its_comment(tmp_path: Path, library: Library) -> None:
    config = tmp_path / "a\nplans: [b].json"
    config.write_bytes(CONFIGS[0].read_bytes())
    (tmp_path / "elsewhere").mkdir()
    path = tmp_path / "elsewhere" / "proposal.yaml"
    made = draft(Given(model=read_model(config, path), sequence_length=4096), path, library)
    assert made.case.plans == ()


@settings(max_examples=200)
@given(
    devices=st.integers(1, 4096),
    sequences=st.none() | st.integers(1, 8192),
    model=st.none() | st.sampled_from(CONFIGS),
    island=st.integers(1, 16),
)
def test_a_reference_plan_uses_all_devices_and_divides_what_it_must(
    devices: int, sequences: int | None, model: Path | None, island: int
) -> None:
    shapes = read_model(model, Path("proposal.yaml")).transformer if model else None
    found = reference_plan(devices, sequences, shapes, island)
    if found is None:
        assert sequences is not None
        assert sequences % devices
        return
    mesh, pipeline = found
    assert mesh.devices * pipeline == devices
    assert mesh.tensor <= island
    assert sequences is None or sequences % mesh.data == 0
    if shapes is not None:
        assert shapes.layers % pipeline == 0
        assert [width % mesh.tensor for width in (shapes.heads, shapes.kv_heads, shapes.ffn)] == [0, 0, 0]
    else:
        assert (mesh.tensor, pipeline) == (1, 1)


def test_a_batch_that_the_devices_do_not_divide_leaves_the_plan_to_the_proposer(tmp_path: Path, library: Library) -> None:
    made = draft(Given(node=library.node("dgx_h100"), nodes=3, global_batch="100 sequences"), tmp_path / "p.yaml", library)
    assert "reference_plan" in missing(made)
    assert "a multiple of 24" in made.text


@pytest.mark.parametrize(
    ("written", "text"),
    [("2048", "2048 sequences"), ("1", "1 sequence"), ("4 Mtokens", "4 Mtokens"), (" 256 sequences ", "256 sequences")],
)
def test_a_bare_number_is_a_batch_of_sequences(written: str, text: str) -> None:
    assert batch_text(written) == text


@pytest.mark.parametrize("written", ["", "0", "-1", "0 tokens", "2048 apples", "1e3", "nan", "10" * 40, "2.5"])
def test_a_batch_that_is_none_is_refused(written: str) -> None:
    with pytest.raises(UnitError):
        batch_text(written)


def test_the_file_of_another_tool_is_refused_by_its_reader(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"model_type": "bert"}')
    with pytest.raises(Exception, match="decoder"):
        read_model(file, tmp_path / "proposal.yaml")
    assert hf_config.recognises({"model_type": "llama", "vocab_size": 1})
