"""Promises of the importer of `nvidia-smi topo -m`: what is read, what is a gap, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planproof.errors import DataError, PlanproofError
from planproof.importers import nvidia_topo, rocm_smi
from planproof.importers.nvidia_topo import LINK_WORDS, TopologyMatrix, islands, read, recognises

# An invented machine: two NVLink pairs, a NIC beside each, permuted NUMA nodes.
ROWS = {
    "GPU0": "X NV4 SYS SYS PIX SYS | 8-15,24-31 1 N/A",
    "GPU1": "NV4 X SYS SYS PXB SYS | 8-15,24-31 1 N/A",
    "GPU2": "SYS SYS X NV4 SYS PHB | 0-7,16-23 0 N/A",
    "GPU3": "SYS SYS NV4 X SYS NODE | 0-7,16-23 0 N/A",
    "NIC0": "PIX PXB SYS SYS X SYS |",
    "NIC1": "SYS SYS PHB NODE SYS X |",
}
HEADER = "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"
LEGEND = "\nLegend:\n\n  X    = Self\n  NV#  = bonded\n\nNIC Legend:\n\n  NIC0: mlx5_2\n  NIC1: mlx5_0\n"


def lines(rows: dict[str, str] = ROWS, header: str | None = HEADER) -> list[str]:
    body = [label + "\t" + "\t".join(cells.replace("|", "").split()) for label, cells in rows.items()]
    return ([] if header is None else [header]) + body


def text(rows: dict[str, str] = ROWS, header: str | None = HEADER, legend: str = LEGEND) -> str:
    return "\n".join(lines(rows, header)) + "\n" + legend


def changed(label: str, old: str, new: str) -> str:
    assert old in ROWS[label]
    return text(ROWS | {label: ROWS[label].replace(old, new, 1)})


def said(matrix: TopologyMatrix) -> str:
    return "\n".join(f"{gap.line}: {gap.what}; {gap.expected}" for gap in matrix.missing)


def test_a_whole_file_has_every_link_in_both_orders_and_no_gap() -> None:
    matrix = read(text(), "m.txt")
    assert matrix.missing == ()
    assert matrix.devices == ("GPU0", "GPU1", "GPU2", "GPU3")
    assert matrix.nics == ("NIC0", "NIC1")
    assert len(matrix.links) == 6 * 5
    assert matrix.links["GPU3", "GPU2"] == matrix.links["GPU2", "GPU3"]
    assert (matrix.links["GPU0", "GPU1"].word, matrix.links["GPU0", "GPU1"].nvlinks) == ("NV4", 4)
    assert matrix.links["GPU2", "NIC1"].word == "PHB"
    assert matrix.links["GPU2", "NIC1"].nvlinks is None
    assert matrix.links["GPU2", "NIC1"].line == 4
    assert matrix.cpu_affinity["GPU2"] == ((0, 7), (16, 23))
    assert [matrix.numa[device] for device in matrix.devices] == [((1, 1),), ((1, 1),), ((0, 0),), ((0, 0),)]
    assert dict(matrix.nic_names) == {"NIC0": "mlx5_2", "NIC1": "mlx5_0"}
    assert matrix.kind == "nvidia-topo"


def test_islands_are_the_components_over_nvlink_alone() -> None:
    assert islands(read(text(), "m.txt")) == (("GPU0", "GPU1"), ("GPU2", "GPU3"))
    chain = "\tGPU0\tGPU1\tGPU2\nGPU0\tX\tNV1\tSYS\nGPU1\tNV1\tX\tNV2\nGPU2\tSYS\tNV2\tX\n"
    assert islands(read(chain, "m.txt")) == (("GPU0", "GPU1", "GPU2"),)


def test_every_link_word_read_has_a_documented_meaning() -> None:
    for word in ("NV9", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC"):
        matrix = read(f"\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\t{word}\t0-3\nGPU1\t{word}\tX\t0-3\n", "m.txt")
        assert matrix.links["GPU0", "GPU1"].word == word
        assert ("NV#" if word == "NV9" else word) in LINK_WORDS


@pytest.mark.parametrize(
    "dressed",
    [
        text().replace(HEADER, "\x1b[4m" + HEADER + "\x1b[0m"),
        text().replace(HEADER, "[4m" + HEADER.strip() + "[0m"),
        text().replace("\t", "     "),
        text().replace("\n", "\r\n"),
        "\ufeff" + text(),
        "$ nvidia-smi topo -m\n" + text(),
        "\n".join("[1,0]<stdout>:" + line for line in text().split("\n")),
        text().replace("\t1\tN/A", "\t1\t\tN/A\t"),
    ],
    ids=["ansi", "ansi without escape", "spaces", "crlf", "bom", "prompt", "mpi tag", "padding"],
)
def test_how_the_text_was_captured_does_not_change_what_it_says(dressed: str) -> None:
    plain, other = read(text(), "m.txt"), read(dressed, "m.txt")
    assert recognises(dressed)
    assert other.missing == ()
    assert {pair: link.word for pair, link in other.links.items()} == {p: link.word for p, link in plain.links.items()}
    assert (other.cpu_affinity, other.numa, other.nic_names) == (plain.cpu_affinity, plain.numa, plain.nic_names)


def test_affinity_columns_are_read_by_name_and_not_by_place() -> None:
    header = HEADER.replace("CPU Affinity\tNUMA Affinity", "NUMA Affinity\tCPU Affinity")
    rows = {label: row.replace("8-15,24-31 1", "1 8-15,24-31") for label, row in ROWS.items()}
    matrix = read(text({**rows, "GPU2": "SYS SYS X NV4 SYS PHB | 0 0-7,16-23 N/A"}, header), "m.txt")
    assert matrix.numa["GPU0"] == ((1, 1),)
    assert matrix.cpu_affinity["GPU0"] == ((8, 15), (24, 31))


def test_an_old_header_with_interface_names_and_soc_is_read() -> None:
    old = (
        "\tGPU0\tGPU1\tmlx4_0\tCPU Affinity\nGPU0\tX\tPHB\tSOC\t0-5\nGPU1\tPHB\tX\tPHB\t0-5\nmlx4_0\tSOC\tPHB\tX\n"
        "Legend:\n  SOC  = between sockets\n"
    )
    matrix = read(old, "m.txt")
    assert (matrix.nics, matrix.missing, matrix.links["GPU0", "mlx4_0"].word) == (("mlx4_0",), (), "SOC")


def test_a_file_cut_after_some_rows_keeps_them_and_lists_the_rest() -> None:
    matrix = read("\n".join(lines()[:3]) + "\n", "m.txt")
    assert matrix.links["GPU1", "NIC0"].word == "PXB"
    assert ("GPU2", "GPU3") not in matrix.links
    assert "4 of 6 devices in the header have no row: GPU2, GPU3, NIC0, NIC1" in said(matrix)
    assert "6 of 15 links are not stated" in said(matrix)
    assert any("stated by one row only" in note for note in matrix.notes)


def test_a_row_cut_in_the_middle_says_how_many_cells_it_has() -> None:
    matrix = read("\n".join(lines()[:4]) + "\nGPU3\tSYS\tSYS\tNV", "m.txt")
    assert "5: the row of GPU3 ends after 3 of 6 cells" in said(matrix)
    assert matrix.links["GPU2", "GPU3"].word == "NV4"
    assert ("GPU3", "NIC0") not in matrix.links


@pytest.mark.parametrize(
    ("broken", "pair", "message"),
    [
        (changed("GPU0", "NV4", "NV6"), ("GPU0", "GPU1"), "GPU0-GPU1 is 'NV6' on line 2, 'NV4' on line 3"),
        (changed("NIC1", "PHB", "PIX"), ("GPU2", "NIC1"), "is 'PHB' on line 4, 'PIX' on line 7"),
    ],
)
def test_two_rows_that_contradict_each_other_leave_the_link_unknown(
    broken: str, pair: tuple[str, str], message: str
) -> None:
    matrix = read(broken, "m.txt")
    assert pair not in matrix.links
    assert message in said(matrix)


def test_an_unknown_word_is_a_gap_with_its_line_and_the_known_words() -> None:
    matrix = read("\n".join(lines()[:3]).replace("PXB", "C2C"), "m.txt")
    assert ("GPU1", "NIC0") not in matrix.links
    assert "3: GPU1-NIC0 reads 'C2C', not a link word; X, NV#, PIX" in said(matrix)
    assert matrix.links["GPU1", "NIC1"].word == "SYS"
    assert matrix.numa["GPU1"] == ((1, 1),)


def test_a_cell_fused_with_the_affinity_takes_neither_from_the_row() -> None:
    fused = "\n".join(lines()[:2]).replace("SYS\t8-15", "SY8-15")
    matrix = read(fused + "\n", "m.txt")
    assert ("GPU0", "NIC1") not in matrix.links
    assert matrix.links["GPU0", "NIC0"].word == "PIX"
    assert "GPU0" not in matrix.cpu_affinity
    assert "2: GPU0-NIC1 reads 'SY8-15,24-31'" in said(matrix)
    assert "the affinity of GPU0 cannot be read" in said(matrix)


def test_two_fused_words_are_named_and_nothing_after_them_is_taken() -> None:
    matrix = read("\n".join(lines()[:2]).replace("SYS\tSYS\tPIX", "SYSSYS\tPIX") + "\n", "m.txt")
    assert "GPU0-GPU2 reads 'SYSSYS', two words run together" in said(matrix)
    assert {pair for pair in matrix.links if pair[0] == "GPU0"} == {("GPU0", "GPU1")}


def test_a_lost_cell_moves_no_word_to_another_column() -> None:
    matrix = read("\n".join(lines()[:3]).replace("SYS\tSYS\tPIX", "SYS\tPIX") + "\n", "m.txt")
    assert "GPU0-NIC1 reads '8-15,24-31'" in said(matrix)
    assert [pair for pair in matrix.links if pair[0] == "GPU0"] == [("GPU0", "GPU1")]


def test_a_device_linked_to_itself_is_named_with_its_line() -> None:
    matrix = read(changed("GPU2", "X", "NV4"), "m.txt")
    assert "4: the link of GPU2 to itself reads 'NV4'; 'X'" in said(matrix)
    assert ("GPU2", "GPU2") not in matrix.links


def test_an_x_between_two_devices_makes_the_row_unreadable() -> None:
    matrix = read(changed("GPU0", "PIX", "X"), "m.txt")
    assert "2: the row of GPU0 has 'X' in the column of NIC0" in said(matrix)
    assert matrix.links["GPU0", "GPU1"].line == 3


def test_without_a_header_the_columns_are_those_that_the_rows_prove() -> None:
    matrix = read(text(header=None), "m.txt")
    assert {pair: link.word for pair, link in matrix.links.items()} == {
        pair: link.word for pair, link in read(text(), "m.txt").links.items()
    }
    assert "1: the header line is missing" in said(matrix)
    assert dict(matrix.cpu_affinity) == {}
    half = read("\n".join(lines(header=None)[:2]), "m.txt")
    assert set(half.links) == {("GPU0", "GPU1"), ("GPU1", "GPU0")}
    assert "4 columns belong to no device that has a row" in said(half)


def test_a_row_that_the_header_does_not_name_is_left_out_and_said() -> None:
    matrix = read(text(ROWS | {"GPU9": "SYS SYS SYS SYS SYS SYS | 0 0 N/A"}), "m.txt")
    assert "8: the row of 'GPU9' has no column" in said(matrix)
    assert "GPU9" not in matrix.devices


def test_one_device_with_two_rows_has_none() -> None:
    matrix = read("\n".join([*lines(), lines()[1]]), "m.txt")
    assert "GPU0 has rows on lines 2 and 8" in said(matrix)
    assert matrix.links["GPU0", "GPU1"].line == 3


def test_a_legend_that_names_other_nics_is_a_gap() -> None:
    matrix = read(text(legend="\nNIC Legend:\n  NIC7: mlx5_7\n"), "m.txt")
    assert "the legend names NIC7, the matrix does not" in said(matrix)
    assert any("NIC0, NIC1" in note for note in matrix.notes)


def test_an_affinity_that_is_no_list_is_a_gap() -> None:
    matrix = read(changed("GPU1", "8-15,24-31", "8-15;24"), "m.txt")
    assert "3: the CPU Affinity of GPU1 reads '8-15;24'" in said(matrix)
    assert matrix.numa["GPU1"] == ((1, 1),)


@pytest.mark.parametrize(
    ("content", "words", "line"),
    [
        ("", ("empty",), None),
        (" \n\t\n", ("empty",), None),
        ("apiVersion: v1\nkind: Pod\n", ("no matrix",), None),
        (HEADER + "\n", ("no rows",), 1),
        (text().replace("GPU0\tGPU1\tGPU2", "GPU0GPU1GPU2", 1), ("'GPU0GPU1GPU2'", "one device"), 1),
        (text().replace("GPU2\tGPU3\tNIC0", "GPU2\tGPU2\tNIC0", 1), ("'GPU2' twice",), 1),
        ("\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tOK\tX\n", ("no row", "'OK'"), 2),
        (text() + "\n" + text(), ("line 1", "more than one matrix", "19"), 19),
    ],
)
def test_what_is_no_matrix_of_one_machine_is_refused_with_its_line(
    content: str, words: tuple[str, ...], line: int | None
) -> None:
    with pytest.raises(DataError) as caught:
        read(content, "node7.txt")
    assert (caught.value.place.file, caught.value.place.line) == ("node7.txt", line)
    assert caught.value.remedy
    for word in words:
        assert word in caught.value.message


def test_other_kinds_are_not_recognised() -> None:
    assert recognises(text())
    assert recognises("GPU0\t X \t0-7\tN/A\n")
    assert not recognises("GPU0   0   XGMI\nGPU1   XGMI   0\n")
    assert not recognises("")
    assert not rocm_smi.recognises(text())


CELL = st.sampled_from(
    ["NV4", "NV18", "NV", "PIX", "SYS", "SYSSYS", "X", "", "0-7", "N/A", "PHB PHB", "é", "NV04", "\x1b[0m", "NV44"]
)


@settings(max_examples=150, deadline=None)
@given(label=st.sampled_from(sorted(ROWS)), index=st.integers(0, 5), cell=CELL | st.text(max_size=6))
def test_no_changed_cell_of_a_whole_file_becomes_another_link(label: str, index: int, cell: str) -> None:
    cells = ROWS[label].split()
    cells[index] = cell
    truth = read(text(), "m.txt").links
    try:
        matrix = read(text(ROWS | {label: " ".join(cells)}), "m.txt")
    except PlanproofError:
        return
    assert all(truth[pair].word == link.word for pair, link in matrix.links.items())
    lost = {frozenset(pair) for pair in truth if pair not in matrix.links}
    assert not lost or matrix.missing


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_text_is_read_or_refused_in_words(data: st.DataObject) -> None:
    whole = text()
    at = data.draw(st.integers(0, len(whole)))
    width = data.draw(st.integers(0, 30))
    content = data.draw(
        st.one_of(st.text(), st.builds(lambda put: whole[:at] + put + whole[at + width :], st.text(max_size=20)))
    )
    recognises(content)
    try:
        matrix = nvidia_topo.read(content, "any")
    except PlanproofError:
        return
    assert all(matrix.links[b, a] == link for (a, b), link in matrix.links.items())
    assert sorted(device for island in islands(matrix) for device in island) == sorted(matrix.devices)
