"""Hugging Face configs: every family counts right, every field has an origin, and what cannot be read is said."""

from __future__ import annotations

import csv
import json
from dataclasses import fields
from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planproof.document import parse_document
from planproof.errors import InputError, Place
from planproof.importers.hf_config import HFModel, read, recognises
from planproof.model import active_parameters, embedding_parameters, is_moe, parameters

FOLDER = Path(__file__).parent.parent / "data" / "hf_config"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
with (FOLDER / "published.csv").open() as table:
    PUBLISHED = list(csv.DictReader(table))


def stated(name: str) -> dict[str, object]:
    return json.loads((FOLDER / f"{name}.json").read_text())


def read_data(data: dict[str, object]) -> HFModel:
    document = parse_document(json.dumps(data, indent=2).encode(), "config.json")
    return read(document.data, document.place)


def changed(name: str, **changes: object) -> dict[str, object]:
    return {**stated(name), **changes}


def without(name: str, *keys: str) -> dict[str, object]:
    return {key: value for key, value in stated(name).items() if key not in keys}


def refusal(data: dict[str, object]) -> InputError:
    with pytest.raises(InputError) as caught:
        read_data(data)
    error = caught.value
    assert error.place.file == "config.json"
    assert error.place.line is not None
    assert error.remedy
    return error


def swiglu(h: int, ffn: int) -> int:
    return 3 * h * ffn


def gqa(h: int, heads: int, kv: int, d: int) -> int:
    return 2 * h * heads * d + 2 * h * kv * d


def mla(h: int, heads: int, q_rank: int | None) -> int:
    """Ranks 512 and `q_rank`, head widths 64 + 128 and 128, with the norms of the latents."""
    query = h * heads * 192 if q_rank is None else h * q_rank + q_rank * heads * 192 + q_rank
    return query + h * 576 + 512 * heads * 256 + 512 + heads * 128 * h


def deepseek(v: int, h: int, layers: int, attention: int, dense: int, ffn: int, expert: int, experts: int, shared: int,
             correction: bool) -> int:  # fmt: skip
    """Experts of one width, `shared` of them always on; a router h x experts, with or without a correction."""
    sparse = (experts + shared) * swiglu(h, expert) + experts * h + (experts if correction else 0)
    return 2 * v * h + h + layers * (attention + 2 * h) + dense * swiglu(h, ffn) + (layers - dense) * sparse


