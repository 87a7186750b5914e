"""Published parameter counts of a hundred public configs, and what is said of a family that is not read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from planproof.document import parse_document
from planproof.errors import InputError
from planproof.importers.hf_config import FAMILIES, HFModel, read
from planproof.importers.hf_config_later import UNMODELLED
from planproof.model import active_parameters, embedding_parameters, parameters, stage_parameters
from planproof.model.builders import Shape, transformer_graph

FOLDER = Path(__file__).parent.parent / "data" / "hf_config"
ROWS: list[dict[str, Any]] = yaml.safe_load((FOLDER / "more.yaml").read_text(encoding="utf-8"))
FIRST = {json.loads(path.read_text(encoding="utf-8"))["model_type"] for path in FOLDER.glob("*.json")}


def read_data(data: dict[str, Any]) -> HFModel:
    document = parse_document(json.dumps(data, indent=1).encode(), "config.json")
    return read(document.data, document.place)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_a_public_config_counts_as_published_and_no_key_is_left_over(row: dict[str, Any]) -> None:
    found = read_data(row["config"])
    unit = row.get("unit", 1)
    assert abs(parameters(found.transformer) + row.get("beside", 0) - row["total"] * unit) <= unit // 2
    if "active" in row:
        per = row.get("active_unit", unit)
        table = embedding_parameters(found.transformer) if row.get("active_without_table") else 0
        assert abs(active_parameters(found.transformer) - table - row["active"] * per) <= per // 2
    assert found.unread == ()


def test_every_family_is_tried_here_or_in_the_files_beside() -> None:
    tried = FIRST | {row["config"]["model_type"] for row in ROWS}
    inside = {row["config"]["text_config"]["model_type"] for row in ROWS if "text_config" in row["config"]}
    # Names of one class: read by the same function as one that is tried.
    assert set(FAMILIES) - tried - inside <= {"glm", "internlm", "olmo3"}


@pytest.mark.parametrize("name", ["olmo2", "bloom", "llama4"])
def test_a_graph_of_operators_holds_as_many_parameters_as_are_counted(name: str) -> None:
    model = read_data(next(row["config"] for row in ROWS if row["config"]["model_type"] == name)).transformer
    graph = transformer_graph(model, Shape(1, 128), layers=(0, 1))
    assert graph.parameters == stage_parameters(model, 0, 1, embedding=True, head=True).total


def refusal(data: dict[str, Any]) -> InputError:
    with pytest.raises(InputError) as caught:
        read_data(data)
    assert caught.value.place.line is not None
    return caught.value


def test_an_unknown_family_is_refused_with_what_its_usual_keys_say_and_what_they_do_not() -> None:
    error = refusal({"model_type": "newmodel", "hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 8})
    assert error.code == "hf_config.unknown_family"
    assert "'newmodel'" in error.message
    remedy = error.remedy or ""
    assert "{layers: 8, hidden: 1024, heads: 8}" in remedy
    assert "silent on kv_heads, head_dim, ffn, vocabulary" in remedy
    assert "biases" in remedy


def test_a_slip_in_the_name_is_answered_with_the_nearest() -> None:
    assert "did you mean 'starcoder2'?" in refusal({"model_type": "starcoder-2", "hidden_size": 1}).message


@pytest.mark.parametrize("family", sorted(UNMODELLED))
def test_a_family_that_is_known_and_not_modelled_says_why(family: str) -> None:
    assert UNMODELLED[family] in refusal({"model_type": family, "hidden_size": 64, "vocab_size": 100}).message


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("facebook/opt-125m", {"word_embed_proj_dim": 512}),
        ("facebook/opt-125m", {"do_layer_norm_before": False}),
        ("MiniMaxAI/MiniMax-M2", {"attn_type_list": [0, 1]}),
        ("MiniMaxAI/MiniMax-M2", {"shared_intermediate_size": 8}),
        ("bigcode/starcoder2-7b", {"norm_type": "rms_norm"}),
        ("stabilityai/stablelm-2-1_6b", {"qk_layernorm": True}),
        ("deepseek-ai/deepseek-moe-16b-base", {"moe_layer_freq": 2}),
    ],
)
def test_what_a_family_can_say_and_is_not_modelled_is_refused(name: str, change: dict[str, Any]) -> None:
    config = next(row["config"] for row in ROWS if row["name"] == name)
    error = refusal({**config, **change})
    assert error.code == "hf_config.unsupported"
    assert error.place.pointer == "/" + next(iter(change))


def test_the_model_inside_a_config_with_vision_may_name_its_family() -> None:
    text = {"model_type": "qwen3_vl_text", **{k: v for k, v in _row("Qwen/Qwen3-4B").items() if k != "model_type"}}
    found = read_data({"model_type": "qwen3_vl", "text_config": text, "vision_config": {}, "tie_word_embeddings": True})
    assert parameters(found.transformer) == parameters(read_data(_row("Qwen/Qwen3-4B")).transformer)
    assert found.origins["hidden"] == "/text_config/hidden_size"
    assert "tie_word_embeddings" in found.set_aside


def _row(name: str) -> dict[str, Any]:
    config: dict[str, Any] = next(row["config"] for row in ROWS if row["name"] == name)
    return config
