"""What every shipped sheet promises: evidence for each value, magnitudes that can be true, sheets that agree."""

from __future__ import annotations

import dataclasses
import pickle
import re
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files

import pytest
from planproof.hardware import (
    HalfDims,
    LinkTopology,
    NodeSheet,
    Ranged,
    device_names,
    load_device,
    load_node,
    node_names,
)
from planproof.quantity import Grade, Provenance, Quantity

DEVICES = (
    "A100-40GB",
    "A100-80GB",
    "A100-80GB-PCIe",
    "A10G",
    "B200",
    "GB200",
    "H100",
    "H200",
    "L4",
    "MI300X",
    "V100-16GB",
    "V100-32GB",
)
NODES = (
    "a100_pcie_8",
    "a2-ultragpu-8g",
    "dgx1_v100",
    "dgx2",
    "dgx_a100",
    "dgx_a100_40gb",
    "dgx_b200",
    "dgx_h100",
    "dgx_h200",
    "g5.48xlarge",
    "g6.48xlarge",
    "hgx_h200",
    "mi300x_8",
    "p3.16xlarge",
    "p3dn.24xlarge",
    "p4d.24xlarge",
    "p4de.24xlarge",
    "p5.48xlarge",
)
GIB, TERA, GIGA = 2**30, 1e12, 1e9

#: Memory in GiB, memory bandwidth in TB/s, dense fp16 TFLOP/s: narrow enough that a sparse rate or a factor of 2 fails.
WINDOWS = {
    "V100-16GB": ((15.5, 16), (0.85, 0.95), (112, 130)),
    "V100-32GB": ((31, 32), (0.85, 0.95), (112, 130)),
    "A100-40GB": ((39, 40), (1.5, 1.6), (310, 314)),
    "A100-80GB": ((79, 80), (1.9, 2.1), (310, 314)),
    "A100-80GB-PCIe": ((79, 80), (1.9, 1.95), (310, 314)),
    "H100": ((79, 80), (3, 3.5), (988, 991)),
    "H200": ((138, 141), (4.7, 4.9), (988, 991)),
    "B200": ((175, 180), (7.5, 8.1), (2200, 2300)),
    "GB200": ((180, 186), (7.5, 8.1), (2450, 2550)),
    "MI300X": ((188, 192), (5.2, 5.4), (1300, 1310)),
    "L4": ((21.9, 24), (0.28, 0.31), (115, 125)),
    "A10G": ((21.9, 24), (0.58, 0.61), (65, 75)),
}


def evidence(value: object, path: str = "") -> Iterator[tuple[str, Provenance]]:
    """Every provenance inside a sheet, with its field's path; a node's device is a sheet of its own."""
    if isinstance(value, Provenance):
        yield path, value
    elif isinstance(value, tuple):
        for item in value:
            yield from evidence(item, path)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if not (isinstance(value, NodeSheet) and field.name == "device"):
                yield from evidence(getattr(value, field.name), f"{path}.{field.name}")


def test_the_devices_and_nodes_are_shipped() -> None:
    assert device_names() == DEVICES
    assert node_names() == NODES


@pytest.mark.parametrize("name", [*DEVICES, *NODES])
def test_every_value_has_grade_source_date_and_line(name: str) -> None:
    sheet = load_device(name) if name in DEVICES else load_node(name)
    found = list(evidence(sheet))
    assert len(found) >= (14 if name in DEVICES else 4)
    for path, provenance in found:
        assert len(provenance.source) > 20, path
        assert re.fullmatch(r"\d{4}-\d{2}(-\d{2})?", provenance.date or ""), path
        assert provenance.file == sheet.origin.file, path
        assert provenance.line, path
        assert provenance.pointer, path


@pytest.mark.parametrize("name", DEVICES)
def test_device_values_lie_in_windows_that_a_wrong_unit_or_sparse_rate_misses(name: str) -> None:
    device = load_device(name)
    memory, bandwidth, fp16 = WINDOWS[name]
    assert memory[0] <= device.capacity.value / GIB <= memory[1]
    assert device.capacity.value <= device.memory.value
    assert bandwidth[0] <= device.memory_bandwidth.value / TERA <= bandwidth[1]
    half = device.peak("fp16")
    assert half is not None
    assert fp16[0] <= half.value / TERA <= fp16[1]
    assert 2**20 < device.workspace.value < 2**29 < device.context.value < 4e9
    assert 0 < device.allocator_reserve.low < device.allocator_reserve.high < 0.25
    assert 5e-6 < device.launch.value < 1e-4


@pytest.mark.parametrize("name", DEVICES)
def test_peak_rates_keep_the_ratios_of_the_number_formats(name: str) -> None:
    device = load_device(name)
    rates = {dtype: rate.value for dtype, rate in device.peak_rates}
    assert ("bf16" in rates) is (device.architecture != "volta")
    assert ("fp8" in rates) is (device.architecture in {"hopper", "blackwell", "ada", "cdna3"})
    assert rates.get("bf16", rates["fp16"]) == rates["fp16"]
    if "fp8" in rates:
        assert rates["fp8"] == pytest.approx(2 * rates["fp16"], rel=0.01)
    if "tf32" in rates:
        assert rates["tf32"] == pytest.approx(rates["fp16"] / 2, rel=0.03)
    assert rates["fp32"] <= rates.get("tf32", rates["fp16"])
    assert device.peak("int4") is None