#: One derivation a config, term by term, from the layers of the family's class: tables, layers x (attention + MLP +
#: norms + biases), the final norm. What stands as one number is derived in tests/model/test_parameter_counts.py.
DERIVED = {
    "llama2_13b": 2 * 32000 * 5120 + 40 * (4 * 5120**2 + swiglu(5120, 13824) + 2 * 5120) + 5120,
    "llama3_8b": 8_030_261_248,
    "llama3_70b": 70_553_706_496,
    "llama3_405b": 405_853_388_800,
    "mistral_7b": 2 * 32000 * 4096 + 32 * (gqa(4096, 32, 8, 128) + swiglu(4096, 14336) + 2 * 4096) + 4096,
    "mixtral_8x7b": 46_702_792_704,
    # biases of query (h), key and value (4 x 128 each)
    "qwen2_7b": 2 * 152064 * 3584
    + 28 * (gqa(3584, 28, 4, 128) + 3584 + 2 * 512 + swiglu(3584, 18944) + 2 * 3584) + 3584,
    # norms of 128 on queries and keys
    "qwen3_8b": 2 * 151936 * 4096
    + 36 * (gqa(4096, 32, 8, 128) + 2 * 128 + swiglu(4096, 12288) + 2 * 4096) + 4096,
    # biases 3h; 60 experts, a shared one of 5632 with a gate of h, a router of 60h
    "qwen2_moe_a2_7b": 2 * 151936 * 2048
    + 24 * (4 * 2048**2 + 3 * 2048 + 60 * swiglu(2048, 1408) + swiglu(2048, 5632) + 2048 + 60 * 2048 + 2 * 2048) + 2048,
    # 64 heads of 128 are twice as wide as h
    "qwen3_moe_235b": 2 * 151936 * 4096
    + 94 * (gqa(4096, 64, 4, 128) + 2 * 128 + 128 * swiglu(4096, 1536) + 128 * 4096 + 2 * 4096) + 4096,
    "deepseek_v2_lite": deepseek(102400, 2048, 27, mla(2048, 16, None), 1, 10944, 1408, 64, 2, False),
    "deepseek_v2": deepseek(102400, 5120, 60, mla(5120, 128, 1536), 1, 12288, 1536, 160, 2, False),
    "deepseek_v3": 671_026_419_200,
    "kimi_k2": deepseek(163840, 7168, 61, mla(7168, 64, 1536), 1, 18432, 2048, 384, 1, True),
    "gemma_2b": 256000 * 2048 + 18 * (gqa(2048, 8, 1, 256) + swiglu(2048, 16384) + 2 * 2048) + 2048,
    # four norms a layer
    "gemma2_27b": 256000 * 4608 + 46 * (gqa(4608, 32, 16, 128) + swiglu(4608, 36864) + 4 * 4608) + 4608,
    "gemma3_1b": 262144 * 1152 + 26 * (gqa(1152, 4, 1, 256) + 2 * 256 + swiglu(1152, 6912) + 4 * 1152) + 1152,
    "gemma3_4b": 262208 * 2560 + 34 * (gqa(2560, 8, 4, 256) + 2 * 256 + swiglu(2560, 10240) + 4 * 2560) + 2560,
    "gpt2_xl": 1_557_611_200,
    # two tables; 12 h^2, biases 9h and two layer norms 4h a layer
    "gpt_neox_20b": 2 * 50432 * 6144 + 44 * (12 * 6144**2 + 13 * 6144) + 2 * 6144,
    # one key-value head of 64; one layer norm, 2h; no biases; one table
    "falcon_7b": 65024 * 4544 + 32 * (gqa(4544, 71, 1, 64) + 8 * 4544**2 + 2 * 4544) + 2 * 4544,
    "falcon_40b": 65024 * 8192 + 60 * (gqa(8192, 128, 8, 64) + 8 * 8192**2 + 4 * 8192) + 2 * 8192,
    # biases 9h, one layer norm 2h, a head with a bias
    "phi_2": 2 * 51200 * 2560 + 51200 + 32 * (12 * 2560**2 + 11 * 2560) + 2 * 2560,
    "phi3_mini": 2 * 32064 * 3072 + 32 * (4 * 3072**2 + swiglu(3072, 8192) + 2 * 3072) + 3072,
    # no biases, layer norms without one, one table
    "mpt_7b": 50432 * 4096 + 32 * (12 * 4096**2 + 2 * 4096) + 4096,
} | {
    # biases of q (64 x 64), k, v (8 x 64 each), o (h), of the router, of every expert (2 x 2880 + h); 64 sinks
    name: 2 * 201088 * 2880 + 2880 + layers * (
        gqa(2880, 64, 8, 64) + 4096 + 2 * 512 + 2880 + 64 + 2 * 2880
        + experts * (swiglu(2880, 2880) + 2 * 2880 + 2880 + 2880 + 1)
    )
    for name, layers, experts in (("gpt_oss_20b", 24, 32), ("gpt_oss_120b", 36, 128))
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_each_family_counts_what_its_class_builds(name):
    assert parameters(read_data(stated(name)).transformer) == DERIVED[name]


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: f"{row['file']}-{row['figure']}")
def test_counts_round_to_the_published_ones(row):
    model = read_data(stated(row["file"])).transformer
    figure = {
        "total": parameters(model),
        "active": active_parameters(model),
        "active_without_table": active_parameters(model) - embedding_parameters(model),
    }[row["figure"]]
    assert abs(figure - int(row["published"])) <= int(row["unit"]) // 2


@pytest.mark.parametrize("name", NAMES)
def test_every_field_has_an_origin_in_the_file_or_is_assumed_and_nothing_is_left_unread(name):
    data = stated(name)
    found = read_data(data)
    assert found.unread == ()
    assert not set(found.origins) & set(found.assumed)
    for field, pointer in found.origins.items():
        value: object = data
        for key in pointer.split("/")[1:]:
            assert isinstance(value, dict), (field, pointer)
            assert key in value, (field, pointer)
            value = value[key]
    assert {"layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocabulary", "norm"} <= (
        set(found.origins) | set(found.assumed)
    )
    for field, (value, why) in found.assumed.items():
        assert "transformers 4.57.1" in why
        if field.partition(".")[0] in {one.name for one in fields(found.transformer)}:
            assert attrgetter(field)(found.transformer) == value, field


