"""`planproof init`: the file, the list of what is missing, and nothing that was there before lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from planproof.cli.init import init
from planproof.errors import InputError, UsageError
from planproof.pipeline import Options, examine, session
from planproof.proposal import load_proposal

CONFIG = Path(__file__).parent.parent / "data" / "hf_config" / "llama3_8b.json"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(init, arguments, catch_exceptions=False)


def test_without_options_the_skeleton_goes_to_standard_output_and_the_gaps_to_standard_error() -> None:
    done = run()
    assert done.exit_code == 0
    assert done.stdout.startswith("# A proposal for planproof")
    assert "planproof: 1\n" in done.stdout
    assert "still to state (" in done.stderr
    assert "'proposal.objective'" in done.stderr


def test_a_skeleton_is_refused_for_its_gaps_and_for_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "proposal.yaml"
    run("-o", str(file))
    with session(Options(evaluators="reference")) as opened:
        examined = examine(load_proposal(file), opened)
    errors = [finding for finding in examined.findings if finding.severity.value == "error"]
    assert errors
    assert {fact.kind for finding in errors for _, fact in finding.bindings} <= {"missing", "cluster"}


def test_what_is_given_is_filled_in(tmp_path: Path) -> None:
    file = tmp_path / "proposal.yaml"
    options = ("--node", "DGX-H100", "--nodes", "4", "--global-batch", "2048", "--sequence-length", "8192")
    done = run("--model", str(CONFIG), *options, "-o", str(file))
    text = file.read_text(encoding="utf-8")
    assert "nodes: {count: 4, type: dgx_h100}" in text
    assert "global_batch: 2048 sequences" in text
    assert "sequence_length: 8192" in text
    assert "uniform: {data: 32}" in text
    assert "'workload.global_batch'" not in done.stderr
    assert "'workload.precision'" in done.stderr


def test_an_existing_file_is_replaced_only_by_force(tmp_path: Path) -> None:
    file = tmp_path / "proposal.yaml"
    file.write_text("mine")
    with pytest.raises(UsageError, match="exists already") as caught:
        run("-o", str(file))
    assert "--force" in str(caught.value)
    assert file.read_text() == "mine"
    run("-o", str(file), "--force")
    assert file.read_text().startswith("# A proposal")


def test_an_unknown_node_type_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"known are .*dgx_h100"):
        run("--node", "dgx_h1000", "-o", str(tmp_path / "p.yaml"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("batch", ["none", "0", "12 apples"])
def test_a_batch_that_is_none_names_the_option(batch: str) -> None:
    with pytest.raises(UsageError, match="--global-batch"):
        run("--global-batch", batch)


def test_help_says_that_a_bare_number_is_sequences() -> None:
    assert "a bare number is sequences" in " ".join(run("--help").stdout.split())
