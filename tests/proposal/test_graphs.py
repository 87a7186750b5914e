"""A graph in a proposal: what is wrong with one is told at once, with the line and column of it."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest
from planproof.errors import InputError
from planproof.hardware import open_library
from planproof.proposal import Case, parse_proposal, resolve

HEAD = """planproof: 1
workload: {sequence_length: 64}
model:
  graph:
    dims: {b: microbatch, h: 64, o: 256}
    inputs: {x: [b, h]}
    operators:
"""
UP = "      - {name: up, kind: matmul, inputs: [x], parameters: {w: [h, o]}, output: [b, o]}\n"
DOWN = "      - {name: down, kind: matmul, inputs: [up], parameters: {w: [o, h]}, output: [b, h]}\n"


def case(text: str, folder: Path = Path("/nowhere")) -> Case:
    return resolve(parse_proposal(text.encode(), "p.yaml", folder / "p.yaml"), open_library(()))


def refused(text: str, folder: Path = Path("/nowhere")) -> InputError:
    with pytest.raises(InputError) as caught:
        case(text, folder)
    assert caught.value.remedy
    return caught.value


def test_a_graph_is_counted_and_stands_in_for_the_shapes() -> None:
    found = case(HEAD + UP + DOWN)
    assert found.graph is not None
    assert (found.graph.operators, found.graph.layers, found.graph.parameters) == (2, 1, 2 * 64 * 256)
    assert found.graph.forward_flops == 2 * 2 * 64 * 256  # of one sequence
    assert "model" not in {gap.item for gap in found.missing}
    assert found.graph.build(3, 64, "bf16").forward_flops == 3 * found.graph.forward_flops
    assert case("planproof: 1").graph is None


#: (text, code, line, column, words of the message or its remedy)
CASES = {
    "cycle": (
        HEAD + UP.replace("[x]", "[down]") + DOWN,
        "input.graph.cycle", 8, 9, ("up -> down -> up", "unroll"),
    ),
    "statistics over a dim of others": (
        HEAD + UP + "      - {name: norm, kind: norm, inputs: [up], over: [h]}\n",
        "input.graph.dim", 9, 9, ("'h' in 'over'", "b, o"),
    ),
    "follows itself": (HEAD + UP.replace("output:", "follows: {h: h}, output:"), "input.graph.dim", 8, 9, ("is itself",)),
    "follows in a circle": (
        HEAD + UP.replace("output:", "follows: {h: o, o: h}, output:"), "input.graph.dim", 8, 9, ("follows another",),
    ),
    "a parameter that nothing reads": (
        HEAD.replace("    operators", "    parameters: {table: [o, h]}\n    operators") + UP,
        "input.graph.dangling", 7, 25, ("'table'", "leave it out"),
    ),
    "an input that nothing reads": (
        HEAD.replace("{x: [b, h]}", "{x: [b, h], y: [b, o]}") + UP, "input.graph.dangling", 6, 28, ("'y'",),
    ),
    "dangling": (HEAD + UP + DOWN.replace("[up]", "[upp]"), "input.graph.dangling", 9, 45, ("'upp'", "Did you mean 'up'")),
    "no such parameter": (
        HEAD + UP.replace("{w: [h, o]}", "{w: table}"), "input.graph.dangling", 8, 63, ("'table'", "parameters"),
    ),
    "rank": (
        HEAD + UP.replace("[x]", "[{from: x, dims: [b]}]"), "input.graph.shape", 8, 43, ("1 dims (b)", "2 (b, h)"),
    ),
    "shape": (
        HEAD + UP.replace("[x]", "[{from: x, dims: [b, o]}]"), "input.graph.shape", 8, 43, ("'o' of 256", "'h' of 64"),
    ),
    "unknown dim": (HEAD + UP.replace("[b, o]", "[b, oo]"), "input.graph.dim", 8, 80, ("'oo'", "Did you mean 'o'")),
    "size of 0": (HEAD.replace(" h: 64", " h: 0") + UP, "input.graph.size_of_dim", 5, 30, ("dims.h: 0", "from 1 to 2^40")),
    "negative size": (HEAD.replace(" h: 64", " h: -4") + UP, "input.graph.size_of_dim", 5, 30, ("-4",)),
    "huge size": (HEAD.replace(" h: 64", " h: 9999999999999999") + UP, "input.graph.size_of_dim", 5, 30, ("2^40",)),
    "no size": (HEAD.replace(" h: 64", " h: many") + UP, "input.graph.size_of_dim", 5, 30, ("'many'", "sequence_length")),
    "endless size": (
        HEAD.replace(" h: 64", " h: microbatch x " + " x ".join(["9"] * 40)) + UP, "input.graph.size_of_dim", 5, 30, ("no size",),
    ),
    "twice": (HEAD + UP + UP, "input.graph.twice", 9, 16, ("two operators", "line 8")),
    "twice as an input": (HEAD + UP.replace("name: up", "name: x"), "input.graph.twice", 8, 42, ("two tensors", "'x'")),
    "no batch": (HEAD.replace("microbatch", "8") + UP, "input.graph.batch", 5, 11, ("'microbatch'",)),
    "no operators": (HEAD.replace("    operators:\n", ""), "input.graph.operator", 5, 5, ("'operators'",)),
    "no kind": (HEAD + UP.replace("kind: matmul, ", ""), "input.graph.operator", 8, 9, ("'kind'",)),
    "unknown kind": (HEAD + UP.replace("matmul", "matmull"), "input.literal_error", 8, 26, ("'matmull'", "batched_matmul")),
    "unknown key": (HEAD + UP.replace("inputs:", "input:"), "input.unknown_key", 8, 34, ("did you mean 'inputs'",)),
    "norm over nothing": (
        HEAD + UP.replace("matmul", "norm").replace("parameters: {w: [h, o]}, output: [b, o]", "parameters: {}"),
        "input.graph.operator", 8, 9, ("over: [hidden]",),
    ),
    "a number for a dim": (HEAD + UP.replace("[b, o]", "[b, 256]"), "input.string_type", 8, 84, ("256", "quotes")),
    "two kinds of output": (
        HEAD + UP.replace("output: [b, o]", "output: [b, o], outputs: {a: [b, o]}"), "input.graph.operator", 8, 97, ("both",),
    ),
    "a file and more": (HEAD.replace("    dims", "    file: g.yaml\n    dims") + UP, "input.graph.file", 5, 11, ("'file'",)),
    "no mapping": ("planproof: 1\nmodel: {graph: [1]}\n", "input.dict_type", 2, 16, ("mapping",)),
    "9 dims": (
        HEAD.replace("x: [b, h]", "x: [" + ", ".join(["b"] * 9) + "]") + UP, "input.too_long", 6, 17, ("8",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_is_told_with_its_place(name: str) -> None:
    text, code, line, column, words = CASES[name]
    error = refused(text)
    assert (error.code, error.place.line, error.place.column) == (code, line, column), str(error)
    for word in words:
        assert word in str(error)


def test_a_million_operators_are_refused_at_once(tmp_path: Path) -> None:
    """By the size of a proposal, and of a file that it names: neither is read."""
    row = '{"name": "n%d", "kind": "add", "inputs": ["x"]}'
    many = ", ".join(row % k for k in range(1_000_000))
    started = process_time()
    error = refused(HEAD + "      [" + many + "]")
    assert error.code == "input.too_large"
    (tmp_path / "g.json").write_text(f'{{"dims": {{"b": "microbatch"}}, "operators": [{many}]}}', encoding="utf-8")
    error = refused("planproof: 1\nmodel: {graph: {file: g.json}}\n", tmp_path)
    assert (error.place.line, error.place.column) == (2, 23)
    assert "the limit is 8,388,608" in error.message
    assert process_time() - started < 60  # no bound of speed: reading them takes minutes


def test_a_file_is_read_and_its_own_lines_are_named(tmp_path: Path) -> None:
    text = "dims: {b: microbatch, h: 64, o: 256}\ninputs: {x: [b, h]}\noperators:\n" + UP.replace("      -", "  -")
    (tmp_path / "g.yaml").write_text(text, encoding="utf-8")
    proposal = "planproof: 1\nmodel: {graph: {file: g.yaml}}\n"
    found = case(proposal, tmp_path)
    assert found.graph is not None
    assert found.graph.parameters == 64 * 256
    assert [(one.path, one.kind) for one in found.files] == [("g.yaml", "graph")]
    (tmp_path / "g.yaml").write_text(text.replace("[x]", "[y]"), encoding="utf-8")
    error = refused(proposal, tmp_path)
    assert (error.place.file, error.place.line, error.place.column) == ("g.yaml", 4, 39)
    (tmp_path / "g.yaml").write_text("file: g.yaml\n", encoding="utf-8")
    assert refused(proposal, tmp_path).code == "input.graph.file"
    assert refused(proposal.replace("g.yaml", "../g.yaml"), tmp_path).code.startswith("reference")


def test_the_example_of_the_page_reads() -> None:
    page = (Path(__file__).resolve().parent.parent.parent / "docs/proposal.md").read_text(encoding="utf-8")
    block = page.partition("Any other model by its operators")[2].partition("```yaml\n")[2].partition("```")[0]
    found = case("planproof: 1\n" + block)
    assert found.graph is not None
    assert found.graph.parameters == 65536 * 2048 + 2 * 2048 * 8192 + 2048


def test_shapes_of_another_model_contradict_the_graph() -> None:
    shapes = "  transformer: {layers: 2, hidden: 64, heads: 4, ffn: 256, vocabulary: 100}\n"
    found = case(HEAD.replace("model:\n", "model:\n" + shapes) + UP + DOWN)
    (clash,) = found.contradictions
    assert (clash.code, clash.path) == ("graph_parameters", "/model/graph")
    assert "32,768 parameters" in clash.detail
    assert found.model is not None