def test_stated_values_have_the_key_that_states_them():
    found = read_data(stated("deepseek_v3"))
    assert found.origins["moe.experts"] == "/n_routed_experts"
    assert found.origins["latent.q_rank"] == "/q_lora_rank"
    assert found.origins["moe.router_bias"] == "/topk_method"
    assert found.origins["norm"] == "/model_type"
    assert found.context_length == 163840
    assert found.assumed == {}


def test_what_the_counts_leave_out_is_set_aside_with_its_reason():
    assert "neither counted" in read_data(stated("deepseek_v3")).set_aside["num_nextn_predict_layers"]
    assert "whole sequence" in read_data(stated("mistral_7b")).set_aside["sliding_window"]
    assert "whole sequence" not in read_data(stated("qwen2_7b")).set_aside["sliding_window"]
    assert "neither counted" in read_data(stated("gemma3_4b")).set_aside["vision_config"]


def test_keys_that_are_not_understood_are_listed():
    data = changed("llama3_8b", num_experts=8, attn_config={"alibi": True})
    assert read_data(data).unread == ("num_experts", "attn_config")
    inside = changed("mpt_7b", attn_config={"alibi": True, "sparse": 4})
    assert read_data(inside).unread == ("attn_config.sparse",)


def test_sizes_that_the_class_of_gemma3_fills_in_are_assumed_with_it_as_source():
    found = read_data(stated("gemma3_4b"))
    assert found.assumed["heads"] == (8, "the default of 'num_attention_heads' (Gemma3TextConfig, transformers 4.57.1)")
    assert found.origins["hidden"] == "/text_config/hidden_size"


def test_a_null_number_of_key_value_heads_means_that_of_heads():
    found = read_data(changed("mistral_7b", num_key_value_heads=None))
    assert found.transformer.kv_heads == 32
    assert found.assumed["kv_heads"][0] == 32


def test_biases_follow_the_config():
    assert read_data(changed("llama3_8b", attention_bias=True)).transformer.output_bias
    assert not read_data(changed("qwen2_moe_a2_7b", qkv_bias=False)).transformer.attention_bias
    biased = read_data(changed("mpt_7b", no_bias=False)).transformer
    assert (biased.norm, biased.mlp_bias) == ("layer", True)


def test_qwen_moe_layers_follow_step_and_listed_dense_layers():
    model = read_data(changed("qwen3_moe_235b", decoder_sparse_step=2)).transformer
    assert [is_moe(model, layer) for layer in range(4)] == [False, True, False, True]
    model = read_data(changed("qwen3_moe_235b", mlp_only_layers=[0, 1])).transformer
    assert [is_moe(model, layer) for layer in range(4)] == [False, False, True, True]
    error = refusal(changed("qwen3_moe_235b", mlp_only_layers=[5]))
    assert (error.code, error.place.pointer) == ("hf_config.unsupported", "/mlp_only_layers")


def test_falcon_has_the_key_value_heads_of_its_generation():
    assert read_data(stated("falcon_7b")).transformer.kv_heads == 1
    old = read_data(changed("falcon_7b", multi_query=False)).transformer
    assert old.kv_heads == 71
    assert read_data(changed("falcon_7b", parallel_attn=False)).transformer.norms_per_layer == 2


def test_mpt_attention_kinds_and_positions():
    multi = read_data(changed("mpt_7b", attn_config={"alibi": False, "attn_type": "multiquery_attention"}))
    assert (multi.transformer.kv_heads, multi.transformer.learned_positions) == (1, 2048)
    assert multi.origins["learned_positions"] == "/max_seq_len"
    grouped = {"alibi": True, "attn_type": "grouped_query_attention", "kv_n_heads": 8}
    assert read_data(changed("mpt_7b", attn_config=grouped)).transformer.kv_heads == 8


@pytest.mark.parametrize("key", ["no_bias", "attn_config"])
def test_mpt_keys_that_its_two_classes_fill_in_differently_must_be_stated(key):
    assert refusal(without("mpt_7b", key)).code == "hf_config.missing_key"


def test_words_that_mpt_fills_in_are_assumed_too():
    found = read_data({**without("mpt_7b", "norm_type"), "attn_config": {"alibi": True}})
    assert found.assumed["norm_type"][0] == "low_precision_layernorm"
    assert found.assumed["attn_config.attn_type"][0] == "multihead_attention"