def test_devices_without_measured_steps_say_so_and_have_wider_ranges() -> None:
    fitted, carried = load_device("A100-80GB").efficiency, load_device("A100-40GB").efficiency
    for field in ("gemm", "memory", "attention_unfused", "attention_flash"):
        of_fit, of_carried = getattr(fitted, field), getattr(carried, field)
        assert (of_fit.grade, of_carried.grade) == (Grade.ESTIMATED, Grade.ASSUMED)
        assert of_carried.high - of_carried.low > of_fit.high - of_fit.low
    for name in ("V100-16GB", "V100-32GB", "H200", "MI300X", "L4", "A10G"):
        efficiency = load_device(name).efficiency
        for part in (efficiency.gemm, efficiency.memory, efficiency.attention_flash):
            assert part.grade is Grade.ASSUMED, name
            assert part.high / part.low >= 1.25, name
        assert efficiency.gemm_half_dims.provenance.grade is Grade.ASSUMED


@pytest.mark.parametrize("name", DEVICES)
def test_vendor_values_are_graded_vendor_and_judgements_are_not(name: str) -> None:
    device = load_device(name)
    assert {rate.grade for _, rate in device.peak_rates} == {Grade.VENDOR}
    assert device.memory_bandwidth.grade is Grade.VENDOR
    assert device.efficiency.gemm.grade in {Grade.ESTIMATED, Grade.ASSUMED}
    assert isinstance(device.efficiency.gemm, Ranged)
    assert isinstance(device.efficiency.gemm_half_dims, HalfDims)


@pytest.mark.parametrize(
    ("name", "device", "devices", "gigabytes_per_s", "nics", "gigabits_per_s"),
    [
        ("p3.16xlarge", "V100-16GB", 8, 150, 1, 25),
        ("p3dn.24xlarge", "V100-32GB", 8, 150, 1, 100),
        ("dgx1_v100", "V100-32GB", 8, 150, 4, 100),
        ("dgx2", "V100-32GB", 16, 150, 8, 100),
        ("dgx_a100", "A100-80GB", 8, 300, 8, 200),
        ("dgx_a100_40gb", "A100-40GB", 8, 300, 8, 200),
        ("p4d.24xlarge", "A100-40GB", 8, 300, 4, 100),
        ("p4de.24xlarge", "A100-80GB", 8, 300, 4, 100),
        ("a2-ultragpu-8g", "A100-80GB", 8, 300, 1, 100),
        ("dgx_h100", "H100", 8, 450, 8, 400),
        ("p5.48xlarge", "H100", 8, 450, 32, 100),
        ("hgx_h200", "H200", 8, 450, 0, 0),
        ("dgx_h200", "H200", 8, 450, 8, 400),
        ("dgx_b200", "B200", 8, 900, 8, 400),
        ("mi300x_8", "MI300X", 8, 448, 0, 0),
        ("g5.48xlarge", "A10G", 8, 32, 1, 100),
        ("g6.48xlarge", "L4", 8, 32, 1, 100),
        ("a100_pcie_8", "A100-80GB-PCIe", 8, 32, 0, 0),
    ],
)
def test_a_node_states_its_devices_links_and_cards(
    name: str, device: str, devices: int, gigabytes_per_s: float, nics: int, gigabits_per_s: float
) -> None:
    node = load_node(name)
    assert (node.device.name, node.devices, node.links[-1].island) == (device, devices, devices)
    assert node.links[-1].bandwidth.value == gigabytes_per_s * GIGA
    assert 5e-7 < node.links[-1].latency.value < 2e-5
    cards = (node.nics.count, node.nics.bandwidth.value * 8 / GIGA) if node.nics else (0, 0)
    assert cards == (nics, gigabits_per_s)
    assert node.host_link is not None
    assert node.host_link.value in (16 * GIGA, 32 * GIGA, 64 * GIGA)


@pytest.mark.parametrize("name", ["p3.16xlarge", "p3dn.24xlarge", "dgx1_v100"])
def test_the_hybrid_cube_mesh_has_pairs_of_one_two_and_no_lanes(name: str) -> None:
    link = load_node(name).links[0]
    assert link.topology is LinkTopology.MESH
    assert link.lane is not None
    assert link.lane.value == 25 * GIGA
    lanes = [[link.lanes(a, b) for b in range(8)] for a in range(8)]
    assert [sum(filter(None, row)) for row in lanes] == [6] * 8
    assert {lanes[0][1], lanes[0][3], lanes[0][5]} == {1, 2, 0}
    for quad in (range(4), range(4, 8)):
        assert all(lanes[a][b] for a in quad for b in quad if a != b)
        assert all(sum(1 for b in range(8) if b not in quad and lanes[a][b]) == 1 for a in quad)


