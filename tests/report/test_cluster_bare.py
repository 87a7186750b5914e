"""`planproof cluster` of a measured file alone, of a node with a data sheet, and of a cluster in words."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from planproof.cli.main import root as command
from planproof.errors import PlanproofError
from planproof.report.cluster_bare import KINDS, recognised

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "llama3-70b-h100" / "proposal.yaml"
NVIDIA = """\
\tGPU0\tGPU1\tmlx5_0\tCPU Affinity
GPU0\t X \tNV4\tPIX\t0-7
GPU1\tNV4\t X \tSYS\t0-7
mlx5_0\tPIX\tSYS\t X
"""
ROCM = """\
======================= ROCm System Management Interface =======================
================================ Weight between two GPUs ================================
       GPU0         GPU1
GPU0   0            15
GPU1   15           0
================================= Hops between two GPUs =================================
       GPU0         GPU1
GPU0   0            1
GPU1   1            0
=============================== Link Type between two GPUs ===============================
       GPU0         GPU1
GPU0   0            XGMI
GPU1   XGMI         0
======================================= Numa Nodes =======================================
GPU[0]          : (Topology) Numa Node: 0
GPU[0]          : (Topology) Numa Affinity: 0
GPU[1]          : (Topology) Numa Node: 0
GPU[1]          : (Topology) Numa Affinity: 0
================================== End of ROCm SMI Log ===================================
"""
NCCL = """\
# nThread 1 nGpus 8 minBytes 1048576 maxBytes 2097152 step: 2(factor) warmup iters: 5 iters: 20 validation: 1 graph: 0
#
# Using devices
""" + "".join(f"#  Rank {k} Group  0 Pid  100 on  node1 device {k} [0x0{k}] NVIDIA A100\n" for k in range(8)) + """\
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    34.95   30.00   52.50      0    34.95   30.00   52.50      0
     2097152        524288     float     sum      -1    41.94   50.00   87.50      0    41.94   50.00   87.50      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 70
#
"""
TORCH = """\
The average bandwidth of all_reduce with a 4.0GB payload (5 trials, 8 ranks):
 algbw: 100.000 GBps (800.0 Gbps)
 busbw: 175.000 GBps (1400.0 Gbps)
"""


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(command, ["cluster", *arguments], standalone_mode=False, catch_exceptions=False)
    return (done.return_value if isinstance(done.return_value, int) else 0), done.output


@pytest.mark.parametrize(("kind", "text"), list(zip(KINDS, (NVIDIA, ROCM, NCCL, TORCH), strict=True)))
def test_a_measured_file_is_shown_for_what_it_is(kind: str, text: str, tmp_path: Path) -> None:
    assert recognised(text) == (kind,)
    path = tmp_path / "measured.txt"
    path.write_text(text)
    status, out = run(str(path))
    assert out.splitlines()[0].startswith(f"{path}: {kind}, read ")
    found = json.loads(run(str(path), "--format", "json")[1])
    assert found["kind"] == kind
    assert (status == 0) is found["complete"]
    for picture in ("mermaid", "svg"):
        assert run(str(path), "--format", picture)[1]


def test_islands_and_cards_of_a_printed_matrix(tmp_path: Path) -> None:
    (tmp_path / "topo.txt").write_text(NVIDIA)
    status, out = run(str(tmp_path / "topo.txt"))
    assert (status, "islands: 1, all 2 devices" in out, "read whole" in out) == (0, True, True)
    assert "flowchart TB" in run(str(tmp_path / "topo.txt"), "--format", "mermaid")[1]


def test_a_matrix_that_lacks_a_row_is_read_in_part_and_says_where(tmp_path: Path) -> None:
    (tmp_path / "topo.txt").write_text("\n".join(row for row in NVIDIA.splitlines() if not row.startswith("GPU1")))
    status, out = run(str(tmp_path / "topo.txt"))
    assert status == 1
    assert "read in part" in out
    assert "expected" in out


def test_a_log_shows_its_bus_bandwidth_and_line(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(NCCL)
    _, out = run(str(tmp_path / "log.txt"))
    assert re.search(r"over 8 devices on 1 node +87.5 GB/s +measured", out)


@pytest.mark.parametrize("text", ["", "hello\n", "\x00\x01\x02", "GPU0 GPU1\n"])
def test_a_foreign_file_is_refused_with_what_would_do(text: str, tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text(text)
    with pytest.raises(PlanproofError) as caught:
        run(str(path))
    assert caught.value.place.file == str(path)
    assert "nvidia-smi topo -m" in str(caught.value.remedy)


def test_a_node_with_a_data_sheet_by_its_name() -> None:
    status, out = run("dgx_a100")
    assert status == 0
    assert out.startswith("the command line: 8 devices on 1 node")
    assert "300 GB/s  vendor" in out


def test_a_cluster_in_words_and_what_it_leaves_out() -> None:
    status, out = run("4 nodes of dgx_a100, 8 x 200 Gbit/s NICs, rail-optimised, 2:1 over-subscribed")
    assert status == 1
    assert "32 devices on 4 nodes" in out
    assert "contention" in out.split("Not stated")[1]


def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(" \n")
    with pytest.raises(PlanproofError, match="The file is empty") as caught:
        run(str(tmp_path / "log.txt"))
    assert "nccl-tests" in str(caught.value.remedy)


def test_links_in_words_are_shown_though_nodes_and_their_number_are_not_known() -> None:
    """The words of the tool's own description: an island, cards, rails and over-subscription, and no machine."""
    status, out = run("8 x NVLink 4 island, 8 x 400 Gbit/s NICs, rail-optimised, 2:1 over-subscribed")
    assert status == 1
    assert re.search(r"^nvlink +nvlink +8 +450 GB/s +vendor", out, re.MULTILINE)
    assert re.search(r"^fabric +fabric +not stated +25 GB/s", out, re.MULTILINE)
    assert "who shares it is not stated" in out
    assert "links inside a node" not in out
    assert "cluster.nodes.count" in out.split("Not stated")[1]


