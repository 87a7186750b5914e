"""A wrong sheet is told what is wrong, where, and what would do; nothing but a planned error leaves the reader."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planproof.document import parse_document
from planproof.errors import DataError, PlanproofError
from planproof.hardware import load_device
from planproof.hardware.reader import read_device, read_node
from planproof.hardware.sheets import DeviceSheet, NodeSheet, Origin


def shipped(kind: str, name: str) -> str:
    """A shipped sheet with its anchors written out, so that a line can be changed without a dangling alias."""
    text = (files(f"planproof.hardware.{kind}s") / f"{name}.yaml").read_text(encoding="utf-8")
    sources = dict(re.findall(r'&(\w+) ("[^"]*")', text))
    return re.sub(r"\*(\w+)", lambda alias: sources[alias[1]], re.sub(r"&\w+ ", "", text))


DEVICE, NODE, CURVES = shipped("device", "A100-80GB"), shipped("node", "p3.16xlarge"), shipped("node", "dgx_a100")


def as_device(text: str) -> DeviceSheet:
    return read_device(parse_document(text.encode(), "d.yaml"), Origin("added", "d.yaml"))


def as_node(text: str) -> NodeSheet:
    return read_node(parse_document(text.encode(), "n.yaml"), Origin("added", "n.yaml"), load_device)


def changed(text: str, old: str, new: str) -> tuple[str, int]:
    """`text` with one line that begins with `old` (after indentation) replaced or, for "", removed; and its number."""
    lines = text.splitlines(keepends=True)
    number = next(k for k, line in enumerate(lines) if line.lstrip(" -").startswith(old))
    indent = lines[number][: len(lines[number]) - len(lines[number].lstrip(" -"))]
    lines[number] = f"{indent}{new}\n" if new else ""
    return "".join(lines), number + 1


EVIDENCE = "grade: vendor, source: a sheet, date: 2021-06"
DEVICE_FAULTS = [
    ("memory:", f"memory: {{value: 80, {EVIDENCE}}}", "no unit"),
    ("memory:", f"memory: {{value: 80 GB/s, {EVIDENCE}}}", "unit of bytes/s"),
    ("memory:", f"memory: {{value: -80 GiB, {EVIDENCE}}}", "outside"),
    ("memory:", f"memory: {{value: true, {EVIDENCE}}}", "not a quantity"),
    ("memory:", "memory: [80 GiB]", "not a quantity"),
    ("memory:", "memory: {grade: vendor, source: a, date: 2021-06}", "no 'value'"),
    ("memory:", "memory: {value: 80 GiB, grade: seller, source: a, date: 2021-06}", "'seller'"),
    ("memory:", "memory: {value: 80 GiB, grade: vendor, date: 2021-06}", "no 'source'"),
    ("memory:", "memory: {value: 80 GiB, grade: vendor, source: a}", "no 'date'"),
    ("memory:", "memory: {value: 80 GiB, grade: vendor, source: a, date: 2021-13}", "no day"),
    ("memory:", "memory: {value: 80 GiB, grade: vendor, source: a, date: June}", "'June'"),
    ("memory:", "memory: {value: 80 GiB, grade: vendor, source: a, date: 2021}", "2021"),
    ("memory:", "memory: {value: 80 GiB, low: 70 GiB, high: 80 GiB}", "'low' is not a key"),
    ("memory:", f"memory: {{value: 40 GiB, {EVIDENCE}}}", "more than memory"),
    ("memory_bandwidth:", "memory_bandwith: 2 TB/s", "did you mean 'memory_bandwidth'"),
    ("memory_bandwidth:", "", "no 'memory_bandwidth'"),
    ("launch:", "launch: 30 us", "not a mapping"),
    ("launch:", "launch: {value: 30 us, low: 40 us, high: 50 us}", "own range"),
    ("gemm:", "gemm: {value: 80 %, low: 70 %, high: 130 %}", "outside"),
    ("gemm_half_dims:", "gemm_half_dims: {side: many, depth: 3}", "'many'"),
    ("gemm_half_dims:", "gemm_half_dims: {side: 1}", "no 'depth'"),
    ("bf16:", "bfloat16: 312 TFLOP/s", "not a key of peak"),
    ("name:", "name: a/b", "'a/b'"),
    ("aliases:", "aliases: A100", "not a list"),
    ("vendor:", "vendor: 3", "vendor is 3"),
]
NODE_FAULTS = [
    ("devices:", "devices: 0", "whole number from 1"),
    ("devices:", "devices: true", "true"),
    ("devices:", "devices: 100000000000000000000000000000", "more than 20 digits"),
    ("devices:", "devices: 12", "does not divide"),
    ("devices:", "devices: 16", "join 8 of the 16"),
    ("device:", "device: V1000", "did you mean"),
    ("island:", "island: 3", "does not divide"),
    ("island:", "island: 4", "from 0 to 3"),
    ("kind: nvlink", "kind: nvlnk", "did you mean 'nvlink'"),
    ("topology:", "topology: ring", "'ring'"),
    ("lane:", "", "only one of"),
    ("lane:", "lane: 30 GB/s", "more than the bandwidth"),
    ("pairs:", "pairs: [[0, 0, 1]]", "to itself"),
    ("pairs:", "pairs: [[0, 1, 1], [1, 0, 1]]", "second time"),
    ("pairs:", "pairs: [[0, 1]]", "2 numbers"),
    ("pairs:", "pairs: [[0, 1, 1]]", "no lanes lead"),
    ("pairs:", "pairs: [[0, 9, 1]]", "from 0 to 7"),
    ("{devices: 4", "{devices: 3, bandwidth: 1 GB/s}", "again"),
    ("{devices: 4", "{devices: 9, bandwidth: 1 GB/s}", "from 2 to 8"),
    ("host_link:", "host_link: 16 GB", "unit of bytes"),
    ("nics:", "nics: {count: 1}", "no 'bandwidth'"),
    ("latency:", "", "no 'latency'"),
]


@pytest.mark.parametrize(("old", "new", "message"), DEVICE_FAULTS)
def test_a_wrong_device_sheet_names_file_line_and_remedy(old: str, new: str, message: str) -> None:
    text, line = changed(DEVICE, old, new)
    with pytest.raises(DataError) as caught:
        as_device(text)
    assert message in caught.value.message
    assert caught.value.remedy
    assert caught.value.place.file == "d.yaml"
    assert caught.value.place.column
    # What is missing from the top, or contradicts another key, is told where the mapping or that key stands.
    if new and "more than memory" not in message:
        assert caught.value.place.line == line


@pytest.mark.parametrize(("old", "new", "message"), NODE_FAULTS)
def test_a_wrong_node_sheet_names_file_line_and_remedy(old: str, new: str, message: str) -> None:
    text, _ = changed(NODE, old, new)
    with pytest.raises(DataError) as caught:
        as_node(text)
    assert message in str(caught.value)
    assert caught.value.remedy
    assert caught.value.place.file == "n.yaml"
    assert caught.value.place.line


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{operation: all_reduce, devices: 4", "{operation: allreduce, devices: 4}", "no 'latency'"),
        (
            "{operation: all_reduce, devices: 4",
            "{operation: allreduce, devices: 4, latency: 1 us, bus_bandwidth: 1 GB/s, root_term: 1 us}",
            "did you mean 'all_reduce'",
        ),
        (
            "{operation: all_reduce, devices: 4",
            "{operation: all_reduce, devices: 2, latency: 1 us, bus_bandwidth: 1 GB/s, root_term: 1 us}",
            "again",
        ),
        ("grade: estimated", "grade: best", "'best'"),
    ],
)
def test_a_wrong_curve_is_told_at_its_line(old: str, new: str, message: str) -> None:
    text, line = changed(CURVES, old, new)
    with pytest.raises(DataError) as caught:
        as_node(text)
    assert message in str(caught.value)
    assert caught.value.place.line == line


def test_islands_must_grow_outward_and_join_the_node() -> None:
    inner = "  - {name: a, kind: pcie, topology: tree, island: 2, bandwidth: 10 GB/s, latency: 2 us}\n"
    outer = "  - {name: b, kind: pcie, topology: tree, island: 4, bandwidth: 5 GB/s, latency: 9 us}\n"
    head = "kind: node\nname: tree\nvendor: x\ndevice: L4\ndevices: 4\nlinks:\n"
    node = as_node(head + inner + outer)
    assert (node.island, [link.island for link in node.links]) == (2, [2, 4])
    with pytest.raises(DataError, match="join 2 of the 4"):
        as_node(head + outer + inner)
    with pytest.raises(DataError, match="join 2 of the 4"):
        as_node(head + inner)
    with pytest.raises(DataError, match="not ordered"):
        as_node(head + outer + inner + outer)


def test_a_mesh_needs_its_pairs() -> None:
    text = "".join(line for line in NODE.splitlines(keepends=True) if "lane:" not in line and "pairs:" not in line)
    with pytest.raises(DataError, match="needs 'lane' and 'pairs'"):
        as_node(text)


LINES = st.sampled_from(DEVICE.splitlines() + NODE.splitlines() + CURVES.splitlines())
PIECES = st.one_of(
    LINES, st.text(max_size=30), st.sampled_from(["{", "}", "[", "-1", "1e999", ".nan", "null", "&s1", "*s1"])
)


@settings(deadline=None)
@given(st.sampled_from([DEVICE, NODE, CURVES]), st.integers(0, 60), st.integers(0, 3), st.lists(PIECES, max_size=3))
def test_a_mutated_sheet_reads_or_is_refused_with_a_planned_error(base: str, at: int, cut: int, new: list[str]) -> None:
    lines = base.splitlines()
    text = "\n".join([*lines[:at], *new, *lines[at + cut :]]) + "\n"
    for read in (as_device, as_node):
        told: PlanproofError | None = None
        try:
            read(text)
        except PlanproofError as error:
            told = error
        assert told is None or (told.message and told.remedy)