def test_gpt2_keys_are_read_under_both_of_their_names():
    data = without("gpt2_xl", "n_layer")
    assert read_data({**data, "num_hidden_layers": 48}).transformer.layers == 48
    error = refusal(changed("gpt2_xl", num_hidden_layers=24))
    assert error.code == "hf_config.conflict"


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_size_is_named_with_the_place_and_never_filled_in(name):
    data = stated(name)
    inner = data.get("text_config", data)
    assert isinstance(inner, dict)
    key = next(key for key in ("hidden_size", "n_embd", "d_model") if key in inner)
    del inner[key]
    error = refusal(data)
    assert error.code == "hf_config.missing_key"
    assert f"'{key}'" in error.message
    assert str(error.place.pointer).endswith(key)


def test_all_missing_sizes_are_named_at_once():
    error = refusal(without("llama3_8b", "hidden_size", "num_hidden_layers", "vocab_size"))
    assert all(f"'{key}'" in error.message for key in ("hidden_size", "num_hidden_layers", "vocab_size"))


def test_mistral_key_value_heads_are_not_taken_from_the_class():
    """Their default, 8, fits one size of the family only."""
    assert "'num_key_value_heads'" in refusal(without("mistral_7b", "num_key_value_heads")).message


@pytest.mark.parametrize(
    ("name", "changes", "code", "key", "words"),
    [
        ("llama3_8b", {"hidden_size": "4096"}, "type", "hidden_size", "'4096'"),
        ("llama3_8b", {"hidden_size": 4096.0}, "type", "hidden_size", "4096.0"),
        ("llama3_8b", {"hidden_size": None}, "type", "hidden_size", "null"),
        ("llama3_8b", {"num_hidden_layers": True}, "type", "num_hidden_layers", "true"),
        ("llama3_8b", {"vocab_size": [128256]}, "type", "vocab_size", "a list"),
        ("llama3_8b", {"tie_word_embeddings": "no"}, "type", "tie_word_embeddings", "true or false"),
        ("llama3_8b", {"attention_bias": 0}, "type", "attention_bias", "true or false"),
        ("llama3_8b", {"max_position_embeddings": "8k"}, "type", "max_position_embeddings", "'8k'"),
        ("llama3_8b", {"max_position_embeddings": 0}, "value", "max_position_embeddings", "between"),
        ("llama3_8b", {"num_hidden_layers": 10**30}, "value", "num_hidden_layers", "limit is 100000"),
        ("llama3_8b", {"num_hidden_layers": 0}, "value", "num_hidden_layers", "1 or more"),
        ("llama3_8b", {"num_attention_heads": -1}, "value", "num_attention_heads", "1 or more"),
        ("llama3_8b", {"num_key_value_heads": 64}, "value", "num_key_value_heads", "'num_attention_heads' 32"),
        ("llama3_8b", {"num_key_value_heads": 3}, "value", "num_key_value_heads", "must divide"),
        ("llama3_8b", {"num_attention_heads": 30}, "value", "num_attention_heads", "'head_dim'"),
        ("mixtral_8x7b", {"num_experts_per_tok": 9}, "value", "num_experts_per_tok", "'num_local_experts' 8"),
        ("qwen3_moe_235b", {"mlp_only_layers": "all"}, "type", "mlp_only_layers", "list of layer numbers"),
        ("qwen3_moe_235b", {"decoder_sparse_step": 100}, "value", "decoder_sparse_step", "no layer with experts"),
        ("deepseek_v3", {"first_k_dense_replace": 61}, "value", "first_k_dense_replace", "'num_hidden_layers' 61"),
        ("deepseek_v3", {"moe_layer_freq": 2}, "unsupported", "moe_layer_freq", "2"),
        ("deepseek_v3", {"qk_rope_head_dim": 63}, "value", "qk_rope_head_dim", "even"),
        ("deepseek_v3", {"num_key_value_heads": 8}, "value", "num_key_value_heads", "must equal"),
        ("gpt2_xl", {"n_head": 24}, "value", "n_head", "'n_embd' 1600"),
        ("gpt2_xl", {"add_cross_attention": True}, "unsupported", "add_cross_attention", "encoder"),
        ("mpt_7b", {"attn_config": {"alibi": True, "qk_ln": True}}, "unsupported", "attn_config/qk_ln", "not modelled"),
        ("mpt_7b", {"attn_config": 3}, "type", "attn_config", "a mapping"),
        ("mpt_7b", {"norm_type": "batchnorm"}, "unsupported", "norm_type", "'batchnorm'"),
        ("falcon_40b", {"num_ln_in_parallel_attn": 3}, "unsupported", "num_ln_in_parallel_attn", "one norm or two"),
        ("gemma3_4b", {"text_config": []}, "type", "text_config", "a mapping"),
        ("llama3_8b", {"model_type": "llama5"}, "unknown_family", "model_type", "deepseek_v3"),
        ("llama3_8b", {"model_type": 7}, "unknown_family", "model_type", "7"),
        ("llama3_8b", {"model_type": "bert"}, "not_a_decoder", "model_type", "encoder"),
        ("llama3_8b", {"is_encoder_decoder": True}, "not_a_decoder", "is_encoder_decoder", "encoder"),
        ("llama3_8b", {"peft_type": "LORA"}, "adapter", "peft_type", "adapter"),
    ],
)  # fmt: skip
def test_a_config_that_cannot_be_read_says_where_what_and_what_would_do(name, changes, code, key, words):
    error = refusal(changed(name, **changes))
    assert error.code == f"hf_config.{code}"
    assert error.place.pointer == f"/{key}"
    assert words in error.message


