"""Every command does what its help says, on a proposal small enough to read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from planproof.cli.main import COMMANDS, root

PROPOSAL = Path(__file__).parent.parent.parent / "examples" / "smallest" / "proposal.yaml"
REFUSED = PROPOSAL.with_name("refused.yaml")


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(root, list(arguments), standalone_mode=False, catch_exceptions=False)
    return (done.return_value if isinstance(done.return_value, int) else 0), done.output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    done = CliRunner().invoke(root, [command, "--help"])
    assert done.exit_code == 0
    assert len(done.output.splitlines()) > 5


def test_lint_says_the_headroom_first_and_ends_well() -> None:
    status, out = run("lint", str(PROPOSAL))
    assert status == 0
    assert "GiB left on the fullest rank" in out.splitlines()[0]


def test_lint_of_a_gap_points_at_where_it_would_stand() -> None:
    status, out = run("lint", str(REFUSED), "--format", "concise")
    assert status == 1
    (line,) = [row for row in out.splitlines() if "contention" in row.lower() and ": EVI" in row]
    path, number, column, _ = line.split(":", 3)
    assert path.endswith("refused.yaml")
    assert REFUSED.read_text().splitlines()[int(number) - 1][int(column) - 1 :].startswith("nodes") or int(number) > 1


def test_fail_on_moves_the_exit_status() -> None:
    assert run("lint", str(PROPOSAL), "--fail-on", "note")[0] == 1
    assert run("lint", str(REFUSED), "--fail-on", "never")[0] == 0


def test_facts_of_one_kind_are_those_of_that_kind() -> None:
    status, out = run("facts", str(PROPOSAL), "--kind", "batch", "--format", "json")
    assert status == 0
    (fact,) = json.loads(out)
    assert (fact["kind"], fact["derived"], fact["remainder_sequences"]) == ("batch", 8, 0)


def test_explain_shows_the_facts_that_a_rule_bound() -> None:
    listed = json.loads(run("rules", "list", "--format", "json", "--phase", "evidence")[1])
    contention = next(rule["id"] for rule in listed if rule["file"].endswith("evidence/contention.yaml"))
    status, out = run("explain", contention, "--file", str(REFUSED))
    assert status == 0
    assert "fires 1 time" in out
    assert "missing at" in out
    assert "does not fire" in run("explain", contention, "--file", str(PROPOSAL))[1]


def test_estimate_prices_a_plan_with_its_interval() -> None:
    status, out = run("estimate", str(PROPOSAL), "--plan", "reference")
    assert status == 0
    assert "reference" in out
    assert "GiB" in out
    assert run("estimate", str(REFUSED))[0] == 1


def test_schema_is_a_schema() -> None:
    assert json.loads(run("schema")[1])["$schema"].startswith("https://json-schema.org/")


def test_a_rule_of_the_readme_loads_and_passes_its_examples(tmp_path: Path) -> None:
    readme = (PROPOSAL.parent.parent.parent / "README.md").read_text()
    rule = readme[readme.index("id: HSE001") : readme.index("```", readme.index("id: HSE001"))]
    (tmp_path / "policy.yaml").write_text(rule)
    status, out = run("rules", "test", str(tmp_path))
    assert out == "1 rule, 0 examples failed\n"
    assert status == 0


def test_the_readme_shows_the_smallest_example_as_it_is() -> None:
    readme = (PROPOSAL.parent.parent.parent / "README.md").read_text()
    text = PROPOSAL.read_text()
    assert text in readme
    assert len(text.splitlines()) <= 15
    left_out = set(text.splitlines()) - set(REFUSED.read_text().splitlines())
    assert left_out == {"  contention: none"}
