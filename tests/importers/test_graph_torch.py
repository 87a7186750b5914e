"""Programs of torch.export, read without torch: from the JSON of one that torch 2.14 exported, put into an archive here."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from planproof.errors import InputError, UsageError
from planproof.hardware import open_library
from planproof.importers.graph_torch import read
from planproof.model.cutting import layers_of
from planproof.model.described import built
from planproof.model.operator import Kind
from planproof.proposal.imported_graph import import_graph

DATA = Path(__file__).resolve().parent.parent / "data/graphs/torch_two_layers.json"
#: What was exported: two layers of width 256, 8 heads, inner width 512, 1,024 tokens, 128 learned positions, biases.
HIDDEN, INNER, VOCABULARY, POSITIONS, LAYERS = 256, 512, 1024, 128, 2


#: A gated layer of 8 heads and 2 of keys and values, rotary positions, written out root mean squares, and the loss.
GATED = DATA.parent / "torch_gated_loss.json"


def archive(
    folder: Path, change: Callable[[dict[str, Any]], object] | None = None, data: Path = DATA, **entries: bytes
) -> Path:
    program = json.loads(data.read_text(encoding="utf-8"))
    if change is not None:
        change(program)
    path = folder / "m.pt2"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("m/models/model.json", json.dumps(program))
        for name, raw in entries.items():
            made.writestr(f"m/{name}", raw)
    return path


def test_parameters_and_flops_are_those_of_the_model_that_was_exported(tmp_path: Path) -> None:
    found = read(archive(tmp_path), {})
    graph = built(found.described, 2, 64)
    layer = 3 * HIDDEN**2 + 3 * HIDDEN + HIDDEN**2 + HIDDEN + 2 * HIDDEN * INNER + INNER + HIDDEN + 4 * HIDDEN
    assert graph.parameters == (2 * VOCABULARY + POSITIONS) * HIDDEN + 2 * HIDDEN + LAYERS * layer
    tokens = 2 * 64
    products = 2 * tokens * (LAYERS * (4 * HIDDEN**2 + 2 * HIDDEN * INNER) + HIDDEN * VOCABULARY)
    assert graph.forward_flops == products + LAYERS * 2 * 2 * 64 * (64 + 1) * HIDDEN  # scores and values, causal
    (core, _) = (one for one in graph.operators if one.kind is Kind.ATTENTION)
    assert core.causal
    assert layers_of(graph).count == LAYERS
    assert {"batch", "sequence", "hidden", "heads", "head", "inner", "vocabulary"} <= set(found.described.dims)


def test_the_batch_and_the_sequence_are_the_plans(tmp_path: Path) -> None:
    described = read(archive(tmp_path), {}).described
    one, two = built(described, 1, 128), built(described, 4, 128)
    assert two.forward_flops == 4 * one.forward_flops
    assert one.parameters == two.parameters


def test_a_program_with_its_loss_is_counted_up_to_it(tmp_path: Path) -> None:
    found = read(archive(tmp_path, data=GATED), {})
    graph = built(found.described, 2, 64)
    layer = 2 * HIDDEN**2 + 2 * HIDDEN * HIDDEN // 4 + 3 * HIDDEN * INNER
    assert graph.parameters == 2 * VOCABULARY * HIDDEN + LAYERS * (layer + 2 * HIDDEN) + HIDDEN
    products = 2 * 2 * 64 * (LAYERS * layer + HIDDEN * VOCABULARY)
    assert graph.forward_flops == products + LAYERS * 2 * 2 * 64 * (64 + 1) * HIDDEN
    (loss,) = (one for one in graph.operators if one.kind is Kind.CROSS_ENTROPY)
    (logits, labels) = (graph.tensors[use.tensor] for use in loss.inputs)
    assert (logits.sizes[-1], labels.dtype) == (VOCABULARY, "int64")
    assert layers_of(graph).count == LAYERS


def test_it_becomes_a_proposal_that_reads(tmp_path: Path) -> None:
    made = import_graph("torch-export", str(archive(tmp_path)), {}, tmp_path / "p.yaml", open_library(()))
    assert made.case.graph is not None
    assert made.case.graph.layers == LAYERS
    assert "# Imported from m.pt2 (torch-export)" in made.text
    assert "Still to state" in made.text
    with pytest.raises(UsageError, match="the size of 'batch'"):
        import_graph("torch-export", str(archive(tmp_path)), {"batch": "-1"}, tmp_path / "p.yaml", open_library(()))


class Told:
    """Says so when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return (exec, ("raise SystemExit('unpickled')",))