def test_a_config_with_a_classifiers_head_is_refused_at_its_name():
    error = refusal(changed("llama3_8b", architectures=["LlamaForSequenceClassification"]))
    assert error.place.pointer == "/architectures/0"


def test_a_config_without_a_family_is_refused_and_an_adapter_names_its_base():
    assert refusal({"hidden_size": 4096}).code == "hf_config.unknown_family"
    error = refusal({"peft_type": "LORA", "base_model_name_or_path": "meta-llama/Llama-3.1-8B", "r": 16})
    assert "'meta-llama/Llama-3.1-8B'" in error.message


def test_places_point_into_the_file():
    text = '{\n  "model_type": "llama",\n  "hidden_size": "wide"\n}\n'
    document = parse_document(text.encode(), "config.json")
    with pytest.raises(InputError) as caught:
        read(document.data, document.place)
    assert (caught.value.place.line, caught.value.place.column) == (3, 18)


def test_configs_are_recognised_and_other_documents_are_not():
    assert all(recognises(stated(name)) for name in NAMES)
    assert recognises({"peft_type": "LORA"})
    assert not recognises({"train_batch_size": 8, "zero_optimization": {"stage": 3}})
    assert not recognises({"planproof": 1, "model": {"model_type": "llama"}})


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
INNER_KEYS = st.sampled_from(["alibi", "attn_type", "kv_n_heads"])
INSIDE = st.dictionaries(INNER_KEYS, st.booleans() | st.integers(), max_size=2)
VALUES = SCALARS | st.lists(st.integers(-2, 99), max_size=3) | INSIDE


@settings(max_examples=300)
@given(st.sampled_from(NAMES), st.data())
def test_any_change_to_a_config_is_read_or_refused_with_a_place(name, data):
    whole = stated(name)
    for key in data.draw(st.lists(st.sampled_from(sorted(whole)), max_size=3, unique=True)):
        if data.draw(st.booleans()):
            whole[key] = data.draw(VALUES)
        else:
            del whole[key]
    asked: list[str] = []

    def place(pointer):
        asked.append(pointer)
        return Place(file="config.json", pointer=pointer)

    refused: InputError | None = None
    try:
        found = read(whole, place)
    except InputError as error:
        refused = error
    if refused is None:
        assert parameters(found.transformer) > 0
    else:
        assert refused.code.startswith("hf_config.")
        assert refused.remedy
        assert refused.place.pointer in asked


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("deepseek_v3", ("num_nextn_predict_layers",)), ("gemma3_4b", ("vision_config",)), ("mistral_7b", ("sliding_window",)),
        ("llama3_8b", ()),
    ],
)  # fmt: skip
def test_what_the_figures_lack_of_a_model_is_told(name: str, keys: tuple[str, ...]) -> None:
    found = read_data(stated(name)).left_out
    assert all(why for why, _ in found)
    assert set(keys) <= {key for _, named in found for key in named}
    assert bool(found) is bool(keys)


def test_a_part_that_is_stated_as_none_is_not_lacking() -> None:
    assert read_data(changed("deepseek_v3", num_nextn_predict_layers=0)).left_out == ()
