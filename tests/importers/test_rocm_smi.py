"""Promises of the importer of `rocm-smi --showtopo`."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planproof.errors import DataError, PlanproofError
from planproof.importers.nvidia_topo import TopologyMatrix, islands
from planproof.importers.rocm_smi import read, recognises

# Invented: two XGMI pairs, PCIe between them.
TYPES = [
    ["0", "XGMI", "PCIE", "PCIE"],
    ["XGMI", "0", "PCIE", "PCIE"],
    ["PCIE", "PCIE", "0", "XGMI"],
    ["PCIE", "PCIE", "XGMI", "0"],
]
NUMBERS = {"XGMI": ("15", "1"), "PCIE": ("72", "3"), "0": ("0", "0")}
NUMA = "".join(
    f"GPU[{k}]\t\t: (Topology) Numa Node: {k // 2}\nGPU[{k}]\t\t: (Topology) Numa Affinity: {k // 2}\n"
    for k in range(4)
)
END = "============ End of ROCm SMI Log ============\n"


def table(title: str, cells: list[list[str]]) -> str:
    names = [f"GPU{k}" for k in range(len(cells))]
    rows = [f"{name}   " + "         ".join(row) for name, row in zip(names, cells, strict=True)]
    return (
        f"========= {title} between two GPUs =========\n       " + "   ".join(names) + "\n" + "\n".join(rows) + "\n\n"
    )


def text(types: list[list[str]] = TYPES, numa: str = "======== Numa Nodes ========\n" + NUMA, end: str = END) -> str:
    weight, hops = ([[NUMBERS[word][k] for word in row] for row in TYPES] for k in (0, 1))
    start = "============ ROCm System Management Interface ============\n\n"
    return start + table("Weight", weight) + table("Hops", hops) + table("Link Type", types) + numa + end


def said(matrix: TopologyMatrix) -> str:
    return "\n".join(f"{gap.line}: {gap.what}; {gap.expected}" for gap in matrix.missing)


def changed(row: int, column: int, cell: str) -> list[list[str]]:
    return [[cell if (i, j) == (row, column) else old for j, old in enumerate(line)] for i, line in enumerate(TYPES)]


def test_a_whole_report_gives_type_hops_weight_and_numa_node() -> None:
    matrix = read(text(), "r.txt")
    assert matrix.missing == ()
    link = matrix.links["GPU2", "GPU0"]
    assert (link.word, link.hops, link.weight, link.nvlinks) == ("PCIE", 3, 72, None)
    assert islands(matrix) == (("GPU0", "GPU1"), ("GPU2", "GPU3"))
    assert matrix.numa["GPU3"] == ((1, 1),)
    assert (matrix.kind, matrix.nics, dict(matrix.cpu_affinity)) == ("rocm-smi", (), {})


def test_numa_lines_of_either_spelling_are_read() -> None:
    assert read(text(numa=NUMA.replace("[", " ").replace("]", " ")), "r.txt").numa["GPU2"] == ((1, 1),)


def test_what_a_cut_report_lacks_is_listed() -> None:
    matrix = read(text(numa="", end=""), "r.txt")
    assert len(matrix.links) == 12
    assert "the NUMA node of GPU0, GPU1, GPU2, GPU3 is not stated" in said(matrix)
    assert "the log has no end" in said(matrix)
    cut = read(text(numa="", end="").rpartition("GPU2   ")[0], "r.txt")
    assert "2 of 4 devices have no row in the table of link type: GPU2, GPU3" in said(cut)
    assert "1 of 6 links are not stated where they can be read: GPU2-GPU3" in said(cut)


def test_a_lost_table_of_hops_does_not_lose_the_links() -> None:
    start, _, rest = text().partition("========= Hops")
    matrix = read(start + "=========" + rest.partition("\n\n")[2], "r.txt")
    assert matrix.links["GPU0", "GPU1"].hops is None
    assert matrix.links["GPU0", "GPU1"].weight == 15
    assert "there is no table of hops" in said(matrix)


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (
            changed(0, 1, "PCIE"),
            "GPU0-GPU1 is 'PCIE', hops 1, weight 15 on line 19, 'XGMI', hops 1, weight 15 on line 20",
        ),
        (changed(0, 1, "WIFI"), "19: GPU0-GPU1 reads 'WIFI', not a link type; XGMI or PCIE"),
        (changed(1, 1, "XGMI"), "20: GPU1 to itself reads 'XGMI' in the table of link type; '0'"),
        (changed(1, 2, "0"), "20: GPU1-GPU2 reads '0'"),
        (changed(2, 3, "PCIEXGMI PCIE"), "21: the row of GPU2 has 5 cells in the table of link type; 4 cells"),
    ],
)
def test_a_wrong_cell_is_named_with_its_line_and_what_was_expected(types: list[list[str]], message: str) -> None:
    assert message in said(read(text(types), "r.txt"))


@pytest.mark.parametrize(
    ("content", "word", "line"),
    [
        ("", "empty", None),
        ("GPU0 X\n", "no table of link types", None),
        (text().partition("========= Link")[0], "no table of link types", None),
        (text() + text(), "more than one table of weight", 36),
        (text().replace("GPU2   GPU3", "GPU2   GPU2"), "3 of them different", 4),
    ],
)
def test_what_is_no_single_report_is_refused(content: str, word: str, line: int | None) -> None:
    with pytest.raises(DataError, match=word) as caught:
        read(content, "r.txt")
    assert caught.value.place.line == line
    assert caught.value.remedy


@settings(max_examples=100, deadline=None)
@given(
    row=st.integers(0, 3),
    column=st.integers(0, 3),
    cell=st.sampled_from(["XGMI", "PCIE", "0", "", "XGM", "PCIE PCIE"]) | st.text(max_size=5),
)
def test_no_changed_cell_becomes_another_link(row: int, column: int, cell: str) -> None:
    truth = read(text(), "r.txt").links
    try:
        matrix = read(text(changed(row, column, cell)), "r.txt")
    except PlanproofError:
        return
    assert all(truth[pair].word == link.word for pair, link in matrix.links.items())
    assert matrix.links == truth or matrix.missing or any("one row only" in note for note in matrix.notes)


@settings(max_examples=100, deadline=None)
@given(at=st.integers(0, 1500), width=st.integers(0, 60), put=st.text(max_size=20), alone=st.text())
def test_any_text_is_read_or_refused_in_words(at: int, width: int, put: str, alone: str) -> None:
    whole = text()
    for content in (whole[:at] + put + whole[at + width :], alone):
        recognises(content)
        try:
            matrix = read(content, "any")
        except PlanproofError:
            continue
        assert matrix.devices
