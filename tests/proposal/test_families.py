"""Models that a proposal names by their family: published counts, defaults on record, and what is wrong with its place."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest
from planproof.errors import InputError
from planproof.hardware import open_library
from planproof.model.described import DescribedGraph
from planproof.model.operator import Kind
from planproof.model.repeats import alike, segments
from planproof.proposal import Case, parse_proposal, resolve

HEAD = "planproof: 1\nworkload: {sequence_length: 1024}\nmodel:\n  graph:\n"
ALPA = (
    "    {family: wide_resnet, layers: %d, base_channels: %d, width_factor: %d, reduction_width_factor: 1, image_size: 224, "
    "classes: 1024}\n"
)
T5 = """    family: encoder_decoder
    encoder: {layers: 24, hidden: 1024, heads: 128, head_dim: 128, ffn: 65536}
    vocabulary: 32128
"""
T5_BASE = """    family: encoder_decoder
    encoder: {layers: 12, hidden: 768, heads: 12, ffn: 3072}
    vocabulary: 32128
"""
LLAVA = """    family: vision_decoder
    vision: {layers: 24, hidden: 1024, heads: 16, ffn: 4096, image_size: 336, patch_size: 14, patch_bias: false, input_norm: true}
    projector: {layers: 2}
    decoder: {family: llama, layers: 32, hidden: 4096, heads: 32, ffn: 11008, vocabulary: 32064}
"""
INTERNVL_8B = """    family: vision_decoder
    vision: {layers: 24, hidden: 1024, heads: 16, ffn: 4096, image_size: 448, patch_size: 14, layer_scale: true,
             final_norm: false}
    projector: {layers: 2, merge: 2, norm: true}
    decoder: {family: llama, layers: 32, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336, vocabulary: 92553}
"""
INTERNVL_26B = """    family: vision_decoder
    vision: {layers: 45, hidden: 3200, heads: 25, ffn: 12800, image_size: 448, patch_size: 14, layer_scale: true, norm: rms,
             qkv_bias: false, qk_norm: true, final_norm: false}
    projector: {layers: 2, merge: 2, norm: true}
    decoder: {family: llama, layers: 48, hidden: 6144, heads: 48, kv_heads: 8, ffn: 16384, vocabulary: 92553}
"""


def case(text: str, folder: Path = Path("/nowhere")) -> Case:
    return resolve(parse_proposal(text.encode(), "p.yaml", folder / "p.yaml"), open_library(()))


def parameters(text: str) -> int:
    found = case(HEAD + text)
    assert found.graph is not None, found.missing
    assert not found.contradictions
    return found.graph.parameters


def wide_resnet(blocks: tuple[int, ...], c: int, w: int, classes: int) -> int:
    """Alpa's network by its own terms: convolutions c -> c (1 x 1), c -> w c (3 x 3), w c -> 4 c (1 x 1) in each group of c."""
    count = 49 * 3 * c + 2 * c
    before = c
    for group, n in enumerate(blocks):
        own = c << group
        block = 9 * own * w * own + 4 * own * w * own + 2 * (own + w * own + 4 * own)
        count += n * block + (before + (n - 1) * 4 * own) * own + before * 4 * own + 8 * own
        before = 4 * own
    return count + before * classes + classes


#: Alpa's networks with the size that they are called by (alpa-projects/alpa, benchmark/alpa/suite_wresnet.py; 1,024 classes).
NAMED = [
    (50, 160, 2, 0.25), (50, 224, 2, 0.5), (50, 320, 2, 1.0), (50, 448, 2, 2.0), (50, 640, 2, 4.0), (50, 320, 16, 6.8),
    (101, 320, 16, 13.0),
]  # fmt: skip


