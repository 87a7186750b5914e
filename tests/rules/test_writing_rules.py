"""From a policy to a tested rule: the page is run as it stands, and each mistake on the way is told with what would do."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from planproof.cli.main import root as command
from planproof.errors import PlanproofError
from planproof.inference import Phase

PAGE = Path(__file__).resolve().parents[2] / "docs" / "writing-rules.md"
PROPOSAL = Path(__file__).resolve().parents[2] / "examples" / "smallest" / "proposal.yaml"


def run(*arguments: str) -> str:
    """What a command prints, or the words of its error."""
    try:
        done = CliRunner().invoke(command, list(arguments), standalone_mode=False, catch_exceptions=False)
    except PlanproofError as error:
        return f"{error} {error.remedy}"
    return done.output


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty repository with one proposal, whose submitted plan has a tensor group of eight."""
    (tmp_path / ".git").mkdir()
    plan = "  - {name: submitted, role: submitted, uniform: {data: 4, tensor: 8}, zero: 1, microbatch: 1}\n"
    (tmp_path / "proposal.yaml").write_text(PROPOSAL.read_text() + plan)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_is_what_happens_command_by_command(here: Path) -> None:
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    ran = 0
    for kind, text in blocks:
        named = re.match(r"# (\S+\.(?:yaml|toml))\n", text)
        if kind in ("yaml", "toml") and named is not None:
            path = here / named[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if kind != "console":
            continue
        for part in re.split(r"^\$ planproof ", text, flags=re.MULTILINE)[1:]:
            line, *expected = part.strip().split("\n")
            out = run(*shlex.split(line))
            ran += 1
            for words in expected:
                known = [token for token in re.split(r"\(.*?\)", words) if token.strip()]
                assert all(token.strip() in out for token in known), f"planproof {line}\n{out}"
    assert ran == 10


@pytest.mark.parametrize("phase", [one.value for one in Phase])
def test_a_new_rule_of_each_phase_loads_and_fails_until_it_is_filled_in(phase: str, here: Path) -> None:
    out = run("rules", "new", "ACM001", phase, "Something is wrong", "--folder", "house")
    assert f"house/{phase}/something-is-wrong.yaml" in out
    tested = run("rules", "test", "house")
    assert "ACM001: fires[0]" in tested
    assert "1 rule, 1 example failed" in tested


def test_what_a_new_rule_may_not_be_is_told(here: Path) -> None:
    assert "Ids are never reused; MEM011 is free" in run("rules", "new", "MEM001", "memory", "Twice")
    assert "three capital letters" in run("rules", "new", "acm1", "memory", "Small")
    assert "did you mean 'memory'" in run("rules", "new", "ACM001", "memori", "Wrong phase")
    assert "72 characters" in run("rules", "new", "ACM001", "memory", "!")
    run("rules", "new", "ACM001", "memory", "First", "--folder", "house")
    assert "ACM002 is free" in run("rules", "new", "ACM001", "shape", "Second", "--folder", "house")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("kind: plan,", "kind: plann,"), ("no fact kind is called 'plann'", "did you mean 'plan'", "the kinds are")),
        (("tensor:", "tensr:"), ("has no field 'tensr'", "did you mean 'tensor'", "the fields of 'plan' are")),
        (("examples:", "example:"), ("has no key 'example'", "did you mean 'examples'")),
        (("  fires:\n", "  fired:\n"), ("'fired'", "fires")),
        (("{plan.tensor}", "{plan.degree}"), ("has no field 'degree'",)),
        (("phase: shape", "phase: shapes"), ("did you mean 'shape'", "intake")),
        (("severity: warning", "severity: error"), ("closes nothing", "closed")),
        (("source: [{report:", "source: [{rumour:"), ("'rumour'",)),
    ],
)
def test_a_mistake_is_told_with_its_place_and_what_there_is(change: tuple[str, str], words: tuple[str, ...], here: Path) -> None:
    run("rules", "new", "ACM001", "shape", "Tensor degree", "--folder", "house")
    path = here / "house" / "shape" / "tensor-degree.yaml"
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change))
    out = run("rules", "test", "house")
    assert re.search(r"tensor-degree\.yaml:[0-9]+:[0-9]+", out), out
    assert all(word in out for word in words), out


def test_a_rule_without_examples_is_told(here: Path) -> None:
    run("rules", "new", "ACM001", "shape", "Tensor degree", "--folder", "house")
    path = here / "house" / "shape" / "tensor-degree.yaml"
    path.write_text(path.read_text().partition("examples:")[0])
    out = run("rules", "test", "house")
    assert "lacks the key 'examples'" in out
    path.write_text(path.read_text() + "examples: {fires: [], silent: [{base: dense}]}\n")
    assert "fires is empty" in run("rules", "test", "house")


def test_explain_says_what_a_number_rests_on(here: Path) -> None:
    out = run("explain", "MAP003", "--file", "proposal.yaml")
    assert "does not fire" in out
    assert "of that kind there are" in out
    better = "bandwidth: {value: 900 Gbit/s, grade: vendor, source: the order}"
    text = (here / "proposal.yaml").read_text().replace("bandwidth: 400 Gbit/s", better)
    (here / "proposal.yaml").write_text(text)
    found = run("explain", "MAP006", "--file", "proposal.yaml")
    assert "fires 1 time" in found
    assert "vendor, the order" in found
    assert re.search(r"nic_bandwidth_bytes_per_s 113 GB/s|nic_bandwidth_bytes_per_s 112.5 GB/s", found)
    assert "proposal.yaml:9" in found
