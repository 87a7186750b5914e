"""`planproof cluster`: the text says whose word a rate is, the pictures stay within their formats, and bad files name a line."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner
from planproof.cli.main import root as command
from planproof.errors import PlanproofError

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "llama3-70b-h100" / "proposal.yaml"
TOPOLOGY = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tmlx5_0\tCPU Affinity
GPU0\t X \tNV1\tPHB\tSYS\tPIX\t0-7
GPU1\tNV1\t X \tPHB\tSYS\tPIX\t0-7
GPU2\tPHB\tPHB\t X \tSYS\tPHB\t0-7
GPU3\tSYS\tSYS\tSYS\t X \tSYS\t8-15
mlx5_0\tPIX\tPIX\tPHB\tSYS\t X
"""


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(command, ["cluster", *arguments], standalone_mode=False, catch_exceptions=False)
    return (done.return_value if isinstance(done.return_value, int) else 0), done.output


def written(folder: Path, cluster: str, **files: str) -> str:
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text)
    (folder / "proposal.yaml").write_text("planproof: 1\ncluster:\n" + "".join(f"  {row}\n" for row in cluster.splitlines()))
    return str(folder / "proposal.yaml")


def test_the_text_has_tiers_with_grades_and_the_place_of_each(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "description: 4 nodes of 8 x H100, 8 x NVLink 4 island, 4 x 400 Gbit/s NICs, rail-optimised, 2:1 over-subscribed\n"
        "contention: {shared_with: storage, share: 20 %}",
    )
    status, out = run(path)
    assert status == 0
    assert out.splitlines()[0].endswith("proposal.yaml: 32 devices on 4 nodes")
    (inner,) = re.findall(r"^nvlink .*$", out, re.MULTILINE)
    assert "450 GB/s  vendor" in inner
    assert "cluster/link_rates.csv" in inner
    (outer,) = re.findall(r"^fabric .*$", out, re.MULTILINE)
    assert "10 GB/s  assumed" in outer
    assert "NIC1: shared by GPU2, GPU3" in out
    assert "4 rails; 2:1 over-subscribed; 20 % taken by others" in out
    # Half of 4 nodes x 4 cards x 50 GB/s, halved by the switches, less a fifth.
    assert "bisection: 160 GB/s" in out


def test_json_has_the_same_in_base_units() -> None:
    status, out = run(str(EXAMPLE), "--format", "json")
    found = json.loads(out)
    assert status == 0
    assert (found["devices"], found["nodes"], found["connected"], found["complete"]) == (256, 32, True, True)
    assert found["machines"][0]["islands"] == [[f"GPU{k}" for k in range(8)]]
    assert found["tiers"][1]["bandwidth"] == {**found["tiers"][1]["bandwidth"], "value": 47.5e9, "grade": "vendor"}
    plan = next(plan for plan in found["plans"] if plan["name"] == "submitted")
    assert plan["meshes"][0]["ports"][-1] == {
        "tier": "compute fabric", "devices": 8, "bytes_per_s": 380e9, "groups": {"data": 8, "pipeline": 8},
    }  # fmt: skip


def test_an_incomplete_cluster_says_what_is_missing_and_ends_with_1(tmp_path: Path) -> None:
    status, out = run(written(tmp_path, "nodes: {count: 4, type: dgx_h100}"))
    assert status == 1
    assert "not complete" in out.splitlines()[0]
    assert "'cluster.fabric': a node type states the links inside a node" in out
    assert "No stated links join all machines." not in out
    for form in ("mermaid", "svg", "json"):
        assert run(written(tmp_path, "contention: none"), "--format", form)[0] == 1


def test_a_measured_matrix_is_drawn_and_its_gaps_are_listed(tmp_path: Path) -> None:
    cluster = "nodes: {count: 2, device: H100, devices: 4}\nintra_node: {file: topo.txt, kind: nvidia-topo}\ncontention: none"
    torn = TOPOLOGY.replace("GPU3\tSYS\tSYS\tSYS\t X \tSYS\t8-15\n", "").replace("PHB\tSYS\tPIX", "NODE\tSYS\tPIX", 1)
    status, out = run(written(tmp_path, cluster, topo=torn))
    assert status == 1
    assert "islands: 3 of 1 or 2" in out
    assert re.search(r"line \d+: GPU0-GPU2 is 'NODE' on line 2, 'PHB' on line 4", out)
    assert "have no row: GPU3" in out
    drawn = run(written(tmp_path, cluster, topo=TOPOLOGY), "--format", "mermaid")[1]
    assert 'm0_gpu0 ---|"NV1, rate not stated"| m0_gpu1' in drawn
    assert "PCIe switch 0" in drawn


HOSTILE = 'a"]; click m0 href <b>&`#\\ \n```\n%%{init}%% | end'


def test_mermaid_is_fenced_quoted_and_escaped(tmp_path: Path) -> None:
    name = json.dumps(HOSTILE)
    cluster = f"nodes: {{name: {name}, count: 2, type: dgx_h100}}\nfabric: {{name: {name}, bandwidth: 50 GB/s}}\ncontention: none"
    status, out = run(written(tmp_path, cluster), "--format", "mermaid")
    assert status == 0
    lines = out.splitlines()
    assert (lines[0], lines[1], lines[-1]) == ("```mermaid", "flowchart TB", "```")
    assert not any(line.startswith("```") for line in lines[1:-1])
    labels = re.findall(r'"([^"]*)"', out)
    assert any("#quot;" in label and "#lt;b#gt;" in label for label in labels)
    assert re.sub(r'"[^"]*"', "", out).count('"') == 0
    outside = re.sub(r'"[^"]*"', '""', "\n".join(lines[1:-1]))
    assert "<" not in outside
    assert "click" not in outside