def test_nothing_pickled_is_opened(tmp_path: Path) -> None:
    told = pickle.dumps(Told())
    path = archive(tmp_path, **{"data/sample_inputs/model.pt": told, "data/weights/weight_0": told})
    assert read(path, {}).operations == 44


def node(program: dict[str, Any], target: str) -> dict[str, Any]:
    return next(one for one in program["graph_module"]["graph"]["nodes"] if target in one["target"])


def sizes(program: dict[str, Any], name: str, *found: object) -> None:
    program["graph_module"]["graph"]["tensor_values"][name]["sizes"] = [{"as_int": one} for one in found]


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], object], str, str]] = {
    "another schema": (lambda p: p["schema_version"].update(major=3), "input.torch.schema", "version 3; 8 is read"),
    "no schema": (lambda p: p.clear(), "input.torch.schema", "None"),
    "unknown operation": (
        lambda p: node(p, "gelu").update(target="torch.ops.mine.gelu.default"), "input.graph.kind", "torch.ops.mine.gelu",
    ),
    "no outputs": (lambda p: p["graph_module"]["graph"].update(outputs=[]), "input.torch", "makes no output"),
    "a dim of 0": (lambda p: sizes(p, "linear", 2, 0, 768), "input.graph.shape", "a size of 0"),
    "a size that does not fit": (lambda p: sizes(p, "linear", 2, 64, 766), "input.graph.shape", "768 and 766"),
    "endless rank": (lambda p: sizes(p, "gelu", *[2] * 40), "input.graph.shape", "at most 8"),
    "a huge size": (lambda p: sizes(p, "gelu", 2**60), "input.graph.shape", str(2**60)),
    "a tensor that is nowhere": (
        lambda p: p["graph_module"]["graph"]["tensor_values"].pop("linear"), "input.torch", "schema 8: KeyError at 'linear'",
    ),
    "no graph": (lambda p: p.pop("graph_module"), "input.torch", "KeyError"),
    "a number for nodes": (lambda p: p["graph_module"]["graph"].update(nodes=7), "input.torch", "TypeError"),
    "too many operations": (
        lambda p: p["graph_module"]["graph"].update(nodes=[{}] * 200_001), "input.graph.size", "200,001",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_program_that_is_none_is_refused_in_words(tmp_path: Path, name: str) -> None:
    change, code, words = CHANGES[name]
    with pytest.raises(InputError) as caught:
        built(read(archive(tmp_path, change), {}).described, 2, 64)
    assert caught.value.code == code, str(caught.value)
    assert words in str(caught.value)
    assert caught.value.remedy


def test_files_that_are_no_archive_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.pt2"
    for raw in (b"", b"PK\x03\x04", b"nothing", pickle.dumps(Told())):
        path.write_bytes(raw)
        with pytest.raises(InputError, match=r"no archive of torch\.export"):
            read(path, {})
    with pytest.raises(InputError, match="no file"):
        read(tmp_path, {})
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("m/models/model.json", "[" * 200_000)
    with pytest.raises(InputError, match="no JSON"):
        read(path, {})
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("m/data.pkl", "")
    with pytest.raises(InputError, match="0 programs"):
        read(path, {})


def test_what_unpacks_without_end_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.pt2"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made, made.open("m/models/model.json", "w") as entry:
        for _ in range(80):
            entry.write(b" " * 2**20)
    assert path.stat().st_size < 2**20
    with pytest.raises(InputError, match="more than 67,108,864 bytes"):
        read(path, {})