@pytest.mark.parametrize(("layers", "channels", "factor", "billions"), NAMED)
def test_alpas_networks_have_the_size_that_they_are_called_by(layers: int, channels: int, factor: int, billions: float) -> None:
    blocks = (3, 4, 6, 3) if layers == 50 else (3, 4, 23, 3)
    count = parameters(ALPA % (layers, channels, factor))
    assert count == wide_resnet(blocks, channels, factor, 1024)
    assert abs(count / 1e9 - billions) < 0.05 * billions


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (T5, 11_307_321_344),  # google-t5/t5-11b
        (T5_BASE, 222_903_552),  # google-t5/t5-base
        (LLAVA, 7_063_427_072),  # llava-hf/llava-1.5-7b-hf
        (INTERNVL_8B, 8_075_365_376),  # OpenGVLab/InternVL2_5-8B
        (INTERNVL_26B, 25_514_186_112),  # OpenGVLab/InternVL2_5-26B
    ],
    ids=["t5-11b", "t5-base", "llava-1.5-7b", "internvl2.5-8b", "internvl2.5-26b"],
)
def test_published_models_have_their_parameters(text: str, count: int) -> None:
    assert parameters(text) == count


def test_a_decoder_of_its_own_and_a_target_of_its_own_length() -> None:
    found = case(HEAD + T5 + "    decoder: {layers: 2, hidden: 1024, heads: 8, ffn: 512}\n    target_length: 114\n")
    assert found.graph is not None
    graph = found.graph.build(4, 512, "bf16")
    cores = [one for one in graph.operators if one.kind is Kind.ATTENTION]
    assert len(cores) == 24 + 2 * 2
    assert {(one.sizes["sequence"], one.sizes["keys"]) for one in cores} == {(512, 512), (114, 114), (114, 512)}
    assert "model.graph.target_length" not in {one.item for one in found.assumed}


def test_what_is_left_out_is_on_record() -> None:
    found = case(HEAD + "    {family: wide_resnet, layers: 50, image_size: 224}\n")
    assumed = {one.item: one.value for one in found.assumed}
    assert {key: value for key, value in assumed.items() if key.startswith("model.graph")} == {
        "model.graph.base_channels": "64", "model.graph.width_factor": "1", "model.graph.classes": "1000",
    }  # fmt: skip
    assert found.graph is not None
    assert found.graph.parameters == 25_557_032  # ResNet-50
    assert found.graph.family == "wide_resnet"


def test_a_network_of_pictures_needs_no_sequence_length() -> None:
    found = case("planproof: 1\nmodel:\n  graph: {family: wide_resnet, layers: 50, image_size: 224}\n")
    assert found.sequence_length == 1
    assert ("workload.sequence_length", "1") in {(one.item, one.value) for one in found.assumed}
    assert case("planproof: 1\nmodel:\n  graph:\n" + LLAVA).sequence_length is None
    assert found.graph is not None
    assert found.graph.build(32, 1, "fp32").forward_flops == 32 * found.graph.forward_flops


def test_operators_are_no_fewer_than_said_before_they_are_built() -> None:
    for text in (RES, T5, T5_BASE, LLAVA, INTERNVL_8B):
        found = case(HEAD + text)
        assert found.graph is not None
        assert not isinstance(found.graph.source, DescribedGraph)
        assert 8 < found.graph.source.least_operators <= found.graph.operators


def test_blocks_in_place_of_a_depth() -> None:
    by_blocks = "    {family: wide_resnet, blocks: [3, 4, 6, 3], width_factor: 2, image_size: 224}\n"
    assert parameters(by_blocks) == 68_883_240  # Wide-ResNet-50-2


