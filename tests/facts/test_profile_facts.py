"""A profile of a model that is an operator graph alone: held against its layers, their products and their parameters."""

from __future__ import annotations

from pathlib import Path

import pytest
from planproof.decision.desk import numbers_of
from planproof.facts.from_case import case_facts, evidence
from planproof.facts.from_profile import usable_profile
from planproof.hardware import open_library
from planproof.plan import Mesh
from planproof.proposal import Case, load_proposal, resolve
from planproof.quantity import Dimension

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own-architecture" / "proposal.yaml"
HEADER = "layers,data,tensor,microbatch,forward_ms,backward_ms,memory_mib,parameters"
#: Of a layer: three maps of 2048 x 2048 in, one back, two of 2048 x 8192, a kernel of 4 a channel and two norms.
PARAMETERS = 4 * 2048 * 2048 + 2 * 2048 * 8192 + 4 * 2048 + 2 * 2048


def case(folder: Path, *rows: str, stated: str = "") -> Case:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert "profile: none" in text
    (folder / "rows.csv").write_text("\n".join((HEADER, *rows)) + "\n", encoding="utf-8")
    path = folder / "proposal.yaml"
    path.write_text(text.replace("profile: none", f"profile: {{file: rows.csv, date: 2026-11-20{stated}}}"), encoding="utf-8")
    return resolve(load_proposal(path), open_library())


def test_rows_of_a_graph_are_its_layers(tmp_path: Path) -> None:
    there = case(tmp_path, f"1,1,1,2,2.6,5.4,,{PARAMETERS}", "0-5,2,4,2,5.5,11,22000,")
    (told,) = (one for one in case_facts(there) if one.kind == "profile")
    assert (told["layers"], told["model_layers"], told["usable"], told["described"]) == (6, 6, "yes", "graph")
    (shape,) = (one for one in case_facts(there) if one.kind == "profile_shapes")
    assert (shape["stated"], shape["counted"]) == (PARAMETERS, PARAMETERS)
    found = numbers_of(there)(0, 5, Mesh(data=2, tensor=4), 2, True, True)
    assert found is not None
    assert (found.forward, found.backward, found.memory) == pytest.approx((0.0055, 0.011, 22000 * 2**20))
    # Bytes are told in bytes: the most of one rank, where its parts are not told apart.
    items = {one.item: one.quantity for one in evidence(there)}
    assert (items["stage_latency"].value, items["stage_latency"].dimension) == (0.0165, Dimension.TIME)
    for name in ("workspace", "activation_memory"):
        assert (items[name].value, items[name].dimension) == (22000 * 2**20, Dimension.BYTES)


def test_the_floor_of_a_row_is_that_of_its_own_products(tmp_path: Path) -> None:
    """The last layer holds the head: 3 x 2 FLOPs x 2048 tokens x its products' weights, 2 sequences, 312 TFLOP/s."""
    there = case(tmp_path, "5,1,1,2,3,6,,")
    (rate,) = (one for one in case_facts(there) if one.kind == "profile_rate")
    products = 4 * 2048 * 2048 + 2 * 2048 * 8192 + 2048 * 4 + 2048 * 65536
    assert rate["floor_ns"] == pytest.approx(1e9 * 3 * 2 * 2048 * products * 2 / 312e12, rel=1e-3)


@pytest.mark.parametrize(
    ("rows", "stated"),
    [
        (["0-4,1,1,2,20,40,,"], ""),
        ([f"1,1,1,2,3,6,,{2 * PARAMETERS}", "0-5,1,1,2,20,40,,"], ""),
        (["0-7,1,1,2,20,40,,"], ", ends: separate"),
    ],
    ids=["other layers", "other shapes", "ends apart"],
)
def test_a_profile_of_another_model_is_not_used(tmp_path: Path, rows: list[str], stated: str) -> None:
    there = case(tmp_path, *rows, stated=stated)
    assert usable_profile(there) is None
    assert numbers_of(there)(0, 5, Mesh(), 2, True, True) is None