def test_what_is_not_stated_is_not_called_unshared_and_an_assumption_stands_once() -> None:
    _, out = run("4 nodes of 8 H100, 8 x NVLink 4 island, 8 x 400 Gbit/s NICs")
    assert "32 devices on 4 nodes" in out
    assert "not shared with others" not in out
    assert out.count("cluster.intra_node.latency 1 us") == 1


def test_an_error_in_words_names_no_place_in_a_file() -> None:
    with pytest.raises(PlanproofError, match="second kind of node") as caught:
        run("2 nodes of dgx_h100, 4 nodes of dgx_a100, InfiniBand")
    assert (caught.value.place.file, caught.value.place.line) == ("the command line", None)


def test_cards_of_one_device_are_named_beside_it(tmp_path: Path) -> None:
    rows = ["\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity", "GPU0\tX\tNV4\tPIX\tSYS\t0-7", "GPU1\tNV4\tX\tSYS\tPXB\t8-15"]
    rows += ["NIC0\tPIX\tSYS\tX\tSYS", "NIC1\tSYS\tPXB\tSYS\tX"]
    (tmp_path / "topo.txt").write_text("\n".join(rows) + "\n")
    assert "nearest to one device alone: NIC0 GPU0, NIC1 GPU1" in run(str(tmp_path / "topo.txt"))[1]


def test_neither_a_file_nor_a_node(tmp_path: Path) -> None:
    with pytest.raises(PlanproofError, match="no such file, and no node of that name") as caught:
        run(str(tmp_path / "missing.txt"))
    assert "dgx_h100" in str(caught.value.remedy)
    with pytest.raises(PlanproofError, match="'8 x what', is not understood"):
        run("4 nodes, 8 x what")


def test_the_order_of_axes_that_sends_least_is_named_for_each_plan() -> None:
    _, out = run(str(EXAMPLE))
    (plan, *_) = json.loads(run(str(EXAMPLE), "--format", "json")[1])["plans"]
    assert "A device sends in a step: " in out
    assert re.search(r"Order of axes: tensor, .* as stated is fewest on slow tiers of \d+ orders\.", out)
    assert plan["least_order"]["compared"] >= 2
    assert list(plan["least_order"]["bytes_by_tier"].values()) <= list(plan["bytes_by_tier"].values())