@pytest.mark.parametrize("devices", [8, 72, 512])
def test_a_picture_stays_within_the_limits_of_what_draws_it(tmp_path: Path, devices: int) -> None:
    cluster = (
        f"description: 64 nodes of {devices} x H100, {devices} x NVLink 5 island, {devices} x 400 Gbit/s NICs, rail-optimised\n"
        "contention: none"
    )
    out = run(written(tmp_path, cluster), "--format", "mermaid")[1]
    assert out.count("---|") <= 500
    assert len(out) <= 50_000
    assert f"{devices} x H100" in out
    picture = run(written(tmp_path, cluster), "--format", "svg")[1]
    tree = ET.fromstring(picture)
    box = [float(value) for value in (tree.get("viewBox") or "").split()]
    for rect in tree.iter("{http://www.w3.org/2000/svg}rect"):
        x, y = float(rect.get("x", 0)), float(rect.get("y", 0))
        assert 0 <= x <= x + float(rect.get("width", 0)) <= box[2]
        assert 0 <= y <= y + float(rect.get("height", 0)) <= box[3]
    if devices > 32:
        assert f"and {devices - 32} devices more like these" in picture


def test_svg_is_well_formed_self_contained_and_readable_on_both_grounds(tmp_path: Path) -> None:
    name = json.dumps(HOSTILE)
    cluster = f"nodes: {{name: {name}, count: 2, type: dgx1_v100}}\nfabric: {{name: {name}, bandwidth: 5 GB/s}}\ncontention: none"
    out = run(written(tmp_path, cluster), "--format", "svg")[1]
    tree = ET.fromstring(out)
    assert tree.get("role") == "img"
    assert tree.find("{http://www.w3.org/2000/svg}title") is not None
    assert "prefers-color-scheme: dark" in out
    assert {one.tag.rpartition("}")[2] for one in tree.iter()} <= {"svg", "title", "style", "rect", "text", "path"}
    assert not re.search(r"(?:href|src|url\()", re.sub(r">[^<]*<", "><", out))
    light, dark = out.split("@media", 1)
    classes = set(re.findall(r"\.([a-z]+) \{[^}]*(?:fill|stroke): #", light))
    assert classes <= set(re.findall(r"\.([a-z]+) \{", dark)) | {"head", "name"}
    used = {word for one in tree.iter() for word in (one.get("class") or "").split()}
    assert {"device", "island", "link", "text"} <= used


def test_the_output_goes_to_a_file_whole(tmp_path: Path) -> None:
    target = tmp_path / "cluster.svg"
    assert run(str(EXAMPLE), "--format", "svg", "-o", str(target)) == (0, "")
    assert ET.fromstring(target.read_text()).tag.endswith("svg")


@pytest.mark.parametrize(
    ("topology", "line", "expected"),
    [
        ("hello\nworld\n", None, "nvidia-smi topo -m"),
        ("\tGPU0\tGPU0\tCPU Affinity\nGPU0\t X \tNV1\t0\n", 1, "each device once"),
        ("\tGPU0GPU1\tCPU Affinity\nGPU0\t X \t0\n", 1, "apart from each other"),
        (TOPOLOGY + "\n" + TOPOLOGY, 8, "one"),
    ],
)
def test_a_file_that_is_no_topology_is_refused_with_its_line(
    tmp_path: Path, topology: str, line: int | None, expected: str
) -> None:
    cluster = "nodes: {count: 1, device: H100, devices: 4}\nintra_node: {file: topo.txt, kind: nvidia-topo}"
    with pytest.raises(PlanproofError) as caught:
        run(written(tmp_path, cluster, topo=topology))
    assert expected in str(caught.value)
    assert (caught.value.place.file or "").endswith("topo.txt")
    if line is not None:
        assert caught.value.place.line == line


def test_an_empty_file_is_refused_where_it_is_named(tmp_path: Path) -> None:
    cluster = "nodes: {count: 1, device: H100, devices: 4}\nintra_node: {file: topo.txt, kind: nvidia-topo}"
    with pytest.raises(PlanproofError, match=r"'topo.txt' is empty") as caught:
        run(written(tmp_path, cluster, topo=""))
    assert caught.value.place.line == 4


def test_a_plan_larger_than_the_cluster_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, "nodes: {count: 1, type: dgx_h100}\ncontention: none")
    text = Path(path).read_text()
    text += (
        "model: {transformer: {layers: 8, hidden: 1024, heads: 8, ffn: 4096, vocabulary: 50000}}\n"
        "workload: {sequence_length: 1024, global_batch: 64 sequences}\n"
        "plans: [{name: big, role: reference, uniform: {data: 16}, microbatch: 1}]\n"
    )
    Path(path).write_text(text)
    assert "spans 16 devices, the cluster has 8" in run(path)[1]