def test_a_family_may_stand_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text("family: wide_resnet\nlayers: 50\nimage_size: 224\n", encoding="utf-8")
    found = case("planproof: 1\nmodel: {graph: {file: g.yaml}}\n", tmp_path)
    assert found.graph is not None
    assert found.graph.parameters == 25_557_032
    (tmp_path / "g.yaml").write_text("family: wide_resnet\nlayers: 51\nimage_size: 224\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        case("planproof: 1\nmodel: {graph: {file: g.yaml}}\n", tmp_path)
    assert (caught.value.place.file, caught.value.place.line, caught.value.place.column) == ("g.yaml", 2, 9)


def test_what_is_missing_is_listed_at_once() -> None:
    two = "vision: {layers: 2, hidden: 64, heads: 4}, decoder: {layers: 2, hidden: 64}"
    found = case(HEAD + f"    {{family: vision_decoder, {two}}}\n")
    assert found.graph is None
    paths = {one.path for one in found.missing if one.item == "shapes"}
    assert {"/model/graph/vision/" + key for key in ("ffn", "image_size", "patch_size")} <= paths
    assert {"/model/graph/decoder/" + key for key in ("heads", "ffn", "vocabulary")} <= paths
    found = case(HEAD + "    {family: encoder_decoder}\n")
    assert {"/model/graph/encoder", "/model/graph/vocabulary"} <= {one.path for one in found.missing}
    found = case(HEAD + "    {family: wide_resnet}\n")
    assert {"/model/graph/layers", "/model/graph/image_size"} <= {one.path for one in found.missing}


RES = "    {family: wide_resnet, layers: 50, image_size: 224}\n"
#: (text, code, line, column, words of the message or its remedy)
CASES = {
    "near miss of a family": (RES.replace("wide_r", "wider"), "input.graph.family", 5, 14, ("did you mean 'wide_resnet'",)),
    "no such family": (
        RES.replace("wide_resnet", "mamba"), "input.graph.family", 5, 14, ("'mamba'", "encoder_decoder", "operators"),
    ),
    "no name at all": (RES.replace("wide_resnet", "[1]"), "input.graph.family", 5, 14, ("'[1]'",)),
    "near miss of a key": (RES.replace("layers", "layer"), "input.unknown_key", 5, 27, ("did you mean 'layers'",)),
    "another form's key": (RES.replace("layers: 50", "operators: []"), "input.unknown_key", 5, 27, ("'operators'", "blocks")),
    "no such depth": (RES.replace("50", "60"), "input.graph.family", 5, 35, ("60", "50, 101, 152, 200", "blocks: [3, 4, 6, 3]")),
    "depth twice": (RES.replace("layers: 50", "layers: 50, blocks: [1]"), "input.graph.family", 5, 47, ("Keep one",)),
    "a million layers": (RES.replace("50", "1000000"), "input.less_than_equal", 5, 35, ("100000",)),
    "a million blocks": (RES.replace("layers: 50", "blocks: [1000000]"), "input.less_than_equal", 5, 36, ("at most 100000",)),
    "many blocks": (RES.replace("layers: 50", "blocks: [90000, 90000]"), "input.graph.size", 5, 35, ("50,000 operators",)),
    "no blocks": (RES.replace("layers: 50", "blocks: []"), "input.too_short", 5, 35, ("at least 1",)),
    "a picture of 0": (RES.replace("224", "0"), "input.greater_than_equal", 5, 51, ("0 is too small",)),
    "a small picture": (RES.replace("224", "16"), "input.graph.family", 5, 51, ("halved 5 times", "32 pixels")),
    "channels of 0": (RES.replace("50,", "50, base_channels: 0,"), "input.greater_than_equal", 5, 54, ("at least 1",)),
    "a factor of 0": (RES.replace("50,", "50, width_factor: 0,"), "input.greater_than_equal", 5, 53, ("at least 1",)),
    "a fraction": (RES.replace("50,", "50, width_factor: 1.5,"), "input.int_type", 5, 53, ("whole number",)),
    "too many elements": (
        RES.replace("50,", "50, base_channels: 10000000, width_factor: 1024,"), "input.graph", 5, 35, ("elements",),
    ),
    "heads that do not divide": (T5.replace("128, head_dim: 128", "100"), "input.graph.family", 6, 48, ("not divisible by 100",)),
    "a dim of 0": (T5.replace("ffn: 65536", "ffn: 0"), "input.greater_than_equal", 6, 73, ("at least 1",)),
    "key heads": (T5.replace("heads: 128,", "heads: 128, kv_heads: 7,"), "input.graph.family", 6, 63, ("does not divide",)),
    "widths apart": (
        T5 + "    decoder: {layers: 2, hidden: 512, heads: 8, ffn: 512}\n", "input.graph.family", 8, 34,
        ("512", "1024", "one table"),
    ),
    "many layers": (T5.replace("layers: 24", "layers: 99999"), "input.graph.size", 6, 23, ("50,000 operators",)),
    "patches that do not divide": (LLAVA.replace("14,", "15,"), "input.graph.family", 6, 91, ("336", "330")),
    "a patch above its picture": (LLAVA.replace("14,", "500,"), "input.graph.family", 6, 91, ("at most as large",)),
    "merged too far": (
        LLAVA.replace("layers: 2}", "layers: 2, merge: 5}"), "input.graph.family", 7, 35, ("24 patches", "divisor"),
    ),
    "no room for text": (LLAVA + "    images: 2\n", "input.graph.sequence", 2, 29, ("1,024", "1,152", "1,153 or more")),
    "experts in cross attention": (
        LLAVA.replace("32064}", "32064, moe: {experts: 8, top_k: 2}}") + "    fusion: cross_attention\n",
        "input.graph.family", 8, 103, ("fusion: prefix",),
    ),
    "more choices than experts": (
        LLAVA.replace("32064}", "32064, moe: {experts: 8, top_k: 9}}"), "input.graph.family", 8, 123, ("top_k 9, experts 8",),
    ),
    "no such fusion": (LLAVA + "    fusion: early\n", "input.literal_error", 9, 13, ("'prefix' or 'cross_attention'",)),
    "no mapping": (LLAVA.replace("{layers: 2}", "2"), "input.mapping", 7, 16, ("mapping",)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_is_told_with_its_place_at_once(name: str) -> None:
    text, code, line, column, words = CASES[name]
    started = process_time()
    with pytest.raises(InputError) as caught:
        case(HEAD + text)
    error = caught.value
    assert (error.code, error.place.line, error.place.column) == (code, line, column), str(error)
    for word in words:
        assert word in str(error)
    assert process_time() - started < 20  # no bound of speed: building all of it would take minutes


def test_shapes_of_another_model_contradict_the_family() -> None:
    shapes = "  transformer: {layers: 2, hidden: 64, heads: 4, ffn: 256, vocabulary: 100}\n"
    found = case(HEAD.replace("model:\n", "model:\n" + shapes) + RES)
    assert [one.code for one in found.contradictions] == ["graph_parameters"]


def test_the_examples_of_the_page_read() -> None:
    page = (Path(__file__).resolve().parent.parent.parent / "docs/proposal.md").read_text(encoding="utf-8")
    section = page.partition("### `model.graph`")[2].partition("Any other model by its operators")[0]
    blocks = [part.partition("```")[0] for part in section.split("```yaml\n")[1:]]
    counts = []
    for block in blocks:
        found = case("planproof: 1\nworkload: {sequence_length: 1024}\n" + block)
        assert found.graph is not None
        counts.append(found.graph.parameters)
    assert counts == [wide_resnet((3, 4, 23, 3), 320, 16, 1024), 11_307_321_344, 7_063_427_072]


def test_each_tower_has_its_layers_whatever_stands_beside_it() -> None:
    """The text's embedding waits for no picture, yet the tower is cut between its layers."""
    found = case(HEAD + LLAVA.replace("layers: 32", "layers: 3").replace("layers: 24", "layers: 5"))
    assert found.graph is not None
    parts = segments(found.graph.build(1, 1024, "bf16"))
    twins = alike(found.graph.build(1, 1024, "bf16"), parts)
    assert sum(1 for one in twins if one is not None) >= 2 * (3 - 2) + 2 * (5 - 2)