@pytest.mark.parametrize(
    "walks",
    [
        [(0, 1, 2)],
        [(0, 1, 2, 3), (0, 2, 1, 3)],
        [(0, 2, 3, 1, 5, 4)],
        [(0, 1, 3, 2, 6, 5, 4), (0, 3, 2, 1, 5, 6, 4)],
        [(0, 1, 2, 3, 7, 5, 6, 4), (0, 2, 6, 7, 4, 5, 1, 3), (0, 3, 2, 1, 5, 6, 7, 4)],
    ],
)
def test_the_hybrid_cube_mesh_holds_the_rings_that_the_sheet_states(walks: list[tuple[int, ...]]) -> None:
    """Closed walks that share no lane, each used in both directions, carry what the sheet says of a ring."""
    link = load_node("p3.16xlarge").links[0]
    assert link.lane is not None
    used: Counter[frozenset[int]] = Counter()
    for walk in walks:
        assert len(set(walk)) == len(walk)
        used.update(frozenset(pair) for pair in zip(walk, (*walk[1:], walk[0]), strict=True))
    assert all(count <= (link.lanes(*pair) or 0) for pair, count in used.items())
    assert link.ring(len(walks[0])).value == 2 * len(walks) * link.lane.value


def test_five_devices_of_the_cube_mesh_have_no_ring_of_lanes_and_the_sheet_knows() -> None:
    link = load_node("p3.16xlarge").links[0]
    neighbours = [b for b in range(4) if link.lanes(4, b)]
    assert len(neighbours) == 1
    assert link.ring(5).value == 10 * GIGA


def test_bridged_pairs_are_islands_inside_a_slower_tree() -> None:
    node = load_node("a100_pcie_8")
    assert node.island == 2
    assert [(link.island, link.ring(link.island).value / GIGA) for link in node.links] == [(2, 208), (8, 20)]


@pytest.mark.parametrize("name", ["p3.16xlarge", "dgx_h100"])
def test_a_sheet_survives_a_pickle_and_is_hashable(name: str) -> None:
    node = load_node(name)
    assert pickle.loads(pickle.dumps(node)) == node
    assert hash(node) == hash(load_node(name))


def test_the_mi300x_mesh_joins_all_pairs_and_smaller_groups_get_fewer_links() -> None:
    link = load_node("mi300x_8").links[0]
    assert all(link.lanes(a, b) == 1 for a in range(8) for b in range(8) if a != b)
    assert link.ring(2).value == 64 * GIGA
    assert link.ring(8).value == link.bandwidth.value


@pytest.mark.parametrize("name", NODES)
def test_measured_curves_do_not_beat_the_link_except_where_the_switch_reduces(name: str) -> None:
    for link in load_node(name).links:
        for curve in link.collectives:
            share = curve.bus_bandwidth.value / link.bandwidth.value
            in_switch = curve.operation == "all_reduce" and curve.devices == 8 and link.bandwidth.value > 400 * GIGA
            assert 0.4 < share < (1.2 if in_switch else 1.0), (curve.operation, curve.devices)
            assert 5e-6 < curve.latency.value < 3e-5
            assert 1e-6 < curve.root_term.value < 2e-5


def test_curves_are_found_by_operation_and_size_only() -> None:
    link = load_node("dgx_a100").links[0]
    curve = link.collective("all_reduce", 8)
    assert curve is not None
    # 512 MiB over eight A100 at 222 GB/s of bus bandwidth, as nccl-tests prints for this machine: 4.2 ms.
    size, factor = 2**29, 2 * 7 / 8
    seconds = curve.latency.value + factor * size / curve.bus_bandwidth.value
    seconds += curve.root_term.value * (size / 2**20) ** 0.5
    assert seconds == pytest.approx(4.2e-3, rel=0.05)
    assert link.collective("all_reduce", 6) is None
    assert link.collective("broadcast", 8) is None


def test_a_switch_gives_a_ring_of_any_size_its_bandwidth() -> None:
    link = load_node("dgx_h100").links[0]
    assert [link.ring(n).value for n in (2, 5, 8)] == [450 * GIGA] * 3
    assert link.lanes(0, 1) is None


@pytest.mark.parametrize("kind", ["device", "node"])
def test_a_shipped_file_is_named_after_its_sheet_and_every_alias_finds_it(kind: str) -> None:
    load = load_device if kind == "device" else load_node
    taken: dict[str, str] = {}
    for entry in files(f"planproof.hardware.{kind}s").iterdir():
        if not entry.name.endswith(".yaml"):
            continue
        sheet = load(entry.name.removesuffix(".yaml"))
        assert sheet.name == entry.name.removesuffix(".yaml")
        for alias in (sheet.name, *sheet.aliases):
            folded = re.sub(r"[-_. ]", "", alias.casefold())
            assert taken.setdefault(folded, sheet.name) == sheet.name
            assert load(alias.upper().replace("-", "_")).sha256 == sheet.sha256
    assert taken


def test_quantities_are_in_base_units() -> None:
    device = load_device("h100_sxm5_80gb")
    assert device.memory == Quantity(80 * GIB, device.memory.dimension, device.memory.provenance)
    assert device.memory_bandwidth.value == 3_350_000_000_000
    assert device.allocator_reserve.value == 0.10
