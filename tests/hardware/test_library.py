"""Finding sheets: names, aliases, a user's folders, replacements, and what a wrong name or folder is told."""

from __future__ import annotations

import hashlib
import json
import os
from importlib.resources import files
from pathlib import Path

import pytest
from planproof.errors import DataError, InputError, UsageError
from planproof.hardware import device_names, load_device, load_node, node_names, open_library

DEVICE = (files("planproof.hardware.devices") / "H100.yaml").read_text(encoding="utf-8")
NODE = """\
kind: node
name: pair
vendor: Workshop
device: {device}
devices: 2
links:
  - {{name: bridge, kind: nvlink, topology: switch, island: 2, bandwidth: 300 GB/s, latency: 2 us}}
"""


def device_text(name: str, aliases: str = "[]") -> str:
    lines = DEVICE.splitlines(keepends=True)
    return "".join(
        f"name: {name}\n"
        if line.startswith("name:")
        else f"aliases: {aliases}\n"
        if line.startswith("aliases:")
        else line
        for line in lines
    )


def test_a_name_is_found_whatever_its_case_and_separators() -> None:
    assert {load_device(name).name for name in ("H100", "h100", "H100_SXM5", "h100 sxm 80gb")} == {"H100"}
    assert {load_node(name).name for name in ("p3.16xlarge", "P3-16XLARGE", "p3_16xlarge")} == {"p3.16xlarge"}


def test_a_sheet_carries_the_digest_of_its_file() -> None:
    sheet = load_device("H100")
    assert sheet.sha256 == hashlib.sha256(DEVICE.encode()).hexdigest()
    assert (sheet.origin.kind, sheet.origin.file) == ("shipped", "hardware/devices/H100.yaml")


@pytest.mark.parametrize(
    ("name", "load", "near"),
    [("H10", load_device, "H100"), ("dgx_h10", load_node, "dgx_h100"), ("A100-80", load_device, "A100-80GB")],
)
def test_an_unknown_name_is_told_the_nearest_and_all_known(name: str, load: object, near: str) -> None:
    with pytest.raises(InputError) as caught:
        load(name)
    assert f"did you mean '{near}'" in caught.value.message
    known = device_names() if load is load_device else node_names()
    assert all(entry in caught.value.message for entry in known)
    assert "--hardware" in (caught.value.remedy or "")
    assert caught.value.code == f"hardware.unknown_{'device' if load is load_device else 'node'}"


@pytest.mark.parametrize("name", ["", "../H100", "x" * 10_000, "__init__", "\n"])
def test_a_hostile_name_is_an_unknown_name_with_a_short_message(name: str) -> None:
    with pytest.raises(InputError) as caught:
        load_device(name)
    assert len(caught.value.message) < 1000


def test_a_users_sheets_add_devices_and_nodes_anywhere_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "x.yaml").write_text(device_text("Z1", "[Z1-SXM]"))
    (tmp_path / "pair.yml").write_text(NODE.format(device="z1_sxm"))
    (tmp_path / "readme.txt").write_text("not a sheet")
    node = load_node("PAIR", [tmp_path])
    assert (node.device.name, node.devices, node.links[0].bandwidth.value) == ("Z1", 2, 300_000_000_000)
    assert (node.origin.kind, node.device.origin.kind) == ("added", "added")
    assert "Z1" in device_names([tmp_path])
    assert "pair" in node_names([tmp_path])
    assert load_device("H100", [tmp_path]).origin.kind == "shipped"


def test_a_bare_quantity_of_a_user_is_assumed_and_knows_its_line(tmp_path: Path) -> None:
    path = tmp_path / "pair.yaml"
    path.write_text(NODE.format(device="H100"))
    bandwidth = load_node("pair", [tmp_path]).links[0].bandwidth
    assert (bandwidth.grade, bandwidth.provenance.line) == ("assumed", 7)
    assert bandwidth.provenance.file == path.as_posix()


def test_a_sheet_may_be_json(tmp_path: Path) -> None:
    sheet = {"kind": "node", "name": "single", "vendor": "x", "device": "L4", "devices": 1, "links": []}
    (tmp_path / "single.json").write_text(json.dumps(sheet))
    node = load_node("single", [tmp_path])
    assert (node.devices, node.links, node.island) == (1, (), 1)


@pytest.mark.parametrize("name", ["H100", "h-100", "H100-SXM"])
def test_a_users_sheet_replaces_the_shipped_one_and_says_so(tmp_path: Path, name: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(device_text(name).replace("3.35 TB/s", "3 TB/s"))
    sheet = load_device(name, [tmp_path])
    assert sheet.memory_bandwidth.value == 3_000_000_000_000
    assert (sheet.origin.kind, sheet.origin.file, sheet.origin.replaces) == ("replaces", path.as_posix(), "H100")
    assert sheet.origin.replaced_sha256 == load_device("H100").sha256
    assert (
        load_node("dgx_h100", [tmp_path]).device.sha256 == (sheet if name != "H100-SXM" else load_device("H100")).sha256
    )


def test_names_list_a_replaced_sheet_once(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(device_text("h-100"))
    names = device_names([tmp_path])
    assert "h-100" in names
    assert "H100" not in names
    assert len(names) == len(device_names())


def test_two_sheets_of_one_name_are_refused_with_both_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(device_text("Z1"))
    (tmp_path / "b.yaml").write_text(device_text("z_1"))
    with pytest.raises(DataError, match=r"a\.yaml") as caught:
        open_library([tmp_path])
    assert caught.value.place.file == (tmp_path / "b.yaml").as_posix()
    assert caught.value.place.line == 3


def test_a_folder_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a folder"):
        open_library([tmp_path / "absent"])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("a: 1\n", "no 'kind'"), ("kind: devise\nname: x\n", "did you mean 'device'"), ("kind: node\n", "no 'name'")],
)
def test_a_file_that_is_no_sheet_is_refused_not_skipped(tmp_path: Path, text: str, wanted: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(DataError) as caught:
        device_names([tmp_path])
    assert wanted in caught.value.message
    assert caught.value.place.file == (tmp_path / "x.yaml").as_posix()


def test_a_file_that_is_no_yaml_is_a_data_error_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("kind: device\nname: [\n")
    with pytest.raises(DataError) as caught:
        device_names([tmp_path])
    assert caught.value.place.line is not None


def test_a_pipe_among_the_sheets_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.yaml")
    with pytest.raises(DataError):
        device_names([tmp_path])


def test_a_node_of_an_unknown_device_is_told_at_its_key(tmp_path: Path) -> None:
    (tmp_path / "pair.yaml").write_text(NODE.format(device="H10"))
    with pytest.raises(DataError, match="did you mean 'H100'") as caught:
        load_node("pair", [tmp_path])
    assert (caught.value.place.line, caught.value.place.column) == (4, 9)


def test_the_sheets_of_the_page_load_as_they_stand(tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "hardware.md").read_text(encoding="utf-8")
    blocks = page.split("```yaml\n")[1:]
    for number, block in enumerate(blocks):
        (tmp_path / f"{number}.yaml").write_text(block.split("```")[0], encoding="utf-8")
    node = load_node("hgx_h900", [tmp_path])
    assert (node.devices, node.device.name, node.origin.kind) == (8, "H900", "added")
